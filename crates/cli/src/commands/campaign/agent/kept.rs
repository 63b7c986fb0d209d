//! What an agent keeps of a replay that has come to its end, until the campaign has it.
//!
//! The campaign may be gone by then, and come back hours later. So what there is, and its hashes,
//! are on the disk at the end of the replay, and what changes afterwards is found.

use std::io;
use std::path::Path;

use ioecho_campaign::ground::Fault;
use ioecho_campaign::name::is_name;
use ioecho_campaign::protocol::{FileThere, RunName};
use ioecho_linux::OpenDirectory;
use ioecho_run::directory::RunDirectory;
use ioecho_run::{digest, regular, stored};
use ioecho_stats::verdict::Finding;
use serde::{Deserialize, Serialize};

use super::home::of_attempt;

/// The version of the file.
const DONE_VERSION: u32 = 1;

/// How much of what a replay printed is handed on, in bytes.
const SAID_MAX: usize = 16 << 10;

/// The file in a spool by which a later agent says that an earlier one need not go on.
pub(super) const NO_USE: &str = "no-use";

/// A replay that has come to its end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    version: u32,
    pub(super) seconds: f64,
    /// What it printed, or the end of it.
    pub(super) said: String,
    pub(super) files: Vec<FileThere>,
    /// What modules keep with the results, if the campaign was not there to ask for it: names of
    /// files, and their texts.
    pub(super) kept: Vec<(String, String)>,
}

impl Done {
    pub(super) fn new(seconds: f64, said: String, files: Vec<FileThere>) -> Self {
        Self { version: DONE_VERSION, seconds, said, files, kept: Vec::new() }
    }

    /// Stores it in the directory of the attempt. It is on the disk when this returns.
    pub(super) fn put(&self, place: &OpenDirectory, run: &str) -> io::Result<()> {
        place.put(file_of(run), &serde_json::to_vec(self)?)
    }
}

fn file_of(run: &str) -> String {
    format!("{run}.done.json")
}

/// The file of what a replay prints.
pub(super) fn output_of(run: &str) -> String {
    format!("{run}.txt")
}

/// What a replay of an earlier agent left, if it came to its end.
pub(super) fn left(spool: &OpenDirectory, run: &RunName) -> Result<Done, Fault> {
    let lacking = |why: &str| Fault::Lacking(format!("there is no finished run: {why}"));
    if !is_name(&run.name) {
        return Err(lacking("this is no name of one"));
    }
    let name = of_attempt(&run.key, run.attempt).map_err(|error| lacking(&error.to_string()))?;
    let place = spool.path().join(name);
    if let Ok(bytes) = regular::read(&place.join(file_of(&run.name)))
        && let Ok(done) = stored::from_json::<Done>(&bytes, DONE_VERSION)
    {
        return Ok(done);
    }
    // The agent may have been killed before it could store it.
    let path = place.join(&run.name);
    let summary = RunDirectory::at(&path).map(|run| run.read_summary());
    match summary {
        Some(Ok(summary)) if summary.verdict.finding != Finding::Incomplete => {
            let files = files(&path).map_err(|error| lacking(&error.to_string()))?;
            let seconds = summary.achieved_duration_ns as f64 / 1e9;
            Ok(Done::new(seconds, said(&place, &run.name), files))
        }
        _ => Err(lacking("it was ended early")),
    }
}

/// The files of a run, with their hashes.
pub(super) fn files(run: &Path) -> io::Result<Vec<FileThere>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(run)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !is_name(&name) || !ioecho_run::directory::is_file_of_run(&name) {
            continue;
        }
        let path = run.join(&name);
        let bytes = regular::open(&path)?.metadata()?.len();
        files.push(FileThere { bytes, sha256: digest::of_file(&path)?, name });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// The end of what a run printed.
pub(super) fn said(place: &Path, run: &str) -> String {
    let bytes = regular::read(&place.join(output_of(run))).unwrap_or_default();
    let from = bytes.len().saturating_sub(SAID_MAX);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}
