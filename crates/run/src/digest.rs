//! SHA-256 of files, and the lists that `sha256sum -c` reads.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::regular;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 18;

/// A hash as hexadecimal digits.
pub fn digits(hash: impl AsRef<[u8]>) -> String {
    hash.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The SHA-256 of some bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    digits(Sha256::digest(bytes))
}

/// The SHA-256 of the file at this path (FIPS 180-4), in hexadecimal digits.
///
/// # Errors
/// If it cannot be read, or is not a regular file and might never end.
pub fn of_file(path: &Path) -> io::Result<String> {
    of_opened(regular::open(path)?)
}

/// The SHA-256 of an open file, from its current position on.
pub fn of_opened(mut file: File) -> io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(digits(hash.finalize())),
            Ok(length) => hash.update(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a text has the form of a SHA-256.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The lines of `sha256sum`: hash and name. A line in another form is returned as an error.
pub fn listed(sums: &str) -> impl Iterator<Item = Result<(&str, &str), &str>> {
    sums.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let (hash, name) = line.split_once(' ').ok_or(line)?;
        // A blank marks text and a star marks binary data; both mean the same here.
        let name = name.strip_prefix([' ', '*']).ok_or(line)?;
        if is_digest(hash) && !name.is_empty() { Ok((hash, name)) } else { Err(line) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_text_has_its_known_hash() {
        // The example of FIPS 180-4 itself.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        assert_eq!(of_file(file.path()).unwrap(), abc);
        assert!(is_digest(abc) && !is_digest(&abc[1..]) && !is_digest(&abc.to_uppercase()));
    }

    #[test]
    fn lines_of_sha256sum_are_read_and_others_are_told() {
        let hash = of_bytes(b"");
        let text = format!("{hash}  a b\n{hash} *c\n\nnonsense\n{hash}");
        let lines: Vec<_> = listed(&text).collect();
        let hash = hash.as_str();
        assert_eq!(lines, [Ok((hash, "a b")), Ok((hash, "c")), Err("nonsense"), Err(hash)]);
    }
}
