//! Reading text: a parser sees a line at a time.

use super::source::{Feed, Imported};
use super::{Facts, Fault, Intake, Told};
use crate::compression::{self, Positioned};
use crate::error::TraceError;
use crate::formats::Opening;
use crate::stream::Source;
use crate::text::{Line, LineReader};
use crate::wording::Wording;

/// The parser's answer about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A request, or part of one.
    Request,
    /// A header, a comment, prose: nothing to count.
    Other,
}

/// Reads the lines of a format.
pub trait LineParser: Send {
    /// Takes a line, which is never blank and has no end, and gives its request to `intake` by
    /// [`Intake::push`]. A fault makes it a lost line.
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault>;

    /// Adds what was lost and guessed so far, counted from the beginning of the file. Called for
    /// every batch, so that a trace that is read in part has it too.
    fn tell(&self, told: &mut Told) {
        let _ = told;
    }

    /// At the end: gives requests that were held back, and adds what is known only then.
    fn end(&mut self, intake: &mut Intake) {
        let _ = intake;
    }
}

/// The kind of a line, when a format is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A request of that format.
    Request,
    /// A header line that no other format has: it suffices to recognise the format, even without a
    /// request.
    Header,
    /// A line that such a file may have beside its requests.
    Other,
    /// A line that no file of the format has.
    Strange,
}

/// The number of first lines that decide.
const LINES_MAX: usize = 200;

/// Whether a file that begins with `first_bytes` is of the format that `judge` knows. It has
/// requests, and fewer strange lines than requests; or it has only a header.
pub fn looks_like(first_bytes: &[u8], mut judge: impl FnMut(&[u8]) -> Look) -> bool {
    let (mut requests, mut strange, mut headers) = (0_usize, 0_usize, 0_usize);
    let mut lines = first_bytes.split(|byte| *byte == b'\n').peekable();
    let mut taken = 0;
    while let Some(line) = lines.next() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // The last line may be cut where the look ends.
        let is_cut = lines.peek().is_none() && taken > 0;
        if line.trim_ascii().is_empty() || is_cut && requests > 0 {
            continue;
        }
        match judge(line) {
            Look::Request => requests += 1,
            Look::Header => headers += 1,
            Look::Other => {}
            Look::Strange => strange += 1,
        }
        taken += 1;
        if taken == LINES_MAX {
            break;
        }
    }
    requests > strange || headers > 0 && requests == 0 && strange == 0
}

/// Reads the stream of `opening` with `parser`. A file without a request is refused; `remedy` says
/// what the lines of the format look like.
pub fn lines<P: LineParser + 'static>(
    opening: Opening<'_>,
    parser: P,
    facts: Facts,
    remedy: impl Into<Wording>,
) -> Result<Box<dyn Source>, TraceError> {
    let feed = Lines { lines: LineReader::new(opening.stream), parser };
    Imported::open(feed, opening.path, opening.options, facts, remedy)
}

struct Lines<R, P> {
    lines: LineReader<R>,
    parser: P,
}

/// The fault of a line that is too long.
const TOO_LONG: Fault =
    Fault::lost(1, "lines longer than 64 KiB", "the line is longer than 64 KiB");

impl<R: Positioned + Send, P: LineParser> Feed for Lines<R, P> {
    const UNIT: &'static str = "lines";

    fn fill(&mut self, intake: &mut Intake, rows: usize) -> Result<bool, TraceError> {
        while intake.batch.len() < rows {
            match self.lines.next_line() {
                Ok(Some((Line::Text(line), number))) => {
                    if line.iter().all(u8::is_ascii_whitespace) {
                        continue;
                    }
                    if let Err(fault) = self.parser.line(line, intake) {
                        intake.lose_line(line, number, &fault)?;
                    }
                }
                Ok(Some((Line::TooLong(line), number))) => {
                    intake.lose_line(line, number, &TOO_LONG)?;
                }
                Ok(None) => {
                    self.parser.end(intake);
                    return Ok(false);
                }
                Err(error) => {
                    self.parser.end(intake);
                    let Some(damage) = compression::damage(&error) else {
                        return Err(TraceError::read(&intake.path, error));
                    };
                    intake.break_off(damage, self.lines.get_ref().position())?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn tell(&self, told: &mut Told) {
        self.parser.tell(told);
    }

    fn units(&self) -> u64 {
        self.lines.number()
    }
}
