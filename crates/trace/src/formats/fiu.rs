//! The traces of Florida International University (SNIA IOTTA): home directories, mail and web
//! servers (`IODedup`), and the machines of `SRCMap`.
//!
//! Lines of `ts pid process lba size op major minor md5` with blanks between: nanoseconds since the
//! host's start, sectors, `R` or `W`, the device, and a digest of the content, which no request
//! keeps. The files are called `*.blkparse` and are none.

use super::import::{self, Blanks, Delimited, Epoch, Facts, Fault, Intake, Told, looks_delimited};
use super::{Format, Several};
use crate::batch::Columns;
use crate::header::NoteKind;
use crate::request::{Origin, Request};
use crate::units::{Nanos, SECTOR, VolumeId};

/// Traces of Florida International University.
pub const FORMAT: Format = Format {
    name: "fiu",
    title: "traces of Florida International University (IODedup, SRCMap)",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "FIU trace",
            columns: Columns { origin: true, ..Columns::default() },
            epoch: Epoch::Unknown,
            whole_seconds: false,
        };
        let remedy = "its lines look like '89967404265337 4253 nfsd 508516672 8 W 6 0 \
                      88b93b628d84082186026d9da044f173'";
        import::lines(opening, Parser::default(), facts, remedy)
    },
};

/// The values of a line.
#[derive(Debug)]
struct Row<'a> {
    pid: u32,
    process: &'a [u8],
    major: u64,
    minor: u64,
    has_digest: bool,
    request: Request,
}

#[inline]
fn parse(line: &[u8]) -> Result<Row<'_>, Fault> {
    let mut fields = Blanks::new(line);
    let issue = fields.decimal(1, "the timestamp is no number of nanoseconds")?;
    let column = fields.column();
    let pid = fields.integer("the process is no number")?;
    let pid = u32::try_from(pid)
        .map_err(|_| Fault::junk(column, "the process is no number of 32 bits"))?;
    let process = fields.text()?;
    match behind_process(fields, pid, process, issue) {
        Ok(row) => Ok(row),
        Err(fault) => behind_blanks(fields, pid, process, issue).ok_or(fault),
    }
}

/// Parses a line; `fields` are the columns after the name of the process.
#[inline]
fn behind_process<'a>(
    mut fields: Blanks<'a>,
    pid: u32,
    process: &'a [u8],
    issue: i64,
) -> Result<Row<'a>, Fault> {
    let offset = fields.blocks(SECTOR, "the address is no number of sectors")?;
    let length = fields.blocks(SECTOR, "the size is no number of sectors")?;
    let op = fields.op()?;
    let major = fields.integer("the device is no number")?;
    let minor = fields.integer("the device is no number")?;
    let has_digest = !fields.is_at_end();
    if has_digest {
        let column = fields.column();
        if !fields.text()?.iter().all(u8::is_ascii_hexdigit) {
            return Err(Fault::junk(column, "the digest is no hexadecimal number"));
        }
    }
    fields.end()?;
    let request = Request::new(Nanos(issue), op, offset, length);
    Ok(Row { pid, process, major, minor, has_digest, request })
}

/// As `behind_process`, if the name of the process has blanks; `first` is its first word.
#[cold]
fn behind_blanks<'a>(
    mut fields: Blanks<'a>,
    pid: u32,
    first: &'a [u8],
    issue: i64,
) -> Option<Row<'a>> {
    // A name that the kernel keeps has at most 15 bytes.
    for _ in 0..8 {
        fields.text().ok()?;
        if let Ok(row) = behind_process(fields, pid, first, issue) {
            return Some(row);
        }
    }
    None
}

#[derive(Default)]
struct Parser {
    digests: u64,
    /// The device of the last line: most lines have the same.
    device: Option<(u64, u64, VolumeId)>,
}

impl Parser {
    #[inline]
    fn volume(&mut self, row: &Row<'_>, intake: &mut Intake) -> Result<VolumeId, Fault> {
        match self.device {
            Some((major, minor, id)) if (major, minor) == (row.major, row.minor) => Ok(id),
            _ => {
                let id = intake.volume(format!("{},{}", row.major, row.minor).as_bytes())?;
                self.device = Some((row.major, row.minor, id));
                Ok(id)
            }
        }
    }
}

impl Delimited for Parser {
    type Row<'a> = Row<'a>;

    #[inline]
    fn parse<'a>(&self, line: &'a [u8]) -> Result<Row<'a>, Fault> {
        parse(line)
    }

    #[inline]
    fn give(&mut self, row: Row<'_>, intake: &mut Intake) -> Result<(), Fault> {
        let volume = self.volume(&row, intake)?;
        intake.process(row.pid, row.process);
        let origin = Some(Origin { pid: row.pid, cpu: 0 });
        intake.push(&Request { volume, origin, ..row.request })?;
        self.digests += u64::from(row.has_digest);
        Ok(())
    }

    fn tell(&self, told: &mut Told) {
        told.losses.add(NoteKind::Beside.of("digests of content"), self.digests, None);
    }
}
