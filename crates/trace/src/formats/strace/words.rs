//! Arguments in the words that strace prints.

use super::arguments::{Returned, descriptor, integer, string};
use crate::syscalls::call::{Descriptor, OpenFlags, Told, ToldKind, Whence};
use crate::syscalls::read::Arguments;

impl Returned<'_> {
    fn text(&self, at: usize) -> Option<&[u8]> {
        self.arguments.get(at).copied()
    }
}

impl Arguments for Returned<'_> {
    fn descriptor(&self, at: usize) -> Option<Descriptor> {
        descriptor(self.text(at)?)
    }

    fn number(&self, at: usize) -> Option<i64> {
        integer(self.text(at)?)
    }

    fn path(&self, at: usize) -> Option<Vec<u8>> {
        let (path, is_whole) = string(self.text(at)?)?;
        // No name has a zero in it.
        (is_whole && !path.contains(&0)).then_some(path)
    }

    fn is_null(&self, at: usize) -> bool {
        self.text(at) == Some(b"NULL")
    }

    fn has(&self, at: usize, word: &str) -> bool {
        let text = self.text(at).unwrap_or_default();
        text.split(|byte| matches!(byte, b'|' | b' ' | b'{' | b'}' | b',' | b'='))
            .any(|part| part == word.as_bytes())
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.text(at) == Some(word.as_bytes())
    }

    fn spawns_with(&self, word: &str) -> bool {
        (0..self.arguments.len()).any(|at| self.has(at, word))
    }

    fn open_flags(&self, at: usize) -> Option<OpenFlags> {
        Some(flags(self.text(at)?))
    }

    fn open_how(&self, at: usize) -> Option<(OpenFlags, Option<u32>)> {
        let how = self.text(at)?;
        let mode = member(how, "mode=").and_then(integer);
        let mode = mode.and_then(|mode| u32::try_from(mode).ok());
        Some((flags(member(how, "flags=")?), mode))
    }

    fn pointed(&self, at: usize) -> Option<Whence> {
        match self.text(at)? {
            b"NULL" => Some(Whence::Position),
            text => {
                let text = text.strip_prefix(b"[").unwrap_or(text);
                let end = text.iter().position(|byte| !byte.is_ascii_digit());
                let digits = &text[..end.unwrap_or(text.len())];
                Some(Whence::Start(u64::try_from(integer(digits)?).ok()?))
            }
        }
    }

    fn told(&self, at: usize) -> Option<Told> {
        let text = self.text(at)?;
        let mode = member(text, "_mode=")?;
        let kind = match mode.split(|byte| *byte == b'|').next()? {
            b"S_IFREG" => ToldKind::File,
            b"S_IFDIR" => ToldKind::Directory,
            b"S_IFLNK" => ToldKind::Symlink,
            _ => ToldKind::Other,
        };
        let size = member(text, "_size=").and_then(integer);
        Some(Told { kind, size: size.and_then(|size| u64::try_from(size).ok()) })
    }

    fn opened(&self) -> Option<Vec<u8>> {
        self.path.clone()
    }
}

/// The words of an argument that says how a file is opened.
fn flags(text: &[u8]) -> OpenFlags {
    let mut flags = OpenFlags::default();
    for word in text.split(|byte| *byte == b'|') {
        match word {
            b"O_RDONLY" => flags.read = true,
            b"O_WRONLY" => flags.write = true,
            b"O_RDWR" => (flags.read, flags.write) = (true, true),
            b"O_CREAT" => flags.create = true,
            b"O_EXCL" => flags.exclusive = true,
            b"O_TRUNC" => flags.truncate = true,
            b"O_APPEND" => flags.append = true,
            b"O_DIRECTORY" => flags.directory = true,
            b"O_PATH" => flags.path = true,
            b"O_SYNC" => flags.sync = true,
            b"O_DSYNC" => flags.data_sync = true,
            b"O_DIRECT" => flags.direct = true,
            b"O_NOFOLLOW" => flags.no_follow = true,
            b"O_CLOEXEC" => flags.close_on_exec = true,
            b"O_TMPFILE" | b"__O_TMPFILE" => flags.unnamed = true,
            _ => {}
        }
    }
    flags
}

/// The value of a member of a structure.
fn member<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    let at = text.windows(name.len()).position(|part| part == name.as_bytes())? + name.len();
    let end = text[at..].iter().position(|byte| matches!(byte, b',' | b'}' | b' '));
    Some(&text[at..end.map_or(text.len(), |end| at + end)])
}
