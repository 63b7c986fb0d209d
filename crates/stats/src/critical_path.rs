//! The critical path of a run in which requests wait for others.
//!
//! Why did it take so long, and would faster storage help? The last completion was that of a
//! request which waited for another, which waited for another, and so on up to one that waited for
//! none. This is the run's *critical path* (Kelley and Walker, "Critical-Path Planning and
//! Scheduling", 1959): the length of the run is the sum of what happened on it. Only a part of it,
//! the device time, becomes shorter on faster storage.
//!
//! The path is known at the end only, and a run has more requests than fit into memory. So each
//! request carries the sums of its own path until it is too far away to be waited for.

use std::collections::VecDeque;

use ioecho_trace::units::{counted, two_digits};
use ioecho_trace::{Nanos, Op, Request};
use serde::{Deserialize, Serialize};

use crate::facts::share;
use crate::late::DEVICE;

/// The replay's own share of the path up to which the length of a run is that of its requests and
/// think times. A millisecond is no lateness for one request, but on a path each waits for the one
/// before, so microseconds add up.
pub(crate) const OWN_PASS: f64 = 0.1;

/// Above this share the run does not show how long the storage takes for the load.
pub(crate) const OWN_SUSPECT: f64 = 0.25;

/// A request waits for none that is further away. Inference and annotations look less far back.
const BEHIND_MAX: usize = 1 << 18;

/// The sums of a path: what they add up to is the time from the start of the run to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CriticalPath {
    /// Requests, each of which waited for the one before.
    pub requests: u64,
    /// From the start of the run until the first of them was due, which is its recorded instant.
    pub arrival_ns: u64,
    /// Think times between a completion and the instant at which the next was due.
    pub think_ns: u64,
    /// From the instant at which they were due to their submission.
    pub late_ns: u64,
    /// The part of this that the device did not cause: the replay's own, or its host's. 0 in
    /// results of earlier versions.
    #[serde(default)]
    pub late_own_ns: u64,
    /// From submission to completion, of reads.
    pub read_ns: u64,
    /// The same of writes.
    pub write_ns: u64,
    /// The same of flushes.
    pub flush_ns: u64,
    /// The same of all others.
    pub other_ns: u64,
    /// The row of the request that took the device longest, counted from 0.
    pub slowest_row: u64,
    /// How long it took the device.
    pub slowest_ns: u64,
    /// The row of the last request.
    pub last_row: u64,
}

impl CriticalPath {
    /// From submission to completion, of all.
    pub fn device_ns(&self) -> u64 {
        let Self { read_ns, write_ns, flush_ns, other_ns, .. } = self;
        [read_ns, write_ns, flush_ns, other_ns]
            .into_iter()
            .fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    /// From the start of the run to its last completion, which is the sum of all parts.
    pub fn length_ns(&self) -> u64 {
        let rest = self.arrival_ns.saturating_add(self.think_ns).saturating_add(self.late_ns);
        self.device_ns().saturating_add(rest)
    }

    /// The share of the path that the replay and its host took.
    pub fn own_share(&self) -> f64 {
        share(self.late_own_ns, self.length_ns())
    }

    /// Whether the replay and its host took so much of it that the length of the run is theirs.
    pub fn is_own(&self) -> bool {
        self.own_share() > OWN_PASS
    }

    /// The parts by name, in nanoseconds, without those that are nothing. Faster storage shortens
    /// those of the device alone.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("device, reads", self.read_ns),
            ("device, writes", self.write_ns),
            ("device, flushes", self.flush_ns),
            ("device, other operations", self.other_ns),
            ("think times", self.think_ns),
            ("until the first was due", self.arrival_ns),
            ("issued late", self.late_ns),
        ];
        all.into_iter().filter(|(_, ns)| *ns > 0).collect()
    }

    /// In a sentence: what the length of the run consists of.
    pub fn sentence(&self) -> String {
        let length = self.length_ns().max(1) as f64;
        let parts: Vec<String> = self
            .parts()
            .into_iter()
            .map(|(name, ns)| format!("{name} {} %", two_digits(100.0 * ns as f64 / length)))
            .collect();
        let requests = counted(self.requests, "request");
        format!("{requests}, each of which waited for the one before: {}", parts.join(", "))
    }

    /// The path that goes on with this request, of row `row`, which waited for the last one of this
    /// path until `before`.
    fn and(self, request: &Request, row: u64, before: Option<Nanos>) -> Option<(Self, Nanos)> {
        let measured = request.measured.as_ref()?;
        let span = |ns: Nanos| ns.0.max(0).unsigned_abs();
        let since = measured.scheduled.saturating_sub(before.unwrap_or(Nanos::ZERO));
        let mut path = self;
        path.requests += 1;
        path.last_row = row;
        if before.is_some() {
            path.think_ns = path.think_ns.saturating_add(span(since));
        } else {
            path.arrival_ns = span(since);
        }
        let Some((submitted, completed)) = measured.submitted.zip(measured.completed) else {
            // It was not issued, so it ended when it was due.
            return measured.submitted.is_none().then_some((path, measured.scheduled));
        };
        let took = span(completed.saturating_sub(submitted));
        let late = span(submitted.saturating_sub(measured.scheduled));
        path.late_ns = path.late_ns.saturating_add(late);
        if !DEVICE.contains(&measured.late_cause) {
            path.late_own_ns = path.late_own_ns.saturating_add(late);
        }
        let of_op = match request.op {
            Op::Read => &mut path.read_ns,
            Op::Write => &mut path.write_ns,
            Op::Flush => &mut path.flush_ns,
            _ => &mut path.other_ns,
        };
        *of_op = of_op.saturating_add(took);
        if took > path.slowest_ns || path.requests == 1 {
            (path.slowest_row, path.slowest_ns) = (row, took);
        }
        Some((path, completed))
    }
}

/// Finds the critical path of a run, whose requests come in the order of their numbers and without
/// gaps.
#[derive(Clone, Debug, Default)]
pub struct PathFinder {
    /// The paths of the last requests with their ends; `None` of one that never completed.
    paths: VecDeque<Option<(CriticalPath, Nanos)>>,
    rows: u64,
    longest: Option<(CriticalPath, Nanos)>,
    has_waited: bool,
}

impl PathFinder {
    /// Takes the next request.
    pub fn observe(&mut self, request: &Request) {
        let row = self.rows;
        self.rows += 1;
        let behind = request.measured.map_or(0, |measured| measured.behind) as usize;
        let before = behind.checked_sub(1).and_then(|at| self.paths.len().checked_sub(at + 1));
        let (path, end) = match before {
            None if behind == 0 => (CriticalPath::default(), None),
            // Of one whose path is unknown nothing can be said.
            _ => {
                self.has_waited = true;
                let known = before.and_then(|at| self.paths[at]);
                let Some((path, end)) = known else { return self.keep(None) };
                (path, Some(end))
            }
        };
        self.keep(path.and(request, row, end));
    }

    fn keep(&mut self, path: Option<(CriticalPath, Nanos)>) {
        if let Some((_, end)) = path
            && self.longest.is_none_or(|(_, latest)| end > latest)
        {
            self.longest = path;
        }
        if self.paths.len() == BEHIND_MAX {
            self.paths.pop_front();
        }
        self.paths.push_back(path);
    }

    /// The path; `None` if no request waited for another.
    pub fn finish(&self) -> Option<CriticalPath> {
        self.longest.filter(|_| self.has_waited).map(|(path, _)| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, LateCause, Measured, Outcome};
    use proptest::prelude::*;

    /// A request due at `due`, submitted and completed so much later, behind another.
    fn request(op: Op, due: i64, late: i64, took: i64, behind: u32) -> Request {
        let length = if op == Op::Flush { Bytes(0) } else { Bytes(512) };
        let mut request = Request::new(Nanos(0), op, Bytes(0), length);
        request.measured = Some(Measured {
            target_offset: Some(Bytes(0)),
            behind,
            ..Measured::done(Nanos(due), Nanos(due + late), Nanos(due + late + took))
        });
        request
    }

    fn found(requests: &[Request]) -> Option<CriticalPath> {
        let mut finder = PathFinder::default();
        for request in requests {
            finder.observe(request);
        }
        finder.finish()
    }

    #[test]
    fn the_length_of_a_run_is_what_happened_on_its_path() {
        let requests = [
            request(Op::Read, 10, 0, 100, 0),
            // A second chain, which ends earlier.
            request(Op::Write, 20, 0, 300, 0),
            // 5 after the read.
            request(Op::Write, 115, 2, 200, 2),
            request(Op::Flush, 320, 3, 50, 1),
        ];
        let path = found(&requests).unwrap();
        assert_eq!((path.requests, path.arrival_ns, path.think_ns, path.late_ns), (3, 10, 8, 5));
        assert_eq!((path.late_own_ns, path.is_own()), (5, false));
        assert_eq!((path.read_ns, path.write_ns, path.flush_ns, path.other_ns), (100, 200, 50, 0));
        assert_eq!((path.slowest_row, path.slowest_ns, path.last_row), (2, 200, 3));
        assert_eq!(path.length_ns(), 373);
        let parts = "device, reads 27 %, device, writes 54 %, device, flushes 13 %, think times \
                     2.1 %, until the first was due 2.7 %, issued late 1.3 %";
        let whole = format!("3 requests, each of which waited for the one before: {parts}");
        assert_eq!(path.sentence(), whole);
    }

    #[test]
    fn lateness_of_the_device_is_not_the_replays_own() {
        for (cause, own_ns) in [(LateCause::None, 50), (LateCause::InFlightCap, 0)] {
            let mut late = request(Op::Read, 100, 50, 100, 1);
            late.measured.as_mut().unwrap().late_cause = cause;
            let path = found(&[request(Op::Read, 0, 0, 100, 0), late]).unwrap();
            assert_eq!((path.late_ns, path.late_own_ns), (50, own_ns));
            assert_eq!((path.own_share(), path.is_own()), (own_ns as f64 / 250.0, own_ns > 0));
        }
    }

    #[test]
    fn without_waiting_there_is_no_path() {
        assert_eq!(found(&[request(Op::Read, 0, 0, 5, 0), request(Op::Read, 1, 0, 5, 0)]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_request_that_was_not_issued_ends_when_it_was_due() {
        let mut dropped = request(Op::Read, 7, 0, 0, 1);
        let measured = dropped.measured.as_mut().unwrap();
        (measured.submitted, measured.completed, measured.outcome) = (None, None, Outcome::Dropped);
        let path = found(&[request(Op::Read, 0, 0, 5, 0), dropped, request(Op::Read, 9, 0, 1, 1)]);
        assert_eq!(path.map(|path| (path.requests, path.think_ns, path.read_ns)), Some((3, 4, 6)));
    }

    proptest! {
        #[test]
        fn every_path_adds_up_to_the_end_of_the_run(
            steps in prop::collection::vec((0_u32..6, 0_i64..50, 0_i64..9, 0_i64..90), 1..60),
        ) {
            let mut requests: Vec<Request> = Vec::new();
            let mut latest = 0;
            for (row, (behind, think, late, took)) in steps.into_iter().enumerate() {
                let before = row.checked_sub(behind as usize).filter(|_| behind > 0);
                let end = before.map(|at| requests[at].measured.unwrap().completed.unwrap().0);
                let behind = if end.is_some() { behind } else { 0 };
                let one = request(Op::Write, end.unwrap_or(0) + think, late, took, behind);
                latest = latest.max(one.measured.unwrap().completed.unwrap().0);
                requests.push(one);
            }
            if let Some(path) = found(&requests) {
                prop_assert_eq!(path.length_ns(), latest as u64);
            }
        }
    }
}
