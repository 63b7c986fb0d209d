//! A load of a library on this host by its name: `DIRECTORY#NAME`, as at a URL.
//!
//! A user tries a library before publishing it, with the names that others will type later. The
//! user must get the same load as they will: the one in the index, and not one that has changed
//! since.

use std::path::{Path, PathBuf};

use ioecho_run::digest;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_run::named::above;
use ioecho_run::regular;
use ioecho_trace::TraceError;

use super::index::Index;
use super::{FACTS_FILE, Facts, INDEX_FILE, LOAD_FILE};

/// The name `DIRECTORY#NAME` of the load in this directory of a library.
pub(crate) fn load_of(directory: &Path) -> Option<PathBuf> {
    let (library, name) = (above(directory)?, directory.file_name()?);
    let is_load = library.join(INDEX_FILE).exists() && directory.join(FACTS_FILE).exists();
    let named = format!("{}#{}", library.display(), name.to_string_lossy());
    is_load.then(|| PathBuf::from(named))
}

/// The file of the load, compared with the hash in the index.
///
/// # Errors
///
/// If the library has no such load, or its file has changed.
pub(crate) fn load_file(library: &Path, name: &str) -> Result<PathBuf> {
    let index = Index::of(library)?;
    let Facts { name, sha256: stated, .. } = index.load(name, &library.display().to_string())?;
    let file = library.join(name.as_str()).join(LOAD_FILE);
    let opened = regular::open_below(library, &[name.as_str(), LOAD_FILE]);
    let sha256 = opened.and_then(digest::of_opened);
    let sha256 = sha256.map_err(|error| TraceError::read(&file, error))?;
    if sha256 != *stated {
        let text = format!(
            "{}: this is not what its library says\n  = note: its SHA-256 is {sha256}, and should \
             be {stated}\n  = help: `ioecho library verify {}` says what else is wrong",
            file.display(),
            library.display()
        );
        return Err(RunError::new(Kind::NotAsPublished, text));
    }
    Ok(file)
}
