//! One figure of two systems: the figure of both, and how certain the difference is.

use serde::Serialize;

use super::family::{Spread, alone};
use super::ladder::Statistic;
use super::profile::SIZE_NAMES;
use crate::picture::{Kind, Span};

/// A figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Metric {
    /// The mean.
    #[serde(rename = "mean")]
    Mean,
    /// The median.
    #[serde(rename = "p50")]
    P50,
    /// 90 % are not longer.
    #[serde(rename = "p90")]
    P90,
    /// 99 % are not longer.
    #[serde(rename = "p99")]
    P99,
    /// 99.9 % are not longer.
    #[serde(rename = "p99.9")]
    P999,
    /// 99.99 % are not longer.
    #[serde(rename = "p99.99")]
    P9999,
    /// The longest. Never judged: resampling cannot show the uncertainty of a maximum (Bickel,
    /// Freedman: "Some asymptotic theory for the bootstrap", Annals of Statistics 9, 1981).
    #[serde(rename = "max")]
    Max,
    /// Requests that completed per second.
    #[serde(rename = "iops")]
    Iops,
    /// Bytes of requests that completed, per second.
    #[serde(rename = "mbps")]
    Bytes,
}

impl Metric {
    /// Those of a span of time, in the order of tables.
    pub const OF_SPANS: [Self; 7] =
        [Self::Mean, Self::P50, Self::P90, Self::P99, Self::P999, Self::P9999, Self::Max];

    /// Those of the flow.
    pub const OF_FLOW: [Self; 2] = [Self::Iops, Self::Bytes];

    /// The name in tables, JSON and criteria.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::P9999 => "p99.99",
            Self::Max => "max",
            Self::Iops => "iops",
            Self::Bytes => "mbps",
        }
    }

    /// Whether more of it is better.
    pub const fn is_flow(self) -> bool {
        matches!(self, Self::Iops | Self::Bytes)
    }

    pub(super) const fn statistic(self) -> Statistic {
        match self {
            Self::Mean => Statistic::Mean,
            Self::P50 => Statistic::Quantile(0.5),
            Self::P90 => Statistic::Quantile(0.9),
            Self::P99 => Statistic::Quantile(0.99),
            Self::P999 => Statistic::Quantile(0.999),
            Self::P9999 => Statistic::Quantile(0.9999),
            Self::Max => Statistic::Max,
            Self::Iops | Self::Bytes => Statistic::Rate,
        }
    }

    /// Requests that both sides must have for the figure to be judged: a percentile rests on those
    /// beyond it, of which there must be 25, and a mean on all of them.
    pub(super) const fn requests_needed(self) -> u64 {
        match self {
            Self::Mean | Self::P50 | Self::Iops | Self::Bytes => 100,
            Self::P90 => 250,
            Self::P99 => 2_500,
            Self::P999 => 25_000,
            Self::P9999 => 250_000,
            Self::Max => u64::MAX,
        }
    }
}

/// The judgement on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Longer, or less per second, beyond chance and beyond the least effect that counts.
    Worse,
    /// Shorter, or more per second, likewise.
    Better,
    /// Nothing is proven. That is no proof that both are alike: look at the interval.
    NotToldApart,
    /// Too few requests or too short a run for this figure.
    TooFew,
    /// Shown, but never judged: maxima, and lateness, which depends on the host as much as on the
    /// device.
    NotJudged,
}

/// Which requests a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Scope {
    /// The span; `None` of a flow.
    pub span: Option<Span>,
    /// The kind of request; `None` is all of them.
    #[serde(serialize_with = "kind_by_word")]
    pub kind: Option<Kind>,
    /// The part of the run, counted from 0; `None` is the whole.
    pub phase: Option<usize>,
    /// The class of size; `None` is any.
    #[serde(serialize_with = "size_by_name")]
    pub size: Option<usize>,
}

// Serde asks for these signatures.
#[allow(clippy::ref_option)]
fn kind_by_word<S: serde::Serializer>(kind: &Option<Kind>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind_word(*kind))
}

#[allow(clippy::ref_option)]
fn size_by_name<S: serde::Serializer>(size: &Option<usize>, to: S) -> Result<S::Ok, S::Error> {
    size.and_then(|size| SIZE_NAMES.get(size)).serialize(to)
}

/// A kind of request in a word, as criteria name it.
pub const fn kind_word(kind: Option<Kind>) -> &'static str {
    match kind {
        None => "all",
        Some(kind) => kind.label(),
    }
}

/// A span in a word, as criteria name it.
pub const fn span_word(span: Span) -> &'static str {
    match span {
        Span::Service => "service",
        Span::Response => "response",
        Span::Lateness => "lateness",
    }
}

/// One figure of two systems. Spans are nanoseconds, flows requests or bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which requests.
    #[serde(flatten)]
    pub scope: Scope,
    /// Which figure of them.
    pub metric: Metric,
    /// Requests behind the figure, of the baseline and of the other.
    pub requests: [u64; 2],
    /// The baseline's figure.
    pub baseline: f64,
    /// The other's.
    pub other: f64,
    /// The other's divided by the baseline's.
    pub ratio: f64,
    /// Where the ratio lies, all judged rows together being right in all comparisons but a share of
    /// [`super::Settings::level`]; `None` where the figure cannot be judged.
    pub interval: Option<[f64; 2]>,
    /// How often a system compared with itself has, in any of the rows, a deviation as large as
    /// this one.
    pub chance: Option<f64>,
    /// The judgement.
    pub decision: Decision,
    #[serde(skip)]
    pub(super) spread: Option<Spread>,
    /// Between which logarithms the redrawn ratios lie, the outermost aside.
    #[serde(skip)]
    pub(super) tails: [f64; 2],
}

impl Row {
    /// By how much the other is worse, as a logarithm: below zero where it is better.
    pub fn worse_by(&self) -> f64 {
        let log = self.ratio.ln();
        if self.metric.is_flow() { -log } else { log }
    }

    /// The interval of this row alone at 95 %, where it was one of so many named beforehand; `None`
    /// where the figure cannot be judged.
    pub fn interval_alone(&self, criteria: usize) -> Option<[f64; 2]> {
        let width = alone(self.spread?, criteria);
        let log = self.ratio.ln();
        let [low, high] = self.tails;
        Some([low.min(log - width).exp(), high.max(log + width).exp()])
    }

    /// The row in words: `p99 of read, service time`.
    pub fn name(&self) -> String {
        format!("{} of {}", self.metric.name(), self.name_without_metric())
    }

    /// Which requests and which span: `read, service time`.
    pub(super) fn name_without_metric(&self) -> String {
        let kind = kind_word(self.scope.kind);
        self.scope.span.map_or(kind.to_owned(), |span| format!("{kind}, {}", span.name()))
    }
}
