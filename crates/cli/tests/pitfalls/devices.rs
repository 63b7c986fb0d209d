//! Devices and file systems of a test, which go away with it.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::loop_device;

/// Runs a program of the system; what it said, or nothing where it failed.
pub(crate) fn system(program: &str, arguments: &[&str]) -> Option<String> {
    loop_device::system(program, arguments).ok()
}

/// Says that a test, or a part of one, could not be made here.
pub(crate) fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// A loop device on a file of the test's own, past the page cache or over it.
pub(crate) struct LoopOnFile(String);

impl LoopOnFile {
    /// `None` where there are none, or where it cannot be had like this.
    pub(crate) fn on(file: &Path, direct: bool) -> Option<Self> {
        let direct_io = if direct { "--direct-io=on" } else { "--direct-io=off" };
        let file = file.to_str()?;
        let device = Self(system("losetup", &["--find", "--show", direct_io, file])?);
        let name = device.0.trim_start_matches("/dev/");
        let dio = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).ok()?;
        (dio.trim() == if direct { "1" } else { "0" }).then_some(device)
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopOnFile {
    fn drop(&mut self) {
        system("losetup", &["--detach", &self.0]);
    }
}

/// A compressing device in memory.
pub(crate) struct Zram {
    number: String,
    path: String,
}

impl Zram {
    pub(crate) fn new(size: &str) -> Option<Self> {
        let number = std::fs::read_to_string("/sys/class/zram-control/hot_add").ok()?;
        let number = number.trim().to_owned();
        let zram = Self { path: format!("/dev/zram{number}"), number };
        let disk_size = format!("/sys/block/zram{}/disksize", zram.number);
        std::fs::write(disk_size, size).ok()?;
        Some(zram)
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = std::fs::write(format!("/sys/block/zram{}/reset", self.number), "1");
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", &self.number);
    }
}

/// A file system that refuses direct I/O.
pub(crate) struct Ramfs(PathBuf);

impl Ramfs {
    pub(crate) fn at(directory: &Path) -> Option<Self> {
        std::fs::create_dir(directory).ok()?;
        system("mount", &["-t", "ramfs", "ramfs", directory.to_str()?])?;
        Some(Self(directory.to_owned()))
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        if let Some(path) = self.0.to_str() {
            system("umount", &[path]);
        }
    }
}
