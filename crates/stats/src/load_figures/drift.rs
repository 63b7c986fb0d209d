//! Whether the device became faster or slower while it ran.
//!
//! A cold cache warms up, a fresh flash device fills up, and the figures of the whole run describe
//! neither before nor after. But a natural load varies by itself: its service times rise with every
//! burst, which is not a drift of the device. So requests are compared only within classes of the
//! same target, kind, size and similar arrival rate, each with its geometric mean over the run. The
//! rest, step by step, is how much slower or faster than usual the device served like requests. The
//! rate is that of the schedule, not the number in flight, because a slow device itself increases
//! that.
//!
//! The effect of positions cannot be removed in this way: a load that moves from a small area to a
//! large one makes a cache colder and seeks longer. That is a drift too, of device and load
//! together, and is reported.

use ioecho_trace::{Measured, Nanos, Op, Request};

use crate::change_points::change_points;
use crate::steady;
use crate::timeline::{Cell, Timeline};
use crate::trend::trend;

/// Rounds that a run is cut into, at most.
const ROUNDS: usize = 60;

/// The least number of rounds with requests: the window of SNIA's criterion, and enough windows
/// before it to show a change.
const ROUNDS_MIN: usize = 4 * steady::WINDOW;

/// Requests in a round, below which its mean is chance.
const REQUESTS_MIN: u64 = 10;

/// A shorter run shows only its own beginning.
const RUN_MIN: Nanos = Nanos::from_secs(1);

/// Logarithms of service times are summed in these parts, so that sums merge exactly.
const PARTS: f64 = 65536.0;

/// From when on service times that were said to have come to rest still rise or fall: Kendall's
/// tau, and by how much. SNIA allows a fifth between the rounds of a window.
const TAU: f64 = 0.5;
const GAIN: f64 = 1.2;

/// Targets that are told apart; the others are one.
const TARGETS: u32 = 16;

/// How long a request counts for the rate: as long as the backlog of a burst lasts before flash,
/// and before disks, in nanoseconds.
const RATES_OF: [f64; 2] = [5e6, 100e6];

/// Rates are told apart up to this power of two.
const RATE_BITS: u32 = 7;

/// This many bytes count like one more request.
const LIKE_A_REQUEST: u64 = 128 << 10;

/// The requests of one class in one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sum {
    class: u32,
    count: u64,
    logarithms: i64,
}

/// Sums by class, in the order of the classes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums(Vec<Sum>);

impl Sums {
    fn add(&mut self, sum: Sum) {
        match self.0.binary_search_by_key(&sum.class, |mine| mine.class) {
            Ok(at) => {
                self.0[at].count += sum.count;
                self.0[at].logarithms = self.0[at].logarithms.saturating_add(sum.logarithms);
            }
            Err(at) => self.0.insert(at, sum),
        }
    }
}

impl Cell for Sums {
    fn merge(&mut self, other: &Self) {
        for sum in &other.0 {
            self.add(*sum);
        }
    }
}

/// Service times by class over the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Drift {
    line: Timeline<Sums>,
    /// The rate of each target. It is not carried over a cut: for a moment after one, requests are
    /// taken for those of a quieter time.
    rates: Vec<Rate>,
}

/// Requests of late, each of which counts less as time goes by.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    at: Nanos,
    requests: [f64; RATES_OF.len()],
}

impl Rate {
    /// Adds a request; answers the class of the rates with it.
    fn add(&mut self, at: Nanos, length: u64) -> u32 {
        let passed = at.saturating_sub(self.at).0.max(0) as f64;
        self.at = self.at.max(at);
        let mut class = 0;
        for (requests, lasts) in self.requests.iter_mut().zip(RATES_OF) {
            *requests *= (-passed / lasts).exp();
            *requests += 1.0 + (length / LIKE_A_REQUEST) as f64;
            let bits = (requests.log2().max(0.0) as u32).min(RATE_BITS);
            class = class * (RATE_BITS + 1) + bits;
        }
        class
    }
}

/// How the device's service times went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// Unknown: the reason.
    Unknown(&'static str),
    /// They ended where they began, whatever was between.
    Settled,
    /// They ended at another level than they began at.
    Unsettled(Unsettled),
}

/// A device that ended at another level than it began at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unsettled {
    /// The last level, divided by the first.
    pub ratio: f64,
    /// When the last level began.
    pub since: Nanos,
    /// When the run ended.
    pub end: Nanos,
}

impl Unsettled {
    /// The share of the run that was over when the last level began.
    pub fn share(&self) -> f64 {
        self.since.0.max(0) as f64 / self.end.0.max(1) as f64
    }
}

/// The class of a request: the requests with which its service time may be compared.
fn class(request: &Request, target: u32, rate: u32) -> u32 {
    let kind = u32::from(request.op == Op::Write);
    let size = match request.length.0 >> 10 {
        0..=4 => 0,
        5..=16 => 1,
        17..=64 => 2,
        65..=256 => 3,
        _ => 4,
    };
    ((target * 2 + kind) * 5 + size) * (RATE_BITS + 1).pow(2) + rate
}

impl Drift {
    pub(super) fn observe(
        &mut self,
        request: &Request,
        measured: &Measured,
        submitted: Nanos,
        service: Nanos,
    ) {
        let target = u32::from(measured.target).min(TARGETS - 1);
        let index = target as usize;
        if index >= self.rates.len() {
            self.rates.resize_with(index + 1, Rate::default);
        }
        let rate = self.rates[index].add(measured.scheduled, request.length.0);
        let logarithm = (service.0.max(1) as f64).ln();
        let logarithms = (logarithm * PARTS) as i64;
        self.line.at(submitted).add(Sum {
            class: class(request, target, rate),
            count: 1,
            logarithms,
        });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.line.merge(&other.line);
    }

    pub(super) fn course(&self) -> Course {
        let buckets = self.line.cells();
        let width = self.line.width().0;
        if buckets.is_empty() {
            return Course::Unknown("no request that moves data was done");
        }
        if width.saturating_mul(buckets.len() as i64) < RUN_MIN.0 {
            return Course::Unknown("a run of less than a second says nothing of the device after");
        }
        let of_round = buckets.len().div_ceil(ROUNDS).max(1);
        let rounds = self.rounds(of_round);
        if rounds.iter().filter(|round| round.is_finite()).count() < ROUNDS_MIN {
            return Course::Unknown("too few requests at any time to tell");
        }
        let begins = change_points(&rounds);
        let (Some(first), Some(last)) = (begins.first(), begins.last()) else {
            return Course::Settled;
        };
        let (Some(before), Some(after)) = (mean(&rounds[..*first]), mean(&rounds[*last..])) else {
            return Course::Settled;
        };
        // The level is reached where its rounds hold SNIA's criterion; in a load of few requests
        // they may scatter too much for that to the end.
        let ratios: Vec<f64> = rounds[*last..].iter().map(|round| round.exp()).collect();
        let settling = steady::pts(&ratios).map_or(0, |steady| steady.first_round);
        let at = |round: usize| Nanos(width.saturating_mul((round * of_round) as i64));
        // A level that rises on and on is none: a window of five rounds of a slow ramp is flat.
        let rest = trend(&rounds[last + settling..]);
        let end = Nanos(width.saturating_mul(buckets.len() as i64));
        let is_flat = rest.is_none_or(|rest| rest.tau.abs() < TAU || rest.gain.abs() < GAIN.ln());
        let reached = if is_flat { last + settling } else { rounds.len() };
        Course::Unsettled(Unsettled {
            ratio: (after - before).exp(),
            since: at(reached).min(end),
            end,
        })
    }

    /// How much slower than their like the requests of each round were, as the natural logarithm of
    /// the ratio; not a number of a round with hardly any.
    fn rounds(&self, of_round: usize) -> Vec<f64> {
        let mut whole = Sums::default();
        for bucket in self.line.cells() {
            whole.merge(bucket);
        }
        let usual = |class: u32| {
            let at = whole.0.binary_search_by_key(&class, |sum| sum.class).ok()?;
            Some(whole.0[at].logarithms as f64 / whole.0[at].count.max(1) as f64)
        };
        let round = |buckets: &[Sums]| {
            let (mut excess, mut count) = (0.0, 0);
            for sum in buckets.iter().flat_map(|bucket| &bucket.0) {
                let Some(usual) = usual(sum.class) else { continue };
                excess += sum.logarithms as f64 - usual * sum.count as f64;
                count += sum.count;
            }
            if count < REQUESTS_MIN { f64::NAN } else { excess / PARTS / count as f64 }
        };
        self.line.cells().chunks(of_round).map(round).collect()
    }
}

/// The mean of those that are numbers.
fn mean(values: &[f64]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values.iter().filter(|value| value.is_finite()) {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}
