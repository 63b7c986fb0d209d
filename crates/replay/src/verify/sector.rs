//! Classifies the content of a sector, whole or not.
//!
//! A wrong checksum alone does not show the cause. A flipped bit points to memory or a cable, a
//! half-old sector to a torn write, and foreign data to a wrong mapping. This module tells them
//! apart.

use std::sync::LazyLock;

use serde::Serialize;

use super::origins::Origins;
use crate::pattern::{
    CRC_AT, HEADER_BYTES, MAGIC, SECTOR_BYTES, Stamp, expected_sector, header, read_stamp,
    request_of_word, syndrome,
};

/// What was found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "content")]
pub enum SectorContent {
    /// What ioecho wrote, whole.
    Stamped(Stamp),
    /// Zeroes.
    Zeroes,
    /// One bit differs from what ioecho wrote. Bits count from the sector's first byte, in each
    /// byte from the lowest.
    Flipped {
        /// The bit.
        bit: u16,
        /// What ioecho wrote.
        stamp: Stamp,
    },
    /// The beginning of one write and the end of another.
    Halves {
        /// The request that wrote the beginning.
        head: u64,
        /// Its run.
        run: u64,
        /// The request that wrote the end.
        tail: u64,
        /// Its run.
        tail_run: u64,
        /// The first byte of the end.
        cut: u16,
    },
    /// What ioecho wrote, and something else in it.
    Damaged {
        /// The request that its remains identify.
        request: u64,
        /// Its run.
        run: u64,
    },
    /// Nothing that ioecho wrote.
    Unknown,
}

impl SectorContent {
    /// Whether `next`, found in the next sector, continues the same finding.
    pub(crate) fn continues(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Stamped(a), Self::Stamped(b)) => {
                (a.run, a.target, a.request) == (b.run, b.target, b.request)
                    && a.position + SECTOR_BYTES as u64 == b.position
            }
            (Self::Zeroes, Self::Zeroes) | (Self::Unknown, Self::Unknown) => true,
            (Self::Damaged { .. }, Self::Damaged { .. }) => self == next,
            _ => false,
        }
    }
}

/// What every single flipped bit does to the checksum, in order. It is the same for all sectors.
static SYNDROMES: LazyLock<Vec<(u32, u16)>> = LazyLock::new(syndromes);

fn syndromes() -> Vec<(u32, u16)> {
    let mut sector = [0; SECTOR_BYTES];
    let clean = syndrome(&sector);
    let mut syndromes: Vec<(u32, u16)> = (0..SECTOR_BYTES * 8)
        .map(|bit| {
            sector[bit / 8] ^= 1 << (bit % 8);
            let syndrome = syndrome(&sector) ^ clean;
            sector[bit / 8] ^= 1 << (bit % 8);
            (syndrome, bit as u16)
        })
        .collect();
    syndromes.sort_unstable();
    syndromes
}

/// Looks into sectors of one target.
#[derive(Debug)]
pub(crate) struct Inspector {
    syndromes: &'static [(u32, u16)],
}

impl Inspector {
    pub(crate) fn new() -> Self {
        Self { syndromes: &SYNDROMES }
    }

    /// What the sector at `position` holds, as `origins` may have written it.
    pub(crate) fn look(&self, sector: &[u8], position: u64, origins: &Origins) -> SectorContent {
        if let Some(stamp) = read_stamp(sector) {
            SectorContent::Stamped(stamp)
        } else if sector.iter().all(|byte| *byte == 0) {
            SectorContent::Zeroes
        } else if let Some((bit, stamp)) = self.flipped(sector) {
            SectorContent::Flipped { bit, stamp }
        } else {
            remains(sector, position, origins)
        }
    }

    /// The one bit that makes the sector whole. The checksum's Hamming distance over a sector is 6
    /// (Koopman, "32-bit cyclic redundancy codes for Internet applications", 2002), so two bits are
    /// never taken for one.
    fn flipped(&self, sector: &[u8]) -> Option<(u16, Stamp)> {
        if !begins_like_a_stamp(sector) {
            return None;
        }
        let syndrome = syndrome(sector);
        let at = self.syndromes.binary_search_by_key(&syndrome, |(syndrome, _)| *syndrome).ok()?;
        let (_, bit) = self.syndromes[at];
        let mut repaired: [u8; SECTOR_BYTES] = sector.try_into().ok()?;
        repaired[usize::from(bit / 8)] ^= 1 << (bit % 8);
        read_stamp(&repaired).map(|stamp| (bit, stamp))
    }
}

/// Whether the sector begins like ioecho's sectors, with at most one wrong bit.
#[inline]
pub(crate) fn begins_like_a_stamp(sector: &[u8]) -> bool {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    sector.get(..8).is_some_and(|first| (word(first) ^ word(&MAGIC)).count_ones() <= 1)
}

/// What is left of one write or of two.
fn remains(sector: &[u8], position: u64, origins: &Origins) -> SectorContent {
    let stamp = header(sector);
    let in_place = stamp.filter(|stamp| stamp.position == position);
    if let Some(stamp) = in_place
        && origins.may_have_written(stamp.run, stamp.request, position)
    {
        return second_half(sector, &stamp, origins);
    }
    // Without a header: three words that agree are no accident.
    for run in origins.known() {
        let words = (HEADER_BYTES..SECTOR_BYTES).step_by(8);
        let plausible = words
            .filter_map(|at| request_of_word(run, position, sector, at))
            .filter(|request| origins.may_have_written(run, *request, position));
        let mut last = None;
        let mut agree = 0;
        for request in plausible {
            agree = if last == Some(request) { agree + 1 } else { 1 };
            last = Some(request);
            if agree == 3 {
                return SectorContent::Damaged { request, run };
            }
        }
    }
    // A header that names its own place is no accident, whoever wrote it.
    let of_the_line = stamp.filter(|stamp| origins.version_of(stamp).is_some());
    match in_place.or(of_the_line) {
        Some(Stamp { request, run, .. }) => SectorContent::Damaged { request, run },
        None => SectorContent::Unknown,
    }
}

/// A header of ours at its place: does another write begin somewhere behind it?
fn second_half(sector: &[u8], stamp: &Stamp, origins: &Origins) -> SectorContent {
    let whole = expected_sector(stamp);
    let Stamp { run, request: head, .. } = *stamp;
    let damaged = SectorContent::Damaged { request: head, run };
    let same = |at: usize| sector[at] == whole[at];
    let Some(cut) = (0..SECTOR_BYTES).find(|at| !same(*at)) else { return damaged };
    if cut < HEADER_BYTES || sector[CRC_AT..CRC_AT + 4] != whole[CRC_AT..CRC_AT + 4] {
        return damaged;
    }
    let tail = origins.known().find_map(|tail_run| {
        let is_other = |request: u64| {
            (tail_run, request) != (run, head)
                && origins.may_have_written(tail_run, request, stamp.position)
        };
        tail_of(sector, stamp.position, &whole, cut, (tail_run, &is_other))
            .map(|tail| (tail, tail_run))
    });
    let cut = cut as u16;
    tail.map_or(damaged, |(tail, tail_run)| SectorContent::Halves {
        head,
        run,
        tail,
        tail_run,
        cut,
    })
}

/// The one other request of this run of which every whole word behind the cut is, or zero as in its
/// padding.
fn tail_of(
    sector: &[u8],
    position: u64,
    whole: &[u8],
    cut: usize,
    (run, is_other): (u64, &dyn Fn(u64) -> bool),
) -> Option<u64> {
    let mut tail = None;
    for at in (cut.next_multiple_of(8)..SECTOR_BYTES).step_by(8) {
        let request = request_of_word(run, position, sector, at)?;
        let padding = sector[at..at + 8] == [0; 8] || sector[at..at + 8] == whole[at..at + 8];
        match tail {
            None if is_other(request) => tail = Some(request),
            Some(known) if known == request => {}
            _ if padding || at + 8 > SECTOR_BYTES - 8 => {}
            _ => return None,
        }
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Nanos;

    const POSITION: u64 = 1 << 20;

    fn sector(request: u64, random: u8) -> [u8; SECTOR_BYTES] {
        expected_sector(&Stamp {
            run: 7,
            target: 0,
            position: POSITION,
            request,
            scheduled: Nanos(5),
            index: 3,
            random,
            shared: false,
        })
    }

    fn origins() -> Origins {
        let mut origins = Origins::new(7, 0);
        origins.issued(1000);
        origins
    }

    fn look(sector: &[u8]) -> SectorContent {
        Inspector::new().look(sector, POSITION, &origins())
    }

    #[test]
    fn the_one_flipped_bit_is_named_wherever_it_is() {
        let (inspector, origins) = (Inspector::new(), origins());
        for random in [0, 100] {
            let whole = sector(12, random);
            let stamp = read_stamp(&whole).unwrap();
            for bit in 0..4096_u16 {
                let mut damaged = whole;
                damaged[usize::from(bit / 8)] ^= 1 << (bit % 8);
                let found = inspector.look(&damaged, POSITION, &origins);
                assert_eq!(found, SectorContent::Flipped { bit, stamp });
            }
        }
    }

    #[test]
    fn two_flipped_bits_are_damage() {
        let mut damaged = sector(12, 100);
        damaged[200] ^= 3;
        assert_eq!(look(&damaged), SectorContent::Damaged { request: 12, run: 7 });
        // Even without the header, the filler identifies the request.
        damaged[..40].fill(0x11);
        assert_eq!(look(&damaged), SectorContent::Damaged { request: 12, run: 7 });
    }

    #[test]
    fn halves_of_two_writes_are_named() {
        let (new, old) = (sector(12, 100), sector(9, 100));
        for cut in [64, 128, 256, 400, 488] {
            let mut torn = new;
            torn[cut..].copy_from_slice(&old[cut..]);
            let (cut, run) = (cut as u16, 7);
            let expected = SectorContent::Halves { head: 12, run, tail: 9, tail_run: run, cut };
            assert_eq!(look(&torn), expected);
        }
    }

    #[test]
    fn what_nobody_knows_is_unknown() {
        assert_eq!(look(&[0; 512]), SectorContent::Zeroes);
        assert_eq!(look(&[0x77; 512]), SectorContent::Unknown);
        let mut noise = [0; 512];
        let mut random = crate::pattern::SplitMix64(3);
        for word in noise.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        assert_eq!(look(&noise), SectorContent::Unknown);
    }
}
