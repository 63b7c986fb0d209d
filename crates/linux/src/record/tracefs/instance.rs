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
use crate::record::mounted::Held;
use crate::record::owner::new_name;

/// The directory of tracefs that has all instances.
pub(super) const INSTANCES: &str = "instances";

/// The directory of an instance that has the buffers.
const PER_CPU: &str = "per_cpu";

/// How long the kernel may take to let go of what has just been closed.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// No text of tracefs that is read here is longer.
const TEXT_MAX: usize = 16 << 10;

/// The smallest buffer that is still tried where the kernel has no memory for a larger one.
const LEAST_KIB: u64 = 256;

/// A trace instance of this process.
#[derive(Debug)]
pub(super) struct Instance {
    root: Held,
    /// Its directory, from the root.
    directory: String,
    is_removed: bool,
}

impl Instance {
    /// Makes one, below this tracefs.
    pub(super) fn new(root: Held) -> Result<Self, RecordError> {
        let directory = format!("{INSTANCES}/{}", new_name());
        let made = fs::create_dir(root.path(&directory));
        made.map_err(|error| refused(&root.named(&directory), &error))?;
        Ok(Self { root, directory, is_removed: false })
    }

    /// The path by which this process reaches one of its files.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path(&self.directory).join(name)
    }

    /// The path of one of its files for people.
    pub(super) fn named(&self, name: &str) -> PathBuf {
        let directory = self.root.named(&self.directory);
        if name.is_empty() { directory } else { directory.join(name) }
    }

    /// An error of one of its files.
    fn failed<'a>(&'a self, to: &'static str, name: &'a str) -> impl Fn(io::Error) -> RecordError {
        move |error| RecordError::system(to, &self.named(name), error)
    }

    pub(super) fn write(&self, name: &str, value: &str) -> Result<(), RecordError> {
        fs::write(self.path(name), value).map_err(self.failed("write", name))
    }

    pub(super) fn read(&self, name: &str) -> Result<String, RecordError> {
        read_text(&self.path(name)).map_err(self.failed("read", name))
    }

    /// The processors that it has buffers for.
    pub(super) fn cpus(&self) -> Result<Vec<u32>, RecordError> {
        let entries = fs::read_dir(self.path(PER_CPU)).map_err(self.failed("read", PER_CPU))?;
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

    /// How the events of a tracepoint lie; `None` where this kernel does not have it.
    pub(super) fn format(
        &self,
        system: &str,
        name: &str,
    ) -> Result<Option<EventFormat>, RecordError> {
        let directory = format!("events/{system}/{name}");
        if !self.path(&directory).exists() {
            return Ok(None);
        }
        let format = self.read(&format!("{directory}/format"))?;
        let id = format.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        Ok(id.map(|id| EventFormat { id, name: name.to_owned(), format }))
    }

    /// Enables a tracepoint.
    pub(super) fn enable(&self, system: &str, name: &str) -> Result<(), RecordError> {
        self.write(&format!("events/{system}/{name}/enable"), "1")
    }

    /// Enables these tracepoints of block devices, each with its filter, and answers how they lie.
    /// One that this kernel does not have is left out.
    pub(super) fn enable_filtered(
        &self,
        events: &[(&'static str, String)],
    ) -> Result<Vec<EventFormat>, RecordError> {
        let mut formats = Vec::new();
        for (name, filter) in events {
            let Some(format) = self.format("block", name)? else { continue };
            self.write(&format!("events/block/{name}/filter"), filter)?;
            self.enable("block", name)?;
            formats.push(format);
        }
        Ok(formats)
    }

    /// Opens the pages of a processor's buffer, to be read without waiting.
    pub(super) fn pipe(&self, cpu: u32) -> Result<File, RecordError> {
        let name = format!("{PER_CPU}/cpu{cpu}/trace_pipe_raw");
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(self.path(&name)).map_err(self.failed("open", &name))
    }

    /// Opens the counters of a processor's buffer; each reading from the start counts anew.
    pub(super) fn stats(&self, cpu: u32) -> Result<File, RecordError> {
        let name = format!("{PER_CPU}/cpu{cpu}/stats");
        File::open(self.path(&name)).map_err(self.failed("open", &name))
    }

    /// Takes it out of the kernel; its files must be closed.
    pub(super) fn remove(&mut self) -> Result<(), RecordError> {
        if self.is_removed {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            match fs::remove_dir(self.path("")) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(_) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(10)),
                Err(error) => return Err(self.failed("remove", "")(error)),
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
pub(super) fn names(root: &Held) -> Vec<String> {
    let entries = fs::read_dir(root.path(INSTANCES)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
