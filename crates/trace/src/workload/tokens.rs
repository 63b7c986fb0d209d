//! Lines of a parameter file as keys with values.
//!
//! A line ends a value, and a comma at its end joins the next line. Brackets hold lists, quotes
//! hold commas and blanks.

use super::fault::Faults;
use super::gather::Line;
use crate::place::Place;

/// A piece of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) text: String,
    pub(super) place: Place,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// The key in lower case.
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) items: Vec<Item>,
    /// Whether it is the first of a line that continues none.
    pub(super) begins: bool,
}

/// The tokens of all lines.
pub(super) fn tokens(lines: &[Line], faults: &mut Faults) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut first = 0;
    while first < lines.len() {
        let is_continued = |line: &Line| line.letters.last().is_some_and(|(c, _)| *c == ',');
        let count = lines[first..].iter().take_while(|line| is_continued(line)).count() + 1;
        let logical = &lines[first..(first + count).min(lines.len())];
        first += logical.len();
        Lexer::new(logical, faults).all(&mut tokens);
    }
    tokens
}

/// The characters of lines that belong together.
struct Lexer<'l> {
    lines: &'l [Line],
    /// Each character with its line and column.
    letters: Vec<(char, usize, u32)>,
    at: usize,
    faults: &'l mut Faults,
}

impl<'l> Lexer<'l> {
    fn new(lines: &'l [Line], faults: &'l mut Faults) -> Self {
        let letters = lines.iter().enumerate().flat_map(|(index, line)| {
            line.letters.iter().map(move |(c, column)| (*c, index, *column))
        });
        Self { lines, letters: letters.collect(), at: 0, faults }
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).map(|(c, ..)| *c)
    }

    /// The place of a character; of the end, the last one.
    fn place(&self, at: usize) -> Place {
        let (_, line, column) = self.letters[at.min(self.letters.len() - 1)];
        self.lines[line].place(column)
    }

    /// Takes characters until one of these, or the end.
    fn until(&mut self, ends: &[char]) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| !ends.contains(&c)) {
            self.at += 1;
        }
        self.letters[start..self.at].iter().map(|(c, ..)| *c).collect()
    }

    fn all(mut self, tokens: &mut Vec<Token>) {
        let mut begins = true;
        while let Some(c) = self.peek() {
            if c == ',' {
                self.at += 1;
                continue;
            }
            let start = self.at;
            let key = self.until(&['=', ',']);
            let place = self.place(start);
            if self.peek() != Some('=') {
                let reason = format!("'{key}' is no key=value");
                let help = "a comment begins with '*', '#' or '/', or behind a blank";
                self.faults.syntax(&place, reason, help);
                begins = false;
                continue;
            }
            self.at += 1;
            if let Some(items) = self.value() {
                if items.is_empty() {
                    let reason = format!("'{key}' has no value");
                    self.faults.syntax(&place, reason, format!("write {key}=…, or take it out"));
                } else {
                    let key = key.to_ascii_lowercase();
                    tokens.push(Token { key, place, items, begins });
                }
            }
            begins = false;
        }
    }

    /// The value at this place; `None` if it is faulty, which was told.
    fn value(&mut self) -> Option<Vec<Item>> {
        let start = self.at;
        let items = match self.peek() {
            Some('(') => self.list()?,
            _ => self.item(&[',']).into_iter().collect(),
        };
        if self.peek().is_some_and(|c| c != ',') {
            let rest = self.until(&[',']);
            let reason = format!("'{rest}' stands behind the end of the value");
            self.faults.syntax(&self.place(start), reason, "put a comma between two parameters");
            return None;
        }
        Some(items)
    }

    /// One item: a text in quotes, or until one of these characters outside of brackets.
    fn item(&mut self, ends: &[char]) -> Option<Item> {
        let (start, mut text, mut depth, mut quote) = (self.at, String::new(), 0_u32, None);
        let mut quoted = false;
        while let Some(c) = self.peek() {
            match (c, quote) {
                (_, Some((mark, _))) if c == mark => quote = None,
                (_, Some(_)) => text.push(c),
                ('"', None) => (quote, quoted) = (Some((c, self.at)), true),
                ('\'', None) if text.is_empty() => (quote, quoted) = (Some((c, self.at)), true),
                _ if depth == 0 && ends.contains(&c) => break,
                _ => {
                    depth += u32::from(c == '(');
                    depth = depth.saturating_sub(u32::from(c == ')'));
                    text.push(c);
                }
            }
            self.at += 1;
        }
        if let Some((mark, at)) = quote {
            let help = format!("write {mark} behind the text");
            self.faults.syntax(
                &self.place(at),
                format!("the quotation mark {mark} is not closed"),
                help,
            );
        }
        (quoted || !text.is_empty()).then(|| Item { text, place: self.place(start) })
    }

    /// The items in brackets.
    fn list(&mut self) -> Option<Vec<Item>> {
        let start = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.peek() {
                None => {
                    let reason = "the bracket is not closed";
                    self.faults.syntax(&self.place(start), reason, "write ')' behind the list");
                    return None;
                }
                Some(')') => {
                    self.at += 1;
                    return Some(items);
                }
                Some(',') => self.at += 1,
                Some(_) => items.extend(self.item(&[',', ')'])),
            }
        }
    }
}
