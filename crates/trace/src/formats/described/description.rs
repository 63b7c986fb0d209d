//! The user's description of a text, checked.

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::delimited::{Cutter, Separator};
use super::error::DescriptionError;
use super::pattern::Pattern;
use super::units::{Field, Meaning, Refusal, SizeUnit, TimeUnit, meaning};
use super::words::Words;
use crate::batch::Columns;
use crate::formats::import::Epoch;

/// The content of the lines of a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Typed", into = "Typed")]
pub struct Description {
    /// The description as it was typed.
    pub(super) text: String,
    pub(super) shape: Shape,
    pub(super) separator: Option<Separator>,
    pub(super) time: Option<TimeUnit>,
    pub(super) end: Option<TimeUnit>,
    pub(super) latency: Option<TimeUnit>,
    pub(super) offset: SizeUnit,
    pub(super) length: SizeUnit,
    pub(super) words: Option<Words>,
    /// The fields that the lines have.
    pub(super) has: Vec<Field>,
}

/// The way in which a line is cut into fields.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// At separators: the slot of each column.
    Columns(Vec<Option<u8>>),
    /// By a regular expression.
    Pattern(Pattern),
}

impl Description {
    /// Columns in their order, separated by commas: `ts:us,vol,op,offset:sectors,length:bytes`.
    pub fn columns(text: &str) -> Result<Self, DescriptionError> {
        let mut gathered = Gathered::default();
        let mut slots = Vec::new();
        let mut at = 0;
        for column in text.split(',') {
            let meaning = meaning(column).and_then(|meaning| gathered.take(meaning, column.len()));
            slots.push(meaning.map_err(|refusal| refuse(text, at, refusal))?);
            at += column.len() + 1;
        }
        gathered.finish(text, Shape::Columns(slots))
    }

    /// A regular expression with groups named like columns: `(?<ts_us>\d+) (?<op>\w) …`.
    pub fn pattern(text: &str) -> Result<Self, DescriptionError> {
        let regex = Regex::new(text).map_err(|error| {
            // The library's own message shows the pattern with a mark; its last line says why.
            let full = error.to_string();
            let why = full.lines().last().unwrap_or_default();
            let why = why.strip_prefix("error: ").unwrap_or(why);
            refuse(text, 0, (0, text.len(), format!("no regular expression: {why}")))
        })?;
        let mut gathered = Gathered::default();
        let mut slots = Vec::new();
        for name in regex.capture_names() {
            let Some(name) = name else {
                slots.push(None);
                continue;
            };
            let at = text.find(&format!("<{name}>")).map_or(0, |at| at + 1);
            // The length is unchanged, so that places in error messages stay right.
            let column = name.replace('_', ":");
            let meaning = meaning(&column).and_then(|meaning| gathered.take(meaning, name.len()));
            slots.push(meaning.map_err(|refusal| refuse(text, at, refusal))?);
        }
        gathered.finish(text, Shape::Pattern(Pattern { regex, slots }))
    }

    /// Sets the separator of columns, which is otherwise guessed.
    #[must_use]
    pub fn separated_by(self, separator: Separator) -> Self {
        Self { separator: Some(separator), ..self }
    }

    /// Sets the words for operations.
    #[must_use]
    pub fn with_words(self, words: Words) -> Self {
        Self { words: Some(words), ..self }
    }

    /// The optional columns of a trace with this description.
    pub(super) fn optional(&self) -> Columns {
        Columns {
            latency: self.latency.is_some() || self.time.is_some() && self.end.is_some(),
            origin: [Field::Process, Field::Processor, Field::Command].iter().any(|f| self.has(*f)),
            measured: false,
            dependencies: false,
        }
    }

    /// The zero from which instants count.
    pub(super) fn epoch(&self) -> Epoch {
        self.time.or(self.end).map_or(Epoch::Start, |unit| unit.epoch)
    }

    pub(super) fn has(&self, field: Field) -> bool {
        self.has.contains(&field)
    }

    /// The cutter for columns that are separated by `separator`.
    pub(super) fn cutter(&self, separator: Separator) -> Cutter {
        match &self.shape {
            Shape::Columns(slots) => Cutter::new(separator, slots.iter().copied()),
            Shape::Pattern(_) => Cutter::new(separator, []),
        }
    }
}

/// A description as it is typed and stored: columns or a pattern, with a separator and words.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Typed {
    columns: Option<String>,
    pattern: Option<String>,
    separator: Option<String>,
    ops: Option<String>,
}

impl From<Description> for Typed {
    fn from(description: Description) -> Self {
        let Description { text, shape, separator, words, .. } = description;
        let (columns, pattern) = match shape {
            Shape::Columns(_) => (Some(text), None),
            Shape::Pattern(_) => (None, Some(text)),
        };
        let separator = separator.map(Separator::name);
        Self { columns, pattern, separator, ops: words.map(|words| words.to_string()) }
    }
}

impl TryFrom<Typed> for Description {
    type Error = String;

    fn try_from(typed: Typed) -> Result<Self, String> {
        let mut description = match (&typed.columns, &typed.pattern) {
            (Some(columns), None) => Self::columns(columns),
            (None, Some(pattern)) => Self::pattern(pattern),
            _ => return Err("a description is one of columns and pattern".to_owned()),
        }
        .map_err(|error| error.to_string())?;
        if let Some(separator) = typed.separator {
            description = description.separated_by(separator.parse()?);
        }
        if let Some(ops) = typed.ops {
            description = description.with_words(ops.parse()?);
        }
        Ok(description)
    }
}

/// An error in `text`: `refusal` counts its place from byte `at`.
fn refuse(text: &str, at: usize, (from, length, reason): Refusal) -> DescriptionError {
    DescriptionError { text: text.to_owned(), at: at + from, length, reason }
}

/// The description so far.
#[derive(Default)]
struct Gathered {
    time: Option<TimeUnit>,
    end: Option<TimeUnit>,
    latency: Option<TimeUnit>,
    offset: Option<SizeUnit>,
    length: Option<SizeUnit>,
    words: Option<Words>,
    has: Vec<Field>,
}

impl Gathered {
    /// Adds the meaning of one column, described in `length` bytes; returns its slot.
    fn take(&mut self, meaning: Meaning, length: usize) -> Result<Option<u8>, Refusal> {
        let field = match meaning {
            Meaning::Ignored => return Ok(None),
            Meaning::Text(Field::Volume) if self.has.contains(&Field::Volume) => Field::VolumePart,
            Meaning::Time(field, _) | Meaning::Size(field, _) | Meaning::Text(field) => field,
            Meaning::Op(_) => Field::Op,
        };
        if self.has.contains(&field) {
            return Err((0, length, "this column is there already".to_owned()));
        }
        match meaning {
            Meaning::Time(Field::Time, unit) => self.time = Some(unit),
            Meaning::Time(Field::End, unit) => self.end = Some(unit),
            Meaning::Time(_, unit) => self.latency = Some(unit),
            Meaning::Size(Field::Offset, unit) => self.offset = Some(unit),
            Meaning::Size(_, unit) => self.length = Some(unit),
            Meaning::Op(words) => self.words = words,
            Meaning::Ignored | Meaning::Text(_) => {}
        }
        self.has.push(field);
        Ok(Some(field as u8))
    }

    fn finish(self, text: &str, shape: Shape) -> Result<Description, DescriptionError> {
        let missing = |what: &str| refuse(text, text.len(), (0, 0, format!("{what} is missing")));
        if self.time.is_none() && (self.end.is_none() || self.latency.is_none()) {
            return Err(missing("the time of issue (ts:us; or end:us with latency:us)"));
        }
        if let (Some(time), Some(end)) = (self.time, self.end)
            && time.epoch != end.epoch
        {
            let reason = "'ts' and 'end' count from different instants".to_owned();
            return Err(refuse(text, 0, (0, text.len(), reason)));
        }
        let offset = self.offset.ok_or_else(|| missing("the place (offset:sectors)"))?;
        let length = self.length.ok_or_else(|| missing("the length (length:bytes)"))?;
        Ok(Description {
            text: text.to_owned(),
            shape,
            separator: None,
            time: self.time,
            end: self.end,
            latency: self.latency,
            offset,
            length,
            words: self.words,
            has: self.has,
        })
    }
}
