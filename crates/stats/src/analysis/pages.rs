//! Which pages a load uses, when and how often.
//!
//! The working set decides whether a cache helps; the access frequency of single pages decides
//! which cache. blkreplay counts the start sectors of requests. Devices and caches work with all
//! pages that a request touches, so pages of 4 KiB are counted here.
//!
//! Every page is counted up to [`GROUPS_MAX`] groups of four neighbouring pages (8 GiB in dense
//! use, 2 GiB at worst). Beyond that, the groups are sampled by hash (SHARDS, Waldspurger, Park,
//! Garthwaite and Ahmad, FAST 2015): whenever the table is full every other group is dropped, and
//! those that stay count twice. Of parts that are merged the counts are those of the whole as long
//! as all pages are looked at; of samples they agree within the stated error.

mod figures;
mod frequency;
mod fullest;
mod table;
#[cfg(test)]
mod tests;
mod working_sets;

pub use figures::{Apart, Frequency, FrequencyQuantile, Intervals, PageFigures, WorkingSet};

use std::hint::black_box;

use ioecho_trace::{Op, Request};
use serde::{Deserialize, Serialize};

use self::table::{GROUP, GROUP_SHIFT, NEVER, Page, Table};
use self::working_sets::Windows;
use super::Summary;
use super::bins::{decimal, decimal_edge};
use super::kind::ByKind;
use super::place::{Keys, PAGE_SHIFT, instant, pages, read_or_write};
use super::shape::{Bins, Quantity};

/// How many groups of four neighbouring pages are kept at most, in some 130 MB.
pub const GROUPS_MAX: usize = 1 << 19;

/// The windows that working sets are told of, besides the whole load, in nanoseconds: those of
/// blkreplay's `ws_list`.
pub const WINDOWS_NS: [i64; 4] = [1_000_000_000, 6_000_000_000, 60_000_000_000, 600_000_000_000];

/// How many lengths of windows there are at most; further ones are left out.
pub const WINDOWS_MAX: usize = 16;

/// How many touches of groups are looked at together.
const AT_ONCE: usize = 128;

/// Kinds of intervals: what came before, twice, and what comes after. The last one is from write to
/// write whatever lies between.
const INTERVALS: usize = 5;
const OVERWRITE: usize = 4;

/// The pages of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pages {
    table: Table,
    windows: Windows,
    /// Exact counts of touches.
    accesses: [u64; 2],
    intervals: [Vec<u64>; INTERVALS],
    shortened: u64,
    apart: Apart,
}

impl Default for Pages {
    fn default() -> Self {
        Self::new(&WINDOWS_NS, GROUPS_MAX)
    }
}

impl Pages {
    /// Counts working sets in windows of these lengths, and looks at no more than so many groups of
    /// pages. Parts that shall be merged must have the same.
    pub fn new(windows_ns: &[i64], groups_max: usize) -> Self {
        let mut windows: Vec<i64> = windows_ns.iter().copied().filter(|ns| *ns > 0).collect();
        windows.sort_unstable();
        windows.dedup();
        windows.truncate(WINDOWS_MAX);
        Self {
            table: Table::new(groups_max),
            windows: Windows::new(&windows),
            accesses: [0; 2],
            intervals: Default::default(),
            shortened: 0,
            apart: Apart::default(),
        }
    }

    fn set_apart(&mut self, request: &Request) {
        let bytes = request.length.0;
        let (requests, sum) = match request.op {
            Op::Discard => (&mut self.apart.discards, &mut self.apart.discarded_bytes),
            Op::WriteZeroes => (&mut self.apart.write_zeroes, &mut self.apart.zeroed_bytes),
            _ => return,
        };
        *requests += 1;
        *sum = sum.saturating_add(bytes);
    }

    /// Adds requests: the same as adding each of them, but without waiting for memory at every one.
    pub fn observe_all(&mut self, requests: &[Request]) {
        let mut touches = Vec::with_capacity(AT_ONCE);
        for request in requests {
            self.touches(request, |pages, touch| {
                touches.push(touch);
                if touches.len() == AT_ONCE {
                    pages.touch_all(&touches);
                    touches.clear();
                }
            });
        }
        self.touch_all(&touches);
    }

    /// Hands the touches of a request to `take`, group by group.
    #[inline]
    fn touches(&mut self, request: &Request, mut take: impl FnMut(&mut Self, Touch)) {
        let Some(kind) = read_or_write(request.op) else { return self.set_apart(request) };
        let Some((first, last, shortened)) = pages(request) else { return };
        let now = instant(request);
        self.accesses[kind] = self.accesses[kind].saturating_add(last - first + 1);
        self.shortened += u64::from(shortened);
        let keys = Keys::of(request.volume.0);
        let mut page = first;
        while page <= last {
            let group = page >> GROUP_SHIFT;
            let end = last.min((group << GROUP_SHIFT) + (GROUP as u64 - 1));
            let key = keys.key(group);
            let within = |page: u64| (page % GROUP as u64) as u8;
            take(self, Touch { key, now, from: within(page), to: within(end), kind: kind as u8 });
            page = end + 1;
        }
    }

    /// Counts touches. Memory is slow, but it can be asked for many things at once: what all the
    /// touches need is looked at before the first of them is counted.
    fn touch_all(&mut self, touches: &[Touch]) {
        let table = &mut self.table;
        let at_hand = touches.iter().fold(0, |sum, touch| sum ^ table.reach(touch.key));
        black_box(at_hand);
        let halved = table.halved();
        let mut places = [usize::MAX; AT_ONCE];
        for (place, touch) in places.iter_mut().zip(touches) {
            *place = table.place(touch.key).unwrap_or(usize::MAX);
        }
        if table.halved() != halved {
            // Places have moved.
            for (place, touch) in places.iter_mut().zip(touches) {
                *place = table.place(touch.key).unwrap_or(usize::MAX);
            }
        }
        let known = || places.iter().zip(touches).filter(|(place, _)| **place != usize::MAX);
        let at_hand = known().fold(0, |sum, (place, _)| sum ^ table.reach_place(*place));
        black_box(at_hand);
        for (place, touch) in known() {
            self.touch(*place, touch);
        }
    }

    #[inline]
    fn touch(&mut self, place: usize, touch: &Touch) {
        let weight = 1 << self.table.halved();
        let (kind, now) = (usize::from(touch.kind), touch.now);
        self.windows.turn_to(now);
        for at in touch.from..=touch.to {
            let (before, was_write) = self.table.touch(place, usize::from(at), kind, now);
            self.windows.touch(before, kind, weight);
            let last = before[0].max(before[1]);
            if last != NEVER {
                count(&mut self.intervals[usize::from(was_write) * 2 + kind], now - last, weight);
            }
            if kind == 1 && before[1] != NEVER {
                count(&mut self.intervals[OVERWRITE], now - before[1], weight);
            }
        }
    }

    /// Joins what is known of a page in both parts.
    fn join(&mut self, place: usize, at: usize, theirs: &Page, weight: u64) {
        let mine = self.table.page(place, at);
        if mine.touched() == NEVER {
            return self.table.set(place, at, theirs);
        }
        self.windows.mend(&mine, theirs, weight);
        let kind = usize::from(mine.ended_with_write) * 2 + usize::from(theirs.began_with_write);
        count(&mut self.intervals[kind], theirs.begun() - mine.touched(), weight);
        if mine.last[1] != NEVER && theirs.first[1] != NEVER {
            count(&mut self.intervals[OVERWRITE], theirs.first[1] - mine.last[1], weight);
        }
        let mut page = Page { ended_with_write: theirs.ended_with_write, ..mine };
        for kind in 0..2 {
            page.last[kind] = mine.last[kind].max(theirs.last[kind]);
            page.count[kind] = mine.count[kind].saturating_add(theirs.count[kind]);
            if mine.first[kind] == NEVER {
                page.first[kind] = theirs.first[kind];
            }
        }
        self.table.set(place, at, &page);
    }

    /// The figures.
    pub fn figures(&self) -> PageFigures {
        let halved = self.table.halved();
        let share = 0.5_f64.powi(halved as i32);
        let weight = 1_u64 << halved;
        let error = ((1.0 - share) / self.table.len().max(1) as f64).sqrt();
        let [reads, writes] = self.accesses;
        let accesses = ByKind { reads, writes, all: reads.saturating_add(writes) };
        PageFigures {
            page_bytes: 1 << PAGE_SHIFT,
            exact: halved == 0,
            sampled_share: share,
            relative_error: error,
            pages: self.windows.total(),
            accesses,
            shortened_requests: self.shortened,
            apart: self.apart,
            working_sets: self.windows.figures(),
            growth: self.windows.growth(),
            frequency: frequency::frequencies(&self.table, weight, accesses),
            intervals: self.interval_figures(),
        }
    }

    fn interval_figures(&self) -> Intervals {
        let [read_after_read, write_after_read, read_after_write, write_after_write, overwrite] = [
            "read after read",
            "write after read",
            "read after write",
            "write after write",
            "overwrite interval",
        ];
        let bins = |name: &str, kind: usize| Bins {
            name: name.to_owned(),
            quantity: Quantity::new("time between accesses", "s"),
            edges: (0..=self.intervals[kind].len()).map(|bin| decimal_edge(bin) / 1e9).collect(),
            counts: self.intervals[kind].clone(),
        };
        Intervals {
            overwrite: bins(overwrite, OVERWRITE),
            read_after_read: bins(read_after_read, 0),
            write_after_read: bins(write_after_read, 1),
            read_after_write: bins(read_after_write, 2),
            write_after_write: bins(write_after_write, 3),
        }
    }
}

/// Counts an interval in its bin; one below a nanosecond in the first.
#[inline]
fn count(bins: &mut Vec<u64>, ns: i64, weight: u64) {
    let bin = decimal(ns.max(0) as u64);
    if bin >= bins.len() {
        bins.resize(bin + 1, 0);
    }
    bins[bin] = bins[bin].saturating_add(weight);
}

/// Touches of pages next to each other, from the one to the other within their group.
#[derive(Clone, Copy, Debug)]
struct Touch {
    key: u64,
    now: i64,
    from: u8,
    to: u8,
    kind: u8,
}

impl Summary for Pages {
    fn observe(&mut self, request: &Request) {
        self.touches(request, |pages, touch| {
            if let Some(place) = pages.table.place(touch.key) {
                pages.touch(place, &touch);
            }
        });
    }

    fn merge(&mut self, later: &Self) {
        self.table.halve_to(later.table.halved());
        self.windows.merge(&later.windows);
        for (mine, theirs) in self.intervals.iter_mut().zip(&later.intervals) {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = mine.saturating_add(*theirs);
            }
        }
        for (mine, theirs) in self.accesses.iter_mut().zip(later.accesses) {
            *mine = mine.saturating_add(theirs);
        }
        self.shortened = self.shortened.saturating_add(later.shortened);
        self.apart.add(&later.apart);
        for theirs in 0..later.table.len() {
            if let Some(place) = self.table.place(later.table.key(theirs)) {
                let weight = 1 << self.table.halved();
                for at in 0..GROUP {
                    let page = later.table.page(theirs, at);
                    if page.touched() != NEVER {
                        self.join(place, at, &page, weight);
                    }
                }
            }
        }
        self.windows.settle();
    }
}

impl Apart {
    fn add(&mut self, other: &Self) {
        self.discards = self.discards.saturating_add(other.discards);
        self.discarded_bytes = self.discarded_bytes.saturating_add(other.discarded_bytes);
        self.write_zeroes = self.write_zeroes.saturating_add(other.write_zeroes);
        self.zeroed_bytes = self.zeroed_bytes.saturating_add(other.zeroed_bytes);
    }
}
