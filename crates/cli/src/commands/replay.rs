//! `ioecho replay`: replays a trace on a target and judges the run.

mod runs;

use std::io::Write;
use std::sync::Arc;

use ioecho_linux::record::RecordError;
use ioecho_linux::{Use, inherited};
use ioecho_report::Page;
use ioecho_run::error::RunError;
use ioecho_run::execute::{Finished, execute};
use ioecho_run::forecast::forecast;
use ioecho_run::gate::Gate;
use ioecho_run::observer::{Observer, Stopping};
use ioecho_run::plan::ReplayPlan;
use ioecho_run::predict::unseen_in_results;
use ioecho_run::spec::ReplaySpec;
use ioecho_run::{page, witness};
use ioecho_stats::picture::Span;
use ioecho_stats::verdict::Validity;
use ioecho_trace::Source;

use crate::args::{Descriptors, ReplayArgs};
use crate::commands::outcome::{print_outcome, tell_required};
use crate::exit::{self, Coded};
use crate::opened::{Named, tell_import};
use crate::print::{Out, tell};
use crate::run::command;
use crate::run::live::LivePlan;
use crate::run::screen::Screen;
use crate::run::signals::stop_on_signals;

pub(crate) fn run(args: &ReplayArgs, out: &mut Out) -> anyhow::Result<u8> {
    if let Some(count) = args.runs.filter(|_| !args.safety.dry_run) {
        return runs::run(args, count, out);
    }
    let gate = args.timing.gate.map(gate).transpose()?;
    let ready = Ready::new(args, args.spec()?)?;
    if args.safety.dry_run {
        return ready.foretell(out);
    }
    Ok(ready.carry_out(args, gate, &stop_on_signals()?, out)?.code)
}

/// A replay that is planned, and what will show it.
struct Ready {
    plan: ReplayPlan,
    source: Box<dyn Source>,
    live: LivePlan,
}

/// What is left of a replay when its threads have ended.
struct Ended {
    /// The exit code that it asks for.
    code: u8,
    is_valid: bool,
    /// Requests per second that completed.
    iops: Option<f64>,
    /// The 99th percentile of all requests, if there were enough, and of which span.
    p99_ns: Option<u64>,
    span: Span,
}

impl Ready {
    fn new(args: &ReplayArgs, spec: ReplaySpec) -> anyhow::Result<Self> {
        let (plan, source) = ReplayPlan::new(spec, command::words(), &Named)?;
        let live = LivePlan::new(&args.live, &plan)?;
        Ok(Self { plan, source, live })
    }

    /// Says what would be done.
    fn foretell(self, out: &mut Out) -> anyhow::Result<u8> {
        let Self { plan, mut source, .. } = self;
        writeln!(out, "{plan}\n{}", forecast(&plan, source.as_mut())?)?;
        for line in witness::planned(&plan).map_err(advised)? {
            writeln!(out, "{line}")?;
        }
        plan.guard()?.iter().for_each(|warning| tell(warning));
        Ok(tell_import(source.header()))
    }

    /// Replays, and prints the outcome. The run begins at the gate, if there is one.
    fn carry_out(
        self,
        args: &ReplayArgs,
        gate: Option<Gate>,
        stopping: &Stopping,
        out: &mut Out,
    ) -> anyhow::Result<Ended> {
        let Self { plan, source, live } = self;
        let takes_stdout = live.takes_stdout();
        let screen = Arc::new(Screen::new(live, args.quiet, stopping).at_gate(gate));
        let observer: Arc<dyn Observer> = screen.clone();
        let finished = execute(&plan, source, stopping, &observer).map_err(advised)?;
        for unseen in unseen_in_results(&plan, &finished.summary) {
            tell(&format!("warning: {unseen}"));
        }
        // If lines for programs go to the standard output, the outcome goes to the standard error.
        if takes_stdout {
            out.make_way();
        }
        let page = conclude(&finished, out, args.verbose)?;
        let summary = &finished.summary;
        let unmet = tell_required(out, &plan.spec.require, summary)?;
        let headline = page.as_ref().and_then(|page| page.headline.as_ref());
        let throughput = headline.and_then(|headline| headline.throughput);
        let span = headline.map_or(Span::Service, |headline| headline.span);
        let by_kind =
            if span == Span::Response { &summary.response_time } else { &summary.service_time };
        let ended = Ended {
            code: match exit::of_run(summary) {
                exit::OK if unmet => exit::REQUIRED,
                code => code,
            },
            is_valid: summary.verdict.validity != Validity::Invalid,
            iops: throughput.map(|throughput| throughput.achieved_requests),
            p99_ns: by_kind.get("all").and_then(|all| all.p99_ns),
            span,
        };
        // This comes last, so that a slow reader of the output delays nothing else.
        screen.finish(page);
        Ok(ended)
    }
}

/// The gate at these descriptors, which this process has inherited.
fn gate(descriptors: Descriptors) -> anyhow::Result<Gate> {
    let Descriptors { from, to } = descriptors;
    let open = |number: i32, access: Use, verb: &str| {
        inherited(number, access).map_err(|error| {
            let text = format!(
                "the gate's descriptor {number} cannot be {verb}: {error}\n  = help: start this \
                 program with it open, as docs/replay.md describes"
            );
            Coded::error(exit::USAGE, text)
        })
    };
    Ok(Gate::new(open(from, Use::Reading, "read")?, open(to, Use::Writing, "written to")?))
}

/// The flag that follows the advice of a recorder which cannot be the witness.
fn advised(error: RunError) -> RunError {
    match error.cause::<RecordError>().and_then(RecordError::instead) {
        Some(interface) => {
            let text = format!("{error:#} (--witness={})", interface.name());
            RunError::new(error.kind(), text)
        }
        None => error,
    }
}

/// Draws the report, prints the outcome, and returns the page. If the report cannot be made or
/// written (on a full disk), the outcome is printed all the same.
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
