//! The hosts of a campaign that are in one pair of hands: their agents, and what is said to them.
//!
//! Cells that go on at the same time have different hosts, so each has a party of its own. An agent
//! goes from one party to the next without being started anew.

use std::convert::Infallible;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::clock::Compared;
use ioecho_campaign::conversation::{Action, Conversation, Event, Outcome};
use ioecho_campaign::file::Host;
use ioecho_campaign::protocol::{FaultKind, FromAgent, PROTOCOL, SILENT_AFTER_S, ToAgent};
use ioecho_linux::MonotonicClock;
use ioecho_trace::Nanos;

use super::link::{Came, Link, What, now_ns};
use super::reach::{self, As, FIRST_ANSWER_WITHIN, NO_PROGRAM};
use super::several::several;
use super::{ENDS_WITHIN, Hosts, Progress, There};
use crate::print::tell;

/// How many connections are begun at once.
const AT_ONCE: usize = 64;

/// How often it is looked who is silent, or has not heard of the instant at which all begin.
const TICK: Duration = Duration::from_millis(100);

/// How often it is told how far replays are.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// An agent that does not read for so long is lost.
const READS_WITHIN: Duration = Duration::from_secs(SILENT_AFTER_S);

/// How much of what agents said may wait to be heard.
const WAITING_MAX: usize = 1024;

/// Hosts in one pair of hands. Numbers of hosts are those within it.
pub(super) struct Party<'h> {
    pub(super) hosts: &'h Hosts<'h>,
    pub(super) all: Vec<There>,
    /// For whom it is, where there are several parties.
    of: String,
    from: Receiver<Came>,
    to: SyncSender<Came>,
    pub(super) clock: MonotonicClock,
    /// Whether agents keep the results of the attempt, because they are not here yet.
    pub(super) keeps: bool,
}

impl Drop for Party<'_> {
    fn drop(&mut self) {
        for there in &mut self.all {
            if let Some(link) = &there.link {
                link.ear().leave();
            }
        }
        // What came last is for the next party.
        while let Ok(came) = self.from.try_recv() {
            if let Some(link) = self.all.get(came.host).and_then(|there| there.link.as_ref()) {
                link.ear().keep(came);
            }
        }
        self.hosts.take_back(std::mem::take(&mut self.all));
    }
}

impl<'h> Party<'h> {
    /// Takes these hosts in hand.
    pub(super) fn new(hosts: &'h Hosts<'h>, all: Vec<There>, of: String) -> Self {
        let (to, from) = sync_channel(WAITING_MAX);
        let party = Self { hosts, all, of, from, to, clock: MonotonicClock::new(), keeps: false };
        for (host, there) in party.all.iter().enumerate() {
            if let Some(link) = &there.link {
                link.ear().go_to(host, &party.to);
            }
        }
        party
    }

    /// The numbers of all its hosts.
    pub(super) fn everybody(&self) -> Vec<usize> {
        (0..self.all.len()).collect()
    }

    pub(super) fn name(&self, host: usize) -> &str {
        self.all.get(host).map_or("", |there| &there.host.name)
    }

    /// Whether somebody asks for the end.
    pub(super) fn is_asked(&self) -> bool {
        self.hosts.is_asked()
    }

    /// Starts the agents of these hosts that have the program, and sends nothing.
    pub(super) fn look(&mut self, who: &[usize]) -> Vec<(usize, Unreached)> {
        who.chunks(AT_ONCE).flat_map(|some| self.greet(some)).collect()
    }

    /// Starts the agents of these hosts that have none. What is returned are those that cannot be
    /// reached, with the reason.
    pub(super) fn connect(&mut self, who: &[usize]) -> Vec<(usize, Unreached)> {
        let missing: Vec<usize> =
            who.iter().copied().filter(|host| self.all[*host].link.is_none()).collect();
        let mut failed = Vec::new();
        for some in missing.chunks(AT_ONCE) {
            let mut lacking = Vec::new();
            for (host, why) in self.greet(some) {
                match why {
                    Unreached::NoProgram => lacking.push(host),
                    why => failed.push((host, why)),
                }
            }
            let mut sent = Vec::new();
            if let Some(first) = lacking.pop() {
                self.send_program(&[first], &mut sent, &mut failed);
                // Hosts may share a directory: then all of them have it now.
                for (host, why) in self.greet(&std::mem::take(&mut lacking)) {
                    match why {
                        Unreached::NoProgram => lacking.push(host),
                        why => failed.push((host, why)),
                    }
                }
                self.send_program(&lacking, &mut sent, &mut failed);
            }
            failed.extend(self.greet(&sent));
        }
        failed
    }

    /// Sends the program to hosts; those that have it then are added to `sent`, others to `failed`.
    fn send_program(
        &self,
        to: &[usize],
        sent: &mut Vec<usize>,
        failed: &mut Vec<(usize, Unreached)>,
    ) {
        let jobs: Vec<(usize, &Host)> =
            to.iter().map(|host| (*host, &self.all[*host].host)).collect();
        let hosts = self.hosts;
        // One that cannot be sent does not end the others.
        let Ok(came) = several(&jobs, &|| hosts.is_asked(), |(_, host), asked| {
            tell(&format!("{}: the program is sent", host.name));
            Ok::<_, Infallible>(reach::send(host, &hosts.build, asked))
        });
        for (host, came) in to.iter().zip(came) {
            match came {
                Ok(()) => sent.push(*host),
                Err(why) => failed.push((*host, Unreached::For(why))),
            }
        }
    }

    /// Starts agents and exchanges the first lines with them. What is returned are those that did
    /// not answer as an agent of this build.
    fn greet(&mut self, who: &[usize]) -> Vec<(usize, Unreached)> {
        let mut failed = Vec::new();
        let mut waiting = Vec::new();
        for &host in who {
            match self.begin(host) {
                Ok(()) => waiting.push(host),
                Err(error) => {
                    let program = self.all[host].host.launch.first().map_or("ioecho", |it| it);
                    let why = format!("'{program}' cannot be run here: {error}");
                    failed.push((host, Unreached::For(why)));
                }
            }
        }
        let begun = Instant::now();
        while !waiting.is_empty() {
            let left = FIRST_ANSWER_WITHIN.saturating_sub(begun.elapsed());
            let came = self.from.recv_timeout(left.min(TICK));
            let Ok(Came { host, turn, what, .. }) = came else {
                if left.is_zero() || self.is_asked() {
                    for host in waiting.drain(..) {
                        self.cut(host);
                        let why = format!("no answer within {} s", FIRST_ANSWER_WITHIN.as_secs());
                        failed.push((host, Unreached::For(why)));
                    }
                }
                continue;
            };
            if self.all[host].link.as_ref().is_none_or(|link| link.turn != turn) {
                continue;
            }
            let is_waiting = waiting.contains(&host);
            match what {
                What::Said(FromAgent::Hello { build, facts, .. }) if is_waiting => {
                    waiting.retain(|other| *other != host);
                    if build == self.hosts.build {
                        self.all[host].was_ours = true;
                        self.all[host].facts = facts;
                        continue;
                    }
                    self.cut(host);
                    failed.push((host, Unreached::For("it is another build".to_owned())));
                }
                What::Said(FromAgent::Fault { kind, text }) if is_waiting => {
                    waiting.retain(|other| *other != host);
                    self.cut(host);
                    let is_busy = kind == FaultKind::Busy;
                    let why = if is_busy { Unreached::Busy(text) } else { Unreached::For(text) };
                    failed.push((host, why));
                }
                What::Said(FromAgent::Alive) => {}
                What::Said(_) => self.cut(host),
                What::Ended(why) => {
                    let ended = self.ended(host, &why);
                    if is_waiting {
                        waiting.retain(|other| *other != host);
                        failed.push((host, ended));
                    }
                }
            }
        }
        failed
    }

    fn begin(&mut self, host: usize) -> std::io::Result<()> {
        let there = &mut self.all[host];
        there.turns += 1;
        let command = reach::agent(&there.host, As::Agent, &self.hosts.build)?;
        let name = there.host.name.clone();
        let link = Link::start(command, (host, there.turns, &name), self.to.clone())?;
        let (protocol, build) = (PROTOCOL, self.hosts.build.clone());
        // What an agent does that this process has lost is of no use to it.
        let (campaign, stops_earlier) = (self.hosts.campaign.clone(), there.was_ours);
        let hello = ToAgent::Hello { protocol, build, campaign, host: name, stops_earlier };
        // What it does not hear it does not answer.
        let _ = link.mouth().say(&hello, READS_WITHIN);
        let mouth = std::sync::Arc::downgrade(link.mouth());
        self.hosts.is_alive_to(mouth);
        there.link = Some(link);
        Ok(())
    }

    /// An agent has ended: why, and with what exit code.
    fn ended(&mut self, host: usize, why: &str) -> Unreached {
        let Some(link) = self.all[host].link.take() else {
            return Unreached::For(why.to_owned());
        };
        // Its last words may come a moment after the end of its pipe.
        thread::sleep(Duration::from_millis(20));
        let printed = link.printed();
        // The others are waiting.
        let code = link.end(Duration::from_secs(1));
        if code.is_some_and(|code| NO_PROGRAM.contains(&code)) {
            return Unreached::NoProgram;
        }
        let told = if printed.is_empty() { String::new() } else { format!(" ({printed})") };
        Unreached::For(format!("{why}{told}"))
    }

    /// Gives up an agent. It is told to stop, and notices the end of its input.
    fn cut(&mut self, host: usize) {
        if let Some(link) = self.all[host].link.take() {
            let _ = link.mouth().say(&ToAgent::Stop, Duration::ZERO);
            // Whoever is silent is not waited for.
            let _ = thread::Builder::new().spawn(move || link.end(ENDS_WITHIN));
        }
    }

    /// Asks each of these hosts one thing, and waits for the answers.
    pub(super) fn ask(&mut self, who: &[usize], questions: Vec<ToAgent>) -> Outcome {
        let talk = Conversation::asking(questions, now_ns(&self.clock));
        self.converse(who, talk, true)
    }

    /// What a host answers, if it does; nothing of it may be stopped.
    pub(super) fn told(&mut self, host: usize, order: ToAgent) -> Option<FromAgent> {
        let talk = Conversation::asking(vec![order], now_ns(&self.clock));
        match self.converse(&[host], talk, false) {
            Outcome::Answers(mut answers) => answers.pop(),
            _ => None,
        }
    }

    /// Does a conversation with these hosts, to its end.
    pub(super) fn converse(
        &mut self,
        who: &[usize],
        talk: (Conversation, Vec<Action>),
        may_be_stopped: bool,
    ) -> Outcome {
        self.converse_telling(who, talk, may_be_stopped, &mut |_| {})
    }

    /// The same; `begun` is told the instants once a replay has begun.
    pub(super) fn converse_telling(
        &mut self,
        who: &[usize],
        (mut talk, mut actions): (Conversation, Vec<Action>),
        may_be_stopped: bool,
        begun: &mut dyn FnMut(Vec<(i64, Compared)>),
    ) -> Outcome {
        let mut is_begun = false;
        let (mut ticked, mut was_asked) = (Instant::now(), false);
        let mut told = Instant::now();
        for host in who {
            self.all[*host].progress = Progress::default();
        }
        loop {
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                self.tell_progress(who);
            }
            let mut events = Vec::new();
            for action in actions.drain(..) {
                match action {
                    Action::Say(at, message) => {
                        let link = self.all[who[at]].link.as_ref();
                        let said = link.map(|link| link.mouth().say(&message, READS_WITHIN));
                        match said {
                            Some(Ok(())) => {}
                            Some(Err(error)) => events.push((at, error.to_string())),
                            None => events.push((at, "its connection ended".to_owned())),
                        }
                    }
                    Action::Cut(at) => self.cut(who[at]),
                    Action::Over(outcome) => return outcome,
                }
            }
            if !is_begun && let Some(all) = talk.begun() {
                is_begun = true;
                begun(all);
            }
            if !events.is_empty() {
                let now = now_ns(&self.clock);
                let lost = |(at, why)| talk.step(now, Event::Lost(at, why));
                actions = events.into_iter().flat_map(lost).collect();
                continue;
            }
            match self.from.recv_timeout(TICK) {
                Ok(came) => actions = self.heard(who, &mut talk, came),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                actions.extend(talk.step(now_ns(&self.clock), Event::Tick));
            }
            if may_be_stopped && !was_asked && self.is_asked() {
                was_asked = true;
                actions.extend(talk.step(now_ns(&self.clock), Event::Asked));
            }
        }
    }

    /// Tells how far the replays of these hosts are, and which is the slowest just now.
    fn tell_progress(&self, who: &[usize]) {
        let all = || who.iter().map(|host| (self.name(*host), self.all[*host].progress));
        let furthest = all().map(|(_, it)| it.seconds).fold(0.0, f64::max);
        if self.hosts.is_quiet || furthest <= 0.0 {
            return;
        }
        let completed: u64 = all().fold(0, |sum, (_, it)| sum.saturating_add(it.completed));
        let slowest = all().filter_map(|(name, it)| Some((it.p99_ns?, name))).max();
        let slowest = slowest.map_or(String::new(), |(ns, name)| {
            let p99 = Nanos(i64::try_from(ns).unwrap_or(i64::MAX));
            format!("; the slowest now is {name}, p99 {p99}")
        });
        let count = who.len();
        let of = &self.of;
        tell(&format!("    {of}{count} hosts, {furthest:.0} s: {completed} requests{slowest}"));
    }

    /// What came from a host, as an event of a conversation.
    fn heard(&mut self, who: &[usize], talk: &mut Conversation, came: Came) -> Vec<Action> {
        let Came { host, turn, at_ns, what } = came;
        if self.all[host].link.as_ref().is_none_or(|link| link.turn != turn) {
            return Vec::new();
        }
        let at = who.iter().position(|other| *other == host);
        match (what, at) {
            (What::Said(said), Some(at)) => {
                if let FromAgent::Progress { seconds, completed, p99_ns } = said {
                    self.all[host].progress = Progress { seconds, completed, p99_ns };
                }
                talk.step(at_ns, Event::Heard(at, said))
            }
            // Beside a conversation it has nothing else to say.
            (What::Said(FromAgent::Alive), None) => Vec::new(),
            (What::Said(_), None) => {
                self.cut(host);
                Vec::new()
            }
            (What::Ended(why), at) => {
                let why = match self.ended(host, &why) {
                    Unreached::NoProgram => why,
                    Unreached::Busy(why) | Unreached::For(why) => why,
                };
                let now = now_ns(&self.clock);
                at.map_or(Vec::new(), |at| talk.step(now, Event::Lost(at, why)))
            }
        }
    }
}

/// Why an agent does not answer.
pub(super) enum Unreached {
    /// There is no such program on the host.
    NoProgram,
    /// What an earlier agent of the campaign began there goes on.
    Busy(String),
    /// For this reason.
    For(String),
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => f.write_str("the program cannot be run there"),
            Self::Busy(why) | Self::For(why) => f.write_str(why),
        }
    }
}
