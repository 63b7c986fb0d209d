//! The kinds of requests in the tables of percentiles.

use ioecho_trace::Op;
use serde::Serialize;

/// The kind of a request: its operation, but discards and writes of zeroes, both ranges without
/// data, are one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Kind(Op);

impl Kind {
    /// Reads.
    pub const READ: Self = Self(Op::Read);
    /// Writes.
    pub const WRITE: Self = Self(Op::Write);
    /// Flushes of the volatile cache.
    pub const FLUSH: Self = Self(Op::Flush);

    /// How many kinds there are.
    pub const COUNT: usize = Op::ALL.len() - 1;

    /// Every kind, by its [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::READ; Self::COUNT];
        let mut at = 0;
        while at < Op::ALL.len() {
            let kind = Self::of(Op::ALL[at]);
            all[kind.index()] = kind;
            at += 1;
        }
        all
    };

    /// The kind of an operation.
    pub const fn of(op: Op) -> Self {
        match op {
            Op::WriteZeroes => Self(Op::Discard),
            op => Self(op),
        }
    }

    /// Its place in [`Kind::ALL`]: that of the operation, without the place of writes of zeroes.
    pub const fn index(self) -> usize {
        let at = self.0 as usize;
        if at > Op::WriteZeroes as usize { at - 1 } else { at }
    }

    /// The operation after which it is named.
    pub const fn op(self) -> Op {
        self.0
    }

    /// Whether only file systems have it.
    pub const fn is_of_files(self) -> bool {
        self.0.is_of_files()
    }

    /// A single word for it: a label where others take names apart.
    pub const fn label(self) -> &'static str {
        self.0.name()
    }

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Op::Discard => "discard, write-zeroes",
            op => op.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_in_its_place_and_discards_and_zeroes_are_one() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index, "{kind:?}");
        }
        assert_eq!(Kind::of(Op::WriteZeroes), Kind::of(Op::Discard));
        assert!(Op::ALL.into_iter().all(|op| Kind::ALL.contains(&Kind::of(op))));
        let words = Kind::ALL.map(Kind::label);
        assert_eq!(words[..6], ["read", "write", "flush", "discard", "zone", "mkdir"]);
    }
}
