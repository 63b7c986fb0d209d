//! Keys with values as definitions, each in its section.
//!
//! Both forms of a description, Vdbench's and our own, become the same definitions, so everything
//! behind this exists once. What `default` says holds for the definitions of its section that
//! follow.

use std::collections::HashMap;

use super::fault::Faults;
use super::gather::Told;
use super::keys::{Does, Key, Section, is_name, meant};
use super::tokens::{Item, Token};
use crate::place::{Place, nearest};

/// The most definitions of a description.
const DEFINITIONS_MAX: usize = 100_000;

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    pub(super) items: Vec<Item>,
    /// Where the key stands.
    pub(super) place: Place,
}

/// A definition.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) section: Section,
    pub(super) name: String,
    pub(super) place: Place,
    /// In the order of the file, its own before those of `default`.
    pub(super) entries: Vec<Entry>,
}

impl Definition {
    fn new(section: Section, name: &str, place: &Place) -> Self {
        Self { section, name: name.to_owned(), place: place.clone(), entries: Vec::new() }
    }

    /// The entry of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.name == key)
    }

    /// All entries of a key.
    pub(super) fn all<'d>(&'d self, key: &'d str) -> impl Iterator<Item = &'d Entry> {
        self.entries.iter().filter(move |entry| entry.key.name == key)
    }
}

/// The name of a definition that holds for those that follow it.
const DEFAULT: &str = "default";

/// Keys that may stand in a definition more than once: a volume has a path on every host.
const REPEATED: [&str; 2] = ["lun", "host"];

/// The definitions of a parameter file.
pub(super) fn definitions(
    tokens: Vec<Token>,
    told: &mut Vec<Told>,
    faults: &mut Faults,
) -> Vec<Definition> {
    let start = Place { file: "".into(), line: 0, column: 0 };
    let mut builder = Builder {
        open: Definition::new(Section::General, "", &start),
        general: Definition::new(Section::General, "", &start),
        defaults: HashMap::new(),
        done: Vec::new(),
        told,
        faults,
    };
    for token in tokens {
        builder.token(token);
        if builder.done.len() > DEFINITIONS_MAX {
            let place = builder.open.place.clone();
            let reason = format!("there are more than {DEFINITIONS_MAX} definitions");
            builder.faults.syntax(&place, reason, "make several files of it");
            break;
        }
    }
    builder.close();
    let mut all = vec![builder.general];
    all.append(&mut builder.done);
    all
}

struct Builder<'b> {
    open: Definition,
    general: Definition,
    defaults: HashMap<Section, Definition>,
    done: Vec<Definition>,
    told: &'b mut Vec<Told>,
    faults: &'b mut Faults,
}

impl Builder<'_> {
    fn token(&mut self, token: Token) {
        let section = self.open.section;
        let known = meant(section, &token.key);
        if let Some(begun) = Section::begun_by(&token.key)
            && (token.begins || !is_name(section, &token.key))
        {
            self.begin(begun, &token);
            return;
        }
        let of_general = || meant(Section::General, &token.key);
        match known {
            Ok(key) => self.entry(key, token),
            // The order of sections is free: a general parameter may stand on a line of its own.
            Err(_) if token.begins && of_general().is_ok() => {
                if let Ok(key) = of_general() {
                    self.close();
                    self.entry(key, token);
                }
            }
            Err(could_be) => self.unknown(&token, &could_be),
        }
    }

    fn begin(&mut self, section: Section, token: &Token) {
        self.close();
        let item = &token.items[0];
        if token.items.len() > 1 {
            let reason = format!("a {} has one name, not {}", section.word(), token.items.len());
            self.faults.syntax(&token.place, reason, "write a definition for each");
        }
        self.open = Definition::new(section, &item.text, &token.place);
    }

    /// Ends the open definition.
    fn close(&mut self) {
        let none = Definition::new(Section::General, "", &self.open.place);
        let mut closed = std::mem::replace(&mut self.open, none);
        if closed.section == Section::General {
            self.general.entries.append(&mut closed.entries);
            return;
        }
        let default = self.defaults.get(&closed.section);
        for entry in default.iter().flat_map(|default| &default.entries) {
            if closed.get(entry.key.name).is_none() {
                closed.entries.push(entry.clone());
            }
        }
        if closed.name.eq_ignore_ascii_case(DEFAULT) {
            self.defaults.insert(closed.section, closed);
        } else {
            self.done.push(closed);
        }
    }

    fn entry(&mut self, key: &'static Key, token: Token) {
        match key.does {
            Does::Counts => {}
            Does::Told(why) => {
                let what = format!("{}= counts for nothing here: {why}", key.name);
                self.told.push(Told { place: token.place, what });
                return;
            }
            Does::Refused(why, remedy) => {
                let reason = format!("{}= is not possible: {why}", key.name);
                self.faults.syntax(&token.place, reason, remedy);
                return;
            }
        }
        let before = self.open.get(key.name).filter(|_| !REPEATED.contains(&key.name));
        if let Some(before) = before.filter(|_| self.open.section != Section::General) {
            let texts = |items: &[Item]| -> Vec<String> {
                items.iter().map(|item| item.text.clone()).collect()
            };
            if texts(&before.items) == texts(&token.items) {
                let what = format!("{}= stands twice with the same value", key.name);
                self.told.push(Told { place: token.place, what });
                return;
            }
            let reason =
                format!("'{}' stands twice in this {}", key.name, self.open.section.word());
            self.faults.syntax(&token.place, reason, "take one of them out");
            return;
        }
        self.open.entries.push(Entry { key, items: token.items, place: token.place });
    }

    /// Tells that a section has no such key, and where there is one.
    fn unknown(&mut self, token: &Token, could_be: &[&str]) {
        let (section, word) = (self.open.section, token.key.as_str());
        let what = match section {
            Section::General => "there is no general parameter".to_owned(),
            section => format!("{} has no", section.word()),
        };
        let elsewhere: Vec<&str> = Section::ALL
            .into_iter()
            .filter(|other| *other != section && *other != Section::General)
            .filter(|other| meant(*other, word).is_ok())
            .map(Section::word)
            .collect();
        let names = section.keys().iter().filter(|key| key.does == Does::Counts);
        let names: Vec<&str> = names
            .flat_map(|key| std::iter::once(key.name).chain(key.others.iter().copied()))
            .collect();
        let help = if !could_be.is_empty() {
            format!("it could be any of {}", could_be.join(", "))
        } else if meant(Section::General, word).is_ok_and(|key| key.name.len() - word.len() < 4) {
            let first =
                if self.done.iter().any(|it| it.section == Section::Tree) { "fsd" } else { "sd" };
            format!("it is a general parameter; put it on a line before {first}=")
        } else if let Some(near) = nearest(word, &names) {
            format!("did you mean '{near}'?")
        } else if elsewhere.is_empty() {
            "no section has it; docs/workloads.md lists all keywords".to_owned()
        } else {
            format!("it is a parameter of {}", elsewhere.join(", "))
        };
        self.faults.syntax(&token.place, format!("{what} '{word}'"), help);
    }
}
