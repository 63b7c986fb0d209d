//! Whether two volumes got the same load.
//!
//! If one recording is replayed on eight devices, every burst hits all of them at once, unlike
//! bursts of independent loads, and a shared storage looks worse than it is. Two copies of a load
//! rise and fall together at every step, which two real loads hardly ever do.

use std::collections::BTreeMap;

use ioecho_trace::{Nanos, VolumeId};

use crate::timeline::Timeline;

/// How many volumes are compared with each other: those with the smallest numbers.
const VOLUMES_MAX: usize = 32;

/// Fewer steps of time than this say nothing.
const STEPS_MIN: usize = 32;

/// How long a step is in a run that is long enough: demand is looked at by the second.
const STEP: Nanos = Nanos::from_secs(1);

/// Demand that varies less than this, as its standard deviation by its mean, has no bursts to be
/// shared: of a constant load all copies are alike, and it does no harm.
const VARIES: f64 = 0.2;

/// Fewer requests of a volume than this in each step, in the mean, are all chance.
const REQUESTS_MIN: f64 = 1.0;

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

    /// The pair with the most equal steps; `None` where there are not two volumes with enough
    /// requests, or too few steps, or nothing that rises and falls.
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
        // Steps of a second, or shorter ones in a run of less than half a minute.
        let to_a_second = (STEP.0 / width.0.max(1)).max(1) as usize;
        let cells_of_step = to_a_second.min((cells / STEPS_MIN).max(1));
        let steps = cells.div_ceil(cells_of_step);
        if steps < STEPS_MIN {
            return None;
        }
        let series: Vec<(u32, Vec<f64>)> = lines
            .iter()
            .map(|(volume, line)| {
                let sums = line.cells().chunks(cells_of_step);
                let sums = sums.map(|step| step.iter().map(|count| *count as f64).sum());
                let mut values: Vec<f64> = sums.collect();
                values.resize(steps, 0.0);
                (*volume, values)
            })
            .filter(|(_, values)| values.iter().sum::<f64>() >= REQUESTS_MIN * steps as f64)
            .filter(|(_, values)| varies(values))
            .collect();
        let pairs = series
            .iter()
            .enumerate()
            .flat_map(|(index, one)| series[index + 1..].iter().map(move |other| (one, other)));
        let alike = pairs.filter_map(|((a, of_a), (b, of_b))| {
            let step = Nanos(width.0.saturating_mul(cells_of_step as i64));
            let correlation = correlation(of_a, of_b)?;
            let equal = equal(of_a, of_b);
            Some(SameDemand { volumes: (*a, *b), correlation, equal, step })
        });
        alike.max_by(|a, b| {
            a.equal.total_cmp(&b.equal).then(a.correlation.total_cmp(&b.correlation))
        })
    }
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
    variance.sqrt() > VARIES * mean
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
