//! A number that identifies the load of a run.
//!
//! Two runs can be compared only if they replayed the same requests, which a file name does not
//! show: a trace may have been cut, transformed or recorded again under its old name. So a number
//! is computed from all requests. It is a sum of a scrambled number of each, so the order of
//! requests at the same instant does not matter and parts add up.

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

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
    /// Adds a request.
    #[inline]
    pub fn observe(&mut self, request: &Request) {
        let mut content = scramble(request.issue.0 as u64);
        for word in [
            request.offset.0,
            request.length.0,
            u64::from(request.volume.0) << 8 | u64::from(request.op.code()),
        ] {
            content = scramble(content ^ word);
        }
        self.requests += 1;
        self.content = self.content.wrapping_add(content);
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
    use ioecho_trace::{Bytes, Nanos, Op, VolumeId};

    fn mark(requests: &[Request]) -> LoadMark {
        let mut mark = LoadMark::default();
        for request in requests {
            mark.observe(request);
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
