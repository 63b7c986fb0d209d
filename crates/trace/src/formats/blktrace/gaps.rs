//! Stretches in which events were lost.
//!
//! The number of missing events says little without their time: a gap in a calm hour matters less
//! than one in the minute to be replayed. There may be thousands of gaps, so their number is
//! bounded. Then the last counted one, and the last uncounted one, stand for all that follow.

use std::collections::BTreeSet;

/// The largest number of stretches that are kept.
const GAPS_MAX: usize = 1 << 14;

/// A stretch in nanoseconds of the recording's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) struct Stretch {
    pub(in crate::formats) from: u64,
    pub(in crate::formats) to: u64,
    /// The number of lost events; 0 if unknown.
    pub(in crate::formats) events: u64,
}

/// The gaps of a lane.
#[derive(Clone, Debug, Default)]
pub(in crate::formats) struct Gaps {
    stretches: Vec<Stretch>,
    events: u64,
    /// The number of changes of the stretches.
    changes: u64,
}

impl Gaps {
    /// The number of lost events.
    pub(in crate::formats) fn events(&self) -> u64 {
        self.events
    }

    /// The stretches in which events were lost.
    pub(in crate::formats) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Adds a stretch.
    pub(in crate::formats) fn add(&mut self, from: u64, to: u64, events: u64) {
        self.changes += 1;
        self.events = self.events.saturating_add(events);
        let to = to.max(from);
        let kept = self.stretches.len();
        // Counted and uncounted stretches stay separate: joined, their number would be unknown.
        let is_alike = |stretch: &Stretch| (stretch.events == 0) == (events == 0);
        let alike = (kept.saturating_sub(2)..kept).rfind(|at| is_alike(&self.stretches[*at]));
        match alike.or(kept.checked_sub(1)) {
            Some(last) if kept > GAPS_MAX || kept == GAPS_MAX && alike.is_some() => {
                let last = &mut self.stretches[last];
                last.from = last.from.min(from);
                last.to = last.to.max(to);
                let sum = last.events.saturating_add(events);
                last.events = if alike.is_some() { sum } else { 0 };
            }
            _ => self.stretches.push(Stretch { from, to, events }),
        }
    }

    /// Assigns `events` lost events to the last uncounted stretch after the first `noted`, or else
    /// to a new one.
    pub(in crate::formats) fn count(&mut self, noted: usize, from: u64, to: u64, events: u64) {
        match self.stretches.iter_mut().skip(noted).rfind(|stretch| stretch.events == 0) {
            Some(stretch) => {
                stretch.events = events;
                self.events = self.events.saturating_add(events);
            }
            None => self.add(from, to, events),
        }
    }

    /// Notes that the count of lost events went from `before` to `now`. The count shrinks when an
    /// event that was counted as lost arrives late.
    pub(in crate::formats) fn change(&mut self, from: u64, to: u64, before: u64, now: u64) {
        if now > before {
            self.add(from, to, now - before);
            return;
        }
        self.changes += 1;
        let mut late = before - now;
        self.events = self.events.saturating_sub(late);
        while let Some(last) = self.stretches.last_mut()
            && late > 0
        {
            let found = late.min(last.events);
            last.events -= found;
            late -= found;
            if last.events > 0 {
                break;
            }
            self.stretches.pop();
        }
    }
}

/// The stretches of all lanes that still lie ahead.
///
/// A lane learns of a stretch when it reads on after it, which happens when it returns its last
/// event before the stretch: so all are known in time.
#[derive(Debug)]
pub(in crate::formats) struct Coming {
    /// The first and the last instant of each stretch, and the number of its lane.
    stretches: BTreeSet<(u64, u64, usize)>,
    /// For each lane, its number of changes when its stretches were last read.
    looked: Vec<u64>,
    /// The greatest last instant of the stretches that were given out.
    given: Option<u64>,
}

impl Coming {
    /// No stretches, for `lanes` lanes.
    pub(in crate::formats) fn new(lanes: usize) -> Self {
        Self { stretches: BTreeSet::new(), looked: vec![0; lanes], given: None }
    }

    /// Takes the stretches that lane `lane` lost so far.
    #[inline]
    pub(in crate::formats) fn look(&mut self, lane: usize, gaps: &Gaps) {
        if self.looked[lane] != gaps.changes {
            self.learn(lane, gaps);
        }
    }

    #[cold]
    fn learn(&mut self, lane: usize, gaps: &Gaps) {
        self.looked[lane] = gaps.changes;
        self.stretches.retain(|(.., of)| *of != lane);
        let ahead = gaps.stretches.iter().filter(|s| self.given.is_none_or(|given| s.to > given));
        self.stretches.extend(ahead.map(|stretch| (stretch.from, stretch.to, lane)));
    }

    /// Removes the stretches that began before the instant `now`; returns the latest of their ends,
    /// `None` if there were none.
    #[inline]
    pub(in crate::formats) fn before(&mut self, now: u64) -> Option<u64> {
        let mut until = None;
        while let Some(&(from, to, _)) = self.stretches.first()
            && from < now
        {
            self.stretches.pop_first();
            until = until.max(Some(to));
        }
        self.given = self.given.max(until);
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_comes_late_closes_its_gap() {
        let mut gaps = Gaps::default();
        gaps.change(10, 20, 0, 2);
        gaps.change(20, 21, 2, 1);
        assert_eq!(gaps.stretches(), [Stretch { from: 10, to: 20, events: 1 }]);
        gaps.change(21, 22, 1, 0);
        assert_eq!((gaps.stretches(), gaps.events()), (&[][..], 0));
    }

    #[test]
    fn what_is_kept_is_bounded_and_no_lost_event_is_forgotten() {
        let mut gaps = Gaps::default();
        for at in 0..50_000 {
            gaps.add(at * 10, at * 10 + 5, 3);
        }
        assert_eq!(gaps.stretches().len(), GAPS_MAX);
        assert_eq!(gaps.stretches().iter().map(|gap| gap.events).sum::<u64>(), 150_000);
        assert_eq!(gaps.stretches().last().unwrap().to, 499_995);
        gaps.add(u64::MAX, 0, u64::MAX);
        assert_eq!(gaps.events(), u64::MAX);
    }

    #[test]
    fn what_was_counted_stays_apart_from_what_was_not() {
        let mut gaps = Gaps::default();
        let many = 3 * GAPS_MAX as u64;
        let lone = many - 7;
        for at in 0..many {
            gaps.add(at * 10, at * 10 + 5, if at == lone { 0 } else { 3 });
        }
        assert_eq!(gaps.stretches().len(), GAPS_MAX + 1);
        let uncounted = gaps.stretches().iter().filter(|gap| gap.events == 0);
        let uncounted: Vec<_> = uncounted.map(|gap| (gap.from, gap.to)).collect();
        let expected = vec![(lone * 10, lone * 10 + 5)];
        assert_eq!((uncounted, gaps.events()), (expected, (many - 1) * 3));
        // The bound also holds if uncounted stretches are counted later, any number of times.
        for at in many..2 * many {
            gaps.add(at * 10, at * 10 + 5, 0);
            gaps.count(0, 0, 0, 1);
        }
        assert!(gaps.stretches().len() <= GAPS_MAX + 1, "{}", gaps.stretches().len());
    }

    #[test]
    fn what_is_missing_is_not_what_the_recorder_noted_hours_before() {
        let stretch = |from, to, events| Stretch { from, to, events };
        let mut gaps = Gaps::default();
        gaps.add(10, 20, 0);
        gaps.count(1, 900, 1000, 7);
        assert_eq!(gaps.stretches(), [stretch(10, 20, 0), stretch(900, 1000, 7)]);
        // A torn place is where it is missing.
        gaps.add(500, 600, 0);
        gaps.count(1, 900, 1000, 5);
        assert_eq!(gaps.stretches().last(), Some(&stretch(500, 600, 5)));
        assert_eq!(gaps.events(), 12);
    }
}
