//! Requests by region of the device: positions, and the hottest places.

use std::collections::BTreeMap;

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::figures::Region;
use crate::analysis::folding::Folding;
use crate::analysis::kind::{ByKind, Kind};
use crate::analysis::row::{How, Row};
use crate::analysis::shape::{Bins, Quantity};
use crate::count::grid::Cell;

/// How many regions are counted at most.
pub const REGIONS_MAX: usize = 1 << 16;

/// How many of the hottest are told.
pub const HOTTEST: usize = 20;

/// The smallest region, as a power of two in bytes: a mebibyte.
const SMALLEST: u32 = 20;

/// How many bins of positions there are at most.
const POSITIONS_MAX: u64 = 2048;

/// How many cells of all volumes together there are at most in rows, as long as each volume has
/// fewer.
const CELLS_MAX: usize = 4096;

/// What goes to a region; of reads first, then of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Count {
    requests: [u64; 2],
    bytes: [u64; 2],
}

impl Cell for Count {
    #[inline]
    fn merge(&mut self, other: &Self) {
        for kind in 0..2 {
            self.requests[kind] = self.requests[kind].saturating_add(other.requests[kind]);
            self.bytes[kind] = self.bytes[kind].saturating_add(other.bytes[kind]);
        }
    }
}

/// Counts requests by region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Regions(Folding<Count>);

impl Default for Regions {
    fn default() -> Self {
        Self(Folding::new(REGIONS_MAX))
    }
}

impl Regions {
    #[inline]
    pub(super) fn observe(&mut self, kind: usize, request: &Request) {
        let mut count = Count::default();
        count.requests[kind] = 1;
        count.bytes[kind] = request.length.0;
        self.0.add(request.volume.0, request.offset.0 >> SMALLEST, &count);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn shift(&self) -> u32 {
        SMALLEST + self.0.shift()
    }

    pub(super) fn region_bytes(&self) -> u64 {
        1_u64.checked_shl(self.shift()).unwrap_or(u64::MAX)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Requests by where they begin.
    pub(super) fn positions(&self) -> ByKind<Bins> {
        let last = self.0.iter().map(|(_, index, _)| index).max();
        let mut coarser = 0;
        while last.is_some_and(|last| last >> coarser >= POSITIONS_MAX) {
            coarser += 1;
        }
        let bins = last.map_or(0, |last| (last >> coarser) as usize + 1);
        let width = 2_f64.powi((self.shift() + coarser) as i32);
        ByKind::of(|kind, name| {
            let mut counts = vec![0; bins];
            for (_, index, count) in self.0.iter() {
                counts[(index >> coarser) as usize] += of(kind, count.requests);
            }
            Bins {
                name: name.to_owned(),
                quantity: Quantity::new("position", "bytes"),
                edges: (0..=bins).map(|bin| bin as f64 * width).collect(),
                counts,
            }
        })
    }

    /// Requests by volume and place, in cells of one size, a power of two. Cells of other parts may
    /// be larger or smaller: they lie within each other.
    pub(super) fn rows(&self, give: &mut impl FnMut(Row)) {
        let mut cells: BTreeMap<(u32, u64), [u64; 2]> = BTreeMap::new();
        for (volume, index, count) in self.0.iter() {
            cells.insert((volume, index), count.requests);
        }
        let mut coarser = 0;
        while cells.len() > CELLS_MAX && self.shift() + coarser < u64::BITS - 1 {
            coarser += 1;
            for ((volume, index), requests) in std::mem::take(&mut cells) {
                let sum = cells.entry((volume, index >> 1)).or_default();
                for (mine, theirs) in sum.iter_mut().zip(requests) {
                    *mine = mine.saturating_add(theirs);
                }
            }
        }
        if cells.is_empty() {
            return;
        }
        let shift = self.shift() + coarser;
        let width = 1_u64.checked_shl(shift).unwrap_or(u64::MAX);
        give(Row::sum("position.bytes", width).how(How::Max));
        for ((volume, index), [reads, writes]) in cells {
            let begin = index.checked_shl(shift).unwrap_or(0);
            let row = |requests| Row::sum("position", requests).volume(volume).key(begin);
            give(row(reads).op("read"));
            give(row(writes).op("write"));
        }
    }

    pub(super) fn hottest(&self) -> Vec<Region> {
        let total: u64 = self.0.iter().map(|(.., count)| of(Kind::All, count.requests)).sum();
        let mut regions: Vec<_> = self.0.iter().collect();
        let heat = |(volume, index, count): &(u32, u64, &Count)| {
            (u64::MAX - of(Kind::All, count.requests), *volume, *index)
        };
        if regions.len() > HOTTEST {
            regions.select_nth_unstable_by_key(HOTTEST, heat);
            regions.truncate(HOTTEST);
        }
        regions.sort_unstable_by_key(heat);
        let region = |(volume, index, count): (u32, u64, &Count)| Region {
            volume,
            begin_bytes: index.checked_shl(self.shift()).unwrap_or(0),
            requests: ByKind::of(|kind, _| of(kind, count.requests)),
            bytes: ByKind::of(|kind, _| of(kind, count.bytes)),
            share: of(Kind::All, count.requests) as f64 / total as f64,
        };
        regions.into_iter().map(region).collect()
    }
}

fn of(kind: Kind, [reads, writes]: [u64; 2]) -> u64 {
    match kind {
        Kind::Reads => reads,
        Kind::Writes => writes,
        Kind::All => reads.saturating_add(writes),
    }
}
