//! What loads and devices are, whatever they are called.
//!
//! A result belongs to the bytes of a load and to a device with its serial number, not to their
//! paths: another file of the same name is another load, and another disk in the same slot another
//! device.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ioecho_campaign::file::{FROM_STACK, Proof};
use ioecho_campaign::plan::{Ground, is_simulated, is_tree};
use ioecho_campaign::rate::Part;
use ioecho_campaign::template::filled;
use ioecho_replay::tree::FileLoad;
use ioecho_run::digest;
use ioecho_run::flows::{FlowSpec, FlowSpecError};
use ioecho_run::named::file_named;
use ioecho_run::simulated;
use ioecho_trace::generate;

use crate::exit;
use crate::fetch::is_url;

/// The facts of a device that tell it from others, below its directory in `/sys/dev/block`.
const SERIALS: [&str; 5] = ["device/serial", "serial", "device/wwid", "wwid", "loop/backing_file"];

/// Those of devices that are made of others.
const UUIDS: [&str; 2] = ["dm/uuid", "md/uuid"];

/// The one of a loop device.
const BACKINGS: [&str; 1] = ["loop/backing_file"];

/// The directory of the facts of a block device.
fn facts_of(metadata: &fs::Metadata) -> PathBuf {
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// What a device must have, in words, and the facts that may be it.
fn wanted(proof: &Proof) -> impl Iterator<Item = (&'static str, &str, &'static [&'static str])> {
    let Proof { serial, wwn, uuid, backing } = proof;
    [
        ("serial number", serial, &SERIALS[..]),
        ("world-wide name", wwn, &["device/wwid", "wwid"][..]),
        ("UUID", uuid, &UUIDS[..]),
        ("backing file", backing, &BACKINGS[..]),
    ]
    .into_iter()
    .filter_map(|(what, wanted, facts)| Some((what, wanted.as_deref()?, facts)))
}

/// This machine.
pub(super) struct Here {
    /// Relative paths begin here.
    base: PathBuf,
    known: RefCell<HashMap<String, String>>,
    /// The exit code that the last refusal asks for.
    code: RefCell<u8>,
    /// Loads and targets that are not there, where a plan is shown all the same.
    lacks: Option<RefCell<BTreeSet<String>>>,
}

impl Here {
    pub(super) fn new(base: &Path) -> Self {
        let code = RefCell::new(exit::USAGE);
        Self { base: base.to_owned(), known: RefCell::default(), code, lacks: None }
    }

    /// The same, for a plan that is only shown: what is not there yet is listed, not refused.
    pub(super) fn that_may_lack(self) -> Self {
        Self { lacks: Some(RefCell::default()), ..self }
    }

    /// The loads and targets that are not there, with the reasons.
    pub(super) fn lacks(&self) -> Vec<String> {
        let lacks = self.lacks.as_ref().map(|lacks| lacks.borrow().iter().cloned().collect());
        lacks.unwrap_or_default()
    }

    /// What is missing gets an identity of its own, if a plan is only shown.
    fn or_lacking(&self, name: &str, found: Result<String, String>) -> Result<String, String> {
        match (found, &self.lacks) {
            (Err(reason), Some(lacks)) if self.code() != exit::REFUSED => {
                lacks.borrow_mut().insert(reason);
                Ok(format!("missing:{name}"))
            }
            (found, _) => found,
        }
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
    pub(super) fn device_now(&self, target: &str, proof: &Proof) -> Result<String, String> {
        if is_simulated(target) || is_tree(target) || target == FROM_STACK {
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
        let facts = facts_of(&metadata);
        let read = |name: &&str| fs::read_to_string(facts.join(name)).ok();
        let found: Vec<String> =
            SERIALS.iter().filter_map(read).map(|it| it.trim().to_owned()).collect();
        let size = read(&"size").unwrap_or_default();
        for (what, wanted, facts) in wanted(proof) {
            let found: Vec<String> =
                facts.iter().filter_map(read).map(|it| it.trim().to_owned()).collect();
            if !found.iter().any(|it| it == wanted) {
                let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
                let reason = format!("{target} has not the {what} '{wanted}' (found: {found})");
                return self.refuse(exit::REFUSED, reason);
            }
        }
        let given = wanted(proof).next().map(|(_, wanted, _)| wanted.to_owned());
        let first = || found.first().cloned().unwrap_or_else(|| path.display().to_string());
        Ok(format!("block:{}:{}", given.unwrap_or_else(first), size.trim()))
    }

    /// What tells the device at a path from any other that it may lead to: the first fact that
    /// the kernel knows of it.
    pub(super) fn proof_now(&self, target: &str) -> Proof {
        let metadata = fs::metadata(self.base.join(target));
        let Some(metadata) = metadata.ok().filter(|it| it.file_type().is_block_device()) else {
            return Proof::default();
        };
        let fact = |name: &str| {
            let fact = fs::read_to_string(facts_of(&metadata).join(name)).ok()?;
            Some(fact.trim().to_owned()).filter(|fact| !fact.is_empty())
        };
        let first = |names: &[&str]| names.iter().find_map(|name| fact(name));
        if let Some(backing) = first(&BACKINGS) {
            return Proof { backing: Some(backing), ..Proof::default() };
        }
        if let Some(uuid) = first(&UUIDS) {
            return Proof { uuid: Some(uuid), ..Proof::default() };
        }
        Proof { serial: first(&SERIALS), ..Proof::default() }
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
        // A wrong description is not something that is missing.
        let described = Path::new(trace);
        if generate::is_line(described)
            && let Err(error) = generate::check(described)
        {
            return self.refuse(exit::USAGE, error.to_string());
        }
        let found = self.or_lacking(trace, self.load_now(trace))?;
        self.known.borrow_mut().insert(trace.to_owned(), found.clone());
        Ok(found)
    }

    fn flow(&self, flow: &str) -> Result<Option<String>, String> {
        let refuse = |reason: String| self.refuse(exit::USAGE, reason);
        let spec: FlowSpec = match flow.parse() {
            Ok(spec) => spec,
            Err(error) => return refuse(FlowSpecError::to_string(&error)),
        };
        let line = spec.load.to_string_lossy();
        if FileLoad::is_line(&line) {
            let checked = line.parse::<FileLoad>().map(|_| None);
            return checked.or_else(|error| refuse(error.to_string()));
        }
        if !generate::is_line(&spec.load) {
            return self.load(&spec.load.to_string_lossy()).map(Some);
        }
        // A rate that is not known yet is a number in the end.
        let some_rate = |name: &str| Part::read(name).map(|part| part.typed(1000.0));
        let line = filled(&spec.load.to_string_lossy(), &some_rate);
        match generate::check(Path::new(&line)) {
            Ok(()) => Ok(None),
            Err(error) => refuse(error.to_string()),
        }
    }

    fn program(&self, name: &str) -> Option<String> {
        // The system's programs are recorded with the environment; the user's own belong to a cell.
        let path = self.base.join(name);
        if !name.contains('/') || !path.starts_with(&self.base) {
            return None;
        }
        digest::of_file(&path).ok().map(|digits| format!("sha256:{digits}"))
    }

    fn device(&self, target: &str, proof: &Proof) -> Result<String, String> {
        let name = format!("device {target}");
        if let Some(known) = self.known.borrow().get(&name) {
            return Ok(known.clone());
        }
        if let Some(described) = target.strip_prefix("sim:")
            && let Err(error) = simulated::check(described)
        {
            return self.refuse(exit::USAGE, error.to_string());
        }
        let found = self.or_lacking(target, self.device_now(target, proof))?;
        self.known.borrow_mut().insert(name, found.clone());
        Ok(found)
    }
}
