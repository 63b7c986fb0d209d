//! What stands between a typing error and somebody's data.
//!
//! `/dev/sdb` instead of `/dev/sdc` is one key, and a replay overwrites it without a sound. So
//! before anything is opened for writing, the target is looked at for every sign that somebody
//! needs it: it is in use (`users`), it carries the signature of something (`signature`, and
//! util-linux's blkid for what the table does not know), or it is a file with any data at all that
//! ioecho did not write (`content`): a file is somebody's document until proven otherwise, while a
//! device without a signature is a blank one, or one that was filled for a measurement.
//!
//! What is in use stays untouchable. The rest may be destroyed by whoever names it.

mod blkid;
mod content;
mod elsewhere;
mod hazard;
mod signature;
mod users;
pub(crate) mod writers;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::target::{TargetError, TargetKind, kind_of, size_of, status};
use content::Content;

pub use hazard::Hazard;

/// Everything that speaks against writing to the block device or file at `path`, the gravest first;
/// nothing where it is blank and nobody uses it. Reads only.
///
/// Call it before the target is opened: its own user would be a hazard too.
pub fn inspect(path: &Path) -> Result<Vec<Hazard>, TargetError> {
    let data = status(path)?;
    let kind = kind_of(path, &data)?;
    let mut hazards = Vec::new();
    if kind == TargetKind::BlockDevice {
        hazards = users::of_device(path, &data);
    }
    let file = match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => File::from(file),
        // That it is mounted says more than that it may not be opened.
        Err(_) if !hazards.is_empty() => return Ok(hazards),
        Err(error) => return Err(TargetError::opening(path, false, error)),
    };
    let size = size_of(&file, kind)
        .map_err(|error| TargetError::system(path, "ask for its size", error))?;
    if kind == TargetKind::BlockDevice && size == 0 {
        return Err(TargetError::no_medium(path, data.rdev()));
    }
    if kind == TargetKind::File {
        hazards = users::of_file(&file, &data);
    }

    let content = Content::new(&file, size);
    let mut signatures = signature::find(&content).map_err(|source| TargetError::System {
        path: path.to_owned(),
        action: "read it",
        source,
    })?;
    if signatures.is_empty() {
        signatures.extend(blkid::ask(path));
    }
    hazards.append(&mut signatures);
    if kind == TargetKind::File && hazards.iter().all(|hazard| !hazard.can_be_named()) {
        hazards.extend(content.foreign_data().map(|at| Hazard::HoldsData { at }));
    }
    Ok(hazards)
}
