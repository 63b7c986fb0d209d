//! Requests that wait for requests on other targets.
//!
//! A database whose log lies on another device than its tables issues to the one what it waited for
//! on the other. But each target is replayed by a thread of its own, and none may hold up another.
//! So each replay tells its completions in a log that all the others read: a ring of plain numbers,
//! without a lock and without a system call. Whoever has a request that waits for one on another
//! target learns from there when that one completed.
//!
//! **No log overflows, and nothing is forgotten too early**, because no replay runs far ahead of
//! the others: each tells the least number of its requests that have not ended, its *floor*, and
//! nothing is handed out whose number lies more than [`Reach::apart`] beyond the least floor.
//! Parents stand at most as far before their request. So what a reader has not taken yet lies
//! between its own floor and twice that distance behind it, which a log holds twice over; and a
//! number that a later one displaces is no longer anybody's parent.
//!
//! In simulation each replay has its own clock, and the clocks must agree ([`crate::sim::Pace`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ioecho_trace::Nanos;

use crate::schedule::span;
use crate::sim::Pace;

/// How far apart the replays of a run may be, in numbers of requests.
#[derive(Clone, Debug)]
pub struct Reach {
    shared: Arc<Shared>,
    apart: u64,
}

impl Reach {
    /// The distance beyond the least floor up to which requests may be handed out.
    pub fn apart(&self) -> u64 {
        self.apart
    }

    /// Whether the request of this number may be handed out.
    pub fn holds(&self, seq: u64) -> bool {
        let floors = self.shared.floors.iter().map(|floor| floor.load(Ordering::Acquire));
        let least = floors.min().unwrap_or(u64::MAX);
        seq < least.saturating_add(self.apart)
    }
}

#[derive(Debug)]
struct Shared {
    logs: Vec<Log>,
    /// By replay: all its requests of smaller numbers have ended.
    floors: Vec<AtomicU64>,
}

/// The completions of one replay, the last ones.
#[derive(Debug)]
struct Log {
    entries: Vec<(AtomicU64, AtomicI64)>,
    written: AtomicU64,
}

/// One replay's link to those on the other targets of its run.
#[derive(Debug)]
pub struct Across {
    number: usize,
    shared: Arc<Shared>,
    /// By replay: how many of its completions were taken.
    taken: Vec<u64>,
    pace: Option<Pace>,
}

impl Across {
    /// The links of so many replays whose look-ahead is this long, and what bounds how far apart
    /// they may be. `simulated` replays keep their clocks in step.
    pub fn new(replays: usize, look_ahead: usize, simulated: bool) -> (Vec<Self>, Reach) {
        let span = span(look_ahead);
        let log = |_| Log {
            entries: (0..span).map(|_| Default::default()).collect(),
            written: AtomicU64::new(0),
        };
        let shared = Arc::new(Shared {
            logs: (0..replays).map(log).collect(),
            floors: (0..replays).map(|_| AtomicU64::new(0)).collect(),
        });
        let paces: Vec<Option<Pace>> = if simulated {
            Pace::of(replays).into_iter().map(Some).collect()
        } else {
            vec![None; replays]
        };
        let link = |(number, pace)| Self {
            number,
            shared: Arc::clone(&shared),
            taken: vec![0; replays],
            pace,
        };
        let links = paces.into_iter().enumerate().map(link).collect();
        (links, Reach { shared, apart: span as u64 / 4 })
    }

    /// What keeps a simulated clock in step with the others.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// Passes on which requests have ended on other targets since the last call, and when.
    pub fn take(&mut self, pass: &mut dyn FnMut(u64, Nanos)) {
        for (number, (log, taken)) in self.shared.logs.iter().zip(&mut self.taken).enumerate() {
            if number == self.number {
                continue;
            }
            let written = log.written.load(Ordering::Acquire);
            for place in *taken..written {
                let (seq, at) = &log.entries[place as usize & (log.entries.len() - 1)];
                pass(seq.load(Ordering::Relaxed), Nanos(at.load(Ordering::Relaxed)));
            }
            *taken = written;
        }
    }

    /// Tells the others that the request of this number has ended.
    pub fn tell(&mut self, seq: u64, at: Nanos) {
        let log = &self.shared.logs[self.number];
        let written = log.written.load(Ordering::Relaxed);
        let entry = &log.entries[written as usize & (log.entries.len() - 1)];
        entry.0.store(seq, Ordering::Relaxed);
        entry.1.store(at.0, Ordering::Relaxed);
        log.written.store(written + 1, Ordering::Release);
    }

    /// Tells that all requests of smaller numbers have ended, and that what has was told by `now`.
    pub fn reached(&mut self, floor: u64, told: bool, now: Nanos) {
        self.shared.floors[self.number].store(floor, Ordering::Release);
        if let Some(pace) = self.pace.as_ref().filter(|_| told) {
            pace.ring(now);
        }
    }
}

impl Drop for Across {
    fn drop(&mut self) {
        // A replay that is over holds up nobody.
        self.shared.floors[self.number].store(u64::MAX, Ordering::Release);
        if let Some(pace) = &self.pace {
            pace.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(link: &mut Across) -> Vec<(u64, i64)> {
        let mut all = Vec::new();
        link.take(&mut |seq, at| all.push((seq, at.0)));
        all
    }

    #[test]
    fn each_hears_of_the_others_once_and_not_of_itself() {
        let (mut links, _) = Across::new(3, 4, false);
        links[0].tell(7, Nanos(70));
        links[2].tell(8, Nanos(80));
        assert_eq!(taken(&mut links[0]), [(8, 80)]);
        assert_eq!(taken(&mut links[1]), [(7, 70), (8, 80)]);
        assert_eq!(taken(&mut links[1]), []);
        for seq in 10..200 {
            links[0].tell(seq, Nanos(1));
            assert_eq!(taken(&mut links[2]).last(), Some(&(seq, 1)));
        }
    }

    #[test]
    fn nothing_is_handed_out_far_beyond_what_the_slowest_has_done() {
        let (mut links, reach) = Across::new(2, 16, false);
        assert_eq!(reach.apart(), 64);
        links[0].reached(1000, false, Nanos::ZERO);
        links[1].reached(100, false, Nanos::ZERO);
        assert!(reach.holds(163) && !reach.holds(164));
        // One that is over holds up nobody.
        links.pop();
        assert!(reach.holds(1063) && !reach.holds(1064));
    }
}
