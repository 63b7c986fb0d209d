//! Expressions of `--filter`.
#![no_main]

use std::str::FromStr;

use ioecho_trace::transform::Asked;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Asked::from_str(&format!("filter {text}")) {
        assert!(!error.to_string().is_empty());
    }
});
