//! Every transform, compared with a line of awk that does the same.
//!
//! The properties beside the code say in Rust how a transform works, but the same author wrote
//! both. Here the whole program runs, from the command line to a load in text, and awk computes the
//! expected lines. Some transforms choose by a hash or a key that awk cannot compute. For these,
//! awk checks a property of the choice.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory with the load `in.load`. `plain` holds the same load as lines of `nanoseconds sector
/// sectors op`.
struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        let (mut plain, mut ns, mut random) = (String::new(), 70_000_000_u64, 7_u64);
        for n in 0..1000_u64 {
            // The generator of Knuth's MMIX. Its high bits are random enough.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = random >> 20;
            ns += if n % 50 == 49 { 400_000_000 } else { number % 3_000_000 };
            // Some places are visited often.
            let sector = if number.is_multiple_of(3) { number % 97 * 8 } else { number % 400_000 };
            let sectors = 1 + (number >> 7) % 64;
            let op = if (number >> 15).is_multiple_of(3) { 'W' } else { 'R' };
            let (secs, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
            writeln!(load, "{secs}.{rest:09} ; {sector} ; {sectors} ; {op} ; 0.0 ; 0.0").unwrap();
            writeln!(plain, "{ns} {sector} {sectors} {op}").unwrap();
        }
        fs::write(fixture.path("in.load"), load).unwrap();
        fs::write(fixture.path("plain"), plain).unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn ioecho(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        let output = command.args(arguments).current_dir(self.directory.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        output
    }

    /// The load after the transforms, as lines of `nanoseconds sector sectors op`.
    fn made(&self, transforms: &[&str]) -> String {
        let output = self.path("out.load");
        if output.exists() {
            fs::remove_file(&output).unwrap();
        }
        self.ioecho(&[&["convert", "in.load", "out.load"], transforms].concat());
        let load = fs::read_to_string(output).unwrap();
        let mut plain = String::new();
        for line in load.lines().filter(|line| line.contains(';') && !line.contains("start")) {
            let columns: Vec<_> = line.split(';').map(str::trim).collect();
            let (secs, rest) = columns[0].split_once('.').unwrap();
            let ns = secs.parse::<u64>().unwrap() * 1_000_000_000 + rest.parse::<u64>().unwrap();
            writeln!(plain, "{ns} {} {} {}", columns[1], columns[2], columns[3]).unwrap();
        }
        fs::write(self.path("made"), &plain).unwrap();
        plain
    }

    /// The output of awk. The program prints whole numbers through `p`, because versions of awk
    /// print large ones differently.
    fn awk(&self, program: &str, files: &[&str]) -> String {
        let print = "function p(a,b,c,d) { printf \"%.0f %.0f %.0f %s\\n\", a, b, c, d }";
        let output = Command::new("awk")
            .arg(format!("{print} {program}"))
            .args(files)
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks that the transforms change the load as awk does.
    fn is(&self, transforms: &[&str], program: &str) {
        let (made, said) = (self.made(transforms), self.awk(program, &["plain", "plain"]));
        assert!(!said.is_empty(), "{transforms:?}");
        for (made, said) in made.lines().zip(said.lines()) {
            assert_eq!(made, said, "{transforms:?}");
        }
        assert_eq!(made.lines().count(), said.lines().count(), "{transforms:?}");
    }
}

/// For programs that read the load once. Their second reading does nothing.
const ONCE: &str = "NR != FNR { exit }";

fn once(program: &str) -> String {
    format!("{ONCE} {program}")
}

#[test]
fn times_are_what_awk_says() {
    let fixture = Fixture::new();
    fixture.is(&["--speed", "2.5"], &once("{ p(int($1 * 2 / 5), $2, $3, $4) }"));
    fixture.is(&["--speed", "1/3"], &once("{ p($1 * 3, $2, $3, $4) }"));
    fixture.is(
        &["--ramp", "250"],
        &once("NR == 1 { f = $1 } { p(f + (NR - 1) * 4000000, $2, $3, $4) }"),
    );
    fixture.is(
        &["--repeat", "3,offset=1M,gap=5ms"],
        "NR == FNR { n = NR; t[n] = $1; s[n] = $2; l[n] = $3; o[n] = $4; next }
         { exit }
         END { for (k = 0; k < 3; k++) for (i = 1; i <= n; i++)
             p(t[i] + k * (t[n] - t[1] + 5000000), s[i] + 2048 * k, l[i], o[i]) }",
    );
    fixture.is(&["--sample", "time=100ms,every=1s"], &once("$1 % 1e9 < 1e8 { p($1, $2, $3, $4) }"));
}

/// Floating point in awk is not exact, so instants may differ a little here.
fn nearly(fixture: &Fixture, transforms: &[&str], program: &str) {
    let (made, said) = (fixture.made(transforms), fixture.awk(program, &["plain", "plain"]));
    assert_eq!(made.lines().count(), said.lines().count());
    for (made, said) in made.lines().zip(said.lines()) {
        let [(made_ns, made), (said_ns, said)] = [made, said].map(|l| l.split_once(' ').unwrap());
        let [made_ns, said_ns] = [made_ns, said_ns].map(|ns| ns.parse::<u64>().unwrap());
        assert_eq!(made, said);
        assert!(made_ns.abs_diff(said_ns) <= 1, "{made_ns} {said_ns}");
    }
}

#[test]
fn rates_are_what_awk_says() {
    let fixture = Fixture::new();
    nearly(
        &fixture,
        &["--rate", "100"],
        "NR == FNR { n = NR; if (n == 1) f = $1; l = $1; next }
         { p(int(f + ($1 - f) / (l - f) * (n - 1) * 1e9 / 100), $2, $3, $4) }",
    );
    nearly(
        &fixture,
        &["--ramp", "10,slope=5"],
        &once(
            "NR == 1 { f = $1 }
             { k = NR - 1; p(f + 2 * k / (10 + sqrt(100 + 10 * k)) * 1e9, $2, $3, $4) }",
        ),
    );
    nearly(
        &fixture,
        &["--ramp", "50,150,over=4s"],
        &once(
            "NR == 1 { f = $1 }
             { k = NR - 1; t = k <= 400 ? 2 * k / (50 + sqrt(2500 + 50 * k)) : 4 + (k - 400) / 150
               p(f + t * 1e9, $2, $3, $4) }",
        ),
    );
}

#[test]
fn places_and_lengths_are_what_awk_says() {
    let fixture = Fixture::new();
    fixture.is(
        &["--slip", "64k,every=100"],
        &once("{ p($1, $2 + 128 * int((NR - 1) / 100), $3, $4) }"),
    );
    fixture.is(
        &["--spread", "1.5,offset=1M"],
        &once("{ p($1, int($2 * 1.5 / 8) * 8 + $2 % 8 + 2048, $3, $4) }"),
    );
    fixture.is(
        &["--resize", "1.5,min=4k,max=16k"],
        &once("{ n = int($3 * 1.5); p($1, $2, n < 8 ? 8 : n > 32 ? 32 : n, $4) }"),
    );
    // The device has 100,000 sectors.
    fixture.is(
        &["--remap", "wrap,51200000"],
        &once("{ a = $2 % 100000; m = 100000 - $3; p($1, a > m ? m : a, $3, $4) }"),
    );
    fixture.is(
        &["--remap", "fold,51200000"],
        &once(
            "{ a = $2 % 100000; m = 100000 - $3
               if (int($2 / 100000) % 2) a = a > m ? 0 : 100000 - a - $3; else if (a > m) a = m
               p($1, a, $3, $4) }",
        ),
    );
    fixture.is(&["--remap", "clip,51200000"], &once("$2 + $3 <= 100000 { p($1, $2, $3, $4) }"));
    fixture.is(
        &["--remap", "scale,51200000"],
        "NR == FNR { if ($2 + $3 > e) e = $2 + $3; next }
         { a = int($2 * 100000 / e / 8) * 8 + $2 % 8; m = 100000 - $3
           p($1, a > m ? m : a, $3, $4) }",
    );
    fixture.is(
        &["--remap", "pack,region=64k"],
        "NR == FNR { for (r = int($2 / 128); r * 128 < $2 + $3; r++) { u[r]; if (r > e) e = r }
                     next }
         FNR == 1 { for (r = 0; r <= e; r++) if (r in u) q[r] = k++ }
         { p($1, q[int($2 / 128)] * 128 + $2 % 128, $3, $4) }",
    );
    fixture.is(
        &["--spread", "1,offset=123k", "--adjacent"],
        &once("{ p($1, $2 + 246 - int(246 / 8) * 8, $3, $4) }"),
    );
}

#[test]
fn operations_and_shares_are_what_awk_says() {
    let fixture = Fixture::new();
    fixture.is(&["--substitute", "R=W"], &once("{ p($1, $2, $3, \"W\") }"));
    fixture.is(&["--substitute", "swap"], &once("{ p($1, $2, $3, $4 == \"W\" ? \"R\" : \"W\") }"));
    fixture.is(&["--thin", "30"], &once("(NR - 1) * 30 % 100 < 30 { p($1, $2, $3, $4) }"));
    fixture.is(&["--thin", "30,by=op"], &once("c[$4]++ * 30 % 100 < 30 { p($1, $2, $3, $4) }"));
    // Transforms apply in the order in which they are typed.
    fixture.is(
        &["--resize", "2", "--thin", "50", "--resize", "1,max=32k", "--speed", "2"],
        &once("NR % 2 { p(int($1 / 2), $2, $3 * 2 > 64 ? 64 : $3 * 2, $4) }"),
    );
}

#[test]
fn a_share_of_operations_is_that_share_and_nothing_else_changes() {
    let fixture = Fixture::new();
    fixture.made(&["--substitute", "R=W,share=40,seed=5"]);
    let counted = fixture.awk(
        "NR == FNR { o[NR] = $4; r += $4 == \"R\"; s[NR] = $1 \" \" $2 \" \" $3; next }
         s[FNR] != $1 \" \" $2 \" \" $3 || (o[FNR] == \"W\" && $4 != \"W\") { print \"wrong\" }
         o[FNR] != $4 { w++ }
         END { print (w > 0.33 * r && w < 0.47 * r) }",
        &["plain", "made"],
    );
    assert_eq!(counted, "1\n");
}

#[test]
fn a_block_of_a_sample_has_all_its_requests() {
    let fixture = Fixture::new();
    fixture.made(&["--sample", "space=25,block=64k"]);
    let counted = fixture.awk(
        "NR == FNR { if (!n[int($2 / 128)]++) b++; next }
         { if (!m[int($2 / 128)]++) c++ }
         END { for (k in m) if (m[k] != n[k]) print \"wrong\"
               print (c > 0.2 * b && c < 0.3 * b) }",
        &["plain", "made"],
    );
    assert_eq!(counted, "1\n");
}

#[test]
fn an_anonymised_load_has_other_places_and_the_same_reuse_and_no_key() {
    let fixture = Fixture::new();
    let line = "my-secret,extent=1M";
    fixture.made(&["--anonymise", line]);
    let counted = fixture.awk(
        "NR == FNR { t[NR] = $1; s[NR] = $2; l[NR] = $3; next }
         t[FNR] != $1 || l[FNR] != $3 { print \"wrong\" }
         s[FNR] % 2048 + $3 <= 2048 {
             if ($2 % 2048 != s[FNR] % 2048) print \"moved within\"
             a = int(s[FNR] / 2048); b = int($2 / 2048); n++
             if (a in to && to[a] != b || b in from && from[b] != a) print \"no permutation\"
             to[a] = b; from[b] = a; if (a == b) same++ }
         END { print (n > 900), (same < 100) }",
        &["plain", "made"],
    );
    assert_eq!(counted, "1 1\n");
    fixture.ioecho(&["convert", "in.load", "out.parquet", "--anonymise", line]);
    let file = fs::read(fixture.path("out.parquet")).unwrap();
    let shown = fixture.ioecho(&["info", "out.parquet"]).stdout;
    for gone in [&b"my-secret"[..], b"in.load"] {
        assert!(!file.windows(gone.len()).any(|bytes| bytes == gone));
        assert!(!shown.windows(gone.len()).any(|bytes| bytes == gone));
    }
}

#[test]
fn what_was_done_stands_in_the_file_and_can_be_done_again() {
    let fixture = Fixture::new();
    let chain = ["--thin", "50%", "--repeat", "2", "--spread", "2", "--rate", "500"];
    fixture.ioecho(&[&["convert", "in.load", "a.parquet"][..], &chain].concat());
    let info = fixture.ioecho(&["info", "--json", "a.parquet"]).stdout;
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    let lines: Vec<String> = info["transforms"]
        .as_array()
        .unwrap_or_else(|| panic!("{info}"))
        .iter()
        .map(|line| line.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0][..], &lines[2][..]), ("thin 50", "spread 2,align=4k"));
    let mut again = vec!["convert".to_owned(), "in.load".to_owned(), "b.parquet".to_owned()];
    for line in &lines {
        let (name, text) = line.split_once(' ').unwrap();
        again.extend([format!("--{name}"), text.to_owned()]);
    }
    fixture.ioecho(&again.iter().map(String::as_str).collect::<Vec<_>>());
    let [a, b] = ["a.parquet", "b.parquet"].map(|name| fs::read(fixture.path(name)).unwrap());
    assert!(a == b, "the same chain makes the same file");
}
