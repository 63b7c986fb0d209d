//! The check on a witness: whether the device saw what the run says that it issued.

use ioecho_trace::Nanos;
use ioecho_trace::units::counted;

use super::{CONFLICT_SHARE, REFUSED_SHARE, check, graded, late_grade, share};
use crate::chance::is_above;
use crate::facts::{EngineFacts, WitnessFacts};
use crate::fidelity::{APART_SHARE, EXTRA_SHARE};
use crate::verdict::{Check, Grade};

/// The share of foreign requests from which on it is another load: the same as for dropped ones
/// (`conflicts`).
const EXTRA_SHARE_INVALID: f64 = CONFLICT_SHARE;

const THRESHOLD: &str = "every request seen (invalid above 1 % missing); at most 1 % held back by \
                         more than 1 ms, of others (invalid above 5 %), or behind one due more \
                         than 1 ms later; beyond chance where that is fewer than ten";

/// The share of other programs' requests in all that the device saw during the run.
fn extra_share(seen: &WitnessFacts) -> f64 {
    share(seen.extra, seen.found.saturating_add(seen.extra))
}

/// Whether other programs loaded the device so much that the run was not the only load.
fn is_shared(seen: &WitnessFacts) -> bool {
    is_above(seen.extra, seen.found.saturating_add(seen.extra), EXTRA_SHARE)
}

/// The same of a run, if it had a witness.
pub(in crate::judge) fn is_foreign(engine: &EngineFacts) -> bool {
    engine.witness.as_ref().is_some_and(|seen| seen.is_there() && is_shared(seen))
}

/// Whether other programs' load is all that a witness has against the run.
pub(in crate::judge) fn is_foreign_only(seen: &WitnessFacts) -> bool {
    let without = WitnessFacts { extra: 0, ..seen.clone() };
    is_shared(seen) && findings(&without, true).iter().all(|(grade, _)| *grade <= Grade::Pass)
}

/// Whether requests that were handed over in time were held back on their way to the device.
pub(in crate::judge) fn is_held_back(seen: &WitnessFacts) -> bool {
    late_grade(seen.held_back, seen.found, Nanos(seen.delay_max_ns())) > Grade::Pass
}

pub(in crate::judge) fn witness(engine: &EngineFacts) -> Check {
    let Some(seen) = &engine.witness else {
        let measured = "the run had no witness".to_owned();
        return check("witness", Grade::NotApplicable, measured, "", "");
    };
    if !seen.failure.is_empty() {
        let measured = format!("asked for, and there is none: {}", seen.failure);
        return check(
            "witness",
            Grade::Suspect,
            measured,
            "a witness where one was asked for",
            NONE,
        );
    }
    let findings = findings(seen, engine.has_schedule());
    let worst = findings.iter().max_by_key(|finding| finding.0);
    let (grade, advice) = worst.map_or((Grade::Pass, ""), |worst| *worst);
    check("witness", grade, measured(seen, engine.has_schedule()), THRESHOLD, advice)
}

fn findings(seen: &WitnessFacts, has_schedule: bool) -> Vec<(Grade, &'static str)> {
    let of_asked = |count: u64| share(count, seen.asked);
    let missing = of_asked(seen.missing);
    let mut all = Vec::new();
    if seen.not_witnessed > 0 {
        all.push((Grade::Suspect, if seen.lost_events > 0 { LOST } else { BROKE_OFF }));
    }
    if seen.missing > 0 {
        all.push((graded(missing, 0.0, REFUSED_SHARE), MISSING));
    }
    if is_shared(seen) {
        all.push((graded(extra_share(seen), EXTRA_SHARE, EXTRA_SHARE_INVALID), EXTRA));
    }
    // Without a schedule the order of requests is not given.
    let is_reordered = |count| has_schedule && is_above(count, seen.found, APART_SHARE);
    if is_reordered(seen.reordered_apart) {
        all.push((Grade::Suspect, REORDERED));
    } else if is_reordered(seen.reordered_apart.saturating_add(seen.reordered_held_back)) {
        all.push((Grade::Limited, PUSHED_BACK));
    }
    if has_schedule && is_held_back(seen) {
        all.push((Grade::Limited, HELD_BACK));
    }
    all
}

fn measured(seen: &WitnessFacts, has_schedule: bool) -> String {
    let mut parts = vec![format!(
        "the device saw {} of {}, {} missing, {} of others",
        seen.found,
        counted(seen.asked, "request"),
        seen.missing,
        seen.extra
    )];
    if seen.split.max(seen.merged) > 0 {
        parts.push(format!("{} in pieces and {} merged", seen.split, seen.merged));
    }
    if has_schedule {
        let (p50, p99) = (Nanos(seen.issue_p50_ns), Nanos(seen.issue_p99_ns));
        parts.push(format!("issue-time error p50 {p50}, p99 {p99}"));
        parts.push(format!(
            "{} reordered ({:.3} %)",
            seen.reordered,
            share(seen.reordered, seen.found) * 100.0
        ));
        if seen.reordered_apart > 0 {
            let count = seen.reordered_apart;
            parts.push(format!("{count} of them behind one due more than 1 ms later"));
        }
        if seen.reordered_held_back > 0 {
            let count = seen.reordered_held_back;
            parts.push(format!("{count} of them held back behind what the device had not done"));
        }
    }
    if seen.not_witnessed > 0 {
        parts.push(format!("{} not witnessed", seen.not_witnessed));
    }
    let accounted = seen.found.saturating_add(seen.missing).saturating_add(seen.not_witnessed);
    let never_there = seen.asked.saturating_sub(accounted);
    if never_there > 0 {
        parts.push(format!(
            "{never_there} could not reach it: not issued, or flushes of a device without a cache"
        ));
    }
    if has_schedule && seen.held_back > 0 {
        parts.push(format!("{} held back by more than 1 ms", seen.held_back));
    }
    if seen.lost_events > 0 {
        parts.push(format!("{} lost by the recorder", counted(seen.lost_events, "event")));
    }
    parts.join("; ")
}

const NONE: &str = "Nothing but the engine says that the device was given this load: mend what is \
                    in the way of recording, or replay without a witness.";
const LOST: &str = "The recorder lost events, so nobody can tell whether the device saw these \
                    requests: give it larger buffers.";
const BROKE_OFF: &str = "The recording does not cover the whole run, so nobody can tell whether \
                         the device saw these requests: see why it ended, and replay again.";
const PUSHED_BACK: &str = "Requests waited for others that they overlap, because the device took \
                           longer than the original one, and came behind later ones. That is a \
                           finding about the device; the conflict rule of the run says what is \
                           done with them.";
const MISSING: &str = "Requests that the run counts as done never reached the device: look for a \
                       cache or another layer between, and check the run against its witness.";
const EXTRA: &str = "Somebody else used the device during the run: what was measured is both loads \
                     together.";
const REORDERED: &str = "The device was given the requests in another order than the recorded one: \
                         see the check scheduler, and use fewer processors for the run.";
const HELD_BACK: &str = "Requests were handed over in time and reached the device late: \
                         throttling, a full queue or a scheduler held them back. That is a \
                         finding about the system below the replay.";

#[cfg(test)]
mod tests {
    use super::*;

    fn graded_of(seen: WitnessFacts) -> Grade {
        let engine = EngineFacts { witness: Some(seen), ..EngineFacts::default() };
        witness(&engine).grade
    }

    fn sound() -> WitnessFacts {
        WitnessFacts { asked: 1000, found: 1000, absolute: true, ..WitnessFacts::default() }
    }

    #[test]
    fn without_a_witness_it_does_not_apply_and_one_that_failed_is_told() {
        assert_eq!(witness(&EngineFacts::default()).grade, Grade::NotApplicable);
        assert_eq!(graded_of(WitnessFacts::failed("no tracefs")), Grade::Suspect);
    }

    #[test]
    fn what_the_device_did_not_see_as_it_was_issued_is_told() {
        assert_eq!(graded_of(sound()), Grade::Pass);
        assert_eq!(graded_of(WitnessFacts { missing: 1, ..sound() }), Grade::Suspect);
        assert_eq!(graded_of(WitnessFacts { missing: 11, ..sound() }), Grade::Invalid);
        let lost = WitnessFacts { not_witnessed: 11, lost_events: 40, ..sound() };
        assert_eq!(graded_of(lost), Grade::Suspect);
        assert_eq!(graded_of(WitnessFacts { extra: 10, ..sound() }), Grade::Pass);
        assert_eq!(graded_of(WitnessFacts { extra: 11, ..sound() }), Grade::Suspect);
        assert_eq!(graded_of(WitnessFacts { extra: 60, ..sound() }), Grade::Invalid);
        let reordered =
            |reordered_apart| WitnessFacts { reordered: 100, reordered_apart, ..sound() };
        assert_eq!(graded_of(reordered(10)), Grade::Pass);
        assert_eq!(graded_of(reordered(11)), Grade::Suspect);
        assert_eq!(graded_of(WitnessFacts { late: 11, held_back: 11, ..sound() }), Grade::Limited);
    }

    #[test]
    fn a_single_request_of_a_small_run_is_no_share() {
        let smaller = || WitnessFacts { asked: 31, found: 31, ..sound() };
        assert_eq!(graded_of(WitnessFacts { reordered_apart: 1, ..smaller() }), Grade::Pass);
        assert_eq!(graded_of(WitnessFacts { reordered_apart: 2, ..smaller() }), Grade::Suspect);
        assert_eq!(graded_of(WitnessFacts { extra: 1, ..smaller() }), Grade::Pass);
        assert_eq!(graded_of(WitnessFacts { extra: 2, ..smaller() }), Grade::Invalid);
        let held_back = |held_back, issue_max_ns| {
            graded_of(WitnessFacts { late: held_back, held_back, issue_max_ns, ..smaller() })
        };
        assert_eq!(held_back(1, 1_010_000), Grade::Pass);
        assert_eq!(
            (held_back(1, 11_000_000), held_back(2, 1_010_000)),
            (Grade::Limited, Grade::Limited)
        );
    }

    #[test]
    fn what_waited_for_the_device_and_came_later_is_a_finding() {
        let of = |reordered_held_back, reordered_apart| {
            let reordered = reordered_held_back + reordered_apart;
            graded_of(WitnessFacts { reordered, reordered_held_back, reordered_apart, ..sound() })
        };
        assert_eq!((of(500, 0), of(490, 10)), (Grade::Limited, Grade::Limited));
        assert_eq!((of(489, 11), of(1, 0)), (Grade::Suspect, Grade::Pass));
    }

    #[test]
    fn what_was_due_at_almost_the_same_instant_has_no_order() {
        let burst = WitnessFacts { reordered: 91, ..sound() };
        assert_eq!(graded_of(burst), Grade::Pass);
    }

    #[test]
    fn requests_that_could_not_reach_the_device_are_told() {
        let engine = |missing| {
            let seen = WitnessFacts { asked: 1000, found: 930, missing, ..sound() };
            witness(&EngineFacts { witness: Some(seen), ..EngineFacts::default() }).measured
        };
        assert!(engine(0).contains("; 70 could not reach it"), "{}", engine(0));
        assert!(!engine(70).contains("could not reach"), "{}", engine(70));
    }

    #[test]
    fn a_recording_that_broke_off_lost_no_event_and_needs_no_larger_buffer() {
        let engine = |lost_events| EngineFacts {
            witness: Some(WitnessFacts { not_witnessed: 11, lost_events, ..sound() }),
            ..EngineFacts::default()
        };
        assert!(witness(&engine(5)).advice.contains("larger buffers"));
        assert!(witness(&engine(0)).advice.contains("does not cover"));
    }

    #[test]
    fn without_a_schedule_there_is_no_order_to_keep() {
        let seen = WitnessFacts {
            reordered: 500,
            reordered_apart: 500,
            held_back: 500,
            late: 500,
            ..sound()
        };
        let afap = EngineFacts {
            witness: Some(seen),
            timing: ioecho_trace::TimingMode::Afap,
            ..EngineFacts::default()
        };
        assert_eq!(witness(&afap).grade, Grade::Pass);
        let told = witness(&afap).measured;
        assert!(!told.contains("held back") && !told.contains("reordered"), "{told}");
    }
}
