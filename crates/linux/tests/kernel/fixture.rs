//! Fixtures of this crate's own: tests of devices and of the guard need more than the common ones.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ioecho_linux::{Access, MonotonicClock, OpenOptions, OpenedTarget, target};
use ioecho_replay::{Clock, Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Flags, Nanos, Op};

pub(crate) use ioecho_fixture::{
    Backing, Elsewhere, Frozen, LoopDevice, MountPoint, nobody_spawns, not_here, or_skip, run,
    skipped,
};

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
    fn fill_from(&mut self, io: &Io, from: usize, buffer: &mut [u8]) {
        assert_eq!((from + buffer.len()) as u64, io.length.0);
        for (position, byte) in (io.offset.0 + from as u64..).zip(buffer) {
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
