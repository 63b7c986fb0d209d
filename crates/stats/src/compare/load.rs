//! A number that identifies the load of a run.
//!
//! Two runs can be compared only if they replayed the same requests, which a file name does not
//! show: a trace may have been cut, transformed or recorded again under its old name. So a number
//! is computed from all requests. It is a sum of a scrambled number of each, so the order of
//! requests at the same instant does not matter and parts add up.
//!
//! In a closed loop a client asks when it was answered, so how many requests there are, and when,
//! are results: two runs of one load never have the same. The same is true of where threads go in a
//! tree of files, which depends on what is free. Such loads are known by the lines that make them.

use ioecho_trace::{Nanos, Request, generate};
use serde::{Deserialize, Serialize};

use crate::facts::FlowFacts;

/// By what the requests of a flow are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// By what each asks for, and when it is due.
    Requests,
    /// By what each asks for: clients read a trace, and when they go on is a result.
    Content,
    /// By the line that makes them.
    Line,
}

impl KnownBy {
    /// The same for a flow.
    pub fn of(flow: &FlowFacts) -> Self {
        if flow.load.starts_with(generate::FILES_PREFIX) {
            return Self::Line;
        }
        match flow.threads {
            None => Self::Requests,
            Some(_) if flow.load.starts_with(generate::PREFIX) => Self::Line,
            Some(_) => Self::Content,
        }
    }
}

/// The lines of all flows whose requests are results, with all that decides on these. Names of
/// flows do not.
pub(super) fn lines(flows: &[FlowFacts]) -> String {
    let line = |flow: &FlowFacts| {
        let FlowFacts { flow: number, load, threads, think_ns, cap, share, target, .. } = flow;
        let FlowFacts { name: _, others, along: _, files, .. } = flow;
        (KnownBy::of(flow) != KnownBy::Requests).then(|| {
            let places = match threads {
                Some(threads) => format!("threads={threads}"),
                None => format!("cap={cap}"),
            };
            let given = |what: &str, value: Option<String>| {
                value.map_or(String::new(), |value| format!(" {what}={value}"))
            };
            let targets =
                [*target].into_iter().chain(others.iter().copied()).map(|at| (at + 1).to_string());
            format!(
                "{number}: {load} {places} on={}{}{}{}",
                targets.collect::<Vec<_>>().join("+"),
                given("think-ns", think_ns.filter(|think| *think > 0).map(|it| it.to_string())),
                given("share", share.map(|share| share.to_string())),
                given("files", files.map(|files| files.to_string()))
            )
        })
    };
    flows.iter().filter_map(line).collect::<Vec<_>>().join(", ")
}

/// Sums over the requests of a run, without their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadMark {
    /// How many requests there were.
    pub requests: u64,
    /// The sum over all requests of what each asked for: operation, offset, length, volume and the
    /// instant of the trace.
    pub content: u64,
    /// The sum over all requests of when each was due in the replay.
    pub schedule: u64,
}

impl LoadMark {
    /// Adds a request that is known by this.
    #[inline]
    pub fn observe(&mut self, request: &Request, by: KnownBy) {
        let issue = match by {
            KnownBy::Requests => request.issue,
            KnownBy::Content => Nanos::ZERO,
            KnownBy::Line => return,
        };
        let mut content = scramble(issue.0 as u64);
        for word in [
            request.offset.0,
            request.length.0,
            u64::from(request.volume.0) << 8 | u64::from(request.op.code()),
        ] {
            content = scramble(content ^ word);
        }
        self.requests += 1;
        self.content = self.content.wrapping_add(content);
        if by == KnownBy::Content {
            return;
        }
        let due = request.measured.map_or(request.issue, |measured| measured.scheduled);
        self.schedule = self.schedule.wrapping_add(scramble(content ^ due.0 as u64));
    }

    /// Adds the requests of another part of the same run.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.content = self.content.wrapping_add(other.content);
        self.schedule = self.schedule.wrapping_add(other.schedule);
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014) behind its increment, so that zero does not stay zero.
fn scramble(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Op, VolumeId};

    fn mark(requests: &[Request]) -> LoadMark {
        let mut mark = LoadMark::default();
        for request in requests {
            mark.observe(request, KnownBy::Requests);
        }
        mark
    }

    fn request(issue: i64) -> Request {
        Request::new(Nanos(issue), Op::Read, Bytes(4096), Bytes(512))
    }

    #[test]
    fn the_same_requests_in_another_order_have_the_same_mark_and_parts_add_up() {
        let (a, b) = (request(0), request(5));
        assert_eq!(mark(&[a, b]), mark(&[b, a]));
        let mut parts = mark(&[a]);
        parts.merge(&mark(&[b]));
        assert_eq!(parts, mark(&[a, b]));
    }

    #[test]
    fn requests_of_closed_loops_are_known_by_their_lines_and_of_traces_by_what_they_ask_for() {
        let flow = |load: &str, threads| FlowFacts {
            flow: 1,
            load: load.to_owned(),
            threads,
            ..FlowFacts::default()
        };
        let closed = flow("gen:random?read=70&size=4k", Some(8));
        let files = flow("files:read?rate=100", None);
        let trace = flow("web.parquet", Some(8));
        assert_eq!(KnownBy::of(&closed), KnownBy::Line);
        assert_eq!(KnownBy::of(&files), KnownBy::Line);
        assert_eq!(KnownBy::of(&trace), KnownBy::Content);
        assert_eq!(KnownBy::of(&flow("web.parquet", None)), KnownBy::Requests);
        let seen = |by, issue| {
            let mut mark = LoadMark::default();
            mark.observe(&request(issue), by);
            mark
        };
        assert_eq!(seen(KnownBy::Line, 5), LoadMark::default());
        assert_eq!(seen(KnownBy::Content, 5), seen(KnownBy::Content, 7));
        assert_ne!(seen(KnownBy::Requests, 5), seen(KnownBy::Requests, 7));
        let all = [closed.clone(), files, trace];
        let renamed = FlowFacts { name: "other".to_owned(), ..closed.clone() };
        assert_eq!(lines(std::slice::from_ref(&closed)), lines(&[renamed]));
        for other in [
            FlowFacts { threads: Some(9), ..closed.clone() },
            FlowFacts { think_ns: Some(5), ..closed.clone() },
            FlowFacts { target: 1, ..closed.clone() },
            FlowFacts { share: Some(2.0), ..closed.clone() },
            flow("gen:random?read=71&size=4k", Some(8)),
        ] {
            assert_ne!(lines(&[other]), lines(std::slice::from_ref(&closed)));
        }
        assert_eq!(lines(&all).matches(": ").count(), 3);
    }

    #[test]
    fn every_property_of_a_request_changes_the_mark() {
        let base = request(7);
        let others = [
            Request { issue: Nanos(8), ..base },
            Request { op: Op::Write, ..base },
            Request { offset: Bytes(8192), ..base },
            Request { length: Bytes(1024), ..base },
            Request { volume: VolumeId(1), ..base },
        ];
        for other in others {
            assert_ne!(mark(&[other]).content, mark(&[base]).content, "{other:?}");
        }
        assert_ne!(mark(&[base, base]).content, mark(&[base]).content);
    }
}
