//! The check on a witness: whether the device saw what the run says that it issued.

use ioecho_trace::Nanos;
use ioecho_trace::units::counted;

use super::{CONFLICT_SHARE, LATE_SHARE_PASS, REFUSED_SHARE, check, graded, share};
use crate::facts::{EngineFacts, WitnessFacts};
use crate::fidelity::{EXTRA_SHARE, REORDERED_SHARE};
use crate::verdict::{Check, Grade};

/// The share of foreign requests from which on it is another load: the same as for dropped ones
/// (`conflicts`).
const EXTRA_SHARE_INVALID: f64 = CONFLICT_SHARE;

const THRESHOLD: &str = "every request seen (invalid above 1 % missing); at most 1 % held back by \
                         more than 1 ms, or of others (invalid above 5 %), and 0.1 % reordered \
                         that were not held back";

/// The share of other programs' requests in all that the device saw during the run.
fn extra_share(seen: &WitnessFacts) -> f64 {
    share(seen.extra, seen.found.saturating_add(seen.extra))
}

/// Whether other programs loaded the device so much that the run was not the only load.
pub(in crate::judge) fn is_foreign(engine: &EngineFacts) -> bool {
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    seen.is_some_and(|seen| extra_share(seen) > EXTRA_SHARE)
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
    let held_back = share(seen.held_back, seen.found);
    let mut all = Vec::new();
    if seen.not_witnessed > 0 {
        all.push((Grade::Suspect, if seen.lost_events > 0 { LOST } else { BROKE_OFF }));
    }
    if seen.missing > 0 {
        all.push((graded(missing, 0.0, REFUSED_SHARE), MISSING));
    }
    let foreign = graded(extra_share(seen), EXTRA_SHARE, EXTRA_SHARE_INVALID);
    if foreign > Grade::Pass {
        all.push((foreign, EXTRA));
    }
    // Without a schedule the order of requests is not given.
    let by_itself = seen.reordered.saturating_sub(seen.reordered_held_back);
    if has_schedule && share(by_itself, seen.found) > REORDERED_SHARE {
        all.push((Grade::Suspect, REORDERED));
    } else if has_schedule && share(seen.reordered, seen.found) > REORDERED_SHARE {
        all.push((Grade::Limited, PUSHED_BACK));
    }
    if has_schedule && held_back > LATE_SHARE_PASS {
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
        if seen.reordered_held_back > 0 {
            let count = seen.reordered_held_back;
            parts.push(format!("{count} of them held back behind what the device had not done"));
        }
    }
    if seen.not_witnessed > 0 {
        parts.push(format!("{} not witnessed", seen.not_witnessed));
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
        assert_eq!(graded_of(WitnessFacts { reordered: 1, ..sound() }), Grade::Pass);
        assert_eq!(graded_of(WitnessFacts { reordered: 2, ..sound() }), Grade::Suspect);
        assert_eq!(graded_of(WitnessFacts { late: 11, held_back: 11, ..sound() }), Grade::Limited);
    }

    #[test]
    fn what_waited_for_the_device_and_came_later_is_a_finding_by_the_rule_of_check() {
        let of = |reordered, reordered_held_back| {
            graded_of(WitnessFacts { reordered, reordered_held_back, ..sound() })
        };
        assert_eq!((of(500, 500), of(500, 499)), (Grade::Limited, Grade::Limited));
        assert_eq!((of(500, 498), of(1, 1)), (Grade::Suspect, Grade::Pass));
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
        let seen = WitnessFacts { reordered: 500, held_back: 500, late: 500, ..sound() };
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
