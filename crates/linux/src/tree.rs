//! Trees of files on a file system: the anchor, the calls of one thread, and reading back.

mod anchor;
mod before;
mod device;
mod direct;
mod inline;
mod mark;
mod overlapping;
mod reading;
mod recorded;
#[cfg(test)]
mod tests;

pub use anchor::{Anchor, AnchorState, Found, changed_by, inspect, tree_around};
pub use before::{Made, make_before, needed_before};
pub use device::{FilesDevice, FilesOptions, kept_by_each};
pub use overlapping::OverlappingDevice;
pub use reading::FilesReader;
pub use recorded::{RecordedDevice, knows_no_replace};
