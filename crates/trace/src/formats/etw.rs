//! Microsoft's disk events as text: the output of `xperf -a dumper` for an ETW recording, and the
//! published traces of Exchange and of production servers that were made with it.
//!
//! A heading between `BeginHeader` and `EndHeader` names the columns of every kind of event; after
//! it follow events of all kinds, in columns padded with blanks and separated by commas. Disk
//! events are printed when the request completes, in microseconds since the recording began, with
//! the duration; another event with the same address of the request (`IrpPtr`) has the issue.
//!
//! Source: xperf's own heading; SNIA IOTTA block traces 158 and its siblings.

mod fields;
mod reader;
#[cfg(test)]
mod tests;

use self::fields::Fields;
use self::reader::Parser;
use super::import::{self, Epoch, Facts, Look};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::stream::Source;

/// Disk events as xperf prints them.
pub const FORMAT: Format = Format {
    name: "etw",
    title: "Microsoft's disk events (ETW) as text",
    several: Several::Apart,
    recognise,
    open,
};

const REMEDY: &str = "a dump has lines of DiskRead and DiskWrite events: record with `xperf -on \
                      DISK_IO+DISK_IO_INIT` and print with `xperf -i FILE.etl -a dumper`";

fn recognise(first_bytes: &[u8]) -> bool {
    let mut lines = first_bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    if lines.find(|line| !line.is_empty()).is_some_and(|line| line == b"BeginHeader") {
        return true;
    }
    import::looks_like(first_bytes, |line| {
        let fields = Fields::of(line);
        match fields.get(0) {
            b"DiskRead" | b"DiskWrite" | b"DiskReadInit" | b"DiskWriteInit"
                if fields.count() >= 4 =>
            {
                Look::Request
            }
            name if is_event(name) && fields.count() >= 3 => Look::Other,
            _ => Look::Strange,
        }
    })
}

/// Whether `name` can be the name of a kind of event.
fn is_event(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b';')
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "ETW",
        columns: Columns { latency: true, origin: true, measured: false, dependencies: false },
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let unit_ns = opening.options.time_unit_ns;
    import::lines(opening, Parser::new(unit_ns), facts, REMEDY)
}
