//! Verification finds everything that a lying device does, and nothing else.
//!
//! The verifier knows the requests, the simulated device what it did instead, and the sectors show
//! the result. All three must agree.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod over;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use ioecho_replay::engine::{Control, Pacing, Replay, Verification};
use ioecho_replay::pattern::{Pattern, SplitMix64, read_stamp};
use ioecho_replay::plan::{Planner, TargetLimits, Timing};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{Mischief, MischiefKind, SimClock, SimDevice, SimSpec};
use ioecho_replay::verify::{
    Expected, Finding, Legal, Look, MemoryTable, Verifier, VerifyConfig, final_pass,
};
use ioecho_replay::{Clock, Completion, Device, Io, Payload, Record, Scheduler};
use ioecho_trace::{Bytes, Integrity, Nanos, Op, Outcome, Request};

use over::{Over, Overseer};

/// 1 MiB: small enough that places are written again and again.
const SECTORS: u64 = 2048;

/// When the replay begins, on the clock.
const START: Nanos = Nanos::from_millis(1);

/// Reads and writes of up to 8 KiB at random places of a small device, a few in flight together.
fn load(seed: u64) -> Vec<Request> {
    let mut random = SplitMix64(seed);
    let one = |n: i64| {
        let op = if random.below(2) == 0 { Op::Read } else { Op::Write };
        let count = 1 + random.below(16);
        let offset = random.below(SECTORS - count) * 512;
        Request::new(Nanos::from_micros(n * 20), op, Bytes(offset), Bytes(count * 512))
    };
    (0..2_000).map(one).collect()
}

struct Run {
    device: SimDevice,
    records: Vec<Record>,
    findings: Vec<Finding>,
    /// Sectors that hold something else than the last write to them, as the device shows them.
    wrong: BTreeSet<u64>,
    /// Sectors that nobody was to write and that hold something all the same.
    stray: BTreeSet<u64>,
}

/// Replays the load on a device that lies in this way, and verifies reads and all written data.
fn run(seed: u64, mischief: Mischief) -> Run {
    run_with(seed, mischief, false)
}

/// The same; `preread` also reads before it overwrites.
fn run_with(seed: u64, mischief: Mischief, preread: bool) -> Run {
    let clock = SimClock::new(Nanos(30));
    let mut device = sim(seed, &clock).misbehaving(mischief);
    let (records, mut verifier) = replayed(seed, &mut device, &clock, preread);
    let (wrong, stray) = wrong_sectors(&mut device, &records);
    // From here on reads are honest: what they find is what the device holds.
    let mut device = device.misbehaving(Mischief::default());
    pass(&mut device, &clock, &mut verifier);
    Run { device, records, findings: verifier.findings().to_vec(), wrong, stray }
}

fn sim(seed: u64, clock: &SimClock) -> SimDevice {
    let spec: SimSpec = format!("size=1M,model=exp,service=60us,seed={seed}").parse().unwrap();
    SimDevice::new(spec, clock.clone()).with_data()
}

/// Reads all that was written.
fn pass(device: &mut dyn Device, clock: &SimClock, verifier: &mut Verifier) {
    let never = AtomicBool::new(false);
    let pass = final_pass(device, clock, verifier, &never, &mut |_| {}).unwrap();
    assert!(!pass.stopped && pass.read > Bytes::ZERO);
}

/// Replays the load and verifies its reads.
fn replayed(
    seed: u64,
    device: &mut dyn Device,
    clock: &SimClock,
    preread: bool,
) -> (Vec<Record>, Verifier) {
    let limits = TargetLimits::of(device);
    let mut planner = Planner::new(limits, Timing::default());
    let mut planned = Vec::new();
    for request in load(seed) {
        planner.plan(&request, &mut planned);
    }
    let config = VerifyConfig { run: seed, target: 0, isolated: true };
    let mut verifier = Verifier::new(config, Box::new(MemoryTable::default()), None);
    let mut records: Vec<Record> = Vec::new();
    let (totals, result) = Replay {
        device,
        clock,
        scheduler: Scheduler::new(Config::with_in_flight_max(16)),
        input: &mut planned.into_iter(),
        recorder: &mut records,
        pattern: &mut Pattern::new(seed),
        pacing: Pacing { start_at: Some(START), ..Pacing::default() },
        control: &Control::default(),
        verify: Some(Verification {
            verifier: (&mut verifier).into(),
            reread_writes: false,
            preread,
        }),
    }
    .run();
    result.unwrap();
    assert_eq!(totals.counts.issued, 2_000);
    (records, verifier)
}

/// Compares what the device holds with the last write to each sector, and tells the others apart
/// that hold anything. Overlapping writes were never in flight together, so the last is the one
/// submitted last.
fn wrong_sectors(device: &mut SimDevice, records: &[Record]) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let mut writes: Vec<&Record> =
        records.iter().filter(|record| record.planned.op == Op::Write).collect();
    writes.sort_by_key(|record| record.measured.submitted);
    let mut last = BTreeMap::new();
    for record in writes {
        assert_eq!(record.measured.outcome, Outcome::Ok);
        let planned = &record.planned;
        for sector in planned.offset.sectors()..planned.end().sectors() {
            last.insert(sector, planned.seq);
        }
    }
    let sectors = device.sectors_mut().unwrap();
    let holds = |sector: u64, request: u64| {
        read_stamp(&sectors.get(sector))
            .is_some_and(|stamp| (stamp.request, stamp.position) == (request, sector * 512))
    };
    let written = sectors.written().into_iter();
    let stray = written.filter(|sector| !last.contains_key(sector)).collect();
    let wrong = last.into_iter().filter(|(sector, request)| !holds(*sector, *request));
    (wrong.map(|(sector, _)| sector).collect(), stray)
}

/// The sectors of the findings of the last pass.
fn found(run: &Run) -> BTreeSet<u64> {
    run.findings.iter().filter(|finding| finding.read.is_none()).flat_map(sectors_of).collect()
}

#[test]
fn an_honest_device_is_never_accused() {
    for (seed, preread) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
        let run = run_with(seed, Mischief::default(), preread);
        assert!(run.findings.is_empty(), "seed {seed}: {}", run.findings[0]);
        assert!(run.wrong.is_empty() && run.device.misdeeds().is_empty());
        let checked = run.records.iter().filter(|record| {
            record.planned.op == Op::Read && record.measured.integrity != Integrity::Unchecked
        });
        assert!(checked.count() > 500);
    }
}

/// What a kind of betrayal may be called, its own name first: a place that was never written before
/// reads as zeroes when its first write is lost, and a torn or misdirected write may be overwritten
/// in part.
fn names(kind: MischiefKind) -> &'static [Integrity] {
    match kind {
        MischiefKind::LostWrite => &[Integrity::Stale, Integrity::Zeroed],
        MischiefKind::TornWrite => &[Integrity::Torn, Integrity::Stale, Integrity::Zeroed],
        MischiefKind::MisdirectedWrite => {
            &[Integrity::Misdirected, Integrity::Stale, Integrity::Zeroed]
        }
        MischiefKind::FlippedBit => &[Integrity::Flipped],
        MischiefKind::ZeroedSector => &[Integrity::Zeroed],
        MischiefKind::StaleRead => &[Integrity::Stale, Integrity::Torn],
    }
}

#[test]
fn whatever_is_betrayed_on_its_way_to_the_device_is_found_and_nothing_else() {
    for kind in MischiefKind::ALL.into_iter().filter(|kind| *kind != MischiefKind::StaleRead) {
        let mut kinds = BTreeSet::new();
        let mut wrong = 0;
        for seed in 0..8 {
            let run = run(seed, Mischief { share: 0.01, kinds: vec![kind] });
            // A pass may see places beside those that were written, but needs not.
            let found = found(&run);
            let missed: Vec<_> = run.wrong.difference(&found).collect();
            assert!(missed.is_empty(), "{kind:?}, seed {seed}: {missed:?} not found");
            let accused = found.difference(&run.wrong).copied().collect::<BTreeSet<u64>>();
            assert!(accused.is_subset(&run.stray), "{kind:?}, seed {seed}: {accused:?}");
            wrong += run.wrong.len();
            for finding in &run.findings {
                assert!(names(kind).contains(&finding.kind), "{kind:?}, seed {seed}: {finding}");
                kinds.insert(finding.kind);
            }
            // Nobody else is blamed: every place found was touched by a betrayed write.
            let touched: BTreeSet<u64> = run
                .device
                .misdeeds()
                .iter()
                .flat_map(|misdeed| {
                    let size = misdeed.sectors.end - misdeed.sectors.start;
                    let landed = misdeed.landed.map_or(0..0, |place| place..place + size);
                    misdeed.sectors.clone().chain(landed)
                })
                .collect();
            assert!(run.wrong.is_subset(&touched), "{kind:?}, seed {seed}");
        }
        assert!(wrong > 10, "{kind:?} damaged only {wrong} sectors");
        assert!(kinds.contains(&names(kind)[0]), "{kind:?} is called {kinds:?}");
    }
}

#[test]
fn a_read_that_brings_an_older_version_is_found_and_named() {
    let (mut betrayed, mut kinds) = (0, BTreeSet::new());
    for seed in 0..8 {
        let run = run(seed, Mischief { share: 0.02, kinds: vec![MischiefKind::StaleRead] });
        assert!(run.wrong.is_empty() && found(&run).is_empty(), "seed {seed}");
        let lied: BTreeSet<u64> =
            run.device.misdeeds().iter().map(|misdeed| misdeed.request).collect();
        let caught: BTreeSet<u64> =
            run.findings.iter().filter_map(|finding| finding.read).collect();
        assert_eq!(caught, lied, "seed {seed}");
        for record in &run.records {
            let damaged = record.measured.integrity.is_damage();
            assert_eq!(damaged, lied.contains(&record.planned.seq), "{record:?}");
        }
        betrayed += lied.len();
        for finding in &run.findings {
            let allowed = names(MischiefKind::StaleRead);
            assert!(allowed.contains(&finding.kind), "seed {seed}: {finding}");
            kinds.insert(finding.kind);
        }
    }
    assert!(betrayed > 50 && kinds.contains(&Integrity::Stale), "{betrayed} {kinds:?}");
}

#[test]
fn whatever_is_betrayed_is_found_before_it_is_overwritten() {
    let kinds = [
        MischiefKind::LostWrite,
        MischiefKind::TornWrite,
        MischiefKind::FlippedBit,
        MischiefKind::ZeroedSector,
    ];
    let mut found = [0, 0];
    let mut betrayed = 0;
    for (seed, kind) in (0..3).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        for preread in [false, true] {
            let mischief = Mischief { share: 0.02, kinds: vec![kind] };
            let run = run_with(seed, mischief, preread);
            for misdeed in run.device.misdeeds() {
                // A finding names the write that should have been there.
                let should = Expected::Own(Legal::Version(misdeed.request));
                let named = run.findings.iter().filter(|f| f.expected.contains(&should));
                let covered: BTreeSet<u64> = named.flat_map(sectors_of).collect();
                let all = misdeed.sectors.clone().all(|sector| covered.contains(&sector));
                assert!(all || !preread, "{kind:?}, seed {seed}: {misdeed:?} was not found");
                found[usize::from(preread)] += u64::from(all);
                betrayed += u64::from(preread);
            }
            for record in run.records.iter().filter(|_| preread) {
                let looked = run.findings.iter().any(|finding| {
                    finding.read == Some(record.planned.seq) && finding.look == Look::BeforeWrite
                });
                let damaged = record.measured.integrity.is_damage();
                assert!(!looked || damaged, "the request's own row tells: {record:?}");
            }
        }
    }
    assert!(betrayed > 50 && found[1] == betrayed);
    assert!(found[0] < betrayed, "without reading before there is nothing to show");
}

fn sectors_of(finding: &Finding) -> std::ops::Range<u64> {
    let first = finding.offset.sectors();
    first..first + finding.length.sectors()
}

/// A device whose sectors rot while nobody asks for them.
struct Rotting {
    clock: SimClock,
    random: SplitMix64,
    /// What is asked for, by tag: the first sector and the one behind the last.
    asked: BTreeMap<u32, std::ops::Range<u64>>,
    /// Which sectors rotted, and when, in the replay's time.
    rotten: Vec<(u64, Nanos)>,
}

impl Rotting {
    fn rot(&mut self, device: &mut SimDevice) {
        let sector = self.random.below(SECTORS);
        let is_asked = self.asked.values().any(|range| range.contains(&sector));
        let sectors = device.sectors_mut().unwrap();
        if is_asked || read_stamp(&sectors.get(sector)).is_none() {
            return;
        }
        let bytes = sectors.get_mut(sector);
        match self.random.below(3) {
            0 => bytes.fill(0),
            1 => bytes[self.random.below(512) as usize] ^= 4,
            _ => bytes.fill(0x5A),
        }
        self.rotten.push((sector, self.clock.now() - START));
    }
}

impl Overseer for Rotting {
    fn prepare(&mut self, device: &mut SimDevice, io: &Io, payload: &mut dyn Payload) {
        let first = io.offset.sectors();
        self.asked.insert(io.tag, first..first + io.length.sectors());
        device.prepare(io, payload);
    }

    fn submit(&mut self, device: &mut SimDevice) -> std::io::Result<(Nanos, usize)> {
        if self.random.below(5) == 0 {
            self.rot(device);
        }
        device.submit()
    }

    fn completed(&mut self, completions: &[Completion]) {
        for completion in completions {
            self.asked.remove(&completion.tag);
        }
    }
}

/// How many sectors rotted, and how many of them were found before they were overwritten.
fn rotted(seed: u64, preread: bool) -> (usize, usize) {
    let clock = SimClock::new(Nanos(30));
    let rotting = Rotting {
        clock: clock.clone(),
        random: SplitMix64(seed),
        asked: BTreeMap::new(),
        rotten: Vec::new(),
    };
    let mut device = Over { inner: sim(seed, &clock), by: rotting };
    let (records, mut verifier) = replayed(seed, &mut device, &clock, preread);
    pass(&mut device.inner, &clock, &mut verifier);
    let rotten: BTreeSet<u64> = device.by.rotten.iter().map(|(sector, _)| *sector).collect();
    for finding in verifier.findings() {
        assert!(sectors_of(finding).all(|sector| rotten.contains(&sector)), "{finding}");
    }
    let found = device.by.rotten.iter().filter(|(sector, at)| {
        let overwrites = records.iter().filter(|record| {
            let planned = &record.planned;
            planned.op == Op::Write
                && (planned.offset.sectors()..planned.end().sectors()).contains(sector)
        });
        let overwritten = overwrites.filter_map(|o| o.measured.submitted).filter(|o| o > at).min();
        verifier.findings().iter().any(|finding| {
            let in_time = match finding.look {
                Look::Pass => overwritten.is_none(),
                _ => finding.at > *at && overwritten.is_none_or(|by| finding.at <= by),
            };
            in_time && sectors_of(finding).contains(sector)
        })
    });
    (device.by.rotten.len(), found.count())
}

#[test]
fn what_rots_is_found_before_it_is_overwritten_and_nothing_else_is() {
    let (mut missed, mut all) = (0, 0);
    for seed in 0..6 {
        let (rotten, found) = rotted(seed, true);
        assert_eq!(found, rotten, "seed {seed}");
        all += rotten;
        let (rotten, found) = rotted(seed, false);
        missed += rotten - found;
    }
    assert!(all > 300, "{all} sectors rotted");
    assert!(missed > 50, "without reading before only {missed} are missed");
}
