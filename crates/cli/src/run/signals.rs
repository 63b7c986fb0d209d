//! The signals that end work early: a run, a fill, a verification, a conversion.
//!
//! People send SIGINT, SIGTERM and SIGHUP. Schedulers send other signals as a notice before they
//! kill: Slurm the one that `--signal` names, Grid Engine SIGUSR1 and SIGUSR2, the kernel SIGXCPU
//! once a second when a limit of processor time is reached. By default each of them would end the
//! process without its results. So each of them asks for the end. A notice may come more than once.
//! So only the signals that people send count as a second request. A signal that was ignored when
//! the process began (`nohup`) stays ignored.
//!
//! The first signal asks the run to end. Many programs send a signal twice: `timeout` sends one to
//! the process and one to its group, the wrapper of a terminal passes on the signal that the
//! terminal has sent already, and a service manager adds SIGTERM to the Ctrl-C. So all signals
//! within a second count as one. A later signal ends the process, because a device that no longer
//! answers would hold it for ever. Before that, the trace of a witness is removed from the kernel,
//! where it would slow down every request of the machine.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ioecho_linux::record;
use ioecho_run::observer::Stopping;
use rustix::process::Signal;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::flag;
use signal_hook::iterator::Signals as Incoming;
use signal_hook::low_level::emulate_default_handler;

/// Signals that people send. A second one ends the process.
const ASKING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that give notice of an end. `SIGPWR` is not in POSIX. It says that the power supply
/// fails (signal(7)).
const NOTICES: [i32; 8] =
    [SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, Signal::POWER.as_raw()];

/// Signals within this time of the last one count as one.
pub(crate) const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// How long a recorder may take to write its last events and to remove its trace from the kernel.
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

/// Raises `stop` at the first signal that asks for the end. A second one that people send ends the
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

/// The signals that ask for the end, without those that this process was told to ignore. SIGINT is
/// always among them: a shell ignores it for a command in the background, but a user who sends it
/// to that command means it.
pub(crate) fn ending() -> impl Iterator<Item = i32> {
    let all = ASKING.into_iter().chain(NOTICES);
    all.filter(|signal| *signal == SIGINT || !is_ignored(*signal))
}

/// Whether this signal is ignored, as `nohup` does for SIGHUP.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Ends the process by this signal, but first removes its traces from the kernel.
pub(crate) fn end_process(signal: i32) {
    record::end_all(RECORDER_ENDS);
    let _ = emulate_default_handler(signal);
}

/// Counts requests to end.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    count: u32,
    last: Option<Instant>,
}

impl Wishes {
    /// Counts a signal that came at `now`. Returns the number of the request, or 0 if the signal
    /// belongs to the one before.
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
