//! A target, as `run.toml` holds it.
//!
//! What a device or a file was when it was opened decides later whether it is the same one. A
//! simulated target has none of these facts and its specification alone, so an entry is one of two
//! tables with different keys, and each is read strictly.

use std::path::PathBuf;

use ioecho_linux::TargetFacts;
use ioecho_linux::target::{TargetContent, TargetKind};
use ioecho_trace::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// File systems that keep files in memory.
const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// A target of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TargetEntry {
    Real(Box<RealTarget>),
    Simulated(SimulatedTarget),
}

/// A device of which there is only a specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulatedTarget {
    /// As it was typed.
    pub(crate) simulated: String,
}

/// A block device or a file when it was opened. What the kernel does not tell is absent;
/// [`TargetFacts`] says what each of the facts is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RealTarget {
    /// How requests reached the kernel, in words.
    pub(crate) backend: String,
    pub(crate) path: PathBuf,
    pub(crate) canonical: PathBuf,
    pub(crate) kind: TargetKind,
    pub(crate) device: String,
    pub(crate) capacity: Bytes,
    pub(crate) logical_block: Bytes,
    pub(crate) physical_block: Bytes,
    pub(crate) direct: bool,
    pub(crate) allocated: Option<Bytes>,
    pub(crate) file_system: Option<String>,
    pub(crate) mount_point: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) backing_file: Option<PathBuf>,
    pub(crate) scheduler: Option<String>,
    pub(crate) rotational: Option<bool>,
    pub(crate) nr_requests: Option<u64>,
    pub(crate) max_sectors_kb: Option<u64>,
    pub(crate) write_cache: Option<String>,
    pub(crate) discard_max: Option<Bytes>,
    pub(crate) discard_granularity: Option<Bytes>,
    pub(crate) write_zeroes_max: Option<Bytes>,
    pub(crate) zoned: Option<String>,
    /// What a sample of it held before the run.
    pub(crate) content: TargetContent,
}

impl RealTarget {
    /// An opened target.
    pub(crate) fn new(backend: String, facts: TargetFacts, content: TargetContent) -> Self {
        Self {
            backend,
            path: facts.path,
            canonical: facts.canonical,
            kind: facts.kind,
            device: facts.device,
            capacity: facts.capacity,
            logical_block: facts.logical_block,
            physical_block: facts.physical_block,
            direct: facts.direct,
            allocated: facts.allocated,
            file_system: facts.file_system,
            mount_point: facts.mount_point,
            model: facts.model,
            backing_file: facts.backing_file,
            scheduler: facts.scheduler,
            rotational: facts.rotational,
            nr_requests: facts.nr_requests,
            max_sectors_kb: facts.max_sectors_kb,
            write_cache: facts.write_cache,
            discard_max: facts.discard_max,
            discard_granularity: facts.discard_granularity,
            write_zeroes_max: facts.write_zeroes_max,
            zoned: facts.zoned,
            content,
        }
    }
}

impl TargetEntry {
    /// What was typed for it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Real(target) => target.path.display().to_string(),
            Self::Simulated(target) => target.simulated.clone(),
        }
    }

    /// The device or file, where there is one.
    pub(crate) fn real(&self) -> Option<&RealTarget> {
        match self {
            Self::Real(target) => Some(target),
            Self::Simulated(_) => None,
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.real().is_none()
    }

    /// Whether the page cache was bypassed.
    pub(crate) fn is_direct(&self) -> bool {
        self.real().is_some_and(|target| target.direct)
    }

    /// Whether it is a file in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        let kind = self.real().and_then(|target| target.file_system.as_deref());
        kind.is_some_and(|kind| MEMORY.contains(&kind))
    }
}

impl Serialize for TargetEntry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Real(target) => target.serialize(to),
            Self::Simulated(target) => target.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for TargetEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EntryVisitor)
    }
}

/// Tells the two tables apart by their first key, so that each is read with its own errors.
struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = TargetEntry;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a target")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TargetEntry, A::Error> {
        let first: Option<String> = map.next_key()?;
        let is_simulated = first.as_deref() == Some("simulated");
        let table = MapAccessDeserializer::new(Begun { first, map });
        if is_simulated {
            SimulatedTarget::deserialize(table).map(TargetEntry::Simulated)
        } else {
            RealTarget::deserialize(table).map(Box::new).map(TargetEntry::Real)
        }
    }
}

/// A table whose first key was taken.
struct Begun<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Begun<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(key) => seed.deserialize(key.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
