//! The figures of several targets, side by side: a load on four disks is as slow as the slowest.

use ioecho_stats::run_summary::{Percentiles, TargetFigures};
use ioecho_trace::{Bytes, Nanos};

use crate::tables::grouped;

/// The columns after the target's name.
pub(crate) const HEADINGS: [&str; 11] = [
    "requests",
    "issued",
    "failed",
    "damaged",
    "late",
    "read",
    "written",
    "service 50 %",
    "service 99 %",
    "service max",
    "lateness 99 %",
];

/// The row of a target.
pub(crate) struct TargetView<'a> {
    pub(crate) name: &'a str,
    pub(crate) cells: [String; HEADINGS.len()],
}

/// A row per target; empty if there is only one, because then the whole page is about it.
pub(crate) fn rows(targets: &[(String, TargetFigures)]) -> Vec<TargetView<'_>> {
    if targets.len() < 2 {
        return Vec::new();
    }
    targets.iter().map(|(name, figures)| row(name, figures)).collect()
}

fn row<'a>(name: &'a str, figures: &TargetFigures) -> TargetView<'a> {
    let span = |percentiles: &Option<Percentiles>, of: fn(&Percentiles) -> Option<u64>| {
        let ns = percentiles.as_ref().and_then(of);
        ns.map_or("–".to_owned(), |ns| Nanos(ns as i64).to_string())
    };
    let cells = [
        grouped(figures.requests),
        grouped(figures.issued),
        grouped(figures.failed),
        grouped(figures.damaged),
        grouped(figures.late),
        Bytes(figures.bytes_read).to_string(),
        Bytes(figures.bytes_written).to_string(),
        span(&figures.service_time, |all| Some(all.p50_ns)),
        span(&figures.service_time, |all| all.p99_ns),
        span(&figures.service_time, |all| Some(all.max_ns)),
        span(&figures.lateness, |all| all.p99_ns),
    ];
    TargetView { name, cells }
}
