//! Verification: compares the data read with the data written.
//!
//! Storage that loses a write, or puts it elsewhere, completes every request without an error. Only
//! reading back shows it, and only if the legal content is known: if requests overlap in flight,
//! fail or come short, this is not one version but a set. The set is defined by instants: data of a
//! write W may be seen by a read R if W was submitted before R completed, and no other write that
//! completed successfully before R was submitted began after W completed.
//!
//! [`Verifier`] follows every request of a target and keeps in a [`VersionTable`] what each sector
//! may hold. Where requests that overlap are never in flight together (*isolated*), that is one
//! version, set when a write completes and compared when a read does. Otherwise writes stay among
//! the `races` until everything in flight together with them has completed. Sectors beyond the
//! bounds of memory become *ambiguous*: they are counted, and raise no alarm.
//!
//! Everything here is pure: no I/O except through the traits, no clock, and no allocation per
//! request unless something is found.

mod entry;
mod final_pass;
mod finding;
mod following;
mod in_memory;
mod intents;
mod judgement;
mod moves;
mod names;
mod origins;
mod races;
mod rebuild;
mod sector;
mod sets;
mod stored;
mod table;
mod tally;
mod tree;
mod unrecorded;

use std::cell::Cell;
use std::io;

use ioecho_trace::{Integrity, Nanos, Op, Outcome};
use rustc_hash::FxHashSet;

use crate::device::{Completion, Io};
use crate::pattern::{SECTOR_BYTES, Stamp, read_stamp};
use judgement::{Judgement, judge, newest};
use origins::Origins;
use races::{Races, Racing, Span};
use sector::{Inspector, begins_like_a_stamp};
use sets::{Alternatives, Sets};
use tally::Tally;
use tree::TreeSide;
use unrecorded::Unrecorded;

pub use entry::Legal;
pub use final_pass::{FinalPass, PassProgress, final_pass};
pub use finding::{Damage, Expected, FINDINGS_MAX, Finding, InFile, Look, VerifyFigures};
pub use following::{Following, Sharing};
pub use intents::{
    INTENT_BYTES, INTENTS_HEADER_BYTES, INTENTS_MAX, Intent, Intents, IntentsHeader, NOTED_AHEAD,
    RingSlots,
};
pub use moves::torn_moves;
pub use names::{FoundName, FoundNames, MayBe, NameBook, NameDamage};
pub use origins::LINE_MAX;
pub use rebuild::{After, Change, DurableBefore, Rebuild, apply_together, begin_together};
pub use sector::SectorContent;
pub use table::{MemoryTable, VersionTable, first_touched};
pub use tree::{NameFinding, ReadFiles};
pub use unrecorded::Erasing;

/// Sectors that are judged at a time, 4 MiB: longer reads are judged in parts.
const PART_SECTORS: usize = 8192;

/// How many places with findings are told apart.
const PLACES_MAX: usize = 1 << 14;

/// The entry of a sector that was never touched.
const UNTOUCHED: u64 = Legal::Untouched.encode();

/// Facts of the run for the verifier.
#[derive(Clone, Copy, Debug)]
pub struct VerifyConfig {
    /// The run's number, as it stands in every sector that it writes.
    pub run: u64,
    /// Which of the run's targets this is.
    pub target: u16,
    /// No two overlapping requests with a write among them are ever in flight together: every
    /// conflict mode but `allow`, with strong 1 or 2.
    pub isolated: bool,
}

/// Tracks every request of one target, and judges the data of reads.
///
/// All instants, also those of completions, must be of one clock.
pub struct Verifier {
    config: VerifyConfig,
    table: Box<dyn VersionTable + Send>,
    intents: Option<Box<dyn Intents + Send>>,
    inspector: Inspector,
    sets: Sets,
    /// Where requests may race.
    races: Option<Races>,
    /// Changes that overlap the read in question.
    overlapping: Vec<Racing>,
    entries: Vec<u64>,
    /// Who may have written what is there.
    origins: Origins,
    /// Requests without a record, of each run of the line.
    unrecorded: Vec<Unrecorded>,
    /// The first error of the table.
    table_error: Option<io::Error>,
    findings: Vec<Finding>,
    figures: VerifyFigures,
    /// Where findings began, as far as there is room.
    places: FxHashSet<u64>,
    /// Its names, if the target is a tree of files.
    tree: Option<Box<TreeSide>>,
}

/// The read that brought what is judged.
#[derive(Clone, Copy, Debug)]
struct Reading {
    request: Option<u64>,
    look: Look,
    submitted: Nanos,
    completed: Nanos,
}

impl Verifier {
    /// A verifier of a target that the run has not touched yet.
    pub fn new(
        config: VerifyConfig,
        table: Box<dyn VersionTable + Send>,
        intents: Option<Box<dyn Intents + Send>>,
    ) -> Self {
        Self {
            config,
            table,
            intents,
            inspector: Inspector::new(),
            sets: Sets::new(),
            races: (!config.isolated).then(Races::new),
            overlapping: Vec::with_capacity(1024),
            entries: vec![0; PART_SECTORS],
            origins: Origins::new(config.run, config.target),
            unrecorded: vec![Unrecorded::new(0, config.isolated)],
            table_error: None,
            findings: Vec::with_capacity(FINDINGS_MAX),
            figures: VerifyFigures::default(),
            places: FxHashSet::default(),
            tree: None,
        }
    }

    /// Continues with another run on the same target: the known state is the legal content at its
    /// start. All requests of earlier runs have ended. At most [`LINE_MAX`] runs stand in a line.
    #[must_use]
    pub fn go_on(mut self, config: VerifyConfig, intents: Option<Box<dyn Intents + Send>>) -> Self {
        self.origins.go_on(config.run, config.target);
        self.unrecorded.push(Unrecorded::new(self.origins.current(), config.isolated));
        // Races of earlier runs are over: all their instants are long past.
        self.races = (!config.isolated).then(Races::new);
        self.overlapping.clear();
        Self { config, intents, ..self }
    }

    /// Notes that the target was filled, at least in part, by the fill of this number.
    pub fn is_filled_by(&mut self, run: u64) {
        self.origins.is_filled_by(run);
    }

    /// Whether the content of the request's range is known: a run of the line wrote it, or it may
    /// have been prepared.
    pub fn knows(&mut self, io: &Io) -> bool {
        let (mut at, end) = sectors(io);
        if self.figures.table_errors > 0 || self.names().is_some_and(|names| !names.covers(io)) {
            return false;
        }
        let races = || self.races.as_ref().is_some_and(|races| races.is_any(at, end));
        if self.origins.is_filled() || races() {
            return true;
        }
        let mut entries = std::mem::take(&mut self.entries);
        let mut knows = false;
        while at < end && !knows {
            let count = ((end - at) as usize).min(PART_SECTORS);
            let known = self.table.get(at, &mut entries[..count]);
            self.count_table_error(&known);
            knows = known.is_ok() && entries[..count].iter().any(|entry| *entry != 0);
            at += count as u64;
        }
        self.entries = entries;
        knows
    }

    /// A request is about to be issued, at `now` or a little later: call this just before
    /// [`crate::Device::submit`].
    pub fn issued(&mut self, io: &Io, now: Nanos) {
        self.origins.issued(io.request);
        if let Some(intents) = &mut self.intents
            && is_noted(io, intents.as_ref())
        {
            intents.note(io, now);
        }
        let io = self.versioned(io);
        if let Some(races) = &mut self.races
            && io.op != Op::Flush
        {
            let given_up = races.issue(&io, sectors(&io), effect(&io), now);
            self.give_up(given_up);
        }
    }

    /// How many requests to come are of use at [`Verifier::commit`].
    pub fn notes_ahead(&self) -> usize {
        self.intents.as_ref().map_or(0, |intents| intents.notes_ahead())
    }

    /// What was issued is handed over to the device now: call this just before
    /// [`crate::Device::submit`]. `upcoming` are the requests that come next, as far as they are
    /// known with their numbers.
    pub fn commit(&mut self, upcoming: &mut dyn Iterator<Item = Io>, now: Nanos) {
        if let Some(intents) = &mut self.intents {
            intents.commit(upcoming, now);
        }
    }

    /// Nothing more is issued.
    pub fn end(&mut self) {
        if let Some(intents) = &mut self.intents {
            intents.end();
        }
    }

    /// Nothing is handed over for a while.
    pub fn rest(&mut self) {
        if let Some(intents) = &mut self.intents {
            intents.rest();
        }
    }

    /// The result of this request is lost: whoever verifies later knows of it by its note alone.
    pub fn result_lost(&mut self, request: u64) {
        if let Some(intents) = &mut self.intents {
            intents.keep(request);
        }
    }

    /// The request as it concerns the data, with the version that it writes in place of its number.
    fn versioned(&self, io: &Io) -> Io {
        let io = self.tree.as_ref().map_or(*io, |tree| tree.book.in_contents(io));
        Io { request: self.origins.version(io.request), ..io }
    }

    /// A request has completed: call this before the scheduler hears of it. `data` is the data of a
    /// read, otherwise empty. Failed or short reads are not judged.
    pub fn completed(&mut self, io: &Io, completion: &Completion, data: &[u8]) -> Integrity {
        self.completed_read(io, completion, data, Look::Load)
    }

    /// The same for a read of verification, made for the request whose number it has. Unreadable
    /// sectors are counted.
    pub fn looked(
        &mut self,
        io: &Io,
        completion: &Completion,
        data: &[u8],
        look: Look,
    ) -> Integrity {
        if completion.outcome != Outcome::Ok {
            self.unreadable(io);
        }
        if look == Look::BeforeWrite {
            let held_up = completion.completed.saturating_sub(completion.submitted);
            self.figures.prereads += 1;
            self.figures.preread_bytes += io.length.0;
            self.figures.preread_ns += held_up.0.max(0) as u64;
        }
        self.completed_read(io, completion, data, look)
    }

    fn completed_read(
        &mut self,
        io: &Io,
        completion: &Completion,
        data: &[u8],
        look: Look,
    ) -> Integrity {
        let Completion { submitted, completed, outcome, .. } = *completion;
        let mut integrity = Integrity::Unchecked;
        if io.op == Op::Read && outcome == Outcome::Ok && !data.is_empty() {
            self.figures.reads += 1;
            let reading = Reading { request: Some(io.request), look, submitted, completed };
            integrity = self.judge(io.offset.0, data, &reading);
        }
        if let Some(intents) = &mut self.intents
            && is_noted(io, intents.as_ref())
        {
            intents.acknowledge(io, completed, outcome);
        }
        self.name_completed(io, outcome, completed);
        if self.races.is_none() {
            self.settle_isolated(io, outcome);
        }
        if io.op != Op::Flush {
            let succeeded = outcome == Outcome::Ok;
            let span = Span { submitted, completed, succeeded };
            self.end_race(io.tag, Some(span), outcome.was_issued());
        }
        integrity
    }

    /// A request in flight is given up: its data may be there or not, now or later. Its tag may be
    /// unknown.
    pub fn abandoned(&mut self, io: &Io) {
        self.name_ended(io, Outcome::Abandoned, true);
        if self.races.is_none() {
            self.settle_isolated(io, Outcome::Abandoned);
        }
        let version = self.origins.version(io.request);
        let tag = self.races.as_ref().and_then(|races| races.tag_of(version));
        if let Some(tag) = tag {
            self.end_race(tag, None, true);
        }
    }

    /// Judges data read from a range on which nothing was in flight since before the read.
    pub fn check_now(&mut self, io: &Io, data: &[u8], now: Nanos) -> Integrity {
        let (submitted, completed) = (now, now);
        let reading = Reading { request: None, look: Look::Pass, submitted, completed };
        self.judge(io.offset.0, data, &reading)
    }

    /// What was checked so far.
    pub fn figures(&self) -> &VerifyFigures {
        &self.figures
    }

    /// At how many places something was found, each counted once however often it is read; those
    /// beyond some ten thousand are not told apart any more. A name is a place.
    pub fn places(&self) -> u64 {
        self.places.len() as u64 + self.figures.damaged_names.values().sum::<u64>()
    }

    /// What was found so far: the first [`FINDINGS_MAX`].
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The first of the errors that [`VerifyFigures::table_errors`] counts. After it no data is
    /// judged.
    pub fn table_error(&self) -> Option<&io::Error> {
        self.table_error.as_ref()
    }

    /// Notes that the requests from `first` up to `last` have no record: their data is accepted if
    /// it is younger than all known versions. Call in ascending order.
    pub fn add_gap(&mut self, first: u64, last: u64) {
        let last_version = self.origins.version(last.min(origins::REQUEST));
        if let Some(unrecorded) = self.unrecorded.last_mut() {
            unrecorded.add(self.origins.version(first), last_version);
        }
        // Otherwise data of such a request would not be recognised in half a sector.
        self.origins.issued(last.min(first.saturating_add(1 << 20)));
    }

    /// The range of sectors, at or behind `sector`, that the run has changed.
    fn touched_from(&mut self, sector: u64) -> io::Result<Option<(u64, u64)>> {
        self.table.touched_from(sector)
    }

    /// A change has ended and nothing else was in flight in its range.
    fn settle_isolated(&mut self, io: &Io, outcome: Outcome) {
        let io = self.versioned(io);
        let Some(effect) = effect(&io) else { return };
        match outcome {
            Outcome::Ok => {
                let (first, end) = sectors(&io);
                let set = self.table.set(first, end - first, effect.encode());
                self.count_table_error(&set);
            }
            // It was refused before anything was done.
            outcome if !outcome.was_issued() => {}
            _ => self.change(sectors(&io), |before| {
                let mut after = *before;
                after.add(effect);
                after
            }),
        }
    }

    /// Removes a request from those in flight, and moves changes that can no longer race into the
    /// table.
    fn end_race(&mut self, tag: u32, span: Option<Span>, issued: bool) {
        let Some(races) = &mut self.races else { return };
        let given_up = races.end(tag, span, issued);
        self.give_up(given_up);
        while let Some(racing) = self.races.as_mut().and_then(Races::settle) {
            self.settle(&racing);
        }
    }

    /// There was no room to follow a change: its range holds anything written there.
    fn give_up(&mut self, racing: Option<Racing>) {
        if let Some(Racing { start, end, .. }) = racing {
            self.figures.given_up += 1;
            let set = self.table.set(start, end - start, Legal::Ambiguous.encode());
            self.count_table_error(&set);
        }
    }

    /// Puts a change into the table that nothing in flight can race with any more.
    fn settle(&mut self, racing: &Racing) {
        let Some(mut races) = self.races.take() else { return };
        let Racing { effect, start, end, span, .. } = *racing;
        // An ambiguous sector loses its instants, so the latest of all is kept.
        let latest = Cell::new(span.completed);
        let ambiguous = Cell::new(false);
        let overflowed = self.figures.given_up;
        self.change((start, end), |before| {
            let mut after = Alternatives::none();
            let mut superseded = false;
            for legal in before.as_slice() {
                let theirs = races.span_of(*legal);
                superseded |= theirs.supersedes(&span);
                if !span.supersedes(&theirs) {
                    latest.set(latest.get().max(theirs.completed));
                    after.add(*legal);
                }
            }
            if !superseded {
                after.add(effect);
            }
            ambiguous.set(ambiguous.get() || after.as_slice() == [Legal::Ambiguous]);
            after
        });
        if ambiguous.get() || self.figures.given_up > overflowed {
            races.keep_ambiguous_until(latest.get());
        }
        self.races = Some(races);
    }

    /// Changes the legal content of a range, in stretches of equal earlier content.
    fn change(&mut self, (first, end): (u64, u64), change: impl Fn(&Alternatives) -> Alternatives) {
        let mut at = first;
        while at < end {
            let count = ((end - at) as usize).min(PART_SECTORS);
            let mut entries = std::mem::take(&mut self.entries);
            let mut result = self.table.get(at, &mut entries[..count]);
            for stretch in entries[..count].chunk_by(|a, b| a == b) {
                let before = self.sets.open(stretch[0]);
                let after = change(&before);
                if after != before {
                    let ambiguous = after.as_slice() == [Legal::Ambiguous];
                    self.figures.given_up += u64::from(ambiguous);
                    let entry = self.sets.close(&after);
                    let set = self.table.set(at, stretch.len() as u64, entry);
                    result = result.and(set);
                }
                at += stretch.len() as u64;
            }
            self.entries = entries;
            self.figures.given_up += std::mem::take(&mut self.sets.overflowed);
            self.count_table_error(&result);
        }
    }

    fn count_table_error(&mut self, result: &io::Result<()>) {
        let Err(error) = result else { return };
        self.figures.table_errors += 1;
        let same =
            || error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error);
        self.table_error.get_or_insert_with(same);
    }

    /// Judges the data read from `offset`; the worst sector counts.
    fn judge(&mut self, offset: u64, data: &[u8], reading: &Reading) -> Integrity {
        if self.figures.table_errors > 0 {
            // The table failed: any judgement would be a guess.
            return Integrity::Unchecked;
        }
        let mut worst = Integrity::Unchecked;
        let mut entries = std::mem::take(&mut self.entries);
        let mut first = offset / SECTOR_BYTES as u64;
        for part in data.chunks(PART_SECTORS * SECTOR_BYTES) {
            let count = part.len() / SECTOR_BYTES;
            let known = self.table.get(first, &mut entries[..count]);
            self.count_table_error(&known);
            if known.is_ok() {
                worst = worst.max(self.judge_part(first, part, &entries[..count], reading));
            }
            first += count as u64;
        }
        self.entries = entries;
        worst
    }

    fn judge_part(
        &mut self,
        first: u64,
        data: &[u8],
        entries: &[u64],
        reading: &Reading,
    ) -> Integrity {
        self.find_overlapping(first, first + entries.len() as u64, reading);
        let mut tally = self.tally(first, data, entries, reading, true);
        if tally.astray > 0 {
            // Later sectors may show that these are damage.
            tally = self.tally(first, data, entries, reading, false);
        }
        let worst = tally.worst;
        tally.add_to(&mut self.figures);
        if worst.is_damage() { self.report(first, data, entries, reading) } else { worst }
    }

    /// Judges the sectors of a part. Learns from them who wrote to this target, if it is to.
    fn tally(
        &mut self,
        first: u64,
        data: &[u8],
        entries: &[u64],
        reading: &Reading,
        learns: bool,
    ) -> Tally {
        let mut tally = Tally::default();
        for (index, sector) in data.chunks_exact(SECTOR_BYTES).enumerate() {
            let (number, entry) = (first + index as u64, entries[index]);
            let stamp = read_stamp(sector);
            if let Some(stamp) = &stamp
                && learns
                // Trees of other shapes have some of their files in the same places.
                && self.tree.is_none()
                && entry == UNTOUCHED
                && self.origins.version_of(stamp).is_none()
            {
                self.origins.saw(stamp, number * SECTOR_BYTES as u64);
            }
            let is_bare = stamp.is_none() && entry == UNTOUCHED && self.overlapping.is_empty();
            let judgement = self.judge_sector(number, sector, stamp, entry, reading);
            tally.add(number, judgement, is_bare);
        }
        tally
    }

    fn judge_sector(
        &self,
        number: u64,
        sector: &[u8],
        stamp: Option<Stamp>,
        entry: u64,
        reading: &Reading,
    ) -> Judgement {
        let position = number * SECTOR_BYTES as u64;
        let quiet = self.overlapping.is_empty();
        // Nearly every sector holds the one version that it must, or was never written by anybody.
        match &stamp {
            Some(stamp) if quiet && !stamp.shared && stamp.position == position => {
                if let Some((version, is_target)) = self.origins.version_of(stamp) {
                    let is_own = is_target && Legal::Version(version).encode() == entry;
                    if is_own || Legal::Moved(version).encode() == entry {
                        return Judgement::Intact;
                    }
                }
            }
            None if quiet
                && entry == UNTOUCHED
                && !self.origins.is_known_by_words()
                && !begins_like_a_stamp(sector) =>
            {
                return Judgement::Unknown;
            }
            _ => {}
        }
        let legal = self.legal(number, entry, reading);
        let found = match stamp {
            Some(stamp) => SectorContent::Stamped(stamp),
            None => self.inspector.look(sector, position, &self.origins),
        };
        self.judge_found(number, &found, &legal, reading)
    }

    /// Judges what a sector was found to hold. Of a file, a read that meets with a write brings the
    /// beginning of one content and the end of the other: the page cache is copied meanwhile, and
    /// that says nothing of what is there.
    fn judge_found(
        &self,
        number: u64,
        found: &SectorContent,
        legal: &Alternatives,
        reading: &Reading,
    ) -> Judgement {
        let position = number * SECTOR_BYTES as u64;
        let judgement = judge(found, legal, position, &self.origins, &self.unrecorded);
        let is_whole = matches!(found, SectorContent::Stamped(_) | SectorContent::Zeroes);
        let meets = |racing: &Racing| {
            let is_here = racing.start <= number && number < racing.end;
            is_here && racing.span.completed >= reading.submitted
        };
        let is_mixed = || !is_whole && self.tree.is_some() && self.overlapping.iter().any(meets);
        match judgement {
            Judgement::Damaged(_) if is_mixed() => Judgement::Ambiguous,
            judgement => judgement,
        }
    }

    /// Gathers the changes that the read can have seen in part.
    fn find_overlapping(&mut self, first: u64, end: u64, reading: &Reading) {
        let Some(races) = &self.races else { return };
        let overlapping = &mut self.overlapping;
        overlapping.clear();
        races.for_each(first, end, |racing| {
            if racing.span.submitted <= reading.completed {
                overlapping.push(*racing);
            }
        });
        // A hanging change is in the table as ambiguous and may be overwritten there.
        if !races.hanging.is_empty() {
            overlapping.extend(races.hanging.iter().filter(|r| r.start < end && first < r.end));
        }
    }

    /// The versions of a sector that the read may return.
    fn legal(&self, number: u64, entry: u64, reading: &Reading) -> Alternatives {
        let settled = self.sets.open(entry);
        let Some(races) = self.races.as_ref().filter(|_| !self.overlapping.is_empty()) else {
            return settled;
        };
        if races.hangs(number, number + 1) {
            return Alternatives::one(Legal::Ambiguous);
        }
        let here = || self.overlapping.iter().filter(|r| r.start <= number && number < r.end);
        // A write hides older ones from this read if it had completed before the read began.
        let hidden = |span: &Span| {
            here().any(|other| {
                other.span.completed < reading.submitted && other.span.supersedes(span)
            })
        };
        let mut legal = Alternatives::none();
        for known in settled.as_slice() {
            if !hidden(&races.span_of(*known)) {
                legal.add(*known);
            }
        }
        for racing in here() {
            let settled_hides = settled.as_slice().iter().any(|known| {
                let theirs = races.span_of(*known);
                theirs.completed < reading.submitted && theirs.supersedes(&racing.span)
            });
            if !settled_hides && !hidden(&racing.span) {
                legal.add(racing.effect);
            }
        }
        legal
    }

    /// Notes the findings of a read. Allocates only if there are any.
    fn report(&mut self, first: u64, data: &[u8], entries: &[u64], reading: &Reading) -> Integrity {
        struct Judged {
            kind: Option<Integrity>,
            legal: Alternatives,
            found: SectorContent,
        }
        let judged = |(index, sector): (usize, &[u8])| {
            let number = first + index as u64;
            let position = number * SECTOR_BYTES as u64;
            let legal = self.legal(number, entries[index], reading);
            let found = self.inspector.look(sector, position, &self.origins);
            let kind = match self.judge_found(number, &found, &legal, reading) {
                Judgement::Damaged(kind) => Some(kind),
                _ => None,
            };
            Judged { kind, legal, found }
        };
        let mut sectors: Vec<Judged> =
            data.chunks_exact(SECTOR_BYTES).enumerate().map(judged).collect();
        // A write of which a part is there and a part is lost was torn.
        let arrived: std::collections::BTreeSet<u64> = sectors
            .iter()
            .filter(|sector| sector.kind.is_none())
            .filter_map(|sector| match sector.found {
                SectorContent::Stamped(stamp) if !stamp.shared => {
                    self.origins.version_of(&stamp).map(|known| known.0)
                }
                _ => None,
            })
            .collect();
        for sector in &mut sectors {
            if sector.kind == Some(Integrity::Stale)
                && newest(sector.legal.as_slice()).is_some_and(|newest| arrived.contains(&newest))
            {
                sector.kind = Some(Integrity::Torn);
            }
        }
        let mut worst = Integrity::Unchecked;
        let mut at = first;
        for stretch in sectors.chunk_by(|a, b| {
            a.kind == b.kind
                && (a.kind.is_none() || (a.legal == b.legal && a.found.continues(&b.found)))
        }) {
            let count = stretch.len() as u64;
            if let Some(kind) = stretch[0].kind {
                worst = worst.max(kind);
                self.figures.damaged.add(kind, count);
                self.figures.findings += 1;
                if self.places.len() < PLACES_MAX {
                    self.places.insert(at);
                }
                if self.findings.len() < FINDINGS_MAX {
                    self.findings.push(Finding {
                        target: self.config.target,
                        offset: ioecho_trace::Bytes(at * SECTOR_BYTES as u64),
                        length: ioecho_trace::Bytes(count * SECTOR_BYTES as u64),
                        file: self.in_file(at, &stretch[0].found),
                        kind,
                        expected: self.origins.tell(stretch[0].legal.as_slice()),
                        found: stretch[0].found,
                        read: reading.request,
                        look: reading.look,
                        at: reading.completed,
                        own: self.config.run,
                    });
                }
            }
            at += count;
        }
        worst
    }
}

/// Whether a note is kept of the request.
fn is_noted(io: &Io, intents: &dyn Intents) -> bool {
    io.op.changes_data() || io.op.changes_names() || io.op == Op::Flush && intents.takes_flushes()
}

/// The sectors that the request covers: the first and the one behind the last.
fn sectors(io: &Io) -> (u64, u64) {
    let sector = SECTOR_BYTES as u64;
    let first = io.offset.0 / sector;
    let end = io.offset.0.saturating_add(io.length.0).div_ceil(sector);
    (first, end.max(first + 1))
}

/// The content that a successful change leaves; `None` for a request that changes nothing.
fn effect(io: &Io) -> Option<Legal> {
    match io.op {
        Op::Write => Some(Legal::Version(io.request)),
        // What is created is empty, whatever was there before.
        Op::WriteZeroes | Op::Create => Some(Legal::Zeroes(io.request)),
        Op::Discard | Op::Zone => Some(Legal::Anything(io.request)),
        _ => None,
    }
}
