//! The lines of parameter files, with what they include and what their variables stand for.
//!
//! A parameter file is put together: by includes, by variables from the command line, by lines that
//! are repeated for each host. An error must be shown where its author can mend it, so every
//! character remembers its column in the file it was read from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fault::Faults;
use super::keys::{Section, meant};
use crate::place::Place;

/// The deepest nesting of includes.
const DEPTH_MAX: usize = 16;

/// The most files of a description.
const FILES_MAX: usize = 1000;

/// The most characters of a description, includes and variables put in.
const LETTERS_MAX: usize = 1 << 26;

/// Names in commands that are replaced when the command runs.
const OF_COMMANDS: [&str; 6] = ["output", "lun", "lba", "size", "sector", "error"];

/// A file as it lies on the disk.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name for messages, by which included files find it.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Opens a file that is named in another one: the name of that one, then the name as it is written.
/// The error is a reason in words.
pub type Open<'o> = &'o dyn Fn(&str, &str) -> Result<Input, String>;

/// Something that is told at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it is about.
    pub place: Place,
    /// A sentence without a full stop.
    pub what: String,
}

/// How a description is read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The values of variables.
    pub variables: BTreeMap<String, String>,
    /// Whether lines that begin with `*d` count.
    pub debug_lines: bool,
}

/// A character with its column in its file, counted from 1.
pub(super) type Letter = (char, u32);

/// A line that counts, without its comment.
pub(super) struct Line {
    pub(super) letters: Vec<Letter>,
    pub(super) file: Arc<str>,
    pub(super) number: usize,
}

impl Line {
    pub(super) fn place(&self, column: u32) -> Place {
        Place { file: self.file.clone(), line: self.number, column: column as usize }
    }
}

/// Everything that was read.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) lines: Vec<Line>,
    /// Each file with its lines as they are written.
    pub(super) files: Vec<(Arc<str>, Vec<String>)>,
    pub(super) told: Vec<Told>,
}

/// Reads files and what they include.
pub(super) fn gather(
    inputs: &[Input],
    reading: &Reading,
    open: Open<'_>,
    faults: &mut Faults,
) -> Gathered {
    let mut gatherer = Gatherer {
        reading,
        open,
        faults,
        gathered: Gathered::default(),
        hosts: Vec::new(),
        used: BTreeSet::new(),
        unset: BTreeSet::new(),
        letters: 0,
    };
    for input in inputs {
        gatherer.file(input, 0);
    }
    for name in reading.variables.keys().filter(|name| !gatherer.used.contains(*name)) {
        let place = Place::outside(&format!("{name}=…"));
        let reason = format!("the variable '{name}' stands nowhere in the file");
        gatherer.faults.syntax(&place, reason, "take it out, or write it with a '$' in the file");
    }
    gatherer.gathered
}

struct Gatherer<'r> {
    reading: &'r Reading,
    open: Open<'r>,
    faults: &'r mut Faults,
    gathered: Gathered,
    /// The hosts that are defined so far.
    hosts: Vec<String>,
    used: BTreeSet<String>,
    /// Variables without a value that were told.
    unset: BTreeSet<String>,
    letters: usize,
}

impl Gatherer<'_> {
    fn file(&mut self, input: &Input, depth: usize) {
        let name: Arc<str> = input.name.as_str().into();
        let text = String::from_utf8_lossy(&input.bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            let what = "it holds bytes that are not UTF-8; they are shown as '\u{FFFD}'";
            self.tell(Place { file: name.clone(), line: 0, column: 0 }, what);
        }
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        self.gathered.files.push((name.clone(), lines.clone()));
        let mut is_indented = false;
        for (index, raw) in lines.iter().enumerate() {
            let raw = self.uncommented(raw);
            let start = raw.chars().take_while(|c| c.is_whitespace()).count();
            let text = raw.trim();
            if text.is_empty() || is_comment(text) {
                continue;
            }
            if text.eq_ignore_ascii_case("eof") {
                break;
            }
            let mut line = Line { letters: Vec::new(), file: name.clone(), number: index + 1 };
            if start > 0 {
                if !begins_with_key(text) {
                    continue;
                }
                if !is_indented {
                    let what = "indented lines count here; Vdbench takes some for comments";
                    self.tell(line.place(start as u32 + 1), what);
                    is_indented = true;
                }
            }
            let columns = start as u32 + 1..;
            line.letters = text.chars().zip(columns).collect();
            self.without_comment(&mut line);
            self.for_hosts(line, depth);
            if self.letters > LETTERS_MAX {
                let place = Place { file: name.clone(), line: index + 1, column: 1 };
                let reason = format!("the description is longer than {LETTERS_MAX} characters");
                self.faults.syntax(&place, reason, "include less");
                self.letters = 0;
                break;
            }
        }
    }

    /// The line that stands behind the mark of debugging lines, if they count; else the line.
    fn uncommented<'l>(&self, raw: &'l str) -> &'l str {
        raw.strip_prefix("*d ").filter(|_| self.reading.debug_lines).unwrap_or(raw)
    }

    fn tell(&mut self, place: Place, what: impl Into<String>) {
        self.gathered.told.push(Told { place, what: what.into() });
    }

    /// Cuts off what follows the first blank: it is a comment.
    fn without_comment(&mut self, line: &mut Line) {
        let (mut quote, mut depth) = (None, 0_u32);
        for at in 0..line.letters.len() {
            let (c, column) = line.letters[at];
            match (c, quote) {
                (_, Some(mark)) => {
                    if c == mark {
                        quote = None;
                    }
                    continue;
                }
                ('"', None) => quote = Some(c),
                ('(', None) => depth += 1,
                (')', None) => depth = depth.saturating_sub(1),
                _ => {}
            }
            if !c.is_whitespace() {
                continue;
            }
            let behind: String = line.letters[at..].iter().map(|(c, _)| *c).collect();
            if depth > 0 && behind.contains(')') {
                let reason = "a blank begins a comment, and here it stands within brackets";
                self.faults.syntax(&line.place(column), reason, "take the blank out");
                line.letters.clear();
                return;
            }
            let mut words = behind.split([',', ' ', '\t', ';']);
            if let Some(key) = words.find(|word| begins_with_key(word)) {
                let what = format!("'{key}' stands behind a blank and is a comment");
                self.tell(line.place(column), what);
            }
            line.letters.truncate(at);
            return;
        }
    }

    /// Repeats a line for every host if it names `$host`.
    fn for_hosts(&mut self, line: Line, depth: usize) {
        let names_host = (0..line.letters.len()).any(|at| {
            matches!(line.letters[at].0, '$' | '!' | '#')
                && name_at(&line.letters, at + 1).is_some_and(|(name, _)| name == "host")
        });
        if !names_host || self.reading.variables.contains_key("host") {
            self.line(line, None, depth);
            return;
        }
        if self.hosts.is_empty() {
            let column = line.letters[0].1;
            let reason = "the line is repeated for every host, and no host is defined before it";
            self.faults.syntax(&line.place(column), reason, "write the hd= lines above it");
        }
        for host in self.hosts.clone() {
            let Line { letters, file, number } = &line;
            let line = Line { letters: letters.clone(), file: file.clone(), number: *number };
            self.line(line, Some(&host), depth);
        }
    }

    fn line(&mut self, mut line: Line, host: Option<&str>, depth: usize) {
        line.letters = self.substituted(&line, host);
        self.letters += line.letters.len();
        let text: String = line.letters.iter().map(|(c, _)| *c).collect();
        let lower = text.to_ascii_lowercase();
        if let Some(included) = lower.starts_with("include=").then(|| &text["include=".len()..]) {
            self.include(&line, included.trim_matches(['"', '\'', ',']), depth);
            return;
        }
        let host = lower.starts_with("hd=").then_some(3);
        if let Some(start) = host.or_else(|| lower.starts_with("host=").then_some(5)) {
            let name = text[start..].split(',').next().unwrap_or_default().trim_matches('"');
            if !["default", "localhost"].contains(&name) {
                self.hosts.push(name.to_owned());
            }
        }
        if !line.letters.is_empty() {
            self.gathered.lines.push(line);
        }
    }

    fn include(&mut self, line: &Line, included: &str, depth: usize) {
        let column = line.letters.first().map_or(1, |(_, column)| *column);
        let place = line.place(column + "include=".len() as u32);
        if line.letters.iter().filter(|(c, _)| *c == '"').count() % 2 > 0 {
            let help = "write \" behind the path";
            self.faults.syntax(&place, "the quotation mark \" is not closed", help);
            return;
        }
        if depth >= DEPTH_MAX {
            let reason = format!("files are included more than {DEPTH_MAX} deep");
            self.faults.syntax(&place, reason, "does a file include itself?");
            return;
        }
        if self.gathered.files.len() >= FILES_MAX {
            let reason = format!("more than {FILES_MAX} files are included");
            self.faults.syntax(&place, reason, "join some of them");
            return;
        }
        match (self.open)(&line.file, included) {
            Ok(input) => self.file(&input, depth + 1),
            Err(reason) => {
                let help = "a path is relative to the file that includes it";
                self.faults.syntax(&place, reason, help);
            }
        }
    }

    /// The letters of a line with the values of its variables.
    fn substituted(&mut self, line: &Line, host: Option<&str>) -> Vec<Letter> {
        let letters = &line.letters;
        let mut all = Vec::with_capacity(letters.len());
        let (mut at, mut quoted) = (0, false);
        while at < letters.len() {
            let (c, column) = letters[at];
            quoted ^= c == '"';
            let named = matches!(c, '$' | '!' | '#').then(|| name_at(letters, at + 1)).flatten();
            let Some((name, end)) = named else {
                all.push((c, column));
                at += 1;
                continue;
            };
            let value = match (c, name.as_str(), host) {
                ('#', "hosts", _) => Some(self.hosts.len().to_string()),
                (_, "host", Some(host)) => Some(host.to_owned()),
                ('#', ..) => None,
                _ => self.reading.variables.get(&name).cloned(),
            };
            let is_of_command = quoted && OF_COMMANDS.contains(&name.as_str());
            match value {
                Some(value) => {
                    all.extend(value.chars().map(|c| (c, column)));
                    self.used.insert(name);
                    at = end;
                    continue;
                }
                None if c == '#' || is_of_command => {}
                None if self.unset.insert(name.clone()) => {
                    let reason = format!("the variable '{name}' has no value");
                    let help = format!("write {name}=… behind the file");
                    self.faults.syntax(&line.place(column), reason, help);
                }
                None => {}
            }
            all.push((c, column));
            at += 1;
        }
        all
    }
}

/// The name that begins at `at`, perhaps in braces, and where it ends.
fn name_at(letters: &[Letter], at: usize) -> Option<(String, usize)> {
    let braced = letters.get(at)?.0 == '{';
    let start = at + usize::from(braced);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String =
        letters[start..].iter().map(|(c, _)| *c).take_while(|c| is_name(*c)).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let end = start + name.len();
    if braced {
        return (letters.get(end)?.0 == '}').then_some((name, end + 1));
    }
    Some((name, end))
}

/// Whether a line is a comment, or one that Vdbench's echo of a parameter file adds.
fn is_comment(text: &str) -> bool {
    text.starts_with(['*', '#', '/', '<']) || text.starts_with("==>")
}

/// Whether a text begins with a keyword of any section and `=`.
fn begins_with_key(text: &str) -> bool {
    let Some((word, _)) = text.split_once('=') else { return false };
    let word = word.to_ascii_lowercase();
    let is_word = word.len() >= 2 && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    is_word
        && (word == "include"
            || Section::begun_by(&word).is_some()
            || Section::ALL.iter().any(|section| meant(*section, &word).is_ok()))
}

/// Whether a text is like a parameter file: a line begins with a keyword of a section, and nothing
/// before it is something else.
pub(super) fn is_like(text: &str) -> bool {
    let is_echo = text.starts_with("<title>Vdbench ");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let begins = |line: &str| {
        let word = line.split_once('=').map(|(word, _)| word.to_ascii_lowercase());
        word.is_some_and(|word| Section::begun_by(&word).is_some())
    };
    lines.find(|line| !is_comment(line)).is_some_and(|first| {
        is_echo || begins_with_key(first) && (begins(first) || text.lines().any(begins))
    })
}
