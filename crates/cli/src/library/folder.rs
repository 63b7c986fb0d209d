//! The directory of a library, and how a load gets into it.
//!
//! Two people may add at once, and a machine may lose its power while one does. Whoever changes a
//! library locks its directory; a load is put together under a name that is none, and gets its own
//! when it is whole and on the disk; the index is written last, of what is there. What a crash left
//! half made, the next one who adds takes away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ioecho_linux::OpenDirectory;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_run::place::{refuse_stranger, trace_in};
use ioecho_run::regular;
use ioecho_run::stored;
use ioecho_trace::{Header, Sink};

use super::facts::Facts;
use super::index::{Index, Unread};
use super::name::Name;
use super::{FACTS_FILE, INDEX_FILE, LIBRARY_VERSION};
use crate::lock;
use crate::print::{tell, visible};

/// What the name of a directory ends with that is still being put together.
const PARTIAL: &str = ".partial";

/// A library that this process alone may change.
#[derive(Debug)]
pub(crate) struct Library {
    path: PathBuf,
    /// The directory itself; the lock ends with the process.
    place: OpenDirectory,
}

/// A load that is being put together; what is there is taken away unless it is published.
#[derive(Debug)]
pub(crate) struct Staged {
    path: PathBuf,
    place: OpenDirectory,
    name: Name,
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Staged {
    /// A file of the load.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file of the load, down to the disk.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.place.put(name, bytes).map_err(|error| unwritable(&self.file(name), &error))
    }

    /// Begins the trace of the load.
    pub(crate) fn trace(&self, name: &str, header: &Header) -> Result<Box<dyn Sink>> {
        trace_in(&self.place, &self.file(name), header)
    }
}

impl Library {
    /// The library in this directory, a new one if there is nothing. Waits while somebody else
    /// changes it, and says so.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        // In the directory of another user, or one of his, he could put links for files.
        refuse_stranger(path)?;
        let alone = || -> io::Result<OpenDirectory> {
            fs::create_dir_all(path)?;
            let place = OpenDirectory::at(path)?;
            lock::take(place.file(), || format!("that changes {}", path.display()))?;
            Ok(place)
        };
        let place = alone().map_err(|error| unwritable(path, &error))?;
        let library = Self { path: path.to_owned(), place };
        match Index::read(path) {
            Ok(_) => {}
            Err(Unread::Missing(error)) if error.kind() == io::ErrorKind::NotFound => {
                if !library.entries()?.is_empty() && !has_loads(path) {
                    let text = format!(
                        "{} is no library, and not empty\n  = help: name a new directory",
                        path.display()
                    );
                    return Err(RunError::new(Kind::Usage, text));
                }
                library.mend_index()?;
            }
            Err(Unread::Broken(_)) if has_loads(path) => {
                tell(&format!("warning: {INDEX_FILE} cannot be understood, and is made anew"));
                library.mend_index()?;
            }
            // One of a later version, above all: nothing is touched then.
            Err(unread) => return Err(unread.told(&path.join(INDEX_FILE))),
        }
        library.take_away_unfinished()?;
        Ok(library)
    }

    /// The library in this directory, if there is one, whatever became of its index.
    pub(crate) fn existing(path: &Path) -> Result<Self> {
        match Index::read(path) {
            Err(unread) if !has_loads(path) => Err(unread.told(&path.join(INDEX_FILE))),
            _ => Self::open(path),
        }
    }

    /// Writes the index of what is there, and tells what had to be left out; answers it.
    pub(crate) fn make_index(&self) -> Result<Index> {
        let (index, left_out) = self.index_of_what_is_there()?;
        for reason in left_out {
            tell(&format!("warning: left out of the index: {reason}"));
        }
        self.write_index(&index)?;
        Ok(index)
    }

    /// The same without a word: whoever opens a library makes its index once more in the end.
    fn mend_index(&self) -> Result<()> {
        self.write_index(&self.index_of_what_is_there()?.0)
    }

    /// The names of everything in the directory, in their order.
    fn entries(&self) -> Result<Vec<String>> {
        names_in(&self.path)
    }

    /// Takes away what a process that ended early left: nobody else is at work here.
    fn take_away_unfinished(&self) -> Result<()> {
        for entry in self.entries()? {
            let path = self.path.join(&entry);
            let name = entry.strip_prefix('.').and_then(|name| name.strip_suffix(PARTIAL));
            let is_ours = name.is_some_and(|name| Name::try_from(name.to_owned()).is_ok());
            if is_ours && is_directory(&path) {
                fs::remove_dir_all(&path).map_err(|error| unwritable(&path, &error))?;
                tell(&format!("took away {}, which was never finished", path.display()));
            }
        }
        Ok(())
    }

    /// Begins a load of this name.
    pub(crate) fn stage(&self, name: &Name) -> Result<Staged> {
        let there = self.path.join(name.as_str());
        if fs::symlink_metadata(&there).is_ok() {
            let text = format!(
                "{} is there, and a load that others may have used is not replaced\n  = help: \
                 choose another --name, or take it away first",
                there.display()
            );
            return Err(RunError::new(Kind::Output, text));
        }
        let staged = format!(".{name}{PARTIAL}");
        let path = self.path.join(&staged);
        let place = self.place.make_in(&staged).map_err(|error| unwritable(&path, &error))?;
        Ok(Staged { path, place, name: name.clone() })
    }

    /// Gives the load its name, and writes the index.
    pub(crate) fn publish(&self, staged: Staged) -> Result<()> {
        let path = self.path.join(staged.name.as_str());
        let publish = || -> io::Result<()> {
            staged.place.sync()?;
            self.place.rename(format!(".{}{PARTIAL}", staged.name), staged.name.as_str())?;
            self.place.sync()
        };
        publish().map_err(|error| unwritable(&path, &error))?;
        drop(staged);
        self.make_index().map(drop)
    }

    /// The index as the loads themselves have it, and why loads are not in it.
    fn index_of_what_is_there(&self) -> Result<(Index, Vec<String>)> {
        let (mut index, mut left_out) = (Index::default(), Vec::new());
        for name in loads_in(&self.path)? {
            match facts_of(&self.path, &name) {
                Ok(facts) => index.loads.push(facts),
                Err(reason) => left_out.push(reason),
            }
        }
        Ok((index, left_out))
    }

    fn write_index(&self, index: &Index) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(index)?;
        json.push(b'\n');
        let index = self.path.join(INDEX_FILE);
        self.place.put(INDEX_FILE, &json).map_err(|error| unwritable(&index, &error))?;
        self.place.sync().map_err(|error| unwritable(&self.path, &error))
    }
}

/// Whether it is a directory itself, not a link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The names of what is in a directory, in their order.
fn names_in(path: &Path) -> Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let entries = fs::read_dir(path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = read().map_err(|error| {
        RunError::new(Kind::Trace, format!("cannot read {}: {error}", path.display()))
    })?;
    names.sort_unstable();
    Ok(names)
}

/// The loads in the directory of a library, whatever its index says.
pub(crate) fn loads_in(library: &Path) -> Result<Vec<Name>> {
    let names = names_in(library)?.into_iter().filter_map(|name| Name::try_from(name).ok());
    Ok(names.filter(|name| is_directory(&library.join(name.as_str()))).collect())
}

/// Whether there are loads in the directory of a library, or of what was one.
pub(crate) fn has_loads(library: &Path) -> bool {
    let is_load = |name: &Name| library.join(name.as_str()).join(FACTS_FILE).exists();
    loads_in(library).is_ok_and(|names| names.iter().any(is_load))
}

/// What the load of this name says of itself.
pub(crate) fn facts_of(library: &Path, name: &Name) -> Result<Facts, String> {
    let path = library.join(name.as_str()).join(FACTS_FILE);
    let shown = path.display();
    let bytes = regular::read_below(library, &[name.as_str(), FACTS_FILE])
        .map_err(|error| format!("cannot read {shown}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let facts: Facts = stored::from_toml(&text, LIBRARY_VERSION).map_err(|unread| {
        format!("{shown} does not say what a load is: {}", visible(&unread.what()))
    })?;
    if facts.name != *name {
        return Err(format!("{shown} is of another load, called {}", facts.name));
    }
    Ok(facts)
}

fn unwritable(path: &Path, error: &io::Error) -> RunError {
    RunError::new(Kind::Output, format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn a_load_that_was_never_finished_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let library = Library::open(directory.path()).unwrap();
        let staged = library.stage(&name("x")).unwrap();
        staged.write("load.parquet", b"half").unwrap();
        assert_eq!(library.entries().unwrap(), [".x.partial", INDEX_FILE]);
        drop(staged);
        assert_eq!(library.entries().unwrap(), [INDEX_FILE]);
    }

    #[test]
    fn what_a_crash_left_is_taken_away_and_what_is_not_the_librarys_stays() {
        let directory = tempfile::tempdir().unwrap();
        drop(Library::open(directory.path()).unwrap());
        for left in [".x.partial", ".git", ".-.partial", "own"] {
            fs::create_dir(directory.path().join(left)).unwrap();
        }
        let library = Library::open(directory.path()).unwrap();
        assert_eq!(library.entries().unwrap(), [".-.partial", ".git", INDEX_FILE, "own"]);
    }

    #[test]
    fn a_directory_with_other_things_does_not_become_a_library() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.txt"), "x").unwrap();
        let error = Library::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("not empty"), "{error}");
        assert!(!directory.path().join(INDEX_FILE).exists());
    }

    #[test]
    fn a_library_of_a_later_version_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let index = directory.path().join(INDEX_FILE);
        fs::write(&index, "{\"version\": 9}").unwrap();
        fs::create_dir(directory.path().join(".x.partial")).unwrap();
        assert!(Library::open(directory.path()).is_err());
        assert!(directory.path().join(".x.partial").exists());
        assert_eq!(fs::read_to_string(index).unwrap(), "{\"version\": 9}");
    }

    #[test]
    fn a_name_that_is_taken_is_not_given_again_not_even_where_a_link_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let library = Library::open(directory.path()).unwrap();
        fs::create_dir(directory.path().join("x")).unwrap();
        std::os::unix::fs::symlink("/nowhere", directory.path().join("y")).unwrap();
        for taken in ["x", "y"] {
            let error = library.stage(&name(taken)).unwrap_err().to_string();
            assert!(error.contains("is not replaced"), "{error}");
        }
        // And a link is no load.
        assert_eq!(loads_in(directory.path()).unwrap(), [name("x")]);
    }
}
