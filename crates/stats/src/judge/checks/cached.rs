//! Files are read and written through the page cache, unless a load asks for direct I/O. Then a run
//! may have measured memory, and its figures do not show it: so what calls moved is compared with
//! what the kernel says of the storage.

use ioecho_trace::Bytes;

use super::{check, graded};
use crate::facts::{EngineFacts, FileIo};
use crate::verdict::{Check, Grade};

/// At most this share of what was read or written may have been in memory: then no median, and
/// hardly a rate, is that of memory.
const MEMORY_SHARE: f64 = 0.1;
/// What is less than this says nothing: the thread itself reads some facts of its host.
const LITTLE: u64 = 1 << 20;

/// How much of what was read and written memory held, of a run on trees of files.
pub(super) fn of_files(engine: &EngineFacts) -> Check {
    let is_not =
        |measured: &str| check("page-cache", Grade::NotApplicable, measured.to_owned(), "", "");
    if engine.memory {
        return is_not("the files lie in memory");
    }
    let Some(io) = &engine.file_io else { return is_not("not looked at") };
    let parts: Vec<(Option<f64>, String)> = [read(io), written(io)].into_iter().flatten().collect();
    let told: Vec<&str> = parts.iter().map(|(_, told)| told.as_str()).collect();
    let told = told.join("; ");
    let known = parts.iter().filter_map(|(share, _)| *share);
    let Some(most) = known.reduce(f64::max) else {
        return is_not(if told.is_empty() { "hardly anything was read or written" } else { &told });
    };
    check(
        "page-cache",
        graded(most, MEMORY_SHARE, f64::INFINITY),
        told,
        "at most 10 % read from memory, and written into it alone",
        "Part of these figures are the speed of memory. Open files past the page cache \
         (open=direct) or bring them to the disk (open=sync, open=fsync), or use more data than \
         memory holds.",
    )
}

/// What was read: the share from memory if it is known, and words for it.
fn read(io: &FileIo) -> Option<(Option<f64>, String)> {
    if io.read_bytes < LITTLE {
        return None;
    }
    let all = Bytes(io.read_bytes);
    let share = io.read_from_memory();
    let told = match share {
        Some(share) => format!("{:.1} % of {all} read came from memory", share * 100.0),
        None => format!("how much of {all} read came from memory, this file system does not tell"),
    };
    Some((share, told))
}

/// What was written, in the same way.
fn written(io: &FileIo) -> Option<(Option<f64>, String)> {
    if io.written_bytes < LITTLE {
        return None;
    }
    let all = Bytes(io.written_bytes);
    let share = io.written_to_memory();
    let told = match share {
        Some(0.0) => format!("{all} written, all of which waited for the disk"),
        Some(share) => {
            format!("{:.1} % of {all} written was complete once in memory", share * 100.0)
        }
        None => format!("{all} written, into memory or to the disk as the recorded calls did"),
    };
    Some((share, told))
}
