//! The letters that describe the operation of an event.
//!
//! `fill_rwbs` of blkparse makes them of the bits of an event, the kernel's `blk_fill_rwbs` of the
//! operation; they differ only where the newer operations are. Both are read back into the bits
//! that a recording has.

use crate::formats::blktrace::record::category;
use crate::request::{Flags, Op};

/// A limit beyond the number of letters that any event has.
const LETTERS_MAX: usize = 8;

/// The bits of `letters`; `None` if they have no meaning.
#[inline]
pub(super) fn categories(letters: &[u8]) -> Option<u32> {
    if letters.len() > LETTERS_MAX {
        return None;
    }
    let (mut bits, mut rest) = match letters {
        // A flush without an operation.
        [b'F'] => return Some(category::FLUSH),
        [b'F', rest @ ..] => (category::FLUSH, rest),
        _ => (0, letters),
    };
    let (operation, length) = match rest {
        [b'W', b'Z', ..] => (category::WRITE | category::WRITE_ZEROES, 2),
        [b'W', ..] => (category::WRITE, 1),
        [b'R', ..] => (category::READ, 1),
        [b'D', b'E', ..] => (category::DISCARD, 2),
        [b'D', ..] => (category::DISCARD, 1),
        // An operation without data and without a name; after a flush letter it is the flush of the
        // device.
        [b'N', ..] => (0, 1),
        [b'F', ..] => (category::FLUSH, 1),
        [b'Z', b'A' | b'R' | b'F' | b'O' | b'C', ..] => (category::ZONE, 2),
        _ => return None,
    };
    bits |= operation;
    rest = &rest[length..];
    for letter in rest {
        bits |= match letter {
            b'F' => category::FUA,
            b'A' => category::AHEAD,
            b'S' => category::SYNC,
            b'M' => category::META,
            // A barrier of kernels before 2.6.37: a flush before it, and FUA.
            b'B' => category::FLUSH | category::FUA,
            // Secure erase, where it stands last.
            b'E' if bits & category::DISCARD != 0 => 0,
            _ => return None,
        };
    }
    Some(bits)
}

/// Appends the letters of a request. Zone operations get no letters, because their kind is unknown,
/// and operations on files have none.
pub(super) fn push(line: &mut Vec<u8>, op: Op, flags: Flags) {
    let from = line.len();
    if flags.contains(Flags::PREFLUSH) || op == Op::Flush {
        line.push(b'F');
    }
    line.extend_from_slice(match op {
        Op::Read => b"R",
        // A flush as a file system sends it is an empty write.
        Op::Write | Op::Flush => b"W",
        Op::Discard => b"D",
        Op::WriteZeroes => b"WZ",
        _ => b"N",
    });
    for (flag, letter) in
        [(Flags::FUA, b'F'), (Flags::READAHEAD, b'A'), (Flags::SYNC, b'S'), (Flags::META, b'M')]
    {
        if flags.contains(flag) {
            line.push(letter);
        }
    }
    // The column is three letters wide.
    while line.len() < from + 3 {
        line.insert(from, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::category::*;
    use super::*;

    #[test]
    fn letters_are_the_bits_that_blkparse_made_them_of() {
        for (letters, bits) in [
            ("R", READ),
            ("RA", READ | AHEAD),
            ("WS", WRITE | SYNC),
            ("WSM", WRITE | SYNC | META),
            ("FWFSM", FLUSH | WRITE | FUA | SYNC | META),
            ("FWS", FLUSH | WRITE | SYNC),
            ("FNF", FLUSH | FUA),
            ("FN", FLUSH),
            ("N", 0),
            ("D", DISCARD),
            ("DS", DISCARD | SYNC),
            ("DE", DISCARD),
            ("WB", WRITE | FLUSH | FUA),
            ("F", FLUSH),
            ("FF", FLUSH),
            ("FFS", FLUSH | SYNC),
            ("WZS", WRITE | WRITE_ZEROES | SYNC),
            ("ZR", ZONE),
        ] {
            assert_eq!(categories(letters.as_bytes()), Some(bits), "{letters}");
        }
        for letters in ["", "X", "RX", "S", "Z", "RE", "WWWWWWWWWWWW", "r"] {
            assert_eq!(categories(letters.as_bytes()), None, "{letters}");
        }
    }
}
