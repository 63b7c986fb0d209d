//! The laws of merging runs, on verdicts and summaries.

use ioecho_trace::{Batch, Columns, Nanos, Op};
use proptest::prelude::*;

use super::*;
use crate::begun::Begun;
use crate::facts::laws::{Draw, without_order};
use crate::load_figures::tests::request;
use crate::verdict::{Check, Finding, Grade, Validity, Verdict};

const GRADES: [Grade; 5] =
    [Grade::NotApplicable, Grade::Pass, Grade::Limited, Grade::Suspect, Grade::Invalid];
const FINDINGS: [Finding; 8] = [
    Finding::Unscheduled,
    Finding::ForeignLoad,
    Finding::DataDamaged,
    Finding::Faithful,
    Finding::DeviceLimited,
    Finding::GeneratorLimited,
    Finding::HostStalled,
    Finding::Incomplete,
];

fn check(name: &str, grade: Grade) -> Check {
    let [measured, threshold, advice] =
        ["measured", "threshold", "advice"].map(|what| format!("{what} {}", grade.name()));
    Check { name: name.to_owned(), grade, measured, threshold, advice, explained_by: None }
}

/// A run with some of the checks, each with any grade.
fn run(name: &str, seed: u64) -> MergedRun {
    let draw = &mut Draw::new(seed);
    let mut checks = Vec::new();
    for name in crate::judge::names().iter().map(String::as_str).chain(["of-another-version"]) {
        if draw.below(4) > 0 {
            checks.push(check(name, GRADES[draw.below(5) as usize]));
        }
    }
    let verdict = Verdict {
        validity: Validity::of(&checks),
        finding: FINDINGS[draw.below(8) as usize],
        summary: format!("sentence on {name}"),
        checks,
    };
    MergedRun {
        name: name.to_owned(),
        shift_ns: draw.below(100) as i64,
        engine: draw.engine(),
        verdict,
        begun: (draw.below(3) > 0).then(|| Begun {
            axis: if draw.below(8) > 0 { "one" } else { "another" }.to_owned(),
            zero_ns: draw.below(1_000_000) as i64,
            bound_ns: draw.below(1_000_000) as i64,
            first_late_ns: (draw.below(8) > 0).then(|| draw.below(1_000_000) as i64),
            skew_max_ns: 1_000_000,
        }),
    }
}

/// Some requests.
fn figures() -> RunFigures {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    for n in 0..40 {
        batch.push(&request(Op::Write, Nanos::from_millis(n), 0, 4096, Nanos::from_micros(100)));
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    figures
}

/// What a verdict says besides its texts.
fn judgement(verdict: &Verdict) -> (Validity, Finding, Vec<(&str, Grade)>) {
    let grades = verdict.checks.iter().map(|check| (check.name.as_str(), check.grade)).collect();
    (verdict.validity, verdict.finding, grades)
}

fn summary_of(runs: &[MergedRun]) -> RunSummary {
    summary(runs.to_vec(), &figures()).unwrap()
}

/// The runs without the names of what they were merged into before.
fn bare(runs: Vec<MergedRun>) -> Vec<MergedRun> {
    let own = |name: &str| name.rsplit(':').next().unwrap_or(name).to_owned();
    runs.into_iter().map(|run| MergedRun { name: own(&run.name), ..run }).collect()
}

proptest! {
    #[test]
    fn merged_runs_merge_to_what_their_runs_merge_to(seed: u64) {
        let runs = [run("a", seed), run("b", seed ^ 1), run("c", seed ^ 2)];
        let steps = |first: &[MergedRun], second: &[MergedRun]| {
            let parts = [first, second].map(|part| match part {
                [alone] => vec![alone.clone()],
                several => bare(MergedRun::all_of("m", Nanos::ZERO, summary_of(several))),
            });
            summary_of(&parts.concat())
        };
        let whole = summary_of(&runs);
        prop_assert_eq!(&steps(&runs[..2], &runs[2..]), &whole);
        prop_assert_eq!(&steps(&runs[..1], &runs[1..]), &whole);
    }

    #[test]
    fn the_order_of_runs_changes_no_judgement_and_no_fact(seed: u64) {
        let (a, b) = (run("a", seed), run("b", seed ^ 1));
        let (one, other) = (summary_of(&[a.clone(), b.clone()]), summary_of(&[b, a]));
        prop_assert_eq!(judgement(&one.verdict), judgement(&other.verdict));
        prop_assert_eq!(&one.verdict.summary, &other.verdict.summary);
        prop_assert_eq!(without_order(one.engine), without_order(other.engine));
    }

    #[test]
    fn the_whole_is_never_judged_milder_than_its_worst_run(seed: u64) {
        let runs = [run("a", seed), run("b", seed ^ 1), run("c", seed ^ 2)];
        let whole = summary_of(&runs).verdict;
        for run in &runs {
            prop_assert!(whole.validity >= run.verdict.validity);
            for check in &run.verdict.checks {
                let grade = |name: &str| {
                    whole.checks.iter().find(|check| check.name == name).map(|check| check.grade)
                };
                prop_assert!(grade(&check.name) >= Some(check.grade), "{}", check.name);
            }
        }
        let damaged = runs.iter().any(|run| run.verdict.finding == Finding::DataDamaged);
        prop_assert_eq!(whole.finding == Finding::DataDamaged, damaged);
    }

    #[test]
    fn a_run_merged_with_nothing_is_the_run(seed: u64) {
        let run = MergedRun { shift_ns: 0, ..run("a", seed) };
        let whole = summary_of(std::slice::from_ref(&run));
        prop_assert_eq!((whole.engine, whole.verdict), (run.engine, run.verdict));
        prop_assert!(whole.merged.is_empty());
    }
}

#[test]
fn every_check_that_is_judged_anew_is_one_that_there_is() {
    let names = crate::judge::names();
    assert!(verdict::ANEW.iter().all(|name| names.iter().any(|known| known == name)));
}

#[test]
fn a_load_that_two_runs_had_alike_is_told_though_neither_run_could_tell() {
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    // Bursts of both volumes at the same instants, of many sizes.
    for step in 0..60_u64 {
        for _ in 0..=(step * 7919) % 23 {
            for volume in 0..2 {
                let at = Nanos::from_secs(step as i64);
                let mut one = request(Op::Write, at, 0, 4096, Nanos::from_micros(100));
                one.volume = ioecho_trace::VolumeId(volume);
                batch.push(&one);
            }
        }
    }
    let mut figures = RunFigures::default();
    figures.observe(&batch);
    let alone = |name: &str| {
        let verdict = Verdict {
            validity: Validity::Valid,
            finding: Finding::Faithful,
            summary: "Faithful.".to_owned(),
            checks: vec![check("same-load", Grade::NotApplicable)],
        };
        let (name, engine) = (name.to_owned(), EngineFacts::default());
        MergedRun { name, shift_ns: 0, engine, verdict, begun: None }
    };
    let whole = summary(vec![alone("a"), alone("b")], &figures).unwrap().verdict;
    let same = whole.checks.iter().find(|check| check.name == "same-load").unwrap();
    assert_eq!(same.grade, Grade::Suspect);
    assert!(whole.validity >= Validity::Suspect);
    assert!(whole.summary.contains("of none alone: "), "{}", whole.summary);
}

#[test]
fn a_run_that_was_not_verified_is_named_beside_one_that_was() {
    let with = |name: &str, grade| {
        let mut run = run(name, 7);
        // Of the data of all, too, nobody knows anything.
        run.engine.verify = None;
        run.verdict.checks = vec![check("integrity", grade), check("clock", grade)];
        run
    };
    let whole = summary_of(&[with("a", Grade::Pass), with("b", Grade::NotApplicable)]).verdict;
    for check in whole.checks.iter().filter(|check| ["integrity", "clock"].contains(&&*check.name))
    {
        assert_eq!(check.grade, Grade::Pass, "{check:?}");
        assert!(check.measured.ends_with("says nothing of b"), "{check:?}");
    }
}

#[test]
fn a_key_that_nobody_knows_is_refused_in_a_merged_run_too() {
    let whole = summary_of(&[run("a", 1), run("b", 2)]);
    let text = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<RunSummary>(&text).unwrap(), whole);
    let odd = text.replacen("\"shift_ns\"", "\"shifted_ns\"", 1);
    assert!(serde_json::from_str::<RunSummary>(&odd).is_err());
}

#[test]
fn runs_that_began_apart_are_suspect_and_the_last_is_named() {
    let begun = |name: &str, late_ns: i64, bound_ns: i64| {
        let mut run = run(name, 3);
        run.engine.simulated = false;
        run.verdict.checks = vec![check("start-skew", Grade::NotApplicable)];
        let (axis, first_late_ns) = ("one".to_owned(), Some(late_ns));
        run.begun =
            Some(Begun { axis, zero_ns: 0, bound_ns, first_late_ns, skew_max_ns: 1_000_000 });
        run
    };
    let of = |runs: &[MergedRun]| summary_of(runs).verdict.check("start-skew").unwrap().clone();
    let good = of(&[begun("a", 10_000, 40_000), begun("b", 90_000, 50_000)]);
    assert_eq!(good.grade, Grade::Pass, "{good:?}");
    assert!(good.measured.contains("80.0 µs, b last; both ± 90.0 µs"), "{good:?}");
    // Twenty milliseconds late.
    let late = of(&[begun("a", 20_000_000, 40_000), begun("b", 90_000, 50_000)]);
    assert_eq!(late.grade, Grade::Suspect);
    assert!(late.measured.contains("a last"), "{late:?}");
    // What cannot be told closely enough is no pass.
    let doubtful = of(&[begun("a", 0, 900_000), begun("b", 0, 900_000)]);
    assert_eq!(doubtful.grade, Grade::Suspect);
    let unknown = MergedRun { begun: None, ..begun("b", 0, 0) };
    assert_eq!(of(&[begun("a", 0, 0), unknown]).grade, Grade::NotApplicable);
}
