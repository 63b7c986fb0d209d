//! Transforms that need more than one request, through the program. Each is compared with a line of
//! awk.
//!
//! The load is made here, and is small enough to be read.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A load of 600 requests over 100 seconds, denser in its middle.
fn load(directory: &Path) {
    let mut text = String::new();
    let mut ns: u64 = 0;
    for n in 0..600_u64 {
        ns += if (200..400).contains(&n) { 20_000_000 } else { 240_000_000 };
        let (op, sector) = (if n % 3 == 0 { 'R' } else { 'W' }, n * 7919 % 100_000 * 8);
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        writeln!(text, "{seconds}.{rest:09} ; {sector} ; 8 ; {op} ; 0.0 ; 0.0").unwrap();
    }
    fs::write(directory.join("in.load"), text).unwrap();
}

fn convert(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .arg("convert")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn done(directory: &Path, arguments: &[&str]) {
    let output = convert(directory, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The data lines of a load, without blanks in their columns, after a shell pipe.
fn shell(directory: &Path, command: &str) -> String {
    let tidy = "grep '^ *[0-9].*;' | tr -d ' ' | cut -d';' -f1-4";
    let command = command.replace("LINES", tidy);
    let output = Command::new("sh").args(["-c", &command]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn same(directory: &Path, ours: &str, theirs: &str) {
    let ours = shell(directory, &format!("cat {ours} | LINES"));
    let theirs = shell(directory, theirs);
    assert!(!ours.is_empty());
    assert_eq!(ours, theirs);
}

fn with_load() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    load(directory.path());
    directory
}

#[test]
fn split_writes_a_file_for_each_part() {
    let directory = with_load();
    let here = directory.path();
    done(here, &["in.load", "out-{}.load", "--split", "op"]);
    same(here, "out-read.load", "cat in.load | LINES | grep 'R$'");
    same(here, "out-write.load", "cat in.load | LINES | grep 'W$'");
    let output = convert(here, &["in.load", "out.load", "--split", "op"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("put {} into the name"), "{text}");
    let output = convert(here, &["in.load", "{}.load", "--split", "op", "--reverse"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("last transform"), "{text}");
}

#[test]
fn derive_writes_every_load_and_picks_one() {
    let directory = with_load();
    let here = directory.path();
    done(here, &["in.load", "out-{}.load", "--derive", "2,snippet=20s"]);
    done(here, &["in.load", "two.load", "--derive", "2,snippet=20s,pick=2"]);
    same(here, "two.load", "cat out-2.load | LINES");
    // The heaviest snippet comes first and begins with its first request.
    let heaviest = "cat in.load | LINES | awk -F';' '{ s = int($1 / 20); n[s]++ } \
                    END { for (s in n) print n[s], s }' | sort -k1,1nr -k2,2n | head -1";
    let heaviest = shell(here, heaviest);
    let (count, snippet) = heaviest.trim().split_once(' ').unwrap();
    let theirs =
        format!("cat in.load | LINES | awk -F';' 'int($1 / 20) == {snippet}' | cut -d';' -f2-");
    let ours = format!("cat out-1.load | LINES | head -{count} | cut -d';' -f2-");
    assert_eq!(shell(here, &ours), shell(here, &theirs));
    assert!(shell(here, "cat out-1.load | LINES | head -1").starts_with("0.000000000;"));
}

#[test]
fn merge_is_the_sort_of_both() {
    let directory = with_load();
    let here = directory.path();
    let line = "in.load,at=5s,offset=4k,volumes=join";
    done(here, &["in.load", "out.load", "--merge", line]);
    let theirs = "(cat in.load | LINES; cat in.load | LINES | awk -F';' -v OFS=';' \
                  '{ split($1, t, \".\"); $1 = t[1] + 5 \".\" t[2]; $2 += 8; print }') | \
                  sort -s -t';' -k1,1n";
    same(here, "out.load", theirs);
}

#[test]
fn cmd_is_the_command() {
    let directory = with_load();
    let here = directory.path();
    let command = "awk -F';' -v OFS=';' '{ $2 += 1; print }'";
    done(here, &["in.load", "out.load", "--cmd", command]);
    same(here, "out.load", &format!("cat in.load | {command} | LINES"));
    let output = convert(here, &["in.load", "no.load", "--cmd", "echo broken >&2; exit 3"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("| broken"), "{text}");
    assert!(!here.join("no.load").exists());
}

#[test]
fn filter_reverse_busiest_and_unstack_do_what_awk_does() {
    let directory = with_load();
    let here = directory.path();
    done(here, &["in.load", "out.load", "--filter", "op = read and offset < 100M"]);
    same(here, "out.load", "cat in.load | LINES | awk -F';' '$4 == \"R\" && $2 < 204800'");
    done(here, &["in.load", "out.load", "--reverse"]);
    let theirs = "cat in.load | LINES | cut -d';' -f1 > t; \
                  cat in.load | LINES | cut -d';' -f2- | tac | paste -d';' t -";
    same(here, "out.load", theirs);
    done(here, &["in.load", "out.load", "--busiest", "2s"]);
    // The first stretch of 100 requests that are 20 ms apart.
    same(here, "out.load", "cat in.load | LINES | sed -n '200,299p'");
    let twice = shell(here, "cat in.load | LINES | sed p");
    fs::write(here.join("twice.load"), twice).unwrap();
    let output = convert(here, &["twice.load", "out.load"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("1200 requests seem to be copies of each other"), "{text}");
    done(here, &["twice.load", "out.load", "--unstack"]);
    same(here, "out.load", "cat in.load | LINES");
}
