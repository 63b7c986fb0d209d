//! Verification during a run: the verifier of each target, and the findings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ioecho_replay::verify::{Verifier, VerifyConfig};
use ioecho_stats::facts::VerifyFigures;

use crate::directory::RunDirectory;
use crate::error::{Result, RunError};
use crate::lane::{Lane, LaneEnd};
use crate::plan::ReplayPlan;
use crate::verify;
use crate::verify::family::Member;
use crate::verify::later::TargetFindings;
use crate::verify::result;

/// The number of findings in `summary.json` and in the report; `verify.json` has all that are kept.
const SHOWN: usize = 20;

/// The verifiers for the requests of all targets.
pub(crate) fn verifiers(
    plan: &ReplayPlan,
    run: &RunDirectory,
    run_number: u64,
    lanes: &[Lane],
    tell: &dyn Fn(&str),
) -> Result<Vec<Option<Verifier>>> {
    let numbered = lanes.iter().enumerate();
    numbered.map(|(number, lane)| verifier(plan, run, run_number, number, lane, tell)).collect()
}

/// The verifier for a target's requests; `None` if nothing is verified.
fn verifier(
    plan: &ReplayPlan,
    run: &RunDirectory,
    run_number: u64,
    target: usize,
    lane: &Lane,
    tell: &dyn Fn(&str),
) -> Result<Option<Verifier>> {
    if !plan.spec.verify.is_on() {
        return Ok(None);
    }
    let config =
        VerifyConfig { run: run_number, target: target as u16, isolated: plan.is_isolated() };
    let tags = plan.scheduler.device_slots();
    let journal = (!plan.targets[target].is_simulated()).then_some(plan.spec.journal);
    let capacity = lane.limits().capacity;
    let mut verifier =
        verify::verifier(run, config, plan.before.as_ref(), capacity, tags, journal, tell)?;
    for fill in lane.fills() {
        verifier.is_filled_by(fill);
    }
    Ok(Some(verifier))
}

/// The findings on all targets together; `None` if nothing is verified.
pub(crate) fn figures(plan: &ReplayPlan, lanes: &[LaneEnd]) -> Option<VerifyFigures> {
    if !plan.spec.verify.is_on() {
        return None;
    }
    let mut all = VerifyFigures {
        mode: plan.spec.verify.into(),
        requests: 0,
        sectors: 0,
        intact_sectors: 0,
        unknown_sectors: 0,
        prepared_sectors: 0,
        doubtful_sectors: 0,
        prereads: 0,
        preread_bytes: 0,
        preread_ns: 0,
        damaged: BTreeMap::new(),
        damaged_sectors: 0,
        unreadable_sectors: 0,
        unverifiable_sectors: 0,
        findings: 0,
        first_findings: Vec::new(),
    };
    for verifier in lanes.iter().filter_map(|lane| lane.verifier.as_ref()) {
        let figures = verifier.figures();
        all.requests += figures.reads;
        all.sectors += figures.sectors;
        all.intact_sectors += figures.intact;
        all.unknown_sectors += figures.unknown;
        all.prepared_sectors += figures.prepared;
        all.doubtful_sectors += figures.doubtful;
        all.prereads += figures.prereads;
        all.preread_bytes += figures.preread_bytes;
        all.preread_ns += figures.preread_ns;
        for (kind, sectors) in figures.damaged.iter() {
            *all.damaged.entry(kind.name().to_owned()).or_default() += sectors;
        }
        all.damaged_sectors += figures.damaged.total();
        all.unreadable_sectors += figures.unreadable;
        all.unverifiable_sectors += figures.ambiguous + figures.shared;
        all.findings += verifier.findings().len() as u64;
        let room = SHOWN.saturating_sub(all.first_findings.len());
        let shown = verifier.findings().iter().take(room).map(ToString::to_string);
        all.first_findings.extend(shown);
    }
    Some(all)
}

/// Leaves what the targets hold now for the next run of the family; answers what could not be
/// stored. Where a request may still be in flight, that run reads this one's records instead.
pub(crate) fn hand_down(member: &Member, lanes: &mut [LaneEnd]) -> Vec<(usize, RunError)> {
    let mut failed = Vec::new();
    for (target, lane) in lanes.iter_mut().enumerate() {
        let is_over = lane.error.is_none() && lane.totals.abandoned == 0;
        if let Some(verifier) = lane.verifier.as_mut().filter(|_| is_over) {
            failed.extend(member.keep(target, verifier).err().map(|error| (target, error)));
        }
    }
    failed
}

/// Stores all findings with the run. The tables of versions are not needed any more.
pub(crate) fn keep(
    plan: &ReplayPlan,
    run: &RunDirectory,
    run_number: u64,
    lanes: &[LaneEnd],
) -> Result<()> {
    if !plan.spec.verify.is_on() {
        return Ok(());
    }
    let mut found = Vec::new();
    for (number, (lane, target)) in lanes.iter().zip(&plan.targets).enumerate() {
        let _ = run.remove(&run.versions(number));
        let Some(verifier) = &lane.verifier else { continue };
        let mut notes =
            vec![format!("while the run went on, verified as '{}'", plan.spec.verify.name())];
        if !lane.verify_passed {
            notes.push(why_not_whole(plan, lane));
        }
        found.push(TargetFindings {
            target: number as u16,
            path: PathBuf::from(target.name()),
            read: lane.verify_read,
            complete: lane.verify_passed,
            figures: verifier.figures().clone(),
            in_flight: 0,
            notes,
            findings: verifier.findings().to_vec(),
        });
    }
    result::keep(run, run_number, "run", &found)
}

/// The reason why not all written data were checked.
fn why_not_whole(plan: &ReplayPlan, lane: &LaneEnd) -> String {
    if !plan.spec.verify.ends_with_a_look() {
        "only what the load itself read was looked at; verifying the run afterwards looks at all"
            .to_owned()
    } else if let Some(error) = &lane.verify_error {
        format!("the last look at everything written broke off: {error}")
    } else if lane.verify_stopped {
        "the last look at everything written was stopped".to_owned()
    } else {
        "the run ended before the last look at everything written".to_owned()
    }
}

/// Removes the rings: after a complete run the results contain all of their information.
pub(crate) fn drop_rings(plan: &ReplayPlan, run: &RunDirectory) {
    for number in 0..plan.targets.len() {
        let _ = run.remove(&run.intents(number));
    }
}
