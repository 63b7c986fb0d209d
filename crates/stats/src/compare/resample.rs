//! Resampling of runs and blocks of time.
//!
//! The variation of a figure from run to run cannot be computed from one run by a formula, because
//! neighbouring requests are correlated and a percentile has no simple variance. The bootstrap
//! estimates it from the run itself: it assembles runs from pieces of this one and observes how
//! much the figure changes (Efron: "Bootstrap methods", Annals of Statistics 7, 1979). The pieces
//! are stretches of neighbouring blocks, so that correlations are kept (Künsch: "The jackknife and
//! the bootstrap for general stationary observations", Annals of Statistics 17, 1989), and the last
//! block is followed by the first, so that each is drawn as often (Politis, Romano: "A circular
//! block-resampling procedure for stationary data", 1992).
//!
//! Of `m` stretches `m − 1` are drawn, and of `k` repeated runs `k − 1`: drawing `k` of `k` finds a
//! variance that is too small by (k − 1)/k, half of it with two runs (Rao, Wu: "Resampling
//! inference with complex survey data", JASA 83, 1988).

use std::ops::Range;

use ioecho_trace::generate::random::Random;

/// How often each run of a group and each block was drawn.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    /// Weights of the blocks, by number.
    pub(super) blocks: Vec<u64>,
    /// Weights of the runs.
    pub(super) runs: Vec<u64>,
}

impl Draw {
    /// The blocks of all runs with their weights, numbered run by run, those never drawn aside.
    pub(super) fn chosen(&self, with_runs: bool) -> Vec<(usize, u64)> {
        let count = self.blocks.len();
        let mut chosen = Vec::with_capacity(count);
        for (run, weight) in self.runs.iter().enumerate() {
            let weight = if with_runs { *weight } else { 1 };
            if weight == 0 {
                continue;
            }
            let drawn = self.blocks.iter().enumerate().filter(|(_, times)| **times > 0);
            chosen.extend(drawn.map(|(block, times)| (run * count + block, times * weight)));
        }
        chosen
    }
}

/// How many times longer than a figure's memory a stretch is at least. Stretches of L blocks miss
/// the share (τ − 1/τ)/2L of the variance of a figure whose memory is τ and fades exponentially:
/// what neighbouring stretches have in common. Blocks that remember nothing (τ = 1) miss none.
const MEMORIES: f64 = 4.0;

/// Blocks that are drawn from, in stretches of neighbouring ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Urn {
    /// Which blocks.
    pub(super) blocks: Range<usize>,
    /// How many neighbours are drawn together.
    stretch: usize,
}

impl Urn {
    /// For figures of these blocks that remember so many of them.
    ///
    /// A stretch is as long as the cube root of the number of blocks, the order that minimises the
    /// error of the variance (Hall, Horowitz, Jing: "On blocking rules for the bootstrap with
    /// dependent data", Biometrika 82, 1995), doubled until it is [`MEMORIES`] memories long.
    pub(super) fn new(blocks: Range<usize>, memory: f64) -> Self {
        let mut stretch = ((blocks.len() as f64).cbrt().round() as usize).max(1);
        while (stretch as f64) < MEMORIES * (memory - 1.0 / memory) && stretch < blocks.len() {
            stretch *= 2;
        }
        Self { blocks, stretch }
    }

    /// How many stretches the blocks are.
    pub(super) fn stretches(&self) -> usize {
        self.blocks.len().div_ceil(self.stretch)
    }

    /// Draws blocks; the weights are of all `count` blocks of a run.
    pub(super) fn draw(&self, random: &mut Random, count: usize) -> Vec<u64> {
        let mut weights = vec![0; count];
        let (first, many) = (self.blocks.start, self.blocks.len());
        if many == 0 {
            return weights;
        }
        for _ in 0..self.stretches().saturating_sub(1).max(1) {
            let from = random.below(many as u64) as usize;
            for step in 0..self.stretch {
                weights[first + (from + step) % many] += 1;
            }
        }
        weights
    }
}

/// How many neighbouring blocks say the same: by how much the variance of their mean exceeds that
/// of as many independent ones, 1 + 2 Σρ, with the autocorrelations ρ up to where the sum of two
/// neighbours is no longer above zero (Geyer: "Practical Markov chain Monte Carlo", Statistical
/// Science 7, 1992). At least 1.
pub(super) fn memory(series: &[f64]) -> f64 {
    let count = series.len();
    let mean = series.iter().sum::<f64>() / count.max(1) as f64;
    let covariance = |lag: usize| -> f64 {
        let pairs = series.iter().zip(series.iter().skip(lag));
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let variance = covariance(0);
    // NaN has no memory either.
    if !(variance > 0.0 && variance.is_finite()) {
        return 1.0;
    }
    let pairs = (0..count / 2).map(|pair| covariance(2 * pair) + covariance(2 * pair + 1));
    let sum: f64 = pairs.take_while(|sum| *sum > 0.0).sum();
    (2.0 * sum / variance - 1.0).max(1.0)
}

/// Draws runs.
pub(super) fn runs(random: &mut Random, count: usize) -> Vec<u64> {
    if count < 2 {
        return vec![1; count];
    }
    let mut weights = vec![0; count];
    for _ in 0..count - 1 {
        weights[random.below(count as u64) as usize] += 1;
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_drawn_as_often_as_any_other() {
        let mut random = Random::new(1);
        let mut sum = vec![0_u64; 30];
        for _ in 0..20_000 {
            let drawn = Urn::new(10..30, 1.0).draw(&mut random, 30);
            assert_eq!(drawn.iter().sum::<u64>(), 18);
            sum.iter_mut().zip(drawn).for_each(|(sum, weight)| *sum += weight);
        }
        assert!(sum[..10].iter().all(|weight| *weight == 0));
        let mean = 20_000.0 * 18.0 / 20.0;
        assert!(sum[10..].iter().all(|n| (*n as f64 / mean - 1.0).abs() < 0.03), "{sum:?}");
    }

    #[test]
    fn a_single_run_is_always_there_and_of_two_runs_one_is_drawn() {
        let mut random = Random::new(1);
        assert_eq!(runs(&mut random, 1), [1]);
        let drawn: Vec<_> = (0..100).map(|_| runs(&mut random, 2)).collect();
        assert!(drawn.iter().all(|runs| runs.iter().sum::<u64>() == 1));
        assert!(drawn.contains(&vec![1, 0]) && drawn.contains(&vec![0, 1]));
    }

    #[test]
    fn what_remembers_longer_is_drawn_in_longer_stretches() {
        let mut random = Random::new(2);
        let mut wandering = |memory: f64| {
            let kept = (memory - 1.0) / (memory + 1.0);
            let mut at = 0.0;
            let series = (0..4_000).map(|_| {
                at = kept * at + random.unit() - 0.5;
                at
            });
            series.collect::<Vec<_>>()
        };
        for expected in [1.0, 3.0, 10.0] {
            let found = memory(&wandering(expected));
            assert!((found / expected - 1.0).abs() < 0.35, "{found} for {expected}");
        }
        let stretches = |memory| Urn::new(0..128, memory).stretches();
        assert_eq!([1.0, 2.0, 5.0, 1e9].map(stretches), [26, 13, 7, 1]);
    }

    #[test]
    fn what_never_changes_and_what_is_no_number_have_no_memory() {
        let series: [&[f64]; 4] = [&[], &[1.0], &[2.0; 9], &[f64::NAN; 9]];
        assert!(series.into_iter().all(|series| (memory(series) - 1.0).abs() < 1e-12));
    }

    #[test]
    fn nothing_to_draw_from_draws_nothing() {
        assert_eq!(Urn::new(2..2, 1.0).draw(&mut Random::new(1), 3), [0, 0, 0]);
        assert!(runs(&mut Random::new(1), 0).is_empty());
    }
}
