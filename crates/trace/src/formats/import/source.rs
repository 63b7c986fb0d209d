//! The source that a parser becomes.

use std::path::Path;

use super::seconds::{self, Seconds, WholeSeconds};
use super::{Epoch, Facts, Intake, Told};
use crate::batch::{BATCH_ROWS, Batch};
use crate::calendar;
use crate::error::TraceError;
use crate::formats::{ReadOptions, idle};
use crate::header::{Header, NoteKind, Topic, Volume};
use crate::order::Sorter;
use crate::stream::Source;
use crate::units::counted;
use crate::wording::Wording;

/// Nanoseconds since 1970 of 2001-09-09, when the seconds got a tenth digit. No trace is as long.
const UNIX_NS: i64 = 1_000_000_000_000_000_000;

/// The guess that instants from `UNIX_NS` on count from 1970.
pub(super) const AS_UNIX: Topic<'static> = NoteKind::Assumed
    .of("traces whose instants are taken as counted since 1970, because \
         they lie beyond 2001");

/// The note on a request that was issued before the trace began.
pub(super) const BEGAN_EARLIER: Topic<'static> = NoteKind::Assumed
    .of("traces that were made to begin with their first \
         request, which was issued before the recording began");

/// Reads a file piece by piece.
pub(in crate::formats) trait Feed: Send {
    /// The noun for the parts of the file: lines, records.
    const UNIT: &'static str;

    /// Reads until `intake` holds `rows` requests; answers `false` when nothing follows.
    fn fill(&mut self, intake: &mut Intake, rows: usize) -> Result<bool, TraceError>;

    /// Adds what was lost and guessed so far.
    fn tell(&self, told: &mut Told);

    /// The number of units that were read.
    fn units(&self) -> u64;
}

impl Intake {
    /// Notes that the file breaks off at byte `offset` of the stored file. If reading is strict,
    /// the break is an error.
    pub(super) fn break_off(&mut self, damage: String, offset: u64) -> Result<(), TraceError> {
        if self.strict {
            return Err(TraceError::Binary {
                path: self.path.clone(),
                offset,
                reason: damage,
                remedy: Wording::from("get the file again, or read what there is without ")
                    .setting("strict"),
            });
        }
        let requests = counted(self.requests, "request");
        self.header.damage = Some(format!("{damage} at byte {offset}, behind {requests}"));
        Ok(())
    }
}

/// A file that is being read.
pub(in crate::formats) struct Imported<F> {
    feed: F,
    intake: Intake,
    sorter: Sorter,
    /// Gives requests their places in whole seconds; `None` if the instants are finer.
    seconds: Option<Seconds>,
    /// Sorted requests on their way to `seconds`.
    sorted: Batch,
    epoch: Epoch,
    /// The instant that is subtracted from every instant; `None` until it is known.
    start: Option<i64>,
    ended: bool,
}

impl<F: Feed> Imported<F> {
    pub(in crate::formats) fn open(
        feed: F,
        path: &Path,
        options: &ReadOptions,
        facts: Facts,
        remedy: impl Into<Wording>,
    ) -> Result<Box<dyn Source>, TraceError>
    where
        F: 'static,
    {
        if facts.whole_seconds && options.whole_seconds == WholeSeconds::Refuse {
            return Err(TraceError::Unusable {
                path: path.to_owned(),
                reason: format!("{} knows no more than the second of a request", facts.format),
                remedy: seconds::remedy(),
            });
        }
        if options.all_apply && !facts.whole_seconds && idle::is_chosen(options.whole_seconds) {
            let why = "its instants are known better than to the second";
            return Err(idle::error(path, "whole-seconds", why));
        }
        let intake = Intake::new(path, options.strict, &facts);
        let mut source = Self {
            feed,
            intake,
            sorter: Sorter::new(options.order),
            seconds: facts.whole_seconds.then(|| Seconds::new(options.whole_seconds)),
            sorted: Batch::default(),
            epoch: facts.epoch,
            start: None,
            ended: false,
        };
        // A file without a request is refused here, instead of becoming an empty trace.
        source.read(1)?;
        if source.intake.requests == 0 {
            let found = match &source.intake.header.damage {
                Some(damage) => format!("no request could be read: {damage}"),
                None => format!("there is no request in its {} {}", source.feed.units(), F::UNIT),
            };
            return Err(TraceError::Unusable {
                path: path.to_owned(),
                reason: found,
                remedy: remedy.into(),
            });
        }
        Ok(Box::new(source))
    }

    fn read(&mut self, rows: usize) -> Result<(), TraceError> {
        let more = self.feed.fill(&mut self.intake, rows)?;
        if let Some(seconds) = &mut self.seconds {
            seconds.see(&self.intake.batch);
        }
        self.sorter.feed(&mut self.intake.batch)?;
        let mut told = Told::of(self.intake.requests);
        self.feed.tell(&mut told);
        self.intake.learn(&told, F::UNIT, self.feed.units());
        if !more {
            self.ended = true;
            let header = &mut self.intake.header;
            if header.volumes.is_empty() {
                header.volumes.push(Volume::default());
            }
        }
        Ok(())
    }

    /// The instant at which the trace begins, on the format's clock, if its first request was
    /// issued at `first`.
    #[cold]
    fn start_of(&mut self, first: i64) -> i64 {
        let header = &mut self.intake.header;
        let is_unix = match self.epoch {
            Epoch::Unix => true,
            Epoch::StartOrUnix if first >= UNIX_NS => {
                header.guesses.add(AS_UNIX, 1, None);
                true
            }
            Epoch::Start | Epoch::StartOrUnix if first < 0 => {
                let before = first.unsigned_abs();
                header.guesses.add(BEGAN_EARLIER, 1, Some(format!("{before} ns before")));
                return first;
            }
            Epoch::Start | Epoch::StartOrUnix => return 0,
            Epoch::Unknown => false,
        };
        if is_unix {
            header.started = Some(calendar::rfc3339(first));
        }
        first
    }

    /// Gives the next requests in order.
    fn next_sorted(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.intake.header.columns);
        while !self.sorter.give(batch, self.ended)? {
            if self.ended {
                self.sorter.note(&mut self.intake.header.guesses);
                return Ok(false);
            }
            self.read(BATCH_ROWS)?;
        }
        // The note is taken with every batch, so that a trace that is read in part has it too.
        self.sorter.note(&mut self.intake.header.guesses);
        Ok(true)
    }

    /// Gives the next requests in their places in whole seconds.
    fn next_placed(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if self.seconds.is_none() {
            return self.next_sorted(batch);
        }
        // Taken out and put back later, because reading needs the whole of `self`.
        let mut sorted = std::mem::take(&mut self.sorted);
        batch.reset(self.intake.header.columns);
        let result = loop {
            if self.seconds.as_mut().is_some_and(|seconds| seconds.give(batch, false)) {
                break Ok(true);
            }
            let more = self.next_sorted(&mut sorted);
            let Some(seconds) = &mut self.seconds else { break more };
            match more {
                Ok(true) => seconds.feed(&mut sorted),
                Ok(false) => break Ok(seconds.give(batch, true)),
                Err(error) => break Err(error),
            }
        };
        if let Some(seconds) = &mut self.seconds {
            seconds.note(&mut self.intake.header.guesses);
        }
        self.sorted = sorted;
        result
    }
}

impl<F: Feed> Source for Imported<F> {
    fn header(&self) -> &Header {
        &self.intake.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if !self.next_placed(batch)? {
            return Ok(false);
        }
        let start = match self.start {
            Some(start) => start,
            None => self.start_of(batch.issue_ns()[0]),
        };
        self.start = Some(start);
        if start != 0 {
            for issue in &mut batch.issue_ns {
                *issue = issue.saturating_sub(start);
            }
        }
        Ok(true)
    }
}
