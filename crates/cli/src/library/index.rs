//! The index of a library: a file here, or one that a stranger publishes.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::Facts;
use super::{INDEX_FILE, LIBRARY_VERSION};
use crate::commands::visible;
use crate::exit::{self, Coded};
use crate::run::fetch::{self, Location, digest, is_url};

/// How many names a message lists.
const NAMES_SHOWN: usize = 20;

/// `library.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Index {
    /// [`LIBRARY_VERSION`].
    pub(crate) version: u32,
    /// The loads by their names.
    pub(crate) loads: Vec<Facts>,
}

impl Default for Index {
    fn default() -> Self {
        Self { version: LIBRARY_VERSION, loads: Vec::new() }
    }
}

impl Index {
    /// The index of the library in this directory or at this URL.
    pub(crate) fn of(library: &Path) -> anyhow::Result<Self> {
        if is_url(library) {
            return Self::fetch(&fetch::parse(library)?);
        }
        let path = library.join(INDEX_FILE);
        let bytes = fs::read(&path).map_err(|error| {
            let text = format!(
                "{} is no library: cannot read {INDEX_FILE}: {error}\n  = help: `ioecho library \
                 add DIR TRACE` makes one",
                library.display()
            );
            Coded::error(exit::TRACE, text)
        })?;
        Self::parse(&bytes, &path.display().to_string())
    }

    /// The index of the library at this URL.
    pub(crate) fn fetch(library: &Location) -> anyhow::Result<Self> {
        let location = library.in_library(INDEX_FILE);
        Self::parse(&fetch::bytes(&location)?, &location.to_string())
    }

    /// The index in these bytes, which came from `place`.
    pub(crate) fn parse(bytes: &[u8], place: &str) -> anyhow::Result<Self> {
        let broken = |reason: &str, help: &str| {
            let text = format!("{place}: {}\n  = help: {help}", visible(reason));
            Coded::error(exit::TRACE, text)
        };
        let no_index = |error: serde_json::Error| {
            broken(
                &format!("this is no index of a library: {error}"),
                "`ioecho library add` makes it anew of what is in the directories of the loads",
            )
        };
        let value: Value = serde_json::from_slice(bytes).map_err(no_index)?;
        let version = value.get("version").and_then(Value::as_u64);
        if version.is_some_and(|version| version > LIBRARY_VERSION.into()) {
            let reason = format!(
                "it is of version {}, and this program knows {LIBRARY_VERSION}",
                version.unwrap_or_default()
            );
            return Err(broken(&reason, "use a newer ioecho"));
        }
        let index: Self = serde_json::from_value(value).map_err(no_index)?;
        match index.loads.iter().find(|load| !digest::is_digest(&load.sha256)) {
            Some(load) => Err(broken(
                &format!("the hash of {} is no SHA-256", load.name),
                "tell the owner of the library",
            )),
            None => Ok(index),
        }
    }

    /// What is known of the load of this name in the library called `library`.
    pub(crate) fn load(&self, name: &str, library: &str) -> anyhow::Result<&Facts> {
        self.loads.iter().find(|load| load.name.as_str() == name).ok_or_else(|| {
            let names: Vec<_> =
                self.loads.iter().map(|load| load.name.as_str()).take(NAMES_SHOWN).collect();
            let more = self.loads.len().saturating_sub(NAMES_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let text = format!(
                "{library}: no load here is called '{}'\n  = help: there are: {}{more}",
                visible(name),
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            );
            Coded::error(exit::TRACE, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Index::parse(text.as_bytes(), "x").unwrap_err().to_string()
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
        let index = Index::parse(b"{\"version\":1,\"loads\":[]}", "x").unwrap();
        assert_eq!(index, Index::default());
        let error = index.load("a\u{1b}[2J", "lib").unwrap_err().to_string();
        assert!(error.contains("there are: none") && !error.contains('\u{1b}'), "{error}");
    }
}
