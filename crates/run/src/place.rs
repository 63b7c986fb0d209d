//! Where a run, and other code that creates files, may write.

use std::io;
use std::path::Path;

use ioecho_linux::OpenDirectory;
use ioecho_trace::formats::write;
use ioecho_trace::{Header, Sink};

use crate::error::{Kind, Result, RunError};

/// The advice against writing into the directory of another user.
pub const STRANGER_HELP: &str = "name a directory of your own, or run this as that user";

/// The reason, as a phrase after the path, why no file may be written at it: another user could
/// redirect it. A directory that does not exist yet will be created by this program; then the
/// directory above it counts.
pub fn stranger(output: &Path) -> Option<String> {
    let above = output.ancestors().skip(1).map(|above| match above.as_os_str() {
        empty if empty.is_empty() => Path::new("."),
        _ => above,
    });
    let there = { above }.find(|above| above.is_dir())?;
    let owner = OpenDirectory::at(there).ok()?.stranger().ok()??;
    Some(format!(
        "is not written: {} belongs to the user {owner}, who could lead what is written there to \
         any other place",
        there.display()
    ))
}

/// Refuses to write into the directory of another user who could redirect the files.
pub fn refuse_stranger(directory: &Path) -> Result<()> {
    let Some(why) = stranger(&directory.join("x")) else { return Ok(()) };
    let text = format!("{} {why}\n  = help: {STRANGER_HELP}", directory.display());
    Err(RunError::new(Kind::Output, text))
}

/// Creates a trace in a directory that is held open. Traces are written by path, so the path must
/// still lead to that directory.
pub fn trace_in(place: &OpenDirectory, file: &Path, header: &Header) -> Result<Box<dyn Sink>> {
    if let Some(text) = place.misplaced() {
        return Err(unwritable(file, &io::Error::new(io::ErrorKind::NotFound, text)));
    }
    Ok(write::create(file, header)?)
}

/// The error for a file that cannot be written.
pub fn unwritable(path: &Path, error: &io::Error) -> RunError {
    RunError::new(Kind::Output, format!("cannot write {}: {error}", path.display()))
}
