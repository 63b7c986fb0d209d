//! When a device has reached its steady state.
//!
//! A fresh flash device is fast until it must erase, and a cold cache is slow until it is warm:
//! what is measured meanwhile describes neither the start nor the rest. SNIA's Solid State Storage
//! Performance Test Specification calls a device steady once, over a window of five rounds, its
//! figure neither scatters nor drifts; this module is that criterion, and nothing else. It knows
//! nothing of requests: what a round is and which figure is followed, the caller decides.

use serde::{Deserialize, Serialize};

/// How many rounds the window of the criterion has (SNIA PTS 2.0.1, "Steady State Verification").
pub const WINDOW: usize = 5;

/// How much the largest and the smallest round of the window may differ, as a share of their mean.
pub const RANGE_MAX: f64 = 0.20;

/// How much the line of best fit may rise or fall over the window, as a share of the mean.
pub const SLOPE_MAX: f64 = 0.10;

/// The first window of rounds that meets the criterion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// The window's first round, counted from 0. What lies before it is not steady.
    pub first_round: usize,
    /// The mean of the window's rounds.
    pub mean: f64,
    /// Largest less smallest round, divided by the mean.
    pub range_share: f64,
    /// What the line of best fit gains from the first round to the last, divided by the mean;
    /// negative where it falls.
    pub slope_share: f64,
}

/// The first window of [`WINDOW`] rounds within [`RANGE_MAX`] and [`SLOPE_MAX`]; `None` if there is
/// none, or too few rounds. A round that is no finite number breaks every window it lies in.
pub fn pts(rounds: &[f64]) -> Option<Steady> {
    let windows = rounds.windows(WINDOW).enumerate();
    windows
        .map(|(first, window)| figures(first, window))
        .find(|steady| steady.range_share <= RANGE_MAX && steady.slope_share.abs() <= SLOPE_MAX)
}

/// Both figures of a window, whether they meet the criterion or not; not a number where the window
/// holds one that is none.
fn figures(first_round: usize, window: &[f64]) -> Steady {
    let count = window.len() as f64;
    let mean = window.iter().sum::<f64>() / count;
    let highest = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lowest = window.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = (count - 1.0) / 2.0;
    let across = |at: usize| at as f64 - middle;
    let product: f64 = window.iter().enumerate().map(|(at, y)| across(at) * (y - mean)).sum();
    let square: f64 = (0..window.len()).map(|at| across(at) * across(at)).sum();
    let gain = product / square * (count - 1.0);
    // Rounds that are all zero neither scatter nor drift.
    let share = |part: f64| if part == 0.0 { 0.0 } else { part / mean.abs() };
    Steady { first_round, mean, range_share: share(highest - lowest), slope_share: share(gain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_slows_down_is_steady_where_it_has_settled() {
        let rounds = [100.0, 80.0, 60.0, 50.0, 48.0, 50.0, 51.0, 49.0, 50.0];
        let steady = pts(&rounds).unwrap();
        assert_eq!(steady.first_round, 3);
        assert!((steady.mean - 49.6).abs() < 1e-9);
        assert!((steady.range_share - 3.0 / 49.6).abs() < 1e-9);
    }

    #[test]
    fn a_slow_drift_is_not_steady_though_its_range_is_allowed() {
        // By hand: each window rises by 4 around a mean of about 30, more than a tenth of it.
        let rounds: Vec<f64> = (0..6).map(|round| 28.0 + f64::from(round)).collect();
        assert_eq!(pts(&rounds), None);
        let flatter: Vec<f64> = rounds.iter().map(|value| value + 20.0).collect();
        assert_eq!(pts(&flatter).map(|steady| steady.first_round), Some(0));
    }

    #[test]
    fn scatter_beyond_a_fifth_is_not_steady() {
        assert_eq!(pts(&[10.0, 12.5, 10.0, 12.5, 10.0]), None);
        assert!(pts(&[10.0, 12.0, 10.0, 12.0, 10.0]).is_some());
    }

    #[test]
    fn too_few_rounds_and_rounds_that_are_no_numbers_say_nothing() {
        assert_eq!(pts(&[]), None);
        assert_eq!(pts(&[1.0; 4]), None);
        let mut rounds = [1.0; 8];
        rounds[1] = f64::NAN;
        assert_eq!(pts(&rounds).map(|steady| steady.first_round), Some(2));
        rounds[4] = f64::INFINITY;
        assert_eq!(pts(&rounds), None);
        assert_eq!(pts(&[0.0; 5]).map(|steady| steady.first_round), Some(0));
    }
}
