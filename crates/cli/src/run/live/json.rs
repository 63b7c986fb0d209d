//! An interval as a line of JSON with all its figures, under the keys of `summary.json`.

use std::collections::BTreeMap;

use ioecho_stats::interval::Interval;
use ioecho_stats::picture::{Kind, Span};
use ioecho_stats::run_summary::{ByKind, LateShare, cause_name};
use ioecho_trace::LateCause;
use serde::Serialize;

/// The version. It changes when a key changes its meaning or is removed.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Line {
    version: u32,
    interval: u64,
    start_ns: i64,
    end_ns: i64,
    epoch_ns: i64,
    partial: bool,
    demanded: Option<u64>,
    requests: u64,
    completed: u64,
    completed_by_kind: BTreeMap<&'static str, u64>,
    failed: u64,
    not_issued: u64,
    dropped: u64,
    pushed_back: u64,
    demanded_per_s: Option<f64>,
    completed_per_s: f64,
    bytes_per_s: f64,
    bytes_read: u64,
    bytes_written: u64,
    in_flight: u32,
    in_flight_mean: f64,
    in_flight_max: u32,
    late: BTreeMap<&'static str, LateShare>,
    service_time: ByKind,
    response_time: ByKind,
    lateness: ByKind,
}

/// The line of an interval, without its end.
pub(crate) fn line(interval: &Interval) -> Result<String, serde_json::Error> {
    let kinds = Kind::ALL.into_iter().map(|kind| (kind.name(), interval.completed_of(kind)));
    let late =
        LateCause::ALL.into_iter().map(|cause| (cause_name(cause), interval.late_for(cause)));
    serde_json::to_string(&Line {
        version: VERSION,
        interval: interval.number,
        start_ns: interval.start.0,
        end_ns: interval.end.0,
        epoch_ns: interval.epoch_ns,
        partial: interval.partial,
        demanded: interval.demanded,
        requests: interval.requests,
        completed: interval.completed(),
        completed_by_kind: kinds.filter(|(_, count)| *count > 0).collect(),
        failed: interval.failed,
        not_issued: interval.not_issued,
        dropped: interval.dropped,
        pushed_back: interval.pushed_back,
        demanded_per_s: interval.demanded_per_s(),
        completed_per_s: interval.completed_per_s(),
        bytes_per_s: interval.bytes_per_s(),
        bytes_read: interval.bytes_read,
        bytes_written: interval.bytes_written,
        in_flight: interval.in_flight,
        in_flight_mean: interval.in_flight_mean(),
        in_flight_max: interval.in_flight_max,
        late: late.filter(|(_, share)| share.requests > 0).collect(),
        service_time: interval.by_kind(Span::Service),
        response_time: interval.by_kind(Span::Response),
        lateness: interval.by_kind(Span::Lateness),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::live::tests::busy;

    #[test]
    fn a_line_has_the_keys_of_the_summary() {
        let text = line(&busy()).unwrap();
        assert!(!text.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["version"], 1);
        assert_eq!((value["interval"].as_u64(), value["demanded"].as_u64()), (Some(3), Some(9)));
        assert_eq!(value["completed_by_kind"]["read"], 2);
        assert_eq!(value["late"]["in-flight-cap"]["requests"], 1);
        assert_eq!(value["service_time"]["write"]["max_ns"], 5_000_000);
        assert_eq!(value["service_time"]["all"]["count"], 3);
    }

    #[test]
    fn what_is_not_known_is_null_or_missing() {
        let value: serde_json::Value =
            serde_json::from_str(&line(&Interval::default()).unwrap()).unwrap();
        assert!(value["demanded"].is_null());
        assert_eq!(value["service_time"], serde_json::json!({}));
    }
}
