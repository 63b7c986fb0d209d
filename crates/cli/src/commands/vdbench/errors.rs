//! `errorlog.html`: what runs found wrong, and what reading their data back found.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use ioecho_run::directory::RunDirectory;
use ioecho_run::verify::later::TargetFindings;
use ioecho_run::verify::result::verdict;
use ioecho_stats::run_summary::RunSummary;
use ioecho_trace::units::counted;

use super::layout;
use crate::commands::campaign::described::{Done, Results};

/// The most findings of a target that are listed; all that are kept are in `verify.json`.
const LISTED: usize = 20;

/// The text of a log without lines.
const NONE: &str = "No errors";

/// The line behind which is what the log said before.
const BEFORE: &str = "Told before:";

/// The lines of the error log.
#[derive(Default)]
pub(super) struct ErrorLog(String);

impl ErrorLog {
    /// What all runs of these results found.
    pub(super) fn of(results: &Results) -> anyhow::Result<Self> {
        let mut log = Self::default();
        for done in results.done.iter().flatten() {
            let run = RunDirectory::at(&done.run)
                .ok_or_else(|| anyhow::anyhow!("{} is no run", done.run.display()))?;
            log.run(&done.name, done, &run.read_summary()?);
        }
        Ok(log)
    }

    fn line(&mut self, of: &str, text: &dyn Display) {
        let line = format!("{of}; {text}");
        let _ = writeln!(self.0, "{}", layout::escaped(&line));
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
        self.damaged(&of, figures.damaged_sectors, &kinds);
        if let Some(names) = figures.names_told() {
            self.line(&of, &format!("Data Validation: names not as they must be: {names}"));
        }
        self.unreadable(&of, figures.unreadable_sectors);
        let told = figures.first_findings.iter().map(|finding| finding as &dyn Display);
        self.findings(&of, told, figures.findings, &done.run.join("verify.json").display());
    }

    /// What was found when the data of all runs were read back.
    pub(super) fn read_back(&mut self, found: &[TargetFindings], file: &dyn Display) {
        for one in found {
            let TargetFindings { path, complete, figures, findings, names, .. } = one;
            let of = format!("Read back {}", path.display());
            if !complete {
                self.line(&of, &"Data Validation: not all data were read");
            }
            let kinds: Vec<String> = figures
                .damaged
                .iter()
                .map(|(kind, sectors)| format!("{sectors} {}", kind.name()))
                .collect();
            self.damaged(&of, figures.damaged.total(), &kinds);
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
        if !complete && !damaged && self.0.is_empty() {
            self.line("Read back", &"Data Validation: not verified to the end");
        }
    }

    fn damaged(&mut self, of: &str, sectors: u64, kinds: &[String]) {
        if sectors > 0 {
            let (sectors, kinds) = (counted(sectors, "sector"), kinds.join(", "));
            self.line(of, &format!("Data Validation: {sectors} not as written: {kinds}"));
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

    /// Its text, behind which stands what the log said `before` and nothing says any more: reading
    /// data back found it, and a later run knows nothing of that.
    pub(super) fn text(self, before: &str) -> String {
        let mut text = if self.0.is_empty() { format!("{NONE}\n") } else { self.0 };
        let is_told = |line: &&str| !line.is_empty() && ![NONE, BEFORE].contains(line);
        let lost: Vec<&str> = {
            let now: BTreeSet<&str> = text.lines().collect();
            before.lines().filter(is_told).filter(|line| !now.contains(line)).collect()
        };
        if !lost.is_empty() {
            let _ = writeln!(text, "\n{BEFORE}\n{}", lost.join("\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_told_again_behind_what_is_new_and_once() {
        let log = |line: &str| {
            let mut log = ErrorLog::default();
            if !line.is_empty() {
                log.line("RD=a", &line);
            }
            log
        };
        assert_eq!(log("").text(""), "No errors\n");
        let first = log("3 requests failed").text("No errors\n");
        assert_eq!(first, "RD=a; 3 requests failed\n");
        let page = layout::page("errorlog", &first);
        let second = log("").text(layout::body(&page));
        assert_eq!(second, "No errors\n\nTold before:\nRD=a; 3 requests failed\n");
        let third = log("3 requests failed").text(&second);
        assert_eq!(third, first);
        let fourth = log("4 requests failed").text(&second);
        let expected = "RD=a; 4 requests failed\n\nTold before:\nRD=a; 3 requests failed\n";
        assert_eq!(fourth, expected);
    }
}
