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

/// How many neighbouring blocks are drawn together: the cube root of their number, the order that
/// minimises the error of the variance (Hall, Horowitz, Jing: "On blocking rules for the bootstrap
/// with dependent data", Biometrika 82, 1995).
pub(super) fn stretch(blocks: usize) -> usize {
    ((blocks as f64).cbrt().round() as usize).max(1)
}

/// How many stretches so many blocks are.
pub(super) fn stretches(blocks: usize) -> usize {
    blocks.div_ceil(stretch(blocks))
}

/// Draws blocks out of a range of them; the weights are of all `count` blocks.
pub(super) fn blocks(random: &mut Random, count: usize, range: Range<usize>) -> Vec<u64> {
    let mut weights = vec![0; count];
    let (first, many) = (range.start, range.len());
    if many == 0 {
        return weights;
    }
    let length = stretch(many);
    for _ in 0..stretches(many).saturating_sub(1).max(1) {
        let from = random.below(many as u64) as usize;
        for step in 0..length {
            weights[first + (from + step) % many] += 1;
        }
    }
    weights
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
            let drawn = blocks(&mut random, 30, 10..30);
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
    fn nothing_to_draw_from_draws_nothing() {
        assert_eq!(blocks(&mut Random::new(1), 3, 2..2), [0, 0, 0]);
        assert!(runs(&mut Random::new(1), 0).is_empty());
    }
}
