//! The counters of a comparison, request by request.

use ioecho_trace::{LateCause, Op};
use rustc_hash::FxHashMap;

use super::Settings;
use super::blind::Blind;
use super::compare::Pair;
use super::drift;
use super::event::Event;
use super::figures::{
    Cause, ErrorFigures, Example, FidelityFigures, How, KindFigures, LateFigures, OrderFigures,
    SideFigures, Spread,
};
use super::flight::Flight;
use super::matching::difference;
use super::order::Order;
use super::sample::{Sample, clamped, percentile};
use super::stalls::Stalls;
use super::unseen::{EXAMPLES_MAX, Unseen};

/// How many processes are told, and how many are counted.
const PROCESSES_TOLD: usize = 12;
const PROCESSES_MAX: usize = 1 << 12;
/// Where events were lost, a request may also be unseen that was due so long before.
const SLACK_NS: i64 = 1_000_000;

/// What is counted of one side.
#[derive(Default)]
struct SideTally {
    requests: u64,
    first: Option<i64>,
    last: i64,
    latencies: Sample<i64>,
    latency_sum: i128,
    latency_count: u64,
    gaps: Sample<i64>,
    flight: Flight,
}

impl SideTally {
    fn push(&mut self, at: i64, latency: Option<i64>) {
        if self.requests > 0 {
            self.gaps.push(difference(at, self.last).max(0));
        }
        self.requests += 1;
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = if self.requests == 1 { at } else { self.last.max(at) };
        if let Some(latency) = latency {
            self.latencies.push(latency);
            self.latency_sum += i128::from(latency);
            self.latency_count += 1;
        }
        self.flight.push(at, latency);
    }

    fn figures(&self, shared: u64) -> SideFigures {
        let Some(first) = self.first else { return SideFigures::default() };
        let sorted = self.latencies.sorted();
        let known = self.latency_count > 0;
        let execution = self.flight.last_end().filter(|_| known);
        let execution = execution.map(|end| difference(end, first));
        let of_all = |share| percentile(&sorted, share);
        SideFigures {
            requests: self.requests,
            span_ns: Some(difference(self.last, first)),
            execution_ns: execution,
            response_mean_ns: known.then(|| self.latency_sum as f64 / self.latency_count as f64),
            response_p50_ns: of_all(0.5),
            response_p99_ns: of_all(0.99),
            response_p999_ns: of_all(0.999),
            in_flight_mean: execution
                .filter(|time| *time > 0)
                .map(|time| self.latency_sum as f64 / time as f64),
            in_flight_max: known.then(|| self.flight.peak()),
            without_completion: self
                .requests
                .saturating_sub(self.latency_count)
                .saturating_sub(shared),
        }
    }
}

/// Values of which percentiles, mean and extremes are wanted.
#[derive(Default)]
struct Values {
    sample: Sample<i64>,
    count: u64,
    sum: i128,
    ends: Option<(i64, i64)>,
}

impl Values {
    fn push(&mut self, value: i64) {
        self.sample.push(value);
        self.count += 1;
        self.sum += i128::from(value);
        let (least, most) = self.ends.unwrap_or((value, value));
        self.ends = Some((least.min(value), most.max(value)));
    }

    /// Their distances from their median.
    fn errors(&self) -> Option<ErrorFigures> {
        let middle = percentile(&self.sample.sorted(), 0.5);
        errors(self.sample.rows().to_vec(), self.ends, middle.unwrap_or(0))
    }

    fn spread(&self) -> Option<Spread> {
        let (min_ns, max_ns) = self.ends?;
        let sorted = self.sample.sorted();
        let of_all = |share| percentile(&sorted, share).unwrap_or_default();
        Some(Spread {
            count: self.count,
            mean_ns: self.sum as f64 / self.count as f64,
            p50_ns: of_all(0.5),
            p99_ns: of_all(0.99),
            p999_ns: of_all(0.999),
            min_ns,
            max_ns,
        })
    }
}

/// Everything that is counted.
pub(super) struct Tally {
    absolute: bool,
    has_schedule: bool,
    late_ns: i64,
    /// The distance of the clocks by the first window: what decides meanwhile who is late.
    pub(super) centre: Option<i64>,
    pub(super) windowed: bool,
    pub(super) pieces: u64,
    pub(super) unions: u64,
    asked: SideTally,
    seen: SideTally,
    found: [u64; 3],
    unseen: Unseen,
    extra: u64,
    extra_at: Sample<i64>,
    by_process: FxHashMap<u32, u64>,
    first_extra: Vec<Example>,
    /// When it was asked for, the error, the kind, and whether it was close behind another one.
    errors: Sample<(i64, i64, u8, bool)>,
    /// The extremes of those that were not, and of those that were.
    ends_by_crowd: [Option<(i64, i64)>; 2],
    crowded: u64,
    engine_by_kind: [Values; Op::ALL.len()],
    submission_by_kind: [Values; Op::ALL.len()],
    ends: Option<(i64, i64)>,
    ends_by_kind: [Option<(i64, i64)>; Op::ALL.len()],
    /// When the first and the last were due of those that were found.
    due: Option<(i64, i64)>,
    stalls: Stalls,
    impossible: u64,
    engine: Values,
    submission: Values,
    completion: Values,
    overhead: Values,
    /// By device: nobody orders what goes to different ones.
    orders: FxHashMap<u32, Order>,
    late: LateFigures,
    kinds: [KindFigures; Op::ALL.len()],
}

impl Tally {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            absolute: settings.absolute,
            has_schedule: settings.has_schedule,
            late_ns: settings.late_ns.max(0),
            centre: None,
            windowed: false,
            pieces: 0,
            unions: 0,
            asked: SideTally::default(),
            seen: SideTally::default(),
            found: [0; 3],
            unseen: Unseen::default(),
            extra: 0,
            extra_at: Sample::default(),
            by_process: FxHashMap::default(),
            first_extra: Vec::new(),
            errors: Sample::default(),
            ends: None,
            ends_by_kind: Default::default(),
            ends_by_crowd: [None; 2],
            crowded: 0,
            engine_by_kind: Default::default(),
            submission_by_kind: Default::default(),
            due: None,
            stalls: Stalls::new(settings.late_ns.max(0)),
            impossible: 0,
            engine: Values::default(),
            submission: Values::default(),
            completion: Values::default(),
            overhead: Values::default(),
            orders: FxHashMap::default(),
            late: LateFigures { beyond_ns: settings.late_ns, ..LateFigures::default() },
            kinds: Default::default(),
        }
    }

    pub(super) fn asked(&mut self, event: &Event) {
        self.asked.push(event.at, event.latency);
        self.kinds[usize::from(event.op.code())].asked += 1;
    }

    /// Counts a request without a counterpart, which ought to have been seen at `expected`;
    /// `is_behind` if that is behind the end of what was seen.
    pub(super) fn missing(&mut self, event: &Event, expected: i64, is_behind: bool) {
        match event.engine.filter(|_| !event.was_issued()) {
            Some(engine) => self.unseen.not_issued(event, &engine.outcome.name()),
            None => self.unseen.missing(event, expected, is_behind),
        }
    }

    pub(super) fn extra(&mut self, event: &Event) {
        self.extra += 1;
        self.extra_at.push(event.at);
        self.kinds[usize::from(event.op.code())].extra += 1;
        if let Some(pid) = event.pid
            && (self.by_process.len() < PROCESSES_MAX || self.by_process.contains_key(&pid))
        {
            *self.by_process.entry(pid).or_default() += 1;
        }
        if self.first_extra.len() < EXAMPLES_MAX {
            self.first_extra.push(Example::of(event));
        }
    }

    /// Counts a request that was found; they come in the order in which the device saw them.
    pub(super) fn pair(&mut self, pair: &Pair) {
        let op = pair.op.code();
        let error = pair.error();
        self.found[pair.how as usize] += 1;
        self.kinds[usize::from(op)].found += 1;
        self.seen.push(pair.seen, pair.seen_latency);
        self.errors.push((pair.at, error, op, pair.crowded));
        self.crowded += u64::from(pair.crowded);
        for ends in [
            &mut self.ends,
            &mut self.ends_by_kind[usize::from(op)],
            &mut self.ends_by_crowd[usize::from(pair.crowded)],
        ] {
            let (least, most) = ends.unwrap_or((error, error));
            *ends = Some((least.min(error), most.max(error)));
        }
        let (first, last) = self.due.unwrap_or((pair.at, pair.at));
        self.due = Some((first.min(pair.at), last.max(pair.at)));
        self.stalls.push(pair.at, pair.seen);
        let order = self.orders.entry(pair.target).or_default();
        if order.push(pair.number, pair.at, pair.held_back()) {
            *self.kinds[usize::from(op)].reordered.get_or_insert(0) += 1;
        }
        self.engine_side(pair);
        self.lateness(pair, error);
    }

    fn engine_side(&mut self, pair: &Pair) {
        let Some(engine) = pair.engine else { return };
        let Some(submitted) = engine.submitted else { return };
        let kind = usize::from(pair.op.code());
        self.engine.push(difference(submitted, pair.at));
        self.engine_by_kind[kind].push(difference(submitted, pair.at));
        let done = pair.seen_latency.map(|latency| pair.seen.saturating_add(latency));
        let is_early = pair.seen < submitted;
        let is_late = engine.completed.zip(done).is_some_and(|(noticed, done)| noticed < done);
        if self.absolute && (is_early || is_late) {
            self.impossible += 1;
            return;
        }
        let completed = engine.completed.filter(|_| engine.outcome.code() == 0);
        if self.absolute {
            self.submission.push(difference(pair.seen, submitted));
            self.submission_by_kind[kind].push(difference(pair.seen, submitted));
            if let (Some(completed), Some(latency)) = (completed, pair.seen_latency) {
                let done = pair.seen.saturating_add(latency);
                self.completion.push(difference(completed, done));
            }
        }
        if let (Some(completed), Some(latency)) = (completed, pair.seen_latency) {
            self.overhead.push(difference(difference(completed, submitted), latency));
        }
    }

    /// Asks a late request for its cause.
    fn lateness(&mut self, pair: &Pair, error: i64) {
        let centre = if self.absolute { 0 } else { self.centre.unwrap_or(0) };
        let late = difference(error, centre);
        if late <= self.late_ns {
            return;
        }
        self.late.requests += 1;
        let due = pair.at.saturating_add(centre);
        let cause = match pair.engine.and_then(|engine| engine.submitted) {
            Some(submitted) => {
                // The engine's own part compared with the part after it.
                let own = difference(submitted, pair.at);
                if own < late / 2 {
                    self.late.held_back += 1;
                    Cause::Device
                } else {
                    cause_of(pair.cause())
                }
            }
            None if self.seen.latency_count == 0 => Cause::Unknown,
            None if self.seen.flight.idle_since(due) > late / 2 => Cause::Idle,
            None => Cause::Busy,
        };
        let count = match cause {
            Cause::Device => &mut self.late.device,
            Cause::Busy => &mut self.late.busy,
            Cause::Generator => &mut self.late.generator,
            Cause::Host => &mut self.late.host,
            Cause::Idle => &mut self.late.idle,
            Cause::Unknown => &mut self.late.unknown,
        };
        *count += 1;
    }

    pub(super) fn figures(mut self, blind: &Blind) -> FidelityFigures {
        let shift = self.median();
        let rows = self.errors.rows().iter().map(|row| (row.0, row.1)).collect();
        let slope = drift::slope(rows, self.stalls.places());
        let unseen = self.unseen.figures(blind, self.late_ns.max(SLACK_NS));
        self.close_kinds(shift.unwrap_or(0));
        let by_crowd = |is_crowded: bool| {
            let rows = self.errors.rows().iter().filter(|row| row.3 == is_crowded);
            let ends = self.ends_by_crowd[usize::from(is_crowded)];
            errors(rows.map(|row| row.1).collect(), ends, shift.unwrap_or(0))
        };
        let (issue_apart, issue_crowded) = (by_crowd(false), by_crowd(true));
        let all = self.errors.rows().iter().map(|row| row.1).collect();
        let issue = errors(all, self.ends, shift.unwrap_or(0));
        let (slope, detrended) = self.without_drift(slope, issue.as_ref());
        let merged = self.found[How::Merged as usize];
        let asked = self.asked.figures(0);
        let seen = self.seen.figures(merged.saturating_sub(self.unions));
        let of = |side: &SideFigures, ns: Option<i64>| ns.filter(|_| side.requests > 1);
        let as_f64 = |ns: i64| ns as f64;
        let is_whole = unseen.not_witnessed == 0;
        // Where a part was not witnessed, the rest of both sides is compared.
        let due = self.due.map(|(first, last)| difference(last, first));
        let asked_span = if is_whole { asked.span_ns } else { due };
        let is_known = asked.completions_known() && seen.completions_known();
        let responses = |ours, theirs| share(ours, theirs).filter(|_| is_known);
        let flushes_seen = self.kinds[usize::from(Op::Flush.code())].found
            + self.kinds[usize::from(Op::Flush.code())].extra;
        let kinds = Op::ALL.iter().zip(&self.kinds).filter(|(_, kind)| kind.asked + kind.extra > 0);
        let figures = FidelityFigures {
            found: self.found.iter().sum(),
            split: self.found[How::Split as usize],
            pieces: self.pieces,
            merged,
            unions: self.unions,
            missing: unseen.missing,
            not_witnessed: unseen.not_witnessed,
            not_issued: unseen.not_issued,
            flushes_ended_above: if flushes_seen == 0 { unseen.flushes } else { 0 },
            extra: self.extra,
            extra_outside: self.extra_outside(shift),
            extra_by_process: processes(&self.by_process),
            first_missing: unseen.first,
            first_extra: self.first_extra.clone(),
            absolute: self.absolute,
            shift_ns: shift,
            issue,
            drift_ppm: slope.map(|slope| slope * 1e6),
            detrended,
            issue_crowded,
            issue_apart,
            crowded: self.crowded,
            engine: self.engine.errors(),
            submission_lag: self.submission.spread(),
            completion_lag: self.completion.spread(),
            overhead: self.overhead.spread(),
            due_span_ns: asked_span,
            duration_error: share(
                of(&asked, asked_span).map(as_f64),
                of(&seen, seen.span_ns).map(as_f64),
            ),
            execution_error: responses(
                asked.execution_ns.filter(|_| is_whole).map(as_f64),
                seen.execution_ns.map(as_f64),
            ),
            response_mean_error: responses(asked.response_mean_ns, seen.response_mean_ns),
            response_p99_error: responses(
                asked.response_p99_ns.map(as_f64),
                seen.response_p99_ns.map(as_f64),
            ),
            impossible: self.impossible,
            stalls: Some(self.stalls.figures()),
            order: Some(order_of(self.orders.into_values())),
            inter_arrival_ks: ks(&self.asked.gaps.sorted(), &self.seen.gaps.sorted()),
            late: Some(self.late.clone()),
            kinds: kinds.map(|(op, kind)| (op.name().to_owned(), kind.clone())).collect(),
            sampled_every: self.errors.every().max(self.asked.gaps.every()),
            windowed: self.windowed,
            asked,
            seen,
        };
        if self.has_schedule { figures } else { figures.without_schedule() }
    }

    /// Fills in the figures of each kind that need all of its requests.
    fn close_kinds(&mut self, shift: i64) {
        for op in Op::ALL {
            let kind = usize::from(op.code());
            let of_kind = self.errors.rows().iter().filter(|row| row.2 == op.code());
            self.kinds[kind].issue =
                errors(of_kind.map(|row| row.1).collect(), self.ends_by_kind[kind], shift);
            self.kinds[kind].reordered.get_or_insert(0);
            self.kinds[kind].engine = self.engine_by_kind[kind].errors();
            self.kinds[kind].submission_lag = self.submission_by_kind[kind].spread();
        }
    }

    /// The slope of the errors and the errors without it, unless these are larger: stalls that the
    /// slope could not leave out must not count as a fast or slow clock.
    fn without_drift(
        &self,
        slope: Option<f64>,
        issue: Option<&ErrorFigures>,
    ) -> (Option<f64>, Option<ErrorFigures>) {
        let p50 = |errors: &ErrorFigures| errors.p50_ns;
        let detrended = self.detrended(slope);
        let is_worse = detrended.as_ref().map(p50) > issue.map(p50);
        if is_worse { (None, None) } else { (slope, detrended) }
    }

    fn median(&self) -> Option<i64> {
        let mut all: Vec<i64> = self.errors.rows().iter().map(|row| row.1).collect();
        all.sort_unstable();
        percentile(&all, 0.5)
    }

    /// The errors less what a straight line through them says, and less their median then.
    fn detrended(&self, slope: Option<f64>) -> Option<ErrorFigures> {
        let slope = slope?;
        let (at, first) = self.errors.rows().first().map(|row| (row.0, row.1))?;
        let rest: Vec<i64> = self
            .errors
            .rows()
            .iter()
            .map(|row| {
                let trend = (slope * difference(row.0, at) as f64).round() as i64;
                difference(difference(row.1, first), trend)
            })
            .collect();
        let mut sorted = rest.clone();
        sorted.sort_unstable();
        let ends = sorted.first().copied().zip(sorted.last().copied());
        errors(rest, ends, percentile(&sorted, 0.5).unwrap_or(0))
    }

    /// Extra requests before the first and behind the last that were asked for.
    fn extra_outside(&self, shift: Option<i64>) -> u64 {
        let (Some(first), Some(shift)) = (self.asked.first, shift) else { return self.extra };
        let from = first.saturating_add(shift);
        let until = self.asked.last.saturating_add(shift).max(self.seen.last);
        let outside = |at: &&i64| **at < from || **at > until;
        let outside = self.extra_at.rows().iter().filter(outside).count() as u64;
        outside.saturating_mul(self.extra_at.every()).min(self.extra)
    }
}

/// The cause here for a cause of the engine.
fn cause_of(cause: LateCause) -> Cause {
    match cause {
        LateCause::Conflict | LateCause::InFlightCap | LateCause::Submission => Cause::Device,
        LateCause::Input
        | LateCause::Generator
        | LateCause::Backlog
        | LateCause::Verification
        | LateCause::File => Cause::Generator,
        LateCause::Host | LateCause::None => Cause::Host,
    }
}

fn processes(counts: &FxHashMap<u32, u64>) -> Vec<(u32, u64)> {
    let mut all: Vec<(u32, u64)> = counts.iter().map(|(pid, count)| (*pid, *count)).collect();
    all.sort_unstable_by_key(|(pid, count)| (std::cmp::Reverse(*count), *pid));
    all.truncate(PROCESSES_TOLD);
    all
}

/// Error figures of values around a centre; `ends` are the extremes of all, also of those that are
/// not among the values.
fn errors(mut values: Vec<i64>, ends: Option<(i64, i64)>, centre: i64) -> Option<ErrorFigures> {
    let (least, most) = ends?;
    let (earliest, latest) = (difference(least, centre), difference(most, centre));
    for value in &mut values {
        *value = difference(*value, centre);
    }
    values.sort_unstable();
    let signed = |share| percentile(&values, share).unwrap_or_default();
    let (early_p1_ns, late_p99_ns) = (signed(0.01), signed(0.99));
    for value in &mut values {
        *value = clamped(i128::from(*value).abs());
    }
    values.sort_unstable();
    let size = |share| percentile(&values, share).unwrap_or_default();
    Some(ErrorFigures {
        p50_ns: size(0.5),
        p99_ns: size(0.99),
        p999_ns: size(0.999),
        max_ns: clamped(i128::from(earliest).abs().max(i128::from(latest).abs())),
        early_p1_ns,
        late_p99_ns,
        earliest_ns: earliest,
        latest_ns: latest,
    })
}

/// The largest distance of two empirical distributions (Kolmogorov and Smirnov); both are sorted.
fn ks(ours: &[i64], theirs: &[i64]) -> Option<f64> {
    if ours.is_empty() || theirs.is_empty() {
        return None;
    }
    let (mut a, mut b, mut most) = (0, 0, 0.0_f64);
    while a < ours.len() && b < theirs.len() {
        let value = ours[a].min(theirs[b]);
        while a < ours.len() && ours[a] == value {
            a += 1;
        }
        while b < theirs.len() && theirs[b] == value {
            b += 1;
        }
        let distance = a as f64 / ours.len() as f64 - b as f64 / theirs.len() as f64;
        most = most.max(distance.abs());
    }
    Some(most)
}

/// By which share `theirs` is more than `ours`.
fn share(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    let (ours, theirs) = (ours?, theirs?);
    (ours > 0.0).then(|| theirs / ours - 1.0)
}

/// The order on all devices together.
fn order_of(orders: impl Iterator<Item = Order>) -> OrderFigures {
    let join = |mut all: Order, one: Order| {
        all.join(&one);
        all
    };
    orders.reduce(join).unwrap_or_default().figures()
}
