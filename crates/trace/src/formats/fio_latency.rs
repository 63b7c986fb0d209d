//! fio's latency logs (`NAME_lat.1.log`), where they say offsets.
//!
//! The iolog of fio knows no latencies, and its latency log knows no offsets unless it is asked to
//! (`log_offset=1`). A line then is `time, latency, direction, block size, offset, priority` and,
//! with `log_issue_time=1`, the instant of issue. Columns have no names and depend on options, so
//! their number and their values decide:
//!
//! * 4: time, value, direction, block size (old fio);
//! * 5: these and a priority (0, 1 or hexadecimal) or, of old fio, an offset;
//! * 6: these, offset and priority, or priority and instant of issue;
//! * 7: all.
//!
//! The time is whole milliseconds of the completion: the instant of issue is the time minus the
//! latency, and as coarse. Latencies are nanoseconds since fio 3.0 and were microseconds before;
//! the log does not say which, the setting `time-unit` does.
//!
//! Format: fio's HOWTO, "Log File Formats", and `flush_samples` of its `iolog.c`.

mod columns;
#[cfg(test)]
mod tests;

use self::columns::{Columns as Places, Values};
use super::import::{self, Epoch, Facts, Fault, Intake, LineParser, Look, Said, Told};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::NoteKind;
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos};

/// fio's latency logs.
pub const FORMAT: Format = Format {
    name: "fio-lat",
    title: "fio's latency logs with offsets (log_offset=1)",
    several: Several::ByTime,
    recognise,
    open,
};

const REMEDY: &str = "run fio with `--write_lat_log=NAME --log_offset=1 --log_issue_time=1` and \
                      without log_avg_msec, and read NAME_lat.1.log";

/// Milliseconds above this value, 2001-09-09, count from 1970: no run is that long.
const UNIX_MS: u64 = 1_000_000_000_000;

fn recognise(first_bytes: &[u8]) -> bool {
    import::looks_like(first_bytes, |line| match Values::of(line) {
        Some(values) if values.is_sample() => Look::Request,
        _ => Look::Strange,
    })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let places = Places::of(opening.stream.first_bytes());
    if places.offset.is_none() {
        return Err(TraceError::Unusable {
            path: opening.path.to_owned(),
            reason: "this log of fio has no offsets: nobody knows where its requests went"
                .to_owned(),
            remedy: REMEDY.into(),
        });
    }
    let first = opening.stream.first_bytes().split(|byte| *byte == b'\n').find_map(Values::of);
    let is_unix = first.is_some_and(|values| values.numbers[0] >= UNIX_MS);
    let facts = Facts {
        format: "fio latency log",
        columns: Columns { latency: true, origin: false, measured: false, dependencies: false },
        epoch: if is_unix { Epoch::Unix } else { Epoch::Start },
        whole_seconds: false,
    };
    let unit_ns = opening.options.time_unit_ns;
    let parser = Parser { places, unit_ns: unit_ns.unwrap_or(1), unit_is_given: unit_ns.is_some() };
    import::lines(opening, parser, facts, REMEDY)
}

/// Reads the lines of the log.
struct Parser {
    places: Places,
    /// The unit of latencies in nanoseconds.
    unit_ns: i64,
    unit_is_given: bool,
}

const TOO_LARGE: Fault = Fault::junk(1, "this instant is beyond 292 years");

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let values = Values::of(line).ok_or(Fault::junk(1, "no numbers with commas between"))?;
        if values.count != self.places.count {
            return Err(Fault::junk(1, "not as many columns as the lines before"));
        }
        let place = |place: Option<usize>| place.and_then(|place| values.numbers.get(place));
        let op = match values.numbers[self.places.direction] {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Discard,
            _ => return Err(Fault::junk(1, "the direction is 0, 1 or 2")),
        };
        let span = |units: u64, unit_ns: i64| {
            i64::try_from(units).ok().and_then(|units| units.checked_mul(unit_ns)).ok_or(TOO_LARGE)
        };
        let latency = span(values.numbers[1], self.unit_ns)?;
        let issue = if let Some(issue) = place(self.places.issue) {
            span(*issue, 1)?
        } else {
            let completion = span(values.numbers[0], 1_000_000)?;
            completion.checked_sub(latency).ok_or(TOO_LARGE)?
        };
        let offset = place(self.places.offset).copied().unwrap_or_default();
        let length = values.numbers[self.places.direction + 1];
        let mut request = Request::new(Nanos(issue), op, Bytes(offset), Bytes(length));
        request.latency = Some(Nanos(latency));
        intake.push(&request)?;
        Ok(Said::Request)
    }

    fn tell(&self, told: &mut Told) {
        let what = NoteKind::Instant
            .of("instants of issue computed from completions known to the millisecond");
        told.guess_all(self.places.issue.is_none(), what);
        let what = NoteKind::Unit.of(
            "latencies taken as nanoseconds (fio before 3.0 wrote microseconds: `time-unit` us)",
        );
        told.guess_all(!self.unit_is_given, what);
    }
}
