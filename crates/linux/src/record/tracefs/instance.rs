//! A trace instance: a directory that is made, written to and removed.
//!
//! Whatever goes wrong in between, the instance must go again: its events would cost the load time
//! for as long as the machine runs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_trace::recording::EventFormat;

use super::refused;
use crate::record::error::RecordError;
use crate::record::owner::new_name;

/// How long the kernel may take to let go of what has just been closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// No text of tracefs that is read here is longer.
const TEXT_MAX: usize = 16 << 10;

/// The smallest buffer that is still tried where the kernel has no memory for a larger one.
const LEAST_KIB: u64 = 256;

/// A trace instance of this process.
#[derive(Debug)]
pub(super) struct Instance {
    directory: PathBuf,
    is_removed: bool,
}

impl Instance {
    /// Makes one, below this tracefs.
    pub(super) fn new(root: &Path) -> Result<Self, RecordError> {
        let directory = root.join("instances").join(new_name());
        fs::create_dir(&directory).map_err(|error| refused(&directory, &error))?;
        Ok(Self { directory, is_removed: false })
    }

    /// The path of one of its files.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn write(&self, name: &str, value: &str) -> Result<(), RecordError> {
        let path = self.path(name);
        fs::write(&path, value).map_err(|error| RecordError::system("write", &path, error))
    }

    pub(super) fn read(&self, name: &str) -> Result<String, RecordError> {
        let path = self.path(name);
        read_text(&path).map_err(|error| RecordError::system("read", &path, error))
    }

    /// The processors that it has buffers for.
    pub(super) fn cpus(&self) -> Result<Vec<u32>, RecordError> {
        let path = self.path("per_cpu");
        let entries =
            fs::read_dir(&path).map_err(|error| RecordError::system("read", &path, error))?;
        let number = |name: String| name.strip_prefix("cpu")?.parse().ok();
        let mut cpus: Vec<u32> = entries
            .flatten()
            .filter_map(|entry| number(entry.file_name().into_string().ok()?))
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Gives each processor a buffer of so many bytes, in the first of these sizes of sub-buffers
    /// (in KiB) that the kernel has memory for; half as large and so on where it has none at all.
    pub(super) fn set_buffer(&self, sub_buffers: &[u64], bytes: u64) -> Result<(), RecordError> {
        let mut kibibytes = (bytes / 1024).max(LEAST_KIB);
        loop {
            let mut last = Ok(());
            for size in sub_buffers {
                // Kernels before 6.8 have no choice.
                let _ = self.write("buffer_subbuf_size_kb", &size.to_string());
                last = self.write("buffer_size_kb", &kibibytes.to_string());
                if last.is_ok() {
                    return last;
                }
            }
            kibibytes /= 2;
            if kibibytes < LEAST_KIB {
                return last;
            }
        }
    }

    /// How large each processor's buffer is.
    pub(super) fn buffer_bytes(&self) -> Result<u64, RecordError> {
        let text = self.read("buffer_size_kb")?;
        // The kernel may add to it in words, or say `X` where processors differ.
        let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
        Ok(number.unwrap_or(LEAST_KIB).saturating_mul(1024))
    }

    /// Enables these tracepoints, each with its filter, and answers how they lie. One that this
    /// kernel does not have is left out.
    pub(super) fn enable(
        &self,
        events: &[(&'static str, String)],
    ) -> Result<Vec<EventFormat>, RecordError> {
        let mut formats = Vec::new();
        for (name, filter) in events {
            let directory = format!("events/block/{name}");
            if !self.path(&directory).exists() {
                continue;
            }
            let format = self.read(&format!("{directory}/format"))?;
            let id = format.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
            let Some(id) = id else { continue };
            self.write(&format!("{directory}/filter"), filter)?;
            self.write(&format!("{directory}/enable"), "1")?;
            formats.push(EventFormat { id, name: (*name).to_owned(), format });
        }
        Ok(formats)
    }

    /// Opens the pages of a processor's buffer, to be read without waiting.
    pub(super) fn pipe(&self, cpu: u32) -> Result<File, RecordError> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(&path).map_err(|error| RecordError::system("open", &path, error))
    }

    /// Opens the counters of a processor's buffer; each reading from the start counts anew.
    pub(super) fn stats(&self, cpu: u32) -> Result<File, RecordError> {
        let path = self.path(&format!("per_cpu/cpu{cpu}/stats"));
        File::open(&path).map_err(|error| RecordError::system("open", &path, error))
    }

    /// Takes it out of the kernel; its files must be closed.
    pub(super) fn remove(&mut self) -> Result<(), RecordError> {
        if self.is_removed {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            match fs::remove_dir(&self.directory) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(_) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(10)),
                Err(error) => return Err(RecordError::system("remove", &self.directory, error)),
            }
        }
        self.is_removed = true;
        Ok(())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = self.remove();
    }
}

/// What a file of tracefs says. Some of them give all that they have to the first read and nothing
/// to a second one, and others count anew for each, so the first is a large one.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let (mut file, mut bytes) = (File::open(path)?, vec![0; TEXT_MAX]);
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..])? {
            0 => break,
            read => length += read,
        }
    }
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names of all instances.
pub(super) fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
