//! What a description asks for of its data: that they are verified, and what is noted for it.
//!
//! The runs of a description are a family: each checks what those before it wrote. Vdbench's words
//! and ours say how much is looked at, and what its journal has to survive.

use std::collections::HashMap;

use super::Description;
use super::definitions::Entry;
use super::fault::Faults;
use super::keys::Section;
use super::model::{General, Told};
use super::plan::Plan;
use crate::verify_mode::{JournalMode, VerifyMode};

/// The most runs that a family has.
const FAMILY_MAX: usize = 4000;

/// Vdbench's words for what is verified, beside the names of our modes: what they mean, and what
/// there is to tell of them.
const VALIDATE: [(&str, VerifyMode, Option<&str>); 5] = [
    ("yes", VerifyMode::Reads, None),
    ("read_after_write", VerifyMode::Paranoia, None),
    ("no_preread", VerifyMode::Reads, None),
    ("time", VerifyMode::Reads, Some("the instants of all requests are kept")),
    ("reportdedupsets", VerifyMode::Reads, Some("a finding names both requests")),
];

/// Vdbench's words for a journal and ours: what they mean, and what there is to tell of them.
const JOURNAL: [(&str, Journal, Option<&str>); 10] = [
    ("yes", Journal::Durable, None),
    ("durable", Journal::Durable, None),
    ("noflush", Journal::Kept, None),
    ("kill", Journal::Kept, None),
    ("maponly", Journal::Kept, Some("what is under way is noted all the same")),
    ("recover", Journal::First, None),
    ("only", Journal::Only, None),
    ("skip_read_all", Journal::Unread, None),
    ("ignore_pending", Journal::Kept, Some("what was in flight may be old or new always")),
    ("max", Journal::Kept, Some("it has 16 MiB for each storage")),
];

/// What a word about a journal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    Durable,
    Kept,
    First,
    Only,
    Unread,
}

/// Whether what earlier runs wrote is read back before the first run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// No: each run checks what it reads.
    #[default]
    No,
    /// Yes; if it is there, the runs are done.
    First,
    /// Yes, and no run is done.
    Only,
}

impl General {
    /// What of the data is verified. Who keeps a journal verifies.
    pub fn verification(&self) -> VerifyMode {
        let mode = |word: &String| {
            let ours = VerifyMode::ALL.into_iter().find(|mode| mode.name() == word);
            let theirs = VALIDATE.iter().find(|(theirs, ..)| theirs == word);
            ours.or(theirs.map(|(_, mode, _)| *mode)).unwrap_or_default()
        };
        let is_kept = self.journal.iter().any(|word| word != "off");
        let least = if is_kept { VerifyMode::Reads } else { VerifyMode::Off };
        self.verify.iter().map(mode).fold(least, Ord::max)
    }

    /// What its notes must survive. `noflush` beside other words is the weaker of them.
    pub fn journal_mode(&self) -> JournalMode {
        let is_weak = self.journal.iter().any(|word| matches!(word.as_str(), "noflush" | "kill"));
        if self.has(Journal::Durable) && !is_weak {
            JournalMode::Durable
        } else {
            JournalMode::Kill
        }
    }

    fn has(&self, what: Journal) -> bool {
        let of = |word: &String| known(word).map(|(_, what, _)| what);
        self.journal.iter().filter_map(of).any(|it| it == what)
    }

    /// Whether what earlier runs wrote is read back first.
    pub fn recovery(&self) -> Recover {
        match (self.has(Journal::Only), self.has(Journal::First), self.has(Journal::Unread)) {
            (true, ..) => Recover::Only,
            (false, true, false) => Recover::First,
            _ => Recover::No,
        }
    }
}

/// What is known of a word about a journal.
fn known(word: &str) -> Option<(&'static str, Journal, Option<&'static str>)> {
    let word = word.split('=').next().unwrap_or(word);
    JOURNAL.iter().find(|(known, ..)| *known == word).copied()
}

/// Looks at what a description says of its data.
pub(super) fn check(
    description: &Description,
    plan: &Plan<'_>,
    faults: &mut Faults,
    told: &mut Vec<Told>,
) {
    let general = &description.workload.general;
    let is_on = general.verification().is_on();
    let definitions = description.definitions.iter();
    let definitions = definitions.filter(|definition| definition.section == Section::General);
    let entries = definitions.flat_map(|definition| &definition.entries);
    for entry in entries.filter(|entry| matches!(entry.key.name, "validate" | "journal")) {
        words(entry, faults, told);
    }
    let first = plan.runs().next();
    if let Some(run) = first.filter(|_| is_on && plan.count() > FAMILY_MAX) {
        let reason = format!(
            "these are {} runs, and at most {FAMILY_MAX} are verified together",
            plan.count()
        );
        faults.impossible(&run.place, reason, "name fewer runs, or take out validate=");
    } else if is_on {
        trees_keep_their_shape(plan, faults);
    }
}

/// Refuses trees that have other shapes in later runs: a file would be at another place then, and
/// what is known of it at the old one.
fn trees_keep_their_shape(plan: &Plan<'_>, faults: &mut Faults) {
    let mut shapes: HashMap<String, Vec<String>> = HashMap::new();
    for leaf in plan.leaves() {
        let flows = leaf.files.iter().flat_map(|file| file.makes.iter().chain(&file.flows));
        for path in flows.flat_map(|flow| &flow.paths) {
            let Some((anchor, settings)) =
                path.strip_prefix("tree:").and_then(|it| it.rsplit_once('?'))
            else {
                continue;
            };
            let is_of_shape = |it: &&str| !it.starts_with("open=") && !it.starts_with("parents=");
            let shape = settings.split('&').filter(is_of_shape).map(str::to_owned).collect();
            let known = shapes.entry(anchor.to_owned()).or_insert_with_key(|_| Vec::clone(&shape));
            if *known != shape {
                let reason = format!("the tree in {anchor} has another shape than in a run before");
                let help = "give each shape an anchor of its own, or take out validate=";
                faults.impossible(&leaf.place, reason, help);
                return;
            }
        }
    }
}

/// Refuses words that nobody knows, and tells of those without effect.
fn words(entry: &Entry, faults: &mut Faults, told: &mut Vec<Told>) {
    let is_journal = entry.key.name == "journal";
    for item in &entry.items {
        let word = item.text.as_str();
        let is_ours = VerifyMode::ALL.iter().any(|mode| mode.name() == word);
        let theirs = VALIDATE.iter().find(|(theirs, ..)| *theirs == word);
        let found = match (is_journal, word) {
            (_, "no" | "off") => Some(None),
            (true, _) => known(word).map(|(_, _, told)| told),
            (false, _) if is_ours => Some(None),
            (false, _) => theirs.map(|(_, _, told)| *told),
        };
        match found {
            Some(None) => {}
            Some(Some(why)) => {
                let what = format!("'{word}' of {}= has no effect: {why}", entry.key.name);
                told.push(Told { place: entry.place.clone(), what });
            }
            None => {
                let help = if is_journal {
                    "there are yes (or durable), noflush (or kill), recover, only, no"
                } else {
                    "there are yes (or reads), final, preread, read_after_write (paranoia), no"
                };
                let reason = format!("{}= has no word '{word}' here", entry.key.name);
                faults.impossible(&entry.place, reason, help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn general(verify: &[&str], journal: &[&str]) -> General {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        General { verify: words(verify), journal: words(journal), ..General::default() }
    }

    #[test]
    fn words_of_both_languages_mean_the_same() {
        for (verify, journal, mode) in [
            (&[][..], &[][..], VerifyMode::Off),
            (&["yes"], &[], VerifyMode::Reads),
            (&["yes", "time"], &[], VerifyMode::Reads),
            (&["no_preread"], &[], VerifyMode::Reads),
            (&["read_after_write"], &[], VerifyMode::Paranoia),
            (&["paranoia", "yes"], &[], VerifyMode::Paranoia),
            (&["preread"], &["kill"], VerifyMode::Preread),
            (&[], &["yes"], VerifyMode::Reads),
            (&["off"], &["off"], VerifyMode::Off),
        ] {
            assert_eq!(general(verify, journal).verification(), mode, "{verify:?} {journal:?}");
        }
    }

    #[test]
    fn a_journal_is_as_durable_as_its_weakest_word_and_reads_back_if_asked() {
        for (words, mode, recovery) in [
            (&["yes"][..], JournalMode::Durable, Recover::No),
            (&["durable", "noflush"], JournalMode::Kill, Recover::No),
            (&["noflush", "recover"], JournalMode::Kill, Recover::First),
            (&["yes", "recover", "only"], JournalMode::Durable, Recover::Only),
            (&["recover", "skip_read_all"], JournalMode::Kill, Recover::No),
            (&["max=10m"], JournalMode::Kill, Recover::No),
        ] {
            let general = general(&[], words);
            assert_eq!((general.journal_mode(), general.recovery()), (mode, recovery), "{words:?}");
        }
    }
}
