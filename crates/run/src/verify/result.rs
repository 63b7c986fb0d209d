//! `verify.json`: all findings of a verification.

use serde::Serialize;

use crate::directory::RunDirectory;
use crate::error::Result;
use crate::verify::later::TargetFindings;

/// The version of `verify.json`.
const VERIFY_VERSION: u32 = 1;

/// `verify.json`.
#[derive(Serialize)]
pub struct Verified<'a> {
    version: u32,
    run: String,
    after: &'static str,
    intact: bool,
    targets: &'a [TargetFindings],
}

/// Whether everything was read, and whether anything is damaged.
pub fn verdict(found: &[TargetFindings]) -> (bool, bool) {
    let complete = found.iter().all(|found| found.complete && found.figures.table_errors == 0);
    (complete, found.iter().any(|found| found.figures.is_damaged()))
}

/// The file's content. `after` is the event before the verification: `run`, `kill` or `power-cut`.
pub fn whole<'a>(
    run_number: u64,
    after: &'static str,
    found: &'a [TargetFindings],
) -> Verified<'a> {
    let (complete, damaged) = verdict(found);
    Verified {
        version: VERIFY_VERSION,
        run: format!("{run_number:016x}"),
        after,
        intact: complete && !damaged,
        targets: found,
    }
}

/// Stores the result with the run. If the run's directory cannot be written, that is only a
/// warning, because the verification itself is done.
pub fn keep(
    run: &RunDirectory,
    run_number: u64,
    after: &'static str,
    found: &[TargetFindings],
) -> Result<()> {
    // Maps with text keys and plain values can always be written as JSON.
    let json = serde_json::to_vec_pretty(&whole(run_number, after, found)).unwrap_or_default();
    run.put(&run.verify(), &json)
}
