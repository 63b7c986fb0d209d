//! How it is known which request waits for which: the trace names it, or it is inferred.

use std::fmt;
use std::path::Path;

use ioecho_replay::graph::infer::Rules;
use ioecho_replay::graph::survey::{Survey, Surveyed};
use ioecho_trace::header::NoteKind;
use ioecho_trace::transform::Load;
use ioecho_trace::units::counted;
use ioecho_trace::{Batch, Header, Nanos, Source, TraceError};

use crate::error::{Kind, Result, RunError};

/// Where the parents of a replay's requests come from.
#[derive(Clone, Debug)]
pub enum Chains {
    /// The trace names them.
    Named {
        /// How many tasks that made its requests were there at a time; 0 where the trace does not
        /// tell, or was not read.
        tasks: u32,
    },
    /// They are inferred while the trace is read.
    Inferred {
        /// The rules, which a first pass over the trace has found.
        rules: Rules,
        /// When the gaps of the recording ended, in order.
        gaps: Vec<Nanos>,
        /// Whether the completions are those of a replay.
        is_estimated: bool,
    },
}

impl fmt::Display for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { .. } => f.write_str("as the trace names them"),
            Self::Inferred { rules, is_estimated, .. } => {
                let pairs = counted(rules.processes.pairs().len() as u64, "pair");
                let of = if rules.processes.are_known() {
                    format!("by process, {pairs} of which hand work to each other")
                } else {
                    "by time alone".to_owned()
                };
                write!(
                    f,
                    "inferred {of}, with a threshold of {} among {} requests{}",
                    rules.threshold,
                    rules.window_rows,
                    if *is_estimated { "; completions are those of a replay" } else { "" }
                )
            }
        }
    }
}

/// Whether the completions of this trace are those of a replay, because the recording had none.
pub fn are_estimated(header: &Header) -> bool {
    header.columns.measured && !header.columns.latency
}

/// Notes that the completions of so many requests are those of a replay.
pub fn note_estimated(header: &mut Header, requests: u64) {
    let what = "requests whose completions are those of a replay, because none were recorded";
    header.guesses.add(NoteKind::Latency.of(what), requests, None);
}

/// A first pass over a trace: the threshold for think times, and who hands work to whom.
///
/// # Errors
/// Those of the trace.
pub fn survey(source: &mut dyn Source) -> std::result::Result<Surveyed, TraceError> {
    let columns = source.header().columns;
    let mut batch = Batch::new(columns);
    let mut survey = Survey::new(columns.origin);
    while source.next_batch(&mut batch)? {
        batch.iter().for_each(|request| survey.push(&request));
    }
    Ok(survey.finish())
}

/// When the gaps of the recording ended, in order. In a trace that was transformed this is unknown.
pub fn gaps_of(header: &Header, load: &Load) -> Vec<Nanos> {
    let recording = header.recording.as_ref().filter(|_| load.is_whole());
    let mut ends: Vec<_> = recording
        .into_iter()
        .flat_map(|recording| recording.gaps.iter().map(|gap| Nanos(gap.to_ns)))
        .collect();
    ends.sort_unstable();
    ends
}

/// Refuses a trace that does not say when requests completed.
///
/// # Errors
/// [`Kind::Trace`].
pub fn refuse_without_completions(path: &Path, header: &Header) -> Result<()> {
    if header.columns.latency || header.columns.measured {
        return Ok(());
    }
    let text = format!(
        "{}: it does not say when requests completed, so nobody can tell who waited for whom\n  = \
         help: record it with completions (ioecho record, blktrace), or replay it on a device \
         like that of the recording (or a simulated one) and take the run's directory in its \
         place",
        path.display()
    );
    Err(RunError::new(Kind::Trace, text))
}
