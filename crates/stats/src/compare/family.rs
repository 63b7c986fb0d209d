//! From a thousand resampled ratios to simultaneous intervals.
//!
//! With thirty rows, each wrong once in twenty times, most comparisons of a system with itself
//! would show a difference. So the rows are judged together: the largest deviation of any row, each
//! measured in its own standard error, must be exceeded only once in forty comparisons (*max-t* of
//! Westfall and Young: "Resampling-based multiple testing", 1993). Proven rows leave the family,
//! and the others are judged again among themselves (step-down) (Romano, Wolf: "Exact and
//! approximate stepdown methods for multiple hypothesis testing", JASA 100, 2005). The rows of a
//! comparison are highly dependent (p90 of all and p90 of reads); max-t knows that, and is sharper
//! than the corrections of Bonferroni or Holm, which assume the worst.
//!
//! A standard error from few stretches or few runs is itself uncertain. Student's distribution
//! allows for it, with the degrees of freedom that Welch and Satterthwaite give to a variance of
//! two sources, stretches of time and runs.

use super::profile::RESOLUTION;

/// The standard error that a ratio has because its figures come from bins: two errors that are
/// equally distributed over a bin (Sheppard: width/√12), and a span lies anywhere in it.
pub(super) const GRAIN: f64 = RESOLUTION * 0.408_248_290_463_863;

/// That of exact figures: what a nanosecond is in a millisecond, so that no error is zero.
pub(super) const EXACT: f64 = 1e-6;

/// The redrawn logarithms of a row's ratio.
#[derive(Clone, Debug, Default)]
pub(super) struct Replicates {
    /// By what was measured.
    pub(super) observed: f64,
    /// With blocks and runs drawn anew.
    pub(super) total: Vec<f64>,
    /// With blocks alone drawn anew; empty where no run was repeated.
    pub(super) blocks: Vec<f64>,
    /// The standard error that the figures have by how they are counted.
    pub(super) grain: f64,
}

/// The uncertainty of the logarithm of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) error: f64,
    pub(super) degrees: f64,
}

impl Replicates {
    /// The redrawn logarithms below and above which this share of all lies.
    pub(super) fn between(&self, share: f64) -> [f64; 2] {
        let mut sorted = self.total.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64) as usize;
        let at = |rank: usize| sorted.get(rank).copied().unwrap_or(self.observed);
        [at(rank), at(sorted.len().saturating_sub(rank + 1))]
    }

    /// The standard error and its degrees of freedom, from so many stretches and so many runs
    /// beyond the first of each group.
    pub(super) fn spread(&self, stretches: usize, runs_beyond: usize) -> Spread {
        let total = variance(&self.total) + self.grain * self.grain;
        let of_blocks = stretches.saturating_sub(1).max(1) as f64;
        if runs_beyond == 0 {
            return Spread { error: total.sqrt(), degrees: of_blocks };
        }
        let within = (variance(&self.blocks) + self.grain * self.grain).min(total);
        let between = total - within;
        let degrees =
            total * total / (within * within / of_blocks + between * between / runs_beyond as f64);
        Spread { error: total.sqrt(), degrees }
    }
}

/// The rows of a family, judged together.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// The largest deviation of any row in each redrawing, in standard errors, ascending.
    maxima: Vec<f64>,
}

impl Family {
    /// The family of these rows.
    pub(super) fn new<'a>(rows: impl Iterator<Item = (&'a Replicates, Spread)>) -> Self {
        let mut maxima: Vec<f64> = Vec::new();
        for (row, spread) in rows {
            let mean = mean(&row.total);
            maxima.resize(maxima.len().max(row.total.len()), 0.0);
            for (most, log) in maxima.iter_mut().zip(&row.total) {
                *most = most.max((log - mean).abs() / spread.error);
            }
        }
        maxima.sort_unstable_by(f64::total_cmp);
        Self { maxima }
    }

    /// By how many standard errors a row may deviate by chance, at a level such as 0.025.
    pub(super) fn critical(&self, level: f64, degrees: f64) -> f64 {
        let rank = ((1.0 - level) * self.maxima.len() as f64).ceil() as usize;
        let most = self.maxima.get(rank.saturating_sub(1).min(self.maxima.len().max(1) - 1));
        most.copied().unwrap_or(0.0).max(NORMAL_95) * widening(degrees)
    }

    /// How often any row deviates by chance as far as this one does.
    pub(super) fn chance(&self, observed: f64, spread: Spread) -> f64 {
        let deviation = observed.abs() / spread.error / widening(spread.degrees);
        let beyond = self.maxima.len() - self.maxima.partition_point(|most| *most < deviation);
        // The observed one counts as one of them (Davison, Hinkley: "Bootstrap methods and their
        // application", 1997, section 4.2), so that no chance is zero.
        (beyond as f64 + 1.0) / (self.maxima.len() as f64 + 1.0)
    }
}

/// The 97.5th percentile of the normal distribution: two-sided 95 %.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// The 97.5th percentiles of Student's distribution with 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// How much wider Student's interval is than the normal one. Between the table's degrees it is
/// interpolated; beyond, by the expansion of Cornish and Fisher (Abramowitz, Stegun, 26.7.5).
pub(super) fn widening(degrees: f64) -> f64 {
    let z = NORMAL_95;
    if degrees >= 10.0 {
        let first = (z.powi(3) + z) / (4.0 * degrees);
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * degrees * degrees);
        return (z + first + second) / z;
    }
    let at = degrees.max(1.0);
    let (low, share) = (at.floor(), at.fract());
    let of = |index: usize| STUDENT[index.min(STUDENT.len() - 1)];
    let low = low as usize - 1;
    (of(low) * (1.0 - share) + of(low + 1) * share) / z
}

/// The interval of one row alone at 95 %, as a criterion that was named beforehand needs it, at a
/// level shared by so many criteria (Bonferroni).
pub(super) fn alone(spread: Spread, criteria: usize) -> f64 {
    spread.error * normal_two_sided(0.05 / criteria.max(1) as f64) * widening(spread.degrees)
}

/// The deviation that a normal quantity exceeds to either side with this chance (Abramowitz,
/// Stegun, 26.2.23; right to 0.00045).
fn normal_two_sided(chance: f64) -> f64 {
    let t = (-2.0 * (chance / 2.0).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::generate::random::Random;

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn student_is_much_wider_with_two_runs_and_hardly_with_many_stretches() {
        assert!((widening(1.0) * NORMAL_95 - 12.706).abs() < 1e-9);
        assert!((widening(2.5) * NORMAL_95 - 3.7425).abs() < 1e-3);
        assert!((widening(24.0) * NORMAL_95 - 2.064).abs() < 2e-3);
        assert!((widening(1e9) - 1.0).abs() < 1e-6);
        assert!((widening(9.999) - widening(10.0)).abs() < 2e-3);
    }

    #[test]
    fn the_normal_deviation_is_that_of_the_tables() {
        assert!((normal_two_sided(0.05) - 1.96).abs() < 1e-3);
        assert!((normal_two_sided(0.01) - 2.576).abs() < 1e-3);
    }

    #[test]
    fn many_independent_rows_need_a_larger_deviation_than_one_and_copies_do_not() {
        let mut random = Random::new(3);
        let mut row = || {
            let total = (0..1_000).map(|_| 0.05 * normal(&mut random)).collect();
            let row = Replicates { total, grain: GRAIN, ..Replicates::default() };
            let spread = row.spread(1_000, 0);
            (row, spread)
        };
        let rows: Vec<_> = (0..20).map(|_| row()).collect();
        let of = |rows: &[(Replicates, Spread)]| {
            let family = Family::new(rows.iter().map(|(row, spread)| (row, *spread)));
            family.critical(0.05, 1e9)
        };
        let copies = vec![rows[0].clone(); 20];
        assert!(of(&rows[..1]) < 2.1 && of(&copies) < 2.1, "{}", of(&copies));
        // Šidák's deviation of twenty independent rows is 3.02.
        assert!((2.8..3.3).contains(&of(&rows)), "{}", of(&rows));
    }

    #[test]
    fn a_difference_beyond_all_redrawings_is_no_chance_and_none_is_certain() {
        let total = vec![-0.1, 0.0, 0.1];
        let row = Replicates { total, grain: GRAIN, ..Replicates::default() };
        let spread = row.spread(100, 0);
        let family = Family::new([(&row, spread)].into_iter());
        assert!((family.chance(5.0, spread) - 0.25).abs() < 1e-9);
        assert!((family.chance(0.0, spread) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn runs_that_differ_more_than_their_blocks_leave_few_degrees_of_freedom() {
        let alike = Replicates {
            observed: 0.0,
            total: vec![-0.1, 0.1, -0.1, 0.1],
            blocks: vec![-0.1, 0.1, -0.1, 0.1],
            grain: EXACT,
        };
        assert!(alike.spread(25, 2).degrees > 20.0);
        let apart = Replicates { blocks: vec![0.0; 4], ..alike };
        assert!(apart.spread(25, 2).degrees < 2.1);
    }
}
