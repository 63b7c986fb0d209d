//! Telemetry of an engine: the lines of a run's `inside.jsonl`, and the series that are drawn from
//! them.
//!
//! A run of a day has a million intervals for each target, and a reader looks at a picture of a
//! thousand points. So lines are folded into at most [`STEPS_MAX`] steps, which become wider as the
//! run is longer: extremes stay, counts and sums add up, and no step is made of means of means.

use ioecho_trace::log_linear::{self, Histogram};
use serde::{Deserialize, Serialize};

use crate::analysis::shape::{Quantity, Series};
use crate::count::grid::{Cell, Grid};

/// The version of the lines. It changes when a key changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// The engine counts spans in 2^2 bins for each power of two.
const BITS: u32 = 2;

/// Steps that are kept at most.
pub const STEPS_MAX: usize = 1024;

/// A number that goes up and down, over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The lowest.
    pub min: u64,
    /// The mean of the looks, taken a millisecond apart or more.
    pub mean: f64,
    /// The highest.
    pub max: u64,
}

/// How long something took in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spans {
    /// How many there were.
    pub count: u64,
    /// Their sum, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The bins that are not empty: where each begins, ns, and how many lie in it. A bin is less
    /// than a quarter wide of what it begins with.
    pub bins: Vec<(u64, u64)>,
}

/// Where the time of the issuing thread went, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// It prepared requests and handed them over, or was kept away while it did.
    pub issuing_ns: i64,
    /// It waited until the next request was due.
    pub awaiting_ns: i64,
    /// Everything due was blocked, and it waited for a completion.
    pub blocked_ns: i64,
    /// There was no input.
    pub starved_ns: i64,
}

/// A line: what the engine of a target did in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// [`VERSION`].
    pub version: u32,
    /// Whose engine, counted from 0 as in `requests.parquet`.
    pub target: u32,
    /// When the interval began, ns from the replay's time zero.
    pub start_ns: i64,
    /// When it ended.
    pub end_ns: i64,
    /// How often the scheduler was asked.
    pub steps: u64,
    /// Where the time went.
    pub spent: Spent,
    /// How often the look-ahead ran empty when something was due.
    pub input_stalls: u64,
    /// Planned requests that the scheduler holds.
    pub look_ahead: Option<Level>,
    /// Planned requests in the ring between the reader's thread and the engine. Unknown in
    /// simulated time, where the engine waits for the reader.
    pub input: Option<Level>,
    /// Results in the ring between the engine and the writer's thread; unknown likewise.
    pub results: Option<Level>,
    /// Due requests that wait for others that they overlap.
    pub waiting: Option<Level>,
    /// Requests in flight.
    pub in_flight: Option<Level>,
    /// How far beyond the present the scheduler's look-ahead reaches, ns; unknown when nothing is
    /// planned any more.
    pub ahead_ns: Option<Level>,
    /// Scheduler delay: from due to the system call that handed the request over.
    pub delay: Spans,
    /// From the decision to issue to that system call.
    pub preparation: Spans,
    /// Submission lag: how long those system calls took.
    pub submission: Spans,
    /// Completion lag: how long completions lay unseen, at most.
    pub unseen: Spans,
    /// Completions that woke the engine; how long that took it cannot tell.
    pub woken: u64,
    /// The longest that the writer's thread took to hand results to the system, ns. Unknown in
    /// simulated time.
    pub write_max_ns: Option<u64>,
    /// Intervals before this one of which no line could be kept.
    pub missing: u64,
}

/// A level over several lines. Means are weighted by time.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    known: bool,
    min: u64,
    max: u64,
    weighted: f64,
    weight: f64,
}

impl Fill {
    fn add(&mut self, level: Option<Level>, weight: f64) {
        if let Some(Level { min, mean, max }) = level {
            self.merge(Self { known: true, min, max, weighted: mean * weight, weight });
        }
    }

    fn merge(&mut self, other: Self) {
        if !other.known {
            return;
        }
        self.min = if self.known { self.min.min(other.min) } else { other.min };
        self.max = self.max.max(other.max);
        self.weighted += other.weighted;
        self.weight += other.weight;
        self.known = true;
    }

    fn mean(&self) -> Option<f64> {
        (self.known && self.weight > 0.0).then(|| self.weighted / self.weight)
    }
}

/// Spans over several lines.
#[derive(Clone, Debug, Default)]
struct Sum {
    max_ns: u64,
    bins: Histogram<BITS>,
}

impl Sum {
    fn add(&mut self, spans: &Spans) {
        self.max_ns = self.max_ns.max(spans.max_ns);
        for (edge, count) in &spans.bins {
            self.bins.add(log_linear::bin::<BITS>(*edge), *count);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        self.bins.merge(&other.bins);
    }

    /// What a share of them stayed below: no more than the end of its bin and than the longest.
    fn quantile(&self, share: f64) -> Option<f64> {
        let (bin, ..) = self.bins.at(share)?;
        Some(log_linear::least::<BITS>(bin + 1).min(self.max_ns) as f64)
    }

    fn max(&self) -> Option<f64> {
        (self.bins.count() > 0).then_some(self.max_ns as f64)
    }
}

/// The telemetry of a step.
#[derive(Clone, Debug, Default)]
struct Step {
    /// The time of all engines together, ns.
    time: f64,
    spent: [f64; 4],
    input_stalls: u64,
    levels: [Fill; 6],
    spans: [Sum; 4],
    write_max: Option<u64>,
}

impl Step {
    fn add(&mut self, line: &Line) {
        let span = line.end_ns.saturating_sub(line.start_ns).max(0) as f64;
        let Spent { issuing_ns, awaiting_ns, blocked_ns, starved_ns } = line.spent;
        self.time += span;
        for (sum, ns) in
            self.spent.iter_mut().zip([issuing_ns, awaiting_ns, blocked_ns, starved_ns])
        {
            *sum += ns.max(0) as f64;
        }
        self.input_stalls = self.input_stalls.saturating_add(line.input_stalls);
        let levels = [
            line.look_ahead,
            line.input,
            line.results,
            line.waiting,
            line.in_flight,
            line.ahead_ns,
        ];
        for (fill, level) in self.levels.iter_mut().zip(levels) {
            fill.add(level, span.max(1.0));
        }
        let spans = [&line.delay, &line.preparation, &line.submission, &line.unseen];
        for (sum, spans) in self.spans.iter_mut().zip(spans) {
            sum.add(spans);
        }
        self.write_max = self.write_max.max(line.write_max_ns);
    }
}

impl Cell for Step {
    fn merge(&mut self, other: &Self) {
        self.time += other.time;
        for (sum, more) in self.spent.iter_mut().zip(other.spent) {
            *sum += more;
        }
        self.input_stalls = self.input_stalls.saturating_add(other.input_stalls);
        for (fill, more) in self.levels.iter_mut().zip(other.levels) {
            fill.merge(more);
        }
        for (sum, more) in self.spans.iter_mut().zip(&other.spans) {
            sum.merge(more);
        }
        self.write_max = self.write_max.max(other.write_max);
    }
}

/// A level of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelOf {
    /// Planned requests that the scheduler holds.
    LookAhead,
    /// Planned requests in the ring before it.
    Input,
    /// Results in the ring behind the engine.
    Results,
    /// Due requests that wait for others.
    Waiting,
    /// Requests in flight.
    InFlight,
    /// How far the look-ahead reaches, ns.
    Ahead,
}

/// Something that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOf {
    /// From due to the hand-over.
    Delay,
    /// From the decision to the hand-over.
    Preparation,
    /// The system call of the hand-over.
    Submission,
    /// How long a completion lay unseen.
    Unseen,
}

/// Which value of a level or a span a series shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of {
    /// The lowest.
    Min,
    /// The mean.
    Mean,
    /// The highest, or the longest.
    Max,
    /// What this share stayed below, from 0 to 1.
    Quantile(f64),
}

/// How the engine spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Preparing and handing over.
    Issuing,
    /// Waiting until something is due.
    Awaiting,
    /// Waiting for completions, because everything due is blocked.
    Blocked,
    /// Waiting for input.
    Starved,
}

/// Lines folded into steps, of all targets together: the extremes are those of any target, the time
/// is that of all.
#[derive(Clone, Debug, Default)]
pub struct TelemetryFigures {
    /// How long the first line's interval was: a step before any two became one, ns.
    base_ns: i64,
    steps: Grid<Step, STEPS_MAX, true>,
    /// Intervals of which no line was kept.
    pub missing: u64,
    /// Lines of a version that is not known, or that are none.
    pub unreadable: u64,
}

impl TelemetryFigures {
    /// Adds a line.
    pub fn observe(&mut self, line: &Line) {
        if line.version != VERSION {
            self.unreadable = self.unreadable.saturating_add(1);
            return;
        }
        self.missing = self.missing.saturating_add(line.missing);
        if self.base_ns == 0 {
            self.base_ns = line.end_ns.saturating_sub(line.start_ns).max(1);
        }
        self.steps.at((line.start_ns.max(0) / self.base_ns) as u64).add(line);
    }

    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.steps.cells().is_empty()
    }

    /// How long a step is, ns.
    pub fn step_ns(&self) -> i64 {
        i64::try_from(i128::from(self.base_ns) << self.steps.shift()).unwrap_or(i64::MAX)
    }

    fn series(
        &self,
        name: &str,
        quantity: Quantity,
        value: impl Fn(&Step) -> Option<f64>,
    ) -> Series {
        let values = self.steps.cells().iter().map(value).collect();
        Series { name: name.to_owned(), quantity, start_ns: 0, step_ns: self.step_ns(), values }
    }

    /// A level over time.
    pub fn level(&self, level: LevelOf, of: Of, name: &str) -> Series {
        let unit = if level == LevelOf::Ahead { "ns" } else { "requests" };
        self.series(name, Quantity::new(name, unit), |cell| {
            let fill = &cell.levels[level as usize];
            match of {
                Of::Min => fill.known.then_some(fill.min as f64),
                Of::Max => fill.known.then_some(fill.max as f64),
                Of::Mean | Of::Quantile(_) => fill.mean(),
            }
        })
    }

    /// How long something took over time.
    pub fn span(&self, span: SpanOf, of: Of, name: &str) -> Series {
        self.series(name, Quantity::new(name, "ns"), |cell| {
            let sum = &cell.spans[span as usize];
            match of {
                Of::Quantile(share) => sum.quantile(share),
                Of::Min => sum.quantile(0.0),
                Of::Mean => sum.quantile(0.5),
                Of::Max => sum.max(),
            }
        })
    }

    /// What share of the issuing threads' time went to something, percent.
    pub fn share(&self, part: Part, name: &str) -> Series {
        self.series(name, Quantity::new(name, "%"), |cell| {
            (cell.time > 0.0).then(|| 100.0 * cell.spent[part as usize] / cell.time)
        })
    }

    /// How often the look-ahead ran empty when something was due.
    pub fn input_stalls(&self, name: &str) -> Series {
        self.series(name, Quantity::new(name, "stalls"), |cell| {
            (cell.time > 0.0).then_some(cell.input_stalls as f64)
        })
    }

    /// The longest that the writer's thread took to hand results to the system.
    pub fn write_max(&self, name: &str) -> Series {
        self.series(name, Quantity::new(name, "ns"), |cell| cell.write_max.map(|ns| ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(start_ns: i64, delay_ns: u64) -> Line {
        Line {
            version: VERSION,
            start_ns,
            end_ns: start_ns.saturating_add(100),
            spent: Spent { issuing_ns: 25, awaiting_ns: 75, ..Spent::default() },
            look_ahead: Some(Level { min: delay_ns, mean: delay_ns as f64, max: delay_ns }),
            delay: Spans {
                count: 1,
                sum_ns: delay_ns,
                max_ns: delay_ns,
                bins: vec![(delay_ns / 4 * 4, 1)],
            },
            ..Line::default()
        }
    }

    #[test]
    fn a_step_keeps_the_extremes_of_all_targets_and_the_shares_of_their_time() {
        let mut figures = TelemetryFigures::default();
        for (target, delay) in [(0, 8), (1, 40)] {
            figures.observe(&Line { target, ..line(0, delay) });
        }
        let value = |series: Series| series.values[0];
        assert_eq!(value(figures.level(LevelOf::LookAhead, Of::Min, "")), Some(8.0));
        assert_eq!(value(figures.level(LevelOf::LookAhead, Of::Mean, "")), Some(24.0));
        assert_eq!(value(figures.level(LevelOf::Input, Of::Max, "")), None);
        assert_eq!(value(figures.span(SpanOf::Delay, Of::Max, "")), Some(40.0));
        assert_eq!(value(figures.share(Part::Issuing, "")), Some(25.0));
    }

    #[test]
    fn a_long_run_has_wider_steps_and_loses_nothing() {
        let mut figures = TelemetryFigures::default();
        let lines = 10 * STEPS_MAX as i64;
        for number in 0..lines {
            figures.observe(&line(number * 100, if number == 77 { 4000 } else { 4 }));
        }
        let steps = figures.steps.cells();
        assert!(steps.len() <= STEPS_MAX && figures.step_ns() == 1600);
        let count: u64 = steps.iter().map(|step| step.spans[0].bins.count()).sum();
        assert_eq!(count, lines as u64);
        let longest = figures.span(SpanOf::Delay, Of::Max, "");
        assert_eq!(longest.values[4], Some(4000.0));
        assert_eq!(longest.values[5], Some(4.0));
    }

    #[test]
    fn a_quantile_lies_no_further_off_than_its_bin() {
        let mut figures = TelemetryFigures::default();
        for number in 1..=100 {
            figures.observe(&line(0, number));
        }
        let of = |share| figures.span(SpanOf::Delay, Of::Quantile(share), "").values[0].unwrap();
        assert!((of(0.5) - 52.0).abs() < 4.1 && of(1.0) >= 99.9, "{} {}", of(0.5), of(1.0));
    }

    #[test]
    fn a_line_of_any_kind_is_borne() {
        let mut figures = TelemetryFigures::default();
        for start in [i64::MAX - 1, i64::MIN, 0, 5] {
            figures.observe(&line(start, u64::MAX));
        }
        figures.observe(&Line { version: 9, ..line(0, 1) });
        assert_eq!(figures.unreadable, 1);
        assert!(figures.steps.cells().len() <= STEPS_MAX);
        assert!(figures.span(SpanOf::Delay, Of::Quantile(0.99), "").values[0].is_some());
    }
}
