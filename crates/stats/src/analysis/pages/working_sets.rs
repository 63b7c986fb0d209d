//! Distinct pages in windows of several lengths, from one look at the table for all of them.
//!
//! A page is new in a window if its last touch lies before the window's start. So a window needs
//! only a counter. If there are more windows than steps, a step is the mean of several; the fullest
//! window is remembered separately.

use serde::{Deserialize, Serialize};

use super::figures::WorkingSet;
use super::fullest::{Full, Fullest};
use super::table::{NEVER, Page};
use crate::analysis::kind::{ByKind, Kind};
use crate::analysis::place::PAGE_SHIFT;
use crate::analysis::shape::{Quantity, Series};
use crate::analysis::steps::{Cell, Steps};

/// The steps in which the growth of the working set is kept.
const GROWTH_NS: i64 = 1_000_000_000;

/// Where counts of reads and writes together stand; those of reads and of writes come before.
const ALL: usize = 2;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Window {
    /// Pages new in each window: of reads, of writes, of both.
    steps: Steps<[u64; 3]>,
    fullest: Fullest,
    /// The window that the last request fell into, and what is new in it and not among the steps.
    start: i64,
    end: i64,
    open: [u64; 3],
}

impl Window {
    fn new(length_ns: i64) -> Self {
        let fullest = Fullest::default();
        Self { steps: Steps::new(length_ns), fullest, start: 0, end: 0, open: [0; 3] }
    }

    fn start_of(&self, at: i64) -> i64 {
        at - at % self.steps.base_ns()
    }

    /// The number of the window of an instant.
    fn number_of(&self, at: i64) -> u64 {
        (at / self.steps.base_ns()).max(0) as u64
    }

    fn turn(&mut self, at: i64) {
        let start = self.start_of(at);
        if start != self.start {
            self.close();
        }
        self.start = start;
        self.end = start.saturating_add(self.steps.base_ns());
    }

    /// Puts what is new in the open window among the steps.
    fn close(&mut self) {
        if self.open != [0; 3] {
            self.steps.at(self.start).merge(&self.open);
            self.fullest.add(self.number_of(self.start), self.open);
            self.open = [0; 3];
        }
    }
}

/// Pages that are new in the whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Growth {
    steps: Steps<[u64; 3]>,
    /// The step that the last request fell into.
    place: usize,
}

/// Counts pages that are new in windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Windows {
    lengths: Vec<Window>,
    growth: Growth,
    /// The latest start and the earliest end of a current window.
    start: i64,
    end: i64,
}

impl Windows {
    pub(super) fn new(lengths_ns: &[i64]) -> Self {
        let windows = lengths_ns.iter().map(|length| Window::new(*length)).collect();
        let growth = Growth { steps: Steps::new(GROWTH_NS), place: 0 };
        Self { lengths: windows, growth, start: 0, end: 0 }
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
        self.growth.place = self.growth.steps.place(at);
        self.start = at - at % GROWTH_NS;
        self.end = self.start.saturating_add(GROWTH_NS);
        for window in &mut self.lengths {
            window.turn(at);
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
        for window in &mut self.lengths {
            window.open[kind] += if own < window.start { weight } else { 0 };
            window.open[ALL] += if any < window.start { weight } else { 0 };
        }
        if own == NEVER {
            let cell = self.growth.steps.at_place(self.growth.place);
            cell[kind] += weight;
            cell[ALL] += if any == NEVER { weight } else { 0 };
        }
    }

    /// Adds the windows of a later part, which began with all pages new.
    pub(super) fn merge(&mut self, later: &Self) {
        let mut later = later.clone();
        for (mine, theirs) in self.lengths.iter_mut().zip(&mut later.lengths) {
            mine.close();
            theirs.close();
            mine.steps.merge(&theirs.steps);
            mine.fullest.merge(&theirs.fullest);
        }
        self.growth.steps.merge(&later.growth.steps);
        // The places among the steps have moved.
        (self.start, self.end) = (0, 0);
    }

    /// Corrects the count of a later part, already merged, for a page that was not new.
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
            for window in &mut self.lengths {
                if last >= window.start_of(first) {
                    let count = &mut window.steps.at(first)[kind];
                    *count = count.saturating_sub(weight);
                    window.fullest.take(window.number_of(first), kind, weight);
                }
            }
            let count = &mut self.growth.steps.at(first)[kind];
            *count = count.saturating_sub(weight);
        }
    }

    /// Tells that nothing more is taken back.
    pub(super) fn settle(&mut self) {
        for window in &mut self.lengths {
            window.fullest.settle();
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
        let windows = self.lengths.iter().cloned().map(|mut window| {
            window.close();
            window.figures()
        });
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
        let start = self.growth.steps.start_ns();
        let most = |kind: Kind| Most { pages: *total.get(kind), at_ns: start, is_exact: true };
        WorkingSet::of(None, pages, most)
    }
}

/// How many pages the fullest window has, when it begins, and whether that is known.
struct Most {
    pages: u64,
    at_ns: i64,
    is_exact: bool,
}

impl Window {
    fn figures(&self) -> WorkingSet {
        let windows = self.steps.bases_per_step() as f64;
        let pages = ByKind::of(|kind, name| {
            let value = |cell: &[u64; 3]| Some(cell[column(kind)] as f64 / windows);
            self.steps.series(name, quantity(), value)
        });
        WorkingSet::of(Some(self.steps.base_ns()), pages, |kind| self.most(column(kind)))
    }

    fn most(&self, kind: usize) -> Most {
        let first = self.number_of(self.steps.start_ns());
        let cells = self.steps.cells().iter().zip(first..);
        let told = |full: Full, is_exact: bool| Most {
            pages: full.pages,
            at_ns: i64::try_from(full.window)
                .unwrap_or(i64::MAX)
                .saturating_mul(self.steps.base_ns()),
            is_exact,
        };
        let apart = self.steps.bases_per_step();
        if apart == 1 {
            // Every window stands for itself.
            let each = cells.map(|(cell, window)| Full { pages: cell[kind], window });
            return told(each.fold(Full::default(), Full::or), true);
        }
        let (full, is_exact) = self.fullest.of(kind);
        if is_exact {
            return told(full, true);
        }
        let means = self.steps.cells().iter().zip(0_u64..).map(|(cell, step)| Full {
            pages: cell[kind].div_ceil(apart),
            window: first.saturating_add(step.saturating_mul(apart)),
        });
        told(means.fold(full, Full::or), false)
    }
}

impl WorkingSet {
    fn of(window_ns: Option<i64>, pages: ByKind<Series>, most: impl Fn(Kind) -> Most) -> Self {
        let values = |kind: Kind| pages.get(kind).values.iter().flatten();
        let mean_pages = ByKind::of(|kind, _| {
            // The sum of no floating-point numbers is −0, which JSON would show.
            let sum = values(kind).fold(0.0, |sum, pages| sum + pages);
            sum / values(kind).count().max(1) as f64
        });
        let most_pages = ByKind::of(|kind, _| most(kind).pages);
        Self {
            window_ns,
            mean_pages,
            most_pages,
            most_bytes: ByKind::of(|kind, _| most_pages.get(kind).saturating_mul(1 << PAGE_SHIFT)),
            most_at_ns: ByKind::of(|kind, _| {
                let most = most(kind);
                (most.pages > 0).then_some(most.at_ns)
            }),
            most_exact: most(Kind::All).is_exact,
            pages,
        }
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
