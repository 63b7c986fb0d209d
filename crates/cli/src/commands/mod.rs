//! The commands, one file each. Each answers an exit code.

pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod replay;
pub(crate) mod report;

use std::io::Write;

use ioecho_trace::Header;

use crate::exit;

/// Says what a reader or writer lost, guessed and could not read, on standard error; answers the
/// exit code that this asks for.
pub(crate) fn tell_import(header: &Header) -> u8 {
    let mut stderr = std::io::stderr().lock();
    for (kind, notes) in [("lost", &header.losses), ("guessed", &header.guesses)] {
        for note in notes.iter() {
            let _ = writeln!(stderr, "{kind}: {} {}", note.count, note.what);
            for example in &note.examples {
                let _ = writeln!(stderr, "  | {example}");
            }
        }
    }
    match &header.damage {
        Some(damage) => {
            let _ = writeln!(stderr, "warning: the trace ends before its end: {damage}");
            exit::DAMAGED
        }
        None => exit::OK,
    }
}
