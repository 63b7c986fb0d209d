//! The figures of a trace: the answer to "what is in this file?".
//!
//! They must come from one pass in little memory, whatever the trace's length, and an independent
//! count of the lines must give the same figures.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use ioecho_trace::{Batch, Bytes, Flags, Nanos, Op, Outcome, Request, VolumeId};
use serde::Serialize;

use crate::histogram::{Latencies, Summary};

/// How many different request sizes are counted apart; traces have a few hundred.
const SIZES_MAX: usize = 4096;

/// How many completions are remembered to count what is in flight.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Counts per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpCount {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The busiest spans of the trace, which begin at whole seconds of its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Most requests in one second.
    pub requests_per_s: u64,
    /// When that second begins.
    pub requests_at_s: i64,
    /// Most bytes in one second.
    pub bytes_per_s: u64,
    /// When that second begins, which may be another one.
    pub bytes_at_s: i64,
    /// Most requests in sixty seconds.
    pub requests_per_minute: u64,
    /// When those sixty seconds begin.
    pub minute_at_s: i64,
}

/// Counts requests by the second, of which sixty are remembered.
#[derive(Clone, Debug, Default)]
struct Seconds {
    /// Seconds with requests: when, requests, bytes. At most sixty, the newest last.
    recent: VecDeque<(i64, u64, u64)>,
    /// Requests in them.
    requests: u64,
    peak: Peak,
}

impl Seconds {
    fn add(&mut self, issue: Nanos, bytes: u64) {
        let second = issue.0.div_euclid(1_000_000_000);
        match self.recent.back_mut() {
            Some((last, requests, sum)) if *last >= second => {
                *requests += 1;
                *sum = sum.saturating_add(bytes);
            }
            _ => self.recent.push_back((second, 1, bytes)),
        }
        self.requests += 1;
        while let Some((first, requests, _)) = self.recent.front()
            && *first + 60 <= second
        {
            self.requests -= requests;
            self.recent.pop_front();
        }
        let Some((at, requests, bytes)) = self.recent.back() else { return };
        let peak = &mut self.peak;
        if *requests > peak.requests_per_s {
            (peak.requests_per_s, peak.requests_at_s) = (*requests, *at);
        }
        if *bytes > peak.bytes_per_s {
            (peak.bytes_per_s, peak.bytes_at_s) = (*bytes, *at);
        }
        if self.requests > peak.requests_per_minute {
            let begin = (at - 59).max(self.recent.front().map_or(*at, |(first, ..)| *first));
            (peak.requests_per_minute, peak.minute_at_s) = (self.requests, begin);
        }
    }
}

/// A request size and how many have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeCount {
    /// The size.
    pub length: Bytes,
    /// Requests of this size.
    pub requests: u64,
}

/// A volume's part of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeCount {
    /// Requests that went to it.
    pub requests: u64,
    /// The furthest end of any of them: the least size of the device it was recorded on.
    pub extent: Bytes,
}

/// The summary of a trace, fed batch by batch.
#[derive(Clone, Debug, Default)]
pub struct TraceSummary {
    ops: [OpCount; Op::ALL.len()],
    flags: [u64; 5],
    /// Bytes of all requests: more than 64 bits hold where a recording lies.
    bytes: u128,
    first: Option<Nanos>,
    last: Nanos,
    sizes: BTreeMap<u64, u64>,
    sizes_uncounted: u64,
    aligned_4k: u64,
    volumes: BTreeMap<VolumeId, VolumeCount>,
    seconds: Seconds,
    latency: Latencies,
    completions: BinaryHeap<Reverse<i64>>,
    in_flight_max: u64,
    in_flight_uncounted: u64,
    busy_ns: i128,
    last_completion: Nanos,
    measured: u64,
    lateness: Latencies,
    service: Latencies,
    response: Latencies,
    outcomes: BTreeMap<i32, u64>,
    pushed_back: u64,
}

/// The flags in the order in which they are counted, with their names.
const FLAGS: [(Flags, &str); 5] = [
    (Flags::SYNC, "sync"),
    (Flags::FUA, "fua"),
    (Flags::PREFLUSH, "preflush"),
    (Flags::META, "meta"),
    (Flags::READAHEAD, "readahead"),
];

impl TraceSummary {
    /// Adds the requests of a batch, which follow those before in time.
    pub fn observe(&mut self, batch: &Batch) {
        for request in batch.iter() {
            self.add(&request);
        }
    }

    fn add(&mut self, request: &Request) {
        let Request { issue, op, flags, offset, length, volume, .. } = *request;
        let count = &mut self.ops[usize::from(op.code())];
        count.requests += 1;
        count.bytes = count.bytes.saturating_add(length.0);
        self.bytes += u128::from(length.0);
        if !flags.is_empty() {
            for (counter, (flag, _)) in self.flags.iter_mut().zip(FLAGS) {
                *counter += u64::from(flags.contains(flag));
            }
        }
        self.first = Some(self.first.map_or(issue, |first| first.min(issue)));
        self.last = self.last.max(issue);
        if op != Op::Flush && !op.is_of_files() {
            self.count_size(length.0);
            self.aligned_4k += u64::from((offset.0 | length.0).is_multiple_of(4096));
        }
        let volume = self.volumes.entry(volume).or_default();
        volume.requests += 1;
        volume.extent = volume.extent.max(request.end());
        // Bytes that move, as in the mean rate: a discard of gigabytes moves none.
        let moved = if matches!(op, Op::Read | Op::Write) { length.0 } else { 0 };
        self.seconds.add(issue, moved);
        if let Some(latency) = request.latency {
            self.count_latency(issue, latency);
        }
        if let Some(measured) = request.measured {
            self.measured += 1;
            self.pushed_back += u64::from(measured.pushed_back);
            *self.outcomes.entry(measured.outcome.code()).or_default() += 1;
            measured.lateness().inspect(|span| self.lateness.record(*span));
            // A quick error is not a quick answer.
            if measured.outcome == Outcome::Ok {
                measured.service_time().inspect(|span| self.service.record(*span));
                measured.response_time().inspect(|span| self.response.record(*span));
            }
        }
    }

    fn count_size(&mut self, length: u64) {
        if let Some(count) = self.sizes.get_mut(&length) {
            *count += 1;
        } else if self.sizes.len() < SIZES_MAX {
            self.sizes.insert(length, 1);
        } else {
            self.sizes_uncounted += 1;
        }
    }

    fn count_latency(&mut self, issue: Nanos, latency: Nanos) {
        self.latency.record(latency);
        self.busy_ns += i128::from(latency.0);
        let completion = issue.saturating_add(latency);
        self.last_completion = self.last_completion.max(completion);
        while self.completions.peek().is_some_and(|Reverse(done)| *done <= issue.0) {
            self.completions.pop();
        }
        if self.completions.len() < IN_FLIGHT_MAX {
            self.completions.push(Reverse(completion.0));
        } else {
            self.in_flight_uncounted += 1;
        }
        self.in_flight_max = self.in_flight_max.max(self.completions.len() as u64);
    }

    /// The figures.
    pub fn figures(&self) -> TraceFigures {
        let op = |op: Op| self.ops[usize::from(op.code())];
        let requests: u64 = self.ops.iter().map(|count| count.requests).sum();
        let sum = |one: Op, other: Op| op(one).bytes.saturating_add(op(other).bytes);
        let first = self.first.unwrap_or_default();
        let duration = self.last.saturating_sub(first);
        let per_second = |count: u64| {
            if duration.0 > 0 { count as f64 / duration.as_secs_f64() } else { 0.0 }
        };
        let mut sizes: Vec<SizeCount> = self
            .sizes
            .iter()
            .map(|(length, requests)| SizeCount { length: Bytes(*length), requests: *requests })
            .collect();
        sizes.sort_by_key(|size| (Reverse(size.requests), size.length));
        let of_files = || Op::ALL.into_iter().filter(|op| op.is_of_files());
        let on_files: u64 = of_files().map(|it| op(it).requests).sum();
        let with_range = requests - op(Op::Flush).requests - on_files;
        let busy_span = self.last_completion.saturating_sub(first);
        TraceFigures {
            requests,
            reads: op(Op::Read).requests,
            writes: op(Op::Write).requests,
            flushes: op(Op::Flush).requests,
            discards: op(Op::Discard).requests,
            write_zeroes: op(Op::WriteZeroes).requests,
            zone_operations: op(Op::Zone).requests,
            file_operations: of_files()
                .map(|it| (it.name(), op(it).requests))
                .filter(|(_, requests)| *requests > 0)
                .collect(),
            bytes_read: op(Op::Read).bytes,
            bytes_written: op(Op::Write).bytes,
            bytes_discarded: sum(Op::Discard, Op::WriteZeroes),
            first_issue_ns: first.0,
            duration_ns: duration.0,
            mean_requests_per_s: per_second(requests),
            mean_bytes_per_s: per_second(sum(Op::Read, Op::Write)),
            peak: self.seconds.peak,
            length_min: self.sizes.keys().next().copied().map(Bytes),
            length_max: self.sizes.keys().next_back().copied().map(Bytes),
            length_mean: (with_range > 0).then(|| self.bytes as f64 / with_range as f64),
            aligned_4k_share: if with_range > 0 {
                self.aligned_4k as f64 / with_range as f64
            } else {
                0.0
            },
            sizes,
            sizes_uncounted: self.sizes_uncounted,
            flags: FLAGS
                .iter()
                .zip(self.flags)
                .filter(|(_, count)| *count > 0)
                .map(|((_, name), count)| ((*name).to_owned(), count))
                .collect(),
            per_volume: self.volumes.iter().map(|(id, count)| (*id, *count)).collect(),
            in_flight_max: (!self.latency.is_empty()).then_some(self.in_flight_max),
            in_flight_uncounted: self.in_flight_uncounted,
            in_flight_mean: (busy_span.0 > 0 && !self.latency.is_empty())
                .then(|| self.busy_ns as f64 / busy_span.0 as f64),
            latency: self.latency.summary(),
            measured: (self.measured > 0).then(|| MeasuredFigures {
                lateness: self.lateness.summary(),
                service_time: self.service.summary(),
                response_time: self.response.summary(),
                pushed_back: self.pushed_back,
                outcomes: self
                    .outcomes
                    .iter()
                    .filter_map(|(code, count)| Some((Outcome::from_code(*code)?.name(), *count)))
                    .collect(),
            }),
        }
    }
}

/// What a trace holds. Field names with their units are those of `ioecho info --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceFigures {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes without data.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Writes of zeroes without data.
    pub write_zeroes: u64,
    /// Zone operations.
    pub zone_operations: u64,
    /// Operations on files, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub file_operations: BTreeMap<&'static str, u64>,
    /// Bytes that reads cover; 2⁶⁴ − 1 stands for more, as in all sums of bytes here.
    pub bytes_read: u64,
    /// Bytes that writes cover.
    pub bytes_written: u64,
    /// Bytes that discards and writes of zeroes cover.
    pub bytes_discarded: u64,
    /// When the first request was issued, from the trace's zero.
    pub first_issue_ns: i64,
    /// From the first issue to the last.
    pub duration_ns: i64,
    /// Requests per second over the whole duration.
    pub mean_requests_per_s: f64,
    /// Bytes read and written per second over the whole duration.
    pub mean_bytes_per_s: f64,
    /// The busiest second and minute.
    pub peak: Peak,
    /// The smallest request, flushes aside.
    pub length_min: Option<Bytes>,
    /// The largest.
    pub length_max: Option<Bytes>,
    /// The mean, in bytes.
    pub length_mean: Option<f64>,
    /// The share of requests whose offset and length are multiples of 4096.
    pub aligned_4k_share: f64,
    /// Sizes by frequency, the most frequent first.
    pub sizes: Vec<SizeCount>,
    /// Requests of sizes beyond the first 4096 different ones.
    pub sizes_uncounted: u64,
    /// How many requests carry which flag.
    pub flags: BTreeMap<String, u64>,
    /// The volumes' parts.
    pub per_volume: Vec<(VolumeId, VolumeCount)>,
    /// Most recorded requests in flight together, where latencies are known; at least so many where
    /// some were not counted.
    pub in_flight_max: Option<u64>,
    /// Requests that met 1,048,576 others in flight, beyond which these are not counted.
    pub in_flight_uncounted: u64,
    /// Their mean over time (Little's law: the sum of latencies over the time they span).
    pub in_flight_mean: Option<f64>,
    /// Recorded latencies.
    pub latency: Option<Summary>,
    /// What a replay measured, where the trace is a result.
    pub measured: Option<MeasuredFigures>,
}

/// The measured part of a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredFigures {
    /// Submitted − scheduled.
    pub lateness: Option<Summary>,
    /// Completed − submitted.
    pub service_time: Option<Summary>,
    /// Completed − scheduled.
    pub response_time: Option<Summary>,
    /// Requests that waited for one that they overlap.
    pub pushed_back: u64,
    /// Requests by outcome.
    pub outcomes: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Columns;

    fn summary(requests: &[Request]) -> TraceFigures {
        let mut batch = Batch::new(Columns { latency: true, ..Columns::default() });
        batch.extend(requests);
        let mut summary = TraceSummary::default();
        summary.observe(&batch);
        summary.figures()
    }

    fn at(ms: i64, op: Op, length: u64, latency_ms: Option<i64>) -> Request {
        let mut request = Request::new(Nanos::from_millis(ms), op, Bytes(4096), Bytes(length));
        request.latency = latency_ms.map(Nanos::from_millis);
        request
    }

    #[test]
    fn counts_mix_sizes_and_rates_of_a_small_trace() {
        let figures = summary(&[
            at(500, Op::Read, 4096, None),
            at(600, Op::Write, 512, None),
            at(1600, Op::Write, 512, None),
            at(2500, Op::Flush, 0, None),
        ]);
        assert_eq!(
            (figures.requests, figures.reads, figures.writes, figures.flushes),
            (4, 1, 2, 1)
        );
        assert_eq!((figures.bytes_read, figures.bytes_written), (4096, 1024));
        assert_eq!(figures.duration_ns, 2_000_000_000);
        let peak = figures.peak;
        assert_eq!((peak.requests_per_s, peak.requests_at_s), (2, 0));
        assert_eq!((peak.bytes_per_s, peak.bytes_at_s), (4608, 0));
        assert_eq!((peak.requests_per_minute, peak.minute_at_s), (4, 0));
        assert!((figures.mean_requests_per_s - 2.0).abs() < 1e-9);
        assert_eq!(figures.sizes[0], SizeCount { length: Bytes(512), requests: 2 });
        assert_eq!(figures.in_flight_max, None);
    }

    #[test]
    fn what_is_in_flight_follows_from_the_latencies() {
        let figures = summary(&[
            at(0, Op::Read, 512, Some(10)),
            at(5, Op::Read, 512, Some(10)),
            at(10, Op::Read, 512, Some(10)),
        ]);
        assert_eq!(figures.in_flight_max, Some(2));
        assert!((figures.in_flight_mean.unwrap() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn no_sum_of_bytes_wraps() {
        let huge = 1 << 63;
        let mut reads = [at(0, Op::Read, huge, None), at(1, Op::Read, huge, None)];
        for read in &mut reads {
            read.offset = Bytes::ZERO;
        }
        let figures = summary(&reads);
        assert_eq!((figures.bytes_read, figures.peak.bytes_per_s), (u64::MAX, u64::MAX));
        assert_eq!(figures.length_mean, Some(2_f64.powi(63)));
    }

    #[test]
    fn more_in_flight_than_are_counted_is_told() {
        let mut summary = TraceSummary::default();
        for _ in 0..=IN_FLIGHT_MAX {
            summary.add(&at(0, Op::Read, 512, Some(10)));
        }
        let figures = summary.figures();
        assert_eq!(figures.in_flight_max, Some(IN_FLIGHT_MAX as u64));
        assert_eq!(figures.in_flight_uncounted, 1);
    }

    #[test]
    fn an_empty_trace_has_no_rates() {
        let figures = summary(&[]);
        assert_eq!((figures.requests, figures.duration_ns), (0, 0));
        assert!(figures.mean_requests_per_s == 0.0 && figures.length_mean.is_none());
    }

    #[test]
    fn the_busiest_minute_is_found_wherever_it_begins() {
        let seconds = (0..300).map(|n| if n < 100 { n * 10 } else { 1000 + (n - 100) / 4 });
        let requests: Vec<_> = seconds.map(|s| at(s * 1000, Op::Read, 512, None)).collect();
        // By hand: from 1000 s on four each second for fifty seconds, before that one each ten.
        assert_eq!(summary(&requests).peak.requests_per_minute, 201);
        assert_eq!(summary(&requests).peak.minute_at_s, 990);
    }
}
