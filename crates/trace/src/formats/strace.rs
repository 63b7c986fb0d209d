//! What `strace -f -ttt -T` prints of a process and its children, as a load on files.
//!
//! A line is a call that has returned, half of one that another task's call interrupted, or the end
//! of a task. They come in the order in which calls return, and the instant is that of the call.
//! What the calls mean follows from all before them ([`crate::syscalls`]). With `-y` descriptors
//! have the paths of their files, which tells the working directory, files that were open before,
//! and where links lead.

mod arguments;
mod line;
mod parser;
#[cfg(test)]
mod tests;
mod words;

use super::import::{self, Epoch, Facts, Look, looks_like};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::stream::Opened;

/// The text of strace.
pub const FORMAT: Format = Format {
    name: "strace",
    title: "file operations printed by strace -f -ttt -T",
    several: Several::Apart,
    recognise: |first_bytes| looks_like(first_bytes, look),
    open,
};

/// [`Header::format`](crate::Header::format).
pub const NAME: &str = "strace";

fn look(text: &[u8]) -> Look {
    match line::split(text) {
        Ok(line) if line.at.is_some() => Look::Request,
        Ok(_) => Look::Other,
        Err(_) => Look::Strange,
    }
}

fn open(opening: Opening<'_>) -> Opened {
    let dependencies = opening.options.reads_dependencies();
    let facts = Facts {
        format: NAME,
        columns: Columns { latency: true, origin: true, measured: false, dependencies },
        epoch: Epoch::Unix,
        whole_seconds: false,
    };
    let parser = parser::Parser::new(dependencies);
    let remedy = "its lines look like '71 1700000000.123456 close(3) = 0 <0.000012>', as \
                  `strace -f -ttt -T -y -o FILE` writes them";
    import::lines(opening, parser, facts, remedy)
}
