//! The wall clock in words.
//!
//! Recordings tell their start in seconds since 1970, in ticks since 1601 or as a date; the header
//! tells it to people, and two recordings that are merged are laid side by side by it. So it is
//! kept in one form, RFC 3339 in UTC.

use jiff::Timestamp;

/// The instant `ns` nanoseconds after 1970-01-01 UTC, as RFC 3339 says it.
pub fn rfc3339(ns: i64) -> String {
    // Every 64-bit number of nanoseconds is a date between 1677 and 2262.
    Timestamp::from_nanosecond(i128::from(ns)).map_or(String::new(), |instant| instant.to_string())
}

/// Nanoseconds since 1970-01-01 UTC of a date as [`rfc3339`] writes it, if it is one and fits.
pub fn unix_ns(text: &str) -> Option<i64> {
    i64::try_from(text.parse::<Timestamp>().ok()?.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants_read_as_they_should() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (1_700_000_000_000_000_005, "2023-11-14T22:13:20.000000005Z"),
            (4_107_542_399_000_000_000, "2100-02-28T23:59:59Z"),
            (-1_000_000_000, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(ns), text);
            assert_eq!(unix_ns(text), Some(ns));
        }
        assert_eq!(unix_ns("yesterday"), None);
        assert_eq!(unix_ns("9999-12-31T00:00:00Z"), None);
        for ns in [i64::MIN, i64::MAX] {
            assert_eq!(unix_ns(&rfc3339(ns)), Some(ns));
        }
    }
}
