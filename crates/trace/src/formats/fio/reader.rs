//! Actions made into requests.

use super::line::parse;
use super::{VERSION_2, VERSION_3};
use crate::formats::import::{Fault, Intake, LineParser, Said, Told};
use crate::header::NoteKind;
use crate::request::{Op, Request};
use crate::units::{Bytes, Nanos};

/// Nanoseconds of the unit that fio counts in: the microsecond.
const UNIT_NS: i64 = 1_000;

/// Reads the actions of a log one by one.
pub(super) struct Parser {
    unit_ns: i64,
    /// Whether lines begin with a stamp: version 3.
    has_stamp: bool,
    /// The number of first lines (of version 2 or 3) that were seen.
    headings: u64,
    /// The instant up to which the waits of version 2 add up.
    now: i64,
    waits: u64,
    /// Whether the user gave the unit of time.
    unit_is_given: bool,
}

impl Parser {
    pub(super) fn new(unit_ns: Option<i64>) -> Self {
        Self {
            unit_ns: unit_ns.unwrap_or(UNIT_NS),
            has_stamp: true,
            headings: 0,
            now: 0,
            waits: 0,
            unit_is_given: unit_ns.is_some(),
        }
    }

    /// A number of units of time in nanoseconds.
    fn span(&self, units: u64) -> Result<i64, Fault> {
        let span = i64::try_from(units).ok().and_then(|units| units.checked_mul(self.unit_ns));
        span.ok_or(Fault::junk(1, "this instant is beyond 292 years"))
    }
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        if line.starts_with(b"fio version ") {
            match line.trim_ascii_end() {
                VERSION_2 => self.has_stamp = false,
                VERSION_3 => self.has_stamp = true,
                _ => return Err(Fault::junk(13, "fio's iologs are of version 2 or 3")),
            }
            self.headings += 1;
            return Ok(Said::Other);
        }
        let action = parse(line, self.has_stamp)?;
        let Some((offset, length)) = action.range else {
            return match action.verb {
                b"add" | b"open" | b"close" | b"unlink" => Ok(Said::Other),
                _ => Err(Fault::junk(1, "an action on a file is add, open or close")),
            };
        };
        let op = match action.verb {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"syncfs" => Op::Flush,
            b"wait" if !self.has_stamp => {
                let until = self.now.checked_add(self.span(offset)?);
                let late = Fault::junk(1, "this instant is beyond 292 years");
                self.now = until.ok_or(late)?;
                self.waits += 1;
                return Ok(Said::Request);
            }
            b"wait" => {
                let reason = "version 3 has no waits: fio ignores this line";
                return Err(Fault::lost(1, "waits in version 3", reason));
            }
            b"sync_file_range" | b"open" | b"close" | b"stat" | b"unlink" | b"mkdir" | b"rmdir" => {
                let reason = "this acts on a file and is no request to a device";
                return Err(Fault::lost(1, "actions that are no requests", reason));
            }
            _ => return Err(Fault::junk(1, "fio knows no such action")),
        };
        let issue = if self.has_stamp { self.span(action.stamp)? } else { self.now };
        let mut request = Request::new(Nanos(issue), op, Bytes(offset), Bytes(length));
        request.volume = intake.volume(action.name)?;
        intake.push(&request)?;
        Ok(Said::Request)
    }

    fn tell(&self, told: &mut Told) {
        if self.headings > 1 {
            let what = NoteKind::Assumed
                .of("further logs in the file, taken to have begun with the first");
            told.guesses.add(what, self.headings - 1, None);
        }
        if self.waits > 0 && !self.unit_is_given {
            let what = NoteKind::Unit
                .of("waits taken as microseconds since the wait before, as fio documents them");
            told.guesses.add(what, self.waits, None);
        }
    }

    fn end(&mut self, intake: &mut Intake) {
        // A wait may follow the first requests.
        if !self.has_stamp && self.waits == 0 {
            let what = NoteKind::Instant
                .of("requests without an instant (no waits), taken to be issued at once");
            let requests = intake.requests();
            intake.header.guesses.add(what, requests, None);
        }
    }
}
