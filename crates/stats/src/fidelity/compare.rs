//! Two streams side by side, a window at a time.
//!
//! Both sides are read until the window is full, then matched, and the older half of the decided
//! requests leaves the window. These are counted in the order in which the device saw them, because
//! order and time in flight are figures. If both sides fit into the window, all are decided at
//! once, and the figures are exact.

use ioecho_trace::{LateCause, Op, TraceError};

use super::Settings;
use super::blind::{Blind, END_SLACK_NS};
use super::event::{Engine, Event};
use super::figures::{FidelityFigures, How};
use super::flushes;
use super::matching::{NONE, before_start, difference, local_shift, sure, whole};
use super::pieces;
use super::tally::Tally;

/// Requests that are due closer together than this are a burst, in nanoseconds: a program needs
/// some microseconds for each, unlike the kernel that issued them originally.
pub const CROWDED_NS: i64 = 20_000;

/// A request that was asked for and found, in the order in which the device saw it.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// When it was to be issued, in nanoseconds of the side that asked.
    pub at: i64,
    /// Its number in the order that was asked for; those of the same instant have the same.
    pub number: u64,
    /// When the device saw it, in nanoseconds of the recording, shifted where the shift was known;
    /// of pieces the first.
    pub seen: i64,
    /// Its kind.
    pub op: Op,
    /// The device, by the number that both sides share.
    pub target: u32,
    /// How long the original took, where that is known.
    pub asked_latency: Option<i64>,
    /// How long the device took: of pieces until the last was done, of a union known for its first
    /// part alone.
    pub seen_latency: Option<i64>,
    /// The engine's record of it.
    pub engine: Option<Engine>,
    /// How it was found.
    pub how: How,
    /// Whether it was due less than [`CROWDED_NS`] behind another one.
    pub crowded: bool,
}

impl Pair {
    /// Later than asked for, in nanoseconds, the distance of the clocks included.
    pub fn error(&self) -> i64 {
        difference(self.seen, self.at)
    }

    /// Whether the engine held it back because of what the device had not done yet.
    pub(super) fn held_back(&self) -> bool {
        self.engine.is_some_and(|engine| engine.held_back())
    }

    /// Why the engine says that it was late.
    pub(super) fn cause(&self) -> LateCause {
        self.engine.map_or(LateCause::None, |engine| engine.cause)
    }
}

/// A comparison of two sides.
pub struct Compared(Tally);

impl Compared {
    /// The figures, given where the recording was blind, which is known only at its end.
    pub fn figures(self, blind: &Blind) -> FidelityFigures {
        self.0.figures(blind)
    }
}

/// Compares the requests asked for with those seen. Both are in the order of their instants, or
/// nearly. `watch` is called for every request that was found, in the order in which the device saw
/// them.
///
/// # Errors
///
/// The first error of either side; nothing is known then.
pub fn compare(
    asked: impl Iterator<Item = Result<Event, TraceError>>,
    seen: impl Iterator<Item = Result<Event, TraceError>>,
    settings: &Settings,
    watch: &mut dyn FnMut(&Pair),
) -> Result<Compared, TraceError> {
    let mut asked = Side::new(asked);
    let mut seen = Side::new(seen);
    let window = settings.window.max(2);
    let mut tally = Tally::new(settings);
    let mut numbers = Numbers::default();
    let mut ready: Vec<Pair> = Vec::new();
    let mut shift = settings.absolute.then_some(0);
    let (mut is_stuck, mut is_first) = (false, true);
    loop {
        asked.fill(window, |event| {
            if event.implied {
                return Numbered::default();
            }
            tally.asked(event);
            numbers.of(event.at)
        })?;
        seen.fill(window, |_| Numbered::default())?;
        let whole_run = asked.ended && seen.ended;
        let first = || {
            let (ours, theirs) = (asked.events.first()?, seen.events.first()?);
            Some(difference(theirs.at, ours.at))
        };
        let guess = shift.or_else(first).unwrap_or(0);
        let mut found = whole(&asked.events, &seen.events, 0, guess, settings.absolute);
        let mut from = 0;
        if is_first {
            from = before_start(&asked.events, &seen.events, &found, settings.absolute);
            if from > 0 {
                found = whole(&asked.events, &seen.events, from, guess, settings.absolute);
            }
            is_first = false;
        }
        if let Some(unexpected) = flushes::unexpected(&asked.events, &seen.events, &found) {
            asked.keep(&unexpected);
            found = whole(&asked.events, &seen.events, from, guess, settings.absolute);
        }
        if let Some(median) = median_shift(&asked.events, &seen.events, &found) {
            shift = Some(median);
            tally.centre.get_or_insert(median);
        }
        let shift = shift.unwrap_or(guess);
        flushes::give_back(&asked.events, &seen.events, &mut found, shift);
        let left = pieces::find(&asked.events, &seen.events, &found, from, shift);
        let until = if whole_run { None } else { boundary(&asked, &seen, shift) };
        tally.windowed |= !whole_run;
        let leaving = Leaving::new(&asked, &seen, until, shift, settings.absolute, is_stuck);
        let before = asked.events.len() + seen.events.len();
        settle(&mut asked, &mut seen, &found, &left, &leaving, &mut tally, &mut ready);
        is_stuck = asked.events.len() + seen.events.len() == before;
        let bound = seen.events.first().map(|event| event.at);
        ready.sort_by_key(|pair| (pair.seen, pair.number));
        let out = bound.map_or(ready.len(), |at| ready.partition_point(|pair| pair.seen < at));
        for pair in ready.drain(..if whole_run { ready.len() } else { out }) {
            tally.pair(&pair);
            watch(&pair);
        }
        if whole_run {
            return Ok(Compared(tally));
        }
    }
}

/// One side: its read but undecided requests, in the order of time.
struct Side<I> {
    source: I,
    events: Vec<Event>,
    numbers: Vec<Numbered>,
    ended: bool,
    /// The latest instant so far.
    last: i64,
}

impl<I: Iterator<Item = Result<Event, TraceError>>> Side<I> {
    fn new(source: I) -> Self {
        let (events, numbers) = (Vec::new(), Vec::new());
        Self { source, events, numbers, ended: false, last: i64::MIN }
    }

    fn fill(
        &mut self,
        window: usize,
        mut number: impl FnMut(&Event) -> Numbered,
    ) -> Result<(), TraceError> {
        let mut is_ordered = true;
        while self.events.len() < window && !self.ended {
            match self.source.next() {
                None => self.ended = true,
                Some(event) => {
                    let event = event?;
                    is_ordered &= self.events.last().is_none_or(|last| last.at <= event.at);
                    self.last = self.last.max(event.at);
                    self.numbers.push(number(&event));
                    self.events.push(event);
                }
            }
        }
        if !is_ordered {
            let mut order: Vec<usize> = (0..self.events.len()).collect();
            order.sort_by_key(|at| self.events[*at].at);
            self.events = order.iter().map(|at| self.events[*at]).collect();
            self.numbers = order.iter().map(|at| self.numbers[*at]).collect();
        }
        Ok(())
    }

    /// Keeps those that `goes` does not name.
    fn keep(&mut self, goes: &[bool]) {
        let mut at = 0;
        self.events.retain(|_| {
            at += 1;
            !goes[at - 1]
        });
        let mut at = 0;
        self.numbers.retain(|_| {
            at += 1;
            !goes[at - 1]
        });
    }
}

/// A request's place in the order that was asked for.
#[derive(Clone, Copy, Default)]
struct Numbered {
    number: u64,
    crowded: bool,
}

/// Numbers in the order that was asked for.
#[derive(Default)]
struct Numbers {
    count: u64,
    last: Option<(i64, u64)>,
}

impl Numbers {
    /// The number of a request at this instant: that of its predecessor if that has the same.
    fn of(&mut self, at: i64) -> Numbered {
        let number = match self.last {
            Some((last, number)) if last == at => number,
            _ => self.count,
        };
        let crowded = self.last.is_some_and(|(last, _)| difference(at, last) < CROWDED_NS);
        self.count += 1;
        self.last = Some((at, number));
        Numbered { number, crowded }
    }
}

/// Up to which instant of the device all is settled; `None` where both sides ended.
fn boundary<A, B>(asked: &Side<A>, seen: &Side<B>, shift: i64) -> Option<i64> {
    let half = |events: &[Event], ended: bool, shift: i64| {
        let middle = events.get(events.len() / 2).filter(|_| !ended);
        middle.map(|event| event.at.saturating_add(shift))
    };
    let ours = half(&asked.events, asked.ended, shift);
    let theirs = half(&seen.events, seen.ended, 0);
    ours.into_iter().chain(theirs).min()
}

/// The requests that leave the window.
struct Leaving {
    asked: Vec<bool>,
    seen: Vec<bool>,
    /// The distance of the clocks plus the constant delay: the median over all requests found.
    shift: i64,
    /// The distance of the clocks alone.
    apart: i64,
}

impl Leaving {
    fn new<A, B>(
        asked: &Side<A>,
        seen: &Side<B>,
        until: Option<i64>,
        shift: i64,
        absolute: bool,
        is_stuck: bool,
    ) -> Self {
        let before = |at: i64| until.is_none_or(|until| at < until);
        let mut leaving = Self {
            asked: asked.events.iter().map(|e| before(e.at.saturating_add(shift))).collect(),
            seen: seen.events.iter().map(|event| before(event.at)).collect(),
            shift,
            apart: if absolute { 0 } else { shift },
        };
        // Where half a window has one instant, or counterparts lie further apart than the window
        // reaches, nothing left last time, and yet some must leave.
        if is_stuck {
            for goes in [&mut leaving.asked, &mut leaving.seen] {
                let half = goes.len().div_ceil(2);
                goes[..half].fill(true);
            }
        }
        leaving
    }
}

/// The median of the differences of all pairs.
fn median_shift(asked: &[Event], seen: &[Event], found: &[u32]) -> Option<i64> {
    let mut all: Vec<i64> = found
        .iter()
        .zip(asked)
        .filter(|(other, _)| **other != NONE)
        .map(|(other, event)| difference(seen[*other as usize].at, event.at))
        .collect();
    let middle = all.len() / 2;
    (!all.is_empty()).then(|| *all.select_nth_unstable(middle).1)
}

/// Removes the leaving requests from the window and counts them.
fn settle<A, B>(
    asked: &mut Side<A>,
    seen: &mut Side<B>,
    found: &[u32],
    left: &pieces::Unpaired,
    leaving: &Leaving,
    tally: &mut Tally,
    ready: &mut Vec<Pair>,
) where
    A: Iterator<Item = Result<Event, TraceError>>,
    B: Iterator<Item = Result<Event, TraceError>>,
{
    let mut gone = Gone {
        asked: vec![false; asked.events.len()],
        seen: vec![false; seen.events.len()],
        is_wanted: vec![false; seen.events.len()],
    };
    let window = Window {
        asked: &asked.events,
        numbers: &asked.numbers,
        seen: &seen.events,
        found,
        leaving,
    };
    window.pair_whole(&mut gone, ready);
    window.pair_split(&left.split, &mut gone, tally, ready);
    window.pair_merged(&left.merged, &mut gone, tally, ready);
    let seen_until = seen.ended.then(|| difference(seen.last, END_SLACK_NS));
    window.count_missing(seen_until, &mut gone, tally);
    window.count_extra(&mut gone, tally);
    asked.keep(&gone.asked);
    seen.keep(&gone.seen);
}

/// The requests that have left the window. A request asked for leaves with its counterpart; an
/// extra request leaves alone.
struct Gone {
    asked: Vec<bool>,
    seen: Vec<bool>,
    /// Whether a request that was seen has a counterpart, in the window or gone.
    is_wanted: Vec<bool>,
}

/// Both sides of the window, and which of their requests belong together and leave.
#[derive(Clone, Copy)]
struct Window<'a> {
    asked: &'a [Event],
    numbers: &'a [Numbered],
    seen: &'a [Event],
    found: &'a [u32],
    leaving: &'a Leaving,
}

impl Window<'_> {
    /// A request that was asked for, with its counterpart that began at `begin`. A write that asked
    /// for a flush begins with it: that is its instant, and it takes so much longer.
    fn pair(&self, at: usize, begin: i64, latency: Option<i64>, how: How) -> Pair {
        let event = &self.asked[at];
        let before = at.checked_sub(1).filter(|before| self.asked[*before].implied);
        let flush = before.map(|before| self.found[before]).filter(|other| *other != NONE);
        let flush = flush.map(|other| self.seen[other as usize].at).filter(|flush| *flush < begin);
        let seen = flush.unwrap_or(begin);
        Pair {
            at: event.at,
            number: self.numbers[at].number,
            crowded: self.numbers[at].crowded,
            seen,
            op: event.op,
            target: event.target,
            asked_latency: event.latency,
            seen_latency: latency.map(|latency| latency.saturating_add(difference(begin, seen))),
            engine: event.engine,
            how,
        }
    }

    /// Those that were seen as they were asked for.
    fn pair_whole(&self, gone: &mut Gone, ready: &mut Vec<Pair>) {
        for (at, other) in self.found.iter().enumerate().filter(|(_, other)| **other != NONE) {
            let other = *other as usize;
            gone.is_wanted[other] = true;
            if self.leaving.asked[at] {
                (gone.asked[at], gone.seen[other]) = (true, true);
                let event = &self.seen[other];
                if !self.asked[at].implied {
                    ready.push(self.pair(at, event.at, event.latency, How::Whole));
                }
            }
        }
    }

    /// Those that were seen in pieces.
    fn pair_split(
        &self,
        split: &[pieces::Group],
        gone: &mut Gone,
        tally: &mut Tally,
        ready: &mut Vec<Pair>,
    ) {
        for group in split {
            let at = group.whole as usize;
            let parts = || group.parts.iter().map(|part| &self.seen[*part as usize]);
            for part in &group.parts {
                gone.is_wanted[*part as usize] = true;
                gone.seen[*part as usize] |= self.leaving.asked[at];
            }
            if self.leaving.asked[at] {
                gone.asked[at] = true;
                let first = parts().map(|part| part.at).min().unwrap_or_default();
                let ends = parts().map(|part| Some(part.at.saturating_add(part.latency?)));
                let end: Option<Vec<i64>> = ends.collect();
                let end = end.and_then(|ends| ends.into_iter().max());
                tally.pieces += group.parts.len() as u64;
                let latency = end.map(|end| difference(end, first));
                ready.push(self.pair(at, first, latency, How::Split));
            }
        }
    }

    /// Those of which several were seen as one.
    fn pair_merged(
        &self,
        merged: &[pieces::Group],
        gone: &mut Gone,
        tally: &mut Tally,
        ready: &mut Vec<Pair>,
    ) {
        for group in merged {
            let event = &self.seen[group.whole as usize];
            gone.is_wanted[group.whole as usize] = true;
            if group.parts.iter().any(|part| self.leaving.asked[*part as usize]) {
                gone.seen[group.whole as usize] = true;
                tally.unions += 1;
                for (number, part) in group.parts.iter().enumerate() {
                    gone.asked[*part as usize] = true;
                    let latency = event.latency.filter(|_| number == 0);
                    let mut pair = self.pair(*part as usize, event.at, None, How::Merged);
                    (pair.seen, pair.seen_latency) = (event.at, latency);
                    ready.push(pair);
                }
            }
        }
    }

    /// Counts the requests that were asked for and not seen; `seen_until` is the certain end of the
    /// recording, if all of it was read.
    fn count_missing(&self, seen_until: Option<i64>, gone: &mut Gone, tally: &mut Tally) {
        let mut known = None;
        for (at, event) in self.asked.iter().enumerate() {
            if !self.leaving.asked[at] || gone.asked[at] {
                continue;
            }
            gone.asked[at] = true;
            // Where the kernel knows of no cache it may end such a flush before anybody sees it.
            if event.implied {
                continue;
            }
            // When it should have been seen: after its hand-over or, if that is unknown, like its
            // neighbours.
            let submitted = event.engine.and_then(|engine| engine.submitted);
            let expected = if let Some(submitted) = submitted {
                submitted.saturating_add(self.leaving.apart)
            } else {
                let known = known.get_or_insert_with(|| sure(self.asked, self.seen, self.found));
                let shift = local_shift(known, event.at).unwrap_or(self.leaving.shift);
                event.at.saturating_add(shift)
            };
            tally.missing(event, expected, seen_until.is_some_and(|until| expected >= until));
        }
    }

    /// Those that were seen and not asked for.
    fn count_extra(&self, gone: &mut Gone, tally: &mut Tally) {
        for (at, event) in self.seen.iter().enumerate() {
            if self.leaving.seen[at] && !gone.is_wanted[at] {
                gone.seen[at] = true;
                tally.extra(event);
            }
        }
    }
}
