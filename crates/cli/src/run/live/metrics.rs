//! The run's counters as OpenMetrics text.
//!
//! A collector adds and subtracts the values that it reads. So it gets values that can be added:
//! counters and histograms of the whole run so far, never rates or percentiles. The text is
//! OpenMetrics 1.0 (prometheus.io/docs/specs/om), which readers of the older Prometheus text
//! understand, too: names end in their unit, counters in `_total`, and the last line is `# EOF`.

use std::fmt::Write as _;

use ioecho_stats::histogram::Latencies;
use ioecho_stats::interval::Interval;
use ioecho_stats::picture::{Kind, Span};
use ioecho_stats::run_summary::cause_name;
use ioecho_trace::{LateCause, Nanos};

use crate::run::live::About;

/// The upper edges of the buckets, in nanoseconds: 1, 2 and 5 of each decade from 1 µs to 100 s.
fn edges() -> impl Iterator<Item = i64> {
    let decades = (3..11).map(|exponent| 10_i64.pow(exponent));
    decades.flat_map(|ten| [ten, 2 * ten, 5 * ten]).chain([100_000_000_000])
}

/// The text of the run so far.
pub(crate) fn text(whole: &Interval, ended: bool, about: &About) -> String {
    let mut text = Text::default();
    text.family("ioecho_run", "info", "", "The run that these figures are of.");
    for target in &about.targets {
        let labels = [("run", about.run.as_str()), ("target", target)];
        text.sample("ioecho_run_info", &labels, 1.0);
    }
    text.gauge("ioecho_running", "", "Whether the run goes on (1) or has ended (0).");
    text.sample("ioecho_running", &[], f64::from(u8::from(!ended)));
    text.gauge("ioecho_replay_time_seconds", "seconds", "How far the replay has come.");
    text.sample("ioecho_replay_time_seconds", &[], whole.end.as_secs_f64());
    text.gauge("ioecho_in_flight_requests", "requests", "Requests in flight on all targets.");
    text.sample("ioecho_in_flight_requests", &[], f64::from(whole.in_flight));
    if let Some(demanded) = whole.demanded {
        text.counter("ioecho_demanded_requests", "requests", "Requests that fell due.");
        text.sample("ioecho_demanded_requests_total", &[], demanded as f64);
    }
    counters(&mut text, whole);
    for (span, name, what) in [
        (Span::Service, "ioecho_service_time_seconds", "Completed - submitted."),
        (Span::Response, "ioecho_response_time_seconds", "Completed - scheduled."),
        (Span::Lateness, "ioecho_lateness_seconds", "Submitted - scheduled."),
    ] {
        text.family(name, "histogram", "seconds", what);
        for kind in told(whole) {
            text.histogram(name, kind.label(), whole.spans(span, kind));
        }
    }
    text.0.push_str("# EOF\n");
    text.0
}

/// The kinds that are told: those of block devices, and what is done to files.
fn told(whole: &Interval) -> impl Iterator<Item = Kind> {
    let is_told = |kind: &Kind| !kind.is_of_files() || whole.completed_of(*kind) > 0;
    Kind::ALL.into_iter().filter(is_told)
}

fn counters(text: &mut Text, whole: &Interval) {
    text.counter("ioecho_requests", "requests", "Requests that completed in full, by kind.");
    for kind in told(whole) {
        let count = whole.completed_of(kind) as f64;
        text.sample("ioecho_requests_total", &[("kind", kind.label())], count);
    }
    text.counter("ioecho_transferred_bytes", "bytes", "Bytes of requests that completed.");
    for (kind, bytes) in [("read", whole.bytes_read), ("write", whole.bytes_written)] {
        text.sample("ioecho_transferred_bytes_total", &[("kind", kind)], bytes as f64);
    }
    for (name, what, count) in [
        ("ioecho_failed_requests", "Requests that did not complete in full.", whole.failed),
        ("ioecho_not_issued_requests", "Requests that were never issued.", whole.not_issued),
        ("ioecho_dropped_requests", "Of those, dropped on conflict.", whole.dropped),
        ("ioecho_pushed_back_requests", "Requests that waited on conflict.", whole.pushed_back),
    ] {
        text.counter(name, "requests", what);
        text.sample(&format!("{name}_total"), &[], count as f64);
    }
    text.counter("ioecho_late_requests", "requests", "Requests issued more than 1 ms late.");
    for cause in LateCause::ALL {
        let count = whole.late_for(cause).requests as f64;
        text.sample("ioecho_late_requests_total", &[("cause", cause_name(cause))], count);
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    fn gauge(&mut self, name: &str, unit: &str, help: &str) {
        self.family(name, "gauge", unit, help);
    }

    fn counter(&mut self, name: &str, unit: &str, help: &str) {
        self.family(name, "counter", unit, help);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn histogram(&mut self, name: &str, kind: &str, spans: &Latencies) {
        if spans.is_empty() {
            return;
        }
        for edge in edges() {
            let le = Nanos(edge).as_secs_f64().to_string();
            let count = spans.count_until(Nanos(edge)) as f64;
            self.sample(&format!("{name}_bucket"), &[("kind", kind), ("le", &le)], count);
        }
        let count = spans.count() as f64;
        self.sample(&format!("{name}_bucket"), &[("kind", kind), ("le", "+Inf")], count);
        self.sample(&format!("{name}_count"), &[("kind", kind)], count);
        self.sample(&format!("{name}_sum"), &[("kind", kind)], spans.sum_seconds());
    }
}

/// A label's value: backslash, quote and line feed are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
