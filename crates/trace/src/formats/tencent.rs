//! Tencent's cloud block storage, 2018 (SNIA IOTTA, trace set 27917): 5,584 volumes for nine days.
//!
//! Lines of `Timestamp,Offset,Size,IOType,VolumeID`: seconds since 1970, whole ones; sectors; `0`
//! for a read and `1` for a write, as opposed to most other formats with numbers. The files are
//! ordered by completion within a second or so.

use super::import::{
    self, Commas, Delimited, Epoch, Facts, Fault, Intake, Look, Numbered, OnVolume, looks_delimited,
};
use super::{Format, Several};
use crate::batch::Columns;
use crate::request::Request;
use crate::units::{Nanos, SECTOR};

/// Tencent's traces.
pub const FORMAT: Format = Format {
    name: "tencent",
    title: "Tencent's cloud block storage traces (SNIA 27917)",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "Tencent CBS trace",
            columns: Columns::default(),
            epoch: Epoch::Unix,
            whole_seconds: true,
        };
        let remedy = "its lines look like '1538323200,4247200,128,1,1058'";
        import::lines(opening, Parser::default(), facts, remedy)
    },
};

/// Instants from 2000 to 2100: five numbers in a line are little to go by.
const PLAUSIBLE_NS: std::ops::Range<i64> = 946_684_800_000_000_000..4_102_444_800_000_000_000;

#[derive(Default)]
struct Parser {
    volumes: Numbered,
}

impl Delimited for Parser {
    type Row<'a> = OnVolume;

    const NAMES: &'static [&'static str] = &["Timestamp", "Offset", "Size", "IOType"];

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<OnVolume, Fault> {
        let mut fields = Commas::new(line);
        let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
        let offset = fields.blocks(SECTOR, "the offset is no number of sectors")?;
        let length = fields.blocks(SECTOR, "the size is no number of sectors")?;
        let op = fields.op_code(0, 1)?;
        let volume = fields.integer("the volume is no number")?;
        fields.end()?;
        Ok((volume, Request::new(Nanos(issue), op, offset, length)))
    }

    fn look(&self, _line: &[u8], (_, request): &OnVolume) -> Look {
        if PLAUSIBLE_NS.contains(&request.issue.0) { Look::Request } else { Look::Strange }
    }

    #[inline]
    fn give(&mut self, row: OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        self.volumes.give(row, intake)
    }
}
