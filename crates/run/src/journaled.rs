//! The results of a run that was not finalised, as a trace: the run goes on, or was killed.
//!
//! They are rows of one size in a journal. What is said once of all of them, the header of the
//! trace, stands in `run.toml`, which has no place for thousands of names. So a header with names
//! is kept beside the journal.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use ioecho_replay::journal::{JournalOrder, JournalReader, to_request};
use ioecho_replay::schedule::Record;
use ioecho_trace::header::{NoteKind, Notes};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Columns, Dependency, Header, Source, TraceError, VerifyMode};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{RunFacts, RunNumber, TargetEntry};
use crate::kept_links::Kept;
use crate::regular;

/// Keeps the header of the trace, if it has names that `run.toml` leaves out: a run that is killed
/// needs them to be read as a load.
pub(crate) fn keep_header(run: &RunDirectory, facts: &RunFacts) -> Result<()> {
    if facts.without_processes().trace == facts.trace {
        return Ok(());
    }
    let header = Header { run_number: Some(facts.run.to_string()), ..facts.trace.clone() };
    run.put(&run.header(), &serde_json::to_vec(&header)?)
}

/// The facts with the names that were kept.
pub(crate) fn with_header(run: &RunDirectory, facts: RunFacts) -> Result<RunFacts> {
    let path = run.header();
    let bytes = match regular::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(facts),
        Err(error) => return Err(TraceError::read(&path, error).into()),
    };
    let header: Header = serde_json::from_slice(&bytes).map_err(|error| {
        RunError::new(Kind::Trace, format!("cannot read {}: {error}", path.display()))
    })?;
    let (of, number) = (header.run_number.unwrap_or_default(), facts.run.to_string());
    if of != number {
        return Err(of_another(&path, &of, &number));
    }
    // It is the header of what is replayed, which may be another run's results.
    let trace = Header { run_number: facts.trace.run_number.clone(), ..header };
    Ok(RunFacts { trace, ..facts })
}

/// The error for a file that is another run's.
pub(crate) fn of_another(path: &Path, of: &str, run: &str) -> RunError {
    let text = format!("{} is of the run {of}, and run.toml of the run {run}", path.display());
    RunError::with_help(Kind::Trace, text, together(path))
}

/// The remedy for files that do not belong together.
pub(crate) fn together(path: &Path) -> Wording {
    Wording::from("put the files of one run together again; ")
        .command("info", path.display().to_string())
        .text(" says what this one holds by itself")
}

/// The results of a run that was not finalised, as a trace: the run goes on, or was killed.
pub struct JournalSource {
    reader: JournalReader<BufReader<File>>,
    /// What each request waits for, where that was kept.
    kept: Option<Kept>,
    header: Header,
    /// The losses of the journal itself; complete at its end.
    pub losses: Notes,
    /// The guesses about it, also complete at its end.
    pub guesses: Notes,
    path: PathBuf,
    ended: bool,
}

impl JournalSource {
    /// The journal in this directory, of the run with these facts.
    pub fn open(run: &RunDirectory, facts: &RunFacts) -> Result<Self> {
        let (path, trace) = (run.journal(), &facts.trace);
        let file = regular::open(&path).map_err(|error| no_results(run, &error))?;
        let reader = JournalReader::new(BufReader::with_capacity(1 << 20, file))
            .map_err(|error| TraceError::read(&path, error))?
            .ordered_by(order_of(facts));
        if facts.run.single() != Some(RunNumber(reader.run)) {
            let of = RunNumber(reader.run).to_string();
            return Err(of_another(&path, &of, &facts.run.to_string()));
        }
        let damage = "the run goes on or was killed; its journal holds what there is so far";
        let kept = Kept::of(run).map_err(|error| TraceError::read(&run.links(), error))?;
        // What a row says by itself is one of those that it waited for.
        let dependencies = trace.columns.dependencies && (trace.files.is_none() || kept.is_some());
        let header = Header {
            columns: Columns { measured: true, dependencies, ..trace.columns },
            damage: Some(damage.to_owned()),
            run_number: Some(facts.run.to_string()),
            ..trace.clone()
        };
        let (losses, guesses) = Default::default();
        Ok(Self { reader, kept, header, losses, guesses, path, ended: false })
    }
}

/// The order of the rows in a run's results. The lanes of flows number their requests each for
/// itself, those of one tree's threads, too, unless what they do is verified.
fn order_of(facts: &RunFacts) -> JournalOrder {
    let of_files = facts.targets.iter().any(TargetEntry::is_of_files);
    let has_threads = of_files && !facts.plan.verify.is_some_and(VerifyMode::is_on);
    let has_lanes = facts.plan.flows.is_some() && (facts.targets.len() > 1 || has_threads);
    if has_lanes { JournalOrder::Issue } else { JournalOrder::Number }
}

/// The error for a run without results.
pub(crate) fn no_results(run: &RunDirectory, error: &io::Error) -> RunError {
    let text = format!(
        "{} holds no results: {error}\n  = note: neither requests.parquet nor requests.journal \
         can be read; a process that ends before it begins to replay leaves neither",
        run.path().display()
    );
    RunError::new(Kind::Trace, text)
}

impl JournalSource {
    /// The same for whoever was not asked to read what requests wait for.
    pub(crate) fn without_links(mut self) -> Self {
        self.kept = None;
        self.header.columns.dependencies = false;
        self
    }

    /// Adds a result, with what it waits for where that was kept.
    fn push(&mut self, record: &Record, batch: &mut Batch) -> io::Result<()> {
        batch.push(&to_request(record));
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let id = record.planned.seq;
        match kept.parents(id)? {
            Some(parents) => batch.link_last(Dependency { id, think: None, parents }),
            // So late that those around it were read: nobody may rely on the links any more.
            None => self.header.files.iter_mut().for_each(|files| files.linked = false),
        }
        Ok(())
    }
}

impl Source for JournalSource {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        while !batch.is_full() && !self.ended {
            let record = self.reader.next_record();
            let pushed = record.and_then(|record| {
                self.ended = record.is_none();
                record.map_or(Ok(()), |record| self.push(&record, batch))
            });
            pushed.map_err(|error| TraceError::read(&self.path, error))?;
        }
        if self.ended {
            let damaged = std::mem::take(&mut self.reader.damaged_records);
            let disordered = std::mem::take(&mut self.reader.disordered);
            for notes in [&mut self.losses, &mut self.header.losses] {
                let what = NoteKind::Unreadable.of("results cut off while they were written");
                notes.add(what, damaged, None);
            }
            for notes in [&mut self.guesses, &mut self.header.guesses] {
                let what = NoteKind::Disordered.of("results out of the order of issue");
                notes.add(what, disordered, None);
            }
        }
        Ok(!batch.is_empty())
    }
}
