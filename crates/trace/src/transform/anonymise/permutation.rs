//! The order of extents that a key stands for.
//!
//! The order must be computable for a single extent. A table of all extents would grow with the
//! largest offset, which a bad request may inflate.

/// Rounds of the network, as in NIST SP 800-38G for small domains.
const ROUNDS: u64 = 10;

/// The number of answers that are remembered; a power of two.
const REMEMBERED: usize = 1 << 14;

/// A permutation of the numbers below a bound, for each volume another one.
#[derive(Debug)]
pub(super) struct Permutation {
    key: (u64, u64),
    count: u64,
    /// Bits in each half of a number.
    half_bits: u32,
    /// Volume, number and answer; the place is derived from the number.
    remembered: Vec<(u32, u64, u64)>,
}

impl Permutation {
    /// The permutation of the numbers below `count` under `key`.
    pub(super) fn new(key: &str, count: u64) -> Self {
        // Two halves of a key of 128 bits, out of text of any length.
        let half = |which| siphash((which, 0x696f_6563_686f_2e61), key.as_bytes());
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self {
            key: (half(1), half(2)),
            count,
            half_bits: bits.div_ceil(2).max(1),
            remembered: vec![(0, u64::MAX, 0); REMEMBERED],
        }
    }

    /// The number that takes the place of `number` on this volume; `None` if `number` is not below
    /// `count`.
    #[inline]
    pub(super) fn of(&mut self, volume: u32, number: u64) -> Option<u64> {
        if number >= self.count {
            return None;
        }
        let place = (number ^ u64::from(volume) << 8) as usize % REMEMBERED;
        let (of, from, to) = self.remembered[place];
        if (of, from) == (volume, number) {
            return Some(to);
        }
        let to = self.walk(volume, number);
        self.remembered[place] = (volume, number, to);
        Some(to)
    }

    /// The network permutes all numbers of its bits, and `count` is more than a quarter of these.
    /// Repeated application to a number below `count` returns to one below `count`.
    fn walk(&self, volume: u32, mut number: u64) -> u64 {
        loop {
            number = self.network(volume, number);
            if number < self.count {
                return number;
            }
        }
    }

    fn network(&self, volume: u32, number: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.half_bits);
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..ROUNDS {
            let mut message = [0; 16];
            message[..8].copy_from_slice(&(u64::from(volume) << 8 | round).to_le_bytes());
            message[8..].copy_from_slice(&right.to_le_bytes());
            (left, right) = (right, left ^ (siphash(self.key, &message) & mask));
        }
        left << self.half_bits | right
    }
}

/// SipHash-2-4 of `message`.
fn siphash(key: (u64, u64), message: &[u8]) -> u64 {
    let mut state = [
        key.0 ^ 0x736f_6d65_7073_6575,
        key.1 ^ 0x646f_7261_6e64_6f6d,
        key.0 ^ 0x6c79_6765_6e65_7261,
        key.1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = message.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = message.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        state[3] ^= word;
        sip_round(&mut state);
        sip_round(&mut state);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline]
fn sip_round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_is_the_answer_to_one_number(
            count in 1_u64..600, volume in any::<u32>(), key in ".{0,10}",
        ) {
            let mut permutation = Permutation::new(&key, count);
            let mut all: Vec<_> = (0..count).map(|n| permutation.of(volume, n).unwrap()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
            prop_assert_eq!(permutation.of(volume, count), None);
        }
    }

    #[test]
    fn another_key_and_another_volume_are_another_order() {
        let order = |key, volume| -> Vec<_> {
            let mut permutation = Permutation::new(key, 1000);
            (0..1000).map(|n| permutation.of(volume, n).unwrap()).collect()
        };
        assert_eq!(order("a", 0), order("a", 0));
        assert_ne!(order("a", 0), order("b", 0));
        assert_ne!(order("a", 0), order("a", 1));
        let stayed = order("a", 0).iter().enumerate().filter(|(n, to)| *n as u64 == **to).count();
        assert!(stayed < 10, "{stayed}");
    }

    #[test]
    fn the_largest_device_has_an_order_too() {
        let mut permutation = Permutation::new("a", u64::MAX);
        let to = permutation.of(0, u64::MAX - 1).unwrap();
        assert!(to != u64::MAX - 1 && permutation.of(0, u64::MAX - 1) == Some(to));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // The paper's appendix A: key 00..0f, message 00..0e.
        let key = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &message), 0xa129_ca61_49be_45e5);
    }
}
