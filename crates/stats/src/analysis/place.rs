//! The pages and places of a request.

use ioecho_trace::{Op, Request};

use crate::count::sample::mix;

/// The unit that caches and file systems work with, 2 to this power in bytes.
pub(super) const PAGE_SHIFT: u32 = 12;

/// So many pages of a single request are looked at: 64 MiB. No request of a real load is longer,
/// and a line of rubbish must not take hours.
pub(super) const PAGES_OF_REQUEST: u64 = 1 << 14;

/// When a request counts as issued: of a run when it was due, so that pictures of space and of time
/// share one axis. Never negative.
pub(super) fn instant(request: &Request) -> i64 {
    request.measured.as_ref().map_or(request.issue, |measured| measured.scheduled).0.max(0)
}

/// 0 of a read, 1 of a write, `None` of what moves no data.
#[inline]
pub(super) const fn read_or_write(op: Op) -> Option<usize> {
    match op {
        Op::Read => Some(0),
        Op::Write => Some(1),
        _ => None,
    }
}

/// The first and the last page that a request touches, and whether there are more than are looked
/// at; `None` where it touches none.
#[inline]
pub(super) fn pages(request: &Request) -> Option<(u64, u64, bool)> {
    if request.length.0 == 0 {
        return None;
    }
    let first = request.offset.0 >> PAGE_SHIFT;
    let last = ((request.end().0 - 1) >> PAGE_SHIFT).max(first);
    let looked_at = last.min(first + (PAGES_OF_REQUEST - 1));
    Some((first, looked_at, looked_at < last))
}

/// The places of a volume as numbers that stand for them. Those of one volume never share a number;
/// those of several do as rarely as 64 random bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys(u64);

impl Keys {
    #[inline]
    pub(super) const fn of(volume: u32) -> Self {
        Self(mix(volume as u64))
    }

    #[inline]
    pub(super) const fn key(self, place: u64) -> u64 {
        mix(place ^ self.0)
    }
}
