//! Places where requests could not be told apart.
//!
//! If a completion could belong to two requests, the chosen one may be wrong, and then later
//! completions at that place may be matched wrongly too. So the place is in doubt until all
//! candidate requests there are complete, and so is every request that is matched there meanwhile.
//! A request that waits there and is not matched becomes a candidate, because the completion may be
//! its own.

use super::pieces::Part;

/// The largest number of places that are remembered; beyond it, the last place grows.
const PLACES_MAX: usize = 64;

/// The largest number of requests that are remembered for each place. Beyond it, the reader forgets
/// which of them are complete.
const REQUESTS_MAX: usize = 1 << 10;

#[derive(Debug)]
struct Extent {
    begin: u64,
    end: u64,
    serials: Vec<u64>,
}

/// The places in doubt of one class on one device.
#[derive(Debug, Default)]
pub(super) struct Doubts(Vec<Extent>);

impl Doubts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of requests that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|place| place.serials.len()).sum()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Puts the places of these parts into doubt.
    pub(super) fn add(&mut self, parts: &[Part]) {
        let (Some(begin), Some(end)) =
            (parts.iter().map(|part| part.begin).min(), parts.iter().map(|part| part.end).max())
        else {
            return;
        };
        let serials = parts.iter().map(|part| part.serial);
        if self.0.len() < PLACES_MAX {
            self.0.push(Extent { begin, end, serials: serials.collect() });
        } else if let Some(last) = self.0.last_mut() {
            (last.begin, last.end) = (last.begin.min(begin), last.end.max(end));
            last.serials.extend(serials);
        }
    }

    /// Whether one of these parts overlaps a place in doubt; if so, all of them are added to it.
    /// `waits` says whether a request is still incomplete.
    pub(super) fn touch(&mut self, parts: &[Part], waits: impl Fn(u64) -> bool) -> bool {
        self.0.retain_mut(|place| {
            if place.serials.len() > REQUESTS_MAX {
                place.serials.retain(|serial| waits(*serial));
            }
            place.serials.iter().any(|serial| waits(*serial))
        });
        let meets = |place: &Extent, part: &Part| {
            part.begin < place.end && part.end > place.begin
                || part.begin == place.begin && part.end == place.end
        };
        let mut found = false;
        for place in &mut self.0 {
            if parts.iter().any(|part| meets(place, part)) {
                found = true;
                for part in parts {
                    place.begin = place.begin.min(part.begin);
                    place.end = place.end.max(part.end);
                    place.serials.push(part.serial);
                }
            }
        }
        found
    }
}
