//! Where a value comes from, and how a fault in a file is told.
//!
//! A campaign runs for a weekend. A typing error must be found before it begins, and shown at its
//! line. So every value knows its file, line and column.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A place in a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; another origin, such as an argument, has a name of its own.
    pub file: Arc<str>,
    /// The line; 0 where there are no lines.
    pub line: usize,
    /// The column in characters.
    pub column: usize,
}

impl Place {
    /// An origin without lines.
    pub fn outside(name: &str) -> Self {
        Self { file: name.into(), line: 0, column: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
        }
    }
}

/// The text of one file, or of several, one behind the other, whose bytes have places.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    /// Where each file begins, and its name.
    files: Vec<(usize, Arc<str>)>,
    text: &'a str,
}

impl<'a> Text<'a> {
    /// The text of the file of this name.
    pub fn new(name: &str, text: &'a str) -> Self {
        Self { files: vec![(0, name.into())], text }
    }

    /// The text of these files, each with the byte at which it begins; the first begins at 0.
    pub fn of_files(files: Vec<(usize, Arc<str>)>, text: &'a str) -> Self {
        Self { files, text }
    }

    /// The place of the first of these bytes.
    pub fn place(&self, span: &Range<usize>) -> Place {
        let end = self.text.floor_char_boundary(span.start);
        let begun = self.files.iter().rev().find(|(start, _)| *start <= end);
        let (start, name) = begun.map_or((0, "".into()), |(start, name)| (*start, name.clone()));
        let before = &self.text[start..end];
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place {
            file: name,
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }
}

/// What stands between a reason and its remedy.
const HELP: &str = "\n  = help: ";

/// A word of more letters is no slip of the pen, and would take long to compare.
const WORD_MAX: usize = 64;

/// A campaign that is refused: the place, the reason, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where.
    pub place: Place,
    /// Why.
    pub reason: String,
    /// What to do.
    pub help: String,
}

impl Refused {
    /// A refusal. A reason that brings its own remedy keeps it.
    pub fn new(place: &Place, reason: impl Into<String>, help: impl Into<String>) -> Self {
        let (place, reason) = (place.clone(), reason.into());
        match reason.split_once(HELP) {
            Some((reason, help)) => {
                Self { place, reason: reason.to_owned(), help: help.to_owned() }
            }
            None => Self { place, reason, help: help.into() },
        }
    }

    /// A word that is not known. The help names the nearest of the known words, or all of them.
    pub fn unknown<'k>(
        place: &Place,
        what: &str,
        word: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let help = match nearest(word, &known) {
            Some(nearest) => format!("did you mean '{nearest}'?"),
            None if known.is_empty() => "there is none here".to_owned(),
            None if known.len() > 24 => "docs/campaign.md says which there are".to_owned(),
            None => format!("known are {}", known.join(", ")),
        };
        Self::new(place, format!("there is no {what} '{word}'"), help)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{HELP}{}", self.place, self.reason, self.help)
    }
}

impl std::error::Error for Refused {}

/// The result of reading a campaign.
pub type Result<T> = std::result::Result<T, Refused>;

/// The known word that was probably meant: the one with the fewest letters to change, at most a
/// third of them.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > WORD_MAX {
        return None;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    let nearest = known.iter().min_by_key(|known| distance(known))?;
    let (letters, wrong) = (word.chars().count(), distance(nearest));
    (wrong < letters && wrong * 3 <= letters.max(3)).then_some(*nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_keeps_its_remedy_and_a_long_word_is_like_none() {
        let place = Text::new("a.toml", "x=1\n").place(&(0..1));
        let refused = Refused::new(&place, "it is wrong\n  = help: mend it", "leave it");
        assert_eq!(refused.to_string(), "a.toml:1:1: it is wrong\n  = help: mend it");
        let long = "speedup".repeat(10_000);
        let refused = Refused::unknown(&place, "key", &long, ["speedup"]);
        assert_eq!(refused.help, "known are speedup");
    }

    #[test]
    fn a_place_is_a_line_and_a_column_of_characters() {
        let text = Text::new("a.toml", "ä=1\nbö=2\n");
        let at = text.text.find('2').unwrap();
        assert_eq!(text.place(&(at..at + 1)).to_string(), "a.toml:2:4");
        assert_eq!(Place::outside("an argument").to_string(), "an argument");
    }

    #[test]
    fn a_word_that_is_nearly_known_is_answered_with_the_known_one() {
        let place = Place::outside("x");
        let told = |word| Refused::unknown(&place, "key", word, ["speedup", "start", "seed"]).help;
        assert_eq!(told("spedup"), "did you mean 'speedup'?");
        assert_eq!(told("sede"), "did you mean 'seed'?");
        assert_eq!(told("wholly-else"), "known are speedup, start, seed");
    }
}
