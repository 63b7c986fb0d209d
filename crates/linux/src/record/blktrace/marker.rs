//! Markers for ioecho's traces in the kernel, to recognise those of killed recorders.
//!
//! A trace has no name: after a recorder was killed its trace goes on, and the next start sees only
//! that the device is traced. Another program's trace must not be removed, so each trace of ioecho
//! has a marker in `/run/ioecho`: the process that set it up, and the number of a file that the
//! kernel made for this trace alone. A trace is removed only if that process is gone and the number
//! agrees.
//!
//! The number is known only after the trace exists, so a process killed in between would leave a
//! trace without a marker. So a marker is first written that a trace is about to be made. A trace
//! made right after it, whose maker is dead and which nobody reads, is ioecho's.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use super::debugfs::Identity;
use crate::record::owner::{Owner, new_name};

/// Where the markers lie; it is empty after a start of the machine, as the kernel is.
pub(super) const DIRECTORY: &str = "/run/ioecho";

/// Stands for the number of a file that is not there yet.
const ABOUT_TO: &str = "about to";

/// So long after it was written down a trace is set up at the latest: buffers of gigabytes take a
/// while.
const SETTING_UP: Duration = Duration::from_secs(5);

/// So much older than its marker a trace may seem that was made after it. Since Linux 6.13 some
/// file systems take the time of a file finer than by the tick, and debugfs does not; a tick is
/// 10 ms at the longest (`CONFIG_HZ`).
const TICK: Duration = Duration::from_millis(20);

/// So long another process is waited for: what it has to do takes no longer than [`SETTING_UP`].
const PATIENCE: Duration = Duration::from_secs(10);

/// What a marker's name begins with; the device's name follows.
const PREFIX: &str = "blktrace-";

/// A trace that was set up by ioecho.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The name of the device's directory in debugfs.
    pub(super) name: String,
    /// The device's node.
    pub(super) device: PathBuf,
    /// The file that stands for the trace; `None` as long as it was only about to be made.
    pub(super) identity: Option<Identity>,
    /// When the marker was written.
    pub(super) written: SystemTime,
    /// Who set it up; `None` where that cannot be judged from here.
    pub(super) owner: Option<Owner>,
}

impl Marker {
    /// Writes down that this process has set up the trace of a device, or is about to. Between both
    /// it must be [`alone`].
    pub(super) fn write(name: &str, device: &Path, identity: Option<Identity>) -> io::Result<()> {
        Self::write_in(Path::new(DIRECTORY), name, device, identity)
    }

    fn write_in(
        directory: &Path,
        name: &str,
        device: &Path,
        identity: Option<Identity>,
    ) -> io::Result<()> {
        make(directory)?;
        let device = device.to_str().unwrap_or_default();
        let identity = identity.map_or_else(
            || ABOUT_TO.to_owned(),
            |Identity { dev, inode, .. }| format!("{dev} {inode}"),
        );
        let text = format!("{}\n{}\n{identity}\n{device}\n", new_name(), surroundings());
        // Whole or not there: who is killed while it is written has left the one before.
        let (path, new) = (path(directory, name), directory.join(format!("new-{name}")));
        fs::write(&new, text)?;
        fs::rename(new, path)
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

    /// Whether there is anything that looks like a marker. An error where that cannot be seen.
    pub(super) fn any() -> io::Result<bool> {
        match fs::read_dir(DIRECTORY) {
            Ok(mut entries) => Ok(entries.any(|entry| {
                entry.is_ok_and(|entry| {
                    entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
                })
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a trace is the one that this marker speaks of. `is_read` says whether somebody has
    /// it open, which is asked only where it matters.
    pub(super) fn speaks_of(&self, found: &Identity, is_read: impl FnOnce() -> bool) -> bool {
        if let Some(identity) = self.identity {
            return identity == *found;
        }
        // Both files have their times from one clock, if not as fine. Overflow is no time at all.
        let after = found.made.checked_add(TICK).map(|made| made.duration_since(self.written));
        after.is_some_and(|after| after.is_ok_and(|after| after <= SETTING_UP)) && !is_read()
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
        let written = fs::metadata(path).ok()?.modified().ok()?;
        let identity = match lines.next()? {
            ABOUT_TO => None,
            numbers => {
                let (dev, inode) = numbers.split_once(' ')?;
                let (dev, inode) = (dev.parse().ok()?, inode.parse().ok()?);
                Some(Identity { dev, inode, made: SystemTime::UNIX_EPOCH })
            }
        };
        let device = PathBuf::from(lines.next()?);
        Some(Self { name, device, identity, written, owner: is_here.then_some(owner) })
    }
}

/// Waits until no other process sets up a trace or cleans up, and keeps others from it as long as
/// the file is open: two that look and then write would write over each other's markers. An error
/// where another takes too long for it, as one does that is stopped.
pub(super) fn alone() -> io::Result<File> {
    alone_in(Path::new(DIRECTORY), PATIENCE)
}

fn alone_in(directory: &Path, patience: Duration) -> io::Result<File> {
    make(directory)?;
    let path = directory.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => {
                sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Err(still_locked(&path, patience)),
        }
    }
    // Names the owner of the lock to those who wait in vain.
    let text = format!("{}\n{}\n", std::process::id(), surroundings());
    let _ = file.set_len(0).and_then(|()| (&file).write_all(text.as_bytes()));
    Ok(file)
}

/// Somebody else does not come to an end.
fn still_locked(path: &Path, patience: Duration) -> io::Error {
    let text = fs::read_to_string(path).unwrap_or_default();
    // Elsewhere the same number is another process.
    let here = text.split_once('\n').filter(|(_, rest)| rest.trim_end() == surroundings());
    let (who, remedy) = match here {
        Some((pid, _)) => (
            format!("process {pid}"),
            format!("let it go on (`kill -CONT {pid}`), or end it (`kill {pid}`)"),
        ),
        None => ("another process".to_owned(), format!("`fuser {}` names it", path.display())),
    };
    let seconds = patience.as_secs();
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!(
            "{who} sets up a trace or cleans up, and has not finished within {seconds} s\n  = \
             help: {remedy}"
        ),
    )
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
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

    const IDENTITY: Identity = Identity { dev: 7, inode: 99, made: SystemTime::UNIX_EPOCH };

    #[test]
    fn a_marker_of_a_living_process_is_read_back_and_is_not_left() {
        let directory = tempfile::tempdir().unwrap();
        let device = Path::new("/dev/loop 7");
        Marker::write_in(directory.path(), "loop7", device, Some(IDENTITY)).unwrap();
        let marker = Marker::read(&path(directory.path(), "loop7")).unwrap();
        assert_eq!((marker.name.as_str(), marker.device.as_path()), ("loop7", device));
        assert_eq!((marker.identity, marker.owner), (Some(IDENTITY), Some(Owner::this())));
        assert!(!marker.is_left());
    }

    #[test]
    fn a_marker_is_left_only_if_its_process_is_known_to_be_gone() {
        let directory = tempfile::tempdir().unwrap();
        Marker::write_in(directory.path(), "a", Path::new("/dev/a"), Some(IDENTITY)).unwrap();
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
    fn who_was_killed_while_a_trace_was_set_up_has_left_the_one_made_right_after() {
        let directory = tempfile::tempdir().unwrap();
        Marker::write_in(directory.path(), "a", Path::new("/dev/a"), None).unwrap();
        let marker = Marker::read(&path(directory.path(), "a")).unwrap();
        assert_eq!(marker.identity, None);
        let made = |made| Identity { made, ..IDENTITY };
        let right_after = made(marker.written + Duration::from_millis(300));
        assert!(marker.speaks_of(&right_after, || false));
        assert!(!marker.speaks_of(&right_after, || true), "somebody reads it");
        let coarse = made(marker.written - Duration::from_millis(4));
        assert!(marker.speaks_of(&coarse, || false), "its time is that of the last tick");
        let before = made(marker.written - Duration::from_millis(100));
        assert!(!marker.speaks_of(&before, || false), "a trace that was there already");
        let later = made(marker.written + Duration::from_mins(1));
        assert!(!marker.speaks_of(&later, || false), "somebody came later");

        // Once the trace exists, only its number counts.
        Marker::write_in(directory.path(), "a", Path::new("/dev/a"), Some(IDENTITY)).unwrap();
        let marker = Marker::read(&path(directory.path(), "a")).unwrap();
        assert!(marker.speaks_of(&later, || true));
        assert!(!marker.speaks_of(&Identity { inode: 98, ..right_after }, || false));
    }

    #[test]
    fn who_waits_for_one_that_does_not_come_to_an_end_is_told_for_whom() {
        let directory = tempfile::tempdir().unwrap();
        let first = alone_in(directory.path(), Duration::ZERO).unwrap();
        let told = alone_in(directory.path(), Duration::from_millis(30)).unwrap_err().to_string();
        let own = std::process::id();
        assert!(told.contains(&format!("process {own} sets up")), "{told}");
        assert!(told.contains(&format!("kill -CONT {own}")), "{told}");

        fs::write(directory.path().join("lock"), "7\nanother start\n").unwrap();
        let told = alone_in(directory.path(), Duration::ZERO).unwrap_err().to_string();
        assert!(told.contains("another process") && !told.contains("kill"), "{told}");
        drop(first);
        alone_in(directory.path(), Duration::ZERO).unwrap();
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
