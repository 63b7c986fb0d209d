//! Facts of the load and of the targets, as far as the verdict compares the two.

use ioecho_trace::Header;
use ioecho_trace::header::NoteKind;
use serde::{Deserialize, Serialize};

use super::merging;

/// Facts of the load, of the recording and of the targets that a run was made of. Runs that were
/// killed, and those made before there were such facts, have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadFacts {
    /// The run's targets, in their order; none of which nothing is known.
    pub targets: Vec<TargetFacts>,
    /// Faults of the recording.
    pub recording: Option<Recording>,
    /// Of the recorded devices the one whose place on a target differs most from it in size.
    pub size: Option<SizeFacts>,
    /// The compressed size of the written data, in percent.
    pub fill_random_percent: Option<u8>,
    /// Blocks for every distinct one in the written data.
    pub dedup: Option<f64>,
    /// Whether a disk turns in any of the targets; `None` where no device says so.
    pub rotational: Option<bool>,
    /// Whether a generator made the load, so that there was no recorded device; `None` of runs that
    /// do not say.
    pub generated: Option<bool>,
}

impl LoadFacts {
    /// Adds those of another run. The runs have so many targets each, also where nothing is known
    /// of them.
    pub(super) fn merge(&mut self, mine: u32, other: &Self, theirs: u32) {
        let Self { targets, recording, size, fill_random_percent, dedup, rotational, generated } =
            other;
        // A list in the order of the targets: facts of a target are of it alone.
        let none = TargetFacts::default;
        merging::behind_each_other(&mut self.targets, mine, targets, theirs, none);
        merging::both(&mut self.recording, recording.as_ref(), Recording::merge);
        merging::both(&mut self.size, size.as_ref(), SizeFacts::merge);
        // The smallest, because it makes the figures of compressing storage most wrong.
        self.fill_random_percent =
            merging::known(self.fill_random_percent, *fill_random_percent, u8::min);
        self.dedup = merging::furthest(self.dedup, *dedup, |blocks| blocks);
        // One that turns is enough for seeks to count.
        self.rotational = merging::known(self.rotational, *rotational, |mine, other| mine | other);
        // One that was recorded is enough for its device to count.
        self.generated = merging::known(self.generated, *generated, |mine, other| mine & other);
    }
}

/// What is known of a target of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetFacts {
    /// As it was named.
    pub name: String,
    /// Caches below the target that direct I/O does not bypass.
    pub caches: Vec<Cache>,
    /// Why the caches below cannot be known, if they cannot.
    pub unknown_cache: Option<String>,
    /// The layer that compresses or deduplicates what is written, if one does.
    pub compressing: Option<String>,
    /// The layer that keeps everything in memory, if one does.
    pub in_memory: Option<String>,
    /// Whether that layer is the target itself, a device that is memory by its name; otherwise it
    /// lies hidden below.
    pub is_memory: bool,
    /// What it held before the run.
    pub content: Option<ContentFacts>,
}

/// A cache below a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Whose it is.
    pub name: String,
    /// How much it holds, in bytes.
    pub bytes: u64,
}

/// What a target held before the run, by samples. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContentFacts {
    /// Blocks that were looked at, all over the target.
    pub samples: u64,
    /// The share of them that was never written; `None` where the system cannot tell.
    pub never_written: Option<f64>,
    /// The share that held zeroes though it was written, or where nobody can tell whether it was.
    pub zeroes: f64,
    /// Whether a fill of this program was there.
    pub prepared: bool,
    /// The share that earlier replays of this program had written.
    pub replayed: f64,
    /// Places of the load's first requests that the system was asked about.
    pub places: u64,
    /// Those of them where nothing was ever written.
    pub places_never_written: u64,
    /// Places of the load's first requests that were read, because a fill stood beside zeroes.
    pub places_read: u64,
    /// Those of them that held zeroes though something was written there.
    pub places_zeroes: u64,
    /// Equal parts of the target, of so many bytes …
    #[serde(skip)]
    pub part: u64,
    /// … and the shares of never written and of zero blocks in each; `None` where none was looked
    /// at.
    #[serde(skip)]
    pub parts: Vec<Option<(f64, f64)>>,
}

/// A recorded device and its place on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeFacts {
    /// How large the recorded device was, in bytes.
    pub recorded_bytes: u64,
    /// How large its place on the target is, in bytes.
    pub target_bytes: u64,
    /// How many of the recorded devices have no known size.
    pub unknown: u32,
}

impl SizeFacts {
    /// How many times as large as the recorded device its place is.
    pub fn ratio(&self) -> f64 {
        self.target_bytes as f64 / self.recorded_bytes.max(1) as f64
    }

    fn merge(&mut self, other: &Self) {
        let Self { recorded_bytes, target_bytes, unknown } = other;
        // Of all devices, as of those of one run, the one that differs most from its place, whole.
        let apart = |recorded: u64, target: u64| {
            let factor = target.max(1) as f64 / recorded.max(1) as f64;
            (factor.ln().abs(), recorded, target)
        };
        let mine = apart(self.recorded_bytes, self.target_bytes);
        let theirs = apart(*recorded_bytes, *target_bytes);
        let order = theirs.0.total_cmp(&mine.0).then((theirs.1, theirs.2).cmp(&(mine.1, mine.2)));
        if order.is_gt() {
            (self.recorded_bytes, self.target_bytes) = (*recorded_bytes, *target_bytes);
        }
        // Each is a device of which nothing is known.
        self.unknown = self.unknown.saturating_add(*unknown);
    }
}

/// Faults of a recording, in numbers of its requests or events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recording {
    /// Requests that were read; the other figures are about these.
    pub requests: u64,
    /// Those of them that were replayed, if a part was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<u64>,
    /// Events that the recorder itself says it lost.
    pub lost_by_recorder: u64,
    /// Lines or records that could not be read as requests.
    pub unreadable: u64,
    /// Requests that were read and left out, because what was made of the trace had no place for
    /// them.
    pub left_out: u64,
    /// Parts of the recording that are not there, of which nobody knows how many requests they
    /// held.
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen: u64,
    /// Requests whose instant is guessed.
    pub instants_guessed: u64,
    /// Requests whose place is guessed.
    pub places_guessed: u64,
    /// Requests whose latency is guessed.
    pub latencies_guessed: u64,
    /// Other guesses, such as units, operations and the order of requests: nobody can say how many
    /// requests each of them is about.
    pub otherwise_guessed: u64,
    /// Requests that seem to be there twice, recorded on each of two stacked devices.
    pub doubled: u64,
    /// Pairs of recorded devices of which one lies on the other: what went through both is there
    /// twice.
    pub layered: u64,
    /// Requests that were queued while it was recorded, where the recorder counted them, and those
    /// of them that the kernel put together with others.
    pub queued: u64,
    /// See [`Recording::queued`].
    pub merged: u64,
    /// Where it ends before its end: the sentence that says so.
    pub damage: Option<String>,
    /// The transforms that made the load of it, as they are typed; those of several runs are
    /// sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
}

impl Recording {
    /// What the header of a trace of so many requests says, and those of traces merged into it.
    pub fn of(header: &Header, requests: u64) -> Self {
        let read = header.imported.as_ref().map_or(requests, |imported| imported.requests);
        let damage = damage(header).cloned();
        let transforms = header.transforms.clone();
        let replayed = (requests < read).then_some(requests);
        let requests = read.max(requests);
        let mut recording = Self { requests, replayed, damage, transforms, ..Self::default() };
        recording.count(header);
        let events = header.recording.as_ref().map(|recording| &recording.events);
        let of_kind = |kind| events.and_then(|events| events.get(kind)).copied().unwrap_or(0);
        (recording.queued, recording.merged) = (of_kind("queued"), of_kind("merged"));
        recording
    }

    /// Adds how true the recording of another run is.
    fn merge(&mut self, other: &Self) {
        let Self {
            requests,
            replayed,
            lost_by_recorder,
            unreadable,
            left_out,
            unseen,
            instants_guessed,
            places_guessed,
            latencies_guessed,
            otherwise_guessed,
            doubled,
            layered,
            queued,
            merged,
            damage,
            transforms,
        } = other;
        // Where one run replayed a part, so did all together.
        if self.replayed.is_some() || replayed.is_some() {
            let mine = self.replayed.unwrap_or(self.requests);
            self.replayed = Some(mine.saturating_add(replayed.unwrap_or(*requests)));
        }
        // Losses and totals both add up, also for two runs of one recording.
        for (mine, theirs) in [
            (&mut self.requests, requests),
            (&mut self.lost_by_recorder, lost_by_recorder),
            (&mut self.unreadable, unreadable),
            (&mut self.left_out, left_out),
            (&mut self.unseen, unseen),
            (&mut self.instants_guessed, instants_guessed),
            (&mut self.places_guessed, places_guessed),
            (&mut self.latencies_guessed, latencies_guessed),
            (&mut self.otherwise_guessed, otherwise_guessed),
            (&mut self.doubled, doubled),
            (&mut self.layered, layered),
            (&mut self.queued, queued),
            (&mut self.merged, merged),
        ] {
            *mine = mine.saturating_add(*theirs);
        }
        // Every damage there is, once.
        merging::both(&mut self.damage, damage.as_ref(), |mine, theirs| {
            merging::all_words(mine, theirs);
        });
        if self.transforms != *transforms {
            self.transforms.extend_from_slice(transforms);
            self.transforms.sort_unstable();
            self.transforms.dedup();
        }
    }

    /// Counts what the notes of `header` mean; those of traces merged into it stand among them.
    fn count(&mut self, header: &Header) {
        for note in header.losses.iter().chain(header.guesses.iter()) {
            let sum = match note.kind {
                NoteKind::LostByRecorder => &mut self.lost_by_recorder,
                NoteKind::Unreadable => &mut self.unreadable,
                NoteKind::LeftOut => &mut self.left_out,
                NoteKind::Unseen => &mut self.unseen,
                NoteKind::Stacked => &mut self.doubled,
                NoteKind::Layered => &mut self.layered,
                NoteKind::Instant | NoteKind::UnchosenSecond => &mut self.instants_guessed,
                NoteKind::Place => &mut self.places_guessed,
                NoteKind::Latency => &mut self.latencies_guessed,
                NoteKind::Order | NoteKind::Disordered | NoteKind::Unit | NoteKind::Assumed => {
                    &mut self.otherwise_guessed
                }
                NoteKind::Beside => continue,
            };
            *sum = sum.saturating_add(note.count);
        }
    }
}

/// Whether a count says nothing, so that it is not stored.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Where the trace, or the first of those merged into it that does, ends before its end.
fn damage(header: &Header) -> Option<&String> {
    header.damage.as_ref().or_else(|| header.merged.iter().find_map(damage))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with a note of every kind, in these words, and a merged trace with the same.
    fn noted(words: &str) -> Header {
        let mut header = Header::default();
        header.losses.add(NoteKind::LostByRecorder.of(words), 3, None);
        header.losses.add(NoteKind::Unreadable.of(words), 5, None);
        header.losses.add(NoteKind::LeftOut.of(words), 10, None);
        header.losses.add(NoteKind::Unseen.of(words), 2, None);
        header.losses.add(NoteKind::Beside.of(words), 700, None);
        header.guesses.add(NoteKind::Instant.of(words), 11, None);
        header.guesses.add(NoteKind::UnchosenSecond.of(words), 20, None);
        header.guesses.add(NoteKind::Place.of(words), 13, None);
        header.guesses.add(NoteKind::Latency.of(words), 17, None);
        header.guesses.add(NoteKind::Stacked.of(words), 40, None);
        header.guesses.add(NoteKind::Layered.of(words), 2, None);
        header.guesses.add(NoteKind::Order.of(words), 900, None);
        header.guesses.add(NoteKind::Disordered.of(words), 901, None);
        header.guesses.add(NoteKind::Unit.of(words), 902, None);
        header.guesses.add(NoteKind::Assumed.of(words), 903, None);
        header
    }

    #[test]
    fn what_a_note_means_to_a_replay_is_told_by_its_kind_whatever_its_words_say() {
        let expected = Recording {
            requests: 1000,
            replayed: None,
            lost_by_recorder: 3,
            unreadable: 5,
            left_out: 10,
            unseen: 2,
            instants_guessed: 31,
            places_guessed: 13,
            latencies_guessed: 17,
            otherwise_guessed: 3606,
            doubled: 40,
            layered: 2,
            queued: 0,
            merged: 0,
            damage: None,
            transforms: Vec::new(),
        };
        for words in [
            "events",
            "events lost by the recorder (sequence gaps)",
            "digests of content",
            "requests known to the second only, spread evenly over it",
            "requests to files without an address, placed by a hash of the file's name",
        ] {
            assert_eq!(Recording::of(&noted(words), 1000), expected, "{words}");
        }
    }

    #[test]
    fn what_a_merged_trace_lost_counts_once() {
        let mut merged = noted("events");
        merged.damage = Some("cut".to_owned());
        let mut header = Header::default();
        header.losses.add(NoteKind::Unreadable.of("junk lines"), u64::MAX - 15, None);
        for note in merged.losses.iter() {
            header.losses.add_note(&note.within("b.csv"));
        }
        header.merged.push(merged);
        let recording = Recording::of(&header, 1000);
        assert_eq!((recording.lost_by_recorder, recording.unreadable), (3, u64::MAX - 10));
        assert_eq!(recording.damage.as_deref(), Some("cut"));
    }

    #[test]
    fn facts_read_back_as_they_were_and_old_ones_as_none() {
        let load = LoadFacts {
            targets: vec![TargetFacts {
                name: "/dev/x".to_owned(),
                caches: vec![Cache { name: "a cache".to_owned(), bytes: 1 << 40 }],
                content: Some(ContentFacts { samples: 7, ..ContentFacts::default() }),
                ..TargetFacts::default()
            }],
            recording: Some(Recording::default()),
            size: Some(SizeFacts { recorded_bytes: 1, target_bytes: 2, unknown: 3 }),
            fill_random_percent: Some(100),
            dedup: Some(1.0),
            rotational: Some(false),
            generated: Some(true),
        };
        let text = serde_json::to_string(&load).unwrap();
        assert_eq!(serde_json::from_str::<LoadFacts>(&text).unwrap(), load);
        assert_eq!(serde_json::from_str::<LoadFacts>("{}").unwrap(), LoadFacts::default());
    }
}
