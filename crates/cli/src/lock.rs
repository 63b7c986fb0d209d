//! A lock that others may hold.
//!
//! Who holds a lock may have been stopped, or fetch gigabytes, and a command that waits for it
//! without a word looks as if it hung.

use std::fs::{File, TryLockError};
use std::io;

use crate::print::tell;

/// Locks the file for this process alone, until it is closed. If another process holds it,
/// `waiting_for` says what is waited for.
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
