//! A device as a run has met it.
//!
//! A model that a person describes has the properties that the person thought of. The results of a
//! run say how long a real device took, request by request. This model keeps the distribution of
//! these service times by operation, size, whether a request follows another one on the device, and
//! the number in flight at its submission, and draws from it: two requests that are alike in all of
//! these take times that are independent of each other.
//!
//! A class spans a factor of two in flight, and a device that is loaded to its limit takes in
//! proportion to that number. So a service time is moved along the line of least squares of its
//! class.
//!
//! What no request of the run was like is taken from the nearest that some were. Beyond the largest
//! number in flight that was seen, service times grow in proportion to it: by Little's law the
//! device then does no more per second than it did there. A run that did not load the device to its
//! limit therefore makes a device that is slower than the real one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ioecho_trace::log_linear::{Histogram, greatest, least};
use ioecho_trace::units::counted;
use ioecho_trace::{Bytes, Nanos, Op};

use super::Arrival;
use crate::pattern::SplitMix64;

/// Service times are told apart to a 32nd.
const BITS: u32 = 5;

/// A class with fewer requests is drawn from with its neighbours.
const ENOUGH: u64 = 30;

/// Sizes are told apart by powers of two, from 4 KiB to 64 MiB.
const SIZES: u8 = 15;

/// Numbers in flight are told apart by powers of two, up to 2^20.
const DEPTHS: u8 = 21;

/// A request follows another one if it begins where one of so many before it, of its operation,
/// ended.
const STREAMS: usize = 8;

/// Requests that are taken for alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    op: Op,
    /// The power of two of its size, in units of 4 KiB, rounded up.
    size: u8,
    follows: bool,
    /// The power of two of the number in flight, rounded up.
    depth: u8,
}

impl Class {
    fn of(op: Op, length: Bytes, follows: bool, in_flight: u32) -> Self {
        let size = length.0.div_ceil(4096).max(1).next_power_of_two().ilog2() as u8;
        let depth = u64::from(in_flight).max(1).next_power_of_two().ilog2() as u8;
        Self { op, size: size.min(SIZES - 1), follows, depth: depth.min(DEPTHS - 1) }
    }
}

/// Where the last requests of each operation ended.
#[derive(Clone, Debug, Default)]
struct Ends([Streams; Op::ALL.len()]);

#[derive(Clone, Debug, Default)]
struct Streams {
    ends: [u64; STREAMS],
    next: usize,
}

impl Ends {
    /// Whether the request follows another one, which it then is for the next.
    fn follows(&mut self, op: Op, offset: Bytes, length: Bytes) -> bool {
        if length == Bytes::ZERO {
            return false;
        }
        let streams = &mut self.0[op as usize];
        let end = offset.0.saturating_add(length.0);
        if let Some(place) = streams.ends.iter().position(|end| *end == offset.0 && *end > 0) {
            streams.ends[place] = end;
            return true;
        }
        streams.ends[streams.next] = end;
        streams.next = (streams.next + 1) % STREAMS;
        false
    }
}

/// Service times of a class.
#[derive(Clone, Debug, Default)]
struct Counted {
    service: Histogram<BITS>,
    /// The sums of the numbers in flight and of their squares, of the service times, and of the
    /// products of both.
    in_flight: f64,
    in_flight_squares: f64,
    service_ns: f64,
    products: f64,
}

impl Counted {
    fn add(&mut self, other: &Self) {
        self.service.merge(&other.service);
        self.in_flight += other.in_flight;
        self.in_flight_squares += other.in_flight_squares;
        self.service_ns += other.service_ns;
        self.products += other.products;
    }

    /// The mean number in flight, the mean service time in ns, and by how much the latter grows
    /// with each request in flight: the line of least squares, between that of an idle device and
    /// that of one at its limit.
    fn line(&self) -> (f64, f64, f64) {
        let requests = self.service.count().max(1) as f64;
        let (in_flight, service_ns) = (self.in_flight / requests, self.service_ns / requests);
        let variance = self.in_flight_squares / requests - in_flight * in_flight;
        let covariance = self.products / requests - in_flight * service_ns;
        let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
        (in_flight, service_ns, slope.clamp(0.0, service_ns / in_flight.max(1.0)))
    }
}

/// Counts the requests of a run.
#[derive(Clone, Debug, Default)]
pub struct Learning {
    ends: Ends,
    classes: BTreeMap<Class, Counted>,
}

impl Learning {
    /// Counts a request that the device did, in the order of the run: where it was, how many were
    /// in flight when it was submitted, itself included, and how long the device took.
    pub fn observe(
        &mut self,
        op: Op,
        (offset, length): (Bytes, Bytes),
        in_flight: u32,
        service: Nanos,
    ) {
        let follows = self.ends.follows(op, offset, length);
        let counted = self.classes.entry(Class::of(op, length, follows, in_flight)).or_default();
        let service_ns = service.0.max(1) as u64;
        counted.service.record(service_ns);
        let (in_flight, service_ns) = (f64::from(in_flight), service_ns as f64);
        counted.in_flight += in_flight;
        counted.in_flight_squares += in_flight * in_flight;
        counted.service_ns += service_ns;
        counted.products += in_flight * service_ns;
    }

    /// The device, by the name of the run that it was learnt from; `None` if no request was
    /// counted.
    pub fn learnt(self, run: &str) -> Option<Learnt> {
        let deepest = self.classes.keys().map(|class| class.depth).max()?;
        Some(Learnt { run: run.to_owned(), classes: self.classes, deepest })
    }
}

/// The service times of a run, by class.
#[derive(Clone, Debug)]
pub struct Learnt {
    run: String,
    classes: BTreeMap<Class, Counted>,
    deepest: u8,
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests: u64 = self.classes.values().map(|counted| counted.service.count()).sum();
        write!(f, "as learnt from {} of {}", counted(requests, "request"), self.run)
    }
}

impl Learnt {
    /// Whether the run had requests of this operation.
    pub fn has(&self, op: Op) -> bool {
        self.classes.keys().any(|class| class.op == op)
    }

    /// The distribution of the requests that are nearest to this class. A factor of two in size or
    /// in flight is a step, and so is it to follow another request. An operation that the run did
    /// not have takes as long as a write, or else as any other.
    fn nearest(&self, meant: Class) -> Draws {
        let op = [meant.op, Op::Write].into_iter().find(|op| self.has(*op));
        let alike = self.classes.iter().filter(|(class, _)| op.is_none_or(|op| class.op == op));
        let mut near: Vec<_> = alike.collect();
        near.sort_by_key(|(class, _)| {
            class.size.abs_diff(meant.size)
                + class.depth.abs_diff(meant.depth)
                + u8::from(class.follows != meant.follows)
        });
        let mut found = Counted::default();
        for (_, counted) in near {
            found.add(counted);
            if found.service.count() >= ENOUGH {
                break;
            }
        }
        let (in_flight, service_ns, slope) = found.line();
        // Beyond what was seen the device does no more per second.
        let is_deepest = meant.depth >= self.deepest;
        let above = if is_deepest { service_ns / in_flight.max(1.0) } else { slope };
        Draws { in_flight, service_ns, below: slope, above, ..Draws::of(&found) }
    }
}

/// A distribution to draw from.
#[derive(Debug, Default)]
struct Draws {
    /// The bins in use, each with how many requests lie in it and below.
    bins: Vec<(u64, usize)>,
    requests: u64,
    /// The mean number in flight, and the mean service time.
    in_flight: f64,
    service_ns: f64,
    /// By how much the mean grows with each request in flight, below that number and above it.
    below: f64,
    above: f64,
}

impl Draws {
    fn of(counted: &Counted) -> Self {
        let mut requests = 0;
        let bins = counted.service.filled().map(|(bin, count)| {
            requests += count;
            (requests, bin)
        });
        let bins = bins.collect();
        Self { bins, requests, ..Self::default() }
    }

    /// The mean with so many in flight, as a multiple of the mean of the class.
    fn factor(&self, in_flight: u32) -> f64 {
        let more = f64::from(in_flight) - self.in_flight;
        let slope = if more < 0.0 { self.below } else { self.above };
        (1.0 + slope * more / self.service_ns.max(1.0)).max(0.0)
    }

    /// A service time in nanoseconds, evenly from the bin of a request drawn at random.
    fn draw(&self, random: &mut SplitMix64) -> f64 {
        let place = random.below(self.requests.max(1));
        let at = self.bins.partition_point(|(up_to, _)| *up_to <= place);
        let Some((_, bin)) = self.bins.get(at) else { return 1.0 };
        let (from, to) = (least::<BITS>(*bin) as f64, greatest::<BITS>(*bin) as f64);
        from + (to - from) * random.unit()
    }
}

/// The model at work.
#[derive(Debug)]
pub(in crate::sim) struct Drawing {
    learnt: Arc<Learnt>,
    ends: Ends,
    /// The distributions that were asked for so far.
    draws: BTreeMap<Class, Draws>,
}

impl Drawing {
    pub(in crate::sim) fn new(learnt: Arc<Learnt>) -> Self {
        Self { learnt, ends: Ends::default(), draws: BTreeMap::new() }
    }

    pub(super) fn completes_ns(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> i64 {
        let Arrival { io, now_ns, in_flight } = *arrival;
        let follows = self.ends.follows(io.op, io.offset, io.length);
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let class = Class::of(io.op, io.length, follows, in_flight);
        let draws = self.draws.entry(class).or_insert_with(|| self.learnt.nearest(class));
        let service = draws.draw(random) * draws.factor(in_flight);
        now_ns.saturating_add(service as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimSpec;
    use crate::sim::models::{Model, testing};

    /// Learns a device from a closed loop of reads of 4 KiB at each of these depths.
    fn taught(spec: &SimSpec, depths: &[usize]) -> Learnt {
        let mut learning = Learning::default();
        for depth in depths {
            for (now, done) in testing::closed_loop(Model::new(spec), *depth, 4000) {
                let place = (Bytes(now as u64 * 4096), Bytes(4096));
                learning.observe(Op::Read, place, *depth as u32, Nanos(done - now));
            }
        }
        learning.learnt("a run").unwrap()
    }

    #[test]
    fn a_learnt_device_does_as_much_per_second_as_the_one_that_it_was_learnt_from() {
        let spec: SimSpec = "model=exp,units=4,service=1ms,bandwidth=100000G".parse().unwrap();
        let learnt = Arc::new(taught(&spec, &[1, 2, 4, 8, 16]));
        for depth in [1, 4, 16, 64] {
            let learnt = Model::Learnt(Box::new(Drawing::new(learnt.clone())));
            let found = testing::rate_of(learnt, depth, 20_000);
            let expected = testing::closed_loop_rate(&spec, depth, 20_000);
            assert!((found / expected - 1.0).abs() < 0.06, "{depth}: {found}, {expected}");
        }
    }

    #[test]
    fn within_a_class_service_times_follow_the_number_in_flight() {
        // What a run meets that comes to its limit slowly: many requests at the lower end of each
        // class, few at the upper one.
        let spec: SimSpec = "model=const,units=4,service=2ms,bandwidth=400M".parse().unwrap();
        let depths: Vec<_> = (1..=34).flat_map(|depth| vec![depth; 1 + 8 / depth]).collect();
        let learnt = Arc::new(taught(&spec, &depths));
        for depth in [4, 9, 15, 17, 31] {
            let learnt = Model::Learnt(Box::new(Drawing::new(learnt.clone())));
            let found = testing::rate_of(learnt, depth, 20_000);
            let expected = testing::closed_loop_rate(&spec, depth, 20_000);
            assert!((found / expected - 1.0).abs() < 0.08, "{depth}: {found}, {expected}");
        }
    }

    #[test]
    fn what_the_run_did_not_have_is_taken_from_what_is_nearest() {
        let mut learning = Learning::default();
        for (length, service) in [(4096, 100_000), (1 << 20, 3_000_000)] {
            for n in 0..100 {
                let place = (Bytes(n << 30), Bytes(length));
                learning.observe(Op::Write, place, 1, Nanos(service));
            }
        }
        let learnt = learning.learnt("a run").unwrap();
        let mean = |op, length| {
            let draws = learnt.nearest(Class::of(op, Bytes(length), false, 1));
            let mut random = SplitMix64(1);
            (0..100).map(|_| draws.draw(&mut random)).sum::<f64>() / 100.0
        };
        for (op, length, expected) in [
            (Op::Write, 512, 100_000.0),
            (Op::Read, 8192, 100_000.0),
            (Op::Write, 2 << 20, 3_000_000.0),
            (Op::Flush, 0, 100_000.0),
        ] {
            let found = mean(op, length);
            assert!((found / expected - 1.0).abs() < 0.04, "{op:?} {length}: {found}");
        }
        assert!(Learning::default().learnt("a run").is_none());
    }

    #[test]
    fn a_request_follows_where_another_one_of_its_operation_ended() {
        let mut ends = Ends::default();
        let mut follows = |op, offset| ends.follows(op, Bytes(offset), Bytes(4096));
        assert!(!follows(Op::Read, 0));
        assert!(!follows(Op::Write, 4096));
        assert!(!follows(Op::Read, 1 << 20));
        assert!(follows(Op::Read, 4096) && follows(Op::Read, 8192));
        assert!(follows(Op::Read, (1 << 20) + 4096));
        assert!(!follows(Op::Read, 4096));
    }
}
