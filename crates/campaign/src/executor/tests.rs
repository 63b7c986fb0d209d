mod parallel;

use std::collections::BTreeMap;

use ioecho_stats::verdict::Finding;

use super::*;
use crate::conclusion::{Conclusion, Rank};
use crate::file::tests::{Named, plan};

fn measured(finding: Finding) -> End {
    End::Measured(Measured { finding, ..Measured::nothing() })
}

const CAMPAIGN: &str = "name='x'\nrepeats=2\nretries=1\n[devices]\na='sim:a'\nb='sim:b'\n\
    [replay]\ntrace='t'\n[axes]\ndevice=['a','b']\nspeedup=[1,2,4,8]\n\
    [ladder]\naxis='speedup'\nstop='finding = device-limited'\n";

/// A world in which device `a` follows up to 4, and `b` up to 1.
fn truth(cell: &Cell) -> End {
    let speedup: f64 = cell.setting("speedup").unwrap().parse().unwrap();
    let most = if cell.device == "a" { 4.0 } else { 1.0 };
    measured(if speedup <= most { Finding::Faithful } else { Finding::DeviceLimited })
}

#[test]
fn a_ladder_stops_at_the_condition_and_what_lies_above_is_skipped_with_its_reason() {
    let plan = plan(CAMPAIGN);
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let mut event = Event::Begin;
    let mut runs = 0;
    loop {
        match executor.step(event).unwrap().pop() {
            Some(Action::Run(cell, 1)) => {
                event = Event::Ended(cell, truth(&executor.cells()[cell]), 1.0);
                runs += 1;
            }
            other => {
                assert_eq!(other, Some(Action::Over(Over::Complete)));
                break;
            }
        }
    }
    // In each repeat a is tried at 1, 2, 4, 8 and b at 1, 2.
    assert_eq!(runs, 2 * (4 + 2));
    let skipped = executor
        .states()
        .iter()
        .filter(|state| **state == State::Skipped("stopped at speedup=2".to_owned()));
    assert_eq!(skipped.count(), 4);
    let conclusion = crate::conclusion::conclude(&executor);
    assert_eq!(
        conclusion.sentence,
        "device a goes up to speedup 4; device b goes up to speedup 1."
    );
}

#[test]
fn what_is_said_of_a_ladder_before_its_end_holds_at_its_end() {
    let plan = plan(&CAMPAIGN.replace("repeats=2", "repeats=2\norder='random'"));
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let mut event = Event::Begin;
    let mut said = Vec::new();
    while let Some(Action::Run(cell, _)) = executor.step(event).unwrap().pop() {
        said.push(crate::conclusion::conclude(&executor));
        event = Event::Ended(cell, truth(&executor.cells()[cell]), 1.0);
    }
    let end = crate::conclusion::conclude(&executor).ranking;
    let height =
        |rank: &Rank| rank.highest.as_ref().map_or(0.0, |value| value.parse::<f64>().unwrap());
    let [mut open, mut settled] = [0, 0];
    for rank in said.iter().flat_map(|conclusion| &conclusion.ranking) {
        let known = end.iter().find(|other| other.value == rank.value).unwrap();
        if rank.is_complete {
            assert_eq!(rank.highest, known.highest, "{}", rank.value);
            settled += 1;
        } else {
            assert!(height(rank) <= height(known), "{}", rank.value);
            open += 1;
        }
    }
    assert!(open > 0 && settled > 0, "{open} {settled}");
    let unknown = "how far device a goes is not known; how far device b goes is not known.";
    assert!(said[0].sentence.starts_with(unknown), "{}", said[0].sentence);
    let in_part =
        |it: &Conclusion| it.sentence.contains(" or higher, not all of which was measured");
    assert!(said.iter().any(in_part), "a part is told as a part");
}

#[test]
fn an_expectation_whose_figure_nobody_knows_is_told_with_the_figure() {
    let campaign = "name='x'\n[devices]\na='sim:a'\n[replay]\ntrace='t'\ndevice='a'\n\
                    [[expect]]\nthat='p99 > 300ms'\n[[expect]]\nthat='max > 300ms'\n";
    let plan = plan(campaign);
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    executor.step(Event::Begin).unwrap();
    let figures = [("max.all.response".to_owned(), 2e8)].into();
    let measured = Measured { finding: Finding::Faithful, figures, ..Measured::nothing() };
    executor.step(Event::Ended(0, End::Measured(measured), 1.0)).unwrap();
    let conclusion = crate::conclusion::conclude(&executor);
    let told: Vec<String> = conclusion.broken.iter().map(crate::conclusion::Broken::told).collect();
    let unknown = "p99 > 300ms (p99.all.response is not known: too few requests, or none)";
    assert_eq!(told, [unknown, "max > 300ms"]);
}

/// A number from a seed (splitmix64).
fn below(seed: &mut u64, end: u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % end
}

/// Runs a campaign in which runs fault, fail and are stopped, and the process is killed again and
/// again. What a killed process leaves are the attempts that have ended.
fn lived_through(plan: &Plan, mut seed: u64) -> (Vec<State>, usize) {
    let mut stored: BTreeMap<String, Attempts> = BTreeMap::new();
    for _life in 0..10_000 {
        let mut executor = Executor::new(plan, &Named, stored.clone(), 0.0);
        let mut event = Event::Begin;
        loop {
            let actions = executor.step(event).unwrap();
            let (cell, attempt) = match actions.last() {
                Some(Action::Run(cell, attempt)) => (*cell, *attempt),
                Some(Action::Over(Over::Stopped)) => break,
                Some(Action::Over(Over::Complete)) => {
                    let attempts = stored.values().map(BTreeMap::len).sum();
                    return (executor.states().to_vec(), attempts);
                }
                other => panic!("{other:?}"),
            };
            let end = match below(&mut seed, 20) {
                // Killed while it runs: nothing is stored.
                0 | 1 => break,
                _ => some_end(&mut seed, truth(&executor.cells()[cell])),
            };
            let attempts = stored.entry(executor.cells()[cell].key.clone()).or_default();
            assert!(attempts.insert(attempt, end.clone()).is_none(), "an attempt was made twice");
            let has_result = attempts.values().filter(|end| match end {
                End::Measured(measured) => measured.fault().is_none(),
                _ => false,
            });
            assert!(has_result.count() <= 1, "a cell was done twice");
            // Killed behind the end of the run.
            if below(&mut seed, 20) == 0 {
                break;
            }
            event = Event::Ended(cell, end, 1.0);
        }
    }
    panic!("no end");
}

/// What an attempt ends with: mostly with the truth.
fn some_end(seed: &mut u64, truth: End) -> End {
    match below(seed, 18) {
        0 => End::Stopped,
        1 => End::Fault("crashed".to_owned()),
        2 => measured(Finding::HostStalled),
        3 if below(seed, 20) == 0 => End::Failed("no such device".to_owned()),
        _ => truth,
    }
}

#[test]
fn whatever_happens_each_cell_is_done_once_or_has_a_reason() {
    live(0..3000);
}

#[test]
#[ignore = "takes a while"]
fn whatever_happens_in_a_hundred_thousand_lives() {
    live(3000..103_000);
}

fn live(seeds: std::ops::Range<u64>) {
    let plan = plan(CAMPAIGN);
    for seed in seeds {
        let (states, attempts) = lived_through(&plan, seed);
        for (cell, state) in plan.cells.iter().zip(&states) {
            match state {
                State::Done(_, measured) => {
                    assert_eq!(End::Measured((**measured).clone()), truth(cell));
                }
                State::Failed(reason) | State::Skipped(reason) => assert!(!reason.is_empty()),
                State::Missing | State::Running => panic!("{seed}: {} has no end", cell.name()),
            }
        }
        assert!(attempts >= states.iter().filter(|it| matches!(it, State::Done(..))).count());
    }
}

#[test]
fn retries_are_counted_and_a_result_about_the_device_is_never_tried_again() {
    let plan = plan(CAMPAIGN);
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let Some(Action::Run(cell, 1)) = executor.step(Event::Begin).unwrap().pop() else { panic!() };
    let stalled = || Event::Ended(cell, measured(Finding::HostStalled), 1.0);
    assert_eq!(executor.step(stalled()).unwrap(), [Action::Run(cell, 2)]);
    let actions = executor.step(stalled()).unwrap();
    assert_eq!(actions[0], Action::Settled(cell));
    let told = "host-stalled, after 2 attempts".to_owned();
    assert_eq!(executor.states()[cell], State::Failed(told));
    let Some(Action::Run(next, 1)) = actions.last().cloned() else { panic!("{actions:?}") };
    assert_ne!(next, cell);
    let damaged = executor.step(Event::Ended(next, measured(Finding::DataDamaged), 1.0)).unwrap();
    assert_eq!(damaged[0], Action::Settled(next));
}

#[test]
fn a_budget_begins_no_repeat_that_it_cannot_finish() {
    let text = CAMPAIGN
        .replace("[devices]", "budget='14s'\n[devices]")
        .replace("stop='finding = device-limited'", "stop='finding = data-damaged'");
    let plan = plan(&text);
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let mut event = Event::Begin;
    let mut runs = 0;
    while let Some(Action::Run(cell, _)) = executor.step(event).unwrap().pop() {
        event = Event::Ended(cell, measured(Finding::Faithful), 1.0);
        runs += 1;
    }
    // Eight runs take eight seconds, and eight more would end after sixteen.
    assert_eq!(runs, 8);
}

#[test]
fn a_search_encloses_the_knee_and_goes_on_where_it_was() {
    let text = "name='x'\n[devices]\na='sim:a'\n[replay]\ndevice='a'\ntrace='t'\n\
        [search]\naxis='speedup'\nbetween=[1,200]\nuntil='finding = device-limited'\nvotes=3\n";
    let plan = plan(text);
    let mut stored: BTreeMap<String, Attempts> = BTreeMap::new();
    // The process is killed after every run.
    for _ in 0..200 {
        let mut executor = Executor::new(&plan, &Named, stored.clone(), 0.0);
        let Some(Action::Run(cell, attempt)) = executor.step(Event::Begin).unwrap().pop() else {
            let Some(Next::Between(low, high)) = executor.found()[0] else {
                panic!("{:?}", executor.found())
            };
            assert!(low <= 100.0 && 100.0 < high && high / low <= 1.05, "{low} {high}");
            return;
        };
        let cell = &executor.cells()[cell];
        let speedup: f64 = cell.setting("speedup").unwrap().parse().unwrap();
        let is_over = speedup > 100.0;
        let end = measured(if is_over { Finding::DeviceLimited } else { Finding::Faithful });
        stored.entry(cell.key.clone()).or_default().insert(attempt, end);
    }
    panic!("no end");
}

#[test]
fn a_part_of_a_rate_is_a_number_once_the_other_run_is_done() {
    let text = "name='x'\n[devices]\na='sim:a'\n[replay]\ndevice='a'\n\
        [[run]]\nat={rate='max'}\nset={flow='gen:y;threads=8'}\n\
        [[run]]\nat={rate='50%'}\nset={flow='gen:y?rate={25% of 50% of run 1}'}\n";
    let plan = plan(text);
    let ended = |executor: &mut Executor<'_>, end: End| {
        let Some(Action::Run(0, 1)) = executor.step(Event::Begin).unwrap().pop() else { panic!() };
        executor.step(Event::Ended(0, end, 1.0)).unwrap().pop()
    };
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let figures = [("iops".to_owned(), 84_321.0)].into();
    let reached = End::Measured(Measured { figures, ..Measured::nothing() });
    assert_eq!(ended(&mut executor, reached), Some(Action::Run(1, 1)));
    let flow = executor.resolved(1).identity.replay["flow"].shown();
    assert_eq!(flow, "gen:y?rate=10550");
    assert_eq!(executor.resolved(0).identity, executor.cells()[0].identity);
    // Of a run that has no result there is no part.
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let over = ended(&mut executor, End::Failed("gone".to_owned()));
    assert_eq!(over, Some(Action::Over(Over::Complete)));
    assert!(matches!(&executor.states()[1], State::Skipped(why) if why.contains("no result")));
}

#[test]
fn a_curve_ends_at_the_first_point_that_meets_its_condition_and_the_next_one_goes_on() {
    let head = "name='x'\norder='written'\n[devices]\na='sim:a'\n[replay]\ndevice='a'\n";
    let curve = "[[run]]\nat={run='r',rate='max'}\nset={flow='gen:y;threads=8'}\n\
        [[run]]\nat={run='r',rate='50%'}\nunless='mean > 5ms'\n\
        set={flow='gen:y?rate={50% of run 1}'}\n\
        [[run]]\nat={run='r',rate='80%'}\nunless='mean > 5ms'\n\
        set={flow='gen:y?rate={80% of run 1}'}\n";
    let other = curve.replace("run='r'", "run='q'").replace("of run 1", "of run 4");
    let text = format!("{head}{curve}{other}");
    let plan = plan(&text);
    // The run at `max` is slow in both, its point at 50 % in the first alone.
    let slow = [true, true, false, true, false, false];
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let mut actions = executor.step(Event::Begin).unwrap();
    let mut done = Vec::new();
    while let Some(Action::Run(cell, _)) = actions.pop() {
        done.push(cell);
        let response = if slow[cell] { 6e6 } else { 4e6 };
        let figures = [("iops", 1000.0), ("mean.all.response", response)];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
        let end = End::Measured(Measured { figures, ..Measured::nothing() });
        actions = executor.step(Event::Ended(cell, end, 1.0)).unwrap();
    }
    assert_eq!(done, [0, 1, 3, 4, 5]);
    assert!(matches!(&executor.states()[2], State::Skipped(why) if why.contains("rate=50%")));
}
