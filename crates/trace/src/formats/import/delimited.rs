//! Formats in which each line is a request, in columns.
//!
//! A dozen published formats differ in their columns alone. In all of them a header line may come
//! anywhere and is no loss. Any other line that does not parse is a loss, and a file is recognised
//! by its lines. So a format only parses its columns ([`Delimited`]); the rest is here.

use super::{Fault, Intake, LineParser, Look, Said, Told, is_header, looks_like};

/// Reads the lines of a format whose lines are requests.
pub trait Delimited: Send {
    /// The values of a line.
    type Row<'a>;

    /// The first names in a line that names the columns; none where files have no such line.
    const NAMES: &'static [&'static str] = &[];

    /// Takes a line apart.
    fn parse<'a>(&self, line: &'a [u8]) -> Result<Self::Row<'a>, Fault>;

    /// The evidence for this format in a line that parses as `row`, when a file is recognised.
    fn look(&self, line: &[u8], row: &Self::Row<'_>) -> Look {
        let _ = (line, row);
        Look::Request
    }

    /// Classifies a line that does not parse as a row; remembers a header's columns.
    fn other(&mut self, line: &[u8]) -> Look {
        let names_columns = !Self::NAMES.is_empty() && is_header(line, Self::NAMES);
        if names_columns { Look::Header } else { Look::Strange }
    }

    /// Gives the request of a row to `intake`.
    fn give(&mut self, row: Self::Row<'_>, intake: &mut Intake) -> Result<(), Fault>;

    /// Adds what was lost and guessed so far, counted from the beginning of the file. Called for
    /// every batch, so that a trace that is read in part has it too.
    fn tell(&self, told: &mut Told) {
        let _ = told;
    }

    /// Adds what is known after the last line only.
    fn finish(&mut self, intake: &mut Intake) {
        let _ = intake;
    }
}

impl<D: Delimited> LineParser for D {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        match self.parse(line) {
            Ok(row) => self.give(row, intake).map(|()| Said::Request),
            Err(_) if self.other(line) != Look::Strange => Ok(Said::Other),
            Err(fault) => Err(fault),
        }
    }

    fn tell(&self, told: &mut Told) {
        Delimited::tell(self, told);
    }

    fn end(&mut self, intake: &mut Intake) {
        self.finish(intake);
    }
}

/// Whether a file that begins with `first_bytes` looks like lines of `format`.
pub fn looks_delimited(mut format: impl Delimited, first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match format.parse(line) {
        Ok(row) => format.look(line, &row),
        Err(_) => format.other(line),
    })
}
