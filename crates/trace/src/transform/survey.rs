//! A transform that must have seen the whole trace before it changes the first request.
//!
//! The rate to which a trace must be stretched, or the end of its volumes, follows from the whole
//! trace. So the trace is read once, looked at, and held in a temporary file from which it then
//! streams.

use super::Context;
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::order::spill::Spill;
use crate::stream::Source;

/// A trace that has been read and is given once more.
pub(crate) struct Held {
    header: Header,
    spill: Spill,
    next: u64,
}

/// Reads all of `source`; `look` sees every batch.
pub(crate) fn survey(
    mut source: Box<dyn Source>,
    context: &Context<'_>,
    mut look: impl FnMut(&Batch),
) -> Result<Held, TraceError> {
    let mut spill = Spill::new(&context.spill_directory, source.header().columns)?;
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        look(&batch);
        spill.push(&batch)?;
    }
    Ok(Held { header: source.header().clone(), spill, next: 0 })
}

impl Source for Held {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let rows = self.spill.read(self.next, u64::MAX, batch)?;
        self.next += rows;
        Ok(rows > 0)
    }
}
