//! What a request means in space.

use ioecho_trace::{Op, Request};

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

/// The output function of SplitMix64, a bijection (Steele, Lea, Flood, OOPSLA 2014).
#[inline]
pub(crate) const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
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

/// Whether a place is in the sample of one in 2^halved (SHARDS: Waldspurger, Park, Garthwaite and
/// Ahmad, FAST 2015): then all that happens there is seen, otherwise nothing.
#[inline]
pub(crate) const fn is_sampled(key: u64, halved: u32) -> bool {
    halved == 0 || (halved < 64 && key >> (64 - halved) == 0)
}
