//! What calls mean, one after the other.

use super::call::{Descriptor, OpenFlags, Told, ToldKind, WriteFlags};
use super::*;
use crate::header::Notes;
use crate::recorded::{BeforeKind, PLACE_BYTES, RecordedFiles};
use crate::request::{Op, Request};
use crate::units::Nanos;

/// A recording that is being made up.
struct Recording {
    model: Model,
    now: i64,
    rows: Vec<(Request, u64, Vec<u64>)>,
}

impl Recording {
    fn new() -> Self {
        Self { model: Model::new(true), now: 0, rows: Vec::new() }
    }

    fn call(&mut self, task: u32, call: Call, result: Result<i64, i32>) -> &mut Self {
        let (begun, took) = (Nanos(self.now), Some(Nanos(5)));
        self.now += 10;
        let event = Event { task, begun, took, call, result };
        let rows = &mut self.rows;
        self.model.take(&event, &mut |row| {
            let dependency = row.dependency.unwrap();
            rows.push((row.request, dependency.id, dependency.parents.to_vec()));
        });
        self
    }

    fn open(&mut self, task: u32, path: &str, flags: OpenFlags, descriptor: i64) -> &mut Self {
        let call = Call::Open { at: at(path), flags, mode: Some(0o644), opened: None };
        self.call(task, call, Ok(descriptor))
    }

    fn files(&self) -> RecordedFiles {
        self.model.files()
    }

    /// The rows: what, on which name, from where, how much.
    fn told(&self) -> Vec<(Op, String, u64, u64)> {
        let files = self.files();
        let told = self.rows.iter().map(|(request, ..)| {
            let (place, within) = files.at(request.offset.0).unwrap();
            (request.op, place.path.clone(), within, request.length.0)
        });
        told.collect()
    }

    /// What was there before: its name, what it is, its size.
    fn before(&self) -> Vec<(String, BeforeKind, u64)> {
        let files = self.files();
        files.before.into_iter().map(|before| (before.path, before.kind, before.size)).collect()
    }

    fn guesses(&self) -> Notes {
        self.model.told().1
    }
}

fn at(path: &str) -> At {
    At { path: path.as_bytes().to_vec(), ..At::default() }
}

fn number(number: i32) -> Descriptor {
    Descriptor { number, path: None }
}

fn reading() -> OpenFlags {
    OpenFlags { read: true, ..OpenFlags::default() }
}

fn making() -> OpenFlags {
    OpenFlags { write: true, create: true, truncate: true, ..OpenFlags::default() }
}

fn read(descriptor: i32, asked: u64) -> Call {
    Call::Read { from: number(descriptor), at: Whence::Position, asked: Some(asked) }
}

fn write(descriptor: i32) -> Call {
    Call::Write { to: number(descriptor), at: Whence::Position, how: WriteFlags::default() }
}

fn close(descriptor: i32) -> Call {
    Call::Close { first: descriptor, last: descriptor }
}

#[test]
fn what_is_read_was_there_before_and_what_is_made_was_not() {
    let mut it = Recording::new();
    it.open(1, "/a/b/old", reading(), 3)
        .call(1, read(3, 100), Ok(100))
        .call(1, read(3, 100), Ok(20))
        .call(1, read(3, 100), Ok(0))
        .call(1, close(3), Ok(0))
        .call(1, Call::MakeDirectory { at: at("/a/new"), mode: Some(0o777) }, Ok(0))
        .open(1, "/a/new/file", making(), 3)
        .call(1, write(3), Ok(300))
        .call(1, close(3), Ok(0));
    let (directory, file) = (BeforeKind::Directory, BeforeKind::File);
    let before = [("a", directory, 0), ("a/b", directory, 0), ("a/b/old", file, 120)];
    assert_eq!(it.before(), before.map(|(path, kind, size)| (path.to_owned(), kind, size)));
    let row = |op, path: &str, from, length| (op, path.to_owned(), from, length);
    assert_eq!(
        it.told(),
        [
            row(Op::Open, "a/b/old", 0, 0),
            row(Op::Read, "a/b/old", 0, 100),
            row(Op::Read, "a/b/old", 100, 20),
            row(Op::Read, "a/b/old", 120, 0),
            row(Op::Close, "a/b/old", 0, 0),
            row(Op::Mkdir, "a/new", 0, 0),
            row(Op::Create, "a/new/file", 0, 0),
            row(Op::Write, "a/new/file", 0, 300),
            row(Op::Close, "a/new/file", 0, 0),
        ]
    );
    assert!(it.rows.iter().all(|(request, ..)| request.latency == Some(Nanos(5))));
}

#[test]
fn names_follow_directories_descriptors_and_links() {
    let mut it = Recording::new();
    let beneath = |path: &str| At { directory: Some(5), ..at(path) };
    it.call(1, Call::ChangeDirectory(at("/home/me")), Ok(0))
        .open(1, "src", OpenFlags { directory: true, ..reading() }, 5)
        .call(1, Call::Stat { at: beneath("../x"), follow: true, told: None }, Ok(0))
        .call(1, Call::ChangeToDescriptor(number(5)), Ok(0))
        .call(1, Call::Symlink { target: b"../real".to_vec(), at: at("link") }, Ok(0))
        .call(1, Call::Access(at("link/deep")), Err(2))
        .call(
            1,
            Call::Rename {
                from: at("/home/me/src"),
                to: at("/home/me/dst"),
                no_replace: false,
                exchange: false,
                whiteout: false,
            },
            Ok(0),
        )
        .call(1, Call::Unlink(At { directory: Some(5), ..at("y") }), Ok(0));
    let names: Vec<String> = it.told().into_iter().map(|(_, path, ..)| path).collect();
    assert_eq!(
        names,
        [
            "home/me/src",
            "home/me/x",
            "home/me/src/link",
            "home/me/real/deep",
            "home/me/src",
            "home/me/dst/y",
        ]
    );
    // What lies in the directory that was renamed had the old name before.
    assert!(it.before().iter().any(|(path, ..)| path == "home/me/src/y"), "{:?}", it.before());
    let files = it.files();
    let failed = files.places.iter().find(|place| place.fails.is_some()).unwrap();
    assert_eq!((failed.path.as_str(), failed.fails), ("home/me/real/deep", Some(2)));
}

#[test]
fn children_inherit_descriptors_and_share_positions() {
    let mut it = Recording::new();
    let spawn = Call::Spawn { shares_files: false, shares_directory: false };
    let duplicate = Call::Duplicate { from: number(3), close_on_exec: false };
    it.open(1, "/out", making(), 3)
        .call(1, write(3), Ok(10))
        .call(1, spawn, Ok(2))
        .call(2, duplicate, Ok(1))
        .call(2, close(3), Ok(0))
        .call(2, Call::Execute, Ok(0))
        .call(2, write(1), Ok(5))
        .call(2, Call::Exit, Ok(0))
        .call(1, write(3), Ok(7))
        .call(1, close(3), Ok(0));
    let writes: Vec<(u64, u64)> = it
        .told()
        .into_iter()
        .filter(|(op, ..)| *op == Op::Write)
        .map(|(_, _, from, length)| (from, length))
        .collect();
    assert_eq!(writes, [(0, 10), (10, 5), (15, 7)]);
    let closes = it.told().into_iter().filter(|(op, ..)| *op == Op::Close).count();
    assert_eq!(closes, 1);
    // The child's write comes after what its parent had done, and the parent's after that.
    let parents: Vec<&[u64]> = it.rows.iter().map(|(_, _, parents)| parents.as_slice()).collect();
    assert_eq!(parents, [&[][..], &[0], &[1], &[1, 2], &[3]]);
}

#[test]
fn a_task_that_got_the_number_of_one_that_ended_waits_for_what_that_one_made() {
    let mut it = Recording::new();
    it.open(500, "/x", making(), 3)
        .call(500, Call::Exit, Ok(0))
        .open(500, "/x", reading(), 3)
        .call(500, read(3, 10), Ok(0));
    let parents: Vec<&[u64]> = it.rows.iter().map(|(_, _, parents)| parents.as_slice()).collect();
    assert_eq!(parents, [&[][..], &[0], &[1], &[2]]);
}

#[test]
fn a_program_that_is_started_closes_what_it_does_not_get() {
    let mut it = Recording::new();
    it.open(1, "/kept", reading(), 3)
        .open(1, "/closed", OpenFlags { close_on_exec: true, ..reading() }, 4)
        .call(1, Call::Execute, Ok(0));
    assert_eq!(it.told().last().unwrap(), &(Op::Close, "closed".to_owned(), 0, 0));
    it.call(1, Call::Exit, Ok(0));
    assert_eq!(it.told().last().unwrap(), &(Op::Close, "kept".to_owned(), 0, 0));
    assert!(it.rows.last().unwrap().0.latency.is_none());
    assert_eq!(it.guesses().count_of(model::CLOSED_BY_END), 2);
}

#[test]
fn files_that_are_open_at_once_have_places_of_their_own_and_later_ones_share_them() {
    let mut it = Recording::new();
    it.open(1, "/f", reading(), 3)
        .open(1, "/f", reading(), 4)
        .call(1, close(3), Ok(0))
        .call(1, close(4), Ok(0))
        .open(2, "/f", reading(), 3);
    let opened = it.rows.iter().filter(|(request, ..)| request.op == Op::Open);
    let places: Vec<u64> = opened.map(|(request, ..)| request.offset.0 / PLACE_BYTES).collect();
    assert_eq!(places, [0, 1, 0]);
}

#[test]
fn appended_writes_go_to_the_end_as_far_as_it_is_known() {
    let mut it = Recording::new();
    let append = OpenFlags { write: true, append: true, ..OpenFlags::default() };
    let told = Told { kind: ToldKind::File, size: Some(500) };
    it.call(1, Call::Stat { at: at("/log"), follow: true, told: Some(told) }, Ok(0))
        .open(1, "/log", append, 3)
        .call(1, write(3), Ok(50));
    assert_eq!(it.told().last().unwrap(), &(Op::Write, "log".to_owned(), 500, 50));
    assert_eq!(it.before(), [("log".to_owned(), BeforeKind::File, 500)]);
    // What changes a file tells nothing of what it was before.
    let later = Told { kind: ToldKind::File, size: Some(550) };
    it.call(1, Call::StatDescriptor { descriptor: number(3), told: Some(later) }, Ok(0));
    assert_eq!(it.before(), [("log".to_owned(), BeforeKind::File, 500)]);
}

#[test]
fn calls_on_the_kernels_own_names_and_on_pipes_are_counted_and_left_out() {
    let mut it = Recording::new();
    it.open(1, "/proc/self/maps", reading(), 3)
        .call(1, read(3, 10), Ok(10))
        .call(1, read(9, 10), Ok(10))
        .call(1, read(9, 10), Err(11));
    assert!(it.rows.is_empty());
    let losses = it.model.told().0;
    assert_eq!(losses.count_of(model::OF_KERNEL), 1);
    assert_eq!(losses.count_of(model::NO_FILE), 2);
    assert_eq!(losses.count_of(model::OTHER_FAILURES), 1);
    // What lies in memory there is a file like any other.
    it.open(1, "/dev/null", reading(), 4).open(1, "/dev/shm/file", reading(), 5);
    it.call(1, read(4, 10), Ok(10)).call(1, read(5, 10), Ok(10));
    assert_eq!(it.told().last().unwrap(), &(Op::Read, "dev/shm/file".to_owned(), 0, 10));
    assert_eq!(it.rows.len(), 2);
}

#[test]
fn a_call_that_reads_and_writes_is_half_a_read_and_then_half_a_write() {
    let mut it = Recording::new();
    let copy = |to| Call::Transfer {
        from: number(3),
        from_at: Whence::Position,
        to: number(to),
        to_at: Whence::Position,
    };
    it.open(1, "/from", reading(), 3)
        .open(1, "/to", making(), 4)
        .call(1, copy(4), Ok(100))
        .call(1, copy(4), Ok(0))
        .call(1, copy(9), Ok(100));
    let rows = it.rows[2..].iter().map(|(row, ..)| (row.op, row.issue.0, row.latency.unwrap().0));
    let rows: Vec<(Op, i64, i64)> = rows.collect();
    let expected = [(Op::Read, 20, 2), (Op::Write, 22, 3), (Op::Read, 30, 5), (Op::Read, 40, 5)];
    assert_eq!(rows, expected);
    assert_eq!(it.guesses().count_of(model::IN_ONE), 1);
}
