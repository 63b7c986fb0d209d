//! A library of loads on a disk: its contents, and the changes to it.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        for n in 0..300 {
            let (sector, op) = (n * 7919 % 100_000 * 8, if n % 3 == 0 { 'W' } else { 'R' });
            writeln!(load, "{}.{:03} ; {sector} ; 8 ; {op} ; 0.0 ; 0.0", n / 100, n % 100).unwrap();
        }
        fs::write(directory.path().join("in.load"), load).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn ioecho(&self, arguments: &[&str]) -> (i32, String, String) {
        self.ioecho_in("", arguments)
    }

    fn ioecho_in(&self, directory: &str, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        let Output { status, stdout, stderr } =
            command.args(arguments).current_dir(self.path(directory)).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.ioecho(arguments);
        assert_eq!(code, 0, "{arguments:?}: {err}");
        out
    }

    fn add(&self, name: &str, more: &[&str]) {
        let add = ["library", "add", "lib", "in.load", "--license", "CC0-1.0", "--origin", "test"];
        self.done(&[&add[..], &["--name", name], more].concat());
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(arguments)).unwrap()
    }

    /// The problems that `verify` finds, each with the name of its load.
    fn problems(&self) -> Vec<String> {
        let (code, out, err) = self.ioecho(&["library", "verify", "lib", "--json"]);
        let all: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
        let problems: Vec<String> = all["loads"].as_array().unwrap().iter().flat_map(of).collect();
        assert_eq!(code, if problems.is_empty() { 0 } else { 17 }, "{out}");
        assert_eq!(all["whole"], Value::Bool(problems.is_empty()));
        problems
    }
}

fn of(load: &Value) -> Vec<String> {
    let name = load["name"].as_str().unwrap();
    let problems = load["problems"].as_array().unwrap().iter();
    problems.map(|problem| format!("{name}: {}", problem.as_str().unwrap())).collect()
}

#[test]
fn a_load_is_added_listed_shown_and_verified() {
    let fixture = Fixture::new();
    fixture.add("oltp", &["--description", "a small one", "--device", "a disk", "--kernel", "6.1"]);
    assert!(fixture.done(&["library", "list", "lib"]).contains("a small one"));
    let load = fixture.json(&["library", "show", "lib", "oltp", "--json"]);
    assert_eq!((&load["requests"], &load["mix"]["writes"]), (&300.into(), &100.into()));
    assert_eq!(load["recorded"]["device"], "a disk");
    assert_eq!(load["mix"]["bytes_read"], 200 * 4096);
    assert_eq!(fixture.json(&["library", "list", "lib", "--json"])["loads"][0], load);
    let shown = fixture.done(&["library", "show", "lib", "oltp"]);
    assert!(shown.contains("kernel") && shown.contains("lib/oltp/load.parquet"), "{shown}");
    assert_eq!(fixture.problems(), Vec::<String>::new());
    let info = fixture.json(&["info", "--json", "lib/oltp/load.parquet"]);
    assert_eq!((&info["requests"], &info["license"]), (&300.into(), &"CC0-1.0".into()));
    let page = fs::read_to_string(fixture.path("lib/oltp/report.html")).unwrap();
    assert!(page.contains("a small one"));
    assert!(!page.contains(fixture.directory.path().to_str().unwrap()), "the page tells a path");
}

#[test]
fn sha256sum_checks_what_was_added() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    let sha256sum = || {
        let mut command = Command::new("sha256sum");
        command.args(["--strict", "-c", "SHA256SUMS"]).current_dir(fixture.path("lib/x")).output()
    };
    let Ok(output) = sha256sum() else {
        ioecho_fixture::skipped("there is no sha256sum here");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    fs::write(fixture.path("lib/x/report.html"), "another").unwrap();
    assert!(!sha256sum().unwrap().status.success());
}

#[test]
fn the_hash_of_the_requests_survives_another_file_and_no_other_requests() {
    let fixture = Fixture::new();
    fixture.add("one", &[]);
    fixture.done(&["convert", "lib/one/load.parquet", "again.parquet", "--description", "another"]);
    fixture.done(&["library", "add", "lib", "again.parquet", "--name", "two"]);
    fixture.done(&["library", "add", "lib", "again.parquet", "--name", "three", "--speed", "2"]);
    let hash = |name: &str, key: &str| {
        fixture.json(&["library", "show", "lib", name, "--json"])[key].clone()
    };
    assert_eq!(hash("one", "requests_sha256"), hash("two", "requests_sha256"));
    assert_ne!(hash("one", "sha256"), hash("two", "sha256"));
    assert_ne!(hash("one", "requests_sha256"), hash("three", "requests_sha256"));
}

#[test]
fn a_load_that_is_there_is_not_replaced_and_a_bad_name_leads_nowhere() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    let before = fs::read(fixture.path("lib/x/load.toml")).unwrap();
    let (code, _, err) = fixture.ioecho(&["library", "add", "lib", "in.load", "--name", "x"]);
    assert!(code == 7 && err.contains("is not replaced"), "{err}");
    assert_eq!(fs::read(fixture.path("lib/x/load.toml")).unwrap(), before);
    for name in ["../out", "/tmp/out", ".x", "a b", "x\u{1b}[0m", "library.json", ""] {
        let (code, _, err) = fixture.ioecho(&["library", "add", "lib", "in.load", "--name", name]);
        assert!(code == 2 && !err.contains('\u{1b}'), "{name:?}: {err}");
    }
    assert!(!fixture.path("out").exists());
}

#[test]
fn a_trace_that_cannot_be_read_leaves_no_library_and_no_load() {
    let fixture = Fixture::new();
    fs::write(fixture.path("prose"), "this is no trace\n").unwrap();
    assert_eq!(fixture.ioecho(&["library", "add", "lib", "prose"]).0, 3);
    assert!(!fixture.path("lib").exists());
    fixture.add("x", &[]);
    assert_eq!(fixture.ioecho(&["library", "add", "lib", "prose"]).0, 3);
    assert_eq!(fixture.problems(), Vec::<String>::new());
}

#[test]
fn whatever_moment_a_crash_comes_at_the_library_stays_valid() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    // The crash comes before the load has its name.
    fs::create_dir(fixture.path("lib/.y.partial")).unwrap();
    fs::write(fixture.path("lib/.y.partial/load.parquet"), "PAR1 half").unwrap();
    assert_eq!(fixture.problems(), Vec::<String>::new());
    // The crash comes after the load has its name and before the index is written.
    let index = fs::read(fixture.path("lib/library.json")).unwrap();
    fixture.add("z", &[]);
    assert!(!fixture.path("lib/.y.partial").exists());
    fs::write(fixture.path("lib/library.json"), index).unwrap();
    assert_eq!(fixture.done(&["library", "list", "lib"]).lines().count(), 2);
    let problems = fixture.problems();
    assert!(problems.len() == 1 && problems[0].contains("the index does not have it"));
    // The next `add` repairs it.
    fixture.add("w", &[]);
    assert_eq!(fixture.problems(), Vec::<String>::new());
    assert_eq!(fixture.done(&["library", "list", "lib"]).lines().count(), 4);
}

#[test]
fn an_index_that_is_lost_or_broken_is_made_anew_as_the_message_says() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    let index = fixture.path("lib/library.json");
    let before = fs::read(&index).unwrap();
    let damages: [&dyn Fn(); 3] = [
        &|| fs::remove_file(&index).unwrap(),
        &|| fs::write(&index, "{\"version\": 1, \"loa").unwrap(),
        &|| fs::write(&index, "").unwrap(),
    ];
    for damage in damages {
        damage();
        for command in [&["library", "list", "lib"][..], &["library", "verify", "lib"]] {
            let (code, _, err) = fixture.ioecho(command);
            assert!(code == 3 && err.contains("`ioecho library index lib`"), "{err}");
        }
        assert_eq!(fixture.done(&["library", "index", "lib"]), "1 load in lib/library.json\n");
        assert_eq!(fs::read(&index).unwrap(), before);
    }
    // `add` makes the index again, too.
    for (name, damage) in ["a", "b", "c"].into_iter().zip(damages) {
        damage();
        fixture.add(name, &[]);
        assert_eq!(fixture.problems(), Vec::<String>::new());
    }
    fs::remove_dir_all(fixture.path("lib/x")).unwrap();
    fixture.done(&["library", "index", "lib"]);
    assert_eq!(fixture.problems(), Vec::<String>::new());
    // An index of a later version is not replaced, and a directory without a library does not
    // become one.
    fs::write(&index, "{\"version\": 9}").unwrap();
    let (code, _, err) = fixture.ioecho(&["library", "index", "lib"]);
    assert!(code == 3 && err.contains("newer ioecho"), "{err}");
    fs::create_dir(fixture.path("empty")).unwrap();
    for none in ["empty", "nowhere"] {
        let (code, _, err) = fixture.ioecho(&["library", "index", none]);
        assert!(code == 3 && err.contains("is no library"), "{err}");
        assert!(!fixture.path(none).join("library.json").exists());
    }
}

#[test]
fn a_load_is_named_in_a_library_here_as_at_an_url() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    assert_eq!(fixture.json(&["info", "--json", "lib#x"])["requests"], 300);
    assert_eq!(fixture.json(&["analyze", "--json", "./lib/#x"])["requests"], 300);
    fixture.done(&["replay", "lib#x", "--target", "sim:size=1G", "-o", "run"]);
    fixture.done(&["convert", "in.load", "out.parquet", "--merge", "lib#x"]);
    let (code, _, err) = fixture.ioecho(&["info", "lib#y"]);
    assert!(code == 3 && err.contains("there are: x"), "{err}");
    let (code, _, err) = fixture.ioecho(&["convert", "lib#x", "lib/x/load.parquet"]);
    assert!(code == 2 && err.contains("both input and output"), "{err}");
    // A file whose name looks like `DIRECTORY#NAME` is that file.
    fs::copy(fixture.path("in.load"), fixture.path("lib#y")).unwrap();
    assert_eq!(fixture.json(&["info", "--json", "lib#y"])["requests"], 300);
    // A load that has changed since it was added is not used under its name.
    fixture.done(&["convert", "in.load", "other.parquet", "--speed", "2"]);
    fs::rename(fixture.path("other.parquet"), fixture.path("lib/x/load.parquet")).unwrap();
    let (code, _, err) = fixture.ioecho(&["info", "lib#x"]);
    assert!(code == 17 && err.contains("not what its library says"), "{err}");
}

#[test]
fn every_damage_is_found_and_named() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    let path = |file: &str| fixture.path("lib/x").join(file);
    let damaged = |file: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>, words: &str| {
        let before = fs::read(path(file)).unwrap();
        fs::write(path(file), change(before.clone())).unwrap();
        let problems = fixture.problems();
        assert!(problems.iter().any(|text| text.contains(words)), "{file}: {problems:?}");
        fs::write(path(file), before).unwrap();
        assert_eq!(fixture.problems(), Vec::<String>::new(), "{file}");
    };
    let flip = |mut bytes: Vec<u8>| {
        let at = bytes.len() / 3;
        bytes[at] ^= 1;
        bytes
    };
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(from, to).into_bytes()
    };
    damaged("load.parquet", &flip, "load.parquet is not what SHA256SUMS says");
    damaged("load.parquet", &|bytes| bytes[..bytes.len() / 2].to_vec(), "and should have");
    damaged("report.html", &flip, "report.html is not what SHA256SUMS says");
    damaged("load.toml", &replace("requests = 300", "requests = 301"), "states other figures");
    damaged("load.toml", &replace("name = \"x\"", "name = \"y\""), "is of another load");
    damaged("load.toml", &replace("CC0", "CC1"), "the index says something else");
    damaged("load.toml", &replace("version = 1", "version = 2"), "is of version 2");
    damaged("load.toml", &|_| b"\xff".to_vec(), "cannot read");
    damaged("SHA256SUMS", &|_| Vec::new(), "SHA256SUMS does not have load.parquet");
    damaged("SHA256SUMS", &replace("load.toml", "../../y"), "belongs to no load");
    fs::remove_dir_all(fixture.path("lib/x")).unwrap();
    assert_eq!(fixture.problems(), ["x: the index has it, and there is no such directory"]);
}

#[test]
fn names_and_words_of_others_are_shown_and_never_obeyed() {
    let fixture = Fixture::new();
    let words = "<script>alert(1)</script>\u{1b}[2J\u{9b}x\nsecond line";
    fixture.add("x", &["--description", words]);
    for command in [&["library", "list", "lib"][..], &["library", "show", "lib", "x"]] {
        let out = fixture.done(command);
        assert!(!out.contains(['\u{1b}', '\u{9b}']), "{out:?}");
        assert!(out.contains("\\u{1b}[2J") && out.contains("\\nsecond line"), "{out:?}");
    }
    let page = fs::read_to_string(fixture.path("lib/x/report.html")).unwrap();
    assert!(!page.contains("<script>alert(1)"));
    assert_eq!(fixture.problems(), Vec::<String>::new());
}

#[test]
fn an_anonymised_load_tells_neither_names_nor_paths() {
    let fixture = Fixture::new();
    fs::rename(fixture.path("in.load"), fixture.path("customer.load")).unwrap();
    let add = ["library", "add", "lib", "customer.load", "--name", "x", "--anonymise", "secretkey"];
    fixture.done(&add);
    for file in ["load.toml", "report.html", "load.parquet"] {
        let bytes = fs::read(fixture.path("lib/x").join(file)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for word in ["customer", "secretkey", fixture.directory.path().to_str().unwrap()] {
            assert!(!text.contains(word), "{file} has {word}");
        }
    }
    assert_eq!(fixture.problems(), Vec::<String>::new());
}

#[test]
fn a_directory_with_other_things_is_not_made_a_library() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("lib")).unwrap();
    fs::write(fixture.path("lib/thesis"), "x").unwrap();
    let (code, _, err) = fixture.ioecho(&["library", "add", "lib", "in.load"]);
    assert!(code == 2 && err.contains("not empty"), "{err}");
    let (code, _, err) = fixture.ioecho(&["library", "list", "lib"]);
    assert!(code == 3 && err.contains("is no library"), "{err}");
}

#[test]
fn rates_of_any_length_are_as_published() {
    let fixture = Fixture::new();
    // Means with many digits: not every format keeps the last one.
    for n in 2..12 {
        fixture.add(&format!("x{n}"), &["--speed", &format!("{n}.7")]);
    }
    assert_eq!(fixture.problems(), Vec::<String>::new());
}

#[test]
fn who_waits_for_another_that_changes_the_library_is_told() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    let held = fs::File::open(fixture.path("lib")).unwrap();
    held.lock().unwrap();
    let (is_heard, heard) = mpsc::channel();
    let holder = thread::spawn(move || {
        let _ = heard.recv_timeout(Duration::from_secs(10));
        drop(held);
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(["library", "index", "lib"])
        .current_dir(fixture.directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    err.read_line(&mut said).unwrap();
    let _ = is_heard.send(());
    holder.join().unwrap();
    assert!(said.contains("waiting for another process that changes lib"), "{said}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn who_names_a_load_where_a_library_belongs_or_its_directory_is_told_what_to_name() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    for (words, told) in [
        (&["library", "verify", "lib#x"][..], "name the library: lib\n"),
        (&["library", "list", "lib#x"], "name the library: lib\n"),
        (&["info", "lib/x"], "name the load: lib#x\n"),
        (&["replay", "lib/x", "--target", "sim:size=1G"], "name the load: lib#x\n"),
    ] {
        let (code, _, err) = fixture.ioecho(words);
        assert!(code == 3 && err.contains(told), "{words:?}: {code} {err}");
    }
    // This also works in the library's own directory, which needs no name there.
    for (word, told) in [
        ("x", "name the load: .#x\n"),
        ("x/", "name the load: .#x\n"),
        ("library.json", "as .#NAME; there are: x\n"),
    ] {
        let (code, _, err) = fixture.ioecho_in("lib", &["info", word]);
        assert!(code == 3 && err.contains(told), "{word}: {code} {err}");
    }
    assert_eq!(fixture.ioecho_in("lib", &["info", ".#x"]).0, 0);
}

#[test]
fn what_is_left_out_of_an_index_is_told_once() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    fixture.add("y", &[]);
    fs::write(fixture.path("lib/x/load.toml"), "version = 1").unwrap();
    for damage in ["", "{}"] {
        fs::write(fixture.path("lib/library.json"), damage).unwrap();
        let (code, out, err) = fixture.ioecho(&["library", "index", "lib"]);
        assert_eq!((code, &*out), (0, "1 load in lib/library.json\n"), "{err}");
        assert_eq!(err.matches("left out of the index").count(), 1, "{err}");
    }
}

#[test]
fn a_generated_load_is_called_what_its_line_says() {
    let fixture = Fixture::new();
    let line = "gen:zipf?theta=0.9&rate=100&duration=1s";
    let out = fixture.done(&["library", "add", "lib", line]);
    assert!(out.ends_with("added as lib/zipf-theta-0.9-rate-100-duration-1s\n"), "{out}");
}

#[test]
fn the_requests_of_a_load_that_breaks_off_are_not_counted() {
    let fixture = Fixture::new();
    fixture.add("x", &[]);
    let load = fixture.path("lib/x/load.parquet");
    let bytes = fs::read(&load).unwrap();
    fs::write(&load, &bytes[..bytes.len() / 2]).unwrap();
    let (code, out, _) = fixture.ioecho(&["library", "verify", "lib", "--json"]);
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &all["loads"][0]["requests"]), (17, &Value::Null));
}

#[test]
fn a_load_that_is_no_file_of_the_library_is_neither_waited_for_nor_followed() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ioecho(&["library", "add", "lib", "in.load", "--name", "x"]).0, 0);
    let load = fixture.path("lib/x/load.parquet");
    fs::rename(&load, fixture.path("secret")).unwrap();
    let pipe =
        |path: &PathBuf| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let link = |path: &PathBuf, to: &str| std::os::unix::fs::symlink(to, path).unwrap();
    for what in ["pipe", "/dev/zero", "../../secret"] {
        match what {
            "pipe" => pipe(&load),
            elsewhere => link(&load, elsewhere),
        }
        let (code, said, _) = fixture.ioecho(&["library", "verify", "lib"]);
        assert_eq!(code, 17, "{what}: {said}");
        assert!(said.contains("cannot read load.parquet"), "{what}: {said}");
        assert_eq!(fixture.ioecho(&["info", "lib#x"]).0, 3, "{what}");
        fs::remove_file(&load).unwrap();
    }
    // The same for a link in the place of the load's facts, and of the index.
    fs::rename(fixture.path("secret"), &load).unwrap();
    for (name, code) in [("lib/x/load.toml", 17), ("lib/x/SHA256SUMS", 17), ("lib/library.json", 3)]
    {
        let (path, kept) = (fixture.path(name), fixture.path("kept"));
        fs::rename(&path, &kept).unwrap();
        pipe(&path);
        assert_eq!(fixture.ioecho(&["library", "verify", "lib"]).0, code, "{name}");
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
    }
    assert_eq!(fixture.ioecho(&["library", "verify", "lib"]).0, 0);
    // A directory that is a link to another place.
    fs::rename(fixture.path("lib/x"), fixture.path("x")).unwrap();
    link(&fixture.path("lib/x"), "../x");
    assert_eq!(fixture.ioecho(&["info", "lib#x"]).0, 3);
}
