//! Descriptions of text, and text that they describe: the first line against the rest.
#![no_main]

use std::sync::Arc;

use ioecho_fuzz::{drain, open_with, options};
use ioecho_trace::formats::{Description, ReadOptions, described};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &str, &[u8])| {
    let (is_pattern, text, bytes) = input;
    let description =
        if is_pattern { Description::pattern(text) } else { Description::columns(text) };
    let Ok(description) = description else { return };
    let options = ReadOptions { described: Some(Arc::new(description)), ..options(bytes) };
    if let Ok(mut source) = open_with(&described::FORMAT, bytes, &options) {
        drain(&mut *source, bytes.len() as u64 + 1);
    }
});
