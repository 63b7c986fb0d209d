//! Units that cannot be mixed up.
//!
//! A trace mixes sectors, bytes, microseconds and seconds; a number without its unit is how a wrong
//! figure is born. Formats convert to these types where a value enters the program, and nothing
//! else converts.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The sector that block traces count in, whatever the device's own block size: 512 bytes
/// (`SECTOR_SIZE` in the kernel's `include/linux/blk_types.h`).
pub const SECTOR: u64 = 512;

/// An instant (relative to a start that the context names) or a span of time, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// Zero nanoseconds: the start of a trace or of a run.
    pub const ZERO: Self = Self(0);
    /// The latest instant there is: "never", where a deadline is asked for.
    pub const MAX: Self = Self(i64::MAX);

    /// A span of whole microseconds.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros * 1_000)
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The span in seconds, for display and for rates; not for arithmetic on instants.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The sum, held at the largest instant instead of overflowing.
    #[must_use]
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, held at the smallest instant instead of overflowing.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The span divided by a factor, as replaying `factor` times as fast does to every instant.
    #[must_use]
    pub fn scaled_down(self, factor: f64) -> Self {
        if (factor - 1.0).abs() < f64::EPSILON {
            self
        } else {
            Self((self.0 as f64 / factor) as i64)
        }
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits in the unit that fits: `12.3 µs`, `1.50 s`; an hour and more as
    /// `1:02:03`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0.unsigned_abs() {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            1_000_000_000..3_600_000_000_000 => (ns / 1e9, "s"),
            _ => {
                let secs = self.0 / 1_000_000_000;
                return write!(
                    f,
                    "{}:{:02}:{:02}",
                    secs / 3600,
                    secs.abs() / 60 % 60,
                    secs.abs() % 60
                );
            }
        };
        let decimals = match value.abs() {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// A number of bytes, or a position in bytes from the start of a device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes; the start of a device.
    pub const ZERO: Self = Self(0);

    /// The size of `sectors` 512-byte sectors in bytes; `None` where 64 bits do not hold it.
    pub const fn from_sectors(sectors: u64) -> Option<Self> {
        match sectors.checked_mul(SECTOR) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// Whole 512-byte sectors, rounded down.
    pub const fn sectors(self) -> u64 {
        self.0 / SECTOR
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl fmt::Display for Bytes {
    /// Three significant digits in binary units: `4.00 KiB`, `1.46 GiB`. The largest number stands
    /// for any beyond it, because sums are held there: `at least 16.0 EiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 == u64::MAX {
            f.write_str("at least ")?;
        }
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1023.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let decimals = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        write!(f, "{value:.decimals$} {}", UNITS[unit])
    }
}

/// The number of the device to which a request went. Names and sizes stand in the trace's header.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct VolumeId(pub u32);

/// The refusal of a text that was typed as a quantity and is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a {what}: {reason} (write it like {example})")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    reason: &'static str,
    example: &'static str,
}

/// Splits `12.5ms` into its number and its unit.
fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

impl FromStr for Nanos {
    type Err = QuantityError;

    /// A span of time: numbers with units `ns`, `us`, `ms`, `s`, `m` or `h`, as in `90s`, `1.5m` or
    /// `1h2m3s`; a bare number counts seconds. Negative spans and unknown units are refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| QuantityError {
            text: text.to_owned(),
            what: "span of time",
            reason,
            example: "90s, 1.5m, 250ms or 1h30m",
        };
        let mut ns: u128 = 0;
        let mut rest = text.trim();
        loop {
            let (number, behind) = number_and_unit(rest);
            let end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
            let scale = match behind[..end].trim() {
                "ns" => 1,
                "us" | "µs" => 1_000,
                "ms" => 1_000_000,
                "" | "s" => 1_000_000_000,
                "m" | "min" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(error("unknown unit; known are ns, us, ms, s, m and h")),
            };
            ns = ns.saturating_add(scaled(number, scale).map_err(error)?.1);
            rest = behind[end..].trim();
            if rest.is_empty() {
                break;
            }
        }
        i64::try_from(ns).map(Self).map_err(|_| error("too long"))
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;

    /// A size: a number and a unit `B`, `K`, `M`, `G` or `T` (powers of 1024; `KiB` and `KB` mean
    /// the same as `K`, as in fio and Vdbench); a bare number counts bytes. Unknown units are
    /// refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| QuantityError {
            text: text.to_owned(),
            what: "size",
            reason,
            example: "512, 4k, 1.5G or 2TiB",
        };
        let (number, unit) = number_and_unit(text);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(error("unknown unit; known are B, K, M, G and T")),
        };
        let bytes = scaled(number, 1 << shift).map_err(error)?.0;
        u64::try_from(bytes).map(Self).map_err(|_| error("too large"))
    }
}

/// Digits behind the point that count: with more, a unit's part would not fit into 128 bits.
const DECIMALS: usize = 18;

/// A decimal number times the size of its unit, once rounded down and once to the nearest. Exact:
/// floating point would be off by some nanoseconds from a hundred days on.
fn scaled(number: &str, unit: u64) -> Result<(u128, u128), &'static str> {
    const NO_NUMBER: &str = "no number in front of the unit";
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + decimals.len() == 0 || !is_number(whole) || !is_number(decimals) {
        return Err(NO_NUMBER);
    }
    let decimals = &decimals[..decimals.len().min(DECIMALS)];
    let unit = u128::from(unit);
    let whole = match whole {
        "" => 0,
        digits => u128::from(digits.parse::<u64>().map_err(|_| "the number is too large")?),
    };
    let part = unit * u128::from(decimals.parse::<u64>().unwrap_or(0));
    let tenths = 10_u128.pow(decimals.len() as u32);
    let down = whole * unit + part / tenths;
    Ok((down, down + u128::from(part % tenths * 2 >= tenths)))
}

/// A number with its noun: `1 request`, `2 requests`.
pub fn counted(count: u64, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// Whether a whole second lies between these instants, counted as the seconds of a load are: from
/// its time zero on.
pub fn has_whole_second(from: Nanos, to: Nanos) -> bool {
    const SECOND: i64 = 1_000_000_000;
    to.0.div_euclid(SECOND) > from.0.saturating_add(SECOND - 1).div_euclid(SECOND)
}

/// As [`counted`], with an irregular plural: `1 flush`, `2 flushes`.
pub fn counted_in(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// A number of repetitions in words: `once`, `2 times`.
pub fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// A number in two significant digits: 2.6, 96, 12,000.
pub fn two_digits(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let digits = 1 - number.abs().log10().floor() as i32;
    let scale = 10_f64.powi(digits);
    let rounded = (number * scale).round() / scale;
    if rounded.abs() < 10.0 {
        let decimals = usize::try_from(1 - rounded.abs().log10().floor() as i32).unwrap_or(0);
        let text = format!("{rounded:.decimals$}");
        return if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        };
    }
    let whole = format!("{rounded:.0}");
    let first = whole.len() % 3;
    let mut text = String::with_capacity(whole.len() * 4 / 3);
    for (at, digit) in whole.char_indices() {
        if at > 0 && at % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate with three significant digits. Large rates are whole numbers.
pub fn three_digits(number: f64) -> String {
    match number {
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n if n >= 0.995 => format!("{n:.2}"),
        n => two_digits(n),
    }
}

/// A span in seconds, exact, with as many decimals as it needs: `10`, `0.5`.
pub(crate) fn decimal_seconds(span: Nanos) -> String {
    let ns = span.0.unsigned_abs();
    let sign = if span.0 < 0 { "-" } else { "" };
    let (whole, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let text = format!("{sign}{whole}.{fraction:09}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_whole_second_or_parts_of_some() {
        let has =
            |from: i64, to: i64| has_whole_second(Nanos::from_millis(from), Nanos::from_millis(to));
        assert!(has(0, 1000) && has(0, 1999) && has(900, 2000) && has(-1000, 0));
        assert!(!has(0, 999) && !has(900, 1900) && !has(1, 1999) && !has(0, 0));
    }

    #[test]
    fn one_of_something_is_told_as_one() {
        assert_eq!(counted(1, "request"), "1 request");
        assert_eq!(counted(0, "request"), "0 requests");
        assert_eq!(counted_in(1, "flush", "flushes"), "1 flush");
        assert_eq!(counted_in(2, "flush", "flushes"), "2 flushes");
        assert_eq!(times(1), "once");
        assert_eq!(times(0), "0 times");
    }

    #[test]
    fn spans_are_shown_with_three_digits_and_their_unit() {
        let shown = |ns| Nanos(ns).to_string();
        assert_eq!(shown(999), "999 ns");
        assert_eq!(shown(1_234), "1.23 µs");
        assert_eq!(shown(99_960), "100 µs");
        assert_eq!(shown(1_500_000_000), "1.50 s");
        assert_eq!(shown(3_599_890_000_000), "3600 s");
        assert_eq!(shown(3_723_000_000_000), "1:02:03");
    }

    #[test]
    fn spans_are_read_with_every_known_unit_and_no_other() {
        assert_eq!("1.5m".parse(), Ok(Nanos::from_secs(90)));
        assert_eq!("250 ms".parse(), Ok(Nanos::from_millis(250)));
        assert_eq!("60".parse(), Ok(Nanos::from_secs(60)));
        assert_eq!("1h2m3s".parse(), Ok(Nanos::from_secs(3723)));
        assert_eq!("8760h0.000000001s".parse(), Ok(Nanos(31_536_000_000_000_001)));
        assert_eq!("9000000000.123456789s".parse(), Ok(Nanos(9_000_000_000_123_456_789)));
        assert_eq!(".5us".parse(), Ok(Nanos(500)));
        assert_eq!("0.0000000005s".parse(), Ok(Nanos(1)));
        assert!("99999999999s".parse::<Nanos>().is_err());
        assert!("1.2.3s".parse::<Nanos>().is_err());
        assert!(".s".parse::<Nanos>().is_err());
        assert!("1h2q".parse::<Nanos>().is_err());
        assert!("4q".parse::<Nanos>().is_err());
        assert!("-1s".parse::<Nanos>().is_err());
        assert!("".parse::<Nanos>().is_err());
    }

    #[test]
    fn sizes_are_read_with_every_known_unit_and_no_other() {
        assert_eq!("4k".parse(), Ok(Bytes(4096)));
        assert_eq!("1.5G".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("18446744073709551615".parse(), Ok(Bytes(u64::MAX)));
        assert_eq!("0.3k".parse(), Ok(Bytes(307)));
        assert_eq!("15.9999999999999T".parse(), Ok(Bytes((16 << 40) - 1)));
        assert!("4q".parse::<Bytes>().is_err());
        assert!("18446744073709551615k".parse::<Bytes>().is_err());
    }

    #[test]
    fn sizes_are_shown_in_binary_units() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(4096).to_string(), "4.00 KiB");
        assert_eq!(Bytes(1_048_575).to_string(), "1.00 MiB");
        assert_eq!(Bytes(u64::MAX - 1).to_string(), "16.0 EiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "at least 16.0 EiB");
    }

    #[test]
    fn one_is_one_and_all_others_are_several() {
        let told = [0, 1, 2].map(|count| counted(count, "request"));
        assert_eq!(told, ["0 requests", "1 request", "2 requests"]);
    }

    #[test]
    fn spans_are_written_exactly_and_shortly() {
        assert_eq!(decimal_seconds(Nanos::from_secs(10)), "10");
        assert_eq!(decimal_seconds(Nanos::from_millis(-1500)), "-1.5");
        assert_eq!(decimal_seconds(Nanos(1)), "0.000000001");
    }

    #[test]
    fn numbers_keep_two_digits() {
        let shown = [0.0, 0.123, 1.0, 2.617, 9.96, 96.4, 407.0, 14_389_182.1].map(two_digits);
        assert_eq!(shown, ["0", "0.12", "1", "2.6", "10", "96", "410", "14,000,000"]);
    }
}
