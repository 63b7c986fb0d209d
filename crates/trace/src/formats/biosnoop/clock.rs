//! Instants in the forms of the different versions.

use crate::calendar;
use crate::text::{Cursor, NumberError};

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400_000_000_000;

/// Reads instants, of which some lack their day.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The day read last, and its beginning in nanoseconds since 1970.
    day: ([u8; 10], i64),
    /// The time of day read last, plus the days since the first.
    last: i64,
    days: i64,
}

impl Clock {
    /// Whether the first word is a date: `2024-05-01`, perhaps with the time behind it.
    pub(super) fn is_dated(text: &[u8]) -> bool {
        let text = text.trim_ascii_start();
        text.len() >= 10 && text[4] == b'-' && text[7] == b'-' && text[..4].is_ascii()
    }

    /// Reads the instant here: seconds (or units of `unit_ns`), a time of day, or a date and a time
    /// of day, in nanoseconds.
    #[inline]
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, unit_ns: i64) -> Option<i64> {
        cursor.skip_blanks();
        let rest = cursor.rest();
        if Self::is_dated(rest) {
            return self.dated(cursor, rest);
        }
        let word = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if memchr::memchr(b':', word).is_some() {
            let time = time_of_day(cursor)?;
            // Completions come a little out of order, but not by half a day.
            if time < self.last - DAY_NS / 2 {
                self.days += DAY_NS;
            }
            self.last = time;
            return self.days.checked_add(time);
        }
        match cursor.decimal(unit_ns) {
            Ok(time) => Some(time),
            // The first printed line need not be the first completion.
            Err(NumberError::Negative) => {
                cursor.skip(b'-');
                cursor.decimal(unit_ns).ok().map(|time| -time)
            }
            Err(_) => None,
        }
    }

    fn dated(&mut self, cursor: &mut Cursor<'_>, rest: &[u8]) -> Option<i64> {
        let day: [u8; 10] = *rest.first_chunk()?;
        if day != self.day.0 {
            let text = std::str::from_utf8(&day).ok()?;
            self.day = (day, calendar::unix_ns(&format!("{text}T00:00:00Z"))?);
        }
        for _ in 0..day.len() {
            let byte = cursor.peek()?;
            cursor.skip(byte);
        }
        if !cursor.skip(b'T') {
            cursor.skip_blanks();
        }
        let time = time_of_day(cursor)?;
        cursor.skip(b'Z');
        self.day.1.checked_add(time)
    }
}

/// `hours:minutes:seconds` with any number of decimals.
fn time_of_day(cursor: &mut Cursor<'_>) -> Option<i64> {
    let hours = cursor.integer().ok().filter(|hours| *hours < 24)? as i64;
    let minutes = if cursor.skip(b':') { cursor.integer().ok() } else { None };
    let minutes = minutes.filter(|minutes| *minutes < 60)? as i64;
    let seconds = if cursor.skip(b':') { cursor.seconds().ok() } else { None };
    let (seconds, _) = seconds.filter(|(ns, _)| *ns < 61_000_000_000)?;
    Some((hours * 60 + minutes) * 60_000_000_000 + seconds)
}
