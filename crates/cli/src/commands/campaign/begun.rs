//! When a replay began that another process does.
//!
//! Its process begins long before: it opens the devices, looks at what they hold, and measures the
//! host. On a busy machine that takes seconds, and what is to break one second into the load would
//! break before its first request. `run.toml` tells the time zero as soon as it is agreed.

use std::path::{Path, PathBuf};

use ioecho_linux::MonotonicClock;
use ioecho_replay::Clock as _;
use ioecho_run::directory::RunDirectory;
use ioecho_trace::Nanos;

/// A replay that goes on, or is over.
pub(super) struct Begun {
    run: PathBuf,
    /// Since the process began; simulated time has nothing to do with this clock.
    clock: MonotonicClock,
    zero_ns: Option<i64>,
}

impl Begun {
    /// A replay whose process begins now.
    pub(super) fn of(run: &Path, simulated: bool) -> Self {
        let clock = MonotonicClock::new();
        let zero_ns = simulated.then(|| clock.origin().0);
        Self { run: run.to_owned(), clock, zero_ns }
    }

    /// How long ago its time zero was, in seconds; `None` as long as it lies ahead.
    pub(super) fn seconds(&mut self) -> Option<f64> {
        if self.zero_ns.is_none() {
            let facts = RunDirectory::at(&self.run)?.read_facts().ok()?;
            self.zero_ns = facts.zero_monotonic_ns;
        }
        let passed = self.clock.origin() + self.clock.now() - Nanos(self.zero_ns?);
        (passed >= Nanos::ZERO).then(|| passed.as_secs_f64())
    }
}
