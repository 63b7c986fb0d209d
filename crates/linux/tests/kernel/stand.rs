//! The test stand: loop devices and mounts that disappear with the value, on panic too.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ioecho_linux::{Access, MonotonicClock, OpenOptions, OpenedTarget, target};
use ioecho_replay::{Clock, Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Flags, Nanos, Op};

static SPAWNING: Mutex<()> = Mutex::new(());

/// While it is held no other test starts a program. A child has every descriptor of this process
/// until it becomes the program, and so keeps devices and files in use that a test has just closed.
pub(crate) fn nobody_spawns() -> MutexGuard<'static, ()> {
    SPAWNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program; `Err` with what it said if it fails.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let _alone = nobody_spawns();
    let answer: Output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if answer.status.success() {
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&answer.stderr).trim()))
    }
}

/// Says that a test, or a part of one, could not be made here. Written past the test runner's
/// capture, so that the run shows every such line and they can be counted.
pub(crate) fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Ends a test that this machine cannot make.
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => {
                crate::stand::skipped(&reason.to_string());
                return;
            }
        }
    };
}
pub(crate) use or_skip;

/// A sparse file of so many bytes in its own directory.
pub(crate) struct Backing {
    directory: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Backing {
    /// On the disk of the temporary directory.
    pub(crate) fn on_disk(size: u64) -> Self {
        Self::within(tempfile::tempdir().unwrap(), size)
    }

    /// In memory.
    pub(crate) fn on_tmpfs(size: u64) -> Result<Self, String> {
        let directory = tempfile::tempdir_in("/dev/shm").map_err(|e| format!("/dev/shm: {e}"))?;
        Ok(Self::within(directory, size))
    }

    /// In its own directory below another.
    pub(crate) fn in_directory(directory: &Path, size: u64) -> Self {
        Self::within(tempfile::tempdir_in(directory).unwrap(), size)
    }

    fn within(directory: tempfile::TempDir, size: u64) -> Self {
        let path = directory.path().join("backing");
        File::create(&path).unwrap().set_len(size).unwrap();
        Self { directory, path }
    }

    pub(crate) fn resize(&self, size: u64) {
        File::options().write(true).open(&self.path).unwrap().set_len(size).unwrap();
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// A loop device over a file.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    pub(crate) backing: Backing,
    is_attached: AtomicBool,
}

impl LoopDevice {
    /// `options` of losetup.
    pub(crate) fn over(backing: Backing, options: &[&str]) -> Result<Self, String> {
        let mut arguments = vec!["--find", "--show"];
        arguments.extend(options);
        arguments.push(backing.path.to_str().unwrap());
        let path = PathBuf::from(run("losetup", &arguments)?);
        Ok(Self { path, backing, is_attached: AtomicBool::new(true) })
    }

    pub(crate) fn new(size: u64) -> Result<Self, String> {
        Self::over(Backing::on_tmpfs(size)?, &[])
    }

    /// Another loop device on the same file.
    pub(crate) fn beside(&self, options: &[&str]) -> Result<Beside, String> {
        let mut arguments = vec!["--find", "--show"];
        arguments.extend(options);
        arguments.push(self.backing.path.to_str().unwrap());
        Ok(Beside { path: PathBuf::from(run("losetup", &arguments)?) })
    }

    /// Detaches it early. While somebody has it open it stays; afterwards the path may be that of
    /// another test's device.
    pub(crate) fn detach(&self) -> Result<(), String> {
        self.is_attached.store(false, Relaxed);
        run("losetup", &["--detach", self.path.to_str().unwrap()]).map(drop)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if self.is_attached.load(Relaxed)
            && let Err(error) = self.detach()
        {
            eprintln!("a loop device stays behind: {error}");
        }
    }
}

/// A loop device on the file of another.
pub(crate) struct Beside {
    pub(crate) path: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Err(error) = run("losetup", &["--detach", self.path.to_str().unwrap()]) {
            eprintln!("a loop device stays behind: {error}");
        }
    }
}

/// A mounted device.
pub(crate) struct MountPoint {
    directory: tempfile::TempDir,
}

impl MountPoint {
    pub(crate) fn of(device: &Path) -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        run("mount", &[device.to_str().unwrap(), directory.path().to_str().unwrap()])?;
        Ok(Self { directory })
    }

    /// A file system of its own in memory, of so many bytes.
    pub(crate) fn of_memory(size: u64) -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let size = format!("size={size}");
        let path = directory.path().to_str().unwrap();
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", path])?;
        Ok(Self { directory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        let path = self.path().to_str().unwrap();
        // What is still in use for a moment goes when its last user has gone.
        if let Err(error) = run("umount", &[path]).or_else(|_| run("umount", &["--lazy", path])) {
            eprintln!("a mount stays behind: {error}");
        }
    }
}

/// A file system that answers no write, until the value is dropped.
pub(crate) struct Frozen<'a>(&'a MountPoint);

impl<'a> Frozen<'a> {
    pub(crate) fn new(mount: &'a MountPoint) -> Result<Self, String> {
        run("fsfreeze", &["--freeze", mount.path().to_str().unwrap()])?;
        Ok(Self(mount))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Err(error) = run("fsfreeze", &["--unfreeze", self.0.path().to_str().unwrap()]) {
            eprintln!("a file system stays frozen: {error}");
        }
    }
}

/// Another process that has something open.
pub(crate) struct Opener(Child);

impl Opener {
    pub(crate) fn reading(path: &Path) -> Self {
        Self::with("exec 3<\"$1\"; echo; read _", path)
    }

    pub(crate) fn writing(path: &Path) -> Self {
        Self::with("exec 3<>\"$1\"; echo; read _", path)
    }

    /// Returns as soon as the script has said that the file is open.
    fn with(script: &str, path: &Path) -> Self {
        let _alone = nobody_spawns();
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(path);
        let child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut opener = Self(child);
        let mut line = String::new();
        BufReader::new(opener.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "\n", "{} cannot be opened", path.display());
        opener
    }

    /// As the guard calls it.
    pub(crate) fn name(&self) -> String {
        format!("sh (pid {})", self.0.id())
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills every write with its tag and where it goes.
pub(crate) struct Pattern;

/// The byte that [`Pattern`] puts at a position of the target.
pub(crate) fn byte_at(tag: u32, position: u64) -> u8 {
    (u64::from(tag).wrapping_mul(37) + position / 512 + 1) as u8
}

impl Payload for Pattern {
    fn fill(&mut self, io: &Io, buffer: &mut [u8]) {
        assert_eq!(buffer.len() as u64, io.length.0);
        for (position, byte) in (io.offset.0..).zip(buffer) {
            *byte = byte_at(io.tag, position);
        }
    }
}

pub(crate) fn io(tag: u32, op: Op, offset: u64, length: u64) -> Io {
    Io {
        tag,
        request: 0,
        scheduled: Nanos::ZERO,
        op,
        flags: Flags::empty(),
        offset: Bytes(offset),
        length: Bytes(length),
    }
}

pub(crate) fn open_rw(path: &Path) -> OpenedTarget {
    target::open(path, OpenOptions::new(Access::ReadWrite)).unwrap()
}

pub(crate) fn open_ro(path: &Path) -> OpenedTarget {
    target::open(path, OpenOptions::new(Access::ReadOnly)).unwrap()
}

/// Does all requests, waits for them, and answers their completions by tag.
pub(crate) fn do_all(
    device: &mut dyn Device,
    clock: MonotonicClock,
    requests: &[Io],
) -> Vec<Completion> {
    for request in requests {
        device.prepare(request, &mut Pattern);
    }
    let mut submitted = 0;
    let mut completions = Vec::new();
    let deadline = clock.now() + Nanos::from_secs(30);
    while completions.len() < requests.len() {
        assert!(clock.now() < deadline, "{} of {}", completions.len(), requests.len());
        if submitted < requests.len() {
            submitted += device.submit().unwrap().1;
        }
        device.wait(clock.now() + Nanos::from_secs(1), &mut completions).unwrap();
    }
    completions.sort_by_key(|completion| completion.tag);
    completions
}

/// What the target holds, read through another descriptor without the page cache.
pub(crate) fn read_direct(path: &Path, offset: u64, length: usize) -> Vec<u8> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECT;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
    let mut memory = vec![0; length + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[start..start + length];
    assert_eq!(rustix::io::pread(&file, &mut *buffer, offset).unwrap(), length);
    buffer.to_vec()
}
