//! Any file at all: whatever format it is taken for, it is read to its end.
#![no_main]

use std::fs;

use ioecho_fuzz::{drain, forgive_parquet, options};
use ioecho_trace::formats;
use libfuzzer_sys::fuzz_target;

/// See the target `native`.
const ROWS_MAX: u64 = 1 << 18;

fuzz_target!(init: forgive_parquet(), |bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    fs::write(file.path(), bytes).expect("a temporary file can be written");
    if let Ok(mut source) = formats::open(file.path(), &options(bytes)) {
        drain(&mut *source, ROWS_MAX);
    }
});
