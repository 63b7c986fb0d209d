//! Comparison of two systems, or of one with two settings, under the same load: which is slower,
//! where, and whether the difference is more than chance.
//!
//! Two percentiles always differ, and a reader who sees 3 % will take it for real. But a system
//! also differs from itself, by an amount that depends on how its latencies are correlated. So
//! every ratio here has an interval, from a block bootstrap over stretches of time and repeated
//! runs, and is called a difference only beyond chance and beyond a least effect. `docs/compare.md`
//! has the method with its formulas.
//!
//! The way through: a [`RunProfile`] is folded from each run in one pass (`profile`,
//! `load`) → [`obstacles`] says whether runs may be compared → [`compare`] has rows redrawn
//! (`judged`, `ladder`, `resample`) and judged together (`family`) → a [`Comparison`] of [`Row`]s,
//! distributions and blocks → [`Criterion`]s are held against its rows.

mod comparable;
mod criterion;
mod distributions;
mod family;
mod judged;
mod ladder;
mod load;
mod outcome;
mod over_time;
mod profile;
mod resample;
mod row;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use comparable::{Obstacle, REFUSALS, Replayed, Weight, obstacles};
pub use criterion::{Answer, Criterion, CriterionError, Outcome};
pub use distributions::Distribution;
pub use load::{KnownBy, LoadMark};
pub use outcome::{Word, percent};
pub use over_time::{Blocks, DifferenceMap, PHASES, Track};
pub use profile::{BLOCKS_MAX, Bins, Blocking, Cut, RunProfile, SIZE_NAMES};
pub use row::{Decision, Metric, Row, Scope, kind_word, span_word};

use judged::Sides;

/// The version of the JSON of a comparison. It changes when a key changes its meaning or goes away.
pub const COMPARISON_VERSION: u32 = 1;

/// How many rows are kept of the worst effects.
const WORST_ROWS: usize = 24;

/// How a comparison is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The seed of all random draws.
    pub seed: u64,
    /// How often blocks and runs are drawn anew.
    pub resamples: usize,
    /// How often a system may be found different from itself: 0.025, so that five false alarms in a
    /// hundred comparisons of a system with itself are more than bad luck.
    pub level: f64,
    /// The least ratio beside 1 that counts as a difference: 0.01 is 1 %.
    pub least_effect: f64,
    /// Whether all runs replayed the same requests, so that blocks belong together.
    pub paired: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, resamples: 1_000, level: 0.025, least_effect: 0.01, paired: true }
    }
}

/// Runs of one system.
#[derive(Clone, Debug)]
pub struct Group {
    /// What the system is called.
    pub name: String,
    /// Its runs; all runs of a comparison are cut alike.
    pub runs: Vec<RunProfile>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`COMPARISON_VERSION`].
    pub version: u32,
    /// Whether blocks of both sides belonged together.
    pub paired: bool,
    /// Blocks of time that each run was cut into.
    pub blocks: usize,
    /// How often they were drawn anew.
    pub resamples: usize,
    /// How often a system may be found different from itself, over all pairs.
    pub level: f64,
    /// The least ratio beside 1 that counts as a difference.
    pub least_effect: f64,
    /// Every further system against the first.
    pub pairs: Vec<Pair>,
}

/// Two systems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The first one: what is compared with.
    pub baseline: String,
    /// The other.
    pub other: String,
    /// How many runs of each there are.
    pub runs: [usize; 2],
    /// The kinds of request that both have.
    pub kinds: Vec<&'static str>,
    /// The outcome in a word.
    pub word: Word,
    /// The outcome in a sentence.
    pub conclusion: String,
    /// Figures of the whole run, one family.
    pub rows: Vec<Row>,
    /// The drain of both, in percent of the demanded duration, over their runs on average. It has
    /// no interval, because it is one number of a run. Missing where a run has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_percent: Option<[f64; 2]>,
    /// Figures of kinds, classes of size and parts of the run, the worst effect first: a family of
    /// its own, for looking where a difference comes from.
    pub worst: Vec<Row>,
    /// Distributions of service and response time.
    pub distributions: Vec<Distribution>,
    /// Latency over time: where one has more requests than the other.
    pub heat: Vec<DifferenceMap>,
    /// Both systems over time.
    pub over_time: Blocks,
}

impl Pair {
    /// Rows of the whole run that are proven to differ, the largest difference first.
    pub fn differences(&self) -> Vec<&Row> {
        let differs = |row: &&Row| matches!(row.decision, Decision::Worse | Decision::Better);
        let mut rows: Vec<&Row> = self.rows.iter().filter(differs).collect();
        rows.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
        rows
    }
}

/// Compares every further group with the first. Groups without runs are left out.
pub fn compare(groups: &[Group], settings: &Settings) -> Comparison {
    let mut groups = groups.iter().filter(|group| !group.runs.is_empty());
    let Some(baseline) = groups.next() else { return of(settings, 0, Vec::new()) };
    let others: Vec<&Group> = groups.collect();
    let each = Settings { level: settings.level / others.len().max(1) as f64, ..*settings };
    let pairs = others.into_iter().map(|other| pair(baseline, other, &each)).collect();
    of(settings, baseline.runs[0].blocking().blocks, pairs)
}

fn of(settings: &Settings, blocks: usize, pairs: Vec<Pair>) -> Comparison {
    Comparison {
        version: COMPARISON_VERSION,
        paired: settings.paired,
        blocks,
        resamples: settings.resamples,
        level: settings.level,
        least_effect: settings.least_effect,
        pairs,
    }
}

fn pair(baseline: &Group, other: &Group, settings: &Settings) -> Pair {
    let sides = Sides { groups: [&baseline.runs, &other.runs], paired: settings.paired };
    let rows = judged::rows(sides, &judged::of_whole(sides), settings);
    let mut worst = judged::rows(sides, &over_time::parts(sides), settings);
    let is_worse = |row: &Row| row.decision == Decision::Worse;
    worst.retain(|row| row.decision != Decision::TooFew);
    worst.sort_by(|a, b| {
        is_worse(b).cmp(&is_worse(a)).then_with(|| b.worse_by().total_cmp(&a.worse_by()))
    });
    worst.truncate(WORST_ROWS);
    Pair {
        baseline: baseline.name.clone(),
        other: other.name.clone(),
        runs: [baseline.runs.len(), other.runs.len()],
        kinds: judged::common(sides).into_iter().map(|kind| kind_word(Some(kind))).collect(),
        word: outcome::answer(&rows).0,
        conclusion: outcome::sentence(&rows, &other.name, &baseline.name),
        rows,
        drain_percent: drain(&baseline.runs).zip(drain(&other.runs)).map(<[f64; 2]>::from),
        worst,
        distributions: distributions::of(sides),
        heat: over_time::heat(sides),
        over_time: over_time::blocks(sides),
    }
}

/// The mean drain of runs all of which have one.
fn drain(runs: &[RunProfile]) -> Option<f64> {
    let drains: Option<Vec<f64>> = runs.iter().map(RunProfile::drain_percent).collect();
    drains.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
}
