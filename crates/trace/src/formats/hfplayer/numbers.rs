//! The numbers of hfplayer's columns.

use crate::formats::described::number;
use crate::formats::import::Fault;
use crate::text::NumberError;
use crate::units::Nanos;

/// The fault of a place or length beyond 64-bit addresses.
pub(super) const FAR: Fault =
    Fault::lost(1, "requests that reach beyond 64-bit addresses", "too far");

/// Microseconds with decimals.
#[inline]
pub(super) fn time(field: &[u8], line: &[u8], reason: &'static str) -> Result<Nanos, Fault> {
    number::scaled(field, 1_000)
        .or_else(|error| suffixed(field, 1_000).ok_or(error))
        .map(Nanos)
        .map_err(|_| Fault::junk(column(line, field), reason))
}

/// A whole number, or one with a suffix, as hfplayer's columns of type `.I` may have.
#[inline]
pub(super) fn quantity(field: &[u8], line: &[u8], reason: &'static str) -> Result<u64, Fault> {
    match number::integer(field) {
        Ok(value) => Ok(value),
        Err(NumberError::TooLarge) => Err(FAR),
        Err(_) => suffixed(field, 1)
            .map(|value| value as u64)
            .ok_or(Fault::junk(column(line, field), reason)),
    }
}

/// A number with one of hfplayer's suffixes: `k`, `m`, `g` for powers of 1024, `s` and `h` for
/// seconds and hours in microseconds.
#[cold]
fn suffixed(field: &[u8], unit: i64) -> Option<i64> {
    let (suffix, digits) = field.split_last()?;
    let factor = match suffix.to_ascii_lowercase() {
        b'k' => 1 << 10,
        b'm' => 1 << 20,
        b'g' => 1 << 30,
        b's' => 1_000_000,
        b'h' => 3_600_000_000,
        _ => return None,
    };
    number::scaled(digits, unit.checked_mul(factor)?).ok()
}

/// The place of `field` in `line`, counted from 1.
pub(super) fn column(line: &[u8], field: &[u8]) -> usize {
    let at = (field.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
    if at <= line.len() { at + 1 } else { 1 }
}
