//! Who looks on while a run goes on, and who may end it.
//!
//! A run prints nothing and installs no signal handler: it may be one of several in its process. It
//! tells its [`Observer`] what a person should know and lends it the meters that it keeps anyway;
//! whether that becomes a line, panels, a page or nothing is not its concern. The wish to end comes
//! in as a value, [`Stopping`], which a signal, another thread or another host may raise.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ioecho_replay::Record;
use ioecho_replay::engine::Control;
use ioecho_stats::histogram::Latencies;
use ioecho_trace::Nanos;

use crate::error::Result;
use crate::facts::RunFacts;
pub use crate::feeder::Demand;
use crate::plan::ReplayPlan;

/// The wish that a run ends. Clones are one wish.
#[derive(Clone, Debug, Default)]
pub struct Stopping {
    /// Raised when the run ends, for whatever reason.
    stop: Arc<AtomicBool>,
    /// Raised by who asks for the end alone.
    asked: Arc<AtomicBool>,
}

impl Stopping {
    /// Asks the run to end.
    pub fn ask(&self) {
        self.flags().iter().for_each(|flag| flag.store(true, Relaxed));
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// What has to be raised to ask, for a signal handler that can do no more.
    pub fn flags(&self) -> [&Arc<AtomicBool>; 2] {
        [&self.asked, &self.stop]
    }

    /// Raised by who asks alone.
    pub fn asked(&self) -> &Arc<AtomicBool> {
        &self.asked
    }

    /// Raised when the run ends, for whatever reason.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }
}

/// What a run keeps count of while it goes on, for whoever looks on.
#[derive(Clone)]
pub struct Meters {
    /// One of each target.
    pub controls: Vec<Arc<Control>>,
    /// How many requests fall due when.
    pub demand: Arc<Mutex<Demand>>,
    /// The results of the last moments.
    pub moments: Arc<Mutex<Moments>>,
    /// How long the run is to take, where that is known.
    pub duration: Option<Nanos>,
}

/// The results since somebody last looked, who takes them away.
#[derive(Debug, Default)]
pub struct Moments {
    /// How late they were issued.
    pub lateness: Latencies,
    /// How many there were.
    pub completed: u64,
}

/// Counts results in the thread that writes them.
pub trait Counter: Send {
    /// How far every lane has come that still runs, as `running` says; `None` when none does.
    fn clock(&self, running: &[bool]) -> Option<i64>;

    /// Takes a result.
    fn add(&mut self, record: &Record);

    /// Every result from before this instant of the replay was taken.
    fn close_until(&mut self, now: i64);

    /// The run has ended, and every result was taken.
    fn finish(&mut self);
}

/// Who looks on. Every method may do nothing.
pub trait Observer: Send + Sync {
    /// Hears what a person should know: a warning or a note, in whole lines. Called from any
    /// thread of the run, never from one that issues while it issues.
    fn tell(&self, text: &str);

    /// The length of the intervals in which demand is to be counted, if anybody asks for it.
    fn interval(&self) -> Option<Nanos> {
        None
    }

    /// Everything is open and nothing is issued. An error ends the run before it has begun.
    fn begins(&self, plan: &ReplayPlan, facts: &RunFacts) -> Result<()> {
        let _ = (plan, facts);
        Ok(())
    }

    /// The threads are about to start. Answers what is to be given every result.
    fn starts(&self, meters: Meters) -> Result<Option<Box<dyn Counter>>> {
        let _ = meters;
        Ok(None)
    }

    /// The last request was answered and every result was taken.
    fn ends(&self) {}
}

/// Nobody looks on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn tell(&self, _text: &str) {}
}
