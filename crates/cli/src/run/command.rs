//! The words that this process was started with.
//!
//! They are looked at in many places, and what opens a store to whoever reads them must stand in
//! none. So they are taken once, at the very beginning, and the secrets out of them.

use std::ffi::OsString;
use std::sync::OnceLock;

use ioecho_trace::secrets::text_shown;

use crate::fetch;

/// The words that this process was started with, as far as others may see them.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line, without what opens a store to whoever reads it.
pub(crate) fn typed() -> &'static [OsString] {
    WORDS.get_or_init(|| fetch::taken_out(std::env::args_os()))
}

/// The same as text, to be kept: also what is prose or a program loses the secrets in it.
pub(crate) fn words() -> Vec<String> {
    typed().iter().map(|word| text_shown(&word.to_string_lossy())).collect()
}
