//! The file of a campaign: text becomes typed values, each with its place.
//!
//! Nothing unknown is accepted: a key with a typing error would leave a setting at its default for
//! a whole weekend. Which keys a replay has is known to the command line alone, so it is told here.

mod include;
mod read;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

use crate::expression::Rule;
use crate::place::Place;
use crate::stack::{self, Entry};

pub use crate::value::{Layer, Setting};
pub use include::Open;
pub use read::{argument, read};
pub(crate) use read::{axis_value, rounded};

/// The keys that a replay knows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its flags.
    pub flags: Vec<Flag>,
    /// The transforms, which stand in `chain`.
    pub transforms: Vec<String>,
    /// The entries of the file's stack, whose settings are keys too: `stack.NAME.KEY`.
    pub stack: Vec<Entry>,
}

/// A flag of a replay.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: String,
    /// Whether it takes a value.
    pub takes_value: bool,
    /// Whether it may do without one as well.
    pub may_lack: bool,
    /// Whether it may be given more than once.
    pub is_list: bool,
}

/// Keys beside the flags of a replay: the device, the load, its transforms, how many hosts, and how
/// long a run goes on before it is measured.
pub const OWN_KEYS: [&str; 5] = ["device", "trace", "chain", TARGETS_MAX, WARMUP];

/// The key of the time before a run is measured.
pub const WARMUP: &str = "warmup";

/// The key of loads that go on at once.
pub const FLOW: &str = "flow";

/// The key of how many hosts take part.
pub const TARGETS_MAX: &str = "targets-max";

impl Known {
    /// The flag of this name.
    pub fn flag(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.name == name)
    }

    /// The entry of the stack with this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.stack.iter().find(|entry| entry.name == name)
    }

    /// Whether this is a key of an entry of the stack.
    fn is_of_stack(&self, key: &str) -> bool {
        stack::has_key(&self.stack, key)
    }

    /// The names of all keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        OWN_KEYS.into_iter().chain(self.flags.iter().map(|flag| flag.name.as_str()))
    }

    /// Whether there is such a key.
    pub fn has(&self, key: &str) -> bool {
        self.keys().any(|known| known == key) || self.is_of_stack(key)
    }
}

/// A campaign.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name, from which that of its directory is made.
    pub name: String,
    /// The place of the settings of every cell, or of the name where there are none.
    pub place: Place,
    /// The seed of the order.
    pub seed: u64,
    /// How often each point is measured.
    pub repeats: u32,
    /// The order of the branches within a repeat.
    pub order: Order,
    /// Which cells may go on at the same time.
    pub parallel: Parallel,
    /// The longest time of all runs together.
    pub budget: Option<Nanos>,
    /// The time at which the campaign ends, as it is written, and its place.
    pub deadline: Option<(String, Place)>,
    /// How often a run is tried again after a fault of the measurement.
    pub retries: u32,
    /// The hosts other than this machine, in the order of the file.
    pub hosts: Vec<Host>,
    /// How far apart replays on several hosts may begin.
    pub start_skew: Nanos,
    /// How long a host that was lost is waited for.
    pub host_wait: Nanos,
    /// What becomes of a replay on other hosts when this process is lost.
    pub on_loss: OnLoss,
    /// The devices, in the order of the file.
    pub devices: Vec<Device>,
    /// Named groups of settings.
    pub layers: Vec<(String, Layer)>,
    /// The settings of every cell.
    pub replay: Layer,
    /// The modules that set a device up, in their order.
    pub stack: Vec<Entry>,
    /// The axes, in the order of the file.
    pub axes: Vec<Axis>,
    /// Names of axes that advance together.
    pub zip: Vec<String>,
    /// The axis that is climbed until something happens.
    pub ladder: Option<Ladder>,
    /// The search for the value at which something begins.
    pub search: Option<Search>,
    /// Settings for some cells.
    pub rules: Vec<SettingRule>,
    /// The runs that are listed one by one, in place of axes.
    pub runs: Vec<RunOf>,
    /// What must hold.
    pub expectations: Vec<Expectation>,
    /// The replays of a cell, where there are several.
    pub steps: Vec<StepOf>,
    /// What is repeated within a cell until it is steady.
    pub rounds: Option<RoundsOf>,
    /// The kept campaign that the results are compared with.
    pub baseline: Option<Baseline>,
}

/// The axis whose values are paths of layers.
pub const PATH: &str = "path";

/// The axis whose values are the steps of a cell.
pub const STEP: &str = "step";

impl File {
    /// What a replay knows, with the settings of this file's stack.
    #[must_use]
    pub fn knows(&self, known: &Known) -> Known {
        Known { stack: self.stack.clone(), ..known.clone() }
    }

    /// The axis of this name, of the cells or of the rounds within them.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        let of_rounds = self.rounds.iter().flat_map(|rounds| &rounds.axes);
        self.axes.iter().chain(of_rounds).find(|axis| axis.name == name)
    }

    /// The names of everything that a point has values of.
    pub fn axis_names(&self) -> Vec<&str> {
        let of_rounds = self.rounds.iter().flat_map(|rounds| &rounds.axes);
        let axes = self.axes.iter().chain(of_rounds).map(|axis| axis.name.as_str());
        let searched = self.search.iter().map(|search| search.axis.as_str());
        let step = (!self.steps.is_empty()).then_some(STEP);
        axes.chain(searched).chain(step).collect()
    }

    /// The settings that the value of an axis stands for, where the axis is no key.
    pub fn layers_of(&self, axis: &str, value: &str) -> Vec<&Layer> {
        if axis == STEP && !self.steps.is_empty() {
            return self.steps.iter().filter(|it| it.name == value).map(|it| &it.set).collect();
        }
        if axis == PATH {
            return value.split('/').filter_map(|part| self.layer(part)).collect();
        }
        self.layer(value).into_iter().collect()
    }

    /// The coordinates of the replays of a cell within it, in their order; none if a cell is one
    /// replay.
    pub(crate) fn combinations(&self, rounds: Option<&RoundsOf>) -> Vec<Vec<(String, String)>> {
        if self.steps.is_empty() && rounds.is_none() {
            return Vec::new();
        }
        let values = |axis: &Axis| -> Vec<(String, String)> {
            axis.values.iter().map(|(value, _)| (axis.name.clone(), value.clone())).collect()
        };
        let mut groups: Vec<Vec<(String, String)>> =
            rounds.iter().flat_map(|it| &it.axes).map(values).collect();
        if !self.steps.is_empty() {
            let step = |step: &StepOf| (STEP.to_owned(), step.name.clone());
            groups.push(self.steps.iter().map(step).collect());
        }
        let mut all = vec![Vec::new()];
        for group in groups {
            let longer = all.iter().flat_map(|one: &Vec<(String, String)>| {
                group.iter().map(move |it| one.iter().chain([it]).cloned().collect::<Vec<_>>())
            });
            all = longer.collect();
        }
        all
    }

    /// The layer of this name.
    pub fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|(layer, _)| layer == name).map(|(_, layer)| layer)
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// How high a host stands in stacks that go across hosts: what a host takes in comes from lower
    /// ones.
    pub fn rank(&self, host: &str) -> usize {
        let is_there = |entry: &Entry| entry.hosts.iter().any(|it| it == host);
        self.stack.iter().rposition(is_there).map_or(0, |at| at + 1)
    }

    /// The devices that a device consists of: itself, or those of which the stack makes it.
    pub fn devices_of<'f>(&'f self, device: &'f Device) -> Vec<&'f Device> {
        if device.of.is_empty() {
            return vec![device];
        }
        device.of.iter().filter_map(|(name, _)| self.device(name)).collect()
    }

    /// The device of this name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }
}

/// The order of the branches within a repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Shuffled by the seed, so that what changes with time does not look like an axis.
    #[default]
    Random,
    /// As in the file.
    Written,
}

/// Which cells may go on at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// One after the other.
    #[default]
    One,
    /// Those that need different hosts. A host does one at a time.
    Host,
}

/// What an agent does with its replay when its campaign is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// It stops it.
    #[default]
    Stop,
    /// It brings it to its end, and keeps the result until the campaign goes on.
    Finish,
}

/// The target of a device that the stack makes, until it is made.
pub const FROM_STACK: &str = "from the stack";

impl Device {
    /// Its path in words.
    pub fn shown_path(&self) -> &str {
        self.path.as_deref().unwrap_or(FROM_STACK)
    }
}

/// What tells a device from any other that its path may lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Its serial number.
    pub serial: Option<String>,
    /// Its world-wide name.
    pub wwn: Option<String>,
    /// The UUID of a device that is made of others.
    pub uuid: Option<String>,
    /// The file behind a loop device.
    pub backing: Option<String>,
}

impl Proof {
    /// Whether there is any.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// A host on which an agent does what is asked for.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name in the campaign.
    pub name: String,
    /// What is typed in front of a command so that it runs there; nothing for this machine.
    pub launch: Vec<String>,
    /// Whether a shell there takes the words apart.
    pub is_shell: bool,
    /// Where the program, loads and results are kept there, if not in the usual place.
    pub directory: Option<String>,
    /// Settings for replays on it.
    pub set: Layer,
    /// What stands for the range in its name.
    pub number: String,
    /// Where it is defined.
    pub place: Place,
}

/// A device under test.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name in the campaign.
    pub name: String,
    /// The target: a block device, a file or a simulation. `None` if the stack makes it, of
    /// nothing or of other devices.
    pub path: Option<String>,
    /// The hosts that reach it, all of which replay together; none if this machine does.
    pub hosts: Vec<String>,
    /// The devices that the stack makes it of, by their names, each with its place.
    pub of: Vec<(String, Place)>,
    /// What the device must have.
    pub proof: Proof,
    /// Settings for runs on it.
    pub set: Layer,
    /// Where it is defined.
    pub place: Place,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its name: a key, or a name that layers or texts use.
    pub name: String,
    /// Its values, in the order of the file.
    pub values: Vec<(String, Place)>,
    /// Where it is defined.
    pub place: Place,
}

/// An axis that is climbed, value by value, until something holds.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The axis.
    pub axis: String,
    /// What ends the climb.
    pub stop: Rule,
}

/// A search for the value of a key at which something begins.
#[derive(Clone, Debug)]
pub struct Search {
    /// The key.
    pub axis: String,
    /// The values between which it is searched.
    pub between: [f64; 2],
    /// What begins there.
    pub until: Rule,
    /// How near the two values that enclose it must be, as a share.
    pub precision: f64,
    /// How many runs decide about a value, by their majority; odd.
    pub votes: u32,
    /// Where it is defined.
    pub place: Place,
}

/// Settings for the cells of which something holds.
#[derive(Clone, Debug)]
pub struct SettingRule {
    /// The condition, on axes and keys.
    pub when: Rule,
    /// The settings.
    pub set: Layer,
    /// Whether such cells are left out.
    pub skip: bool,
}

/// What must hold of each run.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The condition.
    pub that: Rule,
    /// Whether the campaign ends where it does not hold.
    pub abort: bool,
    /// Whether it is asked of the interval over the repeats of a point, not of each run.
    pub of_point: bool,
}

/// A run that is listed.
#[derive(Clone, Debug)]
pub struct RunOf {
    /// The value of each axis; [`NO_VALUE`] where it has none.
    pub at: Vec<(String, String)>,
    /// Where it is defined.
    pub place: Place,
    /// Its settings.
    pub set: Layer,
    /// The run of whose rate its loads have a part, by its number, counted from 0.
    pub base: Option<usize>,
    /// It is skipped if this holds of a run before it that has a part of the same rate.
    pub unless: Option<Rule>,
}

/// The value of an axis that a listed run does not name.
pub const NO_VALUE: &str = "-";

/// A replay of a cell.
#[derive(Clone, Debug)]
pub struct StepOf {
    /// Its name.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// Its settings.
    pub set: Layer,
}

/// What is repeated within a cell.
#[derive(Clone, Debug)]
pub struct RoundsOf {
    /// The axes of a round.
    pub axes: Vec<Axis>,
    /// The most rounds.
    pub max: u32,
    /// The figure that must become steady, by its full name.
    pub figure: String,
    /// The replay of a round that it is taken from.
    pub at: Vec<(String, String)>,
    /// The same replay, by its number in the round.
    pub part: usize,
}

/// A kept campaign with which the results are compared.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Its directory.
    pub campaign: String,
    /// Where it is named.
    pub place: Place,
    /// What must not be proven, as `compare --fail-if` has it, each with its place.
    pub fail_if: Vec<(String, Place)>,
}
