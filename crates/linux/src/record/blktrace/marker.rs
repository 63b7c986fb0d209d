//! Which traces of the kernel are ours, for when nobody is left who knew.
//!
//! A trace bears no name: after a recorder was killed its trace goes on, and the next start sees
//! only that the device is traced. To take away what may be somebody else's is not allowed, so each
//! trace of ours is written down in `/run/ioecho`: who set it up, and the number of a file that the
//! kernel made for this trace and for no other. Only where both agree is it taken away.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::debugfs::Identity;
use crate::record::owner::{Owner, new_name};

/// Where the markers lie; it is empty after a start of the machine, as the kernel is.
const DIRECTORY: &str = "/run/ioecho";

/// What a marker's name begins with; the device's name follows.
const PREFIX: &str = "blktrace-";

/// A trace that was set up by ioecho.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The name of the device's directory in debugfs.
    pub(super) name: String,
    /// The device's node.
    pub(super) device: PathBuf,
    /// The file that stands for the trace.
    pub(super) identity: Identity,
    /// Who set it up; `None` where that cannot be judged from here.
    pub(super) owner: Option<Owner>,
}

impl Marker {
    /// Writes down that this process has set up the trace of a device.
    pub(super) fn write(name: &str, device: &Path, identity: Identity) -> io::Result<()> {
        Self::write_in(Path::new(DIRECTORY), name, device, identity)
    }

    fn write_in(
        directory: &Path,
        name: &str,
        device: &Path,
        Identity { dev, inode }: Identity,
    ) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let device = device.to_str().unwrap_or_default();
        let text = format!("{}\n{}\n{dev} {inode}\n{device}\n", new_name(), surroundings());
        fs::write(path(directory, name), text)
    }

    /// The marker of a device.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::read(&path(Path::new(DIRECTORY), name))
    }

    /// All markers.
    pub(super) fn all() -> Vec<Self> {
        let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::read(&entry.path())).collect()
    }

    /// Whether there is anything that looks like a marker.
    pub(super) fn any() -> bool {
        fs::read_dir(DIRECTORY).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Removes the marker of a device.
    pub(super) fn remove(name: &str) {
        // One that stays behind belongs to a trace that is no more, and says nothing.
        let _ = fs::remove_file(path(Path::new(DIRECTORY), name));
    }

    /// Whether who set it up is known to live no more.
    pub(super) fn is_left(&self) -> bool {
        self.owner.is_some_and(|owner| !owner.lives())
    }

    fn read(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.to_owned();
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let owner = Owner::of_name(lines.next()?)?;
        let is_here = lines.next()? == surroundings();
        let (dev, inode) = lines.next()?.split_once(' ')?;
        let identity = Identity { dev: dev.parse().ok()?, inode: inode.parse().ok()? };
        let device = PathBuf::from(lines.next()?);
        Some(Self { name, device, identity, owner: is_here.then_some(owner) })
    }
}

fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{PREFIX}{name}"))
}

/// Where numbers of processes mean the same: this start of the machine, this pid namespace.
fn surroundings() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { dev: 7, inode: 99 };

    #[test]
    fn a_marker_of_a_living_process_is_read_back_and_is_not_left() {
        let directory = tempfile::tempdir().unwrap();
        let device = Path::new("/dev/loop 7");
        Marker::write_in(directory.path(), "loop7", device, IDENTITY).unwrap();
        let marker = Marker::read(&path(directory.path(), "loop7")).unwrap();
        assert_eq!((marker.name.as_str(), marker.device.as_path()), ("loop7", device));
        assert_eq!((marker.identity, marker.owner), (IDENTITY, Some(Owner::this())));
        assert!(!marker.is_left());
    }

    #[test]
    fn a_marker_is_left_only_if_its_process_is_known_to_be_gone() {
        let directory = tempfile::tempdir().unwrap();
        Marker::write_in(directory.path(), "a", Path::new("/dev/a"), IDENTITY).unwrap();
        let file = path(directory.path(), "a");
        let text = fs::read_to_string(&file).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(&file, format!("ioecho-4194305-1-0\n{rest}")).unwrap();
        assert!(Marker::read(&file).unwrap().is_left());

        // The same number in a container is another process.
        let elsewhere = text.replace("pid:[", "pid:[9");
        assert_ne!(text, elsewhere);
        fs::write(&file, elsewhere).unwrap();
        assert!(!Marker::read(&file).unwrap().is_left());
    }

    #[test]
    fn what_is_no_marker_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["", "ioecho-1-2-3", "ioecho-1-2-3\nx\n1\n/dev/a\n", "x\ny\n1 2\n/dev/a\n"] {
            let file = path(directory.path(), "a");
            fs::write(&file, text).unwrap();
            assert_eq!(Marker::read(&file), None, "{text:?}");
        }
        assert_eq!(Marker::read(Path::new("/nowhere")), None);
    }
}
