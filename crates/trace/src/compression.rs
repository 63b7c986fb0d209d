//! Bytes in and out: compressed or not, from a file or a pipe.
//!
//! Traces come packed more often than not, and not always under the name that says so. So the
//! codec is read from the first bytes ([`Codec`]), and an archive is read as the contents of its
//! members ([`unpack`]). Recordings also break off: a copy was cut short, a disk filled up. The
//! part before the break is still useful, so a broken stream is distinguished both from a clean end
//! and from a disk that cannot be read ([`damage`]).
//!
//! On the way out a file appears under its name only when it is complete ([`PartialFile`]).
//!
//! The way in: [`Peeked`] (first bytes) → [`Decoder`] → `archive` → `ahead` (a thread of its own).

mod ahead;
mod archive;
mod chain;
mod damage;
mod decoder;
mod encoder;
mod partial;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, Read};
use std::path::Path;

pub use self::ahead::Ahead;
pub use self::archive::{Archive, Choice};
pub use self::damage::{damage, remedy};
pub use self::decoder::Decoder;
pub use self::encoder::Encoder;
pub use self::partial::{PartialFile, STANDARD_OUTPUT};

/// Size of the buffers towards the file system.
const BUFFER_BYTES: usize = 256 << 10;

/// The number of first bytes that are inspected to recognise a codec or a format.
pub const PEEK_BYTES: usize = 64 << 10;

/// The packing of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// The bytes are not packed.
    Plain,
    /// gzip (RFC 1952), of one or more members.
    Gzip,
    /// Zstandard (RFC 8878), of one or more frames.
    Zstd,
    /// xz (the .xz file format 1.2), of one or more streams.
    Xz,
    /// bzip2, of one or more streams.
    Bzip2,
}

impl Codec {
    /// The codec of a file that begins with these bytes.
    pub fn of_first_bytes(first_bytes: &[u8]) -> Self {
        match first_bytes {
            // RFC 1952, section 2.3.1: two bytes of magic and method 8, deflate.
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            // RFC 8878, sections 3.1.1 and 3.1.2: a frame, or one that is skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            // The .xz file format, section 2.1.1.1.
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            // The level, and a block (π) or the end (√π) of a stream that holds nothing.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => {
                Self::Bzip2
            }
            _ => Self::Plain,
        }
    }

    /// The codec that the name of an output asks for.
    pub fn of_name(path: &Path) -> Self {
        let Some(extension) = path.extension() else { return Self::Plain };
        let named = |name: &str| extension.eq_ignore_ascii_case(name);
        match ["gz", "zst", "xz", "bz2"].into_iter().position(named) {
            Some(0) => Self::Gzip,
            Some(1) => Self::Zstd,
            Some(2) => Self::Xz,
            Some(3) => Self::Bzip2,
            _ => Self::Plain,
        }
    }

    /// The name of the format in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }
}

/// The content of a file.
pub struct Unpacked {
    /// The unpacked bytes of the file; of an archive, the bytes of its members one behind the
    /// other.
    pub stream: Box<dyn Positioned + Send>,
    /// Whether `stream` gives the bytes of the file as it is stored.
    pub is_stored: bool,
    /// Whether the file is an archive.
    pub is_archive: bool,
}

/// Unpacks `packed`; of an archive, the members that `choice` takes. Decoding runs in a separate
/// thread.
pub fn unpack<R: Read + Send + 'static>(packed: Peeked<R>, choice: Choice) -> io::Result<Unpacked> {
    let codec = Codec::of_first_bytes(packed.first_bytes());
    let is_stored = codec == Codec::Plain && !archive::is_archive(packed.first_bytes());
    let decoder = Decoder::new(packed, codec);
    if is_stored {
        return Ok(Unpacked { stream: Box::new(decoder), is_stored, is_archive: false });
    }
    let unpacked = Peeked::new(decoder, archive::BLOCK_BYTES);
    let is_archive = archive::is_archive(unpacked.first_bytes());
    let ahead =
        if is_archive { Ahead::new(Archive::new(unpacked, choice)) } else { Ahead::new(unpacked) };
    Ok(Unpacked { stream: Box::new(ahead?), is_stored, is_archive })
}

/// Calls `choice` for each member of the archive `packed`, as [`unpack`] does, but unpacks only
/// their first bytes. Ends at the end of the archive or with an error.
pub fn look_through<R: Read>(packed: R, mut choice: Choice) -> io::Result<()> {
    let packed = Peeked::new(packed, PEEK_BYTES);
    let codec = Codec::of_first_bytes(packed.first_bytes());
    let unpacked = Peeked::new(Decoder::new(packed, codec), archive::BLOCK_BYTES);
    if !archive::is_archive(unpacked.first_bytes()) {
        return Ok(());
    }
    let passed: Choice =
        Box::new(move |name, first_bytes| choice(name, first_bytes).map(|_| false));
    io::copy(&mut Archive::new(unpacked, passed), &mut io::sink()).map(drop)
}

/// A stream that knows how far the underlying file was read.
pub trait Positioned: Read {
    /// The number of bytes of the stored file that were used so far.
    fn position(&self) -> u64;
}

impl<P: Positioned + ?Sized> Positioned for Box<P> {
    fn position(&self) -> u64 {
        (**self).position()
    }
}

/// A stream whose first bytes can be inspected before they are read.
pub struct Peeked<R> {
    head: Vec<u8>,
    at: usize,
    /// An error after the first bytes, to be returned once they have been read.
    error: Option<io::Error>,
    rest: R,
}

impl<R: Read> Peeked<R> {
    /// Reads the first `bytes` bytes of `rest`, or as many as there are.
    pub fn new(mut rest: R, bytes: usize) -> Self {
        let mut head = Vec::new();
        let error = rest.by_ref().take(bytes as u64).read_to_end(&mut head).err();
        Self { head, at: 0, error, rest }
    }

    /// The first bytes.
    pub fn first_bytes(&self) -> &[u8] {
        &self.head
    }

    /// Passes over the first `bytes` bytes, before any are read.
    pub fn pass_over(&mut self, bytes: usize) {
        self.head.drain(..bytes.min(self.head.len()));
    }

    /// Whether nothing went wrong within the first bytes.
    pub fn is_sound(&self) -> bool {
        self.error.is_none()
    }

    /// Takes the error that occurred within the first bytes, if any.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// The stream behind the first bytes.
    fn get_ref(&self) -> &R {
        &self.rest
    }

    /// The stream behind the first bytes, owned.
    fn into_inner(self) -> R {
        self.rest
    }
}

impl<R: Positioned> Positioned for Peeked<R> {
    fn position(&self) -> u64 {
        self.rest.position()
    }
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at < self.head.len() {
            let count = into.len().min(self.head.len() - self.at);
            into[..count].copy_from_slice(&self.head[self.at..self.at + count]);
            self.at += count;
            return Ok(count);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.rest.read(into),
        }
    }
}
