//! A trace by its path: a file in any format, or the directory of a run, whose result is a trace.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Context;
use ioecho_replay::journal::{JournalReader, to_request};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::transform::Window;
use ioecho_trace::{Batch, Columns, Header, Source, TraceError};

use crate::args::WindowArgs;
use crate::run::directory::RunDirectory;

/// Opens the trace at `path`, cut to `window`.
pub(crate) fn trace(
    path: &Path,
    options: &ReadOptions,
    window: WindowArgs,
) -> anyhow::Result<Box<dyn Source>> {
    let source: Box<dyn Source> = match RunDirectory::at(path) {
        Some(run) if run.requests().exists() => formats::open(&run.requests(), options)?,
        Some(run) => Box::new(JournalSource::open(&run)?),
        None => formats::open(path, options)?,
    };
    if window.start.is_none() && window.duration.is_none() {
        return Ok(source);
    }
    Ok(Box::new(Window::new(source, window.start, window.duration)))
}

/// The results of a run that has not been settled, as a trace: a run that goes on, or was killed.
pub(crate) struct JournalSource {
    reader: JournalReader<BufReader<File>>,
    header: Header,
    path: std::path::PathBuf,
    ended: bool,
}

impl JournalSource {
    /// The journal in this directory.
    pub(crate) fn open(run: &RunDirectory) -> anyhow::Result<Self> {
        let path = run.journal();
        let file = File::open(&path)
            .with_context(|| format!("{} holds no results", run.path().display()))?;
        let reader = JournalReader::new(BufReader::with_capacity(1 << 20, file))
            .map_err(|error| TraceError::read(&path, error))?;
        let mut header = run.trace_header().unwrap_or_default();
        header.columns = Columns { measured: true, ..header.columns };
        Ok(Self { reader, header, path, ended: false })
    }
}

impl Source for JournalSource {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        while !batch.is_full() && !self.ended {
            match self.reader.next_record().map_err(|error| TraceError::read(&self.path, error))? {
                Some(record) => batch.push(&to_request(&record)),
                None => self.ended = true,
            }
        }
        if self.ended {
            let damaged = std::mem::take(&mut self.reader.damaged_records);
            self.header.losses.add("results cut off while they were written", damaged, None);
            let disordered = std::mem::take(&mut self.reader.disordered);
            self.header.guesses.add("results out of the order of issue", disordered, None);
        }
        Ok(!batch.is_empty())
    }
}
