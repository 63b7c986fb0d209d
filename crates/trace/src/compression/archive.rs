//! The members of a tar archive, one after the other.
//!
//! Traces are published by the directory: Tencent's hours are CSV in `.tgz`, Cambridge's volumes
//! are packed one by one and then put into one `.tar`. A user who names the archive means its
//! contents. So headers, directories and links are skipped, packed members are unpacked, and the
//! contents read as one file. The caller chooses the members ([`Choice`]), because a licence may
//! lie beside the traces. Concatenated archives, as `cat` makes them, are read as one, and so are
//! nested ones: if an inner archive were taken for text, its first header would swallow the first
//! line.
//!
//! The crate `tar` reads archives, too, but keeps a long name of any length in memory, and refuses
//! a pax record with a line end in its value. Its members borrow their archive, so they can neither
//! be handed on as a stream nor hold an archive themselves.
//!
//! Format: POSIX.1-2001 `ustar` and `pax` (IEEE Std 1003.1, pax, "ustar Interchange Format") and
//! GNU tar's long names and large sizes.

use std::io::{self, Read};

use super::damage::{self, AGAIN};
use super::{Codec, Decoder, PEEK_BYTES, Peeked, Positioned};
use crate::text;

/// The depth to which archives may be nested: an archive can be made that holds itself.
const DEPTH_MAX: usize = 4;

/// The unit of an archive.
pub(super) const BLOCK_BYTES: usize = 512;

/// The number of bytes of a pax header or a long name that are read.
const EXTRA_BYTES_MAX: u64 = 64 << 10;

/// Whether a file that begins with these bytes is an archive: it has the magic and the checksum of
/// a header.
pub(super) fn is_archive(first_bytes: &[u8]) -> bool {
    first_bytes.first_chunk().is_some_and(|block| is_header(block) && &block[257..262] == b"ustar")
}

/// Whether the checksum of a header is right (ustar: the sum of all bytes, its own eight taken for
/// blanks).
fn is_header(block: &[u8; BLOCK_BYTES]) -> bool {
    let (before, behind) = (&block[..148], &block[156..]);
    let sum: u64 = before.iter().chain(behind).map(|byte| u64::from(*byte)).sum();
    number(&block[148..156]) == Some(sum + 8 * u64::from(b' '))
}

/// A number of a header: octal digits among blanks and zero bytes, or big-endian behind a byte 0x80
/// (GNU).
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, binary @ ..] = field {
        let (high, low) = binary.split_last_chunk::<8>().unwrap_or((binary, &[0; 8]));
        return high.iter().all(|byte| *byte == 0).then(|| u64::from_be_bytes(*low));
    }
    let digits = field.trim_ascii_start().split(|byte| matches!(byte, 0 | b' ')).next()?;
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// A member's content, a number of bytes of the archive, and the padding after it.
struct Member<R> {
    archive: R,
    left: u64,
    padding: u64,
}

impl<R: Positioned> Member<R> {
    fn new(archive: R, bytes: u64) -> Self {
        Self { archive, left: bytes, padding: bytes.wrapping_neg() % BLOCK_BYTES as u64 }
    }

    /// Skips the rest of the member; returns the archive behind it.
    fn skip(mut self) -> io::Result<R> {
        self.left = self.left.saturating_add(std::mem::take(&mut self.padding));
        let mut scratch = [0; 4096];
        while self.left > 0 {
            match self.read(&mut scratch) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(self.archive)
    }
}

impl<R: Read> Read for Member<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if bytes == 0 {
            return Ok(0);
        }
        match self.archive.read(&mut into[..bytes])? {
            0 => Err(breaks_off()),
            count => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}

fn breaks_off() -> io::Error {
    damage::error("the tar archive breaks off before its end".to_owned(), AGAIN)
}

fn corrupt(why: &str) -> io::Error {
    damage::error(format!("the tar archive is corrupt ({why})"), AGAIN)
}

/// Decides whether to take a member by its name and its first bytes, unpacked. An error ends the
/// archive there.
pub type Choice = Box<dyn FnMut(&str, &[u8]) -> io::Result<bool> + Send>;

/// The content of a member, unpacked, its first bytes looked at.
type Content<R> = Peeked<Decoder<Peeked<Member<Level<R>>>>>;

/// An archive: a file, or a member of the archive around it.
enum Level<R: Positioned> {
    File(R),
    Within(Box<Content<R>>),
}

impl<R: Positioned> Read for Level<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(into),
            Self::Within(content) => content.read(into),
        }
    }
}

impl<R: Positioned> Positioned for Level<R> {
    fn position(&self) -> u64 {
        match self {
            Self::File(file) => file.position(),
            Self::Within(content) => around(content).map_or(0, Self::position),
        }
    }
}

/// The archive of which `content` is a member; `None` once its decoder has given the archive up.
fn around<R: Positioned>(content: &Content<R>) -> Option<&Level<R>> {
    content.get_ref().get_ref().map(|member| &member.get_ref().archive)
}

/// The members of an archive as one stream.
pub struct Archive<R: Positioned> {
    state: State<R>,
    choice: Choice,
    /// The number of archives that enclose the current one.
    depth: usize,
    /// The number of bytes of the file that were read when the state had to be given up.
    position: u64,
    /// The last byte of the current member, and whether the member is text; `None` before its first
    /// byte.
    last: Option<(u8, bool)>,
}

enum State<R: Positioned> {
    Between(Level<R>),
    Within(Box<Content<R>>),
    Ended,
}

impl<R: Positioned> Archive<R> {
    /// Reads the members of `archive` that `choice` takes.
    pub fn new(archive: R, choice: Choice) -> Self {
        let state = State::Between(Level::File(archive));
        Self { state, choice, depth: 0, position: 0, last: None }
    }

    /// Goes on to the next member with content.
    fn begin_member(&mut self, archive: Level<R>) -> io::Result<()> {
        let (member, name) = match next_member(archive)? {
            Next::Member(member, name) => (member, name),
            Next::End(Level::File(file)) => {
                self.position = file.position();
                return Ok(());
            }
            Next::End(Level::Within(content)) => {
                self.depth -= 1;
                self.state = behind(*content)?;
                return Ok(());
            }
        };
        let member = Peeked::new(member, BLOCK_BYTES);
        let codec = Codec::of_first_bytes(member.first_bytes());
        let mut content = Peeked::new(Decoder::new(member, codec), PEEK_BYTES);
        if is_archive(content.first_bytes()) {
            if self.depth == DEPTH_MAX {
                return Err(corrupt("archives lie in each other without end"));
            }
            self.depth += 1;
            self.state = State::Between(Level::Within(Box::new(content)));
            return Ok(());
        }
        if (self.choice)(&name, content.first_bytes())? {
            self.state = State::Within(Box::new(content));
            self.last = None;
            return Ok(());
        }
        // A member that cannot be read may be the wanted one.
        if let Some(error) = content.take_error() {
            return Err(error);
        }
        self.state = behind(content)?;
        Ok(())
    }

    fn step(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.position = self.position().max(self.position);
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => Ok(Some(0)),
            State::Between(archive) => self.begin_member(archive).map(|()| None),
            State::Within(mut content) => {
                let count = match content.read(into) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                        self.state = State::Within(content);
                        return Err(error);
                    }
                    read => read?,
                };
                if count > 0 {
                    let text = |bytes: &[u8]| memchr::memchr(0, bytes).is_none();
                    let is_text = self.last.map_or_else(|| text(&into[..count]), |last| last.1);
                    self.last = Some((into[count - 1], is_text));
                    self.state = State::Within(content);
                    return Ok(Some(count));
                }
                self.state = behind(*content)?;
                // The last line of a text must not run into the first one of the next.
                if matches!(self.last, Some((last, true)) if last != b'\n') {
                    into[0] = b'\n';
                    return Ok(Some(1));
                }
                Ok(None)
            }
        }
    }
}

/// The archive behind a member.
fn behind<R: Positioned>(content: Content<R>) -> io::Result<State<R>> {
    match content.into_inner().into_inner() {
        Some(member) => Ok(State::Between(member.into_inner().skip()?)),
        None => Ok(State::Ended),
    }
}

impl<R: Positioned> Positioned for Archive<R> {
    fn position(&self) -> u64 {
        match &self.state {
            State::Between(archive) => archive.position(),
            State::Within(content) => around(content).map_or(self.position, Level::position),
            State::Ended => self.position,
        }
    }
}

impl<R: Positioned> Read for Archive<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(count) = self.step(into)? {
                return Ok(count);
            }
        }
    }
}

/// The next part of an archive.
enum Next<R> {
    /// A member that is a file with content, and its name.
    Member(Member<R>, String),
    /// The archive has ended.
    End(R),
}

/// The next member that is a file with content.
fn next_member<R: Positioned>(mut archive: R) -> io::Result<Next<R>> {
    // Size and name from a pax header or a long name, which apply to the next member.
    let (mut size_said, mut name_said) = (None, None);
    // Zeros mark the end and fill the last record, and then a further archive may follow.
    let mut has_ended = false;
    loop {
        let mut block = [0; BLOCK_BYTES];
        let bytes = read_full(&mut archive, &mut block)?;
        let is_zero = block.iter().all(|byte| *byte == 0);
        match bytes {
            0 => return Ok(Next::End(archive)),
            _ if has_ended && is_zero => continue,
            BLOCK_BYTES if is_zero => {
                has_ended = true;
                continue;
            }
            BLOCK_BYTES if is_header(&block) => has_ended = false,
            _ if has_ended => {
                let what = "behind the end of the tar archive there is something else";
                return Err(damage::error(what.to_owned(), AGAIN));
            }
            BLOCK_BYTES => return Err(corrupt("the checksum of a header is wrong")),
            _ => return Err(breaks_off()),
        }
        let Some(size) = number(&block[124..136]) else {
            return Err(corrupt("the size of a member is no number"));
        };
        match block[156] {
            b'x' | b'L' => {
                let (extra, rest) = extra(archive, size)?;
                archive = rest;
                if block[156] == b'L' {
                    name_said = Some(until_zero(&extra).to_vec());
                } else {
                    size_said = pax(&extra, b"size").and_then(decimal).or(size_said);
                    name_said = pax(&extra, b"path").map(<[u8]>::to_vec).or(name_said);
                }
            }
            0 | b'0' | b'7' => {
                let size = size_said.take().unwrap_or(size);
                let name = name_said.take();
                let name = name.as_deref().unwrap_or_else(|| until_zero(&block[..100]));
                // macOS keeps a file's metadata in a member of this name beside it.
                let file_name = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
                let member = Member::new(archive, size);
                if size > 0 && !file_name.starts_with(b"._") {
                    return Ok(Next::Member(member, text::shown(name)));
                }
                archive = member.skip()?;
            }
            // Links, devices and directories have no content, whatever they say.
            b'1'..=b'6' => (size_said, name_said) = (None, None),
            b'S' => return Err(corrupt("it has a sparse file, whose holes only GNU tar knows")),
            _ => archive = Member::new(archive, size).skip()?,
        }
    }
}

/// The content of a header's extension and the archive behind it.
fn extra<R: Positioned>(archive: R, size: u64) -> io::Result<(Vec<u8>, R)> {
    let mut member = Member::new(archive, size);
    let mut extra = Vec::new();
    member.by_ref().take(EXTRA_BYTES_MAX).read_to_end(&mut extra)?;
    Ok((extra, member.skip()?))
}

/// The value of `key` in a pax header: records of `LENGTH KEY=VALUE\n`.
fn pax<'a>(records: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut rest = records;
    loop {
        let blank = memchr::memchr(b' ', rest)?;
        let length = usize::try_from(decimal(&rest[..blank])?).ok()?;
        let record = rest.get(blank + 1..length)?;
        if let Some(value) = record.strip_prefix(key).and_then(|rest| rest.strip_prefix(b"=")) {
            return value.strip_suffix(b"\n");
        }
        rest = &rest[length..];
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Reads until `block` is full or the stream ends; answers the number of bytes read.
fn read_full<R: Read>(stream: &mut R, block: &mut [u8]) -> io::Result<usize> {
    let mut end = 0;
    while end < block.len() {
        match stream.read(&mut block[end..]) {
            Ok(0) => break,
            Ok(count) => end += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(end)
}
