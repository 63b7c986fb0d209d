//! The random numbers of generated loads.
//!
//! A generated load is named by its line, so the same line must give the same load for ever and on
//! every machine. That makes the stream of random numbers a part of a format: it is kept here, with
//! test vectors, and not taken from a library that may improve. All computations with the numbers
//! use integers, or floating-point operations that IEEE 754 rounds exactly.

use std::str::FromStr;

use super::elementary::ln;

/// xoshiro256++ 1.0 (Blackman, Vigna: "Scrambled linear pseudorandom number generators", 2021),
/// seeded by SplitMix64 as its authors advise.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9E37_79B9_7F4A_7C15);
            scramble(at)
        });
        Self { state }
    }

    /// The next number of the stream.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, which is not zero (multiply-shift: Lemire 2019, without the
    /// rejection step: the bias is below `bound` / 2⁶⁴).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from (0, 1].
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number of the exponential distribution of mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -ln(self.unit())
    }

    /// Whether an event of this probability happens. A certain event draws no number.
    #[inline]
    pub(crate) fn chance(&mut self, share: Share) -> bool {
        match share {
            Share::NEVER => false,
            Share::ALWAYS => true,
            Share(threshold) => self.next_u64() < threshold,
        }
    }

    /// The number of events that happen out of `count`, each with this probability. Counts above
    /// 256 use the normal approximation, whose error is too small to show in a count.
    pub(crate) fn binomial(&mut self, count: u64, share: Share) -> u64 {
        /// The largest number of events that are drawn one by one.
        const COUNTED: u64 = 256;
        match share {
            Share::NEVER => return 0,
            Share::ALWAYS => return count,
            _ => {}
        }
        if count <= 64 && share == Share::HALF {
            return u64::from((self.next_u64() & mask(count)).count_ones());
        }
        if count > COUNTED {
            let chance = share.as_fraction();
            let mean = count as f64 * chance;
            let deviation = (mean * (1.0 - chance)).sqrt();
            // Twelve uniform numbers have the variance 1 (Irwin and Hall).
            let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
            return ((mean + normal * deviation).round().max(0.0) as u64).min(count);
        }
        let threshold = share.0 >> 48;
        let mut happened = 0;
        let mut left = count;
        while left > 0 {
            let mut word = self.next_u64();
            for _ in 0..left.min(4) {
                happened += u64::from(word & 0xFFFF < threshold);
                word >>= 16;
            }
            left -= left.min(4);
        }
        happened
    }
}

/// The lowest `bits` bits, of which there are at most 64.
const fn mask(bits: u64) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> (64 - bits) }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits.
#[inline]
pub(crate) const fn scramble(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A probability, as the part of 2⁶⁴ below which a random number makes it happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    /// The event never happens.
    pub(crate) const NEVER: Self = Self(0);
    /// The event always happens.
    pub(crate) const ALWAYS: Self = Self(u64::MAX);

    /// The event is as likely as not.
    pub(crate) const HALF: Self = Self(1 << 63);

    /// The probability `fraction`, held between 0 and 1.
    pub(crate) fn from_fraction(fraction: f64) -> Self {
        // The cast saturates at the limits.
        Self((fraction * 18_446_744_073_709_551_616.0) as u64)
    }

    /// The probability as a number.
    pub(crate) fn as_fraction(self) -> f64 {
        self.0 as f64 / 18_446_744_073_709_551_616.0
    }

    /// The part of 2⁶⁴ below which a random number makes the event happen.
    pub(crate) const fn threshold(self) -> u64 {
        self.0
    }

    /// The probability that the event does not happen.
    #[must_use]
    pub(crate) const fn complement(self) -> Self {
        Self(u64::MAX - self.0)
    }
}

impl FromStr for Share {
    type Err = String;

    /// A percentage: a number from 0 to 100.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim_end_matches('%').parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => {
                Ok(Self::from_fraction(percent / 100.0))
            }
            _ => Err("a percentage is a number from 0 to 100".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 100_000;

    #[test]
    fn the_stream_is_that_of_the_reference() {
        // The vectors of the authors' C code for the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: Vec<_> = (0..6).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162
            ]
        );
        // SplitMix64 of seed 0 begins like this.
        assert_eq!(Random::new(0).state[..2], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
    }

    #[test]
    fn numbers_are_even_and_shares_are_kept() {
        let mut random = Random::new(7);
        let share: Share = "30".parse().unwrap();
        let (mut sum, mut happened, mut exponential, mut low) = (0.0, 0_u32, 0.0, 0_u32);
        for _ in 0..DRAWS {
            sum += random.unit();
            happened += u32::from(random.chance(share));
            exponential += random.exponential();
            low += u32::from(random.below(10) < 3);
        }
        // Five standard deviations each.
        let draws = f64::from(DRAWS);
        assert!((sum / draws - 0.5).abs() < 5.0 * (1.0 / 12.0 / draws).sqrt());
        assert!((f64::from(happened) / draws - 0.3).abs() < 5.0 * (0.21 / draws).sqrt());
        assert!((f64::from(low) / draws - 0.3).abs() < 5.0 * (0.21 / draws).sqrt());
        assert!((exponential / draws - 1.0).abs() < 5.0 * (1.0 / draws).sqrt());
    }

    #[test]
    fn binomial_counts_have_their_mean_and_variance_small_and_large() {
        let mut random = Random::new(3);
        let share = Share::from_fraction(0.7);
        for count in [1_u64, 5, 256, 257, 100_000] {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..DRAWS {
                let happened = random.binomial(count, share);
                assert!(happened <= count);
                let off = happened as f64 - count as f64 * 0.7;
                sum += off;
                squares += off * off;
            }
            let variance = count as f64 * 0.21;
            let draws = f64::from(DRAWS);
            assert!((sum / draws).abs() < 5.0 * (variance / draws).sqrt() + 1e-5 * count as f64);
            assert!((squares / draws / variance - 1.0).abs() < 0.06, "{count}");
        }
    }

    #[test]
    fn what_is_certain_draws_nothing() {
        let mut random = Random::new(1);
        let mut other = random.clone();
        assert!(!random.chance("0".parse().unwrap()) && random.chance("100%".parse().unwrap()));
        assert_eq!(random.next_u64(), other.next_u64());
        for wrong in ["-1", "101", "x", "", "NaN"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
