//! Sets of legal versions of a sector, if there is more than one.
//!
//! After two writes raced, or one failed, either may be there. Such sectors are few, so the table
//! keeps a number for them, and the sets are stored apart, in memory allocated at the start. When
//! it is full, further sectors become [`Legal::Ambiguous`]: less is noticed, but no false alarm is
//! raised.

use super::entry::{Entry, Legal};

/// How many alternatives a set holds; more are [`Legal::Ambiguous`].
const ALTERNATIVES_MAX: usize = 8;

/// How many sets there is room for.
const SETS_MAX: usize = 1 << 16;

/// What may be read from one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alternatives {
    length: u8,
    items: [Legal; ALTERNATIVES_MAX],
}

impl Alternatives {
    /// So many fit.
    pub(crate) const MAX: usize = ALTERNATIVES_MAX;

    pub(crate) const fn none() -> Self {
        Self { length: 0, items: [Legal::Ambiguous; ALTERNATIVES_MAX] }
    }

    pub(crate) const fn one(legal: Legal) -> Self {
        let mut items = [Legal::Ambiguous; ALTERNATIVES_MAX];
        items[0] = legal;
        Self { length: 1, items }
    }

    pub(crate) fn as_slice(&self) -> &[Legal] {
        &self.items[..usize::from(self.length)]
    }

    /// Adds an alternative. If there is no room, the set becomes ambiguous.
    pub(crate) fn add(&mut self, legal: Legal) {
        if self.as_slice().contains(&legal) || self.as_slice() == [Legal::Ambiguous] {
            return;
        }
        if legal == Legal::Ambiguous || usize::from(self.length) == ALTERNATIVES_MAX {
            *self = Self::one(Legal::Ambiguous);
        } else {
            self.items[usize::from(self.length)] = legal;
            self.length += 1;
        }
    }

    /// As [`Self::add`], where requests to a sector are never in flight together: then those that
    /// do not fit are all younger than the oldest, and that is kept.
    pub(crate) fn add_in_order(&mut self, legal: Legal) {
        let full = usize::from(self.length) == ALTERNATIVES_MAX;
        let is_version = |legal: &Legal| matches!(legal, Legal::Version(_) | Legal::AtLeast(_));
        if let [Legal::AtLeast(_)] = self.as_slice()
            && is_version(&legal)
        {
            return;
        }
        if full && is_version(&legal) && self.as_slice().iter().all(is_version) {
            let oldest = self.as_slice().iter().filter_map(|legal| legal.version()).min();
            *self = Self::one(oldest.map_or(Legal::Ambiguous, Legal::AtLeast));
        } else {
            self.add(legal);
        }
    }
}

/// The sets of a target.
#[derive(Debug)]
pub(crate) struct Sets {
    sets: Vec<Alternatives>,
    /// Sets for which there was no room.
    pub(crate) overflowed: u64,
}

impl Sets {
    /// So many fit.
    pub(crate) const MAX: usize = SETS_MAX;

    pub(crate) fn new() -> Self {
        Self { sets: Vec::with_capacity(SETS_MAX), overflowed: 0 }
    }

    /// All of them, by their numbers.
    pub(crate) fn all(&self) -> &[Alternatives] {
        &self.sets
    }

    /// Adds a set under the next number.
    pub(crate) fn push(&mut self, set: Alternatives) {
        self.sets.push(set);
    }

    /// What an entry of the table stands for.
    pub(crate) fn open(&self, entry: u64) -> Alternatives {
        match Entry::decode(entry) {
            Entry::One(legal) => Alternatives::one(legal),
            Entry::Set(number) => self
                .sets
                .get(number as usize)
                .copied()
                .unwrap_or(Alternatives::one(Legal::Ambiguous)),
        }
    }

    /// The entry of the table for these alternatives.
    pub(crate) fn close(&mut self, alternatives: &Alternatives) -> u64 {
        match alternatives.as_slice() {
            [] => Legal::Ambiguous.encode(),
            [one] => one.encode(),
            _ if self.sets.last() == Some(alternatives) => {
                Entry::Set(self.sets.len() as u32 - 1).encode()
            }
            _ if self.sets.len() == SETS_MAX => {
                self.overflowed += 1;
                Legal::Ambiguous.encode()
            }
            _ => {
                self.sets.push(*alternatives);
                Entry::Set(self.sets.len() as u32 - 1).encode()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_alternatives_say_nothing_or_the_oldest() {
        let (mut any, mut ordered) = (Alternatives::none(), Alternatives::none());
        for request in 5..5 + ALTERNATIVES_MAX as u64 {
            any.add(Legal::Version(request));
            ordered.add_in_order(Legal::Version(request));
        }
        assert_eq!(any.as_slice().len(), ALTERNATIVES_MAX);
        any.add(Legal::Version(99));
        ordered.add_in_order(Legal::Version(99));
        ordered.add_in_order(Legal::Version(100));
        assert_eq!(any.as_slice(), [Legal::Ambiguous]);
        assert_eq!(ordered.as_slice(), [Legal::AtLeast(5)]);
    }

    #[test]
    fn sets_come_back_as_they_were_and_an_overflow_is_counted() {
        let mut sets = Sets::new();
        let mut two = Alternatives::one(Legal::Untouched);
        two.add(Legal::Version(3));
        let entry = sets.close(&two);
        assert_eq!(sets.close(&two), entry);
        assert_eq!(sets.open(entry), two);
        for request in 0..SETS_MAX as u64 {
            let mut two = Alternatives::one(Legal::Version(request));
            two.add(Legal::Version(request + 1));
            sets.close(&two);
        }
        assert_eq!(sets.overflowed, 1);
    }
}
