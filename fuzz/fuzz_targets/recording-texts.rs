//! Raw recordings whose `recording.json` and `log.jsonl` hold anything, beside true pages.
#![no_main]

use std::fs;

use ioecho_fuzz::{drain, options};
use ioecho_trace::formats::recording;
use libfuzzer_sys::fuzz_target;

/// A real recording, of Linux 6.18.
const DESCRIPTION: &str =
    include_str!("../../crates/trace/tests/recordings/loop.recording/recording.json");
const LOG: &str = include_str!("../../crates/trace/tests/recordings/loop.recording/log.jsonl");
const PAGES: &[u8] =
    include_bytes!("../../crates/trace/tests/recordings/loop.recording/00000.cpu0");

fuzz_target!(|bytes: &[u8]| {
    let Some((&what, text)) = bytes.split_first() else { return };
    let (mut description, mut log) = (DESCRIPTION.as_bytes().to_vec(), LOG.as_bytes().to_vec());
    // A piece of a true text is another one, or the text ends with something else.
    let into = if what & 1 == 0 { &mut description } else { &mut log };
    match (what >> 1 & 1, text.split_at_checked(4)) {
        (0, Some((place, piece))) => {
            let place = u32::from_le_bytes([place[0], place[1], place[2], place[3]]) as usize;
            let at = place % (into.len() + 1);
            let end = into.len().min(at + usize::from(what >> 2) % 16);
            into.splice(at..end, piece.iter().copied());
        }
        _ => into.extend(text),
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, bytes) in
        [("recording.json", &description[..]), ("log.jsonl", &log), ("00000.cpu0", PAGES)]
    {
        fs::write(directory.path().join(name), bytes).expect("a temporary file can be written");
    }
    match recording::open(directory.path(), &options(bytes)) {
        Ok(mut source) => {
            let rows_max = PAGES.len() as u64;
            assert!(drain(&mut *source, rows_max) <= rows_max, "more requests than bytes");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
