//! The undo files of this host.
//!
//! They lie on the host whose devices are set up, not with the results: whoever finds the machine
//! changed looks there, whatever became of the campaign. One campaign at a time sets a host up.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ioecho_campaign::ground::{Book, Fault, Result};
use ioecho_linux::OpenDirectory;
use ioecho_run::regular;

use crate::exit::{self, Coded};
use crate::lock;

/// Where undo files lie.
const DIRECTORY: &str = "/var/lib/ioecho/undo";

/// Names another place.
pub(super) const VARIABLE: &str = "IOECHO_UNDO_DIR";

const ENDING: &str = ".jsonl";

/// The directory of the undo files of this host.
pub(super) struct UndoFiles {
    place: OpenDirectory,
}

impl UndoFiles {
    /// Where they lie.
    pub(super) fn path() -> PathBuf {
        let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
        named.map_or_else(|| PathBuf::from(DIRECTORY), PathBuf::from)
    }

    /// The directory, which is made if it is not there.
    pub(super) fn make() -> anyhow::Result<Self> {
        let path = Self::path();
        let made = fs::create_dir_all(&path).and_then(|()| OpenDirectory::at(&path));
        let place = made.map_err(|error| unusable(&path, &error))?;
        Ok(Self { place })
    }

    /// The identities of the ledgers that are open.
    pub(super) fn open_ones() -> Vec<String> {
        let entries = fs::read_dir(Self::path()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let ids = names.filter_map(|name| Some(name.strip_suffix(ENDING)?.to_owned()));
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids
    }

    /// Takes the host's set-up for this process. What an earlier process left running is waited
    /// for; a campaign that is alive is not. The second file is for the commands.
    pub(super) fn lock(&self) -> anyhow::Result<(File, File)> {
        let path = self.place.path();
        let append = |name| self.place.append(name).map_err(|error| unusable(path, &error));
        let (own, running) = (append("lock")?, append("running")?);
        match own.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another campaign sets up devices of this host\n  = help: wait until \
                            it has ended";
                return Err(Coded::error(exit::REFUSED, text));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(path, &error)),
        }
        let waits = || "that an earlier campaign began, and that still runs".to_owned();
        lock::take(&running, waits).map_err(|error| unusable(path, &error))?;
        Ok((own, running))
    }

    /// The file of a ledger.
    pub(super) fn book(&self, id: &str) -> anyhow::Result<UndoFile> {
        let name = format!("{id}{ENDING}");
        let opened = self.place.append(&name).and_then(|file| {
            // The name must be on the disk as well.
            self.place.sync()?;
            Ok(file)
        });
        let file = opened.map_err(|error| unusable(&self.place.path().join(&name), &error))?;
        Ok(UndoFile { place: self.place.clone(), name, file })
    }
}

fn unusable(path: &Path, error: &io::Error) -> anyhow::Error {
    let text = format!(
        "cannot write {}: {error}\n  = help: what is set up must be undone even after a power cut, \
         so it is noted there; run as root, or name another place in {VARIABLE}",
        path.display()
    );
    Coded::error(exit::OUTPUT, text)
}

/// The file of a ledger.
pub(super) struct UndoFile {
    place: OpenDirectory,
    name: String,
    file: File,
}

impl Book for UndoFile {
    fn append(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Fault::Failed(format!("the undo file: {error}")))
    }

    fn text(&self) -> Result<String> {
        let bytes = regular::read(&self.place.path().join(&self.name));
        let bytes = bytes.map_err(|error| Fault::Failed(format!("the undo file: {error}")))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn close(&mut self) -> Result<()> {
        let removed = self.place.remove(&self.name).and_then(|()| self.place.sync());
        removed.map_err(|error| Fault::Failed(format!("the undo file: {error}")))
    }
}
