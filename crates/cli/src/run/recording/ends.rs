//! The events that may end a recording: a signal, the end of the command, the end of the time.

use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_trace::Stop;
use signal_hook::consts::{SIGQUIT, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::exit::{self, Coded};
use crate::run::signals::{Wishes, end_process, ending, is_ignored};

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody asked for the end with this signal.
    Asked(&'static str),
    /// The command has ended.
    CommandEnded(std::io::Result<ExitStatus>),
    /// There was no event within the time.
    Nothing,
}

/// The place where events arrive.
pub(crate) struct Ends {
    incoming: Receiver<Event>,
    outgoing: Sender<Event>,
    /// Raised by the second signal. It ends the conversion after the recording.
    pub(crate) stop: Stop,
}

impl Ends {
    /// From now on signals are events. The first one ends the recording, the second one the
    /// conversion after it, the third one the process. Signals that are meant for other programs
    /// are ignored. By default they would end this process and leave its trace in the kernel.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let (outgoing, incoming) = channel();
        let stop = Stop::default();
        let meant_for_others = [SIGUSR1, SIGUSR2];
        let asking = ending().filter(|signal| !meant_for_others.contains(signal));
        let signals = Signals::new(asking)?;
        if !is_ignored(SIGQUIT) {
            signals.add_signal(SIGQUIT)?;
        }
        for signal in meant_for_others {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        let (asked, told) = (stop.clone(), outgoing.clone());
        ioecho_linux::thread::start("signals", move || {
            let mut signals = signals;
            let mut wishes = Wishes::default();
            for signal in signals.forever() {
                match wishes.count(Instant::now()) {
                    0 => {}
                    // If the event cannot be sent, the recording has ended by itself.
                    1 if told.send(Event::Asked(name_of(signal))).is_ok() => {}
                    1 | 2 => asked.ask(),
                    _ => end_process(signal),
                }
            }
        })?;
        Ok(Self { incoming, outgoing, stop })
    }

    /// Starts a command. Its end is an event.
    pub(crate) fn run(&self, command: &[OsString]) -> anyhow::Result<u32> {
        let Some((program, arguments)) = command.split_first() else { return Ok(0) };
        let child = Command::new(program).args(arguments).spawn();
        let mut child: Child = child.map_err(|error| {
            let name = program.display();
            Coded::error(exit::USAGE, format!("cannot run {name}: {error}"))
        })?;
        let (number, told) = (child.id(), self.outgoing.clone());
        ioecho_linux::thread::start("command", move || {
            let _ = told.send(Event::CommandEnded(child.wait()));
        })?;
        Ok(number)
    }

    /// Waits for the next event until this instant.
    pub(crate) fn wait(&self, until: Instant) -> Event {
        match self.incoming.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => Event::Nothing,
            // This cannot happen, because one sender is kept here. But without a wait the loop
            // would spin.
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(Duration::from_millis(100));
                Event::Nothing
            }
        }
    }
}

fn name_of(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("a signal")
}
