//! What was typed becomes what will be done: resolved, checked, and printable before anything is
//! touched.

use std::fmt;
use std::path::{Path, PathBuf};

use ioecho_linux::host::HostSetup;
use ioecho_linux::{Access, Backend, DeviceOptions};
use ioecho_replay::map::{Map, RouteSpec};
use ioecho_replay::pattern::Fill;
use ioecho_replay::plan::{Alignment, Planner, TargetLimits, Timing, TimingMode, Writes};
use ioecho_replay::schedule::Config;
use ioecho_stats::required::Requirement;
use ioecho_trace::formats::WholeSeconds;
use ioecho_trace::header::NoteKind;
use ioecho_trace::{Bytes, Header, Nanos, Source, generate};

use crate::args::{InterfaceArg, PacingArg, ReplayArgs, VerifyArg, WindowArgs};
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Inputs};
use crate::run::live::LivePlan;
use crate::run::target::{READS_ALONE, Target, guard_all};
use crate::run::verify::line::Continues;
use crate::run::{command, open, routes};

/// Requests that the look-ahead of the scheduler holds.
const LOOK_AHEAD: usize = 1 << 12;

/// More targets than any host has, and as many as a result can name.
const TARGETS_MAX: usize = 1024;

/// How the issuing threads spend their time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacingPlan {
    pub(crate) mode: PacingArg,
    pub(crate) start_grace: Nanos,
    pub(crate) errors_max: Option<u64>,
}

/// A replay, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ReplayPlan {
    pub(crate) trace: PathBuf,
    /// The command line, as the run's directory keeps it.
    pub(crate) command: Vec<String>,
    /// The trace's path, likewise.
    pub(crate) recorded_trace: PathBuf,
    pub(crate) window: WindowArgs,
    /// What else is made of the trace, in order.
    pub(crate) transforms: Vec<String>,
    pub(crate) timing: Timing,
    pub(crate) targets: Vec<Target>,
    pub(crate) routes: Vec<RouteSpec>,
    pub(crate) destroy: Vec<PathBuf>,
    pub(crate) scheduler: Config,
    pub(crate) strong_level: u8,
    pub(crate) device: DeviceOptions,
    pub(crate) pacing: PacingPlan,
    pub(crate) host: HostSetup,
    pub(crate) fill: Fill,
    pub(crate) verify: VerifyArg,
    /// The run that this one goes on from.
    pub(crate) continues: Option<Continues>,
    /// The storage's cache, as its user named it.
    pub(crate) cache_size: Option<Bytes>,
    /// Checks that must pass.
    pub(crate) required: Vec<Requirement>,
    pub(crate) output: PathBuf,
    pub(crate) quiet: bool,
    /// What is told while the run goes on.
    pub(crate) live: LivePlan,
    /// How long the intervals are in which the engines tell of themselves, if they are to.
    pub(crate) expert: Option<Nanos>,
    /// By which interface the kernel's view of the run is recorded, if it is to be.
    pub(crate) witness: Option<InterfaceArg>,
    /// Whether the target was made for this load alone, so that what the load does not touch need
    /// not hold anything.
    pub(crate) is_scratch: bool,
}

impl ReplayPlan {
    /// Resolves what was typed, and opens the trace. Looks at the targets and their hazards, and
    /// changes nothing.
    pub(crate) fn new(args: &ReplayArgs) -> anyhow::Result<(Self, Box<dyn Source>)> {
        contradictions(args)?;
        // A trace that cannot be opened is told before the target is so much as looked at.
        let mut options = args.read.options();
        if options.whole_seconds == WholeSeconds::Unchosen {
            // The instants of a replay are its point; nobody shall take invented ones for recorded.
            options.whole_seconds = WholeSeconds::Refuse;
        }
        let source = open::trace(&args.trace, &options, &args.load)?;
        refuse_unchosen_seconds(args, source.header())?;
        follows_what_is_known(args, source.header())?;
        let routes = routes::read(&args.map, args.map_file.as_deref())?;
        let targets = targets(args, &routes)?;
        let output = args.output.clone().unwrap_or_else(default_output);
        let gate = gate(args, &targets, &output)?;
        let continues = Continues::new(&args.data, &targets)?;
        let scheduler = Config {
            conflicts: args.engine.conflicts.mode(),
            strong: crate::args::strong(args.engine.strong),
            look_ahead: LOOK_AHEAD,
            timing: args.timing.timing,
            follow_in_flight: args.timing.follow_in_flight,
            bundle: args.timing.bundle,
            ..Config::with_in_flight_max(args.engine.in_flight_max)
        };
        let timing = Timing {
            start: args.load.window.start,
            speedup: args.timing.speedup,
            iops_scale: args.timing.iops_scale,
            mode: args.timing.timing,
            writes: match (args.safety.read_only, args.safety.writes_as_reads) {
                (true, _) => Writes::LeaveOut,
                (_, true) => Writes::AsReads,
                _ => Writes::Issue,
            },
            alignment: args.data.align.alignment(),
            sync_writes: args.data.sync_writes,
        };
        let device = DeviceOptions {
            backend: args.engine.backend.backend(),
            in_flight_max: scheduler.device_slots(),
            threads: args.engine.threads,
            sqpoll: args.engine.sqpoll,
            iopoll: args.engine.iopoll,
            ..DeviceOptions::default()
        };
        let cpus = args.host.cpus.as_deref().map(str::parse).transpose();
        let cpus = cpus.map_err(|error| Coded::error(exit::USAGE, format!("--cpus {error}")))?;
        let plan = Self {
            trace: args.trace.clone(),
            command: command::recorded(args),
            recorded_trace: command::recorded_trace(args),
            window: args.load.window,
            transforms: args.load.transforms.chain.iter().map(ToString::to_string).collect(),
            timing,
            targets,
            routes,
            destroy: args.safety.destroy.clone(),
            scheduler,
            strong_level: args.engine.strong,
            device,
            pacing: PacingPlan {
                mode: args.host.pacing,
                start_grace: args.timing.start_grace,
                errors_max: args.safety.on_error.0,
            },
            host: HostSetup {
                cpus,
                fifo: args.host.fifo,
                lock_memory: args.host.lock_memory,
                dma_latency: args.host.dma_latency,
            },
            fill: Fill { random: args.data.fill_random, dedup: args.data.dedup },
            verify: args.data.verify,
            continues,
            cache_size: args.data.cache_size,
            output,
            required: args.require.clone(),
            quiet: args.quiet,
            live: LivePlan::new(&args.live, gate),
            expert: args.watched.expert,
            witness: args.watched.witness,
            is_scratch: false,
        };
        plan.live.check(&plan)?;
        plan.every_target_is_used(source.header())?;
        Ok((plan, source))
    }

    /// Refuses targets that may hold somebody's data, unless they were named for it.
    pub(crate) fn guard(&self) -> anyhow::Result<()> {
        guard_all(&self.targets, &self.destroy, READS_ALONE)?;
        if self.timing.writes == Writes::Issue {
            // Of what is mounted that was told already; here a file below another is left.
            let place = Inputs::of_place(&self.output);
            self.targets.iter().try_for_each(|target| target.refuse_inputs(&place))?;
        }
        Ok(())
    }

    /// Refuses a target that no part of the trace goes to: its figures would be those of idleness.
    fn every_target_is_used(&self, trace: &Header) -> anyhow::Result<()> {
        let limits: Vec<_> = self.targets.iter().map(Target::limits).collect();
        let map = self.map(&limits, trace)?;
        if self.routes.is_empty() && trace.volumes.is_empty() {
            // They turn up while the trace is read.
            return Ok(());
        }
        let used =
            |number: usize| map.routes().iter().any(|route| usize::from(route.target) == number);
        let Some(idle) = (0..self.targets.len()).find(|number| !used(*number)) else {
            return Ok(());
        };
        let text = format!(
            "nothing of the trace goes to {}: the trace has {} volume(s) and there are {} \
             targets\n  = help: name fewer targets, or divide a volume among them with --map",
            self.targets[idle].name(),
            trace.volumes.len().max(1),
            self.targets.len()
        );
        Err(Coded::error(exit::USAGE, text))
    }

    /// What plans the requests of a trace for targets with these limits.
    pub(crate) fn planner(
        &self,
        limits: &[TargetLimits],
        trace: &Header,
    ) -> anyhow::Result<Planner> {
        Ok(Planner::mapped(limits.to_vec(), self.map(limits, trace)?, self.timing))
    }

    /// Where the volumes of a trace go.
    pub(crate) fn map(&self, limits: &[TargetLimits], trace: &Header) -> anyhow::Result<Map> {
        if self.routes.is_empty() {
            return Ok(Map::spread(&trace.volumes, limits));
        }
        let names = self.targets.iter().map(Target::name);
        let named: Vec<_> = names.zip(limits.iter().copied()).collect();
        Map::resolve(&self.routes, &trace.volumes, &named)
            .map_err(|error| Coded::error(exit::USAGE, error.to_string()))
    }

    /// Whether nothing that overlaps a write is ever in flight with it.
    pub(crate) fn is_isolated(&self) -> bool {
        use ioecho_replay::conflict::{ConflictMode, Strong};
        self.scheduler.conflicts != ConflictMode::Allow
            && self.scheduler.strong != Strong::WriteWrite
    }
}

/// Refuses options that cannot be meant together.
fn contradictions(args: &ReplayArgs) -> anyhow::Result<()> {
    let timed = args.timing.timing.has_schedule();
    let backend = args.engine.backend.backend();
    let not_uring = !matches!(backend, Backend::Auto | Backend::Uring);
    let unscaled = (args.timing.speedup - 1.0).abs() < f64::EPSILON;
    let verifies = args.data.verify != VerifyArg::Off;
    let rules: [(bool, &str, &str); 11] = [
        (
            !timed && !unscaled,
            "--speedup has no meaning without a schedule",
            "leave it out, or take --timing timed",
        ),
        (
            !timed && args.timing.follow_in_flight,
            "--follow-in-flight belongs to --timing timed",
            "--timing load follows the recorded in-flight number by itself",
        ),
        (
            !timed && args.timing.bundle > Nanos::ZERO,
            "--bundle has no meaning without a schedule",
            "leave it out: what can go together does",
        ),
        (
            verifies && args.data.dedup > 1.0,
            "blocks that share their content (--dedup) cannot be verified",
            "leave out --dedup or --verify",
        ),
        (
            args.data.continues.is_some() && args.data.dedup > 1.0,
            "blocks that share their content (--dedup) cannot be told from those of an earlier run",
            "leave out --dedup or --continues",
        ),
        (
            verifies && args.safety.reads_only() && args.data.continues.is_none(),
            "a run that writes nothing has nothing to verify",
            "leave out --verify; or name the run that wrote with --continues RUN",
        ),
        (
            args.safety.reads_only() && !args.safety.destroy.is_empty(),
            "a run that writes nothing destroys nothing",
            "leave out --destroy",
        ),
        (
            not_uring && (args.engine.sqpoll || args.engine.iopoll),
            "--sqpoll and --iopoll belong to io_uring",
            "take --backend uring",
        ),
        (
            args.engine.threads.is_some() && backend != Backend::Threads,
            "--threads belongs to the back end threads",
            "take --backend threads, or cap requests in flight with --in-flight-max",
        ),
        (
            args.safety.reads_only() && args.data.sync_writes,
            "a run that writes nothing has no writes to be synchronous",
            "leave out --sync-writes",
        ),
        (
            args.watched.witness.is_some() && args.data.verify >= VerifyArg::Final,
            "what --verify final, preread and paranoia read besides the load would stand among the \
             witnessed requests",
            "leave out --witness, or verify afterwards with `ioecho verify RUN`",
        ),
    ];
    match rules.iter().find(|(broken, ..)| *broken) {
        Some((_, what, help)) => {
            Err(Coded::error(exit::USAGE, format!("{what}\n  = help: {help}")))
        }
        None => Ok(()),
    }
}

/// Refuses a trace that was converted without a choice of what to make of whole seconds. A trace
/// that such a trace was merged into has its note, too.
fn refuse_unchosen_seconds(args: &ReplayArgs, trace: &Header) -> anyhow::Result<()> {
    if !trace.guesses.has(NoteKind::UnchosenSecond) {
        return Ok(());
    }
    let text = format!(
        "{}: its recording knew no more than the second of a request, and nobody chose where in it \
         to put them\n  = help: convert the original again with --whole-seconds even, poisson or \
         burst",
        args.trace.display()
    );
    Err(Coded::error(exit::TRACE, text))
}

/// Refuses to follow what the recording does not tell.
fn follows_what_is_known(args: &ReplayArgs, trace: &Header) -> anyhow::Result<()> {
    let follows = args.timing.follow_in_flight || args.timing.timing.follows_recorded();
    if follows && !trace.columns.latency {
        let text = format!(
            "{} does not tell how long its requests took, so nobody knows how many were in \
             flight\n  = help: record with completions, or cap the number with --in-flight-max N",
            args.trace.display()
        );
        return Err(Coded::error(exit::USAGE, text));
    }
    Ok(())
}

/// What the files of this replay go through. Refuses targets that hold what the replay reads: it
/// would be overwritten.
fn gate(args: &ReplayArgs, targets: &[Target], output: &Path) -> anyhow::Result<Gate> {
    let inputs = Inputs::of_load(&args.trace, &args.load);
    let inputs = args.map_file.iter().fold(inputs, |inputs, file| inputs.and(file));
    let is_written = !args.safety.reads_only();
    let mut gate = Gate::reading(inputs.clone()).and_run(output);
    for target in targets {
        if is_written {
            target.refuse_inputs(&inputs)?;
        }
        if let Target::Real { path, .. } = target {
            gate = gate.and_target(path, is_written);
        }
    }
    Ok(gate)
}

/// The targets that were named, and those that only the map names.
fn targets(args: &ReplayArgs, routes: &[RouteSpec]) -> anyhow::Result<Vec<Target>> {
    let mut names = args.target.clone();
    for route in routes {
        let is_number = route.target.parse().is_ok_and(|n: usize| (1..=names.len()).contains(&n));
        if !is_number && !names.contains(&route.target) {
            names.push(route.target.clone());
        }
    }
    let usage = |text: String| Err(Coded::error(exit::USAGE, text));
    if names.len() > TARGETS_MAX {
        return usage(format!("{} targets are too many; {TARGETS_MAX} are possible", names.len()));
    }
    let reads_only = args.safety.reads_only();
    let mut targets: Vec<Target> = Vec::with_capacity(names.len());
    for name in &names {
        let target = Target::look_at(name, reads_only, args.safety.allow_cached)?;
        if !reads_only && target.is_file(&args.trace) {
            return usage(format!("{name} is both the trace and the target"));
        }
        if targets.iter().any(|other| other.is_same(&target)) {
            return usage(format!(
                "{name} is named twice as a target\n  = help: to put several volumes on one \
                 target, name it once, or give each its place with --map"
            ));
        }
        if targets.first().is_some_and(|first| first.is_simulated() != target.is_simulated()) {
            return usage(
                "simulated and real targets have different clocks\n  = help: take either all \
                 simulated or all real"
                    .to_owned(),
            );
        }
        targets.push(target);
    }
    let block = |target: &Target| target.limits().block_size;
    if let Some(other) = targets.iter().find(|target| block(target) != block(&targets[0]))
        && args.data.align.alignment() == Alignment::Refuse
    {
        return usage(format!(
            "{} has blocks of {} and {} has blocks of {}: what fits the one may not fit the \
             other\n  = help: --align round widens requests to whole blocks; or take targets with \
             equal blocks",
            targets[0].name(),
            block(&targets[0]),
            other.name(),
            block(other)
        ));
    }
    Ok(targets)
}

impl fmt::Display for ReplayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trace         {}", self.trace.display())?;
        let from = self.window.start.map_or("its first request".to_owned(), |at| at.to_string());
        let length =
            self.window.duration.map_or("its end".to_owned(), |span| format!("{span} later"));
        let timing = match self.timing.mode {
            TimingMode::Timed => format!("speed {}", self.timing.speedup),
            TimingMode::Afap => "as fast as possible".to_owned(),
            TimingMode::Load => "as fast as the recorded in-flight number allows".to_owned(),
        };
        writeln!(f, "part          from {from} to {length}, {timing}")?;
        for transform in &self.transforms {
            writeln!(f, "transform     {transform}")?;
        }
        for target in &self.targets {
            match target {
                Target::Simulated { text, .. } => writeln!(f, "target        {text}: simulated")?,
                Target::Real { path, facts, hazards, options } => {
                    writeln!(
                        f,
                        "target        {}: {}, blocks of {}",
                        path.display(),
                        facts.capacity,
                        facts.logical_block
                    )?;
                    if options.access == Access::ReadOnly {
                        writeln!(f, "access        reading only")?;
                    }
                    for hazard in hazards {
                        writeln!(f, "hazard        {hazard}")?;
                    }
                }
            }
        }
        let Config { conflicts, in_flight_max, .. } = self.scheduler;
        writeln!(
            f,
            "engine        conflicts {}, strong {}, at most {in_flight_max} in flight",
            format!("{conflicts:?}").to_lowercase(),
            self.strong_level
        )?;
        if self.verify != VerifyArg::Off {
            writeln!(f, "verification  {}", self.verify.name())?;
        }
        if let Some(continues) = &self.continues {
            writeln!(f, "continues     {continues}")?;
        }
        if !self.host.is_empty() {
            writeln!(f, "host          {}", self.host)?;
        }
        if let Some(every) = self.expert {
            writeln!(f, "expert        what the engines do, every {every}")?;
        }
        if !self.required.is_empty() {
            let names: Vec<String> = self.required.iter().map(ToString::to_string).collect();
            writeln!(f, "required      {}", names.join(", "))?;
        }
        write!(f, "results       {}", self.output.display())
    }
}

/// `ioecho-` and the instant, in the current directory.
pub(crate) fn default_output() -> PathBuf {
    dated("ioecho")
}

/// A name with the instant, to the second.
pub(crate) fn dated(prefix: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let names = (1..).map(|n| match n {
        1 => PathBuf::from(format!("{prefix}-{now}")),
        n => PathBuf::from(format!("{prefix}-{now}-{n}")),
    });
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| PathBuf::from(prefix))
}

/// How long the replay is to take, where the plan alone tells.
pub(crate) fn known_duration(plan: &ReplayPlan) -> Option<Nanos> {
    let timed = plan.timing.mode.has_schedule();
    let described = || generate::duration(&plan.trace).filter(|_| plan.transforms.is_empty());
    let span = match (plan.window.duration, plan.window.start) {
        (Some(window), _) => Some(described().map_or(window, |all| all.min(window))),
        (None, None) => described(),
        // What is left of it behind its start.
        (None, Some(start)) => described().map(|all| all.saturating_sub(start).max(Nanos::ZERO)),
    };
    span.filter(|_| timed).map(|span| span.scaled_down(plan.timing.speedup))
}
