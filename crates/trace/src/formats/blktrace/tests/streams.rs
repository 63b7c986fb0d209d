//! Recordings that come packed or through a pipe.

use std::io;
use std::path::Path;

use super::super::record::category::{READ, WRITE};
use super::super::testing::{Style, Tape, directory, drain};
use super::times;
use crate::compression::Codec;
use crate::compression::tests::{CODECS, pack};
use crate::error::TraceError;
use crate::formats::{ReadOptions, recognise};
use crate::stream::Source;

fn piped(bytes: &[u8], strict: bool) -> Result<Box<dyn Source>, TraceError> {
    let options = ReadOptions { strict, ..ReadOptions::default() };
    recognise(io::Cursor::new(bytes.to_vec()), Path::new("standard input"), &options, false)
}

fn recorded(style: Style, requests: u64) -> Tape {
    let mut tape = Tape::styled(style);
    for at in 0..requests {
        tape.q(at * 10, READ, at * 8, 8).c(at * 10 + 4, READ, at * 8, 8);
    }
    tape
}

#[test]
fn a_merged_recording_is_read_from_a_pipe_and_packed_as_from_a_file() {
    for number in 0..8 {
        let style =
            Style { big_endian: number & 1 > 0, second: number & 2 > 0, cgroup: number & 4 > 0 };
        let tape = recorded(style, 3000);
        let (expected, header) = tape.read();
        for codec in CODECS.into_iter().chain([Codec::Plain]) {
            let mut source = piped(&pack(&tape.bytes, codec), true).unwrap();
            assert_eq!(source.header().event, header.event);
            assert_eq!(drain(&mut *source), expected, "{style:?} {codec:?}");
            assert!(source.header().losses.is_empty() && source.header().damage.is_none());
        }
    }
}

#[test]
fn packed_files_of_processors_are_one_recording() {
    let (mut zero, mut one) = (Tape::new(0), Tape::new(1));
    zero.q(10, READ, 0, 8).q(30, READ, 8, 8).c(60, READ, 16, 8);
    one.q(20, WRITE, 16, 8).c(40, READ, 0, 8).c(50, READ, 8, 8);
    let (gz, xz) = (pack(&zero.bytes, Codec::Gzip), pack(&one.bytes, Codec::Xz));
    let directory = directory(&[
        ("sda.blktrace.0.gz", &gz),
        ("sda.blktrace.1.xz", &xz),
        ("sda.blktrace.2.gz", &pack(&[], Codec::Gzip)),
        ("sda.blktrace.3", b""),
    ]);
    for name in ["sda", "sda.blktrace.0.gz", "sda.blktrace.1.xz", "sda.blktrace.2.gz"] {
        let path = directory.path().join(name);
        let mut source = crate::formats::open(&path, &ReadOptions::default()).unwrap();
        let requests = drain(&mut *source);
        assert_eq!(times(&requests), [(0, Some(30)), (10, None), (20, Some(20))], "{name}");
    }
}

#[test]
fn a_packed_recording_that_breaks_off_gives_what_it_held() {
    let tape = recorded(Style::default(), 20_000);
    let packed = pack(&tape.bytes, Codec::Gzip);
    let cut = &packed[..packed.len() / 2];
    let mut source = piped(cut, false).unwrap();
    let requests = drain(&mut *source).len();
    assert!((1000..20_000).contains(&requests), "{requests}");
    let damage = source.header().damage.clone().unwrap();
    assert!(damage.contains("gzip stream breaks off"), "{damage}");
    let error = piped(cut, true).err().unwrap().to_string();
    assert!(error.contains("gzip stream breaks off"), "{error}");
}

#[test]
fn a_record_cut_short_in_a_pipe_is_damage_as_in_a_file() {
    let tape = recorded(Style { second: true, ..Style::default() }, 50);
    let mut source = piped(&tape.bytes[..tape.bytes.len() - 1], false).unwrap();
    assert_eq!(drain(&mut *source).len(), 50);
    let damage = source.header().damage.clone().unwrap();
    assert!(damage.contains("the file ends 63 bytes into a record of 64"), "{damage}");
}
