//! Where fetched loads are kept.
//!
//! A load of gigabytes is fetched once, also by two processes that want it at the same moment, and
//! a process that is killed meanwhile must leave nothing that looks like a load. So each URL has a
//! directory of its own with a lock; a file is a load only when `about.json` beside it says so, and
//! that is written last.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ioecho_linux::OpenDirectory;
use ioecho_run::digest;
use ioecho_run::error::{Kind, Result, RunError};
use serde::{Deserialize, Serialize};

use super::location::Location;
use crate::lock;

/// The rights of the cache's directory: its owner alone.
const PRIVATE: u32 = 0o700;

/// What is known of the file, of a part of it, and the part.
const ABOUT_FILE: &str = "about.json";
const BEGUN_FILE: &str = "begun.json";
const PART_FILE: &str = "part";

/// What is known of a fetched file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// Where it came from, without what opens a store.
    pub(crate) url: String,
    /// What the server calls this state of the file (`ETag`, RFC 9110, section 8.8.3).
    pub(crate) etag: Option<String>,
    /// When it last changed, in the server's words (`Last-Modified`), where no other state of the
    /// file can bear the same instant.
    pub(crate) modified: Option<String>,
    /// When it was fetched (RFC 3339).
    pub(crate) fetched: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// When the file here was written, in nanoseconds since 1970: what was touched since is not
    /// what was fetched.
    written_ns: u64,
}

/// What is known of a file of which a part was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// What must still be true of the server's file if the rest is to fit: a strong `ETag` or a
    /// `Last-Modified`, as `If-Range` takes it (RFC 9110, section 13.1.5).
    pub(crate) validator: String,
}

/// The place of one URL.
pub(crate) struct Entry {
    directory: PathBuf,
    /// The same, held on to.
    open: OpenDirectory,
    name: String,
    /// Held as long as this process looks at the place.
    _lock: File,
}

/// Where all loads are kept: `$XDG_CACHE_HOME/ioecho/loads`, or below `~/.cache`.
pub(crate) fn root() -> Result<PathBuf> {
    let directory = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        let text = "there is no place to keep fetched loads\n  = help: set XDG_CACHE_HOME to a \
                    directory, or HOME";
        RunError::new(Kind::Output, text)
    })?;
    Ok(cache.join("ioecho/loads"))
}

impl Entry {
    /// The place of this URL, for this process alone until it is dropped.
    pub(crate) fn of(location: &Location) -> Result<Self> {
        Self::below(&root()?, location)
    }

    /// The place of this URL below another directory than that of the cache.
    pub(crate) fn below(root: &Path, location: &Location) -> Result<Self> {
        let directory = root.join(&digest::of_bytes(location.asked().as_bytes())[..32]);
        let open = || -> io::Result<(OpenDirectory, File)> {
            make_private(root)?;
            fs::create_dir_all(&directory)?;
            let open = OpenDirectory::open(&directory)?;
            let lock = open.append("lock")?;
            lock::take(&lock, || format!("that fetches {location}"))?;
            Ok((open, lock))
        };
        let (open, lock) = open().map_err(|error| cannot_keep(&directory, &error))?;
        Ok(Self { name: location.file_name(), directory, open, _lock: lock })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file itself, under its own name: formats are known by their names, too. In a directory
    /// of its own, so that it is never one of the files beside it.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("file").join(&self.name)
    }

    /// What was fetched of it.
    pub(crate) fn partial(&self) -> PathBuf {
        self.directory.join(PART_FILE)
    }

    /// Opens that to write it from the beginning, or to go on with it.
    pub(crate) fn open_part(&self, goes_on: bool) -> io::Result<File> {
        if goes_on { self.open.append(PART_FILE) } else { self.open.write_over(PART_FILE) }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.open.put(name, bytes).map_err(|error| cannot_keep(&self.directory, &error))
    }

    fn about_file(&self) -> PathBuf {
        self.directory.join(ABOUT_FILE)
    }

    fn begun_file(&self) -> PathBuf {
        self.directory.join(BEGUN_FILE)
    }

    /// What is known of the file, if there is a whole one, untouched.
    pub(crate) fn about(&self) -> Option<About> {
        let about: About = serde_json::from_slice(&fs::read(self.about_file()).ok()?).ok()?;
        let (bytes, written_ns) = state_of(&self.file()).ok()?;
        (about.bytes == bytes && about.written_ns == written_ns).then_some(about)
    }

    /// What the rest of a part must fit to.
    pub(crate) fn begun(&self) -> Option<(Begun, u64)> {
        let begun = serde_json::from_slice(&fs::read(self.begun_file()).ok()?).ok()?;
        let bytes = fs::metadata(self.partial()).ok()?.len();
        (bytes > 0).then_some((begun, bytes))
    }

    /// Notes what the rest must fit to, before anything is written.
    pub(crate) fn note_begun(&self, validator: Option<String>) -> Result<()> {
        if let Some(validator) = validator {
            return self.put(BEGUN_FILE, &serde_json::to_vec(&Begun { validator })?);
        }
        let _ = fs::remove_file(self.begun_file());
        Ok(())
    }

    /// Forgets a part.
    pub(crate) fn forget_part(&self) {
        let _ = fs::remove_file(self.partial());
        let _ = fs::remove_file(self.begun_file());
    }

    /// Makes the part the file.
    pub(crate) fn keep(&self, mut about: About) -> Result<About> {
        let keep = || -> io::Result<(u64, u64)> {
            // From here on until the new facts are there, nothing here is a load.
            match fs::remove_file(self.about_file()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            fs::create_dir_all(self.directory.join("file"))?;
            let file = OpenDirectory::open(&self.directory.join("file"))?;
            self.open.move_to(PART_FILE, &file, self.name.as_ref())?;
            state_of(&self.file())
        };
        let (bytes, written_ns) = keep().map_err(|error| cannot_keep(&self.directory, &error))?;
        (about.bytes, about.written_ns) = (bytes, written_ns);
        self.put(ABOUT_FILE, &serde_json::to_vec_pretty(&about)?)?;
        let _ = fs::remove_file(self.begun_file());
        Ok(about)
    }
}

impl About {
    /// What was just fetched; the rest is known when it is kept.
    pub(crate) fn new(
        location: &Location,
        (etag, modified): (Option<String>, Option<String>),
        sha256: String,
    ) -> Self {
        Self {
            url: location.to_string(),
            etag,
            modified,
            fetched: jiff::Timestamp::now().to_string(),
            bytes: 0,
            sha256,
            written_ns: 0,
        }
    }
}

/// Makes a directory that nobody else on this host may look into: what took a password to fetch is
/// not given away. One that is there and open to others is closed.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(directory)?;
    if let Some(owner) = OpenDirectory::at(directory)?.stranger()? {
        let text = format!("it belongs to the user {owner}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let permissions = fs::metadata(directory)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

/// The size of a file, and when it was last written.
fn state_of(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(path)?;
    let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((metadata.len(), since.as_nanos() as u64))
}

/// The cache cannot be written.
pub(crate) fn cannot_keep(directory: &Path, error: &io::Error) -> RunError {
    let text = format!(
        "cannot keep what is fetched in {}: {error}\n  = help: XDG_CACHE_HOME names another \
         directory",
        directory.display()
    );
    RunError::new(Kind::Output, text)
}
