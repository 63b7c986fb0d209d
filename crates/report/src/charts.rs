//! Charts of the figures of a load and of a run.
//!
//! Each function here says what one figure looks like: which name it bears, what runs along and up,
//! which colours its parts have, and what a reader has to know. Names are those of blkreplay's
//! `graph.sh` where it has a like picture.

pub mod space;

use ioecho_stats::analysis::kind::ByKind;
use ioecho_trace::Nanos;

use crate::{Chart, Ink, Shape, Stroke};

/// Adds a quantity of reads, of writes and of both to a chart.
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

/// A length of time as a legend says it.
fn span_name(ns: i64) -> String {
    if ns % 1_000_000_000 == 0 {
        format!("{} s", ns / 1_000_000_000)
    } else {
        Nanos(ns).to_string()
    }
}
