//! An entry of the table of versions: what may legally be read from a sector.
//!
//! A target of terabytes has billions of sectors, so eight bytes must do for one. Nearly always
//! only one write is legal, and its number suffices; the other cases are encoded beside it.

use serde::Serialize;

/// What may be read from a sector. In the table the numbers are versions: the number of a request
/// and, above it, which run of its line wrote it. In a finding they are numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Legal {
    /// Never written by the run: anything but data of the run.
    Untouched,
    /// What this request wrote.
    Version(u64),
    /// Zeroes, by this write-zeroes request.
    Zeroes(u64),
    /// Anything at all, since this discard.
    Anything(u64),
    /// What this request wrote, or any younger one: more writes may be there than can be told.
    AtLeast(u64),
    /// Anything that the run wrote to this place, or the earlier content: too much happened at
    /// once.
    Ambiguous,
    /// What this request wrote to the same place of a tree of files from which the file was copied
    /// or moved here.
    Moved(u64),
}

const TAG_SHIFT: u32 = 60;
const VALUE: u64 = (1 << TAG_SHIFT) - 1;
const ZEROES: u64 = 1 << TAG_SHIFT;
const ANYTHING: u64 = 2 << TAG_SHIFT;
const AT_LEAST: u64 = 3 << TAG_SHIFT;
const AMBIGUOUS: u64 = 4 << TAG_SHIFT;
const SET: u64 = 5 << TAG_SHIFT;
const MOVED: u64 = 6 << TAG_SHIFT;

/// An entry of the table: one [`Legal`], or the number of a set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    One(Legal),
    Set(u32),
}

impl Entry {
    pub(crate) const fn encode(self) -> u64 {
        match self {
            Self::One(legal) => legal.encode(),
            Self::Set(number) => SET | number as u64,
        }
    }

    pub(crate) const fn decode(entry: u64) -> Self {
        if entry >> TAG_SHIFT == SET >> TAG_SHIFT {
            Self::Set((entry & VALUE) as u32)
        } else {
            Self::One(Legal::decode(entry))
        }
    }
}

impl Legal {
    /// The entry of the table; zero where the sector was never touched, so that a table begins as
    /// zeroes. Request numbers stay below 2⁶⁰ − 1.
    pub(crate) const fn encode(self) -> u64 {
        match self {
            Self::Untouched => 0,
            Self::Version(request) => (request + 1) & VALUE,
            Self::Zeroes(request) => ZEROES | (request & VALUE),
            Self::Anything(request) => ANYTHING | (request & VALUE),
            Self::AtLeast(request) => AT_LEAST | (request & VALUE),
            Self::Ambiguous => AMBIGUOUS,
            Self::Moved(request) => MOVED | (request & VALUE),
        }
    }

    /// An invalid entry is taken as [`Legal::Ambiguous`], which raises no alarm.
    pub(crate) const fn decode(entry: u64) -> Self {
        let value = entry & VALUE;
        match (entry & !VALUE, value) {
            (0, 0) => Self::Untouched,
            (0, _) => Self::Version(value - 1),
            (ZEROES, _) => Self::Zeroes(value),
            (ANYTHING, _) => Self::Anything(value),
            (AT_LEAST, _) => Self::AtLeast(value),
            (MOVED, _) => Self::Moved(value),
            _ => Self::Ambiguous,
        }
    }

    /// The version that it speaks of.
    pub(crate) const fn version(self) -> Option<u64> {
        match self {
            Self::Version(version)
            | Self::Zeroes(version)
            | Self::Anything(version)
            | Self::AtLeast(version)
            | Self::Moved(version) => Some(version),
            Self::Untouched | Self::Ambiguous => None,
        }
    }

    /// The same of another version.
    pub(crate) fn map(self, to: impl FnOnce(u64) -> u64) -> Self {
        match self {
            Self::Version(version) => Self::Version(to(version)),
            Self::Zeroes(version) => Self::Zeroes(to(version)),
            Self::Anything(version) => Self::Anything(to(version)),
            Self::AtLeast(version) => Self::AtLeast(to(version)),
            Self::Moved(version) => Self::Moved(to(version)),
            Self::Untouched | Self::Ambiguous => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_reads_back() {
        for request in [0, 1, 77, VALUE - 1] {
            for legal in [
                Legal::Version(request),
                Legal::Zeroes(request),
                Legal::Anything(request),
                Legal::AtLeast(request),
                Legal::Moved(request),
            ] {
                assert_eq!(Entry::decode(legal.encode()), Entry::One(legal));
                assert_eq!(legal.version(), Some(request));
            }
        }
        for legal in [Legal::Untouched, Legal::Ambiguous] {
            assert_eq!(Entry::decode(legal.encode()), Entry::One(legal));
        }
        assert_eq!(Entry::decode(Entry::Set(9).encode()), Entry::Set(9));
        assert_eq!(Legal::Untouched.encode(), 0);
    }
}
