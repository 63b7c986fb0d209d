//! Names as text.
//!
//! A name on Linux is any bytes but a slash and a zero; the header of a trace is text. So a byte
//! that is no text becomes an escape, `\xff`. A name that has these four characters itself must
//! stay another one: its backslash becomes an escape too. All others are as they are.

use std::borrow::Cow;

/// The longest name that a call can have, in bytes (`PATH_MAX`, without the zero).
pub(crate) const NAME_BYTES_MAX: usize = 4095;

/// How long an escape is.
const ESCAPE: usize = 4;

/// Digits of escapes.
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A name as text. Different names become different texts.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for part in name.utf8_chunks() {
        let valid = part.valid();
        let mut from = 0;
        for (at, _) in valid.match_indices('\\') {
            if escape(&valid.as_bytes()[at..]).is_some() {
                text.push_str(&valid[from..at]);
                push_escape(&mut text, b'\\');
                from = at + 1;
            }
        }
        text.push_str(&valid[from..]);
        part.invalid().iter().for_each(|byte| push_escape(&mut text, *byte));
    }
    text
}

fn push_escape(text: &mut String, byte: u8) {
    text.push_str("\\x");
    text.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
}

/// The byte that an escape at the beginning stands for.
fn escape(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |byte: &u8| HEX.iter().position(|digit| digit == byte);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

/// Whether a text has escapes.
pub(super) fn has_escapes(text: &str) -> bool {
    text.match_indices("\\x").any(|(at, _)| escape(&text.as_bytes()[at..]).is_some())
}

/// The name that a text with escapes stands for.
pub fn name_of(text: &str) -> Cow<'_, [u8]> {
    if !has_escapes(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut left = text.as_bytes();
    let mut name = Vec::with_capacity(left.len());
    while let [first, rest @ ..] = left {
        let byte = escape(left);
        name.push(byte.unwrap_or(*first));
        left = if byte.is_some() { &left[ESCAPE..] } else { rest };
    }
    Cow::Owned(name)
}

/// Whether a name, as text, is longer than a call can have it.
pub fn is_too_long(text: &str) -> bool {
    text.len() > NAME_BYTES_MAX && name_of(text).len() > NAME_BYTES_MAX
}

/// Whether a name lies beneath the directory that it is taken from. The empty one is that directory
/// itself.
pub fn is_beneath(name: &[u8]) -> bool {
    let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
    name.is_empty() || name.split(|byte| *byte == b'/').all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn different_names_are_different_texts_and_most_are_as_they_are() {
        for plain in ["", "a/ä", r"dev-\x2D", r"\x", r"a\xf", r"\n\\", r"\xFF"] {
            assert_eq!(shown(plain.as_bytes()), plain);
            assert_eq!(&*name_of(plain), plain.as_bytes());
        }
        let escaped = [(&b"a\xff"[..], r"a\xff"), (br"a\xff", r"a\x5cxff"), (b"\\\xff", r"\\xff")];
        for (name, text) in escaped {
            assert_eq!(shown(name), text);
            assert_eq!(&*name_of(text), name);
        }
        assert!(is_too_long(&"a".repeat(4096)) && !is_too_long(&"a".repeat(4095)));
        assert!(!is_too_long(&shown(&[0xff; 4095])));
    }

    proptest! {
        #[test]
        fn a_name_is_read_as_it_was_shown(
            name in proptest::collection::vec(
                prop_oneof![Just(b'\\'), Just(b'x'), Just(b'f'), Just(b'5'), any::<u8>()],
                0..20,
            )
        ) {
            let text = shown(&name);
            prop_assert_eq!(&*name_of(&text), name.as_slice());
        }
    }
}
