//! Stopping while a trace is read.
//!
//! Sorting a day, or waiting for a shell command, takes minutes before the next request comes out.
//! A request to stop must take effect in there, too, not only between two batches at the end of the
//! chain. So it is a flag, and the innermost source returns an error once it is set: the error
//! passes up through every transform, their state is dropped, and no output appears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;

/// A request to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the sources to stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error once a stop was asked for.
    pub fn check(&self) -> Result<(), TraceError> {
        if self.is_asked() { Err(TraceError::Stopped) } else { Ok(()) }
    }

    /// `source`, until a stop is asked for.
    pub fn over(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Stoppable { stop: self.clone(), source })
    }
}

struct Stoppable {
    stop: Stop,
    source: Box<dyn Source>,
}

impl Source for Stoppable {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        self.stop.check()?;
        self.source.next_batch(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::tests::Given;
    use crate::{Bytes, Nanos, Op, Request};

    #[test]
    fn a_source_gives_what_it_has_until_an_end_is_asked_for() {
        let request = Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512));
        let stop = Stop::default();
        let mut source = stop.clone().over(Box::new(Given::new(&[request; 3], 1)));
        let mut batch = Batch::default();
        assert!(source.next_batch(&mut batch).unwrap());
        stop.ask();
        assert!(matches!(source.next_batch(&mut batch), Err(TraceError::Stopped)));
    }
}
