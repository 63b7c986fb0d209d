//! Logarithm and exponential that are the same everywhere.
//!
//! The standard library takes them from the platform's `libm`, whose last bits differ between
//! versions and processors; a load would then depend on where it is generated. The functions here
//! use addition, multiplication and division only, which IEEE 754 rounds alike everywhere (Rust
//! does not fuse them). They are exact to a few units in the last place, which is more than a load
//! needs.

use std::f64::consts::{LN_2, SQRT_2};

/// ln 2 in two parts, so that a small multiple is subtracted exactly.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// 1 / 14!, 1 / 12!, … 1 / 0!.
const EVEN_FACTORIALS: [f64; 8] = [
    1.0 / 87_178_291_200.0,
    1.0 / 479_001_600.0,
    1.0 / 3_628_800.0,
    1.0 / 40_320.0,
    1.0 / 720.0,
    1.0 / 24.0,
    1.0 / 2.0,
    1.0,
];

/// 1 / 13!, 1 / 11!, … 1 / 1!.
const ODD_FACTORIALS: [f64; 7] = [
    1.0 / 6_227_020_800.0,
    1.0 / 39_916_800.0,
    1.0 / 362_880.0,
    1.0 / 5_040.0,
    1.0 / 120.0,
    1.0 / 6.0,
    1.0,
];

/// The natural logarithm of a positive, finite and normal number.
#[inline]
pub(crate) fn ln(x: f64) -> f64 {
    // x = m · 2^e with m in [1, 2), then brought to [1/√2, √2).
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 0x3FF0_0000_0000_0000);
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh s = 2 s (1 + z/3 + z²/5 + …) with s = (m − 1) / (m + 1), z = s² < 0.03; the
    // even and the odd powers of z apart, because a processor works on both at once.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let y = z * z;
    let even = 1.0 + y * (1.0 / 5.0 + y * (1.0 / 9.0 + y * (1.0 / 13.0 + y * (1.0 / 17.0))));
    let odd = 1.0 / 3.0 + y * (1.0 / 7.0 + y * (1.0 / 11.0 + y * (1.0 / 15.0 + y * (1.0 / 19.0))));
    f64::from(exponent) * LN_2 + 2.0 * s * (even + z * odd)
}

/// The exponential of a number. Results beyond the largest or below the smallest normal number are
/// held there.
pub(crate) fn exp(x: f64) -> f64 {
    let x = x.clamp(-708.0, 709.0);
    // e^x = 2^k · e^r with |r| ≤ ln 2 / 2.
    let k = (x / LN_2).round();
    let r = x - k * LN_2_HIGH - k * LN_2_LOW;
    let y = r * r;
    let mut even = 0.0;
    for inverse in EVEN_FACTORIALS {
        even = even * y + inverse;
    }
    let mut odd = 0.0;
    for inverse in ODD_FACTORIALS {
        odd = odd * y + inverse;
    }
    let sum = even + r * odd;
    f64::from_bits(((k as i64 + 1023) as u64) << 52) * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_agree_with_the_platform(x in 1e-300_f64..1e300, y in -700.0_f64..700.0) {
            prop_assert!((ln(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs().max(1.0));
            prop_assert!((exp(y) / y.exp() - 1.0).abs() < 1e-14);
        }

        #[test]
        fn logarithms_near_one_keep_their_digits(x in 0.5_f64..2.0) {
            prop_assert!((ln(x) - x.ln()).abs() <= 8.0 * f64::EPSILON * x.ln().abs());
        }
    }

    #[test]
    fn their_bits_never_change() {
        assert_eq!(ln(1.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(ln(10.0).to_bits(), 0x4002_6BB1_BBB5_5515);
        assert_eq!(exp(0.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!(exp(1.0).to_bits(), 0x4005_BF0A_8B14_576A);
    }
}
