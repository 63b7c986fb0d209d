//! The result of a run in a sentence, for a reader with five seconds.
//!
//! A verdict is about schedules, causes and checks. A reader who must decide about a device asks
//! whether it is fast enough, and reads one sentence. This module has that sentence for each
//! finding, with only the figures that belong to the finding; terminal and page show the same.

use ioecho_trace::transform::{busiest, window};
use ioecho_trace::units::{counted, times, two_digits};
use ioecho_trace::{LateCause, Nanos, TimingMode};

use crate::critical_path::CriticalPath;
use crate::facts::{EngineFacts, VerifyFigures, clients, files_and_threads};
use crate::judge::{GENERATOR, HOST, IN_FLIGHT_DEFAULT, OWN, is_most_of, is_starved_by};
use crate::late::{DEVICE, LATE};
use crate::per_flow::Along;
use crate::picture::{Kind, Moment, Panels, Span};
use crate::run_summary::{ByKind, Percentiles, RunSummary, TargetFigures, cause_name};
use crate::verdict::{Check, Finding, Grade, Validity};

/// From this ratio of the run's duration to the demanded duration on, the sentence mentions it.
const LONGER: f64 = 1.05;

/// From this share of the load on, the sentence mentions requests that were left out.
const LEFT_OUT: f64 = 0.01;

/// A device that needs at least so long at its slowest moments is said to have had such moments.
const SLOW_TOLD: Nanos = Nanos::from_millis(100);

/// Moments that cover no more than this share of the run are exceptions; beyond it the sentence has
/// the share of the requests that were slow, because most may have been quick beside them. What
/// covers nearly all of the run is no moment any more.
const MOMENTS_FEW: f64 = 0.25;
const MOMENTS_MOST: f64 = 0.9;

/// This share of what was late must have been late at such moments, or the device was too slow for
/// the load beside them.
const MOMENTS_OWN: f64 = 0.9;

/// The first screen of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// The finding in a sentence.
    pub sentence: String,
    /// The achieved and the demanded throughput.
    pub throughput: Option<Throughput>,
    /// The span of `percentiles`: the service time where no request had an instant at which it was
    /// due, because then the beginning of a user's wait is unknown.
    pub span: Span,
    /// Reads and writes, if there were any, and the operation that had the slowest request;
    /// otherwise the operations that there were.
    pub percentiles: Vec<(&'static str, Percentiles)>,
    /// The share from which on percentiles of the response times are the host's.
    pub host_owned_from: Option<f64>,
    /// How long the device worked off what had queued up, as in the summary.
    pub drain_percent: Option<f64>,
    /// Whether the run broke off: how long its load is was never read then.
    pub is_cut_short: bool,
}

impl Headline {
    /// Whether the percentile of response times at this share is that of requests that host or
    /// generator delayed.
    pub fn is_host_owned(&self, span: Span, share: f64) -> bool {
        span == Span::Response && self.host_owned_from.is_some_and(|from| share >= from)
    }
}

/// Rates over the time with requests. Demand ends when the last request was due, achievement with
/// the last completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Requests per second that completed in full.
    pub achieved_requests: f64,
    /// Bytes per second that they read or wrote.
    pub achieved_bytes: f64,
    /// Requests and bytes per second that were asked for; `None` without a schedule.
    pub demanded: Option<(f64, f64)>,
}

impl Headline {
    /// The first screen of the run with this picture.
    pub fn of(summary: &RunSummary, panels: &Panels) -> Self {
        let is_due = summary.engine.has_due_instants();
        let span = if is_due { Span::Response } else { Span::Service };
        let throughput = Throughput::of(panels, summary);
        Self {
            sentence: sentence(summary, panels, throughput.as_ref()),
            throughput,
            span,
            percentiles: percentiles(by_kind(summary, span)),
            host_owned_from: summary.host_owned_from,
            drain_percent: summary.drain_percent,
            is_cut_short: !summary.engine.incomplete.is_empty(),
        }
    }
}

impl Throughput {
    fn of(panels: &Panels, summary: &RunSummary) -> Option<Self> {
        let all = || 0..panels.buckets;
        let counted = |requests: &[u64]| requests.iter().sum::<u64>();
        // A single request has no rate.
        if counted(&panels.demanded_requests) < 2 {
            return None;
        }
        let has_schedule = summary.engine.has_schedule();
        // A rate that is asked for is one of reads, say, and not of the opens that come along.
        let own = |rate: f64, all: u64, along: fn(&Along) -> u64| {
            let flows = summary.per_flow.iter();
            let along: u64 = flows.map(|flow| along(&flow.along)).sum();
            if has_schedule && along > 0 {
                rate * (all.saturating_sub(along) as f64 / all.max(1) as f64)
            } else {
                rate
            }
        };
        let (asked, done) = (&panels.demanded_requests, &panels.achieved_requests);
        let demanded = panels.demanded_request_rate().mean(all());
        let demanded = demanded.map(|rate| own(rate, counted(asked), |along| along.requests));
        let demanded = demanded.zip(panels.demanded_byte_rate().mean(all()));
        let achieved = panels.achieved_request_rate().mean(all())?;
        Some(Self {
            achieved_requests: own(achieved, counted(done), |along| along.completed),
            achieved_bytes: panels.achieved_byte_rate().mean(all())?,
            demanded: demanded.filter(|_| has_schedule),
        })
    }
}

const fn by_kind(summary: &RunSummary, span: Span) -> &ByKind {
    match span {
        Span::Service => &summary.service_time,
        Span::Response => &summary.response_time,
        Span::Lateness => &summary.lateness,
    }
}

fn percentiles(by_kind: &ByKind) -> Vec<(&'static str, Percentiles)> {
    let of = |kind: &Kind| Some((*kind, *by_kind.get(kind.name())?));
    let there: Vec<(Kind, Percentiles)> = Kind::ALL.iter().filter_map(of).collect();
    let is_data = |kind: Kind| matches!(kind, Kind::READ | Kind::WRITE);
    let has_data = there.iter().any(|(kind, _)| is_data(*kind));
    // The sentence tells of the slowest of all, which is seen here whatever it was.
    let slowest = by_kind.get("all").map(|all| all.max_ns);
    let is_told = |(kind, of): &(Kind, Percentiles)| {
        !has_data || is_data(*kind) || Some(of.max_ns) == slowest
    };
    there.into_iter().filter(is_told).map(|(kind, of)| (kind.label(), of)).collect()
}

fn sentence(summary: &RunSummary, panels: &Panels, rates: Option<&Throughput>) -> String {
    let RunSummary { verdict, engine, .. } = summary;
    let text = match verdict.finding {
        Finding::DataDamaged => damaged(summary),
        // No share of the load is stated: it was not read to its end.
        Finding::Incomplete => {
            // Of requests without an answer no instant is known.
            let last = summary.achieved_duration_ns.max(0) as u64;
            let after = if last > 0 { format!(" after {}", span(last)) } else { String::new() };
            let why = engine.incomplete.lines().next().unwrap_or_default();
            format!("The run was cut short{after}: {why}.")
        }
        _ if engine.issued == 0 => "Nothing was replayed: no request was issued.".to_owned(),
        Finding::GeneratorLimited if are_files_few(summary) => format!(
            "The load itself could not reach its rate: {}, and {} waited for a file that another \
             thread had.",
            files_and_threads(&engine.flows),
            share_of(&[LateCause::File], summary)
        ),
        Finding::GeneratorLimited | Finding::HostStalled
            if let Some(path) = summary.critical_path.filter(CriticalPath::is_own) =>
        {
            format!(
                "{}: of the time that this load took, {} % is the replay's own and not the \
                 storage's, because each request waited for the one before.",
                fault(verdict.validity),
                two_digits(path.own_share() * 100.0)
            )
        }
        Finding::GeneratorLimited => format!(
            "{}: ioecho did not issue {} in time.",
            fault(verdict.validity),
            share_of(&GENERATOR, summary)
        ),
        Finding::HostStalled => format!(
            "{}: the host kept ioecho from issuing {} in time.",
            fault(verdict.validity),
            share_of(&kept_away(summary), summary)
        ),
        Finding::ForeignLoad => {
            let fault = fault(verdict.validity);
            format!("{fault}: others used the device beside the replay.")
        }
        Finding::Faithful | Finding::Unscheduled | Finding::DeviceLimited
            if verdict.validity == Validity::Invalid =>
        {
            format!("Do not use these figures: {}.", failed(summary, panels))
        }
        Finding::DeviceLimited => too_slow(summary, panels),
        Finding::Faithful | Finding::Unscheduled => held(summary, panels, rates),
    };
    if engine.simulated { format!("Simulated: {}", lower(&text)) } else { text }
}

/// Whether threads that waited for each other's files made most of what was late within ioecho.
fn are_files_few(summary: &RunSummary) -> bool {
    is_most_of(LateCause::File, |cause| {
        summary.late.get(cause_name(cause)).map_or(0, |late| late.lateness_ns)
    })
}

/// What a fault of the measurement means for its figures.
const fn fault(validity: Validity) -> &'static str {
    match validity {
        Validity::Invalid => "The measurement failed",
        Validity::Suspect | Validity::Valid => "Read these figures with care",
    }
}

fn damaged(summary: &RunSummary) -> String {
    let verify = summary.engine.verify.as_ref();
    let sectors =
        verify.map_or(0, |verify| verify.damaged_sectors.saturating_add(verify.unreadable_sectors));
    if let Some(names) = verify.and_then(VerifyFigures::names_told).filter(|_| sectors == 0) {
        return format!("The file system lost or altered what was made in it: {names}.");
    }
    if sectors == 0 {
        return "The device lost or altered data that were written to it.".to_owned();
    }
    // A sector that was looked at twice counts twice.
    let times = times(sectors);
    format!("The device lost or altered data: {times} a sector did not come back as written.")
}

fn too_slow(summary: &RunSummary, panels: &Panels) -> String {
    let load = load(summary);
    let engine = &summary.engine;
    let cost =
        |cause: &LateCause| summary.late.get(cause_name(*cause)).map_or(0, |late| late.lateness_ns);
    let most = DEVICE.iter().max_by_key(|cause| cost(cause));
    let is_capped = (1..IN_FLIGHT_DEFAULT).contains(&engine.in_flight_max)
        && most == Some(&LateCause::InFlightCap);
    let device = if is_capped {
        format!("With at most {} in flight the device was too slow", engine.in_flight_max)
    } else if let Some((name, devices)) = slowest(summary) {
        format!("{name}, the slowest of {devices} devices, was too slow")
    } else {
        "The device was too slow".to_owned()
    };
    // What was due by an end that was asked for was demanded, whether or not it was issued.
    let ended = engine.ended_after.map_or(0, |ended| ended.after_ns);
    let demanded = panels.demanded_end_ns.max(ended);
    let ratio = panels.achieved_end_ns as f64 / demanded.max(1) as f64;
    let longer = if ratio < LONGER {
        String::new()
    } else if demanded > 0 {
        format!("{} times as long, ", two_digits(ratio))
    } else {
        // All was due at once.
        format!("it took {}, ", span(panels.achieved_end_ns.max(0) as u64))
    };
    let is_over = longer.is_empty() && !summary.verdict.checks.iter().any(is_behind);
    let moments = slow_moments(engine, panels).filter(|moments| {
        let late = panels.late_share_within(moments, LATE.0);
        is_over && !is_capped && late >= MOMENTS_OWN
    });
    if let Some(moments) = moments {
        return format!(
            "{device} for {load} {}{}.",
            at_moments(&moments, panels),
            response(summary)
        );
    }
    let slow = summary.response_time.get("all").map_or(String::new(), |all| match all.p99_ns {
        Some(p99) => format!("p99 response {}", span(p99)),
        None => format!("the slowest response {}", span(all.max_ns)),
    });
    format!("{device} for {load}: {longer}{slow}.")
}

/// Of several devices the name of the one whose requests took longest in the mean since they were
/// due, and how many there are.
fn slowest(summary: &RunSummary) -> Option<(&str, usize)> {
    let mean = |of: Option<Percentiles>| of.map_or(0, |of| of.mean_ns);
    let response =
        |target: &&TargetFigures| mean(target.lateness).saturating_add(mean(target.service_time));
    let slowest = summary.per_target.iter().max_by_key(response)?;
    let name = &summary.engine.load.targets.get(usize::from(slowest.target))?.name;
    (summary.per_target.len() > 1 && !name.is_empty())
        .then_some((name.as_str(), summary.per_target.len()))
}

/// Whether this is the check of the duration, and the run was behind at its end.
fn is_behind(check: &Check) -> bool {
    check.name == "duration" && check.grade >= Grade::Limited
}

/// The moments at which the device was far slower than it mostly was, if there were some, and they
/// are worth a word, and exceptions.
fn slow_moments(engine: &EngineFacts, panels: &Panels) -> Option<Vec<Moment>> {
    let moments = panels.slow_moments();
    let slowest = moments.iter().map(|moment| moment.slowest_ns);
    let (least, most) = (slowest.clone().min()?, slowest.max()?);
    // While the host was away, completions were not seen either.
    let is_device = engine.host_stall_max_ns.saturating_mul(2) < least;
    let is_told = most >= SLOW_TOLD.0 && panels.share_of(&moments) <= MOMENTS_MOST;
    (is_device && is_told).then_some(moments)
}

/// How many moments there were, in words, and how many of the requests were slow where they cover
/// much of the run.
fn at_moments(moments: &[Moment], panels: &Panels) -> String {
    let with = if panels.share_of(moments) > MOMENTS_FEW {
        format!(", with {} % of the requests", two_digits(panels.slow_share() * 100.0))
    } else {
        String::new()
    };
    match moments.len() {
        1 => format!("at one moment{with}"),
        some => format!("at {some} moments{with}"),
    }
}

/// The 99th percentile of the response times, if there are enough requests, and the slowest.
fn response(summary: &RunSummary) -> String {
    summary.response_time.get("all").map_or(String::new(), |all| {
        let p99 = all.p99_ns.map_or(String::new(), |ns| format!("p99 response {}, ", span(ns)));
        format!(": {p99}the slowest {}", span(all.max_ns))
    })
}

fn held(summary: &RunSummary, panels: &Panels, rates: Option<&Throughput>) -> String {
    let engine = &summary.engine;
    if engine.has_schedule() {
        let but = slow_moments(engine, panels).map_or(String::new(), |moments| {
            format!(" but was slow {}", at_moments(&moments, panels))
        });
        let (load, response) = (load(summary), response(summary));
        return match drain(engine, panels) {
            Some(drain) => format!(
                "The device took {load} in time{but} and had all of it done {drain} after its \
                 end{response}."
            ),
            None => format!("The device kept up with {load}{but}{response}."),
        };
    }
    let how = match engine.timing {
        TimingMode::Load => {
            format!("As fast as possible, with no more in flight than recorded{}", ended(engine))
        }
        TimingMode::Dependency => format!("With the waits of {}", load(summary)),
        TimingMode::Flows => format!("With {}", flows(engine)),
        TimingMode::Timed | TimingMode::Afap => format!("As fast as possible{}", ended(engine)),
    };
    let rate = rates.map_or(String::new(), |rates| {
        format!(": {} requests/s on average", two_digits(rates.achieved_requests))
    });
    // The same span as that of the percentiles beside it.
    let (of, name) = if engine.has_due_instants() {
        (&summary.response_time, "response")
    } else {
        (&summary.service_time, "service time")
    };
    let slowest = of
        .get("all")
        .map_or(String::new(), |all| format!(", the slowest {name} {}", span(all.max_ns)));
    format!("{how}{rate}{}{slowest}.", against_recording(summary))
}

/// How long after the last request was due the device had all done, where that is so much of the
/// load's length that nobody would say that it kept up.
fn drain(engine: &EngineFacts, panels: &Panels) -> Option<String> {
    let ended = engine.ended_after.map_or(0, |ended| ended.after_ns);
    let demanded = panels.demanded_end_ns.max(ended);
    let behind = panels.achieved_end_ns.saturating_sub(demanded);
    let is_long = panels.achieved_end_ns as f64 >= LONGER * demanded as f64;
    (demanded > 0 && is_long).then(|| span(behind.unsigned_abs()))
}

/// Who issued the requests of a run of flows.
fn flows(engine: &EngineFacts) -> String {
    let open = engine.flows.iter().filter(|flow| flow.threads.is_none()).count() as u64;
    let clients = counted(clients(&engine.flows).into(), "waiting client");
    let open =
        if open > 0 { format!(" and {}", counted(open, "open flow")) } else { String::new() };
    format!("{clients}{open}{}", ended(engine))
}

/// Durations that differ by less are called the same: to two digits the ratio would be 1.
const SAME_DURATION: f64 = 0.05;

/// How long the requests took, compared with the recording, if waits between them decided that.
fn against_recording(summary: &RunSummary) -> String {
    let engine = &summary.engine;
    let recorded = engine.demanded_duration_ns as f64 * engine.speedup;
    let took = summary.achieved_duration_ns as f64;
    // The part that was replayed before it was ended has no recorded length.
    let is_part = engine.ended_after.is_some();
    if !engine.timing.has_parents() || is_part || recorded <= 0.0 || took <= 0.0 {
        String::new()
    } else {
        format!(", {}", as_recorded(took, recorded))
    }
}

/// A duration compared with the recorded one, both more than zero and in the same unit, in words.
pub fn as_recorded(took: f64, recorded: f64) -> String {
    if (recorded / took - 1.0).abs() <= SAME_DURATION {
        "as long as recorded".to_owned()
    } else if took <= recorded {
        format!("{} times as fast as recorded", two_digits(recorded / took))
    } else {
        format!("{} times as long as recorded", two_digits(took / recorded))
    }
}

/// A share of the demanded duration, in percent, in words: what nobody would notice has no digits.
pub fn drained(percent: f64) -> String {
    const NOTICED: f64 = 0.01;
    if percent > 0.0 && percent < NOTICED {
        format!("< {NOTICED} %")
    } else {
        format!("{} %", two_digits(percent))
    }
}

/// The replayed load, for the sentence: it must mention every difference from the recorded one.
fn load(summary: &RunSummary) -> String {
    let engine = &summary.engine;
    let beside = engine.left_out.saturating_add(engine.unmapped);
    let not_issued = engine.ended_after.map_or(0, |ended| ended.not_issued);
    let left_out = engine.dropped.saturating_add(beside).saturating_add(not_issued);
    let share = left_out as f64 / engine.planned.saturating_add(beside).max(1) as f64;
    let mut load = "this load".to_owned();
    if share >= LEFT_OUT {
        load = format!("{} % of {load}", two_digits((1.0 - share) * 100.0));
    }
    let is_scaled = |factor: f64| factor > 0.0 && (factor - 1.0).abs() > 1e-9;
    let (speed, server) = (engine.speedup, engine.server_speed);
    if is_scaled(speed) && engine.timing.has_parents() {
        load = format!("{load}, arrivals at {speed} times their rate");
    } else if is_scaled(speed) {
        load = format!("{load} at {speed} times its speed");
    }
    if is_scaled(server) {
        load = format!("{load}, think times divided by {server}");
    }
    if engine.substituted > 0 {
        load += " with reads in place of its writes";
    }
    let widened = engine.rounded as f64 / engine.planned.max(1) as f64;
    if widened >= LEFT_OUT {
        load = format!("{load}, {} % of it widened to whole blocks", two_digits(widened * 100.0));
    }
    let recording = engine.load.recording.as_ref();
    let transforms = recording.map_or(&[][..], |recording| recording.transforms.as_slice());
    let (parts, changes): (Vec<&String>, Vec<&String>) =
        transforms.iter().partition(|transform| takes_part(transform));
    let load = match &changes[..] {
        [] => load,
        [one] => format!("{load}, changed by '{one}'"),
        [one, two] => format!("{load}, changed by '{one}' and '{two}'"),
        many => format!("{load}, changed by {} transforms", many.len()),
    };
    let load = if parts.is_empty() { load } else { format!("the replayed part of {load}") };
    load + &ended(engine)
}

/// Whether a transform takes a stretch of the load and leaves it as it was.
fn takes_part(transform: &str) -> bool {
    let name = transform.split(' ').next();
    [window::KIND.name, busiest::KIND.name].map(Some).contains(&name)
}

/// The end that was asked for, if the run came to it before the end of its load.
fn ended(engine: &EngineFacts) -> String {
    engine.ended_after.map_or(String::new(), |ended| {
        format!(", ended after {} as was asked for", span(ended.after_ns.max(0) as u64))
    })
}

/// The causes that a host-stalled run is called so for, as in the verdict: where other programs had
/// the processors, this program prepared too slowly because of them.
fn kept_away(summary: &RunSummary) -> Vec<LateCause> {
    let cost = |cause| summary.late.get(cause_name(cause)).map_or(0, |late| late.lateness_ns);
    let own: &[LateCause] = if is_starved_by(cost, &summary.engine) { &OWN } else { &[] };
    HOST.iter().chain(own).copied().collect()
}

/// How many of the requests were late for one of these causes.
fn share_of(causes: &[LateCause], summary: &RunSummary) -> String {
    let late = causes.iter().filter_map(|cause| summary.late.get(cause_name(*cause)));
    let late: u64 = late.map(|late| late.requests).sum();
    let all = summary.lateness.get("all").map_or(0, |all| all.count);
    if late == 0 || all == 0 {
        return "the load".to_owned();
    }
    format!("{} % of the requests", two_digits(late as f64 / all as f64 * 100.0))
}

/// The checks that make a run invalid.
fn failed(summary: &RunSummary, panels: &Panels) -> String {
    let checks = &summary.verdict.checks;
    let failed: Vec<_> =
        checks.iter().filter(|check| check.grade == Grade::Invalid && check.is_cause()).collect();
    if let [Check { name, measured, .. }] = *failed {
        if let Some(at) = failed_since(panels).filter(|_| name == "failures") {
            let share = summary.failed as f64 / summary.recorded.max(1) as f64;
            let share = two_digits(share * 100.0);
            let at = span(at);
            return format!("from {at} on every request failed, {share} % of all (check {name})");
        }
        return format!("{measured} (check {name})");
    }
    let names: Vec<&str> = failed.iter().map(|check| check.name.as_str()).collect();
    match names.as_slice() {
        [] => "no check says that they measure what they should".to_owned(),
        [first @ .., last] => format!("the checks {} and {last} failed", first.join(", ")),
    }
}

/// The instant from which on no request succeeded any more, if none had failed before: then the
/// device is gone.
fn failed_since(panels: &Panels) -> Option<u64> {
    let first = panels.failed.iter().position(|failed| *failed > 0)?;
    let succeeded = panels.achieved_requests.iter().rposition(|achieved| *achieved > 0)?;
    // In a bucket with both, nobody knows which came last.
    let since = if succeeded == first { first + 1 } else { first };
    // A single failure at the end of a run is one.
    let failed: u64 = panels.failed.iter().skip(since).sum();
    (succeeded < since && failed > 1).then(|| since as u64 * panels.width_ns.unsigned_abs())
}

/// The sentence as a continuation after a colon.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// A span as everywhere else: one number reads the same in each line and on each page.
pub fn span(ns: u64) -> String {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
mod tests;
