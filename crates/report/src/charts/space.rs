//! The load in space: used pages, their frequencies, distances between requests, and the effect of
//! a cache.

use ioecho_stats::analysis::order::OrderFigures;
use ioecho_stats::analysis::pages::{PageFigures, WorkingSet};
use ioecho_stats::analysis::places::{Distance, Map, PlaceFigures};
use ioecho_stats::analysis::reuse::ReuseFigures;
use ioecho_stats::analysis::shape::{Bins, Grid, Scale, Series};
use ioecho_stats::analysis::sizes::SizeFigures;
use ioecho_stats::analysis::subset::Subset;
use ioecho_trace::{Bytes, Nanos, Op};

use super::listing::columns;
use super::time::Inks;
use super::{by_kind, span_name};
use crate::{Chart, Ink, Shape, Side, Spacing, Stroke};

/// Working sets: how much a load touches in windows of several lengths, and since its start
/// (blkreplay's g30 and g31).
pub fn working_sets(figures: &PageFigures, spacing: Spacing) -> Chart {
    let (name, title) = match spacing {
        Spacing::Logarithmic => ("g30.ws_log", "Working sets, logarithmic"),
        _ => ("g31.ws_lin", "Working sets"),
    };
    let side = Side { spacing, ..Side::linear("distinct pages", "bytes") };
    let page = figures.page_bytes as f64;
    let bytes = |series: &Series, name: String| {
        let values = series.values.iter().map(|value| value.map(|value| value * page)).collect();
        Shape::Series(Series { name, values, ..series.clone() })
    };
    let mut note = sampled(
        "pages of 4 KiB touched in windows that follow each other, and since the start",
        figures.exact,
        figures.relative_error,
    );
    // If a step covers several windows, its mean hides the fullest of them.
    for (set, window) in windows(figures) {
        if set.pages.all.step_ns > window {
            note.push_str(&fullest(set, window));
        }
    }
    let mut chart = Chart::new(name, title, Side::time(), side).note(&note);
    chart = chart.with(
        bytes(&figures.growth.all, "since the start".to_owned()),
        Ink::All,
        Stroke::Peaks,
    );
    for (nth, (WorkingSet { pages, .. }, window)) in windows(figures).enumerate() {
        let joined = pages.all.step_ns / window.max(1);
        let name = match joined {
            0 | 1 => span_name(window),
            _ => format!("{}, mean of {joined}", span_name(window)),
        };
        chart = chart.with(bytes(&pages.all, name), Ink::Nth(nth as u8), Stroke::Steps);
    }
    chart
}

/// All working sets except that of the whole load, with the length of their windows in nanoseconds.
fn windows(figures: &PageFigures) -> impl Iterator<Item = (&WorkingSet, i64)> {
    figures.working_sets.iter().filter_map(|set| Some((set, set.window_ns?)))
}

fn fullest(set: &WorkingSet, window: i64) -> String {
    let least = if set.most_exact { "" } else { "at least " };
    let at = set.most_at_ns.all.map_or(String::new(), |at| format!(" at {}", Nanos(at)));
    format!("; the fullest {} {least}{}{at}", span_name(window), Bytes(set.most_bytes.all))
}

fn sampled(note: &str, exact: bool, error: f64) -> String {
    if exact { note.to_owned() } else { format!("{note}; estimated, ± {:.1} %", error * 100.0) }
}

/// How often pages are accessed, by rank (blkreplay's g44).
pub fn frequencies(figures: &PageFigures) -> Chart {
    let frequency = &figures.frequency.all;
    let quarter = frequency.quantiles.iter().find(|quantile| quantile.share >= 0.25);
    let told = quarter.map_or(String::new(), |quantile| {
        format!(
            "a quarter of the accesses goes to {} pages, {:.3} % of all: kept in a cache, they \
             leave {:.3} times fewer",
            quantile.pages,
            quantile.pages_share * 100.0,
            quantile.speedup
        )
    });
    // A sampled page stands for several pages, but the hottest page stands for itself alone.
    let told = match frequency.relative_error * 100.0 {
        error if error > 0.0 => {
            format!("{told}; of a sample whose accesses are off by {error:.0} %")
        }
        _ => told,
    };
    let mut chart = Chart::new(
        "g44.freq.bins",
        "Accesses of single pages",
        Side::logarithmic("rank of the page", "1"),
        Side::logarithmic("accesses", "1"),
    )
    .note(&told);
    for (kind, ink) in [
        (&figures.frequency.all, Ink::All),
        (&figures.frequency.reads, Ink::Read),
        (&figures.frequency.writes, Ink::Write),
    ] {
        chart = chart.with(Shape::Curve(kind.ranks.clone()), ink, Stroke::Steps);
    }
    chart
}

/// Times between accesses to the same page.
pub fn intervals(figures: &PageFigures) -> Chart {
    let all = &figures.intervals;
    let mut chart = Chart::new(
        "intervals",
        "Time to the next access of the same page",
        side_of(&all.overwrite, "time"),
        Side::logarithmic("accesses", "1"),
    )
    .note("overwrite: from a write to the next write, whatever reads lie between");
    for (nth, (name, bins)) in [
        ("overwrite", &all.overwrite),
        ("read after read", &all.read_after_read),
        ("read after write", &all.read_after_write),
        ("write after read", &all.write_after_read),
        ("write after write", &all.write_after_write),
    ]
    .into_iter()
    .enumerate()
    {
        chart = chart.with(named(bins, name), Ink::Nth(nth as u8), Stroke::Steps);
    }
    chart
}

/// The share of accesses that a cache would miss, by its size.
pub fn miss_ratio(figures: &ReuseFigures) -> Chart {
    let side = Side { from: Some(0.0), to: Some(1.0), ..Side::linear("miss ratio", "1") };
    let note = if figures.exact {
        "one cache of least recently used pages of 4 KiB, exactly".to_owned()
    } else {
        format!(
            "one cache of least recently used pages of 4 KiB; sampled, ± {:.1} %",
            figures.standard_error * 100.0
        )
    };
    let curves = &figures.miss_ratio;
    [(&curves.all, Ink::All), (&curves.reads, Ink::Read), (&curves.writes, Ink::Write)]
        .into_iter()
        .fold(
            Chart::new(
                "missratio",
                "Miss ratio of a cache",
                Side::logarithmic("size of the cache", "bytes"),
                side,
            )
            .note(&note),
            |chart, (curve, ink)| chart.with(Shape::Curve(curve.clone()), ink, Stroke::Steps),
        )
}

/// The distances between the requests of a window: their sums (blkreplay's g32) or means (its g33).
pub fn distances(figures: &PlaceFigures, means: bool) -> Chart {
    let mut chart = distance_chart(
        if means { "g33.avg_dist" } else { "g32.sum_dist" },
        if means { "Mean distances" } else { "Distances" },
        means,
    );
    for (nth, distance) in figures.distances.iter().enumerate() {
        chart = chart.with(distance_layer(distance, means), Ink::Nth(nth as u8), Stroke::Steps);
    }
    chart
}

/// The same, with one chart for each window: `g32.sum_dist.006` and so on.
pub fn distances_apart(figures: &PlaceFigures) -> Vec<Chart> {
    let mut charts = Vec::new();
    for means in [false, true] {
        for distance in &figures.distances {
            let seconds = distance.window_ns / 1_000_000_000;
            let name = if means { "g33.avg_dist" } else { "g32.sum_dist" };
            let what = if means { "Mean distances" } else { "Distances" };
            let title = format!("{what} in windows of {seconds} s");
            charts.push(distance_chart(&format!("{name}.{seconds:03}"), &title, means).with(
                distance_layer(distance, means),
                Ink::Nth(0),
                Stroke::Steps,
            ));
        }
    }
    charts
}

fn distance_chart(name: &str, title: &str, means: bool) -> Chart {
    let what = if means { "distance per request" } else { "distance" };
    let note = if means {
        "highest less lowest offset in a window, divided by its requests"
    } else {
        "highest less lowest offset in a window"
    };
    Chart::new(name, title, Side::time(), Side::logarithmic(what, "bytes")).note(note)
}

fn distance_layer(distance: &Distance, means: bool) -> Shape {
    let series = if means { &distance.mean } else { &distance.sum };
    Shape::Series(Series { name: span_name(distance.window_ns), ..series.clone() })
}

/// The positions of requests (blkreplay's g41).
pub fn positions(figures: &PlaceFigures) -> Chart {
    by_kind(
        Chart::new(
            "g41.rqpos.bins",
            "Positions",
            Side::linear("offset", "bytes"),
            Side::logarithmic("requests", "1"),
        )
        .note("where requests begin; several volumes are laid on top of each other"),
        &figures.positions,
        |bins| Shape::Bins(bins.clone()),
        Stroke::Steps,
    )
}

/// The positions of requests over time, one map for each volume.
pub fn maps(figures: &PlaceFigures, volume_name: impl Fn(u32) -> String) -> Vec<Chart> {
    let several = figures.maps.len() > 1;
    let map = |map: &Map| {
        let (name, title) = match map.volume {
            Some(volume) if several => {
                (format!("map.{volume}"), format!("Offsets of {}", volume_name(volume)))
            }
            _ => ("map".to_owned(), "Offsets".to_owned()),
        };
        let side = Side::linear("offset", "bytes");
        Chart::new(&name, &title, Side::time(), side)
            .note("requests by time and place; darker: more")
            .with(Shape::Grid(over_time(&map.reads, "reads")), Ink::Read, Stroke::Steps)
            .with(Shape::Grid(over_time(&map.writes, "writes")), Ink::Write, Stroke::Steps)
    };
    figures.maps.iter().map(map).collect()
}

/// A map over seconds, converted to nanoseconds, the unit of all charts over time.
fn over_time(grid: &Grid, name: &str) -> Grid {
    let mut grid = grid.clone();
    if let (Scale::Linear { from, step }, "s") = (grid.x.scale, grid.x.quantity.unit.as_str()) {
        grid.x.scale = Scale::Linear { from: from * 1e9, step: step * 1e9 };
    }
    name.clone_into(&mut grid.name);
    grid
}

/// The sizes of requests (blkreplay's g40).
pub fn sizes(figures: &SizeFigures, inks: &Inks) -> Chart {
    let mut chart = Chart::new(
        "g40.rqsize.bins",
        "Request sizes",
        Side::logarithmic("size", "bytes"),
        Side::logarithmic("requests", "1"),
    )
    .note("ten bins for each power of ten of sectors");
    for (nth, of) in figures.operations.iter().enumerate() {
        let ink = match of.op {
            Op::Read => Ink::Read,
            Op::Write => Ink::Write,
            op if op.is_of_files() => inks.ink(Subset::OfFiles(op)),
            _ => Ink::Nth(nth as u8),
        };
        chart = chart.with(named(&of.bins, of.op.name()), ink, Stroke::Steps);
    }
    chart
}

/// The share of requests at a lower position than the one before (blkreplay's g42).
pub fn turns(figures: &OrderFigures) -> Chart {
    by_kind(
        turns_chart("g42.turns.setpoint", "Turns"),
        &figures.turns,
        |turns| percent(&turns.series),
        Stroke::Steps,
    )
}

/// An empty chart for turns.
pub fn turns_chart(name: &str, title: &str) -> Chart {
    let side = Side { from: Some(0.0), to: Some(100.0), ..Side::linear("share of requests", "%") };
    Chart::new(name, title, Side::time(), side)
        .note("requests that begin before their predecessor on the same volume")
}

/// Shares as percentages.
fn percent(series: &Series) -> Shape {
    let values = series.values.iter().map(|value| value.map(|share| share * 100.0)).collect();
    Shape::Series(Series { values, ..series.clone() })
}

/// The distance from one request to the next.
pub fn seeks(figures: &OrderFigures) -> Chart {
    let all = &figures.seeks.all;
    Chart::new(
        "seeks",
        "Distance to the next request",
        side_of(&all.forward, "distance"),
        Side::logarithmic("requests", "1"),
    )
    .note(&format!(
        "from the end of a request to the start of the next; {} begin exactly there",
        all.zero
    ))
    .with(named(&all.forward, "further on"), Ink::Nth(0), Stroke::Steps)
    .with(named(&all.backward, "before"), Ink::Nth(1), Stroke::Steps)
}

/// The number of concurrent sequential streams.
pub fn streams(figures: &OrderFigures) -> Chart {
    by_kind(
        Chart::new(
            "streams",
            "Sequential streams",
            Side::time(),
            Side::linear("streams", "streams"),
        )
        .note("eight requests or more, each beginning where the one before ended"),
        &figures.streams.concurrent,
        |series: &Series| Shape::Series(series.clone()),
        Stroke::Peaks,
    )
}

/// The axis of some bins, by their own unit.
fn side_of(bins: &Bins, name: &str) -> Side {
    let unit = if bins.quantity.unit.is_empty() { "1" } else { &bins.quantity.unit };
    Side::logarithmic(name, unit)
}

/// Bins under a name.
fn named(bins: &Bins, name: &str) -> Shape {
    Shape::Bins(Bins { name: name.to_owned(), ..bins.clone() })
}

/// Tables of a load in space: the effect of caches, and the hottest regions.
pub(super) fn listings(
    reuse: &ReuseFigures,
    places: &PlaceFigures,
    volume_name: impl Fn(u32) -> String,
) -> [crate::Listing; 2] {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let caches = reuse.caches_told().map(|cache| {
        vec![
            Bytes(cache.cache_bytes).to_string(),
            percent(cache.hit_ratio.all),
            percent(cache.hit_ratio.reads),
            percent(cache.hit_ratio.writes),
            format!("{} ({})", Bytes(cache.read_bytes), percent(cache.read_share)),
            format!("{} ({})", Bytes(cache.written_bytes), percent(cache.written_share)),
        ]
    });
    let regions = places.hottest.iter().map(|region| {
        vec![
            format!("{} of {}", Bytes(region.begin_bytes), volume_name(region.volume)),
            percent(region.share),
            region.requests.all.to_string(),
            region.requests.reads.to_string(),
            region.requests.writes.to_string(),
            Bytes(region.bytes.all).to_string(),
        ]
    });
    [
        crate::Listing {
            heading: "What caches would leave".to_owned(),
            note: "least recently used pages of 4 KiB, writes kept back".to_owned(),
            columns: columns(&[
                "cache",
                "hits",
                "of reads",
                "of writes",
                "read through",
                "written back",
            ]),
            rows: caches.collect(),
        },
        crate::Listing {
            heading: "Hottest regions".to_owned(),
            note: format!(
                "of {} each, {} have a request",
                Bytes(places.region_bytes),
                places.regions
            ),
            columns: columns(&["region", "share", "requests", "reads", "writes", "data"]),
            rows: regions.collect(),
        },
    ]
}
