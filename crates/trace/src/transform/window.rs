//! A part of a trace, by time.
//!
//! The instants stay those of the trace, so that ten seconds cut out of a day can be found again.

use super::stage::{Flow, Stage, Step};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::stream::Source;
use crate::units::Nanos;

/// `window START,DURATION`.
pub const KIND: Kind = Kind {
    name: "window",
    value: "START[,DURATION]",
    help: "Keep what is issued from START on, for DURATION or to the end; START is an instant of \
           the trace's own time, or 'first' for its first request",
    spills: false,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let start = match arguments.demand::<String>("the start")?.as_str() {
        "first" => None,
        start => Some(
            start
                .parse()
                .map_err(|error| ArgumentError::new(format!("the start: '{start}': {error}")))?,
        ),
    };
    let duration = arguments.value("the duration")?;
    arguments.finish()?;
    if duration.is_some_and(|duration| duration <= Nanos::ZERO) {
        return Err(ArgumentError::new("the duration must be longer than nothing"));
    }
    Ok(Box::new(Window { start, duration }))
}

/// The requests issued in `[start, start + duration)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The first instant; `None` for the instant of the first request.
    pub start: Option<Nanos>,
    /// The length of the window; `None` for the whole rest of the trace.
    pub duration: Option<Nanos>,
}

impl Window {
    /// Whether the window holds the whole trace.
    pub const fn is_all(&self) -> bool {
        self.start.is_none() && self.duration.is_none()
    }

    /// Keeps the requests of `source` that lie in the window.
    pub fn of(self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Stage::new(source, Cut { window: self, start: self.start }))
    }
}

impl Transform for Window {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        Ok(self.of(source))
    }

    fn ends(&self) -> bool {
        self.duration.is_some()
    }

    fn is_beginning(&self) -> bool {
        self.start.is_none()
    }
}

struct Cut {
    window: Window,
    /// `None` before the first request came, if the window begins with it.
    start: Option<Nanos>,
}

impl Step for Cut {
    fn told(&self) -> String {
        let seconds = |span| format!("{}s", crate::units::decimal_seconds(span));
        let start = self.window.start.map_or("first".to_owned(), seconds);
        let duration =
            self.window.duration.map_or(String::new(), |span| format!(",{}", seconds(span)));
        format!("window {start}{duration}")
    }

    fn change(&mut self, batch: &mut Batch) -> Result<Flow, TraceError> {
        let start = *self.start.get_or_insert(Nanos(batch.issue_ns()[0]));
        // The source is in order, so both ends are found by halving.
        let from = batch.issue_ns().partition_point(|issue| *issue < start.0);
        let to = self.window.duration.map_or(batch.len(), |duration| {
            let end = start.saturating_add(duration).0;
            batch.issue_ns().partition_point(|issue| *issue < end)
        });
        let flow = if to < batch.len() { Flow::End } else { Flow::More };
        if from > 0 || to < batch.len() {
            batch.retain_range(from, to.max(from));
        }
        Ok(flow)
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
            let cut = Window { start: Some(Nanos(start)), duration: duration.map(Nanos) };
            let mut window = cut.of(Box::new(given));
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
        let batches = given.batches_given();
        let duration = Some(Nanos::from_millis(500));
        let cut = Window { start: Some(Nanos::from_secs(10)), duration };
        let mut window = cut.of(Box::new(given));
        let mut batch = Batch::default();
        assert!(window.next_batch(&mut batch).unwrap());
        assert_eq!(batch.len(), 1);
        assert!(!window.next_batch(&mut batch).unwrap());
        assert_eq!(window.header().transforms, ["window 10s,0.5s"]);
        assert_eq!(batches.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    #[test]
    fn without_a_start_it_begins_at_the_first_request() {
        let at = |secs| {
            let (offset, length) = (crate::Bytes(0), crate::Bytes(512));
            crate::Request::new(Nanos::from_secs(secs), crate::Op::Read, offset, length)
        };
        let given = Given::new(&[at(70), at(71), at(72)], 10);
        let cut = Window { start: None, duration: Some(Nanos::from_secs(2)) };
        let mut window = cut.of(Box::new(given));
        let mut batch = Batch::default();
        assert!(window.next_batch(&mut batch).unwrap());
        assert_eq!(batch.len(), 2);
        assert!(!window.next_batch(&mut batch).unwrap());
    }
}
