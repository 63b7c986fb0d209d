//! Files of the format `systor`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ioecho_fuzz::format("systor", bytes));
