//! How far the targets of a run reach.
//!
//! What a generated load does follows from its line and from where it goes: names and sizes from
//! the shape of a tree, places from the size of a device. Facts tell both only by the name that was
//! typed.

use ioecho_replay::tree::Geometry;
use ioecho_trace::Bytes;

use crate::facts::TargetEntry;
use crate::{simulated, tree_target};

/// The shape of a target's tree of files, if it is one.
pub fn shape(target: &TargetEntry) -> Option<Geometry> {
    let name = match target {
        TargetEntry::Tree(target) => &target.tree,
        TargetEntry::Simulated(it) if target.is_of_files() => &it.simulated,
        TargetEntry::Simulated(_) | TargetEntry::Real(_) => return None,
    };
    tree_target::shape(name).ok().map(|(geometry, _)| geometry)
}

/// The size of a device or file, if the target is one and its size is known.
pub fn capacity(target: &TargetEntry) -> Option<Bytes> {
    match target {
        TargetEntry::Real(target) => Some(target.capacity),
        TargetEntry::Simulated(it) if !target.is_of_files() => {
            simulated::capacity(simulated::description(&it.simulated)?).ok()
        }
        TargetEntry::Simulated(_) | TargetEntry::Tree(_) => None,
    }
}
