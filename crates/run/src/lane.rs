//! A lane: one target with its engine, its scheduler and its thread.
//!
//! Targets are independent, and a slow one must not hold up the others; but they belong to one
//! load, so their replays share one time zero on one clock. A lane keeps the order of its own
//! target; what it is not ready for waits in its backlog, so that none waits for another.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use ioecho_linux::target::{Layer, Places, TargetContent};
use ioecho_linux::{Access, MonotonicClock, Recheck, open_device, target, thread as host_thread};
use ioecho_replay::calibrate::{self, NearDistance};
use ioecho_replay::engine::{Control, Pacing, PacingMode, Replay, Totals, Verification};
use ioecho_replay::pattern::Pattern;
use ioecho_replay::plan::TargetLimits;
use ioecho_replay::schedule::Counts;
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::verify::{Verifier, VerifyMode, final_pass};
use ioecho_replay::{Clock, Device, Scheduler};
use ioecho_trace::{Bytes, Nanos, Op};

use crate::ahead::{self, Emptiness, PlacesSeen};
use crate::error::{Kind, Result, RunError};
use crate::facts::{RealTarget, SimulatedTarget, TargetEntry};
use crate::feeder::{Demand, RingInput};
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::target::{Target, reads_alone};
use crate::watch::lane::{LaneSeen, LaneWatch};
use crate::writer::RingSink;

/// Looking at the simulated clock takes this long.
const SIM_LOOK: Nanos = Nanos(20);

/// The device of a lane and the clock that it lives by.
pub(crate) enum Lane {
    Real {
        device: Box<dyn Device + Send>,
        clock: MonotonicClock,
        /// What the target holds, as far as it was looked at.
        content: Box<TargetContent>,
        /// Tells what stands where the load goes.
        places: Box<Places>,
        /// For one more look at who uses the target, where it is written to.
        recheck: Option<Box<Recheck>>,
    },
    /// Its clock belongs to the thread that it runs in, so it is made there.
    Simulated { spec: Box<SimSpec> },
}

impl Lane {
    /// Opens a target for the run, and says what it is and what lies below it.
    pub(crate) fn open(
        plan: &ReplayPlan,
        target: &Target,
        clock: MonotonicClock,
    ) -> Result<(Self, TargetEntry, Vec<Layer>)> {
        match target {
            Target::Simulated { text, spec } => {
                let entry = TargetEntry::Simulated(SimulatedTarget { simulated: text.clone() });
                Ok((Self::Simulated { spec: spec.clone() }, entry, Vec::new()))
            }
            Target::Real { options, .. } => {
                let opened = target.claim(&plan.spec.destroy, &reads_alone())?;
                let writes = options.access == Access::ReadWrite;
                let recheck = writes.then(|| Recheck::of(&opened).map(Box::new)).transpose()?;
                let facts = opened.facts().clone();
                let content = Box::new(target::sample(&opened));
                let (places, layers) = (Box::new(Places::of(&opened)), target::layers(&opened));
                let device = open_device(opened, &plan.device, clock)?;
                let entry = RealTarget::new(device.describe(), facts, (*content).clone());
                let entry = TargetEntry::Real(Box::new(entry));
                Ok((Self::Real { device, clock, content, places, recheck }, entry, layers))
            }
        }
    }

    /// The numbers of the fills that the target holds, as far as it was looked at.
    pub(crate) fn fills(&self) -> Vec<u64> {
        let Self::Real { content, .. } = self else { return Vec::new() };
        let prepared = content.runs.iter().filter(|written| written.prepared);
        prepared.filter_map(|written| u64::from_str_radix(&written.run, 16).ok()).collect()
    }

    /// What the target can take.
    pub(crate) fn limits(&self) -> TargetLimits {
        let of = |device: &dyn Device| TargetLimits {
            capacity: device.capacity(),
            block_size: device.block_size(),
            length_max: device.length_max(),
            supports: Op::ALL.map(|op| device.supports(op)),
        };
        match self {
            Self::Real { device, .. } => of(device.as_ref()),
            Self::Simulated { spec } => of(&SimDevice::new(**spec, SimClock::new(SIM_LOOK))),
        }
    }
}

/// What the lanes of a run agree on before the first request.
pub(crate) struct Start {
    lanes: usize,
    gate: Mutex<Gate>,
    moved: Condvar,
    agreed: OnceLock<Agreed>,
}

#[derive(Debug, Default)]
struct Gate {
    arrived: usize,
    /// A lane cannot run, so none does.
    shut: bool,
}

/// What the first lane measured and fixed for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// The replay's time zero on the clock.
    pub(crate) start_at: Nanos,
    /// Sleep until this long before a deadline.
    pub(crate) spin: Nanos,
    /// How the host wakes threads, where that was measured.
    pub(crate) near: Option<NearDistance>,
    /// What a request costs the issuing thread at least; zero where that was not measured.
    pub(crate) request_cost: Nanos,
}

impl Start {
    pub(crate) fn new(lanes: usize) -> Self {
        let (gate, moved) = (Mutex::default(), Condvar::new());
        Self { lanes, gate, moved, agreed: OnceLock::new() }
    }

    /// What was agreed on, once the run has begun.
    pub(crate) fn agreed(&self) -> Option<Agreed> {
        self.agreed.get().copied()
    }

    /// Tells the others that this lane cannot run.
    pub(crate) fn give_up(&self) {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).shut = true;
        self.moved.notify_all();
    }

    /// Waits until every lane is here for the n-th time, counted from 1; answers whether all can
    /// run.
    fn wait(&self, time: usize) -> bool {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.arrived += 1;
        self.moved.notify_all();
        while gate.arrived < self.lanes * time && !gate.shut {
            gate = self.moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        !gate.shut
    }
}

/// What a lane needs to run.
pub(crate) struct LaneWork {
    pub(crate) number: usize,
    pub(crate) lane: Lane,
    pub(crate) input: RingInput,
    /// Whether the rings hold as much as they can before the first request.
    pub(crate) filled: Arc<AtomicBool>,
    pub(crate) demand: Arc<Mutex<Demand>>,
    pub(crate) recorder: RingSink,
    pub(crate) control: Arc<Control>,
    pub(crate) verifier: Option<Verifier>,
    pub(crate) run_number: u64,
}

/// What a lane leaves.
pub(crate) struct LaneEnd {
    pub(crate) totals: Totals,
    /// The device as a whole failed.
    pub(crate) error: Option<io::Error>,
    /// The host refused what it was asked for, or the guard the target.
    pub(crate) host_error: Option<RunError>,
    pub(crate) results_lost: u64,
    /// What the host gave, and what of it will not do what it seems to.
    pub(crate) host_facts: Vec<String>,
    pub(crate) verifier: Option<Verifier>,
    /// Why the last look at everything written broke off.
    pub(crate) verify_error: Option<io::Error>,
    /// Whether that look was stopped by a signal, and how much it read.
    pub(crate) verify_stopped: bool,
    /// Whether it came to its end.
    pub(crate) verify_passed: bool,
    pub(crate) verify_read: Bytes,
    /// What was found of the places that the load goes to first.
    pub(crate) places: PlacesSeen,
    /// What was seen of the device and of the thread, until the replay's end.
    pub(crate) seen: Option<LaneSeen>,
    watch: Option<LaneWatch>,
}

impl LaneEnd {
    fn new(verifier: Option<Verifier>) -> Self {
        Self {
            totals: Totals::default(),
            error: None,
            host_error: None,
            results_lost: 0,
            host_facts: Vec::new(),
            verifier,
            verify_error: None,
            verify_stopped: false,
            verify_passed: false,
            verify_read: Bytes::ZERO,
            places: PlacesSeen::default(),
            seen: None,
            watch: None,
        }
    }

    /// What is known of a lane whose thread has been stuck in a system call for so long, and may
    /// never come back.
    pub(crate) fn given_up(control: &Control, still: Nanos) -> Self {
        let counts = Counts { issued: control.issued.load(Relaxed), ..Counts::default() };
        let totals = Totals {
            counts,
            stopped: true,
            silent: true,
            abandoned: control.in_flight.load(Relaxed).into(),
            slow_submissions: 1,
            submission_max: still,
            ..Totals::default()
        };
        Self { totals, ..Self::new(None) }
    }
}

/// A device that is still to be closed, which may take as long as it does not answer.
pub(crate) type Closing = Option<Box<dyn Device + Send>>;

/// Tells a warning, where there is one.
fn warn(observer: &dyn Observer, warning: Option<String>) {
    if let Some(warning) = warning {
        observer.tell(&format!("warning: {warning}"));
    }
}

/// What there is to doubt of a target on places that hold nothing, unless it was made for the load.
fn doubt(plan: &ReplayPlan, number: usize, empty: Emptiness) -> Option<String> {
    let Target::Real { path, .. } = plan.targets.get(number)? else { return None };
    let Emptiness { never_written, zeroes } = empty;
    target::doubt(path, never_written, zeroes).filter(|_| !plan.spec.scratch)
}

/// Runs a lane to its end, but does not close its device.
pub(crate) fn run(
    plan: &ReplayPlan,
    work: LaneWork,
    start: &Start,
    observer: &dyn Observer,
) -> (LaneEnd, Closing) {
    let LaneWork { number, lane, mut input, filled, mut recorder, control, verifier, .. } = work;
    let control = &*control;
    let mut end = LaneEnd::new(verifier);
    let mut closing = None;
    let mut pattern = Pattern::with_fill(work.run_number, number as u16, plan.fill);
    RingInput::wait_until_filled(&filled, &control.stop);
    match lane {
        Lane::Real { mut device, clock, content, places, recheck } => {
            let (places, empty) = ahead::look(&mut input, &content, *places);
            end.places = places;
            warn(observer, doubt(plan, number, empty));
            // Meanwhile a trace was read, perhaps for long. The data are held by then, who uses
            // them is not.
            let free = recheck.map_or(Ok(()), |recheck| {
                plan.targets[number].recheck(&recheck, &plan.spec.destroy, &reads_alone())
            });
            if let Err(refusal) = free {
                end.host_error = Some(refusal);
                start.give_up();
                return (end, Some(device));
            }
            // The time zero is fixed when every target may be written to.
            if !start.wait(1) {
                return (end, Some(device));
            }
            // Without this a sleep ends 50 µs late; if it is refused, the lateness will tell.
            let _ = host_thread::set_timer_slack_ns(1);
            if let Some(Target::Real { facts, .. }) = plan.targets.get(number) {
                end.watch = Some(LaneWatch::begin(facts));
            }
            let host = plan.host.apply();
            match &host {
                Ok(given) => {
                    end.host_facts = given.facts();
                    for warning in given.warnings(plan.spec.pacing.spins()) {
                        if number == 0 {
                            observer.tell(&format!("warning: {warning}"));
                        }
                        end.host_facts.push(warning);
                    }
                }
                Err(_) => start.give_up(),
            }
            if number == 0 && host.is_ok() {
                let agreed = start.agreed.get_or_init(|| agree(plan, device.as_mut(), &clock));
                warn(observer, too_much(plan, agreed, &work.demand));
            }
            let all_can = start.wait(2);
            let Some(agreed) = start.agreed().filter(|_| all_can) else {
                end.host_error =
                    host.err().map(|error| RunError::new(Kind::Usage, error.to_string()));
                return (end, Some(device));
            };
            let pacing =
                Pacing { start_at: Some(agreed.start_at), spin: agreed.spin, ..pacing(plan) };
            replay(
                plan,
                &mut end,
                &mut input,
                &mut recorder,
                control,
                &mut pattern,
                (device.as_mut(), &clock, pacing),
            );
            if end.totals.silent || end.error.is_some() {
                // The run cannot become whole any more: who waits for its end need not wait longer.
                control.stop.store(true, Relaxed);
            }
            closing = Some(device);
        }
        Lane::Simulated { spec } => {
            input.blocking = true;
            recorder.blocking = true;
            start.wait(1);
            let clock = SimClock::new(SIM_LOOK);
            let device = SimDevice::new(*spec, clock.clone());
            let mut device = if plan.spec.verify.is_on() { device.with_data() } else { device };
            let pacing = Pacing { spin: Nanos::ZERO, ..pacing(plan) };
            replay(
                plan,
                &mut end,
                &mut input,
                &mut recorder,
                control,
                &mut pattern,
                (&mut device, &clock, pacing),
            );
        }
    }
    end.results_lost = recorder.lost;
    (end, closing)
}

fn replay<C: Clock>(
    plan: &ReplayPlan,
    end: &mut LaneEnd,
    input: &mut RingInput,
    recorder: &mut RingSink,
    control: &Control,
    pattern: &mut Pattern,
    (device, clock, pacing): (&mut dyn Device, &C, Pacing),
) {
    let scheduler = Scheduler::new(plan.scheduler);
    let verify = end.verifier.as_mut().map(|verifier| Verification {
        verifier,
        reread_writes: plan.spec.verify == VerifyMode::Paranoia,
        preread: plan.spec.verify == VerifyMode::Preread,
    });
    let (totals, result) = Replay {
        device: &mut *device,
        clock,
        scheduler,
        input,
        recorder,
        pattern,
        pacing,
        control,
        verify,
    }
    .run();
    end.totals = totals;
    end.error = result.err();
    // Before the last look at everything written, which is no part of the load.
    end.seen = end.watch.take().map(LaneWatch::end);
    let whole = plan.spec.verify.ends_with_a_look();
    if let Some(verifier) = &mut end.verifier
        && whole
        && end.error.is_none()
        && !totals.stopped
        // What is in flight still may use the tags, and may still change the data.
        && totals.abandoned == 0
    {
        match final_pass(device, clock, verifier, &control.stop, &mut |_| {}) {
            Ok(pass) => {
                end.verify_read = pass.read;
                end.verify_stopped = pass.stopped;
                end.verify_passed = !pass.stopped;
            }
            Err(error) => end.verify_error = Some(error),
        }
    }
}

/// How long to look for the end of the run, and when to give up.
fn pacing(plan: &ReplayPlan) -> Pacing {
    Pacing {
        start_grace: plan.spec.start_grace,
        errors_max: plan.spec.errors_max,
        telemetry_every: plan.spec.expert,
        ..Pacing::default()
    }
}

/// Measures how this host wakes threads and what a request costs it, and fixes the time zero.
fn agree(plan: &ReplayPlan, device: &mut dyn Device, clock: &MonotonicClock) -> Agreed {
    let (spin, near) = match plan.spec.pacing {
        PacingMode::Spin => (Nanos::MAX, None),
        PacingMode::Sleep => (Nanos::ZERO, None),
        PacingMode::Hybrid => {
            // As the engine will sleep: a device that cannot wait is found out by the run itself.
            let mut none = Vec::new();
            let sleep = |until| drop(device.wait(until, &mut none));
            let near = calibrate::near_distance(sleep, clock);
            (near.near, Some(near))
        }
    };
    let mut host = calibrate::Host {
        clock,
        sleep_until: &mut |until| clock.sleep_until(until),
        cpu_time: &host_thread::thread_cpu_time,
    };
    let request_cost = calibrate::quick_cost(&mut host);
    Agreed { start_at: clock.now() + plan.spec.start_grace, spin, near, request_cost }
}

/// What is to be said beforehand of a load that asks for more than this host can pace, as far as it
/// is read yet.
fn too_much(plan: &ReplayPlan, agreed: &Agreed, demand: &Mutex<Demand>) -> Option<String> {
    let peak = demand.lock().map_or(0.0, |demand| demand.peak_per_s());
    let cost = agreed.request_cost.0;
    let is_too_much = plan.timing.mode.has_schedule() && cost > 0 && peak > 1e9 / cost as f64;
    is_too_much.then(|| {
        format!(
            "the load asks for up to {peak:.0} requests/s and this host can pace some \
             {:.0}; calibrating it tells more",
            1e9 / cost as f64
        )
    })
}
