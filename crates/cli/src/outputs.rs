//! The only place that opens outputs, and decides where they may be written.
//!
//! A name that was typed twice, or completed one letter too early, may name the recording of a
//! whole day as the place for a page on it. So no output replaces a file that the command reads,
//! under whatever name. Nor does one replace the files of runs, libraries and recordings, or a file
//! that holds a file system. And nothing but a regular file is ever replaced: otherwise root could
//! replace a device.
//!
//! So every output of a command comes from a [`Gate`]. It knows what the command reads, and checks
//! before it opens. Runs, libraries and the cache write into directories of their own through
//! `ioecho_linux::OpenDirectory`. Nothing else in this crate makes a file or opens one for writing;
//! a tidy test checks that.

mod owned;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use ioecho_linux::ground::{Ground, use_of};
use ioecho_linux::{Hazard, OpenDirectory};
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_run::inputs::Inputs;
use ioecho_run::place::{STRANGER_HELP, refuse_stranger, stranger, unwritable};
use ioecho_trace::compression::{PartialFile, STANDARD_OUTPUT};
use ioecho_trace::error::THE_STANDARD_OUTPUT;
use ioecho_trace::formats::{Writable, write};
use ioecho_trace::{Header, Sink, TraceError};

/// The standard output as a path, for an output without another name.
const LED_TO: &str = "/proc/self/fd/1";

/// How an output is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Into a regular file, a pipe or a character device.
    Over,
    /// Into a regular file only.
    Replacing,
}

/// Why a path cannot be an output.
struct Refusal {
    kind: Kind,
    /// The reason, as a phrase that follows the output's name.
    why: String,
    help: &'static str,
}

impl Refusal {
    fn new(why: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, why: why.into(), help: "name another output" }
    }

    fn error(self, output: &Path, flag: &str) -> RunError {
        let Self { kind, why, help } = self;
        let blank = if flag.is_empty() { "" } else { " " };
        RunError::new(kind, format!("{flag}{blank}{} {why}\n  = help: {help}", output.display()))
    }
}

/// The gate through which all outputs of a command go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    inputs: Inputs,
    /// The targets of a replay, and whether they are written to.
    targets: Vec<(String, Ground, bool)>,
    /// The directory of a run that the command makes. It may not exist yet.
    run: Option<PathBuf>,
    /// The run whose page the command makes.
    page_of: Option<PathBuf>,
}

impl Gate {
    /// The gate of a command that reads these inputs.
    pub(crate) fn reading(inputs: Inputs) -> Self {
        Self { inputs, ..Self::default() }
    }

    /// The gate of a command that makes the page of this run, too.
    pub(crate) fn and_page_of(self, run: &Path) -> Self {
        Self { page_of: Some(run.to_owned()), ..self }
    }

    /// The gate of a command that makes a run in this directory, too.
    pub(crate) fn and_run(self, run: &Path) -> Self {
        Self { run: Some(run.to_owned()), ..self }
    }

    /// The gate of a command that also replays on this target, and perhaps writes there.
    pub(crate) fn and_target(mut self, path: &Path, is_written: bool) -> Self {
        if let Ok(ground) = Ground::of(path) {
            self.targets.push((path.display().to_string(), ground, is_written));
        }
        self
    }

    /// Refuses an output that would replace something else. Nothing is changed. This is for
    /// commands that work long before they write.
    pub(crate) fn check(&self, output: &Path, writing: Writing) -> Result<()> {
        self.check_flag("", output, writing)
    }

    /// The same. The message begins with the flag that names the output.
    pub(crate) fn check_flag(&self, flag: &str, output: &Path, writing: Writing) -> Result<()> {
        self.refusal(output, writing).map_or(Ok(()), |refusal| Err(refusal.error(output, flag)))
    }

    /// The same for the standard output, which the shell has opened. A trace that is appended to
    /// itself would never end.
    pub(crate) fn check_standard_output(&self, flag: &str) -> Result<()> {
        let refusal = self.refusal(Path::new(LED_TO), Writing::Over);
        let output = Path::new(THE_STANDARD_OUTPUT);
        refusal.map_or(Ok(()), |refusal| Err(refusal.error(output, flag)))
    }

    fn refusal(&self, output: &Path, writing: Writing) -> Option<Refusal> {
        let there = fs::metadata(output).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Some(Refusal::new("is a directory"));
        }
        if there.as_ref().is_some_and(|there| there.file_type().is_block_device()) {
            return Some(Refusal::new("is a block device"));
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let replaces = writing == Writing::Replacing;
            return replaces.then(|| Refusal::new("is no file, and a file would take its place"));
        }
        if is_of_system(output) {
            // The shell's user chose this file. It would be lost all the same.
            return self.loss(output);
        }
        self.loss(output).or_else(|| refusal_of_place(output))
    }

    /// What would be lost if this file were written.
    fn loss(&self, output: &Path) -> Option<Refusal> {
        let ground = Ground::of(output).ok();
        if let Some(ground) = &ground {
            if let Some(input) = self.inputs.touched_by(ground) {
                let why = match input {
                    input if input == output.display().to_string() => {
                        "is both input and output, and would be lost".to_owned()
                    }
                    input => format!(
                        "is both input and output: it shares bytes with {input}, which would \
                         be lost"
                    ),
                };
                return Some(Refusal::new(why));
            }
            let mut targets = self.targets.iter();
            let harmed = targets.find(|(_, target, is_written)| match is_written {
                true => target.touches(ground),
                false => ground.carries(target),
            });
            if let Some((target, ..)) = harmed {
                let why = format!("lies on the target {target}, or the target on it");
                return Some(Refusal::new(why));
            }
        }
        if let Some(what) = owned::owner_of(output, self.run.as_deref(), self.page_of.as_deref()) {
            return Some(Refusal::new(format!("belongs to {what}, which would be lost")));
        }
        let why = match use_of(output)? {
            Hazard::BackingFile { loop_device } => {
                format!("is what the loop device {loop_device} holds, which would be lost")
            }
            Hazard::InUse { .. } => {
                "is locked by another program, as a run locks its targets".to_owned()
            }
            _ => "is in use as swap".to_owned(),
        };
        Some(Refusal::new(why))
    }

    /// Begins an output that appears when it is complete.
    pub(crate) fn begin(&self, output: &Path) -> Result<PartialFile> {
        self.check(output, Writing::Over)?;
        PartialFile::create(&never_standard(output)).map_err(|error| unwritable(output, &error))
    }

    /// Writes an output in one step.
    pub(crate) fn put(&self, output: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = self.begin(output)?;
        let written = file.write_all(bytes).and_then(|()| file.finish());
        written.map_err(|error| unwritable(output, &error))
    }

    /// Begins a trace in `format`, or in the format that its name says. `-` is the standard output.
    pub(crate) fn trace(
        &self,
        format: Option<&Writable>,
        output: &Path,
        header: &Header,
    ) -> Result<Box<dyn Sink>> {
        if output == Path::new(STANDARD_OUTPUT) {
            self.check_standard_output("")?;
        } else {
            self.check(output, Writing::Over)?;
        }
        Ok(write::create_as(format, output, header)?)
    }

    /// The same for a part of a trace. Its writer knows only the errors of traces.
    pub(crate) fn part(
        &self,
        format: Option<&Writable>,
        output: &Path,
        header: &Header,
    ) -> Result<Box<dyn Sink>, TraceError> {
        if let Some(Refusal { why, help, .. }) = self.refusal(output, Writing::Over) {
            let (path, remedy) = (output.to_owned(), help.into());
            return Err(TraceError::NoOutput { path, reason: why, remedy });
        }
        write::create_as(format, output, header)
    }

    /// Opens an empty file for lines, which others may read while it grows.
    pub(crate) fn lines(&self, flag: &str, output: &Path) -> Result<File> {
        self.check_flag(flag, output, Writing::Over)?;
        let open = || {
            if is_of_system(output) || fs::metadata(output).is_ok_and(|there| !there.is_file()) {
                // Another process may have opened the file already, so it is not replaced.
                return File::options().append(true).open(output);
            }
            let (place, name) = OpenDirectory::of_file(output)?;
            place.write_over(name)
        };
        open().map_err(|error| unwritable(output, &error))
    }

    /// A file that is replaced as a whole, again and again.
    pub(crate) fn replaced(&self, flag: &str, output: &Path) -> Result<Replaced> {
        self.check_flag(flag, output, Writing::Replacing)?;
        let place = OpenDirectory::of_file(output).map_err(|error| unwritable(output, &error))?;
        Ok(Replaced { place: place.0, name: place.1, path: output.to_owned() })
    }

    /// Makes a new file. If the system refuses that although no file is there, `told` gives the
    /// reason.
    pub(crate) fn new_file(
        &self,
        output: &Path,
        told: impl FnOnce(io::Error) -> RunError,
    ) -> Result<File> {
        if fs::symlink_metadata(output).is_err() {
            self.check(output, Writing::Replacing)?;
        }
        OpenDirectory::of_file(output)
            .and_then(|(place, name)| place.create_new(name))
            .map_err(told)
    }
}

/// Makes a directory for outputs, if there is none.
pub(crate) fn make_directory(directory: &Path) -> Result<()> {
    refuse_stranger(directory)?;
    fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))
}

/// A file that its readers always see whole.
pub(crate) struct Replaced {
    place: OpenDirectory,
    name: std::ffi::OsString,
    path: PathBuf,
}

impl Replaced {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> io::Result<()> {
        self.place.put_soon(&self.name, bytes)
    }
}

/// Why no file can be written at this path.
fn refusal_of_place(output: &Path) -> Option<Refusal> {
    let (kind, help) = (Kind::Output, STRANGER_HELP);
    stranger(output).map(|why| Refusal { kind, why, help })
}

/// Whether the path is one of the system's names for open files (such as `/dev/stdout`). They may
/// lead to a regular file, too.
fn is_of_system(output: &Path) -> bool {
    let above = output.parent().and_then(|above| above.canonicalize().ok());
    let is_there = || fs::metadata(output).is_ok();
    is_there()
        && above.is_some_and(|above| {
            let of_system = ["/dev", "/proc"].iter().any(|of_system| above.starts_with(of_system));
            of_system && !above.starts_with("/dev/shm")
        })
}

/// The name of a file. A file called `-` is not taken for the standard output.
fn never_standard(output: &Path) -> PathBuf {
    if output == Path::new(STANDARD_OUTPUT) { Path::new("./-").into() } else { output.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_and_what_is_no_file_are_no_outputs() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("trace"), "x").unwrap();
        fs::hard_link(path("trace"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("trace"), path("soft")).unwrap();
        fs::write(path("other"), "x").unwrap();
        let gate = Gate::reading(Inputs::of([&*path("trace")]));
        let allowed = |output: &Path, writing| gate.check(output, writing).is_ok();
        assert!(allowed(&path("new"), Writing::Replacing));
        assert!(allowed(&path("other"), Writing::Replacing));
        assert!(!allowed(&path("trace"), Writing::Over));
        assert!(!allowed(&path("link"), Writing::Replacing));
        assert!(!allowed(&path("soft"), Writing::Replacing));
        assert!(!allowed(directory.path(), Writing::Over));
        assert!(allowed(Path::new("/dev/null"), Writing::Over));
        assert!(!allowed(Path::new("/dev/null"), Writing::Replacing));
    }

    #[test]
    fn every_file_of_a_set_is_an_input() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["sda.blktrace.0", "sda.blktrace.1", "sdb.blktrace.0"] {
            fs::write(path(name), "x").unwrap();
        }
        let reading = |name: &str| Gate::reading(Inputs::of([&*path(name)]));
        let allowed = |gate: &Gate, name: &str| gate.check(&path(name), Writing::Over).is_ok();
        for named in ["sda", "sda.blktrace.0"] {
            let gate = reading(named);
            assert!(!allowed(&gate, "sda.blktrace.1"), "{named}");
            assert!(allowed(&gate, "sdb.blktrace.0"), "{named}");
        }
        assert!(!allowed(&Gate::reading(Inputs::of([directory.path()])), "sdb.blktrace.0"));
    }

    #[test]
    fn lines_begin_anew_and_never_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("lines"), "of yesterday").unwrap();
        fs::write(path("precious"), "precious").unwrap();
        std::os::unix::fs::symlink(path("precious"), path("link")).unwrap();
        let gate = Gate::default();
        writeln!(gate.lines("", &path("lines")).unwrap(), "a").unwrap();
        assert_eq!(fs::read(path("lines")).unwrap(), b"a\n");
        gate.lines("", &path("link")).unwrap_err();
        assert_eq!(fs::read(path("precious")).unwrap(), b"precious");
    }
}
