//! The conversation of a campaign with its agents, as a pure state machine.
//!
//! Several hosts replay one load together, or none does: a replay beside others that never began
//! measures another load than was asked for. So all are armed first, then their clocks are
//! compared, then each is told its own clock's instant, and whoever fails, falls silent or lies
//! stops the others. Who hears of the instant too late would be a loss as well, and busy hosts are
//! late; so the instant is settled only half-way to it, and until then all are told a later one if
//! any of them has not said that it has heard. An event comes in (an agent said something, one is
//! lost, time has passed), and actions come out. Nothing here waits or reads a clock, so thousands
//! of seeds test what losses at any instant lead to.

#[cfg(test)]
mod tests;

use crate::clock::{Compared, Comparing, Offset, Ping, offset_at};
use crate::ground::Fault;
use crate::protocol::{FaultKind, FileThere, FromAgent, SILENT_AFTER_S, ToAgent};

const SECOND_NS: i64 = 1_000_000_000;

/// An agent that says nothing for so long is lost.
const SILENT_AFTER_NS: i64 = SILENT_AFTER_S as i64 * SECOND_NS;

/// All must be armed within this.
const ARMED_WITHIN_NS: i64 = 60 * SECOND_NS;

/// What is stopped must have ended within this.
const ENDED_WITHIN_NS: i64 = 60 * SECOND_NS;

/// How far ahead the common instant is: so far at least, and so many times as long as the slowest
/// answer took when clocks were compared. If it was too near, the next one is twice as far ahead,
/// but none farther than this.
const LEAD_NS: i64 = 2 * SECOND_NS;
const LEAD_ANSWERS: i64 = 20;
const LEAD_MAX_NS: i64 = 16 * SECOND_NS;

/// How many questions compare two clocks, and how long they may take.
const PINGS: u32 = 200;
const PINGS_WITHIN_NS: i64 = 2 * SECOND_NS;

/// An answer that takes so long says that a host stood still, and nothing of its clock. After one
/// such answer the clock is compared anew.
const STILL_NS: i64 = SECOND_NS / 20;

/// Why a replay did not begin with the others.
const TOO_LATE: &str = "it heard too late of the instant at which all begin";

/// Who is asked about its clock for so long and does not answer is given up, whatever else it says:
/// the others wait, armed.
const CLOCK_WITHIN_NS: i64 = 10 * SECOND_NS;

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The agent of this number said something.
    Heard(usize, FromAgent),
    /// Nothing more comes from the agent of this number, for this reason.
    Lost(usize, String),
    /// Time has passed.
    Tick,
    /// Somebody asks for the end.
    Asked,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Say this to the agent of this number.
    Say(usize, ToAgent),
    /// Give up the agent of this number.
    Cut(usize),
    /// It is over.
    Over(Outcome),
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// An agent could not do it.
    Fault(Fault),
    /// An agent fell silent or its connection broke.
    HostLost(String),
    /// An agent said what cannot be.
    Wrong(String),
    /// Somebody asked for the end.
    Stopped,
}

/// A replay of an agent that has come to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The instant of its time zero on the agent's own clock, ns.
    pub told_ns: i64,
    /// The same on the clock of the campaign, within these ends.
    pub zero_ns: (i64, i64),
    /// The comparison of the clocks before it.
    pub before: Compared,
    /// The same after it, unless nobody was there to do it.
    pub after: Option<Compared>,
    /// How many seconds its process took.
    pub seconds: f64,
    /// What it printed.
    pub said: String,
    /// Its files in the agent's spool.
    pub files: Vec<FileThere>,
}

/// What a conversation came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// What each agent answered.
    Answers(Vec<FromAgent>),
    /// The comparison of each clock.
    Compared(Vec<Compared>),
    /// The replays of all agents.
    Replayed(Vec<Replayed>),
    /// The first trouble, and whose it was, if it was somebody's.
    Trouble(Option<usize>, Trouble),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Each was asked and answers, since then.
    Asking(i64),
    /// The clock of this agent is compared, since then.
    Before(usize, i64),
    /// All were told an instant, and it is waited for their answers.
    Telling(Telling),
    /// All have heard of the instant: the replays go on.
    Going,
    /// The clock of this agent is compared again, since then.
    After(usize, i64),
    /// All were told to stop, then.
    Ending(i64),
    /// It is over.
    Over,
}

impl Phase {
    /// The comparison of a clock begins anew.
    fn goes_on_from(&mut self, now_ns: i64) {
        if let Self::Before(_, since) | Self::After(_, since) = self {
            *since = now_ns;
        }
    }
}

/// An instant that all were told, then, and so far ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Telling {
    since_ns: i64,
    lead_ns: i64,
}

impl Telling {
    fn at_ns(self) -> i64 {
        self.since_ns.saturating_add(self.lead_ns)
    }

    /// From then on nobody takes another instant.
    fn settled_ns(self) -> i64 {
        self.since_ns.saturating_add(self.lead_ns / 2)
    }

    /// Whoever has not heard of it by then may hear too late. What all are told then they hear
    /// before this one is settled, if they are as quick as was hoped. The last one is waited for
    /// as long as there is time to call it off.
    fn heard_ns(self) -> i64 {
        let quarter_ns = self.since_ns.saturating_add(self.lead_ns / 4);
        if self.is_last() { self.settled_ns() - SECOND_NS } else { quarter_ns }
    }

    fn is_last(self) -> bool {
        self.lead_ns >= LEAD_MAX_NS
    }
}

/// An agent that takes part.
#[derive(Clone, Debug, Default)]
struct Member {
    heard_ns: i64,
    is_lost: bool,
    answer: Option<FromAgent>,
    done: Option<(f64, String, Vec<FileThere>)>,
    comparing: Comparing,
    /// Whether it stood still meanwhile.
    has_stood_still: bool,
    sent_ns: i64,
    before: Option<Compared>,
    after: Option<Compared>,
    told_ns: i64,
    /// Whether it heard of the instant that it was told last in time, once it has said so.
    has_heard: Option<bool>,
    /// Whether nothing goes on there.
    is_at_rest: bool,
    /// Whether it replays nothing, and does what is due beside the replays of the others.
    attends: bool,
    /// Whether it was told that those have ended.
    is_told_to_rest: bool,
}

/// What a conversation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Questions,
    Clocks,
    Replay,
}

/// A conversation about one thing: a question to each agent, their clocks, or a replay on all.
#[derive(Clone, Debug)]
pub struct Conversation {
    members: Vec<Member>,
    about: About,
    /// The largest bound of a clock with which a replay begins.
    bound_max_ns: i64,
    /// How long the slowest answer about a clock took.
    slowest_ns: i64,
    phase: Phase,
    trouble: Option<(Option<usize>, Trouble)>,
}

impl Conversation {
    /// Asks each agent one thing. An answer may take any time, as long as the agent is alive.
    pub fn asking(questions: Vec<ToAgent>, now_ns: i64) -> (Self, Vec<Action>) {
        Self::begin(questions, About::Questions, i64::MAX, now_ns)
    }

    /// Arms a replay on each agent, and begins all of them together, if all clocks are known within
    /// this bound. Those that attend are the last.
    pub fn replay(arms: Vec<ToAgent>, bound_max_ns: i64, now_ns: i64) -> (Self, Vec<Action>) {
        Self::begin(arms, About::Replay, bound_max_ns, now_ns)
    }

    /// Compares the clocks of so many agents, and does nothing else.
    pub fn comparing(count: usize, now_ns: i64) -> (Self, Vec<Action>) {
        // Nothing goes on there that could be stopped.
        let member = Member { heard_ns: now_ns, is_at_rest: true, ..Member::default() };
        let (about, phase) = (About::Clocks, Phase::Before(0, now_ns));
        let (bound_max_ns, trouble) = (i64::MAX, None);
        let members = vec![member; count];
        let mut talk = Self { members, about, bound_max_ns, slowest_ns: 0, phase, trouble };
        let mut actions = Vec::new();
        if count == 0 {
            talk.end(&mut actions);
        } else {
            talk.compare(now_ns, 0, &mut actions);
        }
        (talk, actions)
    }

    fn begin(
        questions: Vec<ToAgent>,
        about: About,
        bound_max_ns: i64,
        now_ns: i64,
    ) -> (Self, Vec<Action>) {
        let member = |question: &ToAgent| {
            let attends = *question == ToAgent::Attend;
            Member { heard_ns: now_ns, attends, ..Member::default() }
        };
        let members = questions.iter().map(member).collect();
        let (phase, trouble) = (Phase::Asking(now_ns), None);
        let mut talk = Self { members, about, bound_max_ns, slowest_ns: 0, phase, trouble };
        let mut actions: Vec<Action> = questions
            .into_iter()
            .enumerate()
            .map(|(at, question)| Action::Say(at, question))
            .collect();
        talk.go_on(now_ns, &mut actions);
        (talk, actions)
    }

    fn is_replay(&self) -> bool {
        self.about == About::Replay
    }

    /// What is to be done after an event. `now_ns` is the clock of the campaign; for what was heard
    /// it is the instant at which it was.
    pub fn step(&mut self, now_ns: i64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.phase == Phase::Over {
            return actions;
        }
        match event {
            Event::Heard(at, said) => self.hear(now_ns, at, said, &mut actions),
            Event::Lost(at, why) => self.lose(now_ns, at, Trouble::HostLost(why), &mut actions),
            Event::Tick => self.watch(now_ns, &mut actions),
            // What has come to its end counts.
            Event::Asked if matches!(self.phase, Phase::After(..)) => {}
            Event::Asked => self.stop(now_ns, None, Trouble::Stopped, &mut actions),
        }
        self.go_on(now_ns, &mut actions);
        actions
    }

    fn hear(&mut self, now_ns: i64, at: usize, said: FromAgent, actions: &mut Vec<Action>) {
        let is_replay = self.is_replay();
        let Some(member) = self.members.get_mut(at).filter(|member| !member.is_lost) else {
            return;
        };
        member.heard_ns = member.heard_ns.max(now_ns);
        let is_comparing = match self.phase {
            Phase::Before(who, _) | Phase::After(who, _) => who == at,
            _ => false,
        };
        let is_told = !matches!(self.phase, Phase::Asking(_) | Phase::Before(..));
        match said {
            FromAgent::Alive | FromAgent::Progress { .. } => {}
            FromAgent::Pong { number, at_ns } => {
                let is_next = is_comparing && number == member.comparing.count();
                let sent_ns = member.sent_ns;
                let is_still = now_ns.saturating_sub(sent_ns) > STILL_NS;
                if is_next && is_still && !std::mem::replace(&mut member.has_stood_still, true) {
                    // Clocks have drifted apart meanwhile.
                    member.comparing = Comparing::default();
                    self.phase.goes_on_from(now_ns);
                    self.compare(now_ns, at, actions);
                } else if is_next {
                    member.comparing.add(&Ping {
                        sent_ns,
                        answered_ns: at_ns,
                        received_ns: now_ns,
                    });
                    self.compare(now_ns, at, actions);
                } else if self.trouble.is_none() {
                    let text = "it answered what nobody had asked".to_owned();
                    self.lose(now_ns, at, Trouble::Wrong(text), actions);
                }
            }
            FromAgent::Fault { kind, text } => {
                member.is_at_rest = true;
                let fault = match kind {
                    FaultKind::Refused => Fault::Refused(text),
                    FaultKind::Lacking => Fault::Lacking(text),
                    FaultKind::Failed | FaultKind::Busy => Fault::Failed(text),
                    FaultKind::Stopped => Fault::Stopped,
                };
                self.stop(now_ns, Some(at), Trouble::Fault(fault), actions);
            }
            FromAgent::Heard { at_ns, in_time } if is_replay && is_told => {
                // The answer to an instant that was replaced is none to the last one.
                if at_ns == member.told_ns {
                    member.has_heard = member.has_heard.or(Some(in_time));
                }
            }
            FromAgent::Done { seconds, said, files }
                if is_replay && member.done.is_none() && member.answer.is_some() =>
            {
                member.done = Some((seconds, said, files));
                member.is_at_rest = true;
                // Before its instant nothing can have ended, nor before those that it attends.
                let is_early = match self.phase {
                    Phase::Asking(_) | Phase::Before(..) => true,
                    Phase::Telling(_) => member.attends || member.has_heard != Some(true),
                    Phase::Going => member.attends != member.is_told_to_rest,
                    _ => false,
                };
                if is_early {
                    let text = "its replay had ended before it began".to_owned();
                    self.lose(now_ns, at, Trouble::Wrong(text), actions);
                }
            }
            answer if member.answer.is_none() && is_answer(is_replay, &answer) => {
                member.is_at_rest |= !is_replay;
                member.answer = Some(answer);
            }
            _ => {
                let text = "it said what nobody had asked for".to_owned();
                self.lose(now_ns, at, Trouble::Wrong(text), actions);
            }
        }
    }

    /// The next question about a clock, or the next clock.
    fn compare(&mut self, now_ns: i64, at: usize, actions: &mut Vec<Action>) {
        let (is_before, since) = match self.phase {
            Phase::Before(_, since) => (true, since),
            Phase::After(_, since) => (false, since),
            _ => return,
        };
        let member = &mut self.members[at];
        let count = member.comparing.count();
        if count < PINGS && (count == 0 || now_ns.saturating_sub(since) < PINGS_WITHIN_NS) {
            member.sent_ns = now_ns;
            actions.push(Action::Say(at, ToAgent::Ping { number: count }));
            return;
        }
        let found = match member.comparing.compared() {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(why) => {
                let trouble = Trouble::Wrong(why.to_owned());
                return self.lose(now_ns, at, trouble, actions);
            }
        };
        self.slowest_ns = self.slowest_ns.max(member.comparing.slowest_ns());
        (member.comparing, member.has_stood_still) = (Comparing::default(), false);
        let bound = found.offset.bound_ns();
        if is_before {
            member.before = Some(found);
        } else {
            member.after = Some(found);
        }
        let begins = is_before && !member.attends;
        if begins && bound > self.bound_max_ns {
            let text = format!(
                "its clock is known within {} only, and start.skew is {}: nothing was replayed",
                ioecho_trace::Nanos(bound),
                ioecho_trace::Nanos(self.bound_max_ns)
            );
            return self.stop(now_ns, Some(at), Trouble::Fault(Fault::Failed(text)), actions);
        }
        let next = at + 1;
        // What was done beside the replays needs no instant afterwards.
        let is_one = |member: &Member| is_before || !member.attends;
        if self.members.get(next).is_some_and(is_one) {
            self.phase =
                if is_before { Phase::Before(next, now_ns) } else { Phase::After(next, now_ns) };
            self.compare(now_ns, next, actions);
        } else if is_before && self.is_replay() {
            let answers_ns = self.slowest_ns.saturating_mul(LEAD_ANSWERS);
            self.start(now_ns, answers_ns.clamp(LEAD_NS, LEAD_MAX_NS / 2), actions);
        } else {
            self.end(actions);
        }
    }

    /// Tells all an instant that is so far ahead.
    fn start(&mut self, since_ns: i64, lead_ns: i64, actions: &mut Vec<Action>) {
        let telling = Telling { since_ns, lead_ns };
        self.phase = Phase::Telling(telling);
        for (at, member) in self.members.iter_mut().enumerate() {
            let offset = member.before.map_or(0, |before| before.offset.middle_ns());
            let there = |here_ns: i64| here_ns.saturating_add(offset);
            let (at_ns, settled_ns) = (there(telling.at_ns()), there(telling.settled_ns()));
            (member.told_ns, member.has_heard) = (at_ns, None);
            actions.push(Action::Say(at, ToAgent::Start { at_ns, settled_ns }));
        }
    }

    /// Looks who has heard of the instant, and tells all a later one where that is needed and
    /// nobody has begun.
    fn weigh(&mut self, now_ns: i64, telling: Telling, actions: &mut Vec<Action>) {
        let all = |heard: Option<bool>| self.members.iter().all(|it| it.has_heard == heard);
        if all(Some(true)) {
            self.phase = Phase::Going;
            return;
        }
        let late = self.members.iter().position(|it| it.has_heard == Some(false));
        let slow = self.members.iter().position(|it| it.has_heard.is_none());
        let has_ended = self.members.iter().any(|it| it.done.is_some());
        let is_open = now_ns < telling.settled_ns() && !has_ended;
        let to_tell = is_open && (late.is_some() || now_ns >= telling.heard_ns());
        let begins_again = to_tell || all(Some(false));
        if begins_again && !telling.is_last() {
            let lead_ns = telling.lead_ns.saturating_mul(2).min(LEAD_MAX_NS);
            return self.start(now_ns, lead_ns, actions);
        }
        let waited_ns = now_ns.saturating_sub(telling.at_ns());
        match (late, slow) {
            // Others have begun, and an instant that this one could keep is none for them.
            (Some(who), slow) if begins_again || slow.is_none() => {
                let trouble = Trouble::Fault(Fault::Failed(TOO_LATE.to_owned()));
                self.stop(now_ns, Some(who), trouble, actions);
            }
            (_, Some(who)) if begins_again || waited_ns > CLOCK_WITHIN_NS => {
                let text = "it did not say that it had heard of the common instant".to_owned();
                self.lose(now_ns, who, Trouble::HostLost(text), actions);
            }
            _ => {}
        }
    }

    /// The instants that all agents were told, each on its own clock, and the comparisons of the
    /// clocks before; `None` until all have heard of them.
    pub fn begun(&self) -> Option<Vec<(i64, Compared)>> {
        let is_begun = self.is_replay() && matches!(self.phase, Phase::Going | Phase::After(..));
        let of = |member: &Member| Some((member.told_ns, member.before?));
        self.members.iter().map(of).collect::<Option<Vec<_>>>().filter(|_| is_begun)
    }

    /// An agent is lost.
    fn lose(&mut self, now_ns: i64, at: usize, trouble: Trouble, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(at).filter(|member| !member.is_lost) else {
            return;
        };
        member.is_lost = true;
        member.is_at_rest = true;
        actions.push(Action::Cut(at));
        self.stop(now_ns, Some(at), trouble, actions);
    }

    /// Tells all to stop. The first trouble is the one that is told.
    fn stop(
        &mut self,
        now_ns: i64,
        who: Option<usize>,
        trouble: Trouble,
        actions: &mut Vec<Action>,
    ) {
        if self.trouble.is_some() {
            return;
        }
        self.trouble = Some((who, trouble));
        self.phase = Phase::Ending(now_ns);
        for (at, member) in self.members.iter().enumerate() {
            if !member.is_at_rest {
                actions.push(Action::Say(at, ToAgent::Stop));
            }
        }
    }

    /// Looks who is silent or too slow.
    fn watch(&mut self, now_ns: i64, actions: &mut Vec<Action>) {
        for at in 0..self.members.len() {
            let member = &self.members[at];
            if !member.is_lost && now_ns.saturating_sub(member.heard_ns) > SILENT_AFTER_NS {
                let text = format!("it has been silent for {SILENT_AFTER_S} s");
                self.lose(now_ns, at, Trouble::HostLost(text), actions);
            }
        }
        match self.phase {
            Phase::Asking(since)
                if self.is_replay() && now_ns.saturating_sub(since) > ARMED_WITHIN_NS =>
            {
                let who = self.members.iter().position(|member| member.answer.is_none());
                let text = format!("it was not armed within {} s", ARMED_WITHIN_NS / SECOND_NS);
                self.stop(now_ns, who, Trouble::Fault(Fault::Failed(text)), actions);
            }
            Phase::Before(at, _) | Phase::After(at, _)
                if now_ns.saturating_sub(self.members[at].sent_ns) > CLOCK_WITHIN_NS =>
            {
                let within = CLOCK_WITHIN_NS / SECOND_NS;
                let text = format!("it did not say within {within} s what its clock reads");
                self.lose(now_ns, at, Trouble::HostLost(text), actions);
            }
            Phase::Ending(since) if now_ns.saturating_sub(since) > ENDED_WITHIN_NS => {
                for at in 0..self.members.len() {
                    if !self.members[at].is_at_rest {
                        let text = "it did not stop".to_owned();
                        self.lose(now_ns, at, Trouble::HostLost(text), actions);
                    }
                }
            }
            _ => {}
        }
    }

    /// Goes on to the next phase, if this one is over.
    fn go_on(&mut self, now_ns: i64, actions: &mut Vec<Action>) {
        if let Phase::Telling(telling) = self.phase {
            self.weigh(now_ns, telling, actions);
        }
        match self.phase {
            Phase::Asking(_) if self.members.iter().all(|member| member.answer.is_some()) => {
                if self.is_replay() && !self.members.is_empty() {
                    self.phase = Phase::Before(0, now_ns);
                    self.compare(now_ns, 0, actions);
                } else {
                    self.end(actions);
                }
            }
            Phase::Going
                if self.members.iter().all(|member| member.attends || member.done.is_some())
                    && self.members.iter().any(|it| it.attends && !it.is_told_to_rest) =>
            {
                for (at, member) in self.members.iter_mut().enumerate() {
                    if member.attends {
                        member.is_told_to_rest = true;
                        actions.push(Action::Say(at, ToAgent::Rest));
                    }
                }
            }
            Phase::Going if self.members.iter().all(|member| member.done.is_some()) => {
                self.phase = Phase::After(0, now_ns);
                self.compare(now_ns, 0, actions);
            }
            Phase::Ending(_) if self.members.iter().all(|member| member.is_at_rest) => {
                self.end(actions);
            }
            _ => {}
        }
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Over;
        let outcome = match self.trouble.take() {
            Some((who, trouble)) => Outcome::Trouble(who, trouble),
            None if self.is_replay() => self.replayed(),
            None if self.about == About::Clocks => {
                Outcome::Compared(self.members.iter().filter_map(|it| it.before).collect())
            }
            None => Outcome::Answers(
                self.members.iter_mut().filter_map(|member| member.answer.take()).collect(),
            ),
        };
        actions.push(Action::Over(outcome));
    }

    /// The replays, if each clock ran as clocks do.
    fn replayed(&mut self) -> Outcome {
        let mut all = Vec::new();
        for (at, member) in self.members.iter_mut().enumerate() {
            let (Some(before), Some(after)) = (member.before, member.after) else { continue };
            let Some((seconds, said, files)) = member.done.take() else { continue };
            let told_ns = member.told_ns;
            let zero_ns = match zero(&before, Some(&after), told_ns) {
                Ok(zero) => zero,
                Err(why) => {
                    return Outcome::Trouble(Some(at), Trouble::Wrong(why.to_owned()));
                }
            };
            let after = Some(after);
            all.push(Replayed { told_ns, zero_ns, before, after, seconds, said, files });
        }
        Outcome::Replayed(all)
    }
}

/// Whether this is what a question is answered with.
fn is_answer(is_replay: bool, said: &FromAgent) -> bool {
    match said {
        FromAgent::Armed => is_replay,
        FromAgent::Outlook { .. }
        | FromAgent::Volumes { .. }
        | FromAgent::Kept { .. }
        | FromAgent::Undone { .. }
        | FromAgent::Dropped
        | FromAgent::Done { .. }
        | FromAgent::Hello { .. } => !is_replay,
        _ => false,
    }
}

/// An instant of an agent's clock on the clock of the campaign, within these ends.
///
/// # Errors
///
/// As of [`offset_at`].
pub fn zero(
    before: &Compared,
    after: Option<&Compared>,
    told_ns: i64,
) -> Result<(i64, i64), &'static str> {
    let about = told_ns.saturating_sub(before.offset.middle_ns());
    let Offset { low_ns, high_ns } = offset_at(before, after, about)?;
    Ok((told_ns.saturating_sub(high_ns), told_ns.saturating_sub(low_ns)))
}
