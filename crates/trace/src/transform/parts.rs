//! One trace that becomes several.
//!
//! A recording of a whole host is replayed volume by volume, a day is dealt into loads for parallel
//! replay. The trace is divided in one pass: every batch belongs to one part, and each part has its
//! own output.

use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::{Sink, Source, Written};
use crate::wording::Wording;

use super::Context;

/// The largest number of parts: each has an open file, and processes are usually limited to 1,024
/// of them.
pub const PARTS_MAX: usize = 1000;

/// Divides a trace.
pub trait Divide {
    /// Begins to divide `source`.
    fn divide(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Parts>, TraceError>;
}

/// A trace that is being divided.
pub trait Parts: Send {
    /// Empties `batch` and fills it with the next requests of one part; answers the part's number,
    /// counted from 0 in the order in which parts begin. `None` at the end.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<Option<usize>, TraceError>;

    /// The name of a part: a piece of a file's name, unlike all others.
    fn name(&self, part: usize) -> String;

    /// The header of a part.
    fn header(&self, part: usize) -> Header;
}

/// Begins the sink of a part by its name and header.
pub type Create<'a> = dyn FnMut(&str, &Header) -> Result<Box<dyn Sink>, TraceError> + 'a;

/// Moves every part into a sink of its own, which `create` begins by the part's name and header.
/// Answers the names and the results. No file appears if one of the sinks fails.
pub fn copy(
    parts: &mut dyn Parts,
    create: &mut Create<'_>,
) -> Result<Vec<(String, Written)>, TraceError> {
    let mut batch = Batch::default();
    let mut sinks: Vec<(String, Box<dyn Sink>)> = Vec::new();
    while let Some(part) = parts.next_batch(&mut batch)? {
        while sinks.len() <= part {
            let (name, header) = (parts.name(sinks.len()), parts.header(sinks.len()));
            let sink = create(&name, &header)?;
            sinks.push((name, sink));
        }
        // Facts that the source has learned since: names of processes, the start of the trace.
        sinks[part].1.learn(&parts.header(part));
        sinks[part].1.write(&batch)?;
    }
    let finish = |(part, (name, sink)): (usize, (String, Box<dyn Sink>))| {
        Ok((name, sink.finish(&parts.header(part))?))
    };
    sinks.into_iter().enumerate().map(finish).collect()
}

/// The error for a transform that makes several traces in a place for one trace.
pub(super) fn refuse(header: &Header, remedy: Wording) -> TraceError {
    TraceError::Asked {
        path: header.source.clone().into(),
        reason: "this would become several traces, and one is wanted here".into(),
        remedy,
    }
}
