//! The pipeline with a format made up for it: lines of `instant offset length volume`.

use std::fmt::Write as _;
use std::io::Cursor as Memory;
use std::path::Path;

use super::source::{AS_UNIX, BEGAN_EARLIER};
use super::*;
use crate::batch::Batch;
use crate::compression::{Codec, Decoder, Peeked, Positioned};
use crate::error::TraceError;
use crate::formats::{Opening, ReadOptions};
use crate::order::sort::SORTED;
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::text::Cursor;
use crate::units::{Bytes, Nanos};

struct Made;

impl LineParser for Made {
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        if line.starts_with(b"#") {
            return Ok(Said::Other);
        }
        let mut cursor = Cursor::new(line);
        let mut number = || {
            cursor.skip_blanks();
            let column = cursor.column();
            cursor.integer().map_err(|_| Fault::junk(column, "no whole number"))
        };
        let [issue, offset, length] = [number()?, number()?, number()?];
        let mut request = Request::new(Nanos(issue as i64), Op::Read, Bytes(offset), Bytes(length));
        request.volume = intake.volume(cursor.word())?;
        intake.push(&request)?;
        Ok(Said::Request)
    }
}

/// Records of eight bytes, the instant, little-endian; an odd one is a fault.
struct Pulses;

impl RecordParser for Pulses {
    fn record(&mut self, records: &mut Records, intake: &mut Intake) -> Result<bool, RecordError> {
        let Some(bytes) = records.take(8)? else { return Ok(false) };
        let issue = u64::from_le_bytes(bytes.try_into().unwrap_or_default()) as i64;
        if issue % 2 == 1 {
            return Err(Fault::junk(0, "an odd instant").into());
        }
        intake.push(&Request::new(Nanos(issue), Op::Read, Bytes(0), Bytes(512)))?;
        Ok(true)
    }
}

fn facts(epoch: Epoch) -> Facts {
    Facts { format: "made up", columns: Columns::default(), epoch, whole_seconds: false }
}

fn opening<'a>(bytes: &[u8], options: &'a ReadOptions) -> Opening<'a> {
    let packed = Decoder::new(Memory::new(bytes.to_vec()), Codec::of_first_bytes(bytes));
    let stream: Box<dyn Positioned + Send> = Box::new(packed);
    let stream = Peeked::new(stream, 1 << 10);
    Opening { stream, path: Path::new("made.txt"), seekable: false, options }
}

fn all(source: &mut dyn Source) -> Vec<Request> {
    let mut batch = Batch::default();
    let mut all = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        all.extend(batch.iter());
    }
    all
}

fn read(text: &str, epoch: Epoch) -> (Vec<Request>, crate::Header) {
    let options = ReadOptions::default();
    let mut source = lines(opening(text.as_bytes(), &options), Made, facts(epoch), "").unwrap();
    let requests = all(&mut *source);
    (requests, source.header().clone())
}

#[test]
fn junk_is_counted_with_its_first_lines_and_comments_are_not() {
    let text = "# of no account\n5 0 512 sda\nx\n\n6 0\n7 512 512 sdb\r\n";
    let (requests, header) = read(text, Epoch::Start);
    assert_eq!(requests.iter().map(|request| request.issue.0).collect::<Vec<_>>(), [5, 7]);
    let losses: Vec<_> = header.losses.iter().collect();
    assert_eq!((losses[0].what.as_str(), losses[0].count), (JUNK, 2));
    assert_eq!(losses[0].examples, ["line 3: x", "line 5: 6 0"]);
    let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["sda", "sdb"]);
    let imported = header.imported.unwrap();
    assert_eq!((imported.units, imported.requests), (6, 2));
}

#[test]
fn what_nothing_could_replay_is_refused_alike_everywhere() {
    let text = "1 0 512 a\n2 0 0 a\n3 18446744073709551615 512 a\n4 18446744073709551616 1 a\n";
    let (requests, header) = read(text, Epoch::Start);
    assert_eq!(requests.len(), 1);
    assert_eq!(header.losses.count_of("requests of zero length"), 1);
    assert_eq!(header.losses.count_of("requests that reach beyond 64-bit addresses"), 1);
    assert_eq!(header.losses.count_of(JUNK), 1);
}

#[test]
fn instants_count_from_the_earliest_request_and_the_header_says_when_that_was() {
    let text = "1700000000000000900 0 512 a\n1700000000000000000 0 512 a\n";
    let (requests, header) = read(text, Epoch::Unix);
    assert_eq!(requests.iter().map(|request| request.issue.0).collect::<Vec<_>>(), [0, 900]);
    assert_eq!(header.started.as_deref(), Some("2023-11-14T22:13:20Z"));
    assert_eq!(header.guesses.count_of(SORTED), 1);
    let (requests, header) = read(text, Epoch::Unknown);
    assert_eq!((requests[1].issue.0, header.started), (900, None));
    let (requests, _) = read("50 0 512 a\n", Epoch::Start);
    assert_eq!(requests[0].issue.0, 50);
}

#[test]
fn instants_from_the_start_are_kept_unless_they_are_plainly_others() {
    let late = "1538323200000000000 0 512 a\n1538323200000000700 0 512 a\n";
    let (requests, header) = read(late, Epoch::StartOrUnix);
    assert_eq!((requests[0].issue.0, requests[1].issue.0), (0, 700));
    assert_eq!(header.started.as_deref(), Some("2018-09-30T16:00:00Z"));
    assert_eq!(header.guesses.count_of(AS_UNIX), 1);
    let (requests, header) = read("86400000000000 0 512 a\n", Epoch::StartOrUnix);
    assert_eq!((requests[0].issue.0, header.started), (86_400_000_000_000, None));
    assert!(header.guesses.is_empty());
    // Issued before the recording began.
    for epoch in [Epoch::Start, Epoch::StartOrUnix] {
        let text = format!("{} 0 512 a\n3 0 512 a\n", -4_i64 as u64);
        let (requests, header) = read(&text, epoch);
        assert_eq!((requests[0].issue.0, requests[1].issue.0), (0, 7));
        let guess = header.guesses.iter().next().unwrap();
        assert_eq!(
            (guess.what.as_str(), &guess.examples[0][..]),
            (BEGAN_EARLIER.words, "4 ns before")
        );
    }
}

#[test]
fn a_strict_reader_stops_at_the_line_and_says_where() {
    let options = ReadOptions { strict: true, ..ReadOptions::default() };
    let text = b"1 0 512 a\n2 zero 512 a\n";
    let mut source = lines(opening(text, &options), Made, facts(Epoch::Start), "").unwrap();
    let error = source.next_batch(&mut Batch::default()).unwrap_err();
    assert!(matches!(error, TraceError::Line { line: 2, column: 3, .. }), "{error}");
}

#[test]
fn a_file_without_a_request_is_refused_with_what_its_lines_look_like() {
    let options = ReadOptions::default();
    let opening = opening(b"a\nb\n", &options);
    let error = lines(opening, Made, facts(Epoch::Start), "lines like '1 0 512 a'").err().unwrap();
    let error = error.to_string();
    assert!(error.contains("no request in its 2 lines") && error.contains("1 0 512 a"), "{error}");
}

#[test]
fn a_packed_file_that_breaks_off_gives_what_it_held() {
    let mut text = String::new();
    for n in 0..50_000 {
        writeln!(text, "{n} {} 512 a", n * 7919).unwrap();
    }
    let packed = crate::compression::tests::gzip(text.as_bytes());
    let options = ReadOptions::default();
    let cut = &packed[..packed.len() / 2];
    let mut source = lines(opening(cut, &options), Made, facts(Epoch::Start), "").unwrap();
    let requests = all(&mut *source);
    assert!(requests.len() > 10_000 && requests.len() < 50_000, "{}", requests.len());
    let damage = source.header().damage.clone().unwrap();
    assert!(damage.contains("breaks off") && damage.contains("behind"), "{damage}");
    assert!(source.header().losses.is_empty());
}

#[test]
fn a_faulty_record_is_counted_and_one_cut_short_is_told() {
    let mut bytes: Vec<u8> = [2_u64, 3, 4].iter().flat_map(|issue| issue.to_le_bytes()).collect();
    bytes.extend([1, 2, 3]);
    let options = ReadOptions::default();
    let mut source = records(opening(&bytes, &options), Pulses, facts(Epoch::Start), "").unwrap();
    assert_eq!(all(&mut *source).len(), 2);
    let header = source.header();
    assert_eq!(header.losses.iter().next().unwrap().examples, ["byte 8: an odd instant"]);
    assert!(header.damage.as_deref().unwrap().contains("cut short after 3 bytes"));
    assert_eq!(header.imported.as_ref().unwrap().units, 3);
}

#[test]
fn a_format_is_recognised_when_requests_outnumber_strange_lines() {
    let judge = |line: &[u8]| match line {
        b"r" => Look::Request,
        b"#" => Look::Other,
        b"h" => Look::Header,
        _ => Look::Strange,
    };
    assert!(looks_like(b"#\nr\n", judge));
    assert!(looks_like(b"#\r\nr\r\nx\nr\nr cut", judge));
    assert!(!looks_like(b"#\n#\n", judge));
    assert!(looks_like(b"#\nh\n", judge) && looks_like(b"h", judge));
    assert!(!looks_like(b"h\nx\n", judge));
    assert!(!looks_like(b"r\nx\n", judge));
    assert!(!looks_like(b"", judge));
}
