//! The figures of a comparison, as `ioecho check --json` prints them. Keys are added and never
//! changed.

use std::collections::BTreeMap;

use ioecho_trace::Op;
use serde::{Deserialize, Serialize};

use super::event::Event;

/// Response times are compared where the completion of at most one request in so many is unknown.
const UNKNOWN_PER: u64 = 10;

/// How a request was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// As it was asked for.
    Whole,
    /// In pieces, which together are the request.
    Split,
    /// As a part of a longer request of which all is accounted for.
    Merged,
}

/// The cause of a late request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The device, or what lies above it in the kernel, could not take it.
    Device,
    /// The device was busy while it was due: the device could not take it, or the generator waited
    /// for the device, or was late by itself. Only a run's own results can tell these apart.
    Busy,
    /// The generator could not issue it.
    Generator,
    /// The host kept the generator away.
    Host,
    /// The device was idle while it was due: generator or host, or something that holds requests
    /// back above the device. Only a run's own results can tell these apart.
    Idle,
    /// Unknown: no completions were recorded.
    Unknown,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 6] =
        [Self::Device, Self::Busy, Self::Generator, Self::Host, Self::Idle, Self::Unknown];
}

/// What one side holds. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideFigures {
    /// Requests. On the side of the device only those that were asked for.
    pub requests: u64,
    /// First issue to last issue; `None` of what was asked for without a schedule, and of nothing.
    pub span_ns: Option<i64>,
    /// First issue to last completion; `None` where no completion is known, and as above.
    pub execution_ns: Option<i64>,
    /// Mean time that the device took; this and the next are `None` where no completion is known.
    pub response_mean_ns: Option<f64>,
    /// Half of the requests took no longer.
    pub response_p50_ns: Option<i64>,
    /// 99 of 100 took no longer.
    pub response_p99_ns: Option<i64>,
    /// 999 of 1,000 took no longer.
    pub response_p999_ns: Option<i64>,
    /// Mean number in flight: the sum of all response times by the time of execution (Little). This
    /// and the next are `None` where the time of execution is.
    pub in_flight_mean: Option<f64>,
    /// Most requests in flight together.
    pub in_flight_max: Option<u64>,
    /// Requests of which no completion is known.
    pub without_completion: u64,
}

impl SideFigures {
    /// Whether so many completions are known that the others change little. A recorder does not
    /// lose them at random: it loses most under the highest load.
    pub fn completions_known(&self) -> bool {
        self.without_completion.saturating_mul(UNKNOWN_PER) <= self.requests
    }
}

/// Error of the instants of issue, in nanoseconds; late is positive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorFigures {
    /// Half of the errors are no larger, early or late.
    pub p50_ns: i64,
    /// 99 of 100 are no larger.
    pub p99_ns: i64,
    /// 999 of 1,000 are no larger.
    pub p999_ns: i64,
    /// The largest.
    pub max_ns: i64,
    /// One request in a hundred was earlier than this.
    pub early_p1_ns: i64,
    /// One request in a hundred was later than this.
    pub late_p99_ns: i64,
    /// The earliest.
    pub earliest_ns: i64,
    /// The latest.
    pub latest_ns: i64,
}

/// How values are spread, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// Half are no larger.
    pub p50_ns: i64,
    /// 99 of 100 are no larger.
    pub p99_ns: i64,
    /// 999 of 1,000 are no larger.
    pub p999_ns: i64,
    /// The smallest.
    pub min_ns: i64,
    /// The largest.
    pub max_ns: i64,
}

/// Order by RFC 4737.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderFigures {
    /// Requests that came after a later one (section 3.3).
    pub reordered: u64,
    /// Of these, those that the engine of a run held back, because they overlap a request that the
    /// device had not done yet, or for the cap on requests in flight.
    pub held_back: u64,
    /// Of the others, those that were to come more than a millisecond before one that came first.
    /// What is due closer together has hardly an order: the kernel passes a burst on in several
    /// ways at once.
    #[serde(default)]
    pub apart: u64,
    /// The share of the reordered ones of all that came (section 4.1).
    pub ratio: f64,
    /// Mean extent of the reordered ones (section 4.2): how many came between the first later one
    /// and the request, in requests.
    pub extent_mean: f64,
    /// Largest extent.
    pub extent_max: u64,
    /// How far a reordered request lies behind the latest one before it, in the order that was
    /// asked for: the mean. hfplayer calls it the out-of-order distance.
    pub displacement_mean: f64,
    /// The largest.
    pub displacement_max: u64,
    /// Runs of requests without a reordered one (section 4.6).
    pub free_runs: u64,
    /// Their mean length.
    pub free_run_mean: f64,
    /// The longest.
    pub free_run_max: u64,
}

impl OrderFigures {
    /// The reordered requests that the engine did not hold back.
    pub fn of_others(&self) -> u64 {
        self.reordered.saturating_sub(self.held_back)
    }

    /// Their share of all that came. A device slower than the original one is a finding, not a
    /// fault of the replay, so this share is judged.
    pub fn ratio_of_others(&self) -> f64 {
        if self.reordered == 0 {
            return 0.0;
        }
        self.ratio * (self.of_others() as f64 / self.reordered as f64)
    }
}

/// The figures of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindFigures {
    /// Requests that were asked for.
    pub asked: u64,
    /// Of these, those that the device saw.
    pub found: u64,
    /// Requests that nobody asked for.
    pub extra: u64,
    /// Requests that came after a later one of any kind; `None` without a schedule.
    #[serde(default)]
    pub reordered: Option<u64>,
    /// Error of issue; `None` where none was found.
    pub issue: Option<ErrorFigures>,
    /// Of runs: the same as the engine believed it.
    pub engine: Option<ErrorFigures>,
    /// Of runs, with absolute clocks: handed to the kernel until seen at the device.
    pub submission_lag: Option<Spread>,
}

/// Requests that reached the device late, by cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateFigures {
    /// What counts as late, in nanoseconds.
    pub beyond_ns: i64,
    /// How many there are.
    pub requests: u64,
    /// Of these: device.
    pub device: u64,
    /// Of the device's: those that the generator handed over in time, and that something between it
    /// and the device held back, such as throttling.
    pub held_back: u64,
    /// Of two traces: the device was busy meanwhile.
    #[serde(default)]
    pub busy: u64,
    /// Generator.
    pub generator: u64,
    /// Host.
    pub host: u64,
    /// The device was idle meanwhile.
    pub idle: u64,
    /// Nobody can tell.
    pub unknown: u64,
}

/// Pauses without requests that were longer than in the schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StallFigures {
    /// By how much longer, in nanoseconds.
    pub beyond_ns: i64,
    /// How many there are.
    pub stalls: u64,
    /// How much longer all of them together were.
    pub total_ns: i64,
    /// How much longer the longest was.
    pub longest_ns: i64,
    /// Where the longest lies: when the last request before it was due.
    pub longest_at_ns: i64,
}

/// A request that is told as an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// When, in nanoseconds of its own side.
    pub at_ns: i64,
    /// What.
    pub op: Op,
    /// Where.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// By which process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

impl Example {
    /// Of a request of either side.
    pub(super) fn of(event: &Event) -> Self {
        Self {
            at_ns: event.at,
            op: event.op,
            offset_bytes: event.offset,
            length_bytes: event.length,
            pid: event.pid,
        }
    }
}

/// The figures of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FidelityFigures {
    /// What was asked for.
    pub asked: SideFigures,
    /// What the device saw of it.
    pub seen: SideFigures,
    /// Requests that were found, in whatever form.
    pub found: u64,
    /// Of these, in pieces.
    pub split: u64,
    /// How many pieces these have.
    pub pieces: u64,
    /// Of these, as parts of longer requests.
    pub merged: u64,
    /// How many longer requests there are.
    pub unions: u64,
    /// Requests that were asked for and not seen; those that the run did not issue are among them.
    pub missing: u64,
    /// Requests that were issued where the recorder could see nothing: behind the end of a
    /// recording that broke off, or where events were lost. They are neither found nor missing.
    pub not_witnessed: u64,
    /// Of the missing ones, those that the run did not issue, by what became of them.
    pub not_issued: BTreeMap<String, u64>,
    /// Of the missing ones, flushes where the device saw none at all: the kernel ends a flush above
    /// a device without a volatile cache.
    pub flushes_ended_above: u64,
    /// Requests that were seen and not asked for.
    pub extra: u64,
    /// Of these, how many before the first and behind the last that was asked for.
    pub extra_outside: u64,
    /// Extra requests by the number of their process, the most first; a dozen at most.
    pub extra_by_process: Vec<(u32, u64)>,
    /// The first missing requests.
    pub first_missing: Vec<Example>,
    /// The first extra requests.
    pub first_extra: Vec<Example>,
    /// Whether both sides count from the same instant.
    pub absolute: bool,
    /// The median of what was seen less what was asked for, in nanoseconds. With `absolute` a
    /// constant delay, otherwise the distance of the two clocks. It is taken away from all errors.
    pub shift_ns: Option<i64>,
    /// Error of issue at the device. All errors and what follows from them are `None` without a
    /// schedule.
    pub issue: Option<ErrorFigures>,
    /// The same of requests that were due less than 20 µs behind another one.
    pub issue_crowded: Option<ErrorFigures>,
    /// And of the others.
    pub issue_apart: Option<ErrorFigures>,
    /// How many of those that were found were due so close behind another one.
    pub crowded: u64,
    /// Slope of the error over time, in millionths: a clock or a schedule that runs too slow has a
    /// positive one. The median slope between medians of blocks (Theil and Sen), stalls left out.
    pub drift_ppm: Option<f64>,
    /// Error of issue less that slope.
    pub detrended: Option<ErrorFigures>,
    /// Of runs: error of issue as the engine believed it.
    pub engine: Option<ErrorFigures>,
    /// Of runs, with `absolute`: handed to the kernel until seen at the device.
    pub submission_lag: Option<Spread>,
    /// Of runs, with `absolute`: completed at the device until the engine saw it.
    pub completion_lag: Option<Spread>,
    /// Of runs: service time as the engine measured it less the device's own: both lags together.
    pub overhead: Option<Spread>,
    /// First due to last due of the requests that were asked for, in nanoseconds; where a part was
    /// not witnessed, of those that were found. What `duration_error` compares.
    #[serde(default)]
    pub due_span_ns: Option<i64>,
    /// By how much the time from first to last issue differs, as a share of what was asked for.
    pub duration_error: Option<f64>,
    /// The same from the first issue to the last completion.
    pub execution_error: Option<f64>,
    /// By how much the mean response time differs, as a share. This, the next and the one before
    /// are `None` where the completions of too many requests are unknown.
    pub response_mean_error: Option<f64>,
    /// By how much the 99th percentile of response times differs, as a share.
    pub response_p99_error: Option<f64>,
    /// Impossible pairs: seen before the engine handed the request over, or done at the device
    /// after the engine saw it done. They are in neither lag.
    pub impossible: u64,
    /// Moments in which the replay stood still; this and the next are `None` without a schedule.
    pub stalls: Option<StallFigures>,
    /// Order.
    pub order: Option<OrderFigures>,
    /// Kolmogorov and Smirnov's distance of the two distributions of inter-arrival times.
    pub inter_arrival_ks: Option<f64>,
    /// Late requests; `None` without a schedule.
    pub late: Option<LateFigures>,
    /// By kind of request, those that there are.
    pub kinds: BTreeMap<String, KindFigures>,
    /// Every so many requests one counts in the percentiles; 1 where all do.
    pub sampled_every: u64,
    /// Whether a side was longer than the window, so that a request whose counterpart is further
    /// off is missing here and extra there.
    pub windowed: bool,
}

impl FidelityFigures {
    /// The same without all that holds instants and their order against a schedule.
    #[must_use]
    pub(super) fn without_schedule(mut self) -> Self {
        for kind in self.kinds.values_mut() {
            (kind.issue, kind.engine, kind.reordered) = (None, None, None);
        }
        let asked = SideFigures {
            span_ns: None,
            execution_ns: None,
            in_flight_mean: None,
            in_flight_max: None,
            ..self.asked
        };
        Self {
            asked,
            shift_ns: None,
            issue: None,
            issue_crowded: None,
            issue_apart: None,
            crowded: 0,
            drift_ppm: None,
            detrended: None,
            engine: None,
            due_span_ns: None,
            duration_error: None,
            execution_error: None,
            stalls: None,
            order: None,
            inter_arrival_ks: None,
            late: None,
            ..self
        }
    }

    /// Requests that are missing against what could have been there: all but flushes that the
    /// kernel ended.
    pub fn missing_counted(&self) -> u64 {
        self.missing.saturating_sub(self.flushes_ended_above)
    }

    /// Requests of others while the replay went on: what was seen before its first request and
    /// behind its last is no part of its load.
    pub fn extra_counted(&self) -> u64 {
        self.extra.saturating_sub(self.extra_outside)
    }
}
