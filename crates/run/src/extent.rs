//! How far the targets of a run reach.
//!
//! What a generated load does follows from its line and from where it goes: names and sizes from
//! the shape of a tree, places from the size of a device. Facts tell both only by the name that was
//! typed.

use ioecho_replay::tree::Geometry;
use ioecho_trace::{Bytes, Header};

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

/// Says which file or directory lies at a place of a volume, and how far behind its begin the place
/// is; nothing of devices. The trees of a run have names that follow from their shape, recorded
/// files those that the trace has.
pub fn files(
    targets: &[TargetEntry],
    header: &Header,
) -> impl Fn(u32, u64) -> Option<(String, u64)> {
    let shape = |(number, target): (usize, &TargetEntry)| {
        let volume = header.volumes.get(number)?;
        let shape = shape(target).filter(|_| volume.name == target.name())?;
        Some((volume.id.0, shape))
    };
    let trees: Vec<(u32, Geometry)> = targets.iter().enumerate().filter_map(shape).collect();
    move |volume, place| {
        if let Some(recorded) = &header.files {
            let (named, within) = recorded.at(place)?;
            return Some((format!("/{}", named.path), within));
        }
        let (_, tree) = trees.iter().find(|(number, _)| *number == volume)?;
        let number = tree.number_at(place);
        let is_there = number < tree.files() + tree.directories();
        is_there.then(|| (tree.path(number), tree.within(place)))
    }
}
