//! The figures of a run: `summary.json`.
//!
//! The figures come from two sources: the requests' records, and the engine, which knows its plan
//! and what delayed it. Both are here, so that they can be compared.

use std::collections::BTreeMap;

use ioecho_trace::{LateCause, Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::begun::Begun;
use crate::critical_path::CriticalPath;
pub use crate::facts::{EngineFacts, VerifyFigures};
pub use crate::histogram::Percentiles;
use crate::judge::{host_owned_from, judge};
pub use crate::late::{LATE, LateShare, cause_name};
pub use crate::per_flow::FlowFigures;
pub use crate::per_phase::{Finished, PhaseFigures};
pub use crate::per_target::TargetFigures;
use crate::picture::Span;
pub use crate::run_figures::{ByKind, RunFigures};
use crate::verdict::Verdict;

/// The version of `summary.json`. It changes when a key changes its meaning or goes away.
pub const SUMMARY_VERSION: u32 = 1;

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
    /// The same by operation, and by outcome.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_by_operation: BTreeMap<String, BTreeMap<String, u64>>,
    /// Bytes of reads that completed.
    pub bytes_read: u64,
    /// Bytes of writes that completed.
    pub bytes_written: u64,
    /// When the last request was submitted.
    pub achieved_duration_ns: i64,
    /// From the instant at which the last request was due to the last completion, in percent of the
    /// demanded duration: the time in which the device worked off what had queued up. Missing
    /// without a schedule, of runs that ended early, and where a request was never answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_percent: Option<f64>,
    /// Submitted − scheduled.
    pub lateness: ByKind,
    /// Completed − submitted.
    pub service_time: ByKind,
    /// Completed − scheduled.
    pub response_time: ByKind,
    /// The share from which on percentiles of `response_time` are those of requests that host or
    /// generator delayed, such as 0.999; missing if all are the device's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_owned_from: Option<f64>,
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
    /// Each flow of a run of flows; empty of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_flow: Vec<FlowFigures>,
    /// Each operation of each flow of a run on files, in the order in which they began; empty of
    /// others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_phase: Vec<PhaseFigures>,
    /// Why a run took so long in which requests waited for others; missing for others, and for one
    /// whose results are not all there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_path: Option<CriticalPath>,
    /// Of a merged run the single runs that it was made of, each as it was; empty of a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedRun>,
}

/// A single run that is a part of a merged one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedRun {
    /// What it was called; behind the name of the merged run that it was a part of before, if so.
    pub name: String,
    /// By how much its instants were moved.
    pub shift_ns: i64,
    /// What its engine said, as it was.
    pub engine: EngineFacts,
    /// How it was judged where it ran.
    pub verdict: Verdict,
    /// When it began, if somebody compared the clocks of the hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
}

impl MergedRun {
    /// The single runs of a run that is called so and moved by so much: itself, or those that it
    /// was merged of.
    pub fn all_of(name: &str, shift: Nanos, summary: RunSummary) -> Vec<Self> {
        let RunSummary { engine, verdict, merged, .. } = summary;
        if merged.is_empty() {
            let (name, shift_ns) = (name.to_owned(), shift.0);
            return vec![Self { name, shift_ns, engine, verdict, begun: None }];
        }
        let of_it = |run: Self| Self {
            name: format!("{name}:{}", run.name),
            shift_ns: run.shift_ns.saturating_add(shift.0),
            ..run
        };
        merged.into_iter().map(of_it).collect()
    }
}

impl RunFigures {
    /// The summary, with the engine's facts and the verdict on both.
    pub fn summary(&self, engine: EngineFacts) -> RunSummary {
        let verdict = judge(self, &engine);
        // If nothing was due, nothing is late, and the beginning of a user's wait is unknown.
        let of_due = |span| {
            if engine.has_due_instants() { self.by_kind(span) } else { ByKind::default() }
        };
        let late = |cause| {
            if engine.has_due_instants() { self.late(cause) } else { LateShare::default() }
        };
        let mut per_target = self.per_target(engine.targets);
        if !engine.has_due_instants() {
            per_target.iter_mut().for_each(TargetFigures::forget_schedule);
        }
        let outcomes =
            self.picture().outcomes().into_iter().map(|outcome| (outcome.name, outcome.count));
        let mut failed_by_operation: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (op, outcome, count) in self.picture().failures() {
            let of_op = failed_by_operation.entry(op.name().to_owned()).or_default();
            *of_op.entry(outcome.name()).or_default() += count;
        }
        RunSummary {
            version: SUMMARY_VERSION,
            verdict,
            recorded: self.recorded(),
            outcomes: outcomes.collect(),
            failed: self.failed(),
            failed_by_operation,
            bytes_read: self.bytes_read(),
            bytes_written: self.bytes_written(),
            achieved_duration_ns: self.last_submitted().0,
            drain_percent: self.drain_percent(&engine),
            lateness: of_due(Span::Lateness),
            service_time: self.by_kind(Span::Service),
            response_time: of_due(Span::Response),
            host_owned_from: host_owned_from(self, &engine),
            late: LateCause::ALL
                .iter()
                .map(|cause| (cause_name(*cause).to_owned(), late(*cause)))
                .filter(|(_, share)| share.requests > 0)
                .collect(),
            integrity: self.integrity_by_name(),
            unsupported: Op::ALL
                .into_iter()
                .map(|op| (op.name().to_owned(), self.unsupported(op)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            per_target,
            per_flow: self.per_flow(&engine),
            per_phase: self.per_phase(&engine),
            critical_path: self.critical_path(),
            merged: Vec::new(),
            engine,
        }
    }
}
