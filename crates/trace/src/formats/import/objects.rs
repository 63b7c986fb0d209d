//! Places on a volume for objects that have none.
//!
//! Traces of distributed storage name a file or a block and an offset in it; its place on a disk
//! was not recorded. A replay needs a place: the same object always at the same place, objects
//! apart from each other, and sequential accesses within an object sequential on the volume. A
//! table of objects would grow with the trace, so the place is a hash of the name: this needs no
//! memory, and collisions are rare.

use crate::units::Bytes;

/// The area that objects are placed in, in bytes: 4 EiB, half of what signed 64-bit offsets reach.
const AREA: u64 = 1 << 62;

/// Slots of one size over an area of 4 EiB, each of which begins an object.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The size of a slot is two to the power of this.
    shift: u32,
}

impl Slots {
    /// Slots of 2^`shift` bytes.
    pub const fn new(shift: u32) -> Self {
        Self { shift }
    }

    /// The place of the object called `name`. An object larger than a slot reaches into the next
    /// one.
    #[inline]
    pub fn of_name(self, name: &[u8]) -> Bytes {
        let mut hash = name.len() as u64;
        let mut words = name.chunks_exact(8);
        for word in &mut words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            hash = mixed(hash ^ u64::from_le_bytes(bytes));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.slot(mixed(hash ^ u64::from_le_bytes(last)))
    }

    /// The place of the object with these two numbers.
    #[inline]
    pub fn of_numbers(self, first: u64, second: u64) -> Bytes {
        self.slot(mixed(mixed(first).wrapping_add(second)))
    }

    fn slot(self, hash: u64) -> Bytes {
        Bytes((hash & (AREA - 1)) >> self.shift << self.shift)
    }
}

/// Spreads every bit of `value` over all bits: the output step of splitmix64 (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014), which maps no two values to one.
/// The places of objects depend on it, so it never changes.
pub(super) const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_hash::FxHashSet;

    #[test]
    fn an_object_has_one_place_at_the_beginning_of_a_slot_and_seldom_shares_it() {
        let slots = Slots::new(23);
        let mut names = FxHashSet::default();
        let mut numbers = FxHashSet::default();
        for number in 0..100_000_u64 {
            let name = format!("file-{number}");
            let place = slots.of_name(name.as_bytes());
            assert_eq!(place, slots.of_name(name.as_bytes()));
            assert!(place.0.is_multiple_of(1 << 23) && place.0 < AREA);
            names.insert(place);
            numbers.insert(slots.of_numbers(number % 1000, number / 1000));
        }
        // Of n objects in s slots n²/2s pairs are expected to share one: here 0.01.
        assert!(names.len() >= 99_998 && numbers.len() >= 99_998);
        assert_ne!(slots.of_name(b"a"), slots.of_name(b"a\0"));
        assert_ne!(slots.of_numbers(1, 2), slots.of_numbers(2, 1));
    }

    #[test]
    fn places_are_the_same_for_ever() {
        // The first output of splitmix64 seeded with 0, as its authors publish it.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(Slots::new(0).of_numbers(0, 0).0, mixed(mixed(0)) & (AREA - 1));
    }
}
