//! `ioecho library index`: makes the index again.
//!
//! A user may remove a load by removing its directory, or lose the index when copying a library.
//! All facts of the index also stand in the directories of the loads.

use std::io::Write;

use ioecho_trace::units::counted;

use super::refuse_url;
use crate::args::IndexArgs;
use crate::exit;
use crate::library::{INDEX_FILE, Library};
use crate::print::Out;

pub(super) fn run(args: &IndexArgs, out: &mut Out) -> anyhow::Result<u8> {
    refuse_url(&args.library)?;
    let loads = Library::existing(&args.library)?.make_index()?.loads;
    let index = args.library.join(INDEX_FILE);
    let loads = counted(loads.len() as u64, "load");
    out.tells_of_files();
    writeln!(out, "{loads} in {}", index.display())?;
    Ok(exit::OK)
}
