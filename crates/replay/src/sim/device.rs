//! The simulated device itself: requests in, completions out, on a clock of its own.
//!
//! The completion time of a request is known at its submission (see [`super::models`]), so the
//! device is a heap of completions and needs no events in between. So an hour of simulated time
//! takes seconds: a request costs a few comparisons, no allocation and no lookup.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use ioecho_trace::{Bytes, Integrity, Nanos, Op, Outcome};

use super::clock::SimClock;
use super::data::{Ending, Held};
use super::faults::ENODEV;
use super::mischief::{Mischief, MischiefKind, Misdeed};
use super::models::{Arrival, Drawing, Learnt, Model};
use super::pace::Pace;
use super::sectors::{SECTOR_BYTES, Sector, SectorStore};
use super::spec::SimSpec;
use crate::clock::Clock;
use crate::device::{Completion, Device, Io, Payload};
use crate::pattern::SplitMix64;

/// The largest request that the simulated device takes.
const LENGTH_MAX: Bytes = Bytes(1 << 30);

/// When a request completes that never does.
const NEVER: i64 = i64::MAX;

/// Makes the sequences of faults and data differ from that of service times.
const FAULTS: u64 = 0xFA17;
const DATA: u64 = 0xDA7A;

/// A request in flight; the order of its fields is the order of completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    completes_ns: i64,
    /// Of those that complete together, the one submitted first.
    order: u64,
    tag: u32,
    submitted_ns: i64,
    outcome: i32,
}

/// An instant on a clock that is so many times as fast: a device of twice the speed is one whose
/// time passes twice as fast, whatever its model.
fn times(ns: i64, speed: f64) -> i64 {
    let is_its_own = (speed - 1.0).abs() < f64::EPSILON;
    if is_its_own { ns } else { (ns as f64 * speed).round() as i64 }
}

/// What some sectors of a device hold that are put elsewhere.
#[derive(Debug)]
pub(crate) struct Copied {
    first: u64,
    /// Those that somebody wrote; `None` if the device holds no data.
    sectors: Option<Vec<Option<Box<Sector>>>>,
}

/// A device that exists only in simulated time.
#[derive(Debug)]
pub struct SimDevice {
    spec: SimSpec,
    clock: SimClock,
    model: Model,
    random: SplitMix64,
    faults: SplitMix64,
    prepared: Vec<Io>,
    /// Requests in flight, the next to complete first.
    in_flight: BinaryHeap<Reverse<InFlight>>,
    /// Requests that have completed and were not asked for yet.
    ended: Vec<InFlight>,
    submitted: u64,
    /// When the device is gone; known from its first request on.
    vanishes_ns: Option<i64>,
    held: Option<Box<Held>>,
    /// The run that its service times were learnt from, in words.
    learnt: Option<String>,
    /// What keeps its clock in step with those of other devices.
    pace: Option<Pace>,
}

impl Copied {
    /// Puts them in the same place of data at rest.
    pub(crate) fn put_into(self, data: &mut SectorStore) {
        for (sector, bytes) in (self.first..).zip(self.sectors.into_iter().flatten()) {
            data.restore(sector, bytes);
        }
    }
}

impl SimDevice {
    /// A device on this clock. It holds no data, and reads bring nothing, unless it lies
    /// ([`SimSpec::lies`]).
    pub fn new(spec: SimSpec, clock: SimClock) -> Self {
        let device = Self {
            spec,
            clock,
            model: Model::new(&spec),
            random: SplitMix64(spec.seed),
            faults: SplitMix64(spec.seed ^ FAULTS),
            prepared: Vec::new(),
            in_flight: BinaryHeap::new(),
            ended: Vec::new(),
            submitted: 0,
            vanishes_ns: None,
            held: None,
            learnt: None,
            pace: None,
        };
        if spec.lies > 0.0 {
            let kinds = MischiefKind::ALL.to_vec();
            return device.misbehaving(Mischief { share: spec.lies, kinds });
        }
        device
    }

    /// A device that takes as long as the one that a run was made on. Of `spec` it has the size,
    /// the faults and the seed.
    pub fn learnt(spec: SimSpec, learnt: Arc<Learnt>, clock: SimClock) -> Self {
        let name = format!("{learnt}");
        let model = Model::Learnt(Box::new(Drawing::new(learnt)));
        Self { model, learnt: Some(name), ..Self::new(spec, clock) }
    }

    /// The device is gone from this instant on, if it is one that vanishes.
    pub(crate) fn vanishes_at(&mut self, at: Nanos) {
        if self.spec.faults.vanish.is_some() {
            self.vanishes_ns = Some(at.0);
        }
    }

    /// The instant on its clock.
    pub(crate) fn standing(&self) -> Nanos {
        Nanos(self.clock.standing_ns())
    }

    /// Keeps its clock in step with those of other devices, from the instant on at which all do.
    pub fn keep_in_step(&mut self, pace: Pace) {
        pace.wait(Nanos(self.clock.standing_ns()));
        self.pace = Some(pace);
    }

    /// The same device, holding what is written to it. It costs memory for every sector written and
    /// an order of magnitude in speed.
    #[must_use]
    pub fn with_data(mut self) -> Self {
        if self.held.is_some() {
            return self;
        }
        let capacity = self.capacity().sectors();
        self.held = Some(Box::new(Held::new(capacity, self.spec.seed ^ DATA)));
        self
    }

    /// The same device with data, falsified in these ways.
    #[must_use]
    pub fn misbehaving(self, mischief: Mischief) -> Self {
        let mut device = self.with_data();
        if let Some(held) = &mut device.held {
            held.mischief = mischief;
        }
        device
    }

    /// What it holds are so many files, the beginnings of which lie so many bytes apart: a write
    /// that goes astray goes to another of them. Without data this changes nothing.
    pub fn holds_files(&mut self, files: u64, apart: Bytes) {
        if let Some(held) = &mut self.held
            && apart.sectors() > 0
        {
            held.holds_files(files, apart.sectors());
        }
    }

    /// What lies there is gone, as if nobody had written it.
    pub fn clear(&mut self, offset: Bytes, length: Bytes) {
        if let Some(held) = &mut self.held {
            let first = offset.sectors();
            held.clear(first..first + length.0.div_ceil(SECTOR_BYTES as u64));
        }
    }

    /// What lies there, to be put elsewhere; nothing without data.
    pub(crate) fn copied(&self, offset: Bytes, length: Bytes) -> Copied {
        let first = offset.sectors();
        let range = first..first + length.0.div_ceil(SECTOR_BYTES as u64);
        Copied { first, sectors: self.held.as_ref().map(|held| held.copied(range)) }
    }

    /// Puts what was copied from another device in the same place here.
    pub(crate) fn take_over(&mut self, copied: Copied) {
        if let (Some(held), Some(sectors)) = (&mut self.held, copied.sectors) {
            held.take_over(copied.first, sectors);
        }
    }

    /// What it was made by.
    pub const fn spec(&self) -> &SimSpec {
        &self.spec
    }

    /// The falsified requests, in order.
    pub fn misdeeds(&self) -> &[Misdeed] {
        self.held.as_ref().map_or(&[], |held| &held.misdeeds)
    }

    /// What the device holds at this moment, to look at or to damage; `None` without data.
    pub fn sectors_mut(&mut self) -> Option<&mut SectorStore> {
        let now = self.clock.standing_ns();
        let held = self.held.as_mut()?;
        held.pass_until(now);
        Some(&mut held.sectors)
    }

    /// Power fails and comes back: requests in flight never complete, and data that no flush or FUA
    /// made durable is kept or lost, sector by sector.
    pub fn cut_power(&mut self) {
        let now = self.clock.standing_ns();
        self.prepared.clear();
        self.in_flight.clear();
        self.ended.clear();
        if let Some(held) = &mut self.held {
            held.pass_until(now);
            held.cut_power();
        }
    }

    /// When the next request completes; [`Nanos::MAX`] where none will. A driver of several devices
    /// on one clock waits until the earliest of these.
    pub fn next_completion(&self) -> Nanos {
        let next = self.in_flight.peek().map_or(NEVER, |Reverse(next)| next.completes_ns);
        if self.ended.is_empty() { Nanos(next) } else { Nanos(self.clock.standing_ns()) }
    }

    /// Decides when and how a request ends.
    fn start(&mut self, io: &Io, now_ns: i64, vanishes_ns: i64) {
        let in_flight = self.in_flight.len() + 1;
        let speed = self.spec.speed;
        let arrival = Arrival { io, now_ns: times(now_ns, speed), in_flight };
        let transfers = matches!(io.op, Op::Read | Op::Write);
        let fate = self.spec.faults.decide(transfers, &mut self.faults);
        let mut outcome = fate.outcome;
        let mut completes_ns = if now_ns >= vanishes_ns {
            NEVER
        } else {
            let done = self.model.completes_ns(&arrival, &mut self.random);
            times(done, 1.0 / speed).max(now_ns).saturating_add(fate.longer_ns)
        };
        if let Some(held) = &mut self.held {
            let hangs = fate.hangs;
            let ending = Ending { submitted_ns: now_ns, completes_ns, outcome, hangs, vanishes_ns };
            held.submitted(io, &ending);
        }
        if fate.hangs {
            completes_ns = NEVER;
        }
        if completes_ns >= vanishes_ns && vanishes_ns != NEVER {
            completes_ns = vanishes_ns.max(now_ns + 1);
            outcome = Outcome::Error(ENODEV);
        }
        self.submitted += 1;
        self.in_flight.push(Reverse(InFlight {
            completes_ns,
            order: self.submitted,
            tag: io.tag,
            submitted_ns: now_ns,
            outcome: outcome.code(),
        }));
    }

    /// Takes what has completed out of what is in flight.
    fn retire(&mut self, now_ns: i64) {
        while let Some(&Reverse(next)) = self.in_flight.peek()
            && next.completes_ns <= now_ns
        {
            self.in_flight.pop();
            self.ended.push(next);
        }
    }
}

impl Device for SimDevice {
    fn capacity(&self) -> Bytes {
        Bytes(self.spec.capacity.0 / self.spec.block_size.0 * self.spec.block_size.0)
    }

    fn block_size(&self) -> Bytes {
        self.spec.block_size
    }

    fn length_max(&self) -> Bytes {
        LENGTH_MAX
    }

    fn supports(&self, op: Op) -> bool {
        self.spec.supports[op as usize]
    }

    fn keep_data(&mut self, keep: bool) {
        if let Some(held) = &mut self.held {
            held.keep = keep;
        }
    }

    fn data(&mut self, tag: u32) -> &[u8] {
        self.held.as_mut().map_or(&[], |held| held.data(tag))
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        if let Some(held) = &mut self.held {
            held.prepare(io, payload);
        }
        self.prepared.push(*io);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let now = self.clock.now();
        let vanishes_ns = match self.spec.faults.vanish {
            None => NEVER,
            Some(after) => *self.vanishes_ns.get_or_insert_with(|| now.0.saturating_add(after.0)),
        };
        self.retire(now.0);
        let count = self.prepared.len();
        for index in 0..count {
            let io = self.prepared[index];
            self.start(&io, now.0, vanishes_ns);
        }
        self.prepared.clear();
        Ok((now, count))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let now_ns = self.clock.standing_ns();
        self.retire(now_ns);
        if let Some(held) = &mut self.held {
            held.pass_until(now_ns);
        }
        completions.extend(self.ended.drain(..).map(|ended| Completion {
            tag: ended.tag,
            submitted: Nanos(ended.submitted_ns),
            completed: Nanos(ended.completes_ns),
            outcome: Outcome::from_code(ended.outcome).unwrap_or(Outcome::Ok),
            integrity: Integrity::Unchecked,
        }));
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        let until = until.min(self.next_completion());
        let until = self.pace.as_ref().map_or(until, |pace| pace.wait(until));
        self.clock.advance_to(until);
        self.reap(completions)
    }

    fn describe(&self) -> String {
        match &self.learnt {
            Some(learnt) => format!("simulated, no I/O was done: {learnt}"),
            None => format!("simulated, no I/O was done: {}", self.spec),
        }
    }
}

#[cfg(test)]
mod tests;
