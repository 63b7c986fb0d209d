//! Requests recorded only to the second.
//!
//! Some traces have only the second of a request. Its instant within the second must then be
//! invented; leaving all of them at its beginning invents a burst. So the user chooses, and the
//! header of the resulting trace states the choice.
//!
//! Placing the requests of a second needs their number, so they are held until the next second
//! begins. To bound memory, when too many are held they get the first half of the remaining second,
//! and so on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::objects::mixed;
use crate::batch::{BATCH_ROWS, Batch};
use crate::header::{NoteKind, Notes, Topic};
use crate::wording::Wording;

/// The largest number of requests of a second that are held: some 50 MiB.
const HELD_MAX: usize = 1 << 20;

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// The seed of random instants; it never changes, so that every reading gives the same instants.
const SEED: u64 = 0x5ec0_9d5e_c09d_5ec0;

/// The note on instants that were not chosen. A trace with this note is not to be replayed as
/// recorded.
const UNCHOSEN: Topic<'static> = NoteKind::UnchosenSecond
    .of("requests known to the second only, left at its beginning (reading the \
         original with `whole-seconds` even, poisson or burst chooses)");
const EVEN: Topic<'static> =
    NoteKind::Instant.of("requests known to the second only, spread evenly over it");
const POISSON: Topic<'static> =
    NoteKind::Instant.of("requests known to the second only, spread at random over it");
const BURST: Topic<'static> =
    NoteKind::Instant.of("requests known to the second only, put at its beginning as asked for");
const IN_PARTS: Topic<'static> =
    NoteKind::Assumed.of("seconds with more than a million requests, spread in parts");

/// The treatment of instants that are whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WholeSeconds {
    /// No choice was made: they stay as they are, and a note lists the choices.
    #[default]
    Unchosen,
    /// Refuse such a trace, because without a choice its instants would be taken for real.
    Refuse,
    /// At equal distances over the second.
    Even,
    /// At random instants of the second, as independent arrivals have them (seeded, the same every
    /// time).
    Poisson,
    /// All at the beginning of the second.
    Burst,
}

impl WholeSeconds {
    /// The treatments that the user can choose.
    pub const CHOICES: [Self; 3] = [Self::Even, Self::Poisson, Self::Burst];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchosen => "unchosen",
            Self::Refuse => "refuse",
            Self::Even => "even",
            Self::Poisson => "poisson",
            Self::Burst => "burst",
        }
    }
}

/// As many instants show what the rest of a trace is like.
const SHOWN_BY: usize = 16;

/// Whether instants, in nanoseconds, are known to the second only, though their format knows them
/// better: each of the first ones is a whole second, and some are the same. Requests that come
/// once a second at most are no proof.
pub(in crate::formats) fn are_whole_seconds(instants: impl Iterator<Item = i128>) -> bool {
    let (mut count, mut last, mut is_shared) = (0, None, false);
    for instant in instants {
        if instant % i128::from(SECOND) != 0 {
            return false;
        }
        is_shared |= last == Some(instant);
        last = Some(instant);
        count += 1;
    }
    count >= SHOWN_BY && is_shared
}

/// The remedy: a sentence that lists the choices.
pub(super) fn remedy() -> Wording {
    Wording::from("say where in its second to put a request: ")
        .set("whole-seconds", "even, poisson or burst")
}

/// Places requests in their seconds.
pub(super) struct Seconds {
    choice: WholeSeconds,
    /// The requests of one second, in order.
    held: Batch,
    /// The beginning of the second that is held.
    second: i64,
    /// The beginning of the second's remaining part, in nanoseconds from the beginning of the
    /// second.
    from: i64,
    /// The latest instant given.
    latest: i64,
    /// Requests that have their instants.
    ready: VecDeque<Batch>,
    /// Empty batches whose memory is used again.
    spare: Vec<Batch>,
    held_max: usize,
    /// Requests that were read at a whole second.
    whole: u64,
    /// Those of them that stay there, because others of their second are known better.
    left: u64,
    in_parts: u64,
}

impl Seconds {
    /// Places requests as `choice` says.
    pub(super) fn new(choice: WholeSeconds) -> Self {
        Self {
            choice,
            held: Batch::default(),
            second: i64::MIN,
            from: 0,
            latest: i64::MIN,
            ready: VecDeque::new(),
            spare: Vec::new(),
            held_max: HELD_MAX,
            whole: 0,
            left: 0,
            in_parts: 0,
        }
    }

    /// Whether requests must be held to be placed.
    fn holds(&self) -> bool {
        matches!(self.choice, WholeSeconds::Even | WholeSeconds::Poisson)
    }

    /// Counts requests as they are read, however long they wait to be sorted and placed: a trace of
    /// which a part is replayed is read further, and tells of all that was read.
    pub(super) fn see(&mut self, read: &Batch) {
        self.whole += whole(read);
    }

    /// Takes the requests of `batch`, which are in order and no earlier than those before.
    pub(super) fn feed(&mut self, batch: &mut Batch) {
        if !self.holds() {
            let empty = self.spare.pop().unwrap_or_default();
            self.ready.push_back(std::mem::replace(batch, empty));
            return;
        }
        if self.held.is_empty() {
            self.held.reset(batch.columns());
        }
        let mut from = 0;
        while from < batch.len() {
            let second = batch.issue_ns[from].div_euclid(SECOND).saturating_mul(SECOND);
            if second != self.second {
                self.place(0);
                (self.second, self.from) = (second, 0);
            }
            let end = second.saturating_add(SECOND);
            let others = batch.issue_ns[from..].partition_point(|issue| *issue < end).max(1);
            let to = from + others.min(self.held_max - self.held.len());
            self.held.append(batch, from, to);
            from = to;
            if self.held.len() == self.held_max {
                self.in_parts += u64::from(self.from == 0);
                self.place((SECOND - self.from) / 2);
            }
        }
    }

    /// Gives the next requests, if there are enough of them or `ended` says that nothing follows;
    /// answers whether there were any.
    pub(super) fn give(&mut self, batch: &mut Batch, ended: bool) -> bool {
        if ended {
            self.place(0);
        }
        let is_due = |front: &Batch| ended || !self.holds() || front.len() >= BATCH_ROWS;
        if !self.ready.front().is_some_and(is_due) {
            return false;
        }
        let Some(mut front) = self.ready.pop_front() else { return false };
        std::mem::swap(batch, &mut front);
        self.spare.push(front);
        true
    }

    /// Gives the held requests their instants. The last `kept` nanoseconds of the second stay free
    /// for the requests that follow.
    fn place(&mut self, kept: i64) {
        let rows = self.held.len();
        let span = SECOND - self.from - kept;
        // If some instants are finer than a second, all of them are.
        if self.held.issue_ns.iter().all(|issue| *issue == self.second) {
            let issues = &mut self.held.issue_ns;
            for (row, issue) in issues.iter_mut().enumerate() {
                *issue = match self.choice {
                    WholeSeconds::Poisson => {
                        let seed = mixed(SEED ^ self.second as u64) ^ self.from as u64;
                        let random = mixed(seed.wrapping_add(row as u64));
                        ((u128::from(random) * u128::from(span.unsigned_abs())) >> 64) as i64
                    }
                    _ => (row as i128 * i128::from(span) / rows as i128) as i64,
                };
            }
            issues.sort_unstable();
            // After many parts nothing is left of the second but its last nanosecond.
            let from = self.from.min(SECOND - 1);
            for issue in issues {
                *issue = self.second.saturating_add(from).saturating_add(*issue);
            }
            self.from += span;
        } else {
            self.left += whole(&self.held);
        }
        for issue in &mut self.held.issue_ns {
            self.latest = self.latest.max(*issue);
            *issue = self.latest;
        }
        let mut from = 0;
        while from < rows {
            if self.ready.back().is_none_or(Batch::is_full) {
                let mut empty = self.spare.pop().unwrap_or_default();
                empty.reset(self.held.columns());
                self.ready.push_back(empty);
            }
            let Some(back) = self.ready.back_mut() else { break };
            let to = rows.min(from + BATCH_ROWS - back.len());
            back.append(&self.held, from, to);
            from = to;
        }
        self.held.truncate(0);
    }

    /// Notes the treatment, and the number of requests that were read and are treated so.
    pub(super) fn note(&mut self, guesses: &mut Notes) {
        let what = match self.choice {
            WholeSeconds::Unchosen | WholeSeconds::Refuse => UNCHOSEN,
            WholeSeconds::Even => EVEN,
            WholeSeconds::Poisson => POISSON,
            WholeSeconds::Burst => BURST,
        };
        guesses.recount(what, self.whole - self.left);
        guesses.add(IN_PARTS, std::mem::take(&mut self.in_parts), None);
    }
}

/// How many of the requests were issued at a whole second, as far as is known.
fn whole(batch: &Batch) -> u64 {
    batch.issue_ns.iter().filter(|issue| **issue % SECOND == 0).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Columns;
    use crate::request::{Op, Request};
    use crate::units::{Bytes, Nanos};
    use proptest::prelude::*;

    #[test]
    fn instants_are_whole_seconds_if_all_of_them_are_and_some_are_the_same() {
        let second = i128::from(SECOND);
        let twice = |count: i128| (0..count).map(move |n| n / 2 * second);
        assert!(are_whole_seconds(twice(16)));
        assert!(!are_whole_seconds(twice(15)), "too few");
        assert!(!are_whole_seconds((0..100).map(|n| n * second)), "one a second");
        assert!(!are_whole_seconds(twice(100).chain([1])), "one is finer");
    }

    /// The instants that requests get, as `choice` says.
    fn placed(
        choice: WholeSeconds,
        issues: &[i64],
        batch_rows: usize,
        held_max: usize,
    ) -> (Vec<i64>, Notes) {
        let mut seconds = Seconds { held_max, ..Seconds::new(choice) };
        let (mut all, mut row) = (Vec::new(), 0);
        let mut out = Batch::default();
        let mut take = |out: &Batch| {
            for request in out.iter() {
                // The order of requests is kept, and every one comes out once.
                assert_eq!(request.offset, Bytes(row));
                row += 1;
                all.push(request.issue.0);
            }
        };
        let mut offset = 0;
        for part in issues.chunks(batch_rows) {
            let mut batch = Batch::new(Columns::default());
            for issue in part {
                let request = Request::new(Nanos(*issue), Op::Read, Bytes(offset), Bytes(512));
                batch.push(&request);
                offset += 1;
            }
            seconds.see(&batch);
            seconds.feed(&mut batch);
            while seconds.give(&mut out, false) {
                take(&out);
            }
        }
        while seconds.give(&mut out, true) {
            assert!(!out.is_empty() && out.len() <= BATCH_ROWS);
            take(&out);
        }
        let mut notes = Notes::default();
        seconds.note(&mut notes);
        assert_eq!(all.len(), issues.len());
        (all, notes)
    }

    const S: i64 = SECOND;

    #[test]
    fn evenly_means_at_equal_distances() {
        let issues = [0, 0, 0, 0, S, 3 * S, 3 * S, 3 * S];
        let (all, notes) = placed(WholeSeconds::Even, &issues, 3, 100);
        let quarter = S / 4;
        let third = [3 * S, 3 * S + 333_333_333, 3 * S + 666_666_666];
        assert_eq!(all[..5], [0, quarter, 2 * quarter, 3 * quarter, S]);
        assert_eq!(all[5..], third);
        assert_eq!(notes.count_of(EVEN), 8);
    }

    #[test]
    fn a_burst_and_no_choice_leave_instants_as_they_are_and_tell() {
        let issues = [0, 0, S, S + 5];
        for (choice, what) in [(WholeSeconds::Burst, BURST), (WholeSeconds::Unchosen, UNCHOSEN)] {
            let (all, notes) = placed(choice, &issues, 3, 100);
            assert_eq!(all, issues);
            assert_eq!(notes.count_of(what), 3);
        }
    }

    #[test]
    fn at_random_means_uniform_instants_that_are_the_same_every_time() {
        let issues = vec![7 * S; 100_000];
        let (all, notes) = placed(WholeSeconds::Poisson, &issues, 8192, 1 << 20);
        assert_eq!(notes.count_of(POISSON), 100_000);
        assert_eq!(all, placed(WholeSeconds::Poisson, &issues, 99, 1 << 20).0);
        for tenth in 1..10 {
            let before = all.partition_point(|issue| *issue < 7 * S + tenth * S / 10) as i64;
            // Five standard deviations of a binomial distribution.
            assert!((before - tenth * 10_000).abs() < 5 * 158, "{before} in {tenth} tenths");
        }
        // The gaps of independent arrivals are exponential: of e⁻¹ of them is more than the mean.
        let gaps = all.windows(2).filter(|pair| pair[1] - pair[0] > 10_000).count() as i64;
        assert!((gaps - 36_788).abs() < 800, "{gaps}");
        let other = placed(WholeSeconds::Poisson, &[8 * S; 10], 10, 100).0;
        assert_ne!(other.iter().map(|issue| issue - S).collect::<Vec<_>>(), all[..10]);
    }

    #[test]
    fn a_second_of_too_many_requests_is_spread_in_parts() {
        let (all, notes) = placed(WholeSeconds::Even, &[0; 10], 10, 4);
        let expected = [0, 125, 250, 375, 500, 562, 625, 687, 750, 875];
        assert_eq!(all.iter().map(|ns| ns / 1_000_000).collect::<Vec<_>>(), expected);
        assert_eq!(notes.count_of(IN_PARTS), 1);
    }

    #[test]
    fn what_is_known_better_than_to_the_second_is_left() {
        let issues = [0, 5, S, S];
        let (all, notes) = placed(WholeSeconds::Even, &issues, 10, 100);
        assert_eq!(all, [0, 5, S, S + S / 2]);
        assert_eq!(notes.count_of(EVEN), 2);
    }

    proptest! {
        #[test]
        fn a_request_stays_in_its_second_and_the_order_is_kept(
            mut seconds in proptest::collection::vec(-3_i64..5, 0..200),
            batch_rows in 1_usize..50, held_max in 1_usize..100, is_even: bool,
        ) {
            seconds.sort_unstable();
            let issues: Vec<_> = seconds.iter().map(|second| second * S).collect();
            let choice = if is_even { WholeSeconds::Even } else { WholeSeconds::Poisson };
            let (all, notes) = placed(choice, &issues, batch_rows, held_max);
            prop_assert!(all.is_sorted());
            let stayed: Vec<_> = all.iter().map(|issue| issue.div_euclid(S)).collect();
            prop_assert_eq!(stayed, seconds);
            let count = notes.count_of(EVEN) + notes.count_of(POISSON);
            prop_assert_eq!(count, all.len() as u64);
        }

        #[test]
        fn no_instant_is_too_extreme(
            mut issues in proptest::collection::vec(any::<i64>(), 0..50), held_max in 1_usize..9,
        ) {
            issues.push(i64::MIN);
            issues.push(i64::MAX);
            issues.sort_unstable();
            prop_assert!(placed(WholeSeconds::Even, &issues, 7, held_max).0.is_sorted());
        }
    }
}
