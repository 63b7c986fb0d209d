//! Whether two volumes got the same load.
//!
//! If one recording is replayed on eight devices, every burst hits all of them at once, unlike
//! bursts of independent loads, and a shared storage looks worse than it is. Two copies of a load
//! rise and fall together at every step, which two real loads hardly ever do.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ioecho_trace::{Nanos, VolumeId};

use crate::timeline::Timeline;

/// How many volumes are compared with each other: those with the smallest numbers.
const VOLUMES_MAX: usize = 32;

/// Fewer steps of time than this say nothing.
const STEPS_MIN: usize = 32;

/// How long steps are in a run that is long enough. Demand is looked at by the second, where copies
/// that did not begin at the same instant are still alike, and more closely, where a load whose
/// seconds are all alike has its bursts.
const STEPS: [Nanos; 3] = [Nanos::from_secs(1), Nanos::from_millis(100), Nanos::from_millis(10)];

/// Demand that varies less than this, as its standard deviation by its mean, has no bursts to be
/// shared: of a constant load all copies are alike, and it does no harm.
const VARIES: f64 = 0.2;

/// As little as this, in requests, varies a constant load too: by one request more or less in a
/// step.
const VARIES_BY: f64 = 0.5;

/// Fewer requests of a volume than this in each step, in the mean, are all chance: of a second …
const REQUESTS_MIN: f64 = 1.0;

/// … and of a shorter step, of which there are many.
const REQUESTS_MIN_SHORT: f64 = 4.0;

/// Requests by volume and by when they fell due.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    volumes: BTreeMap<u32, Timeline<u64>>,
}

/// The two volumes whose demand is most alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SameDemand {
    /// The volumes.
    pub volumes: (u32, u32),
    /// Pearson's coefficient of correlation of their requests in each step of time.
    pub correlation: f64,
    /// The share of steps in which both have the same number of requests, of those with any: near 1
    /// of two copies. Bursts that a striped device hands to all its members are as correlated, but
    /// the members get different numbers.
    pub equal: f64,
    /// How long a step is.
    pub step: Nanos,
}

impl Demand {
    pub(super) fn observe(&mut self, volume: VolumeId, scheduled: Nanos) {
        if let Some(line) = self.volumes.get_mut(&volume.0) {
            *line.at(scheduled) += 1;
            return;
        }
        *self.volumes.entry(volume.0).or_default().at(scheduled) += 1;
        self.drop_beyond();
    }

    fn drop_beyond(&mut self) {
        while self.volumes.len() > VOLUMES_MAX {
            self.volumes.pop_last();
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (volume, line) in &other.volumes {
            self.volumes.entry(*volume).or_default().merge(line);
        }
        self.drop_beyond();
    }

    /// The pair with the most equal steps, of whatever length; `None` where there are not two
    /// volumes with enough requests, or too few steps, or nothing that rises and falls.
    pub(super) fn most_alike(&self) -> Option<SameDemand> {
        let doublings = self.volumes.values().map(Timeline::doublings).max()?;
        let lines = self.volumes.iter().map(|(volume, line)| {
            let mut line = line.clone();
            line.widen_to(doublings);
            (*volume, line)
        });
        let lines: Vec<(u32, Timeline<u64>)> = lines.collect();
        let cells = lines.iter().map(|(_, line)| line.cells().len()).max()?;
        let width = lines.first()?.1.width();
        // Shorter ones in a run of less than half a minute.
        let longest = (cells / STEPS_MIN).max(1);
        let mut steps: Vec<usize> = STEPS
            .iter()
            .map(|step| ((step.0 / width.0.max(1)).max(1) as usize).min(longest))
            .collect();
        steps.dedup();
        // Of equals the last, which is the longest step.
        let alike = steps.iter().enumerate().rev().filter_map(|(rank, cells_of_step)| {
            let least = if rank == 0 { REQUESTS_MIN } else { REQUESTS_MIN_SHORT };
            alike_by(&lines, cells, *cells_of_step, least)
        });
        alike.max_by(by_likeness)
    }
}

fn by_likeness(a: &SameDemand, b: &SameDemand) -> Ordering {
    a.equal.total_cmp(&b.equal).then(a.correlation.total_cmp(&b.correlation))
}

/// The pair with the most equal steps of so many cells, of volumes with at least so many requests
/// in the mean step.
fn alike_by(
    lines: &[(u32, Timeline<u64>)],
    cells: usize,
    cells_of_step: usize,
    least: f64,
) -> Option<SameDemand> {
    let steps = cells.div_ceil(cells_of_step);
    if steps < STEPS_MIN {
        return None;
    }
    let width = lines.first()?.1.width();
    let step = Nanos(width.0.saturating_mul(cells_of_step as i64));
    let series: Vec<(u32, Vec<f64>)> = lines
        .iter()
        .map(|(volume, line)| {
            let sums = line.cells().chunks(cells_of_step);
            let sums = sums.map(|step| step.iter().map(|count| *count as f64).sum());
            let mut values: Vec<f64> = sums.collect();
            values.resize(steps, 0.0);
            (*volume, values)
        })
        .filter(|(_, values)| values.iter().sum::<f64>() >= least * steps as f64)
        .filter(|(_, values)| varies(values))
        .collect();
    let pairs = series
        .iter()
        .enumerate()
        .flat_map(|(index, one)| series[index + 1..].iter().map(move |other| (one, other)));
    let alike = pairs.filter_map(|((a, of_a), (b, of_b))| {
        let correlation = correlation(of_a, of_b)?;
        Some(SameDemand { volumes: (*a, *b), correlation, equal: equal(of_a, of_b), step })
    });
    alike.max_by(by_likeness)
}

/// The share of equal steps among those in which one of both has requests.
fn equal(a: &[f64], b: &[f64]) -> f64 {
    let busy = a.iter().zip(b).filter(|(a, b)| **a + **b > 0.0);
    let (mut steps, mut same) = (0.0, 0.0);
    for (a, b) in busy {
        steps += 1.0;
        same += if (a - b).abs() < 0.5 { 1.0 } else { 0.0 };
    }
    if steps > 0.0 { same / steps } else { 0.0 }
}

/// Whether there are bursts; the last step, which may be cut, does not count.
fn varies(values: &[f64]) -> bool {
    let whole = &values[..values.len().saturating_sub(1)];
    let count = whole.len().max(1) as f64;
    let mean = whole.iter().sum::<f64>() / count;
    let variance = whole.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() > (VARIES * mean).max(VARIES_BY)
}

/// Pearson's coefficient; `None` where one of both does not vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let count = a.len().min(b.len()) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count.max(1.0);
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a - mean_a, b - mean_b);
        both += a * b;
        of_a += a * a;
        of_b += b * b;
    }
    (of_a > 0.0 && of_b > 0.0).then(|| both / (of_a * of_b).sqrt())
}
