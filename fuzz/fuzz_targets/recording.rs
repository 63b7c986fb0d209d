//! Raw recordings: pages of the kernel's ring buffer, and the texts that say how they lie.
#![no_main]

use std::fs;

use ioecho_fuzz::{drain, options};
use ioecho_trace::formats::recording;
use ioecho_trace::recording::{Description, FrameWriter, segment_file};
use libfuzzer_sys::fuzz_target;

/// The description of a real recording, of Linux 6.18.
const DESCRIPTION: &str =
    include_str!("../../crates/trace/tests/recordings/loop.recording/recording.json");

/// Bytes of a page's head: its time and how much of it is used.
const HEAD_BYTES: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((&what, rest)) = bytes.split_first() else { return };
    let mut description: Description = serde_json::from_str(DESCRIPTION).expect("it is one");
    let tracefs = description.tracefs.as_mut().expect("it is of tracefs");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut writers = [0, 1].map(|cpu| FrameWriter::new(Vec::new(), cpu, 0));
    match what % 4 {
        // The text comes first and ends with a zero byte; pages follow.
        0 | 1 => {
            let (text, pages) = rest.split_at(rest.iter().position(|b| *b == 0).unwrap_or(0));
            let text = String::from_utf8_lossy(text).into_owned();
            if what % 4 == 0 {
                tracefs.header_page = text;
            } else {
                tracefs.events[0].format = text;
            }
            for page in pages.chunks(512) {
                writers[0].append(page).expect("memory takes it");
            }
        }
        // Pages whose heads are true, or not.
        kind => {
            description.devices[0].bio_based = what & 4 != 0;
            for (at, page) in rest.chunks(256).enumerate() {
                let mut page = page.to_vec();
                if kind == 2 && page.len() >= HEAD_BYTES {
                    let used = (page.len() - HEAD_BYTES) as u64;
                    page[8..HEAD_BYTES].copy_from_slice(&used.to_le_bytes());
                }
                writers[at % 2].append(&page).expect("memory takes it");
            }
        }
    }
    description.save(directory.path()).expect("a temporary file can be written");
    for (cpu, writer) in writers.into_iter().enumerate() {
        let path = directory.path().join(segment_file(0, cpu as u32));
        fs::write(path, writer.into_inner()).expect("a temporary file can be written");
    }
    if let Ok(mut source) = recording::open(directory.path(), &options(bytes)) {
        let rows_max = bytes.len() as u64;
        assert!(drain(&mut *source, rows_max) <= rows_max, "more requests than bytes");
    }
});
