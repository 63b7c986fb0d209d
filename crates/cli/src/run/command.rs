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

/// The command line, without secrets.
pub(crate) fn typed() -> &'static [OsString] {
    WORDS.get_or_init(|| fetch::taken_out(std::env::args_os()))
}

/// The same as text, to be stored. Here secrets are also removed from prose and from other
/// programs' arguments.
pub(crate) fn words() -> Vec<String> {
    typed().iter().map(|word| text_shown(&word.to_string_lossy())).collect()
}
