//! A file of frames: pieces of the kernel's data, each with number, length and checksum.
//!
//! A machine that loses its power leaves files with torn ends and, on some file systems, with
//! zeroes where data should be. Each frame has its length, its number and its checksum, so
//! everything before the first damage is known to be sound.
//!
//! The frame's header, little-endian, [`FRAME_HEADER_BYTES`] long: `ioef` · version (16 bits) ·
//! bytes of the header (16) · processor (32) · bytes of the payload (32) · sequence (64), counted
//! for each processor through all segments · CRC-32C of the bytes before and of the payload (32) ·
//! four bytes zero. Then the payload.

use crate::units::counted;
use std::io::{self, Read, Write};

/// The first bytes of a frame.
pub(crate) const MAGIC: [u8; 4] = *b"ioef";

/// The version of the frame's header.
pub(crate) const VERSION: u16 = 1;

/// The length of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 32;

/// The longest payload: far more than any sub-buffer of a ring buffer.
pub const PAYLOAD_MAX: usize = 64 << 20;

/// The place of the checksum in the header, in bytes.
const CHECKSUM_AT: usize = 24;

/// Writes frames of one processor.
#[derive(Debug)]
pub struct FrameWriter<W> {
    inner: W,
    cpu: u32,
    sequence: u64,
    bytes: u64,
}

impl<W: Write> FrameWriter<W> {
    /// Begins a file of processor `cpu`; `sequence` is the number of its first frame. It is 0 in
    /// the first segment, and in later ones the answer of [`sequence`](Self::sequence) at the end
    /// of the one before.
    pub fn new(inner: W, cpu: u32, sequence: u64) -> Self {
        Self { inner, cpu, sequence, bytes: 0 }
    }

    /// Appends one frame. It is written in two pieces (header, payload): give a buffered writer.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        if payload.len() > PAYLOAD_MAX {
            let message = format!("a payload of {} bytes fits into no frame", payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let header = header(self.cpu, self.sequence, payload);
        self.inner.write_all(&header)?;
        self.inner.write_all(payload)?;
        self.sequence += 1;
        self.bytes += (header.len() + payload.len()) as u64;
        Ok(())
    }

    /// The number of the next frame.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of bytes written, headers included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Gives back the underlying writer.
    pub fn into_inner(self) -> W {
        self.inner
    }
}

/// The payloads of whole frames that a [`FrameWriter`] has written one behind the other into
/// memory. Bytes behind the last whole frame are ignored.
pub fn payloads(frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = frames;
    std::iter::from_fn(move || {
        let (header, behind) = rest.split_at_checked(FRAME_HEADER_BYTES)?;
        let length = u32::from_le_bytes(*header[12..].first_chunk()?) as usize;
        let (payload, behind) = behind.split_at_checked(length)?;
        rest = behind;
        Some(payload)
    })
}

/// The header of a frame.
fn header(cpu: u32, sequence: u64, payload: &[u8]) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[6..8].copy_from_slice(&(FRAME_HEADER_BYTES as u16).to_le_bytes());
    header[8..12].copy_from_slice(&cpu.to_le_bytes());
    header[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..CHECKSUM_AT]), payload);
    header[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads frames of one processor.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    inner: R,
    cpu: u32,
    /// The number of bytes of whole frames that were read.
    pub(crate) offset: u64,
}

/// The next part of a file of frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A frame with this number; its payload is in the buffer.
    Frame(u64),
    /// The end of the file, behind a whole frame.
    End,
    /// Nothing behind this place can be trusted, for this reason.
    Damage(String),
}

impl<R: Read> FrameReader<R> {
    /// Begins to read a file of `cpu`.
    pub(crate) fn new(inner: R, cpu: u32) -> Self {
        Self { inner, cpu, offset: 0 }
    }

    /// Reads the next payload into `buffer`, which it empties first.
    pub(crate) fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Next> {
        buffer.clear();
        let mut header = [0; FRAME_HEADER_BYTES];
        let read = fill(&mut self.inner, &mut header)?;
        if read == 0 {
            return Ok(Next::End);
        }
        if read < header.len() {
            let read = counted(read as u64, "byte");
            return Ok(Next::Damage(format!("the file ends {read} into a frame's header")));
        }
        let number = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (version, header_bytes) = (number(4) as u16, (number(4) >> 16) as usize);
        if header[..4] != MAGIC {
            return Ok(Next::Damage("no frame begins here".to_owned()));
        }
        if version != VERSION || header_bytes != FRAME_HEADER_BYTES {
            return Ok(Next::Damage(format!("a frame of version {version}; known is {VERSION}")));
        }
        let (cpu, length) = (number(8), number(12) as usize);
        if length > PAYLOAD_MAX {
            return Ok(Next::Damage(format!("a frame of {length} bytes; none is so long")));
        }
        // A damaged length must not allocate that much memory.
        let taken = (&mut self.inner).take(length as u64).read_to_end(buffer)?;
        if taken < length {
            let [taken, length] = [taken, length].map(|bytes| counted(bytes as u64, "byte"));
            return Ok(Next::Damage(format!("the file ends {taken} into a frame of {length}")));
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..CHECKSUM_AT]), buffer);
        if checksum != number(CHECKSUM_AT) {
            return Ok(Next::Damage("the checksum of a frame is not that of its bytes".to_owned()));
        }
        if cpu != self.cpu {
            let mine = self.cpu;
            return Ok(Next::Damage(format!(
                "a frame of processor {cpu}, in a file of processor {mine}"
            )));
        }
        self.offset += (FRAME_HEADER_BYTES + length) as u64;
        let sequence = u64::from(number(16)) | u64::from(number(20)) << 32;
        Ok(Next::Frame(sequence))
    }
}

/// Reads until `buffer` is full or the source ends.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut writer = FrameWriter::new(Vec::new(), 3, 7);
        for payload in [&b"first"[..], b"", b"the third"] {
            writer.append(payload).unwrap();
        }
        assert_eq!(writer.sequence(), 10);
        assert_eq!(writer.bytes(), writer.get_mut().len() as u64);
        writer.into_inner()
    }

    /// The payloads with their numbers, and the damage.
    fn read(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<String>) {
        let mut reader = FrameReader::new(bytes, 3);
        let (mut payloads, mut buffer) = (Vec::new(), Vec::new());
        loop {
            match reader.next(&mut buffer).unwrap() {
                Next::Frame(sequence) => payloads.push((sequence, buffer.clone())),
                Next::End => return (payloads, None),
                Next::Damage(why) => return (payloads, Some(why)),
            }
        }
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let whole = vec![(7, b"first".to_vec()), (8, Vec::new()), (9, b"the third".to_vec())];
        assert_eq!(read(&file()), (whole, None));
    }

    #[test]
    fn payloads_in_memory_are_those_of_the_whole_frames() {
        let bytes = file();
        let whole = |bytes: &[u8]| payloads(bytes).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(whole(&bytes), [&b"first"[..], b"", b"the third"]);
        assert_eq!(whole(&bytes[..bytes.len() - 1]), [&b"first"[..], b""]);
        assert!(whole(&[]).is_empty() && whole(&bytes[..40]).len() == 1);
    }

    #[test]
    fn wherever_a_file_is_cut_all_frames_before_are_read() {
        let bytes = file();
        let ends = [37, 69, bytes.len()];
        for cut in 0..bytes.len() {
            let (payloads, damage) = read(&bytes[..cut]);
            assert_eq!(payloads.len(), ends.iter().filter(|end| **end <= cut).count());
            assert_eq!(damage.is_none(), cut == 0 || ends.contains(&cut), "{cut}");
        }
    }

    #[test]
    fn no_changed_bit_goes_unseen_but_in_the_four_bytes_that_say_nothing() {
        let bytes = file();
        let silent = |at: usize| {
            [0, 37, 69].iter().any(|frame| (28..32).contains(&(at.wrapping_sub(*frame))))
        };
        for at in (0..bytes.len()).filter(|at| !silent(*at)) {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(read(&broken).1.is_some(), "{at}");
        }
    }

    #[test]
    fn zeroes_behind_the_last_frame_are_damage() {
        let mut bytes = file();
        bytes.extend([0; 4096]);
        let (payloads, damage) = read(&bytes);
        assert_eq!((payloads.len(), damage.as_deref()), (3, Some("no frame begins here")));
    }
}
