//! Tables of figures that are easier to read than a drawing.

use ioecho_stats::analysis::breakdown::Share;
use ioecho_stats::analysis::slowest::Slow;
use ioecho_stats::run_summary::cause_name;
use ioecho_trace::{Bytes, LateCause, Nanos, Op};

use super::Files;
use crate::Listing;
use crate::tables::grouped;

/// The longest name of a volume, in characters.
const NAME_MAX: usize = 32;

/// Stands for an unknown value.
const NONE: &str = "–";

pub(super) fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn span(ns: Option<i64>) -> String {
    ns.map_or(NONE.to_owned(), |ns| Nanos(ns).to_string())
}

/// Where a request began: in a file, if it is one of a tree.
fn place(slow: &Slow, files: Files<'_>) -> String {
    let at = |offset: u64| format!("{} ({})", grouped(offset), Bytes(offset));
    match files(slow.volume, slow.offset) {
        // What concerns a name has no place within.
        Some((path, 0)) if !matches!(slow.op, Op::Read | Op::Write) => path,
        Some((path, within)) => format!("{path} at {}", at(within)),
        None => at(slow.offset),
    }
}

/// A name that leaves room for the columns behind it: without its settings, and of a long path its
/// end.
fn short(name: &str) -> String {
    let name = name.split_once('?').map_or(name, |(name, _)| name);
    let more = name.chars().count().saturating_sub(NAME_MAX);
    if more == 0 {
        return name.to_owned();
    }
    format!("…{}", name.chars().skip(more + 1).collect::<String>())
}

/// The slowest requests and their circumstances.
pub(super) fn slowest(
    slow: &[Slow],
    by: &str,
    volume_name: impl Fn(u32) -> String,
    files: Files<'_>,
) -> Listing {
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
            short(&volume_name(slow.volume)),
            place(slow, files),
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

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_stats::analysis::Group;

    fn slow(op: Op, offset: u64) -> Slow {
        Slow {
            scheduled_ns: 0,
            submitted_ns: 0,
            completed_ns: Some(1),
            service_ns: 1,
            response_ns: 1,
            lateness_ns: None,
            late_cause: LateCause::None,
            op,
            group: Group::of(op, false),
            volume: 0,
            offset,
            length: 0,
            pid: None,
            in_flight: 1,
            in_flight_own: 1,
            waiting: 0,
            due_in_second: 0,
            completed_in_second: 0,
        }
    }

    #[test]
    fn slow_calls_on_files_name_file_offset_and_operation_and_no_name_takes_the_room_of_others() {
        let all = [slow(Op::Read, 8192 + 512), slow(Op::Getattr, 8192), slow(Op::Flush, 4096)];
        let name = |_| "sim:tree?depth=3&width=7&files=100&size=64k:50,128k:50".to_owned();
        let files = |_: u32, place: u64| (place >= 8192).then(|| ("d/f2".to_owned(), place - 8192));
        let listing = slowest(&all, "service time", name, &files);
        let column = |at: usize| listing.rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
        assert_eq!(column(2), ["reads", "getattr", "other"]);
        assert_eq!(column(4), ["sim:tree"; 3]);
        assert_eq!(column(5), ["d/f2 at 512 (512 B)", "d/f2", "4\u{202f}096 (4.00 KiB)"]);
        let long = short(&format!("/mnt/{}/end", "x".repeat(60)));
        assert!(long.chars().count() <= NAME_MAX && long.ends_with("x/end"), "{long}");
    }
}
