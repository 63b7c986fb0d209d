//! Trees of files, as volumes.
//!
//! A load on files must know what is there: reading a file that was deleted measures an error. But
//! a tree of a hundred million files must fit into memory, so nothing of a file is kept but its
//! state: names and sizes follow from its number ([`Geometry`]). File k lies at k·S of its volume,
//! where S is a power of two that no file is larger than, directories behind the files; so requests
//! for files are requests like any others, and go through the same engine.
//!
//! Threads claim a file ([`States`]), do what their load says ([`Clients`]) and give it back. None
//! of this does any I/O: the calls go to a [`crate::Device`], a directory or one in memory
//! ([`InMemory`]).

mod clients;
mod flow;
mod geometry;
mod idle;
mod load;
mod memory;
mod states;
mod supply;
#[cfg(test)]
mod tests;
mod waits;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

pub use clients::{Call, Clients, Next};
pub use flow::FileFlow;
pub use geometry::{CONTROL, DirectoryName, Geometry, MARKER, TreeError, file_number};
pub use load::{Access, FileLoad, Select, Task};
pub use memory::{AtRest, InMemory, NameMischief, NameMisdeed, Names};
use states::taken;
pub use states::{Claim, FileState, States};
use supply::Supply;
use waits::SlowCall;

/// A tree, with the state of everything in it.
#[derive(Debug)]
pub struct Tree {
    /// Its names and sizes.
    pub geometry: Geometry,
    /// What of it is there.
    pub states: States,
    /// Who changes that, and who waits for it.
    supply: Arc<Supply>,
    /// The last call that took far longer than others.
    slow: Apart<SlowCall>,
}

/// What threads change with every call, in cache lines of its own: what lies beside it is read by
/// all of them with every call.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// How many files or directories are put before it is looked whether to stop.
const LOOK_EVERY: u64 = 1 << 16;

impl Tree {
    /// A tree of which nothing is there.
    pub fn new(geometry: Geometry) -> Self {
        let states = States::new(geometry.files(), geometry.directories());
        Self { geometry, states, supply: Arc::default(), slow: Apart::default() }
    }

    /// Makes all that the word says be there, as if it had been found: `nothing`, `directories`,
    /// `empty` (files without data) or `full`.
    pub fn suppose(&self, found: Found) {
        self.suppose_until(found, &AtomicBool::new(false));
    }

    /// The same; goes no further when `stop` is raised, as a large tree takes seconds.
    pub fn suppose_until(&self, found: Found, stop: &AtomicBool) {
        if found == Found::Nothing {
            return;
        }
        let is_stopped = |number: u64| number.is_multiple_of(LOOK_EVERY) && stop.load(Relaxed);
        for directory in (0..self.geometry.directories()).take_while(|it| !is_stopped(*it)) {
            self.put_directory(directory);
        }
        if found == Found::Directories {
            return;
        }
        for file in (0..self.geometry.files()).take_while(|it| !is_stopped(*it)) {
            let size = self.geometry.size(file);
            self.put_file(file, if found == Found::Full { size } else { 0 });
        }
    }

    /// Makes sure that the directory of a new file stays, and counts the file there.
    fn reserve(&self, file: u64) -> Result<(), Claim> {
        let directory = self.geometry.directory_of(file);
        directory
            .map_or(Ok(()), |directory| taken(self.states.reserve_child(directory)).map(|_| ()))
    }

    /// A file is not in its directory.
    fn unreserve(&self, file: u64) {
        if let Some(directory) = self.geometry.directory_of(file) {
            self.states.remove_child(directory);
        }
    }

    /// A directory was found.
    pub fn put_directory(&self, directory: u64) {
        if self.states.put_directory(directory)
            && let Some(parent) = self.geometry.parent(directory)
        {
            self.states.add_child(parent);
        }
    }

    /// A file of so many bytes was found.
    pub fn put_file(&self, file: u64, bytes: u64) {
        let state =
            if bytes >= self.geometry.size(file) { FileState::Full } else { FileState::Empty };
        if self.states.put_file(file, state, bytes)
            && let Some(directory) = self.geometry.directory_of(file)
        {
            self.states.add_child(directory);
        }
    }
}

/// What of a tree is there at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    #[default]
    Nothing,
    /// All directories, and no file.
    Directories,
    /// All files, without data.
    Empty,
    /// All files, each of its size.
    Full,
}

impl Found {
    /// All of them, with their words.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("nothing", Self::Nothing),
        ("directories", Self::Directories),
        ("empty", Self::Empty),
        ("full", Self::Full),
    ];
}
