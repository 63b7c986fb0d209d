//! Charts of the figures of a load and of a run.
//!
//! Each function here describes one figure: its name, its axes, the colours of its layers, and a
//! note for the reader. The names are those of blkreplay's `graph.sh` where it has a similar
//! picture.

mod listing;
pub mod orders;
pub mod space;
pub mod telemetry;
pub mod time;
pub mod witness;

use ioecho_stats::analysis::AnalysisFigures;
use ioecho_stats::analysis::kind::ByKind;
use ioecho_stats::analysis::places::PlaceFigures;
use ioecho_stats::orders::Orders;
use ioecho_stats::picture::Span;
use ioecho_trace::{Header, Nanos};

use crate::{Chart, Ink, Listing, Shape, Spacing, Stroke};

/// The name of a volume of a trace.
pub fn volume_name(header: &Header, id: u32) -> String {
    let known = header.volumes.iter().find(|volume| volume.id.0 == id);
    let name = known.map(|volume| volume.name.as_str()).filter(|name| !name.is_empty());
    name.map_or_else(|| format!("volume {id}"), str::to_owned)
}

/// The names of a trace's volumes, by number.
pub fn volume_names(header: &Header) -> Vec<(u32, String)> {
    header.volumes.iter().map(|volume| (volume.id.0, volume.name.clone())).collect()
}

/// The charts on a page beside the picture of the run: first those over time, then those with axes
/// of their own.
pub fn of(figures: &AnalysisFigures, header: &Header) -> Vec<Chart> {
    let measured = figures.measured > 0;
    let inks = &time::Inks::of(&figures.spans);
    let mut charts =
        of_places(figures, header, |places| space::maps(places, |id| volume_name(header, id)));
    charts.push(space::working_sets(&figures.pages, Spacing::Linear));
    if measured {
        charts.push(time::waiting(&figures.flight, inks));
    }
    charts.extend([
        time::throughput(&figures.throughput, time::Amount::Bytes, false, inks),
        space::turns(&figures.order),
        space::streams(&figures.order),
    ]);
    charts.extend(of_places(figures, header, |places| vec![space::distances(places, false)]));
    charts.extend(time::correlations(&figures.flight.correlations, inks));
    if figures.spans.iter().any(|of| of.span == Span::Service) {
        charts.push(time::bins(&figures.spans, false, inks));
    }
    if measured {
        charts.push(time::bins(&figures.spans, true, inks));
    }
    charts.extend([
        space::sizes(&figures.sizes, inks),
        space::frequencies(&figures.pages),
        space::miss_ratio(&figures.reuse),
        space::intervals(&figures.pages),
        time::dispersion(&figures.arrivals.dispersion),
    ]);
    charts.extend(of_places(figures, header, |places| {
        vec![space::positions(places), space::seeks(&figures.order)]
    }));
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// Every picture that `ioecho plot` writes, in the order of their names, including pictures without
/// figures.
pub fn pictures(figures: &AnalysisFigures, header: &Header, orders: &mut Orders) -> Vec<Chart> {
    use time::Amount::{Bytes, Requests};
    let recorded = figures.measured == 0;
    let inks = &time::Inks::of(&figures.spans);
    let mut charts = vec![
        time::overview(&figures.throughput, Requests),
        time::overview(&figures.throughput, Bytes),
        time::throughput(&figures.throughput, Requests, false, inks),
        time::throughput(&figures.throughput, Bytes, false, inks),
        time::throughput(&figures.throughput, Requests, true, inks),
        time::throughput(&figures.throughput, Bytes, true, inks),
        time::bins(&figures.spans, false, inks),
        time::bins(&figures.spans, true, inks),
        time::in_flight(&figures.flight, false, inks),
        time::in_flight(&figures.flight, true, inks),
        time::waiting(&figures.flight, inks),
        space::working_sets(&figures.pages, Spacing::Logarithmic),
        space::working_sets(&figures.pages, Spacing::Linear),
        space::sizes(&figures.sizes, inks),
        space::turns(&figures.order),
        space::frequencies(&figures.pages),
        space::miss_ratio(&figures.reuse),
        space::intervals(&figures.pages),
        space::streams(&figures.order),
        time::percentiles(&figures.spans, inks),
        time::smoothed(&figures.throughput, inks),
        time::dispersion(&figures.arrivals.dispersion),
    ];
    charts.extend(orders::all(orders, recorded));
    charts.extend(time::correlations(&figures.flight.correlations, inks));
    charts.extend(of_places(figures, header, |places| {
        let mut charts = vec![space::positions(places), space::seeks(&figures.order)];
        charts.extend(space::distances_apart(places));
        charts.extend(space::maps(places, |id| volume_name(header, id)));
        charts
    }));
    charts.sort_by(|a, b| a.name.cmp(&b.name));
    // Windows and recorded figures may reach beyond the end of the load. All pictures of one load
    // end with the load.
    for chart in charts.iter_mut().filter(|chart| chart.is_over_time()) {
        chart.x.to = Some(figures.end_ns as f64);
    }
    charts
}

/// Charts of places, and of distances between them. Recorded files have none: there each name has a
/// number, and the terabytes between two numbers lie nowhere.
fn of_places(
    figures: &AnalysisFigures,
    header: &Header,
    charts: impl FnOnce(&PlaceFigures) -> Vec<Chart>,
) -> Vec<Chart> {
    if header.files.is_some() { Vec::new() } else { charts(&figures.places) }
}

/// Series for readers who look for the cause of a result.
pub fn expert(figures: &AnalysisFigures, header: &Header) -> Vec<Chart> {
    let inks = &time::Inks::of(&figures.spans);
    let mut charts = vec![
        time::smoothed(&figures.throughput, inks),
        time::throughput(&figures.throughput, time::Amount::Requests, false, inks),
        time::throughput(&figures.throughput, time::Amount::Requests, true, inks),
        time::throughput(&figures.throughput, time::Amount::Bytes, true, inks),
        time::in_flight(&figures.flight, false, inks),
        time::in_flight(&figures.flight, true, inks),
    ];
    charts.extend(of_places(figures, header, |places| vec![space::distances(places, true)]));
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// Says which file or directory of a tree lies at a place of a volume, and how far behind its begin
/// the place is; nothing of other volumes.
pub type Files<'f> = &'f dyn Fn(u32, u64) -> Option<(String, u64)>;

/// The tables of a page.
pub fn listings(figures: &AnalysisFigures, header: &Header, files: Files<'_>) -> Vec<Listing> {
    let name = |id| volume_name(header, id);
    let by = if figures.measured > 0 { "service time" } else { "recorded latency" };
    let mut all = vec![
        listing::slowest(&figures.flight.slowest_service, by, name, files),
        listing::slowest(&figures.flight.slowest_response, "response time", name, files),
        listing::shares(&figures.volumes, "Volumes", "volume"),
        listing::shares(&figures.programs, "Processes", "process"),
    ];
    all.extend(space::listings(&figures.reuse, &figures.places, name));
    all.retain(|listing| !listing.rows.is_empty());
    all
}

/// Adds a quantity to a chart, for reads, for writes and for both.
fn by_kind<T>(chart: Chart, of: &ByKind<T>, shape: impl Fn(&T) -> Shape, stroke: Stroke) -> Chart {
    chart
        .with(named(shape(&of.all), "all"), Ink::All, stroke)
        .with(named(shape(&of.reads), "reads"), Ink::Read, stroke)
        .with(named(shape(&of.writes), "writes"), Ink::Write, stroke)
}

/// A shape under another name.
fn named(mut shape: Shape, name: &str) -> Shape {
    let old = match &mut shape {
        Shape::Series(series) => &mut series.name,
        Shape::Bins(bins) => &mut bins.name,
        Shape::Curve(curve) => &mut curve.name,
        Shape::Grid(grid) => &mut grid.name,
    };
    name.clone_into(old);
    shape
}

/// A length of time as a legend shows it.
fn span_name(ns: i64) -> String {
    if ns % 1_000_000_000 == 0 {
        format!("{} s", ns / 1_000_000_000)
    } else {
        Nanos(ns).to_string()
    }
}
