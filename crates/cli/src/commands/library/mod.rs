//! `ioecho library`: loads with everything that must be known to use them.

mod add;
mod index;
mod list;
mod show;
mod verify;

use std::io;
use std::path::Path;

use ioecho_trace::TraceError;
use ioecho_trace::compression::STANDARD_OUTPUT;

use crate::args::{LibraryArgs, LibraryCommand};
use crate::exit::{self, Coded};
use crate::run::fetch::is_url;

pub(crate) fn run(args: &LibraryArgs) -> anyhow::Result<u8> {
    match &args.command {
        LibraryCommand::Add(args) => add::run(args),
        LibraryCommand::List(args) => list::run(args),
        LibraryCommand::Show(args) => show::run(args),
        LibraryCommand::Verify(args) => verify::run(args),
        LibraryCommand::Index(args) => index::run(args),
    }
}

/// Refuses to change what somebody else's web server has.
fn refuse_url(library: &Path) -> anyhow::Result<()> {
    if !is_url(library) {
        return Ok(());
    }
    let text = format!(
        "{}: a library at an URL cannot be changed\n  = help: change the directory that is \
         published there",
        library.display()
    );
    Err(Coded::error(exit::USAGE, text))
}

/// Why nothing, or not all, could be printed. Who reads only the first lines has no error to see.
fn unprinted(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => TraceError::write(Path::new(STANDARD_OUTPUT), error).into(),
    }
}
