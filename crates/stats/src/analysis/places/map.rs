//! Where and when: requests by cells of place and time.
//!
//! Neither the end of the trace nor that of the device is known beforehand, so cells become twice
//! as long or as high whenever they no longer hold all. How large they are follows from the last
//! instant and place alone.

use ioecho_trace::Request;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::figures::Map;
use crate::analysis::shape::{Axis, Grid, Quantity, Scale};

/// Cells along time, and along places.
pub(super) const COLUMNS: u64 = 512;
pub(super) const ROWS: u64 = 256;

/// How many volumes have maps of their own.
pub(super) const VOLUMES_MAX: usize = 16;

/// The smallest cell, as a power of two in nanoseconds and in bytes: a microsecond, and a page.
const SHORTEST: u32 = 10;
const LOWEST: u32 = 12;

/// A column of cells: requests by place, of reads and of writes.
type Column = Vec<[u64; 2]>;

/// Counts requests by place and time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Rows", into = "Rows")]
pub(super) struct Heat {
    /// The volumes that are told apart, sorted; too many of them are none.
    volumes: Vec<u32>,
    is_one: bool,
    first: u64,
    last: u64,
    highest: u64,
    /// Cells are 2 to these powers long and high.
    time: u32,
    place: u32,
    columns: FxHashMap<(u32, u64), Column>,
}

/// [`Heat`] as it is written down: its cells by volume, time and place.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rows {
    volumes: Vec<u32>,
    is_one: bool,
    first: u64,
    last: u64,
    highest: u64,
    time: u32,
    place: u32,
    rows: Vec<(u32, u64, u32, [u64; 2])>,
}

impl From<Rows> for Heat {
    fn from(rows: Rows) -> Self {
        let mut heat = Self {
            volumes: rows.volumes,
            is_one: rows.is_one,
            first: rows.first,
            last: rows.last,
            highest: rows.highest,
            time: rows.time.clamp(SHORTEST, 63),
            place: rows.place.clamp(LOWEST, 63),
            columns: FxHashMap::default(),
        };
        for (volume, column, row, counts) in rows.rows {
            heat.add((volume, column), row as usize % ROWS as usize, counts);
        }
        heat
    }
}

impl From<Heat> for Rows {
    fn from(heat: Heat) -> Self {
        let mut rows: Vec<_> = heat
            .cells()
            .map(|((volume, column), row, counts)| (volume, column, row as u32, counts))
            .collect();
        rows.sort_unstable();
        Self {
            volumes: heat.volumes,
            is_one: heat.is_one,
            first: heat.first,
            last: heat.last,
            highest: heat.highest,
            time: heat.time,
            place: heat.place,
            rows,
        }
    }
}

impl Default for Heat {
    fn default() -> Self {
        Self {
            volumes: Vec::new(),
            is_one: false,
            first: u64::MAX,
            last: 0,
            highest: 0,
            time: SHORTEST,
            place: LOWEST,
            columns: FxHashMap::default(),
        }
    }
}

impl Heat {
    #[inline]
    pub(super) fn observe(&mut self, at: i64, kind: usize, request: &Request) {
        let (at, place) = (at as u64, request.offset.0);
        self.reach(at, at, place);
        self.know(request.volume.0);
        let volume = if self.is_one { 0 } else { request.volume.0 };
        let mut counts = [0; 2];
        counts[kind] = 1;
        self.add((volume, at >> self.time), (place >> self.place) as usize, counts);
    }

    #[inline]
    fn add(&mut self, key: (u32, u64), row: usize, counts: [u64; 2]) {
        let column = self.columns.entry(key).or_default();
        if row >= column.len() {
            column.resize(row + 1, [0; 2]);
        }
        column[row][0] += counts[0];
        column[row][1] += counts[1];
    }

    /// Makes the cells large enough for these instants and places.
    #[inline]
    fn reach(&mut self, first: u64, last: u64, highest: u64) {
        if first >= self.first && last <= self.last && highest <= self.highest {
            return;
        }
        self.first = self.first.min(first);
        self.last = self.last.max(last);
        self.highest = self.highest.max(highest);
        let (mut time, mut place) = (self.time, self.place);
        while (self.last >> time) - (self.first >> time) >= COLUMNS {
            time += 1;
        }
        while self.highest >> place >= ROWS {
            place += 1;
        }
        self.coarsen(time, place);
    }

    fn coarsen(&mut self, time: u32, place: u32) {
        if (time, place) == (self.time, self.place) {
            return;
        }
        let (by_time, by_place) = (time - self.time, place - self.place);
        let fine = std::mem::take(&mut self.columns);
        (self.time, self.place) = (time, place);
        for ((volume, column), cells) in fine {
            for (row, counts) in cells.into_iter().enumerate().filter(|(_, c)| *c != [0; 2]) {
                self.add((volume, column >> by_time), row >> by_place, counts);
            }
        }
    }

    /// Tells volumes apart as long as there are not too many.
    #[inline]
    fn know(&mut self, volume: u32) {
        if self.is_one {
            return;
        }
        if let Err(place) = self.volumes.binary_search(&volume) {
            self.volumes.insert(place, volume);
            if self.volumes.len() > VOLUMES_MAX {
                self.become_one();
            }
        }
    }

    fn become_one(&mut self) {
        self.is_one = true;
        self.volumes.clear();
        for ((_, column), cells) in std::mem::take(&mut self.columns) {
            for (row, counts) in cells.into_iter().enumerate() {
                self.add((0, column), row, counts);
            }
        }
    }

    pub(super) fn merge(&mut self, later: &Self) {
        if later.columns.is_empty() {
            return;
        }
        self.reach(later.first, later.last, later.highest);
        if later.is_one && !self.is_one {
            self.become_one();
        }
        later.volumes.iter().for_each(|volume| self.know(*volume));
        for ((volume, column), row, counts) in later.cells() {
            let volume = if self.is_one { 0 } else { volume };
            let column = column >> (self.time - later.time);
            self.add((volume, column), row >> (self.place - later.place), counts);
        }
    }

    /// The cells that are not empty.
    fn cells(&self) -> impl Iterator<Item = ((u32, u64), usize, [u64; 2])> + '_ {
        self.columns.iter().flat_map(|(key, cells)| {
            let filled = cells.iter().enumerate().filter(|(_, counts)| **counts != [0; 2]);
            filled.map(|(row, counts)| (*key, row, *counts))
        })
    }

    pub(super) fn maps(&self) -> Vec<Map> {
        if self.is_one {
            return vec![self.map(None)];
        }
        self.volumes.iter().map(|volume| self.map(Some(*volume))).collect()
    }

    fn map(&self, volume: Option<u32>) -> Map {
        let first = self.first >> self.time;
        let mut cells: Vec<_> = self
            .cells()
            .filter(|((of, _), ..)| volume.is_none_or(|volume| *of == volume))
            .map(|((_, column), row, counts)| ((column - first) as u32, row as u32, counts))
            .collect();
        cells.sort_unstable();
        let step = 2_f64.powi(self.time as i32) / 1e9;
        let height = 2_f64.powi(self.place as i32);
        let grid = |name: &str, kind: usize| Grid {
            name: name.to_owned(),
            x: Axis {
                quantity: Quantity::new("time", "s"),
                scale: Scale::Linear { from: first as f64 * step, step },
                cells: ((self.last >> self.time) - first) as u32 + 1,
            },
            y: Axis {
                quantity: Quantity::new("position", "bytes"),
                scale: Scale::Linear { from: 0.0, step: height },
                cells: (self.highest >> self.place) as u32 + 1,
            },
            cells: cells
                .iter()
                .filter(|(.., counts)| counts[kind] > 0)
                .map(|(x, y, counts)| (*x, *y, counts[kind]))
                .collect(),
        };
        Map { volume, reads: grid("reads", 0), writes: grid("writes", 1) }
    }
}
