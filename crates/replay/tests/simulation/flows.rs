//! Random flows on random devices with faults: each is admitted by its own rule and its own cap,
//! none waits behind another, and nothing is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::engine::{Control, Feed, Input, Pacing, Replay, Totals};
use ioecho_replay::flow::{Admission, FlowConfig, Gate, Numbering};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::{Config, LATENESS_TOLERATED};
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::{Record, Scheduler};
use ioecho_trace::{Bytes, LateCause, Measured, Nanos, Op, Outcome, Request};

use crate::over::Over;
use crate::random;
use crate::watched::Watched;

/// Requests of several flows, now and then not ready.
struct Streams {
    flows: Vec<std::vec::IntoIter<Planned>>,
    random: SplitMix64,
    share: f64,
    /// Results that it was told of.
    told: u64,
}

impl Input for Streams {
    fn poll(&mut self) -> Feed {
        Feed::Ended
    }

    fn poll_flow(&mut self, flow: usize, _: Nanos) -> Feed {
        if self.random.unit() < self.share {
            return Feed::NotYet;
        }
        self.flows[flow].next().map_or(Feed::Ended, Feed::Request)
    }

    fn completed(&mut self, _: &Record) -> bool {
        self.told += 1;
        false
    }
}

/// A load of flows, from a seed.
struct Load {
    configs: Vec<FlowConfig>,
    planned: Vec<Vec<Planned>>,
    /// The shares of the flows that go through the gate.
    shares: Vec<Option<f64>>,
}

fn flows(random: &mut SplitMix64, limits: TargetLimits) -> Load {
    let count = 1 + random.below(5) as usize;
    let mut configs = Vec::new();
    for number in 1..=count as u16 {
        let think = Nanos([0, 0, random.below(1_000_000)][random.below(3) as usize] as i64);
        let is_open = random.below(2) == 0;
        let admission = if is_open { Admission::Open } else { Admission::Closed { think } };
        configs.push(FlowConfig { number, admission, cap: 1 + random.below(8) as u32, gate: None });
    }
    let is_closed = |config: &FlowConfig| config.admission != Admission::Open;
    let mut shares = vec![None; count];
    if random.below(3) == 0 && configs.iter().filter(|config| is_closed(config)).count() > 1 {
        let members: Vec<usize> = (0..count).filter(|at| is_closed(&configs[*at])).collect();
        let weights: Vec<f64> = members.iter().map(|_| 1.0 + random.below(9) as f64).collect();
        let caps = members.iter().map(|at| configs[*at].cap);
        let gate =
            Arc::new(Gate::new(weights.iter().zip(caps).map(|(weight, cap)| (*weight, cap, 1))));
        for (member, at) in members.iter().enumerate() {
            configs[*at].gate = Some((Arc::clone(&gate), member));
            shares[*at] = Some(weights[member] / weights.iter().sum::<f64>());
        }
    }
    let planned = configs.iter().map(|config| {
        let mode = if is_closed(config) { TimingMode::Afap } else { TimingMode::Timed };
        let mut planner = Planner::new(limits, Timing { mode, ..Timing::default() });
        let mut planned = Vec::new();
        for request in random::load(random, limits.capacity.0) {
            planner.plan(&request, &mut planned);
        }
        planned
    });
    Load { planned: planned.collect(), configs, shares }
}

struct Outcomes {
    load: Load,
    records: Vec<Record>,
    device: Over<Watched>,
    totals: Totals,
    told: u64,
    /// Whether the input was always ready.
    is_ready: bool,
}

/// The load of one seed on the device of another.
fn simulate(seed: u64, of_device: u64) -> Outcomes {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let spec = random::spec(&mut SplitMix64(of_device), of_device);
    let spec = SimSpec { capacity: Bytes(512 << random.below(12)), ..spec };
    let limits = TargetLimits::of(&SimDevice::new(spec, clock.clone()));
    let load = flows(&mut random, limits);
    let cap: u32 = load.configs.iter().map(|config| config.cap).sum();
    let config = Config {
        timing: TimingMode::Flows,
        follow_in_flight: false,
        bundle: Nanos::ZERO,
        in_flight_max: cap,
        pushed_in_flight_max: cap,
        waiting_max: cap,
        ..random::config(&mut random)
    };
    let mut device = Watched::new(of_device, spec, config, &clock, false);
    let share = if random.below(2) == 0 { 0.0 } else { 0.2 };
    let mut input = Streams {
        flows: load.planned.iter().map(|planned| planned.clone().into_iter()).collect(),
        random: SplitMix64(seed ^ 2),
        share,
        told: 0,
    };
    let mut records = Vec::new();
    let spin = Nanos(random.below(2) as i64 * 2_000);
    let (totals, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::with_flows(config, load.configs.clone(), Numbering::default()),
        input: &mut input,
        recorder: &mut records,
        pattern: &mut Pattern::new(seed),
        pacing: Pacing { spin, ..Pacing::default() },
        control: &Control::default(),
        verify: None,
    }
    .run();
    result.unwrap();
    records.sort_by_key(|record| record.planned.seq);
    Outcomes { load, records, device, totals, told: input.told, is_ready: share == 0.0 }
}

/// The records of a flow, in the order of their numbers.
fn of_flow(records: &[Record], number: u16) -> Vec<Record> {
    records.iter().filter(|record| record.measured.flow == number).copied().collect()
}

/// When the request of this record gave its place back.
fn ended(record: &Record) -> Option<Nanos> {
    let was_issued = record.measured.outcome.was_issued();
    if was_issued { record.measured.completed } else { Some(record.measured.scheduled) }
}

/// Checks that a flow is admitted by its rule, in the order of its requests and below its cap.
fn check_flow(outcomes: &Outcomes, at: usize) {
    let (config, planned) = (&outcomes.load.configs[at], &outcomes.load.planned[at]);
    let records = of_flow(&outcomes.records, config.number);
    let hangs = outcomes.device.by.hangs();
    // A load whose clients get nothing but failures any more ends before them.
    let is_cut = hangs || outcomes.totals.hopeless.is_some();
    assert!(is_cut || records.len() == planned.len(), "a request is lost");
    // What waits for a request that hangs is never issued, and has no record.
    for (record, planned) in records.iter().zip(planned).filter(|_| !hangs) {
        let Planned { seq, scheduled, issue, flow, .. } = record.planned;
        assert_eq!(Planned { seq, scheduled, issue, flow, ..*planned }, record.planned);
    }
    match config.admission {
        Admission::Open => {
            let mut pairs = records.iter().zip(planned).filter(|_| !hangs);
            assert!(pairs.all(|(record, planned)| record.measured.scheduled == planned.scheduled));
        }
        // Each client's request is due when its last has ended, once; nothing is back-filled.
        Admission::Closed { think } if config.gate.is_none() => {
            let mut free: BTreeMap<Nanos, u32> = BTreeMap::from([(Nanos::ZERO, config.cap)]);
            for at in records.iter().filter_map(ended) {
                *free.entry(at + think).or_default() += 1;
            }
            for record in &records {
                let clients = free.get_mut(&record.measured.scheduled).expect("nobody was free");
                *clients = clients.checked_sub(1).expect("a client was free once");
            }
        }
        Admission::Closed { .. } | Admission::Threads => {}
    }
    // At no instant more than its cap are in flight.
    let spans = records.iter().filter_map(|record| {
        let Measured { submitted, completed, .. } = record.measured;
        Some((submitted?, completed?))
    });
    let mut steps: Vec<(Nanos, i32)> = spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    steps.sort_unstable();
    let mut in_flight = 0;
    for (_, step) in steps {
        in_flight += step;
        assert!(in_flight <= config.cap as i32, "flow {} exceeds its cap", config.number);
    }
}

/// Checks every invariant; answers how many requests waited for the cap of their flow.
fn check(seed: u64) -> u64 {
    let outcomes = simulate(seed, seed);
    let Outcomes { load, records, device, totals, told, is_ready } = &outcomes;
    // The numbers are dense, and rise with the instants of issue.
    assert!(
        records.iter().zip(0..).all(|(record, seq)| record.planned.seq == seq || device.by.hangs())
    );
    assert!(records.is_sorted_by(|a, b| a.planned.seq < b.planned.seq), "recorded twice");
    assert!(records.is_sorted_by_key(|record| record.planned.issue));
    assert_eq!(totals.recorded as usize, records.len());
    assert_eq!(*told, totals.recorded - totals.abandoned);
    assert_eq!(totals.counts.issued as usize, device.by.issued.len());
    assert!(device.by.hangs() || totals.abandoned == 0 && device.by.in_flight.is_empty());
    if device.by.config.conflicts != ConflictMode::Allow {
        assert_eq!(device.by.conflicting_pairs, 0);
    }
    for at in 0..load.configs.len() {
        check_flow(&outcomes, at);
    }
    let mut capped = 0;
    for record in records {
        let measured = record.measured;
        let Some(lateness) = measured.lateness() else { continue };
        assert!(lateness >= Nanos::ZERO, "early by {lateness}");
        let response = measured.completed.map(|completed| completed - measured.scheduled);
        assert_eq!(measured.response_time(), response);
        capped += u64::from(measured.late_cause == LateCause::InFlightCap);
        // Whoever has a place of his own waits for nobody.
        let is_free = *is_ready && device.by.stall_share == 0.0 && !measured.pushed_back;
        if is_free && device.by.config.conflicts != ConflictMode::Ordering && !device.by.hangs() {
            let flow = &load.configs[usize::from(measured.flow) - 1];
            let earlier = of_flow(&records[..record.planned.seq as usize], measured.flow);
            let due = measured.scheduled;
            let busy = earlier.iter().filter(|one| ended(one).is_none_or(|end| end > due)).count();
            let waits = busy >= flow.cap as usize || flow.gate.is_some();
            let tolerated = LATENESS_TOLERATED + LATENESS_TOLERATED;
            assert!(waits || lateness <= tolerated, "{record:?} waited behind another flow");
        }
    }
    // Shares hold until a flow ends.
    let members: Vec<(usize, f64)> =
        load.shares.iter().enumerate().filter_map(|(at, share)| Some((at, (*share)?))).collect();
    let mut counts = vec![0_u64; load.configs.len()];
    // What waits for a request that hangs was admitted and has no record: counted is up to there.
    let admitted = records.iter().zip(0..).take_while(|(one, seq)| one.planned.seq == *seq);
    for (record, _) in
        admitted.filter(|(one, _)| load.shares[usize::from(one.measured.flow) - 1].is_some())
    {
        counts[usize::from(record.measured.flow) - 1] += 1;
        let all: u64 = counts.iter().sum();
        for (at, share) in &members {
            let lead = counts[*at] as f64 - share * all as f64;
            let cap = f64::from(load.configs[*at].cap);
            assert!(lead <= 2.0 * cap + 1e-6, "flow {} leads by {lead}", at + 1);
        }
        if members.iter().any(|(at, _)| counts[*at] as usize == load.planned[*at].len()) {
            break;
        }
    }
    capped
}

#[test]
fn no_flow_exceeds_its_cap_or_waits_behind_another_and_nothing_is_lost() {
    let mut capped = 0;
    for seed in 0..1000 {
        match std::panic::catch_unwind(|| check(seed)) {
            Ok(count) => capped += count,
            Err(panic) => {
                eprintln!("seed {seed} breaks an invariant");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(capped > 10_000, "only {capped} requests waited for their flow's cap");
}

#[test]
fn a_seed_repeats_a_run_of_flows_exactly() {
    for seed in 0..20 {
        let (first, second) = (simulate(seed, seed), simulate(seed, seed));
        assert_eq!((first.records, first.totals), (second.records, second.totals));
    }
}

#[test]
fn on_another_device_a_flow_has_the_same_requests() {
    type Asked = (Op, Bytes, Bytes);
    let asked = |record: &Record| -> Asked {
        let Planned { op, offset, length, .. } = record.planned;
        (op, offset, length)
    };
    let mut compared = 0;
    for seed in 0..50 {
        let (one, other) = (simulate(seed, seed), simulate(seed, seed + 1000));
        let is_cut = |of: &Outcomes| of.device.by.hangs() || of.totals.hopeless.is_some();
        if is_cut(&one) || is_cut(&other) {
            continue;
        }
        compared += 1;
        for FlowConfig { number, .. } in &one.load.configs {
            let of = |outcomes: &Outcomes| -> Vec<Asked> {
                of_flow(&outcomes.records, *number).iter().map(asked).collect()
            };
            assert_eq!(of(&one), of(&other));
        }
    }
    assert!(compared > 20, "only {compared} pairs came to their end");
}

/// Flows of these admissions and caps with so many requests each, the open ones at 20,000/s, on a
/// device whose requests take 100 µs each, of which it works on so many at a time.
fn on_constant(flows: &[(Admission, u32)], units: u32, requests: u64) -> Vec<Record> {
    let clock = SimClock::new(Nanos(30));
    let spec = format!("service=100us,model=const,units={units},bandwidth=1T").parse().unwrap();
    let mut device = SimDevice::new(spec, clock.clone());
    let limits = TargetLimits::of(&device);
    let configs: Vec<FlowConfig> = (1..)
        .zip(flows)
        .map(|(number, (admission, cap))| FlowConfig {
            number,
            admission: *admission,
            cap: *cap,
            gate: None,
        })
        .collect();
    let planned = configs.iter().map(|_| {
        let mut planner = Planner::new(limits, Timing::default());
        let mut planned = Vec::new();
        for n in 0..requests {
            let at = Nanos::from_micros(50 * n as i64);
            planner.plan(&Request::new(at, Op::Read, Bytes(0), Bytes(4096)), &mut planned);
        }
        planned.into_iter()
    });
    let cap: u32 = configs.iter().map(|config| config.cap).sum();
    let config = Config { timing: TimingMode::Flows, ..Config::with_in_flight_max(cap) };
    let mut input =
        Streams { flows: planned.collect(), random: SplitMix64(1), share: 0.0, told: 0 };
    let mut records: Vec<Record> = Vec::new();
    let (_, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::with_flows(config, configs, Numbering::default()),
        input: &mut input,
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing::default(),
        control: &Control::default(),
        verify: None,
    }
    .run();
    result.unwrap();
    assert!(records.iter().all(|record| record.measured.outcome == Outcome::Ok));
    records
}

#[test]
fn a_client_waits_for_itself_alone_and_for_its_think_time() {
    let think = Nanos::from_micros(300);
    let records = on_constant(&[(Admission::Closed { think }, 1)], 1, 100);
    for (record, n) in records.iter().zip(0..) {
        let due = record.measured.scheduled;
        let beside = due - Nanos::from_micros(400 * n);
        assert!(beside >= Nanos::ZERO && beside < Nanos::from_micros(50), "{n} is due at {due}");
        let response = record.measured.response_time().unwrap();
        assert!(response < Nanos::from_micros(101), "the think time is no waiting: {response}");
    }
}

#[test]
fn an_open_flow_with_too_few_places_shows_the_queue_and_blames_the_cap() {
    // The device could take twice what one place lets through at half the rate that is asked for.
    let clients = Admission::Closed { think: Nanos::ZERO };
    let records = on_constant(&[(Admission::Open, 1), (clients, 1)], 2, 2000);
    let open = of_flow(&records, 1);
    let last = open.last().unwrap().measured;
    assert_eq!(last.late_cause, LateCause::InFlightCap);
    assert!(last.response_time().unwrap() > Nanos::from_micros(150), "the queue is not shown");
    assert!(of_flow(&records, 2).iter().all(|one| one.measured.late_cause == LateCause::None));
}
