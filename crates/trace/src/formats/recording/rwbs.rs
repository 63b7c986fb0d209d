//! The letters by which a tracepoint describes a request.
//!
//! `blk_fill_rwbs` (Linux `kernel/trace/blktrace.c`) writes up to nine letters, and one letter may
//! mean two things: `F` before the operation is a flush before the data, alone a flush command, and
//! behind the operation forced unit access.

use crate::formats::blktrace::record::category;

/// The bits of blktrace for these letters, which end with a zero byte or at the end of the slice.
/// Letter `N` means write-zeroes or a passthrough command. A passthrough command has no range, so
/// `bytes` distinguishes them.
pub(in crate::formats) fn categories(letters: &[u8], bytes: u32) -> u32 {
    let mut rest = letters.split(|letter| *letter == 0).next().unwrap_or_default();
    let mut bits = 0;
    let is_operation = |letter: &u8| matches!(letter, b'R' | b'W' | b'D' | b'F' | b'Z' | b'N');
    if let [b'F', next, ..] = rest
        && is_operation(next)
    {
        bits |= category::FLUSH;
        rest = &rest[1..];
    }
    let mut passed = 1;
    bits |= match rest {
        [b'R', ..] => category::READ,
        [b'W', b'Z', ..] => {
            passed = 2;
            category::WRITE_ZEROES | category::WRITE
        }
        [b'W', ..] => category::WRITE,
        [b'D', b'E', ..] => {
            passed = 2;
            category::DISCARD | category::WRITE
        }
        [b'D', ..] => category::DISCARD | category::WRITE,
        [b'F', ..] => category::FLUSH,
        [b'Z', operation, ..] => {
            passed = 2;
            zone(*operation) | category::WRITE
        }
        [b'N', ..] if bytes > 0 => category::WRITE_ZEROES | category::WRITE,
        [b'N', ..] => category::PASSTHROUGH,
        _ => 0,
    };
    for letter in rest.iter().skip(passed) {
        bits |= match letter {
            b'F' => category::FUA,
            b'A' => category::AHEAD,
            b'S' => category::SYNC,
            b'M' => category::META,
            _ => 0,
        };
    }
    bits
}

/// The bit of a zone command (`BLK_TC_ZONE_APPEND` and those that follow).
fn zone(operation: u8) -> u32 {
    let place = match operation {
        b'A' => 0,
        b'R' => 1,
        b'F' => 3,
        b'O' => 4,
        b'C' => 5,
        _ => 2,
    };
    category::ZONE & (1 << (category::ZONE.trailing_zeros() + place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::blktrace::record::category::{
        AHEAD, DISCARD, FLUSH, FUA, META, PASSTHROUGH, READ, SYNC, WRITE, WRITE_ZEROES, ZONE,
    };

    #[test]
    fn letters_are_what_the_kernel_means_by_them() {
        for (letters, bytes, expected) in [
            ("R", 512, READ),
            ("RA", 512, READ | AHEAD),
            ("RSM", 512, READ | SYNC | META),
            ("W", 512, WRITE),
            ("WS", 512, WRITE | SYNC),
            ("WFS", 512, WRITE | FUA | SYNC),
            ("FWFSM", 512, FLUSH | WRITE | FUA | SYNC | META),
            ("FWS", 0, FLUSH | WRITE | SYNC),
            ("FF", 0, FLUSH),
            ("F", 0, FLUSH),
            ("WSU", 512, WRITE | SYNC),
            ("D", 512, DISCARD | WRITE),
            ("DES", 512, DISCARD | WRITE | SYNC),
            ("NS", 512, WRITE_ZEROES | WRITE | SYNC),
            ("N", 0, PASSTHROUGH),
            ("", 0, 0),
            ("?", 512, 0),
            ("R\0WWWWWWW", 512, READ),
        ] {
            assert_eq!(categories(letters.as_bytes(), bytes), expected, "{letters}");
        }
    }

    #[test]
    fn zone_commands_are_zone_commands() {
        for letters in ["ZA", "ZR", "ZRA", "ZF", "ZO", "ZC", "Z?", "ZRS"] {
            let bits = categories(letters.as_bytes(), 0);
            assert_eq!((bits & ZONE).count_ones(), 1, "{letters}");
            assert_eq!(bits & (FUA | READ), 0, "{letters}");
        }
    }
}
