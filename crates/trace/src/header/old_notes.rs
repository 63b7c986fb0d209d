//! Notes of headers that were written before notes had kinds.
//!
//! Only the words of such a note show its meaning, so this module maps the words of those versions
//! to kinds. Nothing else in the program reads a note's words, and these lists do not grow, because
//! today's notes have a kind. A note with an unknown kind of a later version is read by its words,
//! too.

use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Deserializer};

use super::notes::{Note, NoteKind, Notes};
use super::{DamageKind, Header};

/// The damage of a recording whose log did not say why it ended.
const NEVER_ENDED: &str = "the recording never ended: the recorder was killed or goes on";

/// Tells the kind of a damage from a version in which damages had no kind.
pub(super) fn tell_kind_of_damage(header: &mut Header) {
    if header.damage.as_deref() == Some(NEVER_ENDED) {
        header.damage_kind = DamageKind::NeverEnded;
    }
}

/// Words for losses of the recorder (`blktrace`, `ETW`, `biosnoop`, `blkparse`).
const LOST: [&str; 2] = ["lost by the recorder", "that blkparse says are missing"];

/// Words for losses other than of requests.
const BESIDE: [&str; 13] = [
    "digests of content",
    "copies of stacked devices removed",
    "requests to upper layers removed",
    "events outside the recorded partitions",
    "requests without a completion",
    "queued again",
    "they are kept as requests",
    "passthrough commands",
    "columns",
    "measured times and outcomes",
    "operations that are no I/O",
    "records that are no requests",
    "latencies",
];

/// The beginning of the note on whole seconds without a chosen instant.
const UNCHOSEN: &str = "requests known to the second only, left at its beginning";

/// Words for instants that are not the recorded ones.
const INSTANTS: [&str; 5] = [
    "known to the second only",
    "repetitions within a second",
    "too late to be sorted",
    "requests without an instant",
    "known to the millisecond",
];

/// Words for places that are not the recorded ones.
const PLACES: [&str; 1] = ["without an address, placed by a hash"];

/// The note on results that no longer tell the numbers of their requests.
const DISORDERED: &str = "results out of the order of issue";

/// The kind of a note among the losses, by its words.
fn loss(words: &str) -> NoteKind {
    let has = |list: &[&str]| list.iter().any(|part| words.contains(part));
    if has(&LOST) {
        NoteKind::LostByRecorder
    } else if has(&BESIDE) {
        NoteKind::Beside
    } else {
        NoteKind::Unreadable
    }
}

/// The kind of a note among the guesses, by its words.
fn guess(words: &str) -> NoteKind {
    let has = |list: &[&str]| list.iter().any(|part| words.contains(part));
    if words.starts_with(UNCHOSEN) {
        NoteKind::UnchosenSecond
    } else if has(&INSTANTS) {
        NoteKind::Instant
    } else if has(&PLACES) {
        NoteKind::Place
    } else if words == DISORDERED {
        NoteKind::Disordered
    } else {
        NoteKind::Assumed
    }
}

/// A note as any version has written it.
#[derive(Deserialize)]
struct Stored {
    what: String,
    kind: Option<String>,
    count: u64,
    #[serde(default)]
    within: Vec<String>,
    #[serde(default)]
    examples: Vec<String>,
}

impl Stored {
    fn read(mut self, meant: fn(&str) -> NoteKind) -> Note {
        let kind = self
            .kind
            .as_deref()
            .and_then(|word| NoteKind::deserialize(StrDeserializer::<Error>::new(word)).ok());
        if self.kind.is_none() {
            self.part_off();
        }
        let kind = kind.unwrap_or_else(|| meant(&self.what));
        let Self { what, count, within, examples, .. } = self;
        Note { what, kind, count, within, examples }
    }

    /// Moves the part of the trace from the end of the words into `within`: `junk lines (in
    /// b.csv)`.
    fn part_off(&mut self) {
        while let Some((what, part)) = self.what.rsplit_once(" (in ")
            && let Some(part) = part.strip_suffix(')')
        {
            self.within.insert(0, part.to_owned());
            self.what.truncate(what.len());
        }
    }
}

fn notes<'de, D: Deserializer<'de>>(
    deserializer: D,
    meant: fn(&str) -> NoteKind,
) -> Result<Notes, D::Error> {
    let stored = Vec::<Stored>::deserialize(deserializer)?;
    Ok(Notes(stored.into_iter().map(|note| note.read(meant)).collect()))
}

/// Reads the losses of a header.
pub(super) fn losses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Notes, D::Error> {
    notes(deserializer, loss)
}

/// Reads the guesses of a header.
pub(super) fn guesses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Notes, D::Error> {
    notes(deserializer, guess)
}

#[cfg(test)]
mod tests {
    use super::super::Header;
    use super::*;

    /// The kinds of notes of these words in the header of an old file.
    fn kinds_of(list: &str, words: &[&str]) -> Vec<NoteKind> {
        let notes: Vec<_> =
            words.iter().map(|what| serde_json::json!({ "what": what, "count": 1 })).collect();
        let header = serde_json::json!({ "source": "", "format": "", "volumes": [], list: notes });
        let header: Header = serde_json::from_value(header).unwrap();
        header.losses.iter().chain(header.guesses.iter()).map(|note| note.kind).collect()
    }

    #[test]
    fn every_word_of_an_old_file_means_what_it_meant() {
        for words in [
            "events lost by the recorder (sequence gaps)",
            "requests lost by the recorder",
            "events that blkparse says are missing",
        ] {
            assert_eq!(kinds_of("losses", &[words]), [NoteKind::LostByRecorder], "{words}");
        }
        for words in [
            "digests of content",
            "copies of stacked devices removed",
            "requests to upper layers removed",
            "events outside the recorded partitions",
            "requests without a completion",
            "rests of split requests, queued again",
            "second attempts, queued again because the first would have waited",
            "requests that the device failed; they are kept as requests",
            "passthrough commands",
            "columns that a trace does not have",
            "measured times and outcomes, which the result of merge has no more",
            "operations that are no I/O",
            "records that are no requests",
            "latencies of requests that have another length now",
        ] {
            assert_eq!(kinds_of("losses", &[words]), [NoteKind::Beside], "{words}");
        }
        for words in ["junk lines", "requests of zero length", "SCSI commands"] {
            assert_eq!(kinds_of("losses", &[words]), [NoteKind::Unreadable], "{words}");
        }
        for words in [
            "requests known to the second only, spread evenly over it",
            "requests known to the second only, spread at random over it",
            "requests known to the second only, put at its beginning as asked for",
            "requests that are repetitions within a second of the one recorded",
            "requests too late to be sorted, moved to the instant before them: --sort-whole puts \
             them in their places",
            "requests without an instant (no waits), taken to be issued at once",
            "instants of issue computed from completions known to the millisecond",
        ] {
            assert_eq!(kinds_of("guesses", &[words]), [NoteKind::Instant], "{words}");
        }
        for words in [
            "requests to files without an address, placed by a hash of the file's name in slots \
             of 1 GiB",
            "requests to blocks without an address, placed by a hash of block and shard in slots \
             of 8 MiB",
        ] {
            assert_eq!(kinds_of("guesses", &[words]), [NoteKind::Place], "{words}");
        }
        let unchosen = "requests known to the second only, left at its beginning (reading the \
                        original with --whole-seconds even, poisson or burst chooses)";
        assert_eq!(kinds_of("guesses", &[unchosen]), [NoteKind::UnchosenSecond]);
        let disordered = "results out of the order of issue";
        assert_eq!(kinds_of("guesses", &[disordered]), [NoteKind::Disordered]);
        assert_eq!(kinds_of("guesses", &["requests sorted into time order"]), [NoteKind::Assumed]);
    }

    #[test]
    fn a_kind_that_is_told_counts_and_an_unknown_one_is_read_by_its_words() {
        let notes = r#"{"source":"","format":"","losses":[
            {"what":"junk lines","kind":"beside","count":3},
            {"what":"junk lines","kind":"of a later version","count":4},
            {"what":"digests of content","kind":"of a later version","count":5}]}"#;
        let header: Header = serde_json::from_str(notes).unwrap();
        let kinds: Vec<_> = header.losses.iter().map(|note| (note.kind, note.count)).collect();
        let expected = [(NoteKind::Beside, 3), (NoteKind::Unreadable, 4), (NoteKind::Beside, 5)];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn the_part_that_an_old_note_is_about_is_taken_out_of_its_words() {
        let notes = r#"{"source":"","format":"","losses":[
            {"what":"junk lines (in b.csv) (in c (1).csv)","count":3},
            {"what":"events lost by the recorder (sequence gaps)","count":4},
            {"what":"junk lines (in b.csv)","kind":"unreadable","count":5}]}"#;
        let header: Header = serde_json::from_str(notes).unwrap();
        let notes: Vec<_> =
            header.losses.iter().map(|note| (note.what.as_str(), &*note.within)).collect();
        let parts = ["b.csv".to_owned(), "c (1).csv".to_owned()];
        assert_eq!(notes[0], ("junk lines", &parts[..]));
        assert_eq!(notes[1], ("events lost by the recorder (sequence gaps)", &[][..]));
        assert_eq!(notes[2], ("junk lines (in b.csv)", &[][..]));
    }

    #[test]
    fn what_is_written_today_reads_back_as_it_was() {
        let mut header = Header::default();
        header.losses.add(NoteKind::LeftOut.of("requests"), 1, Some("one".to_owned()));
        header.guesses.add(NoteKind::UnchosenSecond.of("seconds"), u64::MAX, None);
        let part = header.losses.iter().next().unwrap().within("b.csv");
        header.losses.add_note(&part);
        let json = serde_json::to_string(&header).unwrap();
        assert!(json.contains(r#""kind":"left-out""#) && json.contains(r#""within":["b.csv"]"#));
        assert_eq!(serde_json::from_str::<Header>(&json).unwrap(), header);
    }
}
