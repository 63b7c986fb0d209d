//! Exit codes, on which scripts may rely. `docs/exit-codes.md` describes them.

use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ioecho_linux::record::RecordError;
use ioecho_linux::{DeviceError, TargetError};
use ioecho_report::ReportError;
use ioecho_run::error::{Kind, RunError};
use ioecho_stats::run_summary::RunSummary;
use ioecho_stats::verdict::{Finding, Validity};
use ioecho_trace::TraceError;
use ioecho_trace::error::THE_STANDARD_OUTPUT;
use signal_hook::consts::SIGXFSZ;

use crate::print::{Out, Unprinted, tell};
use crate::typed::sentence;

/// Done; a replay was faithful.
pub(crate) const OK: u8 = 0;
/// A failure without a code of its own.
pub(crate) const FAILURE: u8 = 1;
/// The command line makes no sense (clap's code).
pub(crate) const USAGE: u8 = 2;
/// A trace cannot be read or is not one.
pub(crate) const TRACE: u8 = 3;
/// A trace ends before its end; what could be read of it was processed.
pub(crate) const DAMAGED: u8 = 4;
/// The target cannot be used.
pub(crate) const TARGET: u8 = 5;
/// The target is in use or may hold somebody's data; nothing was touched.
pub(crate) const REFUSED: u8 = 6;
/// Results cannot be written.
pub(crate) const OUTPUT: u8 = 7;
/// A file at a URL cannot be fetched.
pub(crate) const FETCH: u8 = 8;
/// The replay ran and the device could not take the load.
pub(crate) const DEVICE_LIMITED: u8 = 10;
/// The replay ran and this program could not issue in time.
pub(crate) const GENERATOR_LIMITED: u8 = 11;
/// The replay ran and the host kept it from its schedule.
pub(crate) const HOST_STALLED: u8 = 12;
/// The replay was ended before its end; what was measured is kept.
pub(crate) const INCOMPLETE: u8 = 13;
/// The replay kept its schedule and is invalid all the same; the verdict says why.
pub(crate) const INVALID: u8 = 14;
/// The device lost or altered data that were written to it.
pub(crate) const DATA_DAMAGED: u8 = 15;
/// A required check does not hold, and no worse code applies.
pub(crate) const REQUIRED: u8 = 16;
/// A load does not match the facts in its library.
pub(crate) const NOT_AS_PUBLISHED: u8 = 17;
/// Runs, or a replay and a recording of it, are not comparable. Nothing was compared.
pub(crate) const NOT_COMPARABLE: u8 = 20;
/// A criterion of `compare --fail-if` is met.
pub(crate) const CRITERION_MET: u8 = 21;
/// The device saw another load than the one that was to be replayed.
pub(crate) const NOT_FAITHFUL: u8 = 22;

/// The kernel cannot record here, or this user may not.
pub(crate) const CANNOT_RECORD: u8 = 30;
/// The recording was made, and events are missing from it.
pub(crate) const EVENTS_LOST: u8 = 31;
/// The recording was made, and the command that was recorded failed.
pub(crate) const COMMAND_FAILED: u8 = 32;

/// Cells of a campaign have no result.
pub(crate) const CELLS_FAILED: u8 = 40;
/// What a campaign set up could not be undone: the machine is not as it was found.
pub(crate) const MACHINE_CHANGED: u8 = 41;

/// An error that brings its own exit code.
#[derive(Debug)]
pub(crate) struct Coded {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Coded {
    /// The error as one that a command can return.
    pub(crate) fn error(code: u8, text: impl Into<String>) -> anyhow::Error {
        Self { code, text: text.into() }.into()
    }
}

impl std::fmt::Display for Coded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Coded {}

/// A file that may not grow (`ulimit -f`) normally ends the process. This turns it into an error of
/// the write, so that results are kept as on a full disk.
pub(crate) fn survive_file_size_limits() {
    let noticed = Arc::new(AtomicBool::new(false));
    // If the signal cannot be caught, such a write ends the process, as it does by default.
    let _ = signal_hook::flag::register(SIGXFSZ, noticed);
}

/// The exit code that a run's verdict asks for.
pub(crate) fn of_run(summary: &RunSummary) -> u8 {
    match summary.verdict.finding {
        Finding::DataDamaged => DATA_DAMAGED,
        Finding::Incomplete => INCOMPLETE,
        Finding::DeviceLimited => DEVICE_LIMITED,
        Finding::GeneratorLimited => GENERATOR_LIMITED,
        Finding::HostStalled => HOST_STALLED,
        Finding::Faithful | Finding::Unscheduled | Finding::ForeignLoad
            if summary.verdict.validity == Validity::Invalid =>
        {
            INVALID
        }
        Finding::Faithful | Finding::Unscheduled | Finding::ForeignLoad => OK,
    }
}

/// Ends the program with the code of the command, or with that of its error. Whether the text could
/// be printed is asked last. It never hides a code that says something worse.
pub(crate) fn end(result: anyhow::Result<u8>, out: Out) -> ExitCode {
    let code = result.unwrap_or_else(|error| report(&error));
    ExitCode::from(printed(code, out))
}

/// The exit code after the text was printed, or could not be printed. The command ended with
/// `code`.
pub(crate) fn printed(code: u8, out: Out) -> u8 {
    out.end().map_or(code, |unprinted| of_text(code, &unprinted))
}

/// The exit code of a command that ended with `code` when its text could not be printed. If the
/// text is all that the command makes, that is a failure. It never hides a code that says something
/// worse.
fn of_text(code: u8, unprinted: &Unprinted) -> u8 {
    let is_failure = code == OK && unprinted.is_product;
    let kind = if is_failure { "error" } else { "warning" };
    tell(&format!("{kind}: cannot write the standard output: {}", unprinted.error));
    if is_failure { OUTPUT } else { code }
}

/// The exit code of a command that ended with `code` and then wrote a file. An error of the file is
/// printed. It never hides a code that says something worse.
pub(crate) fn unless_worse(code: u8, written: anyhow::Result<()>) -> anyhow::Result<u8> {
    match written {
        Err(error) if code == OK => return Err(error),
        Err(error) => _ = report(&error),
        Ok(()) => {}
    }
    Ok(code)
}

/// Prints the error for a user and returns its exit code.
pub(crate) fn report(error: &anyhow::Error) -> u8 {
    tell(&format!("error: {}", sentence(error.as_ref())));
    code_of(error)
}

/// Whether the error only says that the reader of the standard output has closed it.
pub(crate) fn is_readers_leave(error: &TraceError) -> bool {
    matches!(
        error,
        TraceError::Write { path, source }
            if source.kind() == io::ErrorKind::BrokenPipe
                && path == Path::new(THE_STANDARD_OUTPUT)
    )
}

/// The exit code of an error of this kind.
fn of_kind(kind: Kind) -> u8 {
    match kind {
        Kind::Failure => FAILURE,
        Kind::Usage => USAGE,
        Kind::Trace => TRACE,
        Kind::Target => TARGET,
        Kind::Refused => REFUSED,
        Kind::Output => OUTPUT,
        Kind::Fetch => FETCH,
        Kind::Incomplete => INCOMPLETE,
        Kind::DataDamaged => DATA_DAMAGED,
        Kind::NotAsPublished => NOT_AS_PUBLISHED,
        Kind::NotComparable => NOT_COMPARABLE,
        Kind::CannotRecord => CANNOT_RECORD,
    }
}

fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(coded) = cause.downcast_ref::<Coded>() {
            return coded.code;
        }
        let kind = if let Some(run) = cause.downcast_ref::<RunError>() {
            run.kind()
        } else if let Some(trace) = cause.downcast_ref::<TraceError>() {
            trace.into()
        } else if let Some(target) = cause.downcast_ref::<TargetError>() {
            target.into()
        } else if let Some(record) = cause.downcast_ref::<RecordError>() {
            record.into()
        } else if cause.is::<DeviceError>() {
            Kind::Target
        } else if cause.is::<ReportError>() {
            Kind::Output
        } else {
            continue;
        };
        return of_kind(kind);
    }
    FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_answers_ok_not_even_a_broken_pipe() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(code_of(&broken().into()), FAILURE);
        for path in ["-", "x.csv"] {
            assert_eq!(code_of(&TraceError::write(Path::new(path), broken()).into()), OUTPUT);
        }
    }

    #[test]
    fn a_reader_leaves_the_standard_output_and_nothing_else() {
        let leaves = |path: &str, kind: io::ErrorKind| {
            is_readers_leave(&TraceError::write(Path::new(path), kind.into()))
        };
        assert!(leaves("-", io::ErrorKind::BrokenPipe));
        assert!(!leaves("x.csv", io::ErrorKind::BrokenPipe));
        assert!(!leaves("-", io::ErrorKind::StorageFull));
    }

    #[test]
    fn a_text_that_cannot_be_printed_hides_no_code() {
        let code = |found, is_product| {
            let error = io::ErrorKind::StorageFull.into();
            of_text(found, &Unprinted { error, is_product })
        };
        for found in 0..32 {
            assert_eq!(code(found, true), if found == OK { OUTPUT } else { found });
            assert_eq!(code(found, false), found);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_hides_nothing_that_is_worse() {
        let full = || Err(Coded::error(OUTPUT, "full"));
        assert_eq!(unless_worse(CRITERION_MET, full()).unwrap(), CRITERION_MET);
        assert_eq!(code_of(&unless_worse(OK, full()).unwrap_err()), OUTPUT);
    }

    #[test]
    fn a_target_in_use_is_refused_and_one_that_is_not_there_cannot_be_used() {
        let path = || "/dev/sdx".into();
        let code = |error: TargetError| code_of(&error.into());
        assert_eq!(code(TargetError::Busy { path: path() }), REFUSED);
        assert_eq!(code(TargetError::Locked { path: path() }), REFUSED);
        assert_eq!(code(TargetError::Missing { path: path() }), TARGET);
    }
}
