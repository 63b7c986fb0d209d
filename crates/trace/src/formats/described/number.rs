//! Numbers as programs that know nothing of block devices write them.
//!
//! A table that went through a spreadsheet or a data frame has `4096.0` for a length and
//! `1.5e9` for an instant. Both are exact numbers all the same, and are read as such, without
//! floating point: a fraction of a byte is refused and not rounded.

use crate::text::{Cursor, NumberError};

/// The largest power of ten that 128 bits hold.
const POWER_MAX: u32 = 38;

/// The whole number in `field`. Decimals must be zero.
#[inline]
pub(crate) fn integer(field: &[u8]) -> Result<u64, NumberError> {
    let mut cursor = Cursor::new(field);
    let value = cursor.integer()?;
    if cursor.rest().is_empty() { Ok(value) } else { unusual(field) }
}

/// The whole number in `field`, in hexadecimal digits with or without `0x`.
#[inline]
pub(crate) fn hexadecimal(field: &[u8]) -> Result<u64, NumberError> {
    let mut cursor = Cursor::new(field);
    let value = cursor.hexadecimal()?;
    if cursor.rest().is_empty() { Ok(value) } else { Err(NumberError::Missing) }
}

/// `field` in decimal, or in hexadecimal digits behind `0x`.
#[inline]
pub(crate) fn integer_or_0x(field: &[u8]) -> Result<u64, NumberError> {
    if let [b'0', b'x' | b'X', ..] = field { hexadecimal(field) } else { integer(field) }
}

/// `field` units of `unit` each, in the smallest unit: for a time in microseconds, 1,000 for
/// nanoseconds. Smaller fractions are cut off.
#[inline]
pub(crate) fn scaled(field: &[u8], unit: i64) -> Result<i64, NumberError> {
    let mut cursor = Cursor::new(field);
    let value = cursor.decimal(unit);
    if cursor.rest().is_empty() {
        return value;
    }
    if value == Err(NumberError::Negative) {
        return value;
    }
    let value = power(field, u128::from(unit.unsigned_abs()))?.0;
    i64::try_from(value).map_err(|_| NumberError::TooLarge)
}

#[cold]
fn unusual(field: &[u8]) -> Result<u64, NumberError> {
    match power(field, 1)? {
        (value, true) => u64::try_from(value).map_err(|_| NumberError::TooLarge),
        (_, false) => Err(NumberError::Missing),
    }
}

/// A decimal number with or without an exponent, times `unit`, cut off to a whole number; and
/// whether the result is exact.
#[cold]
fn power(field: &[u8], unit: u128) -> Result<(u128, bool), NumberError> {
    let (mantissa, exponent) = match field.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&field[..at], exponent(&field[at + 1..])?),
        None => (field, 0),
    };
    let (mut digits, mut decimals, mut point, mut any) = (0_u128, 0_i32, false, false);
    for byte in mantissa {
        match byte {
            b'0'..=b'9' => {
                digits = digits
                    .checked_mul(10)
                    .and_then(|tens| tens.checked_add(u128::from(byte - b'0')))
                    .ok_or(NumberError::TooLarge)?;
                decimals += i32::from(point);
                any = true;
            }
            b'.' if !point => point = true,
            _ => return Err(NumberError::Missing),
        }
    }
    if !any {
        return Err(NumberError::Missing);
    }
    let value = digits.checked_mul(unit).ok_or(NumberError::TooLarge)?;
    let shift = exponent - decimals;
    let factor = 10_u128.checked_pow(shift.unsigned_abs().min(POWER_MAX + 1));
    match (shift >= 0, factor) {
        _ if value == 0 => Ok((0, true)),
        (true, Some(factor)) => Ok((value.checked_mul(factor).ok_or(NumberError::TooLarge)?, true)),
        (true, None) => Err(NumberError::TooLarge),
        (false, Some(factor)) => Ok((value / factor, value.is_multiple_of(factor))),
        (false, None) => Ok((0, false)),
    }
}

fn exponent(text: &[u8]) -> Result<i32, NumberError> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let mut cursor = Cursor::new(digits);
    // Far beyond the exponents of valid numbers, and far below where sums overflow.
    let value = cursor.integer()?.min(10_000) as i32;
    if cursor.rest().is_empty() {
        Ok(if negative { -value } else { value })
    } else {
        Err(NumberError::Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_tables_are_exact() {
        for (text, expected) in [
            ("4096", Ok(4096)),
            ("4096.0", Ok(4096)),
            ("4.096e3", Ok(4096)),
            ("4096.5", Err(NumberError::Missing)),
            ("1e-1", Err(NumberError::Missing)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(NumberError::TooLarge)),
            ("1e30", Err(NumberError::TooLarge)),
            ("1e99999999999", Err(NumberError::TooLarge)),
            ("-1", Err(NumberError::Negative)),
            ("", Err(NumberError::Missing)),
            ("12x", Err(NumberError::Missing)),
            (".", Err(NumberError::Missing)),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text}");
        }
        for (text, expected) in [
            ("1.5", Ok(1_500)),
            ("1.4561e9", Ok(1_456_100_000_000)),
            ("1.4560951451330759e3", Ok(1_456_095)),
            ("0e40000", Ok(0)),
            ("1e-40000", Ok(0)),
            ("1e30", Err(NumberError::TooLarge)),
            ("-1.5", Err(NumberError::Negative)),
            ("noon", Err(NumberError::Missing)),
            ("1.5.5", Err(NumberError::Missing)),
        ] {
            assert_eq!(scaled(text.as_bytes(), 1_000), expected, "{text}");
        }
        assert_eq!(integer_or_0x(b"0x1F"), Ok(31));
        assert_eq!(hexadecimal(b"ff"), Ok(255));
        assert_eq!(hexadecimal(b"fg"), Err(NumberError::Missing));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_number_panic(bytes in "[0-9eE.x+-]{0,45}") {
            let _ = (integer(bytes.as_bytes()), scaled(bytes.as_bytes(), i64::MAX));
            let _ = integer_or_0x(bytes.as_bytes());
        }
    }
}
