//! The result of a run in a sentence, for a reader with five seconds.
//!
//! A verdict is about schedules, causes and checks. A reader who must decide about a device asks
//! whether it is fast enough, and reads one sentence. This module has that sentence for each
//! finding, with only the figures that belong to the finding; terminal and page show the same.

use ioecho_trace::transform::{busiest, window};
use ioecho_trace::units::{counted, two_digits};
use ioecho_trace::{LateCause, Nanos, TimingMode};

use crate::facts::{EngineFacts, clients};
use crate::judge::{GENERATOR, HOST, IN_FLIGHT_DEFAULT, OWN, is_starved_by};
use crate::late::{DEVICE, LATE};
use crate::picture::{Kind, Moment, Panels, Span};
use crate::run_summary::{ByKind, Percentiles, RunSummary, TargetFigures, cause_name};
use crate::verdict::{Check, Finding, Grade, Validity};

/// From this ratio of the run's duration to the demanded duration on, the sentence mentions it.
const LONGER: f64 = 1.05;

/// From this share of the load on, the sentence mentions requests that were left out.
const LEFT_OUT: f64 = 0.01;

/// A device that needs at least so long at its slowest moments is said to have had such moments.
const SLOW_TOLD: Nanos = Nanos::from_millis(100);

/// Moments are exceptions while they cover no more than this share of the run.
const MOMENTS_MOST: f64 = 0.25;

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
    /// Reads and writes, if there were any; otherwise the operations that there were.
    pub percentiles: Vec<(&'static str, Percentiles)>,
    /// The share from which on percentiles of the response times are the host's.
    pub host_owned_from: Option<f64>,
    /// How long the device worked off what had queued up, as in the summary.
    pub drain_percent: Option<f64>,
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
        let throughput = Throughput::of(panels, summary.engine.has_schedule());
        Self {
            sentence: sentence(summary, panels, throughput.as_ref()),
            throughput,
            span,
            percentiles: percentiles(by_kind(summary, span)),
            host_owned_from: summary.host_owned_from,
            drain_percent: summary.drain_percent,
        }
    }
}

impl Throughput {
    fn of(panels: &Panels, has_schedule: bool) -> Option<Self> {
        let all = || 0..panels.buckets;
        let demanded = panels.demanded_request_rate().mean(all());
        let demanded = demanded.zip(panels.demanded_byte_rate().mean(all()));
        Some(Self {
            achieved_requests: panels.achieved_request_rate().mean(all())?,
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
    let of = |kind: Kind| Some((kind.label(), *by_kind.get(kind.name())?));
    let data: Vec<_> = [Kind::Read, Kind::Write].into_iter().filter_map(of).collect();
    if data.is_empty() { Kind::ALL.into_iter().filter_map(of).collect() } else { data }
}

fn sentence(summary: &RunSummary, panels: &Panels, rates: Option<&Throughput>) -> String {
    let RunSummary { verdict, engine, .. } = summary;
    let text = match verdict.finding {
        Finding::DataDamaged => damaged(summary),
        // No share of the load is stated: it was not read to its end.
        Finding::Incomplete => {
            // Of requests without an answer no instant is known.
            let last = summary.achieved_duration_ns.max(0) as u64;
            let after = if last > 0 { format!(", after {}", span(last)) } else { String::new() };
            let why = engine.incomplete.lines().next().unwrap_or_default();
            format!("The run ended before its end{after}: {why}.")
        }
        _ if engine.issued == 0 => "Nothing was replayed: no request was issued.".to_owned(),
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
    if sectors == 0 {
        return "The device lost or altered data that were written to it.".to_owned();
    }
    let (noun, verb) = if sectors == 1 { ("sector", "does") } else { ("sectors", "do") };
    format!("The device lost or altered data: {sectors} {noun} {verb} not hold what was written.")
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
    let ratio = panels.achieved_end_ns as f64 / panels.demanded_end_ns.max(1) as f64;
    let longer = if ratio >= LONGER {
        format!("{} times as long, ", two_digits(ratio))
    } else {
        String::new()
    };
    let is_over = longer.is_empty() && !summary.verdict.checks.iter().any(is_behind);
    let moments = slow_moments(engine, panels).filter(|moments| {
        let late = panels.late_share_within(moments, LATE.0);
        is_over && !is_capped && late >= MOMENTS_OWN
    });
    if let Some(moments) = moments {
        return format!("{device} for {load} {}{}.", at_moments(&moments), response(summary));
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

/// How many moments there were, in words.
fn at_moments(moments: &[Moment]) -> String {
    match moments.len() {
        1 => "at one moment".to_owned(),
        some => format!("at {some} moments"),
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
        let but = slow_moments(engine, panels)
            .map_or(String::new(), |moments| format!(" but was slow {}", at_moments(&moments)));
        return format!("The device kept up with {}{but}{}.", load(summary), response(summary));
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
    let slowest = summary.service_time.get("all");
    let slowest =
        slowest.map_or(String::new(), |all| format!(", the slowest took {}", span(all.max_ns)));
    format!("{how}{rate}{}{slowest}.", against_recording(summary))
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
    let load = if parts.is_empty() { load } else { format!("a part of {load}") };
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
    let failed: Vec<_> = checks.iter().filter(|check| check.grade == Grade::Invalid).collect();
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
    let at = first as u64 * panels.width_ns.unsigned_abs();
    // A single failure at the end of a run is one.
    let failed: u64 = panels.failed.iter().sum();
    (succeeded <= first && failed > 1).then_some(at)
}

/// The sentence as a continuation after a colon.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

/// A span in two significant digits and in the unit of speech: 250 ms, 96 min, 2.6 h.
pub fn span(ns: u64) -> String {
    const UNITS: [(f64, f64, &str); 6] = [
        (1e3, 1.0, "ns"),
        (1e6, 1e3, "µs"),
        (1e9, 1e6, "ms"),
        (120e9, 1e9, "s"),
        (100.0 * 60e9, 60e9, "min"),
        (f64::INFINITY, 3600e9, "h"),
    ];
    let value = ns as f64;
    let unit = UNITS.iter().find(|(below, ..)| value < *below);
    unit.map_or_else(
        || Nanos(ns as i64).to_string(),
        |(_, scale, unit)| format!("{} {unit}", two_digits(value / scale)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{CpuFacts, EndedAfter, EngineFacts, LoadFacts, Recording, TargetFacts};
    use crate::picture::tests::{picture, request};
    use crate::run_summary::{LateShare, RunFigures};
    use ioecho_trace::Op;

    fn run(finding: Finding, validity: Validity) -> RunSummary {
        let engine = EngineFacts { planned: 100, issued: 100, ..EngineFacts::default() };
        let mut summary = RunFigures::default().summary(engine);
        (summary.verdict.finding, summary.verdict.validity) = (finding, validity);
        summary.achieved_duration_ns = 9_421_000_000_000;
        let all = Percentiles {
            count: 100,
            mean_ns: 1,
            p50_ns: 1,
            p90_ns: Some(1),
            p99_ns: Some(5_760_000_000_000),
            p99_9_ns: Some(1),
            p99_99_ns: Some(1),
            max_ns: 9_421_000_000_000,
        };
        for by_kind in
            [&mut summary.response_time, &mut summary.service_time, &mut summary.lateness]
        {
            by_kind.insert("all".to_owned(), all);
        }
        summary
    }

    fn told(summary: &RunSummary) -> String {
        let mut panels = crate::picture::RunPicture::new().finish();
        (panels.demanded_end_ns, panels.achieved_end_ns) = (3_600, 9_421);
        sentence(summary, &panels, None)
    }

    /// Panels of a hundred buckets of a second, with a read of 100 µs in each.
    fn quick() -> Panels {
        let reads = (0..100).map(|n| request(Op::Read, n * 1_000_000_000, 0, 100_000));
        picture(&reads.collect::<Vec<_>>()).finish()
    }

    #[test]
    fn moments_at_which_a_device_was_slow_are_told_and_do_not_make_it_slow_throughout() {
        let mut panels = quick();
        let said = |finding, panels: &Panels, stall_ns| {
            let mut summary = run(finding, Validity::Valid);
            summary.engine.host_stall_max_ns = stall_ns;
            sentence(&summary, panels, None)
        };
        for bucket in [3, 40] {
            let at = bucket * panels.buckets / 100;
            panels.service_max_ns[0][at] = Some(800_000_000);
            panels.lateness_max_ns[at] = Some(700_000_000);
        }
        assert_eq!(
            said(Finding::Faithful, &panels, 0),
            "The device kept up with this load but was slow at 2 moments: p99 response 96 min, \
             the slowest 2.6 h."
        );
        let slow = said(Finding::DeviceLimited, &panels, 0);
        assert!(
            slow.starts_with("The device was too slow for this load at 2 moments: p99"),
            "{slow}"
        );
        // Whether host or device stood still is not known then.
        let unknown = said(Finding::Faithful, &panels, 500_000_000);
        assert!(unknown.starts_with("The device kept up with this load: "), "{unknown}");
        // Requests were late at other times as well.
        panels.lateness_max_ns.fill(Some(2_000_000));
        let throughout = said(Finding::DeviceLimited, &panels, 0);
        assert!(
            throughout.starts_with("The device was too slow for this load: p99"),
            "{throughout}"
        );
    }

    #[test]
    fn a_device_that_is_gone_is_told_with_the_instant() {
        let mut panels = quick();
        assert_eq!(failed_since(&panels), None);
        let half = panels.buckets / 2;
        panels.achieved_requests[half..].fill(0);
        panels.failed[half..].fill(1);
        let at = half as u64 * panels.width_ns as u64;
        assert_eq!(failed_since(&panels), Some(at));
        // Where some succeed afterwards, it is not gone.
        panels.achieved_requests[half + 1] = 1;
        assert_eq!(failed_since(&panels), None);
    }

    #[test]
    fn each_finding_has_a_sentence_for_those_who_decide() {
        let said = |finding| {
            let mut summary = run(finding, Validity::Valid);
            "stopped by a signal".clone_into(&mut summary.engine.incomplete);
            told(&summary)
        };
        assert_eq!(
            said(Finding::Faithful),
            "The device kept up with this load: p99 response 96 min, the slowest 2.6 h."
        );
        assert_eq!(
            said(Finding::DeviceLimited),
            "The device was too slow for this load: 2.6 times as long, p99 response 96 min."
        );
        assert_eq!(
            said(Finding::DataDamaged),
            "The device lost or altered data that were written to it."
        );
        assert_eq!(
            said(Finding::Incomplete),
            "The run ended before its end, after 2.6 h: stopped by a signal."
        );
    }

    #[test]
    fn the_sentence_names_how_the_load_differs_from_the_recorded_one() {
        let of = |engine: EngineFacts| {
            let mut summary = run(Finding::Faithful, Validity::Valid);
            summary.engine = EngineFacts { planned: 100, issued: 60, ..engine };
            load(&summary)
        };
        assert_eq!(of(EngineFacts::default()), "this load");
        assert_eq!(of(EngineFacts { dropped: 33, ..EngineFacts::default() }), "67 % of this load");
        let faster = EngineFacts { left_out: 300, speedup: 4.0, ..EngineFacts::default() };
        assert_eq!(of(faster), "25 % of this load at 4 times its speed");
        let mild = EngineFacts { unmapped: 1, substituted: 9, ..EngineFacts::default() };
        assert_eq!(of(mild), "this load with reads in place of its writes");
        let changed = |transforms: &[&str]| {
            let transforms = transforms.iter().map(|&one| one.to_owned()).collect();
            let recording = Some(Recording { transforms, ..Recording::default() });
            let load = LoadFacts { recording, ..LoadFacts::default() };
            of(EngineFacts { load, ..EngineFacts::default() })
        };
        assert_eq!(changed(&["speed 4"]), "this load, changed by 'speed 4'");
        assert_eq!(
            changed(&["speed 4", "window 0s,1m", "reverse"]),
            "a part of this load, changed by 'speed 4' and 'reverse'"
        );
        assert_eq!(changed(&["busiest 5m,at=3s"]), "a part of this load");
        assert_eq!(changed(&["a", "b", "c"]), "this load, changed by 3 transforms");
        let ended_after = Some(EndedAfter {
            after_ns: 60_000_000_000,
            not_issued: 25,
            behind_ns: 1,
            lateness_ns: 1,
            cause: LateCause::InFlightCap,
        });
        let ended = EngineFacts { ended_after, ..EngineFacts::default() };
        assert_eq!(of(ended), "75 % of this load, ended after 60 s as was asked for");
    }

    #[test]
    fn a_failed_measurement_states_the_share_of_its_own_cause_alone() {
        let mut summary = run(Finding::HostStalled, Validity::Invalid);
        let late = |requests| LateShare { requests, lateness_ns: 1 };
        summary.late.insert("host".to_owned(), late(7));
        summary.late.insert("conflict".to_owned(), late(80));
        assert_eq!(
            told(&summary),
            "The measurement failed: the host kept ioecho from issuing 7 % of the requests in time."
        );
        // Other programs had the processors: what this program did not make ready counts too.
        summary.late.insert("generator".to_owned(), late(5));
        assert!(told(&summary).contains("issuing 7 % of"), "{}", told(&summary));
        summary.engine.host.cpu = Some(CpuFacts {
            others_by_tenth: vec![0, 0, 0, 0, 4],
            total_ns: 1,
            ..CpuFacts::default()
        });
        assert!(told(&summary).contains("issuing 12 % of"), "{}", told(&summary));
        summary.late.clear();
        summary.verdict.finding = Finding::GeneratorLimited;
        assert_eq!(
            told(&summary),
            "The measurement failed: ioecho did not issue the load in time."
        );
    }

    #[test]
    fn a_fault_that_leaves_figures_suspect_did_not_make_the_measurement_fail() {
        for finding in [Finding::HostStalled, Finding::GeneratorLimited, Finding::ForeignLoad] {
            let suspect = told(&run(finding, Validity::Suspect));
            assert!(suspect.starts_with("Read these figures with care: "), "{suspect}");
            let invalid = told(&run(finding, Validity::Invalid));
            assert!(invalid.starts_with("The measurement failed: "), "{invalid}");
        }
    }

    #[test]
    fn figures_that_are_invalid_are_no_finding_about_the_device() {
        let mut summary = run(Finding::DeviceLimited, Validity::Invalid);
        let check = |name: &str| Check {
            name: name.to_owned(),
            grade: Grade::Invalid,
            measured: String::new(),
            threshold: String::new(),
            advice: String::new(),
        };
        summary.verdict.checks = vec![check("page-cache"), check("content")];
        let said = "Do not use these figures: the checks page-cache and content failed.";
        assert_eq!(told(&summary), said);
        summary.verdict.checks = vec![check("failures")];
        summary.verdict.checks[0].measured = "12000 requests failed (66.667 %)".to_owned();
        let said = "Do not use these figures: 12000 requests failed (66.667 %) (check failures).";
        assert_eq!(told(&summary), said);
    }

    #[test]
    fn a_run_of_chains_claims_no_schedule_and_names_what_was_scaled() {
        let mut summary = run(Finding::Faithful, Validity::Valid);
        summary.engine.timing = TimingMode::Dependency;
        (summary.engine.speedup, summary.engine.server_speed) = (3.0, 10.0);
        assert_eq!(
            told(&summary),
            "With the waits of this load, arrivals at 3 times their rate, think times divided by \
             10, the slowest took 2.6 h."
        );
        (summary.engine.demanded_duration_ns, summary.achieved_duration_ns) = (2_000, 1_500);
        assert!(told(&summary).contains(", 4 times as fast as recorded, "), "{}", told(&summary));
        summary.achieved_duration_ns = 6_100;
        assert!(told(&summary).contains(", as long as recorded, "), "{}", told(&summary));
        summary.achieved_duration_ns = 1_500;
        summary.engine.speedup = 0.5;
        assert!(told(&summary).contains(", 1.5 times as long as recorded, "), "{}", told(&summary));
    }

    #[test]
    fn what_makes_it_another_load_or_no_device_stands_in_the_sentence() {
        let mut summary = run(Finding::Faithful, Validity::Valid);
        summary.engine.speedup = 4.0;
        summary.engine.simulated = true;
        assert_eq!(
            told(&summary),
            "Simulated: the device kept up with this load at 4 times its speed: p99 response \
             96 min, the slowest 2.6 h."
        );
        summary.engine.timing = TimingMode::Afap;
        assert_eq!(told(&summary), "Simulated: as fast as possible, the slowest took 2.6 h.");
    }

    #[test]
    fn of_several_devices_the_slowest_is_named() {
        let mut summary = run(Finding::DeviceLimited, Validity::Valid);
        let one = summary.response_time["all"];
        let target = |target, mean_ns| TargetFigures {
            target,
            service_time: Some(Percentiles { mean_ns, ..one }),
            ..TargetFigures::default()
        };
        summary.per_target = vec![target(0, 5), target(1, 9)];
        let named = |name: &str| TargetFacts { name: name.to_owned(), ..TargetFacts::default() };
        summary.engine.load.targets = ["/dev/a", "/dev/b"].map(named).to_vec();
        let told = told(&summary);
        assert!(told.starts_with("/dev/b, the slowest of 2 devices, was too slow for"), "{told}");
    }

    #[test]
    fn a_drain_that_nobody_would_notice_has_no_digits() {
        let shown = [0.0, 1.3e-7, 0.01, 20.04];
        assert_eq!(shown.map(drained), ["0 %", "< 0.01 %", "0.01 %", "20 %"]);
    }

    #[test]
    fn spans_keep_two_digits() {
        let shown = [7, 1_500, 216_000, 95_900_000_000, 5_760_000_000_000, 9_421_000_000_000];
        let expected = ["7 ns", "1.5 µs", "220 µs", "96 s", "96 min", "2.6 h"];
        assert_eq!(shown.map(span), expected);
    }
}
