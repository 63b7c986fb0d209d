//! Where runs are watched: a directory, a device, and what both say afterwards.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::loop_device::LoopDevice;

/// Ends a test that this machine cannot make.
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => {
                crate::stand::skipped(&reason);
                return;
            }
        }
    };
}
pub(crate) use or_skip;

/// Says why a test was not made.
pub(crate) fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// A directory for runs, which goes away with them.
pub(crate) struct Stand(TempDir);

impl Stand {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    pub(crate) fn ioecho(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn summary(&self, run: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{run}/summary.json"))).unwrap()
    }

    pub(crate) fn facts(&self, run: &str) -> toml::Table {
        self.text(&format!("{run}/run.toml")).parse().unwrap()
    }

    /// What `ioecho check` says of the run, with limits on counts alone: this host may be busy, and
    /// what it makes late it issues in bursts, in whatever order.
    pub(crate) fn counted(&self, run: &str) -> (Option<i32>, Value) {
        let times = ["issue-p50", "issue-p99", "shift", "duration", "reordered"]
            .map(|name| format!("{name}=none"));
        let mut arguments = vec!["check", run, "--json"];
        for limit in &times {
            arguments.extend(["--limit", limit]);
        }
        self.checked(&arguments)
    }

    /// What `ioecho check` says with these words, as JSON.
    pub(crate) fn checked(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.ioecho(arguments);
        let printed = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        (output.status.code(), printed)
    }
}

/// A directory and a loop device whose requests the kernel lets us see.
pub(crate) fn watched_device() -> Result<(Stand, LoopDevice), String> {
    let (stand, device) = (Stand::new(), LoopDevice::new(64)?);
    let words =
        ["replay", LOAD, "-t", device.path(), "-o", "dry", "--read-only", "--witness", "--dry-run"];
    let tried = stand.ioecho(&words);
    if tried.status.success() { Ok((stand, device)) } else { Err(said(&tried)) }
}

/// Reads and writes of several sizes, slowly enough for any host.
pub(crate) const LOAD: &str = "gen:random?read=60&size=4k:3,16k:1&rate=1000&count=1500&area=32M";

/// What a command said.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
