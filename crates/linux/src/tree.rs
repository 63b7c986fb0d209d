//! Trees of files on a file system: the anchor, and the calls of one thread.

mod anchor;
mod before;
mod device;
mod recorded;
#[cfg(test)]
mod tests;

pub use anchor::{Anchor, AnchorState, Found, changed_by, inspect};
pub use before::{Made, make_before};
pub use device::{FilesDevice, FilesOptions};
pub use recorded::RecordedDevice;
