//! Recordings of system calls: one of a real kernel, and some made up like it.
//!
//! The real one is of Linux 6.12 in the virtual machine, by `tests/vm/files.sh`. Of its description
//! only the events that came were kept.

use super::making::{Page, description, read, written};
use crate::header::Header;
use crate::recorded::RecordedFiles;
use crate::recording::{Anchor, Calls, Description, Entry, EventFormat, Totals, Tracefs};
use crate::request::{Op, Request};

/// The task that records, and the command.
const RECORDER: u32 = 10;
const COMMAND: u32 = 20;

/// The tracepoints and probes, by their numbers from 100 on, with the names of their fields; that
/// of a name begins with a star.
const EVENTS: [(&str, &[&str]); 14] = [
    ("sys_enter_clone", &["__syscall_nr", "clone_flags"]),
    ("sys_exit_clone", &["__syscall_nr", "ret"]),
    ("sched_process_fork", &["parent_pid", "child_pid"]),
    ("sched_process_exit", &["pid"]),
    ("sys_enter_openat", &["a0", "*a1", "a2", "a3"]),
    ("sys_exit_openat", &["__syscall_nr", "ret"]),
    ("sys_enter_write", &["__syscall_nr", "fd", "buf", "count"]),
    ("sys_exit_write", &["__syscall_nr", "ret"]),
    ("sys_enter_close", &["__syscall_nr", "fd"]),
    ("sys_exit_close", &["__syscall_nr", "ret"]),
    ("sys_enter_openat2", &["a0", "*a1", "a2", "a3", "b2_0", "b2_8"]),
    ("sys_exit_openat2", &["__syscall_nr", "ret"]),
    ("sys_enter_newfstatat", &["a0", "*a1", "a2", "a3"]),
    ("sys_exit_newfstatat", &["__syscall_nr", "ret"]),
];

/// The text of a tracepoint's `format`: fields of eight bytes behind the common ones, and of four
/// where a name is.
fn format(number: usize) -> EventFormat {
    let (name, fields) = EVENTS[number];
    let id = 100 + number as u16;
    let mut text = format!(
        "name: {name}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut at = 8;
    for field in fields {
        let (kind, size, field) = match field.strip_prefix('*') {
            Some(field) => ("__data_loc char[]", 4, field),
            None => ("u64", 8, *field),
        };
        let line = format!("\tfield:{kind} {field};\toffset:{at};\tsize:{size};\tsigned:0;\n");
        text.push_str(&line);
        at += size;
    }
    EventFormat { id, name: name.to_owned(), format: text }
}

/// The bytes of an event: numbers, or a name in the place of one; an empty one could not be read.
fn event(name: &str, task: u32, values: &[Part<'_>]) -> Vec<u8> {
    let number = EVENTS.iter().position(|(known, _)| *known == name).unwrap();
    let is_plain = EVENTS[number].1[0] == "__syscall_nr";
    let mut bytes = (100 + number as u16).to_le_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(task.to_le_bytes());
    if is_plain {
        bytes.extend([0; 8]);
    }
    let size = |part: &Part<'_>| if matches!(part, Part::Name(_)) { 4 } else { 8 };
    let mut behind = bytes.len() + values.iter().map(size).sum::<usize>();
    let mut names = Vec::new();
    for value in values {
        match value {
            Part::Number(number) => bytes.extend(number.to_le_bytes()),
            Part::Name(name) => {
                let length = if name.is_empty() { 0 } else { name.len() + 1 };
                bytes.extend(((length << 16 | behind) as u32).to_le_bytes());
                behind += length;
                names.extend(name.as_bytes());
                names.resize(names.len() + length - name.len(), 0);
            }
        }
    }
    bytes.extend(names);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Number(i64),
    Name(&'a str),
}

fn numbers(values: &[i64]) -> Vec<Part<'static>> {
    values.iter().map(|value| Part::Number(*value)).collect()
}

/// A call that returns at once.
fn call(page: &mut Page, time: u64, name: &str, task: u32, arguments: &[Part<'_>], result: i64) {
    page.event(time, &event(&format!("sys_enter_{name}"), task, arguments));
    page.event(time + 5, &event(&format!("sys_exit_{name}"), task, &numbers(&[result])));
}

fn of_calls() -> Description {
    let whose = Calls { parent: RECORDER, directory: Some("/w".to_owned()) };
    let real = description();
    let header_page = real.tracefs.unwrap().header_page;
    let events = (0..EVENTS.len()).map(format).collect();
    Description {
        calls: Some(whose),
        devices: Vec::new(),
        started: Some(Anchor { monotonic_ns: 0, wall_ns: 1_000_000_000_000 }),
        tracefs: Some(Tracefs { header_page, events }),
        ..description()
    }
}

const AT_FDCWD: i64 = 0xffff_ff9c;
const NEW: i64 = 0o101;
const VFORK: i64 = 0x4111;
const THREAD: i64 = 0x3d_0f00;

/// A recorder that starts a thread of its own and a command.
fn begun() -> Page {
    let mut page = Page::new(1000);
    let fork = |child| event("sched_process_fork", RECORDER, &numbers(&[RECORDER.into(), child]));
    page.event(1000, &event("sys_enter_clone", RECORDER, &numbers(&[VFORK])));
    page.event(1010, &fork(COMMAND.into()));
    page.event(1020, &event("sys_exit_clone", RECORDER, &numbers(&[COMMAND.into()])));
    page.event(1030, &event("sys_enter_clone", RECORDER, &numbers(&[THREAD])));
    page.event(1040, &fork(11));
    page.event(1050, &event("sys_exit_clone", RECORDER, &numbers(&[11])));
    call(&mut page, 1060, "write", RECORDER, &numbers(&[2, 0, 100]), 100);
    call(&mut page, 1080, "write", 11, &numbers(&[2, 0, 100]), 100);
    page
}

fn result(cpus: &[Vec<Vec<u8>>], log: &[Entry]) -> (Vec<Request>, Header) {
    let directory = written(&of_calls(), cpus, log);
    read(directory.path())
}

fn ops(requests: &[Request], files: &RecordedFiles) -> Vec<(Op, String, u64)> {
    let told = |request: &Request| {
        let (place, _) = files.at(request.offset.0).unwrap();
        (request.op, place.path.clone(), request.length.0)
    };
    requests.iter().map(told).collect()
}

#[test]
fn a_recording_of_a_real_kernel_is_a_load_on_files() {
    let real = super::making::real().with_file_name("files.recording");
    let (requests, header) = read(&real);
    let count = |op| requests.iter().filter(|request| request.op == op).count();
    let of_names = [Op::Create, Op::Mkdir, Op::Rename, Op::Link, Op::Symlink, Op::Rmdir];
    assert_eq!(of_names.map(count), [15, 6, 3, 2, 2, 1]);
    let of_contents = [Op::Open, Op::Read, Op::Write, Op::Close, Op::Fsync, Op::Truncate];
    assert_eq!(of_contents.map(count), [23, 76, 67, 38, 1, 1]);
    let files = header.files.unwrap();
    let place = |op| {
        let found = requests.iter().find(|request| request.op == op).unwrap();
        files.at(found.offset.0).unwrap().0
    };
    // The command began in a directory of which no call tells.
    assert_eq!(place(Op::Mkdir).path, "home/files/tree");
    assert_eq!(place(Op::Symlink).to.as_deref(), Some("app"));
    assert_eq!(place(Op::Rmdir).path, "home/files/tree/old");
    let unread = header.losses.iter().find(|note| note.what.contains("could not read")).unwrap();
    assert_eq!((unread.count, unread.examples[0].as_str()), (5, "readlink"));
    assert!(header.damage.is_none() && header.started.unwrap().starts_with("2026-11-26T15:14:04"));
    let recording = header.recording.unwrap();
    assert!(recording.lost.is_empty() && recording.gaps.is_empty());
    assert_eq!(recording.cost.unwrap().wall_ns, 924_745_722);
}

#[test]
fn what_a_command_does_with_files_is_read_and_what_its_recorder_does_is_not() {
    let mut first = begun();
    let open = [Part::Number(AT_FDCWD), Part::Name("a"), Part::Number(NEW), Part::Number(0o644)];
    call(&mut first, 2000, "openat", COMMAND, &open, 3);
    // It goes to another processor within a call.
    first.event(3000, &event("sys_enter_write", COMMAND, &numbers(&[3, 0, 4096])));
    let mut second = Page::new(3050);
    second.event(3050, &event("sys_exit_write", COMMAND, &numbers(&[4096])));
    let how = [
        Part::Number(AT_FDCWD),
        Part::Name("/w/b"),
        Part::Number(1),
        Part::Number(24),
        Part::Number(NEW),
        Part::Number(0o600),
    ];
    call(&mut second, 4000, "openat2", COMMAND, &how, 4);
    let stat = ["missing", ""].map(Part::Name);
    let stat_of = |name| [Part::Number(AT_FDCWD), name, Part::Number(1), Part::Number(0)];
    call(&mut second, 5000, "newfstatat", COMMAND, &stat_of(stat[0]), -2);
    call(&mut second, 5100, "newfstatat", COMMAND, &stat_of(stat[1]), 0);
    call(&mut second, 6000, "close", COMMAND, &numbers(&[4]), 0);
    second.event(7000, &event("sched_process_exit", COMMAND, &numbers(&[COMMAND.into()])));
    let ended = |read| Entry::Stopped {
        why: "asked to".to_owned(),
        asked: Some(true),
        monotonic_ns: 9000,
        cpus: [(0, read), (1, 10)].map(|(cpu, read)| Totals { cpu, read, lost: 0 }).to_vec(),
    };
    let (requests, header) = result(&[vec![first.bytes()], vec![second.bytes()]], &[ended(13)]);
    let files = header.files.clone().unwrap();
    let made = |op, name: &str, length| (op, format!("w/{name}"), length);
    let expected = [
        made(Op::Create, "a", 0),
        made(Op::Write, "a", 4096),
        made(Op::Create, "b", 0),
        made(Op::Getattr, "missing", 0),
        made(Op::Close, "b", 0),
        made(Op::Close, "a", 0),
    ];
    assert_eq!(ops(&requests, &files), expected, "{:?}", header.losses);
    let write = requests[1];
    assert_eq!((write.issue.0, write.latency.unwrap().0), (1000, 50));
    assert!(requests.iter().all(|request| request.origin.unwrap().pid == COMMAND));
    assert_eq!(files.at(requests[0].offset.0).unwrap().0.mode, Some(0o644));
    assert_eq!(files.at(requests[3].offset.0).unwrap().0.fails, Some(2));
    let told = |words: &str| header.losses.iter().find(|note| note.what.contains(words));
    assert_eq!(told("could not read").unwrap().count, 1, "{:?}", header.losses);
    assert_eq!(header.damage, None);
    assert!(told("lost by the recorder").is_none() && header.recording.unwrap().gaps.is_empty());
}

#[test]
fn lost_events_are_a_gap_and_what_they_tore_apart_is_told() {
    let mut page = begun();
    // The beginning of one call and the end of another are lost.
    page.event(2000, &event("sys_exit_openat", COMMAND, &numbers(&[3])));
    page.event(2100, &event("sys_enter_close", COMMAND, &numbers(&[3])));
    page.event(2200, &event("sys_enter_write", COMMAND, &numbers(&[7, 0, 5])));
    page.event(2300, &event("sys_exit_write", COMMAND, &numbers(&[5])));
    let open = [Part::Number(AT_FDCWD), Part::Name("c"), Part::Number(NEW), Part::Number(0o644)];
    call(&mut page, 3000, "openat", COMMAND, &open, 3);
    let log = [
        Entry::Lost { cpu: 0, events: 2, from_ns: 1100, to_ns: 2150 },
        Entry::Stopped {
            why: "asked to".to_owned(),
            asked: Some(true),
            monotonic_ns: 9000,
            cpus: vec![Totals { cpu: 0, read: 16, lost: 2 }],
        },
    ];
    let (requests, header) = result(&[vec![page.bytes()]], &log);
    assert_eq!(requests.len(), 1, "{requests:?}");
    let count = |words: &str| {
        let found = header.losses.iter().find(|note| note.what.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {:?}", header.losses)).count
    };
    assert_eq!(count("lost by the recorder"), 2);
    assert_eq!(count("ends of calls"), 1);
    assert_eq!(count("whose end is missing"), 1);
    let recording = header.recording.unwrap();
    assert_eq!((recording.lost[&0], recording.gaps.len(), recording.gaps[0].events), (2, 1, 2));
    assert_eq!(recording.gaps[0].from_ns, 1100 - 3000);
}
