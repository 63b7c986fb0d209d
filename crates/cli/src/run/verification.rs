//! Verification as a part of a run: what follows each target, and what it found.

use ioecho_replay::verify::{Verifier, VerifyConfig};
use ioecho_stats::facts::VerifyFigures;

use crate::args::VerifyArg;
use crate::run::directory::RunDirectory;
use crate::run::lane::LaneEnd;
use crate::run::plan::ReplayPlan;
use crate::run::verify;

/// How many findings stand in the summary as sentences.
const FIRST_FINDINGS: usize = 20;

/// What follows the requests of a target; `None` where nothing is verified.
pub(crate) fn verifier(
    plan: &ReplayPlan,
    run: &RunDirectory,
    run_number: u64,
    target: usize,
) -> anyhow::Result<Option<Verifier>> {
    if plan.verify == VerifyArg::Off {
        return Ok(None);
    }
    let config =
        VerifyConfig { run: run_number, target: target as u16, isolated: plan.is_isolated() };
    let limits = plan.targets[target].limits();
    let tags = plan.scheduler.device_slots();
    let simulated = plan.targets[target].is_simulated();
    verify::verifier(run, config, limits.capacity, tags, simulated).map(Some)
}

/// What verification found on all targets together; `None` where nothing is verified.
pub(crate) fn figures(plan: &ReplayPlan, lanes: &[LaneEnd]) -> Option<VerifyFigures> {
    if plan.verify == VerifyArg::Off {
        return None;
    }
    let mut all = VerifyFigures { mode: plan.verify.name().to_owned(), ..VerifyFigures::default() };
    for verifier in lanes.iter().filter_map(|lane| lane.verifier.as_ref()) {
        let figures = verifier.figures();
        all.requests += figures.reads;
        all.sectors += figures.sectors;
        for (kind, sectors) in figures.damaged.iter() {
            *all.damaged.entry(kind.name().to_owned()).or_default() += sectors;
        }
        all.damaged_sectors += figures.damaged.total();
        all.unreadable_sectors += figures.unreadable;
        all.unverifiable_sectors += figures.ambiguous;
        all.findings += figures.findings;
        let room = FIRST_FINDINGS.saturating_sub(all.first_findings.len());
        all.first_findings.extend(verifier.findings().iter().take(room).map(ToString::to_string));
    }
    Some(all)
}
