//! The table of versions of a large target.
//!
//! Eight bytes for every sector that a run touches are 16 GiB for a terabyte: too much for memory.
//! So the table of a large target is a sparse file, in which only the pages exist that the run
//! touched. A bitmap of these pages is in memory, with one bit per 256 KiB of target, so that pages
//! that were never written need not be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ioecho_replay::verify::{MemoryTable, VersionTable, first_touched};
use ioecho_trace::Bytes;

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};

/// Targets up to this size have their table in memory, which takes 64 MiB at most.
const IN_MEMORY_MAX: Bytes = Bytes(4 << 30);

/// Entries per page of the table: 4 KiB of the table, 256 KiB of target.
const PAGE: u64 = 512;

/// Bytes of an entry.
const ENTRY: u64 = 8;

/// Entries that are written at once.
const GO: usize = 8192;

/// Where the table of another target is that is rebuilt beside the one whose table is at `path`.
pub(super) fn beside(path: &Path, other: Option<u16>) -> PathBuf {
    match other {
        Some(other) => path.with_extension(format!("beside-{other}")),
        None => path.to_owned(),
    }
}

/// A table for a target of this capacity: in memory if it is small, otherwise in a new file at
/// `path`, which is removed with the table.
pub(crate) fn open(
    run: &RunDirectory,
    path: &Path,
    capacity: Bytes,
) -> Result<Box<dyn VersionTable + Send>> {
    if capacity <= IN_MEMORY_MAX {
        return Ok(Box::new(MemoryTable::default()));
    }
    let table = FileTable::create(run, path, capacity).map_err(|error| {
        let _ = run.remove(path);
        let text = format!(
            "cannot make the table of versions {}: {error}\n  = help: verification takes 1/64 of \
             what is touched in the run's directory; name another with -o",
            path.display()
        );
        RunError::new(Kind::Output, text)
    })?;
    Ok(Box::new(table))
}

/// A table in a file.
#[derive(Debug)]
pub(crate) struct FileTable {
    file: File,
    run: RunDirectory,
    path: PathBuf,
    /// A bitmap of the written pages.
    written: Vec<u64>,
    bytes: Vec<u8>,
}

impl FileTable {
    fn create(run: &RunDirectory, path: &Path, capacity: Bytes) -> io::Result<Self> {
        // A killed verification may have left its table.
        let _ = run.remove(path);
        let file = run.new_file(path)?;
        let sectors = capacity.0.div_ceil(512);
        file.set_len(sectors.next_multiple_of(PAGE) * ENTRY)?;
        let written = vec![0; sectors.div_ceil(PAGE).div_ceil(64) as usize];
        let (run, path) = (run.clone(), path.to_owned());
        Ok(Self { file, run, path, written, bytes: vec![0; GO * ENTRY as usize] })
    }

    fn is_written(&self, page: u64) -> bool {
        self.written.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// The first written page at or after this one.
    fn next_written(&self, page: u64) -> Option<u64> {
        let mut index = (page / 64) as usize;
        let mut word = self.written.get(index)? & (u64::MAX << (page % 64));
        while word == 0 {
            index += 1;
            word = *self.written.get(index)?;
        }
        Some(index as u64 * 64 + u64::from(word.trailing_zeros()))
    }
}

impl Drop for FileTable {
    fn drop(&mut self) {
        let _ = self.run.remove(&self.path);
    }
}

impl VersionTable for FileTable {
    fn get(&mut self, first_sector: u64, entries: &mut [u64]) -> io::Result<()> {
        let mut at = first_sector;
        let mut rest = entries;
        while !rest.is_empty() {
            let page_end = (at / PAGE + 1) * PAGE;
            let count = ((page_end - at) as usize).min(rest.len());
            let (head, tail) = rest.split_at_mut(count);
            if self.is_written(at / PAGE) {
                let bytes = &mut self.bytes[..count * ENTRY as usize];
                self.file.read_exact_at(bytes, at * ENTRY)?;
                for (entry, bytes) in head.iter_mut().zip(bytes.chunks_exact(ENTRY as usize)) {
                    *entry = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                }
            } else {
                head.fill(0);
            }
            at += count as u64;
            rest = tail;
        }
        Ok(())
    }

    fn set(&mut self, first_sector: u64, count: u64, entry: u64) -> io::Result<()> {
        let largest = count.min(GO as u64) as usize * ENTRY as usize;
        for bytes in self.bytes[..largest].chunks_exact_mut(ENTRY as usize) {
            bytes.copy_from_slice(&entry.to_le_bytes());
        }
        let end = first_sector + count;
        for at in (first_sector..end).step_by(GO) {
            let length = (end - at).min(GO as u64) as usize * ENTRY as usize;
            self.file.write_all_at(&self.bytes[..length], at * ENTRY)?;
        }
        for page in first_sector / PAGE..end.div_ceil(PAGE) {
            let word = self.written.get_mut((page / 64) as usize);
            let word = word.ok_or(io::ErrorKind::InvalidInput)?;
            *word |= 1 << (page % 64);
        }
        Ok(())
    }

    fn touched_from(&mut self, sector: u64) -> io::Result<Option<(u64, u64)>> {
        let mut from = sector;
        while let Some(page) = self.next_written(from / PAGE) {
            from = from.max(page * PAGE);
            let mut entries = [0; PAGE as usize];
            let entries = &mut entries[..((page + 1) * PAGE - from) as usize];
            self.get(from, entries)?;
            if let Some((first, end)) = first_touched(entries) {
                return Ok(Some((from + first, from + end)));
            }
            from = (page + 1) * PAGE;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_replay::pattern::SplitMix64;

    #[test]
    fn the_file_does_as_the_table_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.versions(0);
        let mut file = FileTable::create(&run, &path, Bytes(64 << 20)).unwrap();
        let mut memory = MemoryTable::default();
        let mut random = SplitMix64(1);
        for entry in 1..2000 {
            let first = random.below(131_072 - 20_000);
            let count = 1 + random.below(if entry % 50 == 0 { 20_000 } else { 64 });
            if entry < 60 {
                file.set(first, count, entry).unwrap();
                memory.set(first, count, entry).unwrap();
            }
            let (mut ours, mut theirs) = (vec![9; count as usize], vec![8; count as usize]);
            file.get(first, &mut ours).unwrap();
            memory.get(first, &mut theirs).unwrap();
            assert_eq!(ours, theirs);
            assert_eq!(file.touched_from(first).unwrap(), memory.touched_from(first).unwrap());
        }
        drop(file);
        assert!(!path.exists(), "the file goes away with the table");
    }

    #[test]
    fn a_table_of_a_large_target_takes_no_room_until_it_is_used() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(&directory.path().join("run")).unwrap();
        let path = run.versions(0);
        let mut table = open(&run, &path, Bytes(1 << 40)).unwrap();
        assert!(path.metadata().unwrap().blocks() < 64);
        table.set((1 << 31) - 8, 8, 3).unwrap();
        assert_eq!(table.touched_from(0).unwrap(), Some(((1 << 31) - 8, 1 << 31)));
        assert!(path.metadata().unwrap().blocks() < 64);
    }
}
