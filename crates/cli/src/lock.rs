//! Locks that other processes may hold.
//!
//! Another process may hold a lock for long: it may have been stopped, or fetch gigabytes. A
//! command that waits without a message looks as if it hung.

use std::fs::{File, TryLockError};
use std::io;

use crate::print::tell;

/// Locks the file for this process until it is closed. If another process holds it, a message with
/// `waiting_for` is printed.
pub(crate) fn take(file: &File, waiting_for: impl FnOnce() -> String) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => {
            tell(&format!("waiting for another process {}", waiting_for()));
            file.lock()
        }
    }
}
