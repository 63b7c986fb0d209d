//! Loads and results of blkreplay, packed or not.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use ioecho_fuzz::{drain, options};
use ioecho_trace::compression::{Codec, Decoder};
use ioecho_trace::formats::blkreplay;
use libfuzzer_sys::fuzz_target;

/// Deflate makes at most 1032 bytes of one, and a request takes some.
const ROWS_PER_BYTE: u64 = 1032;

fuzz_target!(|bytes: &[u8]| {
    let _ = blkreplay::recognise(bytes);
    let input = Decoder::new(Cursor::new(bytes.to_vec()), Codec::of_first_bytes(bytes));
    if let Ok(mut source) = blkreplay::open(input, Path::new("x.load"), &options(bytes)) {
        let rows_max = ROWS_PER_BYTE * bytes.len() as u64;
        assert!(drain(&mut *source, rows_max) <= rows_max, "more requests than the file can hold");
    }
});
