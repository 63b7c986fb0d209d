//! What a target holds.
//!
//! Raw databases and half-overwritten disks carry no signature, and reading a whole disk takes
//! hours. So the beginning is read, and samples from all over: what is neither zeroes nor written
//! by ioecho belongs to somebody.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use ioecho_replay::pattern::MARK;
use ioecho_trace::Bytes;
use rustix::fs::{SeekFrom, seek};

/// So much is read from the beginning.
const HEAD: u64 = 1 << 20;

/// So many samples are taken behind it, of so many bytes each.
const SAMPLES: u64 = 128;
const SAMPLE: u64 = 4096;

const SECTOR: usize = 512;

/// A target to look into.
pub(super) struct Content<'a> {
    file: &'a File,
    /// In bytes.
    pub(super) size: u64,
}

impl<'a> Content<'a> {
    pub(super) const fn new(file: &'a File, size: u64) -> Self {
        Self { file, size }
    }

    /// Whether `magic` stands at byte `at`, and not by chance in a sector that ioecho wrote.
    pub(super) fn has(&self, at: u64, magic: &[u8]) -> io::Result<bool> {
        let sector = at / SECTOR as u64 * SECTOR as u64;
        let skip = (at - sector) as usize;
        if at.checked_add(magic.len() as u64).is_none_or(|end| end > self.size) {
            return Ok(false);
        }
        let mut bytes = vec![0; skip + magic.len()];
        self.file.read_exact_at(&mut bytes, sector)?;
        Ok(bytes[skip..] == *magic && (skip == 0 || !bytes.starts_with(&MARK)))
    }

    /// The bytes from `at` on, fewer at the end.
    pub(super) fn read(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = length.min(self.size.saturating_sub(at));
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Where data were seen that are neither zeroes nor ioecho's. A place that cannot be read is
    /// passed over: a disk with bad sectors may be replayed on.
    pub(super) fn foreign_data(&self) -> Option<Bytes> {
        let step = (self.size.saturating_sub(HEAD) / SAMPLES).max(SAMPLE);
        let behind =
            (HEAD..self.size).step_by(step as usize).map(|at| (at / SAMPLE * SAMPLE, SAMPLE));
        let head = (0..HEAD.min(self.size)).step_by(65536).map(|at| (at, 65536));
        let mut seen = 0;
        for (wanted, length) in head.chain(behind) {
            if wanted < seen {
                continue;
            }
            // In a file with holes the next data are more telling than the hole.
            let at = match seek(self.file, SeekFrom::Data(wanted)) {
                Ok(data) => data.max(wanted) / SAMPLE * SAMPLE,
                Err(rustix::io::Errno::NXIO) => return None,
                Err(_) => wanted,
            };
            seen = at + length;
            let Ok(bytes) = self.read(at, length) else { continue };
            if let Some(sector) = bytes.chunks(SECTOR).position(is_foreign) {
                return Some(Bytes(at + (sector * SECTOR) as u64));
            }
        }
        None
    }
}

/// Whether a sector holds anything that ioecho did not write.
fn is_foreign(sector: &[u8]) -> bool {
    !sector.starts_with(&MARK) && sector.iter().any(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(parts: &[(u64, &[u8])], size: u64) -> File {
        let mut file = tempfile::tempfile().unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        file.set_len(size).unwrap();
        file.flush().unwrap();
        file
    }

    #[test]
    fn zeroes_and_holes_are_nobodys() {
        let file = file(&[(8192, &[0; 4096])], 64 << 20);
        assert_eq!(Content::new(&file, 64 << 20).foreign_data(), None);
    }

    #[test]
    fn sectors_that_ioecho_wrote_are_nobodys() {
        let mut sector = [7; SECTOR];
        sector[..7].copy_from_slice(&MARK);
        let file = file(&[(0, &sector), (512, &sector), (5 << 20, &sector)], 64 << 20);
        assert_eq!(Content::new(&file, 64 << 20).foreign_data(), None);
    }

    #[test]
    fn a_line_of_text_is_somebodys() {
        let text = b"hello\n";
        let file = file(&[(0, text)], text.len() as u64);
        assert_eq!(Content::new(&file, 6).foreign_data(), Some(Bytes(0)));
    }

    #[test]
    fn data_behind_a_large_hole_are_found() {
        let file = file(&[(50_000_000, b"x")], 64 << 20);
        let found = Content::new(&file, 64 << 20).foreign_data().unwrap();
        assert_eq!(found.0 / 512, 50_000_000 / 512);
    }

    #[test]
    fn a_magic_inside_a_sector_of_ioecho_is_chance() {
        let mut sector = [0; SECTOR];
        sector[56..58].copy_from_slice(&[0x53, 0xef]);
        let foreign = file(&[(1024, &sector)], 8192);
        assert!(Content::new(&foreign, 8192).has(1080, &[0x53, 0xef]).unwrap());
        sector[..7].copy_from_slice(&MARK);
        let own = file(&[(1024, &sector)], 8192);
        assert!(!Content::new(&own, 8192).has(1080, &[0x53, 0xef]).unwrap());
    }
}
