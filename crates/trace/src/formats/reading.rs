//! Reading and writing in tests: text in, requests out.

use std::io::Cursor;
use std::path::Path;

use super::write::Writable;
use super::{FORMATS, Format, Opening, ReadOptions};
use crate::batch::Batch;
use crate::compression::{Codec, Decoder, Positioned};
use crate::error::TraceError;
use crate::header::{Header, Notes};
use crate::request::Request;
use crate::stream::Source;

/// Reads `bytes` as `format`, whatever they look like.
pub(super) fn open(
    format: &Format,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Box<dyn Source>, TraceError> {
    let packed = Decoder::new(Cursor::new(bytes.to_vec()), Codec::of_first_bytes(bytes));
    let stream: Box<dyn Positioned + Send> = Box::new(packed);
    let stream = super::peeked(stream);
    (format.open)(Opening { stream, path: Path::new("x"), seekable: false, options })
}

/// All requests of a source.
pub(super) fn drain(source: &mut dyn Source) -> Vec<Request> {
    let columns = source.header().columns;
    let mut batch = Batch::default();
    let mut requests = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        assert!(batch.is_ordered() && !batch.is_empty());
        assert_eq!((batch.columns(), source.header().columns), (columns, columns));
        requests.extend(batch.iter());
    }
    requests
}

/// The requests in `text`, and the header.
pub(super) fn read(format: &Format, text: &str) -> (Vec<Request>, Header) {
    read_with(format, text, &ReadOptions::default())
}

/// As [`read`], with options.
pub(super) fn read_with(
    format: &Format,
    text: &str,
    options: &ReadOptions,
) -> (Vec<Request>, Header) {
    let mut source = open(format, text.as_bytes(), options).unwrap();
    let requests = drain(&mut *source);
    (requests, source.header().clone())
}

/// The error in reading `text`, as a sentence.
pub(super) fn refusal(format: &Format, text: &str) -> String {
    open(format, text.as_bytes(), &ReadOptions::default()).err().unwrap().to_string()
}

/// The name of the format that `text` is recognised as.
pub(super) fn recognised(text: &str) -> Option<&'static str> {
    let format = FORMATS.iter().find(|format| (format.recognise)(text.as_bytes()));
    format.map(|format| format.name)
}

/// The text that is written for `requests`, and the losses.
pub(super) fn written(format: &Writable, header: &Header, rows: &[Request]) -> (String, Notes) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    let mut sink = (format.create)(&path, header).unwrap();
    let mut batch = Batch::new(header.columns);
    for request in rows {
        batch.push(request);
    }
    sink.write(&batch).unwrap();
    let written = sink.finish(header).unwrap();
    (std::fs::read_to_string(&path).unwrap(), written.lost)
}

/// Reads any bytes as `format`, which must neither panic nor break the contract of a source.
pub(super) fn survives(format: &Format, bytes: &[u8]) {
    let _ = (format.recognise)(bytes);
    for strict in [false, true] {
        let options = ReadOptions { strict, ..ReadOptions::default() };
        let Ok(mut source) = open(format, bytes, &options) else { continue };
        let mut batch = Batch::default();
        while let Ok(true) = source.next_batch(&mut batch) {
            assert!(batch.is_ordered() && !batch.is_empty());
        }
    }
}
