//! `ioecho library`: loads with everything that must be known to use them.

mod add;
mod index;
mod list;
mod show;
mod verify;

use std::path::Path;

use crate::args::{LibraryArgs, LibraryCommand};
use crate::exit::{self, Coded};
use crate::fetch::is_url;
use crate::print::Out;

pub(crate) fn run(args: &LibraryArgs, out: &mut Out) -> anyhow::Result<u8> {
    match &args.command {
        LibraryCommand::Add(args) => add::run(args, out),
        LibraryCommand::List(args) => list::run(args, out),
        LibraryCommand::Show(args) => show::run(args, out),
        LibraryCommand::Verify(args) => verify::run(args, out),
        LibraryCommand::Index(args) => index::run(args, out),
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
