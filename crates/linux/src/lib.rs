//! What ioecho asks of Linux.
//!
//! The engine may not know whether it runs on a kernel or in simulation, and unsafe code must stay
//! where a reader can find all of it. So every call into the kernel is here, behind the engine's
//! two seams ([`MonotonicClock`], [`device`]) or as plain facts ([`target`], [`facts`]), and so is
//! what stands between a typing error and somebody's data ([`guard`]). What a run may ask of the
//! host beyond that is in [`host`], what the kernel counts beside it in [`watch`], what a device
//! really got in [`record`], what writing to a path would change in [`ground`].
//!
//! A replay goes through this crate in this order: [`guard::inspect`] the path, [`target::claim`]
//! it, [`guard::inspect_opened`] what is open, [`device::open_device`] on it.

mod chain;
pub mod clock;
pub mod device;
pub mod facts;
pub mod ground;
pub mod guard;
pub mod host;
mod mounts;
pub mod open_directory;
pub mod pipe;
pub mod record;
mod sysfs;
pub mod target;
pub mod thread;
pub mod watch;

pub use clock::MonotonicClock;
pub use device::{Backend, DeviceError, DeviceOptions, open_device};
pub use facts::HostDescription;
pub use guard::{Hazard, Recheck, Unknown, inspect, inspect_opened};
pub use host::{AppliedSetup, HostError, HostSetup};
pub use open_directory::OpenDirectory;
pub use target::{Access, OpenOptions, OpenedTarget, TargetError, TargetFacts};
