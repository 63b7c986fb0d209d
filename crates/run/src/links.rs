//! Who waits for whom, in the numbers of the replay.
//!
//! A trace names the parents of a request by numbers of its own, and a replay counts the requests
//! that it plans. So the last requests are remembered by the numbers of the trace. A parent must
//! stand among them: one that comes later, or never, would make a request wait for ever.
//!
//! Where the trace names none, they are inferred among the requests that are planned, so that the
//! time of those that are left out becomes think time.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use ioecho_replay::graph::WINDOW_ROWS;
use ioecho_replay::graph::infer::{Inference, Rules};
use ioecho_replay::graph::survey::Surveyed;
use ioecho_replay::plan::{Planned, Planner};
use ioecho_trace::header::NoteKind;
use ioecho_trace::transform::Load;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Dependency, Header, Nanos, Request, Source, TraceError};
use rustc_hash::FxHashMap;

use crate::chains::{
    Chains, are_estimated, gaps_of, note_estimated, refuse_without_completions, survey,
};
use crate::error::{self, Kind, RunError};
use crate::open;

/// How far before a request its parents may stand: four times as far as `depend` looks by itself.
const AMONG: usize = 1 << 18;

/// The parents of requests.
pub(crate) struct Links {
    origin: Origin,
    /// Think times are divided by this.
    server_speed: f64,
    /// Requests that wait for others.
    waiting: u64,
}

/// Where they come from.
enum Origin {
    Named(Box<Named>),
    Inferred {
        inference: Box<Inference>,
        gaps: Peekable<std::vec::IntoIter<Nanos>>,
        is_estimated: bool,
    },
}

impl Links {
    pub(crate) fn new(chains: &Chains, trace: &Path, server_speed: f64) -> Self {
        let origin = match chains {
            Chains::Named { .. } => Origin::Named(Box::new(Named::new(trace))),
            Chains::Inferred { rules, gaps, is_estimated } => Origin::Inferred {
                inference: Box::new(Inference::new(rules.clone())),
                gaps: gaps.clone().into_iter().peekable(),
                is_estimated: *is_estimated,
            },
        };
        Self { origin, server_speed, waiting: 0 }
    }

    /// Plans the requests of a batch. Of each planned request that waits for others, `parents` gets
    /// their count and then their numbers.
    pub(crate) fn plan(
        &mut self,
        batch: &Batch,
        planner: &mut Planner,
        planned: &mut Vec<Planned>,
        parents: &mut Vec<u64>,
    ) -> Result<(), TraceError> {
        for (row, request) in batch.iter().enumerate() {
            let before = planned.len();
            planner.plan(&request, planned);
            let one = planned.get_mut(before);
            let (think, named) = match (&mut self.origin, &one) {
                (Origin::Named(named), one) => {
                    let Some(dependency) = batch.dependency(row) else { continue };
                    let seq = one.as_ref().map(|one| one.seq);
                    let think = named.link(&request, dependency, seq)?;
                    (Some(think), named.parents.as_slice())
                }
                (Origin::Inferred { inference, gaps, .. }, Some(one)) => {
                    while gaps.next_if(|end| *end <= request.issue).is_some() {
                        inference.cut();
                    }
                    // It counts the requests that it is given, as the planner counts its own.
                    let waits = inference.push(&request);
                    debug_assert_eq!(waits.row, one.seq);
                    (waits.think, waits.parents)
                }
                (Origin::Inferred { .. }, None) => continue,
            };
            if let Some(one) = one
                && let Some(think) = think.filter(|_| !named.is_empty())
            {
                one.think = Some(think.scaled_down(self.server_speed));
                parents.push(named.len() as u64);
                parents.extend_from_slice(named);
                self.waiting += 1;
            }
        }
        Ok(())
    }

    /// Requests so far that wait for others.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Parents that take no part in the replay, so that no request waits for them.
    pub(crate) fn left_out(&self) -> u64 {
        match &self.origin {
            Origin::Named(named) => named.left_out,
            Origin::Inferred { .. } => 0,
        }
    }

    /// Notes in the header of the results what was inferred.
    pub(crate) fn note(&self, header: &mut Header) {
        if let Origin::Inferred { inference, is_estimated, .. } = &self.origin {
            if *is_estimated {
                note_estimated(header, self.waiting);
            }
            let rules = inference.rules();
            let how = format!(
                "requests whose parents were inferred, with a threshold of {} ns among {} requests",
                rules.threshold.0, rules.window_rows
            );
            header.guesses.add(NoteKind::Assumed.of(&how), self.waiting, None);
            let doubts = inference.doubts();
            let unknown = doubts.without_completion + doubts.completed_before_issue;
            let nobody = unknown + doubts.beyond_window;
            let how = "requests for which no other waits, because their completion is unknown or \
                       more requests away than are looked at";
            header.guesses.add(NoteKind::Assumed.of(how), nobody, None);
        }
    }
}

/// The chains of this trace. They need a first pass over it; then `again` opens it for the replay.
/// The standard input can be read once, so parents that it names are checked during the replay.
pub(crate) fn chains_of(
    path: &Path,
    load: &Load,
    mut source: Box<dyn Source>,
    again: impl FnOnce() -> error::Result<Box<dyn Source>>,
) -> error::Result<(Chains, Box<dyn Source>)> {
    let is_piped = path == Path::new("-");
    if source.header().columns.dependencies {
        if is_piped {
            return Ok((Chains::Named { tasks: 0 }, source));
        }
        let tasks = check(path, &mut *source)?;
        return Ok((Chains::Named { tasks }, again()?));
    }
    refuse_without_completions(path, source.header())?;
    if is_piped {
        let text = "the standard input can be read once, and a trace is read twice to tell who \
                    waited for whom\n  = help: write it to a file first";
        return Err(RunError::new(Kind::Usage, text));
    }
    open::refuse_endless(path, load)?;
    let Surveyed { threshold, processes, .. } = survey(&mut *source)?;
    let rules = Rules { threshold, window_rows: WINDOW_ROWS, processes };
    let gaps = gaps_of(source.header(), load);
    let is_estimated = are_estimated(source.header());
    drop(source);
    Ok((Chains::Inferred { rules, gaps, is_estimated }, again()?))
}

/// Refuses a trace in which a request waits for one that does not come before it; answers how many
/// tasks that made its requests were there at a time.
pub(crate) fn check(path: &Path, source: &mut dyn Source) -> Result<u32, TraceError> {
    let mut named = Named::new(path);
    let mut tasks = Tasks::default();
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        for (row, request) in batch.iter().enumerate() {
            tasks.add(&request);
            if let Some(dependency) = batch.dependency(row) {
                named.link(&request, dependency, None)?;
            }
        }
    }
    Ok(tasks.most_at_a_time())
}

/// When each task made its first request, and when its last one ended.
#[derive(Default)]
struct Tasks(FxHashMap<u32, (Nanos, Nanos)>);

impl Tasks {
    fn add(&mut self, request: &Request) {
        let Some(origin) = request.origin else { return };
        let took = request.latency.unwrap_or_default();
        let (begun, ended) = (request.issue, request.issue.saturating_add(took));
        let (first, last) = self.0.entry(origin.pid).or_insert((begun, ended));
        (*first, *last) = (begun.min(*first), ended.max(*last));
    }

    /// How many there were at a time. One that begins as another ends may have been there with it.
    fn most_at_a_time(&self) -> u32 {
        let mut begins: Vec<Nanos> = self.0.values().map(|(first, _)| *first).collect();
        let mut ends: Vec<Nanos> = self.0.values().map(|(_, last)| *last).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        let mut ended = 0;
        let there = begins.iter().enumerate().map(|(before, begin)| {
            ended += ends[ended..].iter().take_while(|end| *end < begin).count();
            before + 1 - ended
        });
        u32::try_from(there.max().unwrap_or_default()).unwrap_or(u32::MAX)
    }
}

/// Translates parents that the trace names.
struct Named {
    trace: PathBuf,
    known: Remembered,
    /// The parents of the last request.
    parents: Vec<u64>,
    left_out: u64,
}

/// The last requests, by their numbers in the trace.
///
/// Most traces number requests as they stand, from 0 on: there a request is found without a search,
/// which matters where each of a million waits for dozens.
#[derive(Default)]
struct Remembered {
    /// In the order of the trace.
    known: VecDeque<Known>,
    /// Requests so far.
    rows: u64,
    /// The rows of those that have another number than their row.
    renumbered: FxHashMap<u64, u64>,
}

/// A request that later ones may wait for.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its number in the trace.
    id: u64,
    /// Its number in the replay; `None` if it does not take part.
    seq: Option<u64>,
    /// When it completed in the trace.
    completed: Option<Nanos>,
}

impl Remembered {
    /// The last request of this number.
    fn get(&self, id: u64) -> Option<&Known> {
        let first = self.rows - self.known.len() as u64;
        let at = |row: u64| self.known.get(usize::try_from(row.checked_sub(first)?).ok()?);
        let as_it_stands = at(id).filter(|known| known.id == id);
        if self.renumbered.is_empty() {
            return as_it_stands;
        }
        // A number that came again stands for the later request.
        let other = self.renumbered.get(&id).copied();
        match (as_it_stands, other) {
            (Some(known), Some(row)) if row < id => Some(known),
            (known, None) => known,
            (_, Some(row)) => at(row),
        }
    }

    fn push(&mut self, known: Known) {
        if known.id != self.rows {
            self.renumbered.insert(known.id, self.rows);
        }
        self.rows += 1;
        self.known.push_back(known);
        if self.known.len() > AMONG
            && let Some(oldest) = self.known.pop_front()
        {
            let row = self.rows - 1 - AMONG as u64;
            if self.renumbered.get(&oldest.id).is_some_and(|of| *of == row) {
                self.renumbered.remove(&oldest.id);
            }
        }
    }
}

impl Named {
    fn new(trace: &Path) -> Self {
        Self {
            trace: trace.to_owned(),
            known: Remembered::default(),
            parents: Vec::new(),
            left_out: 0,
        }
    }

    /// Puts the numbers of a request's parents in the replay into `parents`, and returns its think
    /// time. `seq` is its own number in the replay.
    fn link(
        &mut self,
        request: &Request,
        dependency: Dependency<'_>,
        seq: Option<u64>,
    ) -> Result<Nanos, TraceError> {
        let Dependency { id, think, parents: named } = dependency;
        let mut last: Option<Nanos> = None;
        self.parents.clear();
        for parent in named {
            let Some(known) = self.known.get(*parent) else {
                return Err(self.not_before(id, *parent));
            };
            last = last.max(known.completed);
            self.parents.extend(known.seq);
            self.left_out += u64::from(known.seq.is_none());
        }
        self.parents.sort_unstable();
        self.parents.dedup();
        let took = request.latency.or_else(|| request.measured?.service_time());
        let completed = took.map(|took| request.issue.saturating_add(took));
        self.known.push(Known { id, seq, completed });
        let since = |last: Nanos| request.issue.saturating_sub(last).max(Nanos::ZERO);
        Ok(think.or(last.map(since)).unwrap_or(Nanos::ZERO))
    }

    fn not_before(&self, id: u64, parent: u64) -> TraceError {
        TraceError::Row {
            path: self.trace.clone(),
            row: self.known.rows,
            reason: format!(
                "request {id} waits for request {parent}, which is none of the {AMONG} before it, \
                 so it could never be issued"
            ),
            remedy: Wording::default()
                .command("depend", "TRACE -o OUT")
                .text(" checks these links; with ")
                .setting("infer")
                .text(" it makes them anew"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ioecho_replay::plan::{TargetLimits, Timing, TimingMode};
    use ioecho_trace::{Bytes, Columns, Op, Origin};

    use super::*;

    fn planner() -> Planner {
        let limits = TargetLimits {
            capacity: Bytes(1 << 20),
            block_size: Bytes(512),
            length_max: Bytes(1 << 20),
            supports: Op::ALL.map(|_| true),
        };
        Planner::new(limits, Timing { mode: TimingMode::Dependency, ..Timing::default() })
    }

    /// Links requests of these numbers, issued at so many microseconds and 10 µs long, to these
    /// parents; returns the think times in microseconds and the parents.
    fn linked(rows: &[(u64, i64, &[u64])]) -> Result<(Vec<Option<i64>>, Vec<u64>), TraceError> {
        let columns = Columns { latency: true, dependencies: true, ..Columns::default() };
        let mut batch = Batch::new(columns);
        for (id, at, parents) in rows {
            let at = Nanos::from_micros(*at);
            let mut request = Request::new(at, Op::Read, Bytes(0), Bytes(512));
            request.latency = Some(Nanos::from_micros(10));
            batch.push(&request);
            batch.link_last(Dependency { id: *id, think: None, parents });
        }
        let (mut planned, mut parents) = (Vec::new(), Vec::new());
        let mut links = Links::new(&Chains::Named { tasks: 0 }, Path::new("trace"), 2.0);
        links.plan(&batch, &mut planner(), &mut planned, &mut parents)?;
        let thinks = planned.iter().map(|one| one.think.map(|think| think.0 / 1_000));
        Ok((thinks.collect(), parents))
    }

    #[test]
    fn parents_get_the_numbers_of_the_replay_and_think_times_are_divided() {
        let (thinks, parents) = linked(&[(70, 0, &[]), (90, 5, &[]), (80, 35, &[90, 70])]).unwrap();
        assert_eq!(thinks, [None, None, Some(10)]);
        assert_eq!(parents, [2, 0, 1]);
    }

    #[test]
    fn a_number_that_comes_again_stands_for_the_later_request() {
        // The third and the fourth request are called 1 and 3: each hides or is hidden by another.
        let rows: [(u64, i64, &[u64]); 6] =
            [(0, 0, &[]), (4, 5, &[]), (1, 10, &[4]), (3, 15, &[1]), (4, 20, &[3]), (9, 40, &[4])];
        assert_eq!(linked(&rows).unwrap().1, [1, 1, 1, 2, 1, 3, 1, 4]);
    }

    #[test]
    fn a_request_that_waits_for_a_later_one_or_for_itself_is_refused() {
        let for_later: [(u64, i64, &[u64]); 2] = [(1, 0, &[2]), (2, 5, &[])];
        let for_itself: [(u64, i64, &[u64]); 2] = [(1, 0, &[]), (2, 5, &[2])];
        for rows in [for_later, for_itself] {
            let error = linked(&rows).unwrap_err().to_string();
            assert!(error.contains("waits for request 2"), "{error}");
        }
    }

    #[test]
    fn tasks_are_counted_as_many_as_were_there_at_a_time() {
        let most = |rows: &[(u32, i64, i64)]| {
            let mut tasks = Tasks::default();
            for (pid, at, took) in rows {
                let mut request = Request::new(Nanos(*at), Op::Read, Bytes(0), Bytes(0));
                request.latency = Some(Nanos(*took));
                request.origin = Some(Origin { pid: *pid, cpu: 0 });
                tasks.add(&request);
            }
            tasks.most_at_a_time()
        };
        assert_eq!(most(&[]), 0);
        // The first is there throughout; the third comes after the second has ended.
        assert_eq!(most(&[(1, 0, 5), (2, 10, 5), (3, 16, 9), (1, 90, 5)]), 2);
        assert_eq!(most(&[(1, 0, 5), (2, 10, 5), (3, 15, 9), (1, 90, 5)]), 3);
        assert_eq!(most(&[(1, 0, 5), (2, 6, 5), (3, 12, 9)]), 1);
    }
}
