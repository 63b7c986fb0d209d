//! Pieces of requests that wait for the driver, and the chains of them that become requests of the
//! driver.
//!
//! The kernel makes requests of whole bios, or of whole pieces where a bio was split: a request of
//! the driver is a chain of them, each beginning where the one before ends (`block/blk-merge.c`:
//! back and front merges, `bio_split`). So a range is matched with a chain of waiting pieces. If
//! there is exactly one chain, it is the right one; if there are several, all of their pieces are
//! in doubt.

use std::collections::BTreeMap;

/// The number of pieces around a place that are looked at before the search is given up.
pub(super) const SEARCH_MAX: usize = 32;

/// The largest number of pieces that are considered for chains; pieces beyond it are in doubt.
const CHAIN_MAX: usize = 1 << 12;

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of the request.
    pub(super) serial: u64,
    /// The first byte, and the first byte behind the part.
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// The pieces taken for a range.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) parts: Vec<Part>,
    /// All candidates, if there was more than one, including the pieces taken.
    pub(super) rivals: Vec<Part>,
}

impl Taken {
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.rivals.clear();
    }
}

/// The waiting pieces of one class on one device, by position and then by age.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Maps the first byte and the request's number to the first byte behind the piece.
    ends: BTreeMap<(u64, u64), u64>,
    /// The length of the longest piece so far, in bytes; bounds the search for pieces that cover a
    /// place.
    longest: u64,
}

impl Pieces {
    #[inline]
    pub(super) fn insert(&mut self, part: Part) {
        self.longest = self.longest.max(part.end - part.begin);
        self.ends.insert((part.begin, part.serial), part.end);
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// All pieces from this place on, by position and then by age.
    pub(super) fn from(&self, begin: u64, serial: u64) -> impl Iterator<Item = Part> {
        let parts = self.ends.range((begin, serial)..);
        parts.map(|(&(begin, serial), &end)| Part { serial, begin, end })
    }

    /// The pieces that lie in a range.
    pub(super) fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = Part> {
        let parts = self.from(begin, 0).take_while(move |part| part.begin < end).take(CHAIN_MAX);
        parts.filter(move |part| part.begin < part.end && part.end <= end)
    }

    /// The pieces that begin at `begin`, the oldest first.
    #[inline]
    pub(super) fn at(&self, begin: u64) -> impl Iterator<Item = Part> {
        let parts = self.ends.range((begin, 0)..=(begin, u64::MAX)).take(SEARCH_MAX);
        parts.map(|(&(begin, serial), &end)| Part { serial, begin, end })
    }

    #[inline]
    pub(super) fn remove(&mut self, part: Part) -> bool {
        self.ends.remove(&(part.begin, part.serial)).is_some()
    }

    /// Forgets all pieces of the request with the range `whole`.
    pub(super) fn forget(&mut self, whole: Part) {
        if self.ends.remove(&(whole.begin, whole.serial)) == Some(whole.end) {
            return;
        }
        let pieces = self.from(whole.begin, 0).take_while(|part| part.begin < whole.end);
        let pieces = pieces.take(CHAIN_MAX).filter(|part| part.serial == whole.serial);
        for part in pieces.collect::<Vec<_>>() {
            self.remove(part);
        }
    }

    /// Cuts a piece in two.
    pub(super) fn cut(&mut self, part: Part, at: u64) {
        if part.begin < at && at < part.end && self.remove(part) {
            self.insert(Part { end: at, ..part });
            self.insert(Part { begin: at, ..part });
        }
    }

    /// The pieces that hold the byte at `place` and end behind `beyond`: those that begin at
    /// `place`, or else those that begin before.
    pub(super) fn reaching(&self, place: u64, beyond: u64) -> Vec<Part> {
        let here: Vec<_> = self.at(place).filter(|part| part.end > beyond).collect();
        if !here.is_empty() {
            return here;
        }
        self.before(place).filter(|part| part.end > beyond).collect()
    }

    /// The last pieces before a place that may hold it.
    fn before(&self, place: u64) -> impl Iterator<Item = Part> {
        let parts = self.ends.range(..(place, 0)).rev().take(SEARCH_MAX);
        parts
            .map(|(&(begin, serial), &end)| Part { serial, begin, end })
            .take_while(move |part| part.begin.saturating_add(self.longest) > place)
            .filter(move |part| part.end > place)
    }

    /// Takes the pieces that make up a range; `taken` stays empty if none of them waits.
    #[inline]
    pub(super) fn take(&mut self, begin: u64, end: u64, taken: &mut Taken) {
        taken.clear();
        let mut cursor = begin;
        loop {
            let mut here = self.at(cursor);
            match (here.next(), here.next()) {
                (Some(part), None) if part.end <= end && (part.end > cursor || begin == end) => {
                    taken.parts.push(part);
                    cursor = part.end;
                }
                _ => break,
            }
            if cursor == end {
                break;
            }
        }
        if cursor != end || taken.parts.is_empty() {
            self.weigh(begin, end, taken);
        }
        for part in &taken.parts {
            self.ends.remove(&(part.begin, part.serial));
        }
    }

    /// Finds the chain if several pieces, or none, begin at a place.
    fn weigh(&mut self, begin: u64, end: u64, taken: &mut Taken) {
        taken.clear();
        if begin == end {
            taken.rivals.extend(self.at(begin).filter(|part| part.end == end));
            taken.parts.extend(taken.rivals.first());
            if taken.rivals.len() < 2 {
                taken.rivals.clear();
            }
            return;
        }
        // Forwards: pieces that can be reached from the beginning. Backwards: those of them that
        // lead to the end.
        let mut reached = vec![begin];
        let mut useful = Vec::new();
        for part in self.within(begin, end) {
            if reached.binary_search(&part.begin).is_ok() {
                useful.push(part);
                if let Err(at) = reached.binary_search(&part.end) {
                    reached.insert(at, part.end);
                }
            }
        }
        let mut leading = vec![end];
        useful.reverse();
        useful.retain(|part| {
            let leads = leading.binary_search_by(|place| part.end.cmp(place)).is_ok();
            if leads && let Err(at) = leading.binary_search_by(|place| part.begin.cmp(place)) {
                leading.insert(at, part.begin);
            }
            leads
        });
        useful.reverse();
        if useful.is_empty() {
            return self.lay_out(begin, end, taken);
        }
        // A piece of exactly the range before several pieces, older pieces before younger ones.
        let whole = useful.iter().find(|part| part.begin == begin && part.end == end);
        let mut cursor = begin;
        if let Some(whole) = whole {
            taken.parts.push(*whole);
            cursor = end;
        }
        for part in &useful {
            if part.begin == cursor && cursor < end {
                taken.parts.push(*part);
                cursor = part.end;
            }
        }
        if useful.len() > taken.parts.len() {
            taken.rivals = useful;
        }
    }

    /// Covers a range with waiting pieces if no chain makes it up, because a split or a queueing
    /// was not recorded. Longer pieces are cut.
    fn lay_out(&mut self, begin: u64, end: u64, taken: &mut Taken) {
        let (mut cursor, mut in_doubt) = (begin, false);
        while cursor < end && taken.parts.len() < CHAIN_MAX {
            let mut here: Vec<_> = self.at(cursor).filter(|part| part.end > cursor).collect();
            if here.is_empty() {
                here.extend(self.before(cursor));
            }
            let best = here.iter().find(|part| part.end <= end).or(here.first());
            let Some(&part) = best else {
                in_doubt = true;
                let later = self.ends.range((cursor + 1, 0)..(end, 0)).take(SEARCH_MAX);
                let mut later = later.filter(|&(&(begin, _), &end)| end > begin);
                match later.next() {
                    Some((&(next, _), _)) => cursor = next,
                    None => break,
                }
                continue;
            };
            in_doubt |= here.len() > 1;
            taken.rivals.extend(here);
            self.cut(part, cursor);
            let part = Part { begin: cursor, ..part };
            self.cut(part, end);
            let part = Part { end: part.end.min(end), ..part };
            self.remove(part);
            taken.parts.push(part);
            cursor = part.end;
        }
        if !in_doubt {
            taken.rivals.clear();
        }
    }
}
