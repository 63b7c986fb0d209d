//! File operations of an application: recorded, converted, and replayed in another place, with the
//! same final tree.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ioecho_fixture::{LoopDevice, MountPoint};
use ioecho_trace::formats::{ReadOptions, open};
use ioecho_trace::{Batch, Header, Op, Outcome, Request};
use program::{ioecho, said};
use tempfile::TempDir;

/// A build that a shipped text of strace has recorded.
const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/build.strace");

/// What lies below a directory, by name: what it is, the size of a file, what a link says.
fn tree(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::symlink_metadata(&path).unwrap();
            let told = if data.is_dir() {
                left.push(path.clone());
                "directory".to_owned()
            } else if data.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else {
                format!("{} bytes", data.len())
            };
            all.insert(path.strip_prefix(directory).unwrap().to_owned(), told);
        }
    }
    all
}

/// The rows of a trace, and its header.
fn rows(path: &Path) -> (Vec<Request>, Header) {
    let mut source = open(path, &ReadOptions::default()).unwrap();
    let mut batch = Batch::new(source.header().columns);
    let mut rows = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        rows.extend(batch.iter());
    }
    let header = source.header().clone();
    (rows, header)
}

/// Does what a command line asks for; answers what was said.
fn does(home: &Path, arguments: &[&str], code: i32) -> String {
    let output = ioecho(home, arguments);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    text
}

/// Replays a converted recording in a directory, and holds what was done against what was recorded.
fn replay(home: &Path, trace: &str, timing: &str, directory: &Path) {
    let output = format!("--output={}", home.join("run").display());
    let target = format!("--target=tree:{}", directory.display());
    let timing = format!("--timing={timing}");
    let output = ioecho(home, &["replay", trace, "-q", &timing, &output, &target]);
    let said = said(&output);
    // What is late, on a busy machine or a quick one, says nothing of what was done.
    let code = output.status.code().unwrap();
    assert!([0, 10, 11, 12].contains(&code), "{code}: {said}");
    let (recorded, header) = rows(&home.join(trace));
    let (replayed, of_run) = rows(&home.join("run/requests.parquet"));
    assert_eq!(header.files, of_run.files);
    let what = |rows: &[Request]| -> Vec<(Op, u64, u64)> {
        let mut what: Vec<_> =
            rows.iter().map(|row| (row.op, row.offset.0, row.length.0)).collect();
        what.sort_unstable();
        what
    };
    assert_eq!(what(&recorded), what(&replayed));
    let files = header.files.unwrap();
    for row in &replayed {
        let measured = row.measured.unwrap();
        let place = files.at(row.offset.0).unwrap().0;
        assert_eq!(measured.outcome, Outcome::Ok, "{row:?} {place:?}: {said}");
        assert!(measured.service_time().is_some());
    }
    fs::remove_dir_all(home.join("run")).unwrap();
}

#[test]
fn a_build_is_converted_and_replayed_to_the_tree_that_it_left() {
    let home = TempDir::new().unwrap();
    does(home.path(), &["convert", BUILD, "build.parquet"], 0);
    let (recorded, header) = rows(&home.path().join("build.parquet"));
    let count = |op| recorded.iter().filter(|row| row.op == op).count();
    let counted = [Op::Create, Op::Mkdir, Op::Rename, Op::Readdir, Op::Fsync, Op::Truncate];
    assert_eq!(counted.map(count), [5, 3, 2, 2, 1, 2]);
    assert_eq!([Op::Link, Op::Symlink, Op::Setattr, Op::Access].map(count), [1, 1, 2, 1]);
    assert!(recorded.iter().all(|row| row.origin.unwrap().pid >= 100));
    assert!(header.losses.iter().all(|note| !note.what.contains("junk")), "{:?}", header.losses);

    let info = does(home.path(), &["info", "build.parquet"], 0);
    assert!(info.contains("there before: ") && !info.contains("TiB"), "{info}");
    assert!(!info.contains("requests wait for which"), "{info}");
    // Calls on files are told by their numbers and names, not by places.
    let analysis = does(home.path(), &["analyze", "build.parquet"], 0);
    assert!(analysis.contains("\noperations    close: 11, "), "{analysis}");
    assert!(analysis.contains("\nfiles         13 names in calls\n"), "{analysis}");
    assert!(analysis.contains(": fsync of /src/app/build/a.o.tmp, "), "{analysis}");
    assert!(!analysis.contains("turn back") && !analysis.contains("TiB"), "{analysis}");
    let dry = ["replay", "build.parquet", "--dry-run", "--timing=afap", "-t", "tree:dry"];
    let dry = does(home.path(), &dry, 0);
    assert!(dry.contains("changed       dry, by 7 writes of 8.81 KiB together"), "{dry}");
    assert!(!dry.contains("wraparound") && !dry.contains("overwritten"), "{dry}");
    // At the instants of the recording the load has a length, whoever waits for whom.
    let dry = does(home.path(), &["replay", "build.parquet", "--dry-run", "-t", "tree:dry"], 0);
    assert!(dry.contains(" requests in 8.10 ms, 57 of them behind others ("), "{dry}");
    // Places of recorded files are numbers of names, which nobody draws.
    does(home.path(), &["report", "build.parquet", "-o", "page.html"], 0);
    let page = fs::read_to_string(home.path().join("page.html")).unwrap();
    for drawn in ["Offsets", "Distances", "Positions", " TiB)"] {
        assert!(!page.contains(drawn), "{drawn}");
    }
    assert!(page.contains("Working sets") && page.contains("/src/app/build/a.o.tmp"));

    let place = home.path().join("replayed");
    replay(home.path(), "build.parquet", "afap", &place);
    let expected = [
        ("ioecho.tree", None),
        ("src", Some("directory")),
        ("src/app", Some("directory")),
        ("src/app/Makefile", Some("300 bytes")),
        ("src/app/a.c", Some("700 bytes")),
        ("src/app/app", Some("1200 bytes")),
        ("src/app/b.c", Some("500 bytes")),
        ("src/app/out", Some("directory")),
        ("src/app/out/a.o", Some("1000 bytes")),
        ("src/app/out/b.copy", Some("1500 bytes")),
        ("src/app/out/b.o", Some("1500 bytes")),
        ("src/app/out/log", Some("19 bytes")),
        ("src/app/out/run", Some("link to ../app")),
        ("tmp", Some("directory")),
        ("usr", Some("directory")),
        ("usr/lib", Some("directory")),
        ("usr/lib/libc.so.6", Some("20000 bytes")),
    ];
    let found = tree(&place);
    let names: Vec<&Path> = found.keys().map(PathBuf::as_path).collect();
    assert_eq!(names, expected.map(|(name, _)| Path::new(name)));
    for (name, told) in expected {
        assert!(told.is_none_or(|told| found[Path::new(name)] == told), "{name}: {found:?}");
    }

    // What the run leaves is a trace again: it is replayed like the recording.
    let again = home.path().join("again");
    let output = ["replay", "build.parquet", "-q", "--output=first", "--timing=afap"];
    let target = format!("--target=tree:{}", again.display());
    does(home.path(), &[&output[..], &[&target]].concat(), 0);
    replay(home.path(), "first/requests.parquet", "afap", &home.path().join("third"));
    assert_eq!(tree(&home.path().join("third/src")), tree(&place.join("src")));
}

#[test]
fn a_recorded_load_takes_a_directory_of_its_own_and_what_it_has_not_is_refused() {
    let home = TempDir::new().unwrap();
    does(home.path(), &["convert", BUILD, "build.parquet"], 0);
    fs::create_dir(home.path().join("letters")).unwrap();
    fs::write(home.path().join("letters/dear.txt"), "dear").unwrap();
    let replay = ["replay", "build.parquet", "-q", "--output=r"];
    let refused = |more: &[&str], code: i32, expected: &str| {
        let text = does(home.path(), &[&replay[..], more].concat(), code);
        assert!(text.contains(expected), "{text}");
        assert!(!home.path().join("r").exists());
    };
    refused(&["--target=tree:letters"], 6, "is not empty");
    refused(&["--target=tree:letters", "--destroy=letters"], 6, "is not empty");
    refused(&["--target=tree:a?files=3"], 2, "has no shape");
    refused(&["--target=tree:a", "--target=tree:b"], 2, "one directory");
    refused(&["--target=tree:a", "--read-only"], 2, "changes files");
    refused(&["--target=tree:a", "--start=5ms"], 2, "made before");
    refused(&["--target=sim:tree"], 3, "is for files");
    refused(&["--target=sim"], 3, "is for files");
    assert_eq!(fs::read_dir(home.path().join("letters")).unwrap().count(), 1);
    assert!(!home.path().join("a").exists());
    let text = does(home.path(), &["replay", BUILD, "-q", "--output=r", "--target=tree:a"], 3);
    assert!(text.contains("convert"), "{text}");
    let raw = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/recordings/files.recording");
    let text = does(home.path(), &["replay", raw, "-q", "--output=r", "--target=tree:a"], 3);
    assert!(text.contains("convert"), "{text}");
    let text = fs::read_to_string(BUILD).unwrap().replace("/src/app/build", "/ioecho.tree");
    fs::write(home.path().join("mark.strace"), text).unwrap();
    does(home.path(), &["convert", "mark.strace", "mark.parquet"], 0);
    let mark = ["replay", "mark.parquet", "-q", "--output=r", "--target=tree:a"];
    assert!(does(home.path(), &mark, 3).contains("that of the mark of a tree"));
    let transformed = ["convert", "build.parquet", "less.parquet", "--filter", "op != fsync"];
    does(home.path(), &transformed, 0);
    let less = ["replay", "less.parquet", "-q", "--output=r", "--target=tree:a"];
    assert!(does(home.path(), &less, 3).contains("transformed"));
}

#[test]
fn what_was_there_before_must_have_room() {
    let home = TempDir::new().unwrap();
    let text = "100 1700000000.000000 stat(\"/big\", {st_mode=S_IFREG|0644, \
                st_size=9223372036854775807, ...}) = 0 <0.000020>\n";
    fs::write(home.path().join("big.strace"), text).unwrap();
    does(home.path(), &["convert", "big.strace", "big.parquet"], 0);
    let replay = ["replay", "big.parquet", "-q", "--output=r", "--target=tree:a"];
    let text = does(home.path(), &replay, 5);
    assert!(text.contains("needs 8.00 EiB") && text.contains("are free"), "{text}");
    assert!(!home.path().join("a").exists() && !home.path().join("r").exists());
}

#[test]
fn a_file_system_that_knows_no_rename_without_replacing_gets_it_as_mv_makes_it() {
    let home = TempDir::new().unwrap();
    for name in ["below", "above"] {
        fs::create_dir(home.path().join(name)).unwrap();
    }
    let mount = home.path().join("above");
    let bind = Command::new("bindfs").arg(home.path().join("below")).arg(&mount).status();
    if !bind.is_ok_and(|bind| bind.success()) {
        ioecho_fixture::skipped("there is no bindfs here");
        return;
    }
    let text = "100 1700000000.000000 openat(AT_FDCWD, \"/a\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3 \
                <0.000020>\n\
                100 1700000000.000100 renameat2(AT_FDCWD, \"/a\", AT_FDCWD, \"/b\", \
                RENAME_NOREPLACE) = 0 <0.000020>\n\
                100 1700000000.000200 openat(AT_FDCWD, \"/a\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4 \
                <0.000020>\n\
                100 1700000000.000300 renameat2(AT_FDCWD, \"/a\", AT_FDCWD, \"/b\", \
                RENAME_NOREPLACE) = -1 EEXIST (File exists) <0.000020>\n";
    fs::write(home.path().join("mv.strace"), text).unwrap();
    does(home.path(), &["convert", "mv.strace", "mv.parquet"], 0);
    let replay = ["replay", "mv.parquet", "-q", "--output=r", "--target=tree:above/t"];
    let output = ioecho(home.path(), &replay);
    let said = said(&output);
    let left = tree(&mount.join("t"));
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    assert!([0, 10, 12].contains(&output.status.code().unwrap()), "{said}");
    let told = said.matches("as mv makes them there").count();
    let names: Vec<&Path> = left.keys().map(PathBuf::as_path).collect();
    assert_eq!(names, ["a", "b", "ioecho.tree"].map(Path::new));
    let (rows, _) = rows(&home.path().join("r/requests.parquet"));
    assert!(rows.iter().all(|row| row.measured.unwrap().outcome == Outcome::Ok), "{said}");
    assert_eq!(told, 1, "{said}");
}

/// Runs a program in a directory, which must succeed; `false` if there is no such program.
fn runs(home: &Path, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1");
    let Ok(output) = command.output() else { return false };
    assert!(output.status.success(), "{program} {arguments:?}: {}", said(&output));
    true
}

/// Makes a git repository of the directory `source`, has strace record a script beside it, and
/// converts the recording to `NAME.parquet`; whether the programs for this are here.
fn records(home: &Path, script: &str, name: &str) -> bool {
    let source = home.join("source");
    let commit = ["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"];
    let is_there = runs(home, "strace", &["-V"])
        && runs(home, "tar", &["--version"])
        && runs(&source, "git", &["init", "-q", "."])
        && runs(&source, "git", &["add", "."])
        && runs(&source, "git", &commit);
    if !is_there {
        ioecho_fixture::skipped("there is no strace, no tar or no git here");
        return false;
    }
    let recording = format!("{name}.strace");
    let recorder = ["-f", "-ttt", "-T", "-y", "-o", &recording, "sh", "-c", script];
    assert!(runs(home, "strace", &recorder));
    does(home, &["convert", &recording, &format!("{name}.parquet")], 0);
    true
}

/// A script that works like a build: it reads sources, writes, appends, moves, links, removes.
const SCRIPT: &str = "set -e
git clone -q source clone
cd clone
mkdir -p target/deps
for name in a b c; do
    cat $name.txt sub/d.txt > target/deps/$name.tmp
    echo built >> target/log
    mv target/deps/$name.tmp target/deps/$name.o
done
cat target/deps/*.o > target/app
cp target/app target/app.bak
ln -s app target/run
ln target/app.bak target/hard
chmod 755 target/app
rm target/deps/b.o
mkdir old && rmdir old
mv target/deps target/parts
";

#[test]
fn a_git_clone_and_a_build_recorded_by_strace_leave_the_same_trees_elsewhere() {
    let home = TempDir::new().unwrap();
    let source = home.path().join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    for (name, bytes) in [("a.txt", 10), ("b.txt", 5000), ("c.txt", 200_000), ("sub/d.txt", 77)] {
        let text: String = (0..bytes).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
        fs::write(source.join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("sub/d.txt", source.join("link")).unwrap();
    if !records(home.path(), SCRIPT, "rec") {
        return;
    }
    let recorded = tree(&home.path().join("clone"));
    let elsewhere = Path::new("/dev/shm");
    let memory = TempDir::new_in(if elsewhere.is_dir() { elsewhere } else { home.path() }).unwrap();
    let place = home.path().canonicalize().unwrap();
    let beneath = place.strip_prefix("/").unwrap().join("clone");
    let replays = |timing: &str, directory: &Path| {
        replay(home.path(), "rec.parquet", timing, directory);
        assert_eq!(tree(&directory.join(&beneath)), recorded, "{}", directory.display());
    };
    replays("afap", &memory.path().join("tree"));
    replays("dependency", &home.path().join("tree"));
    for kind in ["ext4", "xfs"] {
        match file_system(kind) {
            Ok((mount, _device)) => replays("afap", &mount.path().join("tree")),
            Err(why) => ioecho_fixture::skipped(format!("no {kind} on a loop device: {why}")),
        }
    }
}

/// Two processes that do the same beside each other: each writes files and brings them to the disk.
fn two_processes() -> String {
    let mut lines = vec![
        (0, 50, "100 T mkdir(\"/two\", 0777) = 0 <0.000050>".to_owned()),
        (100, 30, "100 T clone(child_stack=NULL, flags=SIGCHLD) = 101 <0.000030>".to_owned()),
    ];
    for pid in [100, 101] {
        for n in 0..50 {
            let at = 1000 + n * 1000 + i64::from(pid - 100) * 7;
            let path = format!("/two/{pid}.{n}");
            let calls = [
                format!("openat(AT_FDCWD, \"{path}\", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3"),
                "write(3, \"x\"..., 5000) = 5000".to_owned(),
                "fsync(3) = 0".to_owned(),
                "close(3) = 0".to_owned(),
            ];
            for (k, call) in (0..).zip(calls) {
                lines.push((at + 200 * k, 190, format!("{pid} T {call} <0.000190>")));
            }
        }
    }
    // A line stands where its call begins, which returns before that process makes another.
    lines.sort_by_key(|(at, ..)| *at);
    let told = lines.iter().map(|(at, _, line)| {
        line.replacen('T', &format!("17000000{:02}.{:06}", at / 1_000_000, at % 1_000_000), 1)
            + "\n"
    });
    told.collect()
}

/// How many calls were in flight at a time, and how many could be.
fn in_flight(home: &Path, run: &str) -> (u64, u64) {
    let text = fs::read_to_string(home.join(run).join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = |name: &str| summary["engine"][name].as_u64().unwrap();
    (of("in_flight_peak"), of("in_flight_max"))
}

#[test]
fn calls_of_two_processes_are_made_beside_each_other_whatever_the_timing() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("two.strace"), two_processes()).unwrap();
    does(home.path(), &["convert", "two.strace", "two.parquet"], 0);
    let mut trees = Vec::new();
    for timing in ["afap", "load", "dependency", "timed"] {
        for most in ["1", "4096"] {
            let run = format!("run.{timing}.{most}");
            let directory = home.path().join(format!("{timing}.{most}"));
            let target = format!("--target=tree:{}", directory.display());
            let timed = format!("--timing={timing}");
            let (output, cap) = (format!("--output={run}"), format!("--in-flight-max={most}"));
            let asked = ["replay", "two.parquet", "-q", &timed, &output, &cap, &target];
            let code = ioecho(home.path(), &asked).status.code().unwrap();
            assert!([0, 10, 11, 12].contains(&code), "{run}: {code}");
            let (recorded, header) = rows(&home.path().join(&run).join("requests.parquet"));
            let is_ok = |row: &Request| row.measured.unwrap().outcome == Outcome::Ok;
            assert!(recorded.iter().all(is_ok) && header.files.is_some(), "{run}");
            let (peak, cap) = in_flight(home.path(), &run);
            assert_eq!((cap, recorded.len()), (if most == "1" { 1 } else { 2 }, 401), "{run}");
            // At recorded instants each may have returned before the other began.
            assert!(peak == cap || peak < cap && timing != "afap", "{run}: {peak} of {cap}");
            trees.push(tree(&directory.join("two")));
        }
    }
    // The results say what each call needs, and so do those of their replay.
    for (load, run) in [("run.afap.4096", "again"), ("again", "third")] {
        let target = format!("--target=tree:{}", home.path().join("more").join(run).display());
        let target = format!("{target}?parents=yes");
        let output = format!("--output={run}");
        let asked = ["replay", load, "-q", "--timing=afap", &output, &target];
        let code = ioecho(home.path(), &asked).status.code().unwrap();
        assert!([0, 10, 12].contains(&code), "{run}: {code}");
        assert_eq!(in_flight(home.path(), run), (2, 2), "{run}");
        trees.push(tree(&home.path().join("more").join(run).join("two")));
    }
    assert_eq!(trees[0].len(), 100);
    assert!(trees.iter().all(|tree| *tree == trees[0]));
}

/// Programs that race: two clones of one repository, an archive, and some that replace one name
/// and append to one file.
const RACE: &str = "echo 00 > current
git clone -q source first &
git clone -q --no-hardlinks source second &
(tar cf all.tar source && mkdir unpacked && tar xf all.tar -C unpacked) &
for n in 1 2 3 4; do
    (for k in 1 2 3 4 5; do
        echo $n$k > made.$n
        cat current > seen.$n
        mv made.$n current
        echo $n$k >> log
    done) &
done
wait
";

#[test]
fn programs_that_race_leave_the_same_tree_in_every_replay() {
    let home = TempDir::new().unwrap();
    let source = home.path().join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    for n in 0..40 {
        fs::write(source.join(format!("sub/{n}")), vec![b'x'; n * 700]).unwrap();
    }
    if !records(home.path(), RACE, "race") {
        return;
    }
    let place = home.path().canonicalize().unwrap();
    let beneath = place.strip_prefix("/").unwrap();
    let of =
        |directory: &Path| ["first", "second", "unpacked"].map(|name| tree(&directory.join(name)));
    let recorded = of(home.path());
    let mut all = Vec::new();
    for n in 0..10 {
        let timing = ["afap", "load", "afap", "dependency", "timed"][n % 5];
        let directory = home.path().join(format!("tree.{n}"));
        replay(home.path(), "race.parquet", timing, &directory);
        assert_eq!(of(&directory.join(beneath)), recorded, "{timing}");
        all.push(tree(&directory.join(beneath)));
    }
    assert!(all.iter().all(|tree| *tree == all[0]));
}

/// A file system of this kind on a loop device of its own.
fn file_system(kind: &str) -> Result<(MountPoint, LoopDevice), String> {
    // The least that mkfs.xfs takes.
    let device = LoopDevice::new(300 << 20)?;
    ioecho_fixture::run(&format!("mkfs.{kind}"), &["-q", device.path()])?;
    Ok((MountPoint::of(&device.path)?, device))
}

/// What is done to a tree and one beside it: everything that threads do to files.
const EVERYTHING: [&str; 8] = [
    "write=files:write?size=4k&access=random&select=random;threads=2;on=1",
    "read=files:read?size=8k&select=random;threads=1;on=1",
    "create=files:create?select=random;threads=1;on=1",
    "remove=files:delete?select=random;threads=1;on=1",
    "look=files:getattr?select=random;threads=1;on=1",
    "touch=files:setattr?select=random;threads=1;on=1",
    "move=files:move?to=2&select=random;threads=1;on=1",
    "copy=files:copy?to=1&select=random;threads=1;on=2",
];

#[test]
fn a_finished_load_on_trees_is_a_load_again() {
    let home = TempDir::new().unwrap();
    let made = |name: &str, trees: [&str; 2], flows: &[&str], more: &[&str]| {
        let targets = trees.map(|tree| format!("--target={tree}"));
        let output = format!("--output={name}");
        let flows: Vec<String> = flows.iter().map(|flow| format!("--flow={flow}")).collect();
        let mut line = vec!["replay", "-q", output.as_str()];
        line.extend(targets.iter().chain(&flows).map(String::as_str).chain(more.iter().copied()));
        let output = ioecho(home.path(), &line);
        let code = output.status.code().unwrap();
        assert!([0, 10, 11, 12].contains(&code), "{code}: {}", said(&output));
    };
    let shape = "width=3&files=20&size=4k:50,12k:50";
    let real = ["one", "two"].map(|name| format!("tree:{name}?{shape}"));
    let real = real.each_ref().map(String::as_str);
    let both = [
        "one=files:format?do=mkdir,fill&size=4k;threads=2;on=1",
        "two=files:format?do=mkdir;threads=1;on=2",
    ];
    let there = || ["one", "two"].map(|name| tree(&home.path().join(name)));
    made("made", real, &both, &[]);
    let after_made = there();
    let destroy = ["--destroy=one", "--destroy=two", "--end-after=300ms"];
    made("used", real, &EVERYTHING, &destroy);
    let after_used = there();
    let in_memory = [format!("sim:tree?{shape}"), format!("sim:tree?{shape}&found=directories")];
    let in_memory = in_memory.each_ref().map(String::as_str);
    made("simulated", in_memory, &EVERYTHING, &["--end-after=100ms"]);
    for (run, timing, left) in [
        ("made", "timed", Some(&after_made)),
        ("made", "dependency", Some(&after_made)),
        ("used", "dependency", Some(&after_used)),
        ("used", "afap", Some(&after_used)),
        ("simulated", "dependency", None),
    ] {
        let to = TempDir::new().unwrap();
        let directory = to.path().join("again");
        let again = format!("{run}-{timing}");
        let target = format!("--target=tree:{}", directory.display());
        let (timing, output) = (format!("--timing={timing}"), format!("--output={again}"));
        let output = ioecho(home.path(), &["replay", run, "-q", &timing, &output, &target]);
        let said = said(&output);
        assert!([0, 10, 11, 12].contains(&output.status.code().unwrap()), "{again}: {said}");
        let requests = |run: &str| rows(&home.path().join(run).join("requests.parquet"));
        let ((first, _), (rows, header)) = (requests(run), requests(&again));
        let failed = |row: &&Request| row.measured.unwrap().outcome != Outcome::Ok;
        assert_eq!(rows.iter().filter(failed).count(), 0, "{again}: {said}");
        // A program that copies opens two files, reads one, writes the other, and closes both.
        let copies = first.iter().filter(|row| row.op == Op::Copy).count();
        assert_eq!(rows.len(), first.len() + 5 * copies, "{again}");
        assert!(header.files.is_some(), "{again} can be replayed in its turn");
        for (nth, left) in left.into_iter().flatten().enumerate() {
            let mut found = tree(&directory.join((nth + 1).to_string()));
            // What the load did not name was not made.
            let left: BTreeMap<PathBuf, String> = left
                .iter()
                .filter(|(path, _)| !path.ends_with("ioecho.tree"))
                .filter(|(path, _)| run == "made" || found.contains_key(*path))
                .map(|(path, what)| (path.clone(), what.clone()))
                .collect();
            found.retain(|path, _| !path.ends_with("ioecho.tree"));
            assert_eq!(found, left, "{again}");
        }
    }
}
