//! Files of the format `fiu`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ioecho_fuzz::format("fiu", bytes));
