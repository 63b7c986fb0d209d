//! Cells that go on at the same time, on different hosts.

use std::collections::BTreeSet;

use super::*;

/// Hosts with a device each, one that both share, and a ladder.
const CAMPAIGN: &str = "name='x'\nrepeats=2\nretries=1\nparallel='host'\n\
    [hosts]\nh1={launch=[]}\nh2={launch=[]}\nh3={launch=[]}\n\
    [devices]\na={host='h1',path='sim'}\nb={host='h2',path='sim'}\nc={host='h3',path='sim'}\n\
    both={host=['h1','h2'],path='sim'}\n\
    [replay]\ntrace='t-{device}'\n[axes]\ndevice=['a','b','c','both']\nspeedup=[1,2,4]\n\
    [ladder]\naxis='speedup'\nstop='finding = device-limited'\n";

fn truth(cell: &Cell) -> End {
    let speedup: f64 = cell.setting("speedup").unwrap().parse().unwrap();
    let most = if cell.device == "a" { 4.0 } else { 1.0 };
    measured(if speedup <= most { Finding::Faithful } else { Finding::DeviceLimited })
}

/// The cells that were begun by these actions.
fn begun(actions: &[Action]) -> Vec<(usize, u32)> {
    let run = |action: &Action| match action {
        Action::Run(cell, attempt) => Some((*cell, *attempt)),
        _ => None,
    };
    actions.iter().filter_map(run).collect()
}

#[test]
fn cells_on_different_hosts_go_on_together_and_a_host_does_one_at_a_time() {
    let plan = plan(&CAMPAIGN.replace("repeats=2", "repeats=1\norder='written'"));
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let first = executor.step(Event::Begin).unwrap();
    let devices = |executor: &Executor<'_>, actions: &[Action]| -> Vec<String> {
        let cell = |(cell, _): (usize, u32)| executor.cells()[cell].name();
        begun(actions).into_iter().map(cell).collect()
    };
    // Each host has its own; the shared device must wait, and so must what is climbed to.
    let together = ["device=a speedup=1 #1", "device=b speedup=1 #1", "device=c speedup=1 #1"];
    assert_eq!(devices(&executor, &first), together);
    let [(a, _), (b, _), (c, _)] = begun(&first)[..] else { panic!() };
    let limited = measured(Finding::DeviceLimited);
    let next = executor.step(Event::Ended(b, limited.clone(), 1.0)).unwrap();
    // What lies above is skipped; h1 is in use, so the shared device waits still.
    assert_eq!(begun(&next), []);
    assert_eq!(next.iter().filter(|it| matches!(it, Action::Settled(_))).count(), 3);
    let next = executor.step(Event::Ended(a, limited.clone(), 1.0)).unwrap();
    assert_eq!(devices(&executor, &next), ["device=both speedup=1 #1"]);
    let [(both, _)] = begun(&next)[..] else { panic!() };
    // One that is not the shared device's to wait for ends, and is tried again.
    let fault = End::Fault("crashed".to_owned());
    assert_eq!(executor.step(Event::Ended(c, fault, 1.0)).unwrap(), [Action::Run(c, 2)]);
    let over = executor.step(Event::Ended(both, limited.clone(), 1.0)).unwrap();
    assert!(!over.iter().any(|it| matches!(it, Action::Over(_))), "c runs still");
    let over = executor.step(Event::Ended(c, limited, 1.0)).unwrap();
    assert_eq!(over.last(), Some(&Action::Over(Over::Complete)));
}

#[test]
fn who_asks_for_the_end_waits_for_what_runs() {
    let plan = plan(CAMPAIGN);
    let mut executor = Executor::new(&plan, &Named, BTreeMap::new(), 0.0);
    let mut going = begun(&executor.step(Event::Begin).unwrap());
    assert!(going.len() >= 2, "{going:?}");
    assert_eq!(executor.step(Event::Stop).unwrap(), []);
    while let Some((cell, _)) = going.pop() {
        let actions = executor.step(Event::Ended(cell, End::Stopped, 1.0)).unwrap();
        let is_over = actions.contains(&Action::Over(Over::Stopped));
        assert_eq!((begun(&actions), is_over), (Vec::new(), going.is_empty()));
    }
}

#[test]
fn the_time_until_the_end_is_that_of_the_busiest_host() {
    let plan = plan(CAMPAIGN);
    // h1 and h2 have a device of their own and one that they share, each with three speeds twice.
    assert_eq!(plan.turns(plan.cells.iter()), 12);
    let alone = plan.cells.iter().filter(|cell| cell.device == "c");
    assert_eq!(plan.turns(alone), 6);
    // Cells take what they take: the longest way of a repeat counts, and then that of the next.
    let seconds = |cell: &Cell| if cell.device == "c" { 10.0 } else { 1.0 };
    assert!((plan.span_of(plan.cells.iter().map(|it| (it, seconds(it)))) - 60.0).abs() < 1e-9);
}

/// Runs a campaign in which runs end in any order, fault, fail and are stopped, and the process is
/// killed again and again.
fn lived_through(plan: &Plan, mut seed: u64) -> (Vec<State>, usize) {
    let mut stored: BTreeMap<String, Attempts> = BTreeMap::new();
    let mut most = 0;
    for _life in 0..10_000 {
        let mut executor = Executor::new(plan, &Named, stored.clone(), 0.0);
        let mut going: Vec<(usize, u32)> = Vec::new();
        let mut event = Event::Begin;
        loop {
            let actions = executor.step(event).unwrap();
            going.extend(begun(&actions));
            most = most.max(going.len());
            let hosts = || going.iter().flat_map(|(cell, _)| &executor.cells()[*cell].hosts);
            let different: BTreeSet<&str> = hosts().map(|it| it.host.as_str()).collect();
            assert_eq!(different.len(), hosts().count(), "a host does two at a time");
            let repeats = going.iter().map(|(cell, _)| executor.cells()[*cell].repeat);
            assert!(repeats.collect::<BTreeSet<u32>>().len() <= 1, "two repeats at a time");
            match actions.last() {
                Some(Action::Over(Over::Complete)) => return (executor.states().to_vec(), most),
                Some(Action::Over(_)) => break,
                _ => assert!(!going.is_empty(), "it neither waits nor ends"),
            }
            // Killed while runs go on: nothing is stored.
            if below(&mut seed, 40) == 0 {
                break;
            }
            let (cell, attempt) = going.remove(below(&mut seed, going.len() as u64) as usize);
            let end = some_end(&mut seed, truth(&executor.cells()[cell]));
            let attempts = stored.entry(executor.cells()[cell].key.clone()).or_default();
            assert!(attempts.insert(attempt, end.clone()).is_none(), "an attempt was made twice");
            event = Event::Ended(cell, end, 1.0);
        }
    }
    panic!("no end");
}

#[test]
fn whatever_ends_in_whatever_order_each_cell_is_done_once_or_has_a_reason() {
    let plan = plan(CAMPAIGN);
    let mut most = 0;
    for seed in 0..1000 {
        let (states, at_once) = lived_through(&plan, seed);
        most = most.max(at_once);
        for (cell, state) in plan.cells.iter().zip(&states) {
            match state {
                State::Done(_, measured) => {
                    assert_eq!(End::Measured((**measured).clone()), truth(cell));
                }
                State::Failed(reason) | State::Skipped(reason) => assert!(!reason.is_empty()),
                State::Missing | State::Running => panic!("{seed}: {} has no end", cell.name()),
            }
        }
    }
    assert_eq!(most, 3);
}
