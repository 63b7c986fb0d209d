//! Cutting a line at its separators.
//!
//! Delimited text is simple until a name holds the separator and is quoted for it (RFC 4180), or
//! the columns stand apart by any number of blanks. A trace has gigabytes of columns that are not
//! needed. So a line is only cut as far as the last column that is needed, and nothing is copied.

use std::borrow::Cow;
use std::str::FromStr;

/// The text between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// This byte, once. Fields may be empty, and may stand between double quotes.
    Byte(u8),
    /// Any number of blanks and tabs.
    Blanks,
}

impl Separator {
    /// The separator as the user types it.
    pub fn name(self) -> String {
        match self {
            Self::Byte(b'\t') => "tab".to_owned(),
            Self::Byte(byte) => char::from(byte).to_string(),
            Self::Blanks => "blank".to_owned(),
        }
    }
}

impl FromStr for Separator {
    type Err = String;

    /// One character, or `tab` or `blank`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tab" | "\\t" => Ok(Self::Byte(b'\t')),
            "blank" | "space" | " " => Ok(Self::Blanks),
            text => match text.as_bytes() {
                [byte] if byte.is_ascii_punctuation() && *byte != b'"' || *byte == b'\t' => {
                    Ok(Self::Byte(*byte))
                }
                _ => Err("it must be one mark such as , or ; or else tab or blank".to_owned()),
            },
        }
    }
}

/// The slot of a column that is not needed.
const UNWANTED: u8 = u8::MAX;

/// Cuts lines into the needed fields.
#[derive(Clone, Debug)]
pub struct Cutter {
    separator: Separator,
    /// The slot of every column up to the last one that is needed.
    slots: Vec<u8>,
}

impl Cutter {
    /// Cuts at `separator`; `columns` has the slot of each column, in their order.
    pub fn new(separator: Separator, columns: impl IntoIterator<Item = Option<u8>>) -> Self {
        let mut slots: Vec<u8> = columns.into_iter().map(|slot| slot.unwrap_or(UNWANTED)).collect();
        let wanted = slots.iter().rposition(|slot| *slot != UNWANTED).map_or(0, |last| last + 1);
        slots.truncate(wanted);
        Self { separator, slots }
    }

    /// Puts the needed fields of `line` into their slots, without the blanks and quotes around
    /// them. Answers whether the line has all these columns.
    #[inline]
    pub fn cut<'a, const N: usize>(&self, line: &'a [u8], fields: &mut [&'a [u8]; N]) -> bool {
        let mut rest = Some(line);
        for slot in &self.slots {
            let Some((field, behind)) = rest.and_then(|rest| next(rest, self.separator)) else {
                return false;
            };
            rest = behind;
            if let Some(place) = fields.get_mut(usize::from(*slot)) {
                *place = field.trim_ascii();
            }
        }
        true
    }
}

/// Every field of `line`; for headers, which are rare enough to allocate for.
pub fn fields(line: &[u8], separator: Separator) -> Vec<&[u8]> {
    let mut all = Vec::new();
    let mut rest = Some(line);
    while let Some((field, behind)) = rest.and_then(|rest| next(rest, separator)) {
        all.push(field.trim_ascii());
        rest = behind;
    }
    all
}

/// The first field, and the text behind its separator, if there is one.
#[inline]
fn next(rest: &[u8], separator: Separator) -> Option<(&[u8], Option<&[u8]>)> {
    match separator {
        Separator::Byte(byte) => {
            if rest.first() == Some(&b'"') {
                return Some(quoted(rest, |behind| memchr::memchr(byte, behind)));
            }
            Some(match memchr::memchr(byte, rest) {
                Some(end) => (&rest[..end], Some(&rest[end + 1..])),
                None => (rest, None),
            })
        }
        Separator::Blanks => {
            let is_blank = |byte: &u8| matches!(*byte, b' ' | b'\t');
            let rest = &rest[rest.iter().position(|byte| !is_blank(byte))?..];
            if rest[0] == b'"' {
                return Some(quoted(rest, |behind| behind.iter().position(is_blank)));
            }
            Some(match rest.iter().position(is_blank) {
                Some(end) => (&rest[..end], Some(&rest[end + 1..])),
                None => (rest, None),
            })
        }
    }
}

/// A field that begins with a quote: it ends at the next quote that is not doubled. A quote that is
/// never closed is part of the text.
fn quoted(rest: &[u8], find: impl Fn(&[u8]) -> Option<usize>) -> (&[u8], Option<&[u8]>) {
    let mut at = 1;
    let close = loop {
        match memchr::memchr(b'"', &rest[at..]) {
            Some(quote) if rest.get(at + quote + 1) == Some(&b'"') => at += quote + 2,
            Some(quote) => break Some(at + quote),
            None => break None,
        }
    };
    let from = close.map_or(0, |close| close + 1);
    let end = find(&rest[from..]).map(|end| from + end);
    let field = match close {
        Some(close) => &rest[1..close],
        None => &rest[..end.unwrap_or(rest.len())],
    };
    (field, end.map(|end| &rest[end + 1..]))
}

/// `field` with its doubled quotes as single ones, as they were before it was quoted.
#[inline]
pub fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'"', field).is_none() {
        return Cow::Borrowed(field);
    }
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = memchr::memchr(b'"', rest) {
        text.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 1..];
        rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    }
    text.extend_from_slice(rest);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts<'a>(fields: &[&'a [u8]]) -> Vec<&'a str> {
        fields.iter().map(|field| std::str::from_utf8(field).unwrap()).collect()
    }

    #[test]
    fn fields_lose_the_blanks_and_quotes_around_them_and_keep_what_is_within() {
        let comma = Separator::Byte(b',');
        for (line, expected) in [
            ("a, b ,,d", vec!["a", "b", "", "d"]),
            ("\"a,b\",\"c \"\"d\"\"\",e", vec!["a,b", "c \"\"d\"\"", "e"]),
            ("\"never closed,b", vec!["\"never closed", "b"]),
            ("\"closed\" and more,b", vec!["closed", "b"]),
            ("a,", vec!["a", ""]),
            ("", vec![""]),
        ] {
            assert_eq!(texts(&fields(line.as_bytes(), comma)), expected, "{line}");
        }
        assert_eq!(*unquoted(b"c \"\"d\"\""), *b"c \"d\"");
        let blanks = fields(b"  a \t b \"c d\"  e ", Separator::Blanks);
        assert_eq!(texts(&blanks), ["a", "b", "c d", "e"]);
    }

    #[test]
    fn only_what_is_wanted_is_cut_and_a_line_too_short_is_told() {
        let cutter = Cutter::new(Separator::Byte(b';'), [Some(1), None, Some(0), None]);
        let mut slots = [&b""[..]; 2];
        assert!(cutter.cut(b"x;y;z", &mut slots));
        assert_eq!(slots, [b"z", b"x"]);
        assert!(!cutter.cut(b"x;y", &mut slots));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_cutting_panic_and_plain_fields_are_those_between_separators(
            bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "[a-z,]{0,40}",
        ) {
            for separator in [Separator::Byte(b','), Separator::Byte(b'\t'), Separator::Blanks] {
                let _ = fields(&bytes, separator);
            }
            let plain: Vec<_> = text.split(',').collect();
            let cut = fields(text.as_bytes(), Separator::Byte(b','));
            prop_assert_eq!(texts(&cut), plain);
        }
    }
}
