//! A run in blocks of time, from one pass over its requests.
//!
//! Latencies of neighbouring requests are alike: a burst, a flush, a garbage collection makes
//! thousands of them slow together. A hundred thousand slow requests of one bad second are one
//! observation; counting them singly would show differences between a system and itself. So a run
//! is kept in blocks of its schedule, each with its distributions, and blocks are resampled, never
//! single requests.
//!
//! Both runs of a pair are cut alike, so block 17 of one has the same requests as block 17 of the
//! other: the effect of the load then cancels out of their ratio.

use ioecho_trace::{Batch, Measured, Outcome, Request};

use super::load::{KnownBy, LoadMark};
use crate::facts::FlowFacts;
use crate::histogram::Latencies;
use crate::picture::{Kind, Span};

/// How exact the distributions of blocks are: bins are at most a 2^7th of their value wide, so that
/// there may be thousands of them, and percentiles are interpolated.
pub(super) const BITS: u32 = 7;

/// How wide a bin is at most, as a share of the values in it.
pub(super) const RESOLUTION: f64 = 1.0 / (1 << BITS) as f64;

/// A distribution of spans.
pub type Bins = Latencies<BITS>;

/// Blocks that a run is cut into if it is long enough.
pub const BLOCKS_MAX: usize = 128;

/// Requests that a block has on average at least: with fewer, a block is hardly a distribution.
const BLOCK_REQUESTS: u64 = 32;

/// How many of the classes of size there are.
pub(super) const SIZES: usize = 5;

/// The largest request of each class of size but the last, in bytes.
pub(super) const SIZE_LIMITS: [u64; SIZES - 1] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// What each class of size is called.
pub const SIZE_NAMES: [&str; SIZES] = ["≤ 4 KiB", "≤ 16 KiB", "≤ 64 KiB", "≤ 256 KiB", "> 256 KiB"];

/// How blocks are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The instant at which a request was due, up to this many nanoseconds: runs with a schedule.
    Time(i64),
    /// The number of the request, up to this many: runs as fast as possible, whose instants are
    /// their own.
    Requests(u64),
    /// The same, of runs each of which has requests of its own: up to its own number of them.
    Own(u64),
}

/// How a run is cut into blocks. All runs of a comparison are cut alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// By what.
    pub cut: Cut,
    /// Into how many blocks.
    pub blocks: usize,
}

impl Blocking {
    /// As many blocks as so many requests are good for.
    pub fn new(cut: Cut, requests: u64) -> Self {
        let most = usize::try_from(requests / BLOCK_REQUESTS).unwrap_or(BLOCKS_MAX);
        Self { cut, blocks: most.clamp(1, BLOCKS_MAX) }
    }

    /// The block of a request by the instant at which it is due and its number in the run.
    fn block(&self, scheduled_ns: i64, number: u64) -> usize {
        let (at, extent) = match self.cut {
            Cut::Time(extent) => (scheduled_ns.max(0) as u64, extent.max(1) as u64),
            Cut::Requests(extent) | Cut::Own(extent) => (number, extent.max(1)),
        };
        let block = u128::from(at) * self.blocks as u128 / u128::from(extent);
        (block as usize).min(self.blocks - 1)
    }

    /// When a block ends by the schedule, in nanoseconds; zero where there is none.
    pub(super) fn scheduled_end(&self, block: usize) -> i64 {
        match self.cut {
            Cut::Time(extent) => {
                let end = i128::from(extent) * (block as i128 + 1) / self.blocks.max(1) as i128;
                i64::try_from(end).unwrap_or(i64::MAX)
            }
            Cut::Requests(_) | Cut::Own(_) => 0,
        }
    }
}

/// Results of one kind of request and class of size in a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// In the order of [`Span::ALL`].
    pub(super) spans: [Bins; Span::ALL.len()],
    /// Requests that completed in full.
    pub(super) completed: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl Cell {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.spans.iter_mut().zip(&other.spans) {
            mine.merge(theirs);
        }
        self.completed += other.completed;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) cells: [[Option<Box<Cell>>; SIZES]; Kind::COUNT],
    /// The first submission of a request of this block.
    begin_ns: Option<i64>,
    /// The last completion of a request of this block.
    end_ns: i64,
}

/// A run, or a part of one, in blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct RunProfile {
    blocking: Blocking,
    pub(super) blocks: Vec<Block>,
    load: LoadMark,
    /// Requests that were seen, whatever they are known by.
    seen: u64,
    /// By what requests of each flow are known, by its number; others by themselves.
    known_by: Vec<KnownBy>,
    /// When the last request of this run was due: runs of another load, cut alike, may be shorter.
    due_ns: i64,
    failed: u64,
    not_issued: u64,
    drain_percent: Option<f64>,
}

impl RunProfile {
    /// A run of which nothing was seen yet.
    pub fn new(blocking: Blocking) -> Self {
        let blocks = vec![Block::default(); blocking.blocks];
        let load = LoadMark::default();
        let (due_ns, failed, not_issued, drain_percent) = (0, 0, 0, None);
        let (seen, known_by) = (0, Vec::new());
        Self { blocking, blocks, load, seen, known_by, due_ns, failed, not_issued, drain_percent }
    }

    /// The same with what the run's summary says of its drain, which no block shows.
    #[must_use]
    pub fn with_drain(self, drain_percent: Option<f64>) -> Self {
        Self { drain_percent, ..self }
    }

    /// The same of a run with these flows.
    #[must_use]
    pub fn with_flows(self, flows: &[FlowFacts]) -> Self {
        let last = flows.iter().map(|flow| flow.flow).max().map_or(0, |last| usize::from(last) + 1);
        let mut known_by = vec![KnownBy::Requests; last];
        for flow in flows {
            known_by[usize::from(flow.flow)] = KnownBy::of(flow);
        }
        Self { known_by, ..self }
    }

    /// Adds the requests of a batch. A request that carries nothing measured counts for the load
    /// alone.
    pub fn observe(&mut self, batch: &Batch) {
        for request in batch.iter() {
            let number = self.seen;
            self.seen += 1;
            let flow = request.measured.map_or(0, |measured| usize::from(measured.flow));
            let by = self.known_by.get(flow).copied().unwrap_or(KnownBy::Requests);
            self.load.observe(&request, by);
            if let Some(measured) = &request.measured {
                self.add(&request, measured, number);
            }
        }
    }

    fn add(&mut self, request: &Request, measured: &Measured, number: u64) {
        self.due_ns = self.due_ns.max(measured.scheduled.0);
        if measured.outcome != Outcome::Ok {
            let counter =
                if measured.outcome.was_issued() { &mut self.failed } else { &mut self.not_issued };
            *counter += 1;
            return;
        }
        let (Some(service), Some(response), Some(lateness), Some(completed)) = (
            measured.service_time(),
            measured.response_time(),
            measured.lateness(),
            measured.completed,
        ) else {
            return;
        };
        let block = &mut self.blocks[self.blocking.block(measured.scheduled.0, number)];
        block.end_ns = block.end_ns.max(completed.0);
        let submitted = measured.submitted.map(|submitted| submitted.0);
        block.begin_ns = block.begin_ns.into_iter().chain(submitted).min();
        let cell = &mut block.cells[Kind::of(request.op).index()][size_class(request.length.0)];
        let cell = cell.get_or_insert_default();
        cell.spans[Span::Service as usize].record(service);
        cell.spans[Span::Response as usize].record(response);
        cell.spans[Span::Lateness as usize].record(lateness);
        cell.completed += 1;
        cell.bytes = cell.bytes.saturating_add(request.length.0);
    }

    /// Adds another part of the same run, in any order; both are cut alike.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.blocking, other.blocking);
        for (mine, theirs) in self.blocks.iter_mut().zip(&other.blocks) {
            mine.end_ns = mine.end_ns.max(theirs.end_ns);
            mine.begin_ns = mine.begin_ns.into_iter().chain(theirs.begin_ns).min();
            let cells = mine.cells.iter_mut().flatten().zip(theirs.cells.iter().flatten());
            for (mine, theirs) in cells {
                if let Some(theirs) = theirs {
                    mine.get_or_insert_default().merge(theirs);
                }
            }
        }
        self.load.merge(&other.load);
        self.seen += other.seen;
        self.due_ns = self.due_ns.max(other.due_ns);
        self.failed += other.failed;
        self.not_issued += other.not_issued;
        self.drain_percent = self.drain_percent.or(other.drain_percent);
    }

    /// The run's drain, in percent of the demanded duration, if it is known.
    pub fn drain_percent(&self) -> Option<f64> {
        self.drain_percent
    }

    /// How the run is cut.
    pub fn blocking(&self) -> Blocking {
        self.blocking
    }

    /// Which load it replayed.
    pub fn load(&self) -> LoadMark {
        self.load
    }

    /// Requests that were issued and did not complete in full: they are in no distribution.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Requests that were never issued.
    pub fn not_issued(&self) -> u64 {
        self.not_issued
    }

    /// Whether there were completed requests of a kind.
    pub fn has(&self, kind: Kind) -> bool {
        self.blocks.iter().any(|block| block.cells[kind.index()].iter().any(Option::is_some))
    }

    /// The span of all requests of a kind (`None`: of every kind) and class of size (`None`: of
    /// any) in some of the blocks.
    pub(super) fn spans(
        &self,
        span: Span,
        kind: Option<Kind>,
        size: Option<usize>,
        blocks: std::ops::Range<usize>,
    ) -> Bins {
        let mut all = Bins::default();
        for block in &self.blocks[blocks] {
            for cell in block.of(kind, size) {
                all.merge(&cell.spans[span as usize]);
            }
        }
        all
    }

    /// How long each block lasted, in nanoseconds, from where the one before ended. They add up to
    /// the length of the run: blocks behind its last request take no time, whatever other runs do
    /// meanwhile.
    ///
    /// With a schedule a block ends with it or with the last completion of its requests, whichever
    /// is later. Without one it ends when the next one begins: a request was issued because another
    /// had completed, so these instants tell how many had completed. The last completion is that of
    /// the slowest request in flight, which shortens the next block by as much as it prolongs this
    /// one; blocks that are drawn without their neighbours would take that for variation of the
    /// device.
    pub(super) fn durations(&self) -> Vec<i64> {
        let due = self.due_ns.saturating_add(1);
        let last = self.blocks.iter().rposition(|block| block.begin_ns.is_some());
        let mut end = 0_i64;
        let durations = self.blocks.iter().enumerate().map(|(number, block)| {
            let began = end;
            let following = || self.blocks[number + 1..].iter().find_map(|next| next.begin_ns);
            end = end.max(match self.blocking.cut {
                Cut::Time(_) => block.end_ns.max(self.blocking.scheduled_end(number).min(due)),
                Cut::Requests(_) | Cut::Own(_) if block.begin_ns.is_none() => end,
                Cut::Requests(_) | Cut::Own(_) if Some(number) == last => self.end_ns(),
                Cut::Requests(_) | Cut::Own(_) => following().unwrap_or(end),
            });
            end - began
        });
        durations.collect()
    }

    /// The last completion of all.
    fn end_ns(&self) -> i64 {
        self.blocks.iter().map(|block| block.end_ns).max().unwrap_or(0)
    }
}

impl Block {
    pub(super) fn of(
        &self,
        kind: Option<Kind>,
        size: Option<usize>,
    ) -> impl Iterator<Item = &Cell> + '_ {
        let kinds = self.cells.iter().enumerate();
        let kinds =
            kinds.filter(move |(number, _)| kind.is_none_or(|kind| kind.index() == *number));
        kinds.flat_map(move |(_, sizes)| {
            let sizes = sizes.iter().enumerate();
            sizes
                .filter(move |(number, _)| size.is_none_or(|size| size == *number))
                .filter_map(|(_, cell)| cell.as_deref())
        })
    }
}

/// The class of size of a request.
pub(super) fn size_class(bytes: u64) -> usize {
    SIZE_LIMITS.iter().position(|limit| bytes <= *limit).unwrap_or(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{measured, run};
    use ioecho_trace::Columns;

    #[test]
    fn a_request_lies_in_the_block_of_its_schedule_and_the_last_block_takes_the_rest() {
        let blocking = Blocking { cut: Cut::Time(1_000), blocks: 10 };
        let at = |ns| blocking.block(ns, 0);
        assert_eq!((at(-5), at(0), at(99), at(100), at(1_000)), (0, 0, 0, 1, 9));
        assert_eq!(at(i64::MAX), 9);
        let counted = Blocking { cut: Cut::Requests(0), blocks: 1 };
        assert_eq!(counted.block(0, u64::MAX), 0);
    }

    #[test]
    fn parts_of_a_run_merge_to_the_whole() {
        let requests = run(3, 2_000, 80_000.0);
        let blocking = Blocking::new(Cut::Time(2_000_000_000), 2_000);
        let fold = |part: &[Request]| {
            let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
            batch.extend(part);
            let mut profile = RunProfile::new(blocking);
            profile.observe(&batch);
            profile
        };
        let mut merged = fold(&requests[..700]);
        merged.merge(&fold(&requests[700..]));
        assert_eq!(merged, fold(&requests));
    }

    #[test]
    fn durations_add_up_to_the_length_of_the_run_also_where_the_device_falls_behind() {
        let late = measured(900, 900, 5_000);
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        batch.push(&measured(0, 0, 10));
        batch.push(&late);
        let mut profile = RunProfile::new(Blocking { cut: Cut::Time(1_000), blocks: 4 });
        profile.observe(&batch);
        assert_eq!(profile.durations(), [250, 250, 250, 4_250]);
    }

    #[test]
    fn a_run_shorter_than_those_it_is_compared_with_has_a_length_of_its_own() {
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        batch.push(&measured(0, 0, 10));
        batch.push(&measured(399, 399, 399));
        let mut profile = RunProfile::new(Blocking { cut: Cut::Time(1_000), blocks: 4 });
        profile.observe(&batch);
        assert_eq!(profile.durations(), [250, 150, 0, 0]);
    }

    #[test]
    fn without_a_schedule_a_block_lasts_until_the_next_one_begins_and_all_as_long_as_the_run() {
        let mut profile = RunProfile::new(Blocking { cut: Cut::Requests(4), blocks: 4 });
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        // The first is the slowest, and the third block has no request that succeeded.
        for (submitted, completed) in [(0, 900), (10, 30), (30, 50), (50, 80)] {
            batch.push(&measured(submitted, submitted, completed));
        }
        profile.observe(&batch);
        assert_eq!(profile.durations(), [10, 20, 20, 850]);
        profile.blocks[2] = Block::default();
        assert_eq!(profile.durations(), [10, 40, 0, 850]);
    }

    #[test]
    fn failed_requests_are_counted_and_in_no_distribution() {
        let mut request = measured(0, 0, 10);
        if let Some(measured) = &mut request.measured {
            measured.outcome = Outcome::Error(5);
        }
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        batch.push(&request);
        let mut profile = RunProfile::new(Blocking::new(Cut::Requests(1), 1));
        profile.observe(&batch);
        assert_eq!((profile.failed(), profile.load().requests), (1, 1));
        assert!(Kind::ALL.iter().all(|kind| !profile.has(*kind)));
    }
}
