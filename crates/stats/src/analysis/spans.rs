//! How long requests took, and how late they were.
//!
//! blkreplay's `g06.latency.bins` and `g07.delay.bins` count in ten bins per power of ten. So does
//! this, with the bins' true edges; blkreplay's labels are rounded edges. Percentiles come from
//! separate histograms of three digits.

use ioecho_trace::{Nanos, Request};
use serde::{Deserialize, Serialize, Serializer};

use super::Summary;
use super::bins::{decimal, decimal_edge};
use super::event::{Event, GROUPS, Group};
use super::shape::{Bins, Curve, Quantity};
use super::subset::Subset;
use crate::histogram::{Latencies, Percentiles};
use crate::picture::Span;

/// Histograms of service time, response time and lateness by group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spans {
    spans: [[Histograms; GROUPS]; 3],
}

/// The spans of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Histograms {
    latencies: Latencies,
    decimal: Vec<u64>,
}

impl Histograms {
    fn record(&mut self, ns: i64) {
        self.latencies.record(Nanos(ns));
        let bin = decimal(ns.max(0) as u64);
        if bin >= self.decimal.len() {
            self.decimal.resize(bin + 1, 0);
        }
        self.decimal[bin] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        if self.decimal.len() < other.decimal.len() {
            self.decimal.resize(other.decimal.len(), 0);
        }
        for (mine, theirs) in self.decimal.iter_mut().zip(&other.decimal) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

impl Summary for Spans {
    fn observe(&mut self, request: &Request) {
        self.add(&Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        let theirs = later.spans.iter().flatten();
        for (mine, theirs) in self.spans.iter_mut().flatten().zip(theirs) {
            mine.merge(theirs);
        }
    }
}

impl Spans {
    pub(crate) fn add(&mut self, event: &Event) {
        let group = event.group.index();
        if let Some(service) = event.service() {
            self.spans[Span::Service as usize][group].record(service);
            // Of a load both are the same.
            if event.measured
                && let Some(response) = event.response()
            {
                self.spans[Span::Response as usize][group].record(response);
            }
        }
        if let Some(delay) = event.delay() {
            self.spans[Span::Lateness as usize][group].record(delay);
        }
    }

    /// Service times of a group, for breakdowns beside.
    pub fn service(&self, group: Group) -> &Latencies {
        &self.spans[Span::Service as usize][group.index()].latencies
    }

    /// The histograms of a group, each under the name of its rows.
    pub(crate) fn named(&self, group: Group) -> [(&'static str, &Latencies); 3] {
        let of = |span: Span| &self.spans[span as usize][group.index()].latencies;
        [
            ("service_ns", of(Span::Service)),
            ("response_ns", of(Span::Response)),
            ("lateness_ns", of(Span::Lateness)),
        ]
    }

    /// The figures, of spans and groups that occurred.
    pub fn figures(&self) -> Vec<SpanFigures> {
        let mut all = Vec::new();
        for span in Span::ALL {
            let groups = &self.spans[span as usize];
            let mut sum = Histograms::default();
            for group in groups {
                sum.merge(group);
            }
            if sum.latencies.is_empty() {
                continue;
            }
            let of_groups = Group::ALL.into_iter().map(Subset::of).zip(groups);
            for (group, one) in of_groups.chain([(Subset::All, &sum)]) {
                if let Some(percentiles) = Percentiles::of(&one.latencies) {
                    all.push(SpanFigures::of(span, group, one, percentiles));
                }
            }
        }
        all
    }
}

fn by_name<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(span.name())
}

/// A span of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanFigures {
    /// The span, in JSON by its name in tables.
    #[serde(serialize_with = "by_name")]
    pub span: Span,
    /// A group, or all.
    pub group: Subset,
    /// How many were below zero and count as zero: a clock that stepped back.
    pub negative: u64,
    /// Percentiles, right to three digits.
    pub percentiles: Percentiles,
    /// Counts in ten bins per power of ten of nanoseconds.
    pub bins: Bins,
    /// Percentile curve: nines (1 is 90 %, 2 is 99 %) and nanoseconds.
    pub curve: Curve,
}

impl SpanFigures {
    fn of(span: Span, group: Subset, one: &Histograms, percentiles: Percentiles) -> Self {
        let first = one.decimal.iter().position(|count| *count > 0).unwrap_or(0);
        let counts = one.decimal.get(first..).unwrap_or_default().to_vec();
        let edges = (first..=first + counts.len()).map(decimal_edge).collect();
        let quantity = Quantity::new(span.name(), "ns");
        let points = one.latencies.curve();
        Self {
            span,
            group,
            negative: one.latencies.negative(),
            percentiles,
            bins: Bins { name: group.to_string(), quantity: quantity.clone(), edges, counts },
            curve: Curve {
                name: group.to_string(),
                x: Quantity::new("nines", "1"),
                y: quantity,
                points: points.into_iter().map(|(nines, ns)| (nines, ns as f64)).collect(),
            },
        }
    }
}
