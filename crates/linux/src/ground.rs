//! Everything below a path, down to the disks.
//!
//! A trace is overwritten by writing to it, but also by writing to the device below its file
//! system, to a loop device over it, or to a file of a file system whose image is that trace. None
//! of these has the trace's name. So for each path this module finds where its own bytes are kept
//! (`Storage`), and everything below that: the device of the file system, what that device is
//! built of, the file behind a loop device, and so on.
//!
//! Two files on the same disk do not harm each other, because the file system separates them. Harm
//! is done by writing directly to a layer below another path. Ranges are followed through
//! partitions and loop devices, but not through device mapper or MD: for these all member devices
//! count as a whole.

use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::chain::Chains;
use crate::guard::Hazard;
use crate::mounts::swaps;
use crate::sysfs::BlockNode;
use crate::target::{DEPTH_MAX, Keeper, Storage, loops};

/// Where the bytes of a file or device are, and what keeps those.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Its own bytes; none where there is nothing at the path yet.
    own: Option<Storage>,
    /// What it stands on, layer by layer.
    below: Vec<Storage>,
}

impl Ground {
    /// That of what is at `path`; where there is nothing yet, that of a file which is made there.
    ///
    /// # Errors
    /// If neither it nor a directory above it can be looked at.
    pub fn of(path: &Path) -> io::Result<Self> {
        let chains = Chains::new();
        let (own, nodes) = match fs::metadata(path) {
            Ok(data) => {
                let nodes = match Keeper::of(&data) {
                    Keeper::Device(dev) => chains.of_device(dev),
                    _ => chains.of_path(&fs::canonicalize(path)?),
                };
                (Some(Storage::of(&data)), nodes)
            }
            Err(error) => {
                let above = path.ancestors().skip(1).map(|above| match above.as_os_str() {
                    empty if empty.is_empty() => Path::new("."),
                    _ => above,
                });
                // The directory may have to be made, too.
                let there = { above }.find(|above| above.is_dir()).ok_or(error)?;
                (None, chains.of_path(&fs::canonicalize(there)?))
            }
        };
        // A disk that only one of its partitions has led to is none of what is stood on.
        let has_part = |node: &BlockNode| {
            let disk_of = |other: &BlockNode| other.disk().filter(|disk| disk.dev != other.dev);
            nodes.iter().filter_map(disk_of).any(|disk| disk.dev == node.dev)
        };
        let below = nodes.iter().filter(|node| !has_part(node));
        let below = below.map(|node| Storage::of_device(node.dev, DEPTH_MAX)).collect();
        Ok(Self { own, below })
    }

    /// Whether writing to this, by its own name, changes what the other holds.
    pub fn carries(&self, other: &Self) -> bool {
        let Some(own) = &self.own else { return false };
        other.own.iter().chain(&other.below).any(|storage| storage.overlaps(own))
    }

    /// Whether writing to one of them changes what the other holds.
    pub fn touches(&self, other: &Self) -> bool {
        self.carries(other) || other.carries(self)
    }
}

/// What makes the file at `path` more than a file: a loop device stands on it, it is swapped to, or
/// a run has locked it as its target.
pub fn use_of(path: &Path) -> Option<Hazard> {
    let data = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let keeper = Keeper::of(&data);
    if let Some(one) = loops().into_iter().find(|one| one.keeper == keeper) {
        return Some(Hazard::BackingFile { loop_device: one.node.name });
    }
    let is_it = |area: &PathBuf| fs::metadata(area).is_ok_and(|area| Keeper::of(&area) == keeper);
    let swap = swaps().into_iter().find(is_it).map(|area| Hazard::Swap { area });
    swap.or_else(|| is_locked(path).then(|| Hazard::InUse { by: Vec::new() }))
}

/// Whether somebody holds a lock (flock(2)) on a file, as a run does on its targets.
fn is_locked(path: &Path) -> bool {
    // Never waits, not even for whoever holds a lease on it.
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_touched_by_its_other_names_and_not_by_its_neighbours() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("trace"), "x").unwrap();
        fs::write(path("other"), "x").unwrap();
        fs::hard_link(path("trace"), path("hard")).unwrap();
        std::os::unix::fs::symlink(path("trace"), path("link")).unwrap();
        let of = |name: &str| Ground::of(&path(name)).unwrap();
        let trace = of("trace");
        assert!(of("hard").touches(&trace) && of("link").touches(&trace));
        assert!(!of("other").touches(&trace), "on the same disk");
        assert!(!of("missing").touches(&trace) && !of("no/such/place").touches(&trace));
        assert!(use_of(&path("trace")).is_none());
        let held = fs::File::open(path("hard")).unwrap();
        held.lock().unwrap();
        assert_eq!(use_of(&path("trace")), Some(Hazard::InUse { by: Vec::new() }));
    }

    #[test]
    fn the_disk_below_a_file_carries_it_and_is_not_harmed_by_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        let file = Ground::of(&path).unwrap();
        // Not every file system has a device.
        let Some(disk) = file.below.first().cloned() else { return };
        let disk = Ground { own: Some(disk), below: Vec::new() };
        assert!(disk.carries(&file) && !file.carries(&disk) && file.touches(&disk));
    }
}
