//! From lanes of events to batches of requests.
//!
//! All sources of events are processed alike. The first events decide which kind counts as issue,
//! and the rest become requests. At the end the header gets the losses, the ambiguities and the
//! stacking of devices.

use std::path::Path;

use super::feed::Wanted;
use super::gathering::gather;
use super::instants::Instants;
use super::merge::{Lane, Merge};
use super::record::{Event, kind};
use super::requests::Requests;
use super::telling::no_requests;
use super::volumes::device_name;
use super::{PROBE_EVENTS, bits, kinds_wanted};
use crate::batch::{Batch, Columns};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::header::{Header, Imported, NoteKind, Notes, Topic};
use crate::recording::{Device, Gap, Recording};
use crate::stacked;

/// The largest number of gaps in a header.
const GAPS_MAX: usize = 1 << 10;

/// Events that are being read.
pub(in crate::formats) struct Reading<L> {
    pub(in crate::formats) merge: Merge<L>,
    /// The events that were read to choose the event of issue, in reverse.
    probed: Vec<Event>,
    /// The kind of event that counts as issue for most devices.
    issue: u8,
    latency: bool,
    requests: Requests,
    ended: bool,
    /// The note on lost events.
    pub(in crate::formats) lost_note: Topic<'static>,
}

impl<L: Lane> Reading<L> {
    /// Reads the first events and chooses the event of issue; `one_device` if all are of one
    /// device.
    pub(in crate::formats) fn begin(
        path: &Path,
        lanes: Vec<L>,
        options: &ReadOptions,
        one_device: bool,
    ) -> Result<Self, TraceError> {
        let of_interest =
            [kind::QUEUE, kind::INSERT, kind::ISSUE, kind::COMPLETE, kind::REQUEUE, kind::SPLIT];
        let wanted = Wanted { kinds: bits(&of_interest), strict: options.strict };
        let mut merge = Merge::new(lanes, wanted)?;
        let mut probed = Vec::new();
        let mut seen = [0_u64; kind::COUNT];
        while probed.len() < PROBE_EVENTS
            && let Some(event) = merge.next()?
        {
            seen[usize::from(event.kind)] += 1;
            probed.push(event);
        }
        let instants = Instants::of(options.event, &probed);
        let issue = instants.main();
        let latency = seen[usize::from(kind::COMPLETE)] > 0;
        merge.wanted.kinds = kinds_wanted(instants.kinds(one_device), latency);
        if probed.len() < PROBE_EVENTS && seen[usize::from(issue)] == 0 {
            return Err(no_requests(path, issue, &merge));
        }
        probed.retain(|event| merge.wanted.kinds >> event.kind & 1 == 1);
        probed.reverse();
        let mut requests = Requests::new(instants, latency);
        for event in probed.iter().filter(|event| event.kind == kind::ISSUE) {
            requests.has_driver(event.device);
        }
        let lost_note = NoteKind::LostByRecorder.of("events lost by the recorder (sequence gaps)");
        Ok(Self { merge, probed, issue, latency, requests, ended: false, lost_note })
    }

    /// Gives these devices the first volumes, in this order, before any request is read.
    pub(in crate::formats) fn expect(
        &mut self,
        devices: impl Iterator<Item = u32>,
        header: &mut Header,
    ) {
        for device in devices {
            self.requests.expect(device, &mut header.volumes);
        }
    }

    /// Notes that the kernel does not queue rests of split requests again.
    pub(in crate::formats) fn queues_once(&mut self) {
        self.requests.queues_once();
    }

    /// The name of the event of issue for the header.
    pub(in crate::formats) fn event(&self) -> String {
        kind::name(self.issue).to_owned()
    }

    /// The columns that the requests have.
    pub(in crate::formats) fn columns(&self) -> Columns {
        Columns { latency: self.latency, origin: true, measured: false, dependencies: false }
    }

    /// The instant of the first probed event of issue, before any request was read.
    pub(in crate::formats) fn first(&self) -> Option<u64> {
        let first = self.probed.iter().rev().find(|event| event.kind == self.issue);
        first.map(|event| event.time)
    }

    /// The instant of the first request; `None` before it was read.
    pub(in crate::formats) fn start(&self) -> Option<u64> {
        self.requests.start
    }

    /// Moves names of processes and pairs of stacked devices into the header.
    pub(in crate::formats) fn take_notices(&mut self, header: &mut Header) {
        let notices = &mut self.merge.notices;
        header.processes.extend(notices.processes.drain(..));
        let Some(facts) = &mut header.recording else { return };
        for (from, to) in notices.remaps.drain() {
            note_layers(&mut facts.devices, from, to);
        }
    }

    /// Fills `batch` with the next requests; at the end, completes the header.
    pub(in crate::formats) fn next_batch(
        &mut self,
        path: &Path,
        header: &mut Header,
        batch: &mut Batch,
    ) -> Result<bool, TraceError> {
        batch.reset(header.columns);
        if self.ended {
            return Ok(false);
        }
        while !batch.is_full() {
            if self.requests.pop(batch) {
                continue;
            }
            let event = match self.probed.pop() {
                Some(event) => Ok(Some(event)),
                None => self.merge.next(),
            };
            match event {
                Ok(Some(event)) => {
                    for (worker, served) in self.merge.notices.workers.drain(..) {
                        self.requests.serves(worker, served);
                    }
                    if let Some(until) = self.merge.gaps.before(event.time) {
                        self.requests.lose(until);
                    }
                    self.requests.handle(&event, &mut header.volumes, batch);
                }
                Ok(None) if self.requests.close() => {}
                Ok(None) => break,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        if batch.is_empty() {
            self.finish(path, header)?;
        } else {
            self.tell(header);
        }
        Ok(!batch.is_empty())
    }

    /// Ends the reading: writes all losses and guesses into the header.
    fn finish(&mut self, path: &Path, header: &mut Header) -> Result<(), TraceError> {
        self.ended = true;
        self.take_notices(header);
        header.damage = self.merge.damage();
        if self.requests.taken == 0 {
            return Err(no_requests(path, self.issue, &self.merge));
        }
        self.tell(header);
        self.requests.tell_devices(&mut header.losses);
        if let Some(facts) = &mut header.recording {
            self.tell_facts(facts);
        }
        Self::tell_layers(header);
        Ok(())
    }

    /// Notes what was read, lost and guessed so far; called for every batch, so that a trace that
    /// is read in part has it too.
    fn tell(&self, header: &mut Header) {
        header.imported = Some(Imported {
            unit: "events".to_owned(),
            units: self.merge.kinds().iter().sum(),
            requests: self.requests.taken,
        });
        let (mut losses, mut guesses) = (Notes::default(), Notes::default());
        losses.add(self.lost_note, self.merge.lost(), None);
        let outside = self.merge.feeds().iter().map(Lane::outside).sum();
        losses.add(NoteKind::Beside.of("events outside the recorded partitions"), outside, None);
        losses.add(NoteKind::Beside.of("passthrough commands"), self.merge.passthrough(), None);
        self.requests.tell(&mut losses, &mut guesses);
        let out_of_order = self.merge.feeds().iter().map(Lane::out_of_order).sum();
        guesses.add(NoteKind::Order.of("events out of time order"), out_of_order, None);
        header.losses.catch_up(&losses);
        header.guesses.catch_up(&guesses);
    }

    /// Writes the facts about the quality of the recording.
    fn tell_facts(&self, facts: &mut Recording) {
        let kinds = self.merge.kinds();
        let count =
            |kinds_of: &[u8]| kinds_of.iter().map(|kind| kinds[usize::from(*kind)]).sum::<u64>();
        for (name, kinds_of) in [
            ("queued", &[kind::QUEUE][..]),
            ("merged", &[kind::BACK_MERGE, kind::FRONT_MERGE]),
            ("inserted", &[kind::INSERT]),
            ("issued", &[kind::ISSUE]),
            ("completed", &[kind::COMPLETE]),
            ("split", &[kind::SPLIT]),
            ("requeued", &[kind::REQUEUE]),
            ("remapped", &[kind::REMAP]),
        ] {
            if count(kinds_of) > 0 {
                facts.events.insert(name.to_owned(), count(kinds_of));
            }
        }
        let start = i128::from(self.requests.start.unwrap_or_default());
        let of_trace = |time: u64| {
            let time = i128::from(time) - start;
            i64::try_from(time).unwrap_or(i64::MAX)
        };
        for lane in self.merge.feeds() {
            let gaps = lane.gaps();
            if gaps.stretches().is_empty() {
                continue;
            }
            if let Some(cpu) = lane.cpu() {
                let lost = facts.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(gaps.events());
            }
            facts.gaps.extend(gaps.stretches().iter().map(|gap| Gap {
                from_ns: of_trace(gap.from),
                to_ns: of_trace(gap.to),
                events: gap.events,
            }));
        }
        facts.gaps = gather(std::mem::take(&mut facts.gaps), GAPS_MAX);
        facts.matching = self.requests.matching();
        facts.driver = self.requests.driver();
    }

    /// Notes stacked devices in the header.
    fn tell_layers(header: &mut Header) {
        let layers = stacked::layers(header);
        if layers.is_empty() {
            return;
        }
        let told: Vec<_> =
            layers.pairs().map(|(upper, lower)| format!("{upper} over {lower}")).collect();
        header.guesses.add(stacked::LAYERED, told.len() as u64, Some(told.join(", ")));
    }
}

/// Notes that requests to device `from` are passed on to device `to`.
fn note_layers(devices: &mut Vec<Device>, from: u32, to: u32) {
    let name = |devices: &mut Vec<Device>, number: u32| {
        if let Some(device) = devices.iter().find(|device| device.number == number) {
            return device.name.clone();
        }
        let name = device_name(number);
        devices.push(Device { name: name.clone(), number, ..Device::default() });
        name
    };
    let (upper, lower) = (name(devices, from), name(devices, to));
    for device in devices {
        if device.number == from && !device.below.contains(&lower) {
            device.below.push(lower.clone());
        }
        if device.number == to && !device.above.contains(&upper) {
            device.above.push(upper.clone());
        }
    }
}
