//! Sequential runs among requests that take turns.
//!
//! If a backup reads a disk from beginning to end, next to ten others, hardly two neighbouring
//! requests are sequential, and yet the whole load is. So the ends of the last [`OPEN_FOR`]
//! requests are remembered, and a request that begins at one of them continues its run. If two
//! ended there, the later one is continued.
//!
//! A run that begins near the start of a part may continue one of the part before. Candidates are
//! the runs whose first place no earlier request of the part had reached. They are kept apart until
//! parts are joined.

use ioecho_trace::Request;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::tally::add;
use crate::analysis::steps::Steps;

/// For how many reads and writes of its volume a run stays open.
pub const OPEN_FOR: u64 = 256;

/// From so many requests on a run is a stream.
pub const STREAM_REQUESTS: u64 = 8;

/// A run of requests, each of which begins where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    first_at: i64,
    last_at: i64,
    requests: u64,
    bytes: u64,
    /// Which read or write of its volume the last one was.
    number: u64,
    /// If it may continue a run of the part before: which of those.
    head: Option<u32>,
}

/// A run that may continue one of the part before: its first place and number, and its result, if
/// it is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    begin: u64,
    number: u64,
    over: Option<Run>,
}

/// The runs of a volume and operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Rows", into = "Rows")]
pub(super) struct Runs {
    /// Open runs by where they end.
    open: FxHashMap<u64, Run>,
    heads: Vec<Head>,
    /// Places where a run was looked for or left among the first requests, and when first.
    touched: FxHashMap<u64, u64>,
    swept: u64,
}

/// [`Runs`] as they are written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rows {
    open: Vec<(u64, Run)>,
    heads: Vec<Head>,
    touched: Vec<(u64, u64)>,
    swept: u64,
}

impl From<Rows> for Runs {
    fn from(rows: Rows) -> Self {
        let (open, touched) = (rows.open.into_iter(), rows.touched.into_iter());
        let mut runs = Self {
            open: open.collect(),
            heads: rows.heads,
            touched: touched.collect(),
            swept: rows.swept,
        };
        // What was written down may be damaged.
        let heads = runs.heads.len();
        for run in runs.open.values_mut() {
            run.head = run.head.filter(|head| (*head as usize) < heads);
        }
        runs
    }
}

impl From<Runs> for Rows {
    fn from(runs: Runs) -> Self {
        let mut open: Vec<_> = runs.open.into_iter().collect();
        open.sort_unstable_by_key(|(end, _)| *end);
        let mut touched: Vec<_> = runs.touched.into_iter().collect();
        touched.sort_unstable();
        Self { open, heads: runs.heads, touched, swept: runs.swept }
    }
}

/// Counts of finished runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) runs: u64,
    pub(super) requests: u64,
    pub(super) longest_bytes: u64,
    /// Runs by powers of two of their requests.
    pub(super) lengths: Vec<u64>,
    /// Requests of runs by how many of the volume lie from the one before to them.
    pub(super) gaps: Vec<u64>,
    pub(super) streams: u64,
    pub(super) stream_requests: u64,
    /// How long all streams together lasted.
    pub(super) stream_ns: u128,
    /// Streams begun and over in each second.
    steps: Steps<[u64; 2]>,
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            runs: 0,
            requests: 0,
            longest_bytes: 0,
            lengths: Vec::new(),
            gaps: Vec::new(),
            streams: 0,
            stream_requests: 0,
            stream_ns: 0,
            steps: Steps::new(1_000_000_000),
        }
    }
}

fn count(bins: &mut Vec<u64>, value: u64) {
    let bin = value.max(1).ilog2() as usize;
    if bin >= bins.len() {
        bins.resize(bin + 1, 0);
    }
    bins[bin] += 1;
}

impl Ended {
    pub(super) fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.requests += run.requests;
        self.longest_bytes = self.longest_bytes.max(run.bytes);
        count(&mut self.lengths, run.requests);
        if run.requests >= STREAM_REQUESTS {
            self.streams += 1;
            self.stream_requests += run.requests;
            self.stream_ns += u128::from(run.last_at.abs_diff(run.first_at));
            self.steps.at(run.first_at.min(run.last_at))[0] += 1;
            self.steps.at(run.last_at.max(run.first_at))[1] += 1;
        }
    }

    pub(super) fn merge(&mut self, later: &Self) {
        self.runs = self.runs.saturating_add(later.runs);
        self.requests = self.requests.saturating_add(later.requests);
        self.longest_bytes = self.longest_bytes.max(later.longest_bytes);
        add(&mut self.lengths, &later.lengths);
        add(&mut self.gaps, &later.gaps);
        self.streams = self.streams.saturating_add(later.streams);
        self.stream_requests = self.stream_requests.saturating_add(later.stream_requests);
        self.stream_ns = self.stream_ns.saturating_add(later.stream_ns);
        self.steps.merge(&later.steps);
    }

    pub(super) fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.merge(other);
        both
    }

    pub(super) fn steps(&self) -> &Steps<[u64; 2]> {
        &self.steps
    }
}

impl Runs {
    /// Adds a request, the `number`-th read or write of its volume.
    #[inline]
    pub(super) fn observe(&mut self, ended: &mut Ended, number: u64, at: i64, request: &Request) {
        let (begin, end) = (request.offset.0, request.end().0);
        if end <= begin {
            return;
        }
        if number >= self.swept.saturating_add(OPEN_FOR) {
            self.sweep(ended, number);
        }
        let bytes = end - begin;
        let is_early = number < OPEN_FOR;
        let mut run = Run { first_at: at, last_at: at, requests: 1, bytes, number, head: None };
        match self.open.remove(&begin) {
            Some(before) if number.saturating_sub(before.number) <= OPEN_FOR => {
                count(&mut ended.gaps, number.saturating_sub(before.number));
                run = before.continued(&run);
            }
            before => {
                if let Some(before) = before {
                    self.close(ended, before);
                }
                if is_early && !self.touched.contains_key(&begin) {
                    run.head = Some(self.heads.len() as u32);
                    self.heads.push(Head { begin, number, over: None });
                }
            }
        }
        if let Some(displaced) = self.open.insert(end, run) {
            self.close(ended, displaced);
        }
        if is_early {
            self.touched.entry(begin).or_insert(number);
            self.touched.entry(end).or_insert(number);
        }
    }

    fn close(&mut self, ended: &mut Ended, run: Run) {
        match run.head {
            Some(head) => self.heads[head as usize].over = Some(run),
            None => ended.add(&run),
        }
    }

    /// Closes runs that can no longer be continued.
    #[cold]
    fn sweep(&mut self, ended: &mut Ended, number: u64) {
        self.swept = number;
        let heads = &mut self.heads;
        self.open.retain(|_, run| {
            let stays = number.saturating_sub(run.number) <= OPEN_FOR;
            match run.head {
                _ if stays => {}
                Some(head) => heads[head as usize].over = Some(*run),
                None => ended.add(run),
            }
            stays
        });
    }

    /// Adds the runs of a later part, of which `before` reads and writes of the volume lie before.
    pub(super) fn join(&mut self, ended: &mut Ended, before: u64, later: &Self) {
        // For each head of the later part: the run that it continues, and its head.
        let mut joined: Vec<(Option<Run>, Option<u32>)> = Vec::with_capacity(later.heads.len());
        for head in &later.heads {
            let number = before + head.number;
            let continued = match self.open.remove(&head.begin) {
                Some(run) if number.saturating_sub(run.number) <= OPEN_FOR => {
                    count(&mut ended.gaps, number.saturating_sub(run.number));
                    Some(run)
                }
                Some(run) => {
                    self.close(ended, run);
                    None
                }
                None => None,
            };
            let mut now = continued.and_then(|run| run.head);
            if continued.is_none() && number < OPEN_FOR && !self.touched.contains_key(&head.begin) {
                now = Some(self.heads.len() as u32);
                self.heads.push(Head { begin: head.begin, number, over: None });
            }
            joined.push((continued, now));
        }
        let left = later.touched.keys().chain(later.open.keys());
        for place in left {
            if let Some(displaced) = self.open.remove(place) {
                self.close(ended, displaced);
            }
        }
        let whole = |run: &Run| {
            let mut run = Run { number: run.number + before, ..*run };
            if let Some((continued, head)) = run.head.and_then(|head| joined.get(head as usize)) {
                run.head = *head;
                if let Some(continued) = continued {
                    run = Run { head: *head, ..continued.continued(&run) };
                }
            }
            run
        };
        for run in later.heads.iter().filter_map(|head| head.over.as_ref()) {
            self.close(ended, whole(run));
        }
        self.open.extend(later.open.iter().map(|(end, run)| (*end, whole(run))));
        for (place, number) in &later.touched {
            if before + number < OPEN_FOR {
                self.touched.entry(*place).or_insert(before + number);
            }
        }
        self.swept = before + later.swept;
    }

    /// The runs that are not among those that are over.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Run> {
        self.open.values().chain(self.heads.iter().filter_map(|head| head.over.as_ref()))
    }
}

impl Run {
    /// This run and another one that begins where it ends.
    fn continued(&self, next: &Self) -> Self {
        Self {
            first_at: self.first_at,
            last_at: next.last_at,
            requests: self.requests + next.requests,
            bytes: self.bytes.saturating_add(next.bytes),
            number: next.number,
            head: self.head,
        }
    }
}
