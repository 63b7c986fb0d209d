//! The words that stand for operations.
//!
//! `R` and `write` speak for themselves. A number does not: 1 is a read to `DiskSim` and a write
//! to Tencent. So a number is accepted only with an explanation.

use std::fmt;
use std::str::FromStr;

use crate::request::{Flags, Op};
use crate::text;

/// The meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    Request(Op, Flags),
    /// A line that is to be left out.
    Skip,
}

/// Words and the operations that they mean: `R=read/W=write`. Or one operation for all lines:
/// `read`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    All(Meant),
    Each(Vec<(Box<[u8]>, Meant)>),
}

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.contains('=') {
            return Ok(Self(Kind::All(operation(text)?)));
        }
        let mut words: Vec<(Box<[u8]>, Meant)> = Vec::new();
        for part in text.split('/') {
            let Some((word, op)) = part.split_once('=') else {
                return Err(format!("'{part}' is not of the form WORD=OPERATION, as in R=read"));
            };
            let word = word.trim().as_bytes();
            if words.iter().any(|(known, _)| **known == *word) {
                return Err(format!("'{}' is said twice", text::shown(word)));
            }
            words.push((word.into(), operation(op)?));
        }
        Ok(Self(Kind::Each(words)))
    }
}

impl fmt::Display for Words {
    /// The words as they are typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |meant: &Meant| match meant {
            Meant::Request(op, _) => op.name(),
            Meant::Skip => "skip",
        };
        let words = match &self.0 {
            Kind::All(meant) => return f.write_str(name(meant)),
            Kind::Each(words) => words,
        };
        let said = |(word, meant): &(Box<[u8]>, Meant)| {
            format!("{}={}", String::from_utf8_lossy(word), name(meant))
        };
        f.write_str(&words.iter().map(said).collect::<Vec<_>>().join("/"))
    }
}

fn operation(name: &str) -> Result<Meant, String> {
    let op = match name.trim() {
        "skip" => return Ok(Meant::Skip),
        "trim" | "unmap" => Op::Discard,
        name => {
            let Some(op) = Op::ALL.into_iter().find(|op| op.name() == name) else {
                let known: Vec<_> = Op::OF_DEVICES.iter().map(|op| op.name()).collect();
                let known = known.join(", ");
                return Err(format!("'{name}' is no operation; known are {known} and skip"));
            };
            op
        }
    };
    Ok(Meant::Request(op, Flags::empty()))
}

impl Words {
    /// The meaning of `word`. Case matters only where two words differ by nothing else.
    #[inline]
    pub(super) fn meant(&self, word: &[u8]) -> Option<Meant> {
        match &self.0 {
            Kind::All(meant) => Some(*meant),
            Kind::Each(words) => {
                let exact = words.iter().find(|(known, _)| **known == *word);
                exact
                    .or_else(|| words.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)))
                    .map(|(_, meant)| *meant)
            }
        }
    }

    /// Whether one operation was given for all lines.
    pub(super) fn is_for_all(&self) -> bool {
        matches!(self.0, Kind::All(_))
    }
}

/// The default meaning of `word`: the kernel's letters, and the usual names.
#[inline]
pub(super) fn usual(word: &[u8]) -> Option<Meant> {
    if let Some((op, flags)) = text::rwbs(word) {
        return Some(Meant::Request(op, flags));
    }
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    let op = if is(&["read", "rd", "reads", "read_op"]) {
        Op::Read
    } else if is(&["write", "wr", "writes", "write_op"]) {
        Op::Write
    } else if is(&["flush", "sync", "fsync"]) {
        Op::Flush
    } else if is(&["discard", "trim", "unmap"]) {
        Op::Discard
    } else if is(&["write-zeroes", "write_zeroes", "writezeroes", "write-same", "write_same"]) {
        Op::WriteZeroes
    } else {
        return None;
    };
    Some(Meant::Request(op, Flags::empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn request(op: Op) -> Meant {
        Meant::Request(op, Flags::empty())
    }

    #[test]
    fn words_mean_what_was_said_and_numbers_nothing_by_themselves() {
        let words: Words = "0=read/1=write/x=skip".parse().unwrap();
        assert_eq!(words.meant(b"0"), Some(request(Op::Read)));
        assert_eq!(words.meant(b"X"), Some(Meant::Skip));
        assert_eq!(words.meant(b"2"), None);
        let cases: Words = "r=skip/R=read".parse().unwrap();
        assert_eq!(cases.meant(b"R"), Some(request(Op::Read)));
        assert_eq!("trim".parse::<Words>().unwrap().meant(b"?"), Some(request(Op::Discard)));
        assert_eq!(usual(b"Read"), Some(request(Op::Read)));
        assert_eq!(usual(b"WR"), Some(request(Op::Write)));
        assert_eq!(usual(b"RA"), Some(Meant::Request(Op::Read, Flags::READAHEAD)));
        assert_eq!((usual(b"0"), usual(b"1"), usual(b"")), (None, None, None));
    }

    #[test]
    fn what_is_no_operation_is_refused_with_those_there_are() {
        for (text, what) in [
            ("R=red", "'red' is no operation; known are read, write"),
            ("R=read/W", "'W' is not of the form"),
            ("R=read/R=write", "said twice"),
            ("reed", "'reed' is no operation"),
        ] {
            let error = text.parse::<Words>().unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
