//! Damage of a packed file, as opposed to a disk that cannot be read.
//!
//! A reader sees an `io::Error` in either case, and their kinds overlap. So a decoder's errors are
//! wrapped in a type that nothing else uses.

use std::io;

/// The damage that a decoder found.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Damage {
    what: String,
    remedy: &'static str,
}

/// An error that [`damage`] knows.
pub(super) fn error(what: String, remedy: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Damage { what, remedy })
}

/// The remedy of a file that was damaged on its way here.
pub(super) const AGAIN: &str = "get the file again";

fn of(error: &io::Error) -> Option<&Damage> {
    error.get_ref()?.downcast_ref()
}

/// The damage of the packed stream, if `error` came from unpacking and not from the file system
/// beneath.
pub fn damage(error: &io::Error) -> Option<String> {
    of(error).map(|damage| damage.what.clone())
}

/// The remedy for the damage.
pub fn remedy(error: &io::Error) -> &'static str {
    of(error).map_or(AGAIN, |damage| damage.remedy)
}
