//! Words and signs with their places.
//!
//! A message that marks the place of an error is more useful than "syntax error". So every word
//! keeps its place.

use std::ops::Range;

use winnow::combinator::{alt, delimited, preceded};
use winnow::error::EmptyError;
use winnow::stream::{LocatingSlice, Stream};
use winnow::token::{any, one_of, take_till, take_while};
use winnow::{Parser, Result};

/// A fault: the reason, the place, and the possible words in that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The bytes of the text with the fault.
    pub at: Range<usize>,
    /// The reason.
    pub reason: String,
    /// What may stand there.
    pub help: String,
}

impl Fault {
    /// The message: the reason, the text, marks below the place, and the remedy.
    pub fn marked(&self, text: &str) -> String {
        let place = |byte: usize| text[..byte.min(text.len())].chars().count();
        let (from, to) = (place(self.at.start), place(self.at.end));
        let marks = "^".repeat((to - from).max(1));
        let Self { reason, help, .. } = self;
        format!("{reason}\n  | {text}\n  | {:from$}{marks}\n  = help: {help}", "")
    }
}

/// A word of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word<'a> {
    /// A name: of a column, an operation, a volume, or one of `and`, `or`, `not`, `in`.
    Name(&'a str),
    /// A number with its unit, if it has one.
    Number(&'a str),
    /// The text between quotes.
    Quoted(&'a str),
    /// A sign, such as `<=` or `..`.
    Sign(&'a str),
    /// Any other text.
    Strange(&'a str),
}

impl<'a> Word<'a> {
    /// The word as it was written, without quotes.
    pub fn text(self) -> &'a str {
        match self {
            Self::Name(text)
            | Self::Number(text)
            | Self::Quoted(text)
            | Self::Sign(text)
            | Self::Strange(text) => text,
        }
    }
}

type Input<'a> = LocatingSlice<&'a str>;

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn name<'a>(input: &mut Input<'a>) -> Result<Word<'a>, EmptyError> {
    let text = **input;
    if !text.starts_with(is_letter) {
        return Err(EmptyError);
    }
    let is_part = |c: char| is_letter(c) || c.is_ascii_digit();
    // A '-' and a ':' stand in names of devices, such as dm-0. A '.' stands within names of
    // figures, such as p99.read; two of them are a range.
    let goes_on = |(at, c): (usize, char)| match c {
        '-' | '/' | ':' => true,
        '.' => text[at + 1..].starts_with(is_part),
        c => is_part(c),
    };
    let length =
        text.char_indices().find(|found| !goes_on(*found)).map_or(text.len(), |(at, _)| at);
    Ok(Word::Name(input.next_slice(length)))
}

fn number<'a>(input: &mut Input<'a>) -> Result<Word<'a>, EmptyError> {
    // A single '.' belongs to the number; two of them are a range.
    let text = **input;
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(u8::is_ascii_digit) {
        return Err(EmptyError);
    }
    let is_point = |at: usize| bytes.get(at) == Some(&b'.');
    let length = text
        .char_indices()
        .find(|(at, c)| {
            let is_inner = c.is_alphanumeric() || *c == '.' && !is_point(at + 1);
            !is_inner
        })
        .map_or(text.len(), |(at, _)| at);
    // The unit of a share.
    let length = length + usize::from(bytes.get(length) == Some(&b'%'));
    Ok(Word::Number(input.next_slice(length)))
}

fn quoted<'a>(input: &mut Input<'a>) -> Result<Word<'a>, EmptyError> {
    alt((delimited('"', take_till(0.., '"'), '"'), delimited('\'', take_till(0.., '\''), '\'')))
        .map(Word::Quoted)
        .parse_next(input)
}

fn sign<'a>(input: &mut Input<'a>) -> Result<Word<'a>, EmptyError> {
    alt((
        alt(("<=", ">=", "==", "!=", "..", "&&", "||")),
        one_of(['<', '>', '=', '!', '{', '}', '(', ')', ',']).take(),
    ))
    .map(Word::Sign)
    .parse_next(input)
}

/// The words of `text` with the bytes that they take.
pub(super) fn words(text: &str) -> Vec<(Word<'_>, Range<usize>)> {
    let mut input = LocatingSlice::new(text);
    let mut words = Vec::new();
    let word = alt((name, number, quoted, sign, any.take().map(Word::Strange))).with_span();
    let mut next = preceded(take_while(0.., char::is_whitespace), word);
    while let Ok(word) = next.parse_next(&mut input) {
        words.push(word);
    }
    words
}
