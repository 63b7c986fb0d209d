//! The commands, one file each. Each answers an exit code.

pub(crate) mod analyze;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod info;
pub(crate) mod interrupt;
pub(crate) mod library;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod plot;
pub(crate) mod prepare;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod verify;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ioecho_trace::compression::STANDARD_OUTPUT;
use ioecho_trace::units::counted;
use ioecho_trace::{Header, TraceError};

use crate::exit;

/// What is to be said when the terminal is free again; `None` while it is.
static HELD: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// Keeps what is told until [`let_out`]: the panels have the terminal.
#[cfg(feature = "live")]
pub(crate) fn hold_back() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Says what was held back.
#[cfg(feature = "live")]
pub(crate) fn let_out() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    held.into_iter().flatten().for_each(|text| tell(&text));
}

/// Says something beside the output proper, on standard error. If nobody can hear it, so be it.
pub(crate) fn tell(text: &str) {
    if let Some(held) = HELD.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        held.push(text.to_owned());
        return;
    }
    let _ = writeln!(io::stderr(), "{text}");
}

/// The text with control characters made visible: names and lines of a trace are somebody else's,
/// and a terminal obeys what it is told.
pub(crate) fn visible(text: &str) -> String {
    let is_harmless = |c: char| !c.is_control() || c == '\t';
    if text.chars().all(is_harmless) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| if is_harmless(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

/// Says what a reader read, lost, guessed and could not read, on standard error; answers the exit
/// code that this asks for.
pub(crate) fn tell_import(header: &Header) -> u8 {
    let mut stderr = io::stderr().lock();
    if let Some(imported) = &header.imported {
        let (units, unit) = (imported.units, visible(&imported.unit));
        let made = counted(imported.requests, "request");
        let _ = writeln!(stderr, "read: {units} {unit}, which made {made}");
    }
    for (kind, notes) in [("lost", &header.losses), ("guessed", &header.guesses)] {
        for note in notes.iter() {
            let _ = writeln!(stderr, "{kind}: {}", visible(&note.to_string()));
            for example in &note.examples {
                let _ = writeln!(stderr, "  | {}", visible(example));
            }
        }
    }
    drop(stderr);
    tell_damage(header)
}

/// Tells only whether a trace is whole. Answers the exit code that this asks for.
pub(crate) fn tell_damage(header: &Header) -> u8 {
    match &header.damage {
        Some(damage) => {
            tell(&format!("warning: the trace ends before its end: {}", visible(damage)));
            exit::DAMAGED
        }
        None => exit::OK,
    }
}

/// Why nothing, or not all, could be printed. Who reads only the first lines has no error to see.
pub(crate) fn unprinted(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => TraceError::write(Path::new(STANDARD_OUTPUT), error).into(),
    }
}
