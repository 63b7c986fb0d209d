//! Packing an output.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;

use super::{Codec, PartialFile};

/// A [`PartialFile`] packed with a codec.
pub struct Encoder {
    packing: Packing,
    /// The memory that the encoder may take.
    share: Share,
}

/// The memory that all encoders together may take, in MiB. A trace may be split into a thousand
/// files, each with an encoder of its own.
const MEMORY_MIB: usize = 1024;

/// The part of it, in MiB, that is reserved for the files that are open now.
static TAKEN_MIB: AtomicUsize = AtomicUsize::new(0);

/// A part of the memory, given back when it is dropped.
struct Share {
    mib: usize,
    taken: &'static AtomicUsize,
}

impl Share {
    /// Reserves `mib`, if that leaves no more than `most` of the memory `taken`.
    fn take(mib: usize, most: usize, taken: &'static AtomicUsize) -> Option<Self> {
        let more = |taken: usize| taken.checked_add(mib).filter(|taken| *taken <= most);
        let is_there = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        is_there.is_ok().then(|| Self { mib, taken })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.mib, Ordering::Relaxed);
    }
}

/// The memory that `codec` takes and the level for it: xz packs less the more files there are.
fn share(codec: Codec, taken: &'static AtomicUsize) -> Option<(Share, u32)> {
    // Memory as the libraries state it, rounded up; zlib's few hundred KiB count as none.
    let choices: &[(usize, usize, u32)] = match codec {
        Codec::Plain | Codec::Gzip => &[(0, usize::MAX, 0)],
        Codec::Zstd => &[(5, MEMORY_MIB, 0)],
        Codec::Bzip2 => &[(8, MEMORY_MIB, 0)],
        Codec::Xz => {
            &[(94, MEMORY_MIB / 2, XZ_LEVEL), (9, MEMORY_MIB * 3 / 4, 1), (3, MEMORY_MIB, 0)]
        }
    };
    choices.iter().find_map(|(mib, most, level)| Some((Share::take(*mib, *most, taken)?, *level)))
}

enum Packing {
    Plain(PartialFile),
    Gzip(Box<GzEncoder<PartialFile>>),
    Zstd(Box<zstd::Encoder<'static, PartialFile>>),
    Xz(Box<XzEncoder<PartialFile>>),
    Bzip2(Box<BzEncoder<PartialFile>>),
    /// The codec could not be set up; the error is returned at the first write.
    Failed(Option<io::Error>),
}

/// xz's own level; it takes 94 MiB.
const XZ_LEVEL: u32 = 6;

impl Encoder {
    /// Packs the output with `codec` into `file`, at the default level of the codec's own program:
    /// loads are published and read more often than written.
    pub fn new(file: PartialFile, codec: Codec) -> Self {
        Self::within(file, codec, &TAKEN_MIB)
    }

    fn within(file: PartialFile, codec: Codec, taken: &'static AtomicUsize) -> Self {
        let Some((share, level)) = share(codec, taken) else {
            let text = format!(
                "so many {} files at once would take more than {MEMORY_MIB} MiB of memory\n  = \
                 help: write fewer parts, or pack them with gzip (.gz), or not at all",
                codec.name()
            );
            let packing = Packing::Failed(Some(io::Error::other(text)));
            return Self { packing, share: Share { mib: 0, taken } };
        };
        let packing = match codec {
            Codec::Plain => Packing::Plain(file),
            Codec::Gzip => {
                Packing::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::default())))
            }
            Codec::Zstd => match zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL) {
                Ok(encoder) => Packing::Zstd(Box::new(encoder)),
                Err(error) => Packing::Failed(Some(error)),
            },
            Codec::Xz => Packing::Xz(Box::new(XzEncoder::new(file, level))),
            Codec::Bzip2 => {
                Packing::Bzip2(Box::new(BzEncoder::new(file, bzip2::Compression::best())))
            }
        };
        Self { packing, share }
    }

    /// Overwrites the first bytes, which is possible only if the file is not packed.
    pub fn write_over_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.packing {
            Packing::Plain(file) => file.write_over_start(bytes),
            _ => Err(io::ErrorKind::NotSeekable.into()),
        }
    }

    /// Ends the packed stream and gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        let _until_it_is_packed = self.share;
        match self.packing {
            Packing::Plain(file) => file.finish(),
            Packing::Gzip(encoder) => encoder.finish()?.finish(),
            Packing::Zstd(encoder) => encoder.finish()?.finish(),
            Packing::Xz(encoder) => encoder.finish()?.finish(),
            Packing::Bzip2(encoder) => encoder.finish()?.finish(),
            Packing::Failed(error) => Err(due(error)),
        }
    }
}

/// The error that is due: nothing can be written.
fn due(error: Option<io::Error>) -> io::Error {
    error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
}

impl Write for Encoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.packing {
            Packing::Plain(file) => file.write(bytes),
            Packing::Gzip(encoder) => encoder.write(bytes),
            Packing::Zstd(encoder) => encoder.write(bytes),
            Packing::Xz(encoder) => encoder.write(bytes),
            Packing::Bzip2(encoder) => encoder.write(bytes),
            Packing::Failed(error) => Err(due(error.take())),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.packing {
            Packing::Plain(file) => file.flush(),
            Packing::Gzip(encoder) => encoder.flush(),
            Packing::Zstd(encoder) => encoder.flush(),
            Packing::Xz(encoder) => encoder.flush(),
            Packing::Bzip2(encoder) => encoder.flush(),
            Packing::Failed(error) => Err(due(error.take())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Separate from the memory of the other tests.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn many_packed_files_take_bounded_memory_and_too_many_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut open: Vec<Encoder> = Vec::new();
        let refused = loop {
            let path = directory.path().join(format!("{}.xz", open.len()));
            let mut encoder =
                Encoder::within(PartialFile::create(&path).unwrap(), Codec::Xz, &TAKEN);
            if let Err(error) = encoder.write_all(b"x") {
                break error.to_string();
            }
            open.push(encoder);
            assert!(open.len() < 500);
        };
        assert!(refused.contains("so many xz files"), "{refused}");
        assert!(open.len() > 100);
        // Each encoder that ends makes room for another.
        open.pop().unwrap().finish().unwrap();
        let path = directory.path().join("one-more.xz");
        let mut encoder = Encoder::within(PartialFile::create(&path).unwrap(), Codec::Xz, &TAKEN);
        encoder.write_all(b"x").unwrap();
        encoder.finish().unwrap();
    }
}
