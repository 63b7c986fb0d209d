//! The load over time: demanded and achieved throughput, requests in flight, latencies, and
//! correlations between them.

use ioecho_stats::analysis::correlation::{Correlation, CorrelationFigures};
use ioecho_stats::analysis::flight::FlightFigures;
use ioecho_stats::analysis::seconds::ThroughputFigures;
use ioecho_stats::analysis::shape::Curve;
use ioecho_stats::analysis::spans::SpanFigures;
use ioecho_stats::analysis::subset::{SeriesOf, Subset};
use ioecho_stats::picture::{Class, Span};

use super::{named, span_name};
use crate::layers;
use crate::{Chart, Ink, Shape, Side, Spacing, Stroke};

/// The unit in which throughput is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Requests per second.
    Requests,
    /// Bytes per second. (graph.sh: sectors per second.)
    Bytes,
}

/// The colours of groups of requests: those that they have in the sonar diagram.
pub struct Inks(Vec<layers::Layer>);

impl Inks {
    /// The colours in charts of a load with these figures.
    pub fn of(figures: &[SpanFigures]) -> Self {
        let service = |of: &&SpanFigures| of.span == Span::Service;
        let count = |class| {
            let Class::OfFiles(op) = class else { return 0 };
            let mut its = figures.iter().filter(service);
            its.find(|of| of.group == Subset::OfFiles(op)).map_or(0, |of| of.percentiles.count)
        };
        Self(layers::layers(count))
    }

    /// The colour of a group.
    pub(super) fn ink(&self, group: Subset) -> Ink {
        match group {
            Subset::Reads => Ink::Read,
            Subset::Writes => Ink::Write,
            Subset::PushedBack | Subset::PushedReads | Subset::PushedWrites => Ink::PushedBack,
            Subset::All => Ink::All,
            Subset::Other => Ink::Other,
            Subset::OfFiles(op) => {
                let mut layers = self.0.iter();
                let its = layers.find(|layer| layer.classes.contains(&Class::OfFiles(op)));
                its.map_or(Ink::Other, |layer| layer.ink)
            }
        }
    }
}

/// The stroke of a group of requests. Both groups of pushed-back requests have the same colour, so
/// their strokes differ.
fn told_apart(group: Subset, stroke: Stroke) -> Stroke {
    let is_dashed = group == Subset::PushedWrites && stroke == Stroke::Steps;
    if is_dashed { Stroke::Dashed } else { stroke }
}

/// Demanded and achieved throughput (blkreplay's `g000.overview`).
pub fn overview(figures: &ThroughputFigures, amount: Amount) -> Chart {
    let (name, demanded, achieved) = match amount {
        Amount::Requests => {
            ("g000.overview.thrp", &figures.demanded_requests, &figures.achieved_requests)
        }
        Amount::Bytes => ("g000.overview.thrs", &figures.demanded_bytes, &figures.achieved_bytes),
    };
    let all = |series: &[SeriesOf], name: &str| {
        let all = series.iter().find(|series| series.of == Subset::All).cloned();
        named(Shape::Series(all.unwrap_or_default().series), name)
    };
    Chart::new(name, "Throughput, demanded and achieved", Side::time(), rate(amount))
        .note(&windows(figures))
        .with(all(demanded, "demanded"), Ink::All, Stroke::Steps)
        // If both are equal, the demand still shows between the dashes.
        .with(all(achieved, "achieved"), Ink::Achieved, Stroke::Dashed)
}

/// Throughput by kind, as demanded (`completed` false) or as achieved (blkreplay's `g00`).
pub fn throughput(
    figures: &ThroughputFigures,
    amount: Amount,
    completed: bool,
    inks: &Inks,
) -> Chart {
    let (name, series) = match (amount, completed) {
        (Amount::Requests, false) => ("g00.thrp.setpoint", &figures.demanded_requests),
        (Amount::Requests, true) => ("g00.thrp.completed", &figures.achieved_requests),
        (Amount::Bytes, false) => ("g00.thrs.setpoint", &figures.demanded_bytes),
        (Amount::Bytes, true) => ("g00.thrs.completed", &figures.achieved_bytes),
    };
    let title =
        if completed { "Throughput achieved, by kind" } else { "Throughput demanded, by kind" };
    of_groups(
        Chart::new(name, title, Side::time(), rate(amount)).note(&windows(figures)),
        series,
        Stroke::Steps,
        inks,
    )
}

fn rate(amount: Amount) -> Side {
    match amount {
        Amount::Requests => Side::linear("requests/s", "requests/s"),
        Amount::Bytes => Side::linear("data", "bytes/s"),
    }
}

fn windows(figures: &ThroughputFigures) -> String {
    format!("in windows of {}", span_name(figures.window_ns))
}

fn of_groups(chart: Chart, series: &[SeriesOf], stroke: Stroke, inks: &Inks) -> Chart {
    let (all, parts): (Vec<_>, Vec<_>) = series.iter().partition(|one| one.of == Subset::All);
    // The sum lies at the bottom, because it would hide its parts.
    all.into_iter().chain(parts).fold(chart, |chart, one| {
        chart.with(Shape::Series(one.series.clone()), inks.ink(one.of), told_apart(one.of, stroke))
    })
}

/// The most requests in flight (blkreplay's g08); `smooth`: their mean, weighted by time.
pub fn in_flight(figures: &FlightFigures, smooth: bool, inks: &Inks) -> Chart {
    let side = Side::logarithmic("requests in flight", "requests");
    if smooth {
        let chart = Chart::new("g08.smooth.latency.flying", "In flight, mean", Side::time(), side)
            .note("submitted, not yet completed; weighted by time");
        let chart = of_groups(chart, &figures.in_flight, Stroke::Steps, inks);
        return match &figures.recorded {
            Some(recorded) => {
                let shape = named(Shape::Series(recorded.clone()), "as recorded");
                chart.with(shape, Ink::Recorded, Stroke::Dashed)
            }
            None => chart,
        };
    }
    let chart = Chart::new("g08.latency.flying", "In flight, most", Side::time(), side)
        .note("submitted, not yet completed; the most on one volume");
    of_groups(chart, &figures.in_flight_most, Stroke::Peaks, inks)
}

/// Requests that were due and not yet submitted (blkreplay's g09).
pub fn waiting(figures: &FlightFigures, inks: &Inks) -> Chart {
    let side = Side::logarithmic("requests waiting", "requests");
    let chart = Chart::new("g09.delay.flying", "Waiting to be submitted", Side::time(), side)
        .note("due, not yet submitted; means are weighted by time");
    let chart = match &figures.waiting_most {
        Some(most) => {
            chart.with(named(Shape::Series(most.clone()), "most"), Ink::Pale, Stroke::Peaks)
        }
        None => chart,
    };
    of_groups(chart, &figures.waiting, Stroke::Steps, inks)
}

/// How many requests had which latency (blkreplay's g06) or lateness (its g07).
pub fn bins(figures: &[SpanFigures], lateness: bool, inks: &Inks) -> Chart {
    let (name, title, span) = if lateness {
        ("g07.delay.bins", "Lateness", Span::Lateness)
    } else {
        ("g06.latency.bins", "Service times", Span::Service)
    };
    let (along, up) = (Side::logarithmic(span.name(), "ns"), Side::logarithmic("requests", "1"));
    let chart = Chart::new(name, title, along, up).note("ten bins for each power of ten");
    let of_span = figures.iter().filter(|figures| figures.span == span);
    let (all, parts): (Vec<_>, Vec<_>) = of_span.partition(|one| one.group == Subset::All);
    // The sum lies at the bottom, because it would hide its parts.
    all.into_iter().chain(parts).fold(chart, |chart, one| {
        chart.with(
            Shape::Bins(one.bins.clone()),
            inks.ink(one.group),
            told_apart(one.group, Stroke::Steps),
        )
    })
}

/// Percentile curves of service time and, dashed, of response time.
pub fn percentiles(figures: &[SpanFigures], inks: &Inks) -> Chart {
    let mut chart = Chart::new(
        "percentiles",
        "Percentiles of service time and response time",
        Side::nines("share of requests that took no longer"),
        Side::logarithmic("time", "ns"),
    );
    for (span, stroke) in [(Span::Service, Stroke::Line), (Span::Response, Stroke::Dashed)] {
        for of in figures.iter().filter(|of| of.span == span && of.group != Subset::All) {
            let held = |(nines, ns): &(f64, f64)| (*nines, ns.max(100.0));
            let points = of.curve.points.iter().map(held).collect();
            let name = format!("{}, {}", of.group, span.name());
            let curve = Curve { name, points, ..of.curve.clone() };
            chart = chart.with(Shape::Curve(curve), inks.ink(of.group), stroke);
        }
    }
    chart
}

/// Mean and longest service time, second by second.
pub fn smoothed(figures: &ThroughputFigures, inks: &Inks) -> Chart {
    let side = Side::logarithmic("service time", "ns");
    let mut chart =
        Chart::new("latency.smooth", "Service time, mean and longest", Side::time(), side)
            .note(&windows(figures));
    for one in figures.smoothed.iter().filter(|one| one.span == Span::Service) {
        let (word, stroke) =
            if one.is_longest { ("longest", Stroke::Peaks) } else { ("mean", Stroke::Dashed) };
        let shape = named(Shape::Series(one.series.clone()), &format!("{}, {word}", one.of));
        chart = chart.with(shape, inks.ink(one.of), stroke);
    }
    chart
}

/// The correlations on the page and in `plot`, each with the name of its picture and the title.
const CORRELATIONS: [(Correlation, &str, &str); 5] = [
    (Correlation::LatencyInFlight, "latency.flight", "Service time over all in flight"),
    (
        Correlation::LatencyInFlightOwn,
        "g10.latency.xy",
        "Service time over what is in flight of its kind",
    ),
    (Correlation::DelayInFlight, "g11.delay.xy", "Lateness over what is in flight"),
    (Correlation::LatencyDelay, "g12.latency.delay.xy", "Service time over lateness"),
    (Correlation::SizeLatency, "size.latency", "Service time over size"),
];

/// Correlations as density (blkreplay's g10 to g12, and size with latency).
pub fn correlations(figures: &[CorrelationFigures], inks: &Inks) -> Vec<Chart> {
    let chart = |(key, name, title): &(Correlation, &str, &str)| {
        let of = || figures.iter().filter(|figures| figures.name == *key);
        let first = of().next()?;
        let side = |axis: &ioecho_stats::analysis::shape::Axis| {
            Side::logarithmic(&axis.quantity.name, &axis.quantity.unit)
        };
        let all = of().find(|of| of.group == Subset::All).and_then(|of| of.spearman);
        let note = all.map_or(String::new(), |rank| format!("rank correlation {rank:.2}"));
        let chart = Chart::new(name, title, side(&first.grid.x), side(&first.grid.y)).note(&note);
        Some(of().filter(|of| of.group != Subset::All).fold(chart, |chart, of| {
            chart.with(Shape::Grid(of.grid.clone()), inks.ink(of.group), Stroke::Steps)
        }))
    };
    CORRELATIONS.iter().filter_map(chart).collect()
}

/// Burstiness: the index of dispersion, by the length of its spans.
pub fn dispersion(curve: &Curve) -> Chart {
    let unit = if curve.x.unit.is_empty() { "ns" } else { &curve.x.unit };
    let x = Side { spacing: Spacing::Logarithmic, ..Side::linear("length of the spans", unit) };
    Chart::new("dispersion", "Burstiness", x, Side::logarithmic("index of dispersion", "1"))
        .note("variance over mean of the requests in spans; 1: independent arrivals")
        .with(named(Shape::Curve(curve.clone()), "all"), Ink::All, Stroke::Line)
}
