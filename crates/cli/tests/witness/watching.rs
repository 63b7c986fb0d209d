//! The parts of a test that watches a run: a device whose requests the kernel can record.

use std::process::Output;

use ioecho_fixture::{LoopDevice, can_record};
use serde_json::Value;

use crate::fixture::Fixture;

/// The output of `ioecho check` for the run, with limits on counts alone. This host may be busy,
/// and issues late requests in bursts, in any order.
pub(crate) fn counted(fixture: &Fixture, run: &str) -> (Option<i32>, Value) {
    let times = ["issue-p50", "issue-p99", "shift", "duration", "reordered-apart"]
        .map(|name| format!("{name}=none"));
    let mut arguments = vec!["check", run, "--json"];
    for limit in &times {
        arguments.extend(["--limit", limit]);
    }
    fixture.checked(&arguments)
}

/// A directory and a loop device whose requests the kernel can record.
pub(crate) fn watched_device() -> Result<(Fixture, LoopDevice), String> {
    let (fixture, device) = (Fixture::new(), LoopDevice::new(64 << 20)?);
    let words =
        ["replay", LOAD, "-t", device.path(), "-o", "dry", "--read-only", "--witness", "--dry-run"];
    can_record(&fixture.ioecho(&words))?;
    Ok((fixture, device))
}

/// Reads and writes of several sizes, slowly enough for any host.
pub(crate) const LOAD: &str = "gen:random?read=60&size=4k:3,16k:1&rate=1000&count=1500&area=32M";

/// The output of a command.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
