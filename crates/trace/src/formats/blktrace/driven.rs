//! The requests that the driver has.
//!
//! A completion has a place on the device, and belongs to the request that the driver got at this
//! place. `blk_update_request` (Linux `block/blk-mq.c`) reports the first sector of the request's
//! incomplete rest, and the number of bytes of it that are done. So a completion is matched with
//! the requests handed to the driver that begin at its sector, never with queued ones.

use std::collections::BTreeMap;

use super::pieces::{Part, SEARCH_MAX};

/// A request of the driver.
#[derive(Clone, Debug)]
pub(super) struct Driven {
    /// The first byte behind the request.
    pub(super) end: u64,
    /// The instant at which the driver got the request, in nanoseconds of the recording's clock.
    pub(super) time: u64,
    /// The queued parts of the request; none if they were queued before the recording.
    pub(super) first: Option<Part>,
    pub(super) more: Vec<Part>,
}

impl Driven {
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        self.first.iter().chain(&self.more).copied()
    }
}

/// The result of matching a completion.
#[derive(Debug)]
pub(super) struct Ended {
    /// The first byte of the driver's request, and the request.
    pub(super) begin: u64,
    pub(super) driven: Driven,
}

/// The driver's requests of one class on one device, by position and then by age.
#[derive(Debug, Default)]
pub(super) struct InDriver {
    requests: BTreeMap<(u64, u64), Driven>,
}

impl InDriver {
    pub(super) fn insert(&mut self, begin: u64, number: u64, driven: Driven) {
        self.requests.insert((begin, number), driven);
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
    }

    /// Forgets the requests for which `keep` is false.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Driven) -> bool) {
        self.requests.retain(|_, driven| keep(driven));
    }

    /// Forgets the driver's requests that consist only of `whole`, which was given up.
    pub(super) fn forget(&mut self, whole: Part) {
        let here = self.requests.range((whole.begin, 0)..(whole.end, 0)).take(SEARCH_MAX);
        let is_its = |driven: &Driven| {
            let mut parts = driven.parts();
            parts.next().is_some_and(|part| part.serial == whole.serial)
                && parts.all(|part| part.serial == whole.serial)
        };
        let gone: Vec<_> = here.filter(|(_, driven)| is_its(driven)).map(|(key, _)| *key).collect();
        for key in gone {
            self.requests.remove(&key);
        }
    }

    /// Takes the request that begins at `begin` and ends at `end`, or else one whose first part is
    /// that range. `lives` answers whether a request is still incomplete. If several match, `rival`
    /// is called for each of them; if there are very many, for the oldest ones and the youngest.
    #[inline]
    pub(super) fn take(
        &mut self,
        begin: u64,
        end: u64,
        lives: impl Fn(&Driven) -> bool,
        rival: impl FnMut(u64, &Driven),
    ) -> Option<Ended> {
        let mut here = self.requests.range((begin, 0)..=(begin, u64::MAX));
        let (key, driven) = here.next()?;
        let key = match here.next() {
            None => (driven.end >= end).then_some(*key)?,
            Some(_) => self.weigh(begin, end, lives, rival)?,
        };
        let driven = self.requests.remove(&key)?;
        Some(Ended { begin, driven })
    }

    fn weigh(
        &mut self,
        begin: u64,
        end: u64,
        lives: impl Fn(&Driven) -> bool,
        mut rival: impl FnMut(u64, &Driven),
    ) -> Option<(u64, u64)> {
        let mut found: Option<((u64, u64), (bool, bool))> = None;
        let mut count = 0;
        let here = || self.requests.range((begin, 0)..=(begin, u64::MAX));
        let fits = |(_, driven): &(_, &Driven)| driven.end >= end;
        for (key, driven) in here().take(SEARCH_MAX).filter(fits) {
            let worth = (driven.end == end, lives(driven));
            count += 1;
            if found.is_none_or(|(_, best)| worth > best) {
                found = Some((*key, worth));
            }
        }
        // The youngest stands for all that were not looked at: their place is in doubt until it is
        // complete.
        let beyond = here().nth(SEARCH_MAX).and_then(|_| here().next_back());
        if count > 1 || count == 1 && beyond.is_some() {
            let rivals = here().take(SEARCH_MAX).filter(fits).chain(beyond);
            rivals.for_each(|(key, driven)| rival(key.0, driven));
        }
        found.map(|(key, _)| key)
    }

    /// Whether the oldest requests include one of exactly this range.
    pub(super) fn holds(&self, begin: u64, end: u64) -> bool {
        self.of(begin, end).next().is_some()
    }

    /// The queued parts of the requests of exactly this range.
    pub(super) fn parts_of(&self, begin: u64, end: u64) -> Vec<Part> {
        self.of(begin, end).flat_map(Driven::parts).collect()
    }

    fn of(&self, begin: u64, end: u64) -> impl Iterator<Item = &Driven> {
        let here = self.requests.range((begin, 0)..=(begin, u64::MAX)).take(SEARCH_MAX);
        here.map(|(_, driven)| driven).filter(move |driven| driven.end == end)
    }
}
