//! The owner of another trace of the device.
//!
//! The kernel traces a device for one tracer at a time and does not say for whom. Three kinds of
//! rivals can be told apart: a process that has the relay files open; nobody, when the tracer was
//! killed and its trace goes on for ever; and the kernel's own `blk` tracer, which has no relay
//! files. Removing another program's trace would lose its events (blktrace does that: a second one
//! on a device fails with EBUSY and ends the first), so it is only reported.

use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev};

use super::debugfs::{Debugfs, Identity};
use crate::guard::writers::{entries, name_of};

/// Who traces a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// A process that reads the relay files.
    Process {
        /// Its name.
        name: String,
        /// Its number.
        pid: u32,
    },
    /// Nobody that can be seen.
    Nobody,
    /// The kernel's tracer `blk`, switched on in sysfs or tracefs.
    Kernel,
}

impl Rival {
    /// Whose the trace is that the device called `name` has.
    pub(super) fn of(debugfs: &Debugfs, name: &str) -> Self {
        let cpus = debugfs.cpus(name).unwrap_or_default();
        if cpus.is_empty() {
            return Self::Kernel;
        }
        let files: Vec<Identity> = cpus
            .iter()
            .filter_map(|cpu| debugfs.identity(name, &format!("trace{cpu}")).ok().flatten())
            .collect();
        reader_of(&files, Path::new("/proc")).unwrap_or(Self::Nobody)
    }

    /// The words that follow "is traced already".
    pub(super) fn by(&self) -> String {
        match self {
            Self::Process { name, pid } => format!(" by {name} (pid {pid})"),
            Self::Nobody => " and nobody reads it: its tracer was killed, or cannot be seen from \
                             here"
                .to_owned(),
            Self::Kernel => " by the kernel's own tracer `blk`".to_owned(),
        }
    }

    /// How to end it.
    pub(super) fn remedy(&self, device: &Path, name: &str) -> String {
        let device = device.display();
        match self {
            Self::Process { pid, .. } => {
                format!("wait for it to end or stop it (`kill -INT {pid}`)")
            }
            Self::Nobody => format!("`blktrace -d {device} -k` takes it out of the kernel"),
            Self::Kernel => format!(
                "switch it off (`echo 0 > /sys/block/{name}/trace/enable`, `echo nop > \
                 /sys/kernel/tracing/current_tracer`)"
            ),
        }
    }
}

/// The first process that has one of the files open.
fn reader_of(files: &[Identity], proc: &Path) -> Option<Rival> {
    entries(proc).find_map(|process| {
        let pid: u32 = process.file_name()?.to_str()?.parse().ok()?;
        let reads = entries(&process.join("fd"))
            .any(|descriptor| identity(&descriptor).is_some_and(|file| files.contains(&file)));
        reads.then(|| Rival::Process { name: name_of(&process), pid })
    })
}

/// What a descriptor leads to, without waiting for a server that may not answer.
fn identity(descriptor: &Path) -> Option<Identity> {
    let data =
        rustix::fs::statx(CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    let dev = makedev(data.stx_dev_major, data.stx_dev_minor);
    Some(Identity { dev, inode: data.stx_ino, made: SystemTime::UNIX_EPOCH })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn who_has_a_file_open_is_found_by_the_files_number() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let data = file.as_file().metadata().unwrap();
        let made = SystemTime::UNIX_EPOCH;
        let wanted = Identity { dev: data.dev(), inode: data.ino(), made };
        let own = std::process::id();
        let found = reader_of(&[wanted], Path::new("/proc"));
        assert!(matches!(found, Some(Rival::Process { pid, .. }) if pid == own), "{found:?}");
        let nobodys = Identity { inode: u64::MAX, ..wanted };
        assert_eq!(reader_of(&[nobodys], Path::new("/proc")), None);
    }

    #[test]
    fn every_rival_comes_with_a_way_to_end_it() {
        let process = Rival::Process { name: "blktrace".to_owned(), pid: 7 };
        assert_eq!(process.by(), " by blktrace (pid 7)");
        assert!(process.remedy(Path::new("/dev/sda"), "sda").contains("kill -INT 7"));
        let left = Rival::Nobody.remedy(Path::new("/dev/sda"), "sda");
        assert!(left.contains("blktrace -d /dev/sda -k"), "{left}");
        assert!(Rival::Kernel.remedy(Path::new("/dev/sda"), "sda").contains("trace/enable"));
    }
}
