//! Keys of which there may be more than fit.
//!
//! A working set is a number of distinct pages, and a set of all pages of a large device does not
//! fit into memory. So keys are sampled by their hash (SHARDS: Waldspurger, Park, Garthwaite and
//! Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015, fixed size): whenever there are too
//! many, half of them go, by the hash, and each of the others counts for twice as many. A sampled
//! key is in the sample from its first touch on, so all its touches are seen.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};

/// The output function of SplitMix64, a bijection (Steele, Lea, Flood, OOPSLA 2014).
#[inline]
pub(crate) const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Whether a key is in the sample of one in 2^halved.
#[inline]
pub(crate) const fn is_sampled(key: u64, halved: u32) -> bool {
    halved == 0 || (halved < 64 && key >> (64 - halved) == 0)
}

/// The keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsItIs(u64);

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

/// The result of touching a key.
#[derive(Debug)]
pub(crate) enum Touch<'a, V> {
    /// The key is not in the sample.
    Outside,
    /// It was never touched before.
    First,
    /// What is known of it.
    Again(&'a mut V),
}

/// Values of at most `MAX` keys, which are hashes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample<V, const MAX: usize> {
    halved: u32,
    kept: HashMap<u64, V, BuildHasherDefault<AsItIs>>,
}

impl<V, const MAX: usize> Default for Sample<V, MAX> {
    fn default() -> Self {
        Self { halved: 0, kept: HashMap::default() }
    }
}

impl<V, const MAX: usize> Sample<V, MAX> {
    /// How many keys each one stands for; 1 as long as none was dropped.
    pub(crate) fn weight(&self) -> u64 {
        1 << self.halved
    }

    /// How many keys there are: exact as long as none was dropped.
    pub(crate) fn count(&self) -> u64 {
        (self.kept.len() as u64).saturating_mul(self.weight())
    }

    /// A key was touched. If this is the first time, `first` is known of it from now on.
    #[inline]
    pub(crate) fn touch(&mut self, key: u64, first: V) -> Touch<'_, V> {
        if !is_sampled(key, self.halved) {
            return Touch::Outside;
        }
        if let Entry::Vacant(place) = self.kept.entry(key) {
            place.insert(first);
            while self.kept.len() > MAX && self.halved < 63 {
                self.halve_to(self.halved + 1);
            }
            return Touch::First;
        }
        self.kept.get_mut(&key).map_or(Touch::Outside, Touch::Again)
    }

    /// Makes the sample one in 2^halved, if it is larger.
    fn halve_to(&mut self, halved: u32) {
        if halved > self.halved {
            self.halved = halved;
            self.kept.retain(|key, _| is_sampled(*key, halved));
        }
    }

    /// Touches the keys of a later part; `known` is told of those that this part had, with what the
    /// later one knows of them and their weight.
    pub(crate) fn merge(&mut self, later: &Self, mut known: impl FnMut(&V, u64))
    where
        V: Clone,
    {
        self.halve_to(later.halved);
        for (key, theirs) in &later.kept {
            let weight = self.weight();
            if let Touch::Again(_) = self.touch(*key, theirs.clone()) {
                known(theirs, weight);
            }
        }
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.halved = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MAX: usize = 16;

    fn of(pages: &[u64]) -> Sample<(), MAX> {
        let mut sample = Sample::default();
        for page in pages {
            sample.touch(mix(*page), ());
        }
        sample
    }

    fn kept(sample: &Sample<(), MAX>) -> (u32, BTreeSet<u64>) {
        (sample.halved, sample.kept.keys().copied().collect())
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_sample_of_the_whole(
            pages in proptest::collection::vec(0_u64..200, 0..200), cut in 0_usize..200,
        ) {
            let cut = cut.min(pages.len());
            let (early, late) = pages.split_at(cut);
            let mut merged = of(early);
            let mut again = 0;
            merged.merge(&of(late), |(), weight| again += weight);
            prop_assert_eq!(kept(&merged), kept(&of(&pages)));
            prop_assert!(merged.kept.len() <= MAX);
            let of_both = |page: &u64| early.contains(page) && late.contains(page);
            if merged.halved == 0 {
                let both: BTreeSet<u64> = pages.iter().copied().filter(of_both).collect();
                prop_assert_eq!(again, both.len() as u64);
            }
        }

        #[test]
        fn a_key_in_the_sample_is_known_from_its_first_touch_on(
            pages in proptest::collection::vec(0_u64..60, 1..200),
        ) {
            let mut sample = Sample::<usize, MAX>::default();
            for (at, page) in pages.iter().enumerate() {
                let first = pages.iter().position(|other| other == page);
                if let Touch::Again(known) = sample.touch(mix(*page), at) {
                    prop_assert_eq!(Some(*known), first);
                }
            }
        }
    }

    #[test]
    fn of_few_keys_the_number_is_exact_and_of_many_it_is_estimated() {
        assert_eq!(of(&[1, 2, 3, 2]).count(), 3);
        let mut sample = Sample::<(), 4096>::default();
        (0..100_000).for_each(|page| {
            sample.touch(mix(page), ());
        });
        assert!((95_000..105_000).contains(&sample.count()), "{}", sample.count());
        sample.clear();
        assert_eq!((sample.count(), sample.weight()), (0, 1));
    }
}
