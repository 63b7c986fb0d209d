//! Texts with URLs in them: no password is shown, and what is shown stays as it is.
#![no_main]

use ioecho_trace::secrets::text_shown;
use libfuzzer_sys::fuzz_target;

/// What no input has by chance.
const WORD: &str = "d41d8cd98f";

fuzz_target!(|input: (&str, &str)| {
    let (before, after) = input;
    if before.contains(WORD) || after.contains(WORD) {
        return;
    }
    for secret in [format!("http://me:{WORD}@host{after}"), format!("http://host/x?{WORD}{after}")] {
        let shown = text_shown(&format!("{before} {secret}"));
        assert!(!shown.contains(WORD), "{shown}");
        assert_eq!(text_shown(&shown), shown);
    }
});
