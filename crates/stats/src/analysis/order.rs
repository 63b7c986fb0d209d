//! Figures of the order of requests.
//!
//! A disk's head must go back, a prefetcher must recognise a stream among others: the behaviour of
//! a device depends on the order of requests. blkreplay counts the turns, Sun's Swat also
//! sequential streams. Here only requests of one volume are looked at together: no device knows of
//! the order of requests to others.

mod completed;
mod figures;
mod rows;
mod runs;
mod tally;
#[cfg(test)]
mod tests;

pub use figures::{OrderFigures, Seeks, Sequential, Streams, Turns};
pub use runs::{OPEN_FOR, STREAM_REQUESTS};
pub use tally::NEAR_BYTES;

use ioecho_trace::Request;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use self::completed::Completions;
use self::runs::{Ended, Runs};
use self::tally::{Neighbours, Tallies};
use super::Summary;
use super::kind::{ByKind, Kind};
use super::place::{instant, read_or_write};
use super::shape::{Quantity, Series};

/// The order of the requests of one volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OfVolume {
    volume: u32,
    /// Its reads and writes so far.
    requests: u64,
    neighbours: Neighbours,
    completions: Completions,
    runs: [Runs; 2],
}

/// The order of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Order {
    volumes: Vec<OfVolume>,
    #[serde(skip)]
    places: FxHashMap<u32, usize>,
    /// The place of the last request's volume.
    #[serde(skip)]
    hot: usize,
    tallies: Tallies,
    /// The same by completion.
    completed: Tallies,
    /// Runs that are over, of reads and of writes.
    ended: [Ended; 2],
    /// The first and the last instant.
    span: Option<(i64, i64)>,
}

impl Order {
    #[inline]
    fn place(&mut self, volume: u32) -> usize {
        match self.volumes.get(self.hot) {
            Some(hot) if hot.volume == volume => self.hot,
            _ => self.find(volume),
        }
    }

    fn find(&mut self, volume: u32) -> usize {
        if self.places.len() != self.volumes.len() {
            let places = self.volumes.iter().enumerate().map(|(at, of)| (of.volume, at));
            self.places = places.collect();
        }
        let next = self.volumes.len();
        let place = *self.places.entry(volume).or_insert(next);
        if place == next {
            self.volumes.push(OfVolume { volume, ..OfVolume::default() });
        }
        self.hot = place;
        place
    }

    /// Runs with those that are still open or may belong to an earlier part.
    fn all_ended(&self) -> [Ended; 2] {
        let mut ended = self.ended.clone();
        for of in &self.volumes {
            for (ended, runs) in ended.iter_mut().zip(&of.runs) {
                for run in runs.unfinished() {
                    ended.add(run);
                }
            }
        }
        ended
    }

    /// The figures.
    pub fn figures(&self) -> OrderFigures {
        let ended = self.all_ended();
        let mut completed = self.completed.clone();
        for of in &self.volumes {
            of.completions.finish(&mut completed);
        }
        let both = ended[0].with(&ended[1]);
        let of = |kind: Kind| match kind {
            Kind::Reads => &ended[0],
            Kind::Writes => &ended[1],
            Kind::All => &both,
        };
        OrderFigures {
            turns: ByKind::of(|kind, name| self.tallies.turns(kind, name)),
            turns_completed: ByKind::of(|kind, name| completed.turns(kind, name)),
            seeks: ByKind::of(|kind, name| self.tallies.seeks(kind, name)),
            sequential: ByKind::of(|kind, name| self.sequential(kind, name, of(kind))),
            streams: Streams {
                count: ByKind::of(|kind, _| of(kind).streams),
                mean_concurrent: ByKind::of(|kind, _| self.mean_concurrent(of(kind))),
                concurrent: ByKind::of(|kind, name| concurrent(name, of(kind))),
            },
        }
    }

    fn sequential(&self, kind: Kind, name: &str, ended: &Ended) -> Sequential {
        let tally = self.tallies.of(kind);
        let share = |part: u64| part as f64 / tally.requests.max(1) as f64;
        Sequential {
            requests: tally.requests,
            strict: share(tally.zero),
            near: share(tally.near),
            in_run: share(ended.requests - ended.runs),
            in_stream: share(ended.stream_requests),
            runs: tally::powers(name, Quantity::new("requests of a run", "1"), &ended.lengths),
            mean_run: ended.requests as f64 / ended.runs.max(1) as f64,
            longest_run_bytes: ended.longest_bytes,
            gaps: tally::powers(name, Quantity::new("requests to the next", "1"), &ended.gaps),
        }
    }

    fn mean_concurrent(&self, ended: &Ended) -> f64 {
        let span = self.span.map_or(0, |(first, last)| last - first);
        if span == 0 { ended.streams as f64 } else { ended.stream_ns as f64 / span as f64 }
    }
}

/// How many streams there were at some time of each step.
fn concurrent(name: &str, ended: &Ended) -> Series {
    let mut alive = 0_u64;
    ended.steps().series(name, Quantity::new("sequential streams", "1"), |[begun, over]| {
        let most = alive + begun;
        alive = most.saturating_sub(*over);
        Some(most as f64)
    })
}

impl Summary for Order {
    fn observe(&mut self, request: &Request) {
        let Some(kind) = read_or_write(request.op) else { return };
        let at = instant(request);
        let (first, last) = self.span.get_or_insert((at, at));
        *first = at.min(*first);
        *last = at.max(*last);
        let place = self.place(request.volume.0);
        let of = &mut self.volumes[place];
        let ends = (request.offset.0, request.end().0);
        of.neighbours.observe(&mut self.tallies, at, kind, ends);
        of.completions.observe(&mut self.completed, at, kind, request);
        of.runs[kind].observe(&mut self.ended[kind], of.requests, at, request);
        of.requests += 1;
    }

    fn merge(&mut self, later: &Self) {
        self.tallies.merge(&later.tallies);
        self.completed.merge(&later.completed);
        for (mine, theirs) in self.ended.iter_mut().zip(&later.ended) {
            mine.merge(theirs);
        }
        self.span = match (self.span, later.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (mine, theirs) => mine.or(theirs),
        };
        for theirs in &later.volumes {
            let place = self.find(theirs.volume);
            let of = &mut self.volumes[place];
            of.neighbours.join(&mut self.tallies, &theirs.neighbours);
            of.completions.join(&mut self.completed, &theirs.completions);
            for kind in 0..2 {
                of.runs[kind].join(&mut self.ended[kind], of.requests, &theirs.runs[kind]);
            }
            of.requests = of.requests.saturating_add(theirs.requests);
        }
    }
}
