//! A target, as `run.toml` holds it.
//!
//! The facts of a device or a file at its opening later decide whether a target is the same one. A
//! simulated target has none of these facts, only its specification. So an entry is one of two
//! tables with different keys, and each is read strictly.

use std::path::PathBuf;

use ioecho_linux::TargetFacts;
use ioecho_linux::target::{TargetContent, TargetKind};
use ioecho_trace::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What the description of a tree in memory begins with.
pub(crate) const TREE_IN_MEMORY: &str = "sim:tree";

/// File systems that keep files in memory.
const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// File systems whose reads the kernel counts as those of the thread that makes them
/// (`task_io_account_read` of its `block/blk-core.c` and `fs/nfs/read.c`). ZFS counts what is asked
/// for, from memory too; FUSE, Ceph and others count nothing.
const COUNTED: [&str; 24] = [
    "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "gfs2", "hfsplus",
    "iso9660", "jfs", "nfs", "nfs4", "nilfs2", "ntfs3", "ocfs2", "overlay", "reiserfs", "squashfs",
    "udf", "ufs", "vfat", "xfs",
];

/// A target of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetEntry {
    /// A block device or a file.
    Real(Box<RealTarget>),
    /// A simulated device.
    Simulated(SimulatedTarget),
    /// A tree of files.
    Tree(TreeEntry),
}

/// A tree of files below a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeEntry {
    /// The tree as it was typed.
    pub tree: String,
    /// Its directory.
    pub anchor: PathBuf,
    /// Where that is.
    pub canonical: Option<PathBuf>,
    /// How many files it has when it is whole.
    pub files: u64,
    /// How many directories it has when it is whole.
    pub directories: u64,
    /// Whether its files are opened past the page cache.
    pub direct: bool,
    /// The type of the file system.
    pub file_system: Option<String>,
    /// Where that is mounted.
    pub mount_point: Option<PathBuf>,
    /// Which of the run's targets its files are copied or moved to, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u16>,
}

impl TreeEntry {
    /// Whether the kernel counts what its file system fetches from the storage for a thread.
    pub(crate) fn counts_fetched(&self) -> bool {
        self.file_system.as_deref().is_some_and(|kind| COUNTED.contains(&kind))
    }
}

/// A device that exists only as a specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedTarget {
    /// The specification as it was typed.
    pub simulated: String,
}

/// A block device or a file at its opening. Facts that the kernel does not report are absent;
/// [`TargetFacts`] explains each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "`TargetFacts` says what each of them is")]
pub struct RealTarget {
    /// How requests reached the kernel, in words.
    pub backend: String,
    pub path: PathBuf,
    pub canonical: PathBuf,
    pub kind: TargetKind,
    pub device: String,
    pub capacity: Bytes,
    pub logical_block: Bytes,
    pub physical_block: Bytes,
    pub direct: bool,
    pub allocated: Option<Bytes>,
    pub file_system: Option<String>,
    pub mount_point: Option<PathBuf>,
    pub model: Option<String>,
    pub backing_file: Option<PathBuf>,
    pub scheduler: Option<String>,
    pub rotational: Option<bool>,
    pub nr_requests: Option<u64>,
    pub max_sectors_kb: Option<u64>,
    pub write_cache: Option<String>,
    pub discard_max: Option<Bytes>,
    pub discard_granularity: Option<Bytes>,
    pub write_zeroes_max: Option<Bytes>,
    pub zoned: Option<String>,
    /// A sample of its content before the run.
    pub content: TargetContent,
}

impl RealTarget {
    /// An opened target.
    pub fn new(backend: String, facts: TargetFacts, content: TargetContent) -> Self {
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
    /// The name as it was typed.
    pub fn name(&self) -> String {
        match self {
            Self::Real(target) => target.path.display().to_string(),
            Self::Simulated(target) => target.simulated.clone(),
            Self::Tree(target) => target.anchor.display().to_string(),
        }
    }

    /// The device or file, if it is real.
    pub fn real(&self) -> Option<&RealTarget> {
        match self {
            Self::Real(target) => Some(target),
            Self::Simulated(_) | Self::Tree(_) => None,
        }
    }

    /// The tree of files, if it is one.
    pub fn tree(&self) -> Option<&TreeEntry> {
        match self {
            Self::Tree(target) => Some(target),
            _ => None,
        }
    }

    /// The tree of files as it was typed, below a directory or in memory.
    pub(crate) fn typed_tree(&self) -> Option<&str> {
        match self {
            Self::Tree(target) => Some(&target.tree),
            Self::Simulated(target) if self.is_of_files() => Some(&target.simulated),
            Self::Simulated(_) | Self::Real(_) => None,
        }
    }

    /// Which of the run's targets its files are copied or moved to.
    pub fn to(&self) -> Option<u16> {
        self.tree().and_then(|tree| tree.to)
    }

    /// Whether it is a tree of files, below a directory or in memory.
    pub fn is_of_files(&self) -> bool {
        match self {
            Self::Tree(_) => true,
            Self::Simulated(target) => target.simulated.starts_with(TREE_IN_MEMORY),
            Self::Real(_) => false,
        }
    }

    /// Whether it was simulated.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Self::Simulated(_))
    }

    /// Whether requests bypassed the page cache.
    pub fn is_direct(&self) -> bool {
        match self {
            Self::Real(target) => target.direct,
            Self::Tree(target) => target.direct,
            Self::Simulated(_) => false,
        }
    }

    /// Whether it is a file in memory.
    pub fn is_in_memory(&self) -> bool {
        let kind = match self {
            Self::Real(target) => target.file_system.as_deref(),
            Self::Tree(target) => target.file_system.as_deref(),
            Self::Simulated(_) => None,
        };
        kind.is_some_and(|kind| MEMORY.contains(&kind))
    }
}

impl Serialize for TargetEntry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Real(target) => target.serialize(to),
            Self::Simulated(target) => target.serialize(to),
            Self::Tree(target) => target.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for TargetEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EntryVisitor)
    }
}

/// Distinguishes the tables by their first key, so that each is read with its own errors.
struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = TargetEntry;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a target")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TargetEntry, A::Error> {
        let first: Option<String> = map.next_key()?;
        let kind = first.clone();
        let table = MapAccessDeserializer::new(Begun { first, map });
        match kind.as_deref() {
            Some("simulated") => SimulatedTarget::deserialize(table).map(TargetEntry::Simulated),
            Some("tree") => TreeEntry::deserialize(table).map(TargetEntry::Tree),
            _ => RealTarget::deserialize(table).map(Box::new).map(TargetEntry::Real),
        }
    }
}

/// A table whose first key was already read.
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
