//! Tables of a file, of which every key must be asked for.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Place, Refused, Result, Text};
use crate::value::text_of;

/// A value with its place.
pub(super) type Spot<'t, 'a> = &'t Spanned<DeValue<'a>>;

/// A table with the text that it stands in.
#[derive(Clone, Copy)]
pub(super) struct Table<'t, 'a> {
    pub(super) text: &'t Text<'t>,
    pub(super) entries: &'t DeTable<'a>,
    pub(super) span: &'t Range<usize>,
}

impl<'t, 'a> Table<'t, 'a> {
    /// The table at a value.
    pub(super) fn at(
        text: &'t Text<'t>,
        value: &'t Spanned<DeValue<'a>>,
        span: &'t Range<usize>,
    ) -> Result<Self> {
        match value.get_ref() {
            DeValue::Table(entries) => Ok(Self { text, entries, span }),
            other => {
                let reason =
                    format!("a table is expected here, and this is a {}", other.type_str());
                Err(Refused::new(&text.place(&value.span()), reason, "write it like [name]"))
            }
        }
    }

    /// Refuses keys other than these. Keys of `later` are told as what this version cannot do.
    pub(super) fn only(&self, what: &str, known: &[&str]) -> Result<()> {
        for (key, _) in self.entries {
            let (name, place) = (key.get_ref().as_ref(), self.text.place(&key.span()));
            if !known.contains(&name) {
                return Err(Refused::unknown(&place, what, name, known.iter().copied()));
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<Spot<'t, 'a>> {
        self.entries.get(key)
    }

    /// The value of a key that must be there.
    pub(super) fn needed(&self, key: &str) -> Result<Spot<'t, 'a>> {
        self.get(key).ok_or_else(|| {
            let place = self.text.place(self.span);
            Refused::new(&place, format!("'{key}' is missing"), format!("write {key} = …"))
        })
    }

    pub(super) fn place(&self, value: Spot<'_, '_>) -> Place {
        self.text.place(&value.span())
    }

    /// A refusal of a value.
    pub(super) fn wrong(&self, value: Spot<'_, '_>, reason: &str, help: &str) -> Refused {
        Refused::new(&self.place(value), reason, help)
    }

    pub(super) fn text_at(&self, value: Spot<'_, '_>) -> Result<String> {
        text_of(value.get_ref()).map_err(|found| {
            self.wrong(
                value,
                &format!("a text is expected here, and this is {found}"),
                "write \"…\"",
            )
        })
    }

    /// A list of texts; a single one is a list too.
    pub(super) fn texts_at(&self, value: Spot<'_, '_>) -> Result<Vec<(String, Place)>> {
        match value.get_ref() {
            DeValue::Array(items) => {
                items.iter().map(|item| Ok((self.text_at(item)?, self.place(item)))).collect()
            }
            _ => Ok(vec![(self.text_at(value)?, self.place(value))]),
        }
    }

    /// The same, where a switch is the text `true` or `false`.
    pub(super) fn values_at(&self, value: Spot<'t, 'a>) -> Result<Vec<(String, Place)>> {
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let text = |item: Spot<'t, 'a>| match item.get_ref() {
            DeValue::Boolean(on) => Ok(on.to_string()),
            _ => self.text_at(item),
        };
        items.into_iter().map(|item| Ok((text(item)?, self.place(item)))).collect()
    }

    /// A value that is parsed from its text.
    pub(super) fn parsed<T>(
        &self,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        help: &str,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = self.text_at(value)?;
        let wrong = || self.wrong(value, &format!("'{text}' is not possible for {key}"), help);
        read(&text).map(Some).ok_or_else(wrong)
    }

    pub(super) fn switch(&self, key: &str) -> Result<bool> {
        match self.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(false),
            Some((_, DeValue::Boolean(on))) => Ok(*on),
            Some((value, _)) => {
                Err(self.wrong(value, "true or false is expected here", "write true"))
            }
        }
    }
}
