//! A figure over several runs of one system under one load.
//!
//! One run shows how latencies vary within it, and not how another run would differ. The median of
//! several runs does not depend on one odd run among them, and its interval needs no assumption on
//! how runs vary: between the k-th lowest and the k-th highest of n values lies the median of their
//! distribution with the probability 1 − 2 · P(B < k), where B is binomial with n and ½ (Conover:
//! *Practical Nonparametric Statistics*, "confidence interval for a quantile").

/// The confidence that is asked for. Fewer than six values cannot give it.
const CONFIDENCE: f64 = 0.95;

/// The median of a figure over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverRuns {
    /// The median of the runs.
    pub median: f64,
    /// Where the interval of the median begins: the lowest value, of many runs a higher one.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// How probable it is that the interval holds the median of all such runs; 0 of one run.
    pub confidence: f64,
}

impl OverRuns {
    /// The figure over these values, one of each run; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len();
        if count == 0 {
            return None;
        }
        let narrowest = (0..count.div_ceil(2)).rfind(|left| holds(count, *left) >= CONFIDENCE);
        let left = narrowest.unwrap_or(0);
        Some(Self {
            median: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
            low: sorted[left],
            high: sorted[count - 1 - left],
            confidence: holds(count, left),
        })
    }
}

/// How probable it is that the median lies within what is left of so many values, when so many are
/// left out on either side.
fn holds(count: usize, left: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for i in 0..=left {
        below += term;
        term *= (count - i) as f64 / (i + 1) as f64;
    }
    (1.0 - 2.0 * below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> (f64, f64, f64, f64) {
        let OverRuns { median, low, high, confidence } = OverRuns::of(values).unwrap();
        (median, low, high, (confidence * 1e4).round() / 1e4)
    }

    #[test]
    fn of_few_runs_the_interval_is_all_of_them_and_its_confidence_is_told() {
        assert_eq!(OverRuns::of(&[]), None);
        assert_eq!(of(&[7.0]), (7.0, 7.0, 7.0, 0.0));
        assert_eq!(of(&[7.0, 5.0]), (6.0, 5.0, 7.0, 0.5));
        assert_eq!(of(&[3.0, 1.0, 2.0, 9.0, 5.0]), (3.0, 1.0, 9.0, 0.9375));
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), (3.5, 1.0, 6.0, 0.9688));
    }

    #[test]
    fn of_many_runs_the_interval_is_the_narrowest_of_that_confidence() {
        // Tables of the sign test: of ten values the second lowest to the second highest hold the
        // median in 97.85 of 100 cases, of twenty the sixth in 95.86.
        let upto = |n: u32| -> Vec<f64> { (1..=n).map(f64::from).collect() };
        assert_eq!(of(&upto(10)), (5.5, 2.0, 9.0, 0.9785));
        assert_eq!(of(&upto(20)), (10.5, 6.0, 15.0, 0.9586));
        let many = OverRuns::of(&upto(1000)).unwrap();
        assert!(many.confidence >= CONFIDENCE && many.high - many.low < 64.0, "{many:?}");
    }
}
