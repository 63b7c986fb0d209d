//! Described flows on simulated devices, against what queueing theory and the description say.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ioecho_replay::engine::{Control, Pacing, Replay};
use ioecho_replay::pattern::Pattern;
use ioecho_replay::plan::{TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::tree::{Clients, FileFlow, Found, InMemory, Names, Tree};
use ioecho_replay::{Clock, Device, Record, Scheduler};
use ioecho_trace::{Bytes, LateCause, Nanos, Op};

use super::input::FlowsInput;
use super::{FlowSpec, Flows, Readers};
use crate::open::Files;
use crate::spec::ReplaySpec;
use crate::target::Target;
use crate::tree_target::TreePlace;

/// Replays flows on a simulated device, to their ends or until an instant.
fn simulate(lines: &[&str], device: &str, end_after: Option<Nanos>) -> Vec<Record> {
    let clock = SimClock::new(Nanos(1));
    let spec: SimSpec = device.parse().unwrap();
    let mut device = SimDevice::new(spec, clock.clone());
    let limits = TargetLimits::of(&device);
    let (flows, targets) = planned(lines, "sim");
    let stop = Arc::new(AtomicBool::new(false));
    let timing = Timing { mode: mode(&flows), ..Timing::default() };
    let (_readers, mut inputs) = Readers::start(&flows, &[limits], timing, None, &stop).unwrap();
    let mut input = inputs.remove(0);
    input.blocking = true;
    go(&flows, &targets, &mut input, (&mut device, &clock, end_after))
}

/// Replays loads on a tree in memory that has all its files until an instant, on a host that stands
/// still again and again.
fn on_a_slow_host(lines: &[&str], tree: &str, end_after: Nanos) -> Vec<Record> {
    let clock = SimClock::new(Nanos(20));
    let (flows, targets) = planned(lines, tree);
    let Target::Tree(target) = &targets[0] else { panic!("{tree} is no tree") };
    let TreePlace::Memory { calls, .. } = &target.place else { panic!("{tree} is real") };
    let tree = Arc::new(Tree::new(target.geometry.clone()));
    tree.suppose(Found::Full);
    let names = Arc::new(Mutex::new(Names::of(&tree, Bytes(u64::MAX / 2), u64::MAX)));
    let device = SimDevice::new(**calls, clock.clone());
    let mut device = InMemory::new(device, names, None);
    let clients = flows.list().iter().zip(1..).map(|(flow, number)| {
        let load = flow.of_files().unwrap().load.clone();
        let shared = FileFlow::new(load, Arc::clone(&tree), None).unwrap();
        (flow.clone(), number, Clients::new(Arc::new(shared), 0, flow.places()))
    });
    let stop = Arc::new(AtomicBool::new(false));
    let mut input = FlowsInput::of_files(clients.collect(), end_after, &stop);
    let clock = SlowHost { clock, looks: Cell::new(0) };
    go(&flows, &targets, &mut input, (&mut device, &clock, Some(end_after)))
}

/// The clock of a host that does not let the engine run for a while, now and then.
struct SlowHost {
    clock: SimClock,
    looks: Cell<u64>,
}

impl SlowHost {
    const EVERY: u64 = 97;
    const STALL: Nanos = Nanos::from_millis(5);
}

impl Clock for SlowHost {
    fn now(&self) -> Nanos {
        self.looks.set(self.looks.get() + 1);
        let now = self.clock.now();
        if self.looks.get().is_multiple_of(Self::EVERY) {
            self.clock.advance_to(now + Self::STALL);
        }
        self.clock.now()
    }

    fn preemptions(&self) -> u64 {
        self.looks.get() / Self::EVERY
    }

    fn jumps(&self) -> bool {
        true
    }
}

fn planned(lines: &[&str], target: &str) -> (Flows, [Target; 1]) {
    let flows: Vec<FlowSpec> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let spec = ReplaySpec { flows, ..ReplaySpec::default() };
    let targets = [Target::look_at(target, false, false).unwrap()];
    let (flows, _) =
        Flows::new(&spec.flows, spec.in_flight_max, &spec.read, &targets, &Files).unwrap();
    (flows, targets)
}

fn mode(flows: &Flows) -> TimingMode {
    let specs: Vec<FlowSpec> = flows.list().iter().map(|flow| flow.spec.clone()).collect();
    Flows::timing(&specs)
}

/// Replays what an input has of flows.
fn go<C: Clock>(
    flows: &Flows,
    targets: &[Target],
    input: &mut FlowsInput,
    (device, clock, end_after): (&mut dyn Device, &C, Option<Nanos>),
) -> Vec<Record> {
    let lane = flows.lanes(targets, false).unwrap().remove(0).unwrap();
    let mode = mode(flows);
    let config = lane.config(Config { timing: mode, ..Config::with_in_flight_max(1) });
    let config = Config { conflicts: ioecho_replay::conflict::ConflictMode::Allow, ..config };
    let mut records = Vec::new();
    let (_, result) = Replay {
        device,
        clock,
        scheduler: Scheduler::with_flows(config, lane.configs, lane.numbering),
        input,
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing { spin: Nanos::ZERO, end_after, ..Pacing::default() },
        control: &Control::default(),
        verify: None,
    }
    .run();
    result.unwrap();
    records
}

/// The mean response time of M/M/c in units of the service time, at this load of each server
/// (Erlang's C formula; Kleinrock, "Queueing Systems", vol. 1, 3.5).
fn erlang(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    // Erlang's B formula, by its recursion, and C of it.
    let lost = (1..=servers).fold(1.0, |lost, n| offered * lost / (f64::from(n) + offered * lost));
    let waits = lost / (1.0 - load * (1.0 - lost));
    1.0 + waits / (f64::from(servers) * (1.0 - load))
}

#[test]
fn an_open_flow_on_a_device_of_exponential_servers_responds_as_erlang_says() {
    let service = 80e-6;
    for servers in [1, 4, 8] {
        let rate_max = f64::from(servers) / service;
        // A curve, as shares of what the device can do.
        for percent in [10, 50, 70, 80] {
            let load = f64::from(percent) / 100.0;
            let rate = rate_max * load;
            let count = 1_000_000;
            let flow = format!(
                "gen:random?rate={rate:.3}&dist=poisson&count={count}&seed={servers}{percent};\
                 cap=4096"
            );
            let device = format!("model=exp,units={servers},service=80us,bandwidth=1T");
            let records = simulate(&[&flow], &device, None);
            assert_eq!(records.len(), count);
            let last = records.iter().map(|one| one.measured.scheduled).max().unwrap();
            let achieved = count as f64 / last.as_secs_f64();
            assert!((achieved / rate - 1.0).abs() < 0.01, "{achieved:.0} of {rate:.0} requests/s");
            let responses = records.iter().map(|one| one.measured.response_time().unwrap());
            let mean = responses.map(Nanos::as_secs_f64).sum::<f64>() / count as f64;
            let expected = service * erlang(servers, load);
            assert!(
                (mean / expected - 1.0).abs() < 0.03,
                "{servers} servers at {percent} %: {mean:.7} s, and not {expected:.7} s"
            );
        }
    }
}

/// χ² of counts against what shares of all of them make expected.
fn chi_square(counts: &[u64], shares: &[f64]) -> f64 {
    let all = counts.iter().sum::<u64>() as f64;
    let terms = counts.iter().zip(shares).map(|(count, share)| {
        let expected = all * share;
        (*count as f64 - expected).powi(2) / expected
    });
    terms.sum()
}

/// χ² that is exceeded with a probability of 10⁻⁴, for 1 to 3 degrees of freedom.
const UNLIKELY: [f64; 3] = [15.14, 18.42, 21.11];

#[test]
fn the_shares_of_mixes_and_flows_hold_in_a_million_requests() {
    let mixed = "gen:random?endless=yes&read=70&size=4k:50,8k:30,64k:20";
    let flows = [
        format!("{mixed}&seed=3;threads=8;share=50;requests=500000"),
        format!("{mixed}&seed=4;threads=1;share=30;requests=300000"),
        format!("{mixed}&seed=5;threads=16;share=20;requests=200000"),
    ];
    let lines: Vec<&str> = flows.iter().map(String::as_str).collect();
    let records = simulate(&lines, "model=exp,units=8,service=80us,bandwidth=1T", None);
    assert_eq!(records.len(), 1_000_000);
    let count = |of: &dyn Fn(&Record) -> bool| records.iter().filter(|one| of(one)).count() as u64;
    let reads = count(&|one| one.planned.op == Op::Read);
    let of_reads = chi_square(&[reads, 1_000_000 - reads], &[0.7, 0.3]);
    assert!(of_reads < UNLIKELY[0], "reads: χ² {of_reads}");
    let sizes = [4096, 8192, 65536].map(|size| count(&|one| one.planned.length.0 == size));
    let of_sizes = chi_square(&sizes, &[0.5, 0.3, 0.2]);
    assert!(of_sizes < UNLIKELY[1], "sizes: χ² {of_sizes}");
    // At any moment, and not only at the end, where their requests run out.
    let half = &records[..records.len() / 2];
    let flows =
        [1, 2, 3].map(|flow| half.iter().filter(|one| one.planned.flow == flow).count() as u64);
    let of_flows = chi_square(&flows, &[0.5, 0.3, 0.2]);
    assert!(of_flows < UNLIKELY[1], "flows: χ² {of_flows}");
}

#[test]
fn a_flow_ends_with_the_request_that_reaches_one_of_its_ends() {
    let load = "gen:random?endless=yes&read=alternate";
    let ended = |ends: &str| {
        let records = simulate(&[&format!("{load};threads=4;{ends}")], "model=const", None);
        let reads = records.iter().filter(|one| one.planned.op == Op::Read).count();
        (records.len(), reads)
    };
    assert_eq!(ended("requests=7"), (7, 4));
    assert_eq!(ended("data=16k"), (4, 2));
    assert_eq!(ended("data=16385"), (5, 3));
    assert_eq!(ended("read-data=8k"), (3, 2));
    assert_eq!(ended("written-data=8k;requests=100"), (4, 2));
}

#[test]
fn flows_that_end_together_end_after_what_all_of_them_have_done() {
    // One is served four times as often as the other.
    let flows = [
        "gen:random?endless=yes;threads=4;data=4M;ends=together",
        "gen:random?endless=yes&read=0;threads=1;data=4M;ends=together",
        "gen:random?endless=yes&size=8k;threads=1;data=64k",
    ];
    let records = simulate(&flows, "model=const,units=8,service=100us,bandwidth=1T", None);
    let count = |flow: u16| records.iter().filter(|one| one.planned.flow == flow).count();
    assert_eq!((count(1) + count(2), count(3)), (1024, 8));
    assert!((200..=210).contains(&count(2)), "{}", count(2));
}

#[test]
fn clients_go_on_until_the_instant_that_was_asked_for() {
    let flow = "gen:random?endless=yes;threads=4";
    let device = "model=const,units=4,service=100us,bandwidth=1T";
    let records = simulate(&[flow], device, Some(Nanos::from_millis(100)));
    // Four clients with 100 µs each, and what a step of the engine takes.
    assert!((3900..=4000).contains(&records.len()), "{}", records.len());
    assert!(records.iter().all(|one| one.measured.scheduled < Nanos::from_millis(100)));
    // A request due then is issued, or none; nobody is late.
    let latest = records.iter().filter_map(|one| one.measured.lateness()).max().unwrap();
    assert!(latest < Nanos::from_micros(10), "late by {latest}");
}

#[test]
fn a_traces_requests_come_through_a_thread_and_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.load");
    let mut text =
        String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
    for n in 0..20_000 {
        let (second, ns) = (n / 1000, n % 1000 * 1_000_000);
        writeln!(text, "{second}.{ns:09} ; {} ; 8 ; R ; 0.0 ; 0.0", n * 8).unwrap();
    }
    std::fs::write(&file, text).unwrap();
    let line = format!("{};cap=2", file.display());
    let records = simulate(&[&line, "gen:random?rate=1k&duration=20s"], "model=const", None);
    let mut traced: Vec<_> = records.iter().filter(|one| one.planned.flow == 1).collect();
    traced.sort_by_key(|one| one.planned.seq);
    assert_eq!((traced.len(), records.len()), (20_000, 40_000));
    let due = |n: usize| Nanos::from_millis(n as i64);
    assert!(traced.iter().zip(0..).all(|(one, n)| one.measured.scheduled == due(n)));
    assert!(records.iter().all(|one| one.planned.volume.0 == u32::from(one.planned.flow) - 1));
}

#[test]
fn on_a_slow_host_threads_without_a_rate_are_late_by_the_host_alone_however_few_files_there_are() {
    let calls = "calls=model=exp,service=200us,units=8";
    let causes = |lines: &[&str], files: u64| {
        let tree = format!("sim:tree?files={files}&size=64k&{calls}");
        let records = on_a_slow_host(lines, &tree, Nanos::from_secs(2));
        let mut late = BTreeMap::new();
        for record in &records {
            let cause = record.measured.late_cause;
            *late.entry(cause.name()).or_insert(0) += u64::from(cause != LateCause::None);
        }
        late.remove(LateCause::None.name());
        (records.len(), late)
    };
    let closed = [
        "w=files:write?size=4k&access=random&select=random;threads=2",
        "r=files:read?size=8k&access=random&select=random;threads=3",
    ];
    for files in [1, 2, 20] {
        let (all, late) = causes(&closed, files);
        assert!(all > 500, "{files}: {all}");
        let of: Vec<_> = late.keys().copied().collect();
        assert_eq!(of, ["host"], "{files}: {late:?} of {all}");
    }
    // Neither do threads with a rate wait for files where each finds one at once.
    let (all, late) = causes(&["stat=files:getattr?select=random&rate=200&duration=2s;cap=2"], 20);
    let by_file = late.get("file").copied().unwrap_or(0);
    assert!(all > 300 && late["host"] > 10 && by_file == 0, "{late:?} of {all}");
}
