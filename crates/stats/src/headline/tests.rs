//! The sentences that people read first.

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
    for by_kind in [&mut summary.response_time, &mut summary.service_time, &mut summary.lateness] {
        by_kind.insert("all".to_owned(), all);
    }
    summary
}

fn told(summary: &RunSummary) -> String {
    let is_late = summary.verdict.finding == Finding::DeviceLimited;
    lasting(summary, if is_late { 3_600 } else { 9_421 }, 9_421)
}

/// The sentence of a run whose load lasts so long, and that took so long, in nanoseconds.
fn lasting(summary: &RunSummary, demanded_end_ns: i64, achieved_end_ns: i64) -> String {
    let mut panels = crate::picture::RunPicture::new().finish();
    (panels.demanded_end_ns, panels.achieved_end_ns) = (demanded_end_ns, achieved_end_ns);
    sentence(summary, &panels, None)
}

#[test]
fn a_device_that_is_done_long_after_the_load_did_not_keep_up_with_it() {
    let summary = run(Finding::Faithful, Validity::Valid);
    assert_eq!(
        lasting(&summary, 1_900_000, 60_300_000),
        "The device took this load in time and had all of it done 58.4 ms after its end: p99 \
         response 1:36:00, the slowest 2:37:01."
    );
    assert!(lasting(&summary, 59_000_000, 60_300_000).contains("kept up with"));
}

#[test]
fn a_load_that_is_due_at_once_has_no_length_to_compare_with() {
    let summary = run(Finding::DeviceLimited, Validity::Valid);
    assert!(
        lasting(&summary, 0, 630_000_000)
            .starts_with("The device was too slow for this load: it took 630 ms, p99 response"),
        "{}",
        lasting(&summary, 0, 630_000_000)
    );
}

#[test]
fn what_was_due_by_an_end_that_was_asked_for_was_demanded() {
    let mut summary = run(Finding::DeviceLimited, Validity::Valid);
    summary.engine.ended_after = Some(EndedAfter {
        after_ns: 10_000_000_000,
        not_issued: 0,
        behind_ns: 1,
        lateness_ns: 1,
        cause: LateCause::InFlightCap,
    });
    let told = lasting(&summary, 9_100_000_000, 18_000_000_000);
    assert!(told.contains(": 1.8 times as long, "), "{told}");
}

#[test]
fn moments_that_cover_much_of_a_run_are_told_with_the_share_of_the_slow_requests() {
    let summary = run(Finding::Faithful, Validity::Valid);
    // Each of eight moments covers a twentieth of the run, and is one request of a thousand.
    let service = |n: i64| if n % 125 == 60 { 5_000_000_000 } else { 100_000 };
    let reads = (0..1000).map(|n| request(Op::Read, n * 100_000_000, 0, service(n)));
    let panels = picture(&reads.collect::<Vec<_>>()).finish();
    let told = sentence(&summary, &panels, None);
    let expected = "The device kept up with this load but was slow at 8 moments, with 0.8 % of the \
                    requests:";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn the_operation_that_had_the_slowest_request_is_told_beside_reads_and_writes() {
    let of = |max_ns| Percentiles { count: 9, mean_ns: 1, p50_ns: 1, max_ns, ..NONE };
    let told = |flush_ns: u64| {
        let spans = [("all", flush_ns.max(5)), ("write", 5), ("flush", flush_ns)];
        let by_kind = spans.map(|(name, ns)| (name.to_owned(), of(ns))).into();
        percentiles(&by_kind).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(told(4), ["write"]);
    assert_eq!(told(6), ["write", "flush"]);
}

/// No percentile.
const NONE: Percentiles = Percentiles {
    count: 0,
    mean_ns: 0,
    p50_ns: 0,
    p90_ns: None,
    p99_ns: None,
    p99_9_ns: None,
    p99_99_ns: None,
    max_ns: 0,
};

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
        "The device kept up with this load but was slow at 2 moments: p99 response 1:36:00, \
         the slowest 2:37:01."
    );
    let slow = said(Finding::DeviceLimited, &panels, 0);
    assert!(slow.starts_with("The device was too slow for this load at 2 moments: p99"), "{slow}");
    // Whether host or device stood still is not known then.
    let unknown = said(Finding::Faithful, &panels, 500_000_000);
    assert!(unknown.starts_with("The device kept up with this load: "), "{unknown}");
    // Requests were late at other times as well.
    panels.lateness_max_ns.fill(Some(2_000_000));
    let throughout = said(Finding::DeviceLimited, &panels, 0);
    assert!(throughout.starts_with("The device was too slow for this load: p99"), "{throughout}");
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
    // In the stretch in which the first failed, others may have succeeded before it.
    panels.achieved_requests[half + 1] = 0;
    panels.achieved_requests[half] = 9;
    assert_eq!(failed_since(&panels), Some(at + panels.width_ns as u64));
    // Nor does a short run show which came last.
    panels.failed[half + 1..].fill(0);
    panels.failed[half] = 3;
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
        "The device kept up with this load: p99 response 1:36:00, the slowest 2:37:01."
    );
    assert_eq!(
        said(Finding::DeviceLimited),
        "The device was too slow for this load: 2.6 times as long, p99 response 1:36:00."
    );
    assert_eq!(
        said(Finding::DataDamaged),
        "The device lost or altered data that were written to it."
    );
    assert_eq!(
        said(Finding::Incomplete),
        "The run was cut short after 2:37:01: stopped by a signal."
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
        "the replayed part of this load, changed by 'speed 4' and 'reverse'"
    );
    assert_eq!(changed(&["busiest 5m,at=3s"]), "the replayed part of this load");
    assert_eq!(changed(&["a", "b", "c"]), "this load, changed by 3 transforms");
    let ended_after = Some(EndedAfter {
        after_ns: 60_000_000_000,
        not_issued: 25,
        behind_ns: 1,
        lateness_ns: 1,
        cause: LateCause::InFlightCap,
    });
    let ended = EngineFacts { ended_after, ..EngineFacts::default() };
    assert_eq!(of(ended), "75 % of this load, ended after 60.0 s as was asked for");
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
    summary.engine.host.cpu =
        Some(CpuFacts { others_by_tenth: vec![0, 0, 0, 0, 4], total_ns: 1, ..CpuFacts::default() });
    assert!(told(&summary).contains("issuing 12 % of"), "{}", told(&summary));
    summary.late.clear();
    summary.verdict.finding = Finding::GeneratorLimited;
    assert_eq!(told(&summary), "The measurement failed: ioecho did not issue the load in time.");
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
        explained_by: None,
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
         10, the slowest response 2:37:01."
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
         1:36:00, the slowest 2:37:01."
    );
    summary.engine.timing = TimingMode::Afap;
    assert_eq!(told(&summary), "Simulated: as fast as possible, the slowest service time 2:37:01.");
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
