//! The cache of fetched loads.
//!
//! A load of gigabytes is fetched only once, even if two processes want it at the same moment. A
//! process that is killed while it fetches must leave no file that looks like a load. So each URL
//! has a directory of its own with a lock. A file counts as a load only if `about.json` beside it
//! says so, and that file is written last.

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

/// The permissions of the cache's directory: only its owner may use it.
const PRIVATE: u32 = 0o700;

/// The facts on the file, the facts on an incomplete file, and the incomplete file.
const ABOUT_FILE: &str = "about.json";
const BEGUN_FILE: &str = "begun.json";
const PART_FILE: &str = "part";

/// The facts on a fetched file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// The URL without its secrets.
    pub(crate) url: String,
    /// The server's name for this version of the file (`ETag`, RFC 9110, section 8.8.3).
    pub(crate) etag: Option<String>,
    /// When the file last changed, in the server's words (`Last-Modified`). Only kept if no other
    /// version of the file can have the same instant.
    pub(crate) modified: Option<String>,
    /// When it was fetched (RFC 3339).
    pub(crate) fetched: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// When the file here was written, in nanoseconds since 1970. If the file has changed since, it
    /// is not used.
    written_ns: u64,
}

/// The facts on a file of which only a part was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The condition on the server's file under which the rest fits: a strong `ETag` or a
    /// `Last-Modified`, as `If-Range` takes it (RFC 9110, section 13.1.5).
    pub(crate) validator: String,
}

/// The directory of one URL.
pub(crate) struct Entry {
    directory: PathBuf,
    /// The open directory.
    open: OpenDirectory,
    name: String,
    /// The lock, which is held as long as this value exists.
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
    /// The directory of this URL, locked for this process until the value is dropped.
    pub(crate) fn of(location: &Location) -> Result<Self> {
        Self::below(&root()?, location)
    }

    /// The same, in another directory than the cache.
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

    /// The path of the file. It keeps its name, because formats are recognised by their names, too.
    /// It has a directory of its own, so its name cannot clash with those of the other files here.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("file").join(&self.name)
    }

    /// The incomplete file.
    pub(crate) fn partial(&self) -> PathBuf {
        self.directory.join(PART_FILE)
    }

    /// Opens the incomplete file, either empty or to continue it.
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

    /// The facts on the file, if it is complete and unchanged.
    pub(crate) fn about(&self) -> Option<About> {
        let about: About = serde_json::from_slice(&fs::read(self.about_file()).ok()?).ok()?;
        let (bytes, written_ns) = state_of(&self.file()).ok()?;
        (about.bytes == bytes && about.written_ns == written_ns).then_some(about)
    }

    /// The facts on an incomplete file, and how many bytes of it are here.
    pub(crate) fn begun(&self) -> Option<(Begun, u64)> {
        let begun = serde_json::from_slice(&fs::read(self.begun_file()).ok()?).ok()?;
        let bytes = fs::metadata(self.partial()).ok()?.len();
        (bytes > 0).then_some((begun, bytes))
    }

    /// Stores the condition under which the rest fits, before the first byte is written.
    pub(crate) fn note_begun(&self, validator: Option<String>) -> Result<()> {
        if let Some(validator) = validator {
            return self.put(BEGUN_FILE, &serde_json::to_vec(&Begun { validator })?);
        }
        let _ = fs::remove_file(self.begun_file());
        Ok(())
    }

    /// Removes the incomplete file.
    pub(crate) fn forget_part(&self) {
        let _ = fs::remove_file(self.partial());
        let _ = fs::remove_file(self.begun_file());
    }

    /// Makes the incomplete file the file.
    pub(crate) fn keep(&self, mut about: About) -> Result<About> {
        let keep = || -> io::Result<(u64, u64)> {
            // From here on, until the new facts are written, the directory holds no load.
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
    /// The facts on a file that was just fetched. The others are added when it is kept.
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

/// Makes a directory that only its owner can read, because a file may have taken a password to
/// fetch. If the directory exists and others can read it, its permissions are changed.
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

/// The error if the cache cannot be written.
pub(crate) fn cannot_keep(directory: &Path, error: &io::Error) -> RunError {
    let text = format!(
        "cannot keep what is fetched in {}: {error}\n  = help: XDG_CACHE_HOME names another \
         directory",
        directory.display()
    );
    RunError::new(Kind::Output, text)
}
