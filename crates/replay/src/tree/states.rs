//! The state of everything in a tree, shared by all threads that work on it.
//!
//! Two bytes say what a file is, whether a thread has it and how many share it, eight more how much
//! of it is written: no locks, no allocation, ten bytes a file. A directory counts what lies in it,
//! so that none is removed that is not empty, and nothing is made in one that is being removed. So
//! is no file removed that several threads are in.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Apart;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileState {
    /// It is not there.
    Absent = 1,
    /// It is there, and not written to its end.
    Empty = 2,
    /// It is there, and has its size.
    Full = 4,
}

impl FileState {
    /// Any state in which it is there.
    pub const THERE: u8 = Self::Empty as u8 | Self::Full as u8;

    const fn of(bits: u16) -> Self {
        match bits & STATE {
            1 => Self::Absent,
            4 => Self::Full,
            _ => Self::Empty,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Empty => 1,
            Self::Full => 2,
        }
    }
}

/// The bits that say what a file is.
const STATE: u16 = 7;
/// A thread has the file.
const BUSY: u16 = 8;
/// It is about to be removed, and nobody else comes into it.
const GOING: u16 = 16;
/// One thread more is in the file, which others may have or be in.
const INSIDE: u16 = 32;

/// A directory is there.
const THERE: u32 = 1;
/// A thread has the directory.
const TAKEN: u32 = 2;
/// One thing more lies in the directory.
const CHILD: u32 = 4;

/// What came of wanting something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the claimer's.
    Taken(FileState),
    /// Another thread has it.
    Busy,
    /// It is not in the wanted state.
    Unfit,
    /// Something lies in it.
    Occupied,
}

/// What was taken was, or why it was not taken.
pub(super) fn taken(claim: Claim) -> Result<FileState, Claim> {
    match claim {
        Claim::Taken(state) => Ok(state),
        other => Err(other),
    }
}

/// The states of a tree's files and directories.
#[derive(Debug)]
pub struct States {
    files: Box<[AtomicU16]>,
    written: Box<[AtomicU64]>,
    directories: Box<[AtomicU32]>,
    counts: Apart<[AtomicU64; 3]>,
    directories_there: AtomicU64,
}

impl States {
    /// Nothing is there.
    pub fn new(files: u64, directories: u64) -> Self {
        let absent = |_| AtomicU16::new(FileState::Absent as u16);
        Self {
            files: (0..files).map(absent).collect(),
            written: (0..files).map(|_| AtomicU64::new(0)).collect(),
            directories: (0..directories).map(|_| AtomicU32::new(0)).collect(),
            counts: Apart([AtomicU64::new(files), AtomicU64::new(0), AtomicU64::new(0)]),
            directories_there: AtomicU64::new(0),
        }
    }

    /// How many files are in any of these states, whoever has them.
    pub fn count(&self, wanted: u8) -> u64 {
        let states = [FileState::Absent, FileState::Empty, FileState::Full];
        let wanted = states.into_iter().filter(|state| wanted & *state as u8 != 0);
        wanted.map(|state| self.counts[state.index()].load(Ordering::Relaxed)).sum()
    }

    /// How many directories are there.
    pub fn directories_there(&self) -> u64 {
        self.directories_there.load(Ordering::Relaxed)
    }

    /// Whether a directory is there.
    pub fn is_directory_there(&self, directory: u64) -> bool {
        self.directories[directory as usize].load(Ordering::Acquire) & THERE != 0
    }

    /// What a file is.
    pub fn file(&self, file: u64) -> FileState {
        FileState::of(self.files[file as usize].load(Ordering::Acquire))
    }

    /// How many bytes of a file are written.
    pub fn written(&self, file: u64) -> u64 {
        self.written[file as usize].load(Ordering::Relaxed)
    }

    /// A file has at least so many bytes now.
    pub fn wrote(&self, file: u64, bytes: u64) {
        self.written[file as usize].fetch_max(bytes, Ordering::Relaxed);
    }

    fn change_file(&self, file: u64, change: impl Fn(u16) -> Result<u16, Claim>) -> Claim {
        let state = &self.files[file as usize];
        let mut seen = state.load(Ordering::Relaxed);
        loop {
            let next = match change(seen) {
                Ok(next) => next,
                Err(claim) => return claim,
            };
            match state.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Claim::Taken(FileState::of(seen)),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes a file that is in one of the wanted states. Others may be in it.
    pub fn claim(&self, file: u64, wanted: u8) -> Claim {
        self.change_file(file, |seen| match seen {
            seen if seen & BUSY != 0 => Err(Claim::Busy),
            seen if seen & u16::from(wanted) == 0 => Err(Claim::Unfit),
            seen => Ok(seen | BUSY),
        })
    }

    /// Takes a file that is in one of the wanted states and that nobody else is in, to remove it:
    /// what is open can be read and written still when its name is gone.
    pub fn claim_to_remove(&self, file: u64, wanted: u8) -> Claim {
        self.change_file(file, |seen| match seen {
            seen if seen & BUSY != 0 || seen >= INSIDE => Err(Claim::Busy),
            seen if seen & u16::from(wanted) == 0 => Err(Claim::Unfit),
            seen => Ok(seen | BUSY | GOING),
        })
    }

    /// Comes into a file that is in one of the wanted states, whoever else has it or is in it.
    pub fn enter(&self, file: u64, wanted: u8) -> Claim {
        self.change_file(file, |seen| match seen {
            seen if seen & GOING != 0 || seen > u16::MAX - INSIDE => Err(Claim::Busy),
            seen if seen & u16::from(wanted) == 0 => Err(Claim::Unfit),
            seen => Ok(seen + INSIDE),
        })
    }

    /// Goes out of a file.
    pub fn leave(&self, file: u64) {
        self.files[file as usize].fetch_sub(INSIDE, Ordering::AcqRel);
    }

    /// Gives a file back, which is in this state now.
    pub fn release(&self, file: u64, now: FileState) {
        if now == FileState::Absent {
            self.written[file as usize].store(0, Ordering::Relaxed);
        }
        self.set_file(file, now);
    }

    /// A file is in this state now, and nobody has it any more; answers what it was.
    fn set_file(&self, file: u64, now: FileState) -> FileState {
        let before = self.file(file);
        // Counted before others can take it: whoever did so first would count below zero.
        self.count_change(before, now);
        self.change_file(file, |seen| Ok(seen & !(STATE | BUSY | GOING) | now as u16));
        before
    }

    fn count_change(&self, before: FileState, now: FileState) {
        if before != now {
            self.counts[before.index()].fetch_sub(1, Ordering::Relaxed);
            self.counts[now.index()].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A file was found; answers whether it was not known yet.
    pub(super) fn put_file(&self, file: u64, now: FileState, bytes: u64) -> bool {
        self.written[file as usize].store(bytes, Ordering::Relaxed);
        self.set_file(file, now) == FileState::Absent
    }

    /// A directory was found; answers whether it was not known yet.
    pub(super) fn put_directory(&self, directory: u64) -> bool {
        let before = self.directories[directory as usize].fetch_or(THERE, Ordering::AcqRel);
        let is_new = before & THERE == 0;
        self.directories_there.fetch_add(u64::from(is_new), Ordering::Relaxed);
        is_new
    }

    /// Something lies in a directory; also something that is none of the tree's.
    pub fn add_child(&self, directory: u64) {
        self.directories[directory as usize].fetch_add(CHILD, Ordering::AcqRel);
    }

    /// Something lies in a directory no longer.
    pub fn remove_child(&self, directory: u64) {
        self.directories[directory as usize].fetch_sub(CHILD, Ordering::AcqRel);
    }

    fn change(&self, directory: u64, change: impl Fn(u32) -> Result<u32, Claim>) -> Claim {
        let state = &self.directories[directory as usize];
        let mut seen = state.load(Ordering::Acquire);
        loop {
            let next = match change(seen) {
                Ok(next) => next,
                Err(claim) => return claim,
            };
            match state.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Claim::Taken(FileState::Full),
                Err(now) => seen = now,
            }
        }
    }

    /// Makes sure that a directory stays while something is made in it, and counts that.
    pub fn reserve_child(&self, directory: u64) -> Claim {
        self.change(directory, |seen| match (seen & TAKEN != 0, seen & THERE != 0) {
            (true, _) => Err(Claim::Busy),
            (false, false) => Err(Claim::Unfit),
            (false, true) => Ok(seen + CHILD),
        })
    }

    /// Takes a directory that is not there.
    pub fn claim_absent_directory(&self, directory: u64) -> Claim {
        self.change(directory, |seen| match (seen & TAKEN != 0, seen & THERE != 0) {
            (true, _) => Err(Claim::Busy),
            (false, true) => Err(Claim::Unfit),
            (false, false) => Ok(seen | TAKEN),
        })
    }

    /// Takes a directory that is there and empty.
    pub fn claim_empty_directory(&self, directory: u64) -> Claim {
        self.change(directory, |seen| {
            if seen & TAKEN != 0 {
                Err(Claim::Busy)
            } else if seen & THERE == 0 {
                Err(Claim::Unfit)
            } else if seen >= CHILD {
                Err(Claim::Occupied)
            } else {
                Ok(seen | TAKEN)
            }
        })
    }

    /// Gives a directory back.
    pub fn release_directory(&self, directory: u64, is_there: bool) {
        let state = &self.directories[directory as usize];
        let was_there = state.load(Ordering::Acquire) & THERE != 0;
        if was_there != is_there {
            let by = if is_there { 1 } else { u64::MAX };
            self.directories_there.fetch_add(by, Ordering::Relaxed);
        }
        // Nothing can have been counted meanwhile in a directory that somebody had.
        let there = if is_there { THERE } else { 0 };
        self.change(directory, |seen| Ok((seen & !(TAKEN | THERE)) | there));
    }
}
