//! Notes on what a reader, a transform or a writer lost or guessed, for people and for the verdict.
//!
//! People read the words of a note. If a verdict read them too, it would change with a better
//! wording. So every note also has a kind, chosen where the note is made, and decisions depend on
//! the kind alone.

mod singular;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of first cases that are kept as examples of a note.
const EXAMPLES_MAX: usize = 3;

/// The longest example in bytes, so that a binary file taken for text does not fill the header.
const EXAMPLE_BYTES_MAX: usize = 120;

/// The meaning of a note for a program that judges the trace. In a header it is a word:
/// `unreadable`, `lost-by-recorder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// A loss: the recorder itself says that it missed requests or events.
    LostByRecorder,
    /// A loss: requests, lines or records of the source that could not be read as requests.
    Unreadable,
    /// A loss: requests that were read and then left out, because the output has no place for them.
    LeftOut,
    /// A loss: parts of the recording are not there, and nobody knows how many requests they held.
    Unseen,
    /// A loss of something that is no request: names, digests, latencies, copies of requests.
    Beside,
    /// A guess: the instant of a request is not the recorded one.
    Instant,
    /// A guess: the recorder knew only the second of a request, and no option chose an instant
    /// within it. Such a trace must not be replayed as recorded.
    UnchosenSecond,
    /// A guess: the place of a request is not the recorded one.
    Place,
    /// A guess: the latency of a request was not recorded but inferred.
    Latency,
    /// A guess: requests seem to be in the trace twice, recorded on each of two stacked devices.
    Stacked,
    /// A guess, of pairs of recorded devices: one lies on the other, and requests that went through
    /// both are in the trace twice.
    Layered,
    /// A guess: requests were put into another order, with the instants that were recorded.
    Order,
    /// A guess: the results of a run are out of the order of issue, so that their rows no longer
    /// tell the numbers of the requests.
    Disordered,
    /// A guess: the unit of a number.
    Unit,
    /// Any other guess: the format, an operation, an outcome.
    Assumed,
}

impl NoteKind {
    /// The topic of notes of this kind. `words` follow a number: "junk lines", "times shifted".
    pub const fn of(self, words: &str) -> Topic<'_> {
        Topic { kind: self, words }
    }
}

/// The subject of a note: its kind, for the verdict, and its words, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic<'a> {
    /// The kind of the note.
    pub kind: NoteKind,
    /// A phrase that follows a number.
    pub words: &'a str,
}

impl AsRef<str> for Topic<'_> {
    fn as_ref(&self) -> &str {
        self.words
    }
}

/// Something that a reader or a writer lost or guessed, how often, and the first cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The words of the note, as a phrase that follows a number: "junk lines", "times shifted".
    pub what: String,
    /// The meaning of the note for the verdict.
    pub kind: NoteKind,
    /// The number of cases; held at 2⁶⁴ − 1.
    pub count: u64,
    /// The part of the trace that the note is about, innermost first: a file that was merged into
    /// it, the output of a command. Empty where the note is about the whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<String>,
    /// The first cases, as the source had them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

impl Note {
    /// The note for the header of a larger trace, of which `part` is a part, with only the first
    /// example.
    #[must_use]
    pub fn within(&self, part: &str) -> Self {
        let mut note = self.clone();
        note.within.push(part.to_owned());
        note.examples.truncate(1);
        note
    }
}

impl fmt::Display for Note {
    /// `2 junk lines`, `1 junk line`, or `2 junk lines (in b.csv)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str(&singular::one(&self.what)),
            u64::MAX => write!(f, "at least {} {}", self.count, self.what),
            count => write!(f, "{count} {}", self.what),
        }?;
        self.within.iter().try_for_each(|part| write!(f, " (in {part})"))
    }
}

/// A list of notes in the order of their first case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Notes(pub(super) Vec<Note>);

impl Notes {
    /// Counts `count` cases of `topic`; the first few examples are kept, cut to a readable length.
    pub fn add(&mut self, topic: Topic<'_>, count: u64, example: Option<String>) {
        if count > 0 {
            let note = self.about(topic, &[]);
            note.count = note.count.saturating_add(count);
            note.examples.extend(example.filter(|_| note.examples.len() < EXAMPLES_MAX).map(cut));
        }
    }

    /// Adds the count of `note`; only the first few examples are kept.
    pub fn add_note(&mut self, note: &Note) {
        if note.count > 0 {
            let sum = self.about(note.kind.of(&note.what), &note.within);
            sum.count = sum.count.saturating_add(note.count);
            let room = EXAMPLES_MAX.saturating_sub(sum.examples.len());
            sum.examples.extend(note.examples.iter().take(room).cloned());
        }
    }

    /// Adds the cases that `later`, a later state of the same notes, has beyond these.
    pub fn catch_up(&mut self, later: &Self) {
        for note in &later.0 {
            let mine = self.about(note.kind.of(&note.what), &note.within);
            if note.count > mine.count {
                mine.count = note.count;
                mine.examples.clone_from(&note.examples);
            }
        }
    }

    /// Counts a topic anew: so many cases are known now, which may be fewer than before.
    pub fn recount(&mut self, what: Topic<'_>, count: u64) {
        if count > 0 || self.count_of(what) > 0 {
            self.about(what, &[]).count = count;
        }
    }

    /// The note on `topic`, which is added where there is none yet.
    fn about(&mut self, topic: Topic<'_>, within: &[String]) -> &mut Note {
        let Topic { kind, words } = topic;
        let is_it = |note: &Note| note.kind == kind && note.what == words && note.within == within;
        let index = self.0.iter().position(is_it).unwrap_or_else(|| {
            let (what, within) = (words.to_owned(), within.to_owned());
            self.0.push(Note { what, kind, count: 0, within, examples: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// The notes in the order of their first case.
    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a note of this kind.
    pub fn has(&self, kind: NoteKind) -> bool {
        self.0.iter().any(|note| note.kind == kind)
    }

    /// The number of cases in the notes with these words. Only for tests, because decisions depend
    /// on the kind.
    pub fn count_of(&self, words: impl AsRef<str>) -> u64 {
        self.0.iter().filter(|note| note.what == words.as_ref()).map(|note| note.count).sum()
    }
}

/// An example that is no longer than a line of text.
fn cut(mut example: String) -> String {
    if example.len() > EXAMPLE_BYTES_MAX {
        example.truncate(example.floor_char_boundary(EXAMPLE_BYTES_MAX));
        example.push('…');
    }
    example
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNK: Topic<'static> = NoteKind::Unreadable.of("junk lines");

    #[test]
    fn notes_count_everything_and_keep_the_first_cases() {
        let mut notes = Notes::default();
        for line in 0..10 {
            notes.add(JUNK, 1, Some(format!("line {line}")));
        }
        notes.add(NoteKind::Beside.of("nothing"), 0, None);
        let all: Vec<_> = notes.iter().collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].count, 10);
        assert_eq!(all[0].examples, ["line 0", "line 1", "line 2"]);
    }

    #[test]
    fn notes_of_the_same_words_are_apart_where_they_mean_something_else_or_are_of_a_part() {
        let mut notes = Notes::default();
        notes.add(JUNK, 1, Some("line 1".to_owned()));
        notes.add(NoteKind::Beside.of("junk lines"), 2, None);
        let part = notes.iter().next().unwrap().within("b.csv");
        for _ in 0..2 {
            notes.add_note(&part);
        }
        let told: Vec<_> = notes.iter().map(Note::to_string).collect();
        assert_eq!(told, ["1 junk line", "2 junk lines", "2 junk lines (in b.csv)"]);
        assert!(notes.has(NoteKind::Beside) && !notes.has(NoteKind::Place));
    }

    #[test]
    fn a_sum_beyond_what_can_be_counted_is_told_as_at_least_so_many() {
        let mut notes = Notes::default();
        notes.add(JUNK, u64::MAX / 2 + 1, None);
        notes.add(JUNK, u64::MAX / 2 + 1, None);
        let told: Vec<_> = notes.iter().map(Note::to_string).collect();
        assert_eq!(told, ["at least 18446744073709551615 junk lines"]);
    }

    #[test]
    fn a_long_example_is_cut_between_characters() {
        let mut notes = Notes::default();
        notes.add(JUNK, 1, Some("ä".repeat(500)));
        assert!(notes.iter().next().unwrap().examples[0].len() < 130);
    }
}
