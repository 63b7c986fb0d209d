//! Requests that the block layer cut or put together.
//!
//! A request longer than the device takes reaches it in pieces, and neighbours reach it as one.
//! Neither is missing. An unmatched request of one side is covered with unmatched requests of the
//! other, end to end: it counts as found only if all its bytes are covered.

use super::event::Event;
use super::matching::NONE;

/// So many requests that begin at one place are looked at for the one nearest in time.
const SEARCH_MAX: usize = 64;

/// A request of one side and the requests of the other that together are it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) whole: u32,
    pub(super) parts: Vec<u32>,
}

/// What was found of one side that has no counterpart.
#[derive(Clone, Debug, Default)]
pub(super) struct Unpaired {
    /// One that was asked for, seen in pieces.
    pub(super) split: Vec<Group>,
    /// One that was seen, several that were asked for.
    pub(super) merged: Vec<Group>,
}

/// Looks for pieces and unions among what is left of both sides, without what was seen before
/// `from`.
pub(super) fn find(
    asked: &[Event],
    seen: &[Event],
    whole: &[u32],
    from: usize,
    shift: i64,
) -> Unpaired {
    let mut is_taken = vec![false; seen.len()];
    for other in whole.iter().filter(|other| **other != NONE) {
        is_taken[*other as usize] = true;
    }
    let has_range = |event: &Event| event.length > 0 && event.was_issued();
    let mut ours: Vec<u32> = (0..asked.len() as u32)
        .filter(|at| whole[*at as usize] == NONE && has_range(&asked[*at as usize]))
        .collect();
    let mut theirs: Vec<u32> = (from as u32..seen.len() as u32)
        .filter(|at| !is_taken[*at as usize] && has_range(&seen[*at as usize]))
        .collect();
    let split = groups(asked, &ours, seen, &theirs, shift);
    for group in &split {
        for part in &group.parts {
            is_taken[*part as usize] = true;
        }
    }
    theirs.retain(|at| !is_taken[*at as usize]);
    let mut is_split = vec![false; asked.len()];
    for group in &split {
        is_split[group.whole as usize] = true;
    }
    ours.retain(|at| !is_split[*at as usize]);
    let merged = groups(seen, &theirs, asked, &ours, shift.saturating_neg());
    Unpaired { split, merged }
}

/// Lays out each of `wholes` with `parts`, each of which is used once.
fn groups(
    whole_of: &[Event],
    wholes: &[u32],
    part_of: &[Event],
    parts: &[u32],
    shift: i64,
) -> Vec<Group> {
    if wholes.is_empty() || parts.is_empty() {
        return Vec::new();
    }
    let kind = |event: &Event| (event.target, event.op.code(), event.offset);
    let mut by_place: Vec<u32> = parts.to_vec();
    by_place.sort_unstable_by_key(|at| (kind(&part_of[*at as usize]), *at));
    let mut is_used = vec![false; by_place.len()];
    let mut groups = Vec::new();
    for whole in wholes {
        let event = &whole_of[*whole as usize];
        let expected = event.at.saturating_add(shift);
        let mut cursor = event.offset;
        let mut chosen = Vec::new();
        while cursor < event.end() {
            let wanted = (event.target, event.op.code(), cursor);
            let first = by_place.partition_point(|at| kind(&part_of[*at as usize]) < wanted);
            let here = (first..by_place.len())
                .take_while(|slot| kind(&part_of[by_place[*slot] as usize]) == wanted)
                .filter(|slot| !is_used[*slot])
                .take(SEARCH_MAX)
                .filter(|slot| part_of[by_place[*slot] as usize].end() <= event.end())
                .min_by_key(|slot| part_of[by_place[*slot] as usize].at.abs_diff(expected));
            let Some(slot) = here else { break };
            chosen.push(slot);
            cursor = part_of[by_place[slot] as usize].end();
        }
        if cursor == event.end() && chosen.len() > 1 {
            for slot in &chosen {
                is_used[*slot] = true;
            }
            let parts = chosen.into_iter().map(|slot| by_place[slot]).collect();
            groups.push(Group { whole: *whole, parts });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Nanos, Op, Request};

    fn event(at: i64, offset: u64, length: u64) -> Event {
        Event::of_trace(&Request::new(Nanos(at), Op::Read, Bytes(offset), Bytes(length)))
    }

    fn found(asked: &[Event], seen: &[Event]) -> Unpaired {
        find(asked, seen, &vec![NONE; asked.len()], 0, 0)
    }

    #[test]
    fn pieces_make_a_request_and_requests_a_longer_one() {
        let parts = [event(0, 0, 4096), event(1, 4096, 8192), event(2, 90, 10)];
        let whole = [event(0, 0, 12288)];
        let split = found(&whole, &parts).split;
        assert_eq!(split, [Group { whole: 0, parts: vec![0, 1] }]);
        let merged = found(&parts, &whole).merged;
        assert_eq!(merged, [Group { whole: 0, parts: vec![0, 1] }]);
    }

    #[test]
    fn what_leaves_a_hole_or_reaches_beyond_is_none() {
        let whole = [event(0, 0, 12288)];
        assert!(found(&whole, &[event(0, 0, 4096), event(0, 8192, 4096)]).split.is_empty());
        assert!(found(&whole, &[event(0, 0, 4096), event(0, 4096, 12288)]).split.is_empty());
        let far = [event(0, u64::MAX - 10, 100)];
        assert!(found(&far, &[event(0, u64::MAX - 10, 50)]).split.is_empty());
    }

    #[test]
    fn of_like_pieces_the_nearest_in_time_are_taken() {
        let parts = [event(0, 0, 512), event(0, 512, 512), event(90, 0, 512), event(90, 512, 512)];
        let split = found(&[event(88, 0, 1024)], &parts).split;
        assert_eq!(split[0].parts, [2, 3]);
    }
}
