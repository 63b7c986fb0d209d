//! `verify.json`: what a verification found, whole.

use serde::Serialize;

use crate::commands::tell;
use crate::run::directory::RunDirectory;
use crate::run::verify::later::Found;

/// The version of `verify.json`.
const VERIFY_VERSION: u32 = 1;

/// `verify.json`.
#[derive(Serialize)]
struct Verified<'a> {
    version: u32,
    run: String,
    after: &'static str,
    intact: bool,
    targets: &'a [Found],
}

/// Whether everything was looked at, and whether any of it is damaged.
pub(crate) fn verdict(found: &[Found]) -> (bool, bool) {
    let complete = found.iter().all(|found| found.complete && found.figures.table_errors == 0);
    (complete, found.iter().any(|found| found.figures.is_damaged()))
}

/// The file's text. `after` is what came before: `run`, `kill` or `power-cut`.
pub(crate) fn json(run_number: u64, after: &'static str, found: &[Found]) -> Vec<u8> {
    let (complete, damaged) = verdict(found);
    let verified = Verified {
        version: VERIFY_VERSION,
        run: format!("{run_number:016x}"),
        after,
        intact: complete && !damaged,
        targets: found,
    };
    // Maps with keys of text and plain values always become JSON.
    serde_json::to_vec_pretty(&verified).unwrap_or_default()
}

/// Leaves the result with the run. A run that cannot be written to is verified all the same.
pub(crate) fn keep(run: &RunDirectory, run_number: u64, after: &'static str, found: &[Found]) {
    if let Err(error) = run.put(&run.verify(), &json(run_number, after, found)) {
        tell(&format!("warning: {error}"));
    }
}
