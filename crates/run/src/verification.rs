//! Verification during a run: the verifier of each target, and the findings.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use ioecho_replay::tree::AtRest;
use ioecho_replay::verify::{FoundNames, NameBook, Verifier, VerifyConfig, torn_moves};
use ioecho_stats::facts::VerifyFigures;
use ioecho_trace::{Bytes, Nanos};

use crate::directory::RunDirectory;
use crate::error::{Result, RunError};
use crate::files::Forest;
use crate::flows::Flow;
use crate::lane::{Lane, LaneEnd};
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::verify;
use crate::verify::family::Member;
use crate::verify::later::TargetFindings;
use crate::verify::result;
use crate::verify::tree::{TreePlaces, TreeVerifier};

/// The number of findings in `summary.json` and in the report; `verify.json` has all that are kept.
const SHOWN: usize = 20;

/// The verifiers for the requests of all lanes; those of trees share theirs.
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
    let names = lane.names();
    // Others share theirs.
    let has_own = !plan.is_of_files() || names.is_some() && !plan.flows.hand_over();
    if !plan.spec.verify.is_on() || !has_own {
        return Ok(None);
    }
    let config =
        VerifyConfig { run: run_number, target: target as u16, isolated: plan.is_isolated() };
    let tags = plan.scheduler.device_slots();
    let journal = (!plan.targets[target].is_simulated()).then_some(plan.spec.journal);
    let capacity = match &names {
        Some(_) => plan.targets[target].limits().capacity,
        None => lane.limits().first().map_or(Bytes::ZERO, |limits| limits.capacity),
    };
    let mut verifier =
        verify::verifier(run, config, plan.before.as_ref(), capacity, tags, journal, tell)?;
    for fill in lane.fills() {
        verifier.is_filled_by(fill);
    }
    if let Some(names) = names {
        let found = FoundNames::of(&names);
        verifier.put_names(NameBook::of(names.geometry().clone(), &found));
    }
    Ok(Some(verifier))
}

/// The verifiers of a run's trees that several lanes share; empty if nothing is verified, or its
/// targets are no such trees. One in memory has one lane, unless it hands over files.
pub(crate) fn of_trees(
    plan: &ReplayPlan,
    run: &RunDirectory,
    run_number: u64,
    forest: Option<&Forest>,
    observer: &dyn Observer,
) -> Result<Vec<TreeVerifier>> {
    let tell: &dyn Fn(&str) = &|text| observer.tell(text);
    let Some(forest) = forest.filter(|_| plan.spec.verify.is_on()) else { return Ok(Vec::new()) };
    let verifier = |(target, place): (usize, TreePlaces)| {
        let config =
            VerifyConfig { run: run_number, target: target as u16, isolated: plan.is_isolated() };
        let capacity = plan.targets[target].limits().capacity;
        let tags = plan.flows.list().iter().map(Flow::places).sum();
        let journal = (!plan.targets[target].is_simulated()).then_some(plan.spec.journal);
        let before = plan.before.as_ref();
        let verifier = verify::verifier(run, config, before, capacity, tags, journal, tell)?;
        Ok((config, verifier, place, plan.flows.to(target)))
    };
    let verifiers = forest.to_verify(plan).map(verifier).collect::<Result<_>>()?;
    TreeVerifier::begin(run, verifiers, tell)
}

/// What was verified of a target, when all of its lanes have ended.
pub(crate) struct Verified {
    /// The number of the target.
    target: usize,
    pub(crate) verifier: Verifier,
    /// Whether nothing may be in flight any more.
    is_over: bool,
    /// The error that interrupted the final verification.
    pub(crate) error: Option<io::Error>,
    /// Whether a signal stopped the final verification, and how much it read.
    pub(crate) stopped: bool,
    read: Bytes,
    /// Whether the final verification was completed.
    passed: bool,
}

/// What was verified of each target; of trees all is read back now, if it is to be.
pub(crate) fn verified(
    plan: &ReplayPlan,
    trees: &[TreeVerifier],
    lanes: &mut [LaneEnd],
    stop: &AtomicBool,
) -> Vec<Verified> {
    if trees.is_empty() {
        let numbered = lanes.iter_mut().enumerate();
        return numbered.filter_map(|(target, lane)| of_lane(target, lane)).collect();
    }
    let is_over = lanes.iter().all(|lane| lane.error.is_none() && lane.totals.abandoned == 0);
    let is_whole = is_over && !lanes.iter().any(|lane| lane.totals.stopped);
    let looks = plan.spec.verify.ends_with_a_look() && is_whole;
    let of_tree = |tree: &TreeVerifier| {
        Some(Verified {
            target: tree.target(),
            verifier: tree.take()?,
            is_over,
            error: None,
            stopped: false,
            read: Bytes::ZERO,
            passed: false,
        })
    };
    let mut all: Vec<Verified> = trees.iter().filter_map(of_tree).collect();
    if looks && all.len() == trees.len() {
        let mut in_memory: Vec<_> = lanes.iter_mut().map(|lane| lane.at_rest.take()).collect();
        look(trees, &mut all, &mut in_memory, stop);
    }
    all
}

/// Compares the names of all trees with what must be there, and reads back all that was written.
fn look(
    trees: &[TreeVerifier],
    all: &mut [Verified],
    in_memory: &mut [Option<AtRest>],
    stop: &AtomicBool,
) {
    let found = trees.iter().map(|tree| tree.found(in_memory)).collect::<io::Result<Vec<_>>>();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            // What was done by half is known of both trees or of none.
            let text = error.to_string();
            for one in all.iter_mut() {
                one.error = Some(io::Error::other(text.clone()));
            }
            return;
        }
    };
    let mut pairs: Vec<_> = all.iter_mut().map(|one| &mut one.verifier).zip(&found).collect();
    torn_moves(&mut pairs, Nanos::ZERO);
    for ((tree, verified), found) in trees.iter().zip(all).zip(&found) {
        match tree.look(&mut verified.verifier, found, in_memory, stop) {
            Ok(pass) => {
                verified.read = pass.read;
                verified.stopped = pass.stopped;
                verified.passed = !pass.stopped;
            }
            Err(error) => verified.error = Some(error),
        }
    }
}

fn of_lane(target: usize, lane: &mut LaneEnd) -> Option<Verified> {
    Some(Verified {
        target,
        verifier: lane.verifier.take()?,
        is_over: lane.error.is_none() && lane.totals.abandoned == 0,
        error: lane.verify_error.take(),
        stopped: lane.verify_stopped,
        read: lane.verify_read,
        passed: lane.verify_passed,
    })
}

/// The findings on all targets together; `None` if nothing is verified.
pub(crate) fn figures(plan: &ReplayPlan, verified: &[Verified]) -> Option<VerifyFigures> {
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
        names: 0,
        damaged_names: BTreeMap::new(),
    };
    for Verified { verifier, .. } in verified {
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
        all.names += figures.names;
        for (kind, names) in &figures.damaged_names {
            *all.damaged_names.entry((*kind).to_owned()).or_default() += names;
        }
        let (names, findings) = (verifier.name_findings(), verifier.findings());
        all.findings += (names.len() + findings.len()) as u64;
        let room = SHOWN.saturating_sub(all.first_findings.len());
        let shown = names.iter().map(ToString::to_string);
        let shown = shown.chain(findings.iter().map(ToString::to_string));
        all.first_findings.extend(shown.take(room));
    }
    Some(all)
}

/// Leaves what the targets hold now for the next run of the family; answers what could not be
/// stored. Where a request may still be in flight, that run reads this one's records instead.
pub(crate) fn hand_down(member: &Member, verified: &mut [Verified]) -> Vec<(usize, RunError)> {
    let mut failed = Vec::new();
    for one in verified.iter_mut().filter(|one| one.is_over) {
        let kept = member.keep(one.target, &mut one.verifier);
        failed.extend(kept.err().map(|error| (one.target, error)));
    }
    failed
}

/// Stores all findings with the run. The tables of versions are not needed any more.
pub(crate) fn keep(
    plan: &ReplayPlan,
    run: &RunDirectory,
    run_number: u64,
    verified: &[Verified],
) -> Result<()> {
    if !plan.spec.verify.is_on() {
        return Ok(());
    }
    for number in 0..plan.targets.len() {
        let _ = run.remove(&run.versions(number));
    }
    let findings = |one: &Verified| {
        let mut notes =
            vec![format!("while the run went on, verified as '{}'", plan.spec.verify.name())];
        if !one.passed {
            notes.push(why_not_whole(plan, one));
        }
        let verifier = &one.verifier;
        TargetFindings {
            target: one.target as u16,
            path: PathBuf::from(plan.targets[one.target].name()),
            read: one.read,
            complete: one.passed,
            figures: verifier.figures().clone(),
            in_flight: 0,
            notes,
            findings: verifier.findings().to_vec(),
            names: verifier.name_findings().to_vec(),
        }
    };
    let found: Vec<_> = verified.iter().map(findings).collect();
    result::keep(run, run_number, "run", &found)
}

/// The reason why not all written data were checked.
fn why_not_whole(plan: &ReplayPlan, one: &Verified) -> String {
    if !plan.spec.verify.ends_with_a_look() {
        "only what the load itself read was looked at; verifying the run afterwards looks at all"
            .to_owned()
    } else if let Some(error) = &one.error {
        format!("the last look at everything written broke off: {error}")
    } else if one.stopped {
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
