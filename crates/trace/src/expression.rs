//! Questions that are joined by `and`, `or` and `not`.
//!
//! A filter of requests and a rule of a campaign ask about different things in the same language.
//! If each had a parser of its own, the two would drift apart. So this module knows how questions
//! are joined and how a fault is marked; its user reads a single question.
//!
//! ```text
//! expression = term { ("or" | "||") term }
//! term       = factor { ("and" | "&&") factor }
//! factor     = ("not" | "!") factor | "(" expression ")" | question
//! ```

mod words;

use std::ops::Range;

pub use words::{Fault, Word};

/// The depth to which parentheses and negations may nest.
const DEPTH_MAX: usize = 100;

/// Questions of the type `T`, joined.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression<T> {
    /// All of them hold.
    All(Vec<Self>),
    /// One of them holds.
    Any(Vec<Self>),
    /// It does not hold.
    Not(Box<Self>),
    /// A question.
    Test(T),
}

impl<T> Expression<T> {
    /// Whether it holds, if `test` answers a single question.
    pub fn holds(&self, test: &impl Fn(&T) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(test)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(test)),
            Self::Not(part) => !part.holds(test),
            Self::Test(question) => test(question),
        }
    }
}

/// Reads a question at the next word.
pub type Question<'q, T> = &'q dyn Fn(&mut Cursor<'_>) -> Result<Expression<T>, Fault>;

/// Reads an expression.
///
/// # Errors
///
/// The first fault, with its place.
pub fn parse<T>(text: &str, question: Question<'_, T>) -> Result<Expression<T>, Fault> {
    let end = text.len()..text.len();
    let mut cursor = Cursor { words: words::words(text), next: 0, depth: 0, end };
    let expression = cursor.expression(question)?;
    match cursor.peek() {
        None => Ok(expression),
        Some(_) => Err(cursor.fault("this does not belong here", "join questions by and, or")),
    }
}

/// The words of an expression, and how far they were read.
#[derive(Debug)]
pub struct Cursor<'a> {
    words: Vec<(Word<'a>, Range<usize>)>,
    next: usize,
    depth: usize,
    /// The place of the end of the text.
    end: Range<usize>,
}

impl<'a> Cursor<'a> {
    /// The next word.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).map(|(word, _)| *word)
    }

    /// The place of the next word.
    pub fn here(&self) -> Range<usize> {
        self.words.get(self.next).map_or(self.end.clone(), |(_, at)| at.clone())
    }

    /// Passes over the next word.
    pub fn pass(&mut self) {
        self.next += 1;
    }

    /// Passes over the next word if it is one of these.
    pub fn take(&mut self, signs: &[&str]) -> Option<&'a str> {
        match self.peek()? {
            Word::Name(text) | Word::Sign(text) if signs.contains(&text) => {
                self.next += 1;
                Some(text)
            }
            _ => None,
        }
    }

    /// A fault of the next word.
    pub fn fault(&self, reason: &str, help: impl Into<String>) -> Fault {
        let reason = if self.peek().is_none() { "something is missing here" } else { reason };
        Fault { at: self.here(), reason: reason.to_owned(), help: help.into() }
    }

    fn expression<T>(&mut self, question: Question<'_, T>) -> Result<Expression<T>, Fault> {
        let mut terms = vec![self.term(question)?];
        while self.take(&["or", "||"]).is_some() {
            terms.push(self.term(question)?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::Any(terms) })
    }

    fn term<T>(&mut self, question: Question<'_, T>) -> Result<Expression<T>, Fault> {
        let mut factors = vec![self.factor(question)?];
        while self.take(&["and", "&&"]).is_some() {
            factors.push(self.factor(question)?);
        }
        Ok(if factors.len() == 1 { factors.remove(0) } else { Expression::All(factors) })
    }

    fn factor<T>(&mut self, question: Question<'_, T>) -> Result<Expression<T>, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault("this is nested too deeply", "write it shorter"));
        }
        let factor = if self.take(&["not", "!"]).is_some() {
            Expression::Not(Box::new(self.factor(question)?))
        } else if self.take(&["("]).is_some() {
            let inner = self.expression(question)?;
            if self.take(&[")"]).is_none() {
                return Err(self.fault("a ')' is missing here", "close what '(' opens"));
            }
            inner
        } else {
            question(self)?
        };
        self.depth -= 1;
        Ok(factor)
    }
}
