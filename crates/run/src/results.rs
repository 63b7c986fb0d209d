//! The results of a run, which must be its own.
//!
//! Directories are copied, mended and passed on. Requests of another run below the verdict of this
//! one would be replayed, drawn and compared as if this one had made them, and a footer whose
//! header is gone reads like a whole trace of some other program. So nothing reads the results in a
//! directory before their file has said whose they are.

use std::path::{Path, PathBuf};

use ioecho_trace::formats::{ReadOptions, native};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Source, TraceError};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::RunFacts;
use crate::journaled::{JournalSource, of_another, together, with_header};
use crate::regular;

/// Opens the results of the run: the final ones, or the journal of a run that goes on or was
/// killed.
pub fn open(run: &RunDirectory, options: &ReadOptions) -> Result<Box<dyn Source>> {
    // A directory of a version that this program does not know is refused here.
    let facts = run.read_facts()?;
    if run.requests().exists() {
        return Ok(regular::trace(&own(run, &facts)?, options)?);
    }
    let source = JournalSource::open(run, &with_header(run, facts)?)?;
    Ok(Box::new(if options.reads_dependencies() { source } else { source.without_links() }))
}

/// The file of the final results, once it is known to be whole and of this run.
pub(crate) fn own(run: &RunDirectory, facts: &RunFacts) -> Result<PathBuf> {
    let path = run.requests();
    // In a run from someone else, a pipe that nobody writes to may stand in place of this file.
    regular::open(&path).map_err(|error| TraceError::read(&path, error))?;
    let native::Claims { header, rows, has_checksums } = native::claims(&path)?;
    let Some(header) = header else {
        return Err(damaged(&path, "it has no header, and each run writes one"));
    };
    let summary = run.summary().exists().then(|| run.read_summary()).transpose()?;
    let number = facts.run.to_string();
    match (&header.run_number, &summary) {
        (Some(of), _) if *of != number => return Err(of_another(&path, of, &number)),
        (Some(_), _) if !has_checksums => {
            return Err(damaged(&path, "it has no checksums, and each run writes them"));
        }
        (None, None) => {
            let text = format!(
                "{} does not say which run it is of, and there is no summary.json to compare it \
                 with",
                path.display()
            );
            let help = Wording::default()
                .command("report", run.path().display().to_string())
                .text(" makes both again where the journal is left");
            return Err(RunError::with_help(Kind::Trace, text, help));
        }
        _ => {}
    }
    match summary {
        Some(summary) if summary.recorded != rows => Err(unlike(&path, rows, summary.recorded)),
        _ => Ok(path),
    }
}

/// The error for results that are not as many as the summary tells of.
pub(crate) fn unlike(path: &Path, rows: u64, told: u64) -> RunError {
    let text = format!(
        "{} holds {rows} requests and summary.json tells of {told}: they are not of the same run",
        path.display()
    );
    RunError::with_help(Kind::Trace, text, together(path))
}

fn damaged(path: &Path, why: &str) -> RunError {
    let text = format!("{} is damaged: {why}", path.display());
    RunError::with_help(Kind::Trace, text, together(path))
}
