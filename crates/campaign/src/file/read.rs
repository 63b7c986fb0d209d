//! The text of a file becomes a campaign.

mod course;
mod hosts;
mod runs;
mod stack;

use ioecho_trace::Nanos;
use toml::de::DeValue;

use super::include::{Gathered, Open, laid_over, parsed};
use super::table::{Spot, Table};
use super::{
    Axis, Device, File, Host, Known, Ladder, Layer, OnLoss, Order, PATH, Parallel, Proof, STEP,
    Search, Setting, SettingRule,
};
use crate::expression::{Rule, Subjects};
use crate::place::{Place, Refused, Result};
use crate::stack::PREFIX;
use crate::template::{expanded, names};
use crate::value::Value;

const TOP: [&str; 28] = [
    "name",
    "seed",
    "repeats",
    "order",
    "budget",
    "retries",
    "zip",
    "devices",
    "layers",
    "replay",
    "axes",
    "ladder",
    "search",
    "rule",
    "expect",
    "step",
    "rounds",
    "include",
    "paths",
    "deadline",
    "baseline",
    "stack",
    "hosts",
    "start",
    "host-wait",
    "parallel",
    "on-controller-loss",
    "run",
];

/// How long a host that was lost is waited for if nothing else is asked for.
const HOST_WAIT: Nanos = Nanos::from_secs(600);

/// The most values of an axis.
const VALUES_MAX: usize = 10_000;

/// Reads a campaign. `name` is that of the file, for messages; `open` opens what it includes.
///
/// # Errors
///
/// The first fault, with its place.
pub fn read(name: &str, text: &str, known: &Known, open: Open<'_>) -> Result<File> {
    let gathered = Gathered::of(name, text, open)?;
    let (places, padded) = (gathered.places(), gathered.padded());
    let mut entries = toml::de::DeTable::new();
    for text in &padded {
        entries = laid_over(entries, parsed(text, &places)?);
    }
    // What is missing is missing in the file itself, which is the last.
    let start = padded.last().map_or(0, |text| text.len() - text.trim_start_matches(' ').len());
    let span = start..gathered.text.len();
    let top = Table { text: &places, entries: &entries, span: &span };
    top.only("key", &TOP)?;
    let whole = |text: &str| text.parse::<u64>().ok();
    let some = |text: &str| text.parse::<u32>().ok().filter(|number| (1..=10_000).contains(number));
    let few = |text: &str| text.parse::<u32>().ok().filter(|number| *number <= 100);
    let span = |text: &str| text.parse::<Nanos>().ok().filter(|span| *span > Nanos::ZERO);
    let order = |text: &str| match text {
        "random" => Some(Order::Random),
        "written" => Some(Order::Written),
        _ => None,
    };
    let parallel = |text: &str| match text {
        "one" => Some(Parallel::One),
        "host" => Some(Parallel::Host),
        _ => None,
    };
    let on_loss = |text: &str| match text {
        "stop" => Some(OnLoss::Stop),
        "finish" => Some(OnLoss::Finish),
        _ => None,
    };
    let title = top.text_at(top.needed("name")?)?;
    check_name(&top, &title)?;
    let mut file = File {
        name: title,
        // What a cell lacks is lacking in the settings of all runs.
        place: top.place(top.get("replay").map_or_else(|| top.needed("name"), Ok)?),
        seed: top.parsed("seed", whole, "write a whole number")?.unwrap_or(1),
        repeats: top.parsed("repeats", some, "write 1 to 10000")?.unwrap_or(1),
        order: top.parsed("order", order, "write random or written")?.unwrap_or_default(),
        parallel: top.parsed("parallel", parallel, "write \"host\"")?.unwrap_or_default(),
        budget: top.parsed("budget", span, "write a time such as 60h")?,
        retries: top.parsed("retries", few, "write 0 to 100")?.unwrap_or(2),
        hosts: Vec::new(),
        start_skew: Nanos::ZERO,
        host_wait: top.parsed("host-wait", span, "write a time such as 10m")?.unwrap_or(HOST_WAIT),
        on_loss: top
            .parsed("on-controller-loss", on_loss, "write \"stop\" or \"finish\"")?
            .unwrap_or_default(),
        devices: Vec::new(),
        layers: Vec::new(),
        replay: Layer::new(),
        stack: Vec::new(),
        axes: Vec::new(),
        zip: Vec::new(),
        ladder: None,
        search: None,
        rules: Vec::new(),
        runs: Vec::new(),
        expectations: Vec::new(),
        deadline: None,
        steps: Vec::new(),
        rounds: None,
        baseline: None,
    };
    let reader = Reader { known, top };
    file.hosts = reader.hosts()?;
    file.stack = reader.stack(&file.hosts)?;
    let known = &file.knows(known);
    let reader = Reader { known, top };
    file.start_skew = reader.start_skew()?;
    file.devices = reader.devices(&file.hosts)?;
    hosts::check_parallel(&file)?;
    file.layers = reader.layers()?;
    if let Some(value) = top.get("replay") {
        file.replay = reader.layer(reader.table(value)?)?;
    }
    file.axes = reader.axes()?;
    file.deadline = reader.deadline()?;
    file.steps = reader.steps()?;
    file.rounds = reader.rounds(&file)?;
    file.baseline = reader.baseline()?;
    if let Some(value) = top.get("zip") {
        let zip = top.texts_at(value)?;
        file.zip = zip.into_iter().map(|(name, _)| name).collect();
    }
    reader.check_axes(&file)?;
    file.runs = reader.runs()?;
    if !file.runs.is_empty() {
        file.axes = runs::axes(&file.runs);
    }
    file.search = reader.search(&file)?;
    let subjects = subjects(&file, known);
    reader.skipped(&mut file.runs, &subjects)?;
    file.ladder = reader.ladder(&file, &subjects)?;
    file.rules = reader.rules(&subjects)?;
    file.expectations = reader.expectations(&subjects)?;
    Ok(file)
}

/// A setting from outside of a file, such as `speedup=2`.
///
/// # Errors
///
/// If it is no setting, or its key is not known.
pub fn argument(text: &str, origin: &str, known: &Known) -> Result<Setting> {
    let place = Place::outside(origin);
    let Some((key, value)) = text.split_once('=') else {
        return Err(Refused::new(&place, format!("'{text}' is no setting"), "write KEY=VALUE"));
    };
    let (key, value) = (key.trim(), value.trim());
    if !known.has(key) {
        return Err(Refused::unknown(&place, "key", key, known.keys()));
    }
    let value = match (value, known.flag(key)) {
        ("true" | "false", Some(flag)) if !flag.takes_value => Value::Switch(value == "true"),
        _ if key == "chain" => Value::Many(vec![value.to_owned()]),
        _ => Value::One(value.to_owned()),
    };
    let setting = Setting { key: key.to_owned(), value, place };
    check(&setting, known)?;
    Ok(setting)
}

/// What the expressions of a campaign may ask for.
fn subjects(file: &File, known: &Known) -> Subjects {
    let axes = file.axis_names().into_iter().map(str::to_owned);
    let keys = known.keys().map(str::to_owned);
    Subjects { settings: axes.chain(keys).collect(), stack: file.stack.clone() }
}

fn check_name(top: &Table<'_, '_>, name: &str) -> Result<()> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.chars().all(is_part) && name.starts_with(char::is_alphanumeric) && name.len() <= 100 {
        return Ok(());
    }
    let help = "letters, digits, '-', '_' and '.' make a name";
    Err(top.wrong(top.needed("name")?, &format!("'{name}' is no name for a directory"), help))
}

/// Refuses a value that its key cannot have.
fn check(setting: &Setting, known: &Known) -> Result<()> {
    let Setting { key, value, place } = setting;
    let refused = |reason: String, help: &str| Err(Refused::new(place, reason, help));
    for text in value.texts() {
        if let Err(reason) = names(text) {
            return refused(reason, "write {{ and }} for the braces themselves");
        }
    }
    if key == "chain" {
        for line in value.texts() {
            let transform = line.split_whitespace().next().unwrap_or_default();
            if !known.transforms.iter().any(|known| known == transform) {
                let names = known.transforms.iter().map(String::as_str);
                return Err(Refused::unknown(place, "transform", transform, names));
            }
        }
        return Ok(());
    }
    if key.starts_with(PREFIX) {
        return Ok(());
    }
    let Some(flag) = known.flag(key) else {
        return match value {
            Value::One(_) => Ok(()),
            Value::Many(texts) if key == "trace" && !texts.is_empty() => Ok(()),
            _ => refused(format!("{key} has one value"), "for several, make an axis of it"),
        };
    };
    match value {
        Value::Switch(_) if flag.takes_value && !flag.may_lack => {
            refused(format!("{key} needs a value"), "write it as it is typed")
        }
        Value::One(_) | Value::Many(_) if !flag.takes_value => {
            refused(format!("{key} is a switch"), "write true or false")
        }
        Value::Many(_) if !flag.is_list => {
            refused(format!("{key} has one value"), "for several, make an axis of it")
        }
        _ => Ok(()),
    }
}

/// Reads the parts of a campaign.
struct Reader<'t, 'a> {
    known: &'t Known,
    top: Table<'t, 'a>,
}

impl<'t, 'a> Reader<'t, 'a> {
    fn table(&self, value: Spot<'t, 'a>) -> Result<Table<'t, 'a>> {
        Table::at(self.top.text, value, self.top.span)
    }

    /// The entries of a table of the file, with their places.
    fn entries(&self, key: &str) -> Result<Vec<(String, Place, Spot<'t, 'a>)>> {
        let Some(value) = self.top.get(key) else { return Ok(Vec::new()) };
        let table = self.table(value)?;
        let entry = |(name, value): (&toml::Spanned<std::borrow::Cow<'a, str>>, Spot<'t, 'a>)| {
            (name.get_ref().clone().into_owned(), self.top.text.place(&name.span()), value)
        };
        Ok(table.entries.iter().map(entry).collect())
    }

    /// The entries of a list of tables.
    fn items(&self, key: &str) -> Result<Vec<Table<'t, 'a>>> {
        let Some(value) = self.top.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(items) = value.get_ref() else {
            let help = format!("write it as [[{key}]]");
            return Err(self.top.wrong(value, &format!("{key} is a list of tables"), &help));
        };
        items.iter().map(|item| self.table(item)).collect()
    }

    fn layer(&self, table: Table<'t, 'a>) -> Result<Layer> {
        let mut layer = Layer::new();
        for (key, value) in table.entries {
            let place = self.top.text.place(&key.span());
            let name = key.get_ref().as_ref();
            if name == "stack" {
                self.stack_settings(value, &mut layer)?;
                continue;
            }
            if !self.known.has(name) {
                if self.known.transforms.iter().any(|transform| transform == name) {
                    let help = format!("write chain = [\"{name} …\"]");
                    let reason = format!("'{name}' is a transform, and their order matters");
                    return Err(Refused::new(&place, reason, help));
                }
                return Err(Refused::unknown(&place, "key", name, self.known.keys()));
            }
            let read = Value::read(value.get_ref()).map_err(|found| {
                let reason = format!("{name} cannot be {found}");
                table.wrong(value, &reason, "write a text, a number, true, or a list of these")
            })?;
            let read = match read {
                Value::Many(texts) if name == "trace" => {
                    let all = texts.iter().map(|text| expanded(text));
                    let all = all.collect::<std::result::Result<Vec<_>, _>>();
                    Value::Many(
                        all.map_err(|it| table.wrong(value, &it, "write {1..10}"))?.concat(),
                    )
                }
                read => read,
            };
            let setting = Setting { key: name.to_owned(), value: read, place };
            check(&setting, self.known)?;
            layer.push(setting);
        }
        Ok(layer)
    }

    /// The settings below a key of a table.
    fn layer_at(&self, table: &Table<'t, 'a>, key: &str) -> Result<Layer> {
        table.get(key).map_or(Ok(Layer::new()), |value| self.layer(self.table(value)?))
    }

    fn devices(&self, hosts: &[Host]) -> Result<Vec<Device>> {
        let mut devices = Vec::new();
        for (name, place, value) in self.entries("devices")? {
            let (path, of, proof, hosts, set) = if value.get_ref().is_str() {
                let path = Some(self.top.text_at(value)?);
                (path, Vec::new(), Proof::default(), Vec::new(), Layer::new())
            } else {
                let table = self.table(value)?;
                table.only(
                    "key of a device",
                    &["path", "serial", "wwn", "uuid", "backing", "from", "of", "set", "host"],
                )?;
                let text = |key| table.get(key).map(|value| table.text_at(value)).transpose();
                let proof = Proof {
                    serial: text("serial")?,
                    wwn: text("wwn")?,
                    uuid: text("uuid")?,
                    backing: text("backing")?,
                };
                let path = text("path")?;
                let stack = |text: &str| (text == "stack").then_some(());
                let from = table.parsed("from", stack, "write from = \"stack\"")?;
                let of = table.get("of").map_or(Ok(Vec::new()), |value| table.texts_at(value))?;
                let given = [path.is_some(), from.is_some(), !of.is_empty()];
                if given.iter().filter(|it| **it).count() != 1 {
                    let reason = format!("the device '{name}' has no path, or two");
                    let help = "write path = \"/dev/…\", from = \"stack\" if the stack makes it, \
                                or of = [\"a\", \"b\"] if it makes it of these";
                    return Err(Refused::new(&place, reason, help));
                }
                let hosts = match table.get("host") {
                    Some(value) => hosts::hosts_of(&table, value, hosts)?,
                    None => Vec::new(),
                };
                if !of.is_empty() && (proof.is_given() || !hosts.is_empty()) {
                    let reason = format!("'{name}' consists of devices that prove themselves");
                    let help = "write the serial numbers at those, which are of this machine";
                    return Err(Refused::new(&place, reason, help));
                }
                (path, of, proof, hosts, self.layer_at(&table, "set")?)
            };
            if let Err(reason) = names(path.as_deref().unwrap_or_default()) {
                return Err(Refused::new(
                    &place,
                    reason,
                    "write {{ and }} for the braces themselves",
                ));
            }
            devices.push(Device { name, path, hosts, of, proof, set, place });
        }
        check_groups(&devices)?;
        Ok(devices)
    }

    fn layers(&self) -> Result<Vec<(String, Layer)>> {
        let entries = self.entries("layers")?.into_iter();
        entries.map(|(name, _, value)| Ok((name, self.layer(self.table(value)?)?))).collect()
    }

    /// The axes; `paths` are one.
    fn axes(&self) -> Result<Vec<Axis>> {
        let mut axes = match self.top.get("axes") {
            Some(value) => self.axes_in(self.table(value)?)?,
            None => Vec::new(),
        };
        if let Some(value) = self.top.get("paths") {
            if let Some(axis) = axes.iter().find(|axis| axis.name == PATH) {
                let reason = "paths are the axis 'path' already";
                return Err(Refused::new(&axis.place, reason, "give this axis another name"));
            }
            let (mut values, place) = (Vec::new(), self.top.place(value));
            for (text, place) in self.top.texts_at(value)? {
                values.extend(several(&text, &place)?);
            }
            axes.insert(0, checked(PATH.to_owned(), values, place)?);
        }
        Ok(axes)
    }

    fn axes_in(&self, table: Table<'t, 'a>) -> Result<Vec<Axis>> {
        let mut axes: Vec<Axis> = Vec::new();
        for (name, place, value) in self.axis_entries(table)? {
            if name == STEP || name == "repeat" {
                let reason = format!("'{name}' is the name of something else");
                return Err(Refused::new(&place, reason, "give this axis another name"));
            }
            if axes.iter().any(|axis| axis.name == name) {
                let reason = format!("there is an axis '{name}' already");
                return Err(Refused::new(&place, reason, "write its values in one place"));
            }
            let mut values = Vec::new();
            if value.get_ref().is_table() {
                let steps = steps(&self.table(value)?, value)?;
                values.extend(steps.into_iter().map(|value| (value, place.clone())));
            } else {
                for (text, place) in self.top.values_at(value)? {
                    values.extend(several(&text, &place)?);
                }
            }
            axes.push(checked(name, values, place)?);
        }
        Ok(axes)
    }

    /// Refuses axes that would change nothing, and zipped ones of different lengths.
    fn check_axes(&self, file: &File) -> Result<()> {
        let used = |name: &str| {
            let steps = file.steps.iter().flat_map(|step| &step.set);
            let layers = file.layers.iter().flat_map(|(_, layer)| layer).chain(steps);
            let settings = layers.chain(&file.replay).flat_map(|setting| setting.value.texts());
            let values = file.axes.iter().flat_map(|axis| axis.values.iter().map(|(text, _)| text));
            let paths = file.devices.iter().flat_map(|device| &device.path);
            let stack = file.stack.iter().flat_map(|entry| &entry.set);
            let stack = stack.flat_map(|setting| setting.value.texts());
            let mut texts = settings.chain(values).chain(paths).chain(stack);
            texts.any(|text| names(text).is_ok_and(|names| names.contains(&name)))
        };
        let of_rounds = file.rounds.iter().flat_map(|rounds| &rounds.axes);
        for axis in file.axes.iter().chain(of_rounds).filter(|axis| axis.name != PATH) {
            let is_key = self.known.has(&axis.name);
            for (value, place) in &axis.values {
                if is_key && axis.name != "chain" {
                    let value = axis_value(self.known, &axis.name, value);
                    check(
                        &Setting { key: axis.name.clone(), value, place: place.clone() },
                        self.known,
                    )?;
                } else if axis.name == "chain" {
                    return Err(Refused::new(
                        place,
                        "chain cannot be an axis",
                        "make layers of it",
                    ));
                } else if file.layer(value).is_none() && !used(&axis.name) {
                    let reason = format!(
                        "'{}' is no key, '{value}' is no layer, and no text uses {{{}}}",
                        axis.name, axis.name
                    );
                    let known = Refused::unknown(place, "key", &axis.name, self.known.keys());
                    return Err(Refused::new(&axis.place, reason, known.help));
                }
            }
        }
        let lengths: Vec<usize> = file
            .zip
            .iter()
            .map(|name| file.axis(name).map_or(0, |axis| axis.values.len()))
            .collect();
        if let (Some(value), false) =
            (self.top.get("zip"), lengths.iter().all(|n| *n > 0 && *n == lengths[0]))
        {
            let help = "name axes that have as many values as each other";
            return Err(self.top.wrong(value, "these axes cannot advance together", help));
        }
        Ok(())
    }

    fn ladder(&self, file: &File, subjects: &Subjects) -> Result<Option<Ladder>> {
        let Some(value) = self.top.get("ladder") else { return Ok(None) };
        let table = self.table(value)?;
        table.only("key of a ladder", &["axis", "stop"])?;
        let axis = table.text_at(table.needed("axis")?)?;
        if file.axis(&axis).is_none() {
            let place = table.place(table.needed("axis")?);
            let names = file.axes.iter().map(|axis| axis.name.as_str());
            return Err(Refused::unknown(&place, "axis", &axis, names));
        }
        if file.zip.contains(&axis) {
            let help = "take it out of zip";
            return Err(table.wrong(value, "an axis that is climbed cannot be zipped", help));
        }
        Ok(Some(Ladder { axis, stop: condition(&table, "stop", subjects)? }))
    }

    fn search(&self, file: &File) -> Result<Option<Search>> {
        let Some(value) = self.top.get("search") else { return Ok(None) };
        let table = self.table(value)?;
        table.only("key of a search", &["axis", "between", "until", "precision", "votes"])?;
        let axis = table.text_at(table.needed("axis")?)?;
        let place = table.place(table.needed("axis")?);
        if self.top.get("ladder").is_some() || file.repeats > 1 || file.axis(&axis).is_some() {
            let help = "leave out ladder, repeats and that axis; votes repeat a run";
            return Err(Refused::new(&place, "a search finds the value of a key by itself", help));
        }
        if !self.known.flag(&axis).is_some_and(|flag| flag.takes_value) {
            return Err(Refused::unknown(&place, "key", &axis, self.known.keys()));
        }
        let between = table.needed("between")?;
        let ends: Vec<f64> =
            table.texts_at(between)?.iter().filter_map(|(text, _)| text.parse().ok()).collect();
        let between = match ends[..] {
            [low, high] if low > 0.0 && low < high && high.is_finite() => [low, high],
            _ => {
                return Err(table.wrong(between, "two numbers are expected here", "write [1, 64]"));
            }
        };
        let share = |text: &str| {
            let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
            Some(percent / 100.0).filter(|share| (0.001..=1.0).contains(share))
        };
        let odd =
            |text: &str| text.parse::<u32>().ok().filter(|votes| votes % 2 == 1 && *votes < 100);
        // The searched key is known to the condition, although it is no axis of the file.
        let mut subjects = subjects(file, self.known);
        subjects.settings.push(axis.clone());
        Ok(Some(Search {
            until: condition(&table, "until", &subjects)?,
            precision: table.parsed("precision", share, "write 0.1% to 100%")?.unwrap_or(0.05),
            votes: table.parsed("votes", odd, "write an odd number below 100")?.unwrap_or(1),
            axis,
            between,
            place,
        }))
    }

    fn rules(&self, subjects: &Subjects) -> Result<Vec<SettingRule>> {
        let mut rules = Vec::new();
        for table in self.items("rule")? {
            table.only("key of a rule", &["when", "set", "skip"])?;
            let when = condition(&table, "when", subjects)?;
            if let Some(result) = when.asks_for_result() {
                let value = table.needed("when")?;
                let reason =
                    format!("'{result}' is known after a run, and a rule decides before it");
                return Err(table.wrong(value, &reason, "ask for axes and keys"));
            }
            let (set, skip) = (self.layer_at(&table, "set")?, table.switch("skip")?);
            if set.is_empty() && !skip {
                let value = table.needed("when")?;
                return Err(table.wrong(
                    value,
                    "this rule does nothing",
                    "add set = {…} or skip = true",
                ));
            }
            rules.push(SettingRule { when, set, skip });
        }
        Ok(rules)
    }
}

/// The values that a text makes, at its place.
fn several(text: &str, place: &Place) -> Result<Vec<(String, Place)>> {
    let texts = expanded(text).map_err(|reason| Refused::new(place, reason, "write {1..10}"))?;
    Ok(texts.into_iter().map(|text| (text, place.clone())).collect())
}

/// An axis whose values are each there once, and not too many.
fn checked(name: String, values: Vec<(String, Place)>, place: Place) -> Result<Axis> {
    let mut seen = std::collections::HashSet::new();
    if let Some((value, place)) = values.iter().find(|(value, _)| !seen.insert(value.as_str())) {
        let reason = format!("'{value}' stands twice on the axis {name}");
        return Err(Refused::new(place, reason, "repeats = N measures each point N times"));
    }
    if values.is_empty() || values.len() > VALUES_MAX {
        let reason = format!("the axis {name} has {} values", values.len());
        return Err(Refused::new(&place, reason, format!("write 1 to {VALUES_MAX}")));
    }
    Ok(Axis { name, values, place })
}

/// The value of an axis as a setting. On an axis a switch is the text `true` or `false`.
pub(crate) fn axis_value(known: &Known, key: &str, text: &str) -> Value {
    let is_switch = known.flag(key).is_some_and(|flag| !flag.takes_value);
    match text {
        "true" | "false" if is_switch => Value::Switch(text == "true"),
        _ => Value::One(text.to_owned()),
    }
}

/// A number of at most six significant digits, as it would be typed.
pub(crate) fn rounded(value: f64) -> String {
    let text = format!("{value:.5e}");
    text.parse::<f64>().map_or(text, |number| number.to_string())
}

/// The values of `{from, to, steps, scale}`.
fn steps(table: &Table<'_, '_>, value: Spot<'_, '_>) -> Result<Vec<String>> {
    table.only("key of an axis", &["from", "to", "steps", "scale"])?;
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let count = |text: &str| text.parse::<usize>().ok().filter(|n| (2..=VALUES_MAX).contains(n));
    for key in ["from", "to", "steps"] {
        table.needed(key)?;
    }
    let from = table.parsed("from", number, "write a number")?.unwrap_or_default();
    let to = table.parsed("to", number, "write a number")?.unwrap_or_default();
    let steps = table.parsed("steps", count, "write a whole number from 2 on")?.unwrap_or(2);
    let is_log = |text: &str| match text {
        "log" => Some(true),
        "linear" => Some(false),
        _ => None,
    };
    let is_log = table.parsed("scale", is_log, "write linear or log")?.unwrap_or(false);
    if is_log && (from <= 0.0 || to <= 0.0) {
        return Err(table.wrong(
            value,
            "a logarithmic axis begins above 0",
            "write scale = \"linear\"",
        ));
    }
    let at = |step: usize| {
        let share = step as f64 / (steps - 1) as f64;
        let value =
            if is_log { from * (to / from).powf(share) } else { from + (to - from) * share };
        rounded(value)
    };
    Ok((0..steps).map(at).collect())
}

/// The condition at a key.
fn condition(table: &Table<'_, '_>, key: &str, subjects: &Subjects) -> Result<Rule> {
    let value = table.needed(key)?;
    let text = table.text_at(value)?;
    Rule::read(&text, subjects).map_err(|reason| {
        let (reason, help) = reason.split_once("\n  = help: ").unwrap_or((&reason, ""));
        table.wrong(value, reason, help)
    })
}

/// Refuses devices of others that are not there, or are not one device each.
fn check_groups(devices: &[Device]) -> Result<()> {
    for group in devices {
        for (number, (name, place)) in group.of.iter().enumerate() {
            let Some(device) = devices.iter().find(|device| device.name == *name) else {
                let names = devices.iter().map(|device| device.name.as_str());
                return Err(Refused::unknown(place, "device", name, names));
            };
            let is_one = |path: &String| names(path).is_ok_and(|names| names.is_empty());
            let reason = if !device.path.as_ref().is_some_and(is_one) {
                format!("'{name}' is not one device with a path")
            } else if group.of[..number].iter().any(|(other, _)| other == name) {
                format!("'{name}' is there twice")
            } else {
                continue;
            };
            let help = "name devices that have a path each";
            return Err(Refused::new(place, reason, help));
        }
    }
    Ok(())
}
