//! The signals that end what goes on: a run, a fill, a look at what was written, a conversion.
//!
//! People send SIGINT, SIGTERM and SIGHUP. Schedulers give notice by others before they kill: Slurm
//! by whatever `--signal` names, Grid Engine by SIGUSR1 and SIGUSR2, the kernel by SIGXCPU once a
//! second from a limit of processor time on. By default each of them would end the process without
//! its results, so each is a wish to end. Notice is given more than once, so only what people send
//! is taken for impatience. What was ignored when the process began (`nohup`) stays so.
//!
//! The first one asks the run to end. Many who send it send it twice at once: `timeout` sends one
//! to the process and one to its group, a terminal's wrapper passes on what the terminal has sent,
//! and a service manager adds SIGTERM to the Ctrl-C. So what comes within a second is the same
//! wish. One that comes later ends the process, for a device that no longer answers would hold it
//! for ever; but what a witness has in the kernel, which would cost every request of the machine
//! time from then on, is taken out before.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ioecho_linux::record;
use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::flag;
use signal_hook::iterator::Signals as Incoming;
use signal_hook::low_level::emulate_default_handler;

use crate::run::observer::Stopping;

/// What people send who want an end; a second one is meant as it was the first time.
const ASKING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// What gives notice of an end. `SIGPWR` has no name in POSIX: the power supply fails, says
/// signal(7).
const NOTICES: [i32; 8] =
    [SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, Signal::POWER.as_raw()];

/// Signals that come within this time of the last one are one.
pub(crate) const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// So long a recorder may take to bring to its files what it has, and to leave the kernel.
const RECORDER_ENDS: Duration = Duration::from_secs(10);

/// From now on the first signal asks the run to end, and a later one ends the process.
pub(crate) fn stop_on_signals() -> anyhow::Result<Stopping> {
    let stopping = Stopping::default();
    for signal in ending() {
        for raised in stopping.flags() {
            flag::register(signal, Arc::clone(raised))?;
        }
    }
    let mut incoming = Incoming::new(ending().filter(|signal| ASKING.contains(signal)))?;
    ioecho_linux::thread::start("signals", move || {
        let mut wishes = Wishes::default();
        for signal in incoming.forever() {
            if wishes.count(Instant::now()) > 1 {
                end_process(signal);
            }
        }
    })?;
    Ok(stopping)
}

/// Raises `stop` at the first signal that asks for an end; a second one that people send ends the
/// process at once.
pub(crate) fn raise(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in ending() {
        if ASKING.contains(&signal) {
            flag::register_conditional_default(signal, Arc::clone(stop))?;
        }
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// The signals that ask for an end, but for those that this process was told to ignore. A shell
/// that starts a command in the background ignores SIGINT for it, and whoever sends that to it
/// means it.
pub(crate) fn ending() -> impl Iterator<Item = i32> {
    let all = ASKING.into_iter().chain(NOTICES);
    all.filter(|signal| *signal == SIGINT || !is_ignored(*signal))
}

/// Whether this signal is ignored, as `nohup` asks for that of the end of a terminal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
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
