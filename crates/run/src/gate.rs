//! The gate before a run: it arms itself wholly, says so, and begins at an instant that it is told.
//!
//! Replays on several hosts, or in several processes, are to begin together. But each takes a time
//! of its own to open its targets, to fill its buffers and to measure its host, and one of them may
//! fail at it. So whoever starts them waits until all have said that they are armed, and only then
//! names one instant to all. Both go as lines of JSON through inherited descriptors
//! (`docs/replay.md` describes them). Nothing is issued by a run that does not hear an instant to
//! come: beside others that have begun it would measure another load than was asked for.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_linux::MonotonicClock;
use ioecho_trace::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Kind, Result, RunError};

/// The version of the lines. It changes when a key changes its meaning or goes away.
pub const GATE_VERSION: u32 = 1;

/// How often a run that waits looks whether it is asked to end.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The longest line that makes sense.
const LINE_MAX_BYTES: usize = 4096;

/// A line that the run writes.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Said<'a> {
    /// Everything is ready, and only the instant is missing.
    Armed { version: u32, pid: u32, now_monotonic_ns: i64 },
    /// The run does not begin.
    Refused { reason: &'a str },
}

/// The line that it reads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    /// The replay's time zero on `CLOCK_MONOTONIC`.
    start_at_monotonic_ns: i64,
}

/// The gate of a run.
#[derive(Debug)]
pub struct Gate {
    from: File,
    to: File,
}

impl Gate {
    /// A gate that reads from one descriptor and writes to the other. They may be the same socket.
    pub fn new(from: File, to: File) -> Self {
        Self { from, to }
    }

    /// Says that the run is armed, and waits for the instant of its time zero on
    /// `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// If the gate is closed before, if the instant has passed, if the line is none, and if `asked`
    /// is raised meanwhile. Then the run must not begin.
    pub fn pass(&mut self, asked: &AtomicBool) -> Result<Nanos> {
        let (pid, now_monotonic_ns) = (std::process::id(), now().0);
        let armed = Said::Armed { version: GATE_VERSION, pid, now_monotonic_ns };
        self.say(&armed).map_err(|error| refused(format!("nobody is at the gate: {error}")))?;
        let instant = self.hear(asked).and_then(|line| instant(&line));
        if let Err(error) = &instant {
            // Whoever waits there may have gone.
            let _ = self.say(&Said::Refused { reason: &error.to_string() });
        }
        instant
    }

    fn say(&mut self, said: &Said<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(said)?;
        line.push(b'\n');
        self.to.write_all(&line)
    }

    /// The next line.
    fn hear(&mut self, asked: &AtomicBool) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            if asked.load(Relaxed) {
                return Err(refused("somebody asked for the end before it began"));
            }
            let mut ready = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut ready, Some(&LOOK_EVERY)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(unheard(&error.into())),
            }
            let mut some = [0; 256];
            let count = self.from.read(&mut some).map_err(|error| unheard(&error))?;
            if count == 0 {
                return Err(refused("the gate was closed before it named an instant"));
            }
            line.extend_from_slice(&some[..count]);
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                line.truncate(end);
                return Ok(line);
            }
            if line.len() > LINE_MAX_BYTES {
                return Err(odd("the line does not end"));
            }
        }
    }
}

/// What `CLOCK_MONOTONIC` reads now.
fn now() -> Nanos {
    MonotonicClock::new().origin()
}

/// The instant in a line, which must be to come.
fn instant(line: &[u8]) -> Result<Nanos> {
    let begin: Begin = serde_json::from_slice(line).map_err(|error| odd(&error.to_string()))?;
    let at = Nanos(begin.start_at_monotonic_ns);
    let late = now() - at;
    if late >= Nanos::ZERO {
        return Err(refused(format!("the instant named at the gate had passed {late} before")));
    }
    Ok(at)
}

fn refused(why: impl Into<String>) -> RunError {
    let text = format!("{}; nothing was replayed", why.into());
    RunError::new(Kind::Incomplete, text)
}

fn unheard(error: &io::Error) -> RunError {
    refused(format!("the gate cannot be read: {error}"))
}

fn odd(why: &str) -> RunError {
    let text = format!("what was said at the gate makes no sense: {why}; nothing was replayed");
    let help = r#"write a line like {"start_at_monotonic_ns":1234567890}"#;
    RunError::with_help(Kind::Usage, text, help)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What the run makes of these bytes, after which the gate is closed, and the lines that it
    /// wrote.
    fn told(bytes: &[u8]) -> (Result<Nanos>, Vec<String>) {
        let (mut theirs, mine) = UnixStream::pair().unwrap();
        let mine = File::from(OwnedFd::from(mine));
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut gate = Gate::new(mine.try_clone().unwrap(), mine);
        let told = gate.pass(&AtomicBool::new(false));
        drop(gate);
        (told, BufReader::new(theirs).lines().map(Result::unwrap).collect())
    }

    #[test]
    fn an_armed_run_says_so_and_begins_at_the_instant_that_it_is_told() {
        let at = now() + Nanos::from_secs(3600);
        let line = format!("{{\"start_at_monotonic_ns\":{}}}\n", at.0);
        let (told, lines) = told(line.as_bytes());
        assert_eq!(told.unwrap(), at);
        let [armed] = &lines[..] else { panic!("{lines:?}") };
        let armed: serde_json::Value = serde_json::from_str(armed).unwrap();
        assert_eq!(armed["armed"]["version"], GATE_VERSION);
        assert!(armed["armed"]["now_monotonic_ns"].as_i64().unwrap() < at.0);
    }

    #[test]
    fn without_an_instant_to_come_nothing_begins_and_the_other_side_is_told_why() {
        // All of it is read: a socket that is closed before loses what was written.
        let long = vec![b' '; LINE_MAX_BYTES + 256];
        for (bytes, kind, why) in [
            (&b"{\"start_at_monotonic_ns\":1}\n"[..], Kind::Incomplete, "had passed"),
            (b"", Kind::Incomplete, "was closed"),
            (b"{\"start_at_monotonic_ns\":9", Kind::Incomplete, "was closed"),
            (b"now\n", Kind::Usage, "makes no sense"),
            (b"{}\n", Kind::Usage, "start_at_monotonic_ns"),
            (b"{\"start_at_monotonic_ns\":9,\"b\":1}\n", Kind::Usage, "unknown field"),
            (&long, Kind::Usage, "does not end"),
        ] {
            let (told, lines) = told(bytes);
            let error = told.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            let text = error.to_string();
            assert!(text.contains(why) && text.contains("nothing was replayed"), "{text}");
            let refused: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
            assert_eq!(refused["refused"]["reason"], text);
        }
    }

    #[test]
    fn a_run_that_is_asked_to_end_waits_no_longer() {
        let (theirs, mine) = UnixStream::pair().unwrap();
        let mine = File::from(OwnedFd::from(mine));
        let mut gate = Gate::new(mine.try_clone().unwrap(), mine);
        let error = gate.pass(&AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.kind(), Kind::Incomplete);
        drop(theirs);
    }
}
