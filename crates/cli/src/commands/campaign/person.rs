//! A person at the terminal is asked something.
//!
//! The question waits for somebody who may be in another room, and meanwhile the campaign must
//! still end when it is told to. So the terminal is looked at again and again, never read blindly.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ioecho_campaign::ground::{Fault, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::print::{is_watched, tell};

/// How often somebody may ask for the end meanwhile.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether there is a terminal, at which a person may be.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && is_watched()
}

/// Asks, and waits for a line, or until somebody asks for the end.
pub(super) fn ask(question: &str, limit: Duration, is_over: &dyn Fn() -> bool) -> Result<String> {
    if !is_there() {
        return Err(Fault::Lacking("there is no terminal at which a person could be".to_owned()));
    }
    // What is asked after the end was asked for is needed to end well.
    let was_over = is_over();
    tell(question);
    let begun = Instant::now();
    while !has_line()? {
        if !was_over && is_over() {
            return Err(Fault::Stopped);
        }
        if begun.elapsed() >= limit {
            return Err(Fault::Failed(format!("nobody answered for {limit:?}")));
        }
    }
    // A terminal hands over whole lines, so this does not wait.
    let mut line = String::new();
    let length = io::stdin().read_line(&mut line).map_err(|error| failed(&error))?;
    if length == 0 {
        return Err(Fault::Failed("the terminal was closed before an answer".to_owned()));
    }
    Ok(line.trim().to_owned())
}

/// Waits a moment; whether something was typed.
fn has_line() -> Result<bool> {
    let stdin = io::stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut asked, Some(&LOOK_EVERY)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(failed(&error.into())),
    }
}

fn failed(error: &io::Error) -> Fault {
    Fault::Failed(format!("the terminal: {error}"))
}
