//! Fujitsu's K5 cloud (SNIA IOTTA, trace set 26930): a file for each volume and day.
//!
//! Lines of `ID,Timestamp,Type,Offset,Length`: the volume, seconds from the first request of all
//! files together, `R` or `W`, bytes. (One published reader takes the length as KiB; the authors'
//! description says bytes.) The first request of a file may come days after the first of all;
//! instants are kept, so that the files of several volumes stay aligned, and the header notes how
//! late a file begins.

use super::import::{
    self, Commas, Delimited, Epoch, Facts, Fault, Intake, Numbered, OnVolume, looks_delimited,
};
use super::{Format, Several};
use crate::batch::Columns;
use crate::request::Request;
use crate::units::decimal_seconds;
use crate::units::{Bytes, Nanos};

/// Traces of the K5 cloud.
pub const FORMAT: Format = Format {
    name: "k5cloud",
    title: "traces of Fujitsu's K5 cloud (SNIA 26930)",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "K5cloud trace",
            columns: Columns::default(),
            epoch: Epoch::Start,
            whole_seconds: false,
        };
        let remedy = "its lines look like '1,10.253891,W,7213056,4096'";
        import::lines(opening, Parser::default(), facts, remedy)
    },
};

#[derive(Default)]
struct Parser {
    volumes: Numbered,
    /// The earliest instant so far.
    earliest: Option<Nanos>,
}

impl Delimited for Parser {
    type Row<'a> = OnVolume;

    const NAMES: &'static [&'static str] = &["ID", "Timestamp", "Type", "Offset"];

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<OnVolume, Fault> {
        let mut fields = Commas::new(line);
        let volume = fields.integer("the volume is no number")?;
        let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
        let op = fields.op()?;
        let offset = fields.integer("the offset is no number of bytes")?;
        let length = fields.integer("the length is no number of bytes")?;
        fields.end()?;
        Ok((volume, Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))))
    }

    #[inline]
    fn give(&mut self, row: OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        self.volumes.give(row, intake)?;
        let issue = row.1.issue;
        self.earliest = Some(self.earliest.map_or(issue, |earliest| earliest.min(issue)));
        Ok(())
    }

    fn finish(&mut self, intake: &mut Intake) {
        if let Some(earliest) = self.earliest {
            let after = decimal_seconds(earliest);
            intake.header.description =
                Some(format!("begins {after} s after the first request of all K5cloud files"));
        }
    }
}
