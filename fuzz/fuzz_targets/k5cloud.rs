//! Files of the format `k5cloud`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ioecho_fuzz::format("k5cloud", bytes));
