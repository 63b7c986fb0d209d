//! The mark of an anchor: a file that says that the tree beside it is ours, and whose results those
//! of its last run are. It is known by what it holds, because anybody's file may have its name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ioecho_replay::tree::{Geometry, MARKER};
use rustix::fs::{Mode, OFlags, open};

/// The first line of a mark.
const FIRST: &str =
    "The files and directories of this tree were made by ioecho, and may be removed by it.";

/// What the line of a mark begins with that names the results of the last run on the tree.
const RESULTS: &[u8] = b"results ";

/// The longest file that can be a mark.
const MARK_MAX: u64 = 64 << 10;

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The shape of the tree, as a line.
    shape: String,
    /// The directory with the results of the run that changed the tree last.
    pub(super) results: Option<PathBuf>,
}

impl Mark {
    /// The mark of a tree that the run with these results changes. A name of more than one line is
    /// left out.
    pub(super) fn new(geometry: &Geometry, results: &Path) -> Self {
        let is_line = !results.as_os_str().as_bytes().contains(&b'\n');
        Self { shape: geometry.to_string(), results: is_line.then(|| results.to_owned()) }
    }

    /// What is written.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{FIRST}\n{}\n", self.shape).into_bytes();
        if let Some(results) = &self.results {
            bytes.extend(RESULTS);
            bytes.extend(results.as_os_str().as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }

    /// The mark that was written like this. Earlier versions named no results.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.strip_suffix(b"\n")?.split(|byte| *byte == b'\n');
        if lines.next()? != FIRST.as_bytes() {
            return None;
        }
        let shape = str::from_utf8(lines.next()?).ok()?;
        shape.parse::<Geometry>().ok()?;
        let results = match lines.next() {
            None => None,
            Some(line) => Some(PathBuf::from(OsStr::from_bytes(line.strip_prefix(RESULTS)?))),
        };
        let is_all = lines.next().is_none() && !shape.is_empty();
        is_all.then(|| Self { shape: shape.to_owned(), results })
    }

    /// The mark of an anchor, if the file of its name there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn read(anchor: &Path) -> io::Result<Option<Self>> {
        // Whatever has the name of a mark, nobody waits for it.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(open(anchor.join(MARKER), flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(MARK_MAX + 1).read_to_end(&mut bytes)?;
        Ok(Self::parse(&bytes).filter(|_| bytes.len() as u64 <= MARK_MAX))
    }
}

/// Whether this is the name of a mark that was being written, such as by a run that was killed.
pub(super) fn is_draft(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_prefix(MARKER));
    let inner = inner.and_then(|name| name.strip_prefix('.'));
    let numbers = inner.and_then(|name| name.strip_suffix(".partial"));
    numbers.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}
