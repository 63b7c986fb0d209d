//! Calls whose meaning is easily missed, and texts that mean nothing that can be.

use super::model;
use crate::formats::ReadOptions;
use crate::formats::from_bytes::read;
use crate::formats::strace::FORMAT;
use crate::recorded::BeforeKind::{Directory, File};
use crate::recorded::OpenWord::{Direct, Dsync, Read, Sync, Write};
use crate::recorded::{Place, RecordedFiles};
use crate::request::{Flags, Op, Request};

/// What calls of one task come to.
struct Meant {
    requests: Vec<Request>,
    files: RecordedFiles,
    header: crate::Header,
}

impl Meant {
    /// Reads calls with what they returned: `close(3) = 0`.
    fn of(calls: &[&str]) -> Self {
        let lines = (0..).zip(calls).map(|(at, call)| format!("1 1.{at:06} {call} <0.000001>\n"));
        Self::of_text(&lines.collect::<String>())
    }

    fn of_text(text: &str) -> Self {
        let options = ReadOptions { format: Some(&FORMAT), ..ReadOptions::default() };
        let (requests, header) = read(text.as_bytes(), &options).unwrap();
        Self { requests, files: header.files.clone().unwrap(), header }
    }

    fn places(&self) -> impl Iterator<Item = (Op, &Place)> {
        let place = |request: &Request| self.files.at(request.offset.0).unwrap().0;
        self.requests.iter().map(move |request| (request.op, place(request)))
    }

    fn told(&self) -> Vec<(Op, &str)> {
        self.places().map(|(op, place)| (op, place.path.as_str())).collect()
    }

    fn before(&self) -> Vec<&str> {
        self.files.before.iter().map(|before| before.path.as_str()).collect()
    }

    fn lost(&self, what: impl AsRef<str>) -> u64 {
        self.header.losses.count_of(what)
    }

    fn guessed(&self, what: impl AsRef<str>) -> u64 {
        self.header.guesses.count_of(what)
    }

    fn modes(&self) -> Vec<u32> {
        self.places().filter_map(|(_, place)| place.mode).collect()
    }

    fn within(&self, op: Op) -> Vec<(u64, u64)> {
        let of_op = self.requests.iter().filter(|request| request.op == op);
        of_op.map(|it| (self.files.at(it.offset.0).unwrap().1, it.length.0)).collect()
    }
}

#[test]
fn nothing_becomes_its_own_ancestor() {
    for cycle in [
        &[r#"mkdir("/a", 0755) = 0"#, r#"link("/a", "/a/b") = 0"#][..],
        &[r#"rename("/a", "/a/b") = 0"#],
        &[r#"rename("/", "/a/b") = 0"#],
        &[r#"renameat2(AT_FDCWD, "/a", AT_FDCWD, "/a/b", RENAME_EXCHANGE) = 0"#],
        &[r#"renameat2(AT_FDCWD, "/a/b", AT_FDCWD, "/a", RENAME_EXCHANGE) = 0"#],
        // A directory by two names.
        &[r#"link("/a", "/b") = 0"#, r#"mkdir("/b/c", 0755) = 0"#, r#"rename("/a", "/b/c/d") = 0"#],
    ] {
        let after = [r#"mkdir("/a/b/c", 0755) = 0"#, r#"mkdir("/b/c/d/e", 0755) = 0"#];
        let meant = Meant::of(&[cycle, &after].concat());
        assert_eq!(meant.lost(model::IMPOSSIBLE), 1, "{cycle:?}");
        assert!(meant.told().iter().filter(|(op, _)| *op == Op::Mkdir).count() >= 2);
        assert!(meant.files.check().is_ok());
    }
}

#[test]
fn a_call_with_an_empty_path_is_one_on_its_descriptor() {
    let meant = Meant::of(&[
        r#"openat(AT_FDCWD, "/w/f", O_RDONLY) = 3</w/f>"#,
        r#"fchownat(3</w/f>, "", 0, 0, AT_EMPTY_PATH) = 0"#,
        r#"utimensat(3</w/f>, "", NULL, AT_EMPTY_PATH) = 0"#,
        r#"linkat(3</w/f>, "", AT_FDCWD, "/w/g", AT_EMPTY_PATH) = 0"#,
        r#"faccessat2(3</w/f>, "", R_OK, AT_EMPTY_PATH) = 0"#,
        r#"fchownat(4</w/h>, "", 0, 0, AT_EMPTY_PATH) = 0"#,
        r#"chdir("/w") = 0"#,
        r#"newfstatat(AT_FDCWD, "", {st_mode=S_IFDIR|0755, st_size=4096}, AT_EMPTY_PATH) = 0"#,
        r#"unlink("/w/f") = 0"#,
        r#"unlink("/w/g") = 0"#,
        r#"fchownat(3, "", 0, 0, AT_EMPTY_PATH) = 0"#,
    ]);
    assert_eq!(
        meant.told(),
        [
            (Op::Open, "w/f"),
            (Op::Setattr, "w/f"),
            (Op::Setattr, "w/f"),
            (Op::Link, "w/f"),
            (Op::Access, "w/g"),
            (Op::Setattr, "w/h"),
            (Op::Getattr, "w"),
            (Op::Delete, "w/f"),
            (Op::Delete, "w/g"),
        ]
    );
    assert_eq!(meant.before(), ["w", "w/f", "w/h"]);
    let kinds: Vec<_> = meant.files.before.iter().map(|before| before.kind).collect();
    assert_eq!(kinds, [Directory, File, File]);
    assert_eq!(meant.lost(model::NAMELESS), 1);
}

#[test]
fn names_of_the_callers_own_descriptors_are_what_these_stand_for() {
    let meant = Meant::of(&[
        r#"openat(AT_FDCWD, "/w/d", O_RDONLY|O_DIRECTORY) = 5"#,
        r#"chmod("/proc/self/fd/5", 0711) = 0"#,
        r#"openat(AT_FDCWD, "/dev/fd/5/x", O_RDONLY) = 6"#,
        r#"readlink("/proc/self/fd/5", "/w/d", 100) = 4"#,
        r#"chmod("/proc/self/fd/9", 0755) = 0"#,
    ]);
    assert_eq!(meant.told(), [(Op::Open, "w/d"), (Op::Setattr, "w/d"), (Op::Open, "w/d/x")]);
    assert_eq!(meant.modes(), [0o711]);
    assert_eq!((meant.lost(model::OF_KERNEL), meant.lost(model::NO_FILE)), (1, 1));
}

#[test]
fn how_writes_wait_for_the_medium_and_pass_the_cache_is_kept_or_told() {
    let meant = Meant::of(&[
        r#"openat(AT_FDCWD, "/a", O_RDWR|O_DIRECT) = 3"#,
        r#"openat(AT_FDCWD, "/b", O_WRONLY|O_DSYNC) = 4"#,
        r#"openat(AT_FDCWD, "/c", O_WRONLY|O_SYNC) = 5"#,
        "fdatasync(4) = 0",
        "fsync(4) = 0",
        r#"pwritev2(4, [{iov_base="x", iov_len=1}], 1, 7, RWF_DSYNC) = 1"#,
        "msync(0x7f0000000000, 4096, MS_SYNC) = 0",
        "msync(0x7f0000000000, 4096, MS_ASYNC) = 0",
        "fcntl(3, F_SETFL, O_RDWR) = 0",
        "fcntl(3, F_SETFL, O_RDWR) = 0",
    ]);
    let open: Vec<_> = meant.places().take(3).map(|(_, place)| place.open.clone()).collect();
    assert_eq!(open, [vec![Read, Write, Direct], vec![Write, Dsync], vec![Write, Sync]]);
    assert_eq!(meant.guessed(model::DATA_SYNC), 1);
    assert_eq!([model::MAPPED_SYNC, model::STATUS].map(|it| meant.lost(it)), [1, 1]);
    let waits = meant.requests.iter().filter(|it| it.flags.contains(Flags::FUA));
    assert_eq!(waits.map(|it| it.op).collect::<Vec<_>>(), [Op::Write]);
}

#[test]
fn bytes_that_are_no_text_and_the_text_of_them_are_different_names() {
    let meant = Meant::of(&[
        r#"mkdir("/a\377", 0755) = 0"#,
        r#"mkdir("/a\\xff", 0755) = 0"#,
        r#"symlink("\377", "/l") = 0"#,
    ]);
    let names: Vec<_> = meant.places().map(|(_, place)| meant.files.name(&place.path)).collect();
    assert_eq!(names, [&b"a\xff"[..], br"a\xff", b"l"]);
    let to = meant.places().find_map(|(_, place)| place.to.as_deref()).unwrap();
    assert_eq!(&*meant.files.name(to), b"\xff");
    assert!(meant.files.escaped);
    // Where nothing has an escape, nothing is one.
    let plain = Meant::of(&[r#"mkdir("/a\\x2F", 0755) = 0"#]);
    assert!(!plain.files.escaped);
    assert_eq!(plain.told(), [(Op::Mkdir, r"a\x2F")]);
}

#[test]
fn names_that_no_call_can_have_are_told_and_take_no_room() {
    let mut calls = Vec::new();
    for _ in 0..3000 {
        calls.extend([r#"mkdir("dd", 0755) = 0"#, r#"chdir("dd") = 0"#]);
    }
    calls.extend([r#"openat(AT_FDCWD, "f", O_WRONLY|O_CREAT, 0600) = 3"#, "close(3) = 0"]);
    calls.push(r#"mkdir("/e", 0755) = 0"#);
    let calls = [&[r#"chdir("/") = 0"#], calls.as_slice()].concat();
    let meant = Meant::of(&calls);
    let made = 4095_u64.div_ceil(3);
    assert_eq!(meant.requests.len() as u64, made + 1);
    assert_eq!(meant.lost(model::TOO_LONG), 3000 - made + 2);
    assert_eq!(meant.told().last(), Some(&(Op::Mkdir, "e")));
    // Nor are they there before.
    let found = vec![r#"chdir("dd") = 0"#; 3000];
    let found = [&[r#"chdir("/") = 0"#], found.as_slice(), &calls[6001..]].concat();
    assert_eq!(Meant::of(&found).files.before.len() as u64, made);
}

#[test]
fn permissions_are_those_that_the_umask_leaves() {
    let meant = Meant::of(&[
        r#"mkdir("/a", 0777) = 0"#,
        "umask(007) = 022",
        r#"mkdir("/b", 01777) = 0"#,
        r#"openat(AT_FDCWD, "/c", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3"#,
        r#"chmod("/c", 04777) = 0"#,
        "clone(child_stack=NULL, flags=SIGCHLD) = 2",
    ]);
    assert_eq!(meant.modes(), [0o755, 0o1770, 0o660, 0o777]);
    assert_eq!((meant.guessed(model::MASK), meant.lost(model::SET_ID)), (1, 1));
}

#[test]
fn appends_go_to_the_end_however_they_are_asked_for() {
    let meant = Meant::of(&[
        r#"openat(AT_FDCWD, "/a", O_RDWR|O_CREAT|O_EXCL, 0666) = 3"#,
        r#"pwrite64(3, "x"..., 100, 0) = 100"#,
        "fcntl(3, F_SETFL, O_RDWR|O_APPEND) = 0",
        r#"write(3, "x"..., 10) = 10"#,
        "fcntl(3, F_SETFL, O_RDWR) = 0",
        "lseek(3, 0, SEEK_SET) = 0",
        r#"write(3, "x"..., 10) = 10"#,
        r#"pwritev2(3, [{iov_base="x", iov_len=5}], 1, -1, RWF_APPEND) = 5"#,
    ]);
    assert_eq!(meant.within(Op::Write), [(0, 100), (100, 10), (0, 10), (110, 5)]);
    assert_eq!(meant.lost(model::STATUS), 2);
}

#[test]
fn a_second_name_may_be_that_of_what_a_link_leads_to() {
    let meant = Meant::of(&[
        r#"symlink("/b", "/a") = 0"#,
        r#"linkat(AT_FDCWD, "/a", AT_FDCWD, "/c", AT_SYMLINK_FOLLOW) = 0"#,
        r#"linkat(AT_FDCWD, "/a", AT_FDCWD, "/d", 0) = 0"#,
        r#"renameat2(AT_FDCWD, "/c", AT_FDCWD, "/e", RENAME_WHITEOUT) = 0"#,
    ]);
    let links = meant.told().into_iter().filter(|(op, _)| *op == Op::Link);
    assert_eq!(links.map(|(_, path)| path).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(meant.lost(model::WHITEOUT), 1);
}

#[test]
fn a_failed_call_that_would_make_a_name_again_is_left_out() {
    for (calls, failed) in [
        (&[][..], r#"openat(AT_FDCWD, "/missing/../a/f", O_WRONLY|O_CREAT, 0666) = -1 ENOENT (x)"#),
        (&[r#"chdir("/a") = 0"#], r#"stat("", 0x1) = -1 ENOENT (x)"#),
        (&[r#"chdir("/a") = 0"#], r#"open("", O_RDONLY) = -1 ENOENT (x)"#),
        (&[], r#"openat(AT_FDCWD, "/new/", O_WRONLY|O_CREAT, 0666) = -1 EISDIR (x)"#),
        (
            &[r#"mkdir("/d", 0755) = 0"#, r#"chdir("/d") = 0"#, r#"rmdir("/d") = 0"#],
            r#"mkdir("e", 0755) = -1 ENOENT (x)"#,
        ),
        (
            // Another one has its name now.
            &[
                r#"mkdir("/d", 0755) = 0"#,
                r#"chdir("/d") = 0"#,
                r#"rmdir("/d") = 0"#,
                r#"mkdir("/d", 0755) = 0"#,
            ],
            r#"openat(AT_FDCWD, "f", O_WRONLY|O_CREAT, 0666) = -1 ENOENT (x)"#,
        ),
        // A link of which nobody knows that it leads nowhere.
        (
            &[r#"mkdir("/d", 0755) = 0"#],
            r#"openat(AT_FDCWD, "/d/link", O_WRONLY|O_CREAT, 0666) = -1 ENOENT (x)"#,
        ),
        (&[r#"openat(AT_FDCWD, "/f", O_RDONLY) = 3"#], r#"stat("/f/", 0x1) = -1 ENOTDIR (x)"#),
        (&[r#"openat(AT_FDCWD, "/f", O_RDONLY) = 3"#], r#"stat("/f", 0x1) = -1 ENOENT (x)"#),
        (
            &[r#"mkdir("/d", 0755) = 0"#, r#"mkdir("/o", 0755) = 0"#],
            r#"rename("/o", "/d/n") = -1 ENOENT (x)"#,
        ),
    ] {
        let meant = Meant::of(&[calls, &[failed, r#"mkdir("/after", 0755) = 0"#]].concat());
        assert_eq!(meant.lost(model::NOT_ALIKE), 1, "{failed}");
        assert!(meant.files.places.iter().all(|place| place.fails.is_none()), "{failed}");
        assert!(!meant.before().contains(&"new"), "{:?}", meant.before());
    }
    // What fails again is made again.
    let meant = Meant::of(&[
        r#"mkdir("/d", 0755) = 0"#,
        r#"openat(AT_FDCWD, "/gone/f", O_WRONLY|O_CREAT, 0666) = -1 ENOENT (x)"#,
        r#"stat("/d/f", 0x1) = -1 ENOENT (x)"#,
        r#"mkdir("/d", 0755) = -1 EEXIST (x)"#,
        r#"stat("/d/./../d/g", 0x1) = -1 ENOENT (x)"#,
    ]);
    assert_eq!(meant.lost(model::NOT_ALIKE), 0);
    assert_eq!(meant.places().filter(|(_, place)| place.fails.is_some()).count(), 4);
}

#[test]
fn the_end_of_a_call_is_given_to_no_other() {
    let text = "1 1.000001 openat(AT_FDCWD, \"/a\", O_RDONLY <unfinished ...>\n\
                2 1.000002 openat(AT_FDCWD, \"/x\", O_RDONLY <unfinished ...>\n\
                1 1.000003 openat(AT_FDCWD, \"/b\", O_RDONLY <unfinished ...>\n\
                1 1.000004 <... openat resumed>) = 3 <0.000003>\n\
                1 1.000005 mkdir(\"/c\", 0755 <unfinished ...>\n\
                2 1.000006 rmdir(\"/y\") = 0 <0.000001>\n\
                1 1.000007 rmdir(\"/z\" <unfinished ...>\n\
                1 1.000008 <... rmdir resumed>) = 0 <0.000001>\n";
    let meant = Meant::of_text(text);
    assert_eq!(meant.told(), [(Op::Rmdir, "y"), (Op::Rmdir, "z")]);
    assert_eq!(meant.lost("calls whose end is missing before the next one of their task"), 4);
    assert_eq!(meant.lost("ends of calls that began before the recording"), 1);
}

#[test]
fn what_is_left_out_is_told_by_call_name_and_error_the_most_frequent_first() {
    let mut calls = vec![r#"openat(AT_FDCWD, "/rare", O_RDONLY) = -1 EACCES (x)"#];
    calls.extend([r#"chmod("/often", 0700) = -1 EPERM (x)"#; 3]);
    calls.extend([
        r#"openat(AT_FDCWD, "/f", O_RDWR) = 3"#,
        "fsync(3) = -1 EIO (x)",
        "fsync(3) = -1 EIO (x)",
    ]);
    calls.push(r#"openat(AT_FDCWD, "/dev/tty", O_RDWR) = -1 ENXIO (x)"#);
    let meant = Meant::of(&calls);
    let what = model::OTHER_FAILURES.words;
    let note = meant.header.losses.iter().find(|note| note.what == what).unwrap();
    assert_eq!(note.count, 6);
    assert_eq!(
        note.examples,
        ["chmod(/often) EPERM, 3 times", "fsync(/f) EIO, 2 times", "open(/rare) EACCES, 1 time"]
    );
    assert_eq!(meant.lost(model::OF_KERNEL), 1);
}

#[test]
fn links_that_lead_in_circles_end_where_the_kernel_ends_them() {
    let around = |name: &str, times: usize| name.repeat(times);
    let symlink = |target: String, at: &str| format!("symlink(\"{target}\", \"{at}\") = 0");
    let first = [symlink(around("/b/", 600), "/a"), symlink(around("/a/../", 600), "/b")];
    let mut calls: Vec<&str> = first.iter().map(String::as_str).collect();
    calls.extend(vec![r#"stat("/a", 0x1) = -1 ELOOP (x)"#; 2000]);
    calls.push(r#"openat(AT_FDCWD, "/a", O_RDONLY) = -1 ELOOP (x)"#);
    let meant = Meant::of(&calls);
    assert_eq!((meant.requests.len(), meant.lost(model::NOT_ALIKE)), (2, 2001));
}
