//! Numbers and bytes as text for a page.
//!
//! Most numbers of a page are small, and a script can contain only text. So each number takes as
//! few bytes as possible, and the bytes are written as base64.

use sha2::{Digest, Sha256};

/// Seven bits per byte, the lowest first, the eighth bit set on all but the last byte.
pub(crate) fn leb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Base64 with padding (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let known = digit <= three.len();
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if known { DIGITS[value as usize] as char } else { '=' });
        }
    }
    text
}

/// The SHA-256 of some bytes, as a Content Security Policy names it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    base64(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let shown = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(shown, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
