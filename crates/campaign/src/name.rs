//! Names that are safe wherever they are used: as a file's, a host's, a directory's.

/// The longest name, in bytes.
const NAME_MAX: usize = 100;

/// Whether a text is a name for a file in a directory: letters, digits and `-._`, and nothing that
/// leads elsewhere or hides.
pub fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty()
        && text.len() <= NAME_MAX
        && text.bytes().all(is_part)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

/// Whether a text is a SHA-256 in hexadecimal digits.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
