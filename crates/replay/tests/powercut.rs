//! A device with a volatile cache loses its power in the middle of a run that keeps a durable ring:
//! what is rebuilt from the ring and the records accuses no honest device, and names every loss.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod over;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use ioecho_replay::engine::{Control, Pacing, Replay, ResultSink, Verification};
use ioecho_replay::pattern::{Pattern, SplitMix64, read_stamp};
use ioecho_replay::plan::{Planner, TargetLimits, Timing};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::verify::{
    After, Change, DurableBefore, INTENT_BYTES, Intent, Intents, MemoryTable, Rebuild, RingSlots,
    Verifier, VerifyConfig,
};
use ioecho_replay::{Device, Io, Record, Scheduler};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome, Request};

use over::{Over, Overseer};

/// 256 KiB: places are written again and again.
const SECTORS: u64 = 512;
const REQUESTS: i64 = 600;
const IN_FLIGHT: u32 = 16;

/// Few slots, so that they are used again and again.
const SLOTS: u32 = 160;

/// How many requests to come are announced, where any are.
const AHEAD: usize = 24;

/// Of so many results one is lost on its way, where results are lost.
const ONE_LOST_OF: u64 = 20;

/// So many slots more keep what no result tells of.
const SLOTS_OF_LOST: u32 = 64;

/// The most records that are not on the disk yet: with those in flight and those announced fewer
/// than there are slots.
const UNSYNCED: u64 = 100;

type Slot = [u8; INTENT_BYTES];

/// A ring on a disk: what is there, and what is only in the page cache.
#[derive(Default)]
struct Paper {
    disk: BTreeMap<u32, Slot>,
    cache: BTreeMap<u32, Slot>,
    /// So many commits are left before the power fails within one.
    commits_left: u64,
    has_failed: bool,
}

impl Paper {
    /// The power fails: what was in the cache may have reached the disk, slot by slot.
    fn fail(&mut self, random: &mut SplitMix64) {
        self.has_failed = true;
        for (slot, bytes) in std::mem::take(&mut self.cache) {
            if random.below(2) == 0 {
                self.disk.insert(slot, bytes);
            }
        }
    }

    fn intents(&self) -> Vec<Intent> {
        let decoded = self.disk.values().map(|slot| Intent::decode(slot).unwrap());
        let mut intents: Vec<Intent> = decoded.collect();
        intents.sort_unstable_by_key(|intent| (intent.request, intent.order));
        intents
    }
}

struct Ring {
    slots: RingSlots,
    paper: Arc<Mutex<Paper>>,
    random: SplitMix64,
    ahead: usize,
    /// Whether something was noted since the last sync.
    is_dirty: bool,
}

impl Ring {
    fn put(&self, slot: Option<(u32, Slot)>) {
        let (slot, bytes) = slot.expect("there is a free slot");
        let mut paper = self.paper.lock().unwrap();
        if !paper.has_failed {
            paper.cache.insert(slot, bytes);
        }
    }
}

impl Intents for Ring {
    fn note(&mut self, io: &Io, now: Nanos) {
        if self.slots.was_announced(io) {
            return;
        }
        let slot = self.slots.note(io, now);
        self.put(slot);
        self.is_dirty = true;
    }

    fn acknowledge(&mut self, io: &Io, completed: Nanos, outcome: Outcome) {
        let slot = self.slots.acknowledge(io, completed, outcome);
        self.put(slot);
    }

    fn takes_flushes(&self) -> bool {
        true
    }

    fn keep(&mut self, request: u64) {
        self.slots.keep(request);
    }

    fn notes_ahead(&self) -> usize {
        self.ahead
    }

    fn commit(&mut self, upcoming: &mut dyn Iterator<Item = Io>, now: Nanos) {
        let is_due = std::mem::take(&mut self.is_dirty);
        let is_change = |io: &Io| io.op.changes_data() && !io.begins_with_flush();
        for io in upcoming.take(if is_due { self.ahead } else { 0 }).filter(is_change) {
            let slot = self.slots.announce(&io, now);
            if slot.is_some() {
                self.put(slot);
            }
        }
        let mut paper = self.paper.lock().unwrap();
        if paper.commits_left == 0 && !paper.has_failed {
            paper.fail(&mut self.random);
        }
        if !paper.has_failed {
            paper.commits_left -= 1;
        }
        if !paper.has_failed && is_due {
            let cache = std::mem::take(&mut paper.cache);
            paper.disk.extend(cache);
        }
    }

    fn end(&mut self) {
        let withdrawn: Vec<(u32, Slot)> = self.slots.withdraw().collect();
        for slot in withdrawn {
            self.put(Some(slot));
        }
    }
}

/// A ring of results that has no room for some of them.
struct Results {
    records: Vec<Record>,
    is_losing: bool,
    lost: u64,
    random: SplitMix64,
}

impl ResultSink for Results {
    fn record(&mut self, record: &Record) -> bool {
        if self.is_losing && self.random.below(ONE_LOST_OF) == 0 {
            self.lost += 1;
            return false;
        }
        self.records.push(*record);
        true
    }
}

/// Hands nothing more down once the power has failed, whether within a commit or behind it.
struct Cutter {
    paper: Arc<Mutex<Paper>>,
    submissions_left: u64,
    random: SplitMix64,
}

impl Overseer for Cutter {
    fn submit(&mut self, device: &mut SimDevice) -> io::Result<(Nanos, usize)> {
        let mut paper = self.paper.lock().unwrap();
        if self.submissions_left == 0 && !paper.has_failed {
            paper.fail(&mut self.random);
        }
        if paper.has_failed {
            return Err(io::Error::other("the power has failed"));
        }
        self.submissions_left -= 1;
        device.submit()
    }
}

/// What is left of a run whose power failed.
struct Left {
    device: SimDevice,
    intents: Vec<Intent>,
    /// The records on the disk, by their numbers.
    records: BTreeMap<u64, Change>,
    /// How many results were lost.
    lost: u64,
    isolated: bool,
}

fn load(random: &mut SplitMix64) -> Vec<Request> {
    let one = |n: i64| {
        let kind = random.below(20);
        let count = 1 + random.below(12);
        let offset = random.below(SECTORS - count) * 512;
        let (op, flags) = match kind {
            0 => (Op::Flush, Flags::empty()),
            1..=4 => (Op::Read, Flags::empty()),
            5 => (Op::Write, Flags::FUA),
            6 => (Op::Write, Flags::PREFLUSH),
            _ => (Op::Write, Flags::empty()),
        };
        let (offset, count) = if op == Op::Flush { (0, 0) } else { (offset, count) };
        let at = Nanos::from_micros(n * 12);
        Request { flags, ..Request::new(at, op, Bytes(offset), Bytes(count * 512)) }
    };
    (0..REQUESTS).map(one).collect()
}

fn change_of(record: &Record) -> Change {
    let Record { planned, measured, .. } = record;
    Change {
        request: planned.seq,
        op: planned.op,
        flags: planned.flags,
        offset: planned.offset,
        length: planned.length,
        submitted: measured.submitted.unwrap_or(measured.scheduled),
        completed: measured.completed,
        outcome: measured.outcome,
    }
}

/// Replays until the power fails, at a moment that follows from the seed; `is_losing`: the results
/// of some requests are lost on their way.
fn cut(seed: u64, is_losing: bool) -> Left {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let spec = format!("size=256K,model=exp,service=90us,units=8,seed={seed},errors=0.01");
    let spec: SimSpec = spec.parse().unwrap();
    let paper = Arc::new(Mutex::new(Paper { commits_left: u64::MAX, ..Paper::default() }));
    let mut cutter = Cutter {
        paper: Arc::clone(&paper),
        submissions_left: u64::MAX,
        random: SplitMix64(seed ^ 0xC07),
    };
    let moment = 5 + random.below(400);
    if random.below(2) == 0 {
        paper.lock().unwrap().commits_left = moment;
    } else {
        cutter.submissions_left = moment;
    }
    let inner = SimDevice::new(spec, clock.clone()).with_data();
    let mut device = Over { inner, by: cutter };
    let mut planner = Planner::new(TargetLimits::of(&device), Timing::default());
    let mut planned = Vec::new();
    for request in load(&mut random) {
        planner.plan(&request, &mut planned);
    }
    let isolated = seed.is_multiple_of(2);
    let mut config = Config::with_in_flight_max(IN_FLIGHT);
    if !isolated {
        config.conflicts = ioecho_replay::conflict::ConflictMode::Allow;
    }
    let ring = Ring {
        slots: RingSlots::of(
            if is_losing { SLOTS + SLOTS_OF_LOST } else { SLOTS },
            config.device_slots(),
        ),
        paper: Arc::clone(&paper),
        random: SplitMix64(seed ^ 0x217),
        // Two of three.
        ahead: if seed.is_multiple_of(3) { 0 } else { AHEAD },
        is_dirty: false,
    };
    let verify = VerifyConfig { run: seed + 1, target: 0, isolated };
    let table = Box::new(MemoryTable::default());
    let mut verifier = Verifier::new(verify, table, Some(Box::new(ring)));
    let mut results =
        Results { records: Vec::new(), is_losing, lost: 0, random: SplitMix64(seed ^ 0x105E) };
    let (_, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::new(config),
        input: &mut planned.into_iter(),
        recorder: &mut results,
        pattern: &mut Pattern::new(seed + 1),
        pacing: Pacing { start_at: Some(Nanos::from_millis(1)), ..Pacing::default() },
        control: &Control::default(),
        verify: Some(Verification {
            verifier: (&mut verifier).into(),
            reread_writes: false,
            preread: false,
        }),
    }
    .run();
    assert!(verifier.findings().is_empty(), "seed {seed}");
    let Results { mut records, lost, .. } = results;
    let all = records.len() as u64 + lost;
    assert!(result.is_err() || all == REQUESTS as u64, "seed {seed}: {result:?}");
    let mut device = device.inner;
    device.cut_power();
    let unsynced = random.below(UNSYNCED) as usize;
    records.truncate(records.len().saturating_sub(unsynced));
    let records = records.iter().map(|record| (record.planned.seq, change_of(record))).collect();
    let intents = paper.lock().unwrap().intents();
    Left { device, intents, records, lost, isolated }
}

impl Left {
    /// The state that follows from what is left.
    fn rebuilt(&self, seed: u64, after: After) -> Verifier {
        let mut durable = DurableBefore::default();
        for change in self.records.values() {
            durable.look(change);
        }
        for intent in &self.intents {
            durable.look(&intent.change());
        }
        let config = VerifyConfig { run: seed + 1, target: 0, isolated: self.isolated };
        let table = Box::new(MemoryTable::default());
        let mut rebuild = Rebuild::new(config, table, after, durable);
        let mut noted = self.intents.iter().copied().peekable();
        for (number, change) in &self.records {
            rebuild.apply_noted(&mut noted, *number);
            rebuild.record(*number, true);
            rebuild.apply(change);
        }
        rebuild.apply_noted(&mut noted, u64::MAX);
        rebuild.finish(false)
    }

    /// All writes of which there is a record or a note, by their numbers.
    fn writes(&self) -> BTreeMap<u64, Change> {
        let mut all: BTreeMap<u64, Change> =
            self.intents.iter().map(|intent| (intent.request, intent.change())).collect();
        all.extend(self.records.iter().map(|(number, change)| (*number, *change)));
        all.retain(|_, change| change.op == Op::Write && change.outcome.was_issued());
        all
    }

    /// Whether a flush that completed began after the write had completed, or it had FUA.
    fn is_durable(&self, write: &Change) -> bool {
        let noted: Vec<Change> = self.intents.iter().map(Intent::change).collect();
        let flushed = |change: &Change| {
            (change.op == Op::Flush || change.flags.contains(Flags::PREFLUSH))
                && change.outcome == Outcome::Ok
                && change.completed.is_some()
                && write.completed.is_some_and(|completed| completed < change.submitted)
        };
        write.flags.contains(Flags::FUA) || self.records.values().chain(&noted).any(flushed)
    }
}

fn covers(change: &Change, sector: u64) -> bool {
    (change.offset.sectors()..(change.offset + change.length).sectors()).contains(&sector)
}

fn judged(verifier: &mut Verifier, sector: u64, data: &[u8]) -> Integrity {
    let io = Io {
        tag: 0,
        request: 0,
        scheduled: Nanos::ZERO,
        op: Op::Read,
        flags: Flags::empty(),
        offset: Bytes(sector * 512),
        length: Bytes(512),
    };
    verifier.check_now(&io, data, Nanos(i64::MAX - 1))
}

/// Seeds: each a power cut at another moment of another run.
const SEEDS: u64 = 300;

#[test]
fn an_honest_device_is_never_accused_after_a_power_cut() {
    let (mut sectors, mut noted) = (0, 0);
    for seed in 0..SEEDS {
        let mut left = cut(seed, false);
        let mut verifier = left.rebuilt(seed, After::PowerCut);
        noted += left.intents.iter().filter(|intent| intent.acknowledged.is_none()).count();
        for sector in 0..SECTORS {
            let data = left.device.sectors_mut().unwrap().get(sector);
            let found = judged(&mut verifier, sector, &data);
            assert!(!found.is_damage(), "seed {seed}, sector {sector}: {:?}", verifier.findings());
            sectors += u64::from(found == Integrity::Intact);
        }
        assert_eq!(verifier.figures().unrecorded, 0, "the ring has every write");
    }
    assert!(sectors > 50_000 && noted > 500, "{sectors} sectors, {noted} in flight");
}

#[test]
fn a_device_is_not_accused_of_what_the_results_have_lost() {
    let (mut lost, mut sectors) = (0, 0);
    for seed in 0..SEEDS / 3 {
        let mut left = cut(seed, true);
        lost += left.lost;
        let mut verifier = left.rebuilt(seed, After::PowerCut);
        for sector in 0..SECTORS {
            let data = left.device.sectors_mut().unwrap().get(sector);
            let found = judged(&mut verifier, sector, &data);
            assert!(!found.is_damage(), "seed {seed}, sector {sector}: {:?}", verifier.findings());
            sectors += u64::from(found == Integrity::Intact);
        }
    }
    assert!(lost > 1_000 && sectors > 15_000, "{lost} lost, {sectors} sectors");
}

#[test]
fn every_durable_write_that_is_lost_is_named() {
    let mut lost = 0;
    for seed in (0..SEEDS).step_by(4) {
        let left = cut(seed, false);
        let writes = left.writes();
        let mut verifier = left.rebuilt(seed, After::PowerCut);
        for sector in 0..SECTORS {
            let mut here = writes.values().filter(|write| covers(write, sector));
            let is_certain = |write: &&Change| {
                write.outcome == Outcome::Ok && write.completed.is_some() && left.is_durable(write)
            };
            // The next older write in place of a durable one behind which there is no other.
            let Some(last) = here.next_back().filter(is_certain) else { continue };
            let Some(older) = here.next_back() else { continue };
            let scheduled = Nanos::from_micros(older.request as i64 * 12);
            let older = Io {
                tag: 0,
                request: older.request,
                scheduled,
                op: Op::Write,
                flags: Flags::empty(),
                offset: older.offset,
                length: older.length,
            };
            let mut data = vec![0; older.length.0 as usize];
            ioecho_replay::Payload::fill(&mut Pattern::new(seed + 1), &older, &mut data);
            let at = (sector * 512 - older.offset.0) as usize;
            let found = judged(&mut verifier, sector, &data[at..at + 512]);
            assert!(found.is_damage(), "seed {seed}, sector {sector}, {last:?}: {found:?}");
            lost += 1;
        }
    }
    assert!(lost > 4_000, "{lost}");
}

#[test]
fn with_all_that_was_acknowledged_each_loss_is_named_and_nothing_else() {
    let (mut lost, mut there) = (0, 0);
    // What was acknowledged since the last sync proves nothing, so some more seeds.
    for seed in (0..SEEDS * 6 / 5).step_by(4) {
        let mut left = cut(seed, false);
        let writes = left.writes();
        // What has to survive is what had been acknowledged; the rest is as after a kill.
        let mut verifier = left.rebuilt(seed, After::Kill);
        for sector in 0..SECTORS {
            let mut legal = Vec::new();
            for write in writes.values().filter(|write| covers(write, sector)).rev() {
                legal.push(Some(write.request));
                if write.outcome == Outcome::Ok && write.completed.is_some() {
                    break;
                }
            }
            let ends = legal.last().and_then(|last| writes.get(&last.unwrap()));
            if ends.is_none_or(|write| write.outcome != Outcome::Ok || write.completed.is_none()) {
                legal.push(None);
            }
            let data = left.device.sectors_mut().unwrap().get(sector);
            let holds = read_stamp(&data).map(|stamp| stamp.request);
            let found = judged(&mut verifier, sector, &data);
            let is_lost = !legal.contains(&holds);
            assert_eq!(
                found.is_damage(),
                is_lost,
                "seed {seed}, sector {sector}: {holds:?} of {legal:?} is {found:?}"
            );
            if is_lost { lost += 1 } else { there += 1 }
        }
    }
    assert!(lost > 800 && there > 20_000, "{lost} lost, {there} there");
}
