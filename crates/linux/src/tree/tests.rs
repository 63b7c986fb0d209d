//! A tree below a real directory: what is made there, and what is never touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ioecho_replay::pattern::Pattern;
use ioecho_replay::tree::{Call, Clients, FileFlow, FileState, MARKER, Next, Tree};
use ioecho_replay::{Completion, Device, Io};
use ioecho_trace::recorded::{Before, BeforeKind, RecordedFiles};
use ioecho_trace::{Bytes, Flags, Nanos, Outcome};

use super::mark::Mark;
use super::*;
use crate::MonotonicClock;

fn tree(line: &str) -> Arc<Tree> {
    Arc::new(Tree::new(line.parse().unwrap()))
}

/// What nobody raises.
fn never() -> AtomicBool {
    AtomicBool::new(false)
}

/// Does a load with one thread, for so many calls; returns what failed.
fn does(
    anchor: &Anchor,
    tree: &Arc<Tree>,
    there: Option<(Anchor, Arc<Tree>)>,
    line: &str,
    calls: usize,
) -> Vec<(Call, Outcome)> {
    let to = there.as_ref().map(|(_, tree)| Arc::clone(tree));
    let flow = FileFlow::new(line.parse().unwrap(), Arc::clone(tree), to).unwrap();
    let options = FilesOptions {
        writes: flow.load.changes(),
        length_max: 1 << 16,
        kept_max: 3,
        ..Default::default()
    };
    let here = (anchor.clone(), Arc::clone(tree));
    let mut device = FilesDevice::new(here, there, options, MonotonicClock::new());
    let mut clients = Clients::new(Arc::new(flow), 0, 1);
    let (mut pattern, mut done, mut failed) = (Pattern::new(1), Vec::new(), Vec::new());
    for _ in 0..calls {
        let call = match clients.poll(Nanos::ZERO) {
            Next::Call(call) => call,
            Next::NotYet => continue,
            Next::Ended => break,
        };
        let io = Io {
            tag: 0,
            request: 7,
            scheduled: Nanos::ZERO,
            op: call.op,
            flags: Flags::empty(),
            offset: Bytes(call.place),
            length: Bytes(call.length),
        };
        device.prepare(&io, &mut pattern);
        device.submit().unwrap();
        device.reap(&mut done).unwrap();
        let Completion { outcome, submitted, completed, .. } = done.pop().unwrap();
        assert!(submitted <= completed);
        if outcome != Outcome::Ok {
            failed.push((call, outcome));
        }
        clients.completed(call.client, outcome, submitted, completed);
    }
    failed
}

fn names(path: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

const MAKE: &str = "files:format?do=mkdir,fill&size=4k";
const CLEAN: &str = "files:format?do=delete,rmdir";
const SHAPE: &str = "depth=2&width=2&files=3&size=6k";

#[test]
fn a_tree_is_made_found_again_read_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("anchor");
    assert_eq!(inspect(&path).unwrap(), AnchorState::Absent);
    let anchor = Anchor::open(&path, true, false).unwrap();
    assert_eq!(inspect(&path).unwrap(), AnchorState::Empty);
    let made = tree(SHAPE);
    assert_eq!(changed_by(&path), None);
    for results in ["/results/one", "/results/two words"] {
        anchor.mark(&made, Path::new(results)).unwrap();
        assert_eq!(changed_by(&path).unwrap(), Path::new(results));
    }
    assert_eq!(inspect(&path).unwrap(), AnchorState::Ours);
    assert_eq!(does(&anchor, &made, None, MAKE, usize::MAX), []);
    let file = path.join("vdb.1_2.dir/vdb.2_1.dir/vdb_f0003.file");
    assert_eq!(fs::metadata(file).unwrap().len(), 6 << 10);
    assert_eq!(names(&path), [MARKER, "vdb.1_1.dir", "vdb.1_2.dir"]);

    let again = tree(SHAPE);
    let found = anchor.look(&again, &never()).unwrap();
    assert_eq!((found.files, found.directories, found.foreign), (12, 6, 0));
    assert_eq!(again.states.count(FileState::Full as u8), 12);
    for load in ["read?size=4k", "getattr?", "setattr?", "access?", "open?", "mixed?size=2k"] {
        let line = format!("files:{load}&once=yes&select=random");
        assert_eq!(does(&anchor, &again, None, &line, usize::MAX), [], "{load}");
    }
    assert_eq!(does(&anchor, &again, None, CLEAN, usize::MAX), []);
    assert_eq!(names(&path), [MARKER]);
}

#[test]
fn files_are_copied_and_moved_to_another_tree() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| Anchor::open(&directory.path().join(name), true, false).unwrap();
    let (a, b) = (open("a"), open("b"));
    let (here, there) = (tree(SHAPE), tree(SHAPE));
    assert_eq!(does(&a, &here, None, MAKE, usize::MAX), []);
    assert_eq!(does(&b, &there, None, "files:format?do=mkdir", usize::MAX), []);
    let to = Some((b.clone(), Arc::clone(&there)));
    assert_eq!(does(&a, &here, to.clone(), "files:copy?to=2&once=yes", usize::MAX), []);
    let name = "vdb.1_1.dir/vdb.2_1.dir/vdb_f0001.file";
    let read = |of: &str| fs::read(directory.path().join(of).join(name)).unwrap();
    assert!(read("a") == read("b") && read("a").len() == 6 << 10);
    assert_eq!(does(&b, &there, None, "files:delete?once=yes", usize::MAX), []);
    assert_eq!(does(&a, &here, to, "files:move?to=2&once=yes", usize::MAX), []);
    assert_eq!(here.states.count(FileState::THERE), 0);
    let found = b.look(&tree(SHAPE), &never()).unwrap();
    assert_eq!(found.files, 12);
}

#[test]
fn what_is_not_of_the_tree_is_told_and_left() {
    let directory = tempfile::tempdir().unwrap();
    let anchor = Anchor::open(directory.path(), true, false).unwrap();
    assert_eq!(does(&anchor, &tree(SHAPE), None, MAKE, usize::MAX), []);
    let inside = directory.path().join("vdb.1_1.dir/vdb.2_2.dir/letters.txt");
    fs::write(&inside, "dear").unwrap();
    fs::write(directory.path().join("vdb.1_2.dir/vdb_f0001.file"), "no files here").unwrap();
    let again = tree(SHAPE);
    let found = anchor.look(&again, &never()).unwrap();
    assert_eq!((found.files, found.foreign), (12, 2));
    assert_eq!(does(&anchor, &again, None, CLEAN, usize::MAX), []);
    assert_eq!(fs::read(inside).unwrap(), b"dear");
    assert_eq!(names(directory.path()), ["vdb.1_1.dir", "vdb.1_2.dir"]);
    assert_eq!(names(&directory.path().join("vdb.1_1.dir")), ["vdb.2_2.dir"]);
}

#[test]
fn no_link_leads_out_of_the_anchor() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("anchor"), directory.path().join("other"));
    let anchor = Anchor::open(&path, true, false).unwrap();
    let shape = "depth=1&width=1&files=2&size=4k";
    let made = tree(shape);
    assert_eq!(does(&anchor, &made, None, MAKE, usize::MAX), []);
    // Somebody puts links in the place of a directory and of a file meanwhile.
    fs::rename(path.join("vdb.1_1.dir"), &other).unwrap();
    symlink(&other, path.join("vdb.1_1.dir")).unwrap();
    let failed = does(&anchor, &made, None, "files:delete?once=yes", usize::MAX);
    assert_eq!(failed.len(), 2);
    assert_eq!(names(&other).len(), 2);
    assert_eq!(anchor.look(&tree(shape), &never()).unwrap().foreign, 1);
    assert!(Anchor::open(&path.join("vdb.1_1.dir"), true, false).is_err());
    fs::remove_file(path.join("vdb.1_1.dir")).unwrap();
    fs::rename(&other, path.join("vdb.1_1.dir")).unwrap();
    let letter = directory.path().join("letter");
    fs::write(&letter, vec![b'x'; 4096]).unwrap();
    let name = path.join("vdb.1_1.dir/vdb_f0001.file");
    fs::remove_file(&name).unwrap();
    symlink(&letter, &name).unwrap();
    let failed = does(&anchor, &made, None, "files:write?size=4k&once=yes", usize::MAX);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(fs::read(&letter).unwrap().iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_mark_is_taken_whole_or_not_at_all() {
    for shape in [SHAPE, "", "depth=0", "size=5m:0", "depth=1&everywhere=yes&total=1m"] {
        let geometry = shape.parse().unwrap();
        for results in ["/results/two words", "/results/of two\nlines"] {
            let mark = Mark::new(&geometry, Path::new(results));
            let bytes = mark.to_bytes();
            assert_eq!(Mark::parse(&bytes), Some(mark), "{shape}");
            // Its first two lines are the mark of an earlier version.
            let is_mark = |end: usize| Mark::parse(&bytes[..end]).is_some();
            let marks = (0..=bytes.len()).filter(|end| is_mark(*end)).count();
            assert_eq!(marks, if results.contains('\n') { 1 } else { 2 });
        }
    }
}

#[test]
fn an_anchor_with_anything_else_is_foreign_and_one_run_has_it() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("letters.txt"), "dear").unwrap();
    let state = inspect(directory.path()).unwrap();
    assert_eq!(state, AnchorState::Foreign("letters.txt".to_owned()));
    assert!(inspect(&directory.path().join("letters.txt")).is_err());
    let one = Anchor::open(directory.path(), true, false).unwrap();
    let error = Anchor::open(directory.path(), true, false).unwrap_err();
    assert!(error.to_string().contains("another run"), "{error}");
    drop(one);
    let reader = Anchor::open(directory.path(), false, false).unwrap();
    assert!(Anchor::open(directory.path(), false, false).is_ok());
    assert!(Anchor::open(directory.path(), true, false).is_err());
    drop(reader);
}

#[test]
fn a_failing_call_is_the_callers_to_know() {
    let directory = tempfile::tempdir().unwrap();
    let anchor = Anchor::open(directory.path(), true, false).unwrap();
    let shape = "depth=1&width=1&files=1&size=4k";
    let supposed = tree(shape);
    supposed.put_directory(0);
    supposed.put_file(0, 4096);
    let failed = does(&anchor, &supposed, None, "files:read?size=4k&once=yes", usize::MAX);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].1, Outcome::Error(libc::ENOENT));
    let again = tree(shape);
    assert_eq!(does(&anchor, &again, None, MAKE, usize::MAX), []);
    fs::write(directory.path().join("vdb.1_1.dir/vdb_f0001.file"), [0; 100]).unwrap();
    let short = does(&anchor, &again, None, "files:read?size=4k&once=yes", usize::MAX);
    assert_eq!(short.len(), 1);
    assert_eq!(short[0].1, Outcome::Short);
    let _ = fs::remove_dir_all(directory.path().join("vdb.1_1.dir"));
}

#[test]
fn threads_keep_fewer_directories_open_than_the_process_may_have_descriptors() {
    let may_have = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    for threads in [0, 1, 8, 100_000] {
        let kept = kept_by_each(threads) as u64;
        assert!((1..=256).contains(&kept), "{threads}: {kept}");
        let all = 2 * threads as u64 * kept;
        assert!(kept == 1 || may_have.is_none_or(|most| all <= most / 2), "{threads}: {kept}");
    }
}

#[test]
fn looking_at_a_tree_ends_when_that_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("foreign"), "").unwrap();
    let anchor = Anchor::open(home.path(), false, false).unwrap();
    let asked = anchor.look(&tree(SHAPE), &AtomicBool::new(true)).unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::Interrupted);
    assert_eq!(anchor.look(&tree(SHAPE), &never()).unwrap().foreign, 1);
}

/// Names that a recorded load found: a directory, and a file in it of so many bytes.
fn found_before(size: u64) -> RecordedFiles {
    let before =
        |path: &str, kind, size| Before { path: path.to_owned(), kind, size, target: None };
    let before =
        vec![before("d", BeforeKind::Directory, 0), before("d/file", BeforeKind::File, size)];
    RecordedFiles { before, ..RecordedFiles::default() }
}

#[test]
fn what_was_there_before_is_made_until_somebody_asks_for_an_end() {
    let home = tempfile::tempdir().unwrap();
    let anchor = Anchor::open(&home.path().join("a"), true, false).unwrap();
    let (name, error) =
        make_before(&anchor, &found_before(5000), &AtomicBool::new(true)).unwrap_err();
    assert_eq!((name.as_str(), error.kind()), ("d", std::io::ErrorKind::Interrupted));
    let made = make_before(&anchor, &found_before(5000), &never()).unwrap();
    assert_eq!((made.files, made.directories, made.bytes), (1, 1, 5000));
    assert_eq!(fs::metadata(anchor.path().join("d/file")).unwrap().len(), 5000);
}

#[test]
fn what_it_needs_is_known_before_and_has_no_limit() {
    assert_eq!(needed_before(&found_before(0)), 4096);
    assert_eq!(needed_before(&found_before(4097)), 3 * 4096);
    assert_eq!(needed_before(&found_before(u64::MAX)), u64::MAX);
}
