//! Simulated time and a simulated device.
//!
//! The engine's promises can be neither proven nor repeated on a real machine, where time passes
//! differently every time. In simulation it passes only when somebody waits, a seed fixes
//! everything, and an hour's replay takes as long as its requests take to compute. Users get the
//! same device with `--target sim:…`, to try a load or a campaign without any storage.
//!
//! [`SimSpec`] is what a user writes, [`models`] how long a request takes, [`Faults`] what goes
//! wrong by chance and is told, [`Mischief`] what goes wrong and is *not* told: a device that holds
//! what is written ([`SimDevice::with_data`]) can lose, tear and misplace it, for tests of
//! verification that know what was done.

mod clock;
mod data;
mod device;
mod faults;
mod joined;
mod mischief;
pub mod models;
mod pace;
mod sectors;
mod spec;

pub use clock::SimClock;
pub(crate) use device::Copied;
pub use device::SimDevice;
pub(crate) use faults::ENODEV;
pub use faults::Faults;
pub use joined::JoinedDevices;
pub use mischief::{Mischief, MischiefKind, Misdeed};
pub use models::ServiceModel;
pub use pace::Pace;
pub use sectors::{SECTOR_BYTES, SectorStore};
pub use spec::{SimSpec, SimSpecError};
