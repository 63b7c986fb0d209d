//! A place to provoke pitfalls: a directory, targets in it, runs on them, and their verdicts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A directory for targets, traces and runs, which is removed at the end.
pub(crate) struct Fixture(TempDir);

impl Fixture {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program in the directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Runs the program in the directory.
    pub(crate) fn ioecho(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The text of a file in it.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// A run's `summary.json`.
    pub(crate) fn summary(&self, run: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{run}/summary.json"))).unwrap()
    }

    /// A run's `run.toml`.
    pub(crate) fn facts(&self, run: &str) -> toml::Table {
        self.text(&format!("{run}/run.toml")).parse().unwrap()
    }

    /// The JSON output of `ioecho check` with these arguments.
    pub(crate) fn checked(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.ioecho(arguments);
        let printed = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), printed)
    }
}

/// The check of this name in the verdict of a run.
pub(crate) fn check(run: &Path, name: &str) -> Value {
    let text = fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let checks = summary["verdict"]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).cloned().unwrap_or_else(|| {
        panic!("the verdict has no check {name}: {checks:#?}");
    })
}

/// The grade of the check of this name: `pass`, `suspect` and so on.
pub(crate) fn grade(run: &Path, name: &str) -> String {
    check(run, name)["grade"].as_str().unwrap().to_owned()
}
