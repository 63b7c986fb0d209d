//! What came of an attempt at a cell, as it is stored.
//!
//! A cell is done if one of its attempts has a result. The file of the attempt alone says so: it is
//! written last. It has the finding and the figures of the run, so that ten thousand cells are read
//! in a moment; the whole run lies beside it.

use std::collections::BTreeMap;

use ioecho_stats::compare::{Metric, kind_word, span_word};
use ioecho_stats::picture::{Kind, Span};
use ioecho_stats::run_summary::{ByKind, Percentiles, RunSummary};
use ioecho_stats::steady::Steady;
use ioecho_stats::verdict::{Finding, Grade, Validity};
use ioecho_trace::Outcome;
use serde::{Deserialize, Serialize};

/// The check of a cell of rounds: whether they became steady.
pub(crate) const STEADY: &str = "steady";

/// The version of `attempt.json`.
pub const ATTEMPT_VERSION: u32 = 1;

/// An attempt, as `attempt.json` has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// [`ATTEMPT_VERSION`] of the program that wrote it.
    pub version: u32,
    /// The key of the cell.
    pub key: String,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// When it began (RFC 3339).
    pub started: String,
    /// How long it took.
    pub seconds: f64,
    /// The command line.
    pub command: Vec<String>,
    /// What came of it.
    pub end: End,
    /// SHA-256 of the run's `summary.json`, if there is one.
    pub summary_sha256: Option<String>,
    /// The same of each run, by its directory, where a cell has several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub summaries_sha256: BTreeMap<String, String>,
    /// Facts of the host that may change between runs, such as its kernel.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The run has a result. It may be a finding about the device.
    Measured(Measured),
    /// A fault of the measurement: another attempt may have none.
    Fault(String),
    /// It cannot be done: another attempt would end alike.
    Failed(String),
    /// Somebody ended it. It does not count.
    Stopped,
}

impl End {
    /// What came of a run with this summary that nobody ended. One whose target is gone ends alike
    /// however often it is repeated.
    pub fn of_run(summary: &RunSummary) -> Self {
        let measured = Measured::of(summary);
        match measured.finding {
            Finding::Incomplete if summary.engine.gone => Self::Failed(measured.summary),
            Finding::Incomplete => Self::Fault(measured.summary),
            _ => Self::Measured(measured),
        }
    }
}

/// What rounds came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// The figure in each round.
    pub figures: Vec<f64>,
    /// The window in which it was steady; `None` if it was in none.
    pub steady: Option<Steady>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What the run found.
    pub finding: Finding,
    /// Whether its figures may be used.
    pub validity: Validity,
    /// The verdict's sentence.
    pub summary: String,
    /// The grade of each check.
    pub checks: BTreeMap<String, Grade>,
    /// Its figures by their names; spans in nanoseconds. The result of several replays has none:
    /// each of them has its own.
    pub figures: BTreeMap<String, f64>,
    /// The results of the replays within the cell, in their order; none if it is one replay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Self>,
    /// What its rounds came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
}

impl Measured {
    /// The result in the summary of a run.
    pub fn of(summary: &RunSummary) -> Self {
        let verdict = &summary.verdict;
        Self {
            finding: verdict.finding,
            validity: verdict.validity,
            summary: verdict.summary.clone(),
            checks: verdict.checks.iter().map(|it| (it.name.clone(), it.grade)).collect(),
            figures: figures(summary),
            parts: Vec::new(),
            rounds: None,
        }
    }

    /// The result of no replay, to which others are added.
    pub(crate) fn nothing() -> Self {
        Self {
            finding: Finding::Faithful,
            validity: Validity::Valid,
            summary: String::new(),
            checks: BTreeMap::new(),
            figures: BTreeMap::new(),
            parts: Vec::new(),
            rounds: None,
        }
    }

    /// The finding in a word. That a schedule was held is none where the figures may not be used.
    pub fn word(&self) -> &'static str {
        if self.is_useless() { self.validity.name() } else { self.finding.name() }
    }

    /// Whether the run held its schedule and its figures may not be used, such as where many of its
    /// requests failed.
    pub fn is_useless(&self) -> bool {
        let is_held = matches!(self.finding, Finding::Faithful | Finding::Unscheduled);
        is_held && self.validity == Validity::Invalid
    }

    /// Why its figures may not be used, in words: of several replays those of the first that is so.
    pub(crate) fn why_useless(&self) -> String {
        let part = self.parts.iter().find(|part| part.is_useless()).unwrap_or(self);
        let invalid = part.checks.iter().filter(|(_, grade)| **grade == Grade::Invalid);
        let names: Vec<&str> = invalid.map(|(name, _)| name.as_str()).collect();
        match &names[..] {
            [] => part.summary.clone(),
            [one] => format!("the check {one} is broken"),
            names => format!("the checks {} are broken", names.join(", ")),
        }
    }

    /// The fault of the measurement, if its finding is one: another attempt may have none.
    pub fn fault(&self) -> Option<Finding> {
        match self.finding {
            Finding::GeneratorLimited | Finding::HostStalled | Finding::ForeignLoad => {
                Some(self.finding)
            }
            Finding::Faithful
            | Finding::Unscheduled
            | Finding::DeviceLimited
            | Finding::DataDamaged
            | Finding::Incomplete => None,
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Span,
    /// Bytes per second.
    Bytes,
    /// A plain number, also per second.
    Count,
    /// Percent.
    Percent,
}

/// A figure of a whole run: its name, its unit, and how it is read from the summary.
type OfRun = (&'static str, Unit, fn(&RunSummary) -> Option<f64>);

/// The figures of a whole run.
const OF_RUN: [OfRun; 4] = [
    ("iops", Unit::Count, |summary| {
        let completed = *summary.outcomes.get(&Outcome::Ok.name())?;
        per_second(completed, summary)
    }),
    ("mbps", Unit::Bytes, |summary| {
        per_second(summary.bytes_read + summary.bytes_written, summary)
    }),
    ("failed", Unit::Count, |summary| Some(summary.failed as f64)),
    ("drain", Unit::Percent, |summary| summary.drain_percent),
];

fn per_second(count: u64, summary: &RunSummary) -> Option<f64> {
    let seconds = summary.achieved_duration_ns as f64 / 1e9;
    (seconds > 0.0).then(|| count as f64 / seconds)
}

/// All figures of a run, by their full names.
fn figures(summary: &RunSummary) -> BTreeMap<String, f64> {
    let of_run =
        OF_RUN.iter().filter_map(|(name, _, read)| Some(((*name).to_owned(), read(summary)?)));
    let mut figures: BTreeMap<String, f64> = of_run.collect();
    let spans: [(Span, &ByKind); 3] = [
        (Span::Service, &summary.service_time),
        (Span::Response, &summary.response_time),
        (Span::Lateness, &summary.lateness),
    ];
    for (span, kinds) in spans {
        for (kind, percentiles) in kinds {
            for metric in Metric::OF_SPANS {
                if let Some(value) = of_span(metric, percentiles) {
                    let name = format!("{}.{kind}.{}", metric.name(), span_word(span));
                    figures.insert(name, value as f64);
                }
            }
        }
    }
    figures
}

fn of_span(metric: Metric, percentiles: &Percentiles) -> Option<u64> {
    match metric {
        Metric::Mean => Some(percentiles.mean_ns),
        Metric::P50 => Some(percentiles.p50_ns),
        Metric::P90 => percentiles.p90_ns,
        Metric::P99 => percentiles.p99_ns,
        Metric::P999 => percentiles.p99_9_ns,
        Metric::P9999 => percentiles.p99_99_ns,
        Metric::Max => Some(percentiles.max_ns),
        Metric::Iops | Metric::Bytes => None,
    }
}

/// The full name and the unit of a figure as it is typed: `p99.read` is `p99.read.response`. What
/// is left out is all kinds, and the response time, as in `compare`.
pub fn figure_name(typed: &str) -> Option<(String, Unit)> {
    if let Some((name, unit, _)) = OF_RUN.iter().find(|(name, ..)| *name == typed) {
        return Some(((*name).to_owned(), *unit));
    }
    let rest_of = |metric: &Metric| {
        let rest = typed.strip_prefix(metric.name())?;
        (rest.is_empty() || rest.starts_with('.')).then_some((*metric, rest))
    };
    let (metric, rest) = Metric::OF_SPANS
        .iter()
        .filter_map(rest_of)
        .max_by_key(|(metric, _)| metric.name().len())?;
    let (mut kind, mut span) = (None, None);
    for word in rest.split('.').skip(1) {
        let kinds = [None].into_iter().chain(Kind::ALL.into_iter().map(Some)).map(kind_word);
        let as_kind = kinds.into_iter().find(|known| *known == word);
        let as_span = Span::ALL.into_iter().map(span_word).find(|known| *known == word);
        match (as_kind, as_span) {
            (Some(found), _) if kind.is_none() && span.is_none() => kind = Some(found),
            (_, Some(found)) if span.is_none() => span = Some(found),
            _ => return None,
        }
    }
    let (kind, span) = (kind.unwrap_or("all"), span.unwrap_or("response"));
    Some((format!("{}.{kind}.{span}", metric.name()), Unit::Span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::run_summary::{EngineFacts, RunFigures};

    #[test]
    fn a_run_whose_target_is_gone_is_not_tried_again_and_another_that_broke_off_is() {
        let end = |incomplete: &str, gone| {
            let incomplete = incomplete.to_owned();
            let engine = EngineFacts { incomplete, gone, ..EngineFacts::default() };
            End::of_run(&RunFigures::default().summary(engine))
        };
        assert!(matches!(end("sda is gone", true), End::Failed(_)));
        assert!(matches!(end("the trace could not be read further", false), End::Fault(_)));
        assert!(matches!(end("", false), End::Measured(_)));
    }

    #[test]
    fn a_figure_has_a_short_name_and_a_full_one() {
        let full = |typed| figure_name(typed).map(|(name, _)| name);
        assert_eq!(full("p99").as_deref(), Some("p99.all.response"));
        assert_eq!(full("p99.9.read").as_deref(), Some("p99.9.read.response"));
        assert_eq!(full("max.write.service").as_deref(), Some("max.write.service"));
        assert_eq!(full("iops").as_deref(), Some("iops"));
        for wrong in ["p98", "p99.reed", "p99.service.read", "iops.read", "p99.read.write"] {
            assert_eq!(full(wrong), None, "{wrong}");
        }
    }
}
