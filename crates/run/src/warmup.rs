//! The figures of a run without its warm-up.
//!
//! A run that is asked to warm up records everything, and its verdict is about all of it. Its
//! figures are those of the requests that were due from then on.

use ioecho_stats::run_summary::{RunFigures, RunSummary};
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Nanos, Request, Stop};

use crate::directory::RunDirectory;
use crate::error::Result;
use crate::open::{self, Files};

/// The summary of a run with the figures of its requests that were due at `from` or later. Rates
/// are over the time from then on.
///
/// # Errors
///
/// If the run cannot be read.
pub fn summary_from(run: &RunDirectory, from: Nanos) -> Result<RunSummary> {
    let whole = run.read_summary()?;
    let (stop, options) = (Stop::default(), ReadOptions::default());
    let mut source = open::trace_until(&Files, &stop, run.path(), &options, &Load::default())?;
    let mut figures = RunFigures::default();
    let mut batch = Batch::new(source.header().columns);
    let mut measured: Vec<Request> = Vec::new();
    while source.next_batch(&mut batch)? {
        measured.clear();
        let is_measured =
            |request: &Request| request.measured.as_ref().is_some_and(|it| it.scheduled >= from);
        measured.extend(batch.iter().filter(is_measured));
        figures.observe_all(&measured);
    }
    let mut summary = figures.summary(whole.engine.clone());
    summary.achieved_duration_ns = summary.achieved_duration_ns.saturating_sub(from.0).max(0);
    Ok(RunSummary { verdict: whole.verdict, drain_percent: whole.drain_percent, ..summary })
}
