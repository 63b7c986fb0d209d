//! The limits of a faithful replay, and the reasons why one is not faithful.
//!
//! The defaults are ioecho's own promises in `docs/fidelity.md`, as far as they need no other tool
//! for comparison: nothing missing, nothing reordered, half of the requests within 3 µs, the
//! duration within 0.05 %. For the 99th percentile that page promises a ratio to a bare pacer; here
//! the limit is the millisecond beyond which the verdict calls a request late
//! ([`LATE`](crate::late::LATE)). The device's own time is a finding and not a fault of a
//! replay, so it has no limit unless the user sets one.

use std::fmt;
use std::str::FromStr;

use ioecho_trace::Nanos;
use ioecho_trace::units::{counted, times};
use serde::{Deserialize, Serialize};

use super::figures::{FidelityFigures, LateFigures, OrderFigures};
use crate::chance::is_above;
use crate::histogram::is_known;
use crate::late::{HARDLY_LATE, LATE};

/// Runs may always be this much longer or shorter than asked for, because in a short run a late
/// last request alone makes a large share.
const DURATION_ABSOLUTE_NS: i64 = 1_000_000;

/// The share of the requests that may come behind one that was due measurably later, those that the
/// engine held back for the device's sake aside: beyond it the 99th percentile may be that of
/// requests in another order. What is due almost at once has hardly an order. The verdict of a run
/// has the same limit.
pub(crate) const APART_SHARE: f64 = 0.01;

/// Requests of others while a replay goes on, as a share of the replay's own. Beyond this share the
/// device had another load to do. The verdict of a run has the same limit.
pub const EXTRA_SHARE: f64 = 0.01;

/// Stalls are few if at most one request in so many came right after one.
const STALLS_PER: u64 = 100;

/// A quantity that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Share of the requests that the device never saw.
    Missing,
    /// Extra requests, as a share of those that were asked for.
    Extra,
    /// Share of the requests that came after a later one, and that the engine did not hold back.
    Reordered,
    /// The same of those that came behind one that was due more than a millisecond later.
    ReorderedApart,
    /// Error of issue: half of the requests.
    IssueP50,
    /// Error of issue: 99 of 100.
    IssueP99,
    /// Error of issue: 999 of 1,000.
    IssueP999,
    /// Error of issue: all.
    IssueMax,
    /// Constant delay of all requests, where both sides count from the same instant.
    Shift,
    /// Error of the time from the first issue to the last.
    Duration,
    /// Slope of the error over time: the span gained or lost in a second.
    Drift,
    /// Distance of the distributions of inter-arrival times.
    InterArrival,
    /// Error of the mean response time.
    ResponseMean,
    /// Error of the 99th percentile of response times.
    ResponseP99,
    /// Share of the requests that reached the device in pieces.
    Split,
    /// Share of the requests that reached the device as parts of others.
    Merged,
}

impl Quantity {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 16] = [
        Self::Missing,
        Self::Extra,
        Self::Reordered,
        Self::ReorderedApart,
        Self::IssueP50,
        Self::IssueP99,
        Self::IssueP999,
        Self::IssueMax,
        Self::Shift,
        Self::Duration,
        Self::Drift,
        Self::InterArrival,
        Self::ResponseMean,
        Self::ResponseP99,
        Self::Split,
        Self::Merged,
    ];

    /// The name in `--limit` and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Reordered => "reordered",
            Self::ReorderedApart => "reordered-apart",
            Self::IssueP50 => "issue-p50",
            Self::IssueP99 => "issue-p99",
            Self::IssueP999 => "issue-p999",
            Self::IssueMax => "issue-max",
            Self::Shift => "shift",
            Self::Duration => "duration",
            Self::Drift => "drift",
            Self::InterArrival => "inter-arrival",
            Self::ResponseMean => "response-mean",
            Self::ResponseP99 => "response-p99",
            Self::Split => "split",
            Self::Merged => "merged",
        }
    }

    /// Whether it is a span of time; otherwise it is a share.
    const fn is_span(self) -> bool {
        matches!(
            self,
            Self::IssueP50
                | Self::IssueP99
                | Self::IssueP999
                | Self::IssueMax
                | Self::Shift
                | Self::Drift
        )
    }

    /// Whether it says something only of a replay that had a schedule to hold.
    const fn needs_schedule(self) -> bool {
        self.is_span()
            || matches!(
                self,
                Self::Reordered | Self::ReorderedApart | Self::Duration | Self::InterArrival
            )
    }

    /// The default limit: nanoseconds or a share.
    const fn default(self) -> Option<f64> {
        match self {
            Self::Missing => Some(0.0),
            Self::Extra => Some(EXTRA_SHARE),
            Self::ReorderedApart => Some(APART_SHARE),
            Self::IssueP50 => Some(100_000.0),
            Self::IssueP99 | Self::Shift => Some(1_000_000.0),
            Self::Duration => Some(0.0005),
            _ => None,
        }
    }

    /// What was measured, in nanoseconds or as a share; `None` where nothing was.
    fn of(self, figures: &FidelityFigures) -> Option<f64> {
        let asked = figures.asked.requests;
        let share = |count: u64| (asked > 0).then(|| count as f64 / asked as f64);
        let issue = figures.issue.as_ref();
        match self {
            Self::Missing => share(figures.missing_counted()),
            Self::Extra => share(figures.extra_counted()),
            Self::Split => share(figures.split),
            Self::Merged => share(figures.merged),
            Self::Reordered | Self::ReorderedApart if figures.found == 0 => None,
            Self::Reordered => figures.order.as_ref().map(OrderFigures::ratio_of_others),
            Self::ReorderedApart => {
                figures.order.as_ref().map(|order| order.apart as f64 / figures.found as f64)
            }
            Self::IssueP50 => issue.map(|issue| issue.p50_ns as f64),
            Self::IssueP99 => issue.map(|issue| issue.p99_ns as f64),
            Self::IssueP999 => issue.map(|issue| issue.p999_ns as f64),
            Self::IssueMax => issue.map(|issue| issue.max_ns as f64),
            Self::Shift => {
                figures.shift_ns.filter(|_| figures.absolute).map(|shift| (shift as f64).abs())
            }
            Self::Duration => figures.duration_error.map(f64::abs),
            // Parts in a million are thousands of nanoseconds in a second.
            Self::Drift => figures.drift_ppm.map(|ppm| ppm.abs() * 1e3),
            Self::InterArrival => figures.inter_arrival_ks,
            Self::ResponseMean => figures.response_mean_error.map(f64::abs),
            Self::ResponseP99 => figures.response_p99_error.map(f64::abs),
        }
    }

    /// Whether so few requests are beyond this limit that it may be chance.
    fn is_chance(self, figures: &FidelityFigures, allowed: f64) -> bool {
        let found = figures.found;
        match self {
            Self::Extra => !is_above(figures.extra_counted(), figures.asked.requests, allowed),
            Self::Reordered => figures
                .order
                .as_ref()
                .is_some_and(|order| !is_above(order.of_others(), found, allowed)),
            Self::ReorderedApart => {
                figures.order.as_ref().is_some_and(|order| !is_above(order.apart, found, allowed))
            }
            // Of few requests the percentile is the latest of all.
            Self::IssueP99 if !is_known(0.99, found) => {
                let is_short = figures.issue.as_ref().is_some_and(|errors| {
                    errors.max_ns <= HARDLY_LATE.0 && errors.earliest_ns >= -(allowed as i64)
                });
                let late = figures.late.as_ref().map_or(0, |late| late.requests);
                is_short && !is_above(late, found, 0.01)
            }
            _ => false,
        }
    }

    /// The value for a person.
    fn shown(self, value: f64) -> String {
        if self == Self::Drift {
            format!("{:.1} ppm", value / 1e3)
        } else if self.is_span() {
            Nanos(value as i64).to_string()
        } else if self == Self::InterArrival {
            format!("{value:.3}")
        } else {
            format!("{} %", percent(value))
        }
    }
}

/// A share in percent with as many digits as it takes to be none of another.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0".to_owned(),
        p if p < 0.001 => format!("{p:.1e}"),
        p if p < 1.0 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

/// A limit as it is typed: `issue-p99=1ms`, `missing=0.1%`, `duration=none`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    quantity: Quantity,
    most: Option<f64>,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(format!("'{text}' has no value; write it like issue-p99=1ms"));
        };
        let Some(quantity) = Quantity::ALL.into_iter().find(|one| one.name() == name.trim()) else {
            let known: Vec<&str> = Quantity::ALL.iter().map(|one| one.name()).collect();
            return Err(format!("'{name}' is nothing to limit; known are {}", known.join(", ")));
        };
        let value = value.trim();
        if value == "none" {
            return Ok(Self { quantity, most: None });
        }
        let most = if quantity.is_span() {
            // A bare number would mean seconds, as everywhere else, and make a limit in
            // microseconds ineffective.
            if value.parse::<f64>().is_ok_and(|number| number != 0.0) {
                return Err(format!("'{value}' has no unit; write it like {value}ms or {value}us"));
            }
            let span: Nanos = value.parse().map_err(|error| format!("{error}"))?;
            span.0 as f64
        } else {
            let (digits, scale) = match value.strip_suffix('%') {
                Some(digits) => (digits.trim(), 100.0),
                None => (value, 1.0),
            };
            let number: f64 = digits.parse().unwrap_or(f64::NAN);
            if !(number.is_finite() && number >= 0.0) {
                return Err(format!("'{value}' is no share; write it like 0.05% or 0.0005"));
            }
            number / scale
        };
        Ok(Self { quantity, most: Some(most) })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most.map_or_else(|| "none".to_owned(), |most| self.quantity.shown(most));
        write!(f, "{}={most}", self.quantity.name())
    }
}

/// The limit of each quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits([Option<f64>; Quantity::ALL.len()]);

impl Default for Limits {
    fn default() -> Self {
        Self(Quantity::ALL.map(Quantity::default))
    }
}

impl Limits {
    /// The defaults, changed by what was asked for; of two limits on the same the last counts.
    pub fn with(asked: &[Limit]) -> Self {
        let mut limits = Self::default();
        for limit in asked {
            limits.0[limit.quantity as usize] = limit.most;
        }
        limits
    }

    /// From when on a request counts as late: the limit on 99 of 100 requests, or its default.
    pub fn late_ns(&self) -> i64 {
        let most = self.0[Quantity::IssueP99 as usize].or(Quantity::IssueP99.default());
        most.map_or(0, |most| most as i64)
    }

    fn most(&self, quantity: Quantity) -> Option<f64> {
        self.0[quantity as usize]
    }
}

/// Why a replay was not faithful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Requests never reached the device.
    MissingRequests,
    /// Requests were seen that nobody asked for.
    ExtraRequests,
    /// Requests came in another order.
    Reordered,
    /// Late because of the device or the kernel above it.
    DeviceLimited,
    /// Late while the device was busy; two traces cannot show whether that is the cause.
    LateWhileBusy,
    /// Late because of the generator.
    GeneratorLimited,
    /// Late because the host stopped the generator.
    HostStalled,
    /// Earlier or later the longer it went on: a clock or a schedule of another speed.
    Drifted,
    /// The replay stalled a few times, and later requests were late because of that.
    Stalled,
    /// Late while the device was idle: generator or host, or something that holds requests back.
    IssuedLate,
    /// Earlier or later than asked for, by no more than each request alone can explain.
    Inexact,
    /// The device's response times differ from the recording's.
    ResponseTimes,
    /// Requests were cut or put together on their way.
    Reshaped,
}

impl Reason {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingRequests => "missing-requests",
            Self::ExtraRequests => "extra-requests",
            Self::Reordered => "reordered",
            Self::DeviceLimited => "device-limited",
            Self::LateWhileBusy => "late-while-busy",
            Self::GeneratorLimited => "generator-limited",
            Self::HostStalled => "host-stalled",
            Self::Drifted => "drifted",
            Self::Stalled => "stalled",
            Self::IssuedLate => "issued-late",
            Self::Inexact => "inexact",
            Self::ResponseTimes => "response-times",
            Self::Reshaped => "reshaped",
        }
    }
}

/// A limit that is broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// What.
    pub limit: Quantity,
    /// What was measured: nanoseconds, or a share.
    pub measured: f64,
    /// What is allowed.
    pub allowed: f64,
    /// Why.
    pub reason: Reason,
    /// The same as a sentence.
    pub text: String,
}

/// Whether a replay was faithful.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// No limit is broken, and something was there to be held against them.
    pub faithful: bool,
    /// Why not, each once, the gravest first.
    pub reasons: Vec<Reason>,
    /// The limits that are broken.
    pub broken: Vec<Broken>,
    /// Findings that are not faults of the replay.
    pub findings: Vec<Reason>,
    /// Limits without a measurement, or without meaning for a replay without a schedule.
    pub unmeasured: Vec<Quantity>,
}

/// Compares the figures with the limits. Without a schedule (`has_schedule` false) instants are
/// ignored.
pub fn assess(figures: &FidelityFigures, limits: &Limits, has_schedule: bool) -> Assessment {
    let (mut broken, mut unmeasured) = (Vec::new(), Vec::new());
    for quantity in Quantity::ALL {
        let Some(allowed) = limits.most(quantity) else { continue };
        let measured = quantity.of(figures).filter(|_| has_schedule || !quantity.needs_schedule());
        let Some(measured) = measured else {
            unmeasured.push(quantity);
            continue;
        };
        let spans = figures.seen.span_ns.zip(figures.due_span_ns);
        let is_short = quantity == Quantity::Duration
            && spans.is_some_and(|(seen, due)| {
                seen.saturating_sub(due).saturating_abs() <= DURATION_ABSOLUTE_NS
            });
        if measured <= allowed || is_short || quantity.is_chance(figures, allowed) {
            continue;
        }
        let reason = reason(quantity, figures);
        let text = sentence(quantity, reason, figures, measured, allowed);
        broken.push(Broken { limit: quantity, measured, allowed, reason, text });
    }
    let mut reasons: Vec<Reason> = broken.iter().map(|one: &Broken| one.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let faithful = broken.is_empty() && figures.found > 0;
    let findings = if has_schedule { findings(figures, limits) } else { Vec::new() };
    Assessment { faithful, reasons, broken, findings, unmeasured }
}

/// Effects of the device beyond a limit, which are not faults of the replay.
fn findings(figures: &FidelityFigures, limits: &Limits) -> Vec<Reason> {
    let Some(order) = figures.order.as_ref().filter(|order| order.held_back > 0) else {
        return Vec::new();
    };
    // Together with what the engine held back for the device's sake.
    let beyond = [
        (Quantity::Reordered, order.reordered),
        (Quantity::ReorderedApart, order.apart.saturating_add(order.held_back)),
    ];
    let is_beyond = beyond.into_iter().any(|(quantity, count)| {
        limits.most(quantity).is_some_and(|allowed| is_above(count, figures.found, allowed))
    });
    if is_beyond { vec![Reason::DeviceLimited] } else { Vec::new() }
}

fn reason(quantity: Quantity, figures: &FidelityFigures) -> Reason {
    match quantity {
        Quantity::Missing => Reason::MissingRequests,
        Quantity::Extra => Reason::ExtraRequests,
        Quantity::Reordered | Quantity::ReorderedApart => Reason::Reordered,
        Quantity::ResponseMean | Quantity::ResponseP99 => Reason::ResponseTimes,
        Quantity::Split | Quantity::Merged => Reason::Reshaped,
        // What was seen ends early, and what was to come behind it is missing.
        Quantity::Duration if ends_early(figures) => Reason::MissingRequests,
        _ => whose(figures),
    }
}

/// Whether what was seen is shorter than what was asked for, and requests are missing.
fn ends_early(figures: &FidelityFigures) -> bool {
    figures.missing_counted() > 0
        && figures
            .seen
            .span_ns
            .zip(figures.asked.span_ns)
            .is_some_and(|(seen, asked)| asked.saturating_sub(seen) > DURATION_ABSOLUTE_NS)
}

/// Whether errors that grow evenly are at least half of how far they lie apart: those left without
/// the slope are less than half as large.
fn explained_by_drift(figures: &FidelityFigures) -> bool {
    let (Some(issue), Some(rest)) = (&figures.issue, &figures.detrended) else { return false };
    rest.p99_ns < issue.p99_ns / 2 && figures.drift_ppm.is_some_and(|ppm| ppm != 0.0)
}

/// The main cause of the late requests.
fn whose(figures: &FidelityFigures) -> Reason {
    let unexplained = || {
        if explained_by_stalls(figures) {
            Reason::Stalled
        } else if explained_by_drift(figures) {
            Reason::Drifted
        } else {
            Reason::Inexact
        }
    };
    let Some(late) = figures.late.as_ref().filter(|late| late.requests > 0) else {
        return unexplained();
    };
    let parties = [
        (late.device, Reason::DeviceLimited),
        (late.busy, Reason::LateWhileBusy),
        (late.host, Reason::HostStalled),
        (late.generator, Reason::GeneratorLimited),
        (late.idle, Reason::IssuedLate),
        (late.unknown, Reason::Inexact),
    ];
    // Of equals the first: it blames the measurement last.
    let most = parties.iter().map(|party| party.0).max().unwrap_or(0);
    match parties.iter().find(|party| party.0 == most).map_or(Reason::Inexact, |party| party.1) {
        Reason::Inexact => unexplained(),
        Reason::IssuedLate => match unexplained() {
            Reason::Inexact => Reason::IssuedLate,
            explained => explained,
        },
        whose => whose,
    }
}

/// Whether a few stalls of the replay explain at least half of the spread of its errors.
fn explained_by_stalls(figures: &FidelityFigures) -> bool {
    let Some(stalls) = &figures.stalls else { return false };
    let apart =
        figures.issue.as_ref().map_or(0, |issue| issue.latest_ns.saturating_sub(issue.earliest_ns));
    let is_few = stalls.stalls > 0 && stalls.stalls <= (figures.found / STALLS_PER).max(1);
    is_few && stalls.total_ns >= apart / 2
}

/// Where and how long the replay stood still, if that explains how late it was.
fn stalls(figures: &FidelityFigures) -> Option<String> {
    let all = figures.stalls.as_ref().filter(|_| explained_by_stalls(figures));
    all.map(|all| {
        format!(
            "it stood still {} for more than {}, {} in all; the longest took {} after {:.6} s",
            times(all.stalls),
            Nanos(all.beyond_ns),
            Nanos(all.total_ns),
            Nanos(all.longest_ns),
            Nanos(all.longest_at_ns).as_secs_f64()
        )
    })
}

/// How many requests came after later ones, and how many of them nobody blames the replay for.
fn reordered(quantity: Quantity, order: &OrderFigures) -> String {
    if quantity == Quantity::ReorderedApart {
        return format!("{} came behind one due more than {LATE} later", order.apart);
    }
    let behind = if order.held_back > 0 {
        format!(
            "; {} more did that the engine held back behind requests that the device had not done",
            order.held_back
        )
    } else {
        String::new()
    };
    format!(
        "{} came after a later one, by {:.1} places on average{behind}",
        counted(order.of_others(), "request"),
        order.extent_mean
    )
}

/// What is to be said of errors that nothing explains.
fn inexact(figures: &FidelityFigures, late: &LateFigures) -> String {
    let beyond = Nanos(late.beyond_ns);
    if late.requests > 0 {
        return format!("later than {beyond}: {}", counted(late.requests, "request"));
    }
    match figures.issue.as_ref().map(|issue| issue.earliest_ns) {
        Some(earliest) if earliest.saturating_neg() > late.beyond_ns => format!(
            "no request was later than {beyond}, and some were early, by up to {}",
            Nanos(earliest.saturating_neg())
        ),
        _ => format!("no request was later than {beyond}: this is jitter"),
    }
}

fn sentence(
    quantity: Quantity,
    reason: Reason,
    figures: &FidelityFigures,
    measured: f64,
    allowed: f64,
) -> String {
    let head = format!(
        "{} is {}, and {} is allowed",
        quantity.name(),
        quantity.shown(measured),
        quantity.shown(allowed)
    );
    let late = figures.late.clone().unwrap_or_default();
    let beyond = Nanos(late.beyond_ns);
    let why = match reason {
        Reason::MissingRequests => {
            let dropped: Vec<String> =
                figures.not_issued.iter().map(|(why, count)| format!("{count} {why}")).collect();
            let known = if dropped.is_empty() {
                String::new()
            } else {
                format!(" (not issued: {})", dropped.join(", "))
            };
            format!(
                "{} of {} never reached the device{known}",
                figures.missing_counted(),
                counted(figures.asked.requests, "request")
            )
        }
        Reason::ExtraRequests => {
            let extra = counted(figures.extra_counted(), "request");
            format!("the device saw {extra} that nobody asked for while it was replayed")
        }
        Reason::Reordered => reordered(quantity, &figures.order.clone().unwrap_or_default()),
        Reason::DeviceLimited if late.held_back * 2 > late.device => format!(
            "the device side could not take the load: {} of {} requests later than {beyond} were \
             handed over in time and held back on their way (throttling, or a full queue)",
            late.held_back, late.requests
        ),
        Reason::DeviceLimited => format!(
            "the device could not take the load: it was busy while {} of {} requests later than \
             {beyond} were due",
            late.device, late.requests
        ),
        Reason::LateWhileBusy => format!(
            "the device was busy while {} of {} requests later than {beyond} were due: it could \
             not take them, or the generator was late, and two traces cannot tell which",
            late.busy, late.requests
        ),
        Reason::GeneratorLimited => format!(
            "the generator was late: it could not read or prepare {} of {} requests later than \
             {beyond} in time",
            late.generator, late.requests
        ),
        Reason::HostStalled => format!(
            "the generator was kept away: the host did not run it while {} of {} requests later \
             than {beyond} were due",
            late.host, late.requests
        ),
        Reason::Drifted => format!(
            "errors grew evenly, by {:.1} ppm of the time: a clock or a schedule of another speed, \
             and no request by itself",
            figures.drift_ppm.unwrap_or_default()
        ),
        // What it says stands behind all that are late.
        Reason::Stalled => {
            "the replay stood still, and what came behind was late for it".to_owned()
        }
        Reason::IssuedLate => format!(
            "the generator was late: the device was idle while {} of {} requests later than \
             {beyond} were due (it was stopped or slow, or something held its requests back)",
            late.idle, late.requests
        ),
        Reason::Inexact => inexact(figures, &late),
        Reason::ResponseTimes => "the device answered otherwise than in the recording".to_owned(),
        Reason::Reshaped => format!(
            "{} reached the device in pieces and {} as parts of others",
            counted(figures.split, "request"),
            figures.merged
        ),
    };
    let is_late = matches!(
        reason,
        Reason::DeviceLimited
            | Reason::GeneratorLimited
            | Reason::LateWhileBusy
            | Reason::HostStalled
            | Reason::Drifted
            | Reason::Stalled
            | Reason::IssuedLate
            | Reason::Inexact
    );
    let stalls = stalls(figures).filter(|_| is_late);
    let stalls = stalls.map_or(String::new(), |stalls| format!("; {stalls}"));
    format!("{head}: {why}{stalls}")
}

#[cfg(test)]
mod tests;
