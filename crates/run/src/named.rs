//! Paths that are not files themselves: a load of a library, `DIRECTORY#NAME`.

use std::path::{Path, PathBuf};

/// The file with the requests of a load, within its directory in a library.
pub const LOAD_FILE: &str = "load.parquet";

/// The library and the name of the load, if the path names a load and is not a file itself.
pub fn named(path: &Path) -> Option<(&Path, &str)> {
    let (library, name) = path.to_str()?.rsplit_once('#')?;
    let library = Path::new(library);
    (library.is_dir() && !path.exists()).then_some((library, name))
}

/// The file of the load that a path names, whether or not it exists; the path itself if it names no
/// load.
pub fn file_named(path: &Path) -> PathBuf {
    match named(path) {
        Some((library, name)) => library.join(name).join(LOAD_FILE),
        None => path.to_owned(),
    }
}

/// The directory that contains a path, in a form that a user can type.
pub fn above(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}
