//! Clouds of latencies and delays: blkreplay's g01 to g05, as density.

use std::collections::BTreeMap;

use ioecho_stats::analysis::shape::{Grid, Series};
use ioecho_stats::orders::{Order, Orders};
use ioecho_stats::picture::Class;
use ioecho_trace::Nanos;

use super::space;
use crate::layers;
use crate::{Chart, Ink, Shape, Side, Stroke};

/// The limit above which graph.sh calls a latency bad.
const BAD_LATENCY: Nanos = Nanos::from_secs(5);
/// The limit above which graph.sh calls a delay bad.
const BAD_DELAY: Nanos = Nanos::from_secs(10);

/// Every cloud under its name, and the turns in the order of completions (g43).
pub fn all(orders: &mut Orders, recorded: bool) -> Vec<Chart> {
    let (what, up) = if recorded {
        ("Recorded latency", "recorded latency")
    } else {
        ("Service time", "service time")
    };
    let [latency, delay] = orders.longest();
    let mut charts = Vec::new();
    for (name, order, over) in [
        ("g01.latency.realtime", Order::Realtime, "by instant of submission"),
        ("g02.latency.setpoint", Order::Setpoint, "by scheduled instant"),
        ("g03.latency.completed", Order::Completed, "by instant of completion"),
        ("g03.latency.points", Order::Points, "request by request"),
    ] {
        let chart = cloud(name, &format!("{what} {over}"), order, up, &orders.latency(order));
        charts.push(limited(chart, latency, BAD_LATENCY, "bad latency"));
    }
    for (name, order, over) in [
        ("g04.delay.setpoint", Order::Setpoint, "by scheduled instant"),
        ("g05.delay.points", Order::Points, "request by request"),
    ] {
        let chart =
            cloud(name, &format!("Lateness {over}"), order, "lateness", &orders.delay(order));
        charts.push(limited(chart, delay, BAD_DELAY, "bad delay"));
    }
    let turns = space::turns_chart("g43.turns.completed", "Turns by completion");
    let percent = |series: Series| {
        let values = series.values.iter().map(|value| value.map(|share| share * 100.0)).collect();
        Shape::Series(Series { values, ..series })
    };
    // The sum lies at the bottom, because it would hide its parts.
    let series = orders.turns().into_iter().rev();
    let inks = [Ink::All, Ink::Write, Ink::Read];
    charts.push(
        series
            .zip(inks)
            .fold(turns, |chart, (series, ink)| chart.with(percent(series), ink, Stroke::Steps)),
    );
    charts
}

fn cloud(name: &str, title: &str, order: Order, up: &str, layers: &[(Class, Grid)]) -> Chart {
    let x = if order == Order::Points { Side::linear("request", "1") } else { Side::time() };
    let chart = Chart::new(name, title, x, Side::logarithmic(up, "ns"));
    let grid = |class: &Class| layers.iter().find(|(of, _)| of == class).map(|(_, grid)| grid);
    let requests = |grid: &Grid| grid.cells.iter().map(|(.., count)| count).sum();
    let drawn = layers::layers(|class| grid(&class).map_or(0, requests));
    drawn.into_iter().fold(chart, |chart, layer| {
        let mut grids = layer.classes.iter().filter_map(grid);
        let Some(first) = grids.next() else { return chart };
        let mut whole = grids.fold(first.clone(), summed);
        whole.name = layer.name;
        chart.with(Shape::Grid(whole), layer.ink, Stroke::Steps)
    })
}

/// The sum of two grids over the same sides.
fn summed(mut one: Grid, other: &Grid) -> Grid {
    one.x.cells = one.x.cells.max(other.x.cells);
    let mut cells: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (x, y, count) in one.cells.iter().chain(&other.cells) {
        *cells.entry((*x, *y)).or_default() += count;
    }
    one.cells = cells.into_iter().map(|((x, y), count)| (x, y, count)).collect();
    one
}

/// Marks the limit if any value exceeds it.
fn limited(chart: Chart, longest: Nanos, limit: Nanos, what: &str) -> Chart {
    if longest < limit {
        return chart;
    }
    chart.limit(limit.0 as f64, &format!("{what}: {limit}"))
}
