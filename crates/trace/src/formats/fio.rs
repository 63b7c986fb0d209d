//! fio's iologs, versions 2 and 3: `--write_iolog` records them and `--read_iolog` replays them.
//!
//! A line is an action on a file: `name action offset length`, in version 3 behind a stamp. Version
//! 2 has no stamps but waits, which most recorders leave out: then only the order is known. Neither
//! has latencies. When fio reads, a name ends at a blank, and a length beyond 32 bits is truncated,
//! so the writer here avoids both.
//!
//! Stamps are microseconds since the job began (`utime_since_now` in fio's `iolog.c`). According to
//! fio's documentation a wait is in microseconds since the wait before; its code takes it as
//! milliseconds since the start. The reader follows the documentation; `--time-unit` overrides the
//! unit of both.
//!
//! Format: fio's HOWTO, "Trace file format", and `iolog.c` (`read_iolog`, `log_io_u`).

mod line;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;

use self::reader::Parser;
use self::writer::Writer;
use super::import::{self, Epoch, Facts};
use super::write::{Writable, lines};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::{Sink, Source};

/// fio's iologs, as they are read.
pub const FORMAT: Format = Format {
    name: "fio",
    title: "fio's iologs, versions 2 and 3",
    several: Several::Apart,
    recognise,
    open,
};

/// fio's iolog, as it is written.
pub const WRITABLE: Writable = Writable {
    name: "fio",
    title: "fio's iolog, version 3",
    endings: &[".iolog"],
    packs: true,
    create,
};

/// The first line of version 2.
const VERSION_2: &[u8] = b"fio version 2 iolog";
/// The first line of version 3.
const VERSION_3: &[u8] = b"fio version 3 iolog";

const REMEDY: &str = "an iolog begins with 'fio version 3 iolog' and has lines like '30 /dev/sda \
                      read 0 4096'; record one with `fio --write_iolog=FILE`";

fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(VERSION_3) || first_bytes.starts_with(VERSION_2)
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "fio iolog",
        columns: Columns::default(),
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let parser = Parser::new(opening.options.time_unit_ns);
    import::lines(opening, parser, facts, REMEDY)
}

fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    lines(path, header, Writer::default())
}
