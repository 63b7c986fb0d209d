//! Trees of files on a file system: the anchor, and the calls of one thread.

mod anchor;
mod device;
#[cfg(test)]
mod tests;

pub use anchor::{Anchor, AnchorState, Found, changed_by, inspect};
pub use device::{FilesDevice, FilesOptions};
