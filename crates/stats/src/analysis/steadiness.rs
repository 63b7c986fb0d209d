//! When the device was steady, and where its service times changed.
//!
//! The manual asks for a run ten times as long as the time to a steady state, so that time must be
//! known. Medians of service times of reads and of writes, round by round, are compared with SNIA's
//! criterion ([`crate::steady`]) and searched for changes of level ([`crate::change_points`]).
//! Medians vary less with the load than means. But they do change with sizes and places, so this
//! shows when the *service times* were steady, for whatever reason. The verdict on a run asks
//! another question: whether the *device* drifted, and so compares only like requests
//! (`load_figures/drift`).
//!
//! Rounds begin with the first request.

use ioecho_trace::log_linear::{Histogram, middle};
use ioecho_trace::{Nanos, Request};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::event::{Event, Group};
use super::shape::{Quantity, Series};
use super::steps::{Cell, Steps};
use crate::change_points::change_points;
use crate::steady::{Steady, pts};

/// Into how many rounds a trace is divided, at least a second each. SNIA's rounds are a minute of
/// an hour and more.
const ROUNDS: i64 = 60;

/// No round is shorter, in nanoseconds.
const ROUND_MIN_NS: i64 = 1_000_000_000;

/// Into how many steps a trace is divided where changes are looked for, at least 100 ms each.
const STEPS: i64 = 600;

/// No step is shorter, in nanoseconds.
const STEP_MIN_NS: i64 = 100_000_000;

/// The finest steps that service times are kept in, and how many there are at most. They begin with
/// the first request, not with the trace's zero: a part of a recording that lies fifty minutes
/// behind its zero is no longer for that.
const FINEST_NS: i64 = 1_000_000;
const KEPT: usize = 2048;

/// Medians are right to 3.2 %: a bin is a 2^4th of its value wide, and its middle stands for it.
const BITS: u32 = 4;

const KINDS: [&str; 2] = ["reads", "writes"];

/// Service times of a bucket of time: of reads and of writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Times([Histogram<BITS>; KINDS.len()]);

impl Cell for Times {
    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

/// Service times over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    times: Steps<Times, KEPT>,
    end: Nanos,
}

impl Default for Steadiness {
    fn default() -> Self {
        Self { times: Steps::new(FINEST_NS), end: Nanos::ZERO }
    }
}

impl Summary for Steadiness {
    fn observe(&mut self, request: &Request) {
        self.add(&Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        self.times.merge(&later.times);
        self.end = self.end.max(later.end);
    }
}

impl Steadiness {
    pub(crate) fn add(&mut self, event: &Event) {
        self.end = self.end.max(Nanos(event.end()));
        let kind = match event.group {
            Group::Read | Group::PushedRead => 0,
            Group::Write | Group::PushedWrite => 1,
            Group::Other | Group::OfFiles(_) => return,
        };
        if let (Some(service), Some(submitted)) = (event.service(), event.submitted) {
            self.times.at(submitted).0[kind].record(service.max(0) as u64);
        }
    }

    /// Medians of service times in steps of at least `at_least` nanoseconds.
    fn medians(&self, kind: usize, at_least: i64) -> Series {
        let width = self.times.step_ns();
        let buckets = (at_least.max(1) as u64).div_ceil(width as u64).max(1) as usize;
        let values = self.times.cells().chunks(buckets).map(|cells| {
            let mut sum = Histogram::default();
            for cell in cells {
                sum.merge(&cell.0[kind]);
            }
            sum.at(0.5).map(|(bin, ..)| middle::<BITS>(bin) as f64)
        });
        Series {
            name: KINDS[kind].to_owned(),
            quantity: Quantity::new("median service time", "ns"),
            start_ns: self.times.start_ns(),
            step_ns: width.saturating_mul(buckets as i64),
            values: values.collect(),
        }
    }

    /// The figures, of reads and writes that have service times.
    pub fn figures(&self) -> SteadyFigures {
        let mut kinds = Vec::new();
        let first = self.times.start_ns();
        let length = self.end.0.saturating_sub(first);
        for (kind, name) in KINDS.into_iter().enumerate() {
            let rounds = self.medians(kind, (length / ROUNDS).max(ROUND_MIN_NS));
            if rounds.values.iter().all(Option::is_none) {
                continue;
            }
            let steps = self.medians(kind, (length / STEPS).max(STEP_MIN_NS));
            let numbers = |series: &Series| -> Vec<f64> {
                series.values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
            };
            // Of latencies the logarithm scatters evenly.
            let logarithms: Vec<f64> = numbers(&steps).iter().map(|ns| ns.max(1.0).ln()).collect();
            let logarithms: Vec<f64> = logarithms
                .iter()
                .zip(&steps.values)
                .map(|(ln, value)| if value.is_some() { *ln } else { f64::NAN })
                .collect();
            let changes = change_points(&logarithms);
            let steady = pts(&numbers(&rounds));
            let start = |series: &Series, step: usize| {
                first.saturating_add(series.step_ns.saturating_mul(step as i64))
            };
            kinds.push(SteadyKind {
                kind: name.to_owned(),
                steady_from_ns: steady.as_ref().map(|steady| start(&rounds, steady.first_round)),
                steady,
                changes_ns: changes.iter().map(|at| start(&steps, *at)).collect(),
                rounds,
                steps,
            });
        }
        let from: Option<Vec<i64>> = kinds.iter().map(|kind| kind.steady_from_ns).collect();
        SteadyFigures { steady_from_ns: from.and_then(|all| all.into_iter().max()), kinds }
    }
}

/// When the device was steady.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SteadyFigures {
    /// From when on service times of reads and of writes met the criterion; `None` where one of
    /// them never did, or none is known.
    pub steady_from_ns: Option<i64>,
    /// Reads and writes, those that have service times.
    pub kinds: Vec<SteadyKind>,
}

/// When service times of a kind were steady.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteadyKind {
    /// `reads` or `writes`.
    pub kind: String,
    /// The start of the first window of five rounds that meets SNIA's criterion, in nanoseconds of
    /// the trace's time.
    pub steady_from_ns: Option<i64>,
    /// The figures of that window.
    pub steady: Option<Steady>,
    /// Where the level of the medians changes.
    pub changes_ns: Vec<i64>,
    /// Median service time of each round.
    pub rounds: Series,
    /// Median service time of each step in which changes are looked for.
    pub steps: Series,
}
