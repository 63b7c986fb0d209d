//! The results of a run's threads after their end, and the run's facts made of them.

use ioecho_linux::target::Layer;
use ioecho_linux::watch::FileIoState;
use ioecho_stats::facts::{ClockFacts, CpuFacts, EndedAfter, EngineFacts, FileIo, HostFacts};
use ioecho_trace::units::counted;

use crate::facts::{RunFacts, TargetEntry, TreeEntry};
use crate::feeder::FeederEnd;
use crate::flows::LanePlace;
use crate::lane::{LaneEnd, TargetSeen};
use crate::load;
use crate::plan::ReplayPlan;
use crate::start::Agreed;
use crate::target::Target;
use crate::verification::{self, Verified};
use crate::writer::WriterEnd;

/// The results of the engines and of the threads around them.
pub(crate) struct Ends {
    pub(crate) lanes: Vec<LaneEnd>,
    /// What was seen of each target.
    pub(crate) seen: Vec<TargetSeen>,
    /// What was verified of each target.
    pub(crate) verified: Vec<Verified>,
    pub(crate) feeder: FeederEnd,
    pub(crate) writer: WriterEnd,
    /// The observations of the clocks and the processors; `None` in a simulation.
    pub(crate) host: Option<(ClockFacts, Option<CpuFacts>)>,
}

impl Ends {
    /// The reason why the run ended early; empty if it did not.
    fn incomplete(&self, plan: &ReplayPlan) -> String {
        let groups = plan.flows.groups(plan.targets.len());
        let failed = self.lanes.iter().zip(&groups).find_map(|(lane, group)| {
            let error = lane.error.as_ref()?;
            let names: Vec<String> = group.iter().map(|it| plan.targets[*it].name()).collect();
            Some(format!("the device {} failed: {error}", names.join(" + ")))
        });
        if let Some(failed) = failed {
            failed
        } else if let Some(error) = &self.writer.error {
            format!("results could not be written: {error}")
        } else if let Some(error) = &self.feeder.error {
            format!("the trace could not be read further: {error}")
        } else if let Some(damage) = &self.feeder.header.damage {
            format!("the trace ends before its end: {damage}")
        } else if self.lanes.iter().any(|lane| lane.totals.silent) {
            "the device never answered what was in flight".to_owned()
        } else if self.lanes.iter().any(|lane| lane.totals.too_many_errors) {
            let errors: u64 = self.lanes.iter().map(|lane| lane.totals.errors).sum();
            let damaged: u64 = self.verified.iter().map(|it| it.verifier.places()).sum();
            let damaged = match damaged {
                0 => String::new(),
                places => format!(" and {} of damage", counted(places, "place")),
            };
            format!("ended after {errors} failed requests{damaged}, as was asked for")
        } else if let Some(hopeless) = self.hopeless(plan) {
            hopeless
        } else if self.lanes.iter().any(|lane| lane.totals.stopped) {
            "stopped by a signal".to_owned()
        } else if self.verified.iter().any(|it| it.stopped) {
            "the last look at everything written was stopped by a signal".to_owned()
        } else if let Some(error) = self.verified.iter().find_map(|it| it.error.as_ref()) {
            format!("the last look at everything written broke off: {error}")
        } else {
            String::new()
        }
    }
}

impl Ends {
    /// Whether a target was gone.
    fn is_gone(&self) -> bool {
        let mut hopeless = self.lanes.iter().filter_map(|lane| lane.totals.hopeless);
        hopeless.any(|hopeless| hopeless.is_gone)
    }

    /// What ended a load of which nothing succeeded any more.
    fn hopeless(&self, plan: &ReplayPlan) -> Option<String> {
        let mut lanes = LanePlace::all(&plan.targets, &plan.flows).into_iter().zip(&self.lanes);
        let (at, hopeless) = lanes.find_map(|(at, lane)| Some((at, lane.totals.hopeless?)))?;
        let groups = plan.flows.groups(plan.targets.len());
        let group = groups.into_iter().find(|group| group.contains(&at.target));
        let names = group.unwrap_or_else(|| vec![at.target]).into_iter();
        let names: Vec<String> = names.map(|target| plan.targets[target].name()).collect();
        let names = names.join(" + ");
        let last = hopeless.last.told();
        let row = counted(hopeless.in_a_row, "request");
        Some(if hopeless.is_gone {
            format!("{names} is gone: {row} in a row failed: {last}")
        } else {
            format!(
                "nothing on {names} succeeded any more: {row} in a row failed, the last: {last}"
            )
        })
    }
}

/// The end that was asked for, if the run came to it with something left.
fn ended_after(plan: &ReplayPlan, ends: &Ends) -> Option<EndedAfter> {
    let after = plan.spec.end_after?;
    let cuts = || ends.lanes.iter().filter_map(|lane| lane.totals.cut_off);
    let is_cut = ends.feeder.cut || cuts().next().is_some();
    let worst = cuts().max_by_key(|cut| cut.behind).unwrap_or_default();
    (is_cut && ends.incomplete(plan).is_empty()).then(|| EndedAfter {
        after_ns: after.0,
        not_issued: cuts().map(|cut| cut.requests).sum(),
        behind_ns: worst.behind.0,
        lateness_ns: cuts().map(|cut| cut.lateness.0).fold(0, i64::saturating_add),
        cause: worst.cause,
    })
}

/// The facts of the engine and its targets that are known before the run and do not change.
pub fn facts_beforehand(plan: &ReplayPlan, facts: &RunFacts) -> EngineFacts {
    EngineFacts {
        simulated: facts.targets.iter().any(TargetEntry::is_simulated),
        direct: facts.targets.iter().all(TargetEntry::is_direct),
        memory: facts.targets.iter().any(TargetEntry::is_in_memory),
        speedup: plan.timing.speedup,
        server_speed: plan.spec.server_speed,
        timing: plan.timing.mode,
        targets: plan.targets.len() as u32,
        files: facts.targets.iter().any(TargetEntry::is_of_files),
        empty_share: (!plan.spec.scratch).then(|| empty_share(facts)).flatten(),
        in_flight_max: plan.scheduler.in_flight_max,
        flows: plan.flows.facts(),
        ..EngineFacts::default()
    }
}

/// The facts of all the run's engines together; `below` are the layers below each target.
pub(crate) fn engine_facts(
    plan: &ReplayPlan,
    facts: &RunFacts,
    below: &[Vec<Layer>],
    ends: &Ends,
    agreed: Option<Agreed>,
) -> EngineFacts {
    let planned = ends.feeder.totals;
    let sum = |of: fn(&LaneEnd) -> u64| ends.lanes.iter().map(of).sum::<u64>();
    let most = |of: fn(&LaneEnd) -> i64| ends.lanes.iter().map(of).max().unwrap_or_default();
    let request_cost = agreed.map_or(0, |agreed| agreed.request_cost.0);
    let ended_after = ended_after(plan, ends);
    // What was read ahead beyond the end takes no part.
    let until_then = |ended: &EndedAfter| sum(|lane| lane.totals.recorded) + ended.not_issued;
    EngineFacts {
        planned: ended_after.as_ref().map_or(planned.planned, until_then),
        left_out: planned.left_out,
        wrapped: planned.wrapped,
        wraparound_factor: Some(planned.wraparound),
        issued: sum(|lane| lane.totals.counts.issued),
        pushed_back: sum(|lane| lane.totals.counts.pushed_back),
        dropped: sum(|lane| lane.totals.counts.dropped),
        ordered: sum(|lane| lane.totals.counts.ordered),
        in_flight_peak: most(|lane| i64::from(lane.totals.counts.in_flight_peak)) as u32,
        waiting_peak: most(|lane| i64::from(lane.totals.counts.waiting_peak)) as u32,
        abandoned: sum(|lane| lane.totals.abandoned),
        input_stalls: sum(|lane| lane.totals.input_stalls),
        host_stalls: sum(|lane| lane.totals.host_stalls),
        host_stall_max_ns: most(|lane| lane.totals.host_stall_max.0),
        slow_submissions: sum(|lane| lane.totals.slow_submissions),
        submission_max_ns: most(|lane| lane.totals.submission_max.0),
        results_lost: sum(|lane| lane.results_lost) + ends.writer.lost,
        demanded_duration_ns: planned.last_scheduled.0,
        incomplete: ends.incomplete(plan),
        gone: ends.is_gone(),
        ended_after,
        rounded: planned.rounded,
        unmapped: planned.unmapped,
        copies: planned.copies,
        substituted: planned.substituted,
        device_errors: sum(|lane| u64::from(lane.error.is_some())),
        verify: verification::figures(plan, &ends.verified),
        paced_rate_max: (request_cost > 0).then(|| 1e9 / request_cost as f64),
        demanded_rate_peak: ends.feeder.peak_per_s,
        host: host_facts(ends),
        file_io: file_io(plan, facts, &ends.lanes),
        load: load::facts(plan, facts, below, &ends.seen, &ends.feeder),
        ..facts_beforehand(plan, facts)
    }
}

/// What all threads on trees of files moved; `None` where that is not known of each of them.
fn file_io(plan: &ReplayPlan, facts: &RunFacts, lanes: &[LaneEnd]) -> Option<FileIo> {
    let trees: Vec<&TreeEntry> = facts.targets.iter().filter_map(TargetEntry::tree).collect();
    if trees.is_empty() {
        return None;
    }
    let all: Option<Vec<FileIoState>> = lanes.iter().map(|lane| lane.file_io).collect();
    let all = all?;
    let sum = |of: fn(&FileIoState) -> u64| all.iter().map(of).sum::<u64>();
    let is_counted = trees.iter().all(|tree| tree.counts_fetched());
    let opened = || {
        plan.targets.iter().filter_map(|target| match target {
            Target::Tree(tree) => Some(tree),
            _ => None,
        })
    };
    let written_bytes = sum(|lane| lane.written_bytes);
    let is_synced = opened().all(|tree| tree.open.waits_for_disk());
    let is_recorded = opened().any(|tree| tree.recorded.is_some());
    Some(FileIo {
        read_bytes: sum(|lane| lane.read_bytes),
        fetched_bytes: is_counted.then(|| sum(|lane| lane.fetched_bytes)),
        written_bytes,
        unsynced_bytes: (!is_recorded).then_some(if is_synced { 0 } else { written_bytes }),
    })
}

/// The observations of the host and of the devices during the run.
fn host_facts(ends: &Ends) -> HostFacts {
    let seen = |target: &TargetSeen| target.seen.as_ref().map(|seen| seen.device.clone());
    let waited = ends.seen.iter().filter_map(|target| target.seen.as_ref()?.waited);
    let waited = waited.map(|span| span.0).reduce(i64::saturating_add);
    let (clock, cpu) = ends.host.clone().unzip();
    HostFacts {
        // Facts of the devices exist for all targets of a real run, and for none of a simulation.
        devices: ends.seen.iter().map(seen).collect::<Option<_>>().unwrap_or_default(),
        clock,
        cpu: cpu.flatten().map(|cpu| CpuFacts { waited_ns: waited, ..cpu }),
        recorder: Some(ends.writer.facts()),
    }
}

/// The largest share of a target that is empty. A prepared target counts as not empty, even if it
/// was only prepared under the load, because the sample covers the whole target.
fn empty_share(facts: &RunFacts) -> Option<f64> {
    let contents = facts.targets.iter().filter_map(|target| Some(&target.real()?.content));
    let shares = contents.filter(|content| content.samples > 0).map(|content| {
        let is_prepared = content.runs.iter().any(|run| run.prepared);
        let empty = content.zeroes.max(content.never_written.unwrap_or(0.0));
        if is_prepared { 0.0 } else { empty }
    });
    shares.max_by(f64::total_cmp)
}
