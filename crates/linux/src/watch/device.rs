//! A target's device as the kernel sees it: its queue, its caches, and what it was given so far.
//!
//! A target is one name, and its bytes may go through several devices: a partition's disk, a loop
//! device's file and the disk below that, the disks of a stacked device. A block that is too large
//! for a write, or another load, may be in any of them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Dev;

use crate::sysfs::{BlockNode, parse_dev};
use crate::target::{Keeper, Loop, TargetFacts, TargetKind};

/// The block layer's unit.
const SECTOR: u64 = 512;

/// Devices can stand on each other; beyond so many they are not followed.
const LAYERS_MAX: usize = 16;

/// The unit of the page cache.
const PAGE: u64 = 4096;

/// A file system's block beyond this is what it likes to transfer, not what it reads before it
/// writes: network file systems say a megabyte.
const FILE_BLOCK_MAX: u64 = 64 << 10;

/// What a device was given since it came into being (`Documentation/block/stat.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads that completed.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes that completed.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Discards that completed.
    pub discards: u64,
    /// Flushes that completed.
    pub flushes: u64,
    /// Requests merged with one that waited already.
    pub merges: u64,
}

impl Counters {
    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            discards: self.discards.saturating_sub(earlier.discards),
            flushes: self.flushes.saturating_sub(earlier.flushes),
            merges: self.merges.saturating_sub(earlier.merges),
        }
    }

    /// Those of a device; `None` where it counts nothing (`queue/iostats`).
    fn of(node: &BlockNode) -> Option<Self> {
        let counts = node.disk()?.number("queue/iostats") != Some(0);
        counts.then(|| parse(&node.attribute("stat")?)).flatten()
    }
}

/// `reads merges sectors ticks`, the same of writes, three of the queue, the same as of reads of
/// discards since Linux 4.18, and `flushes ticks` since 5.5.
fn parse(stat: &str) -> Option<Counters> {
    let numbers: Vec<u64> = stat.split_whitespace().map_while(|word| word.parse().ok()).collect();
    if numbers.len() < 11 {
        return None;
    }
    let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
    Some(Counters {
        reads: number(0),
        read_bytes: number(2).saturating_mul(SECTOR),
        writes: number(4),
        write_bytes: number(6).saturating_mul(SECTOR),
        discards: number(11),
        flushes: number(15),
        merges: number(1).saturating_add(number(5)).saturating_add(number(12)),
    })
}

/// A device below another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerState {
    /// Its name.
    pub name: String,
    /// Whether it is the disk of a partition, and so has its requests one to one.
    pub is_disk: bool,
    /// Whether a file system lies above it, whose journal is written on it too.
    pub is_below_file: bool,
    /// What it was given so far.
    pub counters: Option<Counters>,
}

/// A target's device at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// Its name; empty where the target has no single one.
    pub name: String,
    /// Why nothing is known of it; empty where it is.
    pub unknown: String,
    /// Whether the target is a file on it.
    pub is_file: bool,
    /// The I/O scheduler in use.
    pub scheduler: String,
    /// Requests that the queue takes, over all hardware queues.
    pub queue_limit: Option<u64>,
    /// The longest request that is not cut, in bytes.
    pub request_max: Option<u64>,
    /// The longest that the device could take, in bytes.
    pub request_max_hardware: Option<u64>,
    /// The longest that is not cut where its memory is in pieces of a page each, in bytes.
    pub request_max_scattered: Option<u64>,
    /// The largest block of all layers that is written in one, in bytes.
    pub block: u64,
    /// What has that block, in words.
    pub block_of: String,
    /// The best length of a request, in bytes.
    pub optimal: u64,
    /// Where the target begins on its disk, in bytes.
    pub partition_start: u64,
    /// Where that disk begins in the layer that has `block`: a loop device may begin anywhere.
    pub begins_at: u64,
    /// `write back` or `write through`.
    pub write_cache: String,
    /// Whether it is known to have a volatile cache, whatever `write_cache` says.
    pub is_volatile: Option<bool>,
    /// Whether it takes writes that go through its cache.
    pub fua: Option<bool>,
    /// The largest discard in bytes, zero where it takes none.
    pub discard_max: Option<u64>,
    /// What it was given so far.
    pub counters: Option<Counters>,
    /// What lies below it.
    pub layers: Vec<LayerState>,
}

impl DeviceState {
    /// That of a target. Some dozens of small reads from sysfs, of no device.
    pub fn of(target: &TargetFacts) -> Self {
        let is_file = target.kind == TargetKind::File;
        let node = parse_dev(&target.device).and_then(BlockNode::of);
        let mut state = Self { is_file, ..Self::default() };
        if is_file && let Ok(data) = fs::metadata(&target.canonical) {
            let kind = target.file_system.as_deref().unwrap_or("the file system");
            let block = data.blksize().min(FILE_BLOCK_MAX + 1);
            state.has_block(block, 0, || format!("blocks of {kind}"));
        }
        let Some((node, disk)) = node.and_then(|node| Some((node.clone(), node.disk()?))) else {
            state.unknown = match &target.file_system {
                Some(kind) => format!("no single device lies below ({kind})"),
                None => "the kernel shows no device (no sysfs)".to_owned(),
            };
            return state;
        };
        state.name.clone_from(&node.name);
        state.counters = Counters::of(&node);
        state.queue(&disk);
        if !is_file {
            state.partition_start = start_of(&node);
        }
        if node.dev != disk.dev {
            let layer = layer(&disk);
            state.layers.push(LayerState { is_disk: !is_file, is_below_file: is_file, ..layer });
        }
        state.below(&disk);
        state
    }

    /// What the queue of its disk says.
    fn queue(&mut self, disk: &BlockNode) {
        let number = |name: &str| disk.number(name);
        let text = |name: &str| disk.attribute(name).unwrap_or_default();
        let kib = |name: &str| number(name).map(|kib| kib.saturating_mul(1024));
        self.scheduler = disk.scheduler().unwrap_or_default();
        self.queue_limit = queue_limit(disk);
        self.request_max = kib("queue/max_sectors_kb");
        self.request_max_hardware = kib("queue/max_hw_sectors_kb");
        self.request_max_scattered =
            number("queue/max_segments").map(|segments| segments.saturating_mul(PAGE));
        self.optimal = number("queue/optimal_io_size").unwrap_or(0);
        self.write_cache = text("queue/write_cache");
        self.is_volatile = is_volatile(disk);
        self.fua = number("queue/fua").map(|flag| flag != 0);
        self.discard_max = number("queue/discard_max_bytes");
    }

    /// A layer has blocks of this size, and the disk of the target begins there at this byte.
    fn has_block(&mut self, block: u64, begins_at: u64, of: impl FnOnce() -> String) {
        if block > self.block && block <= FILE_BLOCK_MAX {
            self.block = block;
            self.block_of = of();
            self.begins_at = begins_at;
        }
    }

    /// Follows the device down.
    fn below(&mut self, disk: &BlockNode) {
        let mut seen: Vec<Dev> = vec![disk.dev];
        let mut open = vec![(disk.clone(), self.is_file, 0_u64)];
        while let Some((disk, is_file, begins_at)) = open.pop().filter(|_| seen.len() <= LAYERS_MAX)
        {
            let block = disk.number("queue/physical_block_size").unwrap_or(0);
            self.has_block(block, begins_at, || format!("blocks of {}", disk.name));
            // A loop device may begin anywhere in what it stands on.
            let begins_at = begins_at.saturating_add(disk.number("loop/offset").unwrap_or(0));
            let (next, has_file) = self.next_below(&disk, begins_at);
            let is_below_file = is_file || has_file;
            for node in next {
                let Some(disk) = node.disk().filter(|disk| !seen.contains(&disk.dev)) else {
                    continue;
                };
                seen.push(disk.dev);
                self.layers.push(LayerState { is_below_file, ..layer(&disk) });
                open.push((disk, is_below_file, begins_at));
            }
        }
    }

    /// The devices directly below a disk, which begins at this byte there, and whether it is a file
    /// on them.
    fn next_below(&mut self, disk: &BlockNode, begins_at: u64) -> (Vec<BlockNode>, bool) {
        let Some(below) = Loop::of(disk) else { return (disk.slaves(), false) };
        if disk.number("loop/dio") != Some(1) {
            self.has_block(PAGE, begins_at, || format!("pages of the cache below {}", disk.name));
        }
        let (dev, is_file) = match below.keeper {
            Keeper::File { dev, .. } => (Some(dev), true),
            Keeper::Device(dev) => (Some(dev), false),
            Keeper::Unreachable(_) => (None, false),
        };
        (dev.and_then(BlockNode::of).into_iter().collect(), is_file)
    }
}

/// A layer of which nothing is known but itself.
fn layer(disk: &BlockNode) -> LayerState {
    let counters = Counters::of(disk);
    LayerState { name: disk.name.clone(), is_disk: false, is_below_file: false, counters }
}

/// Where a partition begins, in bytes.
fn start_of(node: &BlockNode) -> u64 {
    let is_partition = node.attribute("partition").is_some();
    let start = is_partition.then(|| node.number("start")).flatten();
    start.unwrap_or(0).saturating_mul(SECTOR)
}

/// `nr_requests` is for each hardware queue; a SCSI device has a depth of its own.
fn queue_limit(disk: &BlockNode) -> Option<u64> {
    let queues = disk.entries("mq").len().max(1) as u64;
    let requests = disk.number("queue/nr_requests").map(|each| each.saturating_mul(queues));
    [requests, disk.number("device/queue_depth")].into_iter().flatten().min()
}

/// Whether a disk has a cache that forgets: below a loop device lies the page cache, virtio and
/// SCSI disks say what their device said before anybody wrote into `queue/write_cache`.
fn is_volatile(disk: &BlockNode) -> Option<bool> {
    if disk.attribute("loop/backing_file").is_some() {
        return Some(true);
    }
    let scsi = disk.entries("device/scsi_disk").into_iter().next();
    let scsi = scsi.and_then(|name| disk.attribute(&format!("device/scsi_disk/{name}/cache_type")));
    scsi.or_else(|| disk.attribute("cache_type")).map(|kind| kind.starts_with("write back"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Access, OpenOptions, open};

    #[test]
    fn counters_are_read_as_kernels_of_all_ages_write_them() {
        let full = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17";
        let counters = parse(full).unwrap();
        assert_eq!((counters.reads, counters.read_bytes), (1, 3 * 512));
        assert_eq!((counters.writes, counters.write_bytes), (5, 7 * 512));
        assert_eq!((counters.discards, counters.flushes, counters.merges), (12, 16, 2 + 6 + 13));
        let old = parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.discards, old.flushes, old.merges), (0, 0, 8));
        assert_eq!(parse("1 2 3"), None);
        let more = Counters { reads: 5, ..counters };
        assert_eq!(more.since(&counters), Counters { reads: 4, ..Counters::default() });
        assert_eq!(counters.since(&more).reads, 0);
    }

    #[test]
    fn a_file_has_the_blocks_of_its_file_system_or_larger_ones() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let options = OpenOptions { allow_cached: true, ..OpenOptions::new(Access::ReadOnly) };
        let target = open(file.path(), options).unwrap();
        let state = DeviceState::of(target.facts());
        let own = file.as_file().metadata().unwrap().blksize().min(FILE_BLOCK_MAX);
        assert!(state.is_file && state.block >= own.max(512), "{own}, {state:?}");
        // A device has a name; what has none says why.
        let has_device = fs::exists(format!("/sys/dev/block/{}", target.facts().device)).unwrap();
        assert_eq!(!state.name.is_empty(), has_device, "{state:?}");
        assert_eq!(state.unknown.is_empty(), has_device, "{state:?}");
        assert!(state.layers.iter().all(|layer| layer.is_below_file), "{state:?}");
    }
}
