//! The plan: every cell with its settings, and the order in which they run.
//!
//! A plan is made from the file alone, and from what its loads and devices are. It touches nothing.
//! The same file makes the same plan, so a campaign that goes on makes it anew, and compares keys.

mod members;
mod stacks;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ioecho_trace::Nanos;
use serde::Serialize;

use crate::file::{
    Device, FLOW, File, Host, Known, Layer, Order, PATH, Proof, RoundsOf, RunOf, STEP, Setting,
    TARGETS_MAX, WARMUP, axis_value, rounded,
};
use crate::key::Identity;
use crate::place::{Place, Refused, Result};
use crate::rate::Part;
use crate::stack::{self, PREFIX, Placed};
use crate::template::{filled, names};
use crate::value::Value;

pub use crate::file::FROM_STACK;
pub use members::Member;
use members::{HOST, there};
pub use stacks::Seat;

/// The most cells of a campaign.
const CELLS_MAX: usize = 1_000_000;

/// What loads and devices are, whatever their names. The error is a reason in words.
pub trait Ground {
    /// The identity of a load, such as a hash.
    fn load(&self, trace: &str) -> std::result::Result<String, String>;

    /// The identity of the load of a flow; nothing if its line says all.
    fn flow(&self, flow: &str) -> std::result::Result<Option<String>, String>;

    /// The identity of a target, which may have to prove itself.
    fn device(&self, target: &str, proof: &Proof) -> std::result::Result<String, String>;

    /// The identity of a program that a module runs; `None` if it is the system's.
    fn program(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
}

/// A point in one repeat.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The key: SHA-256 of `identity`.
    pub key: String,
    /// The value of each axis.
    pub point: Vec<(String, String)>,
    /// The repeat, counted from 1; in a search the vote.
    pub repeat: u32,
    /// The name of the device.
    pub device: String,
    /// The target.
    pub target: String,
    /// The targets, where there are several: those that its stack begins with, or those of the
    /// replay if there is no stack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// The load; empty if it has flows.
    pub trace: String,
    /// Who replays on other hosts, all together; none if this machine does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Member>,
    /// The hosts of each level of a stack that goes across hosts, from the lowest on: those of the
    /// last take in what those before hand over. None if each host is set up by itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Vec<Seat>>,
    /// Hosts that are in hand as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Everything that decides the result.
    pub identity: Identity,
    /// Cells of one branch differ in the climbed axis alone.
    pub branch: usize,
    /// The replays within the cell, in their order; none if it is one replay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Self>,
}

impl Cell {
    /// The value of an axis, or of a key of the replay or of the stack.
    pub fn setting(&self, name: &str) -> Option<String> {
        let axis = self.point.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.clone());
        let own = || match name {
            "device" => Some(self.device.clone()),
            "trace" => Some(self.trace.clone()),
            _ => None,
        };
        let key = || self.of_all_members(name).or_else(|| self.identity.replay.get(name));
        let key = || key().map(Value::shown);
        let of_stack = || stack::value_in(&self.identity.stack, name);
        axis.or_else(own).or_else(key).or_else(of_stack)
    }

    /// The replays of the cell: itself, if it is one.
    pub fn replays(&self) -> &[Self] {
        if self.parts.is_empty() { std::slice::from_ref(self) } else { &self.parts }
    }

    /// How long it goes on before it is measured.
    pub fn warmup(&self) -> Option<Nanos> {
        self.identity.warmup.as_ref()?.parse().ok().filter(|span| *span > Nanos::ZERO)
    }

    /// Where its members replay, each host with its target.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.hosts.iter().map(|member| (member.host.as_str(), member.target.as_str()))
    }

    /// The cell in words.
    pub fn name(&self) -> String {
        let values = self.point.iter().map(|(axis, value)| format!("{axis}={value}"));
        let words: Vec<String> = values.chain([format!("#{}", self.repeat)]).collect();
        words.join(" ")
    }
}

/// Whether a target exists in simulated time alone.
pub fn is_simulated(target: &str) -> bool {
    target == "sim" || target.starts_with("sim:")
}

/// Whether a target is a tree of files, whose directory is made where it is not there.
pub fn is_tree(target: &str) -> bool {
    target.starts_with("tree:")
}

/// What is done next in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The cell of this number.
    Cell(usize),
    /// The search in this branch.
    Search(usize),
}

/// The settings of a replay, with everything filled in.
#[derive(Default)]
struct Typed<'o> {
    replay: BTreeMap<String, Value>,
    chain: Vec<String>,
    /// The device, the loads and the number of hosts, each with its place.
    own: BTreeMap<&'o str, (Vec<String>, &'o Place)>,
}

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The campaign.
    pub file: File,
    /// The cells; those of a search are made when they are asked for.
    pub cells: Vec<Cell>,
    /// The order.
    pub steps: Vec<Step>,
    /// The points of the branches.
    pub branches: Vec<Vec<(String, String)>>,
    /// How many cells a rule leaves out.
    pub left_out: usize,
    known: Known,
    arguments: Layer,
    /// The listed runs by their points.
    listed: HashMap<Vec<(String, String)>, usize>,
}

pub use crate::value::Origins;

impl Plan {
    /// Makes the plan. `arguments` overrule the file.
    ///
    /// # Errors
    ///
    /// If a value is missing or impossible, or a load or device cannot be identified.
    pub fn new(file: File, arguments: Layer, known: &Known, ground: &dyn Ground) -> Result<Self> {
        let start = file.place.clone();
        let (cells, steps, branches) = (Vec::new(), Vec::new(), Vec::new());
        let known = file.knows(known);
        let listed = file.runs.iter().enumerate().map(|(at, run)| (run.at.clone(), at)).collect();
        let left_out = 0;
        let mut plan = Self { file, cells, steps, branches, left_out, known, arguments, listed };
        let points = plan.points(&start)?;
        let climbed = plan.file.ladder.as_ref().map(|ladder| ladder.axis.clone());
        let mut numbers: HashMap<Vec<(String, String)>, usize> = HashMap::new();
        let mut keys: HashMap<String, String> = HashMap::new();
        for repeat in 1..=plan.file.repeats {
            let mut block: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            let mut bases: Vec<Option<String>> = Vec::new();
            for point in &points {
                let listed = plan.listed_at(point);
                // A run that has a part of another's rate follows that one.
                let first = listed.and_then(|run| plan.file.runs.get(run.base?));
                let mut branch = first.map_or(point, |first| &first.at).clone();
                branch.retain(|(axis, _)| Some(axis) != climbed.as_ref());
                let base = listed.and_then(|run| run.base).map(|at| bases[at].clone());
                let next = numbers.len();
                let number = *numbers.entry(branch.clone()).or_insert(next);
                if number == plan.branches.len() {
                    plan.branches.push(branch);
                }
                if plan.file.search.is_some() {
                    block.entry(number).or_default();
                    continue;
                }
                let cell = match base {
                    // What it would be a part of is left out.
                    Some(None) => None,
                    base => plan.cell(point.clone(), number, repeat, base.flatten(), ground)?,
                };
                bases.push(cell.as_ref().map(|cell| cell.key.clone()));
                let Some(cell) = cell else {
                    plan.left_out += 1;
                    continue;
                };
                if let Some(other) = keys.insert(cell.key.clone(), cell.name()) {
                    let reason = format!("{} and {other} would be the same run", cell.name());
                    return Err(Refused::new(&start, reason, "an axis changes nothing for them"));
                }
                block.entry(number).or_default().push(plan.cells.len());
                plan.cells.push(cell);
            }
            plan.append(block, repeat);
        }
        plan.check_stacks(&plan.cells)?;
        Ok(plan)
    }

    /// The listed run at a point.
    pub(crate) fn listed_at(&self, point: &[(String, String)]) -> Option<&RunOf> {
        self.file.runs.get(*self.listed.get(point)?)
    }

    /// The points in the order of the file, those of a climbed axis from its lowest value on.
    fn points(&self, start: &Place) -> Result<Vec<Vec<(String, String)>>> {
        if !self.file.runs.is_empty() {
            return Ok(self.file.runs.iter().map(|run| run.at.clone()).collect());
        }
        let climbed = self.file.ladder.as_ref().map(|ladder| &ladder.axis);
        // Axes that advance together are one group.
        let mut groups: Vec<Vec<Vec<(String, String)>>> = Vec::new();
        let zipped: Vec<_> =
            self.file.axes.iter().filter(|axis| self.file.zip.contains(&axis.name)).collect();
        for axis in &self.file.axes {
            let is_zipped = self.file.zip.contains(&axis.name);
            if is_zipped && zipped.first().is_some_and(|first| first.name != axis.name) {
                continue;
            }
            let mut group: Vec<Vec<(String, String)>> = Vec::new();
            for (number, (value, _)) in axis.values.iter().enumerate() {
                let one = vec![(axis.name.clone(), value.clone())];
                let together =
                    zipped.iter().map(|it| (it.name.clone(), it.values[number].0.clone()));
                group.push(if is_zipped { together.collect() } else { one });
            }
            let number = |entry: &Vec<(String, String)>| entry[0].1.parse::<f64>().ok();
            if Some(&axis.name) == climbed && group.iter().all(|entry| number(entry).is_some()) {
                group.sort_by(|one, other| {
                    number(one).unwrap_or(0.0).total_cmp(&number(other).unwrap_or(0.0))
                });
            }
            groups.push(group);
        }
        let count = groups.iter().try_fold(self.file.repeats as usize, |count, group| {
            count.checked_mul(group.len()).filter(|count| *count <= CELLS_MAX)
        });
        if count.is_none() {
            let reason = format!("these axes make more than {CELLS_MAX} cells");
            return Err(Refused::new(start, reason, "leave out values, or make two campaigns"));
        }
        let mut points = vec![Vec::new()];
        for group in &groups {
            let longer = points.iter().flat_map(|point: &Vec<(String, String)>| {
                group
                    .iter()
                    .map(move |entry| point.iter().chain(entry).cloned().collect::<Vec<_>>())
            });
            points = longer.collect();
        }
        Ok(points)
    }

    /// Appends the branches of a repeat to the order.
    fn append(&mut self, block: BTreeMap<usize, Vec<usize>>, repeat: u32) {
        let mut branches: Vec<(usize, Vec<usize>)> = block.into_iter().collect();
        if self.file.order == Order::Random {
            let mut random = Random(self.file.seed ^ u64::from(repeat).wrapping_mul(0x9E37_79B9));
            for last in (1..branches.len()).rev() {
                branches.swap(last, random.below(last + 1));
            }
        }
        for (branch, cells) in branches {
            if self.file.search.is_some() {
                self.steps.push(Step::Search(branch));
            }
            self.steps.extend(cells.into_iter().map(Step::Cell));
        }
    }

    /// The cell of a search at a value of its axis.
    ///
    /// # Errors
    ///
    /// As of [`new`](Self::new).
    pub fn probe(&self, branch: usize, value: f64, vote: u32, ground: &dyn Ground) -> Result<Cell> {
        let mut point = self.branches[branch].clone();
        let axis = self.file.search.as_ref().map_or("", |search| &search.axis);
        point.push((axis.to_owned(), rounded(value)));
        let start = self.file.place.clone();
        let cell = self.cell(point, branch, vote, None, ground)?;
        cell.ok_or_else(|| {
            Refused::new(&start, "a rule leaves out a value of the search", "change the rule")
        })
    }

    /// All values that a cell's keys were given; `None` if a rule leaves it out.
    pub fn origins(&self, point: &[(String, String)], repeat: u32) -> Option<Origins> {
        self.origins_on(point, repeat, None)
    }

    /// The same on a host, which may have settings of its own.
    pub fn origins_on(
        &self,
        point: &[(String, String)],
        repeat: u32,
        host: Option<&Host>,
    ) -> Option<Origins> {
        // The settings of a device need the device, which a later layer may choose.
        let device = self.layered(point, &[], repeat)?.get("device").and_then(|all| {
            let chosen = all.last()?.value.texts().first()?;
            self.file.device(&Self::fill(chosen, point, repeat))
        });
        let of_device = device.map(|device| &device.set);
        // Conditions ask for what a setting is on this host.
        let of_host: Option<Layer> = host.map(|host| {
            let fill = |text: &str| Self::filled(text, point, repeat, &|name| host.named(name));
            let set = |it: &Setting| Setting { value: it.value.map(&fill), ..it.clone() };
            host.set.iter().map(set).collect()
        });
        let layers: Vec<&Layer> = of_device.into_iter().chain(&of_host).collect();
        self.layered(point, &layers, repeat)
    }

    fn layered(
        &self,
        point: &[(String, String)],
        layers: &[&Layer],
        repeat: u32,
    ) -> Option<Origins> {
        let mut origins = Origins::new();
        let give = |setting: &Setting, origins: &mut Origins| {
            origins.entry(setting.key.clone()).or_default().push(setting.clone());
        };
        let stack = self.file.stack.iter().flat_map(|entry| &entry.set);
        let layers = layers.iter().copied().flatten();
        for setting in stack.chain(&self.file.replay).chain(layers) {
            give(setting, &mut origins);
        }
        let listed = self.listed_at(point);
        for setting in listed.into_iter().flat_map(|run| &run.set) {
            give(setting, &mut origins);
        }
        // The values of a listed run are names; what it does stands in its settings.
        for (axis, value) in point.iter().filter(|_| listed.is_none()) {
            let place = self.file.axis(axis).and_then(|axis| {
                axis.values.iter().find(|(other, _)| other == value).map(|(_, place)| place.clone())
            });
            let searched = self.file.search.as_ref().map(|search| search.place.clone());
            let step = self.file.steps.iter().find(|step| step.name == *value && axis == STEP);
            let place = place
                .or(step.map(|step| step.place.clone()))
                .or(searched)
                .unwrap_or_else(|| Place::outside(axis));
            if self.known.has(axis) {
                let value = axis_value(&self.known, axis, value);
                give(&Setting { key: axis.clone(), value, place }, &mut origins);
            } else {
                for setting in self.file.layers_of(axis, value).into_iter().flatten() {
                    give(setting, &mut origins);
                }
            }
        }
        for rule in &self.file.rules {
            let current = |name: &str| {
                let axis = point.iter().find(|(axis, _)| axis == name);
                let key = || origins.get(name).and_then(|all| Some(all.last()?.value.shown()));
                let repeat = (name == "repeat").then(|| repeat.to_string());
                let default = || stack::value_if_not_given(&self.file.stack, name);
                axis.map(|(_, value)| value.clone()).or_else(key).or(repeat).or_else(default)
            };
            if !rule.when.holds(&current, None) {
                continue;
            }
            if rule.skip {
                return None;
            }
            for setting in &rule.set {
                give(setting, &mut origins);
            }
        }
        for setting in &self.arguments {
            give(setting, &mut origins);
        }
        Some(origins)
    }

    fn fill(text: &str, point: &[(String, String)], repeat: u32) -> String {
        Self::filled(text, point, repeat, &|_| None)
    }

    /// The same, with more names.
    fn filled(
        text: &str,
        point: &[(String, String)],
        repeat: u32,
        more: &dyn Fn(&str) -> Option<String>,
    ) -> String {
        let of_point = |name: &str| {
            point.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.clone())
        };
        filled(text, &|name| match name {
            "repeat" => Some(repeat.to_string()),
            name => of_point(name).or_else(|| more(name)),
        })
    }

    /// The cell at a point, with its replays where there are several.
    fn cell(
        &self,
        point: Vec<(String, String)>,
        branch: usize,
        repeat: u32,
        base: Option<String>,
        ground: &dyn Ground,
    ) -> Result<Option<Cell>> {
        let combinations = self.file.combinations(self.file.rounds.as_ref());
        if combinations.is_empty() {
            return self.replay(point, branch, repeat, base, ground);
        }
        let (mut parts, count) = (Vec::new(), combinations.len());
        for within in combinations {
            let point = point.iter().cloned().chain(within).collect();
            parts.extend(self.replay(point, branch, repeat, None, ground)?);
        }
        let Some(first) = parts.first() else { return Ok(None) };
        let start = self.file.place.clone();
        let is_alike = |part: &Cell| {
            part.target == first.target
                && part.identity.stack == first.identity.stack
                && part.targets().eq(first.targets())
                && part.levels == first.levels
        };
        if parts.len() != count || !parts.iter().all(is_alike) {
            let reason = "a rule or an axis of the rounds leaves out a replay, or moves it to \
                          another device or stack";
            return Err(Refused::new(&start, reason, "the replays of a cell belong together"));
        }
        let mut identity = first.identity.clone();
        identity.parts = parts.iter().map(|part| part.key.clone()).collect();
        identity.rounds = self.file.rounds.as_ref().map(RoundsOf::repeated);
        let key = identity.key();
        let first = first.clone();
        Ok(Some(Cell { key, point, identity, parts, ..first }))
    }

    /// A single replay at a point.
    fn replay(
        &self,
        point: Vec<(String, String)>,
        branch: usize,
        repeat: u32,
        base: Option<String>,
        ground: &dyn Ground,
    ) -> Result<Option<Cell>> {
        let Some(origins) = self.origins(&point, repeat) else { return Ok(None) };
        let start = self.file.place.clone();
        let Typed { replay, chain, mut own } =
            self.typed(&origins, &point, repeat, None, base.is_some())?;
        let missing = |key: &str| {
            let help = format!("write {key} = … under [replay], or make an axis of it");
            Refused::new(&start, format!("a cell has no {key}"), help)
        };
        let (device, place) = own.remove("device").ok_or_else(|| missing("device"))?;
        let device = device.into_iter().next().unwrap_or_default();
        let Some(of_file) = self.file.device(&device) else {
            let names = self.file.devices.iter().map(|device| device.name.as_str());
            return Err(Refused::unknown(place, "device", &device, names));
        };
        let stack = self.stack(&origins, &point, repeat, &device, ground)?;
        let warmup = own.remove(WARMUP).map(|(span, place)| span_of(&span.concat(), place));
        let warmup = warmup.transpose()?;
        let flows = flows(&replay, &origins, ground)?;
        let (traces, place) = match (own.remove("trace"), &flows) {
            (Some(given), None) => given,
            (None, Some((_, place))) => (Vec::new(), *place),
            (None, None) => return Err(missing("trace")),
            (Some((_, place)), Some(_)) => {
                let reason = "a cell has a load, and flows besides";
                return Err(Refused::new(place, reason, "leave out either trace or flow"));
            }
        };
        let load = |trace: &str| {
            let help = "paths are relative to the campaign's file";
            ground.load(trace).map_err(|reason| Refused::new(place, reason, help))
        };
        let most = own.remove(TARGETS_MAX).map(|(most, place)| (most.concat(), place));
        let fill = |text: &str| Self::fill(text, &point, repeat);
        let levels = self.levels(of_file, &stack, self.seats(of_file, &fill)?)?;
        let hosts = self.members(of_file, levels.last(), &traces, most, &fill)?;
        let (members, target, identified) = match hosts.first() {
            Some(first) => {
                let below = levels.first().and_then(|seats| seats.first());
                let target = below.map_or(&first.target, |seat| &seat.target).clone();
                (Vec::new(), target, there(of_file, levels.first(), &hosts))
            }
            None => self.identified(of_file, &stack, &point, repeat, ground)?,
        };
        if !hosts.is_empty() && (flows.is_some() || warmup.is_some()) {
            let reason = "flow and warmup are for replays of this machine";
            return Err(Refused::new(place, reason, "leave them out, or the hosts of the device"));
        }
        if hosts.is_empty() && traces.len() > 1 {
            let help = "name the device's hosts, or make an axis of trace";
            return Err(Refused::new(place, "several loads are for several hosts", help));
        }
        let trace = hosts.first().map(|it| &it.trace).or(traces.first()).cloned();
        let trace = trace.unwrap_or_default();
        let requests = match flows {
            Some((requests, _)) => requests,
            None => members::requests(&trace, &hosts, &load)?,
        };
        let mut identity = Identity::new(replay, chain, identified, requests, repeat);
        let Some(hosts) = self.with_settings(hosts, &origins, &identity, &point)? else {
            return Ok(None);
        };
        if hosts.iter().any(|member| !member.set.is_empty()) {
            identity.members = hosts.iter().map(|member| member.set.clone()).collect();
        }
        identity.path = self.path_of(&point);
        (identity.base, identity.warmup) = (base, warmup);
        identity.stack = stack;
        let key = identity.key();
        let also = if hosts.is_empty() { Vec::new() } else { self.also(&hosts, &levels) };
        let parts = Vec::new();
        Ok(Some(Cell {
            key,
            point,
            repeat,
            device,
            target,
            members,
            trace,
            hosts,
            levels,
            also,
            identity,
            branch,
            parts,
        }))
    }

    /// The settings of a replay, with everything filled in: those of the cell, or on one host. With
    /// a base, flows may name parts of its rate.
    fn typed<'o>(
        &self,
        origins: &'o Origins,
        point: &[(String, String)],
        repeat: u32,
        host: Option<&Host>,
        has_base: bool,
    ) -> Result<Typed<'o>> {
        let mut typed = Typed::default();
        let of_host = |name: &str| host.and_then(|host| host.named(name));
        let is_of_replay = |(key, _): &(&String, &Vec<Setting>)| !key.starts_with(PREFIX);
        for (key, all) in origins.iter().filter(is_of_replay) {
            let Some(Setting { value, place, .. }) = all.last() else { continue };
            let more: &[&str] = match host {
                Some(_) => &[HOST, ""],
                None if key == "trace" => &[HOST],
                None => &[],
            };
            self.check_names(value, place, more, key == FLOW && has_base)?;
            let value = value.map(&|text| Self::filled(text, point, repeat, &of_host));
            match (key.as_str(), value) {
                ("chain", value) => typed.chain = value.texts().to_vec(),
                ("device" | "trace" | TARGETS_MAX | WARMUP, value) => {
                    typed.own.insert(key.as_str(), (value.texts().to_vec(), place));
                }
                // A switch that is off is one that is not typed.
                (_, Value::Switch(false)) => {}
                (_, value) => _ = typed.replay.insert(key.clone(), value),
            }
        }
        Ok(typed)
    }

    /// The path of layers that a point stands on; of a listed run its values, because two of them
    /// may be alike.
    fn path_of(&self, point: &[(String, String)]) -> Option<String> {
        if self.listed_at(point).is_some() {
            let values: Vec<&str> = point.iter().map(|(_, value)| value.as_str()).collect();
            return Some(values.join("/"));
        }
        point.iter().find(|(axis, _)| axis == PATH).map(|(_, path)| path.clone())
    }

    /// The targets of a device that consists of several, its target, and what it is.
    fn identified(
        &self,
        device: &Device,
        stack: &[Placed],
        point: &[(String, String)],
        repeat: u32,
        ground: &dyn Ground,
    ) -> Result<(Vec<String>, String, String)> {
        // Without a stack, devices of one are the targets of one replay.
        if device.path.is_none() && device.of.is_empty() && stack.is_empty() {
            let reason = format!("the stack makes '{}', and it is empty", device.name);
            return Err(Refused::new(&device.place, reason, "write [[stack]] entries"));
        }
        if device.path.is_none() && device.of.is_empty() {
            return Ok((Vec::new(), FROM_STACK.to_owned(), FROM_STACK.to_owned()));
        }
        let (mut members, mut identities) = (Vec::new(), Vec::new());
        for one in self.file.devices_of(device) {
            let path = one.path.clone().unwrap_or_default();
            self.check_names(&Value::One(path.clone()), &one.place, &[], false)?;
            let target = Self::fill(&path, point, repeat);
            let identified = ground.device(&target, &one.proof).map_err(|reason| {
                Refused::new(&one.place, reason, "name another device, or correct this one")
            })?;
            members.push(target);
            identities.push(identified);
        }
        let (target, identified) = (members.join(" + "), identities.join(" + "));
        if device.of.is_empty() {
            members.clear();
        }
        Ok((members, target, identified))
    }

    /// Refuses a name in braces that no axis has.
    fn check_names(
        &self,
        value: &Value,
        place: &Place,
        more: &[&str],
        may_be_part: bool,
    ) -> Result<()> {
        let axes = self.file.axis_names().into_iter().chain(["repeat"]);
        let known: Vec<&str> = axes.chain(more.iter().copied()).collect();
        for text in value.texts() {
            for name in names(text).unwrap_or_default() {
                let is_part = may_be_part && Part::read(name).is_some();
                if !is_part && !known.contains(&name) {
                    return Err(Refused::unknown(place, "axis", name, known));
                }
            }
        }
        Ok(())
    }

    /// The keys of the replay.
    pub fn known(&self) -> &Known {
        &self.known
    }
}

/// A text that is a span of time, as it stands.
fn span_of(text: &str, place: &Place) -> Result<String> {
    match text.parse::<Nanos>() {
        Ok(span) if span >= Nanos::ZERO => Ok(text.to_owned()),
        _ => {
            let reason = format!("'{text}' is no time");
            Err(Refused::new(place, reason, "write a time such as 30s"))
        }
    }
}

/// What the loads of flows are, and where they stand; `None` if there are none.
fn flows<'o>(
    replay: &BTreeMap<String, Value>,
    origins: &'o Origins,
    ground: &dyn Ground,
) -> Result<Option<(String, &'o Place)>> {
    let given = origins.get(FLOW).and_then(|all| all.last());
    let (Some(value), Some(given)) = (replay.get(FLOW), given) else { return Ok(None) };
    let mut loads = BTreeSet::new();
    for flow in value.texts() {
        let known = ground.flow(flow).map_err(|reason| {
            Refused::new(&given.place, reason, "write it like a flow of ioecho replay")
        })?;
        loads.extend(known);
    }
    let loads: Vec<String> = [FLOW.to_owned()].into_iter().chain(loads).collect();
    Ok(Some((loads.join(" + "), &given.place)))
}

/// Numbers by splitmix64 (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*,
/// OOPSLA 2014), which are the same on every machine for ever: an order is part of a plan.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((u128::from(z) * end as u128) >> 64) as usize
    }
}
