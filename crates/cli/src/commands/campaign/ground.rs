//! What loads and devices are, whatever they are called.
//!
//! A result belongs to the bytes of a load and to a device with its serial number, not to their
//! paths: another file of the same name is another load, and another disk in the same slot another
//! device.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ioecho_campaign::plan::Ground;
use ioecho_run::digest;
use ioecho_run::named::file_named;

use crate::exit;
use crate::fetch::is_url;

/// The facts of a device that tell it from others, below its directory in `/sys/dev/block`.
const SERIALS: [&str; 5] = ["device/serial", "serial", "device/wwid", "wwid", "loop/backing_file"];

/// This machine.
pub(super) struct Here {
    /// Relative paths begin here.
    base: PathBuf,
    known: RefCell<HashMap<String, String>>,
    /// The exit code that the last refusal asks for.
    code: RefCell<u8>,
}

impl Here {
    pub(super) fn new(base: &Path) -> Self {
        Self { base: base.to_owned(), known: RefCell::default(), code: RefCell::new(exit::USAGE) }
    }

    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// The exit code that the last refusal asks for.
    pub(super) fn code(&self) -> u8 {
        *self.code.borrow()
    }

    fn refuse<T>(&self, code: u8, reason: String) -> Result<T, String> {
        *self.code.borrow_mut() = code;
        Err(reason)
    }

    /// The identity of a device as it is now.
    pub(super) fn device_now(&self, target: &str, serial: Option<&str>) -> Result<String, String> {
        if is_simulated(target) {
            return Ok(target.to_owned());
        }
        let path = self.base.join(target);
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(exit::TARGET, format!("{target}: {error}")),
        };
        if !metadata.file_type().is_block_device() {
            return Ok(format!("file:{}:{}", metadata.dev(), metadata.ino()));
        }
        let (major, minor) =
            (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let facts = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let read = |name: &&str| fs::read_to_string(facts.join(name)).ok();
        let found: Vec<String> =
            SERIALS.iter().filter_map(read).map(|it| it.trim().to_owned()).collect();
        let size = read(&"size").unwrap_or_default();
        match serial {
            Some(serial) if !found.iter().any(|it| it == serial) => {
                let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
                let reason =
                    format!("{target} has not the serial number '{serial}' (found: {found})");
                self.refuse(exit::REFUSED, reason)
            }
            Some(serial) => Ok(format!("block:{serial}:{}", size.trim())),
            None => {
                let first = found.first().cloned().unwrap_or_else(|| path.display().to_string());
                Ok(format!("block:{first}:{}", size.trim()))
            }
        }
    }

    /// Whether the target is a block device, which `--destroy` needs a serial number for.
    pub(super) fn is_block(&self, target: &str) -> bool {
        let metadata = fs::metadata(self.base.join(target));
        metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
    }

    fn load_now(&self, trace: &str) -> Result<String, String> {
        if trace.starts_with("gen:") {
            return Ok(trace.to_owned());
        }
        if is_url(Path::new(trace)) {
            let reason = format!("{trace}: a campaign does not fetch; convert it to a file first");
            return self.refuse(exit::USAGE, reason);
        }
        let path = file_named(&self.base.join(trace));
        let file = if path.is_dir() { path.join("requests.parquet") } else { path };
        match digest::of_file(&file) {
            Ok(digits) => Ok(format!("sha256:{digits}")),
            Err(error) => self.refuse(exit::TRACE, format!("{}: {error}", file.display())),
        }
    }
}

impl Ground for Here {
    fn load(&self, trace: &str) -> Result<String, String> {
        if let Some(known) = self.known.borrow().get(trace) {
            return Ok(known.clone());
        }
        let found = self.load_now(trace)?;
        self.known.borrow_mut().insert(trace.to_owned(), found.clone());
        Ok(found)
    }

    fn device(&self, target: &str, serial: Option<&str>) -> Result<String, String> {
        let name = format!("device {target}");
        if let Some(known) = self.known.borrow().get(&name) {
            return Ok(known.clone());
        }
        let found = self.device_now(target, serial)?;
        self.known.borrow_mut().insert(name, found.clone());
        Ok(found)
    }
}

/// Whether a target exists in simulated time alone.
pub(super) fn is_simulated(target: &str) -> bool {
    target == "sim" || target.starts_with("sim:")
}
