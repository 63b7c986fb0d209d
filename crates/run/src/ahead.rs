//! The content of the target under the first requests, checked before they are issued.
//!
//! A run on places that were never written measures nothing, and a warning at its end comes too
//! late. A sample of the whole target says little about a load on a part of it. So the requests in
//! the ring are compared with the target's content at their places, as the verdict's check
//! `content` does for the whole load.

use std::time::{Duration, Instant};

use ioecho_linux::target::{Part, TargetContent, WrittenPlaces};
use ioecho_replay::plan::Planned;
use ioecho_trace::Op;

use crate::feeder::RingInput;

/// Requests to check, at most.
const LOOKED_MAX: usize = 4096;

/// The time limit of the check, because the first request is due soon.
const PLACES_TIME: Duration = Duration::from_millis(20);

/// The number of checked places, and of those that were never written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlacesSeen {
    pub(crate) looked: u64,
    pub(crate) never_written: u64,
}

/// The content at the places of the first requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Emptiness {
    /// The share of places that were never written.
    pub(crate) never_written: f64,
    /// The share of places that contain only zeroes.
    pub(crate) zeroes: f64,
}

/// Checks the places of requests in the ring, evenly over it.
pub(crate) fn look(
    input: &mut RingInput,
    content: &TargetContent,
    places: Option<&WrittenPlaces>,
) -> (PlacesSeen, Emptiness) {
    let mut found = (PlacesSeen::default(), Emptiness::default());
    input.look_ahead(|waiting| {
        let moves_data = |planned: &&Planned| {
            planned.refusal.is_none() && matches!(planned.op, Op::Read | Op::Write)
        };
        let step = waiting.len().div_ceil(LOOKED_MAX).max(1);
        let first: Vec<_> = waiting.iter().step_by(step).filter(moves_data).collect();
        let seen = places.map_or_else(PlacesSeen::default, |places| ask(places, &first));
        let offsets: Vec<u64> = first.iter().map(|planned| planned.offset.0).collect();
        found = (seen, emptiness(content, seen, &offsets));
    });
    found
}

fn ask(places: &WrittenPlaces, planned: &[&Planned]) -> PlacesSeen {
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

/// The checked places decide; without any, the samples of the target around each request do. For a
/// target that was filled, perhaps only under the load, samples are no evidence.
fn emptiness(content: &TargetContent, seen: PlacesSeen, offsets: &[u64]) -> Emptiness {
    let is_prepared = content.runs.iter().any(|run| run.prepared);
    let around = |of: fn(&Part) -> u32| {
        let part = |offset: &u64| content.parts.get((offset / content.part.max(1)) as usize);
        let shares = offsets.iter().filter_map(part).filter(|part| part.samples > 0);
        let shares: Vec<f64> =
            shares.map(|part| f64::from(of(part)) / f64::from(part.samples)).collect();
        let is_told = !is_prepared && !shares.is_empty();
        if is_told { shares.iter().sum::<f64>() / shares.len() as f64 } else { 0.0 }
    };
    let never_written = match seen.looked {
        0 => around(|part| part.never_written),
        looked => seen.never_written as f64 / looked as f64,
    };
    Emptiness { never_written, zeroes: around(|part| part.zeroes) }
}

#[cfg(test)]
mod tests {
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
        let seen = PlacesSeen { looked: 4, never_written: 1 };
        assert_eq!(found(seen, &[0, 0, 2, 3]), (0.25, 0.25));
    }
}
