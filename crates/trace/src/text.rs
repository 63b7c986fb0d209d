//! Reading text by the gigabyte: lines, numbers and operations, without a copy or an allocation.
//!
//! A trace of text is millions of short lines; the general tools (`lines()`, `split`, `str::parse`)
//! allocate or check the same bytes again and again. Here a line is a slice of one large buffer and
//! a number is read where it stands. A number that does not fit its type is an overflow, never a
//! smaller number.

use std::io::{self, Read};

use crate::encoding::MARK;
use crate::request::{Flags, Op};

/// The longest line in bytes that is given as a whole. No trace has longer ones; a binary file
/// taken for text has, and must not fill the memory.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Size of the buffer that lines are cut from.
const BUFFER_BYTES: usize = 256 << 10;

/// A line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its end (`\n` or `\r\n`).
    Text(&'a [u8]),
    /// The beginning of a line longer than [`LINE_BYTES_MAX`]; the rest was skipped.
    TooLong(&'a [u8]),
}

/// The number of bytes that are given of a line that is too long.
const LONG_LINE_BYTES: usize = 256;

/// Cuts a stream of bytes into lines.
pub struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// The bytes that were read and not yet given are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// The line given last, counted from 1.
    number: u64,
    /// Whether the stream has ended or broken.
    ended: bool,
    /// The error that broke the stream; due when the lines before the break have been given.
    error: Option<io::Error>,
    /// The beginning of a line that is too long.
    long: Vec<u8>,
}

/// The place in which the next line was found.
enum Found {
    /// The line lies in the buffer: its start and its end.
    At(usize, usize),
    /// The line is too long; its beginning lies in `long`.
    TooLong,
    End,
}

impl<R: Read> LineReader<R> {
    /// Cuts `input` into lines.
    pub fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            number: 0,
            ended: false,
            error: None,
            long: Vec::new(),
        }
    }

    /// The number of the line that was given last, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The stream beneath.
    pub fn get_ref(&self) -> &R {
        &self.input
    }

    /// The next line and its number, or `None` at the end. The last line may lack its newline.
    ///
    /// If the stream breaks, the whole lines before the break are returned; a partial line is not,
    /// because a truncated number is another number.
    #[inline]
    pub fn next_line(&mut self) -> io::Result<Option<(Line<'_>, u64)>> {
        let found = match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
            Some(length) if length <= LINE_BYTES_MAX => self.take(length),
            _ => self.refill()?,
        };
        let line = match found {
            Found::At(from, to) => {
                let line = &self.buffer[from..to];
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                // Each of several concatenated files may begin with a mark.
                Line::Text(line.strip_prefix(MARK).unwrap_or(line))
            }
            Found::TooLong => Line::TooLong(&self.long),
            Found::End => return Ok(None),
        };
        self.number += 1;
        Ok(Some((line, self.number)))
    }

    /// Takes `length` bytes and the newline behind them.
    fn take(&mut self, length: usize) -> Found {
        let from = self.start;
        self.start += length + 1;
        Found::At(from, from + length)
    }

    /// Finds the next line where it does not stand in the buffer as a whole.
    #[cold]
    fn refill(&mut self) -> io::Result<Found> {
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(length) if length <= LINE_BYTES_MAX => return Ok(self.take(length)),
                None if !self.ended && self.end - self.start <= LINE_BYTES_MAX => self.read_more(),
                None if self.start == self.end => {
                    return self.error.take().map_or(Ok(Found::End), Err);
                }
                None if self.end - self.start <= LINE_BYTES_MAX => {
                    let from = self.start;
                    self.start = self.end;
                    return Ok(Found::At(from, self.end));
                }
                _ => {
                    self.skip_line();
                    return Ok(Found::TooLong);
                }
            }
        }
    }

    /// Passes over a line that is too long and keeps its beginning.
    fn skip_line(&mut self) {
        self.long.clear();
        self.long.extend_from_slice(&self.buffer[self.start..self.start + LONG_LINE_BYTES]);
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += length + 1;
                return;
            }
            self.start = self.end;
            if self.ended {
                return;
            }
            self.read_more();
        }
    }

    /// Fills the buffer behind the bytes that are left in it. A decoder gives little at a time; the
    /// buffer is filled before lines are cut again, so that the rest of the last line is moved
    /// seldom.
    fn read_more(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let whole = memchr::memrchr(b'\n', &self.buffer[..self.end]);
                    self.end = whole.map_or(0, |last| last + 1);
                    self.ended = true;
                    self.error = Some(error);
                    return;
                }
            }
        }
    }
}

/// The reason why no number could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// There is no digit.
    Missing,
    /// The number does not fit its type.
    TooLarge,
    /// The number begins with a minus sign.
    Negative,
}

/// A place in a line, from which numbers and words are read.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning of `line`.
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The column, counted from 1.
    pub fn column(&self) -> usize {
        self.at + 1
    }

    /// The byte here.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    /// Passes over blanks and tabs.
    #[inline]
    pub fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Passes over `byte` if it stands here, and answers whether it did.
    #[inline]
    pub fn skip(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// The letters here.
    #[inline]
    pub fn letters(&mut self) -> &'a [u8] {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            self.at += 1;
        }
        &self.line[from..self.at]
    }

    /// The digit here.
    #[inline]
    fn digit(&mut self) -> Option<u64> {
        let digit = self.peek()?.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        self.at += 1;
        Some(u64::from(digit))
    }

    /// Takes the digits here, at most `most` of them and never more than nineteen, which fit 64
    /// bits whatever they are; answers their value and how many there were.
    #[inline]
    fn digits(&mut self, most: usize) -> (u64, usize) {
        let mut value = 0_u64;
        let mut digits = 0;
        for byte in self.line[self.at..].iter().take(most.min(19)) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value * 10 + u64::from(digit);
            digits += 1;
        }
        self.at += digits;
        (value, digits)
    }

    /// An unsigned integer.
    #[inline]
    pub fn integer(&mut self) -> Result<u64, NumberError> {
        match self.digits(19) {
            (_, 0) if self.peek() == Some(b'-') => Err(NumberError::Negative),
            (_, 0) => Err(NumberError::Missing),
            (value, 19) => self.long_integer(value),
            (value, _) => Ok(value),
        }
    }

    /// The rest of an integer of which nineteen digits have been read.
    #[cold]
    fn long_integer(&mut self, mut value: u64) -> Result<u64, NumberError> {
        let mut fits = true;
        while let Some(digit) = self.digit() {
            match value.checked_mul(10).and_then(|tens| tens.checked_add(digit)) {
                Some(more) => value = more,
                None => fits = false,
            }
        }
        if fits { Ok(value) } else { Err(NumberError::TooLarge) }
    }

    /// The hexadecimal digits here, with or without a leading `0x`.
    #[inline]
    pub fn hexadecimal(&mut self) -> Result<u64, NumberError> {
        if self.peek() == Some(b'0') && matches!(self.line.get(self.at + 1), Some(b'x' | b'X')) {
            self.at += 2;
        }
        let from = self.at;
        let mut value = 0_u64;
        let mut fits = true;
        while let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
            fits &= value >> 60 == 0;
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        match self.at - from {
            0 if self.peek() == Some(b'-') => Err(NumberError::Negative),
            0 => Err(NumberError::Missing),
            _ if fits => Ok(value),
            _ => Err(NumberError::TooLarge),
        }
    }

    /// The text before the next `separator` or the end of the line, without the blanks around it.
    /// The separator is passed over.
    #[inline]
    pub fn field(&mut self, separator: u8) -> &'a [u8] {
        let rest = &self.line[self.at..];
        let length = memchr::memchr(separator, rest).unwrap_or(rest.len());
        self.at += (length + 1).min(rest.len());
        rest[..length].trim_ascii()
    }

    /// The text before the next blank or tab or the end of the line. Blanks before the text are
    /// passed over.
    #[inline]
    pub fn word(&mut self) -> &'a [u8] {
        self.skip_blanks();
        let from = self.at;
        while self.peek().is_some_and(|byte| byte != b' ' && byte != b'\t') {
            self.at += 1;
        }
        &self.line[from..self.at]
    }

    /// The rest of the line.
    pub fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    /// Whether the rest of the line is blank.
    #[inline]
    pub fn is_at_end(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.line.len()
    }

    /// A decimal number of units of `unit_ns` nanoseconds each (1,000 for microseconds), with any
    /// number of decimals or none, in nanoseconds. Fractions of a nanosecond are cut off.
    #[inline]
    pub fn decimal(&mut self, unit_ns: i64) -> Result<i64, NumberError> {
        let whole = match self.integer() {
            Ok(whole) => whole,
            Err(NumberError::Missing) if self.peek() == Some(b'.') => 0,
            Err(error) => return Err(error),
        };
        let (mut fraction, mut divisor) = (0, 1);
        if self.skip(b'.') {
            // Twelve decimals of an hour are finer than a nanosecond.
            let (value, digits) = self.digits(12);
            (fraction, divisor) = (value, 10_u64.pow(digits as u32));
            while self.digit().is_some() {}
        }
        let unit = unit_ns.unsigned_abs();
        let part = match fraction.checked_mul(unit) {
            Some(product) => product / divisor,
            None => (u128::from(fraction) * u128::from(unit) / u128::from(divisor)) as u64,
        } as i64;
        i64::try_from(whole)
            .ok()
            .and_then(|whole| whole.checked_mul(unit_ns))
            .and_then(|whole| whole.checked_add(part))
            .ok_or(NumberError::TooLarge)
    }

    /// Seconds with any number of decimals, in nanoseconds, and the number of decimals. Fractions
    /// of a nanosecond are cut off.
    #[inline]
    pub fn seconds(&mut self) -> Result<(i64, usize), NumberError> {
        self.seconds_with(b'.')
    }

    /// As [`Cursor::seconds`], with another mark before the decimals, as some locales have it.
    #[inline]
    pub fn seconds_with(&mut self, mark: u8) -> Result<(i64, usize), NumberError> {
        /// The factor to nanoseconds, by the number of decimals.
        const SCALE: [i64; 10] =
            [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
        let whole = match self.integer() {
            Ok(whole) => whole,
            // ".5" is half a second.
            Err(NumberError::Missing) if self.peek() == Some(mark) => 0,
            Err(error) => return Err(error),
        };
        let mut fraction = 0_i64;
        let mut digits = 0;
        let mut decimals = 0;
        if self.skip(mark) {
            while let Some(digit) = self.digit() {
                if digits < 9 {
                    fraction = fraction * 10 + digit as i64;
                    digits += 1;
                }
                decimals += 1;
            }
            if decimals == 0 {
                return Err(NumberError::Missing);
            }
        }
        i64::try_from(whole)
            .ok()
            .and_then(|whole| whole.checked_mul(1_000_000_000))
            .and_then(|whole| whole.checked_add(fraction * SCALE[digits]))
            .map(|ns| (ns, decimals))
            .ok_or(NumberError::TooLarge)
    }
}

/// The operation and the flags for the kernel's letters, as `blk_fill_rwbs` in
/// `kernel/trace/blktrace.c` writes them. First stands `F` for a flush beforehand, then the
/// operation (`R`, `W`, `D` discard, `DE` secure erase, `F` flush, `N` none, `WZ` write zeroes, `Z`
/// and a letter for a zone operation). Then follows any of `F` (FUA), `A` (read-ahead), `S` (sync),
/// `M` (meta). Lower case means the same. `None` where the letters name no operation.
#[inline]
pub fn rwbs(letters: &[u8]) -> Option<(Op, Flags)> {
    match letters {
        b"R" | b"r" => return Some((Op::Read, Flags::empty())),
        b"W" | b"w" => return Some((Op::Write, Flags::empty())),
        _ => {}
    }
    if letters.len() > 8 {
        return None;
    }
    let upper = |index: usize| letters.get(index).map(u8::to_ascii_uppercase);
    let mut flags = Flags::empty();
    let mut at = 0;
    if upper(0) == Some(b'F') && matches!(upper(1), Some(b'R' | b'W' | b'D' | b'F' | b'N' | b'Z')) {
        flags |= Flags::PREFLUSH;
        at = 1;
    }
    let (op, length) = match (upper(at)?, upper(at + 1)) {
        (b'R', _) => (Op::Read, 1),
        (b'W', Some(b'Z')) => (Op::WriteZeroes, 2),
        (b'W', _) => (Op::Write, 1),
        (b'D', Some(b'E')) => (Op::Discard, 2),
        (b'D', _) => (Op::Discard, 1),
        (b'F', _) => (Op::Flush, 1),
        // A flush beforehand and no operation: the request is a flush.
        (b'N', _) if at == 1 => {
            flags -= Flags::PREFLUSH;
            (Op::Flush, 1)
        }
        (b'Z', Some(b'A' | b'R' | b'F' | b'O' | b'C')) => (Op::Zone, 2),
        _ => return None,
    };
    for letter in &letters[at + length..] {
        flags |= match letter.to_ascii_uppercase() {
            b'F' => Flags::FUA,
            b'A' => Flags::READAHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            _ => return None,
        };
    }
    Some((op, flags))
}

/// A line for a message, made readable whatever its bytes are.
pub fn shown(line: &[u8]) -> String {
    let line = &line[..line.len().min(LONG_LINE_BYTES)];
    String::from_utf8_lossy(line)
        .trim()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives a few bytes at a time and may break at the end.
    struct Dribble<'a>(&'a [u8], usize, bool);

    impl Read for Dribble<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() && self.2 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let count = self.1.min(into.len()).min(self.0.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn lines<R: Read>(input: R) -> (Vec<Vec<u8>>, Option<io::Error>) {
        let mut reader = LineReader::new(input);
        let mut all = Vec::new();
        loop {
            match reader.next_line() {
                Ok(Some((Line::Text(line), number))) => {
                    all.push(line.to_vec());
                    assert_eq!(number, all.len() as u64);
                }
                Ok(Some((Line::TooLong(line), _))) => {
                    all.push([b"LONG ", &line[..3]].concat());
                }
                Ok(None) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    #[test]
    fn lines_end_with_either_newline_and_the_last_may_lack_it() {
        let (all, _) = lines(Dribble(b"a\r\n\nb\nc", 2, false));
        assert_eq!(all, [b"a".to_vec(), b"".to_vec(), b"b".to_vec(), b"c".to_vec()]);
        assert!(lines(Dribble(b"", 2, false)).0.is_empty());
    }

    #[test]
    fn a_byte_order_mark_belongs_to_no_line() {
        let (all, _) = lines("\u{feff}a\r\nb\n\u{feff}c\n\u{feff}\n".as_bytes());
        assert_eq!(all, [b"a".to_vec(), b"b".to_vec(), b"c".to_vec(), b"".to_vec()]);
    }

    #[test]
    fn a_line_that_is_too_long_is_one_line_wherever_it_stands() {
        for length in [LINE_BYTES_MAX + 1, BUFFER_BYTES, 3 * BUFFER_BYTES + 5] {
            let long = vec![b'x'; length];
            let text = [b"a\n", &long[..], b"\nb\n", &long[..]].concat();
            let (all, _) = lines(&text[..]);
            assert_eq!(all, [&b"a"[..], b"LONG xxx", b"b", b"LONG xxx"]);
        }
        let longest = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(lines(&[&longest[..], b"\nb"].concat()[..]).0, [&longest[..], b"b"]);
    }

    #[test]
    fn where_a_stream_breaks_whole_lines_are_given_and_no_piece_of_one() {
        let (all, error) = lines(Dribble(b"1 ; 2\n3 ; 45", 3, true));
        assert_eq!(all, [b"1 ; 2"]);
        assert!(error.is_some());
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(
            text in "[a-c\n]{0,200}", repeat in 1_usize..4000, step in 1_usize..100_000,
        ) {
            let text = text.repeat(repeat);
            let (all, _) = lines(Dribble(text.as_bytes(), step, false));
            let expected: Vec<_> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            prop_assert_eq!(all, expected);
        }

        #[test]
        fn integers_are_those_of_the_standard_library(text in "[0-9]{1,25}") {
            prop_assert_eq!(Cursor::new(text.as_bytes()).integer().ok(), text.parse().ok());
        }
    }

    #[test]
    fn seconds_are_decimal_fractions_whatever_their_number_of_decimals() {
        let ns = |text: &str| Cursor::new(text.as_bytes()).seconds().map(|(ns, _)| ns);
        assert_eq!(ns("0.5"), Ok(500_000_000));
        assert_eq!(ns("12"), Ok(12_000_000_000));
        assert_eq!(ns(".25"), Ok(250_000_000));
        assert_eq!(ns("1.0000000019"), Ok(1_000_000_001));
        assert_eq!(ns("9223372036.854775807"), Ok(i64::MAX));
        assert_eq!(ns("9223372036.854775808"), Err(NumberError::TooLarge));
        assert_eq!(ns("18446744073709551615.999"), Err(NumberError::TooLarge));
        assert_eq!(ns("99999999999999999999.9"), Err(NumberError::TooLarge));
        assert_eq!(ns("-0.1"), Err(NumberError::Negative));
        assert_eq!(ns("1."), Err(NumberError::Missing));
        assert_eq!(ns(""), Err(NumberError::Missing));
    }

    #[test]
    fn decimals_are_exact_in_whatever_unit() {
        let ns = |text: &str, unit| Cursor::new(text.as_bytes()).decimal(unit);
        assert_eq!(ns("0.74", 1_000_000), Ok(740_000));
        assert_eq!(ns("112764.088", 1_000), Ok(112_764_088));
        assert_eq!(ns("1456095145.133076000", 1_000_000_000), Ok(1_456_095_145_133_076_000));
        assert_eq!(ns("0.1234567899", 1_000_000_000), Ok(123_456_789));
        assert_eq!(ns("7.", 100), Ok(700));
        assert_eq!(ns("7.00000000000000000000000000009", 100), Ok(700));
        assert_eq!(ns("-1", 100), Err(NumberError::Negative));
        assert_eq!(ns("9223372036854775807.9", 1), Ok(i64::MAX));
        assert_eq!(ns("9223372036854775808", 1), Err(NumberError::TooLarge));
        assert_eq!(ns("9223372036.9", 1_000_000_000), Err(NumberError::TooLarge));
    }

    #[test]
    fn hexadecimal_numbers_may_say_that_they_are() {
        let value = |text: &str| Cursor::new(text.as_bytes()).hexadecimal();
        assert_eq!(value("0x4e5ec22e00"), Ok(0x4e_5ec2_2e00));
        assert_eq!(value("2A,"), Ok(42));
        assert_eq!(value("0xffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(value("0x1ffffffffffffffff"), Err(NumberError::TooLarge));
        assert_eq!(value("0x"), Err(NumberError::Missing));
        assert_eq!(value("-1"), Err(NumberError::Negative));
    }

    #[test]
    fn fields_and_words_are_taken_one_after_the_other() {
        let mut cursor = Cursor::new(b"a b , ,c");
        assert_eq!(
            [cursor.field(b','), cursor.field(b','), cursor.field(b',')],
            [&b"a b"[..], b"", b"c"]
        );
        assert!(cursor.field(b',').is_empty() && cursor.is_at_end());
        let mut cursor = Cursor::new(b" 1\t two  3 ");
        assert_eq!([cursor.word(), cursor.word(), cursor.word()], [&b"1"[..], b"two", b"3"]);
        assert!(cursor.is_at_end() && cursor.rest().is_empty());
    }

    #[test]
    fn letters_of_the_kernel_say_operation_and_flags() {
        let says = |letters: &str| rwbs(letters.as_bytes());
        assert_eq!(says("RA"), Some((Op::Read, Flags::READAHEAD)));
        assert_eq!(says("w"), Some((Op::Write, Flags::empty())));
        assert_eq!(says("WSM"), Some((Op::Write, Flags::SYNC | Flags::META)));
        let all = Flags::PREFLUSH | Flags::FUA | Flags::SYNC;
        assert_eq!(says("FWFS"), Some((Op::Write, all)));
        assert_eq!(says("D"), Some((Op::Discard, Flags::empty())));
        assert_eq!(says("DES"), Some((Op::Discard, Flags::SYNC)));
        assert_eq!(says("WZ"), Some((Op::WriteZeroes, Flags::empty())));
        assert_eq!(says("FS"), Some((Op::Flush, Flags::SYNC)));
        assert_eq!(says("FN"), Some((Op::Flush, Flags::empty())));
        assert_eq!(says("ZR"), Some((Op::Zone, Flags::empty())));
        for nothing in ["", "N", "X", "RX", "Z", "WWWWWWWWWWWW"] {
            assert_eq!(says(nothing), None, "{nothing}");
        }
    }
}
