//! A replay of flows: several loads at once, each by its own rule.
//!
//! The parts of a described load do not know of each other, so they cannot be one trace: how far
//! one comes depends on the device, and must not depend on the others. Each flow therefore has its
//! own source, read in the thread of its lane where it is generated, and ahead by a thread of its
//! own where it is a file.

mod input;
mod reader;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use ioecho_replay::flow::{FlowConfig, Gate, Numbering};
use ioecho_replay::map::Map;
use ioecho_replay::plan::{Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::{Config, IN_FLIGHT};
use ioecho_replay::sim::Pace;
use ioecho_stats::facts::FlowFacts;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::header::Volume;
use ioecho_trace::transform::Load;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Columns, Header, Source, Stop, TraceError, VolumeId, generate};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::on_devices::OnDevices;
use crate::open::{self, Opener};
use crate::target::Target;

pub(crate) use input::{FlowsEnd, FlowsInput, add};
pub(crate) use reader::{Feeders, Readers};
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
}

/// A flow with its place in the run.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    spec: FlowSpec,
    /// The file that its load was found in, or the line of a generated load.
    file: PathBuf,
    options: ReadOptions,
    /// The target that it goes to.
    target: usize,
    /// The load's volumes, with the numbers that the results give them.
    volumes: Vec<Volume>,
    /// The number of the first of them.
    first_volume: u32,
    /// Its requests that may be in flight.
    places: u32,
}

impl Flow {
    /// What results call it.
    fn name(&self, number: usize) -> String {
        self.spec.name.clone().unwrap_or_else(|| number.to_string())
    }

    /// Opens its load.
    fn open(&self) -> std::result::Result<Box<dyn Source>, TraceError> {
        if generate::is_line(&self.file) {
            return generate::open_by(&self.file, GENERATED_ROWS);
        }
        let source = ioecho_trace::formats::open(&self.file, &self.options)?;
        Ok(Box::new(OnDevices::new(source, &self.file)?))
    }

    /// The planner of its requests on its target, which has these limits.
    fn planner(&self, limits: TargetLimits, timing: Timing) -> Planner {
        let mode = if self.spec.threads.is_some() { TimingMode::Afap } else { TimingMode::Timed };
        let own: Vec<Volume> = self.volumes.iter().map(|volume| self.own(volume)).collect();
        let map = Map::spread(&own, &[limits]);
        Planner::mapped(vec![limits], map, Timing { mode, ..timing })
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
        for (flow, number) in specs.iter().zip(1..) {
            let (stop, whole) = (Stop::default(), Load::default());
            let source = open::trace_until(opener, &stop, &flow.load, options, &whole)?;
            let theirs = source.header();
            let first_volume = header.volumes.len() as u32;
            let name = flow.name.clone().unwrap_or_else(|| number.to_string());
            let volumes = volumes(&theirs.volumes, first_volume, &name, flow)?;
            header.volumes.extend(volumes.iter().cloned());
            header.columns.latency |= theirs.columns.latency;
            header.columns.origin |= theirs.columns.origin;
            list.push(Flow {
                file: file_of(opener.file(&flow.load)?),
                options: options.clone(),
                target: target_of(flow, targets)?,
                volumes,
                first_volume,
                places: flow.places(in_flight_max),
                spec: flow.clone(),
            });
        }
        let told: Vec<String> = specs.iter().map(ToString::to_string).collect();
        header.source = told.join(" + ");
        header.description = Some(format!("{} flows at once, each by its own rule", list.len()));
        let flows = Self { list };
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

    /// Whether any flow goes on for ever by itself.
    pub(crate) fn are_endless(&self) -> bool {
        let has_end = |flow: &Flow| flow.spec.ends != FlowEnds::default();
        self.list.iter().any(|flow| generate::is_endless(&flow.file) && !has_end(flow))
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

    /// The most requests in flight on any target.
    pub(crate) fn in_flight_max(&self) -> u32 {
        let targets = self.list.iter().map(|flow| flow.target + 1).max().unwrap_or(0);
        (0..targets).map(|target| self.places_on(target)).max().unwrap_or(0).max(1)
    }

    fn places_on(&self, target: usize) -> u32 {
        let there = self.list.iter().filter(|flow| flow.target == target);
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
            target: flow.target as u16,
        };
        self.list.iter().zip(1..).map(facts).collect()
    }

    /// The gate of the flows with a share, and the place of each of them there.
    fn gate(&self) -> (Arc<Gate>, Vec<Option<usize>>) {
        let mut next = 0;
        let places = self.list.iter().map(|flow| {
            flow.spec.share.map(|_| {
                next += 1;
                next - 1
            })
        });
        let places = places.collect();
        let members = self.list.iter().filter_map(|flow| Some((flow.spec.share?, flow.places)));
        (Arc::new(Gate::new(members)), places)
    }

    /// For each target the flows as its scheduler knows them, if there are flows. Those with
    /// shares have one gate, across lanes. Lanes of simulated devices keep in step there: a flow
    /// must not be held back by what another does at a later instant.
    pub(crate) fn lanes(&self, targets: &[Target]) -> Option<VecDeque<LaneFlows>> {
        if self.is_empty() {
            return None;
        }
        let (gate, places) = self.gate();
        let has_gate = places.iter().any(Option::is_some);
        let count = targets.len();
        let in_step = has_gate && count > 1 && targets.iter().all(Target::is_simulated);
        let mut paces = if in_step { Pace::of(count) } else { Vec::new() }.into_iter();
        let mut lanes: VecDeque<LaneFlows> = (0..count)
            .map(|lane| LaneFlows {
                configs: Vec::new(),
                numbering: Numbering { first: lane as u64, step: count as u64 },
                pace: paces.next(),
            })
            .collect();
        for ((flow, place), number) in self.list.iter().zip(places).zip(1..) {
            lanes[flow.target].configs.push(FlowConfig {
                number,
                admission: flow.spec.admission(),
                cap: flow.places,
                gate: place.map(|place| (Arc::clone(&gate), place)),
            });
        }
        Some(lanes)
    }

    /// Refuses a target to which nothing goes: its figures would be those of an idle device.
    fn every_target_is_used(&self, targets: &[Target]) -> Result<()> {
        let used = |target: usize| self.list.iter().any(|flow| flow.target == target);
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

/// The target of a flow.
fn target_of(flow: &FlowSpec, targets: &[Target]) -> Result<usize> {
    let usage =
        |text: String, help: &'static str| Err(RunError::with_help(Kind::Usage, text, help));
    let Some(named) = &flow.target else {
        return match targets.len() {
            1 => Ok(0),
            several => usage(
                format!("the flow '{flow}' names none of {several} targets"),
                "add `on=TARGET`, or its number from 1",
            ),
        };
    };
    let by_name = targets.iter().position(|target| target.name() == *named);
    let by_number = || named.parse().ok().filter(|number| (1..=targets.len()).contains(number));
    match by_name.or_else(|| by_number().map(|number: usize| number - 1)) {
        Some(target) => Ok(target),
        None => usage(
            format!("the flow '{flow}' goes to {named}, which is no target of this run"),
            "name it as a target as well, or give the number of one, from 1",
        ),
    }
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
