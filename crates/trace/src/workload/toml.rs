//! Our own form of a description, in TOML.
//!
//! The words are those of the generators and of the command line, so what is learnt there counts
//! here. It becomes the same definitions as a parameter file, and is written from them.

use std::fmt::Write as _;
use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::definitions::{Definition, Entry};
use super::fault::Faults;
use super::gather::Reading;
use super::keys::{Key, Kind, Section, ours};
use super::model::{FORMAT, plain};
use super::tokens::Item;
use crate::place::{Place, Text, nearest, text_of};

/// The tables of the form, and what each holds.
const TABLES: [(&str, &[Section]); 5] = [
    ("host", &[Section::Host]),
    ("replay", &[Section::Replay]),
    ("storage", &[Section::Storage]),
    ("tree", &[Section::Tree]),
    ("flow", &[Section::Work, Section::FileWork]),
];

/// Whether a text is like a description in this form.
pub(super) fn is_like(text: &str) -> bool {
    text.lines().map(str::trim).any(|line| {
        let is_table = |name: &str| line.starts_with(&format!("[{name}."));
        line.replace(' ', "") == "[[run]]" || TABLES.iter().any(|(name, _)| is_table(name))
    })
}

/// The definitions of a text.
pub(super) fn definitions(
    name: &str,
    text: &str,
    reading: &Reading,
    faults: &mut Faults,
) -> Vec<Definition> {
    let places = Text::new(name, text);
    for variable in reading.variables.keys() {
        let reason = format!("the variable '{variable}' stands nowhere in the file");
        let help = "variables belong to Vdbench's parameter files";
        faults.syntax(&Place::outside(&format!("{variable}=…")), reason, help);
    }
    let parsed = match DeTable::parse(text) {
        Ok(parsed) => parsed.into_inner(),
        Err(error) => {
            let place = places.place(&error.span().unwrap_or(0..0));
            let reason = error.message().trim().replace('\n', ", ");
            faults.syntax(&place, reason, "this is no TOML here");
            return Vec::new();
        }
    };
    let start = Place { file: name.into(), line: 0, column: 0 };
    let general = Definition {
        section: Section::General,
        name: String::new(),
        place: start,
        entries: Vec::new(),
    };
    let trees = names_of(parsed.get("tree"));
    let mut reader = Reader { places, faults, all: vec![general], trees, file_flows: Vec::new() };
    for (table, _) in TABLES {
        if let Some(value) = parsed.get(table) {
            reader.table(table, value);
        }
    }
    for (key, value) in in_order(&parsed) {
        let word = key.get_ref().as_ref();
        if word == "run" {
            reader.runs(value);
        } else if !TABLES.iter().any(|(table, _)| *table == word) {
            reader.general(word, &key.span(), value);
        }
    }
    reader.all
}

fn names_of(value: Option<&Spanned<DeValue<'_>>>) -> Vec<String> {
    match value.map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => table.keys().map(|key| key.get_ref().to_string()).collect(),
        _ => Vec::new(),
    }
}

/// The entries of a table in the order in which they are written.
fn in_order<'t, 'a>(
    table: &'t DeTable<'a>,
) -> Vec<(&'t Spanned<std::borrow::Cow<'a, str>>, &'t Spanned<DeValue<'a>>)> {
    let mut all: Vec<_> = table.iter().collect();
    all.sort_by_key(|(key, _)| key.span().start);
    all
}

struct Reader<'r> {
    places: Text<'r>,
    faults: &'r mut Faults,
    all: Vec<Definition>,
    /// The names of the trees, and of the loads on them.
    trees: Vec<String>,
    file_flows: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, span: &Range<usize>, reason: impl Into<String>, help: impl Into<String>) {
        self.faults.syntax(&self.places.place(span), reason, help);
    }

    fn table(&mut self, table: &str, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong(
                &value.span(),
                format!("'{table}' is a table"),
                format!("write [{table}.NAME]"),
            );
            return;
        };
        for (name, value) in in_order(entries) {
            let DeValue::Table(keys) = value.get_ref() else {
                let help = format!("write [{table}.NAME]");
                self.wrong(&value.span(), format!("'{table}' holds tables"), help);
                continue;
            };
            let name_of = name.get_ref().to_string();
            let section = match table {
                "host" => Section::Host,
                "replay" => Section::Replay,
                "storage" => Section::Storage,
                "tree" => Section::Tree,
                _ if name_of == FORMAT || self.is_of_trees(keys) => {
                    self.file_flows.push(name_of.clone());
                    Section::FileWork
                }
                _ => Section::Work,
            };
            let place = self.places.place(&name.span());
            let mut definition = Definition { section, name: name_of, place, entries: Vec::new() };
            for (key, value) in in_order(keys) {
                self.key(&mut definition, key.get_ref(), &key.span(), value, false);
            }
            self.all.push(definition);
        }
    }

    /// Whether a load is one on trees: it names one, or has a key that only such a load has.
    fn is_of_trees(&self, keys: &DeTable<'_>) -> bool {
        let of_files = ["ops", "access", "select", "stop-after", "target"];
        let on = keys.get("on").map(Spanned::get_ref);
        let names: Vec<String> = match on {
            Some(DeValue::Array(items)) => {
                items.iter().filter_map(|item| text_of(item.get_ref()).ok()).collect()
            }
            Some(one) => text_of(one).into_iter().collect(),
            None => Vec::new(),
        };
        let is_tree = |name: &String| {
            self.trees.iter().any(|tree| super::runs::is_like(tree, name) || tree == name)
        };
        of_files.iter().any(|key| keys.contains_key(*key)) || names.iter().any(is_tree)
    }

    fn general(&mut self, word: &str, span: &Range<usize>, value: &Spanned<DeValue<'_>>) {
        let mut general = self.all.swap_remove(0);
        self.key(&mut general, word, span, value, false);
        self.all.push(general);
        let last = self.all.len() - 1;
        self.all.swap(0, last);
    }

    fn runs(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(runs) = value.get_ref() else {
            self.wrong(&value.span(), "'run' is a list of tables", "write [[run]]");
            return;
        };
        for (number, run) in runs.iter().enumerate() {
            let place = self.places.place(&run.span());
            let DeValue::Table(keys) = run.get_ref() else {
                self.wrong(&run.span(), "'run' is a list of tables", "write [[run]]");
                continue;
            };
            let name = match keys.get("name").map(|name| text_of(name.get_ref())) {
                Some(Ok(name)) => name,
                _ => format!("run{}", number + 1),
            };
            let mut definition =
                Definition { section: Section::Run, name, place, entries: Vec::new() };
            let of_trees = self.runs_trees(keys);
            for (key, value) in in_order(keys) {
                match (key.get_ref().as_ref(), value.get_ref()) {
                    ("name", _) => {}
                    ("for", DeValue::Table(loops)) => {
                        for (key, value) in in_order(loops) {
                            self.key(&mut definition, key.get_ref(), &key.span(), value, true);
                        }
                    }
                    ("flows", _) if of_trees => {
                        self.key(&mut definition, "file-flows", &key.span(), value, false);
                    }
                    ("rate", _) if of_trees => {
                        self.key(&mut definition, "file-rate", &key.span(), value, false);
                    }
                    (word, _) => self.key(&mut definition, word, &key.span(), value, false),
                }
            }
            self.all.push(definition);
        }
    }

    /// Whether the loads of a run are loads on trees.
    fn runs_trees(&self, keys: &DeTable<'_>) -> bool {
        let names = match keys.get("flows").map(Spanned::get_ref) {
            Some(DeValue::Array(items)) => {
                items.iter().filter_map(|item| text_of(item.get_ref()).ok()).collect()
            }
            Some(one) => text_of(one).map(|one| vec![one]).unwrap_or_default(),
            None => Vec::new(),
        };
        let is_of_trees = |name: &String| {
            self.file_flows.iter().any(|flow| super::runs::is_like(flow, name) || flow == name)
        };
        names.iter().any(is_of_trees)
    }

    fn key(
        &mut self,
        definition: &mut Definition,
        word: &str,
        span: &Range<usize>,
        value: &Spanned<DeValue<'_>>,
        loops: bool,
    ) {
        let place = self.places.place(span);
        let Some(key) = ours(definition.section, word, loops) else {
            let keys = definition.section.keys().iter().filter(|key| key.loops == loops);
            let known: Vec<&str> = keys.map(|key| key.ours).filter(|key| !key.is_empty()).collect();
            let help = match nearest(word, &known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("known are {}", known.join(", ")),
            };
            let what = called(definition.section);
            self.faults.syntax(&place, format!("{what} has no '{word}'"), help);
            return;
        };
        // A path for each host: `path = { one = "/dev/sdb", two = "/dev/sdc" }`.
        if let (DeValue::Table(paths), "path") = (value.get_ref(), word) {
            let host = ours(definition.section, "host", false);
            for (name, path) in in_order(paths) {
                let place = self.places.place(&name.span());
                let item = Item { text: name.get_ref().to_string(), place: place.clone() };
                definition.entries.extend(host.map(|key| Entry { key, items: vec![item], place }));
                let items = self.items(key, path);
                let place = self.places.place(&path.span());
                definition.entries.push(Entry { key, items, place });
            }
            return;
        }
        let items = self.items(key, value);
        if !items.is_empty() {
            definition.entries.push(Entry { key, items, place });
        }
    }

    fn items(&mut self, key: &Key, value: &Spanned<DeValue<'_>>) -> Vec<Item> {
        let values = match value.get_ref() {
            DeValue::Array(items) if items.is_empty() => {
                let reason = format!("'{}' has no value", key.ours);
                self.wrong(&value.span(), reason, "write one, or leave it out");
                return Vec::new();
            }
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let mut all = Vec::new();
        for value in values {
            let place = self.places.place(&value.span());
            let text = match value.get_ref() {
                DeValue::Boolean(on) => if *on { "yes" } else { "no" }.to_owned(),
                other => match text_of(other) {
                    Ok(text) => text,
                    Err(found) => {
                        let reason = format!("a value is expected here, and this is {found}");
                        self.faults.syntax(&place, reason, "write a number, \"…\" or a list");
                        continue;
                    }
                },
            };
            if key.kind == Kind::Mix {
                all.extend(
                    mixed(&text).into_iter().map(|text| Item { text, place: place.clone() }),
                );
            } else {
                all.push(Item { text, place });
            }
        }
        all
    }
}

fn called(section: Section) -> &'static str {
    match section {
        Section::General => "the description",
        Section::Host => "a host",
        Section::Replay => "a replay",
        Section::Storage => "a storage",
        Section::Tree => "a tree",
        Section::Work | Section::FileWork => "a flow",
        Section::Run => "a run",
    }
}

/// The pieces of sizes in the form of the generators: `4k:60,8k:40`, or `8k-64k/4k`.
fn mixed(text: &str) -> Vec<String> {
    if let Some((least, most)) = text.split_once('-').filter(|_| !text.contains(':')) {
        let step = |least: &str| {
            let bytes = least.trim().parse::<crate::units::Bytes>().ok().filter(|it| it.0 > 0);
            bytes.map_or_else(|| least.to_owned(), |it| plain(1 << it.0.trailing_zeros()))
        };
        let (most, step) = match most.split_once('/') {
            Some((most, step)) => (most, step.to_owned()),
            None => (most, step(least)),
        };
        return [least, most, &step].map(|text| text.trim().to_owned()).to_vec();
    }
    text.split([',', ':']).map(|text| text.trim().to_owned()).collect()
}

/// The definitions in this form.
pub(super) fn written(definitions: &[Definition]) -> String {
    let mut text = String::new();
    let of = |section: Section| definitions.iter().filter(move |it| it.section == section);
    for definition in of(Section::General) {
        put(&mut text, definition);
    }
    for (table, sections) in TABLES {
        for definition in sections.iter().flat_map(|section| of(*section)) {
            let _ = writeln!(text, "\n[{table}.{}]", bare(&definition.name));
            put(&mut text, definition);
        }
    }
    for definition in of(Section::Run) {
        let _ = writeln!(text, "\n[[run]]\nname = {}", quoted(&definition.name));
        put(&mut text, definition);
    }
    text.trim_start().to_owned()
}

fn put(text: &mut String, definition: &Definition) {
    let mut loops = Vec::new();
    let hosts = definition.all("host").count();
    if hosts > 1 && definition.section == Section::Storage {
        let _ = writeln!(text, "path = {{ {} }}", pairs(definition).join(", "));
    }
    for entry in &definition.entries {
        let is_pair = hosts > 1 && matches!(entry.key.name, "host" | "lun");
        if is_pair && definition.section == Section::Storage {
            continue;
        }
        let word = match entry.key.ours {
            "file-flows" => "flows",
            "file-rate" => "rate",
            word => word,
        };
        let value = format!("{word} = {}", value(entry));
        if entry.key.loops {
            loops.push(value);
        } else {
            let _ = writeln!(text, "{value}");
        }
    }
    if !loops.is_empty() {
        let _ = writeln!(text, "for = {{ {} }}", loops.join(", "));
    }
}

/// The paths of a storage, each with its host.
fn pairs(definition: &Definition) -> Vec<String> {
    let mut host = String::new();
    let mut pairs = Vec::new();
    for entry in &definition.entries {
        let Some(item) = entry.items.first() else { continue };
        match entry.key.name {
            "host" => host.clone_from(&item.text),
            "lun" => pairs.push(format!("{} = {}", bare(&host), quoted(&item.text))),
            _ => {}
        }
    }
    pairs
}

fn value(entry: &Entry) -> String {
    let texts: Vec<&str> = entry.items.iter().map(|item| item.text.as_str()).collect();
    match (entry.key.kind, &texts[..]) {
        (Kind::Mix, [least, most, step]) => quoted(&format!("{least}-{most}/{step}")),
        (Kind::Mix, [one]) => quoted(one),
        (Kind::Mix, pairs) => {
            let pair = |pair: &[&str]| pair.join(":");
            quoted(&pairs.chunks(2).map(pair).collect::<Vec<_>>().join(","))
        }
        (_, [one]) => plain_value(one),
        (_, all) => {
            let all: Vec<String> = all.iter().map(|one| plain_value(one)).collect();
            format!("[{}]", all.join(", "))
        }
    }
}

/// A number as it is, anything else in quotes.
fn plain_value(text: &str) -> String {
    let is_number = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    if is_number { text.to_owned() } else { quoted(text) }
}

fn bare(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A text in TOML's quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
