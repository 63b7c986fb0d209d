//! When requests come: rate, gaps, and burstiness at every scale of time.
//!
//! The variation of the gaps, the index of dispersion and the Hurst parameter are those of
//! [`analysis::arrivals`](crate::analysis::arrivals), over all volumes as one: a generated load is
//! one stream. To generate arrivals of the same burstiness takes more, the biases of a cascade
//! (`ioecho_trace::generate`): where n requests are dealt to two halves with the probabilities b
//! and 1 − b, the sum of n (n − 1) over the spans falls by exactly b² + (1 − b)² on average. So
//! that sum is counted in spans of 2^k nanoseconds from a microsecond to thirteen days, all in one
//! pass: when a span ends its count goes to the span twice as long. The longest scales, of which
//! there are only a few whole spans, are taken from a profile of the trace in a few thousand parts.

use ioecho_trace::log_linear::{Histogram, least};
use serde::Serialize;

use crate::analysis::arrivals::{Arrivals as Counted, Dispersion, hurst};
use crate::count::grid::Grid;

/// The shortest span is 2 to this power in nanoseconds, a microsecond.
const FINEST: usize = 10;

/// How many scales there are: up to 2^50 ns, thirteen days.
const SCALES: usize = 41;

/// How many parts the profile has at most.
const PARTS: usize = 4096;

/// Gaps are told apart to a 2^4th.
pub(super) const GAP_BITS: u32 = 4;

/// Counts per second up to 8192 have a bin of their own each, beyond they are exact to 0.03 %.
const SECOND_BITS: u32 = 12;

/// From so few pairs of requests no bias is estimated.
const PAIRS_MIN: f64 = 200.0;

/// How many halvings of the whole are taken from the profile.
const HALVINGS_OF_PROFILE: usize = 7;

/// Counts of a scale.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    /// Requests of the span that is under way, so far as finer spans have ended.
    open: u64,
    /// The sum of n (n − 1) over all that have ended.
    pairs: u128,
}

/// Counts arrivals.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    first: Option<i64>,
    /// From the first request.
    last: u64,
    requests: u64,
    /// Gaps and counts from the first request on, of all volumes as one.
    counted: Counted,
    scales: Vec<Scale>,
    /// Requests in parts of equal length, at first of that of the shortest span.
    profile: Grid<u64, PARTS, true>,
    gaps: Histogram<GAP_BITS>,
    second: u64,
    in_second: u64,
    /// Requests in each second.
    seconds: Histogram<SECOND_BITS>,
    peak_second: u64,
}

impl Arrivals {
    /// Adds a request that is issued at this instant, not before the one before.
    pub fn add(&mut self, issue_ns: i64) {
        let first = *self.first.get_or_insert(issue_ns);
        let now = issue_ns.saturating_sub(first).max(0) as u64;
        if self.scales.is_empty() {
            self.scales = vec![Scale::default(); SCALES];
        } else {
            let gap = now.saturating_sub(self.last);
            self.gaps.record(gap);
            let changed = 64 - (now ^ self.last).leading_zeros() as usize;
            close(&mut self.scales, changed.saturating_sub(FINEST));
        }
        self.counted.add_at(now as i64);
        self.scales[0].open += 1;
        self.last = self.last.max(now);
        self.requests += 1;
        *self.profile.at(now >> FINEST) += 1;
        let second = now / 1_000_000_000;
        if second != self.second {
            self.end_second();
            // Seconds without a request.
            self.seconds.add(0, second - self.second - 1);
            self.second = second;
        }
        self.in_second += 1;
    }

    fn end_second(&mut self) {
        self.seconds.record(self.in_second);
        self.peak_second = self.peak_second.max(self.in_second);
        self.in_second = 0;
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The figures.
    pub fn figures(&self) -> ArrivalFigures {
        let mut done = self.clone();
        close(&mut done.scales, SCALES);
        done.end_second();
        let span_ns = self.last;
        let mean_gap = span_ns as f64 / self.requests.saturating_sub(1).max(1) as f64;
        let dispersions = self.counted.dispersions();
        let hurst = hurst(&dispersions);
        let gap_variation = self.counted.figures().gap_variation.unwrap_or(0.0);
        let biases = done.biases();
        let of_seconds =
            |share| done.seconds.at(share).map_or(0, |(bin, ..)| least::<SECOND_BITS>(bin));
        let kind = Kind::of(self.requests, gap_variation, &dispersions, hurst);
        ArrivalFigures {
            kind,
            span_ns,
            rate_per_s: if span_ns > 0 { 1e9 / mean_gap } else { 0.0 },
            gap_variation,
            hurst,
            peak_second: done.peak_second,
            second_p50: of_seconds(0.5),
            second_p99: of_seconds(0.99),
            dispersions,
            biases,
            gaps: self.gaps.clone(),
        }
    }

    /// The biases of the cascade over the trace's whole span, the longest scale first, to where
    /// there are too few pairs of requests to tell.
    fn biases(&self) -> Vec<f64> {
        let span = self.last as f64;
        if self.requests < 2 || span <= 0.0 {
            return Vec::new();
        }
        let profile: Vec<f64> = (0..=HALVINGS_OF_PROFILE).map(|k| self.profile_pairs(k)).collect();
        let mut biases = Vec::new();
        for halving in 0..40 {
            let (whole, halves) = if halving < HALVINGS_OF_PROFILE {
                (profile[halving], profile[halving + 1])
            } else {
                // The scale whose length is nearest to that of a part.
                let length = span / 2_f64.powi(halving as i32);
                let Some(scale) = (length.log2().round() as usize).checked_sub(FINEST) else {
                    break;
                };
                let Some(pair) = scale.checked_sub(1).zip(self.scales.get(scale)) else { break };
                (pair.1.pairs as f64, self.scales[pair.0].pairs as f64)
            };
            if whole < PAIRS_MIN {
                break;
            }
            let concentration = (halves / whole).clamp(0.5, 1.0);
            biases.push(f64::midpoint(1.0, (2.0 * concentration - 1.0).sqrt()));
        }
        biases
    }

    /// The sum of n (n − 1) over 2^k parts of the whole, by the profile; a part of the profile that
    /// two share is divided between them.
    fn profile_pairs(&self, k: usize) -> f64 {
        let parts = 1_usize << k;
        let width = (self.last + 1) as f64 / parts as f64;
        let mut counts = vec![0.0; parts];
        let part_ns = 2_f64.powi((FINEST as u32 + self.profile.shift()) as i32);
        for (at, requests) in self.profile.cells().iter().enumerate() {
            let from = at as f64 * part_ns;
            let to = (from + part_ns).min((self.last + 1) as f64);
            let mut begin = from;
            while begin < to {
                let part = ((begin / width) as usize).min(parts - 1);
                let end = if part == parts - 1 { to } else { to.min((part + 1) as f64 * width) };
                counts[part] += *requests as f64 * (end - begin) / (to - from);
                if end <= begin {
                    break;
                }
                begin = end;
            }
        }
        counts.iter().map(|n| n * (n - 1.0).max(0.0)).sum()
    }
}

/// Ends the spans of the first `count` scales.
fn close(scales: &mut [Scale], count: usize) {
    let count = count.min(scales.len());
    let mut carried = 0;
    for (at, scale) in scales.iter_mut().enumerate() {
        scale.open += carried;
        if at >= count {
            break;
        }
        carried = scale.open;
        scale.pairs += u128::from(scale.open) * u128::from(scale.open.saturating_sub(1));
        scale.open = 0;
    }
}

/// How requests come, as one of the processes that are usually assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// At nearly equal distances.
    Constant,
    /// Independently of each other.
    Poisson,
    /// In bursts of a typical length: dispersion does not grow beyond some scale.
    OnOff,
    /// In bursts at every scale: dispersion still grows at the longest.
    SelfSimilar,
}

impl Kind {
    fn of(requests: u64, variation: f64, dispersions: &[Dispersion], hurst: Option<f64>) -> Self {
        if requests < 3 || variation < 0.1 {
            return Self::Constant;
        }
        // Of a Poisson process the index is 1, give or take √(2 / spans) ≤ 0.36. A trace too short
        // for any scale is judged by its gaps: where they are independent, the index tends to the
        // square of their variation (Cox, Lewis: "The statistical analysis of series of events",
        // 1966).
        let worst = dispersions.iter().map(|one| one.index).reduce(f64::max);
        let worst = worst.unwrap_or(variation * variation);
        if worst < 2.0 {
            return Self::Poisson;
        }
        let count = dispersions.len();
        // Over three octaves a Hurst parameter of 0.6 makes it grow by half.
        let grows = count >= 4 && dispersions[count - 1].index > dispersions[count - 4].index * 1.5;
        // The longest scales have few spans; what only they show is chance.
        let grows = grows && hurst.is_none_or(|hurst| hurst >= 0.6);
        if grows { Self::SelfSimilar } else { Self::OnOff }
    }

    /// The kind in words.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Constant => "constant: at nearly equal distances",
            Self::Poisson => "Poisson: independent of each other",
            Self::OnOff => "on-off: bursts up to a scale beyond which they even out",
            Self::SelfSimilar => "self-similar: bursts at every scale up to the longest",
        }
    }
}

/// When requests come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivalFigures {
    /// The process that it resembles.
    pub kind: Kind,
    /// From the first request to the last.
    pub span_ns: u64,
    /// Requests per second over that span.
    pub rate_per_s: f64,
    /// Standard deviation of the gaps over their mean: 1 for a Poisson process.
    pub gap_variation: f64,
    /// The Hurst parameter by the variance of counts, where the trace is long enough.
    pub hurst: Option<f64>,
    /// Most requests in one second; seconds begin at the first request.
    pub peak_second: u64,
    /// The median of the requests per second; exact up to 4096, beyond to 0.03 %.
    pub second_p50: u64,
    /// Their 99th percentile.
    pub second_p99: u64,
    /// Burstiness by scale, the finest first.
    pub dispersions: Vec<Dispersion>,
    /// The biases of the cascade with the same burstiness, the longest scale first.
    pub biases: Vec<f64>,
    /// Gaps by class, for comparison.
    #[serde(skip)]
    pub(super) gaps: Histogram<GAP_BITS>,
}

impl ArrivalFigures {
    /// The index of dispersion at the scale that is nearest to this span, where there is one.
    pub fn dispersion_at(&self, span_ns: u64) -> Option<f64> {
        let power = (span_ns as f64).log2().round() as u32;
        self.dispersions.iter().find(|one| one.span_ns == 1 << power).map(|one| one.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_of_every_scale_are_those_of_a_direct_count(
            mut instants in proptest::collection::vec(0_i64..1 << 24, 2..300),
        ) {
            instants.sort_unstable();
            let mut arrivals = Arrivals::default();
            for instant in &instants {
                arrivals.add(*instant);
            }
            close(&mut arrivals.scales, SCALES);
            for scale in [0, 3, 8, 14, 20] {
                let mut counts = std::collections::BTreeMap::<i64, u128>::new();
                for instant in &instants {
                    let span = (instant - instants[0]) >> (scale + FINEST);
                    *counts.entry(span).or_default() += 1;
                }
                let pairs: u128 = counts.values().map(|n| n * (n - 1)).sum();
                prop_assert_eq!(arrivals.scales[scale].pairs, pairs);
            }
        }
    }

    #[test]
    fn seconds_without_a_request_count() {
        let mut arrivals = Arrivals::default();
        for instant in [5, 6, 7, 9_000_000_005] {
            arrivals.add(instant);
        }
        let figures = arrivals.figures();
        assert_eq!((figures.peak_second, figures.second_p50, figures.second_p99), (3, 0, 3));
        assert!((figures.rate_per_s - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_and_a_single_request_have_no_rate() {
        assert!(Arrivals::default().figures().rate_per_s == 0.0);
        let mut arrivals = Arrivals::default();
        arrivals.add(i64::MIN);
        arrivals.add(i64::MIN);
        let figures = arrivals.figures();
        assert!(figures.rate_per_s == 0.0 && figures.biases.is_empty());
    }
}
