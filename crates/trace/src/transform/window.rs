//! A part of a trace, by time.
//!
//! The instants stay those of the trace: who cuts ten seconds out of a day wants to find them
//! again.

use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::Source;
use crate::units::Nanos;

/// The requests issued in `[start, start + duration)`.
pub struct Window<S> {
    source: S,
    /// Not known before the first request came, if that is where the window begins.
    start: Option<Nanos>,
    duration: Option<Nanos>,
    header: Header,
    transform: String,
    ended: bool,
}

impl<S: Source> Window<S> {
    /// Keeps what `source` issues from `start` or its first request on, for as long as `duration`
    /// or to its end.
    pub fn new(source: S, start: Option<Nanos>, duration: Option<Nanos>) -> Self {
        let from =
            start.map_or("first".to_owned(), |at| format!("{}s", super::decimal_seconds(at)));
        let length = duration.map_or(String::new(), |duration| {
            format!(" duration={}s", super::decimal_seconds(duration))
        });
        let transform = format!("window start={from}{length}");
        let mut header = source.header().clone();
        header.transforms.push(transform.clone());
        Self { source, start, duration, header, transform, ended: false }
    }

    /// Takes over what the source has noted by now.
    fn end(&mut self) {
        self.ended = true;
        self.header = self.source.header().clone();
        self.header.transforms.push(std::mem::take(&mut self.transform));
    }
}

impl<S: Source> Source for Window<S> {
    /// Losses and guesses are those met up to the end of the window; what lies behind it is not
    /// read.
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while !self.ended {
            if !self.source.next_batch(batch)? {
                self.end();
                break;
            }
            let start = *self.start.get_or_insert(Nanos(batch.issue_ns()[0]));
            // The source is in order, so both ends are found by halving.
            let from = batch.issue_ns().partition_point(|issue| *issue < start.0);
            let to = self.duration.map_or(batch.len(), |duration| {
                let end = start.saturating_add(duration).0;
                batch.issue_ns().partition_point(|issue| *issue < end)
            });
            if to < batch.len() {
                self.end();
            }
            if from > 0 || to < batch.len() {
                batch.retain_range(from, to.max(from));
            }
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        batch.reset(self.header.columns);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Given;
    use super::*;
    use crate::batch::tests::any_request;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_keeps_what_is_issued_in_it_and_nothing_else(
            mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
            start in 0_i64..1200, duration in proptest::option::of(0_i64..1200),
        ) {
            for request in &mut requests {
                request.issue.0 %= 1000;
            }
            requests.sort_by_key(|request| request.issue);
            let given = Given::new(&requests, rows);
            let mut window = Window::new(given, Some(Nanos(start)), duration.map(Nanos));
            let mut batch = Batch::default();
            let mut all = Vec::new();
            while window.next_batch(&mut batch).unwrap() {
                prop_assert!(!batch.is_empty());
                all.extend(batch.iter());
            }
            let end = duration.map_or(i64::MAX, |duration| start + duration);
            requests.retain(|request| (start..end).contains(&request.issue.0));
            prop_assert_eq!(all, requests);
            prop_assert_eq!(window.header().transforms.len(), 1);
        }
    }

    #[test]
    fn it_says_what_it_is_and_stops_reading_behind_its_end() {
        let requests: Vec<_> = (0..100)
            .map(|n| {
                let (offset, length) = (crate::Bytes(0), crate::Bytes(512));
                crate::Request::new(Nanos::from_secs(n), crate::Op::Read, offset, length)
            })
            .collect();
        let given = Given::new(&requests, 10);
        let duration = Some(Nanos::from_millis(500));
        let mut window = Window::new(given, Some(Nanos::from_secs(10)), duration);
        let mut batch = Batch::default();
        assert!(window.next_batch(&mut batch).unwrap());
        assert_eq!(batch.len(), 1);
        assert!(!window.next_batch(&mut batch).unwrap());
        assert_eq!(window.header().transforms, ["window start=10s duration=0.5s"]);
        assert_eq!(window.source.batches_given(), 2);
    }

    #[test]
    fn without_a_start_it_begins_at_the_first_request() {
        let at = |secs| {
            let (offset, length) = (crate::Bytes(0), crate::Bytes(512));
            crate::Request::new(Nanos::from_secs(secs), crate::Op::Read, offset, length)
        };
        let given = Given::new(&[at(70), at(71), at(72)], 10);
        let mut window = Window::new(given, None, Some(Nanos::from_secs(2)));
        let mut batch = Batch::default();
        assert!(window.next_batch(&mut batch).unwrap());
        assert_eq!(batch.len(), 2);
        assert!(!window.next_batch(&mut batch).unwrap());
    }
}
