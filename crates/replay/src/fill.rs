//! How a target is filled before it is measured.
//!
//! A new drive reads unwritten blocks without touching its cells, and writes to it need no garbage
//! collection: figures of an empty device are fiction. So it is filled first, with data that do not
//! compress, and a fill that takes hours must survive being interrupted.
//!
//! The data depends only on the fill's number and the place: each block of 4 KiB is a request of
//! its own, whose number is the block's. So the size of the writes does not matter, and an
//! interrupted fill can continue anywhere with the same result. The fill goes upwards, and flushes
//! the target before it goes beyond a *span*: so everything below the span of the last filled block
//! is durable, even after a power cut.

use ioecho_trace::Bytes;

use crate::device::{Io, Payload};
use crate::pattern::Pattern;

/// The size of a block, one request of the fill, in bytes.
pub const BLOCK: u64 = 4096;

/// The upper bits of a fill's number say that it is one: "PRP". Of random numbers of other runs one
/// in 16 million looks like it.
const MARK: u64 = 0x50_5250;
const MARK_SHIFT: u32 = 40;

/// The least and the largest span, and how many a target has if they allow it.
const SPAN_MIN: u64 = 1 << 20;
const SPAN_MAX: u64 = 256 << 20;
const SPANS: u64 = 64;

/// The map of what takes part is at most so many bits large: 64 MiB of memory.
const MAP_BITS: u64 = 1 << 29;

/// The number of the fill with this seed, of which the lower 40 bits count.
pub const fn fill_run(seed: u64) -> u64 {
    MARK << MARK_SHIFT | seed & ((1 << MARK_SHIFT) - 1)
}

/// The seed that makes this number; `None` if it is not that of a fill.
pub const fn seed_of(run: u64) -> Option<u64> {
    if run >> MARK_SHIFT == MARK { Some(run & ((1 << MARK_SHIFT) - 1)) } else { None }
}

/// The payload of a fill. See the module.
#[derive(Clone, Debug)]
pub struct FillPayload(Pattern);

impl FillPayload {
    /// The payload of the fill with this number.
    pub fn new(run: u64) -> Self {
        Self(Pattern::new(run))
    }
}

impl Payload for FillPayload {
    fn fill_from(&mut self, io: &Io, from: usize, buffer: &mut [u8]) {
        for (position, block) in (io.offset.0 + from as u64..)
            .step_by(BLOCK as usize)
            .zip(buffer.chunks_mut(BLOCK as usize))
        {
            let (offset, length) = (Bytes(position), Bytes(block.len() as u64));
            let one = Io { request: position / BLOCK, offset, length, ..*io };
            self.0.fill(&one, block);
        }
    }
}

/// What of a target is filled, in units of at least [`BLOCK`].
#[derive(Clone, Debug)]
pub struct Extent {
    capacity: u64,
    /// Bytes that take part or do not together.
    unit: u64,
    /// One bit for each unit; `None` is all.
    map: Option<Vec<u64>>,
}

impl Extent {
    /// All of a target of this size, whose blocks are of `block_size` bytes.
    pub fn all(capacity: Bytes, block_size: Bytes) -> Self {
        Self { capacity: capacity.0, unit: block_size.0.max(BLOCK), map: None }
    }

    /// Nothing of it, until it is touched. On targets above 2 TiB the units are larger than 4 KiB,
    /// so that the map of them stays small.
    pub fn nothing(capacity: Bytes, block_size: Bytes) -> Self {
        let mut extent = Self::all(capacity, block_size);
        while extent.units() > MAP_BITS {
            extent.unit *= 2;
        }
        extent.map = Some(vec![0; extent.units().div_ceil(64) as usize]);
        extent
    }

    fn units(&self) -> u64 {
        self.capacity.div_ceil(self.unit)
    }

    /// Takes in every unit that the range touches. What lies beyond the target is ignored.
    pub fn touch(&mut self, offset: Bytes, length: Bytes) {
        let end = offset.0.saturating_add(length.0).min(self.capacity);
        if let Some(map) = &mut self.map
            && offset.0 < end
        {
            for unit in offset.0 / self.unit..end.div_ceil(self.unit) {
                map[(unit / 64) as usize] |= 1 << (unit % 64);
            }
        }
    }

    /// Where the first unit begins that takes part, at or behind the one of `position`.
    pub fn next(&self, position: u64) -> Option<u64> {
        if position >= self.capacity {
            return None;
        }
        let first = position / self.unit;
        let Some(map) = &self.map else { return Some(first * self.unit) };
        let mut index = (first / 64) as usize;
        let mut word = map[index] & (u64::MAX << (first % 64));
        while word == 0 {
            index += 1;
            word = *map.get(index)?;
        }
        Some((index as u64 * 64 + u64::from(word.trailing_zeros())) * self.unit)
    }

    /// Where the last unit begins that takes part and begins before `position`.
    fn last_before(&self, position: u64) -> Option<u64> {
        let last = position.min(self.capacity).div_ceil(self.unit).checked_sub(1)?;
        let Some(map) = &self.map else { return Some(last * self.unit) };
        let mut index = (last / 64) as usize;
        let mut word = map[index] & (u64::MAX >> (63 - last % 64));
        while word == 0 {
            index = index.checked_sub(1)?;
            word = map[index];
        }
        Some((index as u64 * 64 + 63 - u64::from(word.leading_zeros())) * self.unit)
    }

    /// How many bytes take part from `position` on, which is the start of a unit.
    pub fn bytes_from(&self, position: u64) -> u64 {
        let Some(map) = &self.map else { return self.capacity.saturating_sub(position) };
        let first = position / self.unit;
        let words = map.iter().enumerate().skip((first / 64) as usize);
        let count: u64 = words
            .map(|(index, word)| {
                let skip = first.saturating_sub(index as u64 * 64);
                u64::from((word & u64::MAX.checked_shl(skip as u32).unwrap_or(0)).count_ones())
            })
            .sum();
        // The last unit of a target may be shorter than the others.
        let missing = self.units() * self.unit - self.capacity;
        let last = self.units().saturating_sub(1) * self.unit;
        let has_last = last >= position && self.next(last).is_some();
        count * self.unit - if has_last { missing } else { 0 }
    }

    /// The next piece to write at or behind `position`: start and length. It is contiguous, and
    /// crosses neither a multiple of `bundle` nor the end of a span.
    pub fn piece(&self, position: u64, bundle: u64) -> Option<(u64, u64)> {
        let start = self.next(position)?;
        let next_multiple = |size: u64| (start / size + 1).saturating_mul(size);
        let bundle = bundle.next_multiple_of(self.unit);
        let limit = next_multiple(bundle).min(next_multiple(self.span())).min(self.capacity);
        let mut end = start;
        while end < limit && self.next(end) == Some(end) {
            end += self.unit;
        }
        Some((start, end.min(limit) - start))
    }

    /// A fill flushes the target before it goes on beyond a multiple of so many bytes.
    pub fn span(&self) -> u64 {
        (self.capacity / SPANS).next_power_of_two().clamp(SPAN_MIN, SPAN_MAX).max(self.unit)
    }

    /// Where an interrupted fill continues: at the start of the span of the last filled unit.
    /// `is_there` says whether the unit at a position is filled. Returns the size of the target if
    /// all are. Checks a few dozen units.
    pub fn resume<E>(&self, mut is_there: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
        let (mut low, mut high) = (0, self.units());
        let mut missing = None;
        while low < high {
            let middle = low.midpoint(high);
            match self.next(middle * self.unit).filter(|at| at / self.unit < high) {
                Some(at) if is_there(at)? => low = at / self.unit + 1,
                Some(at) => {
                    missing = Some(at);
                    high = middle;
                }
                None => high = middle,
            }
        }
        let Some(missing) = missing else { return Ok(self.capacity) };
        Ok(self.last_before(missing).map_or(0, |there| there / self.span() * self.span()))
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Flags, Nanos, Op};
    use proptest::prelude::*;

    use super::*;
    use crate::pattern::read_stamp;

    const UNIT: u64 = 4096;

    fn touched(capacity: u64, ranges: &[(u64, u64)]) -> Extent {
        let mut extent = Extent::nothing(Bytes(capacity), Bytes(512));
        for (offset, length) in ranges {
            extent.touch(Bytes(*offset), Bytes(*length));
        }
        extent
    }

    fn pieces(extent: &Extent, bundle: u64) -> Vec<(u64, u64)> {
        let mut position = 0;
        std::iter::from_fn(|| {
            let piece = extent.piece(position, bundle)?;
            position = piece.0 + piece.1;
            Some(piece)
        })
        .collect()
    }

    fn written(offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0; length];
        let io = Io {
            tag: 0,
            request: 77,
            scheduled: Nanos::ZERO,
            op: Op::Write,
            flags: Flags::empty(),
            offset: Bytes(offset),
            length: Bytes(length as u64),
        };
        FillPayload::new(fill_run(5)).fill(&io, &mut buffer);
        buffer
    }

    #[test]
    fn the_number_of_a_fill_tells_that_it_is_one_and_its_seed() {
        assert_eq!(seed_of(fill_run(0)), Some(0));
        assert_eq!(seed_of(fill_run(42)), Some(42));
        assert_eq!(seed_of(fill_run(u64::MAX)), Some((1 << 40) - 1));
        assert_eq!(seed_of(42), None);
    }

    #[test]
    fn what_is_written_depends_on_the_place_alone() {
        let whole = written(8192, 16384);
        let parts = [written(8192, 4096), written(12288, 8192), written(20480, 4096)].concat();
        assert_eq!(whole, parts);
        let stamp = read_stamp(&whole[8192..8704]).unwrap();
        assert_eq!((stamp.run, stamp.position, stamp.request), (fill_run(5), 16384, 4));
    }

    #[test]
    fn all_of_a_target_is_written_in_aligned_pieces_to_its_last_byte() {
        let extent = Extent::all(Bytes((3 << 20) + 512), Bytes(512));
        assert_eq!(
            pieces(&extent, 1 << 20),
            [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 1 << 20), (3 << 20, 512)]
        );
        assert_eq!(extent.bytes_from(0), (3 << 20) + 512);
        assert_eq!(extent.bytes_from(3 << 20), 512);
    }

    #[test]
    fn touched_ranges_are_merged_and_widened_to_whole_units() {
        let extent = touched(1 << 20, &[(512, 512), (4000, 200), (65536, 8192), (73728, 1)]);
        assert_eq!(pieces(&extent, 1 << 20), [(0, 8192), (65536, 12288)]);
        assert_eq!(extent.bytes_from(0), 20480);
        assert_eq!(extent.bytes_from(65536), 12288);
        assert_eq!(pieces(&touched(1 << 20, &[]), 1 << 20), []);
    }

    #[test]
    fn a_large_target_is_mapped_in_larger_units() {
        let mut extent = Extent::nothing(Bytes(16 << 40), Bytes(512));
        extent.touch(Bytes(15 << 40), Bytes(4096));
        assert_eq!(extent.bytes_from(0), 32768);
    }

    #[test]
    fn a_fill_goes_on_at_the_span_of_the_last_unit_that_is_there() {
        let extent = Extent::all(Bytes(64 << 20), Bytes(512));
        let resumed = |done: u64| {
            let answer: Result<u64, ()> = extent.resume(|at| Ok(at < done));
            answer.unwrap()
        };
        assert_eq!(resumed(0), 0);
        assert_eq!(resumed(UNIT), 0);
        assert_eq!(resumed((5 << 20) + UNIT), 5 << 20);
        assert_eq!(resumed(5 << 20), 4 << 20);
        assert_eq!(resumed(64 << 20), 64 << 20);
    }

    proptest! {
        #[test]
        fn pieces_are_exactly_what_was_touched(
            capacity in 1_u64..1 << 13,
            ranges in prop::collection::vec((0_u64..1 << 22, 0_u64..1 << 16), 0..20),
            bundle in 1_u64..1 << 20,
        ) {
            let capacity = capacity * 512;
            let extent = touched(capacity, &ranges);
            let mut expected = std::collections::BTreeSet::new();
            for (offset, length) in &ranges {
                let end = (offset + length).min(capacity);
                if *offset < end {
                    expected.extend(offset / UNIT..end.div_ceil(UNIT));
                }
            }
            let mut found = std::collections::BTreeSet::new();
            let mut sum = 0;
            for (offset, length) in pieces(&extent, bundle) {
                prop_assert!(length <= bundle.next_multiple_of(UNIT));
                prop_assert!(offset + length <= capacity);
                prop_assert_eq!(offset / extent.span(), (offset + length - 1) / extent.span());
                for unit in offset / UNIT..(offset + length).div_ceil(UNIT) {
                    prop_assert!(found.insert(unit), "unit {} twice", unit);
                }
                sum += length;
            }
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(extent.bytes_from(0), sum);
        }

        #[test]
        fn whatever_was_written_up_to_somewhere_is_gone_on_with_below(
            ranges in prop::collection::vec((0_u64..16 << 20, 1_u64..1 << 16), 1..30),
            done in 0_u64..17 << 20,
        ) {
            let extent = touched(16 << 20, &ranges);
            let answer: Result<u64, ()> = extent.resume(|at| Ok(at < done));
            let from = answer.unwrap();
            let missing = extent.next(done.next_multiple_of(UNIT));
            match missing {
                None => prop_assert_eq!(from, 16 << 20),
                Some(missing) => {
                    prop_assert!(from <= missing);
                    let last = extent.last_before(missing);
                    prop_assert_eq!(from, last.map_or(0, |at| at / extent.span() * extent.span()));
                }
            }
        }
    }
}
