//! Lines that describe a load to be generated, and the first requests of what they describe.
#![no_main]

use std::path::PathBuf;

use ioecho_fuzz::drain;
use ioecho_trace::formats::{self, ReadOptions};
use libfuzzer_sys::fuzz_target;

/// Enough to see that they are in order and within the contract of a source.
const ROWS: u64 = 20_000;

fuzz_target!(|text: &str| {
    let line = PathBuf::from(format!("gen:{text}"));
    match formats::open(&line, &ReadOptions::default()) {
        Ok(mut source) => {
            drain(&mut *source, ROWS);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
