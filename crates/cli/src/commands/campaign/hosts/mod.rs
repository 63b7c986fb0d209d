//! The other hosts of a campaign: their agents, and what is said to them.
//!
//! The conversation itself is `ioecho_campaign::conversation`, which is pure; here are the
//! processes and pipes ([`link`], [`reach`]), loads and results ([`bulk`]), and an attempt at a
//! cell ([`attempt`]).

pub(super) mod attempt;
pub(super) mod build;
mod bulk;
mod link;
mod reach;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::clock::Compared;
use ioecho_campaign::conversation::{Action, Conversation, Event, Outcome};
use ioecho_campaign::file::Host;
use ioecho_campaign::protocol::{ALIVE_EVERY_S, FromAgent, PROTOCOL, SILENT_AFTER_S, ToAgent};
use ioecho_linux::MonotonicClock;
use ioecho_run::digest;
use ioecho_trace::Nanos;

use self::link::{Came, Link, Mouth, What, now_ns};
use self::reach::{As, FIRST_ANSWER_WITHIN, NO_PROGRAM};
use crate::print::tell;

/// How many connections are begun at once.
const AT_ONCE: usize = 64;

/// How long an agent may take to undo and to end.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// How often it is looked who is silent.
const TICK: Duration = Duration::from_millis(500);

/// How often it is told how far replays are.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// An agent that does not read for so long is lost.
const READS_WITHIN: Duration = Duration::from_secs(SILENT_AFTER_S);

/// A host, and its agent while there is one.
struct There {
    host: Host,
    link: Option<Link>,
    turns: u32,
    facts: BTreeMap<String, String>,
    /// Whether anything may be set up there.
    is_set_up: bool,
    /// How far its replay is.
    progress: Progress,
}

/// How far the replay of a host is.
#[derive(Clone, Copy, Default)]
struct Progress {
    seconds: f64,
    completed: u64,
    p99_ns: Option<u64>,
}

/// All hosts of a campaign.
pub(super) struct Hosts<'a> {
    all: Vec<There>,
    /// The campaign's name in spools.
    campaign: String,
    build: String,
    from: Receiver<Came>,
    to: SyncSender<Came>,
    mouths: Arc<Mutex<Vec<Weak<Mouth>>>>,
    clock: MonotonicClock,
    is_quiet: bool,
    /// Whether somebody asks for the end.
    asked: Box<dyn Fn() -> bool + 'a>,
}

impl<'a> Hosts<'a> {
    /// The hosts of a campaign with this store. Nothing is started yet.
    pub(super) fn new(
        hosts: &[Host],
        store: &Path,
        is_quiet: bool,
        asked: impl Fn() -> bool + 'a,
    ) -> anyhow::Result<Self> {
        let there = |host: &Host| There {
            host: host.clone(),
            link: None,
            turns: 0,
            facts: BTreeMap::new(),
            is_set_up: false,
            progress: Progress::default(),
        };
        let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let path = std::path::absolute(store)?;
        let named = digest::of_bytes(format!("{}\n{}", machine.trim(), path.display()).as_bytes());
        let (to, from) = sync_channel(1024);
        let mouths = Arc::new(Mutex::new(Vec::<Weak<Mouth>>::new()));
        let own = Arc::downgrade(&mouths);
        ioecho_linux::thread::start("alive", move || {
            // It ends with the campaign.
            while let Some(mouths) = own.upgrade() {
                let mut all = mouths.lock().unwrap_or_else(PoisonError::into_inner).clone();
                all.retain(|mouth| mouth.upgrade().is_some());
                for mouth in all.iter().filter_map(Weak::upgrade) {
                    // One that cannot hear is noticed by what it does not say.
                    let _ = mouth.say(&ToAgent::Alive, Duration::ZERO);
                }
                *mouths.lock().unwrap_or_else(PoisonError::into_inner) = all;
                drop(mouths);
                thread::sleep(Duration::from_secs(ALIVE_EVERY_S));
            }
        })?;
        Ok(Self {
            all: hosts.iter().map(there).collect(),
            campaign: named[..16].to_owned(),
            build: build::own()?,
            from,
            to,
            mouths,
            clock: MonotonicClock::new(),
            is_quiet,
            asked: Box::new(asked),
        })
    }

    /// The number of a host.
    fn number(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|there| there.host.name == name)
    }

    fn name(&self, host: usize) -> &str {
        self.all.get(host).map_or("", |there| &there.host.name)
    }

    /// Starts the agents of these hosts that have none. What is returned are those that cannot be
    /// reached, with the reason.
    fn connect(&mut self, who: &[usize]) -> Vec<(usize, String)> {
        let missing: Vec<usize> =
            who.iter().copied().filter(|host| self.all[*host].link.is_none()).collect();
        let mut failed = Vec::new();
        for some in missing.chunks(AT_ONCE) {
            let mut lacking = Vec::new();
            for (host, why) in self.greet(some) {
                match why {
                    Unreached::NoProgram => lacking.push(host),
                    Unreached::For(why) => failed.push((host, why)),
                }
            }
            let mut sent = Vec::new();
            for host in lacking {
                tell(&format!("{}: the program is sent", self.name(host)));
                match reach::send(&self.all[host].host, &self.build) {
                    Ok(()) => sent.push(host),
                    Err(why) => failed.push((host, why)),
                }
            }
            failed.extend(self.greet(&sent).into_iter().map(|(host, why)| match why {
                Unreached::NoProgram => (host, "the program cannot be run there".to_owned()),
                Unreached::For(why) => (host, why),
            }));
        }
        failed
    }

    /// Starts agents and exchanges the first lines with them. What is returned are those that did
    /// not answer as an agent of this build.
    fn greet(&mut self, who: &[usize]) -> Vec<(usize, Unreached)> {
        let mut failed = Vec::new();
        let mut waiting = Vec::new();
        for &host in who {
            match self.begin(host) {
                Ok(()) => waiting.push(host),
                Err(error) => failed.push((host, Unreached::For(error.to_string()))),
            }
        }
        let begun = Instant::now();
        while !waiting.is_empty() {
            let left = FIRST_ANSWER_WITHIN.saturating_sub(begun.elapsed());
            let came = self.from.recv_timeout(left.min(TICK));
            let Ok(Came { host, turn, what, .. }) = came else {
                if left.is_zero() || (self.asked)() {
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
                    if build == self.build {
                        self.all[host].facts = facts;
                        continue;
                    }
                    self.cut(host);
                    failed.push((host, Unreached::For("it is another build".to_owned())));
                }
                What::Said(FromAgent::Fault { text, .. }) if is_waiting => {
                    waiting.retain(|other| *other != host);
                    self.cut(host);
                    failed.push((host, Unreached::For(text)));
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
        let command = reach::agent(&there.host, As::Agent, &self.build)?;
        let name = there.host.name.clone();
        let link = Link::start(command, (host, there.turns, &name), self.to.clone())?;
        let (protocol, build) = (PROTOCOL, self.build.clone());
        let hello = ToAgent::Hello { protocol, build, campaign: self.campaign.clone(), host: name };
        // What it does not hear it does not answer.
        let _ = link.mouth().say(&hello, READS_WITHIN);
        let mouth = Arc::downgrade(link.mouth());
        self.mouths.lock().unwrap_or_else(PoisonError::into_inner).push(mouth);
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

    /// Gives up an agent. It notices the end of its input, stops and undoes.
    fn cut(&mut self, host: usize) {
        if let Some(link) = self.all[host].link.take() {
            // Whoever is silent is not waited for.
            let _ = thread::Builder::new().spawn(move || link.end(ENDS_WITHIN));
        }
    }

    /// Asks each of these hosts one thing, and waits for the answers.
    fn ask(&mut self, who: &[usize], questions: Vec<ToAgent>) -> Outcome {
        let talk = Conversation::asking(questions, now_ns(&self.clock));
        self.converse(who, talk, true)
    }

    /// Does a conversation with these hosts, to its end.
    fn converse(
        &mut self,
        who: &[usize],
        talk: (Conversation, Vec<Action>),
        may_be_stopped: bool,
    ) -> Outcome {
        self.converse_telling(who, talk, may_be_stopped, &mut |_| {})
    }

    /// The same; `begun` is told the instants once a replay has begun.
    fn converse_telling(
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
            if may_be_stopped && !was_asked && (self.asked)() {
                was_asked = true;
                actions.extend(talk.step(now_ns(&self.clock), Event::Asked));
            }
        }
    }

    /// Tells how far the replays of these hosts are, and which is the slowest just now.
    fn tell_progress(&self, who: &[usize]) {
        let all = || who.iter().map(|host| (self.name(*host), self.all[*host].progress));
        let furthest = all().map(|(_, it)| it.seconds).fold(0.0, f64::max);
        if self.is_quiet || furthest <= 0.0 {
            return;
        }
        let completed: u64 = all().fold(0, |sum, (_, it)| sum.saturating_add(it.completed));
        let slowest = all().filter_map(|(name, it)| Some((it.p99_ns?, name))).max();
        let slowest = slowest.map_or(String::new(), |(ns, name)| {
            let p99 = Nanos(i64::try_from(ns).unwrap_or(i64::MAX));
            format!("; the slowest now is {name}, p99 {p99}")
        });
        let count = who.len();
        tell(&format!("    {count} hosts, {furthest:.0} s: {completed} requests{slowest}"));
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
                    Unreached::For(why) => why,
                };
                let now = now_ns(&self.clock);
                at.map_or(Vec::new(), |at| talk.step(now, Event::Lost(at, why)))
            }
        }
    }

    /// Ends all agents. What was set up is taken down, in the reverse order of the file. What is
    /// returned could not be taken back.
    pub(super) fn end(mut self) -> Vec<String> {
        let mut left = Vec::new();
        for host in (0..self.all.len()).rev() {
            if self.all[host].link.is_none() && !self.all[host].is_set_up {
                continue;
            }
            // One that was lost has undone by itself, or does it now.
            if let Some((_, why)) = self.connect(&[host]).first() {
                let name = self.name(host);
                left.push(format!("{name}: what was set up there cannot be told: {why}"));
                continue;
            }
            let talk = Conversation::asking(vec![ToAgent::Undo], now_ns(&self.clock));
            let name = self.name(host).to_owned();
            match self.converse(&[host], talk, false) {
                Outcome::Answers(answers) => {
                    for answer in answers {
                        if let FromAgent::Undone { left: what } = answer {
                            left.extend(what.iter().map(|what| format!("{name}: {what}")));
                        }
                    }
                }
                _ => left.push(format!("{name}: it was lost while it undid")),
            }
        }
        for there in &mut self.all {
            if let Some(link) = there.link.take() {
                link.end(ENDS_WITHIN);
            }
        }
        left
    }
}

/// Why an agent does not answer.
enum Unreached {
    /// There is no such program on the host.
    NoProgram,
    /// For this reason.
    For(String),
}
