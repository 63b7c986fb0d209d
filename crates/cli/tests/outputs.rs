//! No output replaces an input, a result, or a device.
//!
//! Every command and every option that writes is tried on every file that must not be overwritten.
//! If this machine cannot make a loop device, mount a file system or change a file's owner, those
//! cases are skipped with a message.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use fixture::{Fixture, said};
use ioecho_fixture::loop_device::Attached;
use ioecho_fixture::{Backing, LoopDevice, MountPoint, or_skip, run as system, skipped};

/// A user other than the one who runs the tests.
const SOMEBODY: u32 = 65_533;

/// The placeholder for the output. The tests put an input of the command there.
const OUT: &str = "OUT";

/// The commands that write a file, and their inputs.
const FILES: [(&[&str], &str); 19] = [
    (&["convert", "load", OUT, "--to", "csv"], "load"),
    (&["convert", "load", "--merge", "merged", OUT, "--to", "csv"], "merged"),
    (&["convert", "run", OUT, "--to", "csv"], "run/requests.parquet"),
    (&["depend", "load", "-o", OUT, "--to", "native"], "load"),
    (&["depend", "load", "--dot", OUT], "load"),
    (&["fit", "load", "-o", OUT], "load"),
    (&["fit", "load", "--fio", OUT], "load"),
    (&["analyze", "load", "--partial", "-o", OUT], "load"),
    (&["merge", "part", "-o", OUT], "part"),
    (&["report", "load", "-o", OUT], "load"),
    (&["report", "run", "-o", OUT], "run/requests.parquet"),
    (&["compare", "run", "other", "-o", OUT], "other/summary.json"),
    (&["record", "/dev/null", "-o", OUT, "--force", "--to", "csv"], ""),
    (&["prepare", OUT, "--size", "1M", "--part", "touched", "--trace", "load"], "load"),
    (
        &["replay", "load", "-q", "--target", "sim:size=1G", "-o", "new", "--interval-csv", OUT],
        "load",
    ),
    (
        &["replay", "load", "-q", "--target", "sim:size=1G", "-o", "new", "--interval-json", OUT],
        "load",
    ),
    (
        &[
            "replay",
            "load",
            "-q",
            "--target",
            "sim:size=1G",
            "-o",
            "new",
            "--interval-flatfile",
            OUT,
        ],
        "load",
    ),
    (&["replay", "load", "-q", "--target", "sim:size=1G", "-o", "new", "--metrics", OUT], "load"),
    (
        &[
            "replay",
            "load",
            "-q",
            "--merge",
            "merged",
            "--target",
            "sim:size=1G",
            "-o",
            "new",
            "--metrics",
            OUT,
        ],
        "merged",
    ),
];

/// The commands that write into a directory.
const DIRECTORIES: [&[&str]; 7] = [
    &["replay", "load", "-q", "--target", "sim:size=1G", "-o", OUT],
    &["merge", "run", "other", "-o", OUT],
    &["plot", "load", "--only", "percentiles", "-o", OUT],
    &["report", "load", "-o", "page.html", "--figures", OUT],
    &["man", OUT],
    &["demo", "--sim", "-o", OUT],
    &["library", "add", OUT, "load", "--name", "x"],
];

/// A fixture with a load, another one, two runs and a part of an analysis.
fn fixture() -> Fixture {
    let fixture = Fixture::regular(300, 100);
    fs::copy(fixture.path("load"), fixture.path("merged")).unwrap();
    for run in ["run", "other", "third"] {
        let output = fixture.run(&["replay", "load", "-q", "--target", "sim:size=1G", "-o", run]);
        assert!(fixture.path(run).join("summary.json").exists(), "{}", said(&output));
    }
    let output = fixture.run(&["analyze", "load", "--partial", "-o", "part"]);
    assert!(output.status.success(), "{}", said(&output));
    let output = fixture.run(&["library", "add", "library", "load", "--name", "x"]);
    assert!(output.status.success(), "{}", said(&output));
    fixture
}

/// All entries below a directory: each file with its bytes, each link with its target.
fn everything(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            all.extend(everything(&path));
            all.insert(path, Vec::new());
        } else if kind.is_symlink() {
            let to = fs::read_link(&path).unwrap();
            all.insert(path, to.into_os_string().into_encoded_bytes());
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// Runs a command with `output` as its output. It must return this exit code and change nothing.
fn refused(fixture: &Fixture, command: &[&str], output: &str, code: i32) {
    let words: Vec<&str> = command.iter().map(|w| if *w == OUT { output } else { *w }).collect();
    let before = everything(fixture.directory.path());
    let answer = fixture.run(&words);
    let told = said(&answer);
    assert_eq!(answer.status.code(), Some(code), "{words:?}: {told}");
    let after = everything(fixture.directory.path());
    let is_same = |(path, bytes): (&PathBuf, &Vec<u8>)| before.get(path) == Some(bytes);
    let changed: Vec<_> = after.iter().filter(|entry| !is_same(*entry)).map(|(p, _)| p).collect();
    assert!(changed.is_empty(), "{words:?} changed {changed:?}: {told}");
    assert_eq!(before.len(), after.len(), "{words:?} removed something: {told}");
}

/// The commands with an input of their own, to which the test can make links.
fn linked(fixture: &Fixture, input: &str, number: usize) -> [String; 2] {
    let (soft, hard) = (format!("soft-{number}"), format!("hard-{number}"));
    symlink(fixture.path(input), fixture.path(&soft)).unwrap();
    fs::hard_link(fixture.path(input), fixture.path(&hard)).unwrap();
    [soft, hard]
}

#[test]
fn no_command_writes_over_its_input_by_any_name_or_over_what_others_have_made() {
    let fixture = fixture();
    for (number, (command, input)) in FILES.iter().enumerate() {
        if !input.is_empty() {
            refused(&fixture, command, input, 2);
            for link in linked(&fixture, input, number) {
                refused(&fixture, command, &link, 2);
            }
        }
        symlink(fixture.path("third/requests.parquet"), fixture.path(&format!("r-{number}")))
            .unwrap();
        for output in [
            "third/requests.parquet",
            "third/run.toml",
            "third/report.html",
            // The run has no such file yet. Later, the file would be taken for a result.
            "third/verify.json",
            &format!("r-{number}"),
            "library/x/load.parquet",
            "library/library.json",
        ] {
            refused(&fixture, command, output, 2);
        }
    }
    let metrics =
        ["replay", "load", "-q", "--target", "sim:size=1G", "-o", "new", "--metrics", OUT];
    refused(&fixture, &metrics, "new/summary.json", 2);
    refused(&fixture, &["fit", "load", "-o", "same", "--fio", OUT], "same", 2);
    for directory in ["run", "library"] {
        refused(&fixture, DIRECTORIES[0], directory, 7);
        refused(&fixture, DIRECTORIES[1], directory, 7);
    }
}

#[test]
fn what_the_standard_output_or_a_descriptor_leads_to_is_looked_at_as_well() {
    let fixture = fixture();
    let lines =
        ["replay", "load", "-q", "--target", "sim:size=1G", "-o", "new", "--interval-csv", "-"];
    let merge = ["convert", "load", "--merge", "merged", "-", "--to", "csv"];
    let convert = ["convert", "load", "-", "--to", "csv"];
    for (words, led_to) in [
        (&convert[..], "load"),
        (&convert[..], "third/requests.parquet"),
        (&merge[..], "merged"),
        (&lines[..], "load"),
    ] {
        let before = everything(fixture.directory.path());
        let file = fs::OpenOptions::new().append(true).open(fixture.path(led_to)).unwrap();
        let answer = fixture.command(words).stdout(file).output().unwrap();
        let told = said(&answer);
        assert_eq!(answer.status.code(), Some(2), "{words:?} >> {led_to}: {told}");
        assert!(told.contains("the standard output"), "{told}");
        assert!(everything(fixture.directory.path()) == before, "{words:?} >> {led_to}: {told}");
        // The same under the name of an open descriptor, as the shell passes it.
        let words: Vec<&str> =
            words.iter().map(|w| if *w == "-" { "/proc/self/fd/7" } else { *w }).collect();
        let script = format!("exec 7>>{led_to}; exec \"$@\"");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_ioecho")]).args(&words);
        let answer = shell.current_dir(fixture.path("")).output().unwrap();
        assert_eq!(answer.status.code(), Some(2), "{words:?}: {}", said(&answer));
        assert!(everything(fixture.directory.path()) == before, "{words:?}: {}", said(&answer));
    }
    let other = fs::File::create(fixture.path("own.csv")).unwrap();
    let answer = fixture.command(&convert).stdout(other).output().unwrap();
    assert!(answer.status.success(), "{}", said(&answer));
    assert!(!fs::read(fixture.path("own.csv")).unwrap().is_empty());
}

#[test]
fn what_another_program_has_locked_is_not_replaced() {
    let fixture = fixture();
    fs::write(fixture.path("target"), "of a run that goes on").unwrap();
    let held = fs::File::open(fixture.path("target")).unwrap();
    held.lock().unwrap();
    for (command, _) in FILES {
        // A target has a lock and an exit code of its own.
        if command[0] != "prepare" {
            refused(&fixture, command, "target", 2);
        }
    }
}

#[test]
fn parts_of_a_trace_take_no_place_either() {
    let fixture = fixture();
    fs::copy(fixture.path("load"), fixture.path("in-1.csv")).unwrap();
    refused(&fixture, &["convert", "in-1.csv", "in-{}.csv", "--derive", "3"], "", 2);
}

#[test]
fn the_page_of_a_run_may_be_made_again_and_other_names_in_its_directory_are_free() {
    let fixture = fixture();
    let commands = [
        &["report", "run", "-o", "run/report.html"][..],
        &["report", "run"],
        &["fit", "run", "--fio", "run/job.fio"],
        &["convert", "run", "run/own.csv"],
    ];
    for words in commands.iter().chain(&commands) {
        let answer = fixture.run(words);
        assert!(answer.status.success(), "{words:?}: {}", said(&answer));
    }
}

#[test]
fn pictures_and_man_pages_keep_what_stands_in_their_place() {
    let fixture = fixture();
    let plot = ["plot", "run", "--only", "percentiles", "--to", "svg", "-o", "pictures"];
    let answer = fixture.run(&plot);
    assert!(answer.status.success(), "{}", said(&answer));
    let picture = fixture.path("pictures/run.percentiles.svg");
    fs::remove_file(&picture).unwrap();
    fs::hard_link(fixture.path("run/requests.parquet"), &picture).unwrap();
    refused(&fixture, &plot, "", 2);
    let requests = fs::read(&picture).unwrap();
    let answer = fixture.run(&["report", "run", "-o", "page.html", "--figures", "pictures"]);
    assert_eq!(answer.status.code(), Some(2), "{}", said(&answer));
    assert!(fs::read(&picture).unwrap() == requests);
    fs::create_dir(fixture.path("man")).unwrap();
    fs::create_dir(fixture.path("man/ioecho.1")).unwrap();
    refused(&fixture, &["man", OUT], "man", 2);
}

#[test]
fn what_stands_in_the_way_of_a_demo_stays() {
    let fixture = Fixture::regular(10, 100);
    fs::create_dir(fixture.path("demo")).unwrap();
    fs::write(fixture.path("demo/pgbench.parquet"), "my own").unwrap();
    refused(&fixture, DIRECTORIES[5], "demo", 7);
}

#[test]
fn no_command_writes_into_the_directory_of_another_user_as_root() {
    let fixture = fixture();
    let theirs = fixture.path("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("old"), "old").unwrap();
    fs::create_dir(theirs.join("empty")).unwrap();
    for path in [theirs.join("old"), theirs.join("empty"), theirs.clone()] {
        if chown(&path, Some(SOMEBODY), Some(SOMEBODY)).is_err() {
            return skipped("only root can give a directory away");
        }
    }
    for (command, _) in FILES {
        refused(&fixture, command, "theirs/new", 7);
        // A file that exists cannot be made, whoever owns it.
        let code = if command[0] == "prepare" { 2 } else { 7 };
        refused(&fixture, command, "theirs/old", code);
    }
    for command in DIRECTORIES {
        refused(&fixture, command, "theirs/empty", 7);
        refused(&fixture, command, "theirs/new", 7);
    }
    // Nothing is written into a run of another user either.
    chown(fixture.path("run"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    refused(&fixture, &["report", OUT], "run", 7);
}

#[test]
fn no_command_writes_to_a_device_or_to_what_stands_below_one() {
    let fixture = fixture();
    // The image below a device is compared separately, because a mounted file system writes by
    // itself.
    let below = tempfile::tempdir().unwrap();
    let within = |mib: u64| LoopDevice::over(Backing::in_directory(below.path(), mib << 20), &[]);
    let blank = or_skip!(within(1));
    let image = blank.backing.path.clone();
    let lived_in = or_skip!(within(8));
    or_skip!(system("mkfs.ext4", &["-q", lived_in.path()]));
    let _mounted = or_skip!(MountPoint::of(&lived_in.path));
    symlink(lived_in.path(), fixture.path("link")).unwrap();
    symlink(&image, fixture.path("link-to-image")).unwrap();
    let bytes = fs::read(&image).unwrap();
    let inode = fs::metadata(&image).unwrap().ino();
    for (command, _) in FILES {
        for output in
            [blank.path(), lived_in.path(), "link", image.to_str().unwrap(), "link-to-image"]
        {
            refused(&fixture, command, output, 2);
        }
    }
    assert!(fs::metadata(lived_in.path()).unwrap().file_type().is_block_device());
    assert!(fs::metadata(blank.path()).unwrap().file_type().is_block_device());
    assert!(fs::read(&image).unwrap() == bytes && fs::metadata(&image).unwrap().ino() == inode);
    let image = fs::read(&lived_in.backing.path).unwrap();
    assert_eq!(image.len(), 8 << 20);
    assert_eq!(image[1080..1082], [0x53, 0xEF], "the magic number of ext4");
}

#[test]
fn a_target_that_holds_what_the_command_reads_is_refused_by_whatever_name() {
    let fixture = Fixture::regular(20_000, 10);
    let load = fixture.path("load");
    fs::write(fixture.path("map"), format!("#{}\n*=1\n", "-".repeat(1 << 16))).unwrap();
    let over = |name: &str| Attached::over(&fixture.path(name), &[]);
    let device = or_skip!(over("load"));
    let of_map = or_skip!(over("map"));
    let short = ["gen:random?rate=100&count=10&area=16k", "--align", "round", "-o", "new", "-q"];
    let before = everything(fixture.directory.path());
    let replay = |trace: &str, rest: &[&str], target: &str| {
        let mut words = vec!["replay", trace];
        words.extend_from_slice(&short[1..]);
        words.extend_from_slice(rest);
        words.extend(["--target", target, "--destroy", target]);
        fixture.run(&words)
    };
    let prepare = [
        "prepare",
        device.path(),
        "--destroy",
        device.path(),
        "--part",
        "touched",
        "--trace",
        "load",
    ];
    for answer in [
        replay("load", &[], device.path()),
        replay(short[0], &["--merge", "load"], device.path()),
        replay(short[0], &["--map-file", "map"], of_map.path()),
        fixture.run(&prepare),
    ] {
        assert_eq!(answer.status.code(), Some(2), "{}", said(&answer));
        assert!(said(&answer).contains("which this command needs"), "{}", said(&answer));
    }
    assert!(everything(fixture.directory.path()) == before, "something was changed");
    // A command that only reads harms nothing.
    let reading = ["replay", "load", "--read-only", "-o", "new", "-q", "--timing", "afap"];
    let answer =
        fixture.run(&[&reading[..], &["--align", "round", "--target", device.path()]].concat());
    assert!(fixture.path("new/run.toml").exists(), "{}", said(&answer));
    assert_eq!(fs::read(&load).unwrap(), before[&load]);
}

#[test]
fn results_and_a_tree_do_not_lie_in_each_other() {
    let fixture = Fixture::regular(1, 1);
    let flow = "--flow=files:format?do=mkdir,fill;threads=1";
    for (output, target) in [("a/r", "tree:a?files=3"), ("a", "tree:a/tree?parents=yes")] {
        let output = format!("--output={output}");
        let target = format!("--target={target}");
        let output = fixture.run(&["replay", "-q", &output, &target, flow]);
        assert_eq!(output.status.code(), Some(6), "{}", said(&output));
        assert!(said(&output).contains("lie in each other"), "{}", said(&output));
        assert!(!fixture.path("a").exists());
    }
}

#[test]
fn no_tree_is_made_within_results_or_within_another_tree() {
    let fixture = Fixture::regular(1, 1);
    let make = "--flow=files:format?do=mkdir,fill;threads=1";
    let made = |output: &str, target: &str, flow: &str| {
        let output = format!("--output={output}");
        let output = fixture.run(&["replay", "-q", &output, &format!("--target={target}"), flow]);
        (output.status.code(), said(&output))
    };
    let (code, told) = made("first", "tree:a?files=3", make);
    assert!(matches!(code, Some(0 | 10 | 11 | 12 | 14)), "{told}");
    for (target, reason) in [
        ("tree:first/tree?parents=yes", "in the results of a run in"),
        ("tree:a/below?files=3", "in the tree of files in"),
        ("tree:a/vdb.1_1.dir/deep/x?parents=yes", "in the tree of files in"),
    ] {
        let (code, told) = made("second", target, make);
        assert_eq!(code, Some(6), "{told}");
        assert!(told.contains(reason) && told.contains("nothing was touched"), "{told}");
        assert!(!fixture.path("second").exists());
    }
    assert!(!fixture.path("first/tree").exists() && !fixture.path("a/below").exists());
    // Somebody's run.toml, and a tree beside another, are in nobody's way.
    fs::create_dir(fixture.path("theirs")).unwrap();
    fs::write(fixture.path("theirs/run.toml"), "[theirs]").unwrap();
    let (code, told) = made("third", "tree:theirs/tree?files=3", make);
    assert!(matches!(code, Some(0 | 10 | 11 | 12 | 14)), "{told}");
}
