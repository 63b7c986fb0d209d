//! The name of a load: a directory, a part of a URL, and a word on a command line.
//!
//! A name comes from a command line or from an index that a stranger publishes. As a directory it
//! must not lead to another place. As a word it must not mean anything to a shell or a browser.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long a name may be, in bytes.
const LENGTH_MAX: usize = 64;

/// Letters, digits, dots, dashes and underscores. The first character is a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a name from any text, such as the name of a file.
    pub(crate) fn made_of(words: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = words.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let end = name.len().min(LENGTH_MAX);
        Self::try_from(name[..end].to_owned()).ok()
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_begun = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        // A directory with this ending holds a load that is being built.
        let is_partial = text.ends_with(".partial");
        // These are the names of a library's own files. Some file systems do not distinguish `A`
        // and `a`.
        let is_taken = text.eq_ignore_ascii_case("library.json");
        if text.len() > LENGTH_MAX || !is_begun || !text.chars().all(is_plain) {
            return Err(format!(
                "'{}' is no name for a load: it takes letters, digits, dots, dashes and \
                 underscores, at most {LENGTH_MAX}, a letter or a digit first",
                text.escape_debug()
            ));
        }
        if is_partial || is_taken {
            return Err(format!("'{text}' is a name that the library needs for itself"));
        }
        Ok(Self(text))
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_name(text: &str) -> bool {
        Name::try_from(text.to_owned()).is_ok()
    }

    #[test]
    fn a_name_leads_nowhere_and_says_nothing_to_a_shell() {
        for good in ["pgbench", "a", "9-lives", "web_2.v1", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/a",
            ".hidden",
            "-rf",
            "_x",
            "a b",
            "a\nb",
            "a\u{1b}[0m",
            "<b>",
            "a;b",
            "ä",
            "x.partial",
            "library.json",
            "Library.JSON",
            &"x".repeat(65),
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_name_is_made_of_what_a_file_is_called() {
        let made = |words| Name::made_of(words).map(String::from);
        assert_eq!(made("linux mysql (2)").as_deref(), Some("linux-mysql--2"));
        assert_eq!(made("../../etc").as_deref(), Some("etc"));
        assert_eq!(made("größe").as_deref(), Some("gr--e"));
        assert_eq!(made("…"), None);
        assert!(made(&"y".repeat(99)).is_some());
    }

    #[test]
    fn an_index_with_a_name_that_is_none_is_not_read() {
        assert!(serde_json::from_str::<Name>("\"../x\"").is_err());
        assert_eq!(serde_json::from_str::<Name>("\"x\"").unwrap().as_str(), "x");
    }
}
