//! The load in space of real recordings, against an independent computation in Python.
//!
//! The Python (`crates/cli/tests/analysis/space.py`) follows the definitions and is slow; every key
//! that it prints has to be among the figures, with the same value but for rounding.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use ioecho_fixture::recording;
use ioecho_stats::analysis::Summary;
use ioecho_stats::analysis::order::Order;
use ioecho_stats::analysis::pages::Pages;
use ioecho_stats::analysis::places::Places;
use ioecho_stats::analysis::reuse::Reuse;
use ioecho_stats::analysis::sizes::Sizes;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Columns, Request};
use serde_json::{Value, json};

fn requests(path: &Path) -> Vec<Request> {
    let mut source = formats::open(path, &ReadOptions::default()).unwrap();
    let mut batch = Batch::new(Columns::default());
    let mut requests = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        requests.extend(batch.iter());
    }
    requests
}

/// Every summary of the load in space.
#[derive(Clone, Default)]
struct Space {
    pages: Pages,
    reuse: Reuse,
    places: Places,
    order: Order,
    sizes: Sizes,
}

impl Space {
    fn of(requests: &[Request]) -> Self {
        let mut space = Self::default();
        for request in requests {
            space.observe(request);
        }
        space
    }

    fn figures(&self) -> Value {
        json!({
            "pages": self.pages.figures(),
            "reuse": self.reuse.figures(),
            "places": self.places.figures(),
            "order": self.order.figures(),
            "sizes": self.sizes.figures(),
        })
    }
}

impl Summary for Space {
    fn observe(&mut self, request: &Request) {
        self.pages.observe(request);
        self.reuse.observe(request);
        self.places.observe(request);
        self.order.observe(request);
        self.sizes.observe(request);
    }

    fn merge(&mut self, later: &Self) {
        self.pages.merge(&later.pages);
        self.reuse.merge(&later.reuse);
        self.places.merge(&later.places);
        self.order.merge(&later.order);
        self.sizes.merge(&later.sizes);
    }
}

/// How many values were compared; panics at the first that differs.
fn compare(place: &str, expected: &Value, found: &Value) -> usize {
    match (expected, found) {
        (Value::Object(expected), found) => {
            let each = expected.iter().map(|(key, expected)| {
                if key == "points_among" {
                    return compare_points(place, expected, &found["points"]);
                }
                let found = found.get(key).unwrap_or_else(|| panic!("{place} has no {key}"));
                compare(&format!("{place}.{key}"), expected, found)
            });
            each.sum()
        }
        (Value::Array(expected), Value::Array(found)) => {
            assert_eq!(expected.len(), found.len(), "length of {place}");
            let pairs = expected.iter().zip(found).enumerate();
            pairs.map(|(at, (e, f))| compare(&format!("{place}[{at}]"), e, f)).sum()
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{place}: {b} instead of {a}");
            1
        }
        _ => {
            assert_eq!(expected, found, "{place}");
            1
        }
    }
}

/// Compares points with those of a curve that has others too.
fn compare_points(place: &str, expected: &Value, found: &Value) -> usize {
    let found = found.as_array().unwrap();
    let mut compared = 0;
    for point in expected.as_array().unwrap() {
        if let Some(same) = found.iter().find(|found| found[0].as_f64() == point[0].as_f64()) {
            compared += compare(place, point, same);
        }
    }
    assert!(compared > 4, "{place} shares hardly a point with what was expected");
    compared
}

fn agrees(name: &str) {
    let Some(path) = recording(name) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/analysis/space.py");
    let Ok(output) = Command::new("python3").arg(script).arg(&path).output() else {
        ioecho_fixture::skipped("there is no python3 here");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: Value = serde_json::from_slice(&output.stdout).unwrap();

    let requests = requests(&path);
    let whole = Space::of(&requests).figures();
    assert!(compare(name, &expected, &whole) > 10_000);

    // A real load has what the properties' made-up ones may lack.
    let cut = requests.len() / 3;
    let mut merged = Space::of(&requests[..cut]);
    merged.merge(&Space::of(&requests[cut..]));
    assert!(merged.figures() == whole, "{name}: cut at {cut} and merged it is another load");
}

#[test]
fn a_database_under_linux_is_as_python_counts_it() {
    agrees("linux-mysql.load.gz");
}

#[test]
fn a_database_under_windows_is_as_python_counts_it() {
    agrees("windows-mssql.load.gz");
}
