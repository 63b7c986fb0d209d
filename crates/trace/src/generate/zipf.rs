//! Ranks by Zipf's law: the k-th most wanted of n is wanted with a probability in proportion to
//! 1 / k^θ.
//!
//! A device has billions of blocks, so there is no table: W. Hörmann and G. Derflinger
//! ("Rejection-inversion to generate variates from monotone discrete distributions", 1996) need a
//! few constants and little more than one number per draw, for any n and any θ > 0.

use super::elementary::{exp, ln};
use super::random::Random;

/// Draws ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    count: u64,
    theta: f64,
    /// H(1.5) − 1, H(n + 0.5), and the distance below a whole number within which no test is
    /// needed.
    first: f64,
    last: f64,
    sure: f64,
}

impl Zipf {
    /// Ranks below `count`, which is not zero; `theta` is positive.
    pub(super) fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Self { count, theta, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        exp(-self.theta * ln(x))
    }

    /// The integral of the density: (x^(1−θ) − 1) / (1−θ), and ln x for θ = 1.
    fn integral(&self, x: f64) -> f64 {
        let ln_x = ln(x);
        ln_x * growth((1.0 - self.theta) * ln_x)
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.theta)).max(-1.0);
        if t.abs() < 1e-8 {
            return exp(x * (1.0 - t * 0.5));
        }
        exp(ln((1.0 + t).max(f64::MIN_POSITIVE)) / (1.0 - self.theta))
    }

    /// A rank, counted from 0.
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + random.unit() * (self.first - self.last);
            let x = self.inverse(u);
            let k = ((x + 0.5) as u64).clamp(1, self.count);
            let rank = k as f64;
            if rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.density(rank) {
                return k - 1;
            }
        }
    }
}

/// (e^x − 1) / x, also near zero.
fn growth(x: f64) -> f64 {
    if x.abs() > 1e-5 { (exp(x) - 1.0) / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_in_their_shares_for_exponents_around_one() {
        const DRAWS: u32 = 200_000;
        for theta in [0.3, 0.99, 1.0, 1.2, 2.0] {
            let zipf = Zipf::new(1000, theta);
            let mut random = Random::new(11);
            let mut counts = vec![0_u32; 1000];
            for _ in 0..DRAWS {
                counts[zipf.next(&mut random) as usize] += 1;
            }
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-theta);
            let total: f64 = (0..1000).map(weight).sum();
            for rank in [0, 1, 2, 9, 99] {
                let share = weight(rank) / total;
                let expected = share * f64::from(DRAWS);
                let off = (f64::from(counts[rank]) - expected).abs();
                assert!(off < 5.0 * expected.sqrt() + 1.0, "{theta}, rank {rank}: {off}");
            }
        }
    }

    #[test]
    fn one_rank_and_very_many_are_within_bounds() {
        let mut random = Random::new(1);
        let one = Zipf::new(1, 1.2);
        assert!((0..100).all(|_| one.next(&mut random) == 0));
        let many = Zipf::new(u64::MAX >> 9, 0.9);
        assert!((0..1000).all(|_| many.next(&mut random) < u64::MAX >> 9));
    }
}
