//! Both distributions whole: how far apart they are, and where.
//!
//! A table of percentiles shows seven places. The largest distance of the cumulative distributions
//! (Kolmogorov and Smirnov) answers over all of them in one number, and the pairs of quantiles show
//! the shape: a straight line beside the diagonal is a factor, a bend upwards a longer tail. No
//! p-value is given for the distance, because its tables assume independent requests, which these
//! are not.

use serde::Serialize;

use super::judged::{Sides, kinds};
use super::profile::{BITS, Bins};
use super::row::kind_word;
use crate::histogram::edges;
use crate::picture::Span;

/// Points of a curve per nine.
const POINTS_PER_NINE: u32 = 16;

/// A span of one kind of request on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// The span.
    pub span: Span,
    /// The kind of request: `all`, `read`, …
    pub kind: &'static str,
    /// Requests of the baseline and of the other.
    pub requests: [u64; 2],
    /// The largest distance of the cumulative distributions, 0 to 1.
    pub kolmogorov_smirnov: f64,
    /// Where it is, in nanoseconds.
    pub at_ns: f64,
    /// Quantiles of both: nines (−log₁₀ of the share that is slower), the baseline's nanoseconds
    /// and the other's. They end where the smaller side has no request beyond.
    pub quantiles: Vec<(f64, f64, f64)>,
}

/// Service and response time of all requests and of each kind.
pub(super) fn of(sides: Sides<'_>) -> Vec<Distribution> {
    let mut all = Vec::new();
    for span in [Span::Service, Span::Response] {
        for kind in kinds(sides) {
            let both = sides.groups.map(|runs| {
                let mut sum = Bins::default();
                for run in runs {
                    sum.merge(&run.spans(span, kind, None, 0..run.blocks.len()));
                }
                sum
            });
            if both.iter().all(|bins| bins.count() > 0) {
                all.push(distribution(span, kind_word(kind), &both));
            }
        }
    }
    all
}

fn distribution(span: Span, kind: &'static str, both: &[Bins; 2]) -> Distribution {
    let [baseline, other] = both;
    let (distance, at_ns) = distance(baseline, other);
    let last = (baseline.count().min(other.count()) as f64).log10();
    let mut quantiles = Vec::new();
    for step in 0_u32.. {
        let nines = (f64::from(step) / f64::from(POINTS_PER_NINE)).min(last);
        let quantile = 1.0 - 10_f64.powf(-nines);
        if let (Some(a), Some(b)) = (baseline.interpolated(quantile), other.interpolated(quantile))
        {
            quantiles.push((rounded(nines, 1e4), rounded(a, 10.0), rounded(b, 10.0)));
        }
        if nines >= last {
            break;
        }
    }
    Distribution {
        span,
        kind,
        requests: [baseline.count(), other.count()],
        kolmogorov_smirnov: distance,
        at_ns,
        quantiles,
    }
}

fn rounded(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}

/// The largest distance of both cumulative distributions and the end of the bin where it is.
fn distance(one: &Bins, other: &Bins) -> (f64, f64) {
    let (mut ones, mut others) = (one.filled().peekable(), other.filled().peekable());
    let (mut below, mut below_other) = (0, 0);
    let (mut most, mut at) = (0.0, 0.0);
    loop {
        let next = match (ones.peek(), others.peek()) {
            (Some((a, _)), Some((b, _))) => *a.min(b),
            (Some((bin, _)), None) | (None, Some((bin, _))) => *bin,
            (None, None) => break,
        };
        if let Some((_, count)) = ones.next_if(|(bin, _)| *bin == next) {
            below += count;
        }
        if let Some((_, count)) = others.next_if(|(bin, _)| *bin == next) {
            below_other += count;
        }
        let share = |part: u64, bins: &Bins| part as f64 / bins.count().max(1) as f64;
        let apart = (share(below, one) - share(below_other, other)).abs();
        if apart > most {
            (most, at) = (apart, edges::<BITS>(next).1);
        }
    }
    (most, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Nanos;

    fn of(spans: impl Iterator<Item = i64>) -> Bins {
        let mut bins = Bins::default();
        spans.for_each(|ns| bins.record(Nanos(ns)));
        bins
    }

    #[test]
    fn the_distance_is_the_largest_one_and_is_where_it_is_said_to_be() {
        let fast = of((0..100).map(|i| 1_000 + i));
        let half_slow = of((0..100).map(|i| if i % 4 == 0 { 50_000 } else { 1_000 + i }));
        let (apart, at) = distance(&fast, &half_slow);
        assert!((apart - 0.25).abs() < 0.02, "{apart}");
        assert!((1_000.0..50_000.0).contains(&at), "{at}");
        assert_eq!(distance(&fast, &fast), (0.0, 0.0));
        assert_eq!(distance(&Bins::default(), &Bins::default()), (0.0, 0.0));
    }

    #[test]
    fn quantiles_of_a_slower_system_lie_above_by_its_factor() {
        let both = [of((1..10_000).map(|i| i * 100)), of((1..10_000).map(|i| i * 200))];
        let got = distribution(Span::Service, "all", &both);
        assert_eq!(got.quantiles.last().map(|point| point.0), Some(3.9999_f64.max(4.0)));
        assert!(got.quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1 && a.2 <= b.2));
        let (_, a, b) = got.quantiles[20];
        assert!((b / a - 2.0).abs() < 0.03, "{a} {b}");
    }
}
