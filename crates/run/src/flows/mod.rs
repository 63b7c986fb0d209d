//! A replay of flows: several loads at once, each by its own rule.
//!
//! The parts of a described load do not know of each other, so they cannot be one trace: how far
//! one comes depends on the device, and must not depend on the others. Each flow therefore has its
//! own source, read in the thread of its lane where it is generated, and ahead by a thread of its
//! own where it is a file.

mod input;
mod joined;
mod reader;
mod recovered;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ioecho_replay::flow::{Admission, FlowConfig, Gate, Numbering};
use ioecho_replay::joint::Joint;
use ioecho_replay::plan::{Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::{Config, IN_FLIGHT};
use ioecho_replay::sim::Pace;
use ioecho_replay::tree::{Access, FileLoad};
use ioecho_stats::facts::FlowFacts;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::header::Volume;
use ioecho_trace::transform::Load;
use ioecho_trace::wording::Wording;
use ioecho_trace::{
    Batch, Bytes, Columns, Header, Op, Source, Stop, TraceError, VolumeId, generate,
};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::on_devices::OnDevices;
use crate::open::{self, Opener};
use crate::target::Target;
use crate::tree_target::TreeTarget;

pub(crate) use input::{FlowsEnd, FlowsInput, add};
pub(crate) use joined::{Part, joint};
pub(crate) use reader::{Feeders, Readers};
pub(crate) use recovered::recovered;
pub use spec::{FLOWS_MAX, FlowEnds, FlowSpec, FlowSpecError};

/// Requests that a generator makes at a time: a microsecond or two of work, so that no request is
/// late by it.
const GENERATED_ROWS: usize = 32;

/// The format of the header of a run of flows.
const FORMAT: &str = "flows";

/// The flows of a replay, resolved.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    list: Vec<Flow>,
    /// The targets of each lane.
    groups: Vec<Vec<usize>>,
}

/// A flow with its place in the run.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    spec: FlowSpec,
    /// The file that its load was found in, or the line of a generated load.
    file: PathBuf,
    options: ReadOptions,
    /// What it has of each of its targets: all of one, or parts that are one volume.
    parts: Vec<Part>,
    /// The first target of the lane that it is in.
    lane: usize,
    /// The load's volumes, with the numbers that the results give them.
    volumes: Vec<Volume>,
    /// The number of the first of them.
    first_volume: u32,
    /// Its requests that may be in flight.
    places: u32,
    /// What it does to a tree of files, if it does.
    of_files: Option<OfFiles>,
}

/// A load on a tree of files.
#[derive(Clone, Debug)]
pub(crate) struct OfFiles {
    /// What it does.
    pub(crate) load: FileLoad,
    /// The number of the target that copies and moves go to.
    pub(crate) to: Option<usize>,
    /// How many files it has to choose from; `None` of a load on directories.
    pub(crate) files: Option<u64>,
}

impl Flow {
    /// The number of its target; of several, the first of its volume.
    pub(crate) fn target(&self) -> usize {
        self.parts.first().map_or(0, |part| part.target)
    }

    /// Whether it takes several targets for one volume.
    pub(crate) fn is_joined(&self) -> bool {
        self.parts.len() > 1
    }

    /// Its requests that may be in flight.
    pub(crate) fn places(&self) -> u32 {
        self.places
    }

    /// When its requests are admitted.
    fn admission(&self) -> Admission {
        match self.spec.admission() {
            Admission::Closed { .. } if self.of_files.is_some() => Admission::Threads,
            admission => admission,
        }
    }

    /// What it does to a tree of files, if it does.
    pub(crate) fn of_files(&self) -> Option<&OfFiles> {
        self.of_files.as_ref()
    }

    /// Where its requests belong in the run, and in its lane.
    pub(crate) fn place(&self, joint: &Joint) -> input::Place {
        let base = |part: &Part| joint.base_of(part.target as u16).unwrap_or(Bytes::ZERO);
        input::Place {
            target: self.lane as u16,
            first_volume: self.first_volume,
            bases: self.parts.iter().map(base).collect(),
        }
    }

    /// The same of a tree, which has its lanes for itself.
    fn place_of_tree(&self) -> input::Place {
        let (target, first_volume) = (self.lane as u16, self.first_volume);
        input::Place { target, first_volume, bases: Box::new([Bytes::ZERO]) }
    }

    /// When it ends by itself.
    pub(crate) fn ends(&self) -> FlowEnds {
        self.spec.ends
    }

    /// What comes along with its requests, and is not due of itself.
    fn along(&self) -> Vec<Op> {
        let is_due = |of: &&OfFiles| of.load.arrivals.is_some();
        self.of_files.as_ref().filter(is_due).map(|of| of.load.along()).unwrap_or_default()
    }

    /// Whether it makes files of others, in another tree.
    pub(crate) fn copies(&self) -> bool {
        self.of_files.as_ref().is_some_and(|of| of.to.is_some())
    }

    /// Whether it changes the tree of this number.
    pub(crate) fn changes(&self, target: usize) -> bool {
        self.of_files.as_ref().is_some_and(|of| {
            let is_own = self.target() == target && of.load.changes_own();
            is_own || of.to == Some(target) && of.load.changes()
        })
    }

    /// Whether it changes files of the tree of this number, and not only their names.
    pub(crate) fn changes_files(&self, target: usize) -> bool {
        self.of_files.as_ref().is_some_and(|of| {
            let is_own = self.target() == target;
            is_own && of.load.changes_files() || of.to == Some(target) && of.load.copies()
        })
    }

    /// What results call it.
    pub(crate) fn name(&self, number: usize) -> String {
        self.spec.name(number)
    }

    /// Opens its load.
    fn open(&self) -> std::result::Result<Box<dyn Source>, TraceError> {
        if generate::is_line(&self.file) {
            return generate::open_by(&self.file, GENERATED_ROWS);
        }
        let source = ioecho_trace::formats::open(&self.file, &self.options)?;
        Ok(Box::new(OnDevices::new(source, &self.file)?))
    }

    /// The planner of its requests on its targets, of all targets with these limits.
    fn planner(&self, limits: &[TargetLimits], timing: Timing) -> Planner {
        let mode = if self.spec.threads.is_some() { TimingMode::Afap } else { TimingMode::Timed };
        let own: Vec<Volume> = self.volumes.iter().map(|volume| self.own(volume)).collect();
        let limits: Vec<_> = self.parts.iter().map(|part| limits[part.target]).collect();
        let map = joined::map(&self.parts, &own, &limits);
        Planner::mapped(limits, map, Timing { mode, ..timing })
    }

    /// A volume with the number that its load gives it.
    fn own(&self, volume: &Volume) -> Volume {
        Volume { id: VolumeId(volume.id.0 - self.first_volume), ..volume.clone() }
    }
}

impl Flows {
    /// Resolves the flows of a specification, and opens each load once to see that it is there.
    /// Returns the header of their results too.
    pub(crate) fn new(
        specs: &[FlowSpec],
        in_flight_max: u32,
        options: &ReadOptions,
        targets: &[Target],
        opener: &dyn Opener,
    ) -> Result<(Self, Header)> {
        let mut list: Vec<Flow> = Vec::with_capacity(specs.len());
        let mut header = Header { format: FORMAT.to_owned(), ..Header::default() };
        if targets.iter().any(|target| matches!(target, Target::Tree(_))) {
            let list = on_trees(specs, in_flight_max, targets)?;
            header.volumes = (0..).zip(targets).map(volume_of_tree).collect();
            header.columns.origin = true;
            return Self::made(list, header, specs, targets);
        }
        for (flow, number) in specs.iter().zip(1..) {
            if FileLoad::is_line(&flow.load.to_string_lossy()) {
                let text = format!("'{flow}' works on files, and no target is a tree of files");
                let help = "name a target like 'tree:/mnt/x?files=100&size=4k'";
                return Err(RunError::with_help(Kind::Usage, text, help));
            }
            let (stop, whole) = (Stop::default(), Load::default());
            let source = open::trace_until(opener, &stop, &flow.load, options, &whole)?;
            let theirs = source.header();
            let first_volume = header.volumes.len() as u32;
            let name = flow.name(number);
            let parts = joined::parts(flow, targets)?;
            joined::one_volume(flow, &parts, &theirs.volumes)?;
            let volumes = volumes(&theirs.volumes, first_volume, &name, flow)?;
            header.volumes.extend(volumes.iter().cloned());
            header.columns.latency |= theirs.columns.latency;
            header.columns.origin |= theirs.columns.origin;
            list.push(Flow {
                file: file_of(opener.file(&flow.load)?),
                options: options.clone(),
                lane: 0,
                parts,
                volumes,
                first_volume,
                places: flow.places(in_flight_max),
                of_files: None,
                spec: flow.clone(),
            });
        }
        Self::made(list, header, specs, targets)
    }

    fn made(
        mut list: Vec<Flow>,
        mut header: Header,
        specs: &[FlowSpec],
        targets: &[Target],
    ) -> Result<(Self, Header)> {
        let told: Vec<String> = specs.iter().map(ToString::to_string).collect();
        header.source = told.join(" + ");
        header.description = Some(format!("{} flows at once, each by its own rule", list.len()));
        let groups = joined::groups(&list, targets.len());
        for flow in &mut list {
            let target = flow.target();
            let own = groups.iter().find(|group| group.contains(&target));
            flow.lane = own.and_then(|group| group.first()).copied().unwrap_or(target);
        }
        let flows = Self { list, groups };
        flows.ends_are_one()?;
        flows.every_target_is_used(targets)?;
        flows.caps_fit(targets)?;
        Ok((flows, header))
    }

    /// Whether the replay is one of flows.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The flows.
    pub(crate) fn list(&self) -> &[Flow] {
        &self.list
    }

    /// The targets of each lane of devices; each alone, where there are no flows.
    pub(crate) fn groups(&self, targets: usize) -> Vec<Vec<usize>> {
        if self.is_empty() {
            (0..targets).map(|one| vec![one]).collect()
        } else {
            self.groups.clone()
        }
    }

    /// The number of the tree that files of this one are copied or moved to.
    pub(crate) fn to(&self, target: usize) -> Option<usize> {
        let its = self.list.iter().filter(|flow| flow.target() == target);
        its.filter_map(|flow| flow.of_files.as_ref()).find_map(|of| of.to)
    }

    /// Whether files go from one tree to another.
    pub(crate) fn hand_over(&self) -> bool {
        self.list.iter().any(Flow::copies)
    }

    /// Whether any flow goes on for ever by itself.
    pub(crate) fn are_endless(&self) -> bool {
        let has_end = |flow: &Flow| flow.spec.ends != FlowEnds::default();
        let is_endless = |flow: &Flow| match &flow.of_files {
            Some(of) => !of.load.once && of.load.arrivals.is_none(),
            None => generate::is_endless(&flow.file),
        };
        self.list.iter().any(|flow| is_endless(flow) && !has_end(flow))
    }

    /// The flows in the words of the command line.
    pub(crate) fn told(&self) -> Vec<String> {
        self.list.iter().map(|flow| flow.spec.to_string()).collect()
    }

    /// What decides when requests are issued: a schedule, if every flow has one.
    pub(crate) fn timing(specs: &[FlowSpec]) -> TimingMode {
        let is_closed = specs.iter().any(|flow| flow.threads.is_some());
        if is_closed { TimingMode::Flows } else { TimingMode::Timed }
    }

    /// The most requests in flight in any lane.
    pub(crate) fn in_flight_max(&self) -> u32 {
        let lanes = self.list.iter().map(|flow| flow.lane);
        lanes.map(|lane| self.places_on(lane)).max().unwrap_or(0).max(1)
    }

    /// Requests that may be in flight in the lane of this target.
    fn places_on(&self, target: usize) -> u32 {
        let there = self.list.iter().filter(|flow| flow.lane == target);
        there.fold(0, |sum, flow| sum.saturating_add(flow.places))
    }

    /// The facts of the flows for the results.
    pub(crate) fn facts(&self) -> Vec<FlowFacts> {
        let facts = |(flow, number): (&Flow, usize)| FlowFacts {
            flow: number as u16,
            name: flow.name(number),
            load: flow.spec.load.display().to_string(),
            threads: flow.spec.threads,
            think_ns: flow.spec.threads.map(|_| flow.spec.think.map_or(0, |think| think.0)),
            cap: flow.places,
            share: flow.spec.share,
            target: flow.target() as u16,
            others: flow.parts.iter().skip(1).map(|part| part.target as u16).collect(),
            along: flow.along(),
            files: flow.of_files.as_ref().and_then(|of| of.files),
        };
        self.list.iter().zip(1..).map(facts).collect()
    }

    /// The gate of the flows with a share, and the place of each of them there.
    fn gate(&self, lanes: &[LanePlace]) -> (Arc<Gate>, Vec<Option<usize>>) {
        let mut next = 0;
        let places = self.list.iter().map(|flow| {
            flow.spec.share.map(|_| {
                next += 1;
                next - 1
            })
        });
        let places = places.collect();
        let members = self.list.iter().enumerate().filter_map(|(number, flow)| {
            let is_its = |lane: &&LanePlace| match lane.client {
                Some((of, _)) => of == number,
                None => lane.target == flow.lane,
            };
            let lanes = lanes.iter().filter(is_its).count() as u32;
            Some((flow.spec.share?, flow.places, lanes))
        });
        (Arc::new(Gate::new(members)), places)
    }

    /// For each target the flows as its scheduler knows them, if there are flows. Those with
    /// shares have one gate, across lanes, and those that end together one count. Lanes of
    /// simulated devices keep in step there: a flow must not be held back by what another does at
    /// a later instant.
    ///
    /// `in_one_row`: the lanes of threads on files have their numbers in one row, so that they are
    /// in the order in which files went from one to the other.
    pub(crate) fn lanes(
        &self,
        targets: &[Target],
        in_one_row: bool,
    ) -> Option<VecDeque<LaneFlows>> {
        if self.is_empty() {
            return None;
        }
        let lanes_at = LanePlace::all(targets, self);
        let (gate, places) = self.gate(&lanes_at);
        let has_gate = places.iter().any(Option::is_some);
        let count = lanes_at.len();
        let have_files = self.list.iter().any(|flow| flow.of_files.is_some());
        let end_together = self.list.iter().any(|flow| flow.spec.end_together);
        let are_linked = has_gate || have_files || end_together;
        let in_step = are_linked && count > 1 && targets.iter().all(Target::is_simulated);
        let has_row = in_one_row && lanes_at.iter().any(|at| at.client.is_some());
        let row = has_row.then(Arc::<AtomicU64>::default);
        let mut paces = if in_step { Pace::of(count) } else { Vec::new() }.into_iter();
        let mut lanes: VecDeque<LaneFlows> = (0..count)
            .map(|lane| LaneFlows {
                configs: Vec::new(),
                numbering: Numbering { first: lane as u64, step: count as u64, row: row.clone() },
                pace: paces.next(),
            })
            .collect();
        for ((flow, place), number) in self.list.iter().zip(places).zip(1..) {
            for (lane, at) in lanes.iter_mut().zip(&lanes_at) {
                let cap = match at.client {
                    Some((of, _)) if of + 1 == usize::from(number) => 1,
                    None if at.target == flow.lane => flow.places,
                    _ => continue,
                };
                lane.configs.push(FlowConfig {
                    number,
                    admission: flow.admission(),
                    cap,
                    gate: place.map(|place| (Arc::clone(&gate), place)),
                });
            }
        }
        Some(lanes)
    }

    /// Whether several threads may be in one file at a time.
    pub(crate) fn share_files(&self) -> bool {
        let mut of_files = self.list.iter().filter_map(|flow| flow.of_files.as_ref());
        of_files.any(|of| of.load.access == Access::Shared)
    }

    /// Whether all requests in files consist of whole blocks of so many bytes.
    pub(crate) fn are_in_blocks(&self, block: u64) -> bool {
        let mut of_files = self.list.iter().filter_map(|flow| flow.of_files.as_ref());
        of_files.all(|of| of.load.is_in_blocks(block))
    }

    /// Refuses flows that are to end together after different amounts.
    fn ends_are_one(&self) -> Result<()> {
        let mut together = self.list.iter().filter(|flow| flow.spec.end_together);
        let Some(first) = together.next() else { return Ok(()) };
        if self.list.iter().any(|flow| flow.of_files.is_some()) {
            let text = "loads on trees of files do not end together after an amount";
            return Err(RunError::with_help(Kind::Usage, text, "give each an end of its own"));
        }
        let Some(other) = together.find(|flow| flow.spec.ends != first.spec.ends) else {
            return Ok(());
        };
        let text = format!(
            "'{}' and '{}' are to end together, and name different amounts",
            first.spec, other.spec
        );
        Err(RunError::with_help(Kind::Usage, text, "name the amount of all of them in each"))
    }

    /// Refuses a target to which nothing goes: its figures would be those of an idle device.
    fn every_target_is_used(&self, targets: &[Target]) -> Result<()> {
        let is_on = |flow: &Flow, target: usize| {
            flow.parts.iter().any(|part| part.target == target)
                || flow.of_files.as_ref().is_some_and(|of| of.to == Some(target))
        };
        let used = |target: usize| self.list.iter().any(|flow| is_on(flow, target));
        let Some(idle) = (0..targets.len()).find(|target| !used(*target)) else { return Ok(()) };
        let text = format!("no flow goes to {}", targets[idle].name());
        Err(RunError::with_help(Kind::Usage, text, "leave it out, or send a flow there with `on`"))
    }

    /// Refuses more requests in flight on a target than a device takes.
    fn caps_fit(&self, targets: &[Target]) -> Result<()> {
        let too_many = |target: &usize| self.places_on(*target) > *IN_FLIGHT.end();
        let Some(target) = (0..targets.len()).find(too_many) else { return Ok(()) };
        let text = format!(
            "the flows to {} may have {} requests in flight together, and {} are possible",
            targets[target].name(),
            self.places_on(target),
            IN_FLIGHT.end()
        );
        let help = Wording::from("give open flows a lower `cap`, or all with ");
        Err(RunError::with_help(Kind::Usage, text, help.set("in-flight-max", "N")))
    }
}

/// What a lane works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePlace {
    /// The number of its target; of several, the first.
    pub(crate) target: usize,
    /// Of a thread on a real tree: the number of its flow, and its own number there.
    pub(crate) client: Option<(usize, u32)>,
}

impl LanePlace {
    /// The lanes of a run: one for each target, for all that flows join, or for each thread on a
    /// real tree.
    pub(crate) fn all(targets: &[Target], flows: &Flows) -> Vec<Self> {
        let of_target = |target| Self { target, client: None };
        let is_real =
            |target: &Target| matches!(target, Target::Tree(tree) if !tree.is_simulated());
        if flows.is_empty() || !targets.iter().any(is_real) {
            let groups = flows.groups(targets.len());
            return groups
                .iter()
                .filter_map(|group| group.first().copied().map(of_target))
                .collect();
        }
        let threads = flows.list().iter().enumerate().flat_map(|(number, flow)| {
            let target = flow.target();
            (0..flow.places()).map(move |client| Self { target, client: Some((number, client)) })
        });
        threads.collect()
    }
}

/// The flows of a lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneFlows {
    pub(crate) configs: Vec<FlowConfig>,
    pub(crate) numbering: Numbering,
    /// What keeps its simulated device in step with the others.
    pub(crate) pace: Option<Pace>,
}

impl LaneFlows {
    /// The scheduler's settings for these flows: together they never wait for a place.
    pub(crate) fn config(&self, config: Config) -> Config {
        let cap = self.configs.iter().map(|flow| flow.cap).sum::<u32>().max(1);
        Config { in_flight_max: cap, pushed_in_flight_max: cap, ..config }
    }
}

/// The volumes of a flow's load, behind those of the flows before it.
fn volumes(theirs: &[Volume], first: u32, name: &str, flow: &FlowSpec) -> Result<Vec<Volume>> {
    // A load that names none has one.
    let one = [Volume::default()];
    let theirs = if theirs.is_empty() { &one[..] } else { theirs };
    if theirs.iter().zip(0..).any(|(volume, id)| volume.id.0 != id) {
        let text = format!(
            "{}: the volumes of a flow's load must be numbered from 0",
            flow.load.display()
        );
        let help = Wording::from("convert it first with ").command("convert", "IN OUT.parquet");
        return Err(RunError::with_help(Kind::Trace, text, help));
    }
    let is_one = theirs.len() == 1;
    let named = |volume: &Volume| {
        let of_it =
            if volume.name.is_empty() { volume.id.0.to_string() } else { volume.name.clone() };
        let name = if is_one { name.to_owned() } else { format!("{name}:{of_it}") };
        Volume { id: VolumeId(first + volume.id.0), name, size: volume.size }
    };
    Ok(theirs.iter().map(named).collect())
}

/// The file of a load that may be the directory of a run.
fn file_of(path: PathBuf) -> PathBuf {
    RunDirectory::at(&path).map_or(path, |run| run.requests())
}

/// The flows of a run on trees.
fn on_trees(specs: &[FlowSpec], in_flight_max: u32, targets: &[Target]) -> Result<Vec<Flow>> {
    let refused =
        |text: String, help: &'static str| Err(RunError::with_help(Kind::Usage, text, help));
    if let Some(other) = targets.iter().find(|target| !matches!(target, Target::Tree(_))) {
        let text = format!("{} is no tree of files, and other targets are", other.name());
        return refused(text, "replay devices and trees apart");
    }
    let mut list: Vec<Flow> = Vec::with_capacity(specs.len());
    for flow in specs {
        let line = flow.load.to_string_lossy();
        if !FileLoad::is_line(&line) {
            let text = format!("'{flow}' is a load on a device, and its target is a tree of files");
            return refused(text, "write a load such as 'files:read?size=4k'");
        }
        let load: FileLoad =
            line.parse().map_err(|error| RunError::new(Kind::Usage, format!("{error}")))?;
        if load.arrivals.is_some() == flow.threads.is_some() {
            let text = format!("'{flow}': a rate goes with cap=, and threads= with none");
            return refused(text, "say how many threads it has: threads=8, or with a rate cap=8");
        }
        let FlowEnds { requests: _, data, read, written } = flow.ends;
        for (is_idle, what) in [
            (read.is_some() && !load.reads(), "read-data ends a load that reads data"),
            (written.is_some() && !load.writes(), "written-data ends a load that writes data"),
            (
                data.is_some() && !load.reads() && !load.writes(),
                "data ends a load that reads or writes data",
            ),
        ] {
            if is_idle {
                let text = format!("'{flow}': {what}, and this one does not");
                return refused(text, "say after how many requests it ends: requests=1000");
            }
        }
        if flow.think.is_some() {
            return refused(format!("'{flow}': threads on files do not think"), "leave think out");
        }
        let to = load
            .to
            .clone()
            .map(|to| target_of(&FlowSpec { target: Some(to), ..flow.clone() }, targets));
        let (to, target) = (to.transpose()?, target_of(flow, targets)?);
        if to == Some(target) {
            let text = format!("'{flow}': copies and moves go to another tree than their own");
            return refused(text, "name another target in to=");
        }
        let others = list.iter().filter(|other| other.target() == target);
        let mut tos = others.filter_map(|other| other.of_files.as_ref()?.to);
        if to.is_some() && tos.any(|other| Some(other) != to) {
            let text = format!("'{flow}': copies and moves of a tree go to one other");
            return refused(text, "replay them apart");
        }
        let is_of_files = load.tasks.iter().any(|task| !task.is_of_directories());
        let files = match &targets[target] {
            Target::Tree(tree) if is_of_files => Some(tree.geometry.used()),
            _ => None,
        };
        list.push(Flow {
            file: flow.load.clone(),
            options: ReadOptions::default(),
            lane: target,
            parts: vec![Part::whole(target)],
            volumes: Vec::new(),
            first_volume: target as u32,
            places: flow.places(in_flight_max),
            of_files: Some(OfFiles { load, to, files }),
            spec: flow.clone(),
        });
    }
    Ok(list)
}

/// How the threads of a load on a tree call.
pub(crate) struct TreeLoad {
    /// Whether they open files to write.
    pub(crate) writes: bool,
    /// The number of the tree that copies and moves go to.
    pub(crate) to: Option<usize>,
}

impl TreeLoad {
    /// That of each of these flows on trees.
    pub(crate) fn of_each(flows: &[FlowSpec], trees: &[TreeTarget]) -> Result<Vec<Self>> {
        let target = |tree: &TreeTarget| Target::Tree(Box::new(tree.clone()));
        let targets: Vec<Target> = trees.iter().map(target).collect();
        let of = |flow: Flow| flow.of_files.map(|of| (of.load.changes(), of.to));
        let all = on_trees(flows, 1, &targets)?.into_iter().filter_map(of);
        Ok(all.map(|(writes, to)| Self { writes, to }).collect())
    }
}

/// The volume of a tree.
fn volume_of_tree((id, target): (u32, &Target)) -> Volume {
    let size = Some(target.limits().capacity);
    Volume { id: VolumeId(id), name: target.name(), size }
}

/// The only target of a flow.
fn target_of(flow: &FlowSpec, targets: &[Target]) -> Result<usize> {
    if let [Part { target, length: None, .. }] = joined::parts(flow, targets)?[..] {
        return Ok(target);
    }
    let text = format!("'{flow}': trees of files are no volume together");
    Err(RunError::with_help(Kind::Usage, text, "name one tree"))
}

/// The source in place of the trace: flows are read by their lanes.
#[derive(Default)]
pub(crate) struct Nothing {
    pub(crate) header: Header,
}

impl Source for Nothing {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> std::result::Result<bool, TraceError> {
        batch.reset(Columns::default());
        Ok(false)
    }
}
