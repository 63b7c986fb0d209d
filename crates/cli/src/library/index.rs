//! The index of a library: a file here, or one that a stranger publishes.

use std::fmt::Display;
use std::io;
use std::path::Path;

use ioecho_run::digest;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_run::named::named;
use ioecho_run::regular;
use ioecho_run::stored;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::folder::has_loads;
use super::{INDEX_FILE, LIBRARY_VERSION};
use crate::print::visible;

/// How many names a message lists.
const NAMES_SHOWN: usize = 20;

/// `library.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Index {
    /// [`LIBRARY_VERSION`].
    pub(crate) version: u32,
    /// The loads by their names.
    pub(crate) loads: Vec<Facts>,
}

/// What helps against an index of a later version.
const NEWER: &str = "use a newer ioecho";

/// Why an index cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    Missing(io::Error),
    Broken(String),
    /// It is of this later version, so nothing here may be changed.
    Later(u64),
}

impl Unread {
    fn reason(&self) -> String {
        match self {
            Self::Missing(error) => format!("cannot be read: {error}"),
            Self::Broken(reason) => format!("this is no index of a library: {}", visible(reason)),
            Self::Later(version) => {
                format!("it is of version {version}, and this program knows {LIBRARY_VERSION}")
            }
        }
    }

    /// The error for the index at this path.
    pub(crate) fn told(&self, index: &Path) -> RunError {
        let directory = index.parent().unwrap_or(index);
        let shown = directory.display();
        let help = match self {
            Self::Later(_) => NEWER.to_owned(),
            _ if has_loads(directory) => format!(
                "`ioecho library index {shown}` makes it anew of what is in the directories of \
                 the loads"
            ),
            _ => "`ioecho library add DIR TRACE` makes a library".to_owned(),
        };
        let reason = self.reason();
        let text = match self {
            Self::Missing(_) => format!("{shown} is no library: {INDEX_FILE} {reason}"),
            _ => format!("{}: {reason}", index.display()),
        };
        RunError::new(Kind::Trace, format!("{text}\n  = help: {help}"))
    }
}

impl Default for Index {
    fn default() -> Self {
        Self { version: LIBRARY_VERSION, loads: Vec::new() }
    }
}

impl Index {
    /// The index of the library in this directory.
    pub(crate) fn of(library: &Path) -> Result<Self> {
        if let Some((directory, name)) = named(library) {
            let text = format!(
                "{} is the load {} of a library, and no library\n  = help: name the library: {}",
                library.display(),
                visible(name),
                directory.display()
            );
            return Err(RunError::new(Kind::Trace, text));
        }
        Self::read(library).map_err(|unread| unread.told(&library.join(INDEX_FILE)))
    }

    /// The index of the library in this directory, or why there is none.
    pub(crate) fn read(library: &Path) -> Result<Self, Unread> {
        let bytes = regular::read_below(library, &[INDEX_FILE]).map_err(Unread::Missing)?;
        Self::understand(&bytes)
    }

    /// The index in the bytes of the file at this URL.
    pub(crate) fn published(location: &impl Display, bytes: &[u8]) -> Result<Self> {
        Self::understand(bytes).map_err(|unread| {
            let (reason, help) = match &unread {
                Unread::Later(_) => (unread.reason(), NEWER),
                _ => (unread.reason(), "tell the owner of the library"),
            };
            RunError::new(Kind::Trace, format!("{location}: {reason}\n  = help: {help}"))
        })
    }

    /// The index in these bytes.
    fn understand(bytes: &[u8]) -> Result<Self, Unread> {
        let index: Self =
            stored::from_json(bytes, LIBRARY_VERSION).map_err(|unread| match unread {
                stored::Unread::Newer { found, .. } => Unread::Later(found),
                broken @ stored::Unread::Broken { .. } => Unread::Broken(broken.what()),
            })?;
        match index.loads.iter().find(|load| !digest::is_digest(&load.sha256)) {
            Some(load) => Err(Unread::Broken(format!("the hash of {} is no SHA-256", load.name))),
            None => Ok(index),
        }
    }

    /// What is known of the load of this name in the library called `library`.
    pub(crate) fn load(&self, name: &str, library: &str) -> Result<&Facts> {
        self.loads.iter().find(|load| load.name.as_str() == name).ok_or_else(|| {
            let text = format!(
                "{library}: no load here is called '{}'\n  = help: there are: {}",
                visible(name),
                self.names()
            );
            RunError::new(Kind::Trace, text)
        })
    }

    /// The error where a load is asked for and the library called `library` was named.
    pub(crate) fn is_no_load(&self, library: &str) -> RunError {
        let library = library.strip_suffix(INDEX_FILE).unwrap_or(library).trim_end_matches('/');
        let text = format!(
            "{library} is a library of loads, and no load\n  = help: name one of them, as \
             {library}#NAME; there are: {}",
            self.names()
        );
        RunError::new(Kind::Trace, text)
    }

    /// The names of the loads, as many as fit into a message.
    fn names(&self) -> String {
        let names: Vec<_> =
            self.loads.iter().map(|load| load.name.as_str()).take(NAMES_SHOWN).collect();
        let more = self.loads.len().saturating_sub(NAMES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if names.is_empty() { "none".to_owned() } else { names.join(", ") + &more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let unread = Index::understand(text.as_bytes()).unwrap_err();
        unread.told(Path::new("/nowhere/library.json")).to_string()
    }

    #[test]
    fn an_index_of_a_later_version_and_what_is_none_are_refused_with_a_word() {
        assert!(error("{\"version\": 2, \"loads\": 7}").contains("use a newer ioecho"));
        for none in ["", "[]", "{}", "{\"version\":1}", "{\"version\":1,\"loads\":[{}]}"] {
            assert!(error(none).contains("no index of a library"), "{none}");
        }
        let deep = "[".repeat(100_000);
        assert!(error(&deep).contains("no index of a library"));
    }

    #[test]
    fn an_empty_index_is_read_and_has_no_load() {
        let index = Index::understand(b"{\"version\":1,\"loads\":[]}").unwrap();
        assert_eq!(index, Index::default());
        let error = index.load("a\u{1b}[2J", "lib").unwrap_err().to_string();
        assert!(error.contains("there are: none") && !error.contains('\u{1b}'), "{error}");
    }
}
