//! Text of others, made harmless.
//!
//! Names of files, volumes and processes, lines of a trace and sentences of a received run were
//! written by somebody else. A terminal obeys the control characters in them, and invisible
//! characters (marks of writing direction, letters of no width) make a text look like another one.
//! So each such character is shown by its number: `\u{1b}`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with every dangerous character in Rust's notation, such as `\u{202e}`. Lines and tabs
/// stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, |c, safe| safe.extend(c.escape_default()))
}

/// As [`visible`], for JSON, whose notation is `\u202e`: a parser reads the same text from it.
/// Outside of a string JSON has no character that needs this.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    shown(json, |c, safe| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    })
}

/// As [`visible`], for text in an unknown notation, as on a page of HTML with scripts: U+FFFD
/// replaces the character.
pub fn replaced(text: &str) -> Cow<'_, str> {
    shown(text, |_, safe| safe.push(char::REPLACEMENT_CHARACTER))
}

fn shown(text: &str, show: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmless(c) {
            safe.push(c);
        } else {
            show(c, &mut safe);
        }
    }
    Cow::Owned(safe)
}

/// Whether a character is visible or a plain blank, and has no other effect.
pub fn is_harmless(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control() || c == '\n' || c == '\t';
    }
    // Blanks have a width, and that is all. What is left of them are ends of lines and paragraphs.
    let is_blank = c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    is_blank || is_printable(c)
}

/// Whether the standard library's tables of Unicode call a character printable: no control or
/// format character, no surrogate, nothing unassigned or private. The tables are asked through
/// `escape_debug`, which does not escape marks that belong to a letter if a letter stands before
/// them.
fn is_printable(c: char) -> bool {
    let mut text = [b'a', 0, 0, 0, 0];
    let length = 1 + c.encode_utf8(&mut text[1..]).len();
    let text = str::from_utf8(&text[..length]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

/// A text of others as a part of one line, with the ends of its lines escaped.
pub fn line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_nobody_sees_is_shown_by_its_number() {
        let harmful = "\0\u{7}\u{8}\r\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9d}\u{ad}\u{61c}\u{180e}\
                       \u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\
                       \u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}\
                       \u{fff9}\u{e0001}\u{e0041}";
        for c in harmful.chars() {
            assert!(!is_harmless(c), "{c:?}");
            assert_eq!(visible(&format!("a{c}b")), format!("a{}b", c.escape_default()));
            assert_eq!(replaced(&format!("a{c}b")), "a\u{fffd}b");
        }
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in [
            "größe → 5 µs ≤ 1·10⁶",
            "e\u{301}a\u{308}",
            "日本語　テスト",
            "עברית العربية",
            "5\u{a0}GiB\u{202f}x",
            "'quoted' \"twice\" \\ back",
            "a line\nand\ta tab",
            "🦀",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn json_says_the_same_in_harmless_letters() {
        let text = "\u{1b}[31m \u{202e} \u{9b} \u{e0041} ü \u{7f}";
        let json = serde_json::to_string(text).unwrap();
        let safe = visible_json(&json);
        assert!(safe.chars().all(is_harmless) && safe.contains("\\u202e") && safe.contains('ü'));
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }
}
