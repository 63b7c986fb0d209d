//! The provenance of a trace, and the changes that were made to it.
//!
//! A published trace whose columns nobody can interpret, or a conversion that silently lost its
//! flushes, is worth nothing. So every trace carries this header: its origin, the devices it was
//! recorded on, what a reader lost and what it had to guess, and every transform since. In the
//! native file it is JSON in the Parquet footer.

mod notes;
mod old_notes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::notes::{Note, NoteKind, Notes, Topic};
use crate::batch::Columns;
use crate::recorded::RecordedFiles;
use crate::recording::Recording;
use crate::units::{Bytes, VolumeId};

/// A device of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The number by which requests name the device.
    pub id: VolumeId,
    /// The name of the device on the recorded machine, such as `sda` or `8,0`.
    pub name: String,
    /// The size of the device in bytes; `None` where the recording does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
}

/// The amount of a file that a reader went through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The noun for the parts that the file consists of: "lines", "records", "events".
    pub unit: String,
    /// The number of these parts.
    pub units: u64,
    /// The number of requests that were made from them.
    pub requests: u64,
}

/// The meaning of a trace's damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DamageKind {
    /// Something is missing or wrong.
    #[default]
    Broken,
    /// The log of a recording does not say why the recording ended. All data that exist are sound.
    NeverEnded,
}

impl DamageKind {
    fn is_broken(&self) -> bool {
        *self == Self::Broken
    }
}

/// The provenance of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The file the trace was first read from.
    pub source: String,
    /// The format of that file.
    pub format: String,
    /// The description of the trace, in its maker's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The program that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<String>,
    /// The event whose instant is the instant of issue: queued, inserted or issued to the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The wall-clock instant of the trace's start (RFC 3339), where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The terms under which the trace may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The devices.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// The optional columns that the trace has.
    #[serde(default)]
    pub columns: Columns,
    /// Names of processes by their number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<u32, String>,
    /// The amount that was read of the file that the trace was first read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Facts of the recording, if the trace was recorded rather than generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// The names of a recorded load on files. They are complete at the end of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<RecordedFiles>,
    /// The parts of the source that are missing from the requests.
    #[serde(default, deserialize_with = "old_notes::losses")]
    pub losses: Notes,
    /// The parts of the requests that were not in the source.
    #[serde(default, deserialize_with = "old_notes::guesses")]
    pub guesses: Notes,
    /// A sentence that says where the source broke off; `None` if the source is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// The meaning of the damage for anybody who judges the trace.
    #[serde(default, skip_serializing_if = "DamageKind::is_broken")]
    pub damage_kind: DamageKind,
    /// The transforms of the trace since it was read, in order.
    #[serde(default)]
    pub transforms: Vec<String>,
    /// The headers of the traces that were merged into this one, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Self>,
    /// For a result: the directory of the run, as the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// For a result: the number of the run as `run.toml` has it, which stays when the directory is
    /// moved. Versions before 0.2 did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_number: Option<String>,
}

impl Header {
    /// Reads a header as it is stored, whichever version wrote it.
    pub(crate) fn from_json(text: &str) -> serde_json::Result<Self> {
        let mut header: Self = serde_json::from_str(text)?;
        old_notes::tell_kind_of_damage(&mut header);
        Ok(header)
    }

    /// Notes that something is missing or wrong, behind damage that is known already.
    pub fn damaged(&mut self, damage: String) {
        self.damage = Some(match self.damage.take() {
            Some(before) => format!("{before}; {damage}"),
            None => damage,
        });
        self.damage_kind = DamageKind::Broken;
    }

    /// Forgets the run that it is the result of.
    pub fn forget_run(&mut self) {
        self.run = None;
        self.run_number = None;
    }

    /// The damage of a broken trace. `None` if the trace is whole, or if only its recording never
    /// ended.
    pub fn broken(&self) -> Option<&str> {
        self.damage.as_deref().filter(|_| self.damage_kind == DamageKind::Broken)
    }

    /// Takes over the start, the volumes, the processes and the guesses of `other`, a later state
    /// of the same header, if there are more of them. This is cheap if there are none, so it can be
    /// called for every batch.
    pub fn learn(&mut self, other: &Self) {
        if self.started != other.started {
            self.started.clone_from(&other.started);
        }
        if self.volumes.len() != other.volumes.len() {
            self.volumes.clone_from(&other.volumes);
        }
        if self.processes.len() != other.processes.len() {
            self.processes.clone_from(&other.processes);
        }
        self.guesses.catch_up(&other.guesses);
    }
}
