//! The recording while it goes on.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use ioecho_linux::record::{Recorder, Summary};
use ioecho_trace::{Nanos, Stop};

use super::ends::{Ends, Event};
use super::line::Line;
use crate::print::{tell, visible};

/// How often the line is drawn.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// How often the recorder is asked whether it has ended by itself.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// So long a command may take to end at the signal that ends the recording.
const COMMAND_ENDS: Duration = Duration::from_millis(200);

/// A recording that is to begin.
pub(crate) struct Session {
    pub(crate) ends: Ends,
    /// For how long.
    pub(crate) duration: Option<Nanos>,
    /// While this runs.
    pub(crate) command: Vec<OsString>,
    /// Whether to say nothing meanwhile.
    pub(crate) is_quiet: bool,
}

/// How it ended.
pub(crate) struct Outcome {
    pub(crate) summary: Summary,
    /// How the command ended, if there was one and it has.
    pub(crate) command: Option<ExitStatus>,
    /// Raised by a signal that comes now.
    pub(crate) stop: Stop,
}

impl Session {
    /// Listens to signals from now on.
    pub(crate) fn new(
        duration: Option<Nanos>,
        command: &[OsString],
        is_quiet: bool,
    ) -> anyhow::Result<Self> {
        Ok(Self { ends: Ends::listen()?, duration, command: command.to_vec(), is_quiet })
    }

    /// Starts the command, if there is one, and answers the number of its process.
    pub(crate) fn run(&self) -> anyhow::Result<u32> {
        self.ends.run(&self.command)
    }

    /// Waits for the end of the recording; `number` is what [`run`](Self::run) answered.
    pub(crate) fn follow(self, recorder: Recorder, number: u32) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let until = self.duration.map(|duration| {
            begun + Duration::from_nanos(u64::try_from(duration.0).unwrap_or_default())
        });
        let mut line = Line::new(!self.is_quiet && self.command.is_empty());
        let mut drawn = Instant::now();
        let (mut command, mut told) = (None, 0);
        let why = loop {
            let now = Instant::now();
            let next = (now + ASK_EVERY).min(until.unwrap_or(now + ASK_EVERY));
            match self.ends.wait(next) {
                Event::Asked(signal) => {
                    // Ctrl-C goes to the command as well.
                    if !self.command.is_empty()
                        && let Event::CommandEnded(status) =
                            self.ends.wait(Instant::now() + COMMAND_ENDS)
                    {
                        command = status.ok();
                    }
                    break signal.to_owned();
                }
                Event::CommandEnded(status) => {
                    command = Some(status?);
                    break "its command has ended".to_owned();
                }
                Event::Nothing => {}
            }
            let status = recorder.status();
            // What is missing from now on should be known now, and not after a night.
            for note in status.notes.iter().skip(told) {
                line.aside(|| tell(&format!("note: {}", visible(note))));
            }
            told = status.notes.len();
            if status.ended.is_some() || until.is_some_and(|until| Instant::now() >= until) {
                break "its time is over".to_owned();
            }
            if drawn.elapsed() >= DRAW_EVERY {
                drawn = Instant::now();
                line.show(&status);
            }
        };
        let summary = recorder.stop_because(&why);
        line.finish();
        for note in summary.notes.iter().skip(told) {
            tell(&format!("note: {}", visible(note)));
        }
        if command.is_none() && !self.command.is_empty() {
            tell(&format!("the command goes on (process {number}), and is recorded no more"));
        }
        Ok(Outcome { summary, command, stop: self.ends.stop.clone() })
    }
}
