//! Observers of a run, and the request to end it.
//!
//! A run prints nothing and installs no signal handler, because it may be one of several in its
//! process. It sends messages for the user to its [`Observer`], and shares the counters that it has
//! anyway; the observer may turn them into a line, panels, a page or nothing. The request to end is
//! a value, [`Stopping`], which a signal, another thread or another host may raise.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex};

use ioecho_replay::Record;
use ioecho_replay::engine::Control;
use ioecho_stats::histogram::Latencies;
use ioecho_trace::Nanos;

use crate::error::Result;
use crate::facts::RunFacts;
pub use crate::feeder::Demand;
use crate::plan::ReplayPlan;

/// The request to end a run. Clones share one request.
#[derive(Clone, Debug, Default)]
pub struct Stopping {
    /// Raised when the run ends, for whatever reason.
    stop: Arc<AtomicBool>,
    /// Raised only by a request to end.
    asked: Arc<AtomicBool>,
}

impl Stopping {
    /// Asks the run to end.
    pub fn ask(&self) {
        self.flags().iter().for_each(|flag| flag.store(true, Relaxed));
    }

    /// Makes it the request to end another run, after one all of whose threads have ended. What was
    /// asked for stays asked for.
    pub fn renew(&self) {
        // Both in one order with a signal, which raises the first of the flags before the second.
        self.stop.store(false, SeqCst);
        if self.asked.load(SeqCst) {
            self.stop.store(true, SeqCst);
        }
    }

    /// Whether the end was requested.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// The flags to raise for a request, for a signal handler that can do nothing else.
    pub fn flags(&self) -> [&Arc<AtomicBool>; 2] {
        [&self.asked, &self.stop]
    }

    /// Raised only by a request to end.
    pub fn asked(&self) -> &Arc<AtomicBool> {
        &self.asked
    }

    /// Raised when the run ends, for whatever reason.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }
}

/// The counters of a run that is going on, for its observer.
#[derive(Clone)]
pub struct Meters {
    /// One per target.
    pub controls: Vec<Arc<Control>>,
    /// The demand over time.
    pub demand: Arc<Mutex<Demand>>,
    /// Whether there is a demand: only with a schedule.
    pub has_schedule: bool,
    /// The results of the last moments.
    pub moments: Arc<Mutex<Moments>>,
    /// The expected duration of the run, if known.
    pub duration: Option<Nanos>,
    /// Whether its time is simulated, and passes faster or slower than that of a clock.
    pub simulated: bool,
}

/// The results since the observer last took them.
#[derive(Debug, Default)]
pub struct Moments {
    /// How late they were issued.
    pub lateness: Latencies,
    /// How many of them completed in full.
    pub completed: u64,
}

/// Counts results, in the thread that writes them.
pub trait Counter: Send {
    /// The earliest instant among the lanes that are still running, as `running` says; `None` if
    /// there are none.
    fn clock(&self, running: &[bool]) -> Option<i64>;

    /// Counts a result.
    fn add(&mut self, record: &Record);

    /// All results before this instant of the replay were counted.
    fn close_until(&mut self, now: i64);

    /// The run has ended, and all results were counted.
    fn finish(&mut self);
}

/// An observer of a run. Every method may do nothing.
pub trait Observer: Send + Sync {
    /// Receives a message for the user: a warning or a note, in whole lines. Called from any thread
    /// of the run, but never from one that is issuing requests.
    fn tell(&self, text: &str);

    /// The length of the intervals in which demand is counted, if needed.
    fn interval(&self) -> Option<Nanos> {
        None
    }

    /// Everything is open, and no request was issued. An error ends the run before it starts.
    fn begins(&self, plan: &ReplayPlan, facts: &RunFacts) -> Result<()> {
        let _ = (plan, facts);
        Ok(())
    }

    /// The threads are about to start. Returns a counter for the results, if needed.
    fn starts(&self, meters: Meters) -> Result<Option<Box<dyn Counter>>> {
        let _ = meters;
        Ok(None)
    }

    /// Every target is open, the buffers are full and all threads wait: only the instant of the
    /// beginning is missing. Returns that instant on `CLOCK_MONOTONIC`, for which it may wait, or
    /// `None` if the run is to begin as its plan says. An error ends the run before it starts.
    fn armed(&self) -> Result<Option<Nanos>> {
        Ok(None)
    }

    /// The last request was completed, and all results were counted.
    fn ends(&self) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn tell(&self, _text: &str) {}
}
