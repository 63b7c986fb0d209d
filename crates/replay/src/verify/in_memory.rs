//! Trees in memory, as they are read back.

use std::io;

use super::names::FoundNames;
use super::tree::ReadFiles;
use crate::tree::{AtRest, InMemory, Names};

impl FoundNames {
    /// What is there of a tree in memory.
    pub fn of(names: &Names) -> Self {
        let geometry = names.geometry();
        let mut found = Self::nothing(geometry);
        for file in 0..geometry.files() {
            if let Some(bytes) = names.file(file) {
                found.add_file(file, bytes);
            }
        }
        let there = (0..geometry.directories()).filter(|number| names.has_directory(*number));
        there.for_each(|directory| found.add_directory(directory));
        found
    }
}

impl ReadFiles for InMemory {
    fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Self::read(self, file, at, into).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl ReadFiles for AtRest {
    fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Self::read(self, file, at, into).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
