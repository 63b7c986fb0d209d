//! The layers below a target.
//!
//! Direct I/O bypasses only the page cache of the topmost layer: a loop device reads its file
//! through the page cache, a network file system asks a server with its own memory, and zram is
//! memory. Compression is as hidden. So a target is followed down, from file to file system to
//! device to file, as far as the kernel shows it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Dev, IFlags, Mode, OFlags};

use super::facts::{TargetKind, mount_of};
use super::open::OpenedTarget;
use crate::facts::memory_of_host;
use crate::mounts::Mount;
use crate::sysfs::{BlockNode, parse_dev};

/// Layers stand on each other no deeper than the kernel lets loop devices.
const DEPTH_MAX: u32 = 16;

/// File systems that are somewhere else.
const NETWORK: [&str; 12] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "virtiofs",
    "ceph",
    "lustre",
    "gfs2",
    "ocfs2",
    "afs",
    "glusterfs",
];

/// File systems in memory.
const MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// One layer below a target, the topmost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// What it is: `loop3`, `ext4 at /srv`.
    pub name: String,
    /// A cache in it that direct I/O on the target does not bypass: what it is and how many bytes
    /// it holds at most.
    pub cache: Option<(String, u64)>,
    /// Why its caches cannot be known, where they cannot.
    pub unknown_cache: Option<String>,
    /// How it compresses or deduplicates what is written, where it does.
    pub compresses: Option<String>,
    /// Whether all that it holds is in the host's memory.
    pub in_memory: bool,
}

/// The layers below a target, as far as the kernel tells.
pub fn layers(target: &OpenedTarget) -> Vec<Layer> {
    let facts = target.facts();
    let mut found = Vec::new();
    let Some(dev) = parse_dev(&facts.device) else { return found };
    match facts.kind {
        TargetKind::BlockDevice => below_device(dev, DEPTH_MAX, &mut found),
        TargetKind::File => below_file(&facts.canonical, dev, DEPTH_MAX, &mut found),
    }
    found
}

/// The file system of a file, and what it stands on.
fn below_file(path: &Path, dev: Dev, depth: u32, found: &mut Vec<Layer>) {
    if depth == 0 {
        return;
    }
    let Some(mount) = mount_of(path, dev) else { return };
    let kind = mount.kind.as_str();
    let name = format!("{kind} at {}", mount.point.display());
    let elsewhere = NETWORK.contains(&kind) || kind.starts_with("fuse");
    let marked = is_marked(path).then(|| format!("{name} (file marked as compressed)"));
    found.push(Layer {
        cache: zfs_cache(kind),
        unknown_cache: elsewhere.then(|| format!("{name} has caches elsewhere, of unknown size")),
        compresses: compressing(&mount).map(|how| format!("{name} ({how})")).or(marked),
        in_memory: MEMORY.contains(&kind),
        name,
    });
    // Of btrfs and others the number is not that of a device, but what is mounted is one.
    let source = fs::metadata(&mount.source).ok().map(|data| data.rdev());
    for dev in [Some(mount.dev), source].into_iter().flatten() {
        if BlockNode::of(dev).is_some() {
            below_device(dev, depth - 1, found);
            return;
        }
    }
}

/// A device, and what it stands on.
fn below_device(dev: Dev, depth: u32, found: &mut Vec<Layer>) {
    let Some(disk) = BlockNode::of(dev).and_then(|node| node.disk()).filter(|_| depth > 0) else {
        return;
    };
    let name = disk.name.clone();
    let mut layer = Layer { name: name.clone(), ..Layer::default() };
    let backing = disk.attribute("loop/backing_file");
    if backing.is_some() && disk.attribute("loop/dio").as_deref() != Some("1") {
        layer.cache =
            memory_of_host().map(|bytes| (format!("the host's page cache below {name}"), bytes));
    }
    if name.starts_with("zram") {
        let how = disk.attribute("comp_algorithm").unwrap_or_default();
        let how = how.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        layer.compresses = Some(format!("{name} ({})", how.map_or("compresses", |(how, _)| how)));
    }
    layer.in_memory = name.starts_with("zram") || name.starts_with("ram");
    // The only thing in sysfs that tells a volume of the virtual data optimizer from others.
    let uuid = disk.attribute("dm/uuid").unwrap_or_default();
    if uuid.starts_with("VDO-") || uuid.ends_with("-vpool") {
        layer.compresses = Some(format!("{name} (VDO)"));
    }
    if disk.attribute("device/vendor").as_deref() == Some("0x1af4") || name.starts_with("vd") {
        let why = format!("{name} is a virtual disk, whose host may have any cache");
        layer.unknown_cache = Some(why);
    }
    found.push(layer);
    if let Some(file) = backing {
        if let Ok(data) = fs::metadata(&file) {
            let is_device = BlockNode::of(data.rdev()).is_some() && data.rdev() != 0;
            if is_device {
                below_device(data.rdev(), depth - 1, found);
            } else {
                below_file(Path::new(&file), data.dev(), depth - 1, found);
            }
        }
        return;
    }
    for slave in disk.slaves() {
        below_device(slave.dev, depth - 1, found);
    }
}

/// How a file system compresses, by its mount options (`btrfs(5)`, the kernel's `f2fs.rst`,
/// `bcachefs(8)`); zfs keeps that elsewhere, and compresses unless told not to.
fn compressing(mount: &Mount) -> Option<String> {
    let option = |names: &[&str]| {
        let each = mount.options.split(',');
        let mut set = each.filter(|option| {
            names.contains(&option.split_once('=').map_or(*option, |(name, _)| name))
        });
        set.find(|option| !option.ends_with("=no") && !option.ends_with("=none")).map(str::to_owned)
    };
    match mount.kind.as_str() {
        "btrfs" => option(&["compress", "compress-force"]),
        "bcachefs" => option(&["compression", "background_compression"]),
        "f2fs" => option(&["compress_extension"]),
        "zfs" => Some("compresses by default".to_owned()),
        _ => None,
    }
}

/// zfs has a cache of its own, which direct I/O goes through before version 2.3 and after it where
/// the data are there already. It takes as much of the memory as its parameter says.
fn zfs_cache(kind: &str) -> Option<(String, u64)> {
    if kind != "zfs" {
        return None;
    }
    let most = fs::read_to_string("/sys/module/zfs/parameters/zfs_arc_max").ok();
    let most = most.and_then(|text| text.trim().parse().ok()).filter(|bytes| *bytes > 0);
    Some(("the cache of zfs (ARC)".to_owned(), most.or_else(memory_of_host)?))
}

/// Whether a file bears the mark that asks its file system to compress it (`chattr +c`).
fn is_marked(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    rustix::fs::ioctl_getflags(&file).is_ok_and(|flags| flags.contains(IFlags::COMPRESSED))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::target::{self, Access, OpenOptions};

    fn mount(kind: &str, options: &str) -> Mount {
        Mount {
            dev: 1,
            point: PathBuf::from("/srv"),
            kind: kind.to_owned(),
            source: PathBuf::from("none"),
            options: options.to_owned(),
        }
    }

    #[test]
    fn compression_is_read_from_the_mount_options() {
        let how = |kind, options| compressing(&mount(kind, options));
        assert_eq!(how("btrfs", "rw,compress=zstd:3,ssd").as_deref(), Some("compress=zstd:3"));
        assert_eq!(how("btrfs", "rw,compress-force=lzo").as_deref(), Some("compress-force=lzo"));
        assert_eq!(how("btrfs", "rw,compress=no"), None);
        assert_eq!(how("btrfs", "rw,ssd"), None);
        assert_eq!(how("ext4", "rw,compress=zstd"), None);
        assert!(how("zfs", "rw").is_some());
    }

    #[test]
    fn a_file_stands_on_its_file_system() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let mut options = OpenOptions::new(Access::ReadOnly);
        options.allow_cached = true;
        let layers = layers(&target::open(file.path(), options).unwrap());
        // In a container nobody may know what is mounted.
        if let Some(first) = layers.first() {
            assert!(first.name.contains(" at /"), "{layers:?}");
        }
    }
}
