//! Reads files that this program has stored.
//!
//! A file may be from a later version, truncated by a full disk, or edited. A reader that takes the
//! readable values and ignores the rest would judge a run by values that nobody stored. So the type
//! that wrote a file reads the whole of it, the version first, and an error names the key and the
//! place.

use std::fmt;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The reason why a stored file cannot be read. Displayed, it is the end of a sentence that names
/// the file; the remedy is on a line of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// A later version of this program wrote it.
    Newer {
        /// The version of the file.
        found: u64,
        /// The latest version that this program knows.
        known: u32,
    },
    /// Its content is not as expected.
    Broken {
        /// The key, such as `plan.timing`; empty if the whole file is meant.
        key: String,
        /// Line and column, counted from 1, if known.
        place: Option<(usize, usize)>,
        /// The error.
        reason: String,
    },
}

impl Unread {
    /// The error, without the remedy.
    pub fn what(&self) -> String {
        match self {
            Self::Newer { found, known } => {
                format!("it is of version {found}, and this program knows version {known}")
            }
            Self::Broken { key, place, reason } => {
                let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
                // Messages of parsers may have several lines.
                let reason = reason.trim_end().replace('\n', ", ");
                let place = place.map(|(line, column)| format!(" (line {line}, column {column})"));
                format!("{key}{reason}{}", place.unwrap_or_default())
            }
        }
    }

    /// The remedy.
    const fn remedy(&self) -> &'static str {
        match self {
            Self::Newer { .. } => "use a newer ioecho",
            Self::Broken { .. } => {
                "use the ioecho that made it, or a newer one; if it was changed or cut short, put \
                 it back as it was"
            }
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  = help: {}", self.what(), self.remedy())
    }
}

/// The version, which decides whether the rest can be understood.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Versioned {
    /// Refuses versions later than `known`, and zero, which no file has.
    fn expect(&self, known: u32) -> Result<(), Unread> {
        match self.version {
            0 => Err(Unread::Broken {
                key: "version".to_owned(),
                place: None,
                reason: "0 is no version that this program knows".to_owned(),
            }),
            found if found > u64::from(known) => Err(Unread::Newer { found, known }),
            _ => Ok(()),
        }
    }
}

/// Reads TOML as the type that wrote it, in version `known` or an earlier one.
pub fn from_toml<T: DeserializeOwned>(text: &str, known: u32) -> Result<T, Unread> {
    let broken = |key: String, error: &toml::de::Error| Unread::Broken {
        key,
        place: error.span().map(|span| place(text, span.start)),
        reason: error.message().to_owned(),
    };
    let of_file = |error: toml::de::Error| broken(String::new(), &error);
    toml::from_str::<Versioned>(text).map_err(of_file)?.expect(known)?;
    let toml = toml::Deserializer::parse(text).map_err(of_file)?;
    serde_path_to_error::deserialize(toml)
        .map_err(|error| broken(key_of(error.path()), error.inner()))
}

/// Reads JSON as the type that wrote it, in version `known` or an earlier one.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8], known: u32) -> Result<T, Unread> {
    // The message of an error has line and column.
    let broken = |key: String, error: &serde_json::Error| Unread::Broken {
        key,
        place: None,
        reason: error.to_string(),
    };
    let of_file = |error: serde_json::Error| broken(String::new(), &error);
    serde_json::from_slice::<Versioned>(bytes).map_err(of_file)?.expect(known)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let found = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| broken(key_of(error.path()), error.inner()))?;
    json.end().map_err(of_file)?;
    Ok(found)
}

/// The key at a path; empty for the whole file.
fn key_of(path: &serde_path_to_error::Path) -> String {
    match path.to_string() {
        whole if whole == "." => String::new(),
        key => key,
    }
}

/// Line and column of a byte of a text, counted from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte)];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Stored {
        version: u32,
        plan: Plan,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Plan {
        speedup: f64,
    }

    fn told<T: fmt::Debug>(read: Result<T, Unread>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_key_and_its_place() {
        let toml = |text: &str| from_toml::<Stored>(text, 1);
        let whole = "version = 1\n[plan]\nspeedup = 2.0\n";
        assert_eq!(toml(whole), Ok(Stored { version: 1, plan: Plan { speedup: 2.0 } }));
        for (text, words) in [
            ("version = 1\n[plan]\nspeedup = 'ä'\n", "plan.speedup: invalid type"),
            ("version = 1\n[plan]\nspeedup = 'ä'\n", "(line 3, column 11)"),
            ("version = 1\n[plan]\nspeedup = 2.0\nspedup = 1.0\n", "unknown field `spedup`"),
            ("version = 1\n[plan]\nspeedup = 2.0\nspedup = 1.0\n", "(line 4, column 1)"),
            ("version = 1\n[plan]\nspeed", "(line 3, column 6)"),
            ("version = 1\n[plan]\n", "missing field `speedup`"),
            ("version = 1\n", "missing field `plan`"),
            ("[plan]\nspeedup = 2.0\n", "missing field `version`"),
            ("version = '1'\n", "invalid type"),
            ("version = 0\n", "0 is no version"),
            ("", "missing field `version`"),
        ] {
            let told = told(toml(text));
            assert!(told.contains(words) && told.contains("= help:"), "{text}: {told}");
        }
        let json = |text: &str| from_json::<Stored>(text.as_bytes(), 1);
        for (text, words) in [
            ("{\"version\": 1, \"plan\": {\"speedup\": \"x\"}}", "plan.speedup: invalid type"),
            ("{\"version\": 1, \"plan\": {\"speedup\": 1}, \"x\": 1}", "unknown field `x`"),
            ("{\"version\": 1, \"plan\": {\"speedup\": 1}} 7", "trailing characters"),
            ("{\"version\": 1, \"pl", "line 1 column 18"),
        ] {
            let told = told(json(text));
            assert!(told.contains(words) && told.contains("= help:"), "{text}: {told}");
        }
    }

    #[test]
    fn a_later_version_is_refused_before_anything_else_is_looked_at() {
        let newer = Unread::Newer { found: 3, known: 2 };
        assert_eq!(from_toml::<Stored>("version = 3\nplan = 'of another kind'\n", 2), Err(newer));
        let told = told(from_json::<Stored>(b"{\"version\": 3}", 2));
        assert!(told.contains("version 3, and this program knows version 2"), "{told}");
        assert!(told.contains("use a newer ioecho"), "{told}");
    }
}
