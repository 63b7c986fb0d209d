//! The columns of a line, one after the other.
//!
//! Published traces are lines of a few columns with commas or blanks between. Parsing such a line
//! is the same everywhere and takes most of the time, so it is done here: no copy, no look-ahead,
//! and every fault knows its column.

use super::Fault;
use super::intake::TOO_FAR;
use crate::request::Op;
use crate::text::{Cursor, NumberError};
use crate::units::Bytes;

/// The loss of a line with a number that is too large: an instant has 63 bits of nanoseconds, an
/// address 64 bits of bytes.
const TOO_LARGE: &str = "lines with a number that is too large";

/// Columns with commas between, and blanks around them.
pub type Commas<'a> = Fields<'a, b','>;

/// Columns with blanks or tabs between.
pub type Blanks<'a> = Fields<'a, b' '>;

/// The columns of a line, taken from the left.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a, const SEPARATOR: u8> {
    cursor: Cursor<'a>,
    /// Whether no column follows.
    ended: bool,
}

impl<'a, const SEPARATOR: u8> Fields<'a, SEPARATOR> {
    /// The columns of `line`.
    #[inline]
    pub fn new(line: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(line), ended: line.is_empty() }
    }

    /// The fault of the column that begins at `column`.
    #[cold]
    fn fault(column: usize, error: NumberError, reason: &'static str) -> Fault {
        match error {
            NumberError::TooLarge => Fault::lost(column, TOO_LARGE, "the number is too large"),
            NumberError::Missing | NumberError::Negative => Fault::junk(column, reason),
        }
    }

    /// Goes to the beginning of the next column; answers its place, counted from 1.
    #[inline]
    fn begin(&mut self) -> Result<usize, Fault> {
        self.cursor.skip_blanks();
        let column = self.cursor.column();
        if self.ended { Err(Fault::junk(column, "a column is missing")) } else { Ok(column) }
    }

    /// Skips the separator between this column and the next.
    #[inline]
    fn pass(&mut self, reason: &'static str) -> Result<(), Fault> {
        let column = self.cursor.column();
        self.cursor.skip_blanks();
        let is_passed = if SEPARATOR == b' ' {
            self.cursor.column() > column
        } else {
            self.cursor.skip(SEPARATOR)
        };
        if self.cursor.peek().is_none() {
            // An empty column may follow a comma.
            self.ended = SEPARATOR == b' ' || !is_passed;
            Ok(())
        } else if is_passed {
            Ok(())
        } else {
            Err(Fault::junk(self.cursor.column(), reason))
        }
    }

    /// The next column as an unsigned integer.
    #[inline]
    pub fn integer(&mut self, reason: &'static str) -> Result<u64, Fault> {
        let column = self.begin()?;
        let value = self.cursor.integer().map_err(|error| Self::fault(column, error, reason))?;
        self.pass(reason)?;
        Ok(value)
    }

    /// The next column as hexadecimal digits, with or without `0x`.
    #[inline]
    pub fn hexadecimal(&mut self, reason: &'static str) -> Result<u64, Fault> {
        let column = self.begin()?;
        let value = self.cursor.hexadecimal().map_err(|e| Self::fault(column, e, reason))?;
        self.pass(reason)?;
        Ok(value)
    }

    /// The next column as a decimal number of units of `unit_ns` nanoseconds, in nanoseconds.
    #[inline]
    pub fn decimal(&mut self, unit_ns: i64, reason: &'static str) -> Result<i64, Fault> {
        let column = self.begin()?;
        let value = self.cursor.decimal(unit_ns).map_err(|e| Self::fault(column, e, reason))?;
        self.pass(reason)?;
        Ok(value)
    }

    /// The next column as a number of blocks of `block` bytes, in bytes.
    #[inline]
    pub fn blocks(&mut self, block: u64, reason: &'static str) -> Result<Bytes, Fault> {
        let column = self.cursor.column();
        let blocks = self.integer(reason)?;
        blocks.checked_mul(block).map(Bytes).ok_or(Fault::lost(
            column,
            TOO_FAR,
            "so many blocks are more than 64 bits of bytes",
        ))
    }

    /// The next column as `R`, `W`, `Read` or `Write`, in capitals or not.
    #[inline]
    pub fn op(&mut self) -> Result<Op, Fault> {
        const REASON: &str = "the operation is neither a read nor a write";
        let column = self.begin()?;
        let op = match self.cursor.letters() {
            b"R" | b"r" | b"Read" => Op::Read,
            b"W" | b"w" | b"Write" => Op::Write,
            letters if letters.eq_ignore_ascii_case(b"read") => Op::Read,
            letters if letters.eq_ignore_ascii_case(b"write") => Op::Write,
            _ => return Err(Fault::junk(column, REASON)),
        };
        self.pass(REASON)?;
        Ok(op)
    }

    /// As [`Fields::op`], or `None` for an empty column.
    #[inline]
    pub fn op_if_any(&mut self) -> Result<Option<Op>, Fault> {
        if self.skip_empty()? { Ok(None) } else { self.op().map(Some) }
    }

    /// As [`Fields::decimal`], or `None` for an empty column.
    #[inline]
    pub fn decimal_if_any(
        &mut self,
        unit_ns: i64,
        reason: &'static str,
    ) -> Result<Option<i64>, Fault> {
        if self.skip_empty()? { Ok(None) } else { self.decimal(unit_ns, reason).map(Some) }
    }

    /// Passes over the next column if it is empty; answers whether it was.
    #[inline]
    fn skip_empty(&mut self) -> Result<bool, Fault> {
        self.begin()?;
        let is_empty = self.cursor.peek().is_none_or(|byte| byte == SEPARATOR);
        if is_empty {
            self.pass("")?;
        }
        Ok(is_empty)
    }

    /// The next column as one of two numbers.
    #[inline]
    pub fn op_code(&mut self, read: u64, write: u64) -> Result<Op, Fault> {
        const REASON: &str = "the operation is neither of the two numbers for reads and writes";
        let column = self.cursor.column();
        match self.integer(REASON)? {
            code if code == read => Ok(Op::Read),
            code if code == write => Ok(Op::Write),
            _ => Err(Fault::junk(column, REASON)),
        }
    }

    /// The text of the next column, without the blanks around it; empty for an empty column.
    #[inline]
    pub fn text(&mut self) -> Result<&'a [u8], Fault> {
        self.begin()?;
        if SEPARATOR == b' ' {
            let word = self.cursor.word();
            self.cursor.skip_blanks();
            self.ended = self.cursor.peek().is_none();
            return Ok(word);
        }
        let last = self.cursor.rest().last();
        let field = self.cursor.field(SEPARATOR);
        // Behind a comma at the end of the line one more column follows, which is empty.
        self.ended = self.cursor.rest().is_empty() && last != Some(&SEPARATOR);
        Ok(field)
    }

    /// Whether no column follows.
    #[inline]
    pub fn is_at_end(&mut self) -> bool {
        self.ended || self.cursor.is_at_end()
    }

    /// Demands that no column follows.
    #[inline]
    pub fn end(&mut self) -> Result<(), Fault> {
        if self.is_at_end() {
            return Ok(());
        }
        Err(Fault::junk(self.cursor.column(), "more stands here than a request has"))
    }

    /// The place at which the next column begins, counted from 1.
    pub fn column(&self) -> usize {
        self.cursor.column()
    }

    /// The rest of the line.
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }
}

/// Whether `line` names the columns of a format: its first columns are called `names`, whatever
/// stands around them and in whatever case.
#[cold]
pub fn is_header(line: &[u8], names: &[&str]) -> bool {
    let line = line.trim_ascii_start();
    let mut fields = Commas::new(line.strip_prefix(b"#").unwrap_or(line));
    names.iter().all(|name| {
        fields.text().is_ok_and(|field| {
            let field = field.strip_prefix(b"\"").unwrap_or(field);
            let field = field.strip_suffix(b"\"").unwrap_or(field);
            field.eq_ignore_ascii_case(name.as_bytes())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_taken_from_the_left_whatever_blanks_stand_around_them() {
        for line in ["1,r, 2.5 ,0x1f,x y,", " 1 , R,2.5,1F , x y ,"] {
            let mut fields = Commas::new(line.as_bytes());
            assert_eq!(fields.integer(""), Ok(1));
            assert_eq!(fields.op(), Ok(Op::Read));
            assert_eq!(fields.decimal(1000, ""), Ok(2500));
            assert_eq!(fields.hexadecimal(""), Ok(31));
            assert_eq!(fields.text(), Ok(&b"x y"[..]));
            assert_eq!(fields.text(), Ok(&b""[..]));
            assert_eq!(fields.end(), Ok(()));
            assert!(fields.text().is_err());
        }
        let mut fields = Blanks::new(b" 1\t0  words W 2");
        assert_eq!(fields.integer(""), Ok(1));
        assert_eq!(fields.op_code(1, 0), Ok(Op::Write));
        assert_eq!(fields.text(), Ok(&b"words"[..]));
        assert_eq!(fields.op(), Ok(Op::Write));
        assert_eq!(fields.blocks(512, ""), Ok(Bytes(1024)));
        assert_eq!(fields.end(), Ok(()));
        assert!(fields.text().is_err() && Commas::new(b"").text().is_err());
    }

    #[test]
    fn a_fault_says_its_column_and_what_is_wrong_there() {
        let fault = Commas::new(b"2 448003").decimal(1, "no time").unwrap_err();
        assert_eq!((fault.column, fault.reason), (3, "no time"));
        let mut fields = Commas::new(b"1,x");
        assert_eq!(fields.integer(""), Ok(1));
        assert_eq!(fields.integer("no number").unwrap_err().column, 3);
        let fault = Commas::new(b"99999999999999999999").integer("").unwrap_err();
        assert_eq!(fault.loss.words, TOO_LARGE);
        let fault = Commas::new(b"18446744073709551615").blocks(512, "").unwrap_err();
        assert_eq!(fault.loss.words, TOO_FAR);
        let mut fields = Commas::new(b"1,2");
        assert_eq!(fields.integer(""), Ok(1));
        assert_eq!(fields.end().unwrap_err().column, 3);
        assert!(Blanks::new(b"1,2").integer("").is_err());
        assert!(Commas::new(b"Reader").op().is_err());
        assert!(Commas::new(b"2").op_code(0, 1).is_err());
    }

    #[test]
    fn a_header_is_known_by_the_names_of_its_columns() {
        for line in ["A,b_c", " a, b_c ,d", "# a,B_C", "\"a\",\"b_c\""] {
            assert!(is_header(line.as_bytes(), &["a", "b_c"]), "{line}");
        }
        for line in ["", "a", "ab,b_c", "1,2"] {
            assert!(!is_header(line.as_bytes(), &["a", "b_c"]), "{line}");
        }
    }
}
