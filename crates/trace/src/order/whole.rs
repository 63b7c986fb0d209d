//! A whole trace in the order of time, in little memory.
//!
//! A window of requests ([`super::sort`]) puts requests right that came a little late. It does not
//! help if a file has a month of one device after the same month of another. Almost all of the
//! second month would be moved to the last instant of the first. So the trace is cut into runs of a
//! million requests. Each run is sorted in memory and written to a temporary file, and then the
//! runs are merged. A trace that fits into one run needs no file.
//!
//! Source: external merge sort, Knuth, The Art of Computer Programming 3, section 5.4.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;
use std::ops::Range;
use std::path::PathBuf;

use super::sort::{Disorder, SORTED};
use super::spill::{CHUNK_ROWS, Spill};
use crate::batch::{BATCH_ROWS, Batch};
use crate::error::TraceError;
use crate::header::Notes;

/// The number of requests that are sorted in memory, some 50 MiB: whole chunks of the temporary
/// file.
const RUN_ROWS: usize = 128 * CHUNK_ROWS as usize;

/// The largest number of runs that are merged at a time; each holds a chunk in memory.
const MERGED_MAX: usize = 128;

/// Sorts any number of requests by the instant of issue. Requests of one instant keep the order
/// that they came in.
pub struct WholeSort {
    directory: PathBuf,
    run_rows: usize,
    merged_max: usize,
    /// The requests of the run that is not full yet, as they came.
    run: Batch,
    held: Option<Held>,
    disorder: Disorder,
    giving: Option<Giving>,
}

/// The place from which sorted requests are given.
enum Giving {
    /// The run in memory, by its instants and rows, from the one with this number on.
    Memory(Vec<(i64, u32)>, usize),
    File(Merge),
}

/// Sorted runs in a temporary file.
struct Held {
    spill: Spill,
    /// The rows of each run; the runs lie one behind the other.
    runs: Vec<Range<u64>>,
    /// The last instant of the last run.
    last: i64,
}

impl WholeSort {
    /// Sorts, if need be through a file in `directory`.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            run_rows: RUN_ROWS,
            merged_max: MERGED_MAX,
            run: Batch::default(),
            held: None,
            disorder: Disorder::default(),
            giving: None,
        }
    }

    /// Takes the requests of `batch`, which is left empty.
    pub fn feed(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let columns = batch.columns();
        self.disorder.look(batch.issue_ns());
        if self.run.is_empty() {
            self.run.reset(columns);
        }
        let mut from = 0;
        while from < batch.len() {
            let to = batch.len().min(from + self.run_rows - self.run.len());
            self.run.append(batch, from, to);
            from = to;
            if self.run.len() == self.run_rows {
                self.end_run()?;
            }
        }
        batch.reset(columns);
        Ok(())
    }

    /// Lays the run down in the file.
    fn end_run(&mut self) -> Result<(), TraceError> {
        let columns = self.run.columns();
        let held = match &mut self.held {
            Some(held) => held,
            held => {
                let spill = Spill::new(&self.directory, columns)?;
                held.insert(Held { spill, runs: Vec::new(), last: i64::MIN })
            }
        };
        let from = held.spill.rows();
        let (first, last) = if self.run.is_ordered() {
            held.spill.push(&self.run)?;
            (self.run.issue_ns.first().copied(), self.run.issue_ns.last().copied())
        } else {
            let order = sorted_rows(&self.run);
            let mut sorted = Batch::new(columns);
            for rows in order.chunks(BATCH_ROWS) {
                take_rows(&self.run, rows, &mut sorted);
                held.spill.push(&sorted)?;
            }
            (order.first().map(|row| row.0), order.last().map(|row| row.0))
        };
        let to = held.spill.rows();
        match held.runs.last_mut() {
            // A run that is already in order is extended, to any length.
            Some(before) if first.is_some_and(|first| first >= held.last) => before.end = to,
            _ => held.runs.push(from..to),
        }
        held.last = last.unwrap_or(held.last);
        self.run.reset(columns);
        Ok(())
    }

    /// Gives the next requests in order once `ended` says that nothing follows; answers whether
    /// there were any.
    pub fn give(&mut self, batch: &mut Batch, ended: bool) -> Result<bool, TraceError> {
        if !ended {
            return Ok(false);
        }
        if self.giving.is_none() {
            self.giving = Some(self.begin_giving()?);
        }
        let Some(giving) = &mut self.giving else { return Ok(false) };
        match giving {
            Giving::Memory(order, next) => {
                batch.reset(self.run.columns());
                let to = order.len().min(*next + BATCH_ROWS);
                take_rows(&self.run, &order[*next..to], batch);
                *next = to;
                Ok(!batch.is_empty())
            }
            Giving::File(merge) => merge.give(batch),
        }
    }

    fn begin_giving(&mut self) -> Result<Giving, TraceError> {
        if self.held.is_none() {
            return Ok(Giving::Memory(sorted_rows(&self.run), 0));
        }
        if !self.run.is_empty() {
            self.end_run()?;
        }
        self.run = Batch::default();
        let Some(held) = self.held.take() else { return Ok(Giving::Memory(Vec::new(), 0)) };
        let Held { mut spill, mut runs, .. } = held;
        while runs.len() > self.merged_max {
            let mut longer = Spill::new(&self.directory, spill.columns())?;
            let mut fewer = Vec::new();
            let mut batch = Batch::default();
            let spilled = Shared::new(spill);
            for group in runs.chunks(self.merged_max) {
                let from = longer.rows();
                let mut merge = Merge::of(Shared::clone(&spilled), group)?;
                while merge.give(&mut batch)? {
                    longer.push(&batch)?;
                }
                fewer.push(from..longer.rows());
            }
            (spill, runs) = (longer, fewer);
        }
        Ok(Giving::File(Merge::of(Shared::new(spill), &runs)?))
    }

    /// Writes down, once, how many requests were moved.
    pub fn note(&mut self, guesses: &mut Notes) {
        let disorder = mem::take(&mut self.disorder);
        guesses.add(SORTED, disorder.late, disorder.first);
    }
}

type Shared = std::sync::Arc<Spill>;

/// The rows of `run` in the order of their instants.
fn sorted_rows(run: &Batch) -> Vec<(i64, u32)> {
    let mut order: Vec<_> = run.issue_ns.iter().copied().zip(0..).collect();
    // The number of the row decides between requests of one instant.
    order.sort_unstable();
    order
}

/// Empties `into` and fills it with these rows of `run`.
fn take_rows(run: &Batch, rows: &[(i64, u32)], into: &mut Batch) {
    into.reset(run.columns());
    for (_, row) in rows {
        into.push(&run.get(*row as usize));
    }
}

/// Sorted runs as one.
struct Merge {
    spill: Shared,
    runs: Vec<Run>,
    /// The instant of the next request of each run that has one, and the run's number, by which
    /// requests of one instant keep their order.
    next: BinaryHeap<Reverse<(i64, usize)>>,
}

/// A run that is being read.
struct Run {
    /// The rows that were not read yet.
    rows: Range<u64>,
    batch: Batch,
    row: usize,
}

impl Merge {
    fn of(spill: Shared, runs: &[Range<u64>]) -> Result<Self, TraceError> {
        let run = |rows: &Range<u64>| Run { rows: rows.clone(), batch: Batch::default(), row: 0 };
        let runs = runs.iter().map(run).collect::<Vec<_>>();
        let mut merge = Self { spill, runs, next: BinaryHeap::new() };
        for number in 0..merge.runs.len() {
            merge.line_up(number)?;
        }
        Ok(merge)
    }

    /// Puts run number `number` in the line, if there is something left of it.
    fn line_up(&mut self, number: usize) -> Result<(), TraceError> {
        let run = &mut self.runs[number];
        if run.row == run.batch.len() {
            let Range { start, end } = run.rows;
            run.rows.start += self.spill.read(start, end, &mut run.batch)?;
            run.row = 0;
        }
        if let Some(issue) = run.batch.issue_ns.get(run.row) {
            self.next.push(Reverse((*issue, number)));
        }
        Ok(())
    }

    /// Empties `batch` and fills it with the next requests; answers whether there were any.
    fn give(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.spill.columns());
        while batch.len() < BATCH_ROWS
            && let Some(Reverse((_, number))) = self.next.pop()
        {
            let run = &mut self.runs[number];
            let room = BATCH_ROWS - batch.len();
            // Every request of this run before the next request of any other run.
            let other = self.next.peek().map_or((i64::MAX, usize::MAX), |next| next.0);
            let ahead = run.batch.issue_ns[run.row..].iter().take(room);
            let rows = ahead.take_while(|issue| (**issue, number) < other).count();
            batch.append(&run.batch, run.row, run.row + rows);
            run.row += rows;
            self.line_up(number)?;
        }
        Ok(!batch.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::any_request;
    use crate::request::Request;
    use proptest::prelude::*;

    /// The sorted requests, the notes, and whether a temporary file was used.
    fn sorted(
        requests: &[Request],
        batch_rows: usize,
        run_rows: usize,
        merged_max: usize,
    ) -> (Vec<Request>, Notes, bool) {
        let directory = tempfile::tempdir().unwrap();
        let whole = WholeSort::new(directory.path().to_owned());
        let mut whole = WholeSort { run_rows, merged_max, ..whole };
        let columns =
            crate::Columns { latency: true, origin: true, measured: true, dependencies: false };
        let mut batch = Batch::new(columns);
        for part in requests.chunks(batch_rows) {
            batch.extend(part);
            whole.feed(&mut batch).unwrap();
            assert!(batch.is_empty() && !whole.give(&mut batch, false).unwrap());
        }
        let mut all = Vec::new();
        while whole.give(&mut batch, true).unwrap() {
            assert!(batch.len() <= BATCH_ROWS);
            all.extend(batch.iter());
        }
        assert!(!whole.give(&mut batch, true).unwrap());
        let mut notes = Notes::default();
        whole.note(&mut notes);
        (all, notes, matches!(whole.giving, Some(Giving::File(_))))
    }

    fn at(issues: impl Iterator<Item = i64>) -> Vec<Request> {
        issues
            .zip(0..)
            .map(|(issue, n)| {
                let (offset, length) = (crate::Bytes(512 * n), crate::Bytes(512));
                Request::new(crate::Nanos(issue), crate::Op::Read, offset, length)
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_the_stable_sort_however_many_runs_there_are(
            requests in proptest::collection::vec(any_request(), 0..400),
            batch_rows in 1_usize..90, run_rows in 1_usize..500, merged_max in 2_usize..9,
        ) {
            let (all, notes, _) = sorted(&requests, batch_rows, run_rows, merged_max);
            let mut expected = requests.clone();
            expected.sort_by_key(|request| request.issue);
            prop_assert_eq!(all.len(), expected.len());
            for (one, other) in all.iter().zip(&expected) {
                prop_assert_eq!(
                    (one.issue, one.offset, one.op, one.volume, one.latency),
                    (other.issue, other.offset, other.op, other.volume, other.latency)
                );
            }
            let mut latest = i64::MIN;
            let late = requests.iter().filter(|request| {
                latest = latest.max(request.issue.0);
                request.issue.0 < latest
            }).count();
            prop_assert_eq!(notes.count_of(SORTED), late as u64);
        }
    }

    #[test]
    fn what_overlaps_from_end_to_end_is_merged_and_what_is_short_needs_no_file() {
        let issues = (0..3).flat_map(|_| 0..100_000_i64);
        let requests = at(issues);
        for (run_rows, has_file) in [(8 * BATCH_ROWS, true), (1 << 20, false)] {
            let (all, notes, is_file) = sorted(&requests, BATCH_ROWS, run_rows, 2);
            assert_eq!(is_file, has_file);
            assert!(all.iter().zip(0..).all(|(request, n)| request.issue.0 == n / 3));
            // The requests of the first member come first.
            assert!(all.chunks(3).all(|three| three.is_sorted_by_key(|request| request.offset)));
            assert_eq!(notes.count_of(SORTED), 199_998);
        }
    }

    #[test]
    fn what_is_in_order_is_one_run_and_passes_without_a_note() {
        let requests = at(0..100_000);
        let (all, notes, _) = sorted(&requests, BATCH_ROWS, BATCH_ROWS, 2);
        assert_eq!(all.len(), 100_000);
        assert!(notes.is_empty() && all.is_sorted_by_key(|request| request.offset));
    }
}
