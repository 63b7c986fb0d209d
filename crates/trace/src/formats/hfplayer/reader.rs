//! Reading the lines.

use super::layout::{Column, Layout, Row};
use super::numbers::{FAR, quantity, time};
use super::pairs::Pairs;
use super::parents::Parents;
use crate::batch::Columns;
use crate::calendar;
use crate::formats::described::number;
use crate::formats::import::{Fault, Intake, LineParser, Said, Told};
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::units::{Bytes, Nanos};

/// The loss of requests that are neither reads nor writes.
pub(super) const OTHER_OPS: &str = "requests that neither read nor write";

/// The guess where two columns contradict each other.
pub(super) const CONTRADICTIONS: Topic<'static> =
    NoteKind::Assumed.of("requests whose OP contradicts their CMD, taken as OP says");

/// The state while lines are read.
#[derive(Default)]
pub(super) struct Parser {
    layout: Option<Layout>,
    pairs: Pairs,
    begun: bool,
    contradictions: u64,
    /// The reader of annotations, where they were asked for.
    annotated: Option<Parents>,
    wants_annotations: bool,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        if line[0] == b'#' {
            return Ok(self.comment(line, intake));
        }
        let Some(layout) = &self.layout else {
            return Err(Fault::junk(1, "no header line with the names of the columns before it"));
        };
        let Some(row) = layout.row(line) else {
            return Err(Fault::junk(line.len(), "there are fewer columns than the header names"));
        };
        let issue = time(row.get(Column::Elapsed), line, "the elapsed time is no number")?;
        let command = row.get(Column::Command);
        let is_completion = match command {
            b"" => row.get(Column::Phase) == b"1",
            command => ends_with(command, b"_OUT"),
        };
        if is_completion {
            let sequence = quantity(row.get(Column::Sequence), line, "there is no SEQID")?;
            self.pairs.complete(sequence, issue, intake)?;
            return Ok(Said::Request);
        }
        let op = self.op(&row)?;
        let sector = quantity(row.get(Column::Sector), line, "the LBA is no whole number")?;
        let sectors = quantity(row.get(Column::Sectors), line, "NBLKS is no whole number")?;
        let offset = Bytes::from_sectors(sector).ok_or(FAR)?;
        let length = Bytes::from_sectors(sectors).ok_or(FAR)?;
        let mut request = Request::new(issue, op, offset, length);
        let latency = row.get(Column::Latency);
        if !latency.is_empty() {
            let latency = time(latency, line, "the latency is no number")?;
            request.latency = (latency > Nanos::ZERO).then_some(latency);
        }
        let mut sequence = None;
        if request.latency.is_none() && ends_with(command, b"_IN") {
            let text = row.get(Column::Sequence);
            if !text.is_empty() {
                sequence = Some(quantity(text, line, "SEQID is no whole number")?);
            }
        }
        if !self.begun {
            self.begun = true;
            begin(&row, issue, intake);
        }
        request.volume = intake.volume(row.get(Column::Volume))?;
        if let Some(parents) = &mut self.annotated {
            // The program that annotated the trace had paired arrivals and completions before.
            let dependency =
                parents.read(row.get(Column::Offset), row.get(Column::Parents), line)?;
            intake.push_linked(&request, dependency)?;
            return Ok(Said::Request);
        }
        self.pairs.arrive(request, sequence, intake)?;
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        self.pairs.end(intake);
    }

    fn tell(&self, told: &mut Told) {
        told.guesses.add(CONTRADICTIONS, self.contradictions, None);
    }
}

impl Parser {
    /// Reads the parents of each request if it `wants_annotations`.
    pub(super) fn new(wants_annotations: bool) -> Self {
        Self { wants_annotations, ..Self::default() }
    }

    /// Handles a header that names parents: they are read, or noted as lost.
    fn annotations(&mut self, layout: &Layout, intake: &mut Intake) {
        if !self.wants_annotations {
            let what = NoteKind::Beside
                .of("columns that say which requests wait for which (DEP_PARENT_LIST)");
            intake.header.losses.add(what, 1, None);
        } else if !layout.has(Column::Offset) {
            let what = NoteKind::Beside.of(
                "columns that say which requests wait for which (DEP_PARENT_LIST), by numbers that \
                 no column DUMP_OFFSET says",
            );
            intake.header.losses.add(what, 1, None);
        } else if intake.requests() == 0 {
            let columns = intake.header.columns;
            intake.set_columns(Columns { dependencies: true, ..columns });
            self.annotated = Some(Parents::default());
        }
    }

    /// A line that begins with `#`: a header, also a further one, or a comment.
    #[cold]
    fn comment(&mut self, line: &[u8], intake: &mut Intake) -> Said {
        if let Some(layout) = Layout::of_header(line) {
            if layout.has(Column::Parents) && self.layout.is_none() {
                self.annotations(&layout, intake);
            }
            self.layout = Some(layout);
        }
        Said::Other
    }

    /// The operation: by its number, as hfplayer itself goes, or else by its name.
    #[inline]
    fn op(&mut self, row: &Row<'_>) -> Result<Op, Fault> {
        let by_name = match row.get(Column::Command) {
            [b'R' | b'r', b'D' | b'd', ..] => Some(Op::Read),
            [b'W' | b'w', b'R' | b'r', ..] => Some(Op::Write),
            _ => None,
        };
        let by_number = match row.get(Column::Op) {
            b"0" => Some(Op::Read),
            b"1" => Some(Op::Write),
            b"" => by_name,
            _ => None,
        };
        if let (Some(name), Some(number)) = (by_name, by_number)
            && name != number
        {
            self.contradictions += 1;
        }
        by_number.ok_or(Fault::lost(1, OTHER_OPS, "OP is neither 0 nor 1"))
    }
}

/// Notes the start of the trace, if the file tells it: the wall clock of a request minus the
/// elapsed time, to the millisecond.
fn begin(row: &Row<'_>, issue: Nanos, intake: &mut Intake) {
    let instant = number::scaled(row.get(Column::Absolute), 1_000_000_000).unwrap_or(0);
    // A clock that would have started before 1970, or a zero, is ignored.
    if instant > issue.0 {
        let ms = (instant - issue.0) / 1_000_000;
        intake.header.started = Some(calendar::rfc3339(ms * 1_000_000));
    }
}

fn ends_with(word: &[u8], end: &[u8]) -> bool {
    word.len() >= end.len() && word[word.len() - end.len()..].eq_ignore_ascii_case(end)
}
