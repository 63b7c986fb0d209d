//! How much of a target a run touched, and how often it came back.
//!
//! A working set is a number of distinct pages, and a set of all pages of a large device does not
//! fit into memory. So pages are sampled by a hash of their number (SHARDS, Waldspurger and others,
//! "Efficient MRC Construction with SHARDS", FAST 2015, fixed size): whenever there are too many,
//! half of them go, by the hash, and each of the others counts for twice as many. A page that is
//! kept is kept from its first touch on, so what comes back is seen. With at least 4,096 pages kept
//! the number is right to some 2 %; with fewer it is exact.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use crate::analysis::place::{is_sampled, mix};

/// The unit of working sets, in bytes: the page of most caches.
pub const PAGE: u64 = 4096;

/// Pages that are kept at most.
const KEPT_MAX: usize = 8192;

/// Pages of a request that are looked at, from its beginning: 256 MiB. What is longer would cost
/// more time than it tells.
const PAGES_MAX: u64 = 1 << 16;

/// The pages of one target that a run touched.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// Pages are kept whose hash begins with so many zeroes; each stands for 2^halvings.
    halvings: u32,
    /// By their hash: whether the first touch was a read.
    kept: HashMap<u64, bool, BuildHasherDefault<AsItIs>>,
    /// Pages read, by the weight of those that were kept.
    read: u64,
    /// Of these, the ones touched before.
    again: u64,
}

/// The keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        // The first bits are zeroes in all that are kept, and the map looks at them most.
        self.0 = hash.rotate_left(32);
    }
}

impl Touched {
    /// Adds a request for these bytes.
    pub(super) fn touch(&mut self, offset: u64, length: u64, is_read: bool) {
        if length == 0 {
            return;
        }
        let first = offset / PAGE;
        let last = offset.saturating_add(length - 1) / PAGE;
        for page in first..=last.min(first.saturating_add(PAGES_MAX - 1)) {
            let hash = mix(page);
            if !is_sampled(hash, self.halvings) {
                continue;
            }
            let weight = 1 << self.halvings;
            self.read += if is_read { weight } else { 0 };
            match self.kept.entry(hash) {
                Entry::Occupied(_) => self.again += if is_read { weight } else { 0 },
                Entry::Vacant(place) => {
                    place.insert(is_read);
                    self.thin();
                }
            }
        }
    }

    fn thin(&mut self) {
        while self.kept.len() > KEPT_MAX {
            self.thin_to(self.halvings + 1);
        }
    }

    fn thin_to(&mut self, halvings: u32) {
        self.halvings = self.halvings.max(halvings);
        let halvings = self.halvings;
        self.kept.retain(|hash, _| is_sampled(*hash, halvings));
    }

    /// Adds what a later part touched. What it read first and this part had touched came back.
    pub(super) fn merge(&mut self, later: &Self) {
        self.thin_to(later.halvings);
        self.read += later.read;
        self.again += later.again;
        for (hash, is_read) in &later.kept {
            if !is_sampled(*hash, self.halvings) {
                continue;
            }
            match self.kept.entry(*hash) {
                Entry::Occupied(_) if *is_read => self.again += 1 << self.halvings,
                Entry::Occupied(_) => {}
                Entry::Vacant(place) => {
                    place.insert(*is_read);
                }
            }
        }
        self.thin();
    }

    pub(super) fn figures(&self) -> super::TouchedFigures {
        let pages = (self.kept.len() as u64) << self.halvings;
        let again = self.again.min(self.read) as f64 / self.read.max(1) as f64;
        super::TouchedFigures { bytes: pages.saturating_mul(PAGE), again }
    }
}
