//! `ioecho replay`: a trace on a target, with a verdict.

use std::io::Write;
use std::sync::Arc;

use ioecho_linux::record::RecordError;
use ioecho_report::Page;
use ioecho_run::error::RunError;
use ioecho_run::execute::{Finished, execute};
use ioecho_run::forecast::forecast;
use ioecho_run::observer::Observer;
use ioecho_run::plan::ReplayPlan;
use ioecho_run::{page, witness};

use crate::args::ReplayArgs;
use crate::commands::outcome::{print_outcome, tell_required};
use crate::exit;
use crate::opened::{Named, tell_import};
use crate::print::{Out, tell};
use crate::run::command;
use crate::run::live::LivePlan;
use crate::run::screen::Screen;
use crate::run::signals::stop_on_signals;

pub(crate) fn run(args: &ReplayArgs, out: &mut Out) -> anyhow::Result<u8> {
    let (plan, mut source) = ReplayPlan::new(args.spec()?, command::words(), &Named)?;
    let live = LivePlan::new(&args.live, &plan)?;
    if args.safety.dry_run {
        writeln!(out, "{plan}\n{}", forecast(&plan, source.as_mut())?)?;
        for line in witness::planned(&plan).map_err(advised)? {
            writeln!(out, "{line}")?;
        }
        plan.guard()?.iter().for_each(|warning| tell(warning));
        return Ok(tell_import(source.header()));
    }
    let takes_stdout = live.takes_stdout();
    let stopping = stop_on_signals()?;
    let screen = Arc::new(Screen::new(live, args.quiet, &stopping));
    let observer: Arc<dyn Observer> = screen.clone();
    let finished = execute(&plan, source, &stopping, &observer).map_err(advised)?;
    // The outcome stands on standard error where lines for programs take the standard output.
    if takes_stdout {
        out.make_way();
    }
    let page = conclude(&finished, out, args.verbose)?;
    let unmet = tell_required(out, &plan.spec.require, &finished.summary)?;
    // Last: whoever reads slowly holds up nothing that matters.
    screen.finish(page);
    Ok(match exit::of_run(&finished.summary) {
        exit::OK if unmet => exit::REQUIRED,
        code => code,
    })
}

/// Behind the advice of a recorder that cannot be the witness, what is typed to follow it.
fn advised(error: RunError) -> RunError {
    match error.cause::<RecordError>().and_then(RecordError::instead) {
        Some(interface) => {
            let text = format!("{error:#} (--witness={})", interface.name());
            RunError::new(error.kind(), text)
        }
        None => error,
    }
}

/// Draws the report, prints the outcome, and answers what was drawn. A report that cannot be made
/// or written (a full disk) is no reason to hide the outcome.
pub(crate) fn conclude(
    finished: &Finished,
    out: &mut Out,
    verbose: bool,
) -> std::io::Result<Option<Page>> {
    let Finished { run, summary, .. } = finished;
    out.tells_of_files();
    let page = page::of_run(run, summary);
    let report = page.as_ref().map(|page| page::write(run, page));
    print_outcome(out, summary, page.as_ref().ok().map(|page| &page.picture), verbose)?;
    match report {
        Ok(Ok(())) => writeln!(out, "report        {}", run.report().display())?,
        Ok(Err(error)) => tell(&format!("warning: {error}")),
        Err(error) => tell(&format!("warning: there is no report: {error:#}")),
    }
    Ok(page.ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_witness_names_the_flag_that_is_typed() {
        let remedy = "end that".to_owned();
        let traced = RecordError::Traced { device: "sda".to_owned(), by: String::new(), remedy };
        let error = advised(RunError::from(traced).within("nothing was replayed"));
        let text = format!("{error:#}");
        assert!(text.starts_with("nothing was replayed: "), "{text}");
        assert!(text.ends_with("(--witness=tracefs)") && !text.contains("--interface"), "{text}");
    }
}
