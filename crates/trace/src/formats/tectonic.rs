//! Meta's traces of Tectonic, the storage below its warehouse, as published with Baleen (FAST '24)
//! and by cache research since.
//!
//! Lines of numbers with blanks between, in three layouts: that of 2019 with eight columns, 2021
//! with nine, 2023 with ten. A comment (`# block_id io_offset io_size op_time op_name …`) names
//! them where it was kept; else their number tells. A line of the later two may stand for several
//! requests of one second (`op_count`).
//!
//! There is no device: a request names a block of at most 8 MiB, in 2023 together with its shard,
//! and an offset in it. Blocks are placed by [`Slots`]. Instants are whole seconds mostly.

use super::import::{
    self, Blanks, Delimited, Epoch, Facts, Fault, Intake, Look, Slots, Told, looks_delimited,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::stream::Opened;
use crate::units::{Bytes, Nanos};

/// Meta's traces of Tectonic.
pub const FORMAT: Format = Format {
    name: "tectonic",
    title: "Meta's traces of Tectonic (Baleen)",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open,
};

/// The largest block, in bytes, and the distance at which blocks are placed.
const BLOCK_BYTES: u64 = 8 << 20;
const SLOTS: Slots = Slots::new(23);

/// The largest number of requests that a line may stand for, so that a wrong count does not fill
/// the memory.
const COUNT_MAX: u64 = 65_536;

const PLACED: Topic<'static> = NoteKind::Place
    .of("requests to blocks without an address, placed by a hash of block and shard \
         in slots of 8 MiB");
const REPEATED: Topic<'static> =
    NoteKind::Instant.of("requests that are repetitions within a second of the one recorded");

/// Instants before 2000 do not count from 1970.
const YEAR_2000_NS: i64 = 946_684_800_000_000_000;

/// The places of the columns behind the first five, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    columns: usize,
    shard: Option<usize>,
    count: Option<usize>,
}

impl Layout {
    const YEAR_2019: Self = Self { columns: 8, shard: None, count: None };
    const YEAR_2021: Self = Self { columns: 9, shard: None, count: Some(8) };
    const YEAR_2023: Self = Self { columns: 10, shard: Some(7), count: Some(8) };

    /// The layout of a line with this number of columns.
    const fn of_columns(columns: usize) -> Option<Self> {
        match columns {
            8 => Some(Self::YEAR_2019),
            9 => Some(Self::YEAR_2021),
            10 => Some(Self::YEAR_2023),
            _ => None,
        }
    }

    /// The layout that a comment names; `None` if `line` is no such comment.
    fn of_comment(line: &[u8]) -> Option<Self> {
        let line = line.strip_prefix(b"#").unwrap_or(line);
        let names: Vec<_> = line
            .split(u8::is_ascii_whitespace)
            .filter(|name| !name.is_empty())
            .take(COLUMNS_MAX)
            .collect();
        let first: [&[u8]; 5] = [b"block_id", b"io_offset", b"io_size", b"op_time", b"op_name"];
        let find = |name: &[u8]| names.iter().position(|found| *found == name);
        names.starts_with(&first).then(|| Self {
            columns: names.len(),
            shard: find(b"rs_shard_id"),
            count: find(b"op_count"),
        })
    }
}

/// The largest number of columns that are looked at.
const COLUMNS_MAX: usize = 16;

/// The values of a line.
struct Row {
    block: u64,
    offset: u64,
    /// The shard and the count, if the layout has them.
    shard: u64,
    count: u64,
    /// The request, without its place.
    request: Request,
}

#[inline]
fn parse(line: &[u8], layout: Option<Layout>) -> Result<Row, Fault> {
    let mut fields = Blanks::new(line);
    let block = fields.integer("the block is no number")?;
    let offset = fields.integer("the offset is no number of bytes")?;
    let length = fields.integer("the size is no number of bytes")?;
    let issue = fields.decimal(1_000_000_000, "the time is no number of seconds")?;
    let column = fields.column();
    let op = match fields.integer("the operation is no number")? {
        // Reads of temporary, permanent and not yet initialised blocks; and writes of them.
        1 | 2 | 5 => Op::Read,
        3 | 4 | 6 => Op::Write,
        _ => return Err(Fault::junk(column, "the operation is none of 1 to 6")),
    };
    let mut others: [(usize, &[u8]); COLUMNS_MAX] = [(0, &[]); COLUMNS_MAX];
    let mut columns = 5;
    while !fields.is_at_end() {
        if columns == COLUMNS_MAX {
            return Err(Fault::junk(fields.column(), "there are more than 16 columns"));
        }
        others[columns] = (fields.column(), fields.text()?);
        columns += 1;
    }
    let layout = layout.or_else(|| Layout::of_columns(columns)).filter(|l| l.columns == columns);
    let layout = layout.ok_or(Fault::junk(1, "the line has too few columns or too many"))?;
    let number = |index: Option<usize>, default: u64| {
        let Some(index) = index else { return Ok(default) };
        let (column, text) = others[index];
        Blanks::new(text).integer("it is no number").map_err(|fault| Fault { column, ..fault })
    };
    let (shard, count) = (number(layout.shard, 0)?, number(layout.count, 1)?);
    let request = Request::new(Nanos(issue), op, Bytes::ZERO, Bytes(length));
    Ok(Row { block, offset, shard, count, request })
}

fn open(opening: Opening<'_>) -> Opened {
    let first_bytes = opening.stream.first_bytes();
    let mut layout = None;
    let mut instants = Vec::new();
    for line in first_bytes.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        layout = Layout::of_comment(line).or(layout);
        instants.extend(parse(line, layout).map(|row| row.request.issue.0));
    }
    let is_unix = instants.iter().all(|issue| *issue >= YEAR_2000_NS);
    let facts = Facts {
        format: "Meta Tectonic trace",
        columns: Columns::default(),
        epoch: if is_unix { Epoch::Unix } else { Epoch::Unknown },
        whole_seconds: instants.iter().all(|issue| issue % 1_000_000_000 == 0),
    };
    let remedy = "its lines look like '1508640235 0 131072 1571070000 2 0 3 17', \
                  with eight to ten columns";
    import::lines(opening, Parser::default(), facts, remedy)
}

#[derive(Default)]
struct Parser {
    /// The layout that a comment named.
    layout: Option<Layout>,
    repeated: u64,
}

impl Delimited for Parser {
    type Row<'a> = Row;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<Row, Fault> {
        parse(line, self.layout)
    }

    fn look(&self, _line: &[u8], row: &Row) -> Look {
        let end = row.offset.saturating_add(row.request.length.0);
        if end <= BLOCK_BYTES { Look::Request } else { Look::Strange }
    }

    fn other(&mut self, line: &[u8]) -> Look {
        let found = Layout::of_comment(line);
        self.layout = found.or(self.layout);
        match found {
            Some(_) => Look::Header,
            None if line.starts_with(b"#") || line.starts_with(b"block_id") => Look::Other,
            None => Look::Strange,
        }
    }

    #[inline]
    fn give(&mut self, row: Row, intake: &mut Intake) -> Result<(), Fault> {
        if row.count == 0 {
            let reason = "the count is zero";
            return Err(Fault::lost(1, "lines that stand for no request", reason));
        }
        if row.count > COUNT_MAX {
            return Err(Fault::lost(
                1,
                "lines that stand for more than 65,536 requests",
                "the count is not to be believed",
            ));
        }
        let place = SLOTS.of_numbers(row.block, row.shard);
        let offset = place.0.checked_add(row.offset).ok_or(Fault::lost(
            1,
            "requests that reach beyond 64-bit addresses",
            "the offset is too large",
        ))?;
        let request = Request { offset: Bytes(offset), ..row.request };
        for _ in 0..row.count {
            intake.push(&request)?;
        }
        self.repeated += row.count.saturating_sub(1);
        Ok(())
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(true, PLACED);
        told.guesses.add(REPEATED, self.repeated, None);
    }
}
