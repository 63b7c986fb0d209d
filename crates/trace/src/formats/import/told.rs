//! What a parser tells of the whole of a file, as far as it was read.
//!
//! A guess about every request is one note with a growing count. If it were added at the end of the
//! file, a replay of its first minute would be told that nothing was guessed.

use crate::header::{Notes, Topic};

/// The losses and guesses of a parser that grow with every request, counted from the beginning of
/// the file.
#[derive(Debug, Default)]
pub struct Told {
    /// The losses.
    pub losses: Notes,
    /// The guesses.
    pub guesses: Notes,
    requests: u64,
}

impl Told {
    /// Nothing yet of so many requests.
    pub(super) fn of(requests: u64) -> Self {
        Self { requests, ..Self::default() }
    }

    /// Notes a guess about every request, if it `is_made`.
    pub fn guess_all(&mut self, is_made: bool, what: Topic<'_>) {
        if is_made {
            self.guesses.add(what, self.requests, None);
        }
    }
}
