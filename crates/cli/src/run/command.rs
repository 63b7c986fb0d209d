//! The words of this process's command line.
//!
//! Many places use them, and none of them may contain secrets. So the words are read once, at the
//! very beginning, and the secrets are taken out.

use std::ffi::OsString;
use std::sync::OnceLock;

use ioecho_trace::secrets::text_shown;

use crate::fetch;

/// The words of the command line, without secrets.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The words that the command line stands for, if they are others.
static MEANT: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line, without secrets.
pub(crate) fn typed() -> &'static [OsString] {
    WORDS.get_or_init(|| fetch::taken_out(std::env::args_os()))
}

/// Tells that the command line stands for these words, which do not need the files of earlier runs.
pub(crate) fn means(words: Vec<OsString>) {
    // The command line is parsed once.
    let _ = MEANT.set(words);
}

/// The meaning of the command line as text, to be stored. Here secrets are also removed from prose
/// and from other programs' arguments.
pub(crate) fn words() -> Vec<String> {
    let words = MEANT.get().map_or_else(typed, Vec::as_slice);
    words.iter().map(|word| text_shown(&word.to_string_lossy())).collect()
}
