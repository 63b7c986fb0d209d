//! Flushes that a replay issued before writes that asked for one.
//!
//! A recording has a write with a flush before it as one request (`REQ_PREFLUSH`). A program cannot
//! ask for that in one system call, so whoever replays it issues a flush, and then the write. Of
//! two traces nobody says which flushes these are. But they are what is left of the flushes, and
//! lie right before their writes: such a flush is no other's, and the write begins with it.

use ioecho_trace::Op;
use rustc_hash::{FxHashMap, FxHashSet};

use super::event::Event;
use super::matching::{NONE, difference};
use super::pieces;

/// So many requests before a write are looked at for its flush.
const SEARCH_MAX: usize = 64;

/// By how much the flush may seem to have been seen before its write was due: the distance of the
/// clocks is known to less than that.
const SLACK_NS: i64 = 1_000_000;

/// For writes of a trace that ask for a flush, and were found without one of their own, the flush
/// before them, by their numbers. `shift` is the distance of the clocks.
pub(super) fn find(
    asked: &[Event],
    seen: &[Event],
    whole: &[u32],
    left: &pieces::Found,
    shift: i64,
) -> FxHashMap<u32, u32> {
    let mut own = FxHashMap::default();
    let asks = |at: usize| asked[at].preflush && asked[at].engine.is_none();
    if !(0..asked.len()).any(asks) {
        return own;
    }
    let mut taken: FxHashSet<u32> = whole.iter().copied().filter(|other| *other != NONE).collect();
    let first = |parts: &[u32]| parts.iter().copied().min().unwrap_or(NONE);
    let in_pieces = left.split.iter().map(|group| (group.whole, first(&group.parts)));
    let mut found: Vec<(u32, u32)> =
        (0_u32..).zip(whole.iter().copied()).chain(in_pieces).collect();
    found.retain(|(at, other)| *other != NONE && asks(*at as usize));
    found.sort_unstable_by_key(|(_, other)| *other);
    for (at, other) in found {
        let (write, due) = (&seen[other as usize], asked[at as usize].at.saturating_add(shift));
        // Whoever replayed it gave it to the kernel as it was.
        if write.preflush {
            continue;
        }
        let before = (other as usize).saturating_sub(SEARCH_MAX)..other as usize;
        let flush = before.rev().map(|flush| flush as u32).find(|flush| {
            let event = &seen[*flush as usize];
            event.op == Op::Flush
                && event.target == write.target
                && difference(event.at, due) >= -SLACK_NS
                && !taken.contains(flush)
        });
        if let Some(flush) = flush {
            taken.insert(flush);
            own.insert(at, flush);
        }
    }
    own
}
