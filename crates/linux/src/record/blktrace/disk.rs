//! The trace of one disk in the kernel: set up, started, stopped, and always taken away.
//!
//! The device is open only for the length of each ioctl. An open device cannot be removed (device
//! mapper refuses, a loop device lingers), and a recording must not prevent that.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, Mode, OFlags};
use rustix::io::Errno;

use super::api::{self, Setup};
use super::debugfs::{Debugfs, Identity};
use super::marker::{self, Marker};
use super::rival::Rival;
use crate::record::error::{RecordError, Remedy};
use crate::record::interface::Interface;

/// A file that identifies a trace: it exists as long as that trace, and belongs to no other.
const STANDS_FOR: &str = "dropped";

/// A processor's buffer is cut into about so many parts, which become readable one by one.
const SUB_BUFFERS: u64 = 16;

/// A part is not smaller, for a record must fit, nor larger, for it is lost as a whole if the
/// device is taken away.
const SUB_BUFFER_BYTES: (u64, u64) = (128 << 10, 512 << 10);

/// The largest page that Linux has; buffers consist of whole ones.
const PAGE_MAX: u64 = 64 << 10;

/// The trace of a disk.
#[derive(Debug)]
pub(super) struct Disk {
    device: PathBuf,
    dev: Dev,
    /// The name of its directory in debugfs.
    pub(super) name: String,
    identity: Identity,
    dropped: File,
    lost: u64,
    /// Bytes of the buffer of each processor.
    pub(super) buffer_bytes: u64,
    /// Bytes of one of its parts.
    pub(super) sub_buffer_bytes: u32,
    /// Whether events that find no room leave gaps in the numbers of the others.
    pub(super) shows_gaps: bool,
    is_detached: bool,
}

/// The relay files of a disk with their processors.
pub(super) type RelayFiles = Vec<(u32, File)>;

impl Disk {
    /// Sets up a trace of the device with this node and number, which sees no event yet. `sectors`
    /// are those to look at, both zero for all; `bytes` is the size of each processor's buffer,
    /// halved as long as the kernel has no memory for it.
    pub(super) fn attach(
        debugfs: &Debugfs,
        device: &Path,
        dev: Dev,
        sectors: (u64, u64),
        bytes: u64,
    ) -> Result<(Self, RelayFiles), RecordError> {
        let opened = open(device, dev).map_err(|error| RecordError::system("open", device, error));
        let opened = opened?;
        let mut bytes = bytes.max(2 * SUB_BUFFER_BYTES.0);
        let _alone = marker::alone().map_err(cannot_note)?;
        let about_to = kernel_name(dev, device);
        // Clean up after a killed recorder first, because our marker replaces its marker.
        clean_one(debugfs, &about_to);
        // Where that cannot be seen, a living recorder's marker may be in the place of ours.
        let in_the_way = debugfs.identity(&about_to, STANDS_FOR).map_err(|error| {
            RecordError::system("look for", &debugfs.show(&about_to, STANDS_FOR), error)
        })?;
        if in_the_way.is_some() {
            return Err(traced(debugfs, device, &about_to));
        }
        let (attached, setup) = loop {
            let setup = setup(sectors, bytes);
            Marker::write(&about_to, device, None).map_err(cannot_note)?;
            let error = match api::set_up(&opened, &setup) {
                Ok(attached) => break (attached, setup),
                Err(error) => error,
            };
            Marker::remove(&about_to);
            match error {
                Errno::BUSY => return Err(traced(debugfs, device, &about_to)),
                // relay_open() fails for want of memory, and the kernel says EIO then.
                Errno::NOMEM | Errno::IO if bytes > 2 * SUB_BUFFER_BYTES.0 => bytes /= 2,
                error => return Err(unavailable(device, error)),
            }
        };
        let trace = Unowned { opened: &opened, is_owned: false };
        let name = directory_of(debugfs, &attached.name, dev, device);
        let path = debugfs.show(&name, STANDS_FOR);
        let identity = debugfs
            .identity(&name, STANDS_FOR)
            .and_then(|found| found.ok_or_else(|| Errno::NOENT.into()))
            .map_err(|error| RecordError::system("find", &path, error))
            .and_then(|identity| {
                Marker::write(&name, device, Some(identity)).map_err(cannot_note)?;
                Ok(identity)
            });
        if identity.is_err() || name != about_to {
            Marker::remove(&about_to);
        }
        let identity = identity?;
        let files = relay_files(debugfs, &name);
        let dropped = debugfs.open_file(&name, STANDS_FOR);
        let (files, dropped) = match (files, dropped) {
            (Ok(files), Ok(dropped)) => (files, dropped),
            (Err(error), _) => {
                Marker::remove(&name);
                return Err(error);
            }
            (_, Err(error)) => {
                Marker::remove(&name);
                return Err(RecordError::system("open", &path, error));
            }
        };
        trace.keep();
        let disk = Self {
            device: device.to_owned(),
            dev,
            name,
            identity,
            dropped,
            lost: 0,
            buffer_bytes: u64::from(setup.sub_buffer_bytes) * u64::from(setup.sub_buffers),
            sub_buffer_bytes: setup.sub_buffer_bytes,
            shows_gaps: attached.record_version > 7,
            is_detached: false,
        };
        Ok((disk, files))
    }

    /// Lets events come.
    pub(super) fn start(&self) -> Result<(), RecordError> {
        let failed = |error| RecordError::system("start the trace of", &self.device, error);
        let opened = open(&self.device, self.dev).map_err(failed)?;
        api::start(opened).map_err(|error| failed(error.into()))
    }

    /// Lets no more events come. Nothing where the device or the trace is gone.
    pub(super) fn stop(&self, debugfs: &Debugfs) -> Result<(), RecordError> {
        if !self.is_there(debugfs) {
            return Ok(());
        }
        let failed = |error| RecordError::system("stop the trace of", &self.device, error);
        let opened = match open(&self.device, self.dev) {
            Ok(opened) => opened,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        match api::stop(opened) {
            // It does not run.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Whether the kernel still has this trace, and not none or another one.
    pub(super) fn is_there(&self, debugfs: &Debugfs) -> bool {
        debugfs.identity(&self.name, STANDS_FOR).is_ok_and(|found| found == Some(self.identity))
    }

    /// How many events found no room, on all processors together. The last number that was told
    /// where the trace is gone.
    pub(super) fn lost(&mut self) -> u64 {
        let mut text = [0; 32];
        let read = self.dropped.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..read]).unwrap_or_default();
        self.lost = text.trim().parse().unwrap_or(self.lost);
        self.lost
    }

    /// Takes the trace out of the kernel. A second call does nothing.
    pub(super) fn detach(&mut self, debugfs: &Debugfs) -> Result<(), RecordError> {
        if self.is_detached {
            return Ok(());
        }
        // Another program may have removed it and set up its own since.
        if self.is_there(debugfs) {
            let failed = |error| RecordError::system("take down the trace of", &self.device, error);
            let opened = open(&self.device, self.dev).map_err(failed)?;
            take_down(&opened).map_err(|error| failed(error.into()))?;
        }
        Marker::remove(&self.name);
        self.is_detached = true;
        Ok(())
    }
}

/// A trace that goes again unless it is kept.
struct Unowned<'a> {
    opened: &'a OwnedFd,
    is_owned: bool,
}

impl Unowned<'_> {
    fn keep(mut self) {
        self.is_owned = true;
    }
}

impl Drop for Unowned<'_> {
    fn drop(&mut self) {
        if !self.is_owned {
            // There is nothing left to tell of a failure but the one that led here.
            let _ = take_down(self.opened);
        }
    }
}

/// Takes down the traces that processes of ioecho left when they were killed, and answers the names
/// of their devices. Nothing if other processes cannot be locked out: they may be setting up a
/// trace.
pub(super) fn clean(debugfs: &Debugfs) -> Result<Vec<String>, RecordError> {
    let _alone = marker::alone().map_err(cannot_note)?;
    let names = Marker::all().into_iter().map(|marker| marker.name);
    Ok(names.filter(|name| clean_one(debugfs, name)).collect())
}

/// What is to be written down cannot be.
fn cannot_note(error: io::Error) -> RecordError {
    RecordError::system("write", Path::new(marker::DIRECTORY), error)
}

/// The same of one device, by its name in debugfs. Whether there was something to take down.
fn clean_one(debugfs: &Debugfs, name: &str) -> bool {
    let Some(marker) = Marker::of(name).filter(Marker::is_left) else { return false };
    // A trace that cannot be seen may be there all the same, and needs its marker.
    let Ok(found) = debugfs.identity(name, STANDS_FOR) else { return false };
    let is_read = || Rival::of(debugfs, name) != Rival::Nobody;
    let is_ours = found.is_some_and(|found| marker.speaks_of(&found, is_read));
    let is_down = is_ours
        && fs::metadata(&marker.device).is_ok_and(|data| {
            // The path may lead to another device by now.
            let opened =
                is_named(name, data.rdev()).then(|| open(&marker.device, data.rdev()).ok());
            opened.flatten().is_some_and(|opened| take_down(&opened).is_ok())
        });
    if is_down || !is_ours {
        Marker::remove(name);
    }
    is_down
}

/// Whether the device with this number is the one that debugfs calls so.
fn is_named(name: &str, dev: Dev) -> bool {
    crate::sysfs::BlockNode::of(dev)
        .is_some_and(|node| ["!", "_"].iter().any(|slash| node.name.replace('/', slash) == name))
}

/// Whether a device could not be opened because there is none any more.
fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NXIO | Errno::NODEV))
}

fn take_down(opened: &OwnedFd) -> rustix::io::Result<()> {
    match api::stop(opened) {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    api::tear_down(opened)
}

/// Opens a device for ioctls, and makes sure that it is the one that is meant.
fn open(device: &Path, dev: Dev) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(device, flags, Mode::empty())?;
    if rustix::fs::fstat(&opened)?.st_rdev == dev {
        return Ok(opened);
    }
    Err(io::Error::other("it is another device now"))
}

fn setup(sectors: (u64, u64), bytes: u64) -> Setup {
    let sub_buffer = (bytes / SUB_BUFFERS).clamp(SUB_BUFFER_BYTES.0, SUB_BUFFER_BYTES.1);
    let sub_buffer = sub_buffer.next_multiple_of(PAGE_MAX);
    let sub_buffers = (bytes / sub_buffer).clamp(2, u64::from(u32::MAX) / sub_buffer);
    Setup { sub_buffer_bytes: sub_buffer as u32, sub_buffers: sub_buffers as u32, sectors }
}

/// The name of a device in the kernel.
fn kernel_name(dev: Dev, device: &Path) -> String {
    let node = crate::sysfs::BlockNode::of(dev).map(|node| node.name.replace('/', "!"));
    let last = || device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    node.unwrap_or_else(last)
}

/// The directory of a device: by the name that the kernel answered or, where that has lost a slash
/// (`cciss/c0d0` is answered as `cciss_c0d0`), by its name in sysfs.
fn directory_of(debugfs: &Debugfs, answered: &str, dev: Dev, device: &Path) -> String {
    match debugfs.identity(answered, STANDS_FOR) {
        Ok(Some(_)) => answered.to_owned(),
        _ => kernel_name(dev, device),
    }
}

fn relay_files(debugfs: &Debugfs, name: &str) -> Result<RelayFiles, RecordError> {
    let path = debugfs.show(name, "");
    let cpus = debugfs.cpus(name).map_err(|error| RecordError::system("read", &path, error))?;
    let open = |cpu| {
        let file = format!("trace{cpu}");
        let opened = debugfs.open_file(name, &file);
        Ok((cpu, opened.map_err(|error| refused(&debugfs.show(name, &file), error))?))
    };
    cpus.into_iter().map(open).collect()
}

/// Somebody else has it.
fn traced(debugfs: &Debugfs, device: &Path, name: &str) -> RecordError {
    let rival = Rival::of(debugfs, name);
    RecordError::Traced {
        device: device.display().to_string(),
        by: rival.by(),
        remedy: rival.remedy(device, name),
    }
}

/// A relay file is not given out.
fn refused(path: &Path, error: io::Error) -> RecordError {
    if Errno::from_io_error(&error) != Some(Errno::PERM) {
        return RecordError::system("open", path, error);
    }
    let state = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let level = match state.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((level, _)) => format!(" ({level})"),
        None => String::new(),
    };
    RecordError::Unavailable {
        interface: Interface::Blktrace,
        reason: format!(
            "the kernel is locked down{level} and refuses the relay files ({}: {error})",
            path.display()
        ),
        remedy: Remedy::or_tracefs(Some("start the kernel without Secure Boot or lockdown=")),
    }
}

/// The kernel does not set up a trace.
fn unavailable(device: &Path, error: Errno) -> RecordError {
    let device = device.display();
    let (reason, remedy) = match error {
        Errno::PERM | Errno::ACCESS => (format!("{device}: {error}"), Remedy::only("run as root")),
        Errno::NOENT => (
            format!("{device} has no directory in debugfs"),
            Remedy::or_tracefs(Some("use a kernel with CONFIG_DEBUG_FS")),
        ),
        Errno::NOTTY | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP => (
            "this kernel has no block trace ioctls".to_owned(),
            Remedy::or_tracefs(Some("use a kernel with CONFIG_BLK_DEV_IO_TRACE")),
        ),
        _ => (format!("{device}: {error}"), Remedy::or_tracefs(None)),
    };
    RecordError::Unavailable { interface: Interface::Blktrace, reason, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_cut_into_parts_that_hold_a_record_and_are_not_large() {
        let cut = |bytes| {
            let Setup { sub_buffer_bytes, sub_buffers, .. } = setup((0, 0), bytes);
            (sub_buffer_bytes, sub_buffers)
        };
        assert_eq!(cut(64 << 20), (512 << 10, 128));
        assert_eq!(cut(4 << 20), (256 << 10, 16));
        assert_eq!(cut(0), (128 << 10, 2));
        let (part, parts) = cut(u64::MAX);
        assert!(u32::try_from(u64::from(part) * u64::from(parts)).is_ok(), "relay_open() refuses");
    }

    #[test]
    fn a_device_is_the_one_with_the_number_and_no_other() {
        let error = open(Path::new("/dev/null"), 0).unwrap_err();
        assert_eq!(error.to_string(), "it is another device now");
    }

    #[test]
    fn only_a_device_that_is_gone_needs_no_stop() {
        let error = |device: &str, dev| open(Path::new(device), dev).unwrap_err();
        assert!(is_absent(&error("/nowhere/at/all", 0)));
        assert!(!is_absent(&error("/dev/null", 0)), "another one");
        assert!(!is_named("null", rustix::fs::makedev(0, 3)), "no block device");
    }

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let told = refused(Path::new("x/trace0"), Errno::PERM.into()).to_string();
        assert!(told.contains("locked down") && told.contains("the interface tracefs"), "{told}");
        let told = refused(Path::new("x/trace0"), Errno::NOENT.into()).to_string();
        assert!(told.starts_with("cannot open x/trace0"), "{told}");
        let told = unavailable(Path::new("/dev/a"), Errno::NOTTY).to_string();
        assert!(told.contains("CONFIG_BLK_DEV_IO_TRACE"), "{told}");
    }
}
