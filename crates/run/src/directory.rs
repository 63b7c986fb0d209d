//! The directory of a run: its files, and how they stay readable after any failure.
//!
//! A run may be killed at any moment, and its disk may fill up. So `run.toml` says `state =
//! "running"` until everything else is complete, results are appended to a journal that is readable
//! up to its last record, other files are written completely and then renamed, and a reserve of
//! disk space is held until the end for the last results. The directory is opened once and held
//! open, so that nobody can redirect its files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ioecho_linux::OpenDirectory;
use ioecho_replay::journal::JOURNAL_HEADER_BYTES;
use ioecho_stats::run_summary::{RunSummary, SUMMARY_VERSION};
use ioecho_trace::{Header, Sink, visible};

use crate::error::{Kind, Result, RunError};
use crate::facts::{RunFacts, State};
use crate::place::{refuse_stranger, trace_in};
use crate::{regular, stored};

/// Disk space reserved until the end of the run: enough for the rings' content when the disk fills.
const RESERVE_BYTES: usize = 12 << 20;

/// The open directory of a run. Files are created in it even if its path leads elsewhere by now,
/// and no link in it is followed.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
    place: OpenDirectory,
    /// Whether this process has created it: then it is trusted, whatever owner a file server
    /// reports.
    made: bool,
}

impl RunDirectory {
    /// The run in the directory `path`, if there is one.
    pub fn at(path: &Path) -> Option<Self> {
        Self::holding(path, "run.toml")
    }

    /// The directory `path`, if it holds the file that makes it what it is.
    pub(crate) fn holding(path: &Path, file: &str) -> Option<Self> {
        if !path.join(file).is_file() {
            return None;
        }
        Some(Self { path: path.to_owned(), place: OpenDirectory::at(path).ok()?, made: false })
    }

    /// Whether no request of its load has completed yet.
    pub(crate) fn has_no_results(&self) -> bool {
        let empty = JOURNAL_HEADER_BYTES as u64;
        !fs::metadata(self.journal()).is_ok_and(|journal| journal.len() > empty)
    }

    /// Creates the directory for a new run. It must be new or empty.
    pub fn create(path: &Path) -> Result<Self> {
        let name = path.display();
        let there = fs::read_dir(path).into_iter().flatten().flatten().next();
        if let Some(there) = there {
            // The message names a file, because some do not appear in a listing.
            let text = format!(
                "{name} is not empty: it holds {}\n  = help: name a new directory with -o",
                there.file_name().display()
            );
            return Err(RunError::new(Kind::Output, text));
        }
        Self::open_or_make(path)
    }

    /// Opens the directory at `path`, or makes it.
    pub(crate) fn open_or_make(path: &Path) -> Result<Self> {
        // In a directory of another user, or below one, that user could replace files by links.
        refuse_stranger(path)?;
        let make = || {
            if path.is_dir() {
                return Ok((OpenDirectory::at(path)?, false));
            }
            if let Some(above) = path.parent() {
                fs::create_dir_all(above)?;
            }
            Ok((OpenDirectory::make(path)?, true))
        };
        let (place, made) = make().map_err(|error: io::Error| {
            let text = format!("cannot make the run's directory {}: {error}", path.display());
            RunError::new(Kind::Output, text)
        })?;
        Ok(Self { path: path.to_owned(), place, made })
    }

    /// Brings the names of its files to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.place.sync()
    }

    /// The directory itself, for whoever locks it.
    pub(crate) fn as_file(&self) -> io::Result<File> {
        self.place.file().try_clone()
    }

    /// Its path, as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `run.toml`, the facts of the run.
    pub fn facts_file(&self) -> PathBuf {
        self.path.join("run.toml")
    }

    /// The results in the order of issue, once the run is finalised.
    pub fn requests(&self) -> PathBuf {
        self.path.join("requests.parquet")
    }

    /// The versions that the sectors of a target may hold, while the run verifies it.
    pub fn versions(&self, target: usize) -> PathBuf {
        self.path.join(format!("versions-{target}.table"))
    }

    /// The intended writes to a target, for a verification after the process was killed.
    pub fn intents(&self, target: usize) -> PathBuf {
        self.path.join(format!("intents-{target}.ring"))
    }

    /// What the run found of a tree of files when it began.
    pub fn names(&self, target: usize) -> PathBuf {
        self.path.join(format!("names-{target}.begin"))
    }

    /// The findings of verification.
    pub fn verify(&self) -> PathBuf {
        self.path.join("verify.json")
    }

    /// The results in the order of completion, until the run is finalised.
    pub fn journal(&self) -> PathBuf {
        self.path.join("requests.journal")
    }

    /// The header of the trace with all of its names, until the run is finalised.
    pub fn header(&self) -> PathBuf {
        self.path.join("header.json")
    }

    /// Which recorded call waits for which, until the run is finalised.
    pub(crate) fn links(&self) -> PathBuf {
        self.path.join("links.journal")
    }

    /// The figures and the verdict.
    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    /// The telemetry of the engines, if it was asked for.
    pub fn telemetry(&self) -> PathBuf {
        self.path.join("inside.jsonl")
    }

    /// The kernel's view of the run, if it was asked for.
    pub fn witness(&self) -> PathBuf {
        self.path.join("witness.parquet")
    }

    /// The page.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    fn reserve(&self) -> PathBuf {
        self.path.join(".reserve")
    }

    /// Reserves disk space.
    pub fn take_reserve(&self) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut file = self.new_file(&self.reserve())?;
            file.write_all(&vec![0xA5; RESERVE_BYTES])?;
            file.sync_data()
        };
        write().map_err(|error| {
            let _ = self.remove(&self.reserve());
            if self.made {
                let _ = fs::remove_dir(&self.path);
            }
            let text = format!(
                "no room for results in {}: {error}\n  = help: a run needs at least {} MiB and \
                 about 100 bytes per request; name another directory with -o",
                self.path.display(),
                RESERVE_BYTES >> 20
            );
            RunError::new(Kind::Output, text)
        })
    }

    /// Frees the reserve and returns whether there was one.
    pub fn free_reserve(&self) -> bool {
        self.remove(&self.reserve()).is_ok()
    }

    /// Writes `run.toml`.
    pub fn write_facts(&self, facts: &RunFacts) -> Result<()> {
        self.put(&self.facts_file(), facts.text()?.as_bytes())
    }

    /// Reads `run.toml`.
    pub fn read_facts(&self) -> Result<RunFacts> {
        let path = self.facts_file();
        let broken = |error: String| {
            RunError::new(Kind::Trace, format!("cannot read {}: {error}", path.display()))
        };
        let bytes = regular::read(&path).map_err(|error| broken(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| broken(error.to_string()))?;
        RunFacts::read(&text).map_err(|unread| broken(unread.to_string()))
    }

    /// Removes the header of the trace, and what was kept of links, if the final results have them.
    pub(crate) fn drop_kept(&self) {
        if self.requests().exists() {
            let _ = self.remove(&self.header());
            let _ = self.remove(&self.links());
        }
    }

    /// Reads `summary.json`, which a finalised run has.
    pub fn read_summary(&self) -> Result<RunSummary> {
        let path = self.summary();
        let unreadable = |reason: String| {
            RunError::new(Kind::Trace, format!("cannot read {}: {reason}", path.display()))
        };
        let text = regular::read(&path).map_err(|error| unreadable(error.to_string()))?;
        stored::from_json(&text, SUMMARY_VERSION).map_err(|unread| unreadable(unread.to_string()))
    }

    /// Writes the end of the run into `run.toml`, for a run that could not do it itself.
    pub fn mark_finalised(&self, mut facts: RunFacts, summary: &RunSummary) -> Result<()> {
        let incomplete = &summary.engine.incomplete;
        facts.state = State::ended(incomplete);
        if !incomplete.is_empty() {
            facts.reason = Some(incomplete.clone());
        }
        facts.verdict = Some(summary.verdict.clone());
        self.write_facts(&facts)?;
        self.drop_kept();
        Ok(())
    }

    /// Removes incomplete files of a killed run.
    pub fn remove_partial_files(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "partial") {
                let _ = self.remove(&entry.path());
            }
        }
    }

    /// The directory, for writing.
    fn own(&self) -> io::Result<&OpenDirectory> {
        match self.place.stranger()? {
            Some(owner) if !self.made => {
                let text = format!("the run's directory belongs to the user {owner}");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
            _ => Ok(&self.place),
        }
    }

    /// Creates a new file of the run.
    pub fn new_file(&self, file: &Path) -> io::Result<File> {
        self.own()?.create_new(file.file_name().unwrap_or_default())
    }

    /// Writes a file of the run completely, or not at all.
    pub fn put(&self, file: &Path, bytes: &[u8]) -> Result<()> {
        let name = file.file_name().unwrap_or_default();
        let put = self.own().and_then(|place| place.put(name, bytes));
        put.map_err(|error| {
            RunError::new(Kind::Output, format!("cannot write {}: {error}", file.display()))
        })
    }

    /// Writes a file of it completely, or not at all, without waiting for the disk. Nobody else may
    /// write the same at the same time.
    pub(crate) fn put_with(
        &self,
        file: &Path,
        write: impl FnOnce(File) -> io::Result<()>,
    ) -> Result<()> {
        let name = file.file_name().unwrap_or_default();
        let mut draft = name.to_owned();
        draft.push(".partial");
        let put = || -> io::Result<()> {
            let place = self.own()?;
            let _ = place.remove(&draft);
            write(place.create_new(&draft)?)?;
            place.rename(&draft, name)
        };
        put().map_err(|error| {
            let _ = self.place.remove(&draft);
            RunError::new(Kind::Output, format!("cannot write {}: {error}", file.display()))
        })
    }

    /// Creates a trace in the run's directory.
    pub fn trace(&self, file: &Path, header: &Header) -> Result<Box<dyn Sink>> {
        let place = self.own().map_err(|error| {
            RunError::new(Kind::Output, format!("cannot write {}: {error}", file.display()))
        })?;
        trace_in(place, file, header)
    }

    /// Removes a file of the run.
    pub fn remove(&self, file: &Path) -> io::Result<()> {
        self.own()?.remove(file.file_name().unwrap_or_default())
    }

    /// Adds a line with the wall-clock time to `log.txt`. If the log cannot be written, the run
    /// continues.
    pub fn log(&self, line: &str) {
        if let Ok(mut file) = self.own().and_then(|place| place.append("log.txt")) {
            let _ = writeln!(file, "{} {}", jiff::Timestamp::now(), visible::line(line));
        }
    }
}

/// The facts of the run at `path`; `None` if there is no run.
pub fn facts_of(path: &Path) -> Result<Option<RunFacts>> {
    RunDirectory::at(path).map(|run| run.read_facts()).transpose()
}

/// The directory with the results of a run that a path lies in, from its own directory upwards.
/// Somebody else may have a file `run.toml`, but none with results of ours beside it.
pub(crate) fn results_around(path: &Path) -> Option<&Path> {
    let is_run = |above: &Path| {
        let run = RunDirectory::at(above)?;
        Some(run.journal().exists() || run.requests().exists())
    };
    path.ancestors().skip(1).find(|above| is_run(above) == Some(true))
}

/// The page of a run, which can be made again.
pub const PAGE: &str = "report.html";

/// Whether a file of this name may belong to a run.
pub fn is_file_of_run(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "run.toml",
        "requests.parquet",
        "requests.journal",
        "header.json",
        "links.journal",
        "summary.json",
        "verify.json",
        "inside.jsonl",
        "witness.parquet",
        "log.txt",
        ".reserve",
        PAGE,
    ];
    let is_numbered = |begin: &str, end: &str| {
        let number = name.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let numbered = [("versions-", ".table"), ("intents-", ".ring"), ("names-", ".begin")];
    NAMES.contains(&name) || numbered.iter().any(|(begin, end)| is_numbered(begin, end))
}

/// Whether a path in the directory of a run is a file that the run itself has written, except its
/// page.
pub fn is_result(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| is_file_of_run(name) && name != PAGE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_planted_in_a_run_leads_nothing_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("precious"), "precious").unwrap();
        let run = RunDirectory::create(&path("run")).unwrap();
        for name in ["log.txt", "report.html", "report.partial", "requests.journal", ".reserve"] {
            symlink(path("precious"), path("run").join(name)).unwrap();
        }
        run.log("a line");
        run.put(&run.report(), b"page").unwrap();
        run.new_file(&run.journal()).unwrap_err();
        assert!(run.take_reserve().is_err());
        assert_eq!(fs::read(path("precious")).unwrap(), b"precious");
        assert_eq!(fs::read(run.report()).unwrap(), b"page");
        run.remove_partial_files();
        assert!(path("precious").exists());
    }

    #[test]
    fn what_is_written_goes_into_the_directory_that_was_made_wherever_its_path_leads() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let run = RunDirectory::create(&path("run")).unwrap();
        fs::rename(path("run"), path("moved")).unwrap();
        fs::create_dir(path("theirs")).unwrap();
        symlink(path("theirs"), path("run")).unwrap();
        run.log("a line");
        run.put(&run.summary(), b"{}").unwrap();
        assert!(run.trace(&run.requests(), &Header::default()).is_err());
        assert_eq!(fs::read_dir(path("theirs")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(path("moved")).unwrap().count(), 2);
    }
}
