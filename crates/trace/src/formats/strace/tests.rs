//! Lines as strace prints them.

use super::arguments::{descriptor, returned, string};
use super::line::{What, split};
use super::*;
use crate::formats::ReadOptions;
use crate::formats::from_bytes::read;
use crate::recorded::{BeforeKind, PLACE_BYTES, RecordedFiles};
use crate::request::{Op, Request};
use crate::units::Nanos;

const TEXT: &str = include_str!("example.strace");

fn files(text: &str) -> (Vec<Request>, RecordedFiles, crate::Header) {
    let (requests, header) = read(text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(header.format, NAME);
    (requests, header.files.clone().unwrap(), header)
}

#[test]
fn a_recording_is_read_with_halves_of_calls_put_together() {
    let (requests, files, header) = files(TEXT);
    assert!(header.losses.iter().all(|note| note.what.contains("other")), "{:?}", header.losses);
    let told: Vec<(Op, &str, u64)> = requests
        .iter()
        .map(|request| {
            let (place, within) = files.at(request.offset.0).unwrap();
            (request.op, place.path.as_str(), within)
        })
        .collect();
    assert_eq!(
        told,
        [
            (Op::Open, "w/main.c", 0),
            (Op::Getattr, "w/main.c", 0),
            (Op::Read, "w/main.c", 0),
            (Op::Create, "w/main.o", 0),
            (Op::Write, "w/main.o", 0),
            (Op::Close, "w/main.o", 0),
            (Op::Rename, "w/main.o", 0),
            (Op::Rename, "w/main.o", 0),
            (Op::Close, "w/main.c", 0),
        ]
    );
    let renames: Vec<_> =
        files.places.iter().filter(|place| place.to.is_some()).map(|place| place.fails).collect();
    assert_eq!(renames, [Some(2), None]);
    let create = &requests[3];
    assert_eq!(create.origin.unwrap().pid, 72);
    assert_eq!((create.issue, create.latency), (Nanos(350_000), Some(Nanos(30_000))));
    assert_eq!(create.offset.0 % PLACE_BYTES, 0);
    assert_eq!(header.started.as_deref(), Some("2023-11-14T22:13:20.001Z"));
    let before: Vec<_> = files
        .before
        .iter()
        .map(|before| (before.path.as_str(), before.kind, before.size))
        .collect();
    assert_eq!(before, [("w", BeforeKind::Directory, 0), ("w/main.c", BeforeKind::File, 50)]);
}

#[test]
fn a_child_that_is_seen_before_its_maker_returns_has_its_descriptors() {
    let text = "71 1.000001 openat(AT_FDCWD, \"/log\", O_WRONLY|O_CREAT|O_EXCL) = 3 <0.000001>\n\
                71 1.000010 vfork( <unfinished ...>\n\
                72 1.000020 write(3, \"abc\", 3) = 3 <0.000001>\n\
                71 1.000030 <... vfork resumed>) = 72 <0.000020>\n\
                71 1.000040 write(3, \"de\", 2) = 2 <0.000001>\n";
    let (requests, files, header) = files(text);
    assert!(header.losses.is_empty(), "{:?}", header.losses);
    let writes: Vec<_> = requests
        .iter()
        .filter(|request| request.op == Op::Write)
        .map(|request| (files.at(request.offset.0).unwrap().1, request.length.0))
        .collect();
    assert_eq!(writes, [(0, 3), (3, 2)]);
}

#[test]
fn two_children_at_once_wait_until_it_is_known_whose_they_are() {
    let text = "1 1.000001 openat(AT_FDCWD, \"/a\", O_WRONLY|O_CREAT|O_EXCL) = 3 <0.000001>\n\
                1 1.000002 fork() = 2 <0.000001>\n\
                2 1.000003 close(3) = 0 <0.000001>\n\
                2 1.000004 openat(AT_FDCWD, \"/b\", O_WRONLY|O_CREAT|O_EXCL) = 3 <0.000001>\n\
                1 1.000010 vfork( <unfinished ...>\n\
                2 1.000011 vfork( <unfinished ...>\n\
                4 1.000020 write(3, \"abc\", 3) = 3 <0.000001>\n\
                3 1.000021 write(3, \"defg\", 4) = 4 <0.000001>\n\
                1 1.000030 <... vfork resumed>) = 3 <0.000020>\n\
                2 1.000031 <... vfork resumed>) = 4 <0.000020>\n";
    let (requests, files, _) = files(text);
    let writes: Vec<_> = requests
        .iter()
        .filter(|request| request.op == Op::Write)
        .map(|request| (files.at(request.offset.0).unwrap().0.path.as_str(), request.length.0))
        .collect();
    assert_eq!(writes, [("b", 3), ("a", 4)]);
}

#[test]
fn lines_are_taken_apart_whatever_stands_in_front_of_them() {
    for (text, task) in [
        ("71 1700000000.123456 close(3) = 0", Some(71)),
        ("[pid    71] 1700000000.123456 close(3) = 0", Some(71)),
        ("1700000000.123456 close(3) = 0", None),
    ] {
        let line = split(text.as_bytes()).unwrap();
        assert_eq!((line.task, line.at), (task, Some(Nanos(1_700_000_000_123_456_000))), "{text}");
        assert_eq!(line.what, What::Whole(b"close", b"3) = 0"));
    }
    let attached = split(b"strace: Process 9 attached").unwrap();
    assert_eq!(attached.what, What::Attached(9));
    for strange in ["71 close(3) = 0", "10:11:12 close(3) = 0", "71 1.5 ", "71 1.5 a b(c", "x"] {
        assert!(split(strange.as_bytes()).is_err(), "{strange}");
    }
}

#[test]
fn arguments_are_parted_at_their_own_commas_alone() {
    let text = concat!(
        r#"5<TCP:[1.2.3.4:5->6.7.8.9:10]>, "a, \"b\" (c)", [{iov_base="x, y", iov_len=1<<3}], "#,
        r#"3</a\74b, c>, /* 1 */ 7) = 4</dev/pts/0<char 136:0>> <0.000012>"#
    );
    let it = returned(text.as_bytes()).unwrap();
    assert_eq!(it.arguments.len(), 5);
    assert_eq!(string(it.arguments[1]).unwrap(), (b"a, \"b\" (c)".to_vec(), true));
    assert_eq!(descriptor(it.arguments[3]).unwrap().path.unwrap(), b"/a<b, c");
    assert_eq!((it.result, it.took), (Ok(4), Some(Nanos(12_000))));
    assert_eq!(it.path.unwrap(), b"/dev/pts/0");
    let failed = returned(b"\"x\") = -1 EACCES (Permission denied)").unwrap();
    assert_eq!((failed.result, failed.took), (Err(13), None));
    assert_eq!(string(br#""\303\244\x41\n"..."#).unwrap(), ("äA\n".as_bytes().to_vec(), false));
    for wrong in ["3", "3) = ", "3) = ?", "\"a) = 0", "3}) = 0", "3) = -1", "3<a) = 0"] {
        assert!(returned(wrong.as_bytes()).is_none(), "{wrong}");
    }
}

#[test]
fn no_text_makes_the_reader_panic_and_its_rows_lie_in_places_that_there_are() {
    use proptest::prelude::*;
    let lines: Vec<&str> = TEXT.lines().collect();
    let piece = (0..lines.len(), 0_usize..200, 0_usize..40, any::<u8>());
    proptest!(|(pieces in proptest::collection::vec(piece, 1..40))| {
        let mut text = Vec::new();
        for (line, at, cut, byte) in pieces {
            let mut line = lines[line].as_bytes().to_vec();
            let (from, to) = (at.min(line.len()), (at + cut).min(line.len()));
            if cut % 3 == 0 {
                line.drain(from..to);
            } else if from < line.len() {
                line[from] = byte;
            }
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        let options = ReadOptions { format: Some(&FORMAT), ..ReadOptions::default() };
        if let Ok((requests, header)) = read(&text, &options) {
            let files = header.files.unwrap();
            for request in requests {
                prop_assert!(files.at(request.offset.0).is_some());
            }
            prop_assert!(files.check().is_ok(), "{:?}", files.check());
        }
    });
}
