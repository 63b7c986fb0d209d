//! Completions, faults and repetition of the device as a whole.

use super::*;
use crate::sim::{Faults, ServiceModel};
use ioecho_trace::Flags;
use proptest::prelude::*;

struct Nothing;

impl Payload for Nothing {
    fn fill_from(&mut self, _: &Io, _: usize, _: &mut [u8]) {}
}

fn io(tag: u32, op: Op) -> Io {
    Io {
        tag,
        request: u64::from(tag),
        scheduled: Nanos::ZERO,
        op,
        flags: Flags::empty(),
        offset: Bytes(u64::from(tag) * 4096),
        length: if op == Op::Flush { Bytes::ZERO } else { Bytes(4096) },
    }
}

fn device(text: &str) -> SimDevice {
    SimDevice::new(text.parse().unwrap(), SimClock::new(Nanos(0)))
}

/// Submits so many reads at once.
fn submit(device: &mut SimDevice, count: u32) {
    for tag in 0..count {
        device.prepare(&io(tag, Op::Read), &mut Nothing);
    }
    assert_eq!(device.submit().unwrap().1, count as usize);
}

/// Waits until the device has nothing more to say.
fn drain(device: &mut SimDevice) -> Vec<Completion> {
    let mut completions = Vec::new();
    while device.next_completion() < Nanos::MAX {
        device.wait(Nanos::MAX, &mut completions).unwrap();
    }
    completions
}

fn count(completions: &[Completion], outcome: Outcome) -> usize {
    completions.iter().filter(|completion| completion.outcome == outcome).count()
}

#[test]
fn requests_complete_in_the_order_of_their_ends_and_the_clock_stands_at_the_last() {
    let clock = SimClock::new(Nanos(0));
    let spec: SimSpec = "model=exp,units=4,service=1ms".parse().unwrap();
    let mut device = SimDevice::new(spec, clock.clone());
    submit(&mut device, 100);
    let first = device.next_completion();
    let completions = drain(&mut device);
    assert_eq!(completions.len(), 100);
    assert!(completions.is_sorted_by_key(|completion| completion.completed));
    assert_eq!(completions[0].completed, first);
    assert_eq!(clock.now(), completions[99].completed);
    assert!(completions.iter().all(|completion| completion.submitted == Nanos::ZERO));
}

#[test]
fn a_seed_repeats_every_completion_and_another_one_does_not() {
    for model in ["const", "exp", "bimodal", "disk", "ssd,gc=0.3:1ms", "collapse"] {
        let run = |seed: u32| {
            let text = format!("model={model},seed={seed},errors=0.1,stall=0.3:5ms,short=0.1");
            let mut device = device(&text);
            submit(&mut device, 200);
            drain(&mut device)
        };
        assert_eq!(run(1), run(1), "{model}");
        assert_ne!(run(1), run(2), "{model}");
    }
}

#[test]
fn faults_come_by_their_shares() {
    let mut device = device("model=const,units=1,errors=0.1,short=0.2,hang=0.05");
    submit(&mut device, 20_000);
    let completions = drain(&mut device);
    let near = |count: usize, share: f64| (count as f64 / 20_000.0 - share).abs() < 0.01;
    assert!(near(20_000 - completions.len(), 0.05));
    assert!(near(count(&completions, Outcome::Error(5)), 0.95 * 0.1));
    assert!(near(count(&completions, Outcome::Short), 0.95 * 0.9 * 0.2));
}

#[test]
fn only_what_moves_data_can_be_short() {
    let mut device = device("short=1");
    device.prepare(&io(0, Op::Flush), &mut Nothing);
    device.prepare(&io(1, Op::Discard), &mut Nothing);
    device.submit().unwrap();
    assert_eq!(count(&drain(&mut device), Outcome::Ok), 2);
}

#[test]
fn a_fault_changes_nothing_for_those_that_it_spares() {
    let times = |faults: &str| {
        let mut device = device(&format!("model=exp,units=1{faults}"));
        submit(&mut device, 500);
        let mut completions = drain(&mut device);
        completions.sort_by_key(|completion| completion.tag);
        completions
    };
    let (clean, faulty) = (times(""), times(",stall=0.2:1s,errors=0.2"));
    let stalled = |n: usize| faulty[n].completed >= clean[n].completed + Nanos::from_secs(1);
    assert!((60..140).contains(&(0..500).filter(|n| stalled(*n)).count()));
    for n in (0..500).filter(|n| !stalled(*n)) {
        assert_eq!(clean[n].completed, faulty[n].completed);
    }
}

#[test]
fn from_the_moment_it_vanishes_everything_ends_as_if_it_were_not_there() {
    let mut device = device("model=const,units=1,service=1ms,bandwidth=100000G,vanish=10500us");
    submit(&mut device, 100);
    let gone = Outcome::Error(19);
    let completions = drain(&mut device);
    assert_eq!(count(&completions, Outcome::Ok), 10);
    assert_eq!(count(&completions, gone), 90);
    let vanished = Nanos::from_micros(10_500);
    let ends = |outcome| {
        let of = completions.iter().filter(move |completion| completion.outcome == outcome);
        of.map(|completion| completion.completed)
    };
    assert!(ends(gone).all(|end| end == vanished));
    assert!(ends(Outcome::Ok).all(|end| end < vanished));
    submit(&mut device, 3);
    assert_eq!(count(&drain(&mut device), gone), 3);
}

#[test]
fn what_hangs_is_answered_when_the_device_is_gone() {
    let mut device = device("hang=1,vanish=1s");
    submit(&mut device, 5);
    let completions = drain(&mut device);
    assert_eq!(count(&completions, Outcome::Error(19)), 5);
    assert!(completions.iter().all(|completion| completion.completed == Nanos::from_secs(1)));
}

#[test]
fn operations_are_switched_off_one_by_one() {
    let device = device("discard=no");
    let able = Op::ALL.map(|op| device.supports(op));
    assert_eq!(able[..6], [true, true, true, false, true, false]);
    assert!(able[6..].iter().all(|able| !able), "it has no files");
}

#[test]
fn a_description_names_the_model_its_keys_and_the_faults() {
    let text = device("model=disk,rpm=5400,hang=0.5,flush=no").describe();
    for part in ["no I/O was done", "model=disk, rpm=5400", "hang=0.5", "flush=no", "seed=1"] {
        assert!(text.contains(part), "{text}");
    }
    let plain = SimDevice::new(SimSpec::of(ServiceModel::Constant), SimClock::default());
    assert!(!plain.describe().contains("hang"));
    assert_eq!(SimSpec::default().faults, Faults::default());
}

/// Values at the edges of what a key may say, and beyond.
const EDGES: [&str; 16] = [
    "0",
    "1",
    "2",
    "7",
    "0.5",
    "512",
    "4K",
    "1M",
    "64G",
    "15E",
    "0s",
    "1ns",
    "3h",
    "2000000h",
    "1:1ns",
    "0.5:2000000h",
];

proptest! {
    #[test]
    fn whatever_is_accepted_makes_a_device_that_answers(
        model in 0_usize..6,
        pairs in prop::collection::btree_map(0_usize..20, 0_usize..EDGES.len(), 0..5),
    ) {
        let models = ServiceModel::all();
        let own = models[model].keys();
        let common =
            ["size", "block", "bandwidth", "errors", "short", "stall", "vanish", "seed", "lies"];
        let keys: Vec<&str> = own.iter().copied().chain(common).collect();
        let mut text = format!("model={}", models[model].name());
        for (key, value) in pairs {
            text += &[",", keys[key % keys.len()], "=", EDGES[value]].concat();
        }
        let Ok(spec) = text.parse::<SimSpec>() else { return Ok(()) };
        let mut device = SimDevice::new(spec, SimClock::new(Nanos(0)));
        let ops = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::Discard];
        for round in 0..4 {
            for tag in 0..5 {
                let mut io = io(tag, ops[(round + tag as usize) % ops.len()]);
                io.offset = Bytes(io.offset.0 % spec.capacity.0.max(1) / 4096 * 4096);
                device.prepare(&io, &mut Nothing);
            }
            prop_assert_eq!(device.submit().unwrap().1, 5);
            let completions = drain(&mut device);
            prop_assert!(completions.is_sorted_by_key(|completion| completion.completed));
            prop_assert!(completions.iter().all(|one| one.completed > one.submitted));
            // Only what takes longer than time lasts is not answered.
            prop_assert!(completions.len() == 5 || text.contains("2000000h"), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_the_reader_of_descriptions_fail(text in "[a-z0-9=,.:-]{0,40}") {
        let _ = text.parse::<SimSpec>();
    }
}
