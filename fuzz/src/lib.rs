//! What every target asks of a source, whatever bytes it was made from.
//!
//! A parser that does not crash can still break its word: give an empty batch for ever, or requests
//! out of order. So each target drains its source here, where the contract of
//! [`Source`] is asserted.
#![forbid(unsafe_code)]

use std::io::Cursor;
use std::panic;
use std::path::Path;

use ioecho_trace::compression::{Codec, Decoder, Peeked, Positioned};
use ioecho_trace::formats::{self, Format, IssueEvent, Opening, ReadOptions, WholeSeconds};
use ioecho_trace::stream::Opened;
use ioecho_trace::{Batch, Source};

/// No format makes more requests of a byte: deflate makes at most 1,032 bytes of one.
const ROWS_PER_BYTE: u64 = 1032;

/// Opens `bytes` as a file of `format`, recognised or not.
pub fn open_with(format: &Format, bytes: &[u8], options: &ReadOptions) -> Opened {
    let unpacked = Decoder::new(Cursor::new(bytes.to_vec()), Codec::of_first_bytes(bytes));
    let stream: Box<dyn Positioned + Send> = Box::new(unpacked);
    let stream = Peeked::new(stream, 64 << 10);
    let _ = (format.recognise)(stream.first_bytes());
    (format.open)(Opening { stream, path: Path::new("x"), seekable: false, options })
}

/// Reads `bytes` as the format called `name`.
pub fn format(name: &str, bytes: &[u8]) {
    let format = formats::by_name(name).expect("there is such a format");
    match open_with(format, bytes, &options(bytes)) {
        Ok(mut source) => {
            // A line of Meta's traces stands for as many as 65,536 requests.
            let per_byte = if name == "tectonic" { 1 << 16 } else { ROWS_PER_BYTE };
            let rows_max = per_byte * bytes.len() as u64;
            let rows = drain(&mut *source, rows_max);
            assert!(rows <= rows_max, "more requests than the file can hold");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Reads `source` to its end, to an error, or until it gave more than `rows_max` requests, and
/// asserts what a source promises on the way. Answers how many requests there were.
pub fn drain(source: &mut dyn Source, rows_max: u64) -> u64 {
    let columns = source.header().columns;
    let mut batch = Batch::default();
    let mut rows = 0;
    let mut latest = i64::MIN;
    while rows <= rows_max {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => {
                let again = source.next_batch(&mut batch);
                assert!(matches!(again, Ok(false)), "something follows the end");
                break;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
        assert!(!batch.is_empty(), "an empty batch");
        assert!(batch.is_ordered(), "requests of a batch are out of order");
        assert!(batch.issue_ns()[0] >= latest, "a batch begins before the end of the one before");
        latest = batch.issue_ns()[batch.len() - 1];
        assert_eq!(batch.columns(), columns, "the columns of a batch are not the header's");
        assert_eq!(source.header().columns, columns, "the columns change");
        assert_eq!(batch.iter().count(), batch.len());
        rows += batch.len() as u64;
    }
    rows
}

/// Options to read with, so that files of different lengths are read with different ones.
pub fn options(bytes: &[u8]) -> ReadOptions {
    let event = match bytes.len() / 2 % 4 {
        0 => IssueEvent::Auto,
        1 => IssueEvent::Queued,
        2 => IssueEvent::Inserted,
        _ => IssueEvent::Issued,
    };
    let whole_seconds = match bytes.len() / 8 % 4 {
        0 => WholeSeconds::Unchosen,
        1 => WholeSeconds::Even,
        2 => WholeSeconds::Poisson,
        _ => WholeSeconds::Burst,
    };
    ReadOptions { strict: bytes.len() % 2 == 1, event, whole_seconds, ..ReadOptions::default() }
}

/// Lets panics inside the Parquet library pass, which the reader catches: the fuzzer's own hook
/// would end the process before it can. Panics anywhere else are findings.
pub fn forgive_parquet() {
    let end = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("/parquet-")) {
            end(panic);
        }
    }));
}
