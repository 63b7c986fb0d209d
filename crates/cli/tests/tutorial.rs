//! The tutorial's commands run as they stand there, and its figures are those that come out.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn every_command_of_the_tutorial_runs_and_its_figures_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/tutorial.md")).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    // Those for real devices are not for this machine.
    let commands: String = blocks.filter(|block| !block.contains("/dev/")).collect();
    let home = tempfile::tempdir().unwrap();
    symlink(root.join("examples").canonicalize().unwrap(), home.path().join("examples")).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_ioecho")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), env::var("PATH").unwrap());
    // A box that is too slow ends a run with 10, which is what the tutorial is about.
    let script = format!("set -o pipefail\n{commands}");
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("PATH", path)
        .current_dir(home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!complained.contains("error:"), "{said}{complained}");
    let verdicts = |word: &str| said.matches(word).count();
    assert_eq!(verdicts("[faithful, VALID]"), 3 + 3 + 2, "{said}");
    assert_eq!(verdicts("[device-limited, VALID]"), 4, "{said}");
    let row = |name: &str| {
        let responses = said.split("response time, all").nth(1).unwrap();
        let row = responses.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        row.to_owned()
    };
    assert!(row("p90 ").ends_with("worse") && row("p99.9").ends_with("better"), "{said}");
    assert!(row("p99.9").contains("20.7 ms") && row("p99.9").contains("2.92 ms"), "{said}");
}
