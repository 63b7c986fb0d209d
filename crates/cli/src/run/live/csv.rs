//! A line of figures per interval, for scripts and spreadsheets.
//!
//! The columns are fixed and have their units in their names. New ones are added only at the end.
//! `docs/live.md` describes each. An unknown value is empty, never zero.

use ioecho_stats::interval::{Fault, Interval};
use ioecho_stats::picture::{Kind, Span};
use ioecho_stats::run_summary::Percentiles;

/// The columns before the percentiles.
const COUNTS: [&str; 26] = [
    "interval",
    "start_s",
    "end_s",
    "epoch_s",
    "partial",
    "demanded",
    "requests",
    "completed",
    "failed",
    "not_issued",
    "demanded_per_s",
    "completed_per_s",
    "bytes_per_s",
    "reads",
    "writes",
    "others",
    "bytes_read",
    "bytes_written",
    "in_flight",
    "in_flight_mean",
    "in_flight_max",
    "pushed_back",
    "late",
    "late_device",
    "late_generator",
    "late_host",
];

/// The values with percentiles: the name, the span and the kinds of requests.
const SPANS: [(&str, Span, Option<Kind>); 5] = [
    ("service", Span::Service, None),
    ("response", Span::Response, None),
    ("lateness", Span::Lateness, None),
    ("read_service", Span::Service, Some(Kind::READ)),
    ("write_service", Span::Service, Some(Kind::WRITE)),
];

/// The columns for each of them.
const PERCENTILES: [&str; 6] = ["mean_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"];

/// The line of names.
pub(crate) fn header() -> String {
    let mut names: Vec<String> = COUNTS.iter().map(|&name| name.to_owned()).collect();
    for (span, ..) in SPANS {
        names.extend(PERCENTILES.iter().map(|name| format!("{span}_{name}")));
    }
    names.join(",")
}

/// The line of an interval.
pub(crate) fn line(interval: &Interval) -> String {
    let mut cells = counts(interval);
    for (_, span, kind) in SPANS {
        let percentiles = match kind {
            None => Percentiles::of(&interval.spans_of_all(span)),
            Some(kind) => Percentiles::of(interval.spans(span, kind)),
        };
        let figures = percentiles.map(|p| {
            [Some(p.mean_ns), Some(p.p50_ns), p.p90_ns, p.p99_ns, p.p99_9_ns, Some(p.max_ns)]
                .map(|ns| ns.map_or(String::new(), |ns| ns.to_string()))
        });
        cells.extend(figures.unwrap_or_default());
    }
    cells.join(",")
}

fn counts(interval: &Interval) -> Vec<String> {
    let seconds = |ns: i64| format!("{}.{:09}", ns.div_euclid(SECOND), ns.rem_euclid(SECOND));
    let known = |value: Option<String>| value.unwrap_or_default();
    let completed = interval.completed();
    let (reads, writes) = (interval.completed_of(Kind::READ), interval.completed_of(Kind::WRITE));
    let late_by = |fault| interval.late_by(fault).to_string();
    vec![
        interval.number.to_string(),
        seconds(interval.start.0),
        seconds(interval.end.0),
        format!("{:.3}", interval.epoch_ns as f64 / SECOND as f64),
        u8::from(interval.partial).to_string(),
        known(interval.demanded.map(|demanded| demanded.to_string())),
        interval.requests.to_string(),
        completed.to_string(),
        interval.failed.to_string(),
        interval.not_issued.to_string(),
        known(interval.demanded_per_s().map(|rate| format!("{rate:.3}"))),
        format!("{:.3}", interval.completed_per_s()),
        format!("{:.0}", interval.bytes_per_s()),
        reads.to_string(),
        writes.to_string(),
        (completed - reads - writes).to_string(),
        interval.bytes_read.to_string(),
        interval.bytes_written.to_string(),
        interval.in_flight.to_string(),
        format!("{:.3}", interval.in_flight_mean()),
        interval.in_flight_max.to_string(),
        interval.pushed_back.to_string(),
        interval.late().to_string(),
        late_by(Fault::Device),
        late_by(Fault::Generator),
        late_by(Fault::Host),
    ]
}

/// Nanoseconds.
const SECOND: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::live::tests::busy;

    /// The columns in the documentation.
    const DOCS: &str = include_str!("../../../assets/live.md");

    #[test]
    fn every_line_has_a_cell_for_every_name() {
        let names = header().split(',').count();
        assert_eq!(names, 26 + 5 * 6);
        assert_eq!(line(&busy()).split(',').count(), names);
        assert_eq!(line(&Interval::default()).split(',').count(), names);
    }

    #[test]
    fn cells_stand_under_their_names() {
        let (names, line) = (header(), line(&busy()));
        let cell = |wanted: &str| {
            let at = names.split(',').position(|name| name == wanted).unwrap();
            line.split(',').nth(at).unwrap()
        };
        assert_eq!((cell("interval"), cell("start_s")), ("3", "2.000000000"));
        assert_eq!((cell("end_s"), cell("partial")), ("3.000000000", "0"));
        assert_eq!(cell("epoch_s"), "1700000000.500");
        assert_eq!((cell("demanded"), cell("requests"), cell("completed")), ("9", "4", "3"));
        assert_eq!((cell("reads"), cell("writes"), cell("others")), ("2", "1", "0"));
        assert_eq!((cell("failed"), cell("late"), cell("late_device")), ("1", "1", "1"));
        assert_eq!((cell("bytes_read"), cell("bytes_written")), ("8192", "4096"));
        assert_eq!(
            (cell("read_service_max_ns"), cell("write_service_max_ns")),
            ("200000", "5000000")
        );
        assert_eq!(cell("completed_per_s"), "3.000");
    }

    #[test]
    fn what_is_not_known_is_empty() {
        let empty = line(&Interval::default());
        assert!(empty.ends_with(&",".repeat(30)), "{empty}");
        assert!(!empty.contains("NaN"), "{empty}");
    }

    #[test]
    fn the_documentation_tells_every_column() {
        let told = |name: &str| DOCS.contains(&format!("`{name}`"));
        let names = COUNTS.iter().chain(&PERCENTILES);
        let missing: Vec<_> = names.filter(|name| !told(name)).collect();
        assert!(missing.is_empty(), "docs/live.md does not tell of {missing:?}");
    }
}
