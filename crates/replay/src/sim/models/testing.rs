//! Loads for the tests of the models.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::{Bytes, Flags, Nanos, Op};

use super::{Arrival, Model};
use crate::device::Io;
use crate::pattern::SplitMix64;
use crate::sim::SimSpec;

/// Enough requests for a mean that is right to a few percent, queues included.
pub(super) const MANY: usize = 400_000;

fn io(op: Op, (offset, length): (u64, u64)) -> Io {
    Io {
        tag: 0,
        request: 0,
        scheduled: Nanos::ZERO,
        op,
        flags: Flags::empty(),
        offset: Bytes(offset),
        length: Bytes(length),
    }
}

/// A model with its random numbers.
struct Fixture {
    model: Model,
    random: SplitMix64,
}

impl Fixture {
    fn new(spec: &SimSpec) -> Self {
        Self { model: Model::new(spec), random: SplitMix64(spec.seed) }
    }

    fn completes(&mut self, io: &Io, now_ns: i64, in_flight: usize) -> i64 {
        self.model.completes_ns(&Arrival { io, now_ns, in_flight }, &mut self.random)
    }

    /// Issues each when the one before is done.
    fn one_by_one(&mut self, op: Op, ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<i64> {
        let mut now = 0;
        let one = |range| {
            let done = self.completes(&io(op, range), now, 1);
            let took = done - now;
            now = done;
            took
        };
        ranges.into_iter().map(one).collect()
    }
}

/// What a single read takes on an idle device, ns.
pub(super) fn alone(spec: &SimSpec, length: u64) -> i64 {
    Fixture::new(spec).completes(&io(Op::Read, (0, length)), 0, 1)
}

/// What each of these reads takes, all issued at once, ns.
pub(super) fn together(spec: &SimSpec, ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<i64> {
    let mut fixture = Fixture::new(spec);
    let one = |(n, range)| fixture.completes(&io(Op::Read, range), 0, n + 1);
    ranges.into_iter().enumerate().map(one).collect()
}

/// What each of these reads takes, one after the other, ns.
pub(super) fn one_by_one(spec: &SimSpec, ranges: impl IntoIterator<Item = (u64, u64)>) -> Vec<i64> {
    Fixture::new(spec).one_by_one(Op::Read, ranges)
}

/// What each of these writes takes, one after the other, ns.
pub(super) fn one_by_one_writes(
    spec: &SimSpec,
    ranges: impl IntoIterator<Item = (u64, u64)>,
) -> Vec<i64> {
    Fixture::new(spec).one_by_one(Op::Write, ranges)
}

/// What a flush takes that follows these writes at once, ns.
pub(super) fn flush_after_writes(
    spec: &SimSpec,
    ranges: impl IntoIterator<Item = (u64, u64)>,
) -> i64 {
    let mut fixture = Fixture::new(spec);
    let now = fixture.one_by_one(Op::Write, ranges).into_iter().sum();
    fixture.completes(&io(Op::Flush, (0, 0)), now, 1) - now
}

/// The mean response time of reads of 4 KiB at random places that arrive at random (Poisson) with
/// this mean gap, ns.
pub(super) fn mean_response_ns(spec: &SimSpec, gap_ns: f64, count: usize) -> f64 {
    let mut fixture = Fixture::new(spec);
    let mut random = SplitMix64(99);
    let mut at = 0.0;
    let mut sum = 0.0;
    for _ in 0..count {
        at += super::exponential_ns(gap_ns, &mut random);
        let offset = random.below(1 << 20) * 4096;
        let done = fixture.completes(&io(Op::Read, (offset, 4096)), at as i64, 1);
        sum += done as f64 - at;
    }
    sum / count as f64
}

/// Requests per second of a closed loop that keeps so many reads in flight.
pub(super) fn closed_loop_rate(spec: &SimSpec, in_flight: usize, count: usize) -> f64 {
    rate_of(Model::new(spec), in_flight, count)
}

/// The same of a model that no text describes.
pub(super) fn rate_of(model: Model, in_flight: usize, count: usize) -> f64 {
    let reads = closed_loop(model, in_flight, count);
    // Measured once the first ones are gone.
    let (since, _) = reads[2 * in_flight];
    let (until, _) = reads[reads.len() - 1];
    (reads.len() - 2 * in_flight - 1) as f64 * 1e9 / (until - since) as f64
}

/// A closed loop that keeps so many reads in flight, and goes on for `count` when each of the first
/// has been replaced: when each read was submitted and when it completed, ns.
pub(super) fn closed_loop(model: Model, in_flight: usize, count: usize) -> Vec<(i64, i64)> {
    let mut fixture = Fixture { model, random: SplitMix64(1) };
    let read = io(Op::Read, (0, 4096));
    let mut reads: Vec<_> =
        (0..in_flight).map(|_| (0, fixture.completes(&read, 0, in_flight))).collect();
    let mut ends: BinaryHeap<Reverse<i64>> = reads.iter().map(|(_, end)| Reverse(*end)).collect();
    for _ in 0..in_flight + count {
        if let Some(Reverse(now)) = ends.pop() {
            let end = fixture.completes(&read, now, in_flight);
            ends.push(Reverse(end));
            reads.push((now, end));
        }
    }
    reads
}
