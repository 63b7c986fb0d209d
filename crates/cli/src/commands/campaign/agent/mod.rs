//! `ioecho agent`: does on its host what a campaign on another one asks for.
//!
//! A campaign starts it over whatever reaches the host, such as ssh, and speaks to it by lines on
//! its standard input and output (`ioecho_campaign::protocol`). It listens to nothing else. One
//! thread reads and answers pings at once, one says that the agent is there, and the main one does
//! what is asked for. When the campaign has gone, whether its connection ends or it is silent for a
//! minute, the agent stops its replay, or brings it to its end if the campaign wanted that, undoes
//! what it has set up (once other hosts had time to undo what stands on it, [`others`]), and ends;
//! results stay in its spool.

mod bulk;
mod home;
mod kept;
mod others;
mod replaying;
mod voice;
mod worker;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::protocol::{ALIVE_EVERY_S, FromAgent, LEFT_AFTER_S, Lines, ToAgent, to_agent};
use ioecho_linux::MonotonicClock;
use ioecho_run::observer::Stopping;

use self::home::Home;
use self::voice::Voice;
use self::worker::Worker;
use super::hosts::build;
use crate::args::AgentArgs;
use crate::exit::{self, Coded};
use crate::print::{Out, for_a_program, tell};
use crate::run::signals::stop_on_signals;

pub(crate) fn run(args: &AgentArgs, out: &mut Out) -> anyhow::Result<u8> {
    use std::io::Write as _;
    if args.sum {
        writeln!(out, "{}", build::whole()?)?;
        return Ok(exit::OK);
    }
    if io::stdin().is_terminal() {
        let text = "an agent is started by a campaign\n  = help: docs/hosts.md says how";
        return Err(Coded::error(exit::USAGE, text));
    }
    let home = Home::make(args.directory.as_deref())?;
    match (args.take, args.give) {
        (true, _) => bulk::take(&home),
        (_, true) => bulk::give(&home),
        _ => serve(home),
    }
}

/// A duplicate of the standard input.
fn input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// An instant at which a replay is to begin, on the host's `CLOCK_MONOTONIC`.
#[derive(Clone, Copy)]
pub(super) struct Told {
    at_ns: i64,
    /// Until then a later one may take its place.
    settled_ns: i64,
}

/// What the campaign asks of whatever goes on.
pub(super) struct Asked {
    /// It is to end.
    stop: AtomicBool,
    /// The campaign has gone.
    gone: AtomicBool,
    /// What goes on comes to its end even so.
    finishes: AtomicBool,
    /// The replays that it attends have ended.
    rest: AtomicBool,
    /// The host asks the agent to end.
    signalled: Stopping,
    begun: Instant,
    /// When something was heard last, in milliseconds since the beginning.
    heard_ms: AtomicU64,
}

impl Asked {
    /// Whether what goes on is to end.
    fn to_stop(&self) -> bool {
        let is_left = self.gone.load(Relaxed) && !self.finishes.load(Relaxed);
        self.stop.load(Relaxed) || is_left || self.signalled.is_asked()
    }

    /// Whether the campaign has gone.
    fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Whether the agent is to end.
    fn to_leave(&self) -> bool {
        self.gone.load(Relaxed) || self.signalled.is_asked()
    }

    fn heard(&self) {
        self.heard_ms.store(self.begun.elapsed().as_millis() as u64, Relaxed);
    }

    fn is_silent(&self) -> bool {
        let heard = Duration::from_millis(self.heard_ms.load(Relaxed));
        self.begun.elapsed().saturating_sub(heard) > Duration::from_secs(LEFT_AFTER_S)
    }
}

fn serve(home: Home) -> anyhow::Result<u8> {
    let asked = Arc::new(Asked {
        stop: AtomicBool::new(false),
        gone: AtomicBool::new(false),
        finishes: AtomicBool::new(false),
        rest: AtomicBool::new(false),
        signalled: stop_on_signals()?,
        begun: Instant::now(),
        heard_ms: AtomicU64::new(0),
    });
    let voice = Arc::new(Voice::new(for_a_program()?, Arc::clone(&asked))?);
    let (orders, of_orders) = mpsc::channel();
    let (starts, of_starts) = mpsc::channel();
    let from = input()?;
    let (own_voice, own_asked) = (Arc::clone(&voice), Arc::clone(&asked));
    let rouse = orders.clone();
    ioecho_linux::thread::start("ears", move || {
        listen(from, &own_voice, &own_asked, &orders, &starts);
        own_asked.gone.store(true, Relaxed);
        // The worker may have ended by itself.
        let _ = orders.send(None);
    })?;
    let (own_voice, own_asked) = (Arc::clone(&voice), Arc::clone(&asked));
    ioecho_linux::thread::start("alive", move || {
        watch(&own_voice, &own_asked);
        let _ = rouse.send(None);
    })?;
    let mut worker = Worker::new(home, voice, Arc::clone(&asked), of_starts);
    while !asked.to_leave() {
        let goes_on = match of_orders.recv() {
            Ok(Some(order)) => worker.does(order),
            // It is to look whether it is to leave.
            Ok(None) => true,
            Err(mpsc::RecvError) => false,
        };
        if !goes_on {
            break;
        }
    }
    worker.end()
}

/// Reads what the campaign says until it ends.
fn listen(
    mut from: File,
    voice: &Voice,
    asked: &Asked,
    orders: &mpsc::Sender<Option<ToAgent>>,
    starts: &mpsc::Sender<Told>,
) {
    let (clock, mut lines, mut some) = (MonotonicClock::new(), Lines::default(), [0; 8 << 10]);
    let now_ns = || {
        use ioecho_replay::Clock as _;
        (clock.origin() + clock.now()).0
    };
    loop {
        let count = match from.read(&mut some) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        asked.heard();
        lines.add(&some[..count]);
        loop {
            let said = match lines.next_line() {
                Ok(None) => break,
                Ok(Some(line)) => to_agent(&line),
                Err(wrong) => Err(wrong),
            };
            let is_sent = match said {
                Ok(ToAgent::Ping { number }) => {
                    voice.say(&FromAgent::Pong { number, at_ns: now_ns() })
                }
                Ok(ToAgent::Alive) => true,
                Ok(ToAgent::Stop) => {
                    asked.stop.store(true, Relaxed);
                    true
                }
                Ok(ToAgent::Rest) => {
                    asked.rest.store(true, Relaxed);
                    true
                }
                Ok(ToAgent::Start { at_ns, settled_ns }) => {
                    starts.send(Told { at_ns, settled_ns }).is_ok()
                }
                Ok(order) => {
                    // The one before has been answered, or nobody would ask.
                    asked.stop.store(false, Relaxed);
                    asked.rest.store(false, Relaxed);
                    orders.send(Some(order)).is_ok()
                }
                Err(wrong) => {
                    tell(&format!("error: {wrong}"));
                    false
                }
            };
            if !is_sent {
                return;
            }
        }
    }
}

/// Says that the agent is there, and looks whether the campaign is.
fn watch(voice: &Voice, asked: &Asked) {
    let mut said = Instant::now();
    loop {
        thread::sleep(Duration::from_secs(1));
        if asked.is_silent() {
            asked.gone.store(true, Relaxed);
        }
        if asked.to_leave() {
            return;
        }
        if said.elapsed() >= Duration::from_secs(ALIVE_EVERY_S) {
            voice.say_if_quiet(&FromAgent::Alive);
            said = Instant::now();
        }
    }
}
