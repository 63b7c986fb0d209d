//! Conversations with agents that delay, fail, vanish and lie, from seeds, under a virtual clock.

use super::*;

const MS: i64 = 1_000_000;

const TICK_NS: i64 = 500 * MS;

/// Numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as i64
    }
}

/// What is wrong with an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ill {
    Well,
    /// Nothing comes from it any more from this instant on.
    Silent(i64),
    /// Its connection breaks at this instant.
    Broken(i64),
    /// It cannot arm.
    CannotArm,
    /// Its replay fails so long after its beginning.
    Fails(i64),
    /// Its clock jumps at each answer.
    Lies,
}

#[derive(Clone, Debug)]
struct Agent {
    ill: Ill,
    offset: i64,
    ppm: i64,
    arms_ns: i64,
    runs_ns: i64,
    is_armed: bool,
    /// It neither hears nor says anything from one instant to another.
    stalls: (i64, i64),
    /// Which of the instants that it was told stands, and when that is settled on its clock.
    taken: Option<(i64, i64)>,
    /// Whether it has slept through an instant that it had taken.
    has_slept: bool,
    /// When its replay begins, in true time.
    begins: Option<i64>,
    is_stopped: bool,
    is_ended: bool,
    /// Whether it does what is due beside the replays of the others.
    attends: bool,
}

impl Agent {
    fn clock(&self, now: i64) -> i64 {
        now + self.offset + now / 1_000_000 * self.ppm
    }

    /// The true time at which its clock reads so much, if it does within a minute.
    fn when(&self, now: i64, at_ns: i64) -> i64 {
        let left = at_ns - self.clock(now);
        now + left - left / 1_000_000 * self.ppm
    }
}

/// What happens when, in true time, which is the campaign's clock.
#[derive(Clone, Debug)]
enum Due {
    ToAgent(usize, ToAgent),
    FromAgent(usize, FromAgent),
    Breaks(usize),
    /// The instant that an agent has taken is settled.
    Settles(usize),
    Ends(usize),
    Tick,
    Look,
    Asked,
}

struct World {
    draw: Draw,
    agents: Vec<Agent>,
    due: std::collections::BTreeMap<(i64, u64), Due>,
    count: u64,
    /// How many instants were told.
    tellings: usize,
    /// Who stands still for so long when it is told the first of them.
    sleeper: Option<(usize, i64)>,
}

impl World {
    fn new(seed: u64, count: usize, is_ill: bool) -> Self {
        let mut draw = Draw(seed);
        let mut agents = Vec::new();
        for at in 0..count {
            let when = draw.below(30_000) * MS;
            let ill = match draw.below(if is_ill { 16 } else { 1 }) {
                1 => Ill::Silent(when),
                2 => Ill::Broken(when),
                3 => Ill::CannotArm,
                4 => Ill::Fails(when),
                5 => Ill::Lies,
                _ => Ill::Well,
            };
            agents.push(Agent {
                ill,
                offset: draw.below(2_000_000_000_000) - 1_000_000_000_000,
                ppm: draw.below(200) - 100,
                arms_ns: draw.below(5_000) * MS,
                runs_ns: draw.below(20_000) * MS,
                is_armed: false,
                stalls: (0, 0),
                taken: None,
                has_slept: false,
                begins: None,
                is_stopped: false,
                is_ended: false,
                attends: seed.is_multiple_of(3) && at > 0 && at + 1 == count,
            });
        }
        let due = std::collections::BTreeMap::new();
        let mut world = Self { draw, agents, due, count: 0, tellings: 0, sleeper: None };
        for at in 0..count {
            if let Ill::Broken(when) = world.agents[at].ill {
                world.put(when, Due::Breaks(at));
            }
        }
        if is_ill && world.draw.below(10) == 0 {
            let when = world.draw.below(30_000) * MS;
            world.put(when, Due::Asked);
        }
        world.put(TICK_NS, Due::Tick);
        world
    }

    fn put(&mut self, at: i64, due: Due) {
        self.count += 1;
        self.due.insert((at, self.count), due);
    }

    /// Answers arrive in order, after a while.
    fn answer(&mut self, now: i64, at: usize, said: FromAgent) {
        let way = 5_000 + self.draw.below(200_000);
        self.put(now + way, Due::FromAgent(at, said));
    }

    fn is_heard(&self, now: i64, at: usize) -> bool {
        match self.agents[at].ill {
            Ill::Silent(when) | Ill::Broken(when) => now < when,
            _ => true,
        }
    }

    /// What an agent does with a message.
    fn told(&mut self, now: i64, at: usize, message: ToAgent) {
        let lie = self.draw.below(10_000) * MS;
        let agent = &mut self.agents[at];
        match message {
            ToAgent::Arm { .. } | ToAgent::Attend if agent.ill == Ill::CannotArm => {
                let (kind, text) = (FaultKind::Refused, "no".to_owned());
                agent.is_ended = true;
                self.answer(now, at, FromAgent::Fault { kind, text });
            }
            ToAgent::Rest => {
                assert!(agent.attends && agent.begins.is_some() || agent.is_ended);
                let others = self.agents.iter().filter(|agent| !agent.attends);
                assert!(others.clone().all(|agent| agent.is_ended), "a replay goes on");
                self.ends(now, at);
            }
            ToAgent::Arm { .. } | ToAgent::Attend => {
                agent.is_armed = true;
                let then = now + agent.arms_ns;
                self.answer(then, at, FromAgent::Armed);
            }
            ToAgent::Ping { number } => {
                let lie = if agent.ill == Ill::Lies { lie } else { 0 };
                let at_ns = agent.clock(now) + lie;
                self.answer(now, at, FromAgent::Pong { number, at_ns });
            }
            ToAgent::Start { at_ns, settled_ns } => {
                if agent.is_ended || agent.begins.is_some() {
                    // It has begun at another one.
                    if !std::mem::replace(&mut agent.is_ended, true) {
                        let (kind, text) = (FaultKind::Failed, "begun already".to_owned());
                        self.answer(now, at, FromAgent::Fault { kind, text });
                    }
                    return;
                }
                let in_time = agent.clock(now) < settled_ns;
                agent.taken = in_time.then_some((at_ns, settled_ns));
                let settles = agent.when(now, settled_ns);
                self.answer(now, at, FromAgent::Heard { at_ns, in_time });
                if in_time {
                    self.put(settles, Due::Settles(at));
                }
            }
            ToAgent::Stop => {
                agent.is_stopped = true;
                if !agent.is_ended {
                    agent.is_ended = true;
                    let (kind, text) = (FaultKind::Stopped, "stopped".to_owned());
                    self.answer(now, at, FromAgent::Fault { kind, text });
                }
            }
            other => panic!("{other:?}"),
        }
    }

    /// What an agent has taken stands, unless that was another instant.
    fn settles(&mut self, now: i64, at: usize) {
        let agent = &mut self.agents[at];
        let Some((at_ns, settled_ns)) = agent.taken else { return };
        // Rates are whole numbers per million here.
        if agent.begins.is_some() || agent.is_ended || agent.clock(now) < settled_ns - MS / 10 {
            return;
        }
        let begins = agent.when(now, at_ns);
        if begins <= now {
            (agent.is_ended, agent.has_slept) = (true, true);
            let (kind, text) = (FaultKind::Failed, "it had passed".to_owned());
            self.answer(now, at, FromAgent::Fault { kind, text });
            return;
        }
        agent.begins = Some(begins);
        let takes = match agent.ill {
            Ill::Fails(after) => after.min(agent.runs_ns),
            _ => agent.runs_ns,
        };
        if !agent.attends || matches!(agent.ill, Ill::Fails(_)) {
            self.put(begins + takes, Due::Ends(at));
        }
    }

    /// The replay of an agent comes to its end.
    fn ends(&mut self, now: i64, at: usize) {
        if std::mem::replace(&mut self.agents[at].is_ended, true) {
            return;
        }
        let said = if let Ill::Fails(_) = self.agents[at].ill {
            FromAgent::Fault { kind: FaultKind::Failed, text: "crashed".to_owned() }
        } else {
            FromAgent::Done { seconds: 1.0, said: String::new(), files: Vec::new() }
        };
        self.answer(now, at, said);
    }

    /// Runs a conversation to its end: what came of it, when, and the agents that were cut off.
    fn run(&mut self) -> (Outcome, i64, Vec<usize>) {
        let run =
            crate::protocol::RunName { key: String::new(), attempt: 1, name: "run".to_owned() };
        let load = crate::protocol::LoadThere::Text("gen:random".to_owned());
        let on_loss = crate::file::OnLoss::Stop;
        let arm =
            || ToAgent::Arm { run: run.clone(), flags: Vec::new(), load: load.clone(), on_loss };
        let asked = |it: &Agent| if it.attends { ToAgent::Attend } else { arm() };
        let arms = self.agents.iter().map(asked).collect();
        let (mut talk, mut actions) = Conversation::replay(arms, MS, 0);
        let (mut now, mut cut) = (0, Vec::new());
        loop {
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Say(at, message) => {
                        if let ToAgent::Start { at_ns, settled_ns } = message {
                            // It is looked often enough.
                            self.put(now + (at_ns - settled_ns) / 2, Due::Look);
                            let armed = |agent: &Agent| agent.is_armed;
                            assert!(self.agents.iter().all(armed), "begun before all are armed");
                            self.tellings += 1;
                            if let Some((who, lasts)) = self.sleeper.take_if(|it| it.0 == at) {
                                self.agents[who].stalls = (now, now + lasts);
                            }
                        }
                        let way = 5_000 + self.draw.below(200_000);
                        self.put(now + way, Due::ToAgent(at, message));
                    }
                    Action::Cut(at) => cut.push(at),
                    Action::Over(outcome) => return (outcome, now, cut),
                }
            }
            let ((then, _), due) = self.due.pop_first().expect("it goes on");
            now = then;
            assert!(now < 600_000 * MS, "it does not end");
            let event = match due {
                Due::ToAgent(at, _) | Due::FromAgent(at, _) | Due::Settles(at)
                    if self.agents[at].stalls.0 <= now && now < self.agents[at].stalls.1 =>
                {
                    // In the order in which they came.
                    let then = self.agents[at].stalls.1;
                    self.put(then, due);
                    continue;
                }
                Due::Settles(at) => {
                    self.settles(now, at);
                    continue;
                }
                Due::ToAgent(at, message) => {
                    if self.is_heard(now, at) {
                        self.told(now, at, message);
                    }
                    continue;
                }
                Due::Ends(at) => {
                    self.ends(now, at);
                    continue;
                }
                Due::FromAgent(at, _) if !self.is_heard(now, at) => continue,
                Due::FromAgent(at, said) => Event::Heard(at, said),
                Due::Breaks(at) => Event::Lost(at, "it broke".to_owned()),
                Due::Asked => Event::Asked,
                Due::Look => Event::Tick,
                Due::Tick => {
                    self.put(now + TICK_NS, Due::Tick);
                    // Those that live say so.
                    let all = if now % (2 * TICK_NS) == 0 { self.agents.len() } else { 0 };
                    for at in 0..all {
                        let (from, to) = self.agents[at].stalls;
                        if self.is_heard(now, at) && !(from..to).contains(&now) {
                            actions.extend(talk.step(now, Event::Heard(at, FromAgent::Alive)));
                        }
                    }
                    Event::Tick
                }
            };
            actions.extend(talk.step(now, event));
        }
    }
}

#[test]
fn agents_that_are_well_begin_together_and_the_bounds_hold_the_truth() {
    for seed in 0..1_000 {
        let mut world = World::new(seed, 1 + seed as usize % 6, false);
        let (outcome, _, cut) = world.run();
        let Outcome::Replayed(all) = outcome else { panic!("{seed}: {outcome:?}") };
        let replaying = world.agents.iter().filter(|agent| !agent.attends).count();
        assert_eq!((all.len(), cut.len()), (replaying, 0));
        for (agent, replayed) in world.agents.iter().zip(&all) {
            let (low, high) = replayed.zero_ns;
            let begun = agent.begins.unwrap();
            // Rates are whole numbers per million here, so a microsecond is lost in rounding; and
            // clocks drift apart while they are compared.
            assert!(
                low - 20_000 <= begun && begun <= high + 20_000,
                "{seed}: {replayed:?} {begun}"
            );
        }
        let begins = world.agents.iter().map(|agent| agent.begins.unwrap());
        let (first, last) = (begins.clone().min().unwrap(), begins.max().unwrap());
        assert!(last - first < MS, "{seed}: {first} {last}");
    }
}

#[test]
fn whatever_is_lost_fails_or_lies_the_others_stop_and_it_ends() {
    let (mut replayed, mut troubles) = (0, 0);
    for seed in 0..20_000 {
        let mut world = World::new(seed, 1 + seed as usize % 5, true);
        let (outcome, end, cut) = world.run();
        for (at, agent) in world.agents.iter().enumerate() {
            let goes_on = agent.begins.is_some() && !agent.is_ended;
            let is_gone = cut.contains(&at);
            assert!(!goes_on || is_gone, "{seed}: {at} goes on after {end}: {outcome:?}");
        }
        match outcome {
            Outcome::Replayed(all) => {
                replayed += 1;
                assert_eq!(all.len(), world.agents.iter().filter(|it| !it.attends).count());
                assert!(
                    world
                        .agents
                        .iter()
                        .all(|it| !matches!(it.ill, Ill::CannotArm | Ill::Fails(_) | Ill::Lies))
                );
            }
            Outcome::Trouble(who, trouble) => {
                troubles += 1;
                match (who.map(|who| world.agents[who].ill), &trouble) {
                    (None, Trouble::Stopped)
                    | (Some(Ill::Silent(_) | Ill::Broken(_)), Trouble::HostLost(_))
                    | (Some(Ill::CannotArm | Ill::Fails(_)), Trouble::Fault(_))
                    | (Some(Ill::Lies), Trouble::Wrong(_)) => {}
                    odd => panic!("{seed}: {odd:?}"),
                }
            }
            Outcome::Answers(_) | Outcome::Compared(_) => panic!("{seed}"),
        }
    }
    assert!(replayed > 1_000 && troubles > 1_000, "{replayed} {troubles}");
}

#[test]
fn a_host_that_stands_still_before_it_begins_costs_no_attempt() {
    let mut told_again = 0;
    for seed in 0..3_000 {
        let count = 2 + seed as usize % 4;
        let mut world = World::new(seed, count, false);
        let who = world.draw.below(count as i64) as usize;
        let (from, lasts) = (world.draw.below(8_000) * MS, world.draw.below(9_000) * MS);
        if seed.is_multiple_of(4) {
            world.sleeper = Some((who, lasts));
        } else {
            world.agents[who].stalls = (from, from + lasts);
        }
        let (outcome, ..) = world.run();
        if world.agents[who].has_slept {
            // It had heard in time, and then it stood still until the others had begun.
            let Outcome::Trouble(Some(at), Trouble::Fault(_)) = outcome else {
                panic!("{seed}: {outcome:?}");
            };
            assert_eq!(at, who, "{seed}");
            continue;
        }
        assert!(matches!(outcome, Outcome::Replayed(_)), "{seed}: {outcome:?}");
        let begins = world.agents.iter().map(|agent| agent.begins.unwrap());
        let (first, last) = (begins.clone().min().unwrap(), begins.max().unwrap());
        // Clocks drift apart meanwhile, by 200 ppm at most.
        assert!(last - first < 5 * MS, "{seed}: {first} {last}");
        told_again += u32::from(world.tellings > count);
    }
    assert!(told_again > 300, "{told_again}");
}

/// A replay of two that are armed and whose clocks are compared; the instants that they are told.
fn told() -> (Conversation, i64, Vec<Action>) {
    let (mut talk, _) = Conversation::replay(vec![ToAgent::Collect, ToAgent::Collect], MS, 0);
    talk.step(0, Event::Heard(0, FromAgent::Armed));
    let mut actions = talk.step(0, Event::Heard(1, FromAgent::Armed));
    let mut now = 0;
    while let [Action::Say(at, ToAgent::Ping { number })] = actions[..] {
        now += MS;
        let pong = FromAgent::Pong { number, at_ns: now - MS / 2 };
        actions = talk.step(now, Event::Heard(at, pong));
    }
    (talk, now, actions)
}

/// How far ahead of then the instant is that both are told.
fn ahead(actions: &[Action], now: i64) -> i64 {
    let [
        Action::Say(0, ToAgent::Start { at_ns, settled_ns }),
        Action::Say(1, ToAgent::Start { at_ns: other, .. }),
    ] = actions
    else {
        panic!("{actions:?}");
    };
    assert_eq!((at_ns, at_ns - settled_ns), (other, (at_ns - now) / 2));
    at_ns - now
}

#[test]
fn all_are_told_a_later_instant_if_one_has_not_heard_of_it_soon() {
    let (mut talk, now, actions) = told();
    let lead = ahead(&actions, now);
    assert_eq!(lead, LEAD_NS);
    let heard = |at, at_ns, in_time| Event::Heard(at, FromAgent::Heard { at_ns, in_time });
    assert_eq!(talk.step(now + 1, heard(0, now + lead, true)), []);
    assert_eq!(talk.step(now + lead / 4 - 1, Event::Tick), []);
    let then = now + lead / 4;
    let lead = ahead(&talk.step(then, Event::Tick), then);
    assert_eq!(lead, 2 * LEAD_NS);
    // What it says of the first instant is of no use any more.
    assert_eq!(talk.step(then + 1, heard(1, now + LEAD_NS, true)), []);
    assert_eq!(talk.step(then + 2, heard(0, then + lead, true)), []);
    assert_eq!(talk.begun(), None);
    assert_eq!(talk.step(then + 3, heard(1, then + lead, true)), []);
    let begun: Vec<i64> = talk.begun().unwrap().iter().map(|(told_ns, _)| *told_ns).collect();
    assert_eq!(begun, [then + lead; 2]);
}

#[test]
fn nobody_is_told_a_later_instant_once_one_may_have_begun() {
    let heard = |at, at_ns, in_time| Event::Heard(at, FromAgent::Heard { at_ns, in_time });
    // The campaign stood still itself, and what agents say waits.
    let (mut talk, now, _) = told();
    let at_ns = now + LEAD_NS;
    assert_eq!(talk.step(now + LEAD_NS, Event::Tick), []);
    assert_eq!(talk.step(now + LEAD_NS, heard(0, at_ns, true)), []);
    let mut other = talk.clone();
    talk.step(now + LEAD_NS, heard(1, at_ns, true));
    assert!(talk.begun().is_some());
    let actions = other.step(now + LEAD_NS, heard(1, at_ns, false));
    assert_eq!(actions, [Action::Say(0, ToAgent::Stop), Action::Say(1, ToAgent::Stop)]);
    // All stood still, and nobody has begun.
    let (mut talk, now, _) = told();
    let then = now + LEAD_NS;
    assert_eq!(talk.step(then, heard(0, now + LEAD_NS, false)), []);
    let actions = talk.step(then, heard(1, now + LEAD_NS, false));
    assert_eq!(ahead(&actions, then), 2 * LEAD_NS);
}

#[test]
fn the_slower_the_answers_the_farther_ahead_is_the_instant() {
    for (took, lead) in [(MS, LEAD_NS), (150 * MS, 20 * 150 * MS), (499 * MS, LEAD_MAX_NS / 2)] {
        let (mut talk, _) = Conversation::replay(vec![ToAgent::Collect], 1_000 * MS, 0);
        let mut actions = talk.step(0, Event::Heard(0, FromAgent::Armed));
        let mut now = 0;
        while let [Action::Say(0, ToAgent::Ping { number })] = actions[..] {
            now += took;
            let pong = FromAgent::Pong { number, at_ns: now - took / 2 };
            actions = talk.step(now, Event::Heard(0, pong));
        }
        let [Action::Say(0, ToAgent::Start { at_ns, .. })] = actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!(at_ns - now, lead, "{took}");
    }
}

#[test]
fn what_nobody_asked_for_ends_the_conversation() {
    let file = || FromAgent::Done { seconds: 0.0, said: String::new(), files: Vec::new() };
    let pong = FromAgent::Pong { number: 0, at_ns: 0 };
    for said in [file(), pong, FromAgent::Undone { left: Vec::new() }] {
        let questions = vec![ToAgent::Collect, ToAgent::Collect];
        let (mut talk, _) = Conversation::replay(questions, MS, 0);
        let actions = talk.step(1, Event::Heard(1, said));
        assert_eq!(actions, [Action::Cut(1), Action::Say(0, ToAgent::Stop)]);
        let (kind, text) = (FaultKind::Stopped, String::new());
        let actions = talk.step(2, Event::Heard(0, FromAgent::Fault { kind, text }));
        let [Action::Over(Outcome::Trouble(Some(1), Trouble::Wrong(_)))] = &actions[..] else {
            panic!("{actions:?}");
        };
    }
}

#[test]
fn a_question_may_take_long_and_silence_may_not() {
    let (mut talk, actions) = Conversation::asking(vec![ToAgent::Undo, ToAgent::Undo], 0);
    assert_eq!(actions.len(), 2);
    for second in 1..1_000 {
        for at in 0..2 {
            assert_eq!(talk.step(second * 1_000 * MS, Event::Heard(at, FromAgent::Alive)), []);
        }
        assert_eq!(talk.step(second * 1_000 * MS, Event::Tick), []);
    }
    let undone = || FromAgent::Undone { left: Vec::new() };
    assert_eq!(talk.step(1_000_000 * MS, Event::Heard(0, undone())), []);
    let actions = talk.step(1_016_000 * MS, Event::Tick);
    let [Action::Cut(_), .., Action::Over(Outcome::Trouble(Some(_), Trouble::HostLost(_)))] =
        &actions[..]
    else {
        panic!("{actions:?}");
    };
}

#[test]
fn who_talks_and_does_not_tell_its_clock_is_given_up() {
    let (mut talk, _) = Conversation::replay(vec![ToAgent::Collect, ToAgent::Collect], MS, 0);
    talk.step(0, Event::Heard(0, FromAgent::Armed));
    talk.step(0, Event::Heard(1, FromAgent::Armed));
    for second in 1..=10 {
        for at in 0..2 {
            assert_eq!(talk.step(second * 1_000 * MS, Event::Heard(at, FromAgent::Alive)), []);
        }
        assert_eq!(talk.step(second * 1_000 * MS, Event::Tick), []);
    }
    let actions = talk.step(10_001 * MS, Event::Tick);
    assert_eq!(actions, [Action::Cut(0), Action::Say(1, ToAgent::Stop)]);
}

#[test]
fn clocks_are_compared_without_a_replay() {
    let (mut talk, mut actions) = Conversation::comparing(2, 0);
    let (mut now, offsets) = (0, [7 * MS, -9 * MS]);
    let outcome = loop {
        match actions[..] {
            [Action::Say(at, ToAgent::Ping { number })] => {
                now += MS;
                let pong = FromAgent::Pong { number, at_ns: now - MS / 2 + offsets[at] };
                actions = talk.step(now, Event::Heard(at, pong));
            }
            [Action::Over(ref outcome)] => break outcome.clone(),
            _ => panic!("{actions:?}"),
        }
    };
    let Outcome::Compared(all) = outcome else { panic!("{outcome:?}") };
    let found: Vec<_> =
        all.iter().map(|it| (it.offset.middle_ns(), it.offset.bound_ns())).collect();
    assert_eq!(found, [(offsets[0], MS / 2), (offsets[1], MS / 2)]);
}

#[test]
fn a_clock_that_is_not_known_closely_enough_begins_nothing() {
    let (mut talk, _) = Conversation::replay(vec![ToAgent::Collect], MS, 0);
    let mut actions = talk.step(0, Event::Heard(0, FromAgent::Armed));
    let mut now = 0;
    for _ in 0..PINGS {
        let [Action::Say(0, ToAgent::Ping { number })] = actions[..] else { break };
        now += 10 * MS;
        let pong = FromAgent::Pong { number, at_ns: now - 5 * MS };
        actions = talk.step(now, Event::Heard(0, pong));
    }
    assert_eq!(actions, [Action::Say(0, ToAgent::Stop)]);
}
