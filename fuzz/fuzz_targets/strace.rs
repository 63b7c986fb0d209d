//! Files of the format `strace`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ioecho_fuzz::format("strace", bytes));
