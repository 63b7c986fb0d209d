//! Arguments as the kernel has them: numbers, and names that a probe read.

use super::layout::{Parts, Value};
use crate::syscalls::call::{Descriptor, OpenFlags, Told, Whence};
use crate::syscalls::read::Arguments;

/// The words of C by their numbers on x86-64 (`fcntl.h`, `linux/fs.h`, `sched.h`, `mman.h`).
const WORDS: [(&str, u64); 33] = [
    ("AT_SYMLINK_NOFOLLOW", 0x100),
    ("AT_SYMLINK_FOLLOW", 0x400),
    ("AT_REMOVEDIR", 0x200),
    ("AT_EMPTY_PATH", 0x1000),
    ("CLONE_FS", 0x200),
    ("CLONE_FILES", 0x400),
    ("FD_CLOEXEC", 1),
    ("F_DUPFD", 0),
    ("F_SETFD", 2),
    ("F_SETFL", 4),
    ("F_SETLK", 6),
    ("F_SETLKW", 7),
    ("F_OFD_SETLK", 37),
    ("F_OFD_SETLKW", 38),
    ("F_DUPFD_CLOEXEC", 1030),
    ("FICLONE", 0x4004_9409),
    ("FICLONERANGE", 0x4020_940d),
    ("MAP_SHARED", 1),
    ("MAP_SHARED_VALIDATE", 3),
    ("MS_SYNC", 4),
    ("O_APPEND", O_APPEND),
    ("O_CLOEXEC", O_CLOEXEC),
    ("O_DIRECT", O_DIRECT),
    ("PROT_WRITE", 2),
    ("RENAME_NOREPLACE", 1),
    ("RENAME_EXCHANGE", 2),
    ("RENAME_WHITEOUT", 4),
    ("RWF_DSYNC", 2),
    ("RWF_SYNC", 4),
    ("RWF_APPEND", 0x10),
    ("SEEK_SET", 0),
    ("SEEK_CUR", 1),
    ("SEEK_END", 2),
];

const O_APPEND: u64 = 0o2000;
const O_DSYNC: u64 = 0o10_000;
const O_SYNC: u64 = 0o4_010_000;
const O_DIRECT: u64 = 0o40_000;
const O_CLOEXEC: u64 = 0o2_000_000;
const O_TMPFILE: u64 = 0o20_200_000;

fn value(word: &str) -> Option<u64> {
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

/// How a file is opened (`fcntl.h`).
fn flags(number: u64) -> OpenFlags {
    let has = |flag: u64| number & flag == flag;
    let access = number & 3;
    OpenFlags {
        read: access != 1,
        write: matches!(access, 1 | 2),
        create: has(0o100),
        exclusive: has(0o200),
        truncate: has(0o1000),
        append: has(O_APPEND),
        directory: has(0o200_000) && !has(O_TMPFILE),
        path: has(0o10_000_000),
        sync: has(O_SYNC),
        data_sync: has(O_DSYNC) && !has(O_SYNC),
        direct: has(O_DIRECT),
        no_follow: has(0o400_000),
        close_on_exec: has(O_CLOEXEC),
        unnamed: has(O_TMPFILE),
    }
}

impl Parts {
    fn raw(&self, at: usize) -> Option<u64> {
        match self.arguments.get(at)? {
            Value::Number(number) => Some(*number),
            Value::Name(_) => None,
        }
    }

    fn behind(&self, at: usize, bytes: usize) -> Option<u64> {
        let mut all = self.behind.iter();
        all.find(|(argument, begin, _)| (*argument, *begin) == (at, bytes)).map(|found| found.2)
    }
}

impl Arguments for Parts {
    fn descriptor(&self, at: usize) -> Option<Descriptor> {
        // An `int`, whatever the upper half of the register holds.
        Some(Descriptor { number: self.raw(at)? as u32 as i32, path: None })
    }

    fn number(&self, at: usize) -> Option<i64> {
        Some(self.raw(at)? as i64)
    }

    fn path(&self, at: usize) -> Option<Vec<u8>> {
        match self.arguments.get(at)? {
            Value::Name(name) => name.clone(),
            Value::Number(_) => None,
        }
    }

    fn is_null(&self, at: usize) -> bool {
        // Nothing can be read where a pointer points to nothing.
        matches!(self.arguments.get(at), Some(Value::Name(None) | Value::Number(0)))
    }

    fn has(&self, at: usize, word: &str) -> bool {
        let (Some(number), Some(flag)) = (self.raw(at), value(word)) else { return false };
        number & flag == flag
    }

    fn is(&self, at: usize, word: &str) -> bool {
        // Commands are of 32 bits.
        self.raw(at).zip(value(word)).is_some_and(|(number, word)| number as u32 == word as u32)
    }

    fn spawns_with(&self, word: &str) -> bool {
        let flags = self.behind(0, 0).or(self.raw(0)).unwrap_or(0);
        value(word).is_some_and(|flag| flags & flag == flag)
    }

    fn open_flags(&self, at: usize) -> Option<OpenFlags> {
        Some(flags(self.raw(at)?))
    }

    fn open_how(&self, at: usize) -> Option<(OpenFlags, Option<u32>)> {
        Some((flags(self.behind(at, 0)?), self.behind(at, 8).map(|mode| mode as u32)))
    }

    fn pointed(&self, at: usize) -> Option<Whence> {
        match self.raw(at)? {
            0 => Some(Whence::Position),
            _ => self.behind(at, 0).map(Whence::Start),
        }
    }

    fn told(&self, _: usize) -> Option<Told> {
        None
    }

    fn opened(&self) -> Option<Vec<u8>> {
        None
    }
}
