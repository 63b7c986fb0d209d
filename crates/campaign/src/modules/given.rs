//! The settings of a module, as they are given.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use ioecho_trace::{Bytes, Nanos};

use crate::ground::{Command, LIMIT};
use crate::value::Value;

/// The settings of a module in one cell, with everything in braces filled in. The keys of a table
/// are written with dots: `set.scheduler`.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Its name in the stack.
    pub name: String,
    /// The settings.
    pub settings: BTreeMap<String, Value>,
    /// The directory in which relative paths begin.
    pub base: String,
}

/// A setting that is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Its key.
    pub key: String,
    /// Why.
    pub reason: String,
    /// What to do.
    pub help: String,
}

impl Wrong {
    /// A refusal of a key's value.
    pub fn new(key: &str, reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self { key: key.to_owned(), reason: reason.into(), help: help.into() }
    }
}

type Result<T> = std::result::Result<T, Wrong>;

impl Given {
    /// The text of a key.
    ///
    /// # Errors
    ///
    /// If it has another type.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.settings.get(key) {
            None => Ok(None),
            Some(Value::One(text)) => Ok(Some(text)),
            Some(_) => Err(Wrong::new(key, format!("{key} has one value"), "write \"…\"")),
        }
    }

    /// The text of a key that must be there.
    ///
    /// # Errors
    ///
    /// If it is missing or has another type.
    pub fn needed(&self, key: &str) -> Result<&str> {
        let missing = || Wrong::new(key, format!("'{key}' is missing"), format!("write {key} = …"));
        self.text(key)?.ok_or_else(missing)
    }

    /// A value that is parsed from its text.
    ///
    /// # Errors
    ///
    /// If the text is none.
    pub fn parsed<T>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        help: &str,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let wrong = || Wrong::new(key, format!("'{text}' is not possible for {key}"), help);
        read(text).map(Some).ok_or_else(wrong)
    }

    /// One of these words; the first, if none is given.
    ///
    /// # Errors
    ///
    /// If it is another.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<T> {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let help = format!("write {}", known.join(" or "));
        let find = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, it)| *it);
        Ok(self.parsed(key, find, &help)?.unwrap_or(words[0].1))
    }

    /// The word of a key that decides which other keys belong to it; `kinds` has the words with
    /// the keys of each. A key that ends in a table's name stands for the whole table.
    ///
    /// # Errors
    ///
    /// If it is missing or another word, or a key is given that belongs to other words only.
    pub fn kind(&self, key: &str, kinds: &[(&'static str, &[&str])]) -> Result<&'static str> {
        let word = self.needed(key)?;
        let words: Vec<&str> = kinds.iter().map(|(word, _)| *word).collect();
        let Some((word, own)) = kinds.iter().find(|(known, _)| *known == word) else {
            let help = format!("write {}", words.join(", "));
            return Err(Wrong::new(key, format!("'{word}' is not possible for {key}"), help));
        };
        let is_of = |keys: &[&str], key: &str| {
            keys.iter().any(|own| key == *own || key.starts_with(&format!("{own}.")))
        };
        let is_of_another =
            |key: &&String| kinds.iter().any(|(_, keys)| is_of(keys, key)) && !is_of(own, key);
        if let Some(foreign) = self.settings.keys().find(is_of_another) {
            let reason = format!("'{foreign}' does not belong to the {key} {word}");
            return Err(Wrong::new(foreign, reason, format!("{word} has {}", own.join(", "))));
        }
        Ok(word)
    }

    /// A whole number within a range.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn count(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let read = |text: &str| text.parse().ok().filter(|number| range.contains(number));
        self.parsed(key, read, &format!("write {} to {}", range.start(), range.end()))
    }

    /// A span such as `10m`.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn span(&self, key: &str) -> Result<Option<Duration>> {
        let read = |text: &str| {
            let span = text.parse::<Nanos>().ok()?.0;
            u64::try_from(span).ok().filter(|span| *span > 0).map(Duration::from_nanos)
        };
        self.parsed(key, read, "write a time such as 10m")
    }

    /// The limit of a command: the key `limit`, or the usual one.
    ///
    /// # Errors
    ///
    /// If it is no span.
    pub fn limit(&self) -> Result<Duration> {
        Ok(self.span("limit")?.unwrap_or(LIMIT))
    }

    /// A number of bytes such as `80G`, with powers of 1024.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn size(&self, key: &str) -> Result<Option<u64>> {
        let read = |text: &str| text.parse::<Bytes>().ok().map(|it| it.0).filter(|it| *it > 0);
        self.parsed(key, read, "write a size such as 80G")
    }

    /// A switch.
    ///
    /// # Errors
    ///
    /// If it is neither true nor false.
    pub fn switch(&self, key: &str) -> Result<Option<bool>> {
        match self.settings.get(key) {
            None => Ok(None),
            Some(Value::Switch(on)) => Ok(Some(*on)),
            Some(Value::One(text)) if text == "true" || text == "false" => Ok(Some(text == "true")),
            Some(_) => Err(Wrong::new(key, format!("{key} is a switch"), "write true or false")),
        }
    }

    /// The texts of a list; a single one is a list too.
    ///
    /// # Errors
    ///
    /// If it is a switch.
    pub fn list(&self, key: &str) -> Result<Option<Vec<String>>> {
        match self.settings.get(key) {
            None => Ok(None),
            Some(Value::Switch(_)) => {
                Err(Wrong::new(key, format!("{key} is a list"), "write [\"…\", \"…\"]"))
            }
            Some(value) => Ok(Some(value.texts().to_vec())),
        }
    }

    /// A command: a program and its arguments, with the limit of the module.
    ///
    /// # Errors
    ///
    /// If it is no list, or has no program.
    pub fn command(&self, key: &str) -> Result<Option<Command>> {
        let Some(argv) = self.list(key)? else { return Ok(None) };
        if argv.first().is_none_or(String::is_empty) {
            let help = "write [\"program\", \"argument\"]";
            return Err(Wrong::new(key, format!("{key} has no program"), help));
        }
        Ok(Some(Command::new(argv).within(self.limit()?)))
    }

    /// The entries of a table, by their keys within it.
    pub fn table(&self, table: &str) -> BTreeMap<&str, &Value> {
        let of_table = |key: &'_ String| key.strip_prefix(table)?.strip_prefix('.').map(str::len);
        let entries = self.settings.iter().filter_map(|(key, value)| {
            let length = of_table(key)?;
            Some((&key[key.len() - length..], value))
        });
        entries.collect()
    }

    /// A path, from the directory of the campaign's file on.
    pub fn path(&self, text: &str) -> String {
        if text.starts_with('/') || self.base.is_empty() {
            return text.to_owned();
        }
        format!("{}/{text}", self.base.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_keys_behind_its_name() {
        let one = |text: &str| Value::One(text.to_owned());
        let settings = [("set.scheduler", "none"), ("set.nr_requests", "64"), ("settle", "1")];
        let settings = settings.map(|(key, value)| (key.to_owned(), one(value))).into();
        let given = Given { settings, ..Given::default() };
        let table = given.table("set");
        assert_eq!(table.keys().copied().collect::<Vec<_>>(), ["nr_requests", "scheduler"]);
    }
}
