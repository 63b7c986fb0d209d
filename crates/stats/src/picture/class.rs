//! The classes of the sonar diagram.

use ioecho_trace::Op;

/// What a dot of the sonar diagram is of. Where a device is asked, reads and writes are what
/// matters; where a file system is, each operation has times of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A read that waited for nobody.
    Read,
    /// A write that waited for nobody.
    Write,
    /// Any other operation of devices that waited for nobody: a flush, a discard.
    Other,
    /// Any request that overlapped one in flight and waited for it.
    PushedBack,
    /// An operation that only file systems have, and that waited for nobody.
    OfFiles(Op),
}

/// How many classes there are beside the operations of files.
const OF_DEVICES: usize = 4;

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = OF_DEVICES + Op::ALL.len() - Op::OF_DEVICES.len();

    /// Every class, by its [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::Read; Self::COUNT];
        [all[1], all[2], all[3]] = [Self::Write, Self::Other, Self::PushedBack];
        let mut at = OF_DEVICES;
        while at < Self::COUNT {
            all[at] = Self::OfFiles(Op::ALL[at - OF_DEVICES + Op::OF_DEVICES.len()]);
            at += 1;
        }
        all
    };

    /// The classes of a load on devices.
    pub const DEVICES: [Self; OF_DEVICES] =
        [Self::Read, Self::Write, Self::Other, Self::PushedBack];

    /// The class of a request.
    pub const fn of(op: Op, pushed_back: bool) -> Self {
        match op {
            _ if pushed_back => Self::PushedBack,
            Op::Read => Self::Read,
            Op::Write => Self::Write,
            op if op.is_of_files() => Self::OfFiles(op),
            _ => Self::Other,
        }
    }

    /// Its place in [`Class::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Other => 2,
            Self::PushedBack => 3,
            Self::OfFiles(op) => OF_DEVICES + op as usize - Op::OF_DEVICES.len(),
        }
    }

    /// The name in legends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Other => "flush, discard, other",
            Self::PushedBack => "pushed back",
            Self::OfFiles(op) => op.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_files_is_a_class_of_its_own_and_each_class_is_in_its_place() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index, "{class:?}");
        }
        for op in Op::ALL.into_iter().filter(|op| op.is_of_files()) {
            let class = Class::of(op, false);
            assert_eq!((class, class.name()), (Class::OfFiles(op), op.name()));
            assert_eq!(Class::of(op, true), Class::PushedBack);
            assert!(Class::ALL.contains(&class));
        }
        let flush = Class::of(Op::Flush, false);
        assert_eq!([flush, Class::of(Op::Zone, false)], [Class::Other; 2]);
    }
}
