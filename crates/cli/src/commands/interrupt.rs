//! A conversion that is interrupted.
//!
//! Who presses Ctrl-C on a conversion wants it gone, with its half-made files and its shell
//! commands. The signals raise a flag that the sources look at, so that everything is dropped in
//! good order and takes its files along. A source may however wait for a pipe that says nothing;
//! after a while the files are then removed from outside, and the process ends; at once where it
//! waits for a server.

use std::thread;
use std::time::Duration;

use ioecho_trace::Stop;
use ioecho_trace::compression::PartialFile;
use signal_hook::iterator::Signals;

use crate::exit;
use crate::fetch;
use crate::print::tell;
use crate::run::signals;

/// How long good order may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A flag that the signals to end raise. The process ends soon after, whatever it does.
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
        // From here on no output gets its name.
        let _none_is_finished = PartialFile::remove_unfinished();
        fetch::clear_away();
        tell("error: stopped before the end; nothing was written");
        std::process::exit(exit::INCOMPLETE.into());
    })?;
    Ok(stop)
}
