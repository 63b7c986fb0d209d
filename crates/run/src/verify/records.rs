//! The records of a past run, with the numbers of the requests.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_replay::journal::{JournalReader, to_request};
use ioecho_replay::verify::{After, Erasing};
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::header::NoteKind;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Request, Source, TraceError};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::RunNumber;
use crate::journaled::{no_results, of_another};
use crate::{regular, results};

/// The requests of a run with their numbers, in order.
pub(super) enum Records {
    Journal { reader: JournalReader<BufReader<File>>, path: PathBuf },
    Finalised { source: Box<dyn Source>, batch: Box<Batch>, row: usize, number: u64 },
}

impl Records {
    /// Reads the journal if it exists, because it contains the numbers of the requests. In final
    /// results a number is the position of the row, provided that no row is missing: that the run
    /// is `numbered`.
    pub(super) fn open(run: &RunDirectory, run_number: u64, numbered: bool) -> Result<Self> {
        let (journal, finalised) = (run.journal(), run.requests());
        let there = match regular::open(&journal) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(TraceError::read(&journal, error).into()),
        };
        if let Some(file) = there {
            let reader = JournalReader::new(BufReader::with_capacity(1 << 20, file))
                .map_err(|error| TraceError::read(&journal, error))?;
            if reader.run != run_number {
                let [of, run] = [reader.run, run_number].map(|run| RunNumber(run).to_string());
                return Err(of_another(&journal, &of, &run));
            }
            return Ok(Self::Journal { reader, path: journal });
        }
        if !finalised.exists() {
            return Err(no_results(run, &io::ErrorKind::NotFound.into()));
        }
        let source = results::open(run, &ReadOptions::default())?;
        if !numbered || source.header().guesses.has(NoteKind::Disordered) {
            let text = format!(
                "{} was cut off, or lost results, and has been settled since: which request is \
                 which is not known any more",
                run.path().display()
            );
            let help = Wording::from("verify a run that was killed before ")
                .command("report", "")
                .text(" settles it");
            return Err(RunError::with_help(Kind::Trace, text, help));
        }
        let batch = Box::new(Batch::new(source.header().columns));
        Ok(Self::Finalised { source, batch, row: 0, number: 0 })
    }

    pub(super) fn next(&mut self) -> Result<Option<(u64, Request)>> {
        match self {
            Self::Journal { reader, path } => {
                let record = reader.next_record().map_err(|error| TraceError::read(path, error))?;
                Ok(record.map(|record| (record.planned.seq, to_request(&record))))
            }
            Self::Finalised { source, batch, row, number } => {
                if *row == batch.len() {
                    if !source.next_batch(batch)? {
                        return Ok(None);
                    }
                    *row = 0;
                }
                let request = batch.get(*row);
                *row += 1;
                *number += 1;
                Ok(Some((*number - 1, request)))
            }
        }
    }

    /// The number of damaged records, after all were read. Missing records at the end do not count:
    /// a kill leaves at most one partial record there, and a power cut any number.
    pub(super) fn damaged(&self, after: After) -> u64 {
        let Self::Journal { reader, .. } = self else { return 0 };
        let is_cut = after == After::PowerCut || reader.damaged_last <= 1;
        reader.damaged_records - if is_cut { reader.damaged_last } else { 0 }
    }
}

/// The effect of the trace's requests on data. If the trace is gone, some of them may have written
/// zeroes: zeroes then raise no alarm, and everything else still does.
pub(super) fn erasing_of(trace: Option<&Path>, stop: &AtomicBool) -> Erasing {
    let read = |path: &Path| -> Result<Erasing, TraceError> {
        let mut source = regular::trace(path, &ReadOptions::default())?;
        let mut batch = Batch::new(source.header().columns);
        let mut erasing = Erasing::Nothing;
        while erasing < Erasing::Anything && !stop.load(Relaxed) && source.next_batch(&mut batch)? {
            erasing = batch.op().iter().map(|op| Erasing::by(*op)).fold(erasing, Ord::max);
        }
        Ok(erasing)
    };
    // Anything but a regular file, such as a pipe, cannot be read a second time.
    let file = trace.filter(|path| path.is_file());
    file.and_then(|path| read(path).ok()).unwrap_or(Erasing::Zeroes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::fs;

    #[test]
    fn what_a_trace_erases_is_told_by_its_requests() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("load");
        let stop = AtomicBool::new(false);
        let told = |ops: &[char]| {
            let mut load =
                String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
            for op in ops {
                writeln!(load, "0.000000000 ; 8 ; 8 ; {op} ; 0.0 ; 0.0").unwrap();
            }
            fs::write(&path, load).unwrap();
            erasing_of(Some(&path), &stop)
        };
        assert_eq!(told(&['R', 'W']), Erasing::Nothing);
        assert_eq!(told(&['R', 'W', 'D', 'W']), Erasing::Anything);
        assert_eq!(erasing_of(Some(&directory.path().join("none")), &stop), Erasing::Zeroes);
        assert_eq!(erasing_of(None, &stop), Erasing::Zeroes);
    }
}
