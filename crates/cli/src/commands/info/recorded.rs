//! The facts on a recording in the header of a trace, as lines.
//!
//! A few figures decide whether a recording can be trusted: which events were lost and when, how
//! certain the latencies are, and how much time the recorder took from the load.

use ioecho_trace::recording::{DriverFigures, MatchingFigures, Recording};
use ioecho_trace::units::counted;
use ioecho_trace::{Bytes, Nanos};

/// How many gaps are listed.
const GAPS_SHOWN: usize = 4;

/// The rows, each with a name and a value.
pub(super) fn rows(recording: &Recording) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let why = if recording.why.is_empty() { String::new() } else { format!(": {}", recording.why) };
    rows.push(("recorded by", format!("{}{why}", recording.interface.name())));
    if !recording.events.is_empty() {
        let events: Vec<_> =
            recording.events.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        rows.push(("events", events.join(", ")));
    }
    if let Some(why) = recording.stopped.as_ref().filter(|_| !recording.was_asked_to_end()) {
        rows.push(("ended", format!("early: {why}")));
    }
    for (cpu, lost) in recording.lost.iter().filter(|(_, lost)| **lost > 0) {
        rows.push(("lost events", format!("{lost} of processor {cpu}")));
    }
    for gap in recording.gaps.iter().take(GAPS_SHOWN) {
        let seconds = |ns| Nanos(ns).as_secs_f64();
        let events = if gap.events == 0 { "events".to_owned() } else { gap.events.to_string() };
        let (from, to) = (seconds(gap.from_ns), seconds(gap.to_ns));
        rows.push(("gap", format!("{events} lost from {from:.6} s to {to:.6} s")));
    }
    if let Some(more) = recording.gaps.len().checked_sub(GAPS_SHOWN).filter(|more| *more > 0) {
        rows.push(("", format!("and {} more (--json lists them)", counted(more as u64, "gap"))));
    }
    rows.extend(recording.matching.map(|matching| ("matching", told_matching(&matching))));
    rows.extend(recording.driver.map(|driver| ("driver", told_driver(&driver))));
    if let Some(cost) = recording.cost {
        let share = cost.cpu_share() * 100.0;
        rows.push(("recorder", format!("took {share:.2} % of a processor, {}", Bytes(cost.bytes))));
    }
    rows
}

fn told_matching(matching: &MatchingFigures) -> String {
    let share = |part: u64| part as f64 * 100.0 / matching.requests().max(1) as f64;
    format!(
        "{:.3} % exact, {:.3} % by pieces, {:.3} % unmatched; {:.3} % ambiguous; {}; {}",
        share(matching.exact),
        share(matching.by_pieces),
        share(matching.unmatched),
        share(matching.ambiguous),
        counted(matching.strays, "stray completion"),
        counted(matching.failed, "failed request"),
    )
}

fn told_driver(driver: &DriverFigures) -> String {
    let time = |ns: u64| Nanos(i64::try_from(ns).unwrap_or(i64::MAX));
    let reordering = driver.reordering;
    format!(
        "reached after p50 {}, p99 {}, max {} (of {}); reordered {:.3} %, mean extent {:.1}, \
         greatest {}",
        time(driver.p50_ns),
        time(driver.p99_ns),
        time(driver.max_ns),
        driver.seen,
        reordering.ratio() * 100.0,
        reordering.mean_extent(),
        reordering.extent_max,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::recording::{Gap, Interface};

    #[test]
    fn an_end_that_nobody_asked_for_is_told_and_is_no_loss() {
        let ended =
            |why: &str| rows(&Recording { stopped: Some(why.to_owned()), ..Recording::default() });
        let told = ("ended", "early: loop7 was removed".to_owned());
        assert_eq!(ended("loop7 was removed")[1..], [told]);
        assert_eq!(ended("asked to: SIGINT").len(), 1);
    }

    #[test]
    fn a_recording_is_told_in_a_few_rows() {
        let recording = Recording {
            interface: Interface::Tracefs,
            why: "asked for".to_owned(),
            gaps: vec![Gap { from_ns: 1_000_000_000, to_ns: 2_000_000_000, events: 7 }; 6],
            matching: Some(MatchingFigures {
                exact: 3,
                unmatched: 1,
                ..MatchingFigures::default()
            }),
            ..Recording::default()
        };
        let rows: Vec<_> =
            rows(&recording).into_iter().map(|(name, value)| format!("{name}|{value}")).collect();
        assert_eq!(rows[0], "recorded by|tracefs: asked for");
        assert_eq!(rows[1], "gap|7 lost from 1.000000 s to 2.000000 s");
        assert_eq!(rows[5], "|and 2 gaps more (--json lists them)");
        assert!(rows[6].starts_with("matching|75.000 % exact, 0.000 % by pieces, 25.000 %"));
    }
}
