//! Correlations of latency.
//!
//! blkreplay's `g10.latency.xy`, `g11.delay.xy` and `g12.latency.delay.xy` draw a dot per request,
//! and dots hide each other. Here requests are counted in cells, ten per power of ten in both
//! directions, and Spearman's rank correlation shows in one number whether one quantity rises with
//! the other, without assuming a linear relation. It is taken from the cells, values in one cell
//! being ties, so it merges; against ranks of the values themselves it is off by a few hundredths
//! at most.
//!
//! The number in flight is counted at the submission, including the request itself: all requests of
//! the volume, and, as `graph.sh` has it, those of the request's own group.

use serde::{Deserialize, Serialize};

use super::bins::{PER_DECADE, decimal};
use super::event::{GROUPS, Group};
use super::shape::{Axis, Grid, Quantity, Scale};
use super::subset::Subset;
use super::sweep::{Levels, Row};

/// The correlations, in JSON by these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correlation {
    /// Service time against all requests in flight on the volume.
    LatencyInFlight,
    /// Service time against the requests in flight of the request's own group.
    LatencyInFlightOwn,
    /// Lateness against all requests in flight on the volume.
    DelayInFlight,
    /// Service time against lateness.
    LatencyDelay,
    /// Service time against length.
    SizeLatency,
}

impl Correlation {
    /// The word in JSON and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LatencyInFlight => "latency-in-flight",
            Self::LatencyInFlightOwn => "latency-in-flight-own",
            Self::DelayInFlight => "delay-in-flight",
            Self::LatencyDelay => "latency-delay",
            Self::SizeLatency => "size-latency",
        }
    }
}

/// The two quantities of a correlation.
#[derive(Clone, Copy)]
struct Pair {
    name: Correlation,
    x: Side,
    y: Side,
}

/// Cells of a span, and how many ioecho 0.1 had: those beyond 1,000 s were one.
const SPANS: usize = 170;
const SPANS_OF_0_1: usize = 100;

#[derive(Clone, Copy)]
enum Side {
    Flying,
    Own,
    Size,
    Latency,
    Delay,
}

impl Side {
    const ALL: [Self; 5] = [Self::Flying, Self::Own, Self::Size, Self::Latency, Self::Delay];

    /// Name, unit, the decade in which its cells begin, and how many there are.
    #[inline]
    const fn layout(self) -> (&'static str, &'static str, usize, usize) {
        match self {
            Self::Flying => ("in flight", "1", 0, 60),
            Self::Own => ("in flight in its own group", "1", 0, 60),
            Self::Size => ("length", "bytes", 2, 80),
            // Up to 300 years, beyond what 64 bits hold.
            Self::Latency => ("service time", "ns", 2, SPANS),
            Self::Delay => ("lateness", "ns", 2, SPANS),
        }
    }

    #[inline]
    fn value(self, row: &Row, levels: Levels) -> Option<u64> {
        match self {
            Self::Flying => Some(u64::from(levels.flying)),
            Self::Own => Some(u64::from(levels.own)),
            // What has no length (a flush, a call that concerns a name) is no small request.
            Self::Size => (row.length > 0).then_some(row.length),
            Self::Latency => row.service.map(|ns| ns.max(0) as u64),
            Self::Delay => row.delay.map(|ns| ns.max(0) as u64),
        }
    }

    /// The cell of a decimal bin.
    #[inline]
    fn cell(self, bin: usize) -> usize {
        let (_, _, decade, cells) = self.layout();
        bin.saturating_sub(decade * PER_DECADE as usize).min(cells - 1)
    }

    fn axis(self) -> Axis {
        let (name, unit, decade, cells) = self.layout();
        let lowest = 10_f64.powi(decade as i32);
        Axis {
            quantity: Quantity::new(name, unit),
            scale: Scale::Logarithmic { lowest, per_decade: PER_DECADE },
            cells: cells as u32,
        }
    }
}

const PAIRS: [Pair; 5] = [
    Pair { name: Correlation::LatencyInFlight, x: Side::Flying, y: Side::Latency },
    Pair { name: Correlation::LatencyInFlightOwn, x: Side::Own, y: Side::Latency },
    Pair { name: Correlation::DelayInFlight, x: Side::Flying, y: Side::Delay },
    Pair { name: Correlation::LatencyDelay, x: Side::Delay, y: Side::Latency },
    Pair { name: Correlation::SizeLatency, x: Side::Size, y: Side::Latency },
];

/// Counts of all pairs by group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub(crate) struct Correlations {
    /// By pair and group; empty until something is counted.
    counts: [[Vec<u64>; GROUPS]; PAIRS.len()],
}

/// [`Correlations`] as they are read, also those of ioecho 0.1.
#[derive(Deserialize)]
struct Written {
    counts: [[Vec<u64>; GROUPS]; PAIRS.len()],
}

impl From<Written> for Correlations {
    fn from(mut written: Written) -> Self {
        for (pair, groups) in PAIRS.iter().zip(&mut written.counts) {
            let (columns, rows) = (pair.x.layout().3, pair.y.layout().3);
            let before = if columns == SPANS { SPANS_OF_0_1 } else { columns };
            for counts in groups.iter_mut().filter(|of| of.len() == before * SPANS_OF_0_1) {
                let mut widened = vec![0; columns * rows];
                for (at, count) in counts.iter().enumerate() {
                    widened[at / SPANS_OF_0_1 * rows + at % SPANS_OF_0_1] = *count;
                }
                *counts = widened;
            }
        }
        Self { counts: written.counts }
    }
}

impl Correlations {
    pub(crate) fn add(&mut self, row: &Row, levels: Levels) {
        // Each value's cell is wanted several times.
        let mut cells = [None; Side::ALL.len()];
        for (side, cell) in Side::ALL.into_iter().zip(&mut cells) {
            *cell = side.value(row, levels).map(|value| side.cell(decimal(value)));
        }
        for (pair, counts) in PAIRS.iter().zip(&mut self.counts) {
            if let (Some(x), Some(y)) = (cells[pair.x as usize], cells[pair.y as usize]) {
                let counts = &mut counts[row.group.index()];
                let (_, _, _, rows) = pair.y.layout();
                if counts.is_empty() {
                    let (_, _, _, columns) = pair.x.layout();
                    counts.resize(columns * rows, 0);
                }
                counts[x * rows + y] += 1;
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let theirs = other.counts.iter().flatten();
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(theirs) {
            add(mine, theirs);
        }
    }

    /// Every pair and group of which something was counted.
    pub(crate) fn figures(&self) -> Vec<CorrelationFigures> {
        let mut all = Vec::new();
        for (pair, groups) in PAIRS.iter().zip(&self.counts) {
            let mut sum = Vec::new();
            for counts in groups {
                add(&mut sum, counts);
            }
            let of_groups = Group::ALL.into_iter().map(Subset::of).zip(groups);
            for (group, counts) in of_groups.chain([(Subset::All, &sum)]) {
                if !counts.is_empty() {
                    all.push(CorrelationFigures::of(*pair, group, counts));
                }
            }
        }
        all
    }
}

fn add(mine: &mut Vec<u64>, theirs: &[u64]) {
    if mine.len() < theirs.len() {
        mine.resize(theirs.len(), 0);
    }
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = mine.saturating_add(*theirs);
    }
}

/// One quantity against another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorrelationFigures {
    /// Which correlation it is.
    pub name: Correlation,
    /// A group, or all.
    pub group: Subset,
    /// How many requests have both.
    pub count: u64,
    /// Spearman's rank correlation, −1 to 1; `None` where one of them never varies.
    pub spearman: Option<f64>,
    /// The counts.
    pub grid: Grid,
}

impl CorrelationFigures {
    fn of(pair: Pair, group: Subset, counts: &[u64]) -> Self {
        let (_, _, _, rows) = pair.y.layout();
        let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let cells: Vec<(u32, u32, u64)> =
            filled.map(|(at, count)| ((at / rows) as u32, (at % rows) as u32, *count)).collect();
        Self {
            name: pair.name,
            group,
            count: cells.iter().map(|cell| cell.2).sum(),
            spearman: spearman(&cells),
            grid: Grid { name: group.to_string(), x: pair.x.axis(), y: pair.y.axis(), cells },
        }
    }
}

/// Spearman's rank correlation of counted pairs: Pearson's of the mean ranks of ties (Kendall,
/// "Rank Correlation Methods").
pub fn spearman(cells: &[(u32, u32, u64)]) -> Option<f64> {
    let ranks = |of: fn(&(u32, u32, u64)) -> u32| {
        let most = cells.iter().map(of).max().unwrap_or(0) as usize;
        let mut counts = vec![0_u64; most + 1];
        for cell in cells {
            counts[of(cell) as usize] += cell.2;
        }
        let mut before = 0.0;
        let ranks: Vec<f64> = counts
            .iter()
            .map(|count| {
                let rank = before + (*count as f64 - 1.0) / 2.0;
                before += *count as f64;
                rank
            })
            .collect();
        ranks
    };
    let (of_x, of_y) = (ranks(|cell| cell.0), ranks(|cell| cell.1));
    let total: f64 = cells.iter().map(|cell| cell.2 as f64).sum();
    // The mean of the ranks 0, 1, ... total − 1, however they are tied.
    let mean = (total - 1.0) / 2.0;
    let (mut both, mut only_x, mut only_y) = (0.0, 0.0, 0.0);
    for (x, y, count) in cells {
        let (x, y) = (of_x[*x as usize] - mean, of_y[*y as usize] - mean);
        let count = *count as f64;
        both += count * x * y;
        only_x += count * x * x;
        only_y += count * y * y;
    }
    let spread = (only_x * only_y).sqrt();
    (spread > 0.0).then(|| (both / spread).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rises_together_has_rank_correlation_one_and_against_each_other_minus_one() {
        let up: Vec<_> = (0..10).map(|at| (at, at * at, 1)).collect();
        assert!((spearman(&up).unwrap() - 1.0).abs() < 1e-12);
        let down: Vec<_> = (0..10).map(|at| (at, 100 - at * at, 3)).collect();
        assert!((spearman(&down).unwrap() + 1.0).abs() < 1e-12);
    }

    #[test]
    fn ties_share_their_mean_rank() {
        // By hand: x ranks 0.5 0.5 2, y ranks 0 1.5 1.5.
        assert!((spearman(&[(1, 1, 1), (1, 2, 1), (2, 2, 1)]).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn what_ioecho_0_1_wrote_down_keeps_its_cells() {
        let mut counts: [[Vec<u64>; GROUPS]; PAIRS.len()] = Default::default();
        counts[0][1] = vec![0; 60 * SPANS_OF_0_1];
        counts[0][1][3 * SPANS_OF_0_1 + 7] = 5;
        counts[3][0] = vec![0; SPANS_OF_0_1 * SPANS_OF_0_1];
        counts[3][0][99 * SPANS_OF_0_1 + 98] = 4;
        let read = Correlations::from(Written { counts });
        assert_eq!((read.counts[0][1].len(), read.counts[0][1][3 * SPANS + 7]), (60 * SPANS, 5));
        assert_eq!(
            (read.counts[3][0].len(), read.counts[3][0][99 * SPANS + 98]),
            (SPANS * SPANS, 4)
        );
        assert_eq!(Correlations::from(Written { counts: read.counts.clone() }), read);
    }

    #[test]
    fn what_never_varies_has_no_correlation() {
        assert_eq!(spearman(&[]), None);
        assert_eq!(spearman(&[(3, 1, 5), (3, 2, 5)]), None);
    }
}
