//! Files that a campaign includes.
//!
//! Devices and layers are shared by many campaigns. A file lies above those that it includes: its
//! keys win, an entry of a table replaces the one of the same name, and lists such as `[[rule]]`
//! follow those that are included. Every value keeps its own file, line and column: the files are
//! read as one text, in which each begins where the one before it ends.

use std::collections::HashSet;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::place::{Refused, Result, Text};
use crate::value::text_of;

/// The most files that a campaign may consist of.
const FILES_MAX: usize = 100;

/// Opens an included file, named as in the including one; the error is a reason in words. The
/// result is the name for messages, which also tells a file that was read before, and the text.
pub type Open<'o> = &'o dyn Fn(&str) -> std::result::Result<(String, String), String>;

/// The files of a campaign, what is included first.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// Their names, and where each begins in `text`.
    files: Vec<(usize, Arc<str>)>,
    /// All of them, one behind the other.
    pub(super) text: String,
}

impl Gathered {
    /// Reads a file and what it includes.
    pub(super) fn of(name: &str, text: &str, open: Open<'_>) -> Result<Self> {
        let mut gathered = Self::default();
        gathered.gather(name, text, open, &mut Vec::new(), &mut HashSet::new())?;
        Ok(gathered)
    }

    fn gather(
        &mut self,
        name: &str,
        text: &str,
        open: Open<'_>,
        above: &mut Vec<String>,
        done: &mut HashSet<String>,
    ) -> Result<()> {
        above.push(name.to_owned());
        for (included, refusal) in included(name, text)? {
            let (name, text) = open(&included).map_err(|reason| {
                refusal(reason, "paths are relative to the campaign's file".to_owned())
            })?;
            if above.contains(&name) {
                let reason = format!("'{included}' includes itself: {}", above.join(" → "));
                return Err(refusal(reason, "leave out one of them".to_owned()));
            }
            if done.len() >= FILES_MAX {
                let reason = format!("more than {FILES_MAX} files are included");
                return Err(refusal(reason, "join some of them".to_owned()));
            }
            // A file that two others include is read once.
            if !done.contains(&name) {
                self.gather(&name, &text, open, above, done)?;
                done.insert(name);
            }
        }
        above.pop();
        self.files.push((self.text.len(), name.into()));
        self.text.push_str(text);
        // A file that ends without a line end must not run into the next.
        self.text.push('\n');
        Ok(())
    }

    /// The files as one text with places.
    pub(super) fn places(&self) -> Text<'_> {
        Text::of_files(self.files.clone(), &self.text)
    }

    /// The text of each file, behind as many blanks as there are bytes before it. So the places in
    /// it are those in the one text.
    pub(super) fn padded(&self) -> Vec<String> {
        let ends = self.files.iter().skip(1).map(|(start, _)| *start).chain([self.text.len()]);
        let text = |((start, _), end): (&(usize, Arc<str>), usize)| {
            " ".repeat(*start) + &self.text[*start..end]
        };
        self.files.iter().zip(ends).map(text).collect()
    }
}

/// A refusal of an included file, at the place where it is named.
type Refuse = Box<dyn Fn(String, String) -> Refused>;

/// The files that a text includes.
fn included(name: &str, text: &str) -> Result<Vec<(String, Refuse)>> {
    let places = Text::new(name, text);
    let parsed = parsed(text, &places)?;
    let Some(value) = parsed.get("include") else { return Ok(Vec::new()) };
    let items = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    let mut files = Vec::new();
    for item in items {
        let place = places.place(&item.span());
        let refuse = move |reason: String, help: String| Refused::new(&place, reason, help);
        match text_of(item.get_ref()) {
            Ok(file) => files.push((file, Box::new(refuse) as Refuse)),
            Err(found) => {
                let reason = format!("a file is expected here, and this is {found}");
                return Err(refuse(reason, "write include = [\"…\"]".to_owned()));
            }
        }
    }
    Ok(files)
}

/// A text as TOML.
pub(super) fn parsed<'a>(text: &'a str, places: &Text<'_>) -> Result<DeTable<'a>> {
    let parsed = DeTable::parse(text).map_err(|error| {
        let place = places.place(&error.span().unwrap_or(0..0));
        Refused::new(&place, error.message().trim().replace('\n', ", "), "this is no TOML here")
    })?;
    Ok(parsed.into_inner())
}

/// Puts a table above another one.
pub(super) fn laid_over<'a>(mut below: DeTable<'a>, above: DeTable<'a>) -> DeTable<'a> {
    for (key, value) in above {
        let joined = match (below.get_mut(&key).map(toml::Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(under)), DeValue::Table(over)) => {
                for (name, entry) in over {
                    // The key is inserted anew, because it has a place too.
                    under.remove(name);
                    under.insert(name.clone(), entry.clone());
                }
                true
            }
            (Some(DeValue::Array(under)), DeValue::Array(over)) if is_of_tables(over) => {
                over.iter().cloned().for_each(|item| under.push(item));
                true
            }
            _ => false,
        };
        if !joined {
            below.remove(&key);
            below.insert(key, value);
        }
    }
    below
}

fn is_of_tables(items: &toml::de::DeArray<'_>) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get_ref().is_table())
}
