//! The line to one agent.
//!
//! A thread reads what the agent says and stamps the time; another one hands on what it prints to
//! whoever watches. What the agent says is never trusted: lines have a longest length, nobody may
//! talk without a pause, and what is shown is short. Nothing here waits long for an agent that does
//! not read.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ioecho_campaign::protocol::{FromAgent, Lines, ToAgent, from_agent, line};
use ioecho_linux::MonotonicClock;
use ioecho_replay::Clock as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::print::tell;

/// More lines within a second than an honest agent sends, which answers some hundred pings.
const LINES_MAX: u32 = 10_000;

/// The longest line of an agent that is shown, in characters, and the most of them.
const SHOWN_MAX: usize = 300;
const SHOWN_LINES_MAX: u32 = 200;

/// Something that came from a host.
pub(super) struct Came {
    /// The number of the host in the party that hears it.
    pub(super) host: usize,
    /// Which of the agents there have been it is.
    pub(super) turn: u32,
    /// When, on `CLOCK_MONOTONIC`, ns.
    pub(super) at_ns: i64,
    pub(super) what: What,
}

impl Came {
    /// Whether it only says that an agent is there.
    fn is_only_alive(&self) -> bool {
        matches!(self.what, What::Said(FromAgent::Alive))
    }
}

pub(super) enum What {
    Said(FromAgent),
    /// Nothing more comes, for this reason.
    Ended(String),
}

/// `CLOCK_MONOTONIC`, ns.
pub(super) fn now_ns(clock: &MonotonicClock) -> i64 {
    (clock.origin() + clock.now()).0
}

/// Where what an agent says goes: to the party that has it in hand.
pub(super) struct Ear(Mutex<Hearing>);

struct Hearing {
    /// The number of the host in that party, and the way to it.
    to: Option<(usize, SyncSender<Came>)>,
    /// What was said while no party had it in hand.
    kept: Vec<Came>,
}

/// How much is kept of what an agent says to nobody. It has nothing to say then.
const KEPT_MAX: usize = 16;

impl Ear {
    fn lock(&self) -> std::sync::MutexGuard<'_, Hearing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the party at `to` hears it, as the host of this number.
    pub(super) fn go_to(&self, host: usize, to: &SyncSender<Came>) {
        let kept = {
            let mut hearing = self.lock();
            hearing.to = Some((host, to.clone()));
            std::mem::take(&mut hearing.kept)
        };
        for came in kept {
            self.tell(came);
        }
    }

    /// From now on nobody hears it.
    pub(super) fn leave(&self) {
        self.lock().to = None;
    }

    /// Keeps what nobody has heard.
    pub(super) fn keep(&self, came: Came) {
        self.lock().keep(came);
    }

    /// Tells it who hears it, who may be slow. That an agent is there is of no use to somebody who
    /// has not heard the last thousand lines yet; while results are fetched nobody hears anything,
    /// and so that the agents' lines do not wait then, costing more than the transfers, it is
    /// forgotten.
    fn tell(&self, mut came: Came) {
        let mut pause = Duration::from_millis(1);
        loop {
            let mut hearing = self.lock();
            let Some((host, to)) = &hearing.to else { return hearing.keep(came) };
            match to.try_send(Came { host: *host, ..came }) {
                Err(TrySendError::Disconnected(back)) => return hearing.keep(back),
                Err(TrySendError::Full(back)) if !back.is_only_alive() => came = back,
                Ok(()) | Err(TrySendError::Full(_)) => return,
            }
            drop(hearing);
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}

impl Hearing {
    fn keep(&mut self, came: Came) {
        let is_end = matches!(came.what, What::Ended(_));
        if is_end || (!came.is_only_alive() && self.kept.len() < KEPT_MAX) {
            self.kept.push(came);
        }
    }
}

/// The way to an agent.
pub(super) struct Link {
    pub(super) turn: u32,
    ear: Arc<Ear>,
    to: Arc<Mouth>,
    child: Child,
    printed: Arc<Mutex<String>>,
}

/// What is said to an agent.
pub(super) struct Mouth(Mutex<File>);

impl Mouth {
    /// Says something; an agent that does not read for so long is given up.
    pub(super) fn say(&self, message: &ToAgent, within: Duration) -> io::Result<()> {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, begun) = (line(message), Instant::now());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Nothing of a message that may wait was written.
                    if begun.elapsed() >= within {
                        return Err(io::Error::other("it does not read what it is told"));
                    }
                    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    poll(&mut [PollFd::new(&*to, PollFlags::OUT)], Some(&wait))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Link {
    /// Starts an agent. `name` is that of its host, in front of what it prints.
    pub(super) fn start(
        mut command: Command,
        (host, turn, name): (usize, u32, &str),
        to: SyncSender<Came>,
    ) -> io::Result<Self> {
        // A Ctrl-C at the terminal is for the campaign, which asks its agents to end.
        command.process_group(0);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("it has no pipes"));
        };
        let stdin = File::from(OwnedFd::from(stdin));
        fcntl_setfl(&stdin, fcntl_getfl(&stdin)? | OFlags::NONBLOCK)?;
        let printed = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&printed);
        let name = name.to_owned();
        let ear = Arc::new(Ear(Mutex::new(Hearing { to: Some((host, to)), kept: Vec::new() })));
        let own = Arc::clone(&ear);
        ioecho_linux::thread::start("printed", move || show(stderr, &name, &shown))?;
        ioecho_linux::thread::start("heard", move || hear(stdout, turn, &own))?;
        Ok(Self { turn, ear, to: Arc::new(Mouth(Mutex::new(stdin))), child, printed })
    }

    pub(super) fn ear(&self) -> &Ear {
        &self.ear
    }

    pub(super) fn mouth(&self) -> &Arc<Mouth> {
        &self.to
    }

    /// What it printed last.
    pub(super) fn printed(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it: the end of its input, and if it does not end by itself, at once.
    pub(super) fn end(self, within: Duration) -> Option<i32> {
        drop(self.to);
        ended(self.child, Instant::now() + within)
    }
}

/// The exit code of an agent that has nobody to hear; at this instant it is killed.
fn ended(mut child: Child, until: Instant) -> Option<i32> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => break,
        }
    }
    let _ = child.kill();
    child.wait().ok().and_then(|status| status.code())
}

/// Ends many, all at the same time.
pub(super) fn end_all(links: Vec<Link>, within: Duration) {
    let until = Instant::now() + within;
    let alone = |link: Link| link.child;
    let children: Vec<Child> = links.into_iter().map(alone).collect();
    for child in children {
        ended(child, until);
    }
}

/// Reads what an agent says until it ends or says what cannot be.
fn hear(mut from: impl Read, turn: u32, ear: &Ear) {
    let (clock, mut lines, mut some) = (MonotonicClock::new(), Lines::default(), [0; 8 << 10]);
    let (mut since, mut count) = (Instant::now(), 0_u32);
    let why = 'all: loop {
        let read = match from.read(&mut some) {
            Ok(0) => break "its connection ended".to_owned(),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break error.to_string(),
        };
        let at_ns = now_ns(&clock);
        lines.add(&some[..read]);
        loop {
            let said = match lines.next_line() {
                Ok(None) => break,
                Ok(Some(line)) => from_agent(&line),
                Err(wrong) => Err(wrong),
            };
            count += 1;
            if since.elapsed() >= Duration::from_secs(1) {
                (since, count) = (Instant::now(), 0);
            }
            match said {
                Ok(_) if count > LINES_MAX => break 'all "it talks without a pause".to_owned(),
                Ok(said) => ear.tell(Came { host: 0, turn, at_ns, what: What::Said(said) }),
                Err(wrong) => break 'all wrong.to_string(),
            }
        }
    };
    ear.tell(Came { host: 0, turn, at_ns: now_ns(&clock), what: What::Ended(why) });
}

/// Shows what an agent prints, as long as it is not much, and keeps the last line.
fn show(mut from: impl Read, name: &str, last: &Mutex<String>) {
    let (mut text, mut some, mut shown) = (Vec::new(), [0; 4096], 0_u32);
    while let Ok(count) = from.read(&mut some) {
        if count == 0 {
            break;
        }
        for byte in &some[..count] {
            if *byte != b'\n' {
                // The rest of a long line is left out.
                if text.len() < SHOWN_MAX * 4 {
                    text.push(*byte);
                }
                continue;
            }
            let line: String =
                String::from_utf8_lossy(&text).trim_end().chars().take(SHOWN_MAX).collect();
            text.clear();
            if line.is_empty() {
                continue;
            }
            shown += 1;
            if shown <= SHOWN_LINES_MAX {
                tell(&format!("{name}: {line}"));
            }
            *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
        }
    }
}
