//! What a part of a trace tells of its pages to those who put parts together by a query.
//!
//! Distinct pages of parts do not add up, because the parts share pages. Two things can be put
//! together all the same: sketches of the sets of pages ([`Distinct`]), of which any union can be
//! taken, and the accesses of a sample of pages ([`Drawn`]), of which plain SQL makes working sets,
//! frequencies and intervals. A page has the same key in all parts of a trace, and another one in
//! every other trace, so that unions over the volumes of a fleet are right too.

mod distinct;
mod drawn;
#[cfg(test)]
mod tests;

pub use distinct::{Distinct, Pages, SPAN_NS};
pub use drawn::{Access, Drawn};

use ioecho_trace::Request;

use super::place::{instant, pages, read_or_write};
use crate::count::sample::mix;

/// The numbers that stand for the pages of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKeys(u64);

impl PageKeys {
    /// Those of the trace of this name.
    pub fn of(trace: &str) -> Self {
        // FNV-1a: the same on every host and in every version.
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        Self(mix(trace.bytes().fold(0xCBF2_9CE4_8422_2325, fnv)))
    }

    #[inline]
    fn of_volume(self, volume: u32) -> impl Fn(u64) -> u64 {
        let volume = mix(self.0 ^ u64::from(volume));
        move |page| mix(page ^ volume)
    }
}

/// What is kept of the pages of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketches {
    keys: PageKeys,
    distinct: Distinct,
    drawn: Option<Drawn>,
}

impl Sketches {
    /// Nothing yet. With `share`, that share of all pages is sampled, with all their accesses.
    pub fn new(trace: &str, share: Option<f64>) -> Self {
        Self {
            keys: PageKeys::of(trace),
            distinct: Distinct::default(),
            drawn: share.map(Drawn::new),
        }
    }

    /// The same with what is known already.
    #[must_use]
    pub fn with(mut self, distinct: Distinct) -> Self {
        self.distinct = distinct;
        self
    }

    /// The distinct pages.
    pub fn distinct(&self) -> &Distinct {
        &self.distinct
    }

    /// The sample.
    pub fn drawn(&self) -> Option<&Drawn> {
        self.drawn.as_ref()
    }

    /// Adds requests.
    pub fn observe_all(&mut self, requests: &[Request]) {
        for request in requests {
            self.observe(request);
        }
    }

    fn observe(&mut self, request: &Request) {
        let number = self.drawn.as_mut().map(Drawn::next_request);
        let Some(kind) = read_or_write(request.op) else { return };
        let Some((first, last, _)) = pages(request) else { return };
        let (volume, time_ns) = (request.volume.0, instant(request));
        let key = self.keys.of_volume(volume);
        self.distinct.touch(volume, kind, time_ns, (first..=last).map(&key));
        if let (Some(drawn), Some(number)) = (&mut self.drawn, number) {
            for page in first..=last {
                if drawn.takes(key(page)) {
                    drawn.add(Access { volume, time_ns, number, is_write: kind == 1, page });
                }
            }
        }
    }

    /// Adds those of a later part of the same trace, or of a part with other volumes.
    pub fn merge(&mut self, later: &Self) {
        self.distinct.merge(&later.distinct);
        match (&mut self.drawn, &later.drawn) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            // Of a part without a sample nothing is known, so there is none of the whole.
            (mine, _) => *mine = None,
        }
    }
}
