//! A run from its plan to its directory.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ioecho_linux::{HostFacts, MonotonicClock, open_device, target, thread as host_thread};
use ioecho_replay::engine::{Control, Pacing, Replay, Totals};
use ioecho_replay::pattern::Pattern;
use ioecho_replay::plan::{TargetLimits, Writes};
use ioecho_replay::sim::{SimClock, SimDevice};
use ioecho_replay::{Device, Planner, Scheduler};
use ioecho_stats::run_summary::{EngineFacts, RunSummary};
use ioecho_trace::{Header, Nanos, Op, Source};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{self, Coded};
use crate::run::directory::{PlanFacts, RUN_VERSION, RunDirectory, RunFacts, State, TargetEntry};
use crate::run::feeder::{self, FeederEnd, RingInput};
use crate::run::plan::{ReplayPlan, Target, known_duration};
use crate::run::progress::{Progress, Watched};
use crate::run::settle;
use crate::run::writer::{self, RingRecorder, WriterEnd};

/// File systems that keep files in memory.
pub(crate) const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Looking at the simulated clock takes this long.
const SIM_LOOK: Nanos = Nanos(20);

/// A run that has ended, however it ended.
pub(crate) struct Finished {
    pub(crate) run: RunDirectory,
    pub(crate) summary: RunSummary,
}

/// Runs the plan. An error means that nothing was replayed; a run that ended early is a result.
pub(crate) fn execute(plan: &ReplayPlan, source: Box<dyn Source>) -> anyhow::Result<Finished> {
    plan.guard()?;
    let run = RunDirectory::create(&plan.output)?;
    run.take_reserve()?;
    let result = replay(plan, source, &run);
    run.free_reserve();
    if result.is_err() && !run.journal().exists() {
        // Nothing happened yet: leave no half-made directory that looks like a run.
        let _ = std::fs::remove_file(run.facts_file());
        let _ = std::fs::remove_dir(run.path());
    }
    result
}

/// The device of a run and the clock that it lives by.
enum Lane {
    Real { device: Box<dyn Device + Send>, clock: MonotonicClock },
    Simulated { device: SimDevice, clock: SimClock },
}

impl Lane {
    fn open(plan: &ReplayPlan) -> anyhow::Result<(Self, TargetEntry)> {
        match &plan.target {
            Target::Simulated { text, spec } => {
                let clock = SimClock::new(SIM_LOOK);
                let device = SimDevice::new(*spec, clock.clone());
                let entry = TargetEntry::Simulated { simulated: text.clone() };
                Ok((Self::Simulated { device, clock }, entry))
            }
            Target::Real { path, options, .. } => {
                let opened = target::open(path, *options)?;
                opened.lock()?;
                let facts = opened.facts().clone();
                let clock = MonotonicClock::new();
                let slots = plan.scheduler.device_slots();
                let device = open_device(opened, plan.backend, slots, clock)?;
                Ok((Self::Real { device, clock }, TargetEntry::Real(Box::new(facts))))
            }
        }
    }

    fn device(&mut self) -> &mut dyn Device {
        match self {
            Self::Real { device, .. } => device.as_mut(),
            Self::Simulated { device, .. } => device,
        }
    }

    fn limits(&mut self) -> TargetLimits {
        let device = self.device();
        TargetLimits {
            capacity: device.capacity(),
            block_size: device.block_size(),
            length_max: device.length_max(),
            supports: Op::ALL.map(|op| device.supports(op)),
        }
    }
}

/// What the engine and the threads around it left.
struct Ends {
    totals: Totals,
    device_error: Option<std::io::Error>,
    feeder: FeederEnd,
    writer: WriterEnd,
    results_lost: u64,
}

fn replay(
    plan: &ReplayPlan,
    source: Box<dyn Source>,
    run: &RunDirectory,
) -> anyhow::Result<Finished> {
    let (mut lane, target) = Lane::open(plan)?;
    let limits = lane.limits();
    if limits.capacity.0 == 0 {
        return Err(Coded::error(exit::TARGET, "the target holds nothing"));
    }
    let run_number = RandomState::new().build_hasher().finish();
    let backend = lane.device().describe();
    let mut facts = facts(plan, run_number, &backend, target, source.header());
    run.write_facts(&facts)?;
    run.log(&format!("started: {}", facts.command.join(" ")));
    run.log(&format!("back end: {backend}"));

    let planner = Planner::new(limits, plan.timing);
    let ends = work(plan, run, lane, source, planner, run_number)?;
    let engine = engine_facts(plan, &facts, &ends, limits);
    facts.trace = ends.feeder.header;
    let summary = settle::settle(run, &facts.trace, engine)?;

    facts.ended = Some(now());
    facts.verdict = Some(summary.verdict.clone());
    let incomplete = &summary.engine.incomplete;
    facts.reason = (!incomplete.is_empty()).then(|| incomplete.clone());
    facts.state = if incomplete.is_empty() { State::Complete } else { State::Incomplete };
    run.free_reserve();
    run.write_facts(&facts)?;
    run.log(&format!("ended: {}", summary.verdict.summary));
    Ok(Finished { run: run.clone(), summary })
}

/// Lets the threads work and gathers what they leave.
fn work(
    plan: &ReplayPlan,
    run: &RunDirectory,
    lane: Lane,
    source: Box<dyn Source>,
    planner: Planner,
    run_number: u64,
) -> anyhow::Result<Ends> {
    let journal = File::create_new(run.journal()).and_then(|file| file.lock().map(|()| file));
    let journal = journal.map_err(|error| {
        Coded::error(exit::OUTPUT, format!("cannot write {}: {error}", run.journal().display()))
    })?;
    let control = Arc::new(Control::default());
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // The second signal ends the process at once; the first only asks the run to end.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&control.stop))?;
        signal_hook::flag::register(signal, Arc::clone(&control.stop))?;
    }
    let (feeder, mut input) = feeder::spawn(source, planner, Arc::clone(&control.stop));
    let (writer, mut recorder, live) = writer::spawn(run, journal, Arc::clone(&control.stop));
    input.wait_until_filled(&feeder.ended, &control.stop);
    let progress = (!plan.quiet).then(|| {
        let control = Arc::clone(&control);
        let demand = Arc::clone(&feeder.demand);
        Progress::start(Watched { control, demand, live, duration: known_duration(plan) })
    });
    let (totals, result) =
        issue(lane, plan, &mut input, &mut recorder, &control, &mut Pattern::new(run_number));
    // The feeder may be waiting for room in the ring, the writer for more results.
    control.stop.store(true, Relaxed);
    drop(input);
    let results_lost = recorder.lost;
    drop(recorder);
    let panicked = |_| anyhow::anyhow!("a thread of the run panicked");
    let feeder = feeder.thread.join().map_err(panicked)?;
    let writer = writer.join().map_err(panicked)?;
    if let Some(progress) = progress {
        progress.finish();
    }
    let results_lost = results_lost + writer.lost;
    Ok(Ends { totals, device_error: result.err(), feeder, writer, results_lost })
}

fn issue(
    lane: Lane,
    plan: &ReplayPlan,
    input: &mut RingInput,
    recorder: &mut RingRecorder,
    control: &Control,
    pattern: &mut Pattern,
) -> (Totals, std::io::Result<()>) {
    let scheduler = Scheduler::new(plan.scheduler);
    match lane {
        Lane::Real { mut device, clock } => {
            // Without this a sleep ends 50 µs late; if it is refused, the lateness will tell.
            let _ = host_thread::set_timer_slack_ns(1);
            let (device, clock) = (device.as_mut(), &clock);
            let pacing = Pacing::default();
            Replay { device, clock, scheduler, input, recorder, pattern, pacing, control }.run()
        }
        Lane::Simulated { mut device, clock } => {
            input.blocking = true;
            recorder.blocking = true;
            let (device, clock) = (&mut device, &clock);
            let pacing = Pacing { spin: Nanos::ZERO, ..Pacing::default() };
            Replay { device, clock, scheduler, input, recorder, pattern, pacing, control }.run()
        }
    }
}

fn facts(
    plan: &ReplayPlan,
    run_number: u64,
    backend: &str,
    target: TargetEntry,
    trace: &Header,
) -> RunFacts {
    let simulated = matches!(target, TargetEntry::Simulated { .. });
    RunFacts {
        version: RUN_VERSION,
        state: State::Running,
        reason: None,
        ioecho: env!("CARGO_PKG_VERSION"),
        run: format!("{run_number:016x}"),
        started: now(),
        ended: None,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        pid: std::process::id(),
        verdict: None,
        plan: PlanFacts {
            trace: plan.trace.clone(),
            start_ns: plan.window.start.map(|at| at.0),
            duration_ns: plan.window.duration.map(|span| span.0),
            speedup: plan.timing.speedup,
            read_only: plan.timing.writes != Writes::Issue,
            conflicts: plan.scheduler.conflicts,
            strong: plan.strong_level,
            in_flight_max: plan.scheduler.in_flight_max,
            backend: backend.to_owned(),
            spin_ns: if simulated { 0 } else { Pacing::default().spin.0 },
        },
        target,
        host: HostFacts::collect(),
        trace: trace.clone(),
    }
}

fn engine_facts(
    plan: &ReplayPlan,
    facts: &RunFacts,
    ends: &Ends,
    limits: TargetLimits,
) -> EngineFacts {
    let Ends { totals, feeder, writer, .. } = ends;
    let stopped_by = if let Some(error) = &ends.device_error {
        format!("the device failed: {error}")
    } else if let Some(error) = &writer.error {
        format!("results could not be written: {error}")
    } else if let Some(error) = &feeder.error {
        format!("the trace could not be read further: {error}")
    } else if let Some(damage) = &feeder.header.damage {
        format!("the trace ends before its end: {damage}")
    } else if totals.stopped {
        "stopped by a signal".to_owned()
    } else {
        String::new()
    };
    EngineFacts {
        planned: feeder.totals.planned,
        left_out: feeder.totals.left_out,
        wrapped: feeder.totals.wrapped,
        wraparound_factor: Some(feeder.totals.wraparound),
        issued: totals.counts.issued,
        pushed_back: totals.counts.pushed_back,
        dropped: totals.counts.dropped,
        ordered: totals.counts.ordered,
        in_flight_peak: totals.counts.in_flight_peak,
        waiting_peak: totals.counts.waiting_peak,
        abandoned: totals.abandoned,
        input_stalls: totals.input_stalls,
        host_stalls: totals.host_stalls,
        host_stall_max_ns: totals.host_stall_max.0,
        slow_submissions: totals.slow_submissions,
        submission_max_ns: totals.submission_max.0,
        results_lost: ends.results_lost,
        demanded_duration_ns: feeder.totals.last_scheduled.0,
        incomplete: stopped_by,
        simulated: matches!(facts.target, TargetEntry::Simulated { .. }),
        direct: match &facts.target {
            TargetEntry::Real(target) => target.direct,
            TargetEntry::Simulated { .. } => false,
        },
        memory: match &facts.target {
            TargetEntry::Real(target) => {
                target.file_system.as_deref().is_some_and(|kind| MEMORY.contains(&kind))
            }
            TargetEntry::Simulated { .. } => false,
        },
        speedup: plan.timing.speedup,
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}
