//! The columns of a line.
//!
//! Every line is judged on its own, because prose may stand anywhere: either it parses as a
//! request, or the fault names the first bad column and the reason.

use crate::formats::import::Fault;
use crate::request::{Flags, Op};
use crate::text::{self, Cursor, NumberError};

pub(super) const ZERO_LENGTH: &str = "requests of zero length";
pub(super) const NEGATIVE_TIME: &str = "lines with a negative time";
pub(super) const TOO_LATE: &str = "lines with a time beyond 292 years";
pub(super) const TOO_FAR: &str = "requests that reach beyond 64-bit addresses";
pub(super) const TOO_LONG: &str = "lines longer than 64 KiB";

/// The meaning of the last two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The columns mean nothing.
    Load,
    /// The duration is a latency that the converter found in the recording.
    LoadWithLatency,
    /// The columns are the measurements of a replay: delay and duration.
    Result,
}

/// The columns of a line.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) start: i64,
    pub(super) decimals: usize,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) op: Op,
    pub(super) flags: Flags,
    pub(super) lower_case: bool,
    pub(super) delay: i64,
    pub(super) duration: Option<i64>,
}

/// Reads the columns of a line.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<Row, Fault> {
    let mut cursor = Cursor::new(line);
    cursor.skip_blanks();
    let (start, decimals) = seconds(&mut cursor, "the start is no number of seconds")?;
    next_column(&mut cursor)?;
    let sector = integer(&mut cursor, "the sector is no whole number")?;
    next_column(&mut cursor)?;
    let sectors = integer(&mut cursor, "the length is no whole number of sectors")?;
    next_column(&mut cursor)?;
    let column = cursor.column();
    let lower_case = cursor.peek().is_some_and(|byte| byte.is_ascii_lowercase());
    let (op, flags) = text::rwbs(cursor.letters())
        .ok_or(Fault::junk(column, "the operation is none that the kernel's letters say"))?;
    let mut row =
        Row { start, decimals, sector, sectors, op, flags, lower_case, delay: 0, duration: None };
    if another_column(&mut cursor) {
        row.delay = seconds(&mut cursor, "the delay is no number of seconds")?.0;
        if another_column(&mut cursor) {
            row.duration = Some(seconds(&mut cursor, "the duration is no number of seconds")?.0);
            cursor.skip_blanks();
        }
    }
    match cursor.peek() {
        None => Ok(row),
        Some(_) => Err(junk(&cursor, "more stands here than a request has")),
    }
}

fn junk(cursor: &Cursor<'_>, reason: &'static str) -> Fault {
    Fault::junk(cursor.column(), reason)
}

#[inline]
fn another_column(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip_blanks();
    let is_another = cursor.skip(b';');
    cursor.skip_blanks();
    is_another
}

#[inline]
fn next_column(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    if another_column(cursor) { Ok(()) } else { Err(junk(cursor, "a ';' is missing here")) }
}

#[inline]
fn seconds(cursor: &mut Cursor<'_>, reason: &'static str) -> Result<(i64, usize), Fault> {
    let column = cursor.column();
    cursor.seconds().map_err(|error| match error {
        NumberError::Negative => Fault::lost(column, NEGATIVE_TIME, "a negative time"),
        NumberError::Missing => Fault::junk(column, reason),
        NumberError::TooLarge => Fault::lost(column, TOO_LATE, "the time is too large"),
    })
}

#[inline]
fn integer(cursor: &mut Cursor<'_>, reason: &'static str) -> Result<u64, Fault> {
    let column = cursor.column();
    cursor.integer().map_err(|error| match error {
        NumberError::TooLarge => {
            Fault::lost(column, TOO_FAR, "the number is too large for an address")
        }
        NumberError::Missing | NumberError::Negative => Fault::junk(column, reason),
    })
}

/// The meaning of the last two columns according to a column header; `None` if `line` is not one.
pub(super) fn column_header(line: &[u8]) -> Option<Kind> {
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    let begins_with_a_letter = line.trim_ascii_start().first()?.is_ascii_alphabetic();
    if !begins_with_a_letter || !(has(b"replay_") || has(b"start") && has(b"sector")) {
        return None;
    }
    Some(if has(b"replay_duration (guessed)") {
        Kind::LoadWithLatency
    } else if has(b"orig_start") || has(b"replay_duration") && !has(b"replay_duration=0") {
        Kind::Result
    } else {
        Kind::Load
    })
}
