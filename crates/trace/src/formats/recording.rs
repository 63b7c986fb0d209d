//! Raw recordings of `ioecho record`: the kernel's own pages, unchanged.
//!
//! A directory ([`crate::recording`] says what is in it) with a file of frames for each segment and
//! processor. With tracefs a frame is a page of the ring buffer; the recorder stored the layouts of
//! pages and events. With the block trace ioctls it is a piece of blktrace's data. Both become
//! events of the blktrace reader, which does the rest.
//!
//! The way through: [`open`] → `lane` (one processor: frames → `pages` with `layout`, `rwbs` and
//! `devices`, or the reader of blktrace) → `blktrace/merge` → `blktrace/reading` → batches. A
//! recording of system calls goes another way (`calls`).

mod calls;
mod devices;
mod frames;
mod lane;
mod layout;
mod log;
mod pages;
pub(super) mod rwbs;
mod source;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::{Format, Opening, ReadOptions, Several};
use crate::error::TraceError;
use crate::recording::DESCRIPTION_FILE;
use crate::stream::Source;

/// Raw recordings, as they are read.
pub const FORMAT: Format = Format {
    name: "recording",
    title: "raw recordings of ioecho, a directory",
    several: Several::Apart,
    recognise: is_description,
    open: |opening| {
        let Opening { path, seekable, options, .. } = opening;
        if seekable {
            return open(path, options);
        }
        Err(TraceError::Unusable {
            path: path.to_owned(),
            reason: "this describes a recording whose events are in the files beside it".to_owned(),
            remedy: "name the directory, unpacked".into(),
        })
    },
};

/// Whether a file that begins with these bytes describes a raw recording.
fn is_description(first_bytes: &[u8]) -> bool {
    let text = &first_bytes[..first_bytes.len().min(256)];
    let holds = |key: &str| memchr::memmem::find(text, key.as_bytes()).is_some();
    text.trim_ascii_start().starts_with(b"{") && holds("\"version\"") && holds("\"interface\"")
}

/// Whether `path` is the directory of a raw recording.
pub fn is_directory(path: &Path) -> bool {
    path.join(DESCRIPTION_FILE).is_file()
}

/// Opens a recording by its directory or by the description in it.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    let directory = if path.is_dir() {
        path.to_owned()
    } else {
        path.parent().filter(|parent| *parent != Path::new("")).map_or(".".into(), PathBuf::from)
    };
    source::open(path, &directory, options)
}
