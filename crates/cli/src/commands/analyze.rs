//! `ioecho analyze`: the demands of a load, and the results of a run.

mod files;
pub(crate) mod part;
mod text;

use ioecho_run::directory;
use ioecho_run::inputs::Inputs;
use ioecho_run::pass::{self, Input};
use ioecho_stats::analysis::sketches::Sketches;
use ioecho_stats::analysis::{Analysis, AnalysisFigures};
use ioecho_stats::verdict::Verdict;
use ioecho_trace::Header;
use serde::Serialize;

use self::part::Counted;
use crate::args::AnalyzeArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit::{self, Coded};
use crate::opened::{Named, tell_damage};
use crate::outputs::{Gate, Writing};
use crate::print::Out;

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> anyhow::Result<u8> {
    let gate = Gate::reading(Inputs::of_load(&args.file, &args.load.asked()));
    for path in args.output.iter().chain(&args.page_sample_output) {
        gate.check(path, Writing::Replacing)?;
    }
    let counted = match part::read(&args.file)? {
        Some(whole) => {
            refuse_choices(args)?;
            whole
        }
        None => count(args)?,
    };
    if let (Some(path), Some(holds)) = (&args.output, args.partial) {
        part::write(&gate, path, &counted, holds)?;
        let sketches = counted.analysis.space().sketches();
        if let (Some(path), Some(drawn)) =
            (&args.page_sample_output, sketches.and_then(Sketches::drawn))
        {
            part::drawn::write(&gate, path, &counted.trace, drawn)?;
        }
        tell_damage(&counted.header);
    } else {
        let Counted { analysis, header, .. } = &counted;
        let mut figures = analysis.figures(header, &args.asked());
        let run = directory::facts_of(&args.file)?;
        if run.as_ref().is_some_and(|run| !run.timing().has_due_instants()) {
            figures.forget_schedule();
        }
        if args.json {
            let verdict = run.as_ref().and_then(|run| run.verdict.as_ref());
            out.json_line(&Printed { figures: &figures, verdict, trace: header })?;
        } else {
            text::print(out, &args.file, &figures, header, run.as_ref())?;
        }
    }
    Ok(if counted.header.damage.is_some() { exit::DAMAGED } else { exit::OK })
}

/// The name of the trace: one and the same trace has it wherever its parts lie.
fn name(args: &AnalyzeArgs) -> String {
    let of_file = || {
        let name = args.file.file_name().unwrap_or(args.file.as_os_str());
        name.to_string_lossy().into_owned()
    };
    args.trace.clone().unwrap_or_else(of_file)
}

/// Refuses windows or a part of the trace for a table of counts: they were chosen when it was
/// counted.
fn refuse_choices(args: &AnalyzeArgs) -> anyhow::Result<()> {
    let is_asked = args.trace.is_some() || args.page_sample.is_some();
    if args.windows.is_empty() && args.load.asked().is_whole() && !is_asked {
        return Ok(());
    }
    let text = format!(
        "{} is an analysis: its windows, its part of the trace, its name and its sample are \
         chosen\n  = help: choose them where `ioecho analyze --partial` reads the trace",
        args.file.display()
    );
    Err(Coded::error(exit::USAGE, text))
}

fn count(args: &AnalyzeArgs) -> anyhow::Result<Counted> {
    let input = Input {
        opener: &Named,
        path: &args.file,
        options: &args.read.options(),
        load: &args.load.asked(),
        threads: args.threads.map_or_else(pass::threads, usize::from),
        stop: &stop_on_signals()?,
        origin: None,
    };
    let (settings, trace) = (args.settings(), name(args));
    let new = || {
        let empty = Analysis::new(settings.clone());
        if args.partial.is_none() {
            return empty;
        }
        empty.with_sketches(Sketches::new(&trace, args.page_sample))
    };
    let (analysis, header) = pass::count(&input, new)?;
    Ok(Counted { trace, analysis, header })
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
