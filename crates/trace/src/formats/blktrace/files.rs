//! The files that make up a recording.
//!
//! blktrace makes a file per processor, `sda.blktrace.0`, `sda.blktrace.1` and so on, and half of a
//! request's events lie in another file than the other half. So the name of one of them, or of the
//! device, stands for all.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::feed::Feed;
use super::record::RECORD_MAX;
use crate::compression::{Codec, Decoder, Peeked};
use crate::error::TraceError;
use crate::header::{NoteKind, Topic};

/// The files of a recording.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The paths in the order of their processors.
    pub(super) paths: Vec<PathBuf>,
    /// Whether there is a file per processor, rather than one that was merged by `blkparse -d`.
    pub(super) per_cpu: bool,
    /// The first processors that have no file although a higher processor has one, and the number
    /// of all of them.
    pub(super) missing: Vec<u32>,
    pub(super) missing_count: u64,
}

/// The largest number of processors without a file that are named.
const MISSING_MAX: usize = 64;

/// The loss of processors without a file. blktrace makes a file for each that is switched on.
pub(super) const MISSING: Topic<'static> = NoteKind::Unseen
    .of("processors without a file: unless they were switched off, what \
         happened on them is missing");

/// The memory that the buffers of all files take together, and the largest buffer, in bytes.
const BUFFERS_BYTES: usize = 8 << 20;
const BUFFER_MAX: usize = 1 << 20;

/// The number of first bytes that show how a file is packed.
const MAGIC_BYTES: usize = 16;

impl Files {
    /// The files that `path` stands for.
    pub(super) fn find(path: &Path) -> Result<Self, TraceError> {
        // A directory may bear the device's name beside the device's files.
        let prefix = match path.file_name().and_then(split_name) {
            Some((prefix, _)) if path.is_file() => Some(prefix),
            _ if path.exists() && !path.is_dir() => None,
            _ => path.file_name().and_then(OsStr::to_str),
        };
        let alone = || Self {
            paths: vec![path.to_owned()],
            per_cpu: prefix.is_some(),
            missing: Vec::new(),
            missing_count: 0,
        };
        let Some(name) = prefix else { return Ok(alone()) };
        let paths = siblings(path, name).map_err(|source| TraceError::read(path, source))?;
        // If there are none, opening the path itself yields the error.
        let Some((highest, _)) = paths.last() else { return Ok(alone()) };
        let mut cpus: Vec<u32> = paths.iter().map(|(cpu, _)| *cpu).collect();
        // The same processor may have a file and a packed one.
        cpus.dedup();
        let is_missing = |cpu: &u32| cpus.binary_search(cpu).is_err();
        let missing = (0..*highest).filter(is_missing).take(MISSING_MAX).collect();
        let missing_count = u64::from(*highest) + 1 - cpus.len() as u64;
        let paths = paths.into_iter().map(|(_, path)| path).collect();
        Ok(Self { paths, per_cpu: true, missing, missing_count })
    }

    /// The processors without a file in words; `None` if there are none.
    pub(super) fn missing(&self) -> Option<String> {
        let (last, others) = self.missing.split_last()?;
        let others: Vec<_> = others.iter().map(u32::to_string).collect();
        let more = self.missing_count - self.missing.len() as u64;
        Some(match (others.is_empty(), more) {
            (true, 0) => last.to_string(),
            (false, 0) => format!("{} and {last}", others.join(", ")),
            (_, more) => format!("{}, {last} and {more} more", others.join(", ")),
        })
    }

    /// The one file that is read as a stream; messages call it `path`.
    pub(super) fn streamed(path: &Path) -> Self {
        Self { paths: vec![path.to_owned()], per_cpu: false, missing: Vec::new(), missing_count: 0 }
    }

    /// Begins to read all files, except those of processors without an event.
    pub(super) fn open(&self) -> Result<Vec<Feed>, TraceError> {
        let buffer = (BUFFERS_BYTES / self.paths.len().max(1)).clamp(2 * RECORD_MAX, BUFFER_MAX);
        let mut feeds = Vec::with_capacity(self.paths.len());
        for path in &self.paths {
            let file = File::open(path).map_err(|source| TraceError::read(path, source))?;
            // Unpacked in this thread: there are already as many files as processors.
            let packed = Peeked::new(file, MAGIC_BYTES);
            let codec = Codec::of_first_bytes(packed.first_bytes());
            feeds.extend(Feed::open(path, Box::new(Decoder::new(packed, codec)), buffer)?);
        }
        Ok(feeds)
    }
}

/// Whether files `path.blktrace.0` and so on exist.
pub(super) fn is_prefix(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| siblings(path, name).is_ok_and(|paths| !paths.is_empty()))
}

/// Whether `path` has the name of one processor's file.
pub(super) fn is_per_cpu(path: &Path) -> bool {
    path.file_name().and_then(split_name).is_some()
}

/// Device and processor in the name of a per-CPU file, which may be packed.
fn split_name(name: &OsStr) -> Option<(&str, u32)> {
    let (device, cpu) = name.to_str()?.rsplit_once(".blktrace.")?;
    let cpu = match cpu.split_once('.') {
        Some((cpu, "gz" | "zst" | "xz" | "bz2")) => cpu,
        _ => cpu,
    };
    let digits = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !device.is_empty()).then_some((device, cpu.parse().ok()?))
}

/// The per-CPU files of the device `name` in the directory of `path`, each with its processor, in
/// order.
fn siblings(path: &Path, name: &str) -> std::io::Result<Vec<(u32, PathBuf)>> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let file_name = entry?.file_name();
        if let Some((device, cpu)) = split_name(&file_name)
            && device == name
        {
            found.push((cpu, path.with_file_name(&file_name)));
        }
    }
    found.sort();
    Ok(found)
}
