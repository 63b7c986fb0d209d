//! Tables of figures that are easier to read than a drawing.

use ioecho_stats::analysis::breakdown::Share;
use ioecho_stats::analysis::slowest::Slow;
use ioecho_stats::run_summary::cause_name;
use ioecho_trace::{Bytes, LateCause, Nanos};

use crate::Listing;
use crate::tables::grouped;

/// Stands for an unknown value.
const NONE: &str = "–";

pub(super) fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn span(ns: Option<i64>) -> String {
    ns.map_or(NONE.to_owned(), |ns| Nanos(ns).to_string())
}

/// The slowest requests and their circumstances.
pub(super) fn slowest(slow: &[Slow], by: &str, volume_name: impl Fn(u32) -> String) -> Listing {
    let row = |(number, slow): (usize, &Slow)| {
        let cause =
            if slow.late_cause == LateCause::None { "" } else { cause_name(slow.late_cause) };
        let lateness = match (slow.lateness_ns, cause) {
            (Some(ns), cause) if !cause.is_empty() => format!("{} ({cause})", Nanos(ns)),
            (ns, _) => span(ns),
        };
        vec![
            (number + 1).to_string(),
            format!("{:.6}", slow.submitted_ns as f64 / 1e9),
            slow.group.name().to_owned(),
            slow.op.name().to_owned(),
            volume_name(slow.volume),
            format!("{} ({})", grouped(slow.offset), Bytes(slow.offset)),
            Bytes(slow.length).to_string(),
            Nanos(slow.service_ns).to_string(),
            Nanos(slow.response_ns).to_string(),
            lateness,
            format!("{} ({} own)", slow.in_flight, slow.in_flight_own),
            slow.waiting.to_string(),
            grouped(slow.due_in_second),
            grouped(slow.completed_in_second),
            slow.pid.map_or(NONE.to_owned(), |pid| pid.to_string()),
        ]
    };
    Listing {
        heading: format!("Slowest requests by {by}"),
        note: "with what was in flight and waiting when they were submitted, and what was due and \
               came back in that second"
            .to_owned(),
        columns: columns(&[
            "",
            "submitted [s]",
            "group",
            "operation",
            "volume",
            "offset",
            "size",
            "service",
            "response",
            "lateness",
            "in flight",
            "waiting",
            "due",
            "came back",
            "process",
        ]),
        rows: slow.iter().enumerate().map(row).collect(),
    }
}

/// The shares of volumes or of processes; empty if there is only one.
pub(super) fn shares(shares: &[Share], heading: &str, what: &str) -> Listing {
    let row = |share: &Share| {
        let name = match share.id {
            None => share.name.clone(),
            Some(id) if share.name.is_empty() => id.to_string(),
            Some(id) => format!("{id} {}", share.name),
        };
        let span = |ns: Option<u64>| span(ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)));
        vec![
            name,
            grouped(share.requests),
            format!("{:.2} %", share.share * 100.0),
            format!("{} ({})", grouped(share.reads.requests), Bytes(share.reads.bytes)),
            format!("{} ({})", grouped(share.writes.requests), Bytes(share.writes.bytes)),
            grouped(share.other),
            grouped(share.failed),
            span(share.service_mean_ns),
            span(share.service_p50_ns),
            span(share.service_p99_ns),
            span(share.service_max_ns),
        ]
    };
    let rows = if shares.len() > 1 { shares.iter().map(row).collect() } else { Vec::new() };
    Listing {
        heading: heading.to_owned(),
        note: String::new(),
        columns: columns(&[
            what,
            "requests",
            "share",
            "reads",
            "writes",
            "other",
            "failed",
            "service mean",
            "50 %",
            "99 %",
            "max",
        ]),
        rows,
    }
}
