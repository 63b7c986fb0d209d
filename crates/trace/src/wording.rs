//! Sentences in which settings and commands are named by a type.
//!
//! A remedy often names something to change: a setting of a reader, a command with more
//! information. Only the program that shows it knows how the user types or clicks that; a library
//! that wrote one program's command line into its sentences would be wrong in every other program.
//! So a sentence has places for such names, and the program that shows it decides how each is
//! written.

use std::borrow::Cow;
use std::fmt;

/// Something that a sentence names and that each program writes in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A setting of the request.
    Setting {
        /// Its name, in lower case with hyphens: `time-unit`.
        name: &'static str,
        /// The value to set; empty if only the setting is named.
        value: Cow<'static, str>,
    },
    /// A command that the program may have.
    Command {
        /// Its name: `info`.
        name: &'static str,
        /// Its arguments; empty if only the command is named.
        of: String,
    },
}

impl fmt::Display for Named {
    /// For programs without a notation of their own: the name, followed by its value.
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
    /// The sentence so far, followed by `text`.
    #[must_use]
    pub fn text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Piece::Text(text.into()));
        self
    }

    /// The sentence so far, followed by the name of a setting.
    #[must_use]
    pub fn setting(self, name: &'static str) -> Self {
        self.set(name, "")
    }

    /// The sentence so far, followed by a setting with its value.
    #[must_use]
    pub fn set(self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.named(Named::Setting { name, value: value.into() })
    }

    /// The sentence so far, followed by a command with its arguments.
    #[must_use]
    pub fn command(self, name: &'static str, of: impl Into<String>) -> Self {
        self.named(Named::Command { name, of: of.into() })
    }

    /// The sentence so far, followed by `other`.
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
