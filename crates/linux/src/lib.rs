//! ioecho's interface to Linux.
//!
//! The engine must not know whether it runs on a kernel or in simulation, and all unsafe code must
//! be in one crate. So every call into the kernel is here: behind the engine's two traits
//! ([`MonotonicClock`], [`device`]), as plain facts ([`target`], [`facts`]), and in the [`guard`]
//! against overwriting somebody's data. [`host`] claims resources of the host for a run, [`watch`]
//! reads the kernel's counters during it, [`record`] records the requests that a device really got,
//! and [`ground`] tells which bytes a write to a path changes.
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
mod inherited;
mod mounts;
pub mod open_directory;
pub mod pipe;
pub mod pulse;
pub mod record;
pub mod setting;
mod sysfs;
pub mod target;
pub mod thread;
pub mod tree;
pub mod watch;

pub use clock::MonotonicClock;
pub use device::{Backend, DeviceError, DeviceOptions, open_device, open_devices};
pub use facts::HostDescription;
pub use guard::{Hazard, Recheck, Unknown, inspect, inspect_opened};
pub use host::{AppliedSetup, HostError, HostSetup};
pub use inherited::{Use, inherited};
pub use open_directory::OpenDirectory;
pub use target::{Access, OpenOptions, OpenedTarget, TargetError, TargetFacts};
