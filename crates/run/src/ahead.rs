//! The content of the target under the first requests, checked before they are issued.
//!
//! A run on places that were never written measures nothing, and a warning at its end comes too
//! late. A sample of the whole target says little about a load on a part of it. So the requests in
//! the ring are compared with the target's content at their places, as the verdict's check
//! `content` does for the whole load.
//!
//! Where a sample finds zeroes, a fill may all the same be where the load goes: a fill of what a
//! small load touches is a block in a million, which no sample meets. And where a fill is found
//! beside zeroes, most of it may have been overwritten since. So a few places of the load are read.

use std::time::{Duration, Instant};

use ioecho_linux::target::{EMPTY_TOLERATED, Part, Places, TargetContent};
use ioecho_replay::plan::Planned;
use ioecho_trace::Op;

use crate::lane_feed::LaneFeed;

/// Requests to check, at most.
const LOOKED_MAX: usize = 4096;

/// Places to read, at most, because reading warms caches that should be cold.
const READ_MAX: usize = 100;

/// The time limit for asking the file system.
const PLACES_TIME: Duration = Duration::from_millis(20);

/// The time limit for reading.
const READ_TIME: Duration = Duration::from_millis(500);

/// The number of checked places, and of those that were never written; the number of places that
/// were read, and of those that contain only zeroes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlacesSeen {
    pub(crate) looked: u64,
    pub(crate) never_written: u64,
    pub(crate) read: u64,
    pub(crate) zeroes: u64,
}

/// The content at the places of the first requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Emptiness {
    /// The share of places that were never written.
    pub(crate) never_written: f64,
    /// The share of places that contain only zeroes.
    pub(crate) zeroes: f64,
}

/// The first requests that move data, evenly over those in the ring.
pub(crate) fn first(input: &mut LaneFeed) -> Vec<Planned> {
    let mut first = Vec::new();
    input.look_ahead(|waiting| {
        let moves_data = |planned: &&Planned| {
            planned.refusal.is_none() && matches!(planned.op, Op::Read | Op::Write)
        };
        let step = waiting.len().div_ceil(LOOKED_MAX).max(1);
        first = waiting.iter().step_by(step).filter(moves_data).copied().collect();
    });
    first
}

/// Checks the places of the first requests to a target.
pub(crate) fn look(
    first: &[Planned],
    content: &TargetContent,
    mut places: Places,
) -> (PlacesSeen, Emptiness) {
    let mut seen = ask(&places, first);
    let offsets: Vec<u64> = first.iter().map(|planned| planned.offset.0).collect();
    if is_in_doubt(content, &offsets) {
        read(&mut places, &offsets, &mut seen);
    }
    (seen, emptiness(content, seen, &offsets))
}

fn ask(places: &Places, planned: &[Planned]) -> PlacesSeen {
    let mut seen = PlacesSeen::default();
    let until = Instant::now() + PLACES_TIME;
    for planned in planned {
        if Instant::now() > until {
            break;
        }
        if let Some(written) = places.is_written(planned.offset.0, planned.length.0) {
            seen.looked += 1;
            seen.never_written += u64::from(!written);
        }
    }
    seen
}

/// Whether a sample does not tell what is where the load goes: zeroes, or a fill beside what is
/// empty. Where nothing was ever written and nothing was filled, the system has said so.
fn is_in_doubt(content: &TargetContent, offsets: &[u64]) -> bool {
    let empty = |part: &Part| part.zeroes + part.never_written;
    let is_filled = content.runs.iter().any(|run| run.prepared);
    let doubtful: fn(&Part) -> u32 = if is_filled { empty } else { |part| part.zeroes };
    around(content, offsets, doubtful) > EMPTY_TOLERATED
}

/// Reads some of these places, evenly over them.
fn read(places: &mut Places, offsets: &[u64], seen: &mut PlacesSeen) {
    let until = Instant::now() + READ_TIME;
    let step = offsets.len().div_ceil(READ_MAX).max(1);
    for offset in offsets.iter().step_by(step) {
        if Instant::now() > until {
            break;
        }
        if let Some(is_zero) = places.is_zero(*offset) {
            seen.read += 1;
            // What was never written reads as zeroes too, and was counted once.
            let never = || places.is_written(*offset, 1) == Some(false);
            seen.zeroes += u64::from(is_zero && !never());
        }
    }
}

/// The mean share of such blocks in the parts of the target that these places lie in.
fn around(content: &TargetContent, offsets: &[u64], of: fn(&Part) -> u32) -> f64 {
    let part = |offset: &u64| content.parts.get((offset / content.part.max(1)) as usize);
    let shares = offsets.iter().filter_map(part).filter(|part| part.samples > 0);
    let shares: Vec<f64> =
        shares.map(|part| f64::from(of(part)) / f64::from(part.samples)).collect();
    if shares.is_empty() { 0.0 } else { shares.iter().sum::<f64>() / shares.len() as f64 }
}

/// The places that were checked or read decide; without any, the samples of the target around each
/// request do.
fn emptiness(content: &TargetContent, seen: PlacesSeen, offsets: &[u64]) -> Emptiness {
    let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
    let never_written = share(seen.never_written, seen.looked);
    let zeroes = share(seen.zeroes, seen.read);
    Emptiness {
        never_written: never_written
            .unwrap_or_else(|| around(content, offsets, |part| part.never_written)),
        zeroes: zeroes.unwrap_or_else(|| around(content, offsets, |part| part.zeroes)),
    }
}

#[cfg(test)]
mod tests {
    use ioecho_linux::target::WrittenBy;

    use super::*;

    const PART: u64 = 1 << 20;

    /// Half of the content never written, a quarter zeroes, a quarter data.
    fn content() -> TargetContent {
        let part = |never_written, zeroes| Part { samples: 10, never_written, zeroes };
        let parts = vec![part(10, 0), part(10, 0), part(0, 10), part(0, 0)];
        TargetContent { samples: 40, part: PART, parts, ..TargetContent::default() }
    }

    fn found(seen: PlacesSeen, parts: &[u64]) -> (f64, f64) {
        let offsets: Vec<u64> = parts.iter().map(|part| part * PART).collect();
        let found = emptiness(&content(), seen, &offsets);
        (found.never_written, found.zeroes)
    }

    #[test]
    fn only_where_the_load_goes_counts() {
        let nobody = PlacesSeen::default();
        assert_eq!(found(nobody, &[3, 3]), (0.0, 0.0));
        assert_eq!(found(nobody, &[0, 3]), (0.5, 0.0));
        assert_eq!(found(nobody, &[2, 3, 3, 3]), (0.0, 0.25));
        assert_eq!(found(nobody, &[]), (0.0, 0.0));
        assert_eq!(found(nobody, &[u64::MAX / PART]), (0.0, 0.0));
    }

    #[test]
    fn places_that_were_asked_after_decide() {
        let seen = PlacesSeen { looked: 4, never_written: 1, ..PlacesSeen::default() };
        assert_eq!(found(seen, &[0, 0, 2, 3]), (0.25, 0.25));
        let read = PlacesSeen { read: 10, zeroes: 9, ..seen };
        assert_eq!(found(read, &[3, 3]), (0.25, 0.9));
    }

    #[test]
    fn zeroes_are_in_doubt_and_so_is_a_fill_beside_what_was_never_written() {
        let fill = WrittenBy { run: "1".to_owned(), prepared: true, share: 0.001 };
        let prepared = TargetContent { runs: vec![fill], ..content() };
        let at = |part: u64| [part * PART];
        assert!(is_in_doubt(&prepared, &at(0)) && is_in_doubt(&prepared, &at(2)));
        // A fill of a few blocks is in no sample.
        assert!(is_in_doubt(&content(), &at(2)));
        assert!(!is_in_doubt(&prepared, &at(3)) && !is_in_doubt(&content(), &at(0)));
    }
}
