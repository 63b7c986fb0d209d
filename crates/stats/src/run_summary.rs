//! The figures of a run: `summary.json`.
//!
//! The figures come from two sources: the requests' records, and the engine, which knows its plan
//! and what delayed it. Both are here, so that they can be compared.

use std::collections::BTreeMap;

use ioecho_trace::{Batch, Integrity, LateCause, Nanos, Op, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::analysis::all::in_pieces;
pub use crate::facts::{EngineFacts, VerifyFigures};
use crate::histogram::Latencies;
use crate::load_figures::LoadFigures;
use crate::merged::MergedRun;
use crate::per_target::PerTarget;
pub use crate::per_target::TargetFigures;
use crate::picture::{Kind, RunPicture, Span};
use crate::reached::Reached;
use crate::verdict::Verdict;

/// The version of `summary.json`. It changes when a key changes its meaning or goes away.
pub const SUMMARY_VERSION: u32 = 1;

/// Lateness beyond this breaks the schedule for the verdict.
pub const LATE: Nanos = Nanos::from_millis(1);

/// Requests late by more than [`LATE`] for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateShare {
    /// How many.
    pub requests: u64,
    /// The sum of their lateness.
    pub lateness_ns: i64,
}

/// Percentiles of a span of time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// How many spans there were.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are not longer.
    pub p90_ns: u64,
    /// 99 % are not longer.
    pub p99_ns: u64,
    /// 99.9 % are not longer.
    pub p99_9_ns: u64,
    /// 99.99 % are not longer.
    pub p99_99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Percentiles {
    /// The percentiles of a histogram; `None` of an empty one.
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let summary = latencies.summary()?;
        // In the order of `histogram::QUANTILES`.
        let [p50, p90, p99, three_nines, four_nines] = summary.quantiles_ns;
        Some(Self {
            count: summary.count,
            mean_ns: summary.mean_ns,
            p50_ns: p50,
            p90_ns: p90,
            p99_ns: p99,
            p99_9_ns: three_nines,
            p99_99_ns: four_nines,
            max_ns: summary.max_ns,
        })
    }
}

/// A quantity by kind of request: `all`, `read`, `write` and so on; kinds without requests lack.
pub type ByKind = BTreeMap<String, Percentiles>;

/// `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSummary {
    /// [`SUMMARY_VERSION`].
    pub version: u32,
    /// The judgement, first.
    pub verdict: Verdict,
    /// The engine's facts.
    pub engine: EngineFacts,
    /// Requests in `requests.parquet`.
    pub recorded: u64,
    /// Requests by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests that did not complete in full though they were issued.
    pub failed: u64,
    /// Bytes of reads that completed.
    pub bytes_read: u64,
    /// Bytes of writes that completed.
    pub bytes_written: u64,
    /// When the last request was submitted.
    pub achieved_duration_ns: i64,
    /// Submitted − scheduled.
    pub lateness: ByKind,
    /// Completed − submitted.
    pub service_time: ByKind,
    /// Completed − scheduled.
    pub response_time: ByKind,
    /// Requests late by more than a millisecond, by cause.
    pub late: BTreeMap<String, LateShare>,
    /// Requests by what verification found of their data; empty where nobody looked.
    #[serde(default)]
    pub integrity: BTreeMap<String, u64>,
    /// Requests that could not be issued because the target cannot do such, by kind.
    #[serde(default)]
    pub unsupported: BTreeMap<String, u64>,
    /// Each target of a run with several; empty of a run with one.
    #[serde(default)]
    pub per_target: Vec<TargetFigures>,
    /// Of a merged run the single runs that it was made of, each as it was; empty of a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedRun>,
}

/// Figures from the records of a run, fed batch by batch; the rest of a [`RunSummary`] comes from
/// the engine.
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
    late: [LateShare; LateCause::ALL.len()],
    integrity: [u64; Integrity::ALL.len()],
    unsupported: [u64; Op::ALL.len()],
    per_target: PerTarget,
    load: LoadFigures,
    reached: Reached,
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
            if let Some(submitted) = measured.submitted {
                self.last_submitted = self.last_submitted.max(submitted);
            }
            if let Some(lateness) = measured.lateness()
                && lateness > LATE
            {
                let late = &mut self.late[measured.late_cause as usize];
                late.requests += 1;
                late.lateness_ns = late.lateness_ns.saturating_add(lateness.0);
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
            late,
            integrity,
            unsupported,
            per_target,
            load,
            reached,
        } = other;
        self.picture.merge(picture);
        self.recorded = self.recorded.saturating_add(*recorded);
        self.issued = self.issued.saturating_add(*issued);
        self.pushed_back = self.pushed_back.saturating_add(*pushed_back);
        self.dropped = self.dropped.saturating_add(*dropped);
        // The number in flight is in the records, and each record is in one part only.
        self.in_flight_peak = self.in_flight_peak.max(*in_flight_peak);
        self.failed = self.failed.saturating_add(*failed);
        self.bytes_read = self.bytes_read.saturating_add(*bytes_read);
        self.bytes_written = self.bytes_written.saturating_add(*bytes_written);
        self.last_scheduled = self.last_scheduled.max(*last_scheduled);
        self.last_submitted = self.last_submitted.max(*last_submitted);
        for (mine, theirs) in self.late.iter_mut().zip(late) {
            let LateShare { requests, lateness_ns } = theirs;
            mine.requests = mine.requests.saturating_add(*requests);
            mine.lateness_ns = mine.lateness_ns.saturating_add(*lateness_ns);
        }
        for (mine, theirs) in self.integrity.iter_mut().zip(integrity) {
            *mine = mine.saturating_add(*theirs);
        }
        for (mine, theirs) in self.unsupported.iter_mut().zip(unsupported) {
            *mine = mine.saturating_add(*theirs);
        }
        self.per_target.merge(per_target);
        self.load.merge(load);
        self.reached.merge(reached);
    }

    /// The engine's facts as far as the records show them: all there is for a killed run.
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

    /// Requests of whose data verification found this.
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

    /// What reached the targets, in the kernel's terms.
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

    /// When the last request was submitted.
    pub fn last_submitted(&self) -> Nanos {
        self.last_submitted
    }

    /// The summary, with the engine's facts and the verdict on both.
    pub fn summary(&self, engine: EngineFacts) -> RunSummary {
        let verdict = crate::judge::judge(self, &engine);
        let outcomes =
            self.picture.outcomes().into_iter().map(|outcome| (outcome.name, outcome.count));
        RunSummary {
            version: SUMMARY_VERSION,
            verdict,
            recorded: self.recorded,
            outcomes: outcomes.collect(),
            failed: self.failed,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            achieved_duration_ns: self.last_submitted.0,
            lateness: self.by_kind(Span::Lateness),
            service_time: self.by_kind(Span::Service),
            response_time: self.by_kind(Span::Response),
            late: LateCause::ALL
                .iter()
                .map(|cause| (cause_name(*cause).to_owned(), self.late(*cause)))
                .filter(|(_, share)| share.requests > 0)
                .collect(),
            integrity: self.integrity_by_name(),
            unsupported: Op::ALL
                .into_iter()
                .map(|op| (op.name().to_owned(), self.unsupported(op)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            per_target: self.per_target(engine.targets),
            merged: Vec::new(),
            engine,
        }
    }

    /// Requests by what was found of their data; empty where nobody looked at any.
    fn integrity_by_name(&self) -> BTreeMap<String, u64> {
        if self.integrity(Integrity::Unchecked) == self.integrity.iter().sum::<u64>() {
            return BTreeMap::new();
        }
        let named = Integrity::ALL.into_iter().map(|kind| (kind.name(), self.integrity(kind)));
        named.filter(|(_, count)| *count > 0).map(|(name, n)| (name.to_owned(), n)).collect()
    }

    /// A row for each of so many targets; none where there is only one.
    fn per_target(&self, targets: u32) -> Vec<TargetFigures> {
        let figures = self.per_target.figures(targets);
        if figures.len() > 1 { figures } else { Vec::new() }
    }

    fn by_kind(&self, span: Span) -> ByKind {
        let kinds = Kind::ALL.into_iter().filter_map(|kind| {
            let percentiles = Percentiles::of(self.picture.spans(span, kind))?;
            Some((kind.name().to_owned(), percentiles))
        });
        let all = Percentiles::of(&self.picture.spans_of_all(span));
        kinds.chain(all.map(|all| ("all".to_owned(), all))).collect()
    }
}

/// A cause of lateness in a word or two.
pub fn cause_name(cause: LateCause) -> &'static str {
    match cause {
        LateCause::None => "unexplained",
        LateCause::Conflict => "conflict",
        LateCause::InFlightCap => "in-flight-cap",
        LateCause::Submission => "submission",
        LateCause::Input => "input",
        LateCause::Host => "host",
        LateCause::Generator => "generator",
        LateCause::Backlog => "backlog",
        LateCause::Verification => "verification",
    }
}
