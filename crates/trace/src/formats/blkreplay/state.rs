//! The state while the lines of a file are read.
//!
//! The meaning of the last two columns, a step back of the clock and the origin of the trace follow
//! from other lines than the request's own. Whether a line is a loss depends on them too.

use std::path::{Path, PathBuf};

use super::line::{Kind, Row, TOO_FAR, TOO_LATE, ZERO_LENGTH, column_header, parse};
use super::{
    DESCRIPTION, DESCRIPTION_MARK, LICENSE, LICENSE_MARK, LOAD, OTHER_LICENSE, RESULT, SEMICOLON,
    TRANSFORM,
};
use crate::batch::{Batch, Columns};
use crate::error::TraceError;
use crate::formats::import::Fault;
use crate::header::{Header, Imported, NoteKind, Notes, Topic, Volume};
use crate::request::{Integrity, LateCause, Measured, Op, Outcome, Request};
use crate::text;
use crate::units::{Bytes, Nanos};
use crate::wording::Wording;

pub(super) const BACKSHIFTS: Topic<'static> =
    NoteKind::Assumed.of("steps back in time, the rest shifted behind them as blkreplay does");

/// The largest number of transforms that are read back.
const TRANSFORMS_MAX: usize = 1000;

/// Messages of blkreplay in the middle of a result, and the words of their notes.
pub(super) const REMARKS: [(&str, &str); 6] = [
    ("ERROR: ", "errors that blkreplay printed, which name no request"),
    ("VERIFY ERROR", "verify errors that blkreplay printed, which name no request"),
    ("VERIFY MISMATCH", "verify errors that blkreplay printed, which name no request"),
    ("WARN: cannot process sector", "requests that blkreplay did not replay"),
    ("INFO: dropping block", "requests that blkreplay did not replay"),
    ("INFO: measurement results are thus FAKE", "remarks of blkreplay that its results are fake"),
];

/// The state while lines are read.
pub(super) struct State {
    pub(super) path: PathBuf,
    pub(super) strict: bool,
    pub(super) header: Header,
    /// The kind of file, known with the first request; it decides on the columns.
    kind: Option<Kind>,
    /// The kind that the latest column header stated.
    columns: Option<Kind>,
    pub(super) requests: u64,
    /// The nanoseconds that are added to every start since the clock stepped back.
    shift: i64,
    /// The start of the request before, as the file has it.
    previous: i64,
    odd_decimals: u64,
    /// The number of latencies under a column header that calls them guessed, since the last note.
    guessed_latencies: u64,
    first_odd_decimals: Option<String>,
    other_columns: u64,
}

impl State {
    pub(super) fn new(path: &Path, strict: bool) -> Self {
        let header = Header {
            source: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            volumes: vec![Volume::default()],
            ..Header::default()
        };
        Self {
            path: path.to_owned(),
            strict,
            header,
            kind: None,
            columns: None,
            requests: 0,
            shift: 0,
            previous: i64::MIN,
            odd_decimals: 0,
            guessed_latencies: 0,
            first_odd_decimals: None,
            other_columns: 0,
        }
    }

    /// Takes a line: adds its request to `batch`, or updates the state.
    #[inline]
    pub(super) fn line(
        &mut self,
        line: &[u8],
        number: u64,
        batch: &mut Batch,
    ) -> Result<(), TraceError> {
        match parse(line).and_then(|row| self.request(line, number, &row, batch)) {
            Ok(()) => Ok(()),
            Err(fault) => self.other_line(line, number, &fault),
        }
    }

    /// Adds the request in `row`.
    #[inline]
    fn request(
        &mut self,
        line: &[u8],
        number: u64,
        row: &Row,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        let far = Fault::lost(1, TOO_FAR, "the range ends beyond 64 bits");
        let late = Fault::lost(1, TOO_LATE, "the time is too large");
        let offset = Bytes::from_sectors(row.sector).ok_or(far)?;
        let length = Bytes::from_sectors(row.sectors).ok_or(far)?;
        offset.0.checked_add(length.0).ok_or(far)?;
        if row.op == Op::Flush {
            if row.sectors != 0 {
                return Err(Fault::junk(1, "a flush has no range"));
            }
        } else if row.sectors == 0 {
            let reason = "the request covers nothing";
            return Err(Fault::lost(1, ZERO_LENGTH, reason));
        }
        let measured_kind = self.columns == Some(Kind::Result);
        let shift = if measured_kind { self.shift } else { self.shift_at(row.start, line, number) };
        let issue = row.start.checked_add(shift).ok_or(late)?;
        let offset = if row.op == Op::Flush { Bytes::ZERO } else { offset };
        let mut request = Request::new(Nanos(issue), row.op, offset, length);
        request.flags = row.flags;
        match self.columns {
            Some(Kind::Result) => {
                let submitted = issue.checked_add(row.delay).ok_or(late)?;
                let completed = match row.duration {
                    Some(duration) => Some(submitted.checked_add(duration).ok_or(late)?),
                    None => None,
                };
                request.measured = Some(Measured {
                    scheduled: Nanos(issue),
                    submitted: Some(Nanos(submitted)),
                    completed: completed.map(Nanos),
                    // The result holds the place on the target alone; the load's own is lost.
                    target_offset: Some(request.offset),
                    in_flight: 0,
                    outcome: Outcome::Ok,
                    pushed_back: row.lower_case,
                    late_cause: LateCause::None,
                    target: 0,
                    integrity: Integrity::Unchecked,
                    behind: 0,
                    flow: 0,
                });
            }
            Some(Kind::LoadWithLatency) => {
                request.latency = row.duration.map(Nanos);
                self.guessed_latencies += u64::from(row.duration.is_some());
            }
            Some(Kind::Load) | None => {}
        }
        self.previous = row.start;
        if row.decimals != 9 {
            self.odd_decimals += 1;
            self.first_odd_decimals.get_or_insert_with(|| example(number, line));
        }
        if self.requests == 0 {
            self.begin();
            batch.reset(self.header.columns);
        }
        if self.columns.unwrap_or(Kind::Load) != self.kind.unwrap_or(Kind::Load) {
            self.other_columns += 1;
        }
        self.requests += 1;
        batch.push(&request);
        Ok(())
    }

    /// The nanoseconds that are to be added to a start. As in blkreplay, a start in an earlier
    /// second than the one before begins a further load, which follows without a gap. Smaller steps
    /// back are disorder.
    #[inline]
    fn shift_at(&mut self, start: i64, line: &[u8], number: u64) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        if start < self.previous && start / SECOND < self.previous / SECOND {
            // Both are at least zero, and their sum is the last instant: no overflow.
            self.shift += self.previous - start;
            self.header.guesses.add(BACKSHIFTS, 1, Some(example(number, line)));
        }
        self.shift
    }

    /// Decides the kind of the file at the first request.
    fn begin(&mut self) {
        let kind = self.columns.unwrap_or(Kind::Load);
        self.kind = Some(kind);
        self.header.columns = Columns {
            latency: kind == Kind::LoadWithLatency,
            origin: false,
            measured: kind == Kind::Result,
            dependencies: false,
        };
        if kind == Kind::Result {
            RESULT.clone_into(&mut self.header.format);
            self.header.recorder = Some("blkreplay".to_owned());
        } else {
            LOAD.clone_into(&mut self.header.format);
        }
        if self.columns.is_none() {
            let what = NoteKind::Assumed
                .of("missing column headers, columns taken as start ; sector ; length ; op");
            self.header.guesses.add(what, 1, None);
        }
    }

    /// Takes a line that is no request: a column header, prose, or a loss.
    #[cold]
    fn other_line(&mut self, line: &[u8], number: u64, fault: &Fault) -> Result<(), TraceError> {
        let prose = memchr::memchr(b';', line).is_none();
        let line_text = line.trim_ascii();
        if let Some((_, what)) =
            REMARKS.iter().find(|(begin, _)| line_text.starts_with(begin.as_bytes()))
        {
            self.header.losses.add(NoteKind::Unreadable.of(what), 1, Some(example(number, line)));
            return Ok(());
        }
        if prose {
            if memchr::memmem::find(line, LICENSE_MARK).is_some() {
                self.header.license = Some(LICENSE.to_owned());
            }
            if line_text.starts_with(DESCRIPTION_MARK) && self.header.description.is_none() {
                self.header.description = Some(text::shown(line));
            }
            if self.requests == 0 {
                self.provenance(line_text);
            }
            return Ok(());
        }
        if let Some(kind) = column_header(line) {
            self.columns = Some(kind);
            if kind == Kind::Result && memchr::memmem::find(line, b"orig_start").is_none() {
                let what = NoteKind::Assumed
                    .of("column headers without 'orig_start' taken as those of a replay result");
                self.header.guesses.add(what, 1, Some(example(number, line)));
            }
            return Ok(());
        }
        self.lose(line, number, fault)
    }

    /// Reads the provenance that ioecho wrote above the requests.
    fn provenance(&mut self, line: &[u8]) {
        let behind = |mark: &str| line.strip_prefix(mark.as_bytes());
        let header = &mut self.header;
        if let Some(line) = behind(TRANSFORM)
            && header.transforms.len() < TRANSFORMS_MAX
        {
            let line = String::from_utf8_lossy(line).replace(SEMICOLON, ";");
            header.transforms.push(line);
        } else if let Some(description) = behind(DESCRIPTION) {
            header.description = Some(String::from_utf8_lossy(description).into_owned());
        } else if let Some(license) = behind(OTHER_LICENSE) {
            header.license = Some(String::from_utf8_lossy(license).into_owned());
        }
    }

    /// Counts a line as lost, or refuses it.
    pub(super) fn lose(
        &mut self,
        line: &[u8],
        number: u64,
        fault: &Fault,
    ) -> Result<(), TraceError> {
        if self.strict {
            return Err(TraceError::Line {
                path: self.path.clone(),
                line: number,
                column: fault.column,
                reason: fault.reason.to_owned(),
                text: text::shown(line),
                remedy: Wording::from(
                    "a request reads 'seconds ; sector ; sectors ; R or W ; seconds ; seconds'; \
                     without ",
                )
                .setting("strict")
                .text(" such lines are counted and left out"),
            });
        }
        self.header.losses.add(fault.loss, 1, Some(example(number, line)));
        Ok(())
    }

    /// Notes what was read, lost and guessed since the last time; called for every batch, so that a
    /// trace that is read in part has it too.
    pub(super) fn note(&mut self, lines: u64) {
        let unit = "lines".to_owned();
        self.header.imported = Some(Imported { unit, units: lines, requests: self.requests });
        let guesses = &mut self.header.guesses;
        guesses.add(
            NoteKind::Latency.of("latencies that the converter guessed, as the column header says"),
            std::mem::take(&mut self.guessed_latencies),
            None,
        );
        guesses.add(
            NoteKind::Assumed.of(
                "starts without nine decimals, taken as fractions (blkreplay takes 0.5 for 5 ns)",
            ),
            std::mem::take(&mut self.odd_decimals),
            self.first_odd_decimals.take(),
        );
        if self.kind == Some(Kind::Result) {
            let mut all = Notes::default();
            let what = NoteKind::Assumed
                .of("outcomes taken as success, because blkreplay does not record them");
            all.add(what, self.requests, None);
            guesses.catch_up(&all);
        }
        self.header.losses.add(
            NoteKind::Beside
                .of("requests under a column header of another kind than the first, without its \
                     columns"),
            std::mem::take(&mut self.other_columns),
            None,
        );
    }
}

/// A line as an example for a note.
fn example(number: u64, line: &[u8]) -> String {
    format!("line {number}: {}", text::shown(line))
}
