//! `ioecho analyze`: the demands of a load, and the results of a run.

pub(crate) mod part;
mod text;

use ioecho_run::directory;
use ioecho_run::inputs::Inputs;
use ioecho_run::pass::{self, Input};
use ioecho_stats::analysis::{Analysis, AnalysisFigures};
use ioecho_stats::verdict::Verdict;
use ioecho_trace::Header;
use serde::Serialize;

use crate::args::AnalyzeArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{Named, tell_damage};
use crate::outputs::{Gate, Writing};
use crate::print::Out;

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> anyhow::Result<u8> {
    let gate = Gate::reading(Inputs::of_load(&args.file, &args.load.asked()));
    if let Some(path) = &args.output {
        gate.check(path, Writing::Replacing)?;
    }
    let (analysis, header) = match part::read(&args.file)? {
        Some(whole) => {
            refuse_choices(args)?;
            whole
        }
        None => count(args)?,
    };
    if let Some(path) = &args.output {
        part::write(&gate, path, &analysis, &header)?;
        tell_damage(&header);
    } else {
        let mut figures = analysis.figures(&header, &args.asked());
        let run = directory::facts_of(&args.file)?;
        if run.as_ref().is_some_and(|run| !run.timing().has_due_instants()) {
            figures.forget_schedule();
        }
        if args.json {
            let verdict = run.as_ref().and_then(|run| run.verdict.as_ref());
            out.json_line(&Printed { figures: &figures, verdict, trace: &header })?;
        } else {
            text::print(out, &args.file, &figures, &header, run.as_ref())?;
        }
    }
    Ok(if header.damage.is_some() { exit::DAMAGED } else { exit::OK })
}

/// Refuses windows or a part of the trace for a table of counts: they were chosen when it was
/// counted.
fn refuse_choices(args: &AnalyzeArgs) -> anyhow::Result<()> {
    if args.windows.is_empty() && args.load.asked().is_whole() {
        return Ok(());
    }
    let text = format!(
        "{} is an analysis: its windows and its part of the trace are chosen\n  = help: choose \
         them where `ioecho analyze --partial` reads the trace",
        args.file.display()
    );
    Err(Coded::error(exit::USAGE, text))
}

fn count(args: &AnalyzeArgs) -> anyhow::Result<(Analysis, Header)> {
    let input = Input {
        opener: &Named,
        path: &args.file,
        options: &args.read.options(),
        load: &args.load.asked(),
        threads: args.threads.map_or_else(pass::threads, usize::from),
        stop: &stop_on_signals()?,
        origin: None,
    };
    let settings = args.settings();
    Ok(pass::count(&input, || Analysis::new(settings.clone()))?)
}

/// The whole output. The keys are stable. An unknown value is `null`, empty or missing.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    figures: &'a AnalysisFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'a Verdict>,
    trace: &'a Header,
}
