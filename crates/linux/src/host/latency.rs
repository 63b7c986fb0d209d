//! Processors that do not sleep deeply.
//!
//! An idle processor sleeps, and from the deepest sleep it takes 100 µs and more to wake: a request
//! that falls due or completes then is late by this time. `/dev/cpu_dma_latency` takes a limit in
//! microseconds, which holds as long as the file is open
//! (`Documentation/power/pm_qos_interface.rst`).

use std::fs::File;
use std::io::Write;

use super::error::HostError;

/// What stands in the run's facts.
pub(super) const FACT: &str = "processors were kept from deep sleep (cpu_dma_latency 0 µs)";

/// Forbids deep sleep until the file is closed.
pub(super) fn hold() -> Result<File, HostError> {
    let hold = || {
        let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    };
    hold().map_err(|source| HostError::DmaLatency { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_or_refused_with_a_remedy() {
        match hold() {
            Ok(file) => drop(file),
            Err(error) => assert!(error.to_string().contains("= help:"), "{error}"),
        }
    }
}
