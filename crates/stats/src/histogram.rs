//! Latencies by the hundred million, kept so that any percentile can be asked for later.
//!
//! Sorting them needs all of them in memory, and averaging hides what a user of a storage device
//! feels: the slow ones. A histogram whose bins grow with the value keeps three significant digits
//! of every latency from a nanosecond to an hour in some hundred kilobytes, and two of them add up
//! to exactly the histogram of both.

use hdrhistogram::Histogram;
use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

/// The largest latency that is told apart from larger ones, in nanoseconds: an hour.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// The quantiles of every report: the median and one to four nines.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.999_9];

/// Significant decimal digits that a percentile keeps.
const DIGITS: u8 = 3;

/// Points of a percentile curve per nine (90 %, 99 %, 99.9 %, ...).
const POINTS_PER_NINE: u32 = 40;

/// A mergeable histogram of spans of time.
///
/// Count, mean, minimum and maximum are exact; percentiles are exact to three digits up to
/// [`LONGEST_NS`]. A span below zero (a clock that stepped back, a request issued early) counts as
/// zero and is counted in [`Latencies::negative`] besides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Latencies {
    /// Made on the first record: most kinds of request never occur, and an empty histogram is big.
    bins: Option<Histogram<u64>>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    negative: u64,
}

/// A histogram as it is written down for a merge elsewhere.
#[derive(Serialize, Deserialize)]
struct Written {
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    negative: u64,
    /// The largest value of each bin that is not empty, and its count.
    bins: Vec<(u64, u64)>,
}

impl From<Latencies> for Written {
    fn from(latencies: Latencies) -> Self {
        let Latencies { sum_ns, min_ns, max_ns, negative, .. } = latencies;
        Self { sum_ns, min_ns, max_ns, negative, bins: latencies.filled().collect() }
    }
}

impl From<Written> for Latencies {
    fn from(written: Written) -> Self {
        let Written { sum_ns, min_ns, max_ns, negative, bins: filled } = written;
        let mut bins = (!filled.is_empty()).then(empty);
        for (value, count) in filled {
            if let Some(bins) = &mut bins {
                bins.saturating_record_n(value.min(LONGEST_NS), count);
            }
        }
        Self { bins, sum_ns, min_ns, max_ns, negative }
    }
}

/// What a table says of a histogram. Spans are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many spans there were.
    pub count: u64,
    /// Their exact mean, rounded down.
    pub mean_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The spans at [`QUANTILES`].
    pub quantiles_ns: [u64; QUANTILES.len()],
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one span.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        let ns = u64::try_from(span.0).unwrap_or_else(|_| {
            self.negative += 1;
            0
        });
        let bins = self.bins.get_or_insert_with(empty);
        self.min_ns = if bins.is_empty() { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
        bins.saturating_record(ns.min(LONGEST_NS));
    }

    /// Adds every span of `other`.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.bins else { return };
        self.min_ns = if self.is_empty() { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.negative = self.negative.saturating_add(other.negative);
        let mine = self.bins.get_or_insert_with(empty);
        mine.add(theirs).expect("all histograms of this module have the same range");
    }

    /// How many spans there are.
    pub fn count(&self) -> u64 {
        self.bins.as_ref().map_or(0, Histogram::len)
    }

    /// Every bin that is not empty: the largest value that falls into it, and how many did.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bins = self.bins.iter().flat_map(Histogram::iter_recorded);
        bins.map(|bin| (bin.value_iterated_to(), bin.count_since_last_iteration()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many of them were below zero.
    pub fn negative(&self) -> u64 {
        self.negative
    }

    /// The exact mean, rounded down to the nanosecond; `None` of nothing.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.sum_ns.checked_div(u128::from(self.count()))?;
        Some(nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The shortest span.
    pub fn min(&self) -> Option<Nanos> {
        (!self.is_empty()).then(|| nanos(self.min_ns))
    }

    /// The longest span.
    pub fn max(&self) -> Option<Nanos> {
        (!self.is_empty()).then(|| nanos(self.max_ns))
    }

    /// The span that the share `quantile` (0 to 1) of all spans does not exceed, to three digits;
    /// `None` of nothing. Never outside what was recorded.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let bins = self.bins.as_ref()?;
        let ns = bins.value_at_quantile(quantile.clamp(0.0, 1.0));
        // The bin's upper edge may lie above the longest span, and the last bin holds all above it.
        let ns = if quantile >= 1.0 { self.max_ns } else { ns.clamp(self.min_ns, self.max_ns) };
        Some(nanos(ns))
    }

    /// How many spans are not longer than this, to three digits: a span that shares a bin with it
    /// counts as one.
    pub fn count_until(&self, span: Nanos) -> u64 {
        let Some(bins) = self.bins.as_ref().filter(|_| span >= Nanos::ZERO) else { return 0 };
        bins.count_between(0, (span.0 as u64).min(LONGEST_NS))
    }

    /// The exact sum of all spans, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// What a table says of these spans; `None` of nothing.
    pub fn summary(&self) -> Option<Summary> {
        let at = |quantile| self.quantile(quantile).map_or(0, |ns| ns.0 as u64);
        Some(Summary {
            count: self.count(),
            mean_ns: self.mean()?.0 as u64,
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            quantiles_ns: QUANTILES.map(at),
        })
    }

    /// The percentile curve: pairs of *nines* (`−log10(1 − quantile)`: 1 is 90 %, 2 is 99 %) and
    /// nanoseconds, both rising. It ends at the maximum, drawn where one request of all is slower
    /// or as slow: `log10(count)`.
    pub fn curve(&self) -> Vec<(f64, u64)> {
        let Some(max) = self.max() else { return Vec::new() };
        let last = (self.count() as f64).log10();
        let mut curve: Vec<(f64, u64)> = Vec::new();
        for step in 0_u32.. {
            let nines = f64::from(step) / f64::from(POINTS_PER_NINE);
            if nines >= last {
                break;
            }
            let Some(span) = self.quantile(1.0 - 10_f64.powf(-nines)) else { break };
            curve.push((nines, span.0 as u64));
        }
        curve.push((last, max.0 as u64));
        curve
    }
}

/// An empty histogram of the one range that every histogram here has.
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants and sound")
}

fn nanos(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(spans: &[i64]) -> Latencies {
        let mut latencies = Latencies::new();
        for ns in spans {
            latencies.record(Nanos(*ns));
        }
        latencies
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(
            spans in proptest::collection::vec(-5_i64..10_000_000_000_000, 0..100),
            cut in 0_usize..100,
        ) {
            let cut = cut.min(spans.len());
            let mut merged = of(&spans[..cut]);
            merged.merge(&of(&spans[cut..]));
            prop_assert_eq!(merged, of(&spans));
        }

        #[test]
        fn a_quantile_is_right_to_three_digits(
            mut spans in proptest::collection::vec(0_i64..3_000_000_000_000, 1..100),
            quantile in 0.0..1.0,
        ) {
            let got = of(&spans).quantile(quantile).unwrap().0 as f64;
            spans.sort_unstable();
            let rank = (quantile * spans.len() as f64).ceil().max(1.0) as usize;
            let exact = spans[rank - 1] as f64;
            prop_assert!((got - exact).abs() <= exact / 1000.0 + 1.0, "{got} for {exact}");
        }
    }

    #[test]
    fn nothing_recorded_has_no_mean_and_no_percentile() {
        let none = Latencies::new();
        assert_eq!((none.mean(), none.quantile(0.5), none.max()), (None, None, None));
        assert_eq!(none.summary(), None);
        assert!(none.curve().is_empty());
    }

    #[test]
    fn a_span_below_zero_counts_as_zero_and_is_told() {
        let latencies = of(&[-7, 10]);
        assert_eq!((latencies.negative(), latencies.count()), (1, 2));
        assert_eq!(latencies.min(), Some(Nanos(0)));
    }

    #[test]
    fn a_span_above_an_hour_keeps_its_exact_maximum() {
        let day = 24 * 3_600_000_000_000;
        assert_eq!(of(&[1, day]).max(), Some(Nanos(day)));
        assert_eq!(of(&[1, day]).quantile(1.0), Some(Nanos(day)));
    }

    #[test]
    fn the_count_of_what_is_not_longer_includes_the_edge() {
        let latencies = of(&[0, 1_000, 1_000, 2_000_000]);
        let until = |ns| latencies.count_until(Nanos(ns));
        assert_eq!((until(-1), until(0), until(999), until(1_000)), (0, 1, 1, 3));
        assert_eq!((until(1_999_000_000), until(i64::MAX)), (4, 4));
        assert_eq!(Latencies::new().count_until(Nanos::MAX), 0);
        assert!((latencies.sum_seconds() - 0.002_002).abs() < 1e-12);
    }

    #[test]
    fn the_curve_rises_and_ends_at_the_maximum() {
        let curve = of(&(1..=10_000).collect::<Vec<_>>()).curve();
        assert!(curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert_eq!(curve.last(), Some(&(4.0, 10_000)));
    }
}
