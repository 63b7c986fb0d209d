//! Packing what is written.

use std::io::{self, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;

use super::{Codec, PartialFile};

/// A [`PartialFile`] packed with a codec.
pub struct Encoder(Packing);

enum Packing {
    Plain(PartialFile),
    Gzip(Box<GzEncoder<PartialFile>>),
    Zstd(Box<zstd::Encoder<'static, PartialFile>>),
    Xz(Box<XzEncoder<PartialFile>>),
    Bzip2(Box<BzEncoder<PartialFile>>),
    /// The codec could not be set up; that is due, like every other error, when something is
    /// written.
    Failed(Option<io::Error>),
}

/// xz's own level; it takes 94 MiB.
const XZ_LEVEL: u32 = 6;

impl Encoder {
    /// Packs what is written with `codec` into `file`, at the level that the codec's own program
    /// takes unless told: loads are published and read more often than written.
    pub fn new(file: PartialFile, codec: Codec) -> Self {
        Self(match codec {
            Codec::Plain => Packing::Plain(file),
            Codec::Gzip => {
                Packing::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::default())))
            }
            Codec::Zstd => match zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL) {
                Ok(encoder) => Packing::Zstd(Box::new(encoder)),
                Err(error) => Packing::Failed(Some(error)),
            },
            Codec::Xz => Packing::Xz(Box::new(XzEncoder::new(file, XZ_LEVEL))),
            Codec::Bzip2 => {
                Packing::Bzip2(Box::new(BzEncoder::new(file, bzip2::Compression::best())))
            }
        })
    }

    /// Writes over the first bytes, which only a file that is not packed can have done.
    pub fn write_over_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Packing::Plain(file) => file.write_over_start(bytes),
            _ => Err(io::ErrorKind::NotSeekable.into()),
        }
    }

    /// Ends the packed stream and gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Packing::Plain(file) => file.finish(),
            Packing::Gzip(encoder) => encoder.finish()?.finish(),
            Packing::Zstd(encoder) => encoder.finish()?.finish(),
            Packing::Xz(encoder) => encoder.finish()?.finish(),
            Packing::Bzip2(encoder) => encoder.finish()?.finish(),
            Packing::Failed(error) => Err(due(error)),
        }
    }
}

/// Why nothing can be written.
fn due(error: Option<io::Error>) -> io::Error {
    error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
}

impl Write for Encoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Packing::Plain(file) => file.write(bytes),
            Packing::Gzip(encoder) => encoder.write(bytes),
            Packing::Zstd(encoder) => encoder.write(bytes),
            Packing::Xz(encoder) => encoder.write(bytes),
            Packing::Bzip2(encoder) => encoder.write(bytes),
            Packing::Failed(error) => Err(due(error.take())),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Packing::Plain(file) => file.flush(),
            Packing::Gzip(encoder) => encoder.flush(),
            Packing::Zstd(encoder) => encoder.flush(),
            Packing::Xz(encoder) => encoder.flush(),
            Packing::Bzip2(encoder) => encoder.flush(),
            Packing::Failed(error) => Err(due(error.take())),
        }
    }
}
