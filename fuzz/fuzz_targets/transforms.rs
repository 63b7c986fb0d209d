//! Lines of provenance, which are what people type after a transform's name.
#![no_main]

use std::str::FromStr;

use ioecho_trace::transform::Asked;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Asked::from_str(text) {
        Ok(asked) => assert!(Asked::from_str(&asked.to_string()).is_ok(), "{asked}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
