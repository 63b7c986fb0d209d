//! What the kernel counts beside a run.
//!
//! A run's own records cannot show that the device worked for others too, that the kernel cut its
//! requests, that a clock stepped or that the processors were taken away. The kernel counts all of
//! this for everybody, without cost to the run: so its counters are read before the first request
//! and after the last ([`DeviceState`], [`CpuState`]), and what only shows meanwhile is sampled
//! ([`ClockWatch`], [`mean_frequency_khz`]). What the kernel does not tell is absent.

mod clock;
mod cpu;
mod device;
mod file_io;

pub use clock::{ClockSample, ClockWatch, is_synchronised};
pub use cpu::{CpuState, mean_frequency_khz, own_wait, usable_cpus};
pub use device::{Counters, DeviceState, LayerState};
pub use file_io::{FileIoState, Helpers};
