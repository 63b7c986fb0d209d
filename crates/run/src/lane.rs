//! A lane: one target with its engine, its scheduler and its thread.
//!
//! Targets are independent, and a slow one must not delay the others; but they belong to one load,
//! so their replays share one time zero on one clock. A lane keeps the order of its own target.
//! Requests for which it is not ready wait in its backlog, so no target waits for another.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioecho_linux::target::{Layer, Places, TargetContent};
use ioecho_linux::watch::{FileIoState, Helpers};
use ioecho_linux::{
    Access, MonotonicClock, Recheck, open_device, open_devices, target, thread as host_thread,
};
use ioecho_replay::calibrate;
use ioecho_replay::engine::{Control, Pacing, PacingMode, Replay, Totals, Verification};
use ioecho_replay::joint::Joint;
use ioecho_replay::pattern::Pattern;
use ioecho_replay::plan::TargetLimits;
use ioecho_replay::schedule::Counts;
use ioecho_replay::sim::models::Learnt;
use ioecho_replay::sim::{JoinedDevices, Pace, SimClock, SimDevice, SimSpec};
use ioecho_replay::tree::{AtRest, InMemory, Names};
use ioecho_replay::verify::{FinalPass, Following, FoundNames, Verifier, final_pass};
use ioecho_replay::{Clock, Device, Planned, Scheduler};
use ioecho_trace::{Bytes, Nanos, VerifyMode};

use crate::ahead::{self, Emptiness, PlacesSeen};
use crate::error::{Kind, Result, RunError};
use crate::facts::{RealTarget, SimulatedTarget, TargetEntry};
use crate::feeder::{Demand, RingInput};
use crate::flows::{FlowsEnd, LaneFlows};
use crate::lane_feed::LaneFeed;
use crate::observer::Observer;
use crate::plan::ReplayPlan;
use crate::start::{Agreed, Start};
use crate::target::{Target, reads_alone};
use crate::verify::tree::SharedVerifier;
use crate::watch::lane::{LaneSeen, LaneWatch};
use crate::writer::RingSink;

/// Reading the simulated clock takes this long.
const SIM_LOOK: Nanos = Nanos(20);

/// The device of a lane and its clock.
pub(crate) enum Lane {
    Real {
        device: Box<dyn Device + Send>,
        clock: MonotonicClock,
        /// What is known of each device or file; nothing of a tree of files.
        claims: Vec<Claim>,
        /// The threads that make calls on a tree of files, beside its own; `None` of devices.
        helpers: Option<Helpers>,
    },
    /// The clock belongs to the thread of the simulation, so it is made there.
    Simulated {
        /// The device, or those of all targets of the lane.
        devices: Vec<Simulated>,
        /// The tree in memory, and that to which files go from there, if it is one.
        names: Option<(SharedNames, Option<SharedNames>)>,
    },
}

/// A lane, and of each of its targets what is stored of it and what lies below it.
pub(crate) type OpenedLane = (Lane, Vec<(TargetEntry, Vec<Layer>)>);

/// A simulated device, before it is made.
#[derive(Clone)]
pub(crate) struct Simulated {
    pub(crate) spec: Box<SimSpec>,
    /// The run that it was learnt from, where one was named.
    pub(crate) learnt: Option<Arc<Learnt>>,
}

/// A tree in memory, shared by lanes.
pub(crate) type SharedNames = Arc<Mutex<Names>>;

/// What is known of a target that this run has for itself.
pub(crate) struct Claim {
    /// The number of the target.
    target: usize,
    /// Its size and its blocks.
    capacity: Bytes,
    block_size: Bytes,
    /// The sample of the target's content.
    content: TargetContent,
    /// Tells the content of the places where the load goes.
    places: Places,
    /// The last check of the target's users, if it is written to.
    recheck: Option<Recheck>,
}

impl Lane {
    /// Opens the targets of a lane for the run, and returns the facts of each and the layers below
    /// it.
    pub(crate) fn open(
        plan: &ReplayPlan,
        targets: &[usize],
        clock: MonotonicClock,
    ) -> Result<OpenedLane> {
        let (mut devices, mut entries) = (Vec::new(), Vec::new());
        for target in targets {
            if let Target::Simulated { text, spec, learnt, .. } = &plan.targets[*target] {
                let entry = TargetEntry::Simulated(SimulatedTarget { simulated: text.clone() });
                entries.push((entry, Vec::new()));
                devices.push(Simulated { spec: spec.clone(), learnt: learnt.clone() });
            }
        }
        if devices.len() == targets.len() {
            return Ok((Self::Simulated { devices, names: None }, entries));
        }
        Self::open_real(plan, targets, clock)
    }

    fn open_real(
        plan: &ReplayPlan,
        targets: &[usize],
        clock: MonotonicClock,
    ) -> Result<OpenedLane> {
        let (mut all, mut claims, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for number in targets {
            let target = &plan.targets[*number];
            let Target::Real { options, .. } = target else {
                let text = format!("{} is no device or file, as others of its lane", target.name());
                return Err(RunError::new(Kind::Failure, text));
            };
            let opened = target.claim(&plan.spec.destroy, &reads_alone())?;
            let writes = options.access == Access::ReadWrite;
            let recheck = writes.then(|| Recheck::of(&opened)).transpose()?;
            let facts = opened.facts().clone();
            let content = target::sample(&opened);
            known.push((facts.clone(), content.clone(), target::layers(&opened)));
            claims.push(Claim {
                target: *number,
                capacity: facts.capacity,
                block_size: facts.logical_block,
                content,
                places: Places::of(&opened),
                recheck,
            });
            all.push(opened);
        }
        let joint = Joint::new(claims.iter().map(|claim| (claim.target as u16, claim.capacity)));
        let device = match all.pop() {
            Some(only) if all.is_empty() => open_device(only, &plan.device, clock)?,
            last => {
                open_devices(all.into_iter().chain(last).collect(), joint, &plan.device, clock)?
            }
        };
        let entries = known.into_iter().map(|(facts, content, layers)| {
            let entry = RealTarget::new(device.describe(), facts, content);
            (TargetEntry::Real(Box::new(entry)), layers)
        });
        let entries = entries.collect();
        Ok((Self::Real { device, clock, claims, helpers: None }, entries))
    }

    /// The numbers of the fills that the sample of the target contains.
    pub(crate) fn fills(&self) -> Vec<u64> {
        let Self::Real { claims, .. } = self else { return Vec::new() };
        let written = claims.iter().flat_map(|claim| &claim.content.runs);
        let prepared = written.filter(|written| written.prepared);
        prepared.filter_map(|written| u64::from_str_radix(&written.run, 16).ok()).collect()
    }

    /// What is there of its tree, if that is one in memory.
    pub(crate) fn names(&self) -> Option<MutexGuard<'_, Names>> {
        let Self::Simulated { names: Some((names, _)), .. } = self else { return None };
        Some(names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The limits of its targets, in their order.
    pub(crate) fn limits(&self) -> Vec<TargetLimits> {
        match self {
            Self::Real { device, claims, .. } => {
                let mut all = vec![TargetLimits::of(device.as_ref()); claims.len().max(1)];
                if claims.len() > 1 {
                    for (limits, claim) in all.iter_mut().zip(claims) {
                        (limits.capacity, limits.block_size) = (claim.capacity, claim.block_size);
                    }
                }
                all
            }
            Self::Simulated { devices, .. } => {
                let of = |device: &Simulated| {
                    TargetLimits::of(&SimDevice::new(*device.spec, SimClock::new(SIM_LOOK)))
                };
                devices.iter().map(of).collect()
            }
        }
    }
}

/// The inputs of a lane.
pub(crate) struct LaneWork {
    pub(crate) number: usize,
    /// The number of its target; of several, the first.
    pub(crate) target: usize,
    /// The places of its targets, where there are several.
    pub(crate) joint: Option<Joint>,
    pub(crate) lane: Lane,
    pub(crate) input: LaneFeed,
    /// The flows, if the run has such.
    pub(crate) flows: Option<LaneFlows>,
    /// Whether the rings hold as much as they can before the first request.
    pub(crate) filled: Arc<AtomicBool>,
    pub(crate) demand: Arc<Mutex<Demand>>,
    pub(crate) recorder: RingSink,
    pub(crate) control: Arc<Control>,
    pub(crate) verifier: Option<Verifier>,
    /// The verifier that it shares with other lanes.
    pub(crate) shared: Option<SharedVerifier>,
    pub(crate) run_number: u64,
}

/// The results of a lane.
pub(crate) struct LaneEnd {
    pub(crate) totals: Totals,
    /// The error of the device as a whole.
    pub(crate) error: Option<io::Error>,
    /// The error if the host refused a setting, or the guard refused the target.
    pub(crate) host_error: Option<RunError>,
    pub(crate) results_lost: u64,
    /// The actual settings of the host, and warnings about those without their effect.
    pub(crate) host_facts: Vec<String>,
    pub(crate) verifier: Option<Verifier>,
    /// The error that interrupted the final verification.
    pub(crate) verify_error: Option<io::Error>,
    /// Whether a signal stopped the final verification, and how much it read.
    pub(crate) verify_stopped: bool,
    /// Whether the final verification was completed.
    pub(crate) verify_passed: bool,
    pub(crate) verify_read: Bytes,
    /// The tree in memory, where that is looked at when all lanes have ended.
    pub(crate) at_rest: Option<AtRest>,
    /// What its flows have come to, if it has such.
    pub(crate) flows: Option<FlowsEnd>,
    /// What was seen of each of its targets.
    pub(crate) targets: Vec<TargetSeen>,
    /// What its calls on a tree of files moved.
    pub(crate) file_io: Option<FileIoState>,
}

/// What was seen of a target.
#[derive(Default)]
pub(crate) struct TargetSeen {
    /// The content at the places of the first requests.
    pub(crate) places: PlacesSeen,
    /// The observations of the device and of the thread, until the replay's end.
    pub(crate) seen: Option<LaneSeen>,
    watch: Option<LaneWatch>,
}

impl TargetSeen {
    /// What was seen of all targets, in their order. Of a tree of files, and of the targets of a
    /// lane that was given up, nothing was.
    pub(crate) fn of_all(lanes: &mut [LaneEnd], groups: &[Vec<usize>]) -> Vec<Self> {
        let targets = groups.iter().map(Vec::len).sum();
        let mut all: Vec<Self> = std::iter::repeat_with(Self::default).take(targets).collect();
        for (lane, group) in lanes.iter_mut().zip(groups) {
            for (target, seen) in group.iter().zip(lane.targets.drain(..)) {
                all[*target] = seen;
            }
        }
        all
    }

    /// Ends the observation of the targets of a lane, whose thread counts once.
    fn end(all: &mut [Self]) {
        for (number, one) in all.iter_mut().enumerate() {
            one.seen = one.watch.take().map(LaneWatch::end);
            if let Some(seen) = one.seen.as_mut().filter(|_| number > 0) {
                seen.waited = None;
            }
        }
    }
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
            at_rest: None,
            flows: None,
            targets: Vec::new(),
            file_io: None,
        }
    }

    /// Everything that was written was read back, or that broke off.
    fn looked(&mut self, pass: io::Result<FinalPass>) {
        match pass {
            Ok(pass) => {
                self.verify_read = pass.read;
                self.verify_stopped = pass.stopped;
                self.verify_passed = !pass.stopped;
            }
            Err(error) => self.verify_error = Some(error),
        }
    }

    /// The result of a lane whose thread has been stuck in a system call for this long, and may
    /// never return.
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

/// A device that is still to be closed, which may take as long as the device does not answer.
pub(crate) type Closing = Option<Box<dyn Device + Send>>;

/// Tells a warning, if there is one.
fn warn(observer: &dyn Observer, warning: Option<String>) {
    if let Some(warning) = warning {
        observer.tell(&format!("warning: {warning}"));
    }
}

/// The warning about a target with empty places, unless it was made for the load.
fn doubt(plan: &ReplayPlan, number: usize, empty: Emptiness) -> Option<String> {
    let Target::Real { path, .. } = plan.targets.get(number)? else { return None };
    let Emptiness { never_written, zeroes } = empty;
    target::doubt(path, never_written, zeroes).filter(|_| !plan.spec.scratch)
}

/// Refuses targets that are written to and have got a user.
fn are_free(plan: &ReplayPlan, rechecks: &[(usize, Recheck)]) -> Result<()> {
    rechecks.iter().try_for_each(|(number, recheck)| {
        plan.targets[*number].recheck(recheck, &plan.spec.destroy, &reads_alone())
    })
}

/// Begins to observe the real targets of a lane.
fn watch(plan: &ReplayPlan, numbers: &[usize], all: &mut [TargetSeen]) {
    for (number, one) in numbers.iter().zip(all) {
        if let Some(Target::Real { facts, .. }) = plan.targets.get(*number) {
            one.watch = Some(LaneWatch::begin(facts));
        }
    }
}

/// What makes the payload of a lane's writes.
fn pattern(plan: &ReplayPlan, run: u64, target: usize, joint: Option<&Joint>) -> Pattern {
    let pattern = Pattern::with_fill(run, target as u16, plan.fill);
    let pattern = if plan.timing.mode.has_parents() { pattern.undated() } else { pattern };
    match joint {
        Some(joint) => pattern.over(joint.clone()),
        None => pattern,
    }
}

/// Runs a lane to its end, but does not close its device.
pub(crate) fn run(
    plan: &ReplayPlan,
    work: LaneWork,
    start: &Start,
    observer: &dyn Observer,
) -> (LaneEnd, Closing) {
    let LaneWork { number, target, lane, input, flows, filled, recorder, control, .. } = work;
    let pattern = pattern(plan, work.run_number, target, work.joint.as_ref());
    let mut rings = Rings { input, flows, recorder, control, pattern, shared: work.shared };
    let mut end = LaneEnd::new(work.verifier);
    let mut closing = None;
    RingInput::wait_until_filled(&filled, &rings.control.stop);
    match lane {
        Lane::Real { mut device, clock, claims, helpers } => {
            let numbers: Vec<usize> = claims.iter().map(|claim| claim.target).collect();
            let rechecks =
                look_at(plan, claims, work.joint.as_ref(), (&mut rings.input, &mut end), observer);
            // Reading the trace may have taken long. The guard protects the data meanwhile, but the
            // target may have got a user.
            if let Err(refusal) = are_free(plan, &rechecks) {
                end.host_error = Some(refusal);
                start.give_up();
                return (end, Some(device));
            }
            // The time zero is fixed only after every target may be written to.
            if !start.wait(1) {
                return (end, Some(device));
            }
            host_thread::wake_promptly();
            watch(plan, &numbers, &mut end.targets);
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
            let measured = (number == 0 && host.is_ok())
                .then(|| measure(plan, device.as_mut(), &clock))
                .inspect(|measured| warn(observer, too_much(plan, measured, &work.demand)));
            let mut again = || measure(plan, device.as_mut(), &clock);
            let agreed = start.meet(plan, &clock, observer, measured, &mut again);
            let Ok(Some(agreed)) = agreed else {
                let refused = host.err().map(|error| RunError::new(Kind::Usage, error.to_string()));
                end.host_error = refused.or(agreed.err());
                return (end, Some(device));
            };
            if agreed.is_told {
                // The run may have waited for long.
                let free = are_free(plan, &rechecks);
                if free.is_err() {
                    start.give_up();
                }
                if !start.wait(4) {
                    end.host_error = free.err();
                    return (end, Some(device));
                }
                watch(plan, &numbers, &mut end.targets);
            }
            let pacing =
                Pacing { start_at: Some(agreed.start_at), spin: agreed.spin, ..pacing(plan) };
            let of_lane: (&mut dyn Device, _, _) = (device.as_mut(), &clock, pacing);
            replay_counted(plan, &mut rings, &mut end, of_lane, helpers.as_ref());
            if end.totals.silent || end.error.is_some() {
                // The run can no longer become complete, so it need not wait for its end.
                rings.control.stop.store(true, Relaxed);
            }
            closing = Some(device);
        }
        Lane::Simulated { devices, names } => {
            rings.input.block();
            rings.recorder.blocking = true;
            start.wait(1);
            if number == 0 {
                end.host_error = start.wait_at_the_gate(observer, &rings.control.stop).err();
            }
            if !start.wait(2) {
                return (end, None);
            }
            let clock = SimClock::new(SIM_LOOK);
            let mut devices: Vec<SimDevice> =
                devices.into_iter().map(|device| simulated(plan, device, &clock)).collect();
            let _in_step = devices.first_mut().and_then(|first| keep_in_step(first, &mut rings));
            let pacing = Pacing { spin: Nanos::ZERO, ..pacing(plan) };
            let of_lane = (devices, work.joint, names);
            replay_simulated(plan, &mut rings, &mut end, of_lane, (&clock, pacing));
        }
    }
    end.results_lost = rings.recorder.lost;
    if let LaneFeed::Flows(flows) = rings.input {
        end.flows = Some(flows.end());
    }
    (end, closing)
}

/// Replays, and counts what a lane on a tree of files moved: its thread and its helpers make the
/// calls themselves, so the kernel counts them as theirs.
fn replay_counted<C: Clock>(
    plan: &ReplayPlan,
    rings: &mut Rings,
    end: &mut LaneEnd,
    of_lane: (&mut dyn Device, &C, Pacing),
    helpers: Option<&Helpers>,
) {
    let is_recorded =
        |target: &Target| matches!(target, Target::Tree(tree) if tree.recorded.is_some());
    if plan.targets.iter().any(is_recorded) {
        host_thread::mask_nothing();
    }
    let before = helpers.and_then(Helpers::moved);
    replay(plan, rings, end, of_lane);
    end.file_io = before.and_then(|before| Some(helpers?.moved()?.since(&before)));
}

/// Keeps a simulated device in step with those of the other targets, if requests wait for them, or
/// flows for theirs.
fn keep_in_step(device: &mut SimDevice, rings: &mut Rings) -> Option<InStep> {
    if let Some(pace) = rings.input.as_input().across().and_then(|across| across.pace()) {
        device.keep_in_step(pace.clone());
    }
    rings.flows.as_ref().and_then(|flows| InStep::of(device, flows))
}

/// The place of a lane's flows among those that keep in step; the others go on without it when it
/// is over.
struct InStep(Pace);

impl InStep {
    fn of(device: &mut SimDevice, flows: &LaneFlows) -> Option<Self> {
        let pace = flows.pace.clone()?;
        device.keep_in_step(pace.clone());
        Some(Self(pace))
    }
}

impl Drop for InStep {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The simulated device of this description, or the one that was learnt.
fn simulated(plan: &ReplayPlan, of: Simulated, clock: &SimClock) -> SimDevice {
    let device = match of.learnt {
        Some(learnt) => SimDevice::learnt(*of.spec, learnt, clock.clone()),
        None => SimDevice::new(*of.spec, clock.clone()),
    };
    if plan.spec.verify.is_on() { device.with_data() } else { device }
}

/// Between a lane and the other threads of the run: the requests, their data, and the results.
struct Rings {
    input: LaneFeed,
    /// The flows, if the run has such.
    flows: Option<LaneFlows>,
    recorder: RingSink,
    control: Arc<Control>,
    pattern: Pattern,
    /// The verifier that it shares with other lanes.
    shared: Option<SharedVerifier>,
}

/// Looks at the places where the load begins on each target, and warns where they are empty;
/// returns the last checks of the targets' users.
fn look_at(
    plan: &ReplayPlan,
    claims: Vec<Claim>,
    joint: Option<&Joint>,
    (input, end): (&mut LaneFeed, &mut LaneEnd),
    observer: &dyn Observer,
) -> Vec<(usize, Recheck)> {
    let mut rechecks = Vec::new();
    let first = ahead::first(input);
    for Claim { target, content, places, recheck, .. } in claims {
        let there = |planned: &Planned| joint.map_or(*planned, |joint| joint.planned(planned));
        let is_its = |planned: &Planned| joint.is_none() || usize::from(planned.target) == target;
        let its: Vec<Planned> = first.iter().map(there).filter(is_its).collect();
        let (places, empty) = ahead::look(&its, &content, places);
        end.targets.push(TargetSeen { places, ..TargetSeen::default() });
        warn(observer, doubt(plan, target, empty));
        rechecks.extend(recheck.map(|recheck| (target, recheck)));
    }
    rechecks
}

/// The simulated devices of a lane, their places, and the tree in memory, if they are one.
type Devices = (Vec<SimDevice>, Option<Joint>, Option<(SharedNames, Option<SharedNames>)>);

/// Replays on simulated devices, or on a tree in memory whose calls take as long.
fn replay_simulated(
    plan: &ReplayPlan,
    rings: &mut Rings,
    end: &mut LaneEnd,
    (mut devices, joint, names): Devices,
    (clock, pacing): (&SimClock, Pacing),
) {
    if let Some(joint) = joint {
        let mut all = JoinedDevices::new(devices, joint);
        return replay(plan, rings, end, (&mut all, clock, pacing));
    }
    let Some(mut device) = devices.pop() else { return };
    match names {
        None => replay(plan, rings, end, (&mut device, clock, pacing)),
        Some((names, other)) => {
            let mut tree = InMemory::new(device, names, other);
            go_through(plan, rings, end, (&mut tree, clock, pacing));
            if let Some(verifier) = looking(plan, end) {
                let found = FoundNames::of(&tree.names());
                let stop = &rings.control.stop;
                let now = &|| clock.now();
                let pass = verifier.look_at_tree(&found, &mut tree, now, stop, &mut |_| {});
                end.looked(pass);
            }
            if rings.shared.is_some() {
                end.at_rest = Some(tree.at_rest());
            }
        }
    }
}

/// Replays on one device, and reads back at the end where the run verifies so.
fn replay<C: Clock>(
    plan: &ReplayPlan,
    rings: &mut Rings,
    end: &mut LaneEnd,
    (device, clock, pacing): (&mut dyn Device, &C, Pacing),
) {
    go_through(plan, rings, end, (&mut *device, clock, pacing));
    if let Some(verifier) = looking(plan, end) {
        let pass = final_pass(device, clock, verifier, &rings.control.stop, &mut |_| {});
        end.looked(pass);
    }
}

/// The verifier of a lane that has ended, if everything that was written is to be read back now.
fn looking<'e>(plan: &ReplayPlan, end: &'e mut LaneEnd) -> Option<&'e mut Verifier> {
    let is_whole = end.error.is_none()
        && !end.totals.stopped
        // Requests in flight may still use the tags and change the data.
        && end.totals.abandoned == 0;
    end.verifier.as_mut().filter(|_| plan.spec.verify.ends_with_a_look() && is_whole)
}

/// Replays on one device.
fn go_through<C: Clock>(
    plan: &ReplayPlan,
    rings: &mut Rings,
    end: &mut LaneEnd,
    (device, clock, pacing): (&mut dyn Device, &C, Pacing),
) {
    let Rings { input, flows, recorder, control, pattern, shared } = rings;
    let scheduler = match flows.take() {
        None => Scheduler::new(plan.scheduler),
        Some(flows) => {
            let config = flows.config(plan.scheduler);
            Scheduler::with_flows(config, flows.configs, flows.numbering)
        }
    };
    let own = end.verifier.as_mut().map(Following::Own);
    let of_several = || shared.as_ref().map(SharedVerifier::following);
    let verify = own.or_else(of_several).map(|verifier| Verification {
        verifier,
        reread_writes: plan.spec.verify == VerifyMode::Paranoia,
        preread: plan.spec.verify == VerifyMode::Preread,
    });
    let (totals, result) = Replay {
        device,
        clock,
        scheduler,
        input: input.as_input(),
        recorder,
        pattern,
        pacing,
        control,
        verify,
    }
    .run();
    end.totals = totals;
    end.error = result.err();
    // Taken before the final verification, which is not part of the load.
    TargetSeen::end(&mut end.targets);
}

/// The limits of the engine: start grace, failed requests, the end, telemetry.
fn pacing(plan: &ReplayPlan) -> Pacing {
    Pacing {
        start_grace: plan.spec.start_grace,
        errors_max: plan.spec.errors_max,
        end_after: plan.spec.end_after,
        telemetry_every: plan.spec.expert,
        ..Pacing::default()
    }
}

/// Measures how late this host wakes threads and how much time a request takes. The time zero is
/// not fixed yet.
fn measure(plan: &ReplayPlan, device: &mut dyn Device, clock: &MonotonicClock) -> Agreed {
    let (spin, near) = match plan.spec.pacing {
        PacingMode::Spin => (Nanos::MAX, None),
        PacingMode::Sleep => (Nanos::ZERO, None),
        PacingMode::Hybrid => {
            // Sleeps as the engine will; if the device cannot wait, the run itself reports that.
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
    Agreed { start_at: Nanos::MAX, spin, near, request_cost, is_told: false }
}

/// The warning about a load with a higher rate than this host can pace, as far as the load is read.
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
