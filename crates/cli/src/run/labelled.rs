//! A trace with what its user says of it.
//!
//! A header grows while its trace is read, so what is put into it must be put into it again and
//! again: whenever something was learned, and at the end.

use ioecho_trace::{Batch, Header, Source, TraceError};

/// A trace whose header is changed by `label`, whatever it comes to say.
pub(crate) struct Labelled<F> {
    source: Box<dyn Source>,
    label: F,
    header: Header,
}

impl<F: Fn(&mut Header) + Send> Labelled<F> {
    /// The source with the label over its header.
    pub(crate) fn new(source: Box<dyn Source>, label: F) -> Self {
        let mut labelled = Self { source, label, header: Header::default() };
        labelled.take_header();
        labelled
    }

    fn take_header(&mut self) {
        self.header = self.source.header().clone();
        (self.label)(&mut self.header);
    }
}

impl<F: Fn(&mut Header) + Send> Source for Labelled<F> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = self.source.next_batch(batch)?;
        if more {
            self.header.learn(self.source.header());
        } else {
            self.take_header();
        }
        Ok(more)
    }
}
