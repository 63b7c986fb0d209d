//! A transform that changes one batch after the other.
//!
//! Every transform must also keep the header up to date, skip empty batches and pass on held-back
//! requests at the end. This is done here, once.

use super::reverse::note_forgotten;
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;

/// Whether a step wants more batches of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The step wants more.
    More,
    /// All further requests can be ignored.
    End,
}

/// The change that a transform makes to a batch.
pub trait Step: Send {
    /// The line of provenance: the name of the kind and its arguments, as they are typed. Values
    /// that were decided on the way, such as a seed, are part of it.
    fn told(&self) -> String;

    /// Changes the header: volumes, the start. Called with a fresh copy of the source's header at
    /// the beginning, when further volumes or the start came up, and at the end. Optional columns
    /// may be removed, the same ones each time: they are then removed from every batch before it is
    /// changed.
    fn describe(&self, header: &mut Header) {
        let _ = header;
    }

    /// Changes `batch` in place; it may become empty. Instants must not step back, neither within
    /// the batch nor from one batch to the next.
    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError>;

    /// Puts requests that were held back into `batch`, which is empty, when the source has ended.
    /// Called until it leaves the batch empty.
    fn rest(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let _ = batch;
        Ok(())
    }
}

/// A source with a step over it.
pub struct Stage<T> {
    source: Box<dyn Source>,
    step: T,
    header: Header,
    /// The knowledge of the source when the header was taken.
    known: Known,
    flow: Flow,
    /// The number of requests that had been measured, if the step removes measurements.
    forgotten: u64,
}

/// The facts that a source learns while it is read: the number of volumes, the number of processes,
/// and whether the start is known.
pub(super) type Known = (usize, usize, bool);

/// The known facts in `header`.
pub(super) fn known(header: &Header) -> Known {
    (header.volumes.len(), header.processes.len(), header.started.is_some())
}

impl<T: Step> Stage<T> {
    /// Lays `step` over `source`.
    pub fn new(source: Box<dyn Source>, step: T) -> Self {
        let header = Header::default();
        let known = known(source.header());
        let mut stage = Self { source, step, header, known, flow: Flow::More, forgotten: 0 };
        stage.take_header();
        stage
    }

    /// Updates the header before the requests are returned.
    fn learn(&mut self) {
        let now = known(self.source.header());
        if now != self.known {
            self.known = now;
            self.take_header();
        }
    }

    fn take_header(&mut self) {
        self.header = self.source.header().clone();
        self.step.describe(&mut self.header);
        let told = self.step.told();
        let name = told.split(' ').next().unwrap_or_default();
        note_forgotten(&mut self.header, name, self.forgotten);
        self.header.transforms.push(told);
    }
}

impl<T: Step> Source for Stage<T> {
    /// Losses and guesses are those met so far; those after the end of a part are unknown, because
    /// it is not read further.
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while self.flow == Flow::More {
            if self.source.next_batch(batch)? {
                self.learn();
                if !self.header.columns.measured {
                    self.forgotten += batch.measured_rows();
                }
                batch.keep_columns(self.header.columns);
                self.flow = self.step.change(batch)?;
            } else {
                batch.reset(self.header.columns);
                self.flow = Flow::End;
            }
            if self.flow == Flow::End {
                self.take_header();
            }
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        batch.reset(self.header.columns);
        self.step.rest(batch)?;
        if !batch.is_empty() {
            return Ok(true);
        }
        // Once more, because the step may have added notes at the end.
        self.take_header();
        Ok(false)
    }
}
