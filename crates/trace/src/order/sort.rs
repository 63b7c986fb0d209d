//! Putting requests into the order of their issue.
//!
//! Several kinds of recordings are ordered by completion, or only almost by time. Sorting them
//! completely needs the whole trace in memory or a second pass over it; yet the disorder is local,
//! because a request is in flight only for a short time. So a window of requests is held back, in
//! which late requests are put in their place. A still later request gets the last instant that was
//! returned; all moved requests are counted.
//!
//! Sorted input, the usual case, costs one comparison per instant: its batches pass through whole.

use std::collections::VecDeque;

use super::{Order, Sorter};
use crate::batch::{BATCH_ROWS, Batch};
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes, Topic};
use crate::request::Request;
use crate::stream::Source;
use crate::units::{Nanos, decimal_seconds};

/// The number of requests that are held back.
pub const WINDOW_ROWS: usize = 65_536;

/// The note on requests that came late and were put in their place.
pub const SORTED: Topic<'static> = NoteKind::Order.of("requests sorted into time order");

/// The note on requests that came too late to be put in their place.
pub const TOO_LATE: Topic<'static> = NoteKind::Instant
    .of("requests too late to be sorted, moved to the instant before them: \
         `sort-whole` puts them in their places");

/// A bounded window in which requests are sorted; the helper that sources embed.
pub struct SortWindow {
    /// Batches held back: each in order, and in order among each other.
    held: VecDeque<Batch>,
    held_rows: usize,
    window_rows: usize,
    /// Empty batches whose memory is used again.
    spare: Vec<Batch>,
    /// Requests that are being merged.
    merging: Vec<Request>,
    /// The latest instant given.
    given: i64,
    disorder: Disorder,
    too_late: u64,
    first_too_late: Option<String>,
}

/// The disorder of requests in time, as they come.
pub(super) struct Disorder {
    /// The latest instant seen.
    latest: i64,
    /// The number of requests that came behind a later one.
    pub(super) late: u64,
    /// The first of these, as an example for the note.
    pub(super) first: Option<String>,
}

impl Default for Disorder {
    fn default() -> Self {
        Self { latest: i64::MIN, late: 0, first: None }
    }
}

impl Disorder {
    /// Checks the instants of the next requests; returns whether they are in order and not before
    /// earlier ones.
    pub(super) fn look(&mut self, issue_ns: &[i64]) -> bool {
        let Some((&first, &last)) = issue_ns.first().zip(issue_ns.last()) else { return true };
        if first >= self.latest && issue_ns.is_sorted() {
            self.latest = last;
            return true;
        }
        for &issue in issue_ns {
            if issue < self.latest {
                self.late += 1;
                self.first.get_or_insert_with(|| {
                    let by = Nanos(self.latest).saturating_sub(Nanos(issue));
                    format!("a request at {} came {by} late", seconds(issue))
                });
            }
            self.latest = self.latest.max(issue);
        }
        false
    }
}

impl Default for SortWindow {
    fn default() -> Self {
        Self::new(WINDOW_ROWS)
    }
}

impl SortWindow {
    /// A window of `window_rows` requests.
    pub fn new(window_rows: usize) -> Self {
        Self {
            held: VecDeque::new(),
            held_rows: 0,
            window_rows,
            spare: Vec::new(),
            merging: Vec::new(),
            given: i64::MIN,
            disorder: Disorder::default(),
            too_late: 0,
            first_too_late: None,
        }
    }

    /// Takes the requests of `batch`, which is left empty.
    pub fn feed(&mut self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let columns = batch.columns();
        self.held_rows += batch.len();
        if self.disorder.look(&batch.issue_ns) {
            // Batches of a few rows are joined, lest the window hold thousands of them.
            match self.held.back_mut() {
                Some(back) if back.len() + batch.len() <= BATCH_ROWS => {
                    back.append(batch, 0, batch.len());
                }
                _ => {
                    let spare = self.spare.pop().unwrap_or_else(|| Batch::new(columns));
                    self.held.push_back(std::mem::replace(batch, spare));
                }
            }
        } else if columns.dependencies {
            self.merge_linked(batch);
        } else {
            self.merge(batch);
        }
        batch.reset(columns);
    }

    /// Takes out of the held batches, the last one first, all requests later than the earliest of
    /// `batch`. Sorting `batch` in moves no other request.
    fn take_later(&mut self, batch: &Batch) -> Vec<Batch> {
        let earliest = batch.issue_ns.iter().copied().min().unwrap_or(i64::MAX).max(self.given);
        let mut tail = Vec::new();
        while let Some(back) = self.held.back()
            && back.issue_ns().last().is_some_and(|last| *last > earliest)
        {
            tail.extend(self.held.pop_back());
        }
        tail
    }

    /// Moves an instant that comes too late to be sorted.
    fn catch_up(&mut self, issue_ns: &mut i64) {
        if *issue_ns < self.given {
            self.too_late += 1;
            self.disorder.late -= 1;
            self.first_too_late.get_or_insert_with(|| {
                format!("{} became {}", seconds(*issue_ns), seconds(self.given))
            });
            *issue_ns = self.given;
        }
    }

    /// Sorts the requests of `batch`, with their dependencies, in among those held.
    #[cold]
    fn merge_linked(&mut self, batch: &Batch) {
        let columns = batch.columns();
        let mut all = Batch::new(columns);
        for part in self.take_later(batch).iter().rev() {
            all.append(part, 0, part.len());
        }
        let before = all.len();
        all.append(batch, 0, batch.len());
        for issue_ns in &mut all.issue_ns[before..] {
            self.catch_up(issue_ns);
        }
        let mut rows: Vec<usize> = (0..all.len()).collect();
        // Stable: requests of one instant keep the order they came in.
        rows.sort_by_key(|row| all.issue_ns[*row]);
        for chunk in rows.chunks(BATCH_ROWS) {
            let mut sorted = Batch::new(columns);
            for row in chunk {
                sorted.append(&all, *row, row + 1);
            }
            self.held.push_back(sorted);
        }
    }

    /// Sorts the requests of `batch` in among those held.
    #[cold]
    fn merge(&mut self, batch: &Batch) {
        let columns = batch.columns();
        self.merging.clear();
        let mut tail = self.take_later(batch);
        for part in tail.iter().rev() {
            self.merging.extend(part.iter());
        }
        self.spare.append(&mut tail);
        for mut request in batch.iter() {
            self.catch_up(&mut request.issue.0);
            self.merging.push(request);
        }
        // Stable: requests of one instant keep the order they came in.
        self.merging.sort_by_key(|request| request.issue);
        for chunk in self.merging.chunks(BATCH_ROWS) {
            let mut sorted = self.spare.pop().unwrap_or_else(|| Batch::new(columns));
            sorted.reset(columns);
            sorted.extend(chunk);
            self.held.push_back(sorted);
        }
    }

    /// Gives the next requests in order, if more than the window is held or `ended` says that
    /// nothing follows; answers whether there were any.
    pub fn give(&mut self, batch: &mut Batch, ended: bool) -> bool {
        let Some(front) = self.held.front_mut() else { return false };
        if !ended && self.held_rows - front.len() < self.window_rows {
            return false;
        }
        std::mem::swap(batch, front);
        self.spare.extend(self.held.pop_front());
        self.held_rows -= batch.len();
        self.given = batch.issue_ns().last().copied().unwrap_or(self.given);
        true
    }

    /// Notes, once, how many requests were sorted and how many were moved.
    pub fn note(&mut self, guesses: &mut Notes) {
        let sorted = std::mem::take(&mut self.disorder.late);
        guesses.add(SORTED, sorted, self.disorder.first.take());
        guesses.add(TOO_LATE, std::mem::take(&mut self.too_late), self.first_too_late.take());
    }
}

/// An instant, exact and short: `12.5 s`.
fn seconds(ns: i64) -> String {
    format!("{} s", decimal_seconds(Nanos(ns)))
}

/// A source whose requests come in the order of their issue, whatever the order beneath.
pub struct Sorted<S> {
    source: S,
    sorter: Sorter,
    header: Header,
    incoming: Batch,
    ended: bool,
}

impl<S: Source> Sorted<S> {
    /// Sorts `source` as far as `order` says.
    pub fn new(source: S, order: Order) -> Self {
        Self::with(source, Sorter::new(order))
    }

    /// Sorts `source` by means of `sorter`.
    fn with(source: S, sorter: Sorter) -> Self {
        let header = source.header().clone();
        let incoming = Batch::new(header.columns);
        Self { source, sorter, header, incoming, ended: false }
    }
}

impl<S: Source> Source for Sorted<S> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        while !self.ended {
            if self.sorter.give(batch, false)? {
                return Ok(true);
            }
            if self.source.next_batch(&mut self.incoming)? {
                self.sorter.feed(&mut self.incoming)?;
            } else {
                self.ended = true;
                self.header = self.source.header().clone();
                self.sorter.note(&mut self.header.guesses);
            }
        }
        self.sorter.give(batch, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::UNKNOWN;
    use crate::batch::tests::any_request;
    use crate::transform::tests::Given;
    use proptest::prelude::*;

    fn sorted(requests: &[Request], batch_rows: usize, window: usize) -> (Vec<Request>, Header) {
        let given = Given::new(requests, batch_rows);
        let mut source = Sorted::with(given, Sorter::Window(SortWindow::new(window)));
        let mut batch = Batch::default();
        let mut all = Vec::new();
        while source.next_batch(&mut batch).unwrap() {
            assert!(!batch.is_empty() && batch.len() <= 2 * BATCH_ROWS);
            all.extend(batch.iter());
        }
        assert!(batch.is_empty() || !source.next_batch(&mut batch).unwrap());
        (all, source.header().clone())
    }

    fn at(issues: &[i64]) -> Vec<Request> {
        issues
            .iter()
            .enumerate()
            .map(|(n, &issue)| {
                Request::new(
                    Nanos(issue),
                    crate::Op::Read,
                    crate::Bytes(512 * n as u64),
                    crate::Bytes(512),
                )
            })
            .collect()
    }

    proptest! {
        #[test]
        fn within_the_window_it_is_the_stable_sort(
            requests in proptest::collection::vec(any_request(), 0..300), batch_rows in 1_usize..50,
        ) {
            let (all, header) = sorted(&requests, batch_rows, 1000);
            let mut expected = requests.clone();
            expected.sort_by_key(|request| request.issue);
            prop_assert_eq!(all, expected);
            let mut latest = UNKNOWN;
            let late = requests.iter().filter(|request| {
                latest = latest.max(request.issue.0);
                request.issue.0 < latest
            }).count();
            prop_assert_eq!(header.guesses.count_of(SORTED), late as u64);
            prop_assert_eq!(header.guesses.count_of(TOO_LATE), 0);
        }

        #[test]
        fn with_any_window_nothing_is_lost_and_time_never_steps_back(
            issues in proptest::collection::vec(0_i64..1000, 0..300),
            batch_rows in 1_usize..50, window in 0_usize..100,
        ) {
            let (all, header) = sorted(&at(&issues), batch_rows, window);
            prop_assert!(all.is_sorted_by_key(|request| request.issue));
            let mut moved = 0;
            let mut offsets: Vec<_> = all.iter().map(|request| request.offset.0 / 512).collect();
            for request in &all {
                let was = issues[(request.offset.0 / 512) as usize];
                prop_assert!(request.issue.0 >= was);
                moved += u64::from(request.issue.0 != was);
            }
            prop_assert_eq!(header.guesses.count_of(TOO_LATE), moved);
            offsets.sort_unstable();
            prop_assert_eq!(offsets, (0..issues.len() as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sorted_input_passes_without_a_note() {
        let issues: Vec<_> = (0..200_000).collect();
        let (all, header) = sorted(&at(&issues), BATCH_ROWS, WINDOW_ROWS);
        assert_eq!(all.len(), issues.len());
        assert!(header.guesses.is_empty());
    }

    #[test]
    fn a_request_later_than_the_window_is_moved_and_told() {
        let mut issues: Vec<_> = (1..=100_000).collect();
        issues.push(0);
        let (all, header) = sorted(&at(&issues), BATCH_ROWS, WINDOW_ROWS);
        assert!(all.is_sorted_by_key(|request| request.issue));
        assert_eq!(header.guesses.count_of(TOO_LATE), 1);
        assert_eq!(header.guesses.count_of(SORTED), 0);
    }
}
