//! A loop device in memory: a block device of the test's own, whose queue it may set.

use std::fs::{self, File};
use std::path::PathBuf;
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
    // Dropped after the device is detached.
    _directory: Option<TempDir>,
}

impl LoopDevice {
    /// One of so many MiB; an error where this machine makes none.
    pub(crate) fn new(mebibytes: u64) -> Result<Self, String> {
        let directory = tempfile::tempdir_in("/dev/shm").map_err(|e| format!("/dev/shm: {e}"))?;
        let file = directory.path().join("backing");
        File::create(&file).and_then(|file| file.set_len(mebibytes << 20)).unwrap();
        let path = system("losetup", &["--find", "--show", file.to_str().unwrap()])?;
        Ok(Self { path, _directory: Some(directory) })
    }

    /// One over another, without the page cache in between.
    pub(crate) fn over(device: &str) -> Result<Self, String> {
        let path = system("losetup", &["--find", "--show", "--direct-io=on", device])?;
        Ok(Self { path, _directory: None })
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

    /// Writes a setting of its queue; an error where this kernel has none such.
    pub(crate) fn set(&self, setting: &str, value: &str) -> Result<(), String> {
        let name = self.path.trim_start_matches("/dev/");
        let path = PathBuf::from(format!("/sys/block/{name}/queue/{setting}"));
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(error) = system("losetup", &["--detach", &self.path]) {
            eprintln!("a loop device stays behind: {error}");
        }
    }
}
