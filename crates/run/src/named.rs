//! What a path names that is no file itself: a load of a library, `DIRECTORY#NAME`.

use std::path::{Path, PathBuf};

/// The requests of a load, in its directory of a library.
pub const LOAD_FILE: &str = "load.parquet";

/// The library and the name of the load that a path is, if it is no file itself.
pub fn named(path: &Path) -> Option<(&Path, &str)> {
    let (library, name) = path.to_str()?.rsplit_once('#')?;
    let library = Path::new(library);
    (library.is_dir() && !path.exists()).then_some((library, name))
}

/// The file that a path names in a library, whatever it holds; the path itself if it names none.
pub fn file_named(path: &Path) -> PathBuf {
    match named(path) {
        Some((library, name)) => library.join(name).join(LOAD_FILE),
        None => path.to_owned(),
    }
}

/// The directory that a path lies in, by a name that can be typed.
pub fn above(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}
