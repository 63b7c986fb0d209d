//! The runs in the directory of a campaign.
//!
//! Who names that directory as a load means one of its runs, which lie deep in it.

use std::path::{Path, PathBuf};

use ioecho_run::directory::RunDirectory;
use ioecho_run::error::{Kind, RunError};
use ioecho_trace::units::counted;

/// The file that makes a directory one of a campaign.
pub(crate) const PLAN: &str = "plan.json";

/// The directory of its cells.
pub(crate) const CELLS: &str = "cells";

/// The error for a path that is no load: the directory of a campaign.
pub(crate) fn is_campaign(path: &Path) -> Option<RunError> {
    if !path.join(PLAN).is_file() {
        return None;
    }
    let cells = entries(&path.join(CELLS)).into_iter();
    let attempts = cells.flat_map(|cell| entries(&cell));
    let all = attempts.flat_map(|attempt| entries(&attempt));
    let runs: Vec<PathBuf> = all.filter(|path| RunDirectory::at(path).is_some()).collect();
    let help = match runs.first() {
        Some(first) => format!("name a run within: {}", first.display()),
        None => "it holds no run yet".to_owned(),
    };
    let text = format!(
        "{} is the directory of a campaign, with {}\n  = help: {help}",
        path.display(),
        counted(runs.len() as u64, "run")
    );
    Some(RunError::new(Kind::Trace, text))
}

/// What lies in a directory, in the order of names; nothing if it cannot be read.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
