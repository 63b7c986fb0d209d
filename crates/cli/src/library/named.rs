//! A load of a library on this host by its name: `DIRECTORY#NAME`, as at an URL.
//!
//! Who tries a library before it is published types what others will type later, and is to get
//! what they will get: the load that the index is about, and none that has changed since.

use std::path::{Path, PathBuf};

use ioecho_trace::TraceError;

use super::index::Index;
use super::{FACTS_FILE, Facts, INDEX_FILE, LOAD_FILE};
use crate::regular;
use crate::run::error::{Kind, Result, RunError};
use crate::run::fetch::digest;

/// The library and the name of the load that a path is, if it is no file itself.
pub(crate) fn named(path: &Path) -> Option<(&Path, &str)> {
    let (library, name) = path.to_str()?.rsplit_once('#')?;
    let library = Path::new(library);
    (library.is_dir() && !path.exists()).then_some((library, name))
}

/// The file that a path names in a library, whatever it holds; the path itself if it names none.
pub(crate) fn file_named(path: &Path) -> PathBuf {
    match named(path) {
        Some((library, name)) => library.join(name).join(LOAD_FILE),
        None => path.to_owned(),
    }
}

/// The directory that a path lies in, by a name that can be typed.
pub(crate) fn above(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// What names the load that lies in this directory of a library: `DIRECTORY#NAME`.
pub(crate) fn load_of(directory: &Path) -> Option<PathBuf> {
    let (library, name) = (above(directory)?, directory.file_name()?);
    let is_load = library.join(INDEX_FILE).exists() && directory.join(FACTS_FILE).exists();
    let named = format!("{}#{}", library.display(), name.to_string_lossy());
    is_load.then(|| PathBuf::from(named))
}

/// The file of the load, which is what the index says of it.
///
/// # Errors
/// If the library has no such load, or it is another one than was added.
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
