//! The encoding of a text, as far as it matters for reading numbers from it.
//!
//! Programs of Windows put a byte order mark before text: three bytes of UTF-8 that stick to the
//! first number, or two of UTF-16, in which no line reads as anything. The first is skipped; the
//! second is refused by name, because the message "no known format" would mislead. Source: the
//! Unicode Standard, chapter 3.10, D93 to D98.

/// The byte order mark in UTF-8.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// The number of bytes behind a mark that are inspected.
const LOOK_BYTES: usize = 256;

/// The least number of characters to recognise UTF-16, after its mark and without one.
const MARKED_CHARS_MIN: usize = 3;
const UNMARKED_CHARS_MIN: usize = 12;

/// Whether a file that begins with these bytes is text behind a byte order mark of UTF-8. A binary
/// record may begin with the same bytes, but has zeroes soon.
pub fn is_marked(first_bytes: &[u8]) -> bool {
    let Some(rest) = first_bytes.strip_prefix(MARK) else { return false };
    rest.iter().take(LOOK_BYTES).all(|byte| is_of_text(*byte))
}

/// The bytes behind a byte order mark of UTF-8, or all bytes if there is no mark.
pub fn unmarked(first_bytes: &[u8]) -> &[u8] {
    if is_marked(first_bytes) { &first_bytes[MARK.len()..] } else { first_bytes }
}

/// The name that `iconv` gives to the encoding of a file that begins with these bytes; `None` if it
/// is not UTF-16.
pub fn utf16(first_bytes: &[u8]) -> Option<&'static str> {
    let (name, is_big, chars, chars_min) = match first_bytes {
        [0xff, 0xfe, chars @ ..] => ("UTF-16", false, chars, MARKED_CHARS_MIN),
        [0xfe, 0xff, chars @ ..] => ("UTF-16", true, chars, MARKED_CHARS_MIN),
        [0, ..] => ("UTF-16BE", true, first_bytes, UNMARKED_CHARS_MIN),
        _ => ("UTF-16LE", false, first_bytes, UNMARKED_CHARS_MIN),
    };
    let chars = chars[..chars.len().min(LOOK_BYTES)].chunks_exact(2);
    let count = chars.len();
    let mut bytes = chars.map(|pair| if is_big { (pair[0], pair[1]) } else { (pair[1], pair[0]) });
    let is_text = bytes.all(|(upper, lower)| upper == 0 && is_of_text(lower) && lower < 0x80);
    (is_text && count >= chars_min).then_some(name)
}

/// Whether text may hold this byte: all but most of the control characters.
fn is_of_text(byte: u8) -> bool {
    byte >= b' ' || byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text in UTF-16, with the lower byte of a character first or last.
    fn wide(text: &str, is_big: bool) -> Vec<u8> {
        let bytes = |unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn a_mark_is_one_before_text_only() {
        assert!(is_marked("\u{feff}0,R,8,8,1\r\n".as_bytes()));
        assert!(is_marked("\u{feff}".as_bytes()));
        for bytes in [&b"0,R,8,8,1\n"[..], b"", b"\xef\xbb", b"\xef\xbb\xbf\x60\x01\0\0\0"] {
            assert!(!is_marked(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn text_of_sixteen_bits_is_known_with_its_mark_and_without() {
        let line = "128166385295514663,hm,0,Write\r\n";
        let marked = format!("\u{feff}{line}");
        for (is_big, name) in [(false, "UTF-16LE"), (true, "UTF-16BE")] {
            assert_eq!(utf16(&wide(&marked, is_big)), Some("UTF-16"));
            assert_eq!(utf16(&wide(line, is_big)), Some(name));
        }
        for bytes in [&b""[..], line.as_bytes(), &[0xff, 0xfe], &[0xff; 64], &[0; 64], &[8, 0]] {
            assert_eq!(utf16(bytes), None, "{bytes:?}");
        }
        // Small numbers of 16 bits, as binary records have them.
        let numbers: Vec<u8> = (0..64_u16).flat_map(u16::to_le_bytes).collect();
        assert_eq!(utf16(&numbers), None);
    }
}
