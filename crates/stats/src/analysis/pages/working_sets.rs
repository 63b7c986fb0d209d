//! Distinct pages in windows of several lengths, from one look at the table for all of them.
//!
//! A page is new in a window if its last touch lies before the window's start. Nothing else has to
//! be remembered of a window than how many there were.

use serde::{Deserialize, Serialize};

use super::figures::WorkingSet;
use super::table::{NEVER, Page};
use crate::analysis::kind::{ByKind, Kind};
use crate::analysis::place::PAGE_SHIFT;
use crate::analysis::shape::{Quantity, Series};
use crate::analysis::steps::Steps;

/// The steps in which the growth of the working set is kept.
const GROWTH_NS: i64 = 1_000_000_000;

/// Where counts of reads and writes together stand; those of reads and of writes come before.
const ALL: usize = 2;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Window {
    /// Pages new in each window: of reads, of writes, of both.
    steps: Steps<[u64; 3]>,
    /// The window that the last request fell into.
    start: i64,
    end: i64,
    place: usize,
}

impl Window {
    fn new(length_ns: i64) -> Self {
        Self { steps: Steps::new(length_ns), start: 0, end: 0, place: 0 }
    }

    fn start_of(&self, at: i64) -> i64 {
        at - at % self.steps.base_ns()
    }
}

/// Counts pages that are new in windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Windows {
    windows: Vec<Window>,
    growth: Window,
    /// The latest start and the earliest end of a current window.
    start: i64,
    end: i64,
}

impl Windows {
    pub(super) fn new(lengths_ns: &[i64]) -> Self {
        let windows = lengths_ns.iter().map(|length| Window::new(*length)).collect();
        Self { windows, growth: Window::new(GROWTH_NS), start: 0, end: 0 }
    }

    /// Tells that a request comes.
    #[inline]
    pub(super) fn turn_to(&mut self, at: i64) {
        if at < self.start || at >= self.end {
            self.turn(at);
        }
    }

    #[cold]
    fn turn(&mut self, at: i64) {
        (self.start, self.end) = (0, i64::MAX);
        for window in self.windows.iter_mut().chain([&mut self.growth]) {
            window.start = window.start_of(at);
            window.end = window.start.saturating_add(window.steps.base_ns());
            window.place = window.steps.place(at);
            self.start = self.start.max(window.start);
            self.end = self.end.min(window.end);
        }
    }

    /// Counts a touch of a page that was last read and written at those instants.
    #[inline]
    pub(super) fn touch(&mut self, before: [i64; 2], kind: usize, weight: u64) {
        let (own, any) = (before[kind], before[0].max(before[1]));
        if own >= self.start {
            return;
        }
        for window in &mut self.windows {
            let cell = window.steps.at_place(window.place);
            cell[kind] += if own < window.start { weight } else { 0 };
            cell[ALL] += if any < window.start { weight } else { 0 };
        }
        if own == NEVER {
            let cell = self.growth.steps.at_place(self.growth.place);
            cell[kind] += weight;
            cell[ALL] += if any == NEVER { weight } else { 0 };
        }
    }

    /// Adds the windows of a later part, which began with all pages new.
    pub(super) fn merge(&mut self, later: &Self) {
        for (mine, theirs) in self.windows.iter_mut().zip(&later.windows) {
            mine.steps.merge(&theirs.steps);
        }
        self.growth.steps.merge(&later.growth.steps);
        // The places among the steps have moved.
        (self.start, self.end) = (0, 0);
    }

    /// Takes back what a later part, already merged, counted as new of a page that was not.
    pub(super) fn mend(&mut self, before: &Page, later: &Page, weight: u64) {
        let touches = [
            (before.last[0], later.first[0]),
            (before.last[1], later.first[1]),
            (before.touched(), later.begun()),
        ];
        for (kind, (last, first)) in touches.into_iter().enumerate() {
            if last == NEVER || first == NEVER {
                continue;
            }
            for window in &mut self.windows {
                if last >= window.start_of(first) {
                    let count = &mut window.steps.at(first)[kind];
                    *count = count.saturating_sub(weight);
                }
            }
            let count = &mut self.growth.steps.at(first)[kind];
            *count = count.saturating_sub(weight);
        }
    }

    /// Distinct pages over the whole load.
    pub(super) fn total(&self) -> ByKind<u64> {
        let sum = |kind: usize| self.growth.steps.cells().iter().map(|cell| cell[kind]).sum();
        ByKind { reads: sum(0), writes: sum(1), all: sum(ALL) }
    }

    pub(super) fn growth(&self) -> ByKind<Series> {
        ByKind::of(|kind, name| {
            let mut pages = 0_u64;
            self.growth.steps.series(name, quantity(), |cell| {
                pages = pages.saturating_add(cell[column(kind)]);
                Some(pages as f64)
            })
        })
    }

    pub(super) fn figures(&self) -> Vec<WorkingSet> {
        let windows = self.windows.iter().map(Window::figures);
        windows.chain([self.whole()]).collect()
    }

    /// The working set of the whole load.
    fn whole(&self) -> WorkingSet {
        let total = self.total();
        let pages = ByKind::of(|kind, name| Series {
            name: name.to_owned(),
            quantity: quantity(),
            start_ns: self.growth.steps.start_ns(),
            step_ns: (self.growth.steps.cells().len() as i64)
                .saturating_mul(self.growth.steps.step_ns()),
            values: if total.all == 0 { Vec::new() } else { vec![Some(*total.get(kind) as f64)] },
        });
        WorkingSet::of(None, pages)
    }
}

impl Window {
    fn figures(&self) -> WorkingSet {
        let windows = self.steps.bases_per_step() as f64;
        let pages = ByKind::of(|kind, name| {
            let value = |cell: &[u64; 3]| Some(cell[column(kind)] as f64 / windows);
            self.steps.series(name, quantity(), value)
        });
        WorkingSet::of(Some(self.steps.base_ns()), pages)
    }
}

impl WorkingSet {
    fn of(window_ns: Option<i64>, pages: ByKind<Series>) -> Self {
        let values = |kind: Kind| pages.get(kind).values.iter().flatten();
        let mean_pages =
            ByKind::of(|kind, _| values(kind).sum::<f64>() / values(kind).count().max(1) as f64);
        let most_pages = ByKind::of(|kind, _| values(kind).copied().fold(0.0, f64::max));
        let most_bytes =
            ByKind::of(|kind, _| (most_pages.get(kind) * f64::from(1 << PAGE_SHIFT)) as u64);
        Self { window_ns, mean_pages, most_pages, most_bytes, pages }
    }
}

fn column(kind: Kind) -> usize {
    match kind {
        Kind::Reads => 0,
        Kind::Writes => 1,
        Kind::All => ALL,
    }
}

fn quantity() -> Quantity {
    Quantity::new("working set", "pages")
}
