//! Bytes in and out: compressed or not, from a file or a pipe.
//!
//! Traces come gzipped more often than not, and not always under the name that says so. So the
//! codec is read from the first bytes. Recordings also break off: a copy was cut short, a disk
//! filled up. What could be decoded before the break is worth having, so a broken stream is told
//! apart both from a clean end and from a disk that cannot be read ([`damage`]).
//!
//! On the way out a file appears under its name only when it is complete ([`PartialFile`]).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

/// Size of the buffers towards the file system.
const BUFFER_BYTES: usize = 256 << 10;

/// How much is asked of the decoder at a time. When it meets corruption it answers with an error
/// and keeps what it decoded in that same step to itself, so a step bounds what is lost.
const DECODE_BYTES: usize = 32 << 10;

/// How much of a name is kept in that of its partial file: names have at most 255 bytes.
const NAME_BYTES: usize = 200;

/// How the bytes of a file are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    Plain,
    /// gzip (RFC 1952), of one or more members.
    Gzip,
}

impl Codec {
    /// The codec of a file that begins with these bytes.
    pub fn of_first_bytes(first_bytes: &[u8]) -> Self {
        // RFC 1952, section 2.3.1: two bytes of magic and method 8, deflate.
        if first_bytes.starts_with(&[0x1f, 0x8b, 8]) { Self::Gzip } else { Self::Plain }
    }

    /// The codec that the name of an output asks for.
    pub fn of_name(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("gz") => Self::Gzip,
            _ => Self::Plain,
        }
    }
}

/// A stream whose first bytes were looked at and are read again.
pub struct Peeked<R> {
    head: Vec<u8>,
    at: usize,
    /// What went wrong behind the first bytes; it is due when they have been read.
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

    /// Answers, once, what went wrong within the first bytes.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
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

/// A stream that knows how many bytes were read from it.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// The bytes of a file after decompression.
pub struct Decoder<R>(Inner<R>);

/// A stream that knows how much of the file beneath it was used.
pub trait Positioned: Read {
    /// How many bytes of the file as it is stored were used so far.
    fn position(&self) -> u64;
}

impl<P: Positioned + ?Sized> Positioned for Box<P> {
    fn position(&self) -> u64 {
        (**self).position()
    }
}

enum Inner<R> {
    Plain(Counted<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Counted<R>>>>),
}

impl<R: Read> Decoder<R> {
    /// Decodes `packed`, which is packed with `codec`.
    pub fn new(packed: R, codec: Codec) -> Self {
        let packed = Counted { inner: packed, bytes: 0 };
        Self(match codec {
            Codec::Plain => Inner::Plain(packed),
            Codec::Gzip => Inner::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(
                BUFFER_BYTES,
                packed,
            )))),
        })
    }
}

impl<R: Read> Positioned for Decoder<R> {
    fn position(&self) -> u64 {
        match &self.0 {
            Inner::Plain(packed) => packed.bytes,
            Inner::Gzip(decoder) => {
                let packed = decoder.get_ref();
                packed.get_ref().bytes - packed.buffer().len() as u64
            }
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Plain(packed) => packed.read(into),
            Inner::Gzip(decoder) => {
                let step = into.len().min(DECODE_BYTES);
                decoder.read(&mut into[..step])
            }
        }
    }
}

/// What is wrong with the compressed stream, if `error` came from a [`Decoder`] and not from the
/// file system beneath it.
pub fn damage(error: &io::Error) -> Option<String> {
    if error.raw_os_error().is_some() {
        return None;
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Some("the gzip stream breaks off before its end".to_owned())
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Some(format!("the gzip stream is corrupt ({error})"))
        }
        _ => None,
    }
}

/// A file that appears under its name when it is finished. Until then it is `.NAME.PID.partial`
/// beside it, and when it is dropped unfinished it is removed.
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<BufWriter<File>>,
}

impl PartialFile {
    /// Begins the file that is to become `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        for number in 0_u32.. {
            let partial = partial_name(path, number)?;
            // A new file and no other: what stands there may be a link to somebody's data.
            match File::create_new(&partial) {
                Ok(file) => {
                    let file = Some(BufWriter::with_capacity(BUFFER_BYTES, file));
                    return Ok(Self { path: path.to_owned(), partial, file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Writes out what is left and gives the file its name. The content reaches the disk before
    /// the name does, so that a crash leaves no file that looks complete and is not.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            let written = file.flush().and_then(|()| file.get_ref().sync_all());
            drop(file);
            let named = written.and_then(|()| fs::rename(&self.partial, &self.path));
            if named.is_err() {
                // The error that matters is the one at hand.
                let _ = fs::remove_file(&self.partial);
            }
            return named;
        }
        Ok(())
    }
}

/// The name, unique to this process, of the file that is to become `path`; `number` tells apart
/// the attempts to find one that is free.
fn partial_name(path: &Path, number: u32) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
    let name = &name[..name.len().min(NAME_BYTES)];
    let process = std::process::id();
    let ending = match number {
        0 => format!(".{process}.partial"),
        _ => format!(".{process}.{number}.partial"),
    };
    let partial = [b".", name, ending.as_bytes()].concat();
    Ok(path.with_file_name(OsStr::from_bytes(&partial)))
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or_else(|| Err(io::ErrorKind::BrokenPipe.into()), |f| f.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // There is nobody left to tell; a stale partial file does no harm.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// A [`PartialFile`] packed with a codec.
pub struct Encoder(Packing);

enum Packing {
    Plain(PartialFile),
    Gzip(Box<GzEncoder<PartialFile>>),
}

impl Encoder {
    /// Packs what is written with `codec` into `file`.
    pub fn new(file: PartialFile, codec: Codec) -> Self {
        Self(match codec {
            Codec::Plain => Packing::Plain(file),
            // Level 6, gzip's own: loads are published and read more often than written.
            Codec::Gzip => {
                Packing::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::default())))
            }
        })
    }

    /// Ends the packed stream and gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Packing::Plain(file) => file.finish(),
            Packing::Gzip(encoder) => encoder.finish()?.finish(),
        }
    }
}

impl Write for Encoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Packing::Plain(file) => file.write(bytes),
            Packing::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Packing::Plain(file) => file.flush(),
            Packing::Gzip(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `bytes` as one gzip member.
    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn text() -> Vec<u8> {
        (0..200_000_u32)
            .flat_map(|n| format!("{} ; {n}\n", n.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    fn decoded(packed: &[u8]) -> (Vec<u8>, Option<io::Error>) {
        let mut decoder = Decoder::new(packed, Codec::of_first_bytes(packed));
        let mut out = Vec::new();
        let error = decoder.read_to_end(&mut out).err();
        (out, error)
    }

    #[test]
    fn a_stream_is_unpacked_by_what_it_holds_and_members_follow_each_other() {
        let text = text();
        assert_eq!(decoded(&text).0, text);
        let mut members = gzip(&text[..1000]);
        members.extend(gzip(&text[1000..]));
        let (out, error) = decoded(&members);
        assert!(error.is_none());
        assert_eq!(out, text);
    }

    #[test]
    fn a_cut_stream_gives_what_it_held_and_then_says_that_it_is_cut() {
        let text = text();
        let packed = gzip(&text);
        for cut in [packed.len() / 2, packed.len() - 9, packed.len() - 1] {
            let (out, error) = decoded(&packed[..cut]);
            assert!(text.starts_with(&out) && out.len() > text.len() / 3, "{}", out.len());
            assert!(damage(&error.unwrap()).unwrap().contains("breaks off"));
        }
    }

    #[test]
    fn a_corrupt_stream_is_not_taken_for_a_disk_that_cannot_be_read() {
        let mut packed = gzip(&text());
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0xff);
        let (out, error) = decoded(&packed);
        assert!(!out.is_empty());
        assert!(damage(&error.unwrap()).unwrap().contains("corrupt"));
        assert!(damage(&io::Error::from_raw_os_error(22)).is_none());
    }

    #[test]
    fn first_bytes_are_read_twice_and_an_error_behind_them_keeps_its_place() {
        let packed = gzip(&text());
        let cut = &packed[..packed.len() / 2];
        let mut peeked = Peeked::new(Decoder::new(cut, Codec::Gzip), usize::MAX);
        let head = peeked.first_bytes().to_vec();
        let mut out = Vec::new();
        assert!(peeked.read_to_end(&mut out).is_err());
        assert_eq!(out, head);
    }

    #[test]
    fn a_file_appears_when_it_is_finished_and_leaves_nothing_when_it_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.gz");
        let mut encoder = Encoder::new(PartialFile::create(&path).unwrap(), Codec::of_name(&path));
        encoder.write_all(b"half").unwrap();
        drop(encoder);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        let mut encoder = Encoder::new(PartialFile::create(&path).unwrap(), Codec::of_name(&path));
        encoder.write_all(b"whole").unwrap();
        assert!(!path.exists());
        encoder.finish().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(decoded(&fs::read(&path).unwrap()).0, b"whole");
    }

    #[test]
    fn a_link_that_stands_where_the_partial_file_goes_keeps_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) = (directory.path().join("x.load"), directory.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        let links = [0, 1].map(|number| partial_name(&path, number).unwrap());
        for link in links.iter().chain([&directory.path().join("x.load.partial")]) {
            std::os::unix::fs::symlink(&precious, link).unwrap();
        }
        drop(PartialFile::create(&path).unwrap());
        let mut file = PartialFile::create(&path).unwrap();
        let mut other = PartialFile::create(&path).unwrap();
        other.write_all(b"other").unwrap();
        file.write_all(b"new").unwrap();
        drop(other);
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(links.iter().all(|link| link.is_symlink()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 5);
    }

    #[test]
    fn an_output_that_is_a_link_is_replaced_and_its_target_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) = (directory.path().join("x.load"), directory.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        PartialFile::create(&path).unwrap().finish().unwrap();
        assert!(!path.is_symlink() && fs::read(&path).unwrap().is_empty());
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_name_as_long_as_names_can_be_is_written_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x".repeat(255));
        PartialFile::create(&path).unwrap().finish().unwrap();
        assert!(path.exists());
    }
}
