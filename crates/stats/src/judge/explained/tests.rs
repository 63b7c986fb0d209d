//! What explains a broken check, and what is a cause of its own.

use ioecho_trace::{LateCause, Outcome};

use super::*;
use crate::facts::{CpuFacts, RecorderFacts, SizeFacts, WitnessFacts};
use crate::judge::judge;
use crate::judge::tests::{engine, run};
use crate::verdict::Verdict;

/// The names of the broken checks that nothing explains.
fn causes(verdict: &Verdict) -> Vec<&str> {
    let causes = verdict.checks.iter().filter(|check| check.is_cause());
    causes.map(|check| check.name.as_str()).collect()
}

/// What explains the broken check of this name.
fn explained<'a>(verdict: &'a Verdict, name: &str) -> Option<&'a str> {
    let check = verdict.check(name).unwrap();
    assert!(check.grade >= Grade::Limited, "{name} is not broken: {check:?}");
    check.explained_by.as_deref()
}

fn broken(name: &str, grade: Grade) -> Check {
    Check {
        name: name.to_owned(),
        grade,
        measured: String::new(),
        threshold: String::new(),
        advice: String::new(),
        explained_by: None,
    }
}

/// What explains each of these checks, were they the broken ones of a run with this finding.
fn all<'a>(
    finding: Finding,
    engine: &EngineFacts,
    checks: &[(&'a str, Grade)],
) -> Vec<(&'a str, Option<String>)> {
    let mut graded: Vec<Check> = checks.iter().map(|(name, grade)| broken(name, *grade)).collect();
    explain(&mut graded, finding, &run(0, LateCause::None, Outcome::Ok), engine);
    checks.iter().zip(graded).map(|((name, _), check)| (*name, check.explained_by)).collect()
}

#[test]
fn what_is_late_by_the_host_is_no_second_cause_beside_the_finding() {
    let verdict = judge(&run(100, LateCause::Host, Outcome::Ok), &engine());
    assert_eq!(verdict.finding, Finding::HostStalled);
    assert_eq!(causes(&verdict), [""; 0]);
    assert_eq!(explained(&verdict, "lateness"), Some("host-stalled"));
    assert_eq!(explained(&verdict, "percentiles"), Some("host-stalled"));
    assert!(!verdict.summary.contains("Read with care"), "{}", verdict.summary);
}

#[test]
fn what_explains_nothing_else_is_named() {
    let engine = EngineFacts { wraparound_factor: Some(5.0), ..engine() };
    let verdict = judge(&run(100, LateCause::Host, Outcome::Ok), &engine);
    assert_eq!(causes(&verdict), ["wraparound"]);
    assert!(verdict.summary.ends_with("Read with care: wraparound."), "{}", verdict.summary);
}

#[test]
fn conflicts_are_the_cause_where_they_made_most_of_the_lateness() {
    let pushed = EngineFacts { pushed_back: 100, ..engine() };
    let verdict = judge(&run(100, LateCause::Conflict, Outcome::Ok), &pushed);
    assert_eq!((verdict.finding, causes(&verdict)), (Finding::DeviceLimited, vec!["conflicts"]));
    assert_eq!(verdict.check("conflicts").unwrap().grade, Grade::Limited);
    assert!(verdict.summary.contains("waited for others in flight that they overlap"));
    let capped = judge(&run(100, LateCause::InFlightCap, Outcome::Ok), &pushed);
    assert_eq!(explained(&capped, "conflicts"), Some("device-limited"));
    assert!(!capped.summary.contains("overlap"), "{}", capped.summary);
    // What is dropped is missing from the load, whatever the cause.
    let dropped = EngineFacts { dropped: 100, ..engine() };
    let verdict = judge(&run(100, LateCause::InFlightCap, Outcome::Ok), &dropped);
    assert_eq!((causes(&verdict), explained(&verdict, "conflicts")), (vec!["conflicts"], None));
    // In time, nothing is the device's finding.
    let in_time = judge(&run(0, LateCause::None, Outcome::Ok), &pushed);
    assert_eq!(in_time.check("conflicts").unwrap().grade, Grade::Suspect);
}

#[test]
fn calls_that_took_long_are_told_with_the_longest() {
    let engine = EngineFacts { submission_max_ns: 45_000_000, ..engine() };
    let verdict = judge(&run(100, LateCause::Submission, Outcome::Ok), &engine);
    let said = "Device-limited: the calls that hand requests over, one after the other, waited \
                for the device, the longest for 45.0 ms; 100 requests (10.00 %) were issued more \
                than 1.00 ms late";
    assert!(verdict.summary.starts_with(said), "{}", verdict.summary);
}

#[test]
fn a_full_queue_is_the_cause_unless_any_queue_would_have_filled() {
    fn of<'a>(checks: &[(&'a str, Grade)]) -> Vec<(&'a str, Option<String>)> {
        all(Finding::DeviceLimited, &engine(), checks)
    }
    let limited = Grade::Limited;
    assert_eq!(
        of(&[("queue-depth", limited), ("lateness", limited)]),
        [("queue-depth", None), ("lateness", Some("device-limited".to_owned()))]
    );
    assert_eq!(
        of(&[("queue-depth", limited), ("duration", limited)]),
        [
            ("queue-depth", Some("device-limited".to_owned())),
            ("duration", Some("device-limited".to_owned()))
        ]
    );
    let stalled = all(Finding::HostStalled, &engine(), &[("queue-depth", limited)]);
    assert_eq!(stalled[0].1, Some("host-stalled".to_owned()));
    // A cap that somebody set low is no finding about the device.
    assert_eq!(
        of(&[("queue-depth", Grade::Suspect), ("duration", limited)])[0],
        ("queue-depth", None)
    );
}

#[test]
fn what_changes_in_the_middle_because_of_others_is_no_unsteady_device() {
    let unsteady = [("steady-state", Grade::Suspect), ("run-length", Grade::Suspect)];
    let beside = |name, grade| {
        let checks = [unsteady[0], unsteady[1], (name, grade)];
        let found = all(Finding::Faithful, &engine(), &checks);
        (found[0].1.clone(), found[1].1.clone(), found[2].1.clone())
    };
    let explained = |cause: &str| (Some(cause.to_owned()), Some("steady-state".to_owned()), None);
    for name in ["other-load", "content"] {
        assert_eq!(beside(name, Grade::Suspect), explained(name));
    }
    assert_eq!(beside("failures", Grade::Invalid), explained("failures"));
    let alone = (None, Some("steady-state".to_owned()), None);
    assert_eq!(beside("failures", Grade::Suspect), alone);
    assert_eq!(beside("same-load", Grade::Suspect), alone);
    // Processors in use explain it only if they were.
    assert_eq!(beside("cpu", Grade::Suspect), alone);
    let mut busy = engine();
    busy.host.cpu =
        Some(CpuFacts { others_by_tenth: vec![0, 0, 0, 0, 0, 5], ..CpuFacts::default() });
    let checks = [unsteady[0], ("cpu", Grade::Suspect)];
    assert_eq!(all(Finding::Faithful, &busy, &checks)[0].1, Some("cpu".to_owned()));
    let stalled = all(Finding::HostStalled, &engine(), &unsteady[..1]);
    assert_eq!(stalled[0].1, Some("host-stalled".to_owned()));
}

#[test]
fn what_was_lost_or_never_answered_is_counted_once() {
    let lost = EngineFacts { results_lost: 3, ..engine() };
    let recorder = RecorderFacts { peak: 10, room: 10, write_max_ns: 1 };
    let lost = EngineFacts {
        host: crate::facts::HostFacts { recorder: Some(recorder), ..Default::default() },
        ..lost
    };
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &lost);
    assert_eq!(
        (causes(&verdict), explained(&verdict, "accounted")),
        (vec!["recorder"], Some("recorder"))
    );
    let hung = EngineFacts { abandoned: 1, ..engine() };
    let verdict = judge(&run(0, LateCause::None, Outcome::Abandoned), &hung);
    assert_eq!(
        (causes(&verdict), explained(&verdict, "failures")),
        (vec!["accounted"], Some("accounted"))
    );
}

#[test]
fn a_smaller_target_is_told_once_and_what_overlaps_there_with_it() {
    let mut smaller = EngineFacts { wraparound_factor: Some(4.0), pushed_back: 100, ..engine() };
    smaller.load.size =
        Some(SizeFacts { target_bytes: 1 << 20, recorded_bytes: 4 << 20, unknown: 0 });
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &smaller);
    assert_eq!(causes(&verdict), ["target-size"]);
    assert_eq!(explained(&verdict, "wraparound"), Some("target-size"));
    assert_eq!(explained(&verdict, "conflicts"), Some("wraparound"));
    smaller.load.size = None;
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &smaller);
    assert_eq!(causes(&verdict), ["wraparound"]);
    assert_eq!(explained(&verdict, "target-size"), Some("wraparound"));
}

#[test]
fn foreign_load_is_told_by_the_finding_and_what_else_the_witness_saw_by_itself() {
    let seen = |missing| EngineFacts {
        witness: Some(WitnessFacts {
            asked: 1000,
            found: 1000 - missing,
            missing,
            extra: 300,
            absolute: true,
            ..WitnessFacts::default()
        }),
        ..engine()
    };
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &seen(0));
    assert_eq!((verdict.finding, causes(&verdict)), (Finding::ForeignLoad, vec![]));
    assert_eq!(explained(&verdict, "witness"), Some("foreign-load"));
    let verdict = judge(&run(0, LateCause::None, Outcome::Ok), &seen(20));
    assert_eq!((verdict.finding, causes(&verdict)), (Finding::ForeignLoad, vec!["witness"]));
}
