//! The stack of a file, and the settings of its entries wherever they are given.

use toml::de::DeValue;

use super::hosts::hosts_of;
use super::{Reader, check};
use crate::file::table::{Spot, Table};
use crate::file::{Host, Layer, Setting};
use crate::modules::{FAMILIES, Family};
use crate::place::{Place, Refused, Result};
use crate::stack::{Entry, PREFIX, STACK};
use crate::value::Value;

/// The key of the hosts to which a stack goes with an entry.
const HOSTS: &str = "hosts";

impl<'t, 'a> Reader<'t, 'a> {
    /// The stack. `hosts` are those of the file.
    pub(super) fn stack(&self, hosts: &[Host]) -> Result<Vec<Entry>> {
        let mut stack: Vec<Entry> = Vec::new();
        for table in self.items("stack")? {
            let value = table.needed("module")?;
            let module = table.text_at(value)?;
            let Some(family) = Family::named(&module) else {
                let names = FAMILIES.iter().map(|family| family.name);
                return Err(Refused::unknown(&table.place(value), "module", &module, names));
            };
            let (name, place) = match table.get("name") {
                Some(value) => (table.text_at(value)?, table.place(value)),
                None => (module, table.place(value)),
            };
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
            if name.is_empty() || !name.chars().all(is_part) {
                let reason = format!("'{name}' is no name for an entry of the stack");
                return Err(Refused::new(&place, reason, "use letters, digits, - and _"));
            }
            if stack.iter().any(|entry| entry.name == name) {
                let reason = format!("the stack has an entry '{name}' already");
                return Err(Refused::new(&place, reason, "give each entry a name of its own"));
            }
            let hosts = match table.get(HOSTS) {
                Some(value) => hosts_of(&table, value, hosts)?,
                None => Vec::new(),
            };
            let mut entry = Entry { name, family, place, hosts, set: Layer::new() };
            for (key, value) in table.entries {
                let name = key.get_ref().as_ref();
                if !matches!(name, "module" | "name" | HOSTS) {
                    let place = self.top.text.place(&key.span());
                    self.settings_at(name, place, value, &entry.clone(), &mut entry.set)?;
                }
            }
            stack.push(entry);
        }
        Ok(stack)
    }

    /// The settings below the key `stack` of a layer.
    pub(super) fn stack_settings(&self, value: Spot<'t, 'a>, layer: &mut Layer) -> Result<()> {
        for (name, value) in self.table(value)?.entries {
            let place = self.top.text.place(&name.span());
            let Some(entry) = self.known.entry(name.get_ref()) else {
                let names = self.known.stack.iter().map(|entry| entry.name.as_str());
                return Err(Refused::unknown(&place, "entry of the stack", name.get_ref(), names));
            };
            for (key, value) in self.table(value)?.entries {
                let place = self.top.text.place(&key.span());
                self.settings_at(key.get_ref(), place, value, entry, layer)?;
            }
        }
        Ok(())
    }

    /// The axes of a table. Keys of the stack stand in tables below `stack`, as everywhere else, or
    /// in quotes with their dots.
    pub(super) fn axis_entries(
        &self,
        table: Table<'t, 'a>,
    ) -> Result<Vec<(String, Place, Spot<'t, 'a>)>> {
        let mut entries = Vec::new();
        for (key, value) in table.entries {
            let (name, place) = (key.get_ref().as_ref(), self.top.text.place(&key.span()));
            if name == STACK && value.get_ref().is_table() {
                for (key, value) in self.table(value)?.entries {
                    let place = self.top.text.place(&key.span());
                    let name = format!("{PREFIX}{}", key.get_ref());
                    self.axis_entry(name, place, value, &mut entries)?;
                }
            } else {
                self.axis_entry(name.to_owned(), place, value, &mut entries)?;
            }
        }
        Ok(entries)
    }

    /// The axis of this name, or those in a table of the stack.
    fn axis_entry(
        &self,
        name: String,
        place: Place,
        value: Spot<'t, 'a>,
        entries: &mut Vec<(String, Place, Spot<'t, 'a>)>,
    ) -> Result<()> {
        let Some(own) = name.strip_prefix(PREFIX).filter(|_| !self.known.has(&name)) else {
            entries.push((name, place, value));
            return Ok(());
        };
        let (entry, key) = own.split_once('.').unwrap_or((own, ""));
        let Some(entry) = self.known.entry(entry) else {
            let names = self.known.stack.iter().map(|entry| entry.name.as_str());
            return Err(Refused::unknown(&place, "entry of the stack", entry, names));
        };
        if !value.get_ref().is_table() {
            let what = format!("key of {}", entry.family.name);
            return Err(Refused::unknown(&place, &what, key, entry.keys()));
        }
        for (key, value) in self.table(value)?.entries {
            let place = self.top.text.place(&key.span());
            self.axis_entry(format!("{name}.{}", key.get_ref()), place, value, entries)?;
        }
        Ok(())
    }

    /// The settings at a key of an entry: one, or those of a table, whose keys get dots.
    fn settings_at(
        &self,
        key: &str,
        place: Place,
        value: Spot<'t, 'a>,
        entry: &Entry,
        layer: &mut Layer,
    ) -> Result<()> {
        if let DeValue::Table(_) = value.get_ref() {
            let table: Table<'_, '_> = self.table(value)?;
            for (name, value) in table.entries {
                let place = self.top.text.place(&name.span());
                self.settings_at(&format!("{key}.{}", name.get_ref()), place, value, entry, layer)?;
            }
            return Ok(());
        }
        if !entry.has(key) {
            let what = format!("key of {}", entry.family.name);
            return Err(Refused::unknown(&place, &what, key, entry.keys()));
        }
        let read = Value::read(value.get_ref()).map_err(|found| {
            let reason = format!("{key} cannot be {found}");
            self.top.wrong(value, &reason, "write a text, a number, true, or a list of these")
        })?;
        let setting = Setting { key: format!("{PREFIX}{}.{key}", entry.name), value: read, place };
        check(&setting, self.known)?;
        layer.push(setting);
        Ok(())
    }
}
