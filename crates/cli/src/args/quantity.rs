//! Quantities with their units, such as 90s or 4K, and the ranges that they have to lie in.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ioecho_trace::Nanos;
use ioecho_trace::units::QuantityError;

/// A quantity as it is typed.
pub(super) fn quantity<T: FromStr<Err = QuantityError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: QuantityError| error.to_string())
}

/// A quantity that is neither too small nor too large.
pub(super) fn within<T>(text: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr<Err = QuantityError> + PartialOrd + Display,
{
    let typed = quantity(text)?;
    if range.contains(&typed) {
        Ok(typed)
    } else {
        Err(format!("must be between {} and {}", range.start(), range.end()))
    }
}

/// A span of time.
pub(super) fn span(text: &str) -> Result<Nanos, String> {
    quantity(text)
}

/// A span of time that is not empty.
pub(super) fn positive_span(text: &str) -> Result<Nanos, String> {
    let span = span(text)?;
    if span > Nanos::ZERO { Ok(span) } else { Err("must be longer than nothing".to_owned()) }
}
