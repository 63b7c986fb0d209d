//! Matching of requests of the two sides.
//!
//! Requests have no names. They are alike if kind, device, offset and length are; the n-th of those
//! of the one side belongs to the n-th of the other. If one side has more of them, those nearest in
//! time belong together, given the distance of the clocks from the other pairs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::Event;
use super::nearest::{BUDGET, nearest};
use super::sample::clamped;

/// No counterpart.
pub(super) const NONE: u32 = u32::MAX;

/// So many pairs around an instant tell how far apart the clocks are there.
const AROUND: usize = 10;

/// So many pairs at the beginning tell when the replay began.
const BEGINNING: usize = 20;

/// By how much they may be wrong.
const BEGINNING_SLACK_NS: i64 = 100_000_000;

/// How far two readings of one clock may be apart: no request is issued before it is due.
const CLOCK_SLACK_NS: i64 = 1_000_000;

/// For each request that was asked for the number of its counterpart, or [`NONE`]. Both sides are
/// in the order of time; what was seen before `from` is left out. `shift` is the distance of the
/// clocks where no pair tells it. With `absolute` clocks, like requests of a run are matched in the
/// order of their hand-over or, if that is impossible, of their completion; and none is seen before
/// its hand-over or after its completion.
pub(super) fn whole(
    asked: &[Event],
    seen: &[Event],
    from: usize,
    shift: i64,
    absolute: bool,
) -> Vec<u32> {
    let mut found = vec![NONE; asked.len()];
    let (mut ours, theirs) = (ordered(asked, 0), ordered(seen, from));
    let is_possible = |mine: u32, other: u32| {
        !absolute || bears(&asked[mine as usize], &seen[other as usize], CLOCK_SLACK_NS)
    };
    let mut unclear = Vec::new();
    let (mut a, mut s) = (0, 0);
    while a < ours.len() && s < theirs.len() {
        let (key, other) = (asked[ours[a] as usize].key(), seen[theirs[s] as usize].key());
        if key < other {
            a += 1;
            continue;
        }
        if other < key {
            s += 1;
            continue;
        }
        let a_end = a + ours[a..].partition_point(|at| asked[*at as usize].key() == key);
        let s_end = s + theirs[s..].partition_point(|at| seen[*at as usize].key() == key);
        if absolute {
            ours[a..a_end].sort_by_key(|at| handed_over(&asked[*at as usize]));
        }
        let mut pairs = ours[a..a_end].iter().zip(&theirs[s..s_end]);
        if a_end - a == s_end - s && pairs.all(|(mine, other)| is_possible(*mine, *other)) {
            for (mine, other) in ours[a..a_end].iter().zip(&theirs[s..s_end]) {
                found[*mine as usize] = *other;
            }
        } else if absolute
            && a_end - a == s_end - s
            && let Some(pairs) = by_completion(asked, &ours[a..a_end], seen, &theirs[s..s_end])
        {
            for (mine, other) in pairs {
                found[mine as usize] = other;
            }
        } else {
            unclear.push((a..a_end, s..s_end));
        }
        (a, s) = (a_end, s_end);
    }
    if unclear.is_empty() {
        return found;
    }
    let sure = sure(asked, seen, &found);
    let mut budget = BUDGET;
    for (mine, other) in unclear {
        let (mine, other) = (&ours[mine], &theirs[other]);
        let want: Vec<i64> = mine
            .iter()
            .map(|at| {
                let event = &asked[*at as usize];
                if absolute && let Some(submitted) = event.engine.and_then(|one| one.submitted) {
                    return submitted;
                }
                event.at.saturating_add(local_shift(&sure, event.at).unwrap_or(shift))
            })
            .collect();
        let have: Vec<i64> = other.iter().map(|at| seen[*at as usize].at).collect();
        if want.len() <= have.len() {
            let is_possible = |i: usize, j: usize| is_possible(mine[i], other[j]);
            let pairs = nearest(&want, &have, &is_possible, &mut budget);
            for (i, j) in pairs.into_iter().enumerate().filter(|(i, j)| is_possible(*i, *j)) {
                found[mine[i] as usize] = other[j];
            }
        } else {
            let is_possible = |j: usize, i: usize| is_possible(mine[i], other[j]);
            let pairs = nearest(&have, &want, &is_possible, &mut budget);
            for (j, i) in pairs.into_iter().enumerate().filter(|(j, i)| is_possible(*j, *i)) {
                found[mine[i] as usize] = other[j];
            }
        }
    }
    found
}

/// Instants of what was asked for, in their order, and how much later their counterparts were seen.
pub(super) fn sure(asked: &[Event], seen: &[Event], found: &[u32]) -> Vec<(i64, i64)> {
    // `asked` is in the order of time, so this is too.
    asked
        .iter()
        .zip(found)
        .filter(|(_, other)| **other != NONE)
        .map(|(event, other)| (event.at, difference(seen[*other as usize].at, event.at)))
        .collect()
}

/// When a request was handed over, as far as that is known.
fn handed_over(event: &Event) -> i64 {
    event.engine.and_then(|engine| engine.submitted).unwrap_or(event.at)
}

/// Pairs as many like requests that were asked for, in the order in which they were handed over,
/// with as many that were seen, in the order of time, so that each is possible; `None` where that
/// cannot be. Those in flight together may reach the device in another order than they were handed
/// over, by several threads or by a worker of the kernel. Among the possible counterparts it takes
/// the one that completed first: if all can be paired, this finds a pairing (earliest deadline
/// first; Jackson 1955).
fn by_completion(
    asked: &[Event],
    ours: &[u32],
    seen: &[Event],
    theirs: &[u32],
) -> Option<Vec<(u32, u32)>> {
    let mut waiting = BinaryHeap::new();
    let mut coming = ours.iter().peekable();
    let mut pairs = Vec::with_capacity(ours.len());
    for other in theirs {
        let event = &seen[*other as usize];
        let is_handed_over = |mine: &&u32| {
            difference(handed_over(&asked[**mine as usize]), event.at) <= CLOCK_SLACK_NS
        };
        while let Some(mine) = coming.next_if(|mine| is_handed_over(mine)) {
            let completed = asked[*mine as usize].engine.and_then(|engine| engine.completed);
            waiting.push(Reverse((completed.unwrap_or(i64::MAX), *mine)));
        }
        let Reverse((_, mine)) = waiting.pop()?;
        if !bears(&asked[mine as usize], event, CLOCK_SLACK_NS) {
            return None;
        }
        pairs.push((mine, *other));
    }
    Some(pairs)
}

/// Whether the two can be the same request, by a shared clock: handed over before it was seen, and
/// seen before its completion was.
fn bears(asked: &Event, seen: &Event, slack_ns: i64) -> bool {
    let Some(engine) = asked.engine else { return true };
    let is_early = engine.submitted.is_some_and(|at| difference(at, seen.at) > slack_ns);
    let is_late = engine.completed.is_some_and(|at| difference(seen.at, at) > slack_ns);
    !is_early && !is_late
}

/// The numbers of the events that a device can have seen, like ones together and these in the order
/// of time.
fn ordered(events: &[Event], from: usize) -> Vec<u32> {
    let numbers = from as u32..events.len() as u32;
    let mut numbers: Vec<u32> =
        numbers.filter(|number| events[*number as usize].was_issued()).collect();
    numbers.sort_unstable_by_key(|number| (events[*number as usize].key(), *number));
    numbers
}

/// How many requests at the beginning of what was seen were there before the replay began: reads of
/// the device, also by the replaying tool, possibly at places of its load. By the clock, where both
/// sides have one; else by the first requests that were found.
pub(super) fn before_start(
    asked: &[Event],
    seen: &[Event],
    found: &[u32],
    absolute: bool,
) -> usize {
    let Some(first) = asked.first() else { return 0 };
    let from = if absolute {
        first.at.saturating_sub(CLOCK_SLACK_NS)
    } else {
        let pairs = asked.iter().zip(found).filter(|(_, other)| **other != NONE);
        let shifts = pairs.map(|(event, other)| difference(seen[*other as usize].at, event.at));
        let mut shifts: Vec<i64> = shifts.take(BEGINNING).collect();
        shifts.sort_unstable();
        // The lower quartile: a few of these may be such reads, and later ones may have been
        // delayed.
        let Some(shift) = shifts.get(shifts.len() / 4) else { return 0 };
        first.at.saturating_add(*shift).saturating_sub(BEGINNING_SLACK_NS)
    };
    seen.partition_point(|event| event.at < from)
}

/// The median of the differences around an instant.
pub(super) fn local_shift(sure: &[(i64, i64)], at: i64) -> Option<i64> {
    let place = sure.partition_point(|pair| pair.0 < at);
    let around = &sure[place.saturating_sub(AROUND)..(place + AROUND).min(sure.len())];
    let mut around: Vec<i64> = around.iter().map(|pair| pair.1).collect();
    around.sort_unstable();
    around.get(around.len() / 2).copied()
}

pub(super) fn difference(a: i64, b: i64) -> i64 {
    clamped(i128::from(a) - i128::from(b))
}
