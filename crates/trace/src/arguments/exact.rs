//! Factors and sizes as they are typed, exact.
//!
//! A factor of 0.1 is no binary fraction. An instant that was multiplied by one is off by a
//! nanosecond on one machine and not on the next. So factors are kept as quotients of whole
//! numbers, and provenance states them exactly as they were typed.

use std::fmt;
use std::str::FromStr;

use crate::units::Bytes;

/// Digits behind the decimal point that a factor may have.
const DECIMALS_MAX: usize = 9;

/// The largest numerator: with it, products with 64-bit numbers stay far below 128 bits.
const NUMERATOR_MAX: u64 = 1 << 50;

/// A number that is not negative, as the quotient of two whole numbers without a common divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// The ratio 1.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    fn new(numerator: u64, denominator: u64) -> Self {
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { numerator: numerator / a, denominator: denominator / a }
    }

    /// The number above the line.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// The number below the line; never zero, and at most 10⁹.
    pub const fn denominator(self) -> u64 {
        self.denominator
    }

    /// Whether the ratio is zero.
    pub const fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// The nearest floating-point number; for rates, not for instants.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// `value` times the ratio, rounded down; `None` where 64 bits do not hold it.
    #[inline]
    pub fn of(self, value: u64) -> Option<u64> {
        match value.checked_mul(self.numerator) {
            Some(product) if self.denominator == 1 => Some(product),
            Some(product) => Some(product / self.denominator),
            None => {
                let product = u128::from(value) * u128::from(self.numerator);
                u64::try_from(product / u128::from(self.denominator)).ok()
            }
        }
    }

    /// The instant `ns` divided by the ratio, rounded down; `None` where 64 bits do not hold it.
    /// The ratio is not zero.
    #[inline]
    pub fn divide(self, ns: i64) -> Option<i64> {
        // Both fit: the largest numerator has 50 bits.
        let (numerator, denominator) = (self.numerator as i64, self.denominator as i64);
        match ns.checked_mul(denominator) {
            Some(product) if numerator == 1 => Some(product),
            Some(product) => Some(product.div_euclid(numerator)),
            None => {
                let product = i128::from(ns) * i128::from(denominator);
                i64::try_from(product.div_euclid(i128::from(numerator))).ok()
            }
        }
    }
}

impl FromStr for Ratio {
    type Err = &'static str;

    /// A decimal number, `2` or `0.125`, or a quotient of whole numbers, `1/3`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "not a number (write it like 2, 0.5 or 1/3)";
        const LARGE: &str = "a number with too many digits";
        let digits = |text: &str| -> Result<u64, &'static str> {
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(WRONG);
            }
            text.parse().map_err(|_| LARGE)
        };
        let (numerator, denominator) = if let Some((above, below)) = text.split_once('/') {
            (digits(above.trim())?, digits(below.trim())?)
        } else {
            let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
            let decimals = decimals.trim_end_matches('0');
            if decimals.len() > DECIMALS_MAX {
                return Err(LARGE);
            }
            let scale = 10_u64.pow(decimals.len() as u32);
            let fraction = if decimals.is_empty() { 0 } else { digits(decimals)? };
            let whole = digits(whole)?.checked_mul(scale).ok_or(LARGE)?;
            (whole.checked_add(fraction).ok_or(LARGE)?, scale)
        };
        match (numerator, denominator) {
            (_, 0) => Err("a division by zero"),
            (..=NUMERATOR_MAX, ..=1_000_000_000) => Ok(Self::new(numerator, denominator)),
            _ => Err(LARGE),
        }
    }
}

impl fmt::Display for Ratio {
    /// A decimal number where the ratio is one, else the quotient; parsing gives the same ratio
    /// again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SCALE: u64 = 10_u64.pow(DECIMALS_MAX as u32);
        let (whole, rest) = (self.numerator / self.denominator, self.numerator % self.denominator);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        if !SCALE.is_multiple_of(self.denominator) {
            return write!(f, "{}/{}", self.numerator, self.denominator);
        }
        let text = format!("{whole}.{:09}", rest * (SCALE / self.denominator));
        f.write_str(text.trim_end_matches('0'))
    }
}

/// A part of a whole in percent: more than 0 and at most 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(Ratio);

impl Percent {
    /// The whole: 100 percent.
    pub const ALL: Self = Self(Ratio { numerator: 100, denominator: 1 });

    /// The part as a quotient `part / whole`, both below 2⁶⁰.
    pub fn part_and_whole(self) -> (u64, u64) {
        let part = Ratio::new(self.0.numerator, self.0.denominator * 100);
        (part.numerator, part.denominator)
    }

    /// The number of 64-bit values that make up this part of all of them; `None` for 100 percent.
    pub fn threshold(self) -> Option<u64> {
        let (part, whole) = self.part_and_whole();
        u64::try_from((u128::from(part) << 64) / u128::from(whole)).ok()
    }
}

impl FromStr for Percent {
    type Err = &'static str;

    /// A number with or without `%` behind it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ratio: Ratio = text.strip_suffix('%').unwrap_or(text).trim().parse()?;
        if ratio.is_zero() || ratio.numerator > 100 * ratio.denominator {
            return Err("not more than 0 and at most 100 percent");
        }
        Ok(Self(ratio))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A rate in requests per second, written like those of artificial loads: a [`Ratio`], or with `k`
/// behind it for thousands. Factors have no such unit: `1k` as a factor is a slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerSecond(pub(crate) Ratio);

impl FromStr for PerSecond {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let Some(thousands) = text.strip_suffix(['k', 'K']) else {
            return text
                .parse()
                .map(Self)
                .map_err(|_| "not a number of requests a second (write it like 500, 22.5 or 5k)");
        };
        let Ratio { numerator, denominator } = thousands.parse()?;
        match numerator.checked_mul(1000) {
            Some(numerator @ ..=NUMERATOR_MAX) => Ok(Self(Ratio::new(numerator, denominator))),
            _ => Err("a number with too many digits"),
        }
    }
}

/// A size, exact, in the largest unit of which it is a whole number: `4k`, `513`.
pub(crate) fn size(bytes: Bytes) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")];
    for (unit, name) in units {
        if bytes.0 >= unit && bytes.0.is_multiple_of(unit) {
            return format!("{}{name}", bytes.0 / unit);
        }
    }
    bytes.0.to_string()
}

/// A number that looks random and depends on all bits of `value`: the finaliser of `SplitMix64`
/// (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Provenance
/// promises which requests a seed chooses, so the function never changes.
#[inline]
pub(crate) const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ratio(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    proptest! {
        #[test]
        fn products_and_quotients_are_those_of_whole_numbers(
            value in any::<u64>(), above in 1_u64..1 << 50, below in 1_u64..1_000_000_000,
        ) {
            let ratio = ratio(&format!("{above}/{below}"));
            let exact = u128::from(value) * u128::from(above) / u128::from(below);
            prop_assert_eq!(ratio.of(value), u64::try_from(exact).ok());
            let ns = value as i64;
            let exact = (i128::from(ns) * i128::from(below)).div_euclid(i128::from(above));
            prop_assert_eq!(ratio.divide(ns), i64::try_from(exact).ok());
        }

        #[test]
        fn what_is_written_reads_back(above in 0_u64..1 << 50, below in 1_u64..1_000_000_000) {
            let number = ratio(&format!("{above}/{below}"));
            prop_assert_eq!(ratio(&number.to_string()), number);
        }

        #[test]
        fn no_text_panics(text in ".{0,30}") {
            let _ = text.parse::<Ratio>();
            let _ = text.parse::<Percent>();
        }
    }

    #[test]
    fn factors_are_read_as_they_are_meant() {
        assert_eq!(ratio("0.1"), ratio("1/10"));
        assert_eq!(ratio("2.50").to_string(), "2.5");
        assert_eq!(ratio("1/3").to_string(), "1/3");
        assert_eq!(ratio("1/3").of(10), Some(3));
        assert_eq!(ratio("2").of(u64::MAX), None);
        for wrong in ["", "x", "-1", "+1", "1e3", "1/0", ".", "1.0000000001", "99999999999999999"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_may_be_thousands_and_factors_may_not() {
        let rate = |text: &str| text.parse::<PerSecond>().map(|PerSecond(rate)| rate);
        assert_eq!(rate("5k"), Ok(ratio("5000")));
        assert_eq!(rate("0.5K"), Ok(ratio("500")));
        assert_eq!(rate("1/3k"), Ok(ratio("1000/3")));
        assert_eq!(rate("22.5"), Ok(ratio("22.5")));
        assert!(rate("k").is_err() && rate("5m").is_err() && rate("5kk").is_err());
        assert!(rate("1125899906842624k").is_err());
        assert!("5k".parse::<Ratio>().is_err());
    }

    #[test]
    fn a_part_is_more_than_none_and_not_more_than_all() {
        assert_eq!("12.5%".parse::<Percent>().unwrap().part_and_whole(), (1, 8));
        assert_eq!("50".parse::<Percent>().unwrap().threshold(), Some(1 << 63));
        assert_eq!("100".parse::<Percent>().unwrap().threshold(), None);
        assert!("0".parse::<Percent>().is_err() && "100.1".parse::<Percent>().is_err());
    }

    #[test]
    fn sizes_are_written_exactly() {
        assert_eq!(size(Bytes(4096)), "4k");
        assert_eq!(size(Bytes(1 << 40)), "1T");
        assert_eq!(size(Bytes(4097)), "4097");
        assert_eq!(size(Bytes(0)), "0");
    }

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        // The first numbers of SplitMix64 with the seed 0, as published.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
