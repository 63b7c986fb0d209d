//! Reading a load or a result, a batch of requests at a time.
//!
//! Results are in the order of completion, and files break off: requests are sorted, and those
//! before the break are returned.

use std::io;
use std::path::Path;

use super::line::TOO_LONG;
use super::state::State;
use crate::batch::Batch;
use crate::compression::{self, Positioned};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::formats::import::Fault;
use crate::header::Header;
use crate::order::Sorter;
use crate::stacked::Watch;
use crate::stream::Source;
use crate::text::{Line, LineReader};
use crate::units::counted;
use crate::wording::Wording;

/// Reads a load or a result.
pub fn open<R: Positioned + Send + 'static>(
    input: R,
    path: &Path,
    options: &ReadOptions,
) -> Result<Box<dyn Source>, TraceError> {
    let mut reader = Reader {
        lines: LineReader::new(input),
        state: State::new(path, options.strict),
        batch: Batch::default(),
        sorter: Sorter::new(options.order),
        watch: Watch::default(),
        ended: false,
    };
    // The columns are known with the first request.
    reader.fill(1)?;
    if reader.batch.is_empty() {
        let found = if let Some(damage) = &reader.state.header.damage {
            format!("no request could be read: {damage}")
        } else {
            let lines = counted(reader.lines.number(), "line");
            format!("there is no request in its {lines}")
        };
        return Err(TraceError::Unusable {
            path: path.to_owned(),
            reason: found,
            remedy: "a load has lines like '0.449518165 ; 37766917 ; 14 ; W ; 0.0 ; 0.0'".into(),
        });
    }
    Ok(Box::new(reader))
}

/// A load or a result that is being read.
struct Reader<R> {
    lines: LineReader<R>,
    state: State,
    /// Requests in the order of the file.
    batch: Batch,
    sorter: Sorter,
    /// Loads do not name the device of a request, so requests of stacked devices look like
    /// duplicates.
    watch: Watch,
    ended: bool,
}

impl<R: Positioned> Reader<R> {
    /// Reads lines until the batch holds `rows` requests or nothing follows.
    fn fill(&mut self, rows: usize) -> Result<(), TraceError> {
        while self.batch.len() < rows {
            match self.lines.next_line() {
                Ok(Some((Line::Text(line), number))) => {
                    self.state.line(line, number, &mut self.batch)?;
                }
                Ok(Some((Line::TooLong(line), number))) => {
                    self.state.lose(line, number, &OVERLONG)?;
                }
                Ok(None) => {
                    self.ended = true;
                    return Ok(());
                }
                Err(error) => {
                    self.ended = true;
                    return self.break_off(error);
                }
            }
        }
        Ok(())
    }

    /// Notes that the file breaks off; an error if reading is strict.
    fn break_off(&mut self, error: io::Error) -> Result<(), TraceError> {
        let state = &mut self.state;
        let Some(damage) = compression::damage(&error) else {
            return Err(TraceError::read(&state.path, error));
        };
        let offset = self.lines.get_ref().position();
        if state.strict {
            return Err(TraceError::Binary {
                path: state.path.clone(),
                offset,
                reason: damage,
                remedy: Wording::from("get the file again, or read what there is without ")
                    .setting("strict"),
            });
        }
        state.header.damage = Some(format!(
            "{damage} at byte {offset}, behind line {} and {}",
            self.lines.number(),
            counted(state.requests, "request")
        ));
        Ok(())
    }
}

const OVERLONG: Fault = Fault::lost(1, TOO_LONG, "the line is longer than 64 KiB");

impl<R: Positioned + Send> Source for Reader<R> {
    fn header(&self) -> &Header {
        &self.state.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.state.header.columns);
        while !self.sorter.give(batch, self.ended)? {
            if self.ended {
                self.watch.note(&mut self.state.header.guesses);
                return Ok(false);
            }
            self.fill(crate::batch::BATCH_ROWS)?;
            self.sorter.feed(&mut self.batch)?;
            if self.ended {
                self.state.note(self.lines.number());
                self.sorter.note(&mut self.state.header.guesses);
            }
        }
        self.state.note(self.lines.number());
        self.watch.look(batch);
        Ok(true)
    }
}
