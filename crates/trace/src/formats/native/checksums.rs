//! Checksums, so that damage is detected.
//!
//! Parquet makes checksums of pages optional, the library writes none, and damaged zstd data often
//! still unpacks: every second flipped bit would pass as another request. So the footer has a
//! CRC-32C (RFC 3720, appendix B.4) of each row group's bytes. Another one covers all bytes behind
//! the groups, with its own digits taken as zeros.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use memchr::memmem;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::schema::{KEY_CRC_FOOTER, KEY_CRC_GROUPS};
use crate::compression::PartialFile;

/// The value of [`KEY_CRC_FOOTER`] while the sum is made.
pub(super) const NO_DIGITS: &str = "00000000";

/// The bytes between the key [`KEY_CRC_FOOTER`] and its value (parquet.thrift, compact): the value
/// is a string of eight bytes.
const VALUE_FOLLOWS: [u8; 2] = [0x18, 8];

/// The bytes behind the footer: its length in four bytes and the magic.
const TRAILER_BYTES: u64 = 8;

/// The number of bytes that are read at a time.
const CHUNK_BYTES: usize = 128 << 10;

/// The end of a row group in bytes from the start of the file, and the CRC-32C of its bytes. They
/// begin at the end of the group before, or at the beginning of the file.
pub(super) type GroupSum = (u64, u32);

/// A file that is written, with the checksum of the bytes since the last row group.
pub(super) struct Summed {
    file: PartialFile,
    bytes: u64,
    crc: u32,
    /// The bytes behind the row groups, held back until their checksum can be put into them.
    tail: Option<Vec<u8>>,
}

impl Summed {
    pub(super) fn new(file: PartialFile) -> Self {
        Self { file, bytes: 0, crc: 0, tail: None }
    }

    /// Ends a row group, whose bytes have all been written.
    pub(super) fn end_group(&mut self) -> GroupSum {
        (self.bytes, std::mem::take(&mut self.crc))
    }

    /// Begins the tail: all further bytes belong to it.
    pub(super) fn begin_tail(&mut self) {
        self.tail = Some(Vec::new());
    }

    /// Puts the tail's checksum into the tail and gives the file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(mut tail) = self.tail.take() {
            let digits = digits_in(&tail)
                .ok_or_else(|| io::Error::other("the footer has no place for its checksum"))?;
            let crc = crc32c::crc32c_append(self.crc, &tail);
            tail[digits..digits + NO_DIGITS.len()].copy_from_slice(hex(crc).as_bytes());
            self.file.write_all(&tail)?;
        }
        self.file.finish()
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn hex(crc: u32) -> String {
    format!("{crc:08x}")
}

/// The place of the footer's own checksum in the footer.
fn digits_in(footer: &[u8]) -> Option<usize> {
    let before = [KEY_CRC_FOOTER.as_bytes(), &VALUE_FOLLOWS].concat();
    let place = memmem::rfind(footer, &before)? + before.len();
    (footer.len() >= place + NO_DIGITS.len()).then_some(place)
}

/// The checksums of a file that is read.
pub(super) struct Checksums {
    file: File,
    groups: Vec<GroupSum>,
}

impl Checksums {
    /// The checksums in the footer of `file`, which is checked against its own. `None` if the
    /// footer has none, or if another program wrote it: others copy the keys and write another
    /// file.
    pub(super) fn of(
        file: File,
        length: u64,
        metadata: &ParquetMetaData,
    ) -> Result<Option<Self>, ParquetError> {
        let metadata_of_file = metadata.file_metadata();
        if !metadata_of_file.created_by().is_some_and(|by| by.starts_with("ioecho ")) {
            return Ok(None);
        }
        let mut trailer = [0; TRAILER_BYTES as usize];
        let end = length.saturating_sub(TRAILER_BYTES);
        file.read_exact_at(&mut trailer, end)?;
        let [a, b, c, d, ..] = trailer;
        let start = end.saturating_sub(u32::from_le_bytes([a, b, c, d]).into());
        // The library also holds the whole footer in memory.
        let mut footer = vec![0; (length - start) as usize];
        file.read_exact_at(&mut footer, start)?;
        let value_of = |key: &str| {
            let pairs = metadata_of_file.key_value_metadata()?;
            pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
        };
        let (groups, expected) = match (value_of(KEY_CRC_GROUPS), value_of(KEY_CRC_FOOTER)) {
            (Some(groups), Some(expected)) => (groups, expected),
            // If the key's text is in the footer but the parser did not find the key, the footer is
            // damaged.
            (None, None) if memmem::find(&footer, KEY_CRC_GROUPS.as_bytes()).is_none() => {
                return Ok(None);
            }
            _ => return Err(damaged("the footer lacks one of its checksums")),
        };
        let groups: Vec<GroupSum> = serde_json::from_str(groups)
            .map_err(|_| damaged("the footer's list of checksums is not readable"))?;
        let ends = || groups.iter().map(|(end, _)| *end);
        let last = ends().next_back().unwrap_or(0);
        if groups.len() != metadata.num_row_groups() || !ends().is_sorted() || last > start {
            return Err(damaged("the footer's checksums are not those of its row groups"));
        }
        let digits = digits_in(&footer).ok_or_else(|| damaged("the footer's sum is misplaced"))?;
        footer[digits..digits + NO_DIGITS.len()].copy_from_slice(NO_DIGITS.as_bytes());
        let between = sum(&file, last, start)?;
        if hex(crc32c::crc32c_append(between, &footer)) != expected {
            return Err(damaged("the footer is not what its checksum says"));
        }
        Ok(Some(Self { file, groups }))
    }

    /// Checks the bytes of a row group.
    pub(super) fn check(&self, group: usize) -> Result<(), ParquetError> {
        let before = group.checked_sub(1).and_then(|before| self.groups.get(before));
        let start = before.map_or(0, |(end, _)| *end);
        match self.groups.get(group) {
            Some((end, expected)) if sum(&self.file, start, *end)? == *expected => Ok(()),
            _ => Err(damaged("it is not what its checksum says")),
        }
    }
}

fn damaged(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}

/// The CRC-32C of the bytes from `start` to `end`.
fn sum(file: &File, start: u64, end: u64) -> io::Result<u32> {
    let mut chunk = vec![0; CHUNK_BYTES.min((end - start) as usize)];
    let (mut at, mut crc) = (start, 0);
    while at < end {
        let wanted = chunk.len().min((end - at) as usize);
        // Positioned reads, because the library moves the offset that all handles of the file
        // share.
        file.read_exact_at(&mut chunk[..wanted], at)?;
        crc = crc32c::crc32c_append(crc, &chunk[..wanted]);
        at += wanted as u64;
    }
    Ok(crc)
}
