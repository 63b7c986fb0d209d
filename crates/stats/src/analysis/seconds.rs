//! Demanded and achieved throughput, second by second.
//!
//! Throughput is the first figure that users look at, and a mean over an hour hides the minute that
//! matters. Each second has its own counters, so that windows of any length are sums, parts of a
//! trace merge by addition, and any database can do the same with the stored rows.
//!
//! * *demanded*: every request, at the instant it was due (of a load: issued);
//! * *achieved*: every request that came back in full, at its completion, where one is known (of a
//!   load: as it was recorded).
//!
//! blkreplay's `graph.sh` leaves out the last window when it is not full. Here it is shown, divided
//! by the time it really covers, but not by less than a second: a window of a nanosecond with one
//! request in it has no rate.

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;
use super::event::{Event, Group};
use super::shape::{Quantity, Series};
use super::subset::{SeriesOf, Subset};
use crate::picture::Span;

/// How many seconds are kept apart: twelve days. Beyond, they merge in pairs.
pub const SECONDS_MAX: usize = 1 << 20;

/// How many windows a series has at most; the window doubles until there are no more.
pub const WINDOWS_MAX: u64 = 1 << 13;

/// How many stretches [`Extremes`] has at most.
const STRETCHES_MAX: usize = 2048;

/// blkreplay's `thrp_window`, in seconds.
pub const WINDOW_S: u64 = 3;

const SECOND_NS: i64 = 1_000_000_000;

/// Seconds that lie together in memory; where nothing happens in any of them there is none.
const STRETCH: usize = 1024;

/// The columns of throughput; the last are among those of the first three.
const COLUMNS: [Subset; 4] = [Subset::Reads, Subset::Writes, Subset::Other, Subset::PushedBack];

/// A number of requests and of the bytes they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many requests.
    pub requests: u64,
    /// Bytes of reads and writes; others move none.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A number of spans of time, their sum and the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// How many.
    pub count: u64,
    /// Their sum; a span below zero counts as zero.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Spans {
    fn record(&mut self, ns: i64) {
        let ns = ns.max(0) as u64;
        self.add(Self { count: 1, sum_ns: ns, max_ns: ns });
    }

    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    fn max(self) -> Option<f64> {
        (self.count > 0).then_some(self.max_ns as f64)
    }
}

/// The counters of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// What was due: reads, writes, others; and of all these, what was pushed back.
    pub demanded: [Amount; COLUMNS.len()],
    /// What came back in full, likewise.
    pub achieved: [Amount; COLUMNS.len()],
    /// Requests due here that came to nothing.
    pub failed: u64,
    /// Service times of reads and of writes submitted here.
    pub service: [Spans; 2],
    /// Lateness of requests due here.
    pub lateness: Spans,
}

impl Second {
    /// Requests due, of all kinds.
    pub fn demanded_requests(&self) -> u64 {
        requests(&self.demanded)
    }

    /// Requests that came back in full, of all kinds.
    pub fn achieved_requests(&self) -> u64 {
        requests(&self.achieved)
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.demanded.iter_mut().zip(other.demanded) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.achieved.iter_mut().zip(other.achieved) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.service.iter_mut().zip(other.service) {
            mine.add(theirs);
        }
        self.failed = self.failed.saturating_add(other.failed);
        self.lateness.add(other.lateness);
    }
}

/// Column of a group among reads, writes and others, and whether it was pushed back.
const fn column(group: Group) -> (usize, bool) {
    match group {
        Group::Read => (0, false),
        Group::Write => (1, false),
        Group::PushedRead => (0, true),
        Group::PushedWrite => (1, true),
        Group::Other | Group::OfFiles(_) => (2, false),
    }
}

fn count(columns: &mut [Amount; COLUMNS.len()], event: &Event) {
    let (column, pushed) = column(event.group);
    let amount = Amount { requests: 1, bytes: event.bytes };
    columns[column].add(amount);
    if pushed {
        columns[3].add(amount);
    }
}

/// Counters by the second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seconds {
    /// How often seconds were merged in pairs.
    doublings: u32,
    /// Stretches of [`STRETCH`] seconds, or none.
    stretches: Vec<Vec<Second>>,
    /// How many seconds there are, up to the last one in use.
    used: usize,
    /// The last instant of any request.
    end_ns: i64,
    /// The last instant at which a request was due.
    due_end_ns: i64,
    /// Whether anything was achieved: of a load without latencies, nothing is known of that.
    answered: bool,
}

impl Summary for Seconds {
    fn observe(&mut self, request: &Request) {
        self.add(&Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        while self.doublings < later.doublings {
            self.double();
        }
        let shift = self.doublings - later.doublings;
        for (at, theirs) in later.filled() {
            self.cell(at >> shift).add(theirs);
        }
        self.end_ns = self.end_ns.max(later.end_ns);
        self.due_end_ns = self.due_end_ns.max(later.due_end_ns);
        self.answered |= later.answered;
    }
}

impl Seconds {
    pub(crate) fn add(&mut self, event: &Event) {
        let due = self.at(event.scheduled);
        count(&mut due.demanded, event);
        due.failed += u64::from(event.failed);
        if let Some(delay) = event.delay() {
            due.lateness.record(delay);
        }
        self.end_ns = self.end_ns.max(event.end());
        self.due_end_ns = self.due_end_ns.max(event.scheduled);
        if let (Some(submitted), Some(completed), Some(service)) =
            (event.submitted, event.completed, event.service())
        {
            self.answered = true;
            let (column, _) = column(event.group);
            if let Some(spans) = self.at(submitted).service.get_mut(column) {
                spans.record(service);
            }
            count(&mut self.at(completed).achieved, event);
        }
    }

    #[inline]
    fn at(&mut self, instant_ns: i64) -> &mut Second {
        let second = (instant_ns / SECOND_NS) as usize;
        while second >> self.doublings >= SECONDS_MAX {
            self.double();
        }
        self.cell(second >> self.doublings)
    }

    #[inline]
    fn cell(&mut self, at: usize) -> &mut Second {
        let (stretch, second) = (at / STRETCH, at % STRETCH);
        if stretch >= self.stretches.len() {
            self.stretches.resize(stretch + 1, Vec::new());
        }
        self.used = self.used.max(at + 1);
        let seconds = &mut self.stretches[stretch];
        if seconds.is_empty() {
            seconds.resize(STRETCH, Second::default());
        }
        &mut seconds[second]
    }

    fn double(&mut self) {
        let mut doubled = Self { doublings: self.doublings + 1, ..Self::default() };
        for (at, second) in self.filled() {
            doubled.cell(at / 2).add(second);
        }
        (doubled.end_ns, doubled.due_end_ns) = (self.end_ns, self.due_end_ns);
        doubled.answered = self.answered;
        *self = doubled;
    }

    /// How many seconds a cell of [`Self::filled`] covers: 1 unless the trace is longer than
    /// [`SECONDS_MAX`].
    pub fn width_s(&self) -> u64 {
        1 << self.doublings
    }

    /// The counters of each second, or more than one, in which anything happened: which one it is,
    /// counted from the start of the trace, and the counters.
    pub fn filled(&self) -> impl Iterator<Item = (usize, &Second)> {
        let stretches = self.stretches.iter().enumerate();
        let seconds = stretches.flat_map(|(stretch, seconds)| {
            seconds.iter().enumerate().map(move |(at, second)| (stretch * STRETCH + at, second))
        });
        seconds.filter(|(_, second)| **second != Second::default())
    }

    /// The counters of the second that an instant lies in.
    pub fn of_instant(&self, instant_ns: i64) -> Second {
        let at = (instant_ns.max(0) / SECOND_NS) as usize >> self.doublings;
        let second = self.stretches.get(at / STRETCH).and_then(|all| all.get(at % STRETCH));
        second.copied().unwrap_or_default()
    }

    /// The last instant of any request: issue, submission or completion.
    pub fn end_ns(&self) -> i64 {
        self.end_ns
    }

    /// Sums over the whole trace.
    pub fn total(&self) -> Second {
        let mut total = Second::default();
        self.filled().for_each(|(_, cell)| total.add(cell));
        total
    }

    /// Demanded and achieved in windows of so many seconds.
    pub fn figures(&self, window_s: u64) -> ThroughputFigures {
        let mut window = window_s.max(1).next_multiple_of(self.width_s());
        let seconds = self.used as u64 * self.width_s();
        while seconds.div_ceil(window) > WINDOWS_MAX {
            window *= 2;
        }
        let cells_of_window = (window / self.width_s()) as usize;
        let mut sums = vec![Second::default(); self.used.div_ceil(cells_of_window)];
        self.filled().for_each(|(at, cell)| sums[at / cells_of_window].add(cell));
        let windows = Windows { sums, window_ns: window as i64 * SECOND_NS, end_ns: self.end_ns };
        let total = self.total();
        let peak = |of: fn(&Second) -> u64| self.peak(of);
        ThroughputFigures {
            window_ns: windows.window_ns,
            last_window_ns: windows.last_ns(),
            end_ns: self.end_ns,
            demanded_end_ns: self.due_end_ns,
            answered: self.answered,
            demanded: Totals::of(&total.demanded),
            achieved: Totals::of(&total.achieved),
            failed: total.failed,
            peak_requests: peak(|cell| requests(&cell.demanded)),
            peak_bytes: peak(|cell| bytes(&cell.demanded)),
            demanded_requests: windows.rates("requests/s", |cell| &cell.demanded, |a| a.requests),
            demanded_bytes: windows.rates("bytes/s", |cell| &cell.demanded, |a| a.bytes),
            achieved_requests: if self.answered {
                windows.rates("requests/s", |cell| &cell.achieved, |a| a.requests)
            } else {
                Vec::new()
            },
            achieved_bytes: if self.answered {
                windows.rates("bytes/s", |cell| &cell.achieved, |a| a.bytes)
            } else {
                Vec::new()
            },
            failed_requests: windows.rate("failed", "requests/s", |cell| cell.failed),
            smoothed: smoothed(&windows),
            extremes: self.extremes(),
        }
    }

    /// The busiest and the quietest second of each stretch; nothing where seconds are not known
    /// singly any more.
    fn extremes(&self) -> Extremes {
        if self.doublings > 0 {
            return Extremes::default();
        }
        let stretch = self.used.div_ceil(STRETCHES_MAX).max(1).next_power_of_two();
        let mut extremes = Extremes {
            step_ns: stretch as i64 * SECOND_NS,
            of: std::array::from_fn(|_| vec![[u64::MAX, 0]; self.used.div_ceil(stretch)]),
        };
        let mut seen = vec![0_usize; self.used.div_ceil(stretch)];
        for (at, second) in self.filled() {
            seen[at / stretch] += 1;
            let amounts = [
                requests(&second.demanded),
                requests(&second.achieved),
                bytes(&second.demanded),
                bytes(&second.achieved),
            ];
            for (column, amount) in extremes.of.iter_mut().zip(amounts) {
                let [least, most] = &mut column[at / stretch];
                (*least, *most) = ((*least).min(amount), (*most).max(amount));
            }
        }
        for column in &mut extremes.of {
            for (place, [least, _]) in column.iter_mut().enumerate() {
                // A second in which nothing happened is kept nowhere.
                let seconds = stretch.min(self.used - place * stretch);
                if seen[place] < seconds {
                    *least = 0;
                }
            }
        }
        extremes
    }

    fn peak(&self, of: fn(&Second) -> u64) -> Peak {
        let mut peak = Peak::default();
        let (mut most, mut sum) = (0, 0.0);
        // The mean is that of the seconds from the first in use to the last: a part of a trace
        // begins late, and an overloaded device completes requests long after the last one was due.
        let (mut first, mut last) = (None, 0);
        for (at, value) in self.filled().map(|(at, second)| (at, of(second))) {
            if value > 0 {
                first = first.or(Some(at));
                last = at;
            }
            sum += value as f64;
            if value > most {
                most = value;
                peak.at_s = at as u64 * self.width_s();
            }
        }
        if most > 0 {
            peak.per_s = most as f64 / self.width_s() as f64;
            let seconds = last - first.unwrap_or(0) + 1;
            peak.to_mean = most as f64 / (sum / seconds as f64);
        }
        peak
    }
}

fn smoothed(windows: &Windows) -> Vec<Smoothed> {
    let mut all = Vec::new();
    let mut add = |of: Subset, span: Span, spans: &dyn Fn(&Second) -> Spans| {
        if windows.sums.iter().all(|sum| spans(sum).count == 0) {
            return;
        }
        for (is_longest, word) in [(false, "mean"), (true, "longest")] {
            let quantity = Quantity::new(&format!("{word} {}", span.name()), "ns");
            let value = |of: Spans| if is_longest { of.max() } else { of.mean() };
            let series = windows.series(of.name(), quantity, |cell| value(spans(cell)));
            all.push(Smoothed { of, span, is_longest, series });
        }
    };
    for (kind, of) in [Subset::Reads, Subset::Writes].into_iter().enumerate() {
        add(of, Span::Service, &|cell| cell.service[kind]);
    }
    add(Subset::All, Span::Lateness, &|cell| cell.lateness);
    all
}

fn requests(columns: &[Amount; COLUMNS.len()]) -> u64 {
    columns[..3].iter().map(|amount| amount.requests).sum()
}

fn bytes(columns: &[Amount; COLUMNS.len()]) -> u64 {
    columns[..3].iter().fold(0, |sum, amount| sum.saturating_add(amount.bytes))
}

/// The quietest and the busiest second of each stretch of some length, which a mean over the
/// stretch hides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Extremes {
    /// The length of a stretch; the first begins at zero.
    pub step_ns: i64,
    /// Of each stretch the least and the most in a second: requests demanded, requests achieved,
    /// bytes demanded, bytes achieved.
    pub of: [Vec<[u64; 2]>; 4],
}

/// Sums of seconds in windows.
struct Windows {
    sums: Vec<Second>,
    window_ns: i64,
    end_ns: i64,
}

impl Windows {
    /// What the last window really covers, at least a second.
    fn last_ns(&self) -> i64 {
        let before = self.sums.len().saturating_sub(1) as i64;
        let start = before.saturating_mul(self.window_ns);
        self.end_ns.saturating_sub(start).clamp(SECOND_NS, self.window_ns)
    }

    fn series(
        &self,
        name: &str,
        quantity: Quantity,
        value: impl Fn(&Second) -> Option<f64>,
    ) -> Series {
        let values = self.sums.iter().map(value).collect();
        Series { name: name.to_owned(), quantity, start_ns: 0, step_ns: self.window_ns, values }
    }

    fn rate(&self, name: &str, unit: &str, count: impl Fn(&Second) -> u64) -> Series {
        let quantity = Quantity::new("throughput", unit);
        let mut series = self.series(name, quantity, |cell| Some(count(cell) as f64));
        let last = self.sums.len().saturating_sub(1);
        for (at, value) in series.values.iter_mut().enumerate() {
            let length = if at == last { self.last_ns() } else { self.window_ns };
            *value = value.map(|count| count / (length as f64 / SECOND_NS as f64));
        }
        series
    }

    /// Reads, writes, others and pushed-back requests, where there are any, and all.
    fn rates(
        &self,
        unit: &str,
        columns: fn(&Second) -> &[Amount; COLUMNS.len()],
        of: fn(&Amount) -> u64,
    ) -> Vec<SeriesOf> {
        let mut all = Vec::new();
        let mut add = |subset: Subset, count: &dyn Fn(&Second) -> u64| {
            all.push(SeriesOf { of: subset, series: self.rate(subset.name(), unit, count) });
        };
        for (column, subset) in COLUMNS.into_iter().enumerate() {
            if self.sums.iter().any(|sum| columns(sum)[column].requests > 0) {
                add(subset, &|cell| of(&columns(cell)[column]));
            }
        }
        let whole = |cell: &Second| columns(cell)[..3].iter().map(of).fold(0, u64::saturating_add);
        add(Subset::All, &whole);
        all
    }
}

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Reads, pushed back or not.
    pub reads: Amount,
    /// Writes, pushed back or not.
    pub writes: Amount,
    /// Flushes, discards and others.
    pub other: Amount,
    /// Of these, what was pushed back, reads and writes alone.
    pub pushed_back: Amount,
}

impl Totals {
    fn of(columns: &[Amount; COLUMNS.len()]) -> Self {
        let [reads, writes, other, pushed_back] = *columns;
        Self { reads, writes, other, pushed_back }
    }
}

/// The busiest second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Peak {
    /// What it had: requests or bytes per second.
    pub per_s: f64,
    /// Which second, counted from 0, the first of equals.
    pub at_s: u64,
    /// How many times the mean that is; 0 of nothing.
    pub to_mean: f64,
}

/// A span of some requests in each window: its mean, or the longest. In JSON the series says all.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Smoothed {
    /// The requests.
    #[serde(skip)]
    pub of: Subset,
    /// The span.
    #[serde(skip)]
    pub span: Span,
    /// Whether the values are the longest spans, and not the means.
    #[serde(skip)]
    pub is_longest: bool,
    /// The values.
    pub series: Series,
}

/// Demanded and achieved throughput. `requests/s` are blkreplay's `thrp`, `bytes/s` its `thrs`,
/// which it counts in sectors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThroughputFigures {
    /// The length of a window: what was asked for, longer where there were too many of them.
    pub window_ns: i64,
    /// What the last window covers, by which its rates are divided.
    pub last_window_ns: i64,
    /// The last instant of any request.
    pub end_ns: i64,
    /// When the last request was due: what was demanded was demanded within this time, however
    /// long the answers took.
    pub demanded_end_ns: i64,
    /// Whether completions are known. Without them there is nothing achieved.
    pub answered: bool,
    /// What was due in all.
    pub demanded: Totals,
    /// What came back in full in all.
    pub achieved: Totals,
    /// Requests that came to nothing.
    pub failed: u64,
    /// The busiest second by requests due.
    pub peak_requests: Peak,
    /// The busiest second by bytes due.
    pub peak_bytes: Peak,
    /// By what was due: reads, writes, others, pushed-back requests, and all. Reads contain those
    /// pushed back.
    pub demanded_requests: Vec<SeriesOf>,
    /// The same in bytes.
    pub demanded_bytes: Vec<SeriesOf>,
    /// By completion; empty where none is known.
    pub achieved_requests: Vec<SeriesOf>,
    /// The same in bytes.
    pub achieved_bytes: Vec<SeriesOf>,
    /// Requests that came to nothing, by when they were due.
    pub failed_requests: Series,
    /// Mean and longest service time of reads and of writes by submission, and lateness by
    /// schedule, in the same windows.
    pub smoothed: Vec<Smoothed>,
    /// The quietest and the busiest seconds, for who draws means.
    #[serde(skip)]
    pub extremes: Extremes,
}
