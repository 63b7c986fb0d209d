//! The figures in the records of a run.
//!
//! They are counted once, for every use: a summary, a verdict, the figures during the run, or the
//! summary of several runs.

use std::collections::BTreeMap;

use ioecho_trace::{Batch, Integrity, LateCause, Nanos, Op, Outcome, Request};

use crate::analysis::all::in_pieces;
use crate::critical_path::CriticalPath;
use crate::facts::EngineFacts;
use crate::histogram::{Latencies, Percentiles};
use crate::late::{DEVICE, LATE, LateShare};
use crate::load_figures::LoadFigures;
use crate::per_flow::{FlowFigures, PerFlow};
use crate::per_phase::{PerPhase, PhaseFigures};
use crate::per_target::{PerTarget, TargetFigures};
use crate::picture::{Kind, RunPicture, Span};
use crate::reached::Reached;

/// A quantity by kind of request: `all`, `read`, `write` and so on; kinds without requests lack.
pub type ByKind = BTreeMap<String, Percentiles>;

/// The figures in the records of a run, counted batch by batch; the other parts of a summary come
/// from the engine.
#[derive(Clone, Debug, Default)]
pub struct RunFigures {
    picture: RunPicture,
    recorded: u64,
    issued: u64,
    pushed_back: u64,
    dropped: u64,
    in_flight_peak: u32,
    failed: u64,
    bytes_read: u64,
    bytes_written: u64,
    last_scheduled: Nanos,
    last_submitted: Nanos,
    last_completed: Option<Nanos>,
    late: [LateShare; LateCause::ALL.len()],
    /// The lateness of those, by cause.
    late_spans: [Latencies; LateCause::ALL.len()],
    /// Response times of those whose lateness the device did not cause.
    not_device: Latencies,
    integrity: [u64; Integrity::ALL.len()],
    unsupported: [u64; Op::ALL.len()],
    per_target: PerTarget,
    per_flow: PerFlow,
    per_phase: PerPhase,
    load: LoadFigures,
    reached: Reached,
    critical_path: Option<CriticalPath>,
}

impl RunFigures {
    /// Adds the requests of a batch.
    pub fn observe(&mut self, batch: &Batch) {
        in_pieces(batch, |requests| self.observe_all(requests));
    }

    /// Adds requests.
    pub fn observe_all(&mut self, requests: &[Request]) {
        self.recorded += requests.len() as u64;
        for request in requests {
            self.picture.observe_one(request);
            let Some(measured) = &request.measured else { continue };
            self.per_target.observe(request, measured);
            self.per_flow.observe(request, measured);
            self.per_phase.observe(request, measured);
            self.load.observe(request, measured);
            self.reached.observe(request, measured);
            self.integrity[measured.integrity as usize] += 1;
            if measured.outcome == Outcome::Unsupported {
                self.unsupported[request.op as usize] += 1;
            }
            self.issued += u64::from(measured.outcome.was_issued());
            self.pushed_back += u64::from(measured.pushed_back);
            self.dropped += u64::from(measured.outcome == Outcome::Dropped);
            self.in_flight_peak = self.in_flight_peak.max(measured.in_flight);
            self.last_scheduled = self.last_scheduled.max(measured.scheduled);
            if measured.completed.is_some() && measured.outcome == Outcome::Ok {
                match request.op {
                    Op::Read => {
                        self.bytes_read = self.bytes_read.saturating_add(request.length.0);
                    }
                    Op::Write => {
                        self.bytes_written = self.bytes_written.saturating_add(request.length.0);
                    }
                    _ => {}
                }
            } else if measured.outcome.was_issued() {
                self.failed += 1;
            }
            self.last_completed = self.last_completed.max(measured.completed);
            if let Some(submitted) = measured.submitted {
                self.last_submitted = self.last_submitted.max(submitted);
            }
            if let Some(lateness) = measured.lateness()
                && lateness > LATE
            {
                let late = &mut self.late[measured.late_cause as usize];
                late.requests += 1;
                late.lateness_ns = late.lateness_ns.saturating_add(lateness.0);
                self.late_spans[measured.late_cause as usize].record(lateness);
                if let Some(response) = measured.response_time()
                    && !DEVICE.contains(&measured.late_cause)
                {
                    self.not_device.record(response);
                }
            }
        }
    }

    /// Adds the figures of another part of the same run, in any order.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            picture,
            recorded,
            issued,
            pushed_back,
            dropped,
            in_flight_peak,
            failed,
            bytes_read,
            bytes_written,
            last_scheduled,
            last_submitted,
            last_completed,
            late,
            late_spans,
            not_device,
            integrity,
            unsupported,
            per_target,
            per_flow,
            per_phase,
            load,
            reached,
            // Each part has a path of its own.
            critical_path: _,
        } = other;
        self.critical_path = None;
        self.picture.merge(picture);
        self.recorded = self.recorded.saturating_add(*recorded);
        self.issued = self.issued.saturating_add(*issued);
        self.pushed_back = self.pushed_back.saturating_add(*pushed_back);
        self.dropped = self.dropped.saturating_add(*dropped);
        // The records contain the number in flight, and each record is in only one part.
        self.in_flight_peak = self.in_flight_peak.max(*in_flight_peak);
        self.failed = self.failed.saturating_add(*failed);
        self.bytes_read = self.bytes_read.saturating_add(*bytes_read);
        self.bytes_written = self.bytes_written.saturating_add(*bytes_written);
        self.last_scheduled = self.last_scheduled.max(*last_scheduled);
        self.last_submitted = self.last_submitted.max(*last_submitted);
        self.last_completed = self.last_completed.max(*last_completed);
        for (mine, theirs) in self.late.iter_mut().zip(late) {
            let LateShare { requests, lateness_ns } = theirs;
            mine.requests = mine.requests.saturating_add(*requests);
            mine.lateness_ns = mine.lateness_ns.saturating_add(*lateness_ns);
        }
        for (mine, theirs) in self.late_spans.iter_mut().zip(late_spans) {
            mine.merge(theirs);
        }
        self.not_device.merge(not_device);
        for (mine, theirs) in self.integrity.iter_mut().zip(integrity) {
            *mine = mine.saturating_add(*theirs);
        }
        for (mine, theirs) in self.unsupported.iter_mut().zip(unsupported) {
            *mine = mine.saturating_add(*theirs);
        }
        self.per_target.merge(per_target);
        self.per_flow.merge(per_flow);
        self.per_phase.merge(per_phase);
        self.load.merge(load);
        self.reached.merge(reached);
    }

    /// The engine's facts as far as the records contain them, which are all that a killed run has.
    pub fn engine_facts(&self) -> EngineFacts {
        EngineFacts {
            planned: self.recorded,
            issued: self.issued,
            pushed_back: self.pushed_back,
            dropped: self.dropped,
            in_flight_peak: self.in_flight_peak,
            demanded_duration_ns: self.last_scheduled.0,
            targets: self.per_target.count().max(1),
            ..EngineFacts::default()
        }
    }

    /// Requests that had to wait for one that they overlap.
    pub fn pushed_back(&self) -> u64 {
        self.pushed_back
    }

    /// The largest number in flight together on a target.
    pub fn in_flight_peak(&self) -> u32 {
        self.in_flight_peak
    }

    /// Requests left out on conflict.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The critical path, where requests waited for others and all results are there.
    pub fn critical_path(&self) -> Option<CriticalPath> {
        self.critical_path
    }

    /// Adds the critical path, which only all results in their order show.
    pub fn set_critical_path(&mut self, path: Option<CriticalPath>) {
        self.critical_path = path;
    }

    /// Requests that were issued.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// The pictures' data.
    pub fn picture(&self) -> &RunPicture {
        &self.picture
    }

    /// The pictures' data, to keep.
    pub fn into_picture(self) -> RunPicture {
        self.picture
    }

    /// Requests late by more than [`LATE`] for this cause.
    pub fn late(&self, cause: LateCause) -> LateShare {
        self.late[cause as usize]
    }

    /// The lateness of requests late by more than [`LATE`] for one of these causes.
    pub fn lateness_for(&self, causes: &[LateCause]) -> Latencies {
        let mut all = Latencies::default();
        for cause in causes {
            all.merge(&self.late_spans[*cause as usize]);
        }
        all
    }

    /// The response times of requests late by more than [`LATE`] for other causes than the device.
    pub fn not_device(&self) -> &Latencies {
        &self.not_device
    }

    /// Requests with this finding of verification on their data.
    pub fn integrity(&self, integrity: Integrity) -> u64 {
        self.integrity[integrity as usize]
    }

    /// Requests whose data were found damaged.
    pub fn damaged(&self) -> u64 {
        let damage = Integrity::ALL.into_iter().filter(|integrity| integrity.is_damage());
        damage.map(|integrity| self.integrity(integrity)).sum()
    }

    /// Requests of this kind that the target cannot do.
    pub fn unsupported(&self, op: Op) -> u64 {
        self.unsupported[op as usize]
    }

    /// The requests that reached the targets, in the kernel's terms.
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Requests seen.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Requests issued that did not complete in full.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The figures of the load in relation to its targets.
    pub fn load(&self) -> &LoadFigures {
        &self.load
    }

    /// From the instant at which the last request was due to the last completion, in percent of the
    /// demanded duration.
    pub(crate) fn drain_percent(&self, engine: &EngineFacts) -> Option<f64> {
        let demanded = Nanos(engine.demanded_duration_ns);
        let is_whole = engine.incomplete.is_empty() && engine.abandoned == 0;
        let is_known = engine.has_schedule() && is_whole && demanded > Nanos::ZERO;
        let drain = (self.last_completed? - demanded).max(Nanos::ZERO);
        is_known.then(|| drain.0 as f64 / demanded.0 as f64 * 100.0)
    }

    /// When the last request was submitted.
    pub fn last_submitted(&self) -> Nanos {
        self.last_submitted
    }

    /// Bytes of reads that completed.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Bytes of writes that completed.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Requests by the finding on their data; empty if none was verified.
    pub(crate) fn integrity_by_name(&self) -> BTreeMap<String, u64> {
        if self.integrity(Integrity::Unchecked) == self.integrity.iter().sum::<u64>() {
            return BTreeMap::new();
        }
        let named = Integrity::ALL.into_iter().map(|kind| (kind.name(), self.integrity(kind)));
        named.filter(|(_, count)| *count > 0).map(|(name, n)| (name.to_owned(), n)).collect()
    }

    /// A row for each of this number of targets; empty if there is only one.
    pub(crate) fn per_target(&self, targets: u32) -> Vec<TargetFigures> {
        let figures = self.per_target.figures(targets);
        if figures.len() > 1 { figures } else { Vec::new() }
    }

    /// A row for each of the run's flows.
    pub(crate) fn per_flow(&self, engine: &EngineFacts) -> Vec<FlowFigures> {
        self.per_flow.figures(&engine.flows)
    }

    /// A row for each phase of a run on files.
    pub(crate) fn per_phase(&self, engine: &EngineFacts) -> Vec<PhaseFigures> {
        self.per_phase.figures(engine)
    }

    /// The percentiles of a span by kind of request.
    pub(crate) fn by_kind(&self, span: Span) -> ByKind {
        let kinds = Kind::ALL.into_iter().filter_map(|kind| {
            let percentiles = Percentiles::of(self.picture.spans(span, kind))?;
            Some((kind.name().to_owned(), percentiles))
        });
        let all = Percentiles::of(&self.picture.spans_of_all(span));
        kinds.chain(all.map(|all| ("all".to_owned(), all))).collect()
    }
}
