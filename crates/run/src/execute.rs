//! Executes a run, from its plan to its directory.

use std::collections::VecDeque;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ioecho_linux::target::Layer;
use ioecho_linux::thread::none_left;
use ioecho_linux::{HostDescription, MonotonicClock};
use ioecho_replay::Planner;
use ioecho_replay::engine::{Control, PacingMode};
use ioecho_replay::journal;
use ioecho_replay::plan::TargetLimits;
use ioecho_stats::run_summary::{RunSummary, VerifyFigures};
use ioecho_trace::units::times;
use ioecho_trace::{Header, Source};

use crate::directory::RunDirectory;
use crate::ends::{Ends, engine_facts};
use crate::error::{Kind, Result, RunError};
use crate::facts::{PlanFacts, RUN_VERSION, RunFacts, RunNumber, RunNumbers, State, TargetEntry};
use crate::feeder::{Demand, Feeding};
use crate::files::Forest;
use crate::flows::{self, Feeders, FlowsEnd, LanePlace, Readers};
use crate::journaled::keep_header;
use crate::lane::{Lane, LaneWork, TargetSeen};
use crate::lane_feed::LaneFeed;
use crate::lanes::Lanes;
use crate::observer::{Meters, Moments, Observer, Stopping};
use crate::plan::{ReplayPlan, known_duration};
use crate::start::{Agreed, Start};
use crate::target::Target;
use crate::verify::before::Before;
use crate::verify::family::Member;
use crate::verify::tree::TreeVerifier;
use crate::watch::host::HostWatch;
use crate::witness::{Witness, Witnessed};
use crate::writer::{self, RingSink, WriterOptions};
use crate::{feeder, finalise, load, recorded_lane, verification, witness};

/// A run that has ended, for whatever reason.
pub struct Finished {
    /// Its directory.
    pub run: RunDirectory,
    /// Its figures and its verdict.
    pub summary: RunSummary,
    /// The threads that may still use the targets. Dropped last, and it names the targets for which
    /// the process waits.
    _lanes: Lanes,
}

/// Executes the plan until its end or until a request to end. An error means that nothing was
/// replayed; a run that ended early is a result.
pub fn execute(
    plan: &ReplayPlan,
    source: Box<dyn Source>,
    stopping: &Stopping,
    observer: &Arc<dyn Observer>,
) -> Result<Finished> {
    plan.guard()?.iter().for_each(|warning| observer.tell(warning));
    let run = RunDirectory::create(&plan.output)?;
    run.take_reserve()?;
    let result = replay(plan, source, &run, stopping, observer);
    run.free_reserve();
    if result.is_err() && run.has_no_results() {
        // Nothing was issued: remove the incomplete directory, which looks like a run.
        let _ = run.remove(&run.journal());
        let _ = run.remove(&run.header());
        let _ = run.remove(&run.links());
        witness::forget(&run);
        let _ = run.remove(&run.facts_file());
        let _ = run.remove("log.txt".as_ref());
        for target in 0..plan.targets.len() {
            let _ = run.remove(&run.versions(target));
            let _ = run.remove(&run.intents(target));
            let _ = run.remove(&run.names(target));
        }
        let _ = std::fs::remove_dir(run.path());
    }
    result
}

fn replay(
    plan: &ReplayPlan,
    source: Box<dyn Source>,
    run: &RunDirectory,
    stopping: &Stopping,
    observer: &Arc<dyn Observer>,
) -> Result<Finished> {
    let clock = MonotonicClock::new();
    let places = LanePlace::all(&plan.targets, &plan.flows);
    let recorded = recorded_lane::open(plan, clock, (observer.as_ref(), stopping)).transpose()?;
    let has_trees = plan.is_of_files() && recorded.is_none();
    let forest = has_trees.then(|| Forest::open(plan, observer.as_ref(), stopping)).transpose()?;
    let opened = forest.as_ref().map(|forest| forest.opened(plan, &places, clock));
    let (lanes, entries, below) = opened.or(recorded).map_or_else(|| open(plan, clock), Ok)?;
    let limits = limits(plan, &lanes);
    let planner = plan.planner(&limits, source.header())?;
    let map = plan.map(&limits, source.header())?;
    let size = load::size(&map, source.header());
    let run_number = RandomState::new().build_hasher().finish();
    let mut facts = facts(plan, run_number, entries, source.header());
    // Without a choice of targets a map has no information.
    let has_choice = plan.targets.len() > 1 || source.header().volumes.len() > 1;
    if plan.flows.is_empty() && (has_choice || !plan.routes.is_empty()) {
        facts.plan.map = Some(map.routes().iter().map(ToString::to_string).collect());
    }
    // Written before `run.toml` says that the run goes on, so the run can be read however the
    // process ends.
    let journal = begin_journal(run, run_number, &facts)?;
    let witness = Witness::start(plan, run, observer.as_ref())?;
    facts.witness = witness.as_ref().map(|witness| witness.entry().clone());
    run.write_facts(&facts)?;
    run.log(&format!("started: {}", facts.command.join(" ")));

    observer.begins(plan, &facts)?;
    let zero_of = |agreed: Agreed| Some((clock.origin() + agreed.start_at).0);
    let begun = |agreed| RunFacts { zero_monotonic_ns: zero_of(agreed), ..facts.clone() };
    let mut begins = |agreed| tell_beginning(run, &begun(agreed));
    // Known before the run is one of its family, which must know what every run of it began with.
    let trees = verification::of_trees(plan, run, run_number, forest.as_ref(), observer.as_ref())?;
    let member = plan.before.as_ref();
    let member = member.map(|before| before.join(run_number, run, &facts.targets)).transpose()?;
    let member = member.flatten();
    let worked = work(
        plan,
        run,
        journal,
        (lanes, &places, forest.as_ref(), &trees),
        source,
        planner,
        run_number,
        &mut begins,
        stopping,
        observer,
    );
    let (ends, start, lanes) = match member {
        Some(member) => leaving(plan, run, &member, worked, observer.as_ref())?,
        None => worked?,
    };
    tell_notes(plan, run, forest.as_ref(), observer.as_ref());
    // A signal that ended the run must not also end the conversion of the witness; the next signal
    // ends the process.
    let never = AtomicBool::new(false);
    let asked = if stopping.is_asked() { &never } else { &**stopping.asked() };
    facts.witness = witness.map(|witness| witness.finish(run, asked, observer.as_ref()));
    if let Some(agreed) = start.agreed() {
        let near = agreed.near;
        facts.zero_monotonic_ns = zero_of(agreed);
        facts.plan.spin_ns = (plan.spec.pacing != PacingMode::Spin).then_some(agreed.spin.0);
        facts.plan.wake_up_p50_ns = near.map(|near| near.wake_up.p50.0);
        facts.plan.wake_up_p99_ns = near.map(|near| near.wake_up.p99.0);
    }
    facts.plan.host_setup =
        Some(ends.lanes.first().map(|lane| lane.host_facts.clone()).unwrap_or_default());
    let mut engine = engine_facts(plan, &facts, &below, &ends, start.agreed());
    // The volumes of flows are no devices that the target stands for.
    engine.load.size = size.filter(|_| plan.flows.is_empty());
    let is_complete = engine.incomplete.is_empty() && engine.results_lost == 0;
    let kept = verification::keep(plan, run, run_number, &ends.verified);
    kept.unwrap_or_else(|error| observer.tell(&format!("warning: {error}")));
    facts.trace = ends.feeder.header;
    let witnessed = Witnessed::of(&facts);
    let damage = engine.verify.clone().filter(VerifyFigures::is_damaged);
    let unkept = |error| unkept(error, damage.as_ref());
    let summary = finalise::finalise(run, &facts, engine, witnessed.as_ref()).map_err(unkept)?;

    facts.ended = Some(now());
    facts.verdict = Some(summary.verdict.clone());
    let incomplete = &summary.engine.incomplete;
    facts.reason = (!incomplete.is_empty()).then(|| incomplete.clone());
    facts.state = State::ended(incomplete);
    run.free_reserve();
    run.write_facts(&facts).map_err(unkept)?;
    run.drop_kept();
    settle(plan, run, &summary).map_err(unkept)?;
    if is_complete {
        verification::drop_rings(plan, run);
    }
    run.log(&format!("ended: {}", summary.verdict.summary));
    Ok(Finished { run: run.clone(), summary, _lanes: lanes })
}

/// Brings the results of a run that verified to the disk, and removes the journal where the rows
/// say as much. The lanes of flows number their requests each for itself, and what was due at the
/// end and not issued may have a number and no row; only the journal has the numbers then.
fn settle(plan: &ReplayPlan, run: &RunDirectory, summary: &RunSummary) -> Result<()> {
    let verifies = plan.spec.verify.is_on();
    if verifies {
        finalise::sync_results(run)?;
    }
    let is_one = plan.flows.is_empty() || plan.targets.len() == 1 && !plan.is_of_files();
    let is_numbered = is_one && summary.recorded == summary.engine.planned;
    if is_numbered || !verifies {
        finalise::drop_journal(run, &summary.engine)?;
    }
    Ok(())
}

/// What a run leaves for the next one of its family, when it has worked or has not.
fn leaving(
    plan: &ReplayPlan,
    run: &RunDirectory,
    member: &Member,
    worked: Result<Worked>,
    observer: &dyn Observer,
) -> Result<Worked> {
    let mut worked = worked.inspect_err(|_| {
        if run.has_no_results() {
            member.leave();
        }
    })?;
    for (target, error) in verification::hand_down(member, &mut worked.0.verified) {
        observer.tell(&format!("warning: {}: {error}", plan.targets[target].name()));
    }
    Ok(worked)
}

/// The error for results that cannot be stored. It still reports damage that was found on a target.
fn unkept(error: RunError, damage: Option<&VerifyFigures>) -> RunError {
    let Some(damage) = damage else { return error };
    let sectors = damage.damaged_sectors + damage.unreadable_sectors;
    let text = format!(
        "{} a sector was not as it must be, and the results cannot be kept: {error:#}",
        times(sectors)
    );
    RunError::new(Kind::DataDamaged, text)
}

/// What opening the targets comes to: each a list in the order of the targets.
type Opened = (Vec<Lane>, Vec<TargetEntry>, Vec<Vec<Layer>>);

/// Opens the targets: the lanes, what is stored of each target, and what lies below it.
fn open(plan: &ReplayPlan, clock: MonotonicClock) -> Result<Opened> {
    let (mut lanes, mut all) = (Vec::new(), Vec::new());
    for group in plan.flows.groups(plan.targets.len()) {
        let (lane, opened) = Lane::open(plan, &group, clock)?;
        for (target, limits) in group.iter().zip(lane.limits()) {
            if limits.capacity.0 == 0 {
                let text = format!("the target {} holds nothing", plan.targets[*target].name());
                return Err(RunError::new(Kind::Target, text));
            }
        }
        lanes.push(lane);
        all.extend(group.into_iter().zip(opened));
    }
    all.sort_by_key(|(target, _)| *target);
    let (entries, below) = all.into_iter().map(|(_, opened)| opened).unzip();
    Ok((lanes, entries, below))
}

/// Tells in `run.toml` when the run began, for whoever watches it or finds it killed.
fn tell_beginning(run: &RunDirectory, begun: &RunFacts) {
    if let Err(error) = run.write_facts(begun) {
        run.log(&format!("run.toml does not tell when the run began: {error}"));
    }
}

/// Creates the journal, and what it needs to be read. It stays locked while the run goes on.
fn begin_journal(run: &RunDirectory, run_number: u64, facts: &RunFacts) -> Result<File> {
    keep_header(run, facts)?;
    let begin = || {
        let mut file = run.new_file(&run.journal())?;
        file.lock()?;
        file.write_all(&journal::header(run_number))?;
        Ok(file)
    };
    begin().map_err(|error: io::Error| {
        RunError::new(Kind::Output, format!("cannot write {}: {error}", run.journal().display()))
    })
}

/// What the threads of a run have come to.
type Worked = (Ends, Arc<Start>, Lanes);

/// What an observer sees of the run while it goes on.
fn meters(
    plan: &ReplayPlan,
    controls: Vec<Arc<Control>>,
    demand: Arc<Mutex<Demand>>,
    moments: Arc<Mutex<Moments>>,
) -> Meters {
    Meters {
        controls,
        demand,
        has_schedule: plan.tells_demand(),
        moments,
        duration: known_duration(plan),
        simulated: plan.targets.iter().any(Target::is_simulated),
    }
}

/// Starts the threads, waits for them and gathers their results.
#[expect(clippy::too_many_arguments, reason = "everything that a run is made of meets here")]
fn work(
    plan: &ReplayPlan,
    run: &RunDirectory,
    journal: File,
    (lanes, places, forest, trees): (Vec<Lane>, &[LanePlace], Option<&Forest>, &[TreeVerifier]),
    source: Box<dyn Source>,
    planner: Planner,
    run_number: u64,
    begins: &mut dyn FnMut(Agreed),
    stopping: &Stopping,
    observer: &Arc<dyn Observer>,
) -> Result<Worked> {
    let tell = &|text: &str| observer.tell(text);
    let verifiers = verification::verifiers(plan, run, run_number, &lanes, tell)?;
    let limits = limits(plan, &lanes);
    let stop = stopping.stop();
    // One control per lane; they share the request to stop.
    let control = || Control { stop: Arc::clone(stop), ..Control::default() };
    let controls: Vec<Arc<Control>> = lanes.iter().map(|_| Arc::new(control())).collect();
    let feed = Feeding {
        source,
        planner,
        links: plan.links(),
        keeps_links: plan.keeps_links(),
        look_ahead: plan.scheduler.look_ahead,
        simulated: plan.targets.iter().any(Target::is_simulated),
        controls: controls.clone(),
        stop: Arc::clone(stop),
        timed: plan.timing.mode.has_schedule(),
        until: plan.until(),
        interval: observer.interval(),
        run: run.clone(),
    };
    let simulated = feed.simulated;
    let (mut feeders, inputs) = begin_feeding(plan, (&lanes, places, forest), feed)?;
    let moments = Arc::<Mutex<Moments>>::default();
    let (demand, theirs) = (feeders.demand(), Arc::clone(&moments));
    let counter = observer.starts(meters(plan, controls.clone(), demand, theirs))?;
    // Whether every lane has handed over its results, or never will.
    let ended = Arc::new(AtomicBool::new(false));
    let options = writing(plan, lanes.len(), places, simulated);
    let (writer, recorders) = writer::spawn(
        run,
        journal,
        Arc::clone(stop),
        Arc::clone(&ended),
        options,
        moments,
        counter,
    )?;
    let start = Arc::new(Start::new(lanes.len()));
    let cpus = plan.host.cpus.as_ref();
    let host = (!simulated).then(|| HostWatch::start(cpus, &start)).transpose()?;
    let mut flows = plan.flows.lanes(&plan.targets, plan.spec.verify.is_on());
    let groups = plan.flows.groups(plan.targets.len());
    let parts =
        lanes.into_iter().zip(inputs).zip(joined(recorders, &groups, &limits)).zip(verifiers);
    let work = parts.enumerate().map(|(number, (((lane, input), recorder), verifier))| LaneWork {
        number,
        joint: recorder.joint.clone(),
        target: places[number].target,
        lane,
        input,
        flows: flows.as_mut().and_then(VecDeque::pop_front),
        filled: feeders.filled(),
        demand: feeders.demand(),
        recorder,
        control: Arc::clone(&controls[number]),
        verifier,
        shared: TreeVerifier::shared(trees, places[number].target, number),
        run_number,
    });
    let mut lanes = Lanes::start(plan, run, &start, work.collect(), observer);
    let mut ends = lanes.as_mut().map(|lanes| lanes.wait(&start, begins));
    let host = host.map(HostWatch::finish);
    run.log("replayed: what was measured is put in order");
    let (seen, verified) = match &mut ends {
        Ok(Ok(ends)) => {
            (TargetSeen::of_all(ends, &groups), verification::verified(plan, trees, ends, stop))
        }
        _ => (Vec::new(), Vec::new()),
    };
    // The feeder may be waiting for room in a ring, or for its input.
    stop.store(true, Relaxed);
    ended.store(true, Relaxed);
    let panicked = |_| RunError::new(Kind::Failure, "a thread of the run panicked");
    if let Ok(Ok(ends)) = &mut ends {
        for lane in ends.iter_mut() {
            feeders.take(lane.flows.take());
        }
    }
    let feeder = feeders.end().map_err(panicked)?;
    let writer = writer.join().map_err(panicked)?;
    observer.ends();
    let mut ends = ends.map_err(|error| none_left(error))??;
    if let Some(error) = ends.iter_mut().find_map(|lane| lane.host_error.take()) {
        return Err(error);
    }
    Ok((Ends { lanes: ends, seen, verified, feeder, writer, host }, start, lanes?))
}

/// How the results of lanes are stored.
fn writing(
    plan: &ReplayPlan,
    lanes: usize,
    places: &[LanePlace],
    simulated: bool,
) -> WriterOptions {
    WriterOptions {
        targets: lanes,
        threads: places.iter().filter(|place| place.client.is_some()).count(),
        durable: plan.spec.verify.is_on(),
        is_relied_on: plan.spec.journal.is_durable(),
        telemetry: plan.spec.expert.is_some(),
        real: !simulated,
    }
}

/// The recorders of lanes, which know the targets of theirs where there are several.
fn joined(
    recorders: Vec<RingSink>,
    groups: &[Vec<usize>],
    limits: &[TargetLimits],
) -> Vec<RingSink> {
    let mut recorders = recorders;
    for (recorder, group) in recorders.iter_mut().zip(groups).filter(|(_, group)| group.len() > 1) {
        recorder.joint = Some(flows::joint(group, limits));
    }
    recorders
}

/// What each target can take.
fn limits(plan: &ReplayPlan, lanes: &[Lane]) -> Vec<TargetLimits> {
    // A tree has a lane for each of its threads.
    if plan.is_of_files() {
        return plan.targets.iter().map(Target::limits).collect();
    }
    let groups = plan.flows.groups(plan.targets.len());
    let of_lane = |(lane, group): (&Lane, Vec<usize>)| group.into_iter().zip(lane.limits());
    let mut all: Vec<_> = lanes.iter().zip(groups).flat_map(of_lane).collect();
    all.sort_by_key(|(target, _)| *target);
    all.into_iter().map(|(_, limits)| limits).collect()
}

/// Tells why threads on files ended before the run did.
fn tell_notes(
    plan: &ReplayPlan,
    run: &RunDirectory,
    forest: Option<&Forest>,
    observer: &dyn Observer,
) {
    for note in forest.iter().flat_map(|forest| forest.notes(plan)) {
        observer.tell(&format!("note: {note}"));
        run.log(&note);
    }
}

/// Begins to read the load, or its flows: what reads, and the input of each lane.
fn begin_feeding(
    plan: &ReplayPlan,
    (lanes, places, forest): (&[Lane], &[LanePlace], Option<&Forest>),
    feeding: Feeding,
) -> Result<(Feeders, Vec<LaneFeed>)> {
    if plan.flows.is_empty() {
        let (feeder, inputs) = feeder::spawn(feeding)?;
        let inputs = inputs.into_iter().map(|input| LaneFeed::Ring(Box::new(input)));
        return Ok((Feeders::One(feeder), inputs.collect()));
    }
    let Feeding { source, stop, .. } = feeding;
    if let Some(forest) = forest {
        let inputs = forest.inputs(plan, places, &stop).into_iter().map(LaneFeed::Flows);
        let header = source.header().clone();
        return Ok((
            Feeders::Flows(Readers::none(), header, FlowsEnd::default()),
            inputs.collect(),
        ));
    }
    let limits = limits(plan, lanes);
    let until = plan.spec.end_after;
    let (readers, inputs) = Readers::start(&plan.flows, &limits, plan.timing, until, &stop)?;
    let feeders = Feeders::Flows(readers, source.header().clone(), FlowsEnd::default());
    Ok((feeders, inputs.into_iter().map(LaneFeed::Flows).collect()))
}

fn facts(
    plan: &ReplayPlan,
    run_number: u64,
    targets: Vec<TargetEntry>,
    trace: &Header,
) -> RunFacts {
    RunFacts {
        version: RUN_VERSION,
        state: State::Running,
        reason: None,
        ioecho: Some(env!("CARGO_PKG_VERSION").to_owned()),
        run: RunNumbers(vec![RunNumber(run_number)]),
        started: now(),
        ended: None,
        command: plan.command.clone(),
        zero_monotonic_ns: None,
        pid: Some(std::process::id()),
        verdict: None,
        continues: plan.before.as_ref().and_then(Before::entry),
        plan: PlanFacts {
            trace: Some(plan.recorded_trace.clone()),
            start_ns: plan.spec.start.map(|at| at.0),
            duration_ns: plan.spec.duration.map(|span| span.0),
            end_after_ns: plan.spec.end_after.map(|span| span.0),
            timing: Some(plan.timing.mode),
            speedup: Some(plan.timing.speedup),
            server_speed: plan.timing.mode.has_parents().then_some(plan.spec.server_speed),
            chains: plan.chains.as_ref().map(ToString::to_string),
            flows: (!plan.flows.is_empty()).then(|| plan.flows.told()),
            iops_scale: Some(plan.timing.iops_scale),
            follow_in_flight: Some(plan.scheduler.follow_in_flight),
            bundle_ns: Some(plan.scheduler.bundle.0),
            writes: Some(plan.timing.writes),
            sync_writes: Some(plan.timing.sync_writes),
            alignment: Some(plan.timing.alignment),
            map: Some(Vec::new()),
            fill_random_percent: Some(plan.fill.random),
            dedup: Some(plan.fill.dedup),
            dedup_unit_bytes: plan.fill.is_placed.then_some(plan.fill.unit),
            cache_bytes: plan.spec.cache_size.map(|size| size.0),
            verify: Some(plan.spec.verify),
            conflicts: Some(plan.conflicts_told()),
            strong: Some(plan.scheduler.strong),
            in_flight_max: Some(plan.scheduler.in_flight_max),
            errors_max: plan.spec.errors_max,
            start_grace_ns: Some(plan.spec.start_grace.0),
            start_at_unix_ns: plan.spec.start_at.map(|at| at.0),
            pacing: Some(plan.spec.pacing),
            spin_ns: None,
            wake_up_p50_ns: None,
            wake_up_p99_ns: None,
            require: Some(plan.spec.require.clone()),
            host_setup: Some(Vec::new()),
        },
        targets,
        host: HostDescription::collect(),
        witness: None,
        merged: Vec::new(),
        trace: trace.clone(),
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}
