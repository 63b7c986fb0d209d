//! Turns the specification into a plan: resolved, checked, and printable before anything is
//! touched.

use std::fmt;
use std::path::PathBuf;

use ioecho_linux::host::HostSetup;
use ioecho_linux::{Access, DeviceOptions};
use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::map::{Map, RouteSpec};
use ioecho_replay::pattern::Fill;
use ioecho_replay::plan::{Alignment, Planner, TargetLimits, Timing, TimingMode, Writes};
use ioecho_replay::schedule::Config;
use ioecho_trace::formats::{ReadOptions, WholeSeconds};
use ioecho_trace::header::NoteKind;
use ioecho_trace::transform::Load;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Header, Nanos, Source, Stop, generate, units};

use crate::chains::Chains;
use crate::error::{Kind, Result, RunError};
use crate::flows::{Flow, Flows, Nothing};
use crate::inputs::Inputs;
use crate::links::{self, Links};
use crate::on_devices::OnDevices;
use crate::open::Opener;
use crate::recorded;
use crate::relived::{Opening, PastTrees};
use crate::spec::ReplaySpec;
use crate::target::{Target, guard_all, reads_alone};
use crate::verify::before::Before;
use crate::{kept, open, routes};

/// Requests in the look-ahead of the scheduler.
const LOOK_AHEAD: usize = 1 << 12;

/// The same where requests wait for others: while one thinks for long, those behind it go on.
const LOOK_AHEAD_OF_CHAINS: usize = 1 << 16;

/// The most targets: more than any host has, and as many as a result can name.
const TARGETS_MAX: usize = 1024;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// The most threads on files whose data are verified: results on their way to the journal have
/// notes in one ring.
const VERIFYING_THREADS_MAX: u32 = 128;

/// A replay with all settings resolved.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The specification.
    pub spec: ReplaySpec,
    /// The command line, as stored in the run's directory.
    pub command: Vec<String>,
    /// The trace's path, as stored in the run's directory.
    pub recorded_trace: PathBuf,
    /// The files that are read.
    pub inputs: Inputs,
    /// The conversion of the trace's time to the replay's.
    pub timing: Timing,
    /// The targets, in the order in which results name them.
    pub targets: Vec<Target>,
    /// The routes of the trace's volumes; empty if they are spread.
    pub routes: Vec<RouteSpec>,
    /// The rules of the scheduler.
    pub scheduler: Config,
    /// How requests reach the kernel.
    pub device: DeviceOptions,
    /// The requested settings of the host.
    pub host: HostSetup,
    /// The content of written data.
    pub fill: Fill,
    /// The runs that this one goes on from.
    pub(crate) before: Option<Before>,
    /// The flows, if the load has such.
    pub(crate) flows: Flows,
    /// Who waits for whom, if that decides when requests are issued.
    pub(crate) chains: Option<Chains>,
    /// The directory for the results.
    pub output: PathBuf,
}

impl ReplayPlan {
    /// Resolves a specification that came from this command line, and opens the trace with
    /// `opener`. Inspects the targets and their hazards, and changes nothing.
    pub fn new(
        spec: ReplaySpec,
        command: Vec<String>,
        opener: &dyn Opener,
    ) -> Result<(Self, Box<dyn Source>)> {
        spec.check()?;
        // The trace is opened first, so that its errors are reported before the target is
        // inspected.
        let load = spec.load();
        let options = read_options(&spec, &load);
        let past = if recorded::is_asked_for(&spec) { PastTrees::of(&spec.trace)? } else { None };
        let open = || open::trace_until(opener, &Stop::default(), &spec.trace, &options, &load);
        let trace = Opening::new(past, options.dependencies, &spec.trace, open)?;
        let open = || trace.open();
        let source: Box<dyn Source> = if recorded::is_asked_for(&spec) {
            open()?
        } else if spec.flows.is_empty() {
            Box::new(OnDevices::new(open()?, &spec.trace)?)
        } else {
            Box::new(Nothing::default())
        };
        refuse_unchosen_seconds(&spec, source.header())?;
        follows_what_is_known(&spec, source.header())?;
        let routes = routes::read(&spec.map, spec.map_file.as_deref())?;
        let mut targets = targets(&spec, &routes)?;
        recorded::name(&spec, source.as_ref(), &mut targets)?;
        let (flows, source) = if spec.flows.is_empty() {
            (Flows::default(), source)
        } else {
            let (flows, header) =
                Flows::new(&spec.flows, spec.in_flight_max, &options, &targets, opener)?;
            (flows, Box::new(Nothing { header }) as Box<dyn Source>)
        };
        refuse_an_hour_of_no_clock(&spec, &targets)?;
        let is_linked = options.dependencies && recorded::is_linked(&spec, source.header());
        let (chains, source) = if spec.timing.has_parents() || is_linked {
            let (chains, source) = match trace.chains() {
                Some(chains) => (chains, source),
                None => links::chains_of(&spec.trace, &load, source, open)?,
            };
            (Some(chains), source)
        } else {
            (None, source)
        };
        let linked = chains.as_ref().filter(|_| is_linked);
        let in_flight_max = in_flight_max(&spec, &flows, linked);
        // One at a time they go in the order of the recording, in which each finds what it needs.
        let chains = chains.filter(|_| spec.timing.has_parents() || in_flight_max > 1);
        let output = spec.output.clone().unwrap_or_else(default_output);
        let inputs = inputs(&spec, &load, &targets)?;
        let before = Before::new(&spec, &targets)?;
        refuse_what_files_have_not(&spec, &targets, &flows)?;
        let scheduler = scheduler(&spec, &targets, chains.is_some(), in_flight_max);
        let timing = Timing {
            start: spec.start,
            speedup: spec.speedup,
            iops_scale: spec.iops_scale,
            mode: spec.timing(),
            writes: spec.writes,
            alignment: spec.alignment,
            sync_writes: spec.sync_writes,
        };
        let device = DeviceOptions {
            backend: spec.backend,
            in_flight_max: scheduler.device_slots(),
            threads: spec.threads,
            sqpoll: spec.sqpoll,
            iopoll: spec.iopoll,
            ..DeviceOptions::default()
        };
        let plan = Self {
            command: kept::command(&spec, command),
            recorded_trace: kept::trace(&spec),
            inputs,
            timing,
            targets,
            routes,
            scheduler,
            device,
            host: HostSetup {
                cpus: spec.cpus.clone(),
                fifo: spec.fifo,
                lock_memory: spec.lock_memory,
                dma_latency: spec.dma_latency,
            },
            fill: spec.fill(),
            before,
            flows,
            chains,
            output,
            spec,
        };
        plan.every_target_is_used(source.header())?;
        Ok((plan, source))
    }

    /// Whether the load goes to trees of files.
    pub fn is_of_files(&self) -> bool {
        self.targets.iter().any(|target| matches!(target, Target::Tree(_)))
    }

    /// Whether what falls due is known while the run goes on, before it is issued. What flows
    /// demand is known in their lanes alone.
    pub fn tells_demand(&self) -> bool {
        self.timing.mode.has_schedule() && self.flows.is_empty()
    }

    /// Refuses targets that may hold a user's data, unless they were named for it; returns warnings
    /// about those that were named.
    pub fn guard(&self) -> Result<Vec<String>> {
        if self.is_of_files() {
            self.guard_trees()?;
        }
        let warnings = guard_all(&self.targets, &self.spec.destroy, &reads_alone())?;
        if self.timing.writes == Writes::Issue {
            // Mounted targets were refused above; this finds a target file below the file system of
            // the results.
            let place = Inputs::of_place(&self.output);
            self.targets.iter().try_for_each(|target| target.refuse_inputs(&place))?;
            if let Some(family) = self.before.as_ref().and_then(Before::family) {
                let place = Inputs::of_place(family);
                self.targets.iter().try_for_each(|target| target.refuse_inputs(&place))?;
            }
        }
        Ok(warnings)
    }

    /// Refuses to change trees whose anchors may hold somebody's files.
    fn guard_trees(&self) -> Result<()> {
        for (number, target) in self.targets.iter().enumerate() {
            let Target::Tree(tree) = target else { continue };
            tree.refuse_results(&self.output)?;
            if let Some(family) = self.before.as_ref().and_then(Before::family) {
                tree.refuse_results(family)?;
            }
            let is_recorded = tree.recorded.is_some();
            let is_changed = self.flows.list().iter().any(|flow| flow.changes(number));
            if is_recorded || is_changed {
                tree.refuse_nested()?;
            }
            if is_recorded {
                tree.guard_recorded()?;
            }
            if is_changed {
                let is_named = self.spec.destroy.iter().any(|named| target.is_file(named));
                tree.guard(is_named)?;
            }
        }
        Ok(())
    }

    /// Refuses a target that gets no part of the trace: its figures would be those of an idle
    /// device.
    fn every_target_is_used(&self, trace: &Header) -> Result<()> {
        if !self.flows.is_empty() {
            // The flows name their targets, and are checked as they are resolved.
            return Ok(());
        }
        let limits: Vec<_> = self.targets.iter().map(Target::limits).collect();
        let map = self.map(&limits, trace)?;
        if self.routes.is_empty() && trace.volumes.is_empty() {
            // Volumes without a name in the header are only found by reading the trace.
            return Ok(());
        }
        let used =
            |number: usize| map.routes().iter().any(|route| usize::from(route.target) == number);
        let Some(idle) = (0..self.targets.len()).find(|number| !used(*number)) else {
            return Ok(());
        };
        let text = format!(
            "nothing of the trace goes to {}: the trace has {} and there are {} \
             targets",
            self.targets[idle].name(),
            units::counted(trace.volumes.len().max(1) as u64, "volume"),
            self.targets.len()
        );
        let help = Wording::from("name fewer targets, or divide a volume among them with ");
        Err(RunError::with_help(Kind::Usage, text, help.setting("map")))
    }

    /// The planner of a trace's requests for targets with these limits.
    pub fn planner(&self, limits: &[TargetLimits], trace: &Header) -> Result<Planner> {
        Ok(Planner::mapped(limits.to_vec(), self.map(limits, trace)?, self.timing))
    }

    /// The instant of the replay from which on the trace's requests take no part in it, if the
    /// plan alone tells which these are.
    pub(crate) fn until(&self) -> Option<Nanos> {
        self.spec.end_after.filter(|_| self.timing.mode.has_schedule())
    }

    /// The parents of the trace's requests, if they decide when requests are issued.
    pub(crate) fn links(&self) -> Option<Links> {
        let chains = self.chains.as_ref()?;
        Some(Links::new(chains, &self.spec.trace, self.spec.server_speed))
    }

    /// Whether the results say which request waits for which: those of recorded calls, which are
    /// replayed by that.
    pub(crate) fn keeps_links(&self) -> bool {
        matches!(self.chains, Some(Chains::Named { .. })) && recorded::is_asked_for(&self.spec)
    }

    /// The map of a trace's volumes.
    pub fn map(&self, limits: &[TargetLimits], trace: &Header) -> Result<Map> {
        if self.routes.is_empty() {
            return Ok(Map::spread(&trace.volumes, limits));
        }
        let names = self.targets.iter().map(Target::name);
        let named: Vec<_> = names.zip(limits.iter().copied()).collect();
        Map::resolve(&self.routes, &trace.volumes, &named)
            .map_err(|error| RunError::new(Kind::Usage, error.to_string()))
    }

    /// The conflict rule, as whoever verifies the run later must know it: where threads on files
    /// verify, and have them to themselves, no two requests that overlap are in flight together.
    pub(crate) fn conflicts_told(&self) -> ConflictMode {
        let are_apart = self.spec.verify.is_on() && self.is_of_files() && self.is_isolated();
        if are_apart { ConflictMode::Partial } else { self.scheduler.conflicts }
    }

    /// Whether no request that overlaps a write is ever in flight together with it.
    pub fn is_isolated(&self) -> bool {
        use ioecho_replay::conflict::Strong;
        if self.is_of_files() {
            return !self.flows.share_files();
        }
        self.scheduler.conflicts != ConflictMode::Allow
            && self.scheduler.strong != Strong::WriteWrite
    }
}

/// How the trace of a replay is read.
fn read_options(spec: &ReplaySpec, load: &Load) -> ReadOptions {
    let mut options = ReadOptions { all_apply: true, ..spec.read.clone() };
    if options.whole_seconds == WholeSeconds::Unchosen {
        // A replay depends on its instants, so invented ones must not pass for recorded ones.
        options.whole_seconds = WholeSeconds::Refuse;
    }
    // Calls on files wait for those that they need whatever the timing.
    let wait = spec.timing.has_parents() || recorded::is_asked_for(spec);
    // Parents that the trace names may be left out by a part, a transform, or a replay without
    // writes. Then they are inferred among the others.
    let has_parents = recorded::has_its_parents(spec, load);
    options.dependencies = wait && has_parents && !spec.writes.reads_only();
    options
}

/// How the scheduler is to behave; requests wait for others if they are `linked`.
fn scheduler(spec: &ReplaySpec, targets: &[Target], linked: bool, in_flight_max: u32) -> Config {
    Config {
        conflicts: conflicts(spec, targets),
        strong: spec.strong,
        look_ahead: if linked { LOOK_AHEAD_OF_CHAINS } else { LOOK_AHEAD },
        linked,
        timing: spec.timing(),
        follow_in_flight: spec.follow_in_flight,
        bundle: spec.bundle,
        ..Config::with_in_flight_max(in_flight_max)
    }
}

/// How many requests may be in flight.
fn in_flight_max(spec: &ReplaySpec, flows: &Flows, linked: Option<&Chains>) -> u32 {
    match (recorded::is_asked_for(spec), flows.is_empty()) {
        (true, _) => recorded::in_flight_max(linked, spec.in_flight_max),
        (false, true) => spec.in_flight_max,
        (false, false) => flows.in_flight_max(),
    }
}

/// What is done on conflict. Threads have files to themselves as far as their load asks for it.
fn conflicts(spec: &ReplaySpec, targets: &[Target]) -> ConflictMode {
    let are_trees = targets.iter().any(|target| matches!(target, Target::Tree(_)));
    if are_trees { ConflictMode::Allow } else { spec.conflicts }
}

/// Refuses what loads on trees of files cannot be asked for.
fn refuse_what_files_have_not(spec: &ReplaySpec, targets: &[Target], flows: &Flows) -> Result<()> {
    refuse_what_volumes_have_not(spec, flows)?;
    if !targets.iter().any(|target| matches!(target, Target::Tree(_))) {
        return Ok(());
    }
    let writes = flows.list().iter().any(|flow| (0..targets.len()).any(|it| flow.changes(it)));
    let rules = [
        (
            flows.is_empty() && !recorded::is_asked_for(spec),
            "a trace is not replayed on a tree in memory",
            "give its loads as flows",
        ),
        (
            spec.verify.is_on() && recorded::is_asked_for(spec),
            "the data of recorded file operations are not verified",
            "leave verification out",
        ),
        (spec.continues.is_some(), "a run on files continues no other", "make a family of both"),
        (spec.witness.is_some(), "block events do not tell of files", "leave the witness out"),
        (
            writes && spec.writes.reads_only(),
            "this load changes the tree",
            "take a load that reads alone, or let it write",
        ),
        (
            flows.are_endless() && spec.end_after.is_none(),
            "this load goes on for ever",
            "say when it ends, or let it choose each file once",
        ),
    ];
    let rules = rules.into_iter().chain(refused_with_verification(spec, targets, flows));
    match rules.into_iter().find(|(is_broken, ..)| *is_broken) {
        Some((_, what, help)) => Err(RunError::with_help(Kind::Usage, what, help)),
        None => Ok(()),
    }
}

/// What cannot be verified of files.
fn refused_with_verification(
    spec: &ReplaySpec,
    targets: &[Target],
    flows: &Flows,
) -> [(bool, &'static str, &'static str); 6] {
    let is_on = spec.verify.is_on();
    let threads: u32 = flows.list().iter().map(Flow::places).sum();
    let trees = || {
        targets.iter().filter_map(|target| match target {
            Target::Tree(tree) => Some(tree),
            _ => None,
        })
    };
    let is_unstamped =
        trees().any(|tree| !tree.geometry.is_in_blocks(SECTOR)) || !flows.are_in_blocks(SECTOR);
    let help = "take multiples of 512 as sizes of files and of requests";
    [
        (
            is_on && flows.hand_over() && flows.share_files(),
            "files that are copied or moved are not verified where threads share files",
            "leave verification out, or access=shared, or the copies and moves",
        ),
        (
            is_on && (0..targets.len()).any(|target| !is_alike(targets, target, flows)),
            "files that are copied or moved to a tree of another shape are not verified",
            "give both trees the same shape, or leave verification out",
        ),
        (
            direct_in_parts(targets, flows, SECTOR).is_some(),
            "what is read and written past the page cache (open=direct) are blocks, of 512 bytes \
             at least",
            "take multiples of it as sizes of files and of requests, or leave open=direct out",
        ),
        (is_on && is_unstamped, "what is verified is stamped in sectors of 512 bytes", help),
        (
            is_unstamped && trees().any(|tree| tree.lies()),
            "a tree that lies keeps its data in sectors of 512 bytes",
            help,
        ),
        (
            is_on && threads > VERIFYING_THREADS_MAX && trees().any(|tree| !tree.is_simulated()),
            "so many threads leave no room for the notes of verification",
            "take 128 threads at most",
        ),
    ]
}

/// Whether the files of this tree go to none but a tree of the same shape.
fn is_alike(targets: &[Target], target: usize, flows: &Flows) -> bool {
    let shape = |number: usize| match targets.get(number) {
        Some(Target::Tree(tree)) => Some(tree.geometry.to_string()),
        _ => None,
    };
    flows.to(target).is_none_or(|to| shape(to) == shape(target))
}

/// The first tree whose files are opened past the page cache, where data are read and written in
/// pieces that are no multiples of a block.
pub(crate) fn direct_in_parts(targets: &[Target], flows: &Flows, block: u64) -> Option<usize> {
    let is_direct = |target: &Target| matches!(target, Target::Tree(tree) if tree.open.direct);
    let is_whole = |target: &Target| match target {
        Target::Tree(tree) => tree.geometry.is_in_blocks(block),
        _ => true,
    };
    let has_parts = |number: usize| {
        let loads = flows.list().iter().filter(|flow| flow.target() == number);
        let mut loads = loads.filter_map(|flow| Some(&flow.of_files()?.load));
        loads.any(|load| {
            let moves = load.reads() || load.writes();
            moves && !(is_whole(&targets[number]) && load.is_in_blocks(block))
        })
    };
    (0..targets.len()).find(|number| is_direct(&targets[*number]) && has_parts(*number))
}

/// Refuses what is not possible where several targets are one volume.
fn refuse_what_volumes_have_not(spec: &ReplaySpec, flows: &Flows) -> Result<()> {
    let help = "leave it out, or give each target flows of its own";
    let are_joined = flows.list().iter().any(Flow::is_joined);
    let what = if are_joined && spec.verify.is_on() {
        "verified"
    } else if are_joined && spec.expert.is_some() {
        "told of from inside its engine"
    } else {
        return Ok(());
    };
    let text = format!("what flows do to several targets as one volume is not {what}");
    Err(RunError::with_help(Kind::Usage, text, help))
}

/// Refuses an instant of the host's clock for a simulation, in which that clock does not count.
fn refuse_an_hour_of_no_clock(spec: &ReplaySpec, targets: &[Target]) -> Result<()> {
    if spec.start_at.is_none() || !targets.first().is_some_and(Target::is_simulated) {
        return Ok(());
    }
    let text = Wording::default()
        .setting("start-at")
        .text(" has no meaning in a simulation, whose time is its own");
    Err(RunError::with_help(Kind::Usage, text, "leave it out"))
}

/// Refuses a trace that was converted without a decision on whole seconds. A trace into which such
/// a trace was merged has its note too.
fn refuse_unchosen_seconds(spec: &ReplaySpec, trace: &Header) -> Result<()> {
    if !trace.guesses.has(NoteKind::UnchosenSecond) {
        return Ok(());
    }
    let text = format!(
        "{}: its recording knew no more than the second of a request, and nobody chose where in it \
         to put them",
        spec.trace.display()
    );
    let help = Wording::from("convert the original again with ")
        .set("whole-seconds", "even, poisson or burst");
    Err(RunError::with_help(Kind::Trace, text, help))
}

/// Refuses to follow the number in flight if the recording does not contain it.
fn follows_what_is_known(spec: &ReplaySpec, trace: &Header) -> Result<()> {
    let follows = spec.follow_in_flight || spec.timing.follows_recorded();
    if follows && !trace.columns.latency {
        let text = format!(
            "{} does not tell how long its requests took, so nobody knows how many were in \
             flight",
            spec.trace.display()
        );
        let help = Wording::from("record with completions, or cap the number with ")
            .set("in-flight-max", "N");
        return Err(RunError::with_help(Kind::Usage, text, help));
    }
    Ok(())
}

/// The inputs of this replay. Refuses targets that contain any of them, because they would be
/// overwritten.
fn inputs(spec: &ReplaySpec, load: &Load, targets: &[Target]) -> Result<Inputs> {
    let inputs = Inputs::of_load(&spec.trace, load);
    let inputs = spec.flows.iter().fold(inputs, |inputs, flow| inputs.and(&flow.load));
    let inputs = spec.map_file.iter().fold(inputs, |inputs, file| inputs.and(file));
    if !spec.writes.reads_only() {
        targets.iter().try_for_each(|target| target.refuse_inputs(&inputs))?;
    }
    Ok(inputs)
}

/// The named targets, and those that only the map names.
fn targets(spec: &ReplaySpec, routes: &[RouteSpec]) -> Result<Vec<Target>> {
    let mut names = spec.targets.clone();
    for route in routes {
        let is_number = route.target.parse().is_ok_and(|n: usize| (1..=names.len()).contains(&n));
        if !is_number && !names.contains(&route.target) {
            names.push(route.target.clone());
        }
    }
    let usage = |text: String| Err(RunError::new(Kind::Usage, text));
    if names.len() > TARGETS_MAX {
        return usage(format!("{} targets are too many; {TARGETS_MAX} are possible", names.len()));
    }
    let reads_only = spec.writes.reads_only();
    let mut targets: Vec<Target> = Vec::with_capacity(names.len());
    for name in &names {
        let target = Target::look_at(name, reads_only, spec.allow_cached)?;
        if !reads_only && target.is_file(&spec.trace) {
            return usage(format!("{name} is both the trace and the target"));
        }
        if targets.iter().any(|other| other.is_same(&target)) {
            let help = Wording::from(
                "to put several volumes on one target, name it once, or give each its place with ",
            );
            let text = format!("{name} is named twice as a target");
            return Err(RunError::with_help(Kind::Usage, text, help.setting("map")));
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
        && spec.alignment == Alignment::Refuse
    {
        let text = format!(
            "{} has blocks of {} and {} has blocks of {}: what fits the one may not fit the other",
            targets[0].name(),
            block(&targets[0]),
            other.name(),
            block(other)
        );
        let help = Wording::default()
            .set("align", "round")
            .text(" widens requests to whole blocks; or take targets with equal blocks");
        return Err(RunError::with_help(Kind::Usage, text, help));
    }
    Ok(targets)
}

impl fmt::Display for ReplayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        if self.flows.is_empty() {
            writeln!(f, "trace         {}", spec.trace.display())?;
        }
        for told in self.flows.told() {
            writeln!(f, "flow          {told}")?;
        }
        let from = spec.start.map_or("its first request".to_owned(), |at| at.to_string());
        let length = spec.duration.map_or("its end".to_owned(), |span| format!("{span} later"));
        let timing = match self.timing.mode {
            TimingMode::Flows => "each flow by its own rule".to_owned(),
            TimingMode::Timed => format!("speed {}", self.timing.speedup),
            TimingMode::Afap => "as fast as possible".to_owned(),
            TimingMode::Load => "as fast as the recorded in-flight number allows".to_owned(),
            TimingMode::Dependency => format!(
                "each request after those that it waits for, server speed {}, arrivals at speed {}",
                spec.server_speed, self.timing.speedup
            ),
        };
        writeln!(f, "part          from {from} to {length}, {timing}")?;
        if let Some(end) = spec.end_after {
            writeln!(f, "end           after {end}, whatever is left of it")?;
        }
        if let Some(chains) = &self.chains {
            writeln!(f, "chains        {chains}")?;
        }
        for transform in &spec.transforms {
            writeln!(f, "transform     {transform}")?;
        }
        for target in &self.targets {
            match target {
                Target::Simulated { text, .. } => writeln!(f, "target        {text}: simulated")?,
                Target::Tree(tree) if tree.recorded.is_some() => {
                    let how = match self.scheduler.in_flight_max {
                        1 => "one at a time".to_owned(),
                        most => format!("up to {most} at a time"),
                    };
                    writeln!(f, "target        {}: recorded calls, {how}", target.name())?;
                }
                Target::Tree(tree) => writeln!(
                    f,
                    "target        {}: a tree of {} files in {} directories",
                    target.name(),
                    tree.geometry.files(),
                    tree.geometry.directories()
                )?,
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
            conflicts.name(),
            spec.strong.level()
        )?;
        if spec.verify.is_on() {
            writeln!(f, "verification  {}", spec.verify.name())?;
        }
        if let Some(before) = &self.before {
            writeln!(f, "{before}")?;
        }
        if !self.host.is_empty() {
            writeln!(f, "host          {}", self.host)?;
        }
        if let Some(every) = spec.expert {
            writeln!(f, "expert        what the engines do, every {every}")?;
        }
        if !spec.require.is_empty() {
            let names: Vec<String> = spec.require.iter().map(ToString::to_string).collect();
            writeln!(f, "required      {}", names.join(", "))?;
        }
        write!(f, "results       {}", self.output.display())
    }
}

/// `ioecho-` and the current date and time, in the current directory.
pub fn default_output() -> PathBuf {
    dated("ioecho")
}

/// A name with the current date and time, to the second.
pub fn dated(prefix: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let names = (1..).map(|n| match n {
        1 => PathBuf::from(format!("{prefix}-{now}")),
        n => PathBuf::from(format!("{prefix}-{now}-{n}")),
    });
    names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| PathBuf::from(prefix))
}

/// The expected duration of the replay, if the plan alone determines it or bounds it.
pub fn known_duration(plan: &ReplayPlan) -> Option<Nanos> {
    let timed = plan.timing.mode.has_schedule();
    let spec = &plan.spec;
    let described = || generate::duration(&spec.trace).filter(|_| spec.transforms.is_empty());
    let span = match (spec.duration, spec.start) {
        (Some(window), _) => Some(described().map_or(window, |all| all.min(window))),
        (None, None) => described(),
        // The rest of it after its start.
        (None, Some(start)) => described().map(|all| all.saturating_sub(start).max(Nanos::ZERO)),
    };
    let span = span.filter(|_| timed).map(|span| span.scaled_down(plan.timing.speedup));
    span.into_iter().chain(spec.end_after).min()
}
