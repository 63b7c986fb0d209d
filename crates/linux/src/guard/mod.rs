//! The guard against overwriting somebody's data after a typing error.
//!
//! `/dev/sdb` instead of `/dev/sdc` is one key, and a replay overwrites it without a sound. So
//! before it is opened for writing, the target is checked for every sign that somebody needs it: it
//! is in use (`users`), it carries the signature of something (`signature`, and util-linux's blkid
//! for what the table does not know), or it holds any data at all that ioecho did not write
//! (`content`). Files and devices are alike in this: an encrypted volume or a raw database carries
//! no signature, and cannot be distinguished from the filling of a device for a measurement, unless
//! ioecho filled it.
//!
//! A target in use is never overwritten. Any other may be destroyed if the user names it; if its
//! use cannot be determined (`unknown`), naming it means that the user knows that it is free.
//!
//! Between this inspection and the first write time passes: a trace is read, somebody makes a file
//! system. So the target is inspected again when it is open ([`inspect_opened`]), and its users are
//! checked again right before the first write ([`Recheck`]).

mod blkid;
mod content;
mod elsewhere;
mod hazard;
mod signature;
mod unknown;
mod users;
pub(crate) mod writers;

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::target::{OpenedTarget, TargetError, TargetKind, block_of, kind_of, size_of, status};
use content::{Content, Seen, Time};
use users::Ours;

pub use hazard::Hazard;
pub use unknown::Unknown;

/// All hazards of writing to the block device or file at `path`, the gravest first; none if it is
/// blank and unused. Reads only, for some seconds at most.
///
/// Call it before the target is opened: its own user would be a hazard too.
pub fn inspect(path: &Path) -> Result<Vec<Hazard>, TargetError> {
    let data = status(path)?;
    let kind = kind_of(path, &data)?;
    let mut hazards = Vec::new();
    if kind == TargetKind::BlockDevice {
        hazards = users::of_device(path, &data, Ours::NotYet);
    }
    let file = match open(path) {
        Ok(file) => file,
        // The hazards found so far are more informative than the error of opening.
        Err(_) if !hazards.is_empty() => return Ok(hazards),
        Err(error) => return Err(TargetError::opening(path, false, error)),
    };
    if kind == TargetKind::File {
        hazards = users::of_file(&file, &data, Ours::NotYet);
    }
    add_contents(&mut hazards, path, &file, &data, Time::FIRST)?;
    Ok(hazards)
}

/// As [`inspect`], for a target that this process has opened for writing. The target is the open
/// file, wherever its path leads by now.
pub fn inspect_opened(target: &OpenedTarget) -> Result<Vec<Hazard>, TargetError> {
    let recheck = Recheck::of(target)?;
    let mut hazards = recheck.users();
    let Recheck { file, path, data } = &recheck;
    add_contents(&mut hazards, path, file, data, Time::AGAIN)?;
    Ok(hazards)
}

/// A target that is open, to see who uses it when a device has taken it over.
#[derive(Debug)]
pub struct Recheck {
    file: File,
    path: PathBuf,
    data: Metadata,
}

impl Recheck {
    /// Of a target that this process has opened to write to it.
    pub fn of(target: &OpenedTarget) -> Result<Self, TargetError> {
        let path = target.facts().path.clone();
        let both = target.file.try_clone().and_then(|file| Ok((file.metadata()?, file)));
        match both {
            Ok((data, file)) => Ok(Self { file, path, data }),
            Err(source) => Err(TargetError::System { path, action: "look at it again", source }),
        }
    }

    /// Who uses it beside this process, the gravest first. Does not read it.
    pub fn users(&self) -> Vec<Hazard> {
        let Self { file, path, data } = self;
        if data.file_type().is_file() {
            users::of_file(file, data, Ours::Already)
        } else {
            users::of_device(path, data, Ours::Already)
        }
    }
}

/// Past the page cache where that is possible.
fn open(path: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty())
        .or_else(|_| rustix::fs::open(path, flags, Mode::empty()))
        .map(File::from)
}

/// Adds the hazards of losing the target's content.
fn add_contents(
    hazards: &mut Vec<Hazard>,
    path: &Path,
    file: &File,
    data: &Metadata,
    time: Time,
) -> Result<(), TargetError> {
    let kind = kind_of(path, data)?;
    let system = |error| TargetError::system(path, "ask for its size", error);
    let size = size_of(file, kind).map_err(system)?;
    if kind == TargetKind::BlockDevice && size == 0 {
        return Err(TargetError::no_medium(path, data.rdev()));
    }
    let mut content = Content::new(file, size, block_of(file, kind));
    if kind == TargetKind::BlockDevice {
        content = content.of_device();
    }
    let mut signatures = signature::find(&content).map_err(|source| TargetError::System {
        path: path.to_owned(),
        action: "read it",
        source,
    })?;
    if signatures.is_empty() {
        signatures.extend(blkid::ask(path));
    }
    // A target in use is refused anyway; and one reason to name it is enough.
    let is_free = hazards.iter().all(Hazard::can_be_named);
    let is_told = |hazard: &Hazard| !matches!(hazard, Hazard::CannotTell { .. });
    let needs_a_look = is_free && signatures.is_empty() && !hazards.iter().any(is_told);
    hazards.append(&mut signatures);
    if needs_a_look {
        match content.look(time) {
            Seen::Blank => {}
            Seen::Foreign(at) => hazards.push(Hazard::HoldsData { at }),
            Seen::TooLittle(places) => {
                let unknown = Unknown::Contents { places };
                hazards.push(Hazard::CannotTell { unknown });
            }
        }
    }
    Ok(())
}
