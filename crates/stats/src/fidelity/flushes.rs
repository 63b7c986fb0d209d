//! Flushes that a replay of a trace issued before writes that asked for one.
//!
//! A recording has a write with a flush before it as one request (`REQ_PREFLUSH`). A program cannot
//! ask for that in one system call, so a replay issues a flush, and then the write: in a run such a
//! flush is expected. But if two traces are compared, it is unknown how the one was replayed. The
//! kernel itself passes such writes on unchanged, and then no flush is expected; or the replay left
//! the flush out, and then a flush that was seen belongs to one of the trace.

use ioecho_trace::Op;

use super::event::Event;
use super::matching::{NONE, difference};

/// So many requests before and behind a flush are looked at for another one's counterpart.
const SEARCH_MAX: usize = 64;

/// How near to its time a flush must have been seen to be taken from another one.
const NEAR_NS: i64 = 1_000_000;

/// Which of the flushes expected before writes of a trace are not expected after all, because the
/// device saw those writes with PREFLUSH; `None` if there are none.
pub(super) fn unexpected(asked: &[Event], seen: &[Event], found: &[u32]) -> Option<Vec<bool>> {
    let is_unexpected = |at: usize| {
        let (flush, other) = (&asked[at], found.get(at + 1).copied().unwrap_or(NONE));
        flush.implied && flush.engine.is_none() && other != NONE && seen[other as usize].preflush
    };
    let all: Vec<bool> = (0..asked.len()).map(is_unexpected).collect();
    all.contains(&true).then_some(all)
}

/// Reassigns counterparts: a flush of the trace without one gets that of an expected flush, if it
/// was seen when the flush of the trace should have been. `shift` is the distance of the clocks.
pub(super) fn give_back(asked: &[Event], seen: &[Event], found: &mut [u32], shift: i64) {
    let is_expected = |event: &Event| event.implied && event.engine.is_none();
    if !asked.iter().any(is_expected) {
        return;
    }
    for at in 0..asked.len() {
        let flush = &asked[at];
        if flush.op != Op::Flush || flush.implied || found[at] != NONE {
            continue;
        }
        let due = flush.at.saturating_add(shift);
        let off = |other: usize| {
            let place = found[other];
            let is_there =
                is_expected(&asked[other]) && asked[other].target == flush.target && place != NONE;
            is_there.then(|| difference(seen[place as usize].at, due).saturating_abs())
        };
        let about = at.saturating_sub(SEARCH_MAX)..(at + SEARCH_MAX).min(asked.len());
        let nearest = about.filter_map(|other| Some((off(other)?, other))).min();
        if let Some((_, other)) = nearest.filter(|(off, _)| *off <= NEAR_NS) {
            found.swap(at, other);
        }
    }
}
