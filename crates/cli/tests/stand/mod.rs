//! A directory with a load and a target, and this program run in it.
//!
//! Most tests of the whole program need the same things, and copies of them drift apart.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A directory that goes away with it.
pub(crate) struct Stand {
    pub(crate) directory: tempfile::TempDir,
}

impl Stand {
    /// A load of `count` requests, one every `step_us`, a third of them writes, all of 4 KiB, and a
    /// target file of 16 MiB.
    // Not every test of the program wants a load as plain as that.
    #[allow(dead_code)]
    pub(crate) fn regular(count: u64, step_us: u64) -> Self {
        let request = |n: u64| (n * 7 % 2000 * 8, 8, if n.is_multiple_of(3) { 'W' } else { 'R' });
        Self::of((0..count).map(request), step_us, 16 << 20)
    }

    /// A load of these requests, each a sector, a length in sectors and an operation, one every
    /// `step_us`, and a target file of so many bytes.
    pub(crate) fn of(
        requests: impl Iterator<Item = (u64, u64, char)>,
        step_us: u64,
        target_bytes: u64,
    ) -> Self {
        let stand = Self { directory: tempfile::tempdir().unwrap() };
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        for (n, (sector, length, op)) in (0..).zip(requests) {
            let us: u64 = n * step_us;
            let (secs, ns) = (us / 1_000_000, us % 1_000_000 * 1000);
            writeln!(load, "{secs}.{ns:09} ; {sector} ; {length} ; {op} ; 0.0 ; 0.0").unwrap();
        }
        fs::write(stand.path("load"), load).unwrap();
        fs::File::create(stand.path("target")).unwrap().set_len(target_bytes).unwrap();
        stand
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// This program with these arguments, in the directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(arguments).current_dir(self.directory.path());
        command
    }

    /// What the program said, at its end.
    // Not every test lets it run to its end from here.
    #[allow(dead_code)]
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

/// Everything that a program said.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
