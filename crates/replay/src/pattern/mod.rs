//! The payload of replayed writes.
//!
//! A replay overwrites the target, so its data must be recognisable: as ioecho's, and by run,
//! request and place. Zeroes would falsify the figures: thin, compressing and deduplicating storage
//! does not store them. So every 512-byte sector begins with a header and goes on with bytes that
//! compress as little or as much as asked for.
//!
//! Layout of a sector, little-endian (version 2; documented in `docs/runs.md`):
//!
//! ```text
//!   0  8  magic "IOECHO", 0, version 2
//!   8  4  CRC-32C (Castagnoli) of the whole sector, taken with these four bytes as zero
//!  12  1  bits: 1 masked, 2 shared
//!  13  1  how much of the sector is to resist compression, percent
//!  14  2  target: which of the run's targets, counted from 0
//!  16  8  run: a random number that is the same in every sector of a run
//!  24  8  position: this sector's offset on the target in bytes
//!  32  8  request: number of the request in the replay that wrote it, its generation
//!  40  8  time: when that request was scheduled, ns from the start of the replay; 0 where that
//!        depends on completions (timing by dependencies)
//!  48  4  index of the sector in its request
//!  52  4  nonce: the seed of the mask
//!  56 456 filler: pseudo-random bytes, then zeroes
//! ```
//!
//! A header of plain numbers compresses, and a sector could then not be as incompressible as asked
//! for. So from 50 percent on the bytes 16 to 51 are masked: combined by exclusive or with numbers
//! made from the nonce. The checksum is that of the sector as it stands there.
//!
//! A *shared* sector belongs to a block that is written several times on purpose. It does not
//! identify its place or its writer: position is its offset in the block, request the number of the
//! content. Where the content follows from the place (`shares`), the time says how: the size of a
//! block in units of 4 KiB (32 bits), and after how many blocks the numbers go on (32 bits).

mod filler;
mod shares;

use ioecho_trace::{Nanos, units::SECTOR};

use crate::device::{Io, Payload};
use crate::joint::Joint;
use shares::Shares;

/// How every sector written by any version of ioecho begins.
pub const MARK: [u8; 7] = *b"IOECHO\0";

/// How every sector begins that this version writes.
pub const MAGIC: [u8; 8] = *b"IOECHO\0\x02";

const MAGIC_1: [u8; 8] = *b"IOECHO\0\x01";
/// Bytes in a sector.
pub(crate) const SECTOR_BYTES: usize = SECTOR as usize;
/// Bytes of a header of version 2.
pub(crate) const HEADER_BYTES: usize = 56;
/// Where the checksum stands in version 2, and in version 1.
pub(crate) const CRC_AT: usize = 8;
const CRC_AT_1: usize = 40;
const FILLER_BYTES: usize = SECTOR_BYTES - HEADER_BYTES;

const MASKED: u8 = 1;
const SHARED: u8 = 2;
/// From this percentage on headers are masked.
const MASK_FROM: u8 = 50;
/// The compressed size of an unmasked header, in bytes: between the results of zstd, lz4 and gzip.
const HEADER_COST: usize = 19;
/// The compressed size of a masked header.
const MASKED_COST: usize = 53;

/// Blocks that are shared are of this size, as file systems and deduplicating storage have them.
const BLOCK_BYTES: usize = 4096;
/// So many distinct blocks are written before one of them comes again.
const SHARED_APART: u64 = 1024;

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

/// How well the payload compresses and deduplicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// What is left of the data when zstd, lz4 or gzip compress them, in percent: 100 does not
    /// compress, 0 is a header and zeroes. At most 100.
    pub random: u8,
    /// Blocks for every distinct one; 1 writes nothing twice.
    pub dedup: f64,
    /// The size of such a block, in bytes: a multiple of 4 KiB.
    pub unit: u64,
    /// Whether what is in such a block follows from its place, as it does in blocks larger than 4
    /// KiB. Otherwise each write brings new contents, and the data cannot be verified.
    pub is_placed: bool,
}

impl Fill {
    /// What neither compresses nor comes again.
    pub const UNIQUE: Self =
        Self { random: 100, dedup: 1.0, unit: BLOCK_BYTES as u64, is_placed: false };
}

impl Default for Fill {
    fn default() -> Self {
        Self::UNIQUE
    }
}

/// Makes the payload of every write of a run to one target.
#[derive(Clone, Debug)]
pub struct Pattern {
    run: u64,
    target: u16,
    random: u8,
    dedup: f64,
    /// How blocks are shared, where what is in them follows from their place.
    shares: Option<Shares>,
    is_dated: bool,
    /// Whole blocks written so far, where blocks are shared.
    blocks: u64,
    /// The targets that places belong to, where there are several.
    joint: Option<Joint>,
}

impl Pattern {
    /// The pattern of the run with this number on its first target, which does not compress.
    pub fn new(run: u64) -> Self {
        Self::with_fill(run, 0, Fill::default())
    }

    /// The pattern of the run with this number on this target.
    pub fn with_fill(run: u64, target: u16, fill: Fill) -> Self {
        let (random, dedup) = (fill.random.min(100), fill.dedup.max(1.0));
        let is_placed = dedup > 1.0 && (fill.is_placed || fill.unit > BLOCK_BYTES as u64);
        let shares = is_placed.then(|| Shares::new(fill.unit, dedup));
        Self { run, target, random, dedup, shares, is_dated: true, blocks: 0, joint: None }
    }

    /// The same for writes to the targets of a lane: each sector is stamped with its target and its
    /// place there.
    #[must_use]
    pub fn over(self, joint: Joint) -> Self {
        Self { joint: Some(joint).filter(Joint::is_of_several), ..self }
    }

    /// The same without the instants of the requests, for a replay in which they are not known
    /// until the requests are due: so its payloads can be made before.
    #[must_use]
    pub fn undated(self) -> Self {
        Self { is_dated: false, ..self }
    }

    fn stamp(&self, io: &Io, index: usize) -> Stamp {
        Stamp {
            run: self.run,
            target: self.target,
            position: io.offset.0 + (index * SECTOR_BYTES) as u64,
            request: io.request,
            scheduled: if self.is_dated { io.scheduled } else { Nanos::ZERO },
            index: index as u32,
            random: self.random,
            shared: false,
        }
    }

    /// Number of the content of the next shared block. Contents come again when as many others
    /// have been written, so that compression alone does not find them.
    fn next_content(&mut self) -> u64 {
        let cycle = ((SHARED_APART as f64 * self.dedup).round() as u64).max(SHARED_APART);
        self.blocks += 1;
        shares::content(self.blocks - 1, SHARED_APART, cycle)
    }

    /// Makes data of which what is in a block follows from its place.
    fn fill_placed(&self, shares: Shares, io: &Io, start: usize, buffer: &mut [u8]) {
        let mut stamp = self.stamp(io, 0);
        (stamp.scheduled, stamp.shared) = (shares.told(), true);
        let mut place = io.offset.0 + start as u64;
        let mut sectors = buffer.chunks_exact_mut(SECTOR_BYTES);
        for sector in &mut sectors {
            (stamp.request, stamp.position) = shares.at(place);
            stamp.index = (stamp.position / SECTOR_BYTES as u64) as u32;
            stamp.write(sector);
            place += SECTOR_BYTES as u64;
        }
        sectors.into_remainder().fill(0);
    }

    fn fill_shared(&mut self, io: &Io, start: usize, buffer: &mut [u8]) {
        let mut at = 0;
        while at < buffer.len() {
            let whole = (io.offset.0 + (start + at) as u64).is_multiple_of(BLOCK_BYTES as u64)
                && buffer.len() - at >= BLOCK_BYTES;
            let end = if whole { at + BLOCK_BYTES } else { (at + SECTOR_BYTES).min(buffer.len()) };
            let content = if whole { Some(self.next_content()) } else { None };
            for from in (at..end).step_by(SECTOR_BYTES) {
                let mut stamp = self.stamp(io, (start + from) / SECTOR_BYTES);
                if let Some(content) = content {
                    let index = ((from - at) / SECTOR_BYTES) as u32;
                    stamp.position = (from - at) as u64;
                    stamp.request = content;
                    stamp.scheduled = Nanos::ZERO;
                    (stamp.index, stamp.shared) = (index, true);
                }
                match buffer.get_mut(from..from + SECTOR_BYTES) {
                    Some(sector) => stamp.write(sector),
                    None => buffer[from..].fill(0),
                }
            }
            at = end;
        }
    }
}

impl Payload for Pattern {
    fn fill_from(&mut self, io: &Io, from: usize, buffer: &mut [u8]) {
        let apart = self.joint.as_ref().map(|joint| {
            let (at, io) = joint.apart(io);
            (joint.members()[at].target, io)
        });
        let io = match &apart {
            Some((target, io)) => {
                self.target = *target;
                io
            }
            None => io,
        };
        if let Some(shares) = self.shares {
            return self.fill_placed(shares, io, from, buffer);
        }
        if self.dedup > 1.0 {
            return self.fill_shared(io, from, buffer);
        }
        let mut stamp = self.stamp(io, from / SECTOR_BYTES);
        for block in buffer.chunks_mut(BLOCK_BYTES) {
            let (sectors, rest) = block.as_chunks_mut::<SECTOR_BYTES>();
            for sector in &mut *sectors {
                stamp.draw(sector);
                stamp.position += SECTOR_BYTES as u64;
                stamp.index += 1;
            }
            // Each step of a checksum waits for the one before. Of sectors one behind the other
            // the processor takes several at a time.
            for sector in sectors {
                seal(sector);
            }
            rest.fill(0);
        }
    }
}

/// What a sector's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stamp {
    /// The run that wrote it.
    pub run: u64,
    /// Which of its targets it was meant for. Version 1 does not say; it had one.
    pub target: u16,
    /// Where it was meant to go, in bytes from the start of the target.
    pub position: u64,
    /// The request that wrote it.
    pub request: u64,
    /// When that request was scheduled; zero where that was not known beforehand.
    pub scheduled: Nanos,
    /// Which sector of its request it is.
    pub index: u32,
    /// How much of it was to resist compression, percent.
    pub random: u8,
    /// It belongs to a block that is there more than once on purpose.
    pub shared: bool,
}

impl Stamp {
    /// Whether a sector of a shared block belongs to this position, among others; `None` if it does
    /// not tell.
    pub(crate) fn is_shared_by(&self, position: u64) -> Option<bool> {
        let shares = Shares::of(self.scheduled).filter(|_| self.shared)?;
        Some(shares.at(position) == (self.request, self.position))
    }
}

impl Stamp {
    /// Bytes of the filler that are not zero.
    fn random_bytes(&self) -> usize {
        match self.random {
            0 => 0,
            100.. => FILLER_BYTES,
            percent => {
                let cost = if percent >= MASK_FROM { MASKED_COST } else { HEADER_COST };
                (usize::from(percent) * SECTOR_BYTES / 100).saturating_sub(cost).min(FILLER_BYTES)
            }
        }
    }

    /// Writes the sector that has this stamp.
    fn write(&self, sector: &mut [u8]) {
        self.draw(sector);
        seal(sector);
    }

    /// Writes the sector that has this stamp, without its checksum.
    #[inline]
    fn draw(&self, sector: &mut [u8]) {
        let masked = self.random >= MASK_FROM;
        let bits = if masked { MASKED } else { 0 } | if self.shared { SHARED } else { 0 };
        sector[0..8].copy_from_slice(&MAGIC);
        sector[CRC_AT..CRC_AT + 4].fill(0);
        sector[12] = bits;
        sector[13] = self.random;
        sector[14..16].copy_from_slice(&self.target.to_le_bytes());
        sector[16..24].copy_from_slice(&self.run.to_le_bytes());
        sector[24..32].copy_from_slice(&self.position.to_le_bytes());
        sector[32..40].copy_from_slice(&self.request.to_le_bytes());
        sector[40..48].copy_from_slice(&self.scheduled.0.to_le_bytes());
        sector[48..52].copy_from_slice(&self.index.to_le_bytes());
        let begin = filler::begin(self.run, self.position, self.request);
        let nonce = if masked { filler::nonce(begin) } else { 0 };
        sector[52..56].copy_from_slice(&nonce.to_le_bytes());
        if masked {
            mask(sector, nonce);
        }
        let random = HEADER_BYTES + self.random_bytes();
        filler::fill(begin, &mut sector[HEADER_BYTES..random]);
        sector[random..].fill(0);
    }
}

/// Writes the checksum of a sector, where zeroes stand for it.
#[inline]
fn seal(sector: &mut [u8]) {
    let crc = crc32c::crc32c(sector);
    sector[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Masks the numbers of a header, or takes the mask away.
#[inline]
fn mask(sector: &mut [u8], nonce: u32) {
    for (index, word) in sector[16..48].chunks_exact_mut(8).enumerate() {
        let masked = u64::from_le_bytes(word.try_into().unwrap_or_default())
            ^ filler::mask(nonce, index as u64);
        word.copy_from_slice(&masked.to_le_bytes());
    }
    for (byte, mask) in sector[48..52].iter_mut().zip(filler::mask(nonce, 4).to_le_bytes()) {
        *byte ^= mask;
    }
}

/// The sector that a request with this stamp wrote, as version 2 writes it.
pub fn expected_sector(stamp: &Stamp) -> [u8; SECTOR_BYTES] {
    let mut sector = [0; SECTOR_BYTES];
    stamp.write(&mut sector);
    sector
}

/// Reads a sector's header; `None` if ioecho did not write it or it is not whole.
pub fn read_stamp(sector: &[u8]) -> Option<Stamp> {
    if sector.len() != SECTOR_BYTES || !sector.starts_with(&MARK) {
        return None;
    }
    match sector[..8].try_into().unwrap_or_default() {
        MAGIC if checksum(sector, CRC_AT) == stored(sector, CRC_AT) => header(sector),
        MAGIC_1 if checksum(sector, CRC_AT_1) == stored(sector, CRC_AT_1) => Some(header_1(sector)),
        _ => None,
    }
}

/// The difference between the checksum stored in a sector of version 2 and its computed one: zero
/// if it is whole, else a number that depends only on the flipped bits.
pub(crate) fn syndrome(sector: &[u8]) -> u32 {
    checksum(sector, CRC_AT) ^ stored(sector, CRC_AT)
}

fn stored(sector: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(sector[at..at + 4].try_into().unwrap_or_default())
}

fn checksum(sector: &[u8], at: usize) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sector[..at]), &[0; 4]);
    crc32c::crc32c_append(crc, &sector[at + 4..])
}

/// The header of version 2 as it stands there, whatever the checksum says; `None` if it is none.
pub(crate) fn header(sector: &[u8]) -> Option<Stamp> {
    let mut plain: [u8; HEADER_BYTES] = sector.get(..HEADER_BYTES)?.try_into().ok()?;
    let (bits, random) = (plain[12], plain[13]);
    if plain[..8] != MAGIC || bits > MASKED | SHARED || random > 100 {
        return None;
    }
    if bits & MASKED != 0 {
        let nonce = stored(&plain, 52);
        mask(&mut plain, nonce);
    }
    let word = |at: usize| u64::from_le_bytes(plain[at..at + 8].try_into().unwrap_or_default());
    Some(Stamp {
        run: word(16),
        target: u16::from_le_bytes([plain[14], plain[15]]),
        position: word(24),
        request: word(32),
        scheduled: Nanos(word(40) as i64),
        index: stored(&plain, 48),
        random,
        shared: bits & SHARED != 0,
    })
}

fn header_1(sector: &[u8]) -> Stamp {
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().unwrap_or_default());
    Stamp {
        run: word(8),
        target: 0,
        position: word(16),
        request: word(24),
        scheduled: Nanos(word(32) as i64),
        index: stored(sector, 44),
        random: 100,
        shared: false,
    }
}

/// The request of this run that wrote the eight bytes at `at` of the sector at `position`, if they
/// belong to a filler; otherwise the result is meaningless.
pub(crate) fn request_of_word(run: u64, position: u64, sector: &[u8], at: usize) -> Option<u64> {
    let index = at.checked_sub(HEADER_BYTES)? as u64 / 8;
    let word = u64::from_le_bytes(sector.get(at..at + 8)?.try_into().ok()?);
    Some(filler::request_of(run, position, index, word))
}

#[cfg(test)]
mod tests;
