//! Which build a program is.
//!
//! A campaign and its agents must be the same program, or a message may mean two things. A hash of
//! the whole program says so, and takes a second of each of a thousand agents; so a conversation
//! begins with a hash of its size and of pieces of it from end to end, in which any two builds
//! differ. What was sent to a host is compared as a whole, once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use ioecho_run::digest;

/// This program, also where its file was replaced meanwhile.
const OWN: &str = "/proc/self/exe";

/// How many pieces are looked at, and their length.
const PIECES: u64 = 256;
const PIECE_BYTES: usize = 4096;

/// What tells this build from others: 64 hexadecimal digits.
pub(in super::super) fn own() -> io::Result<String> {
    let file = File::open(OWN)?;
    let bytes = file.metadata()?.len();
    let mut seen = bytes.to_le_bytes().to_vec();
    let mut piece = [0; PIECE_BYTES];
    let last = bytes.saturating_sub(PIECE_BYTES as u64);
    for number in 0..PIECES {
        let count = file.read_at(&mut piece, last / (PIECES - 1) * number)?;
        seen.extend_from_slice(&piece[..count]);
    }
    Ok(digest::of_bytes(&seen))
}

/// SHA-256 of the whole program.
pub(in super::super) fn whole() -> io::Result<String> {
    digest::of_opened(File::open(OWN)?)
}
