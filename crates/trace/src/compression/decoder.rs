//! Unpacking, whatever the codec.
//!
//! A file states how much memory unpacking takes, which may be a lie; so the memory is bounded.

use std::io::{self, BufReader, Read};

use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

use super::chain::{Bzip2, Chain, Gzip};
use super::damage::{self, AGAIN};
use super::{BUFFER_BYTES, Codec, Positioned};

/// The number of bytes that are decoded at a time. When the decoder meets corruption it returns an
/// error and loses the bytes of that step, so the size of a step bounds the loss.
const DECODE_BYTES: usize = 32 << 10;

/// The largest window (dictionary) of a decoder in bytes: enough for `zstd --long=28` and `xz -9`,
/// and more than traces are packed with.
const MEMORY_MAX: u64 = 1 << MEMORY_MAX_LOG;
const MEMORY_MAX_LOG: u32 = 28;

/// A stream that counts the bytes read from it, and remembers whether a read failed.
struct Counted<R> {
    inner: R,
    bytes: u64,
    failed: bool,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into);
        self.failed = read.is_err();
        self.bytes += *read.as_ref().unwrap_or(&0) as u64;
        read
    }
}

type Buffered<R> = BufReader<Counted<R>>;

/// The bytes of a file after decompression.
pub struct Decoder<R: Read> {
    inner: Inner<R>,
    codec: Codec,
}

enum Inner<R: Read> {
    Plain(Counted<R>),
    Gzip(Box<Chain<Gzip<Buffered<R>>>>),
    Zstd(Box<zstd::Decoder<'static, Buffered<R>>>),
    Xz(Box<XzDecoder<Buffered<R>>>),
    Bzip2(Box<Chain<Bzip2<Buffered<R>>>>),
    /// The codec could not be set up; the error is returned at the first read.
    Failed(Counted<R>, Option<io::Error>),
}

impl<R: Read> Decoder<R> {
    /// Decodes `packed`, which is packed with `codec`.
    pub fn new(packed: R, codec: Codec) -> Self {
        let packed = Counted { inner: packed, bytes: 0, failed: false };
        let buffered = |packed| BufReader::with_capacity(BUFFER_BYTES, packed);
        let inner = match codec {
            Codec::Plain => Inner::Plain(packed),
            Codec::Gzip => Inner::Gzip(Box::new(Chain::new(buffered(packed)))),
            Codec::Zstd => match zstd::Decoder::try_with_buffer(buffered(packed)) {
                Ok(mut decoder) => match decoder.window_log_max(MEMORY_MAX_LOG) {
                    Ok(()) => Inner::Zstd(Box::new(decoder)),
                    Err(error) => Inner::Failed(decoder.into_inner().into_inner(), Some(error)),
                },
                Err((packed, error)) => Inner::Failed(packed.into_inner(), Some(error)),
            },
            Codec::Xz => {
                match Stream::new_stream_decoder(MEMORY_MAX, liblzma::stream::CONCATENATED) {
                    Ok(raw) => Inner::Xz(Box::new(XzDecoder::new_stream(buffered(packed), raw))),
                    Err(error) => Inner::Failed(packed, Some(error.into())),
                }
            }
            Codec::Bzip2 => Inner::Bzip2(Box::new(Chain::new(buffered(packed)))),
        };
        Self { inner, codec }
    }
}

impl<R: Read> Decoder<R> {
    fn packed(&self) -> Option<&Counted<R>> {
        match &self.inner {
            Inner::Plain(packed) | Inner::Failed(packed, _) => Some(packed),
            Inner::Gzip(decoder) => decoder.packed().map(BufReader::get_ref),
            Inner::Zstd(decoder) => Some(decoder.get_ref().get_ref()),
            Inner::Xz(decoder) => Some(decoder.get_ref().get_ref()),
            Inner::Bzip2(decoder) => decoder.packed().map(BufReader::get_ref),
        }
    }

    /// The packed stream.
    pub(super) fn get_ref(&self) -> Option<&R> {
        self.packed().map(|packed| &packed.inner)
    }

    /// The packed stream, which may have been read further than it was unpacked.
    pub(super) fn into_inner(self) -> Option<R> {
        let packed = match self.inner {
            Inner::Plain(packed) | Inner::Failed(packed, _) => Some(packed),
            Inner::Gzip(decoder) => decoder.into_packed().map(BufReader::into_inner),
            Inner::Zstd(decoder) => Some(decoder.into_inner().into_inner()),
            Inner::Xz(decoder) => Some(decoder.into_inner().into_inner()),
            Inner::Bzip2(decoder) => decoder.into_packed().map(BufReader::into_inner),
        };
        packed.map(|packed| packed.inner)
    }

    /// Wraps an error as damage, unless it is the underlying file's.
    fn explained(&self, error: io::Error) -> io::Error {
        let failed = self.packed().is_some_and(|packed| packed.failed);
        if failed || matches!(self.inner, Inner::Plain(_) | Inner::Failed(..)) {
            return error;
        }
        let name = self.codec.name();
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let what = format!("the {name} stream breaks off before its end");
            return damage::error(what, AGAIN);
        }
        let limit = error.get_ref().and_then(|error| error.downcast_ref());
        // zstd's error can only be recognised by its text (`ZSTD_getErrorName`).
        if matches!(limit, Some(liblzma::stream::Error::MemLimit))
            || error.to_string().contains("too much memory")
        {
            let memory = MEMORY_MAX >> 20;
            let what = format!("the {name} stream needs more than {memory} MiB to be unpacked");
            return damage::error(
                what,
                "unpack it first, for instance with `xz -d` or `zstd -d \
                 --long=31`",
            );
        }
        damage::error(format!("the {name} stream is corrupt ({error})"), AGAIN)
    }
}

impl<R: Read> Positioned for Decoder<R> {
    fn position(&self) -> u64 {
        let unread = match &self.inner {
            Inner::Plain(_) | Inner::Failed(..) => 0,
            Inner::Gzip(decoder) => decoder.packed().map_or(0, |packed| packed.buffer().len()),
            Inner::Zstd(decoder) => decoder.get_ref().buffer().len(),
            Inner::Xz(decoder) => decoder.get_ref().buffer().len(),
            Inner::Bzip2(decoder) => decoder.packed().map_or(0, |packed| packed.buffer().len()),
        };
        self.packed().map_or(0, |packed| packed.bytes - unread as u64)
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let step = into.len().min(DECODE_BYTES);
        let read = match &mut self.inner {
            Inner::Plain(packed) => return packed.read(into),
            Inner::Failed(_, error) => error.take().map_or(Ok(0), Err),
            Inner::Gzip(decoder) => decoder.read(&mut into[..step]),
            Inner::Zstd(decoder) => decoder.read(&mut into[..step]),
            Inner::Xz(decoder) => decoder.read(&mut into[..step]),
            Inner::Bzip2(decoder) => decoder.read(&mut into[..step]),
        };
        read.map_err(|error| self.explained(error))
    }
}
