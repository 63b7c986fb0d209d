//! Words for people, in which settings and commands are named by a type.
//!
//! A remedy often names what to change: a setting of a reader, a command that tells more. How that
//! is typed or clicked is known only to the program that shows it, and a library that wrote
//! somebody's command line into its sentences would be wrong in every other program. So a sentence
//! has places for such names, and who shows it says how each is to be written.

use std::borrow::Cow;
use std::fmt;

/// Something that a sentence names and that each program writes in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A setting of what was asked for.
    Setting {
        /// Its name, in lower case with hyphens: `time-unit`.
        name: &'static str,
        /// The value to give it; empty where the setting alone is named.
        value: Cow<'static, str>,
    },
    /// A command that the program may have.
    Command {
        /// Its name: `info`.
        name: &'static str,
        /// What it is to be given; empty where the command alone is named.
        of: String,
    },
}

impl fmt::Display for Named {
    /// For programs with no way of their own: the name, and behind it what goes with it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, with) = match self {
            Self::Setting { name, value } => (name, value.as_ref()),
            Self::Command { name, of } => (name, of.as_str()),
        };
        match with {
            "" => write!(f, "'{name}'"),
            with => write!(f, "{name} {with}"),
        }
    }
}

/// A sentence, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wording(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Cow<'static, str>),
    Named(Named),
}

impl Wording {
    /// What is said so far, and then `text`.
    #[must_use]
    pub fn text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Piece::Text(text.into()));
        self
    }

    /// What is said so far, and then the name of a setting.
    #[must_use]
    pub fn setting(self, name: &'static str) -> Self {
        self.set(name, "")
    }

    /// What is said so far, and then a setting with its value.
    #[must_use]
    pub fn set(self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.named(Named::Setting { name, value: value.into() })
    }

    /// What is said so far, and then a command with what it is to be given.
    #[must_use]
    pub fn command(self, name: &'static str, of: impl Into<String>) -> Self {
        self.named(Named::Command { name, of: of.into() })
    }

    /// What is said so far, and then `other`.
    #[must_use]
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }

    fn named(mut self, named: Named) -> Self {
        self.0.push(Piece::Named(named));
        self
    }

    /// The sentence with each name written as `write` does.
    pub fn written(&self, write: &dyn Fn(&Named) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.to_string(),
            Piece::Named(named) => write(named),
        };
        self.0.iter().map(piece).collect()
    }
}

impl fmt::Display for Wording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(&Named::to_string))
    }
}

impl From<&'static str> for Wording {
    fn from(text: &'static str) -> Self {
        Self::default().text(text)
    }
}

impl From<String> for Wording {
    fn from(text: String) -> Self {
        Self::default().text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_a_sentence_writes_its_names() {
        let own = Wording::from("say ").set("event", "D").text(", or ask ").command("info", "x");
        assert_eq!(own.to_string(), "say event D, or ask info x");
        let write = |named: &Named| match named {
            Named::Setting { name, value } => format!("[{name}: {value}]"),
            Named::Command { name, of } => format!("<{name} {of}>"),
        };
        assert_eq!(own.written(&write), "say [event: D], or ask <info x>");
    }
}
