//! A hundred million points on a page.
//!
//! blkreplay's sonar diagram draws one dot per request: later dots hide earlier ones, and a solid
//! block does not show their number. A raster counts the requests in each cell of time and
//! logarithm of latency; the density is drawn, and the count of every cell can be read. Its size
//! does not depend on the number of requests.

use std::sync::LazyLock;

use ioecho_trace::Nanos;

use crate::timeline::{Cell, Timeline};

/// Rows per factor of ten: a row's upper edge is 10 % above its lower one.
pub const ROWS_PER_DECADE: usize = 24;

/// The lower edge of the first row, in nanoseconds. What is shorter counts in the first row.
pub const LOWEST_NS: i64 = 100;

/// Seventeen decades: from 100 ns to 300 years, beyond what 64 bits hold. So every span has a row
/// of its own magnitude.
pub const ROWS: usize = 17 * ROWS_PER_DECADE;

/// The lower edges of all rows but the first, in nanoseconds. A table, so that a span falls into
/// the same row on every machine, whatever its logarithm function.
static EDGES: LazyLock<[i64; ROWS - 1]> = LazyLock::new(|| std::array::from_fn(|i| edge(i + 1)));

/// The lower edge of a row in nanoseconds, `LOWEST_NS · 10^(row / ROWS_PER_DECADE)`.
pub fn edge(row: usize) -> i64 {
    let decades = row as f64 / ROWS_PER_DECADE as f64;
    (LOWEST_NS as f64 * 10_f64.powf(decades)).round() as i64
}

/// Parts of an octave, as a power of two: in none of them lies more than one edge.
const PARTS: u32 = 4;

/// The row in which a part of an octave begins, and where the next one does.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    next: u64,
}

/// The parts of the octaves, each of its own.
static PARTS_OF_ALL: LazyLock<[Part; 64 << PARTS]> = LazyLock::new(|| {
    std::array::from_fn(|part| {
        let (octave, within) = (part >> PARTS, part as u128 % (1 << PARTS));
        let least = (((1 << PARTS) + within) << octave) >> PARTS;
        let first = EDGES.partition_point(|edge| *edge as u128 <= least);
        Part { first, next: EDGES.get(first).map_or(u64::MAX, |edge| *edge as u64) }
    })
});

/// The row of a span. It is looked up by the leading bits: a search among the edges takes nine
/// comparisons, of which every other is guessed wrong.
#[inline]
pub fn row(span: Nanos) -> usize {
    // What is shorter lies in the first row as well.
    let span = span.0.max(1 << PARTS) as u64;
    let octave = span.ilog2();
    let within = (span >> (octave - PARTS)) as usize & ((1 << PARTS) - 1);
    let part = &PARTS_OF_ALL[(octave as usize) << PARTS | within];
    part.first + usize::from(span >= part.next)
}

/// The counts of one bucket of time by row, up to the last row in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column(Vec<u32>);

impl Column {
    /// Counts a span. A cell that is full stays full.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.record_row(row(span));
    }

    /// Counts a span of this row: for those who count one span in several rasters.
    #[inline]
    pub(crate) fn record_row(&mut self, row: usize) {
        if row >= self.0.len() {
            self.0.resize(row + 1, 0);
        }
        let cell = &mut self.0[row];
        *cell = cell.saturating_add(1);
    }

    /// The counts by row, from the shortest span up; `None` where nothing was counted.
    pub fn rows(&self) -> Option<&[u32]> {
        (!self.0.is_empty()).then_some(self.0.as_slice())
    }

    /// The row of the span that the share `quantile` of the column's spans does not exceed.
    pub fn quantile(&self, quantile: f64) -> Option<usize> {
        let rows = self.rows()?;
        let total: u64 = rows.iter().map(|count| u64::from(*count)).sum();
        let rank = ((quantile * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        rows.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })
    }
}

impl Cell for Column {
    fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// Counts by time and logarithm of a span.
pub type Raster = Timeline<Column>;

impl Raster {
    /// Every cell that is not empty as (bucket, row, count), bucket by bucket.
    pub fn filled(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        self.cells().iter().enumerate().flat_map(|(bucket, column)| {
            let rows = column.rows().into_iter().flatten().enumerate();
            rows.filter(|(_, count)| **count > 0).map(move |(row, count)| (bucket, row, *count))
        })
    }

    /// How many spans were counted.
    pub fn total(&self) -> u64 {
        self.filled().map(|(_, _, count)| u64::from(count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(points: &[(i64, i64)]) -> Raster {
        let mut raster = Raster::new();
        for (instant, span) in points {
            raster.at(Nanos(*instant)).record(Nanos(*span));
        }
        raster
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(
            points in proptest::collection::vec((0_i64..1 << 40, -1_i64..1 << 40), 0..60),
            cut in 0_usize..60,
        ) {
            let cut = cut.min(points.len());
            let mut merged = of(&points[..cut]);
            merged.merge(&of(&points[cut..]));
            prop_assert_eq!(&merged, &of(&points));
            prop_assert_eq!(merged.total(), points.len() as u64);
        }

        #[test]
        fn a_span_lies_between_the_edges_of_its_row(span in LOWEST_NS..100_000_000_000) {
            let row = row(Nanos(span));
            prop_assert!(edge(row) <= span && span < edge(row + 1));
        }
    }

    proptest! {
        #[test]
        fn a_row_is_that_which_a_search_among_the_edges_finds(span in any::<i64>(), by in 0..63) {
            let near = edge((span as u64 % ROWS as u64) as usize) + i64::from(by % 3) - 1;
            for span in [span >> by, near] {
                let found = EDGES.partition_point(|edge| *edge <= span);
                prop_assert_eq!(row(Nanos(span)), found);
            }
        }
    }

    #[test]
    fn what_is_too_short_counts_in_the_first_row_and_nothing_is_too_long() {
        assert_eq!((row(Nanos(-5)), row(Nanos(0)), row(Nanos(99))), (0, 0, 0));
        assert!(row(Nanos::from_secs(10_800)) < row(Nanos::from_secs(14_400)));
        assert_eq!(row(Nanos::MAX), ROWS - 1);
    }

    #[test]
    fn a_decade_has_its_number_of_rows() {
        assert_eq!(edge(ROWS_PER_DECADE), 1_000);
        assert_eq!(edge(11 * ROWS_PER_DECADE), 10_000_000_000_000);
    }

    #[test]
    fn the_quantile_of_a_column_is_the_row_where_its_rank_falls() {
        let mut column = Column::default();
        assert_eq!(column.quantile(0.5), None);
        for span in [1_000, 1_000, 1_000, 1_000_000] {
            column.record(Nanos(span));
        }
        assert_eq!(column.quantile(0.5), Some(row(Nanos(1_000))));
        assert_eq!(column.quantile(0.99), Some(row(Nanos(1_000_000))));
    }
}
