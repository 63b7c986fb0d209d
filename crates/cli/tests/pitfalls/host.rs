//! Pitfalls of the host and of the kernel between the replay and the device.
