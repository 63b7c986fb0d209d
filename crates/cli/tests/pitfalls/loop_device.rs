//! A loop device in memory: a block device of the test's own, whose queue it may set.
//!
//! What is set on a loop device outlives its file: the next one who gets the device would run on a
//! queue that somebody else has changed, or find partitions. So all of it is put back.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Runs a program of the system; says what it said.
pub(crate) fn system(program: &str, arguments: &[&str]) -> Result<String, String> {
    let answer = Command::new(program)
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

/// A loop device over a file in memory, filled with data; it goes away with the value.
pub(crate) struct LoopDevice {
    path: String,
    /// Settings that were changed, and what they were before.
    changed: RefCell<Vec<(PathBuf, String)>>,
    partitions: RefCell<Vec<String>>,
    is_attached: Cell<bool>,
    // Dropped after the device is detached.
    directory: Option<TempDir>,
}

impl LoopDevice {
    /// One of so many MiB; an error where this machine makes none.
    pub(crate) fn new(mebibytes: u64) -> Result<Self, String> {
        let directory = tempfile::tempdir_in("/dev/shm").map_err(|e| format!("/dev/shm: {e}"))?;
        let mut device = Self::within(directory.path(), mebibytes)?;
        device.directory = Some(directory);
        Ok(device)
    }

    /// One of so many MiB over a file in this directory.
    pub(crate) fn within(directory: &Path, mebibytes: u64) -> Result<Self, String> {
        let file = directory.join("backing");
        File::create(&file).and_then(|file| file.set_len(mebibytes << 20)).unwrap();
        Self::attach(&["--find", "--show", file.to_str().unwrap()])
    }

    fn attach(arguments: &[&str]) -> Result<Self, String> {
        let path = system("losetup", arguments)?;
        let (changed, partitions) = (RefCell::default(), RefCell::default());
        Ok(Self { path, changed, partitions, is_attached: Cell::new(true), directory: None })
    }

    /// One over another, without the page cache in between.
    pub(crate) fn over(device: &str) -> Result<Self, String> {
        Self::attach(&["--find", "--show", "--direct-io=on", device])
    }

    /// Makes a part of it, from a sector on and so many long, a partition; answers its path.
    pub(crate) fn partition(
        &self,
        number: u32,
        start: u64,
        sectors: u64,
    ) -> Result<String, String> {
        let numbers = [number.to_string(), start.to_string(), sectors.to_string()];
        system("addpart", &[&self.path, &numbers[0], &numbers[1], &numbers[2]])?;
        self.partitions.borrow_mut().push(numbers[0].clone());
        let path = format!("{}p{number}", self.path);
        let begun = std::time::Instant::now();
        while !fs::exists(&path).unwrap_or(false) {
            if begun.elapsed().as_secs() > 5 {
                return Err(format!("{path} does not appear"));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(path)
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Detaches it early, once: afterwards the path may be that of another test's device, which a
    /// second time would take away.
    pub(crate) fn detach(&self) -> Result<(), String> {
        if self.is_attached.replace(false) {
            system("losetup", &["--detach", &self.path])?;
        }
        Ok(())
    }

    /// Writes a setting of its queue; an error where this kernel has none such.
    pub(crate) fn set(&self, setting: &str, value: &str) -> Result<(), String> {
        let name = self.path.trim_start_matches("/dev/");
        let path = PathBuf::from(format!("/sys/block/{name}/queue/{setting}"));
        let told = |error| format!("{}: {error}", path.display());
        let before = fs::read_to_string(&path).map_err(told)?;
        fs::write(&path, value).map_err(told)?;
        self.changed.borrow_mut().push((path, chosen(&before)));
        Ok(())
    }
}

/// The value of a setting: of several choices the one in brackets.
fn chosen(setting: &str) -> String {
    let bracketed = setting.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(setting, |(chosen, _)| chosen).trim().to_owned()
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        for number in self.partitions.borrow().iter() {
            if let Err(error) = system("delpart", &[&self.path, number]) {
                eprintln!("a partition stays behind: {error}");
            }
        }
        for (path, before) in self.changed.borrow().iter().rev() {
            if let Err(error) = fs::write(path, before) {
                eprintln!("{} stays changed: {error}", path.display());
            }
        }
        if let Err(error) = self.detach() {
            eprintln!("a loop device stays behind: {error}");
        }
    }
}
