//! The signals that end a run.
//!
//! The first one asks the run to end. Many who send it send it twice at once: `timeout` sends one
//! to the process and one to its group, a terminal's wrapper passes on what the terminal has sent,
//! and a service manager adds SIGTERM to the Ctrl-C. So what comes within a second is the same
//! wish. One that comes later ends the process, for a device that no longer answers would hold it
//! for ever; but what a witness has in the kernel, which would cost every request of the machine
//! time from then on, is taken out before.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_linux::record;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Incoming;
use signal_hook::low_level::emulate_default_handler;

/// Signals that come within this time of the last one are one.
pub(crate) const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// So long a recorder may take to bring to its files what it has, and to leave the kernel.
const RECORDER_ENDS: Duration = Duration::from_secs(10);

/// What the signals to end raise.
pub(crate) struct Signals {
    /// Ends the run. Raised at a normal end, too.
    pub(crate) stop: Arc<AtomicBool>,
    /// Raised by signals alone.
    pub(crate) asked: Arc<AtomicBool>,
}

/// From now on the first signal asks the run to end, and a later one ends the process.
pub(crate) fn stop_on_signals() -> anyhow::Result<Signals> {
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut incoming = Incoming::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut wishes = Wishes::default();
        for signal in incoming.forever() {
            if wishes.count(Instant::now()) > 1 {
                end_process(signal);
            }
        }
    })?;
    Ok(Signals { stop, asked })
}

/// Ends the process as this signal does by itself, but leaves nothing in the kernel.
pub(crate) fn end_process(signal: i32) {
    record::end_all(RECORDER_ENDS);
    let _ = emulate_default_handler(signal);
}

/// Counts wishes to end.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    count: u32,
    last: Option<Instant>,
}

impl Wishes {
    /// Takes a signal that came at `now`; answers the number of its wish, or 0 where it belongs to
    /// the one before.
    pub(crate) fn count(&mut self, now: Instant) -> u32 {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < ONE_SIGNAL) {
            return 0;
        }
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_within_a_second_are_one_wish() {
        let (begun, mut wishes) = (Instant::now(), Wishes::default());
        let numbers = [0, 3, 999, 1000, 1500, 2000, 9000]
            .map(|ms| wishes.count(begun + Duration::from_millis(ms)));
        assert_eq!(numbers, [1, 0, 0, 2, 0, 3, 4]);
    }
}
