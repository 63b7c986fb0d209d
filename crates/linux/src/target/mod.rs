//! The target of a replay: a block device or a regular file.
//!
//! Everything that can be wrong with a target must be said before the first request, in words that
//! lead to the remedy; and everything about it that shapes the figures must stand in the run.

mod content;
mod error;
mod facts;
mod ioctl;
mod layers;
mod open;
mod storage;

pub use content::{
    BlockReader, EMPTY_TOLERATED, Part, Places, TargetContent, ToldBy, WrittenBy, doubt, sample,
};
pub use error::TargetError;
pub use facts::{TargetFacts, TargetKind};
pub(crate) use ioctl::discard;
pub use layers::{Layer, layers};
pub use open::{Access, OpenOptions, OpenedTarget, claim, open};
pub(crate) use open::{block_of, direct_block, kind_of, size_of, status};
pub(crate) use storage::{DEPTH_MAX, Keeper, Loop, Storage, loops};
