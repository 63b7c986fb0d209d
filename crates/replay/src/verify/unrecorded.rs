//! Requests without a record.
//!
//! After a kill or a power cut the end of the records is missing, but those requests were executed.
//! Their data has their numbers and is accepted by them. Erased places have no number: zeroes may
//! be those of an unrecorded request, if the load has such requests.

use ioecho_trace::Op;

use super::origins::generation;

/// How many stretches of requests without a record are kept; further ones are joined.
pub(super) const GAPS_MAX: usize = 1 << 16;

/// What requests without a record may have left, besides stamped data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Erasing {
    /// Nothing: the run only writes.
    #[default]
    Nothing,
    /// Zeroes: some are write-zeroes.
    Zeroes,
    /// Anything, which mostly is zeroes: some are discards.
    Anything,
}

impl Erasing {
    /// What a request of this kind leaves.
    pub const fn by(op: Op) -> Self {
        match op {
            Op::WriteZeroes => Self::Zeroes,
            Op::Discard | Op::Zone => Self::Anything,
            _ => Self::Nothing,
        }
    }
}

/// The requests of a run, on a target, of which there is no record. They are told by versions.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    /// The place of the run in its line.
    generation: u64,
    /// From the first up to the last, in order.
    gaps: Vec<(u64, u64)>,
    erasing: Erasing,
    /// Changes of one sector happen in the order of their numbers.
    in_order: bool,
}

impl Unrecorded {
    /// There are none yet.
    pub(crate) const fn new(generation: u64, in_order: bool) -> Self {
        Self { generation, gaps: Vec::new(), erasing: Erasing::Nothing, in_order }
    }

    /// Adds the requests from `first` up to `last`. In ascending order.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        let full = self.gaps.len() == GAPS_MAX;
        match self.gaps.last_mut() {
            Some((_, end)) if full || end.saturating_add(1) >= first => {
                *end = last.max(*end);
            }
            _ => self.gaps.push((first, last)),
        }
    }

    /// The stretches, in order.
    pub(super) fn gaps(&self) -> &[(u64, u64)] {
        &self.gaps
    }

    /// What they may have left.
    pub(super) const fn erasing(&self) -> Erasing {
        self.erasing
    }

    /// Whether changes of one sector happen in the order of their numbers.
    pub(super) const fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Tells what any of them may have left.
    pub(crate) fn may_leave(&mut self, erasing: Erasing) {
        self.erasing = self.erasing.max(erasing);
    }

    /// Whether this request may be one of them, and may have come after all of those known, of
    /// which `newest` is the youngest.
    pub(crate) fn wrote(&self, request: u64, newest: Option<u64>) -> bool {
        let at = self.gaps.partition_point(|(_, last)| *last < request);
        let is_gap = self.gaps.get(at).is_some_and(|(first, _)| *first <= request);
        is_gap && self.may_follow(request, newest)
    }

    /// Whether there are any of this run that may have come after all of those known.
    pub(crate) fn has_any_of(&self, run: u64, newest: Option<u64>) -> bool {
        let last = self.gaps.last().filter(|_| self.generation == run);
        last.is_some_and(|(_, last)| self.may_follow(*last, newest))
    }

    /// What one of them may have left after all of those known.
    pub(crate) fn left(&self, newest: Option<u64>) -> Erasing {
        match self.gaps.last() {
            Some((_, last)) if self.may_follow(*last, newest) => self.erasing,
            _ => Erasing::Nothing,
        }
    }

    fn may_follow(&self, request: u64, newest: Option<u64>) -> bool {
        let races = |newest| !self.in_order && generation(newest) == self.generation;
        newest.is_none_or(|newest| request > newest || races(newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_come_later_is_laid_to_requests_without_a_record() {
        let mut unrecorded = Unrecorded::new(0, true);
        unrecorded.may_leave(Erasing::Zeroes);
        assert_eq!(unrecorded.left(None), Erasing::Nothing);
        unrecorded.add(10, 11);
        unrecorded.add(20, 20);
        assert_eq!(unrecorded.left(Some(19)), Erasing::Zeroes);
        assert_eq!(unrecorded.left(Some(20)), Erasing::Nothing);
        assert!(unrecorded.wrote(11, Some(10)) && unrecorded.wrote(20, None));
        assert!(!unrecorded.wrote(12, None) && !unrecorded.wrote(11, Some(15)));
    }

    #[test]
    fn where_requests_race_an_older_one_may_have_come_later() {
        let mut unrecorded = Unrecorded::new(0, false);
        unrecorded.may_leave(Erasing::Anything);
        unrecorded.may_leave(Erasing::Zeroes);
        unrecorded.add(10, 11);
        assert!(unrecorded.wrote(11, Some(15)));
        assert_eq!(unrecorded.left(Some(15)), Erasing::Anything);
    }

    #[test]
    fn what_an_earlier_run_left_unrecorded_never_comes_after_what_a_later_one_wrote() {
        let later = 1 << 48;
        let mut unrecorded = Unrecorded::new(0, false);
        unrecorded.may_leave(Erasing::Anything);
        unrecorded.add(10, 11);
        assert!(!unrecorded.wrote(11, Some(later)));
        assert_eq!(unrecorded.left(Some(later)), Erasing::Nothing);
    }
}
