//! Recordings of blktrace, in one file or in one per processor.
#![no_main]

use std::fs;

use ioecho_fuzz::{drain, options};
use ioecho_trace::formats::blktrace;
use libfuzzer_sys::fuzz_target;

/// Bytes of a record without a payload.
const RECORD: usize = 48;

fuzz_target!(|bytes: &[u8]| {
    // The last byte says among how many processors the records are shared out.
    let Some((&last, bytes)) = bytes.split_last() else { return };
    let processors = 1 + usize::from(last % 4);
    let part = (bytes.len() / RECORD).div_ceil(processors).max(1) * RECORD;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for cpu in 0..processors {
        let from = bytes.len().min(cpu * part);
        let to = if cpu + 1 == processors { bytes.len() } else { bytes.len().min(from + part) };
        let path = directory.path().join(format!("sda.blktrace.{cpu}"));
        fs::write(path, &bytes[from..to]).expect("a temporary file can be written");
    }
    if let Ok(mut source) = blktrace::open(&directory.path().join("sda"), &options(bytes)) {
        let rows_max = bytes.len() as u64;
        assert!(drain(&mut *source, rows_max) <= rows_max, "more requests than events");
    }
});
