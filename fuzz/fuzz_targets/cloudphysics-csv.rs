//! Files of the format `cloudphysics-csv`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ioecho_fuzz::format("cloudphysics-csv", bytes));
