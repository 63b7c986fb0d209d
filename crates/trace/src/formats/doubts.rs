//! Implausible clocks.
//!
//! A column of milliseconds that is read as microseconds begins in January 1970, and one stray
//! stamp among millions makes a trace of 46 years. Neither is a syntax error. Only the owner knows
//! the right time, so the requests stay as they are, and a note states the doubt and the number of
//! requests concerned.

use crate::batch::Batch;
use crate::calendar;
use crate::header::{Header, NoteKind, Notes, Topic};
use crate::stream::{Label, Labelled, Source};
use crate::units::Nanos;

/// The longest plausible time without a request: a year, in nanoseconds.
const GAP_NS: i64 = 365 * 86_400 * 1_000_000_000;

/// 1990-01-01 and 2100-01-01 UTC in nanoseconds since 1970. The oldest block traces that are known
/// (HP's of 1992) lie between.
const EARLIEST_NS: i64 = 631_152_000_000_000_000;
const LATEST_NS: i64 = 4_102_444_800_000_000_000;

/// The doubt about requests whose instants lie far from most others.
pub const APART: Topic<'static> = NoteKind::Assumed
    .of("requests more than a year apart from most, left there: their time stamps \
         may be wrong");

/// The doubt about the date.
pub const DATE: Topic<'static> = NoteKind::Assumed
    .of("requests dated before 1990 or behind 2100, left there: their time stamps \
         may be wrong, or count another unit");

/// The doubt about a clock of whole seconds.
pub const SECONDS: Topic<'static> = NoteKind::Instant
    .of("requests of which only the second is known, left there: those of a second are issued at \
         once");

/// Fewer requests than these tell nothing about a clock.
const SECONDS_LEAST: u64 = 100;

/// A second in nanoseconds.
const SECOND_NS: i64 = 1_000_000_000;

/// Checks the instants of `source` while it is read.
pub(super) fn questioned(source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Labelled::new(source, Clock::default()))
}

/// Requests without a long gap between them.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: i64,
    last: i64,
    requests: u64,
}

/// The instants seen.
#[derive(Debug, Default)]
struct Clock {
    /// As stretches: at most one for each of the 584 years that fit into 64 bits.
    stretches: Vec<Stretch>,
    /// Whether one of them was no whole second.
    is_fine: bool,
    /// Requests at the same instant as the one before.
    alike: u64,
}

impl Label for Clock {
    fn see(&mut self, batch: &Batch) {
        self.look(batch.issue_ns());
    }

    fn write(&mut self, header: &mut Header) {
        let start = header.started.as_deref().and_then(calendar::unix_ns);
        self.tell(start, &mut header.guesses);
    }
}

impl Clock {
    /// Checks further instants, which are later than those before.
    fn look(&mut self, instants: &[i64]) {
        let (Some(first), Some(last)) = (instants.first(), instants.last()) else { return };
        let before = self.stretches.last().map_or(*first, |stretch| stretch.last);
        self.look_at_seconds(instants, self.stretches.last().map(|stretch| stretch.last));
        if last.saturating_sub(before) <= GAP_NS && !self.stretches.is_empty() {
            if let Some(stretch) = self.stretches.last_mut() {
                stretch.requests += instants.len() as u64;
                stretch.last = *last;
            }
            return;
        }
        for instant in instants {
            match self.stretches.last_mut() {
                Some(stretch) if instant.saturating_sub(stretch.last) <= GAP_NS => {
                    stretch.requests += 1;
                    stretch.last = *instant;
                }
                _ => self.stretches.push(Stretch { first: *instant, last: *instant, requests: 1 }),
            }
        }
    }

    /// Looks for instants that are no whole seconds. Mostly the first one is, and nothing is left
    /// to do.
    fn look_at_seconds(&mut self, instants: &[i64], before: Option<i64>) {
        let mut before = before;
        for instant in instants {
            self.is_fine = self.is_fine || instant % SECOND_NS != 0;
            if self.is_fine {
                return;
            }
            self.alike += u64::from(before == Some(*instant));
            before = Some(*instant);
        }
    }

    /// Notes the doubts; `start` is the date of the trace's zero, where it is known.
    fn tell(&self, start: Option<i64>, guesses: &mut Notes) {
        let most = self.stretches.iter().map(|stretch| stretch.requests).max().unwrap_or(0);
        let all: u64 = self.stretches.iter().map(|stretch| stretch.requests).sum();
        // Most requests share their second with others. What a reader did about that is told.
        let is_told = guesses.has(NoteKind::Instant) || guesses.has(NoteKind::UnchosenSecond);
        let is_likely = all >= SECONDS_LEAST && self.alike * 2 > all && self.alike + 1 < all;
        if !self.is_fine && is_likely && !is_told {
            guesses.add(SECONDS, all, None);
        }
        let gap = self.stretches.windows(2).next().map(|pair| {
            let gap = Nanos(pair[1].first.saturating_sub(pair[0].last));
            format!("nothing for {gap} (h:mm:ss) behind the first {}", pair[0].requests)
        });
        guesses.add(APART, all - most, gap);
        let Some(start) = start else { return };
        let is_strange =
            |date: i64| !(EARLIEST_NS..LATEST_NS).contains(&start.saturating_add(date));
        let strange = self.stretches.iter().filter(|stretch| is_strange(stretch.first));
        let example = strange.clone().next().map(|stretch| {
            format!("from {} on", calendar::rfc3339(start.saturating_add(stretch.first)))
        });
        guesses.add(DATE, strange.map(|stretch| stretch.requests).sum(), example);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: i64 = GAP_NS;

    fn told(instants: &[i64], start: Option<i64>, batch: usize) -> (u64, u64) {
        let (mut clock, mut guesses) = (Clock::default(), Notes::default());
        instants.chunks(batch).for_each(|batch| clock.look(batch));
        clock.tell(start, &mut guesses);
        (guesses.count_of(APART), guesses.count_of(DATE))
    }

    #[test]
    fn what_lies_apart_from_most_is_told_wherever_it_lies_and_batches_are_cut() {
        for batch in 1..5 {
            assert_eq!(told(&[0, 46 * YEAR, 46 * YEAR + 5, 46 * YEAR + 9], None, batch), (1, 0));
            assert_eq!(told(&[0, 1, 2, 2 * YEAR, 9 * YEAR], None, batch), (2, 0));
            assert_eq!(told(&[0, YEAR, 2 * YEAR], None, batch), (0, 0));
            assert_eq!(told(&[i64::MIN, i64::MAX], None, batch), (1, 0));
        }
        assert_eq!(told(&[], None, 1), (0, 0));
    }

    #[test]
    fn a_clock_of_whole_seconds_is_told_if_most_share_theirs() {
        let told = |instants: &[i64], batch: usize| {
            let (mut clock, mut guesses) = (Clock::default(), Notes::default());
            instants.chunks(batch).for_each(|batch| clock.look(batch));
            clock.tell(None, &mut guesses);
            guesses.count_of(SECONDS)
        };
        let of = |share: i64| -> Vec<i64> { (0..100).map(|n| n / share * SECOND_NS).collect() };
        for batch in [1, 7, 100] {
            assert_eq!(told(&of(5), batch), 100);
            // A request a second is no reason, nor is a load that names no instants, nor a burst.
            assert_eq!(told(&of(1), batch), 0);
            assert_eq!(told(&of(100), batch), 0);
            assert_eq!(told(&of(5)[..50], batch), 0);
            let fine = [of(5), vec![20 * SECOND_NS + 5]].concat();
            assert_eq!(told(&fine, batch), 0);
        }
        assert_eq!(told(&[], 1), 0);
    }

    #[test]
    fn a_date_that_no_recording_has_is_told() {
        let of = |date: &str| calendar::unix_ns(date);
        assert_eq!(told(&[0, 1, 2], of("1970-01-19T06:16:48Z"), 2), (0, 3));
        assert_eq!(told(&[0, 1, 2], of("2200-01-01T00:00:00Z"), 2), (0, 3));
        assert_eq!(told(&[0, 1, 2], of("1992-04-18T00:00:00Z"), 2), (0, 0));
        // A stray first stamp does not make the others strange.
        assert_eq!(told(&[0, 46 * YEAR, 46 * YEAR], of("1970-01-01T00:00:01Z"), 2), (1, 1));
    }
}
