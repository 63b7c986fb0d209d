//! The file of a campaign: text becomes typed values, each with its place.
//!
//! Nothing unknown is accepted: a key with a typing error would leave a setting at its default for
//! a whole weekend. Which keys a replay has is known to the command line alone, so it is told here.

mod read;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use ioecho_trace::Nanos;

use crate::expression::Rule;
use crate::place::Place;
use crate::value::Value;

pub use read::{argument, read};
pub(crate) use read::{axis_value, rounded};

/// The keys that a replay knows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its flags.
    pub flags: Vec<Flag>,
    /// The transforms, which stand in `chain`.
    pub transforms: Vec<String>,
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

/// Keys beside the flags of a replay: the device, the load, and its transforms.
pub const OWN_KEYS: [&str; 3] = ["device", "trace", "chain"];

impl Known {
    /// The flag of this name.
    pub fn flag(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.name == name)
    }

    /// The names of all keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        OWN_KEYS.into_iter().chain(self.flags.iter().map(|flag| flag.name.as_str()))
    }

    /// Whether there is such a key.
    pub fn has(&self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }
}

/// A value that was given to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

/// Settings that belong together.
pub type Layer = Vec<Setting>;

/// A campaign.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name, from which that of its directory is made.
    pub name: String,
    /// The seed of the order.
    pub seed: u64,
    /// How often each point is measured.
    pub repeats: u32,
    /// The order of the branches within a repeat.
    pub order: Order,
    /// The longest time of all runs together.
    pub budget: Option<Nanos>,
    /// How often a run is tried again after a fault of the measurement.
    pub retries: u32,
    /// The devices, in the order of the file.
    pub devices: Vec<Device>,
    /// Named groups of settings.
    pub layers: Vec<(String, Layer)>,
    /// The settings of every cell.
    pub replay: Layer,
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
    /// What must hold.
    pub expectations: Vec<Expectation>,
}

impl File {
    /// The axis of this name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// The layer of this name.
    pub fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|(layer, _)| layer == name).map(|(_, layer)| layer)
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

/// A device under test.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name in the campaign.
    pub name: String,
    /// The target: a block device, a file or a simulation.
    pub path: String,
    /// The serial number that a block device must have.
    pub serial: Option<String>,
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
}
