//! The verdict on several runs as one: never milder than that on the worst of them.
//!
//! Each run was judged with the knowledge of its own engine and host, not all of which is stored:
//! the sampled content of a target is weighted by the load, and the kernel's counters are compared
//! with the run's own cap and verification. So a check of the whole is the worst of the runs' own.
//! For most checks judging again would gain nothing: a share of all requests lies between the
//! shares of the runs, so a fault of one run would only be diluted. Checks that need the requests
//! of all are judged again in addition, and the worse grade counts.

use std::collections::BTreeSet;

use ioecho_trace::units::counted;

use crate::facts::EngineFacts;
use crate::judge::{START_SKEW, start_skew};
use crate::picture::Span;
use crate::run_figures::RunFigures;
use crate::run_summary::MergedRun;
use crate::verdict::{Check, Finding, Grade, Validity, Verdict};

/// Checks that are also judged again on the requests of all runs. They need only counts, which add
/// up exactly, and the demand of pairs of volumes, which may be of two runs.
///
/// Checks that relate a run to its own host, device or time are not among them: lateness and
/// duration are attributed to one culprit, so a fault of one run could be attributed to another's
/// device; runs one after the other would look like drifting service times; two hosts of different
/// speeds would look like one whose speed changes.
pub(super) const ANEW: [&str; 6] =
    ["accounted", "issued", "failures", "conflicts", "integrity", "same-load"];

/// The verdict on the runs; `anew` is that on the figures and merged facts of all.
pub(super) fn of(
    runs: &[MergedRun],
    figures: &RunFigures,
    engine: &EngineFacts,
    anew: Verdict,
) -> Verdict {
    // Of equals the first by name, whatever the order of the runs.
    let first_of = |rank: fn(&Verdict) -> (Validity, u8)| {
        let by_rank = |a: &&MergedRun, b: &&MergedRun| {
            rank(&a.verdict).cmp(&rank(&b.verdict)).then(b.name.cmp(&a.name))
        };
        runs.iter().max_by(by_rank)
    };
    let worst = first_of(|verdict| (verdict.validity, verdict.finding.severity()));
    // Damaged data are the gravest finding there is, and say nothing against the measurement.
    let gravest = first_of(|verdict| (Validity::Valid, verdict.finding.severity()));
    let (Some(worst), Some(gravest)) = (worst, gravest) else { return anew };
    if runs.len() == 1 {
        return worst.verdict.clone();
    }
    let is_anew = |check: &Check| ANEW.contains(&check.name.as_str());
    let begun: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.begun.as_ref())).collect();
    let started = start_skew(runs.iter().all(|run| run.engine.simulated), &begun);
    let known: Vec<&str> = anew.checks.iter().map(|check| check.name.as_str()).collect();
    let of_runs = runs.iter().flat_map(|run| &run.verdict.checks).map(|check| check.name.as_str());
    // Checks that only another version knows stand behind the others.
    let unknown: BTreeSet<&str> = of_runs.filter(|name| !known.contains(name)).collect();
    let mut checks = Vec::new();
    let mut worse = Vec::new();
    for name in known.into_iter().chain(unknown) {
        let anew =
            anew.checks.iter().find(|check| check.name == name).filter(|check| is_anew(check));
        let anew = anew.or((name == START_SKEW).then_some(&started));
        let Some((check, of_runs)) = merged_check(name, anew, runs) else { continue };
        if check.grade > of_runs && check.grade >= Grade::Suspect {
            worse.push(format!("{name} ({})", check.grade.name()));
        }
        checks.push(check);
    }
    let validity = worst.verdict.validity.max(Validity::of(&checks));
    let finding = gravest.verdict.finding;
    // What explains a check of one run must be told of the whole.
    let told: Vec<String> = checks
        .iter()
        .filter(|check| check.grade >= Grade::Limited)
        .map(|check| check.name.clone())
        .chain([worst, gravest].map(|run| run.verdict.finding.name().to_owned()))
        .collect();
    for check in &mut checks {
        check.explained_by = check.explained_by.take().filter(|cause| told.contains(cause));
    }
    let grave = if finding == worst.verdict.finding {
        String::new()
    } else {
        format!(" {}: {}", gravest.name, gravest.verdict.summary)
    };
    let only = if worse.is_empty() {
        String::new()
    } else {
        format!(" Of all together, and of none alone: {}.", worse.join(", "))
    };
    let summary = format!(
        "{} runs merged: {}; the worst of them is {}: {}{grave}{only}",
        runs.len(),
        together(figures, engine),
        worst.name,
        worst.verdict.summary
    );
    Verdict { validity, finding, summary, checks }
}

/// How late all requests together were: what a run says of itself is about its own alone.
fn together(figures: &RunFigures, engine: &EngineFacts) -> String {
    let lateness = figures.picture().spans_of_all(Span::Lateness);
    let requests = format!("{} in all", counted(lateness.count(), "request"));
    match lateness.quantile(0.99).filter(|_| engine.has_due_instants()) {
        Some(p99) => format!("{requests}, 99 % of them issued within {p99} of their time"),
        None => requests,
    }
}

/// A check of all runs, and how it came out in the worst of them; `None` where nobody made it.
fn merged_check(name: &str, anew: Option<&Check>, runs: &[MergedRun]) -> Option<(Check, Grade)> {
    let of = |run: &MergedRun| run.verdict.checks.iter().find(|check| check.name == name).cloned();
    let found: Vec<(&str, Option<Check>)> =
        runs.iter().map(|run| (run.name.as_str(), of(run))).collect();
    let made = || found.iter().filter_map(|(run, check)| Some((*run, check.as_ref()?)));
    let of_runs = made().map(|(_, check)| check.grade).max();
    let grade = of_runs.max(anew.map(|check| check.grade))?;
    let of_runs = of_runs.unwrap_or(Grade::NotApplicable);
    let worst: Vec<(&str, &Check)> = made().filter(|(_, check)| check.grade == of_runs).collect();

    let mut told = Vec::new();
    told.extend(anew.map(|check| format!("all together: {}", check.measured)));
    // A passed check is described for the whole if it was judged again, else for each run.
    if anew.is_none() || of_runs > Grade::Pass {
        told.extend(by_run(&worst, found.len()));
    }
    // When a run began beside others, none of them can say alone.
    if grade > Grade::NotApplicable && name != START_SKEW {
        let not_applicable: Vec<&str> = found
            .iter()
            .filter(|(_, check)| {
                check.as_ref().is_none_or(|check| check.grade == Grade::NotApplicable)
            })
            .map(|(run, _)| *run)
            .collect();
        if !not_applicable.is_empty() {
            told.push(format!("says nothing of {}", not_applicable.join(", ")));
        }
    }
    let deciding = || {
        let of_runs = worst.iter().map(|(_, check)| *check);
        anew.into_iter().chain(of_runs).filter(|check| check.grade == grade)
    };
    let check = Check {
        name: name.to_owned(),
        grade,
        measured: told.join("; "),
        threshold: each_once(deciding().map(|check| check.threshold.as_str()), "; "),
        advice: each_once(deciding().map(|check| check.advice.as_str()), " "),
        explained_by: explained(deciding()),
    };
    Some((check, of_runs))
}

/// What was measured in each of these runs; without their names where all runs say the same.
fn by_run(checks: &[(&str, &Check)], runs: usize) -> Vec<String> {
    if let Some((_, first)) = checks.first()
        && checks.len() == runs
        && checks.iter().all(|(_, check)| check.measured == first.measured)
    {
        return vec![first.measured.clone()];
    }
    checks.iter().map(|(run, check)| format!("{run}: {}", check.measured)).collect()
}

/// What explains all of these checks, if that is one and the same.
fn explained<'a>(mut checks: impl Iterator<Item = &'a Check>) -> Option<String> {
    let first = checks.next()?.explained_by.clone();
    checks.all(|check| check.explained_by == first).then_some(first)?
}

fn each_once<'a>(texts: impl Iterator<Item = &'a str>, between: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join(between)
}

impl Finding {
    /// The severity for a user of the figures: faults are worse than findings, and damaged data is
    /// the worst.
    const fn severity(self) -> u8 {
        match self {
            Self::Faithful | Self::Unscheduled => 0,
            Self::DeviceLimited => 1,
            Self::ForeignLoad => 2,
            Self::HostStalled => 3,
            Self::GeneratorLimited => 4,
            Self::Incomplete => 5,
            Self::DataDamaged => 6,
        }
    }
}
