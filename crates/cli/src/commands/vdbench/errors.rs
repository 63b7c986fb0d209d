//! `errorlog.html`: what runs found wrong, and what reading their data back found.
//!
//! What a log says must not be lost when the next run in its directory knows nothing of it: data
//! that were read back are read by no report. So what was told stands beside the page in a file of
//! its own ([`TOLD`]), by who found it, and a log tells anew of those that it knows alone.

use std::fmt::{Display, Write as _};
use std::io;
use std::path::Path;

use ioecho_run::directory::RunDirectory;
use ioecho_run::verify::later::TargetFindings;
use ioecho_run::verify::result::verdict;
use ioecho_run::{regular, stored};
use ioecho_stats::run_summary::RunSummary;
use ioecho_trace::units::counted;
use serde::{Deserialize, Serialize};

use super::layout;
use crate::commands::campaign::described::{Done, Results};
use crate::exit::{self, Coded};

/// The file of what was told.
pub(super) const TOLD: &str = "errorlog.json";

/// The version of that file.
const TOLD_VERSION: u32 = 1;

/// The most findings of a target that are listed; all that are kept are in `verify.json`.
const LISTED: usize = 20;

/// The text of a log without lines.
const NONE: &str = "No errors";

/// The line behind which is what the log said before.
const BEFORE: &str = "Told before:";

/// Who found something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Source {
    /// A run, by its directory among the results: one that is measured anew is another.
    Run(String),
    /// The reading back of a target, by its path; of all together what is none's.
    ReadBack(Option<String>),
}

/// What somebody found, in the lines of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    by: Source,
    lines: Vec<String>,
}

/// What is told in a directory: the newest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllTold {
    version: u32,
    told: Vec<Told>,
}

/// The error log: what is known now.
#[derive(Default)]
pub(super) struct ErrorLog(Vec<Told>);

impl ErrorLog {
    /// What all runs of the results in a directory found.
    pub(super) fn of(results: &Results, store: &Path) -> anyhow::Result<Self> {
        let mut log = Self::default();
        for done in results.done.iter().flatten() {
            let run = RunDirectory::at(&done.run)
                .ok_or_else(|| anyhow::anyhow!("{} is no run", done.run.display()))?;
            let place = done.run.strip_prefix(store).unwrap_or(&done.run);
            log.begin(Source::Run(place.to_string_lossy().into_owned()));
            log.run(&done.name, done, &run.read_summary()?);
        }
        Ok(log)
    }

    /// What follows was found by somebody else.
    fn begin(&mut self, by: Source) {
        self.0.push(Told { by, lines: Vec::new() });
    }

    fn line(&mut self, of: &str, text: &dyn Display) {
        if let Some(told) = self.0.last_mut() {
            told.lines.push(format!("{of}; {text}"));
        }
    }

    /// The failed requests of a run, and its data that are not as they must be.
    pub(super) fn run(&mut self, name: &str, done: &Done, summary: &RunSummary) {
        let of = format!("RD={name}");
        let failed = summary.failed;
        if failed > 0 {
            self.line(&of, &format!("{} failed", counted(failed, "request")));
        }
        let Some(figures) = summary.engine.verify.as_ref().filter(|it| it.is_damaged()) else {
            return;
        };
        let kinds: Vec<String> =
            figures.damaged.iter().map(|(kind, sectors)| format!("{sectors} {kind}")).collect();
        let often = ", each as often as it was looked at";
        self.damaged(&of, figures.damaged_sectors, often, &kinds);
        if let Some(names) = figures.names_told() {
            self.line(&of, &format!("Data Validation: names not as they must be: {names}"));
        }
        self.unreadable(&of, figures.unreadable_sectors);
        let told = figures.first_findings.iter().map(|finding| finding as &dyn Display);
        self.findings(&of, told, figures.findings, &done.run.join("verify.json").display());
    }

    /// What was found when the data of all runs were read back.
    pub(super) fn read_back(&mut self, found: &[TargetFindings], file: &dyn Display) {
        let known = self.0.len();
        for one in found {
            let TargetFindings { path, complete, figures, findings, names, .. } = one;
            self.begin(Source::ReadBack(Some(path.to_string_lossy().into_owned())));
            let of = format!("Read back {}", path.display());
            if !complete {
                self.line(&of, &"Data Validation: not all data were read");
            }
            let kinds: Vec<String> = figures
                .damaged
                .iter()
                .map(|(kind, sectors)| format!("{sectors} {}", kind.name()))
                .collect();
            self.damaged(&of, figures.damaged.total(), "", &kinds);
            if !figures.damaged_names.is_empty() {
                let kinds = figures.damaged_names.iter();
                let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{n} {kind}")).collect();
                let kinds = kinds.join(", ");
                self.line(&of, &format!("Data Validation: names not as they must be: {kinds}"));
            }
            self.unreadable(&of, figures.unreadable);
            let told = names.iter().map(|name| name as &dyn Display);
            let told = told.chain(findings.iter().map(|finding| finding as &dyn Display));
            let of_names: u64 = figures.damaged_names.values().sum();
            self.findings(&of, told, figures.findings + of_names, file);
        }
        let (complete, damaged) = verdict(found);
        let is_told = self.0[known..].iter().any(|told| !told.lines.is_empty());
        if !complete && !damaged && !is_told {
            self.begin(Source::ReadBack(None));
            self.line("Read back", &"Data Validation: not verified to the end");
        }
    }

    fn damaged(&mut self, of: &str, sectors: u64, often: &str, kinds: &[String]) {
        if sectors > 0 {
            let (sectors, kinds) = (counted(sectors, "sector"), kinds.join(", "));
            self.line(of, &format!("Data Validation: {sectors} not as written{often}: {kinds}"));
        }
    }

    fn unreadable(&mut self, of: &str, sectors: u64) {
        if sectors > 0 {
            self.line(of, &format!("{} unreadable", counted(sectors, "sector")));
        }
    }

    /// The first of so many findings, and where the others are.
    fn findings<'d>(
        &mut self,
        of: &str,
        told: impl Iterator<Item = &'d dyn Display>,
        all: u64,
        file: &dyn Display,
    ) {
        let mut listed = 0;
        for finding in told.take(LISTED) {
            self.line(of, finding);
            listed += 1;
        }
        if let Some(more) = all.checked_sub(listed).filter(|more| *more > 0) {
            self.line(of, &format!("and {more} more, in {file}"));
        }
    }

    /// Its text, and what is kept of it. Behind what is known now stands what was told in the
    /// directory `before` and is not known any more.
    fn behind(self, mut before: Vec<Told>) -> (String, AllTold) {
        let mut now = self.0;
        now.retain(|told| !told.lines.is_empty());
        before.retain(|old| now.iter().all(|told| told.by != old.by));
        let lines = |all: &[Told]| {
            let lines = all.iter().flat_map(|told| &told.lines);
            lines.map(|line| layout::escaped(line) + "\n").collect::<String>()
        };
        let mut text = if now.is_empty() { format!("{NONE}\n") } else { lines(&now) };
        if !before.is_empty() {
            let _ = write!(text, "\n{BEFORE}\n{}", lines(&before));
        }
        now.append(&mut before);
        (text, AllTold { version: TOLD_VERSION, told: now })
    }

    /// Its text behind what was told in the directory of the results before, and the file of all
    /// that is told now.
    ///
    /// # Errors
    ///
    /// If what was told cannot be read: it would be lost.
    pub(super) fn text(self, store: &Path) -> anyhow::Result<(String, Vec<u8>)> {
        let (text, told) = self.behind(told_in(store)?);
        Ok((text, serde_json::to_vec(&told)?))
    }
}

/// What was told in a directory; nothing if there was no log.
fn told_in(store: &Path) -> anyhow::Result<Vec<Told>> {
    let path = store.join(TOLD);
    let why = match regular::read(&path) {
        Ok(bytes) => match stored::from_json::<AllTold>(&bytes, TOLD_VERSION) {
            Ok(all) => return Ok(all.told),
            Err(unread) => unread.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => error.to_string(),
    };
    let text = format!(
        "{} cannot be read: {why}\n  = help: it has what earlier error logs told; restore it, or \
         remove it to begin a new log",
        path.display()
    );
    Err(Coded::error(exit::TRACE, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(by: Source, line: &str) -> ErrorLog {
        let mut log = ErrorLog::default();
        log.begin(by);
        if !line.is_empty() {
            log.line("RD=a", &line);
        }
        log
    }

    #[test]
    fn what_was_told_is_told_again_behind_what_is_new_until_its_finder_tells_something_else() {
        let run = |number: u32| Source::Run(format!("cells/{number}/1"));
        let disk = || Source::ReadBack(Some("/dev/<x>".to_owned()));
        assert_eq!(log(run(1), "").behind(Vec::new()).0, "No errors\n");
        let (text, told) = log(run(1), "3 requests failed").behind(Vec::new());
        assert_eq!(text, "RD=a; 3 requests failed\n");
        // The same run, of which the same is known; then another one, which found nothing.
        let (text, told) = log(run(1), "3 requests failed").behind(told.told);
        assert_eq!(text, "RD=a; 3 requests failed\n");
        let (text, told) = log(run(2), "").behind(told.told);
        assert_eq!(text, "No errors\n\nTold before:\nRD=a; 3 requests failed\n");
        // Two runs may find the same, and both have.
        let (text, told) = log(run(2), "3 requests failed").behind(told.told);
        assert_eq!(text, "RD=a; 3 requests failed\n\nTold before:\nRD=a; 3 requests failed\n");
        let (text, told) = log(disk(), "<1> sector").behind(told.told);
        assert_eq!(text.lines().next(), Some("RD=a; &lt;1&gt; sector"));
        assert_eq!(told.told.len(), 3);
        // Read back again, the disk has other damage, or none that anybody finds now.
        let (text, told) = log(disk(), "2 sectors").behind(told.told);
        assert!(text.starts_with("RD=a; 2 sectors\n") && !text.contains("&lt;1"), "{text}");
        let (text, _) = log(disk(), "").behind(told.told);
        assert!(text.starts_with("No errors\n\nTold before:\nRD=a; 2 sectors\n"), "{text}");
    }

    #[test]
    fn what_was_told_is_kept_in_a_file_and_a_damaged_one_is_no_empty_one() {
        let home = tempfile::TempDir::new().unwrap();
        let by = Source::ReadBack(None);
        let (first, file) = log(by, "torn").text(home.path()).unwrap();
        std::fs::write(home.path().join(TOLD), &file).unwrap();
        let (second, again) = ErrorLog::default().text(home.path()).unwrap();
        assert_eq!(second, format!("No errors\n\nTold before:\n{first}"));
        assert_eq!(again, file);
        std::fs::write(home.path().join(TOLD), &file[..file.len() / 2]).unwrap();
        assert!(ErrorLog::default().text(home.path()).is_err());
    }
}
