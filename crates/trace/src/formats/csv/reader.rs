//! Reading the table.

use super::columns::{
    COMPLETED, CPU, FLAG_NAMES, FLAGS, IN_FLIGHT, INTEGRITY, ISSUE, LATE_CAUSE, LATENCY, LENGTH,
    Layout, OFFSET, OP, OUTCOME, PID, PUSHED_BACK, SCHEDULED, SUBMITTED, TARGET, TARGET_OFFSET,
    VOLUME,
};
use crate::batch::Columns;
use crate::formats::described::delimited::unquoted;
use crate::formats::described::number;
use crate::formats::import::{Fault, Intake, LineParser, Said};
use crate::request::{Flags, Integrity, LateCause, Measured, Op, Origin, Outcome, Request};
use crate::units::{Bytes, Nanos};

/// The loss of a line with a negative time.
const NEGATIVE: &str = "lines with a negative time";

/// The state while rows are read.
pub(super) struct Parser {
    layout: Option<Layout>,
    columns: Columns,
    volume: bool,
}

impl Parser {
    /// Reads a file that begins with `first_bytes`.
    pub(super) fn new(first_bytes: &[u8]) -> Self {
        let layout = Layout::of_first_bytes(first_bytes);
        let columns = layout.as_ref().map_or(Columns::default(), Layout::columns);
        Self { layout, columns, volume: false }
    }

    /// The optional columns that the header line names.
    pub(super) fn columns(&self) -> Columns {
        self.columns
    }
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        // The header, also that of a further file concatenated to the first.
        if !(line[0].is_ascii_digit() || line[0] == b'-')
            && let Some(layout) = Layout::of_header(line)
        {
            self.layout = Some(layout);
            return Ok(Said::Other);
        }
        let Some(layout) = &self.layout else {
            return Err(Fault::junk(1, "no header line with the names of the columns before it"));
        };
        let Some(row) = layout.row(line) else {
            return Err(Fault::junk(line.len(), "there are fewer columns than the header names"));
        };
        let issue = span(row[ISSUE])?.ok_or(Fault::junk(1, "issue_ns is empty"))?;
        let op = op(row[OP]).ok_or(Fault::junk(1, "op is none that is known"))?;
        let offset = Bytes(whole(row[OFFSET], "offset_bytes is no whole number")?);
        let length = Bytes(whole(row[LENGTH], "length_bytes is no whole number")?);
        let mut request = Request::new(Nanos(issue), op, offset, length);
        request.flags = flags(row[FLAGS]).ok_or(Fault::junk(1, "a flag is none that is known"))?;
        request.latency = span(row[LATENCY])?.map(Nanos);
        if self.columns.origin {
            request.origin = Some(Origin { pid: small(row[PID])?, cpu: small(row[CPU])? });
        }
        if self.columns.measured {
            request.measured = measured(&row)?;
        }
        if !row[VOLUME].is_empty() || self.volume {
            self.volume = true;
            request.volume = intake.volume(&unquoted(row[VOLUME]))?;
        }
        intake.push(&request)?;
        Ok(Said::Request)
    }
}

#[inline]
fn op(name: &[u8]) -> Option<Op> {
    match name {
        b"read" => Some(Op::Read),
        b"write" => Some(Op::Write),
        name => Op::ALL.into_iter().find(|op| op.name().as_bytes() == name),
    }
}

#[inline]
fn flags(names: &[u8]) -> Option<Flags> {
    let mut flags = Flags::empty();
    if names.is_empty() {
        return Some(flags);
    }
    for name in names.split(|byte| *byte == b'|') {
        flags |= FLAG_NAMES.iter().find(|(known, _)| known.as_bytes() == name)?.1;
    }
    Some(flags)
}

fn whole(field: &[u8], reason: &'static str) -> Result<u64, Fault> {
    number::integer(field).map_err(|_| Fault::junk(1, reason))
}

/// A number of 32 bits or fewer; 0 for an empty field.
fn small<T: TryFrom<u64> + Default>(field: &[u8]) -> Result<T, Fault> {
    if field.is_empty() {
        return Ok(T::default());
    }
    let reason = "a number of a process, processor or target is none, or too large";
    T::try_from(whole(field, reason)?).map_err(|_| Fault::junk(1, reason))
}

/// A span of time, which is not negative; `None` where the field is empty.
fn span(field: &[u8]) -> Result<Option<i64>, Fault> {
    match known(field)? {
        Some(..0) => Err(Fault::lost(1, NEGATIVE, "a time is negative")),
        span => Ok(span),
    }
}

/// A whole number with a sign, or `None` where the field is empty.
#[inline]
fn known(field: &[u8]) -> Result<Option<i64>, Fault> {
    let reason = Fault::junk(1, "a time in nanoseconds is no whole number");
    let (digits, negative) = match field {
        b"" => return Ok(None),
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    let value = number::integer(digits).ok().and_then(|value| i64::try_from(value).ok());
    let value = value.ok_or(reason)?;
    Ok(Some(if negative { -value } else { value }))
}

/// The measurements of a replay; `None` in a row without a schedule.
fn measured(row: &[&[u8]; super::columns::COLUMNS]) -> Result<Option<Measured>, Fault> {
    let Some(scheduled) = known(row[SCHEDULED])? else { return Ok(None) };
    let bad = Fault::junk(1, "a code of what was measured is none that is known");
    let code = |field: &[u8]| known(field).map(Option::unwrap_or_default);
    let outcome = i32::try_from(code(row[OUTCOME])?).ok().and_then(Outcome::from_code);
    let late_cause = u8::try_from(code(row[LATE_CAUSE])?).ok().and_then(LateCause::from_code);
    let integrity = u8::try_from(code(row[INTEGRITY])?).ok().and_then(Integrity::from_code);
    let target_offset = match row[TARGET_OFFSET] {
        b"" => None,
        field => Some(Bytes(whole(field, "target_offset_bytes is no whole number")?)),
    };
    Ok(Some(Measured {
        scheduled: Nanos(scheduled),
        submitted: known(row[SUBMITTED])?.map(Nanos),
        completed: known(row[COMPLETED])?.map(Nanos),
        target_offset,
        in_flight: small(row[IN_FLIGHT])?,
        outcome: outcome.ok_or(bad)?,
        pushed_back: matches!(row[PUSHED_BACK], b"true" | b"True" | b"1"),
        late_cause: late_cause.ok_or(bad)?,
        target: small(row[TARGET])?,
        integrity: integrity.ok_or(bad)?,
        behind: 0,
        flow: 0,
    }))
}
