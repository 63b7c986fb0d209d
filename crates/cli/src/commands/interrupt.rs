//! A conversion that is interrupted.
//!
//! After Ctrl-C a conversion should be gone, with its incomplete files and its shell commands. The
//! signals raise a flag. The sources look at the flag and end, so everything is dropped in order
//! and removes its files. But a source may wait for a pipe that never sends anything. So after a
//! while a thread removes the files and ends the process. If the process waits for a server, this
//! happens at once.

use std::thread;
use std::time::Duration;

use ioecho_trace::Stop;
use ioecho_trace::compression::PartialFile;
use signal_hook::iterator::Signals;

use crate::exit;
use crate::fetch;
use crate::print::tell;
use crate::run::signals;

/// How long the orderly end may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns a flag that the signals raise. The process ends soon after, whatever it is doing.
pub(crate) fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let asked = stop.clone();
    let mut signals = Signals::new(signals::ending())?;
    ioecho_linux::thread::start("signals", move || {
        if signals.forever().next().is_none() {
            return;
        }
        asked.ask();
        if !fetch::is_under_way() {
            thread::sleep(PATIENCE);
        }
        // From here on no incomplete output is renamed to its final name.
        let _none_is_finished = PartialFile::remove_unfinished();
        fetch::clear_away();
        tell("error: stopped before the end; nothing was written");
        std::process::exit(exit::INCOMPLETE.into());
    })?;
    Ok(stop)
}
