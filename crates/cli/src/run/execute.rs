//! A run from its plan to its directory.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use ioecho_linux::{HostFacts, MonotonicClock};
use ioecho_replay::Planner;
use ioecho_replay::engine::Control;
use ioecho_stats::run_summary::RunSummary;
use ioecho_trace::{Header, Source};

use crate::args::{PacingArg, VerifyArg};
use crate::exit::{self, Coded};
use crate::run::directory::{PlanFacts, RUN_VERSION, RunDirectory, RunFacts, State, TargetEntry};
use crate::run::ends::{Ends, engine_facts};
use crate::run::lane::{self, Lane, LaneEnd, LaneWork, Start};
use crate::run::live::Live;
use crate::run::plan::{ReplayPlan, known_duration};
use crate::run::progress::{Progress, Watched};
use crate::run::signals::{Signals, stop_on_signals};
use crate::run::target::Target;
use crate::run::watch::host::HostWatch;
use crate::run::witness::{Witness, Witnessed};
use crate::run::writer::{self, WriterOptions};
use crate::run::{feeder, load, settle, verification, witness};

/// A run that has ended, however it ended.
pub(crate) struct Finished {
    pub(crate) run: RunDirectory,
    pub(crate) summary: RunSummary,
    /// What told of it while it went on, where it may have more to tell.
    pub(crate) live: Option<Live>,
}

/// Runs the plan. An error means that nothing was replayed; a run that ended early is a result.
pub(crate) fn execute(plan: &ReplayPlan, source: Box<dyn Source>) -> anyhow::Result<Finished> {
    plan.guard()?;
    let signals = stop_on_signals()?;
    let run = RunDirectory::create(&plan.output)?;
    run.take_reserve()?;
    let result = replay(plan, source, &run, &signals);
    run.free_reserve();
    if result.is_err() && !run.journal().exists() {
        // Nothing happened yet: leave no half-made directory that looks like a run.
        witness::forget(&run);
        let _ = std::fs::remove_file(run.facts_file());
        let _ = std::fs::remove_file(run.path().join("log.txt"));
        for target in 0..plan.targets.len() {
            let _ = std::fs::remove_file(run.versions(target));
            let _ = std::fs::remove_file(run.intents(target));
        }
        let _ = std::fs::remove_dir(run.path());
    }
    result
}

fn replay(
    plan: &ReplayPlan,
    source: Box<dyn Source>,
    run: &RunDirectory,
    signals: &Signals,
) -> anyhow::Result<Finished> {
    let stop = &signals.stop;
    let clock = MonotonicClock::new();
    let mut lanes = Vec::new();
    let mut entries = Vec::new();
    for target in &plan.targets {
        let (lane, entry) = Lane::open(plan, target, clock)?;
        if lane.limits().capacity.0 == 0 {
            let text = format!("the target {} holds nothing", target.name());
            return Err(Coded::error(exit::TARGET, text));
        }
        lanes.push(lane);
        entries.push(entry);
    }
    let limits: Vec<_> = lanes.iter().map(Lane::limits).collect();
    let planner = plan.planner(&limits, source.header())?;
    let map = plan.map(&limits, source.header())?;
    let size = load::size(&map, source.header());
    let run_number = RandomState::new().build_hasher().finish();
    let mut facts = facts(plan, run_number, entries, source.header());
    // Where there is no choice a map says nothing.
    if plan.targets.len() > 1 || source.header().volumes.len() > 1 || !plan.routes.is_empty() {
        facts.plan.map = map.routes().iter().map(ToString::to_string).collect();
    }
    let witness = Witness::start(plan, run)?;
    facts.witness = witness.as_ref().map(|witness| witness.entry().clone());
    run.write_facts(&facts)?;
    run.log(&format!("started: {}", facts.command.join(" ")));

    let live = Live::start(plan, run, &facts, &signals.asked)?;
    let (ends, start) = work(plan, run, lanes, source, planner, run_number, stop, live.as_ref())?;
    // A signal that has ended the run does not end this as well: the next one ends the process.
    let never = AtomicBool::new(false);
    let asked = if signals.asked.load(Relaxed) { &never } else { &*signals.asked };
    facts.witness = witness.map(|witness| witness.finish(run, asked));
    if let Some(agreed) = start.agreed() {
        let near = agreed.near;
        facts.zero_monotonic_ns = Some((clock.origin() + agreed.start_at).0);
        facts.plan.spin_ns = (plan.pacing.mode != PacingArg::Spin).then_some(agreed.spin.0);
        facts.plan.wake_up_p50_ns = near.map(|near| near.wake_up.p50.0);
        facts.plan.wake_up_p99_ns = near.map(|near| near.wake_up.p99.0);
    }
    facts.plan.host_setup =
        ends.lanes.first().map(|lane| lane.host_facts.clone()).unwrap_or_default();
    let mut engine = engine_facts(plan, &facts, &ends, start.agreed());
    engine.load.size = size;
    let is_complete = engine.incomplete.is_empty() && engine.results_lost == 0;
    verification::keep(plan, run, run_number, &ends.lanes);
    facts.trace = ends.feeder.header;
    let witnessed = facts.witness.as_ref();
    let zero_ns = facts.zero_monotonic_ns;
    let witnessed = witnessed.map(|entry| Witnessed::new(entry, zero_ns, plan.timing.mode));
    let summary = settle::settle(run, &facts.trace, engine, witnessed.as_ref())?;

    facts.ended = Some(now());
    facts.verdict = Some(summary.verdict.clone());
    let incomplete = &summary.engine.incomplete;
    facts.reason = (!incomplete.is_empty()).then(|| incomplete.clone());
    facts.state = if incomplete.is_empty() { State::Complete } else { State::Incomplete };
    run.free_reserve();
    run.write_facts(&facts)?;
    settle::drop_journal(run, &summary.engine)?;
    if is_complete {
        verification::drop_rings(plan, run);
    }
    run.log(&format!("ended: {}", summary.verdict.summary));
    Ok(Finished { run: run.clone(), summary, live })
}

/// Lets the threads work and gathers what they leave.
#[expect(clippy::too_many_arguments, reason = "everything that a run is made of meets here")]
fn work(
    plan: &ReplayPlan,
    run: &RunDirectory,
    lanes: Vec<Lane>,
    source: Box<dyn Source>,
    planner: Planner,
    run_number: u64,
    stop: &Arc<AtomicBool>,
    live: Option<&Live>,
) -> anyhow::Result<(Ends, Start)> {
    let mut verifiers = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        verifiers.push(verification::verifier(plan, run, run_number, number, &lane.limits())?);
    }
    let journal = File::create_new(run.journal()).and_then(|file| file.lock().map(|()| file));
    let journal = journal.map_err(|error| {
        Coded::error(exit::OUTPUT, format!("cannot write {}: {error}", run.journal().display()))
    })?;
    // One of each lane; the wish to stop is one for all.
    let control = || Control { stop: Arc::clone(stop), ..Control::default() };
    let controls: Vec<Arc<Control>> = lanes.iter().map(|_| Arc::new(control())).collect();
    let (feeder, inputs) = feeder::spawn(
        source,
        planner,
        lanes.len(),
        Arc::clone(stop),
        live.map(|_| plan.live.interval),
    );
    let tally = live.map(|live| live.tally(&controls, &feeder.demand));
    let durable = plan.verify != VerifyArg::Off;
    let simulated = plan.targets.iter().any(Target::is_simulated);
    let options = WriterOptions {
        run_number,
        targets: lanes.len(),
        durable,
        inside: plan.expert.is_some(),
        real: !simulated,
    };
    let (writer, recorders, moments) =
        writer::spawn(run, journal, Arc::clone(stop), options, tally);
    let progress = (!plan.quiet).then(|| {
        let demand = Arc::clone(&feeder.demand);
        let duration = known_duration(plan);
        let hidden = live.and_then(Live::has_terminal);
        Progress::start(Watched {
            controls: controls.clone(),
            demand,
            live: moments,
            duration,
            hidden,
        })
    });
    let host = (!simulated).then(|| HostWatch::start(plan.host.cpus.as_ref()));
    let start = Start::new(lanes.len());
    let parts = lanes.into_iter().zip(inputs).zip(recorders).zip(verifiers);
    let work = parts.enumerate().map(|(number, (((lane, input), recorder), verifier))| LaneWork {
        number,
        lane,
        input,
        read: &feeder.ended,
        demand: &feeder.demand,
        recorder,
        control: &controls[number],
        verifier,
        run_number,
    });
    let ends = run_lanes(plan, &start, work.collect());
    let host = host.map(HostWatch::finish);
    run.log("replayed: what was measured is put in order");
    // The feeder may be waiting for room in a ring.
    stop.store(true, Relaxed);
    let panicked = |_| anyhow::anyhow!("a thread of the run panicked");
    let feeder = feeder.thread.join().map_err(panicked)?;
    let writer = writer.join().map_err(panicked)?;
    if let Some(progress) = progress {
        progress.finish();
    }
    if let Some(live) = live {
        live.run_ended();
    }
    let mut lanes = ends?;
    if let Some(error) = lanes.iter_mut().find_map(|lane| lane.host_error.take()) {
        let _ = std::fs::remove_file(run.journal());
        return Err(Coded::error(exit::USAGE, error.to_string()));
    }
    Ok((Ends { lanes, feeder, writer, host }, start))
}

/// Runs every lane in a thread of its own.
fn run_lanes(
    plan: &ReplayPlan,
    start: &Start,
    work: Vec<LaneWork<'_>>,
) -> anyhow::Result<Vec<LaneEnd>> {
    let ends = thread::scope(|scope| {
        let lanes: Vec<_> = work
            .into_iter()
            .map(|work| {
                let name = format!("ioecho-lane-{}", work.number);
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || lane::run(plan, work, start))
                    .inspect_err(|_| start.give_up())
            })
            .collect();
        lanes
            .into_iter()
            .map(|lane| lane?.join().map_err(|_| anyhow::anyhow!("an issuing thread panicked")))
            .collect::<Vec<anyhow::Result<LaneEnd>>>()
    });
    ends.into_iter().collect()
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
        ioecho: env!("CARGO_PKG_VERSION"),
        run: format!("{run_number:016x}"),
        started: now(),
        ended: None,
        command: plan.command.clone(),
        zero_monotonic_ns: None,
        pid: std::process::id(),
        verdict: None,
        plan: PlanFacts {
            trace: plan.recorded_trace.clone(),
            start_ns: plan.window.start.map(|at| at.0),
            duration_ns: plan.window.duration.map(|span| span.0),
            timing: plan.timing.mode,
            speedup: plan.timing.speedup,
            iops_scale: plan.timing.iops_scale,
            follow_in_flight: plan.scheduler.follow_in_flight,
            bundle_ns: plan.scheduler.bundle.0,
            writes: plan.timing.writes,
            sync_writes: plan.timing.sync_writes,
            alignment: plan.timing.alignment,
            map: Vec::new(),
            fill_random_percent: plan.fill.random,
            dedup: plan.fill.dedup,
            cache_bytes: plan.cache_size.map(|size| size.0),
            verify: plan.verify.name(),
            conflicts: plan.scheduler.conflicts,
            strong: plan.strong_level,
            in_flight_max: plan.scheduler.in_flight_max,
            errors_max: plan.pacing.errors_max,
            start_grace_ns: plan.pacing.start_grace.0,
            pacing: plan.pacing.mode.name(),
            spin_ns: None,
            wake_up_p50_ns: None,
            wake_up_p99_ns: None,
            require: plan.required.iter().map(ToString::to_string).collect(),
            host_setup: Vec::new(),
        },
        targets,
        host: HostFacts::collect(),
        witness: None,
        trace: trace.clone(),
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}
