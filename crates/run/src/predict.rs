//! A prediction: a load in virtual time, on a device that need not be at hand.
//!
//! The device is described by a model, or learnt from a run on it. A learnt device is a model too,
//! and a model may be wrong. So its error is stated where the truth is known: the run is predicted
//! on the device that was learnt from it ([`fit`]).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ioecho_stats::judge::IN_FLIGHT_DEFAULT;
use ioecho_stats::picture;
use ioecho_stats::run_summary::RunSummary;
use ioecho_stats::trace_summary::{TraceFigures, TraceSummary};
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Op, Stop, TimingMode};
use serde::Serialize;

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::execute::execute;
use crate::observer::{Nobody, Observer, Stopping};
use crate::open::{self, Opener};
use crate::plan::ReplayPlan;
use crate::spec::ReplaySpec;
use crate::target::Target;

/// The device of a prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A description: `sim` or `sim:…`.
    Model(String),
    /// The directory of a run.
    Run(PathBuf),
}

impl Device {
    /// What was typed: a simulated device begins with `sim`, and everything else is a directory.
    pub fn named(text: &str) -> Self {
        if text == "sim" || text.starts_with("sim:") {
            Self::Model(text.to_owned())
        } else {
            Self::Run(PathBuf::from(text))
        }
    }

    /// The target that it is in a replay, so many times as fast.
    pub fn target(&self, speed: f64) -> String {
        let text = match self {
            Self::Model(text) => text.clone(),
            Self::Run(run) => format!("sim:learnt={}", run.display()),
        };
        match text.as_str() {
            _ if (speed - 1.0).abs() < f64::EPSILON => text,
            "sim" | "sim:" => format!("sim:speed={speed}"),
            _ => format!("{text},speed={speed}"),
        }
    }
}

/// Requests of an operation that the run did not have from which a device was learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The operation, as native files or results name it.
    pub operation: &'static str,
    /// How many there are.
    pub requests: u64,
    /// Whether they are taken to last as long as a write; otherwise the run had no write either,
    /// and they last as long as any request that it had.
    #[serde(skip)]
    pub like_write: bool,
}

impl Unseen {
    /// What one of them is taken to last as long as.
    pub const fn like(&self) -> &'static str {
        if self.like_write { "a write" } else { "whatever it had" }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the run that the device was learnt from had no {}: each takes as long as {}, which is \
             a guess",
            self.operation,
            self.like()
        )
    }
}

/// What a load or a run has of an operation, or of several under one name.
type Had = (&'static str, Vec<Op>, u64);

/// What of this the learnt devices of a plan know nothing of.
fn unseen(plan: &ReplayPlan, had: impl IntoIterator<Item = Had>) -> Vec<Unseen> {
    let learnt: Vec<_> = plan.targets.iter().filter_map(Target::learnt).collect();
    let of = |(operation, ops, requests): Had| {
        let lacks = learnt.iter().find(|learnt| !ops.iter().any(|op| learnt.has(*op)))?;
        let like_write = lacks.has(Op::Write);
        (requests > 0).then_some(Unseen { operation, requests, like_write })
    };
    had.into_iter().filter_map(of).collect()
}

/// The requests of a load whose operation the learnt device of a plan has never done.
///
/// # Errors
/// [`Kind::Trace`] of reads or writes: how long the one takes says nothing about the other.
pub fn unseen_of_load(plan: &ReplayPlan, load: &TraceFigures) -> Result<Vec<Unseen>> {
    let data = [("reads", Op::Read, load.reads), ("writes", Op::Write, load.writes)];
    let others = [
        ("flush", Op::Flush, load.flushes),
        ("discard", Op::Discard, load.discards),
        ("write_zeroes", Op::WriteZeroes, load.write_zeroes),
    ];
    let had = |(operation, op, requests)| (operation, vec![op], requests);
    if let Some(Unseen { operation, requests, .. }) = unseen(plan, data.map(had)).first() {
        return Err(RunError::with_help(
            Kind::Trace,
            format!(
                "the load has {requests} {operation}, and the run that the device is learnt from \
                 has none: nobody knows how long they take there"
            ),
            "learn from a run that reads and writes",
        ));
    }
    Ok(unseen(plan, others.map(had)))
}

/// The kinds of requests in these results of which the learnt devices of the plan know nothing. The
/// results say nothing about them.
pub fn unseen_in_results(plan: &ReplayPlan, results: &RunSummary) -> Vec<Unseen> {
    let had = |kind: picture::Kind| {
        let ops = Op::ALL.into_iter().filter(|op| picture::Kind::of(*op) == kind).collect();
        (kind.name(), ops, results.service_time.get(kind.name()).map_or(0, |of| of.count))
    };
    unseen(plan, picture::Kind::ALL.map(had))
}

/// A measured figure and the predicted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// In nanoseconds.
    pub measured_ns: u64,
    /// In nanoseconds.
    pub predicted_ns: u64,
}

impl Compared {
    /// The error of the prediction, as a share of the measured figure.
    pub fn error(&self) -> f64 {
        self.predicted_ns as f64 / self.measured_ns.max(1) as f64 - 1.0
    }
}

/// How well a learnt device does again what it was learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// The requests of the run.
    pub requests: u64,
    /// From the start of the run to its last submission.
    pub duration: Compared,
    /// The mean service time.
    pub mean: Compared,
    /// The 99th percentile of service times; `None` of too few requests.
    pub p99: Option<Compared>,
}

/// Predicts a run on the device learnt from it, with results in `scratch`, a directory to be made.
/// `None` for a run whose timing its results alone cannot repeat (`load`, `dependency`), or a
/// merged one.
///
/// # Errors
/// Those of a replay.
pub fn fit(run: &Path, scratch: &Path, opener: &dyn Opener) -> Result<Option<Fit>> {
    let Some(directory) = RunDirectory::at(run) else { return Ok(None) };
    let facts = directory.read_facts()?;
    let timing = facts.timing();
    let repeats = match timing {
        TimingMode::Timed | TimingMode::Afap => facts.merged.is_empty(),
        TimingMode::Load | TimingMode::Dependency | TimingMode::Flows => false,
    };
    if !repeats {
        return Ok(None);
    }
    let measured = directory.read_summary()?;
    let plan = &facts.plan;
    let speedup = plan.speedup.filter(|_| timing.has_schedule()).unwrap_or(1.0);
    let spec = ReplaySpec {
        trace: run.to_owned(),
        targets: vec![Device::Run(run.to_owned()).target(1.0)],
        output: Some(scratch.to_owned()),
        timing,
        speedup,
        conflicts: plan.conflicts.unwrap_or_default(),
        in_flight_max: plan.in_flight_max.unwrap_or(IN_FLIGHT_DEFAULT),
        ..ReplaySpec::default()
    };
    let (plan, source) = ReplayPlan::new(spec, Vec::new(), opener)?;
    let observer: Arc<dyn Observer> = Arc::new(Nobody);
    let predicted = execute(&plan, source, &Stopping::default(), &observer)?.summary;
    Ok(compared(&measured, &predicted))
}

fn compared(measured: &RunSummary, predicted: &RunSummary) -> Option<Fit> {
    let of = |summary: &RunSummary| summary.service_time.get("all").copied();
    let (truth, guess) = (of(measured)?, of(predicted)?);
    let pair = |measured_ns, predicted_ns| Compared { measured_ns, predicted_ns };
    let until = |summary: &RunSummary| summary.achieved_duration_ns.max(0) as u64;
    Some(Fit {
        requests: truth.count,
        duration: pair(until(measured), until(predicted)),
        mean: pair(truth.mean_ns, guess.mean_ns),
        p99: truth.p99_ns.zip(guess.p99_ns).map(|(measured, predicted)| pair(measured, predicted)),
    })
}

/// The figures of the load as it was recorded.
///
/// # Errors
/// Those of the trace.
pub fn recorded(
    trace: &Path,
    options: &ReadOptions,
    load: &Load,
    opener: &dyn Opener,
) -> Result<TraceFigures> {
    let mut source = open::trace_until(opener, &Stop::default(), trace, options, load)?;
    let mut batch = Batch::new(source.header().columns);
    let mut summary = TraceSummary::default();
    while source.next_batch(&mut batch)? {
        summary.observe(&batch);
    }
    Ok(summary.figures())
}
