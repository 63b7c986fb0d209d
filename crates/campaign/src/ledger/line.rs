//! The lines of an undo file.
//!
//! The file is all that is left after a power cut, so each line has everything that undoing needs,
//! and is read by the type that wrote it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ground::Command;

/// The version of an undo file.
pub const VERSION: u32 = 1;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Line {
    /// The first one.
    Opened {
        /// [`VERSION`] of the program that wrote it.
        version: u32,
        /// The identity of the ledger, which is part of its tag.
        id: String,
        /// For whom: the path of the campaign.
        owner: String,
    },
    /// Something is about to be changed.
    Begun {
        /// Its number, counted from 0.
        number: usize,
        /// The boot of the machine.
        boot: String,
        /// The module that changes it.
        by: String,
        /// What.
        what: Box<Change>,
    },
    /// It was changed.
    Done {
        /// Its number.
        number: usize,
    },
    /// It is as it was before.
    Undone {
        /// Its number.
        number: usize,
    },
}

/// A change, with all that is needed to take it back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// A file of the kernel gets another value.
    Set {
        /// The file.
        file: String,
        /// How its value is read.
        form: Form,
        /// The value before.
        before: String,
        /// The value from then on.
        after: String,
        /// What tells that the file still belongs to the same thing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        witness: Option<Witness>,
    },
    /// Something is made that was not there.
    Make {
        /// What it is, in a word.
        kind: String,
        /// Its name.
        id: String,
        /// What makes it.
        create: Command,
        /// What removes it.
        remove: Command,
        /// What tells whether it is there, and ours.
        exists: Probe,
    },
    /// Data are lost. This cannot be taken back.
    Lose {
        /// The volume.
        volume: String,
        /// What loses them.
        command: Command,
    },
    /// A program changes something that only it knows.
    Ran {
        /// What takes it back; nothing, if nothing is to be taken back.
        undo: Option<Command>,
        /// The state before, as the program told it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        state: Value,
        /// Whether what takes it back answers as a program of the user's does, so that its exit
        /// code is not all that it tells.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answers: bool,
    },
    /// A person is asked to do something.
    Asked {
        /// What.
        task: String,
        /// What takes it back, by a person too; nothing, if nothing is to be taken back.
        undo: Option<String>,
        /// How long an answer is waited for, in seconds.
        limit_s: u64,
    },
}

/// How the value of a file is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The whole text.
    Plain,
    /// The word in brackets, as in `none [mq-deadline]`; without brackets the whole text.
    Choice,
    /// Whether a word is among the words: `+io` or `-io`, which is also how it is written.
    Member(String),
}

impl Form {
    /// The value in a text.
    pub fn value(&self, text: &str) -> String {
        let text = text.trim();
        match self {
            Self::Plain => text.to_owned(),
            Self::Choice => {
                let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                chosen.map_or(text, |(chosen, _)| chosen).to_owned()
            }
            Self::Member(word) => {
                let is_there = text.split_whitespace().any(|other| other == word);
                format!("{}{word}", if is_there { '+' } else { '-' })
            }
        }
    }
}

/// A file whose text tells that a thing is still the same one, such as the `diskseq` of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// The file.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// What tells whether a thing is there, and whether it is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Probe {
    /// A file or directory; if `ours` is a text, it is ours with this text only.
    File {
        /// Its path.
        path: String,
        /// Its text. Without it, the path itself bears the tag.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ours: Option<String>,
    },
    /// A line of a file, such as that of a mount.
    Line {
        /// The file.
        path: String,
        /// The word that only a line about this thing has.
        word: String,
        /// The word that the line has as well if the thing is ours.
        ours: String,
    },
    /// What a command prints: nothing if the thing is not there (or a code other than 0).
    Command {
        /// The command.
        ask: Command,
        /// A word of its output if the thing is ours. Words end at spaces and commas.
        ours: String,
    },
}
