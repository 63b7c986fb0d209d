//! From an event's bits to an operation.
//!
//! The bits grew over twenty years and overlap: a discard is a write too, a flush without data is a
//! write of no bytes or, where the kernel's flush machinery sent it, not even that. Only this file
//! interprets them. Sources: Linux `kernel/trace/blktrace.c` (`__blk_add_trace`) and
//! `block/blk-flush.c`.

use super::record::{Event, category};
use crate::request::{Flags, Op};

/// A class of events that may belong together if they are on the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Class {
    Read,
    Write,
    Discard,
    WriteZeroes,
    Zone,
    /// A flush as a file system sent it: an empty write with `REQ_PREFLUSH`.
    Flush,
    /// The request that the flush machinery makes of one or many flushes (`REQ_OP_FLUSH`). It is
    /// issued and completed but never queued.
    DeviceFlush,
}

impl Class {
    /// The number of classes.
    pub(super) const COUNT: usize = 7;
}

/// The properties of a request that an event shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) op: Op,
    pub(super) class: Class,
    pub(super) flags: Flags,
}

/// Classifies the event's request; `None` if the request moves no data and is no known command.
#[inline]
pub(super) fn classify(event: &Event) -> Option<Meaning> {
    let has = |bits: u32| event.categories & bits != 0;
    let (op, class) = if has(category::ZONE | category::WRITE_ZEROES | category::DISCARD) {
        // Secure erase carries the discard bit: for the data it is the same.
        if has(category::ZONE) {
            (Op::Zone, Class::Zone)
        } else if has(category::WRITE_ZEROES) {
            (Op::WriteZeroes, Class::WriteZeroes)
        } else {
            (Op::Discard, Class::Discard)
        }
    } else if event.bytes == 0 {
        match (has(category::FLUSH), has(category::WRITE)) {
            (true, true) => (Op::Flush, Class::Flush),
            (true, false) => (Op::Flush, Class::DeviceFlush),
            (false, _) => return None,
        }
    } else if has(category::WRITE) {
        (Op::Write, Class::Write)
    } else if has(category::READ) {
        (Op::Read, Class::Read)
    } else {
        return None;
    };
    let mut flags = flags(event.categories);
    if op == Op::Flush {
        // Emptying the cache is the operation itself, and it has no data for FUA.
        flags.remove(Flags::PREFLUSH | Flags::FUA);
    }
    Some(Meaning { op, class, flags })
}

/// The flags among the categories.
#[inline]
fn flags(categories: u32) -> Flags {
    let mut flags = Flags::empty();
    flags.set(Flags::SYNC, categories & category::SYNC != 0);
    flags.set(Flags::FUA, categories & category::FUA != 0);
    flags.set(Flags::PREFLUSH, categories & category::FLUSH != 0);
    flags.set(Flags::META, categories & category::META != 0);
    flags.set(Flags::READAHEAD, categories & category::AHEAD != 0);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(categories: u32, bytes: u32) -> Option<(Op, Flags)> {
        let event = Event { bytes, categories, ..Event::default() };
        classify(&event).map(|meaning| (meaning.op, meaning.flags))
    }

    #[test]
    fn an_empty_flush_is_a_flush_and_a_flush_with_data_is_a_marked_write() {
        let bits = category::WRITE | category::FLUSH | category::SYNC;
        assert_eq!(meaning(bits, 0), Some((Op::Flush, Flags::SYNC)));
        assert_eq!(meaning(bits, 512), Some((Op::Write, Flags::SYNC | Flags::PREFLUSH)));
        assert_eq!(meaning(category::FLUSH | category::READ, 0), Some((Op::Flush, Flags::empty())));
    }

    #[test]
    fn a_discard_is_no_write_although_it_carries_its_bit() {
        assert_eq!(
            meaning(category::DISCARD | category::WRITE, 1 << 30),
            Some((Op::Discard, Flags::empty()))
        );
        assert_eq!(
            meaning(category::WRITE_ZEROES | category::WRITE, 512),
            Some((Op::WriteZeroes, Flags::empty()))
        );
        assert_eq!(meaning(1 << 17 | category::WRITE, 0), Some((Op::Zone, Flags::empty())));
    }

    #[test]
    fn marks_are_kept() {
        let bits = category::READ | category::AHEAD | category::META | category::FUA;
        let marks = Flags::READAHEAD | Flags::META | Flags::FUA;
        assert_eq!(meaning(bits, 4096), Some((Op::Read, marks)));
    }

    #[test]
    fn a_command_without_range_and_without_name_is_none() {
        assert_eq!(meaning(category::WRITE, 0), None);
        assert_eq!(meaning(0, 512), None);
    }
}
