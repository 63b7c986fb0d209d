//! The bytes behind the header of a sector.
//!
//! If fillers were cut from a pool, a compressor with a window larger than the pool would find the
//! repetition, and a good random generator for every byte would cost more than the system call that
//! writes it. So the filler is a counter put through one multiplication: it does not compress, it
//! is made at several gigabytes per second, and it can be undone. A single word of it identifies
//! the request that wrote it, so if half of a sector is old and half is new, both writes can be
//! named.

/// The golden ratio in 64 bits, by which a counter steps (Weyl sequence, as in SplitMix64).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads request numbers (the increment of PCG's 64-bit generator, O'Neill 2014); odd.
const SPREAD: u64 = 0xD134_2543_DE82_EF95;

/// An odd multiplier of which every bit of a product depends well on the bits below it (from the
/// 64-bit finaliser of `MurmurHash3`, Appleby).
const MIX: u64 = 0xFF51_AFD7_ED55_8CCD;

/// The inverse of an odd number modulo 2⁶⁴, by Newton's iteration: each step doubles the bits that
/// are right, and an odd number is its own inverse in the lowest three.
const fn inverse(odd: u64) -> u64 {
    let mut guess = odd;
    let mut step = 0;
    while step < 5 {
        guess = guess.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(guess)));
        step += 1;
    }
    guess
}

#[inline]
const fn mix(counter: u64) -> u64 {
    let folded = (counter ^ (counter >> 32)).wrapping_mul(MIX);
    folded ^ (folded >> 32)
}

const fn unmix(word: u64) -> u64 {
    let folded = (word ^ (word >> 32)).wrapping_mul(inverse(MIX));
    folded ^ (folded >> 32)
}

/// Where the counter of a sector would begin for request 0.
#[inline]
const fn base(run: u64, position: u64) -> u64 {
    mix(mix(run ^ STEP).wrapping_add(position / 512))
}

/// Where the counter of a sector begins.
#[inline]
pub(super) const fn begin(run: u64, position: u64, request: u64) -> u64 {
    base(run, position).wrapping_add(request.wrapping_mul(SPREAD))
}

/// Makes the filler of a sector, whose counter begins there.
#[inline]
pub(super) fn fill(begin: u64, filler: &mut [u8]) {
    let mut counter = begin;
    let (words, last) = filler.as_chunks_mut();
    for word in words {
        *word = mix(counter).to_le_bytes();
        counter = counter.wrapping_add(STEP);
    }
    last.copy_from_slice(&mix(counter).to_le_bytes()[..last.len()]);
}

/// A seed for the mask of a header, another one for every sector.
#[inline]
pub(super) const fn nonce(begin: u64) -> u32 {
    (mix(begin ^ SPREAD) >> 24) as u32
}

/// The mask of word `index` of a header.
pub(super) const fn mask(nonce: u32, index: u64) -> u64 {
    mix((nonce as u64).wrapping_mul(SPREAD).wrapping_add(index.wrapping_mul(STEP)))
}

/// The request that wrote a word of a filler of this run at this position; for any other word the
/// result is meaningless.
pub(super) const fn request_of(run: u64, position: u64, index: u64, word: u64) -> u64 {
    let counter = unmix(word).wrapping_sub(index.wrapping_mul(STEP));
    counter.wrapping_sub(base(run, position)).wrapping_mul(inverse(SPREAD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_filler_tells_its_request() {
        for request in [0, 1, 12_345, 1 << 40] {
            let mut filler = [0; 456];
            fill(begin(77, 8192, request), &mut filler);
            for (index, word) in filler.chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                assert_eq!(request_of(77, 8192, index as u64, word), request);
                assert!(request_of(77, 8704, index as u64, word) > 1 << 41);
            }
        }
    }
}
