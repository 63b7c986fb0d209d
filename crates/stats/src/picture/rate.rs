//! Demanded and achieved rates.
//!
//! The two end at different instants: an overloaded device goes on for long after the last request
//! was due. Both sums are then equal, and divided by the same time both rates would be, as if the
//! device had kept up. So each is divided by its own time. A bucket that this time covers in part
//! counts for that part, or the last one would read low.

use std::ops::Range;

/// Amounts by bucket of time, and the instant at which they end.
#[derive(Clone, Copy, Debug)]
pub struct Rate<'a> {
    pub(super) amounts: &'a [u64],
    pub(super) width_ns: i64,
    pub(super) end_ns: i64,
}

impl Rate<'_> {
    /// The mean per second over some buckets, or rather over that part of them that lies before the
    /// end; `None` where that is nothing, or too little beside a bucket to be a rate.
    pub fn mean(&self, buckets: Range<usize>) -> Option<f64> {
        let covered = self.covered_ns(&buckets);
        let least = if buckets.start == 0 { 1 } else { self.width_ns / 2 };
        (covered >= least).then(|| self.total(buckets) / (covered as f64 / 1e9))
    }

    /// The rate per second as a point of a line. A window of which less than a half lies before
    /// the end takes in the window before it: one request in the last microsecond is no million
    /// per second.
    pub fn point(&self, buckets: Range<usize>) -> f64 {
        let wide = self.width_ns.saturating_mul(buckets.len() as i64);
        let mut covered = self.covered_ns(&buckets);
        let mut total = self.total(buckets.clone());
        if total > 0.0 && covered < wide / 2 && buckets.start > 0 {
            let before = buckets.start.saturating_sub(buckets.len())..buckets.start;
            covered = covered.saturating_add(self.covered_ns(&before));
            total += self.total(before);
        }
        total / (if covered > 0 { covered } else { wide.max(1) } as f64 / 1e9)
    }

    fn total(&self, buckets: Range<usize>) -> f64 {
        self.amounts[buckets].iter().sum::<u64>() as f64
    }

    /// How much of some buckets lies before the end.
    fn covered_ns(&self, buckets: &Range<usize>) -> i64 {
        let at = |bucket: usize| self.width_ns.saturating_mul(bucket as i64).min(self.end_ns);
        at(buckets.end) - at(buckets.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_mean_counts_the_time_before_the_end_alone() {
        let rate = Rate { amounts: &[10, 10, 5, 0, 0], width_ns: 10 * MS, end_ns: 25 * MS };
        assert_eq!(rate.mean(0..5), Some(1_000.0));
        assert_eq!(rate.mean(1..5), Some(1_000.0));
        assert_eq!(rate.mean(2..3), Some(1_000.0));
        assert_eq!(rate.mean(3..5), None);
    }

    #[test]
    fn a_last_bucket_covered_in_part_reads_as_high_as_the_others() {
        let rate = Rate { amounts: &[10, 10, 6, 0], width_ns: 10 * MS, end_ns: 26 * MS };
        let points = [0..1, 1..2, 2..3, 3..4].map(|window| rate.point(window).round() as u64);
        assert_eq!(points, [1_000, 1_000, 1_000, 0]);
    }

    #[test]
    fn a_request_in_the_last_microsecond_is_no_million_per_second() {
        let rate = Rate { amounts: &[10, 10, 1], width_ns: 10 * MS, end_ns: 20 * MS + 1_000 };
        assert!((rate.point(2..3) - 1_100.0).abs() < 1.0);
        assert_eq!(rate.mean(2..3), None);
        let alone = Rate { amounts: &[1], width_ns: MS, end_ns: 0 };
        assert_eq!((alone.point(0..1), alone.mean(0..1)), (1_000.0, None));
    }
}
