//! Which runs may have written the data of a target, and what its stamps show otherwise.
//!
//! A target may hold data of others: a fill, runs that this one continues, forgotten runs. Each
//! counts its requests from zero, so the number of a request alone does not identify a version of a
//! sector. The continued runs and the run itself are a *line*: in a *version* the place of the run
//! in its line stands above the number of the request, so that what is younger is larger, across
//! runs.
//!
//! For other runs only the stamp of a sector is known. It suffices to find damage: a stamp with a
//! wrong checksum was whole once. A stamp in another place than its own is damage only if other
//! stamps of its run are in their places: a partition that begins elsewhere, or an extent that a
//! volume manager has moved, holds old stamps that are out of place and in order.

use super::entry::Legal;
use super::finding::Expected;
use super::judgement::Judgement;
use crate::fill::{BLOCK, seed_of};
use crate::pattern::Stamp;
use ioecho_trace::Integrity;

/// Bits of a version that are the number of the request.
const REQUEST_BITS: u32 = 48;
pub(super) const REQUEST: u64 = (1 << REQUEST_BITS) - 1;

/// So many runs can stand in a line.
pub const LINE_MAX: usize = 1 << 12;

/// Runs outside of the line that are kept in mind.
const STRANGERS_MAX: usize = 16;

/// A run counts as at home on a target with this many sectors.
const HOME_MIN: u64 = 8;

/// So many sectors in their place are needed for one out of it.
const HOME_RATIO: u64 = 16;

/// The place in its line of the run that wrote a version.
pub(crate) const fn generation(version: u64) -> u64 {
    version >> REQUEST_BITS
}

/// The request that wrote a version, in its own run.
pub(crate) const fn request(version: u64) -> u64 {
    version & REQUEST
}

/// A run of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) run: u64,
    /// Which of its targets this is.
    pub(super) target: u16,
    /// Its youngest request.
    pub(super) highest: u64,
}

/// A run outside of the line, on one of its targets.
#[derive(Clone, Copy, Debug)]
struct Stranger {
    run: u64,
    target: u16,
    /// Sectors seen in the place that they name.
    in_place: u64,
    /// Sectors seen at another.
    astray: u64,
}

/// Who may have written what a target holds.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    /// Oldest first; the last is the run itself.
    line: Vec<Member>,
    strangers: Vec<Stranger>,
    /// Whether the target is a tree of files, to which others of its kind may have handed files.
    of_tree: bool,
}

impl Origins {
    /// A run that continues none.
    pub(crate) fn new(run: u64, target: u16) -> Self {
        Self::of_line(vec![Member { run, target, highest: 0 }])
    }

    /// The runs of a line that is not empty, oldest first.
    pub(super) fn of_line(line: Vec<Member>) -> Self {
        Self { line, strangers: Vec::with_capacity(STRANGERS_MAX), of_tree: false }
    }

    /// The runs of the line, oldest first.
    pub(super) fn line(&self) -> &[Member] {
        &self.line
    }

    /// The target is a tree of files.
    pub(super) fn are_of_tree(&mut self) {
        self.of_tree = true;
    }

    /// Whether the target is a tree of files.
    pub(crate) fn is_of_tree(&self) -> bool {
        self.of_tree
    }

    /// Data of the other tree come here. Answers whether its versions mean the same here: whether
    /// the same runs stand in the same line.
    pub(super) fn learn(&mut self, other: &[Member]) -> bool {
        let mut is_same = self.line.len() == other.len();
        for (mine, theirs) in self.line.iter_mut().zip(other) {
            is_same &= mine.run == theirs.run;
            mine.highest = mine.highest.max(theirs.highest);
        }
        is_same
    }

    /// Another run goes on where this one ended.
    pub(crate) fn go_on(&mut self, run: u64, target: u16) {
        self.line.push(Member { run, target, highest: 0 });
    }

    /// The place in the line of the run itself.
    pub(crate) fn current(&self) -> u64 {
        self.line.len() as u64 - 1
    }

    /// The version that a request of the run itself writes.
    pub(crate) fn version(&self, request: u64) -> u64 {
        self.current() << REQUEST_BITS | (request & REQUEST)
    }

    /// The run itself has issued this request.
    pub(crate) fn issued(&mut self, request: u64) {
        if let Some(last) = self.line.last_mut() {
            last.highest = last.highest.max(request);
        }
    }

    /// The run and the request behind a version.
    fn writer(&self, version: u64) -> (u64, u64) {
        let member = self.line.get(generation(version) as usize);
        (member.map_or(0, |member| member.run), request(version))
    }

    /// The version of a stamp and whether it is of this target; `None` if no run of the line wrote
    /// it.
    #[inline]
    pub(crate) fn version_of(&self, stamp: &Stamp) -> Option<(u64, bool)> {
        let at = self.line.iter().rposition(|member| member.run == stamp.run)?;
        let version = (at as u64) << REQUEST_BITS | (stamp.request & REQUEST);
        Some((version, self.line[at].target == stamp.target))
    }

    /// Whether this run wrote to this place with this request, as far as anybody can tell.
    pub(crate) fn may_have_written(&self, run: u64, request: u64, position: u64) -> bool {
        match self.line.iter().rfind(|member| member.run == run) {
            Some(member) => request <= member.highest,
            None => seed_of(run).is_some() && request == position / BLOCK,
        }
    }

    /// The runs of which a few words are enough to recognise them, the youngest first.
    pub(crate) fn known(&self) -> impl Iterator<Item = u64> {
        let line = self.line.iter().rev().map(|member| member.run);
        line.chain(self.fills().map(|fill| fill.run))
    }

    /// Whether a sector that no run of the line touched may be recognised without its header.
    #[inline]
    pub(crate) fn is_known_by_words(&self) -> bool {
        self.is_filled()
    }

    /// Tells that the target holds what a fill wrote.
    pub(crate) fn is_filled_by(&mut self, run: u64) {
        self.stranger(run, 0);
    }

    /// Whether the target is known to hold what a fill wrote.
    pub(crate) fn is_filled(&self) -> bool {
        self.fills().next().is_some()
    }

    fn fills(&self) -> impl Iterator<Item = &Stranger> {
        self.strangers.iter().filter(|stranger| seed_of(stranger.run).is_some())
    }

    fn stranger(&mut self, run: u64, target: u16) -> Option<&mut Stranger> {
        let is_it = |stranger: &Stranger| (stranger.run, stranger.target) == (run, target);
        let known = self.strangers.iter().position(is_it);
        if known.is_none() && self.strangers.len() < STRANGERS_MAX {
            self.strangers.push(Stranger { run, target, in_place: 0, astray: 0 });
        }
        let at = known.unwrap_or(self.strangers.len() - 1);
        self.strangers.get_mut(at).filter(|stranger| is_it(stranger))
    }

    /// A whole sector was seen whose run is not of the line.
    pub(crate) fn saw(&mut self, stamp: &Stamp, position: u64) {
        if stamp.shared {
            return;
        }
        if let Some(stranger) = self.stranger(stamp.run, stamp.target) {
            stranger.in_place += u64::from(stamp.position == position);
            stranger.astray += u64::from(stamp.position != position);
        }
    }

    /// Whether the sectors of this run on this target are in their places.
    fn is_home(&self, stamp: &Stamp) -> bool {
        self.strangers.iter().any(|stranger| {
            (stranger.run, stranger.target) == (stamp.run, stamp.target)
                && stranger.in_place >= HOME_MIN
                && stranger.in_place / HOME_RATIO >= stranger.astray
        })
    }

    /// Judges a whole sector of a run outside of the line, at a place of which nothing is known.
    pub(crate) fn judge(&self, stamp: &Stamp, position: u64) -> Judgement {
        let in_place = stamp.position == position;
        if stamp.shared {
            Judgement::Unknown
        } else if !in_place {
            if self.is_home(stamp) {
                Judgement::Damaged(Integrity::Misdirected)
            } else {
                Judgement::Astray
            }
        } else if seed_of(stamp.run).is_some() && stamp.request == position / BLOCK {
            Judgement::Prepared
        } else {
            // It is whole, but may not be the last version here.
            Judgement::Unknown
        }
    }

    /// Whether a stamp of which a bit is wrong is that of a sector which lies in its place.
    pub(crate) fn belongs(&self, stamp: &Stamp, position: u64) -> bool {
        stamp.position == position || self.version_of(stamp).is_some() || self.is_home(stamp)
    }

    /// The legal content, as in a finding.
    pub(crate) fn tell(&self, legal: &[Legal]) -> Vec<Expected> {
        let tell = |legal: &Legal| {
            let plain = legal.map(request);
            match legal.version() {
                Some(version) if generation(version) < self.current() => {
                    Expected::Earlier { legal: plain, run: self.writer(version).0 }
                }
                _ => Expected::Own(plain),
            }
        };
        legal.iter().map(tell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::fill_run;
    use ioecho_trace::Nanos;

    fn stamp(run: u64, position: u64) -> Stamp {
        Stamp {
            run,
            target: 0,
            position,
            request: position / BLOCK,
            scheduled: Nanos::ZERO,
            index: 0,
            random: 100,
            shared: false,
        }
    }

    #[test]
    fn what_a_later_run_wrote_is_younger_whatever_the_numbers_of_the_requests() {
        let mut origins = Origins::new(7, 0);
        let old = origins.version(1 << 40);
        origins.go_on(8, 1);
        let new = origins.version(0);
        assert!(new > old);
        assert_eq!((origins.writer(old), origins.writer(new)), ((7, 1 << 40), (8, 0)));
        assert_eq!(origins.version_of(&stamp(7, 4096)), Some((1, true)));
        assert_eq!(origins.version_of(&stamp(8, 0)), Some((new, false)), "it is of target 0");
        assert_eq!(origins.version_of(&stamp(9, 0)), None);
    }

    #[test]
    fn a_stamp_out_of_place_is_damage_only_where_others_of_its_run_are_in_theirs() {
        let fill = fill_run(3);
        // A partition that begins at 1 MiB of a disk that was filled: nothing is in its place.
        let mut shifted = Origins::new(7, 0);
        for sector in 0..1000 {
            shifted.saw(&stamp(fill, (1 << 20) + sector * 512), sector * 512);
            assert_eq!(shifted.judge(&stamp(fill, 1 << 20), 0), Judgement::Astray);
        }
        let mut home = Origins::new(7, 0);
        for sector in 0..20 {
            home.saw(&stamp(fill, sector * 512), sector * 512);
        }
        let misdirected = Judgement::Damaged(Integrity::Misdirected);
        assert_eq!(home.judge(&stamp(fill, 1 << 20), 0), misdirected);
        assert_eq!(home.judge(&stamp(fill, 512), 512), Judgement::Prepared);
        assert_eq!(home.judge(&stamp(99, 1 << 20), 0), Judgement::Astray, "another run");
        assert_eq!(home.judge(&stamp(99, 512), 512), Judgement::Unknown, "who knows how old");
    }
}
