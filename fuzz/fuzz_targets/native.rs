//! Native files: Parquet, with whatever it holds.
#![no_main]

use std::fs;

use ioecho_fuzz::{drain, forgive_parquet, options};
use ioecho_trace::formats::native;
use libfuzzer_sys::fuzz_target;

/// A few bytes of Parquet can stand for billions of equal rows; the first of them will do.
const ROWS_MAX: u64 = 1 << 18;

fuzz_target!(init: forgive_parquet(), |bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    fs::write(file.path(), bytes).expect("a temporary file can be written");
    if let Ok(mut source) = native::open(file.path(), &options(bytes)) {
        drain(&mut *source, ROWS_MAX);
    }
});
