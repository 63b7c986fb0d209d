//! Where a trace comes from and what was done to it.
//!
//! A published trace whose columns nobody can interpret, or a conversion that silently lost its
//! flushes, is worth nothing. So every trace carries this header: its origin, the devices it was
//! recorded on, what a reader lost and what it had to guess, and every transform since. In the
//! native file it is JSON in the Parquet footer.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::batch::Columns;
use crate::recording::Recording;
use crate::units::{Bytes, VolumeId};

/// How many of the first lines are kept as examples of a loss.
const EXAMPLES_MAX: usize = 3;

/// How long an example may be, so that a binary file taken for text does not fill the header.
const EXAMPLE_BYTES_MAX: usize = 120;

/// A device of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The number that requests name it by.
    pub id: VolumeId,
    /// Its name where it was recorded, such as `sda` or `8,0`.
    pub name: String,
    /// Its size, where the recording tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
}

/// Something that a reader or a writer lost or guessed, how often, and the first cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What happened, as a phrase that follows a number: "junk lines", "times shifted".
    pub what: String,
    /// How often; 2⁶⁴ − 1 stands for that and any number beyond it.
    pub count: u64,
    /// The first cases, as the source had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

impl fmt::Display for Note {
    /// `2 junk lines`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.count == u64::MAX { "at least " } else { "" };
        write!(f, "{least}{} {}", self.count, self.what)
    }
}

/// A list of notes in the order of their first case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Notes(Vec<Note>);

impl Notes {
    /// Counts `count` cases of `what`; the first few examples are kept, cut to a readable length.
    pub fn add(&mut self, what: &str, count: u64, example: Option<String>) {
        if count == 0 {
            return;
        }
        let found = self.0.iter().position(|note| note.what == what);
        let index = found.unwrap_or_else(|| {
            self.0.push(Note { what: what.to_owned(), ..Note::default() });
            self.0.len() - 1
        });
        let note = &mut self.0[index];
        note.count = note.count.saturating_add(count);
        if let Some(mut example) = example
            && note.examples.len() < EXAMPLES_MAX
        {
            if example.len() > EXAMPLE_BYTES_MAX {
                let cut = example.floor_char_boundary(EXAMPLE_BYTES_MAX);
                example.truncate(cut);
                example.push('…');
            }
            note.examples.push(example);
        }
    }

    /// The notes.
    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How often `what` happened.
    pub fn count_of(&self, what: &str) -> u64 {
        self.0.iter().find(|note| note.what == what).map_or(0, |note| note.count)
    }
}

/// How much of a file a reader went through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// What the file consists of: "lines", "records", "events".
    pub unit: String,
    /// How many of these there were.
    pub units: u64,
    /// How many requests they made.
    pub requests: u64,
}

/// The provenance of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The file the trace was first read from.
    pub source: String,
    /// The format of that file.
    pub format: String,
    /// What the trace is, in its maker's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The program that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<String>,
    /// The event whose instant is the instant of issue: queued, inserted or issued to the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The wall-clock instant of the trace's start (RFC 3339), where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Under which terms the trace may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The devices.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// The optional columns that the trace has.
    #[serde(default)]
    pub columns: Columns,
    /// Names of processes by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<u32, String>,
    /// How much was read of the file that the trace was first read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// What is known of the recording, where the trace was recorded rather than made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// What was in the source and is not in the requests.
    #[serde(default)]
    pub losses: Notes,
    /// What is in the requests and was not in the source.
    #[serde(default)]
    pub guesses: Notes,
    /// Where the source ended before its end: the sentence that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// What was done to the trace since, in order.
    #[serde(default)]
    pub transforms: Vec<String>,
    /// What is known of traces that were merged into this one, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Self>,
    /// For a result: what the run was, as `run.toml` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

impl Header {
    /// Takes over the start, the volumes and the processes of `other`, a later state of the same
    /// header, if there are more of them. That is cheap where there are none, so it can be asked
    /// for every batch.
    pub fn learn(&mut self, other: &Self) {
        if self.started != other.started {
            self.started.clone_from(&other.started);
        }
        if self.volumes.len() != other.volumes.len() {
            self.volumes.clone_from(&other.volumes);
        }
        if self.processes.len() != other.processes.len() {
            self.processes.clone_from(&other.processes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_count_everything_and_keep_the_first_cases() {
        let mut notes = Notes::default();
        for line in 0..10 {
            notes.add("junk lines", 1, Some(format!("line {line}")));
        }
        notes.add("nothing", 0, None);
        let all: Vec<_> = notes.iter().collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].count, 10);
        assert_eq!(all[0].examples, ["line 0", "line 1", "line 2"]);
    }

    #[test]
    fn a_sum_beyond_what_can_be_counted_is_told_as_at_least_so_many() {
        let mut notes = Notes::default();
        notes.add("events", u64::MAX / 2 + 1, None);
        notes.add("events", u64::MAX / 2 + 1, None);
        let told: Vec<_> = notes.iter().map(Note::to_string).collect();
        assert_eq!(told, ["at least 18446744073709551615 events"]);
    }

    #[test]
    fn a_long_example_is_cut_between_characters() {
        let mut notes = Notes::default();
        notes.add("junk", 1, Some("ä".repeat(500)));
        assert!(notes.iter().next().unwrap().examples[0].len() < 130);
    }
}
