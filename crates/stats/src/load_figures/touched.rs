//! How much of a target a run touched, and how often it came back.
//!
//! Distinct pages are counted in a [`Sample`]. With at least 4,096 pages kept the number is right
//! to some 2 %; with fewer it is exact.

use crate::count::sample::{Sample, Touch, mix};

/// The unit of working sets, in bytes: the page of most caches.
pub const PAGE: u64 = 4096;

/// Pages that are kept at most.
const KEPT_MAX: usize = 8192;

/// Pages of a request that are looked at, from its beginning: 256 MiB. More would take too long.
const PAGES_MAX: u64 = 1 << 16;

/// The pages of one target that a run touched.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    pages: Sample<IsRead, KEPT_MAX>,
    /// Pages read, by the weight of those that were kept.
    read: u64,
    /// Of these, the ones touched before.
    again: u64,
}

/// Whether the first touch of a page was a read.
type IsRead = bool;

impl Touched {
    /// Adds a request for these bytes.
    pub(super) fn touch(&mut self, offset: u64, length: u64, is_read: bool) {
        if length == 0 {
            return;
        }
        let first = offset / PAGE;
        let last = offset.saturating_add(length - 1) / PAGE;
        for page in first..=last.min(first.saturating_add(PAGES_MAX - 1)) {
            let weight = self.pages.weight();
            let again = match self.pages.touch(mix(page), is_read) {
                Touch::Outside => continue,
                Touch::First => 0,
                Touch::Again(_) => weight,
            };
            if is_read {
                self.again += again;
                self.read += weight;
            }
        }
    }

    /// Adds what a later part touched. Pages that the later part read first, and this part had
    /// touched, count as returns.
    pub(super) fn merge(&mut self, later: &Self) {
        let Self { pages, read, again } = later;
        self.read += read;
        self.again += again;
        self.pages.merge(pages, |is_read, weight| {
            self.again += if *is_read { weight } else { 0 };
        });
    }

    pub(super) fn figures(&self) -> super::TouchedFigures {
        let again = self.again.min(self.read) as f64 / self.read.max(1) as f64;
        super::TouchedFigures { bytes: self.pages.count().saturating_mul(PAGE), again }
    }
}
