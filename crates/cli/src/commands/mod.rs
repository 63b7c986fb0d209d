//! The commands, one file each. Each answers an exit code.

pub(crate) mod analyze;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod depend;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod info;
pub(crate) mod interrupt;
pub(crate) mod library;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod outcome;
pub(crate) mod plot;
pub(crate) mod prepare;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod verify;

use ioecho_trace::Header;
use ioecho_trace::units::counted;

use crate::exit;
pub(crate) use crate::print::{tell, visible};

/// Says what a reader read, lost, guessed and could not read, on standard error; answers the exit
/// code that this asks for.
pub(crate) fn tell_import(header: &Header) -> u8 {
    if let Some(imported) = &header.imported {
        let (units, unit) = (imported.units, visible(&imported.unit));
        let made = counted(imported.requests, "request");
        tell(&format!("read: {units} {unit}, which made {made}"));
    }
    for (kind, notes) in [("lost", &header.losses), ("guessed", &header.guesses)] {
        for note in notes.iter() {
            tell(&format!("{kind}: {}", visible(&note.to_string())));
            for example in &note.examples {
                tell(&format!("  | {}", visible(example)));
            }
        }
    }
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
