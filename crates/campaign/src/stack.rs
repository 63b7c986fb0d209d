//! The stack of a cell: the modules that set its device up, in their order.
//!
//! Most cells have the same stack as the one before, and making a file system a hundred times
//! takes longer than the replays. So a stack stands as long as the next cell's begins alike. The
//! decision what may stand is here, apart from any machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::modules::{Every, Family, Given, Module, Wrong};
use crate::place::{Place, Refused, Result};
use crate::template::{filled, names};
use crate::value::{Origins, Setting, Value};

/// The key of a file's stack, and of its settings in a layer.
pub(crate) const STACK: &str = "stack";

/// What a setting of a stack begins with: `stack.NAME.KEY`.
pub(crate) const PREFIX: &str = "stack.";

/// The key that leaves an entry out.
const ENABLE: &str = "enable";

/// The entry and its key in the name of a setting of a stack.
pub(crate) fn parts_of(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PREFIX)?.split_once('.')
}

/// Whether a stack has a setting of this name.
pub(crate) fn has_key(stack: &[Entry], name: &str) -> bool {
    let of_entry = |(entry, key)| stack.iter().any(|it| it.name == entry && it.has(key));
    parts_of(name).is_some_and(of_entry)
}

/// The value of a setting that nobody gave, where a condition asks for it.
pub(crate) fn value_if_not_given(stack: &[Entry], name: &str) -> Option<String> {
    let (entry, key) = parts_of(name)?;
    let entry = stack.iter().find(|it| it.name == entry)?;
    match key {
        ENABLE => Some(true.to_string()),
        "every" => Some(entry.family.every.word().to_owned()),
        _ => None,
    }
}

/// The value of a setting in the stack of a cell.
pub(crate) fn value_in(stack: &[Placed], name: &str) -> Option<String> {
    let (entry, key) = parts_of(name)?;
    let placed = stack.iter().find(|placed| placed.name == entry);
    match key {
        ENABLE => Some(placed.is_some().to_string()),
        "every" => Some(placed?.every.word().to_owned()),
        _ => placed?.settings.get(key).map(Value::shown),
    }
}

/// Keys that every module has.
pub(crate) const GENERAL: [&str; 3] = [ENABLE, "every", "limit"];

/// Names in braces that are filled in where the volumes are known.
pub const VOLUME: &str = "volume";

/// An entry of a file's stack.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name, by which layers change it.
    pub name: String,
    /// Its module.
    pub family: &'static Family,
    /// Where it is defined.
    pub place: Place,
    /// The hosts on which it and what stands above it are done; none if they are those of what
    /// stands below.
    pub hosts: Vec<String>,
    /// Its settings, whose keys are `stack.NAME.KEY`.
    pub set: Vec<Setting>,
}

/// A module of a cell's stack, with everything filled in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// How often it is done.
    pub every: Every,
    /// The hosts that the stack goes to with it, if they are others than those below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The module.
    pub module: String,
    /// The name of its entry.
    pub name: String,
    /// The files that it runs from the campaign's directory, by their hashes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// Its settings.
    pub settings: BTreeMap<String, Value>,
}

impl Placed {
    /// The module itself. Relative paths begin at `base`.
    ///
    /// # Errors
    ///
    /// If a setting is not possible.
    pub fn read(&self, base: &str) -> std::result::Result<Box<dyn Module>, Wrong> {
        let family = Family::named(&self.module);
        let family = family.ok_or_else(|| Wrong::new("module", "no such module", "update"))?;
        let (name, settings) = (self.name.clone(), self.settings.clone());
        (family.read)(&Given { name, settings, base: base.to_owned() })
    }

    /// The same on a host that keeps the programs of the campaign's directory elsewhere: `place`
    /// tells the path of one, by its name and hash.
    ///
    /// # Errors
    ///
    /// As of `place`.
    pub fn elsewhere<E>(
        &self,
        place: &dyn Fn(&str, &str) -> std::result::Result<String, E>,
    ) -> std::result::Result<Self, E> {
        let mut placed = self.clone();
        for (program, hash) in &self.programs {
            let path = place(program, hash)?;
            let moved = |text: &mut String| {
                if text == program {
                    text.clone_from(&path);
                }
            };
            for value in placed.settings.values_mut() {
                match value {
                    Value::Switch(_) => {}
                    Value::One(text) => moved(text),
                    Value::Many(texts) => texts.iter_mut().for_each(moved),
                }
            }
        }
        Ok(placed)
    }
}

impl Entry {
    /// Whether it has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        GENERAL.contains(&key) || self.family.has(key)
    }

    /// All keys that it may have, for a message.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        GENERAL.into_iter().chain(self.family.keys())
    }

    /// The module with the settings of a cell; `None` if it is switched off there. `fill` fills in
    /// what the cell knows, and `known` are the names that it has.
    pub(crate) fn placed(
        &self,
        origins: &Origins,
        fill: &dyn Fn(&str) -> Option<String>,
        known: &[&str],
    ) -> Result<Option<Placed>> {
        let mut given: BTreeMap<&str, &Setting> = BTreeMap::new();
        for (key, all) in origins {
            let own = key.strip_prefix(PREFIX).and_then(|key| key.strip_prefix(&self.name));
            let own = own.and_then(|key| key.strip_prefix('.'));
            if let (Some(key), Some(last)) = (own, all.last()) {
                given.insert(key, last);
            }
        }
        let own = |name: &str| given.get(name).map(|setting| setting.value.shown());
        // A value may use what the cell knows, and any text the values.
        let value = |name: &str| {
            fill(name).or_else(|| own(name).map(|text| filled(&text, &|name| fill(name))))
        };
        let (mut settings, mut used) = (BTreeMap::new(), BTreeSet::new());
        for (key, setting) in &given {
            for name in
                setting.value.texts().iter().flat_map(|text| names(text).unwrap_or_default())
            {
                if !known.contains(&name) && own(name).is_none() && name != VOLUME {
                    let names = known.iter().copied().chain(given.keys().copied()).chain([VOLUME]);
                    return Err(Refused::unknown(&setting.place, "axis or key", name, names));
                }
                used.insert(name);
            }
            let fill = |text: &String| filled(text, &value);
            let value = match &setting.value {
                Value::Switch(on) => Value::Switch(*on),
                Value::One(text) => Value::One(fill(text)),
                Value::Many(texts) => Value::Many(texts.iter().map(fill).collect()),
            };
            settings.insert((*key).to_owned(), value);
        }
        let named = |key: &&String| !self.family.is_fixed(key) && !GENERAL.contains(&key.as_str());
        for key in settings.keys().filter(named) {
            if !used.contains(key.as_str()) {
                let place = given.get(key.as_str()).map_or(&self.place, |setting| &setting.place);
                let mut refused = Refused::unknown(place, "key", key, self.keys());
                refused.help = format!("{}, or use it as {{{key}}}", refused.help);
                return Err(refused);
            }
        }
        let place = |key: &str| given.get(key).map_or(&self.place, |setting| &setting.place);
        let wrong = |key: &str, help: &str| {
            let reason = format!("this is not possible for {key}");
            Err(Refused::new(place(key), reason, help))
        };
        match settings.remove(ENABLE).map(|value| value.shown()).as_deref() {
            None | Some("true") => {}
            Some("false") => return Ok(None),
            Some(_) => return wrong(ENABLE, "write true or false"),
        }
        let every = match settings.remove("every").map(|value| value.shown()) {
            None => self.family.every,
            Some(word) => match Every::ALL.into_iter().find(|every| every.word() == word) {
                Some(every) => every,
                None => return wrong("every", "write cell, branch or once"),
            },
        };
        let (module, name) = (self.family.name.to_owned(), self.name.clone());
        let (hosts, programs) = (self.hosts.clone(), BTreeMap::new());
        Ok(Some(Placed { every, hosts, module, name, programs, settings }))
    }
}

/// The parts of a stack that are done on the same hosts, from the lowest on. The first may be
/// empty.
pub fn levels(stack: &[Placed]) -> Vec<&[Placed]> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend((0..stack.len()).filter(|at| !stack[*at].hosts.is_empty()));
    let ends = starts[1..].iter().copied().chain([stack.len()]);
    starts.iter().zip(ends).map(|(start, end)| &stack[*start..end]).collect()
}

/// Something that stands, and for whom it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The module.
    pub placed: Placed,
    /// The branch and the repeat.
    pub turn: (usize, u32),
}

/// How many modules of what stands may stay for the next cell: as many as are alike from below on.
/// A module that is done anew takes down what stands above it, because the order means something.
pub fn staying(standing: &[Standing], next: &[Placed], turn: (usize, u32)) -> usize {
    let stays = |standing: &Standing, next: &Placed| {
        standing.placed == *next
            && match next.every {
                Every::Cell => false,
                Every::Branch => standing.turn == turn,
                Every::Once => true,
            }
    };
    standing.iter().zip(next).take_while(|(standing, next)| stays(standing, next)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(name: &str, every: Every) -> Placed {
        let (module, name) = ("queue".to_owned(), name.to_owned());
        let (programs, settings) = (BTreeMap::new(), BTreeMap::new());
        Placed { every, hosts: Vec::new(), module, name, programs, settings }
    }

    #[test]
    fn a_stack_stands_as_long_as_the_next_begins_alike() {
        let stack = |names: &[(&str, Every)]| -> Vec<Placed> {
            names.iter().map(|(name, every)| placed(name, *every)).collect()
        };
        let stand = |stack: &[Placed], turn| -> Vec<Standing> {
            stack.iter().map(|it| Standing { placed: it.clone(), turn }).collect()
        };
        let (once, branch, cell) = (Every::Once, Every::Branch, Every::Cell);
        let first = stack(&[("loop", once), ("fs", branch), ("fill", cell), ("queue", once)]);
        let standing = stand(&first, (0, 1));
        assert_eq!(staying(&standing, &first, (0, 1)), 2);
        assert_eq!(staying(&standing, &first, (1, 1)), 1);
        assert_eq!(staying(&standing, &first, (0, 2)), 1);
        assert_eq!(staying(&standing, &stack(&[("other", once), ("fs", branch)]), (0, 1)), 0);
        assert_eq!(staying(&standing, &[], (0, 1)), 0);
        assert_eq!(staying(&[], &first, (0, 1)), 0);
    }
}
