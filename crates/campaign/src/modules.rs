//! What sets devices up before a replay: the modules of a stack.
//!
//! Each module is a file below this one, and an entry of [`FAMILIES`]. A module decides what is to
//! be done; how it is taken back is for the [ledger](crate::ledger). Modules know neither the
//! campaign nor who drives them, so an agent on another host does the same with them.
//!
//! To add one: a file with a type that implements [`Module`] and a `pub(super) const FAMILY`, and
//! its line in [`FAMILIES`].

mod ask;
mod below;
mod cgroup;
mod command;
mod configfs;
mod dm;
mod erase;
mod exported;
mod fault;
mod fill;
mod fs;
mod given;
mod host;
mod iscsi;
#[cfg(test)]
mod killed;
mod loop_device;
mod lvm;
mod md;
mod nvme;
mod program;
mod queue;
mod read;
mod settle;
mod smart;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ground::{Fault, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;

pub use given::{Given, Wrong};

/// A module with its settings, on one stack.
pub trait Module {
    /// The programs that it runs by a name of the user's choice. What they are is part of a cell.
    fn programs(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it can be done, and what it would do. Volumes may not be there yet, if a module
    /// below makes them.
    ///
    /// # Errors
    ///
    /// If a tool is missing, or something does not go together. Nothing was touched.
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook>;

    /// Sets up. What it returns are the volumes for the next module, or for the replay.
    ///
    /// # Errors
    ///
    /// If it failed; then everything is taken back.
    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>>;

    /// Whether everything is as it was set up. `on` are the volumes that `apply` returned.
    ///
    /// # Errors
    ///
    /// If it is not.
    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        let _ = (ground, on);
        Ok(())
    }

    /// Does what is due while the replay goes on: what falls within this span, in seconds since the
    /// replay's time zero (of a simulated one, whose time is another, since its process began). It
    /// is called again and again, and spans follow one another.
    ///
    /// # Errors
    ///
    /// If it failed; then the attempt is a fault.
    fn beside(&self, ledger: &mut Ledger<'_>, on: &[Volume], span: Range<f64>) -> Result<()> {
        let _ = (ledger, on, span);
        Ok(())
    }

    /// A replay has ended, so many seconds after the same instant: what `beside` changed for this
    /// replay alone is taken back.
    ///
    /// # Errors
    ///
    /// If it cannot be, or `beside` could not do what it had to because the replay was over.
    fn ended(&self, ledger: &mut Ledger<'_>, on: &[Volume], seconds: f64) -> Result<()> {
        let _ = (ledger, on, seconds);
        Ok(())
    }

    /// What is typed in front of the replay's command, so that it runs within what was set up.
    ///
    /// # Errors
    ///
    /// If what was set up is gone.
    fn launch(&self, ground: &dyn Ground, tag: &str) -> Result<Vec<String>> {
        let _ = (ground, tag);
        Ok(Vec::new())
    }

    /// How the volumes after it come to other hosts.
    ///
    /// # Errors
    ///
    /// If a setting is missing that this needs.
    fn hands_over(&self) -> std::result::Result<Over, Wrong> {
        Ok(Over::Nowhere)
    }

    /// Whether a volume is one that it exports. What a host says of itself is not taken for granted
    /// where other hosts lose data by it.
    fn exports(&self, volume: &Volume) -> bool {
        let _ = volume;
        false
    }

    /// What is to be kept with the results after a replay: names of files, and their texts.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    fn collect(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Vec<(String, String)>> {
        let _ = (ground, on);
        Ok(Vec::new())
    }
}

/// What a module would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outlook {
    /// What it changes, in words: each command, each file with its value.
    pub does: Vec<String>,
    /// The volumes whose data it loses.
    pub loses: Vec<String>,
    /// How long it takes about, if it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The volumes after it.
    #[serde(skip)]
    pub volumes: Vec<Volume>,
}

/// How volumes come to other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Not at all.
    Nowhere,
    /// They have the same paths there.
    Paths,
    /// The module of this name takes them in.
    To(&'static str),
}

/// How often a module is done anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Every {
    /// For each attempt at a cell.
    Cell,
    /// For each branch and repeat: cells that differ in a climbed axis alone share it.
    Branch,
    /// Once, as long as what stands below it is alike.
    Once,
}

impl Every {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cell, Self::Branch, Self::Once];

    /// The word in a file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Branch => "branch",
            Self::Once => "once",
        }
    }
}

/// The keys that a module has.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// These. A name that ends with `.*` stands for a table with keys of the user's choice.
    These(&'static [&'static str]),
    /// These, and any others, which are names in braces.
    AndNames(&'static [&'static str]),
}

/// A kind of module.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name in a file.
    pub name: &'static str,
    /// Its keys.
    pub keys: Keys,
    /// How often it is done if nothing else is asked for.
    pub every: Every,
    /// The module with its settings.
    pub read: fn(&Given) -> std::result::Result<Box<dyn Module>, Wrong>,
}

/// The modules.
pub const FAMILIES: &[Family] = &[
    ask::FAMILY,
    cgroup::FAMILY,
    command::FAMILY,
    dm::FAMILY,
    erase::FAMILY,
    fault::FAMILY,
    fill::FAMILY,
    fs::FAMILY,
    host::FAMILY,
    iscsi::INITIATOR,
    iscsi::TARGET,
    loop_device::FAMILY,
    lvm::FAMILY,
    md::FAMILY,
    nvme::INITIATOR,
    nvme::TARGET,
    program::FAMILY,
    queue::FAMILY,
    read::FAMILY,
    settle::FAMILY,
    smart::FAMILY,
];

/// A directory as the kernel names it: what is made there is found again by that name.
fn real_directory(ground: &dyn Ground, path: &str) -> Result<String> {
    let real = ground.real(path);
    real.ok_or_else(|| Fault::Lacking(format!("{path}: there is no such directory")))
}

/// The fault of a replay that was over before something could be done beside it. Another attempt
/// would be as short.
fn too_short(at_s: f64, ended_s: f64) -> Fault {
    Fault::Refused(format!(
        "it is due {at_s} s after the replay began, which took {ended_s:.1} s\n  = help: let the \
         replay take longer, or do it earlier"
    ))
}

/// Refuses what is no block device, and a stack that has none.
fn block_volumes(on: &[Volume]) -> Result<&[Volume]> {
    match on.iter().find(|volume| volume.kind != Kind::Block) {
        Some(volume) => Err(Fault::Refused(format!("{} is no block device", volume.path))),
        None if on.is_empty() => {
            Err(Fault::Refused("there is no volume below it in the stack".to_owned()))
        }
        None => Ok(on),
    }
}

/// Refuses a volume whose data may not be lost, or that somebody uses.
fn given_up(ground: &dyn Ground, volume: &Volume) -> Result<()> {
    if !volume.may_lose {
        let text = format!("{}: its data would be lost, and nothing allows it", volume.path);
        return Err(Fault::Refused(text));
    }
    ground.unused(&volume.path)
}

/// Thirty-two hexadecimal digits for a name: a UUID of ours, by which a thing is found again
/// wherever it is after a reboot.
fn mark(name: &str) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|it| char::from_digit(it.into(), 16));
    Sha256::digest(name).iter().take(16).flat_map(digits).flatten().collect()
}

/// Refuses a machine without these programs.
fn tools(ground: &dyn Ground, programs: &[&str]) -> Result<()> {
    match programs.iter().find(|program| !ground.has_program(program)) {
        Some(program) => Err(Fault::Lacking(format!("the program '{program}' is missing"))),
        None => Ok(()),
    }
}

impl Family {
    /// The module of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.name == name)
    }

    /// Whether it has this key.
    pub fn has(&self, key: &str) -> bool {
        let (keys, is_open) = match self.keys {
            Keys::These(keys) => (keys, false),
            Keys::AndNames(keys) => (keys, true),
        };
        let is_it = |known: &&str| match known.strip_suffix(".*") {
            Some(table) => key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')),
            None => *known == key,
        };
        is_open && !key.contains('.') || keys.iter().any(is_it)
    }

    /// Whether it has this key of itself, not as a name in braces.
    pub(crate) fn is_fixed(&self, key: &str) -> bool {
        let (Keys::These(keys) | Keys::AndNames(keys)) = self.keys;
        Self { keys: Keys::These(keys), ..*self }.has(key)
    }

    /// Its keys, for a message.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        let (Keys::These(keys) | Keys::AndNames(keys)) = self.keys;
        keys.iter().copied()
    }
}
