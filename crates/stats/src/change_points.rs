//! Where the level of a series changes.
//!
//! "It was slower in the second half" is a finding only if it exceeds the noise of the series, and
//! the noise of a storage device is neither normal nor independent: single seconds are outliers by
//! a factor of ten, and slow seconds come in succession. So outliers are clamped first; the noise
//! and its autocorrelation are estimated from differences of neighbours, which a change of level
//! hardly affects; then the best division into segments is found by PELT (Killick, Fearnhead,
//! Eckley: "Optimal detection of changepoints with a linear computational cost", 2012) with squared
//! errors and Bayes's information criterion as the price of a change, raised by the share by which
//! lasting noise looks like a change (Lavielle, Moulines 2000).

use std::cmp::Ordering;

/// Fewer values in a row than this are no level.
pub const SEGMENT_MIN: usize = 5;

/// Longer series are cut into so many blocks, of which the medians are looked at.
const VALUES_MAX: usize = 4096;

/// What a change costs, in units of variance · ln(values). Bayes's criterion has two parameters per
/// change, a level and a place; the third keeps false alarms rare with noise estimated.
const PRICE: f64 = 4.0;

/// How far from the median of its neighbours a value may lie, in standard deviations.
const OUTLYING: f64 = 4.0;

/// How many values that median is taken of.
const NEIGHBOURS: usize = 7;

/// The median of absolute values of a normal distribution, in standard deviations.
const NORMAL_MEDIAN: f64 = 0.674_5;

/// Where a new level begins: indices of the first value of each, rising, without the beginning of
/// the series. Values that are no finite number count as the value before them. Of series longer
/// than 4096 values the places are exact to a block, 1/4096 of the series.
pub fn change_points(values: &[f64]) -> Vec<usize> {
    let block = values.len().div_ceil(VALUES_MAX).max(1);
    let known = without_gaps(values);
    let values: Vec<f64> = known.chunks(block).map(median).collect();
    if values.len() < 2 * SEGMENT_MIN {
        return Vec::new();
    }
    let noise = Noise::of(&values);
    if noise.variance <= 0.0 {
        return Vec::new();
    }
    let tamed = tame(&values, noise.variance.sqrt());
    let price = PRICE * (values.len() as f64).ln() * noise.variance * noise.lasting;
    segments(&tamed, price).into_iter().map(|at| at * block).collect()
}

fn without_gaps(values: &[f64]) -> Vec<f64> {
    let mut last = values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
    let known = values.iter().map(|value| {
        if value.is_finite() {
            // Squares of what is larger are infinite.
            last = value.clamp(-1e100, 1e100);
        }
        last
    });
    known.collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        return 0.0;
    }
    *sorted.select_nth_unstable_by(middle, |a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal)).1
}

/// How a series scatters around its level.
#[derive(Clone, Copy, Debug)]
struct Noise {
    variance: f64,
    /// By how much the variance of a sum exceeds that of a sum of independent values.
    lasting: f64,
}

impl Noise {
    /// By differences of neighbours: of noise of the first order with correlation r, those at
    /// distance 1 have the variance 2 v (1 − r), those at distance 2 have 2 v (1 − r²). Medians
    /// hardly notice the few differences that lie across a change of level.
    fn of(values: &[f64]) -> Self {
        let (near, far) = (typical(values, 1), typical(values, 2));
        if near <= 0.0 {
            // Most values are equal: what differs are changes and outliers.
            return Self { variance: mean_square(values), lasting: 1.0 };
        }
        let correlation = (far / near - 1.0).clamp(0.0, 0.9);
        Self {
            variance: near / (2.0 * (1.0 - correlation)),
            lasting: (1.0 + correlation) / (1.0 - correlation),
        }
    }
}

/// The variance of differences at a distance, by their median.
fn typical(values: &[f64], distance: usize) -> f64 {
    let differences: Vec<f64> =
        values.iter().zip(&values[distance..]).map(|(a, b)| (b - a).abs()).collect();
    let deviation = median(&differences) / NORMAL_MEDIAN;
    deviation * deviation
}

/// Half the mean square of differences of neighbours.
fn mean_square(values: &[f64]) -> f64 {
    let squares = values.windows(2).map(|pair| (pair[1] - pair[0]) * (pair[1] - pair[0]));
    squares.sum::<f64>() / (2 * values.len()) as f64
}

/// Pulls in single values that stick out of their neighbours; a change of level stays.
fn tame(values: &[f64], deviation: f64) -> Vec<f64> {
    let reach = NEIGHBOURS / 2;
    let around = |at: usize| &values[at.saturating_sub(reach)..(at + reach + 1).min(values.len())];
    let tamed = values.iter().enumerate().map(|(at, value)| {
        let middle = median(around(at));
        value.clamp(middle - OUTLYING * deviation, middle + OUTLYING * deviation)
    });
    tamed.collect()
}

/// The division with the least sum of squared errors and prices, by PELT.
fn segments(values: &[f64], price: f64) -> Vec<usize> {
    // Sums around the median, so that a small change of a large level is not rounded away.
    let level = median(values);
    let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
    for value in values {
        let value = value - level;
        sums.push(sums[sums.len() - 1] + value);
        squares.push(squares[squares.len() - 1] + value * value);
    }
    let cost = |from: usize, to: usize| {
        let sum: f64 = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64).max(0.0)
    };
    let count = values.len();
    let mut best = vec![f64::INFINITY; count + 1];
    let mut before = vec![0; count + 1];
    best[0] = -price;
    let mut open: Vec<usize> = Vec::new();
    for to in SEGMENT_MIN..=count {
        open.push(to - SEGMENT_MIN);
        for from in &open {
            let total = best[*from] + cost(*from, to) + price;
            if total < best[to] {
                best[to] = total;
                before[to] = *from;
            }
        }
        // A candidate that cannot beat the best now never will.
        let limit = best[to];
        open.retain(|from| best[*from] + cost(*from, to) <= limit);
    }
    let mut changes = Vec::new();
    let mut at = before[count];
    while at > 0 {
        changes.push(at);
        at = before[at];
    }
    changes.reverse();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Noise of about unit variance, from a seed (splitmix64, sum of twelve).
    fn noise(seed: u64, count: usize, correlation: f64) -> Vec<f64> {
        let mut state = seed;
        let mut uniform = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut last = 0.0;
        let fresh = (1.0 - correlation * correlation).sqrt();
        (0..count)
            .map(|_| {
                let normal: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                last = correlation * last + fresh * normal;
                last
            })
            .collect()
    }

    #[test]
    fn a_change_of_two_deviations_is_found_to_a_few_values() {
        for seed in 0..20 {
            let mut values = noise(seed, 300, 0.0);
            for value in &mut values[120..] {
                *value += 2.0;
            }
            let changes = change_points(&values);
            assert_eq!(changes.len(), 1, "seed {seed}: {changes:?}");
            assert!(changes[0].abs_diff(120) <= 5, "seed {seed}: {changes:?}");
        }
    }

    #[test]
    fn noise_alone_changes_in_less_than_five_of_a_hundred() {
        for correlation in [0.0, 0.5] {
            let alarms = (0..200)
                .filter(|seed| !change_points(&noise(*seed, 200, correlation)).is_empty())
                .count();
            assert!(alarms <= 10, "{alarms} of 200 at correlation {correlation}");
        }
    }

    #[test]
    fn single_values_that_stick_out_are_no_change() {
        let mut values = noise(7, 200, 0.0);
        for at in [30, 31, 90, 150] {
            values[at] = 500.0;
        }
        assert_eq!(change_points(&values), Vec::<usize>::new());
    }

    #[test]
    fn a_step_without_noise_is_found_and_a_constant_is_none() {
        let step: Vec<f64> = (0..40).map(|at| if at < 15 { 1.0 } else { 9.0 }).collect();
        assert_eq!(change_points(&step), [15]);
        assert_eq!(change_points(&[3.0; 100]), Vec::<usize>::new());
        assert_eq!(change_points(&[]), Vec::<usize>::new());
    }

    #[test]
    fn a_long_series_is_found_in_to_a_block() {
        let mut values = noise(3, 100_000, 0.0);
        for value in &mut values[50_000..] {
            *value += 3.0;
        }
        let changes = change_points(&values);
        assert_eq!(changes.len(), 1);
        assert!(changes[0].abs_diff(50_000) <= 100, "{changes:?}");
    }

    proptest! {
        #[test]
        fn any_numbers_at_all_are_answered(
            values in proptest::collection::vec(proptest::num::f64::ANY, 0..80),
        ) {
            let changes = change_points(&values);
            prop_assert!(changes.is_sorted());
            prop_assert!(changes.iter().all(|at| *at > 0 && *at < values.len()));
        }
    }
}
