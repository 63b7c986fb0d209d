//! Latencies by the hundred million, kept so that any percentile can be asked for later.
//!
//! Sorting needs all latencies in memory, and averaging hides the slow ones, which users notice. A
//! histogram whose bins grow with the value ([`log_linear`]) keeps three significant digits of
//! every latency from a nanosecond to centuries, and two of them add up to exactly the histogram of
//! both. A run that is three hours late has percentiles like any other.

use ioecho_trace::Nanos;
use ioecho_trace::log_linear::{self, Histogram};
use serde::{Deserialize, Serialize};

/// The quantiles of every report: the median and one to four nines.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.999_9];

/// Spans that must lie beyond a percentile for it to be more than the maximum by another name.
pub const BEYOND: f64 = 10.0;

/// How many spans it takes to know the percentile at this share, from 0 to 1: as many as leave
/// [`BEYOND`] of them beyond it. The median is that of any number of them.
pub fn needed(share: f64) -> u64 {
    if share <= 0.5 { 1 } else { (BEYOND / (1.0 - share)).round() as u64 }
}

/// Whether so many spans tell the percentile at this share. Whatever shows a percentile goes by it.
pub fn is_known(share: f64, spans: u64) -> bool {
    spans >= needed(share)
}

/// How exact percentiles are that people read: bins are at most a 2^10th of their value wide, which
/// keeps three decimal digits.
pub const THREE_DIGITS: u32 = 10;

/// Points of a percentile curve per nine (90 %, 99 %, 99.9 %, ...).
const POINTS_PER_NINE: u32 = 40;

/// A mergeable histogram of spans of time.
///
/// Count, mean, minimum and maximum are exact; percentiles are exact to a 2^BITS-th, whatever the
/// span. One below zero (a clock that stepped back, a request issued early) counts as zero and is
/// counted in [`Latencies::negative`] besides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Latencies<const BITS: u32 = THREE_DIGITS> {
    bins: Histogram<BITS>,
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

impl<const BITS: u32> From<Latencies<BITS>> for Written {
    fn from(latencies: Latencies<BITS>) -> Self {
        let Latencies { ref bins, sum_ns, min_ns, max_ns, negative } = latencies;
        let bins = bins.filled().map(|(bin, count)| (log_linear::greatest::<BITS>(bin), count));
        Self { sum_ns, min_ns, max_ns, negative, bins: bins.collect() }
    }
}

impl<const BITS: u32> From<Written> for Latencies<BITS> {
    fn from(written: Written) -> Self {
        let Written { sum_ns, min_ns, max_ns, negative, bins: mut filled } = written;
        // ioecho 0.1 counted all spans beyond an hour in the bin of an hour. Their true values are
        // unknown, except that none exceeds the longest; so they count there.
        if let Some((last, _)) = filled.last_mut()
            && *last < max_ns
        {
            *last = max_ns;
        }
        let mut bins = Histogram::default();
        for (value, count) in filled {
            bins.add(log_linear::bin::<BITS>(value), count);
        }
        Self { bins, sum_ns, min_ns, max_ns, negative }
    }
}

/// The figures of a histogram for a table. Spans are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many spans there were.
    pub count: u64,
    /// Their exact mean, rounded down.
    pub mean_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are not longer; this and the next are `None` where there are too few spans to tell
    /// ([`is_known`]).
    pub p90_ns: Option<u64>,
    /// 99 % are not longer.
    pub p99_ns: Option<u64>,
    /// 99.9 % are not longer.
    pub p99_9_ns: Option<u64>,
    /// 99.99 % are not longer.
    pub p99_99_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

impl Summary {
    /// The spans at [`QUANTILES`].
    pub fn quantiles(&self) -> [Option<u64>; QUANTILES.len()] {
        [Some(self.p50_ns), self.p90_ns, self.p99_ns, self.p99_9_ns, self.p99_99_ns]
    }
}

/// Percentiles of a span of time, in nanoseconds; `None` where there are too few spans to tell
/// ([`is_known`]), also where an earlier version told it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, from = "Stored")]
pub struct Percentiles {
    /// How many spans there were.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are not longer.
    pub p90_ns: Option<u64>,
    /// 99 % are not longer.
    pub p99_ns: Option<u64>,
    /// 99.9 % are not longer.
    pub p99_9_ns: Option<u64>,
    /// 99.99 % are not longer.
    pub p99_99_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

/// Percentiles as any version has written them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    count: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p99_9_ns: Option<u64>,
    p99_99_ns: Option<u64>,
    max_ns: u64,
}

impl From<Stored> for Percentiles {
    fn from(stored: Stored) -> Self {
        let Stored { count, mean_ns, p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns, max_ns } = stored;
        let known = |share, ns: Option<u64>| ns.filter(|_| is_known(share, count));
        Self {
            count,
            mean_ns,
            p50_ns,
            p90_ns: known(0.9, p90_ns),
            p99_ns: known(0.99, p99_ns),
            p99_9_ns: known(0.999, p99_9_ns),
            p99_99_ns: known(0.999_9, p99_99_ns),
            max_ns,
        }
    }
}

impl Percentiles {
    /// The percentiles of a histogram; `None` of an empty one.
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let Summary {
            count,
            mean_ns,
            min_ns: _,
            p50_ns,
            p90_ns,
            p99_ns,
            p99_9_ns,
            p99_99_ns,
            max_ns,
        } = latencies.summary()?;
        Some(Self { count, mean_ns, p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns, max_ns })
    }
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<const BITS: u32> Latencies<BITS> {
    /// Adds one span.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        let ns = u64::try_from(span.0).unwrap_or_else(|_| {
            self.negative += 1;
            0
        });
        self.min_ns = if self.is_empty() { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
        self.bins.record(ns);
    }

    /// Adds every span of `other`.
    pub fn merge(&mut self, other: &Self) {
        let Self { bins, sum_ns, min_ns, max_ns, negative } = other;
        if bins.count() == 0 {
            return;
        }
        self.min_ns = if self.is_empty() { *min_ns } else { self.min_ns.min(*min_ns) };
        self.max_ns = self.max_ns.max(*max_ns);
        self.sum_ns = self.sum_ns.saturating_add(*sum_ns);
        self.negative = self.negative.saturating_add(*negative);
        self.bins.merge(bins);
    }

    /// How many spans there are.
    pub fn count(&self) -> u64 {
        self.bins.count()
    }

    /// The bins that are not empty, in order, as numbers of [`log_linear`], and how many spans lie
    /// in each.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.bins.filled()
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

    /// The span that the share `quantile` (0 to 1) of all spans does not exceed: the end of the bin
    /// in which it lies; `None` of nothing. Never outside what was recorded.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let (bin, ..) = self.bins.at(quantile)?;
        let ns = if quantile <= 0.0 { self.min_ns } else { log_linear::greatest::<BITS>(bin) };
        Some(nanos(ns.max(self.min_ns).min(self.max_ns)))
    }

    /// The same, where there are enough spans to tell it ([`is_known`]): what people are shown.
    pub fn known(&self, quantile: f64) -> Option<Nanos> {
        self.quantile(quantile).filter(|_| is_known(quantile, self.count()))
    }

    /// The same interpolated within the bin, in nanoseconds: a figure that varies continuously with
    /// its share, for comparing two of them.
    pub fn interpolated(&self, quantile: f64) -> Option<f64> {
        let (bin, below, here) = self.bins.at(quantile)?;
        let rank = quantile.clamp(0.0, 1.0) * self.count() as f64;
        let (least, next) = edges::<BITS>(bin);
        let share = ((rank - below as f64) / here as f64).clamp(0.0, 1.0);
        Some((least + share * (next - least)).min(self.max_ns as f64))
    }

    /// The span that at least the share `quantile` of all *time* is spent within: each span counts
    /// as much as it is long. What takes a second is met ten thousand times as often as what takes
    /// 100 µs, by whoever looks at any moment. `None` of nothing.
    pub fn time_weighted(&self, quantile: f64) -> Option<Nanos> {
        let middle = |bin| {
            let (least, next) = edges::<BITS>(bin);
            f64::midpoint(least, next).min(self.max_ns as f64)
        };
        let time = |(bin, count): (usize, u64)| middle(bin) * count as f64;
        let wanted = self.filled().map(time).sum::<f64>() * quantile.clamp(0.0, 1.0);
        let mut spent = 0.0;
        let reached = self.filled().find(|bin| {
            spent += time(*bin);
            spent >= wanted
        });
        let (bin, _) = reached.or_else(|| self.filled().last())?;
        Some(nanos(log_linear::greatest::<BITS>(bin).max(self.min_ns).min(self.max_ns)))
    }

    /// How many spans are not longer than this, to a bin: a span that shares a bin with it counts
    /// as one.
    pub fn count_until(&self, span: Nanos) -> u64 {
        let Ok(ns) = u64::try_from(span.0) else { return 0 };
        let last = log_linear::bin::<BITS>(ns);
        let counts = self.filled().take_while(|(bin, _)| *bin <= last);
        counts.fold(0, |sum: u64, (_, count)| sum.saturating_add(count))
    }

    /// The exact sum of all spans, in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The exact sum of all spans, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// What a table says of these spans; `None` of nothing.
    pub fn summary(&self) -> Option<Summary> {
        let at = |quantile| self.known(quantile).map(|ns| ns.0 as u64);
        let [p50, p90_ns, p99_ns, p99_9_ns, p99_99_ns] = QUANTILES.map(at);
        Some(Summary {
            count: self.count(),
            mean_ns: self.mean()?.0 as u64,
            min_ns: self.min_ns,
            p50_ns: p50?,
            p90_ns,
            p99_ns,
            p99_9_ns,
            p99_99_ns,
            max_ns: self.max_ns,
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

/// Where a bin begins and where the next one does, in nanoseconds.
pub fn edges<const BITS: u32>(bin: usize) -> (f64, f64) {
    (log_linear::least::<BITS>(bin) as f64, log_linear::least::<BITS>(bin + 1) as f64)
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
            spans in proptest::collection::vec((0..=i64::MAX, 0_u32..62), 1..100),
            quantile in 0.0..1.0,
        ) {
            let mut spans: Vec<i64> = spans.iter().map(|(ns, shift)| ns >> shift).collect();
            let got = of(&spans).quantile(quantile).unwrap().0 as f64;
            spans.sort_unstable();
            let rank = (quantile * spans.len() as f64).ceil().max(1.0) as usize;
            let exact = spans[rank - 1] as f64;
            prop_assert!((got - exact).abs() <= exact / 1000.0 + 1.0, "{got} for {exact}");
        }

        #[test]
        fn an_interpolated_quantile_is_right_to_a_bin(
            mut spans in proptest::collection::vec(1_000_i64..i64::MAX, 1..80),
            quantile in 0.0..1.0,
        ) {
            let mut coarse = Latencies::<7>::default();
            for ns in &spans {
                coarse.record(Nanos(*ns));
            }
            let got = coarse.interpolated(quantile).unwrap();
            spans.sort_unstable();
            let rank = (quantile * spans.len() as f64).ceil().max(1.0) as usize;
            let exact = spans[rank - 1] as f64;
            prop_assert!((got - exact).abs() <= exact / 128.0 + 1.0, "{got} for {exact}");
        }

        #[test]
        fn what_is_written_down_is_what_is_read(
            spans in proptest::collection::vec(any::<i64>(), 0..40),
        ) {
            let latencies = of(&spans);
            prop_assert_eq!(Latencies::from(Written::from(latencies.clone())), latencies);
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
    fn a_percentile_beyond_which_fewer_than_ten_spans_lie_is_told_nowhere() {
        // Two seconds at 1,200 a second.
        let few = of(&(1..=2_400).collect::<Vec<_>>());
        let told = Percentiles::of(&few).unwrap();
        assert!(told.p50_ns == 1_200 && told.p99_ns.is_some_and(|p99| p99 < told.max_ns));
        assert_eq!((told.p99_9_ns, told.p99_99_ns), (None, None));
        assert_eq!(few.summary().unwrap().quantiles()[3..], [None, None]);
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(needed), [1, 100, 1_000, 10_000]);
        assert!(is_known(0.999, 10_000) && !is_known(0.999, 9_999) && !is_known(0.5, 0));
        // An earlier version told it all the same.
        let old = r#"{"count":2400,"mean_ns":1,"p50_ns":1,"p90_ns":2,"p99_ns":3,"p99_9_ns":4,
            "p99_99_ns":4,"max_ns":4}"#;
        let read: Percentiles = serde_json::from_str(old).unwrap();
        assert_eq!((read.p99_ns, read.p99_9_ns), (Some(3), None));
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Percentiles>(&again).unwrap(), read);
        assert!(again.contains(r#""p99_9_ns":null"#), "{again}");
    }

    #[test]
    fn a_span_below_zero_counts_as_zero_and_is_told() {
        let latencies = of(&[-7, 10]);
        assert_eq!((latencies.negative(), latencies.count()), (1, 2));
        assert_eq!(latencies.min(), Some(Nanos(0)));
    }

    #[test]
    fn hours_and_years_have_percentiles_of_their_own() {
        let hour = 3_600_000_000_000;
        let year = 365 * 24 * hour;
        let late = of(&[hour, 2 * hour, 3 * hour, year, 100 * year]);
        for (quantile, exact) in [(0.2, hour), (0.4, 2 * hour), (0.6, 3 * hour), (0.8, year)] {
            let got = late.quantile(quantile).unwrap().0;
            assert!((exact..=exact + exact / 1_000).contains(&got), "{got} for {exact}");
        }
        assert_eq!(late.quantile(1.0), Some(Nanos(100 * year)));
        assert_eq!(of(&[1, i64::MAX]).quantile(1.0), Some(Nanos::MAX));
        assert_eq!(of(&[i64::MAX; 2]).sum_ns(), 2 * i64::MAX as u128);
    }

    #[test]
    fn what_was_counted_beyond_an_hour_before_is_never_told_as_an_hour() {
        let hour = 3_600_000_000_000_u64;
        // As version 0.1 wrote 1 ns, 2 h and 3 h: the bin of an hour holds both.
        let bins = vec![(1, 1), (3_601_295_474_687, 2)];
        let sum_ns = u128::from(5 * hour + 1);
        let written = Written { sum_ns, min_ns: 1, max_ns: 3 * hour, negative: 0, bins };
        let read = Latencies::<THREE_DIGITS>::from(written);
        assert_eq!(read.quantile(0.3), Some(Nanos(1)));
        assert_eq!(read.quantile(0.6), Some(Nanos(3 * hour as i64)));
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

    #[test]
    fn by_time_a_second_counts_as_much_as_ten_thousand_times_100_us() {
        let mut spans: Latencies = Latencies::new();
        (0..300_000).for_each(|_| spans.record(Nanos::from_micros(100)));
        (0..28).for_each(|_| spans.record(Nanos::from_secs(1)));
        // 30 s in quick ones, 28 s in slow ones.
        assert!(spans.quantile(0.9999).unwrap() < Nanos::from_millis(1));
        assert!(spans.time_weighted(0.5).unwrap() < Nanos::from_millis(1));
        assert_eq!(spans.time_weighted(0.55).unwrap(), Nanos::from_secs(1));
        assert_eq!(Latencies::<10>::new().time_weighted(0.5), None);
    }
}
