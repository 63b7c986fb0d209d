//! What a replayed write writes.
//!
//! A replay destroys what was on the target, so what it leaves there must be recognisable: as
//! written by ioecho, by which run, by which request, and for which place. Zeroes would be worse
//! than useless: thin, compressing and deduplicating storage turns them into nothing and the
//! figures into fiction. So every 512-byte sector begins with a header and goes on with bytes that
//! do not compress.
//!
//! Layout of a sector, little-endian (version 1; documented in `docs/formats.md`):
//!
//! ```text
//!   0  8  magic "IOECHO", 0, version 1
//!   8  8  run: a random number that is the same in every sector of a run
//!  16  8  position: this sector's offset on the target in bytes
//!  24  8  request: number of the request in the replay that wrote it
//!  32  8  time: when that request was scheduled, ns from the start of the replay
//!  40  4  CRC-32C (Castagnoli) of the whole sector, taken with these four bytes as zero
//!  44  4  index of the sector in its request
//!  48 464 filler: a stretch of the run's pool of pseudo-random bytes
//! ```

use ioecho_trace::{Nanos, units::SECTOR};

use crate::device::{Io, Payload};

/// How every sector written by ioecho begins.
pub const MAGIC: [u8; 8] = *b"IOECHO\0\x01";

const SECTOR_BYTES: usize = SECTOR as usize;
const HEADER_BYTES: usize = 48;
const CRC_AT: usize = 40;
const FILLER_BYTES: usize = SECTOR_BYTES - HEADER_BYTES;

/// Bytes in the pool that fillers are taken from: large enough that a compressor's window does not
/// see a stretch twice in one request, small enough to stay in the second-level cache.
const POOL_BYTES: usize = 256 << 10;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Kept
/// here because the byte stream it makes is part of a format.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number of the sequence.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero (multiply-shift: Lemire 2019, without the
    /// rejection step, whose bias is below 2⁻³² here).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Makes the payload of every write of a run.
#[derive(Clone, Debug)]
pub struct Pattern {
    run: u64,
    pool: Vec<u8>,
}

impl Pattern {
    /// The pattern of the run with this number.
    pub fn new(run: u64) -> Self {
        let mut random = SplitMix64(run);
        let mut pool = vec![0; POOL_BYTES];
        for word in pool.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        Self { run, pool }
    }
}

impl Payload for Pattern {
    fn fill(&mut self, io: &Io, buffer: &mut [u8]) {
        // Consecutive sectors take consecutive stretches, and every request begins somewhere else.
        let stretches = (POOL_BYTES / 8 - FILLER_BYTES / 8) as u64;
        let first = SplitMix64(self.run ^ io.request).next_u64();
        for (index, sector) in buffer.chunks_mut(SECTOR_BYTES).enumerate() {
            if sector.len() < SECTOR_BYTES {
                sector.fill(0);
                break;
            }
            let stretch =
                (first.wrapping_add(index as u64 * (FILLER_BYTES as u64 / 8 + 1))) % stretches;
            let from = stretch as usize * 8;
            let position = io.offset.0 + (index * SECTOR_BYTES) as u64;
            sector[0..8].copy_from_slice(&MAGIC);
            sector[8..16].copy_from_slice(&self.run.to_le_bytes());
            sector[16..24].copy_from_slice(&position.to_le_bytes());
            sector[24..32].copy_from_slice(&io.request.to_le_bytes());
            sector[32..40].copy_from_slice(&io.scheduled.0.to_le_bytes());
            sector[CRC_AT..CRC_AT + 4].fill(0);
            sector[44..48].copy_from_slice(&(index as u32).to_le_bytes());
            sector[HEADER_BYTES..].copy_from_slice(&self.pool[from..from + FILLER_BYTES]);
            let crc = crc32c::crc32c(sector);
            sector[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// What a sector's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The run that wrote it.
    pub run: u64,
    /// Where it was meant to go, in bytes from the start of the target.
    pub position: u64,
    /// The request that wrote it.
    pub request: u64,
    /// When that request was scheduled.
    pub scheduled: Nanos,
}

/// Reads a sector's header; `None` if ioecho did not write it or it is not whole.
pub fn read_stamp(sector: &[u8]) -> Option<Stamp> {
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(sector.get(at..at + 8)?.try_into().ok()?))
    };
    if sector.len() != SECTOR_BYTES || sector[..8] != MAGIC {
        return None;
    }
    let stored = u32::from_le_bytes(sector[CRC_AT..CRC_AT + 4].try_into().ok()?);
    let mut crc = crc32c::crc32c(&sector[..CRC_AT]);
    crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc = crc32c::crc32c_append(crc, &sector[CRC_AT + 4..]);
    (crc == stored).then_some(Stamp {
        run: word(8)?,
        position: word(16)?,
        request: word(24)?,
        scheduled: Nanos(word(32)? as i64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Flags, Op};

    fn written(run: u64, request: u64, offset: u64, length: usize) -> Vec<u8> {
        let mut pattern = Pattern::new(run);
        let io = Io {
            tag: 0,
            request,
            scheduled: Nanos(77),
            op: Op::Write,
            flags: Flags::empty(),
            offset: Bytes(offset),
            length: Bytes(length as u64),
        };
        let mut buffer = vec![0xAA; length];
        pattern.fill(&io, &mut buffer);
        buffer
    }

    #[test]
    fn every_sector_says_who_wrote_it_and_where_to() {
        for (index, sector) in written(9, 4, 8192, 4096).chunks(512).enumerate() {
            let position = 8192 + index as u64 * 512;
            let stamp = Stamp { run: 9, position, request: 4, scheduled: Nanos(77) };
            assert_eq!(read_stamp(sector), Some(stamp));
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let sector = written(1, 2, 0, 512);
        for bit in 0..512 * 8 {
            let mut damaged = sector.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_stamp(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn the_byte_stream_is_a_format_and_does_not_change() {
        assert_eq!(crc32c::crc32c(&written(1, 2, 4096, 8192)), 16_688_481);
    }

    #[test]
    fn no_two_sectors_of_a_megabyte_are_equal() {
        let data = written(3, 1, 0, 1 << 20);
        let fillers: std::collections::HashSet<&[u8]> =
            data.chunks(512).map(|sector| &sector[..64]).collect();
        assert_eq!(fillers.len(), 2048);
    }
}
