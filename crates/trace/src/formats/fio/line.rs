//! One line of an iolog.

use crate::formats::import::Fault;
use crate::text::{Cursor, NumberError};

/// An action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action<'a> {
    /// The stamp, zero in version 2.
    pub(super) stamp: u64,
    /// The name of the file.
    pub(super) name: &'a [u8],
    /// The word for the action.
    pub(super) verb: &'a [u8],
    /// Offset and length, where the action has them.
    pub(super) range: Option<(u64, u64)>,
}

/// Reads a line that is not blank and no heading. Names may have blanks, for fio writes them as
/// they are: so a line is read from its end.
#[inline]
pub(super) fn parse(line: &[u8], has_stamp: bool) -> Result<Action<'_>, Fault> {
    let mut cursor = Cursor::new(line);
    cursor.skip_blanks();
    let stamp = if has_stamp { number(&mut cursor, "no stamp here")? } else { 0 };
    let rest = cursor.rest();
    if has_stamp && !rest.first().is_some_and(|byte| *byte == b' ' || *byte == b'\t') {
        return Err(Fault::junk(cursor.column(), "no file behind the stamp"));
    }
    let (front, last) = split_last(rest);
    if last.first().is_some_and(u8::is_ascii_digit) {
        let (front, offset) = split_last(front);
        let (name, verb) = split_last(front);
        let column = 1 + line.len() - rest.len() + front.len();
        let offset = whole(offset, column)?;
        let length = whole(last, column)?;
        if name.is_empty() {
            return Err(Fault::junk(column, "no file or no action"));
        }
        return Ok(Action { stamp, name, verb, range: Some((offset, length)) });
    }
    if front.is_empty() || last.is_empty() {
        return Err(Fault::junk(1, "no file or no action"));
    }
    Ok(Action { stamp, name: front, verb: last, range: None })
}

/// The last word, and the text before it without the blanks around it.
#[inline]
fn split_last(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii();
    let blank = text.iter().rposition(|byte| *byte == b' ' || *byte == b'\t');
    match blank {
        Some(at) => (text[..at].trim_ascii_end(), &text[at + 1..]),
        None => (&[], text),
    }
}

/// The whole of `word` as a number.
#[inline]
fn whole(word: &[u8], column: usize) -> Result<u64, Fault> {
    let mut cursor = Cursor::new(word);
    let value = cursor.integer().map_err(|error| reason(error, column, "no offset here"))?;
    if cursor.rest().is_empty() {
        Ok(value)
    } else {
        Err(Fault::junk(column, "offset and length are whole numbers of bytes"))
    }
}

#[inline]
fn number(cursor: &mut Cursor<'_>, missing: &'static str) -> Result<u64, Fault> {
    let column = cursor.column();
    cursor.integer().map_err(|error| reason(error, column, missing))
}

#[cold]
fn reason(error: NumberError, column: usize, missing: &'static str) -> Fault {
    match error {
        NumberError::TooLarge => Fault::junk(column, "this number does not fit 64 bits"),
        NumberError::Negative => Fault::junk(column, "this number is negative"),
        NumberError::Missing => Fault::junk(column, missing),
    }
}
