//! Which processes have a device, or the file below one, open for writing.
//!
//! A program may write to a device without claiming it: dd, a virtual machine, a shell with a
//! forgotten redirection. The kernel lets everybody else in then and says nothing, so the only way
//! to know is to look at every descriptor of every process, as lsof does.
//!
//! Readers are no hazard: udev, blkid and monitors read all the time. If /proc does not show every
//! process of the host (another pid namespace, `hidepid`, no root), this is reported. Devices that
//! are kept without a descriptor (a mapping, a file registered with an io_uring) are not detected.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dev, FileType, StatxFlags, makedev};

use super::unknown::Unknown;

/// The pid namespace that every process of a host is in, or in one below it: `PID_NS_INIT_INO` in
/// the kernel's include/uapi/linux/nsfs.h.
const OF_THE_HOST: &str = "pid:[4026531836]";

/// What can be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// A block device.
    Device(Dev),
    /// A regular file: the number of its file system and its own.
    File { dev: Dev, inode: u64 },
}

/// A process that can write to a device or file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Writer {
    /// What the program calls itself.
    pub(super) name: String,
    /// Its process id in this /proc.
    pub(super) pid: u32,
    /// What it has open.
    pub(super) opened: Opened,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// Who writes, as far as that can be seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Writers {
    pub(super) seen: Vec<Writer>,
    /// Why there may be others.
    pub(super) unknown: Option<Unknown>,
}

/// Every process but this one that has one of these open for writing. Those that end meanwhile are
/// passed over.
pub(super) fn of(wanted: &[Opened]) -> Writers {
    within(Path::new("/proc"), wanted)
}

fn within(proc: &Path, wanted: &[Opened]) -> Writers {
    // The number that this /proc knows this process by; another one than getpid(2) where /proc is
    // that of another pid namespace.
    let own = fs::read_link(proc.join("self")).ok();
    let mut writers = Writers { seen: Vec::new(), unknown: out_of_sight(proc) };
    for process in entries(proc) {
        let number = process.file_name().and_then(OsStr::to_str);
        let Some(pid) = number.and_then(|number| number.parse().ok()) else { continue };
        if own.as_deref().map(Path::as_os_str) == process.file_name() {
            continue;
        }
        match written_by(&process, wanted) {
            Ok(Some(opened)) => {
                writers.seen.push(Writer { name: name_of(&process), pid, opened });
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                writers.unknown.get_or_insert(Unknown::OtherUsers);
            }
            // It has none of them open, or has ended.
            Ok(None) | Err(_) => {}
        }
    }
    writers
}

/// Which processes this /proc does not show. Its process 1 shows the namespace, and is visible only
/// to a user who may see all.
fn out_of_sight(proc: &Path) -> Option<Unknown> {
    if fs::read_link(proc.join("self")).is_err() {
        return Some(Unknown::NoProc);
    }
    match fs::read_link(proc.join("1/ns/pid")) {
        Ok(namespace) if namespace.as_os_str() == OF_THE_HOST => None,
        Ok(_) => Some(Unknown::OtherNamespaces),
        // A kernel without namespaces.
        Err(_) if fs::read_dir(proc.join("1/fd")).is_ok() => None,
        Err(_) => Some(Unknown::OtherUsers),
    }
}

/// The first of them that the process has open for writing.
fn written_by(process: &Path, wanted: &[Opened]) -> io::Result<Option<Opened>> {
    let descriptors = fs::read_dir(process.join("fd"))?;
    Ok(descriptors.flatten().map(|entry| entry.path()).find_map(|descriptor| {
        let opened = opened_as(&descriptor).filter(|opened| wanted.contains(opened))?;
        let info = process.join("fdinfo").join(descriptor.file_name()?);
        allows_writing(&fs::read_to_string(info).ok()?).then_some(opened)
    }))
}

/// The block device or file that a descriptor leads to. The link in /proc leads to what is open,
/// whatever its path was and whether or not it still has one.
fn opened_as(descriptor: &Path) -> Option<Opened> {
    // Most descriptors are something else, perhaps on a server that does not answer any more:
    // without DONT_SYNC, this would wait for it.
    let (flags, what) = (AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO);
    let data = rustix::fs::statx(CWD, descriptor, flags, what).ok()?;
    match FileType::from_raw_mode(data.stx_mode.into()) {
        FileType::BlockDevice => {
            Some(Opened::Device(makedev(data.stx_rdev_major, data.stx_rdev_minor)))
        }
        FileType::RegularFile => Some(Opened::File {
            dev: makedev(data.stx_dev_major, data.stx_dev_minor),
            inode: data.stx_ino,
        }),
        _ => None,
    }
}

/// Whether a descriptor with this fdinfo (proc(5): the flags of open(2), in octal) may write.
fn allows_writing(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|octal| libc::c_int::from_str_radix(octal.trim(), 8).ok())
        .is_some_and(|flags| matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR))
}

/// The program's name, as far as the kernel keeps it (15 bytes). A process may call itself
/// anything, so nothing in it may reach the terminal as a command.
pub(crate) fn name_of(process: &Path) -> String {
    let name = fs::read(process.join("comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned();
    if name.is_empty() { "a process".to_owned() } else { name.replace(char::is_control, "?") }
}

pub(crate) fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn the_open_mode_is_read_from_octal_flags() {
        assert!(allows_writing("pos:\t0\nflags:\t02100001\nmnt_id:\t29\n"));
        assert!(allows_writing("pos:\t0\nflags:\t0100002\n"));
        assert!(!allows_writing("pos:\t0\nflags:\t02100000\n"));
        assert!(!allows_writing("flags:\t010000000\n"), "O_PATH");
        assert!(!allows_writing("pos:\t0\n"));
        assert!(!allows_writing("flags:\tnonsense\n"));
    }

    #[test]
    fn a_name_carries_nothing_to_the_terminal() {
        let process = tempfile::tempdir().unwrap();
        assert_eq!(name_of(process.path()), "a process");
        fs::write(process.path().join("comm"), b"a\x1b[2Jb\n").unwrap();
        assert_eq!(name_of(process.path()), "a?[2Jb");
    }

    #[test]
    fn a_file_is_known_by_its_inode_and_only_while_it_may_be_written_to() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let data = file.as_file().metadata().unwrap();
        let wanted = Opened::File { dev: data.dev(), inode: data.ino() };
        let process = Path::new("/proc/self");
        assert_eq!(written_by(process, &[wanted]).unwrap(), Some(wanted));
        let path = file.into_temp_path();
        let _reader = fs::File::open(&path).unwrap();
        assert_eq!(written_by(process, &[wanted]).unwrap(), None);
    }

    #[test]
    fn what_is_gone_or_no_device_is_passed_over() {
        assert_eq!(opened_as(Path::new("/proc/self/fd/99999")), None);
        assert_eq!(opened_as(Path::new("/dev/null")), None);
        let ended = written_by(Path::new("/proc/4194305"), &[Opened::Device(0)]);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn processes_that_cannot_be_seen_are_told() {
        let proc = tempfile::tempdir().unwrap();
        let unknown = || within(proc.path(), &[]).unknown;
        assert_eq!(unknown(), Some(Unknown::NoProc));
        symlink("77", proc.path().join("self")).unwrap();
        assert_eq!(unknown(), Some(Unknown::OtherUsers), "hidepid");
        fs::create_dir_all(proc.path().join("1/ns")).unwrap();
        symlink("pid:[4026532177]", proc.path().join("1/ns/pid")).unwrap();
        assert_eq!(unknown(), Some(Unknown::OtherNamespaces));
        fs::remove_file(proc.path().join("1/ns/pid")).unwrap();
        symlink(OF_THE_HOST, proc.path().join("1/ns/pid")).unwrap();
        assert_eq!(unknown(), None);
        fs::remove_file(proc.path().join("1/ns/pid")).unwrap();
        fs::create_dir(proc.path().join("1/fd")).unwrap();
        assert_eq!(unknown(), None, "a kernel without namespaces");
    }
}
