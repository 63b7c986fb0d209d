//! The two seams of this crate: the origin of requests ([`Source`]) and their destination
//! ([`Sink`]).

use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, Notes};

/// A stream of requests: a file, a generator, another stream with a transform over it.
pub trait Source: Send {
    /// The provenance of the trace. Losses, guesses and damage grow while the stream is read. They
    /// are complete once [`Source::next_batch`] has answered `false`; the columns never change.
    fn header(&self) -> &Header;

    /// Empties `batch` and fills it with the next requests, at least one; answers `false` at the
    /// end. Requests come in the order of their issue.
    ///
    /// A damaged source ends early: the readable requests were given, the answer is `false`, and
    /// [`Header::damage`] tells the place and the reason.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError>;
}

/// The destination of a stream of requests.
pub trait Sink {
    /// Takes over the facts that the source has learned since the sink was begun: the start of the
    /// trace, and volumes and processes whose first request is in the next batch.
    fn learn(&mut self, header: &Header) {
        let _ = header;
    }

    /// Writes the requests of `batch` behind those before.
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError>;

    /// Completes the output with the final header of the source. An output that is not finished
    /// does not appear under its name.
    fn finish(self: Box<Self>, header: &Header) -> Result<Written, TraceError>;
}

/// The result of opening a source.
pub type Opened = Result<Box<dyn Source>, TraceError>;

/// The result of beginning an output.
pub type Begun = Result<Box<dyn Sink>, TraceError>;

/// The result of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of requests in the output.
    pub requests: u64,
    /// The facts that the format could not express.
    pub lost: Notes,
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn header(&self) -> &Header {
        (**self).header()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        (**self).next_batch(batch)
    }
}

/// A part of the chain that stands over a source and writes something into its header.
pub trait Label: Send {
    /// Sees the requests on their way.
    fn see(&mut self, batch: &Batch) {
        let _ = batch;
    }

    /// Writes the facts known so far into the header.
    fn write(&mut self, header: &mut Header);
}

impl<F: FnMut(&mut Header) + Send> Label for F {
    fn write(&mut self, header: &mut Header) {
        self(header);
    }
}

/// A source with a [`Label`] over its header.
///
/// A header grows while the source is read, so a label must be written again whenever something was
/// learned that makes a new header.
pub struct Labelled<L> {
    source: Box<dyn Source>,
    label: L,
    header: Header,
    is_begun: bool,
}

impl<L: Label> Labelled<L> {
    /// Puts the label over the source.
    pub fn new(source: Box<dyn Source>, label: L) -> Self {
        let mut labelled = Self { source, label, header: Header::default(), is_begun: false };
        labelled.take_header();
        labelled
    }

    fn take_header(&mut self) {
        self.header = self.source.header().clone();
        self.label.write(&mut self.header);
    }
}

impl<L: Label> Source for Labelled<L> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let is_more = self.source.next_batch(batch)?;
        if is_more && self.is_begun {
            self.header.learn(self.source.header());
        } else {
            // Some formats know the wall clock only at their first request, and losses at the last.
            self.take_header();
            self.is_begun = true;
        }
        if is_more {
            self.label.see(batch);
        }
        Ok(is_more)
    }
}

/// Moves every request of `source` into `sink` and completes it. Answers the number of requests,
/// and the result of the sink.
pub fn copy(
    source: &mut dyn Source,
    mut sink: Box<dyn Sink>,
) -> Result<(u64, Written), TraceError> {
    let mut batch = Batch::new(source.header().columns);
    let mut requests = 0;
    while source.next_batch(&mut batch)? {
        requests += batch.len() as u64;
        sink.learn(source.header());
        sink.write(&batch)?;
    }
    let written = sink.finish(source.header())?;
    Ok((requests, written))
}
