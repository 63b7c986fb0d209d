//! The gate before a run: it arms itself wholly, says so, and begins at an instant that it is told.
//!
//! Replays on several hosts, or in several processes, are to begin together. But each takes a time
//! of its own to open its targets, to fill its buffers and to measure its host, and one of them may
//! fail at it. So whoever starts them waits until all have said that they are armed, and only then
//! names one instant to all. Both go as lines of JSON through inherited descriptors
//! (`docs/replay.md` describes them). Nothing is issued by a run that does not hear an instant to
//! come: beside others that have begun it would measure another load than was asked for.
//!
//! On a busy host one of them may hear of the instant too late. So an instant may be one that is
//! settled only some time before it: until then the run says what it has heard, and takes a later
//! one in its place.

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
    /// An instant that is yet to be settled was heard: before that, or too late.
    Heard { start_at_monotonic_ns: i64, in_time: bool },
    /// The run begins at it.
    Settled { start_at_monotonic_ns: i64 },
    /// The run does not begin.
    Refused { reason: &'a str },
}

/// The line that it reads.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    /// The replay's time zero on `CLOCK_MONOTONIC`.
    start_at_monotonic_ns: i64,
    /// Until this instant another line may take its place. Without it, it is settled at once.
    #[serde(default)]
    settled_at_monotonic_ns: Option<i64>,
}

/// The gate of a run.
#[derive(Debug)]
pub struct Gate {
    from: File,
    to: File,
    /// What was read of lines to come.
    rest: Vec<u8>,
}

impl Gate {
    /// A gate that reads from one descriptor and writes to the other. They may be the same socket.
    pub fn new(from: File, to: File) -> Self {
        Self { from, to, rest: Vec::new() }
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
        let instant = self.instant(asked);
        if let Err(error) = &instant {
            // Whoever waits there may have gone.
            let _ = self.say(&Said::Refused { reason: &error.to_string() });
        }
        instant
    }

    /// The instant that stands once it is settled.
    fn instant(&mut self, asked: &AtomicBool) -> Result<Nanos> {
        let mut taken: Option<(Begin, Nanos)> = None;
        loop {
            let line = self.hear(asked, taken.map(|(_, settled)| settled))?;
            let Some(line) = line else {
                let Some((begin, _)) = taken else { continue };
                let start_at_monotonic_ns = begin.start_at_monotonic_ns;
                let at = to_come(Nanos(start_at_monotonic_ns))?;
                self.answer(&Said::Settled { start_at_monotonic_ns })?;
                return Ok(at);
            };
            let begin: Begin =
                serde_json::from_slice(&line).map_err(|error| odd(&error.to_string()))?;
            let start_at_monotonic_ns = begin.start_at_monotonic_ns;
            let Some(settled) = begin.settled_at_monotonic_ns else {
                return to_come(Nanos(start_at_monotonic_ns));
            };
            let settled = Nanos(settled.min(start_at_monotonic_ns));
            let in_time = now() < settled;
            taken = in_time.then_some((begin, settled));
            self.answer(&Said::Heard { start_at_monotonic_ns, in_time })?;
        }
    }

    fn answer(&mut self, said: &Said<'_>) -> Result<()> {
        self.say(said).map_err(|error| refused(format!("nobody is at the gate any more: {error}")))
    }

    fn say(&mut self, said: &Said<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(said)?;
        line.push(b'\n');
        self.to.write_all(&line)
    }

    /// The next line; `None` if there is none before an instant.
    fn hear(&mut self, asked: &AtomicBool, until: Option<Nanos>) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.rest, rest);
                line.truncate(end);
                return Ok(Some(line));
            }
            if self.rest.len() > LINE_MAX_BYTES {
                return Err(odd("the line does not end"));
            }
            if asked.load(Relaxed) {
                return Err(refused("somebody asked for the end before it began"));
            }
            let left = until.map(|until| (until - now()).max(Nanos::ZERO));
            // What is there already is read first: this process may have been late itself.
            let mut ready = [PollFd::new(&self.from, PollFlags::IN)];
            match poll(&mut ready, Some(&pause(left))) {
                Ok(0) if left == Some(Nanos::ZERO) => return Ok(None),
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(unheard(&error.into())),
            }
            let mut some = [0; 256];
            let count = self.from.read(&mut some).map_err(|error| unheard(&error))?;
            match (count, left) {
                // Nobody can name another one, and nobody need.
                (0, Some(Nanos::ZERO)) => return Ok(None),
                (0, Some(_)) => {
                    return Err(refused("the gate was closed before the instant was settled"));
                }
                (0, None) => return Err(refused("the gate was closed before it named an instant")),
                _ => self.rest.extend_from_slice(&some[..count]),
            }
        }
    }
}

/// How long it is waited at once where so much is left.
fn pause(left: Option<Nanos>) -> Timespec {
    let most = LOOK_EVERY.tv_nsec;
    let tv_nsec = left.map_or(most, |left| most.min(left.0));
    Timespec { tv_sec: 0, tv_nsec }
}

/// What `CLOCK_MONOTONIC` reads now.
fn now() -> Nanos {
    MonotonicClock::new().origin()
}

/// An instant, which must be to come.
fn to_come(at: Nanos) -> Result<Nanos> {
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
    fn an_instant_that_is_not_settled_yet_gives_way_to_a_later_one() {
        let (theirs, mine) = UnixStream::pair().unwrap();
        let mine = File::from(OwnedFd::from(mine));
        let mut gate = Gate::new(mine.try_clone().unwrap(), mine);
        let hour = |hours: i64| now().0 + hours * 3_600_000_000_000;
        let line = |start: i64, settled: i64| {
            let settled = format!("\"settled_at_monotonic_ns\":{settled}");
            format!("{{\"start_at_monotonic_ns\":{start},{settled}}}\n")
        };
        let (first, second, third) = (hour(2), hour(3), hour(4));
        // The second comes too late, so that what was taken before no longer stands.
        let lines =
            [line(first, hour(1)), line(second, now().0), line(third, now().0 + 50_000_000)];
        (&theirs).write_all(lines.concat().as_bytes()).unwrap();
        assert_eq!(gate.pass(&AtomicBool::new(false)).unwrap().0, third);
        drop(gate);
        let said: Vec<serde_json::Value> = BufReader::new(theirs)
            .lines()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
        let heard = |at: i64, in_time: bool| {
            let heard = serde_json::json!({"start_at_monotonic_ns": at, "in_time": in_time});
            serde_json::json!({ "heard": heard })
        };
        let settled = serde_json::json!({"settled": {"start_at_monotonic_ns": third}});
        assert_eq!(
            said[1..],
            [heard(first, true), heard(second, false), heard(third, true), settled]
        );
    }

    #[test]
    fn a_gate_that_is_closed_before_the_instant_is_settled_begins_nothing() {
        let (start, settled) = (now().0 + 7_200_000_000_000, now().0 + 3_600_000_000_000);
        let line = format!(
            "{{\"start_at_monotonic_ns\":{start},\"settled_at_monotonic_ns\":{settled}}}\n"
        );
        let (told, lines) = told(line.as_bytes());
        let text = told.unwrap_err().to_string();
        assert!(text.contains("before the instant was settled"), "{text}");
        assert!(lines[2].contains("refused"), "{lines:?}");
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
