//! The readers and writers of published CSV and text traces, as whoever opens a file sees them.
//!
//! Each format is tried with real lines, with what their authors warn of, with any bytes, and with
//! junk between good lines.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Header, Request, TraceError};

mod any;
mod lines;
mod readers;
mod real;
mod recognition;
mod seconds;
mod writers;

/// What is read of a file that holds `bytes`.
fn read_bytes(bytes: &[u8], options: &ReadOptions) -> Result<(Vec<Request>, Header), TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    read_file(file.path(), options)
}

fn read_file(
    path: &std::path::Path,
    options: &ReadOptions,
) -> Result<(Vec<Request>, Header), TraceError> {
    let mut source = formats::open(path, options)?;
    let mut batch = Batch::default();
    let mut requests = Vec::new();
    while source.next_batch(&mut batch)? {
        assert!(!batch.is_empty());
        requests.extend(batch.iter());
    }
    assert!(requests.is_sorted_by_key(|request| request.issue));
    Ok((requests, source.header().clone()))
}

/// What is read of `text`, whose format is found out.
fn read(text: &str) -> (Vec<Request>, Header) {
    read_bytes(text.as_bytes(), &ReadOptions::default()).unwrap()
}

/// How to read as the format called `name`.
fn forced(name: &str) -> ReadOptions {
    ReadOptions { format: Some(formats::by_name(name).unwrap()), ..ReadOptions::default() }
}

/// The names of the volumes.
fn volumes(header: &Header) -> Vec<&str> {
    header.volumes.iter().map(|volume| volume.name.as_str()).collect()
}
