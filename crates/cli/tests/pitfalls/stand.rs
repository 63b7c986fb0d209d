//! Where a pitfall is set up: a directory, targets in it, runs on them, and their verdicts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A directory for targets, traces and runs, which goes away with them.
pub(crate) struct Stand(TempDir);

impl Stand {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program in the directory.
    pub(crate) fn ioecho(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(arguments).current_dir(self.0.path()).output().unwrap()
    }
}

/// The check of this name in the verdict of a run.
pub(crate) fn check(run: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let checks = summary["verdict"]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).cloned().unwrap_or_else(|| {
        panic!("the verdict has no check {name}: {checks:#?}");
    })
}

/// How the check of this name came out: `pass`, `suspect` and so on.
pub(crate) fn grade(run: &Path, name: &str) -> String {
    check(run, name)["grade"].as_str().unwrap().to_owned()
}
