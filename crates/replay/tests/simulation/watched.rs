//! An overseer that checks the requests.

use std::collections::HashMap;
use std::io;

use ioecho_replay::pattern::SplitMix64;
use ioecho_replay::plan::{Planned, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::{Clock, Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Nanos, Op};

use crate::over::{Over, Overseer};

/// Checks what is asked of a device, stalls it, hands down only some requests, and forgets none.
pub(crate) struct Watched {
    clock: SimClock,
    random: SplitMix64,
    pub(crate) config: Config,
    pub(crate) in_flight: HashMap<u32, Io>,
    /// Prepared and not yet handed down.
    queued: Vec<(Io, Vec<u8>)>,
    /// The order in which requests were asked for.
    pub(crate) issued: Vec<Io>,
    pub(crate) stall_share: f64,
    pub(crate) conflicting_pairs: u64,
    hang_share: f64,
    /// Payloads made ahead, by request.
    pub(crate) drafts: HashMap<u64, (Io, Vec<u8>)>,
    drafts_used: u64,
    drafts_max: usize,
}

/// Data that were made before.
struct Made<'a>(&'a [u8]);

impl Payload for Made<'_> {
    fn fill_from(&mut self, _: &Io, _: usize, buffer: &mut [u8]) {
        buffer.copy_from_slice(self.0);
    }
}

fn overlap(a: &Io, b: &Io) -> bool {
    a.offset.0 < b.offset.0 + b.length.0 && b.offset.0 < a.offset.0 + a.length.0
}

impl Overseer for Watched {
    fn draft(&mut self, io: &Io, until: Bytes, payload: &mut dyn Payload) -> bool {
        assert_eq!(io.op, Op::Write);
        if self.drafts.len() >= self.drafts_max && !self.drafts.contains_key(&io.request) {
            return false;
        }
        let (of, data) = self.drafts.entry(io.request).or_insert_with(|| (*io, Vec::new()));
        assert_eq!(of, io, "a draft is of one request");
        let made = data.len();
        assert!(made < until.0 as usize && until <= io.length, "nothing is drafted twice");
        data.resize(until.0 as usize, 0);
        payload.fill_from(io, made, &mut data[made..]);
        true
    }

    fn forget(&mut self, request: u64) {
        self.drafts.remove(&request);
    }

    fn prepare(&mut self, _: &mut SimDevice, io: &Io, payload: &mut dyn Payload) {
        assert!(io.tag < self.config.device_slots());
        let mut data = Vec::new();
        // A read that only verification makes bears the number of the write.
        let draft = if io.op == Op::Write { self.drafts.remove(&io.request) } else { None };
        if let Some((draft, drafted)) = draft {
            // What was made ahead is what would be made now; what depends on completions has no
            // instant then.
            let is_dated = !self.config.timing.has_parents();
            let scheduled = if is_dated { io.scheduled } else { draft.scheduled };
            assert_eq!(Io { tag: draft.tag, scheduled, ..*io }, draft);
            self.drafts_used += 1;
            let made = drafted.len();
            data = drafted;
            data.resize(io.length.0 as usize, 0);
            payload.fill_from(io, made, &mut data[made..]);
        } else if io.op == Op::Write {
            data = vec![0; io.length.0 as usize];
            payload.fill(io, &mut data);
        }
        for other in self.in_flight.values() {
            assert_ne!(other.tag, io.tag, "a tag is in flight twice");
            if overlap(other, io) && self.config.strong.conflict(other.op, io.op) {
                self.conflicting_pairs += 1;
            }
        }
        self.in_flight.insert(io.tag, *io);
        self.queued.push((*io, data));
        match self.issued.iter_mut().find(|earlier| earlier.request == io.request) {
            // What it is about to change was read before.
            Some(earlier) if io.op.changes_data() => *earlier = *io,
            Some(_) => {}
            None => self.issued.push(*io),
        }
    }

    fn submit(&mut self, device: &mut SimDevice) -> io::Result<(Nanos, usize)> {
        if self.random.unit() < self.stall_share {
            // The hand-over blocks, as a kernel whose queue is full does.
            let until = self.clock.now() + Nanos(self.random.below(5_000_000) as i64);
            self.clock.advance_to(until);
        }
        let taken = if self.random.below(4) == 0 {
            self.random.below(self.queued.len() as u64 + 1) as usize
        } else {
            self.queued.len()
        };
        for (io, data) in self.queued.drain(..taken) {
            device.prepare(&io, &mut Made(&data));
        }
        let (at, _) = device.submit()?;
        Ok((at, taken))
    }

    fn completed(&mut self, completions: &[Completion]) {
        for completion in completions {
            assert!(self.in_flight.remove(&completion.tag).is_some());
        }
    }

    fn waited(&mut self, until: Nanos) {
        if self.random.unit() < self.stall_share {
            // The host does not wake the thread in time.
            self.clock.advance_to(until + Nanos(self.random.below(3_000_000) as i64));
        }
    }
}

impl Watched {
    pub(crate) fn new(
        seed: u64,
        spec: SimSpec,
        config: Config,
        clock: &SimClock,
        data: bool,
    ) -> Over<Self> {
        let mut random = SplitMix64(seed ^ 1);
        let inner = SimDevice::new(spec, clock.clone());
        let by = Self {
            clock: clock.clone(),
            config,
            in_flight: HashMap::new(),
            queued: Vec::new(),
            issued: Vec::new(),
            stall_share: if random.below(2) == 0 { 0.0 } else { 0.05 },
            conflicting_pairs: 0,
            hang_share: spec.faults.hang_share,
            drafts: HashMap::new(),
            drafts_used: 0,
            drafts_max: random.below(3) as usize * 8,
            random,
        };
        Over { inner: if data { inner.with_data() } else { inner }, by }
    }

    pub(crate) fn hangs(&self) -> bool {
        self.hang_share > 0.0
    }

    /// How many may be in flight with this request.
    pub(crate) fn ceiling(&self, planned: &Planned) -> u32 {
        match (self.config.timing, planned.recorded_in_flight) {
            (_, 0) => u32::MAX,
            (TimingMode::Load, recorded) => recorded,
            (_, recorded) if self.config.follow_in_flight => recorded.next_power_of_two(),
            _ => u32::MAX,
        }
    }
}
