//! Trees of files on a file system: the anchor, the calls of one thread, and reading back.

mod anchor;
mod device;
mod reading;
#[cfg(test)]
mod tests;

pub use anchor::{Anchor, AnchorState, Found, changed_by, inspect};
pub use device::{FilesDevice, FilesOptions};
pub use reading::FilesReader;
