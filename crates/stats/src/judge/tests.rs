//! Verdicts on runs with one fault each.

use super::*;
use ioecho_trace::{
    Batch, Bytes, Columns, Measured, Nanos, Op, Outcome, Request, TimingMode, VerifyMode,
};

use crate::critical_path::CriticalPath;
use crate::facts::{EndedAfter, FileIo, FlowFacts, LoadFacts, SizeFacts, WitnessFacts};
use crate::run_summary::VerifyFigures;

/// A run of 1000 requests, one each millisecond, of which `late` are late by 50 ms.
pub(super) fn run(late: usize, cause: LateCause, outcome: Outcome) -> RunFigures {
    run_on(Nanos(1000), late, cause, outcome)
}

/// The same on a device that always has something to do.
fn busy(late: usize, cause: LateCause) -> RunFigures {
    run_on(Nanos::from_millis(1), late, cause, Outcome::Ok)
}

fn run_on(service: Nanos, late: usize, cause: LateCause, outcome: Outcome) -> RunFigures {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    for n in 0..1000 {
        let scheduled = Nanos::from_millis(n);
        let is_late = (n as usize) < late;
        let submitted = scheduled + Nanos::from_millis(if is_late { 50 } else { 0 });
        let mut request = Request::new(scheduled, Op::Read, Bytes(0), Bytes(512));
        request.measured = Some(Measured {
            scheduled,
            submitted: Some(submitted),
            completed: Some(submitted + service),
            target_offset: None,
            in_flight: 1,
            outcome: if n == 0 { outcome } else { Outcome::Ok },
            pushed_back: false,
            late_cause: if is_late { cause } else { LateCause::None },
            target: 0,
            integrity: Integrity::Unchecked,
            behind: 0,
            flow: 0,
        });
        batch.push(&request);
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    figures
}

pub(super) fn engine() -> EngineFacts {
    EngineFacts {
        planned: 1000,
        issued: 1000,
        wraparound_factor: Some(1.0),
        demanded_duration_ns: 999_000_000,
        direct: true,
        speedup: 1.0,
        ..EngineFacts::default()
    }
}

#[test]
fn a_run_that_held_its_schedule_is_faithful() {
    let verdict = judge(&run(5, LateCause::Host, Outcome::Ok), &engine());
    assert_eq!((verdict.finding, verdict.validity), (Finding::Faithful, Validity::Valid));
}

#[test]
fn lateness_by_the_device_is_a_finding_and_by_anything_else_a_fault() {
    let verdict = |cause| {
        let verdict = judge(&run(200, cause, Outcome::Ok), &engine());
        (verdict.finding, verdict.validity)
    };
    assert_eq!(verdict(LateCause::InFlightCap), (Finding::DeviceLimited, Validity::Valid));
    assert_eq!(verdict(LateCause::Conflict), (Finding::DeviceLimited, Validity::Valid));
    assert_eq!(verdict(LateCause::Input), (Finding::GeneratorLimited, Validity::Invalid));
    assert_eq!(verdict(LateCause::Backlog), (Finding::GeneratorLimited, Validity::Invalid));
    assert_eq!(verdict(LateCause::Host), (Finding::HostStalled, Validity::Invalid));
}

/// A run whose critical path is the replay's own for so many milliseconds of a second.
fn with_path(own_ms: u64, device_ms: u64) -> RunFigures {
    let mut figures = run(0, LateCause::None, Outcome::Ok);
    figures.set_critical_path(Some(CriticalPath {
        requests: 1000,
        late_ns: (own_ms + device_ms) * 1_000_000,
        late_own_ns: own_ms * 1_000_000,
        read_ns: (1000 - own_ms - device_ms) * 1_000_000,
        ..CriticalPath::default()
    }));
    figures
}

#[test]
fn a_chain_that_is_mostly_the_replays_own_is_no_finding_about_the_storage() {
    let timed = EngineFacts { timing: TimingMode::Dependency, ..engine() };
    let of = |own_ms, device_ms| {
        let verdict = judge(&with_path(own_ms, device_ms), &timed);
        (verdict.finding, verdict.validity)
    };
    assert_eq!(of(100, 0), (Finding::Faithful, Validity::Valid));
    assert_eq!(of(0, 900), (Finding::Faithful, Validity::Valid));
    assert_eq!(of(150, 0), (Finding::GeneratorLimited, Validity::Suspect));
    assert_eq!(of(700, 100), (Finding::GeneratorLimited, Validity::Invalid));
    let verdict = judge(&with_path(700, 0), &timed);
    assert!(verdict.summary.starts_with(
        "Generator-limited: of 1.00 s, in which each request waited for the one before, 70 % went"
    ));
    let lateness = named(&verdict, "lateness");
    assert!(lateness.measured.ends_with("; 70.0 % of the critical path is the replay's own"));
    assert_eq!(lateness.explained_by.as_deref(), Some("generator-limited"));
}

#[test]
fn trees_that_were_not_all_made_are_not_complete() {
    let flow = FlowFacts { load: "files:format?do=mkdir,fill".to_owned(), ..FlowFacts::default() };
    let engine = EngineFacts { timing: TimingMode::Flows, flows: vec![flow], ..engine() };
    let complete = |outcome| named(&judge(&run(0, LateCause::None, outcome), &engine), "complete");
    assert_eq!(complete(Outcome::Ok).grade, Grade::Pass);
    let full = complete(Outcome::Error(28));
    assert_eq!(full.grade, Grade::Invalid);
    assert_eq!(full.measured, "not all is there that was to be made: 1 call failed");
}

/// A run that was ended with so many requests left, due for a second, for this cause.
fn ended(not_issued: u64, cause: LateCause) -> EngineFacts {
    let ended_after = Some(EndedAfter {
        after_ns: 1_000_000_000,
        not_issued,
        behind_ns: if not_issued > 0 { 1_000_000_000 } else { 0 },
        lateness_ns: not_issued as i64 * 500_000_000,
        cause,
    });
    EngineFacts { planned: 1000 + not_issued, ended_after, ..engine() }
}

#[test]
fn a_run_that_was_ended_as_asked_is_whole_and_its_verdict_says_so() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let verdict = judge(&figures, &ended(0, LateCause::None));
    assert_eq!((verdict.finding, verdict.validity), (Finding::Faithful, Validity::Valid));
    assert_eq!(named(&verdict, "complete").measured, "ended after 1.00 s, as was asked for");
    assert!(verdict.summary.contains("The run ended after 1.00 s, as was asked for."));
    let afap = EngineFacts { timing: TimingMode::Afap, ..ended(0, LateCause::None) };
    let verdict = judge(&busy(0, LateCause::None), &afap);
    assert_eq!((verdict.finding, verdict.validity), (Finding::Unscheduled, Validity::Valid));
}

#[test]
fn what_was_due_and_not_issued_at_the_end_counts_as_late_for_its_cause() {
    // No request that was issued was late.
    let figures = run(0, LateCause::None, Outcome::Ok);
    let verdict = |cause| judge(&figures, &ended(500, cause));
    let limited = verdict(LateCause::InFlightCap);
    assert_eq!((limited.finding, limited.validity), (Finding::DeviceLimited, Validity::Valid));
    assert_eq!(named(&limited, "accounted").grade, Grade::Pass);
    assert_eq!(named(&limited, "duration").grade, Grade::Limited);
    let measured = named(&limited, "duration").measured;
    assert!(measured.ends_with("1.00 s behind when it was ended"), "{measured}");
    assert_eq!(verdict(LateCause::Host).finding, Finding::HostStalled);
    assert_eq!(verdict(LateCause::Input).finding, Finding::GeneratorLimited);
}

#[test]
fn a_drain_is_told_where_a_schedule_had_an_end_and_everything_was_answered() {
    let figures = run(1000, LateCause::InFlightCap, Outcome::Ok);
    let drain = |engine: EngineFacts| figures.summary(engine).drain_percent;
    // The last of a second's requests completed 50 ms after it was due.
    assert!((drain(engine()).unwrap() - 5.005).abs() < 1e-3);
    assert_eq!(drain(EngineFacts { timing: TimingMode::Afap, ..engine() }), None);
    assert_eq!(drain(EngineFacts { abandoned: 1, ..engine() }), None);
    assert_eq!(drain(EngineFacts { incomplete: "stopped".to_owned(), ..engine() }), None);
    assert_eq!(RunFigures::default().summary(engine()).drain_percent, None);
}

#[test]
fn another_targets_backlog_is_named_and_not_laid_to_the_reading_of_the_trace() {
    let verdict = judge(&run(200, LateCause::Backlog, Outcome::Ok), &engine());
    assert!(verdict.summary.contains("its backlog reached the bound"), "{}", verdict.summary);
    let lateness = named(&verdict, "lateness");
    let parties = "(device 0.00 %, another target's backlog 20.00 %, generator 0.00 %, host 0.00";
    assert!(lateness.measured.contains(parties), "{}", lateness.measured);
    assert!(lateness.advice.contains("a run of its own"), "{}", lateness.advice);
    let verdict = judge(&run(200, LateCause::Input, Outcome::Ok), &engine());
    assert!(!named(&verdict, "lateness").measured.contains("backlog"));
}

#[test]
fn a_low_cap_is_named_and_not_laid_to_the_device() {
    let judged = |cause, in_flight_max| {
        let engine = EngineFacts { in_flight_max, simulated: true, ..engine() };
        let verdict = judge(&run(200, cause, Outcome::Ok), &engine);
        (verdict.summary.clone(), named(&verdict, "lateness").measured)
    };
    let (summary, measured) = judged(LateCause::InFlightCap, 1);
    assert!(summary.starts_with("Limited by the cap: no more than 1 in flight"), "{summary}");
    assert!(measured.contains("cap of 1 in flight 20.00 %, device 0.00 %"), "{measured}");
    for (cause, cap) in [(LateCause::InFlightCap, 4096), (LateCause::Conflict, 1)] {
        assert!(judged(cause, cap).0.starts_with("Device-limited"));
    }
}

/// A load that uses a quarter of its target, whose recorded device had so many bytes.
fn corner(recorded_bytes: u64, target_bytes: u64) -> EngineFacts {
    let size = Some(SizeFacts { recorded_bytes, target_bytes, unknown: 0 });
    let load = LoadFacts { size, ..LoadFacts::default() };
    EngineFacts { wraparound_factor: Some(0.25), load, ..engine() }
}

#[test]
fn what_is_lost_failed_cut_or_cached_is_told() {
    let clean = run(0, LateCause::None, Outcome::Ok);
    let graded = |engine: EngineFacts| judge(&clean, &engine).validity;
    assert_eq!(graded(engine()), Validity::Valid);
    assert_eq!(graded(EngineFacts { results_lost: 1, ..engine() }), Validity::Invalid);
    assert_eq!(graded(EngineFacts { planned: 1001, ..engine() }), Validity::Invalid);
    assert_eq!(graded(EngineFacts { direct: false, ..engine() }), Validity::Invalid);
    assert_eq!(
        graded(EngineFacts { wraparound_factor: Some(3.79), ..engine() }),
        Validity::Suspect
    );
    assert_eq!(graded(corner(100, 201)), Validity::Suspect);
    assert_eq!(graded(corner(100, 200)), Validity::Valid);
    assert_eq!(graded(EngineFacts { pushed_back: 60, ..engine() }), Validity::Suspect);
    let failed = judge(&run(0, LateCause::None, Outcome::Error(5)), &engine());
    assert_eq!(failed.validity, Validity::Suspect);
    let cut = EngineFacts { incomplete: "interrupted".into(), ..engine() };
    assert_eq!(judge(&clean, &cut).finding, Finding::Incomplete);
}

#[test]
fn a_host_that_alone_breaks_the_schedule_is_to_blame_unless_the_device_does_far_more() {
    let verdict = |device, host| {
        let mut figures = run(device, LateCause::InFlightCap, Outcome::Ok);
        figures.merge(&run(host, LateCause::Host, Outcome::Ok));
        judge(&figures, &EngineFacts { planned: 2000, issued: 2000, ..engine() })
    };
    let hosts = verdict(100, 30);
    assert_eq!((hosts.finding, hosts.validity), (Finding::HostStalled, Validity::Invalid));
    let measured = named(&hosts, "lateness").measured;
    assert!(measured.contains("device 5.00 %"), "{measured}");
    // The host is late for 1.5 % and the device for 17 %: percentiles are to be read with care.
    let devices = verdict(340, 30);
    assert_eq!((devices.finding, devices.validity), (Finding::DeviceLimited, Validity::Suspect));
    let lateness = named(&devices, "lateness");
    assert_eq!(lateness.grade, Grade::Suspect);
    assert!(lateness.advice.contains("quiet host"), "{}", lateness.advice);
    // Above 5 % the run is invalid for the host alone.
    let hosts = verdict(900, 120);
    assert_eq!((hosts.finding, hosts.validity), (Finding::HostStalled, Validity::Invalid));
}

#[test]
fn one_request_of_thirty_that_is_hardly_late_breaks_no_schedule_and_more_or_longer_do() {
    // Of 31 requests, one each millisecond, so many are late by this span.
    let verdict = |late: i64, by: Nanos| {
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        for n in 0..31 {
            let mut request = at(n, Op::Read);
            if let Some(measured) = request.measured.as_mut().filter(|_| n < late) {
                measured.submitted = Some(measured.scheduled + by);
                measured.completed = Some(measured.scheduled + by + Nanos(1000));
                measured.late_cause = LateCause::Submission;
            }
            batch.push(&request);
        }
        let mut figures = RunFigures::default();
        figures.observe(&batch);
        let demanded_duration_ns = 30_000_000;
        judge(&figures, &EngineFacts { planned: 31, issued: 31, demanded_duration_ns, ..engine() })
    };
    let single = verdict(1, Nanos(1_010_000));
    assert_eq!((single.finding, single.validity), (Finding::Faithful, Validity::Valid));
    assert!(single.summary.contains("all 31 requests were issued within 1.01 ms"), "{single:?}");
    assert_eq!(verdict(2, Nanos(1_010_000)).finding, Finding::DeviceLimited);
    assert_eq!(verdict(1, Nanos(11_000_000)).finding, Finding::DeviceLimited);
}

#[test]
fn a_host_that_leaves_figures_suspect_is_not_said_to_make_them_worthless() {
    let suspect = judge(&run(30, LateCause::Host, Outcome::Ok), &engine());
    assert_eq!((suspect.finding, suspect.validity), (Finding::HostStalled, Validity::Suspect));
    assert!(suspect.summary.contains("; read high percentiles with care."), "{}", suspect.summary);
    assert!(!suspect.summary.contains("do not"), "{}", suspect.summary);
    let invalid = judge(&run(200, LateCause::Host, Outcome::Ok), &engine());
    assert!(invalid.summary.contains("; do not use these figures."), "{}", invalid.summary);
}

#[test]
fn a_broken_threshold_never_passes() {
    let verdict = judge(&run(200, LateCause::InFlightCap, Outcome::Ok), &engine());
    assert_eq!(verdict.checks[2].grade, Grade::Limited);
}

#[test]
fn a_run_without_requests_is_not_faithful() {
    let nothing = EngineFacts { planned: 0, issued: 0, ..engine() };
    assert_eq!(judge(&RunFigures::default(), &nothing).validity, Validity::Invalid);
}

/// The check of this name.
fn named(verdict: &Verdict, name: &str) -> Check {
    verdict.checks.iter().find(|check| check.name == name).unwrap().clone()
}

/// A request due after so many milliseconds, issued then and answered a microsecond later.
fn at(ms: i64, op: Op) -> Request {
    let scheduled = Nanos::from_millis(ms);
    let mut request = Request::new(scheduled, op, Bytes(0), Bytes(4096));
    request.measured = Some(Measured::done(scheduled, scheduled, scheduled + Nanos(1000)));
    request
}

/// A run of ten requests, each changed by `change`, which gets its number.
fn changed(change: impl Fn(u64, &mut Request)) -> RunFigures {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    for n in 0..10 {
        let mut request = at(n as i64, Op::Write);
        change(n, &mut request);
        batch.push(&request);
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    figures
}

/// The engine's facts of a run of ten requests.
fn ten() -> EngineFacts {
    EngineFacts { planned: 10, issued: 10, demanded_duration_ns: 9_000_000, ..engine() }
}

fn verified(damaged: &[(&str, u64)]) -> VerifyFigures {
    VerifyFigures {
        mode: VerifyMode::Reads.into(),
        requests: 10,
        sectors: 80,
        damaged: damaged.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        damaged_sectors: damaged.iter().map(|(_, count)| count).sum(),
        ..VerifyFigures::default()
    }
}

#[test]
fn damaged_data_are_the_first_finding_and_say_nothing_against_the_measurement() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let facts = EngineFacts { verify: Some(verified(&[("stale", 3), ("torn", 1)])), ..engine() };
    let verdict = judge(&figures, &facts);
    assert_eq!((verdict.finding, verdict.validity), (Finding::DataDamaged, Validity::Valid));
    assert!(
        verdict.summary.starts_with("Data damaged (3 stale, 1 torn sectors)"),
        "{}",
        verdict.summary
    );
    // Another fault must still be reported.
    let cut = EngineFacts { incomplete: "interrupted".to_owned(), ..facts };
    let verdict = judge(&run(200, LateCause::Host, Outcome::Ok), &cut);
    assert_eq!((verdict.finding, verdict.validity), (Finding::DataDamaged, Validity::Invalid));
    assert!(verdict.summary.contains("Incomplete: interrupted"), "{}", verdict.summary);
}

#[test]
fn damage_in_the_records_counts_though_nobody_summed_it_up() {
    let figures = changed(|n, request| {
        let measured = request.measured.as_mut().unwrap();
        measured.integrity = if n == 4 { Integrity::Torn } else { Integrity::Intact };
    });
    let verdict = judge(&figures, &ten());
    assert_eq!(verdict.finding, Finding::DataDamaged);
    assert!(verdict.summary.contains("(1 torn request)"), "{}", verdict.summary);
    let summary = figures.summary(ten());
    assert_eq!((summary.integrity["torn"], summary.integrity["intact"]), (1, 9));
}

#[test]
fn data_that_nobody_looked_at_are_neither_sound_nor_damaged() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let grade = |facts: EngineFacts| named(&judge(&figures, &facts), "integrity").grade;
    assert_eq!(grade(engine()), Grade::NotApplicable);
    let nothing = VerifyFigures { mode: VerifyMode::Final.into(), ..VerifyFigures::default() };
    assert_eq!(grade(EngineFacts { verify: Some(nothing), ..engine() }), Grade::NotApplicable);
    let intact = VerifyFigures { intact_sectors: 90, unknown_sectors: 10, ..verified(&[]) };
    assert_eq!(grade(EngineFacts { verify: Some(intact), ..engine() }), Grade::Pass);
    // Reading sectors that the run never wrote proves nothing.
    let unknown = VerifyFigures { unknown_sectors: 100, ..verified(&[]) };
    assert_eq!(grade(EngineFacts { verify: Some(unknown), ..engine() }), Grade::NotApplicable);
    assert!(figures.summary(engine()).integrity.is_empty());
}

#[test]
fn a_load_beyond_what_the_host_can_pace_is_suspect() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let demand = |most: Option<f64>, peak: f64, timing: TimingMode| {
        let facts =
            EngineFacts { paced_rate_max: most, demanded_rate_peak: peak, timing, ..engine() };
        named(&judge(&figures, &facts), "demand").grade
    };
    assert_eq!(demand(Some(50_000.0), 50_000.0, TimingMode::Timed), Grade::Pass);
    assert_eq!(demand(Some(50_000.0), 51_000.0, TimingMode::Timed), Grade::Suspect);
    assert_eq!(demand(None, 51_000.0, TimingMode::Timed), Grade::NotApplicable);
    assert_eq!(demand(Some(50_000.0), 0.0, TimingMode::Timed), Grade::NotApplicable);
}

#[test]
fn a_rate_as_fast_as_possible_is_not_the_storages_where_it_had_nothing_to_do() {
    let demand = |figures: &RunFigures, timing| {
        let verdict = judge(figures, &EngineFacts { timing, ..engine() });
        assert_eq!(verdict.finding, Finding::Unscheduled);
        named(&verdict, "demand")
    };
    for timing in [TimingMode::Afap, TimingMode::Load] {
        assert_eq!(demand(&busy(0, LateCause::None), timing).grade, Grade::Pass);
        let idle = demand(&run(0, LateCause::None, Outcome::Ok), timing);
        assert_eq!(idle.grade, Grade::Suspect);
        assert_eq!(idle.measured, "for 0.1 % of the time at most anything was in flight");
    }
}

#[test]
fn what_has_no_schedule_cannot_be_late() {
    for timing in [TimingMode::Afap, TimingMode::Load] {
        let facts = EngineFacts { timing, ..engine() };
        let verdict = judge(&busy(900, LateCause::Host), &facts);
        assert_eq!((verdict.finding, verdict.validity), (Finding::Unscheduled, Validity::Valid));
        for name in ["lateness", "duration", "percentiles"] {
            assert_eq!(named(&verdict, name).grade, Grade::NotApplicable);
        }
        assert!(verdict.summary.starts_with("As fast as possible"), "{}", verdict.summary);
        assert!(verdict.summary.contains("1000 requests"), "{}", verdict.summary);
    }
}

#[test]
fn what_waits_for_others_may_be_late_but_has_no_schedule_to_hold() {
    let facts = EngineFacts { timing: TimingMode::Dependency, server_speed: 2.0, ..engine() };
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &facts);
    assert_eq!((verdict.finding, verdict.validity), (Finding::Faithful, Validity::Valid));
    for name in ["duration", "demand", "standstill", "in-flight"] {
        assert_eq!(named(&verdict, name).grade, Grade::NotApplicable, "{name}");
    }
    let lateness = named(&verdict, "lateness");
    assert_eq!(lateness.grade, Grade::Pass);
    assert!(lateness.measured.starts_with("since the completions waited for"), "{lateness:?}");
    assert!(verdict.summary.contains("of the completions that they waited for"), "{verdict:?}");
    assert!(verdict.summary.contains("Think times were divided by 2."), "{verdict:?}");
    assert!(!verdict.summary.contains("schedule"), "{verdict:?}");
    let late = judge(&run(900, LateCause::Host, Outcome::Ok), &facts);
    assert_eq!(
        (late.finding, named(&late, "lateness").grade),
        (Finding::HostStalled, Grade::Invalid)
    );
    assert!(!late.summary.contains("schedule"), "{late:?}");
}

#[test]
fn many_dropped_requests_have_a_sentence_of_their_own() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let summary = |dropped| judge(&figures, &EngineFacts { dropped, ..engine() }).summary;
    assert!(!summary(50).contains("DROPPED"));
    assert!(summary(51).contains("DROPPED on conflict: 51 requests (5.1 %);"));
}

#[test]
fn requests_that_the_target_cannot_do_are_told_by_kind() {
    let figures = changed(|n, request| {
        let op = [Op::Discard, Op::Discard, Op::WriteZeroes].get(n as usize);
        if let (Some(op), Some(measured)) = (op, request.measured.as_mut()) {
            request.op = *op;
            measured.outcome = Outcome::Unsupported;
            (measured.submitted, measured.completed) = (None, None);
        }
    });
    let facts = EngineFacts { issued: 7, rounded: 4, unmapped: 6, ..ten() };
    let check = named(&judge(&figures, &facts), "issued");
    assert_eq!(
        check.measured,
        "3 requests could not be issued (30.000 %); the target cannot do 2 discard, 1 \
         write-zeroes; 6 requests of volumes without a target left out (37.500 %); 4 were widened \
         to the block size"
    );
    assert!(check.advice.contains("they can be widened to it"));
    assert_eq!(figures.summary(facts).unsupported["discard"], 2);
}

#[test]
fn a_request_of_a_thousand_that_the_target_cannot_take_is_a_finding_and_more_are_a_doubt() {
    let graded = |refused| {
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        for n in 0..2000 {
            let mut request = at(n, Op::Read);
            if let Some(measured) = request.measured.as_mut().filter(|_| n < refused) {
                measured.outcome = Outcome::Misaligned;
                (measured.submitted, measured.completed) = (None, None);
            }
            batch.push(&request);
        }
        let mut figures = RunFigures::default();
        figures.observe(&batch);
        let issued = 2000 - refused as u64;
        named(&judge(&figures, &EngineFacts { planned: 2000, issued, ..engine() }), "issued").grade
    };
    assert_eq!([0, 2, 3].map(graded), [Grade::Pass, Grade::Limited, Grade::Suspect]);
    assert_eq!(graded(21), Grade::Invalid);
}

#[test]
fn each_of_several_targets_has_its_own_figures_and_a_single_one_has_none() {
    let spread = |target: fn(u64) -> u16| {
        changed(move |n, request| {
            let measured = request.measured.as_mut().unwrap();
            measured.target = target(n);
            if n == 9 {
                measured.outcome = Outcome::Error(5);
            }
        })
    };
    let figures = spread(|n| u16::from(n >= 6));
    let mut parts = RunFigures::default();
    parts.merge(&figures);
    let facts = EngineFacts { targets: 3, ..ten() };
    let summary = parts.summary(facts);
    let rows: Vec<_> = summary
        .per_target
        .iter()
        .map(|row| (row.target, row.requests, row.failed, row.bytes_written))
        .collect();
    assert_eq!(rows, [(0, 6, 0, 6 * 4096), (1, 4, 1, 3 * 4096), (2, 0, 0, 0)]);
    assert_eq!(summary.per_target[1].service_time.as_ref().unwrap().count, 3);
    assert!(summary.per_target[2].lateness.is_none());
    assert!(spread(|_| 0).summary(ten()).per_target.is_empty());
    assert_eq!(figures.engine_facts().targets, 2);
}

#[test]
fn a_device_that_broke_makes_a_run_suspect_though_no_request_failed() {
    let facts = EngineFacts { device_errors: 1, ..engine() };
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &facts);
    assert_eq!(named(&verdict, "failures").grade, Grade::Suspect);
}

#[test]
fn where_a_witness_was_the_device_decides_who_was_late() {
    let seen = WitnessFacts { asked: 1000, found: 1000, absolute: true, ..WitnessFacts::default() };
    let verdict = |late, held_back, own| {
        let witness = WitnessFacts { late, held_back, ..seen.clone() };
        judge(
            &run(own, LateCause::Host, Outcome::Ok),
            &EngineFacts { witness: Some(witness), ..engine() },
        )
    };
    let faithful = verdict(0, 0, 0);
    assert_eq!((faithful.finding, faithful.validity), (Finding::Faithful, Validity::Valid));
    assert!(faithful.summary.contains("as a witness saw"), "{}", faithful.summary);
    let lateness = &faithful.checks[2];
    assert!(lateness.measured.starts_with("at the device (witness)"), "{lateness:?}");
    // In time for the engine, late at the device: a layer between them held these requests back.
    let held_back = verdict(200, 200, 0);
    assert_eq!(held_back.finding, Finding::DeviceLimited);
    assert!(held_back.summary.contains("held back"), "{}", held_back.summary);
    assert_eq!(held_back.checks[2].grade, Grade::Limited);
    // Requests that were handed over late were not held back.
    let mixed = verdict(300, 200, 0);
    assert!(mixed.summary.contains("device, 200 of them"), "{}", mixed.summary);
    assert_eq!(verdict(60, 5, 0).finding, Finding::HostStalled);
    assert_eq!(verdict(12, 3, 9).finding, Finding::HostStalled);
    // The engine's own lateness is judged as before.
    assert_eq!(verdict(200, 0, 200).finding, Finding::HostStalled);
}

/// A run of this many seconds with a request each millisecond. `change` gets the millisecond in
/// which a request is due, and its measured columns for an immediate completion.
fn lasting(seconds: i64, change: impl Fn(i64, &mut Measured)) -> (RunFigures, EngineFacts) {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    for ms in 0..seconds * 1000 {
        let scheduled = Nanos::from_millis(ms);
        let mut request = Request::new(scheduled, Op::Read, Bytes(0), Bytes(512));
        let mut measured =
            Measured::done(scheduled, scheduled, scheduled + Nanos::from_micros(100));
        change(ms, &mut measured);
        request.measured = Some(measured);
        batch.push(&request);
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    let count = seconds as u64 * 1000;
    let demanded_duration_ns = (seconds * 1000 - 1) * 1_000_000;
    (figures, EngineFacts { planned: count, issued: count, demanded_duration_ns, ..engine() })
}

/// Makes a request late by this span, for this cause.
fn delay(measured: &mut Measured, by: Nanos, cause: LateCause) {
    measured.submitted = measured.submitted.map(|at| at + by);
    measured.completed = measured.completed.map(|at| at + by);
    measured.late_cause = cause;
}

#[test]
fn a_headline_states_share_and_percentiles_of_the_cause_that_it_names_and_of_nothing_else() {
    // 3 % wait 300 ms for others; the host makes 2 % late by 5 ms.
    let (figures, facts) = lasting(10, |ms, measured| match ms % 100 {
        0..3 => delay(measured, Nanos::from_millis(300), LateCause::Conflict),
        10..12 => delay(measured, Nanos::from_millis(5), LateCause::Host),
        _ => {}
    });
    let verdict = judge(&figures, &facts);
    assert_eq!(verdict.finding, Finding::HostStalled);
    let told = "200 requests (2.00 %) were issued more than 1.00 ms late for that, 99 % of \
                these by up to 5.00 ms, one by 5.00 ms";
    assert!(verdict.summary.contains(told), "{}", verdict.summary);
    assert!(!verdict.summary.contains("300 ms"), "{}", verdict.summary);
}

#[test]
fn two_parties_who_each_hold_the_schedule_do_not_take_the_blame_from_a_third() {
    let (figures, facts) = lasting(10, |ms, measured| match ms % 1000 {
        0..100 => delay(measured, Nanos::from_millis(300), LateCause::Conflict),
        200..206 => delay(measured, Nanos::from_millis(5), LateCause::Host),
        300..306 => delay(measured, Nanos::from_millis(5), LateCause::Generator),
        _ => {}
    });
    let verdict = judge(&figures, &facts);
    assert_eq!(verdict.finding, Finding::DeviceLimited, "{}", verdict.summary);
    assert!(verdict.summary.contains("1000 requests (10.00 %)"), "{}", verdict.summary);
}

#[test]
fn a_device_whose_backlog_grows_to_the_end_could_not_take_the_load_though_nothing_was_late() {
    let grown = |by: fn(i64) -> i64| {
        let (figures, facts) = lasting(10, |ms, measured| {
            measured.completed = measured.completed.map(|at| at + Nanos::from_micros(by(ms)));
        });
        judge(&figures, &facts)
    };
    let verdict = grown(|ms| ms * 20);
    assert_eq!((verdict.finding, verdict.validity), (Finding::DeviceLimited, Validity::Valid));
    assert_eq!(named(&verdict, "duration").grade, Grade::Limited);
    assert!(verdict.summary.contains("grew until the load ended"), "{}", verdict.summary);
    assert_eq!(grown(|_| 150_000).finding, Finding::Faithful);
}

#[test]
fn a_device_whose_own_queue_grows_is_too_slow_whatever_conflicts_come_of_it() {
    let of = |grows: bool| {
        let (figures, mut facts) = lasting(10, |ms, measured| {
            let waited = Nanos::from_micros(if grows { ms * 100 } else { 0 });
            if ms % 4 == 0 {
                measured.pushed_back = true;
                delay(measured, Nanos::from_millis(2000), LateCause::Conflict);
            }
            measured.completed = measured.completed.map(|at| at + waited);
        });
        facts.pushed_back = 2500;
        judge(&figures, &facts)
    };
    let grown = of(true);
    assert!(grown.summary.contains("grew until the load ended"), "{}", grown.summary);
    assert!(grown.summary.contains("2500 requests (25.00 %)"), "{}", grown.summary);
    assert!(!grown.check("conflicts").unwrap().is_cause(), "{}", grown.summary);
    let steady = of(false);
    assert!(steady.summary.contains("others in flight that they overlap"), "{}", steady.summary);
    assert!(steady.check("conflicts").unwrap().is_cause(), "{}", steady.summary);
}

#[test]
fn a_device_that_stands_still_without_a_schedule_is_told_by_time() {
    let stopped = |millis: i64| {
        let (figures, facts) = lasting(10, |ms, measured| {
            measured.completed = measured.submitted.map(|at| at + Nanos::from_millis(1));
            if ms >= 5000 {
                delay(measured, Nanos::from_millis(millis), LateCause::None);
                measured.scheduled += Nanos::from_millis(millis);
            }
        });
        judge(&figures, &EngineFacts { timing: TimingMode::Afap, ..facts })
    };
    let verdict = stopped(5000);
    assert_eq!((verdict.finding, verdict.validity), (Finding::Unscheduled, Validity::Suspect));
    let told = "Nothing was completed for 5.00 s of these 15.0 s (33.3 %)";
    assert!(verdict.summary.contains(told), "{}", verdict.summary);
    assert_eq!(named(&verdict, "standstill").grade, Grade::Suspect);
    assert_eq!(stopped(0).validity, Validity::Valid);
}

#[test]
fn who_had_the_device_not_to_himself_is_not_faithful() {
    let with = |extra| {
        let witness = WitnessFacts { asked: 1000, found: 1000, extra, ..WitnessFacts::default() };
        let facts = EngineFacts { witness: Some(witness), ..engine() };
        judge(&run(0, LateCause::None, Outcome::Ok), &facts)
    };
    assert_eq!(with(10).finding, Finding::Faithful);
    let verdict = with(30);
    assert_eq!((verdict.finding, verdict.validity), (Finding::ForeignLoad, Validity::Suspect));
    let verdict = with(1000);
    assert_eq!((verdict.finding, verdict.validity), (Finding::ForeignLoad, Validity::Invalid));
    let told = "1000 requests of all that the device did during the run (50.0 %)";
    assert!(verdict.summary.contains(told), "{}", verdict.summary);
}

#[test]
fn a_generator_that_others_keep_from_the_processors_is_starved_by_the_host() {
    let figures = run(200, LateCause::Input, Outcome::Ok);
    let on = |others_by_tenth: Vec<u64>| {
        let mut facts = engine();
        facts.host.cpu =
            Some(crate::facts::CpuFacts { others_by_tenth, total_ns: 1, ..Default::default() });
        judge(&figures, &facts)
    };
    assert_eq!(on(vec![4, 0, 0]).finding, Finding::GeneratorLimited);
    let starved = on(vec![0, 0, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(starved.finding, Finding::HostStalled);
    assert!(starved.summary.contains("other programs had the processors"), "{}", starved.summary);
    assert!(starved.summary.contains("200 requests (20.00 %)"), "{}", starved.summary);
}

#[test]
fn a_percentile_that_the_host_owns_is_marked() {
    let delayed = |count: i64| {
        let (figures, facts) = lasting(20, |ms, measured| {
            if ms < count {
                delay(measured, Nanos::from_millis(169), LateCause::Host);
            }
        });
        judge(&figures, &facts)
    };
    let verdict = delayed(140);
    assert_eq!((verdict.finding, verdict.validity), (Finding::Faithful, Validity::Suspect));
    let check = named(&verdict, "percentiles");
    assert!(check.measured.contains("from p99.9 on not the device's: 140 late"), "{check:?}");
    assert_eq!(named(&delayed(0), "percentiles").grade, Grade::Pass);
    let few = named(&judge(&run(0, LateCause::None, Outcome::Ok), &engine()), "percentiles");
    assert!(few.measured.contains("up to p99 the device's; p99.9 needs 10000"), "{few:?}");
}

#[test]
fn another_speed_than_the_recorded_one_is_told() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let summary = |speedup| judge(&figures, &EngineFacts { speedup, ..engine() }).summary;
    assert!(summary(4.0).contains("Replayed at 4 times the recorded speed."));
    assert!(!summary(1.0).contains("recorded speed"));
}

#[test]
fn what_was_left_out_makes_another_load_of_it() {
    let figures = run(0, LateCause::None, Outcome::Ok);
    let validity = |unmapped| judge(&figures, &EngineFacts { unmapped, ..engine() }).validity;
    assert_eq!((validity(0), validity(10)), (Validity::Valid, Validity::Suspect));
    assert_eq!(validity(1000), Validity::Invalid);
}

/// The check `page-cache` of a run on files, which read and wrote a hundred MiB.
fn cached(fetched: Option<u64>, unsynced: Option<u64>) -> Check {
    let io = FileIo {
        read_bytes: 100 << 20,
        fetched_bytes: fetched.map(|mib| mib << 20),
        written_bytes: 100 << 20,
        unsynced_bytes: unsynced.map(|mib| mib << 20),
    };
    let engine = EngineFacts { files: true, direct: false, file_io: Some(io), ..engine() };
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &engine);
    verdict.checks.into_iter().find(|check| check.name == "page-cache").unwrap()
}

#[test]
fn files_whose_data_were_in_memory_are_told_with_the_share() {
    let all = cached(Some(0), Some(0));
    assert_eq!(all.grade, Grade::Suspect);
    let told = "100.0 % of 100 MiB read came from memory; 100 MiB written, all of which waited";
    assert!(all.measured.starts_with(told), "{all:?}");
    // More is fetched than was asked for where it is read ahead.
    for (fetched, unsynced) in [(90, Some(0)), (300, Some(0)), (100, Some(10)), (100, None)] {
        assert_eq!(cached(Some(fetched), unsynced).grade, Grade::Pass, "{fetched} {unsynced:?}");
    }
    for (fetched, unsynced) in [(Some(89), Some(0)), (Some(100), Some(11)), (None, Some(100))] {
        assert_eq!(cached(fetched, unsynced).grade, Grade::Suspect, "{fetched:?} {unsynced:?}");
    }
    assert_eq!(cached(None, None).grade, Grade::NotApplicable);
    let unknown = cached(None, Some(0));
    assert_eq!(unknown.grade, Grade::Pass, "what was written is known");
    assert!(unknown.measured.contains("this file system does not tell"), "{unknown:?}");
}

#[test]
fn what_moves_hardly_anything_or_was_not_looked_at_says_nothing_of_memory() {
    let little = FileIo {
        read_bytes: 900,
        fetched_bytes: Some(0),
        written_bytes: 0,
        unsynced_bytes: Some(0),
    };
    for file_io in [None, Some(little)] {
        let engine = EngineFacts { files: true, direct: true, file_io, ..engine() };
        let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &engine);
        let check = verdict.checks.iter().find(|check| check.name == "page-cache").unwrap();
        assert_eq!(check.grade, Grade::NotApplicable, "{check:?}");
    }
}
