//! A run that is three hours late has percentiles like any other run. The summary, the page, the
//! picture, the analysis and the comparison show the same ones, which agree with a recount of its
//! requests.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Columns, Measured, Nanos, Op, Request};
use serde_json::Value;

/// Eleven hundred requests within eleven seconds, and a device that takes twelve seconds for each.
const LOAD: &str = "gen:random?read=50&size=4k&rate=100&dist=poisson&duration=11s&area=16M";
const SIM: &str = "sim:size=16M,service=12s,units=1";

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999)];

/// How far an output of three digits may differ from the exact figure, and how far one of 1/128.
const THREE_DIGITS: f64 = 1.0 / 1024.0;
const COARSE: f64 = 1.0 / 128.0;

/// The exit code of a run whose verdict is that it is suspect.
const SUSPECT: i32 = 10;

fn ioecho(directory: &Path, code: i32, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    let output = command.args(arguments).current_dir(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    output.stdout
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    serde_json::from_slice(&ioecho(directory, 0, arguments)).unwrap()
}

/// One span of all requests of the run, sorted by length.
struct Recount(Vec<i64>);

impl Recount {
    fn of(run: &Path, span: impl Fn(&Request, &Measured) -> Option<Nanos>) -> Self {
        let path = run.join("requests.parquet");
        let mut source = formats::open(&path, &ReadOptions::default()).unwrap();
        let mut batch = Batch::new(Columns::default());
        let mut spans = Vec::new();
        while source.next_batch(&mut batch).unwrap() {
            let one = |request: Request| span(&request, request.measured.as_ref().unwrap());
            spans.extend(batch.iter().filter_map(one).map(|span| span.0));
        }
        spans.sort_unstable();
        Self(spans)
    }

    /// The span that a share of all requests does not exceed.
    fn at(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0[rank - 1] as f64
    }

    fn is_hours(&self) -> bool {
        self.at(0.5) > 3_600e9 && self.at(0.9) > 2.0 * 3_600e9 && self.at(0.999) > 3.0 * 3_600e9
    }

    #[track_caller]
    fn agrees(&self, share: f64, told_ns: f64, within: f64) {
        let exact = self.at(share);
        let apart = (told_ns - exact).abs() / exact;
        assert!(apart <= within, "{share}: {told_ns} ns for {exact} ns");
    }
}

/// The figures in a page, which its scripts read.
fn carried(page: &str) -> Value {
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

/// The value of each dashed curve in the picture of percentiles at 90 %, in nanoseconds. The dashed
/// curves are those of response time. They come in the order of the legend.
fn drawn_at_90_percent(svg: &str) -> Vec<f64> {
    let label = |text: &str| -> [f64; 2] {
        let before = svg.split(&format!(">{text}</text>")).next().unwrap();
        let tag = before.rsplit("<text").next().unwrap();
        ["x", "y"].map(|name| number(tag.split(&format!(" {name}=\"")).nth(1).unwrap()))
    };
    let [at, _] = label("90 %");
    let (low, high) = (label("1 s")[1] - LABEL_BELOW, label("10000 s")[1] - LABEL_BELOW);
    let paths = svg.split("<path d=\"").skip(1).filter(|path| path.contains("stroke-dasharray"));
    let curves = paths.map(|path| path.split('"').next().unwrap()).filter(|d| d.contains('L'));
    let heights = curves.map(|curve| {
        let points = curve.trim_start_matches('M').split('L').map(|point| {
            let (x, y) = point.split_once(' ').unwrap();
            (number(x), number(y))
        });
        points.min_by(|a, b| (a.0 - at).abs().total_cmp(&(b.0 - at).abs())).unwrap().1
    });
    heights.map(|y| 1e9 * 10_f64.powf(4.0 * (y - low) / (high - low))).collect()
}

/// How far the foot of a label stands below its mark, in units of the picture.
const LABEL_BELOW: f64 = 4.5;

/// The number at the beginning of a text.
fn number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().unwrap()
}

#[test]
fn whatever_tells_of_a_run_that_is_three_hours_late_tells_the_same() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    // With at most one request in flight, requests wait for their place. With all in flight, they
    // wait in the device.
    ioecho(home, SUSPECT, &["replay", LOAD, "-t", SIM, "--in-flight-max", "1", "-o", "late"]);
    ioecho(home, SUSPECT, &["replay", LOAD, "-t", SIM, "-o", "queued"]);
    let run = home.join("late");
    let lateness = Recount::of(&run, |_, measured| measured.lateness());
    let responses = Recount::of(&run, |_, measured| measured.response_time());
    let of_queued = Recount::of(&home.join("queued"), |_, measured| measured.response_time());
    assert!(lateness.is_hours() && responses.is_hours() && of_queued.is_hours());

    let summary: Value =
        serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    let analysis = json(home, &["analyze", "late", "--json"]);
    let of_span = |name: &str| -> Value {
        let spans = analysis["spans"].as_array().unwrap();
        let meant = |span: &&Value| span["span"] == name && span["group"] == "all";
        spans.iter().find(meant).unwrap()["percentiles"].clone()
    };
    for (exact, told) in [
        (&lateness, &summary["lateness"]["all"]),
        (&responses, &summary["response_time"]["all"]),
        (&lateness, &of_span("lateness")),
        (&responses, &of_span("response time")),
    ] {
        for (name, share) in SHARES {
            // With fewer than ten requests beyond it, a percentile is not told.
            let is_known = share < 0.6 || (1.0 - share) * exact.0.len() as f64 > 9.999;
            let told = told[format!("{name}_ns")].as_f64();
            assert_eq!(told.is_some(), is_known, "{name}");
            if let Some(ns) = told {
                exact.agrees(share, ns, THREE_DIGITS);
            }
        }
    }

    let page = fs::read_to_string(run.join("report.html")).unwrap();
    let figures = carried(&page);
    lateness.agrees(0.5, figures["exact"]["lateness"]["p50"].as_f64().unwrap(), THREE_DIGITS);
    lateness.agrees(0.99, figures["exact"]["lateness"]["p99"].as_f64().unwrap(), THREE_DIGITS);
    // Medians over time are the upper edges of rows of the raster, which are 10 % high.
    let panels = &figures["panels"];
    let bucket = Nanos(panels["width_ns"].as_i64().unwrap());
    let in_first = |_: &Request, measured: &Measured| {
        measured.lateness().filter(|_| measured.scheduled < bucket)
    };
    Recount::of(&run, in_first).agrees(0.5, panels["lateness_p50_ns"][0].as_f64().unwrap(), 0.11);

    ioecho(home, 0, &["plot", "late", "--only", "percentiles", "--to", "svg", "-o", "drawn"]);
    let svg = fs::read_to_string(home.join("drawn/late.percentiles.svg")).unwrap();
    let drawn = drawn_at_90_percent(&svg);
    assert_eq!(drawn.len(), 2);
    for (op, ns) in [Op::Read, Op::Write].into_iter().zip(drawn) {
        // A tenth of a unit of the picture is 0.3 % of a time.
        let of_kind = |request: &Request, measured: &Measured| {
            measured.response_time().filter(|_| request.op == op)
        };
        Recount::of(&run, of_kind).agrees(0.9, ns, 0.005);
    }

    let compared = json(home, &["compare", "late", "queued", "--json"]);
    let rows = compared["pairs"][0]["rows"].as_array().unwrap();
    for (metric, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let meant = |row: &&Value| {
            row["span"] == "response" && row["kind"] == "all" && row["metric"] == metric
        };
        let row = rows.iter().find(meant).unwrap();
        responses.agrees(share, row["baseline"].as_f64().unwrap(), COARSE);
        of_queued.agrees(share, row["other"].as_f64().unwrap(), COARSE);
    }
}
