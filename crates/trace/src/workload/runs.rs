//! Runs: names are looked up, and loops and rates are read.

use std::collections::{HashMap, HashSet};

use super::definitions::{Definition, Entry};
use super::fault::Faults;
use super::keys::{Kind, OPEN_FLAGS, OPERATIONS, Section};
use super::model::{Arrival, Choice, FORMAT, Loop, Rate, Run, Told, Value, Work, Workload};
use super::typed::{check_sectors, formats, names, ratios, seek, within};
use super::values::{Values, decimal, one_of, whole};
use crate::place::{Place, nearest};
use crate::units::Nanos;

/// Vdbench's duration of a run for which nothing is said.
const DURATION: Nanos = Nanos::from_secs(30);

/// The longest interval that is chosen by itself.
const INTERVAL_MAX: Nanos = Nanos::from_secs(60);

/// Vdbench's percentages of a curve.
const CURVE: [f64; 6] = [10.0, 50.0, 70.0, 80.0, 90.0, 100.0];

/// The most rates that follow each other, with their times.
const PAIRS_MAX: usize = 10_000;

/// The most names that a wrong one is compared with.
const COMPARED_MAX: usize = 1000;

/// The most uses of definitions by runs.
const USES_MAX: usize = 4_000_000;

/// Reads the runs of a workload that has everything else.
pub(super) fn read(definitions: &[Definition], workload: &mut Workload, faults: &mut Faults) {
    let index = Index::new(workload, faults);
    let mut uses = 0;
    let mut names = HashSet::new();
    for definition in definitions.iter().filter(|it| it.section == Section::Run) {
        if !names.insert(definition.name.as_str()) {
            let what = format!("there are two rd of the name '{}'", definition.name);
            workload.told.push(Told { place: definition.place.clone(), what });
        }
        let mut values = Values { definition, faults: &mut *faults };
        let run = run(&mut values, workload, &index);
        let chosen = if let Choice::These(these) = &run.choice { these.len() } else { 1 };
        uses += run.works.len() + run.file_works.len() + chosen;
        workload.runs.push(run);
        if uses > USES_MAX {
            let reason = format!("the runs use more than {USES_MAX} loads");
            faults.impossible(&definition.place, reason, "make several files of it");
            return;
        }
    }
    if workload.runs.is_empty() && faults.is_empty() {
        let place = definitions.get(1).map_or(Place::outside("the file"), |it| it.place.clone());
        let place = Place { line: 0, ..place };
        faults.syntax(&place, "there is no rd: nothing is to be run", "add a line rd=…");
    }
    let mut checked = Checked::default();
    for run in 0..workload.runs.len() {
        checked.run(workload, run, &index, faults);
    }
}

/// Names of definitions.
struct Index {
    storages: HashMap<String, usize>,
    trees: HashMap<String, usize>,
    works: HashMap<String, usize>,
    file_works: HashMap<String, usize>,
    hosts: HashMap<String, usize>,
}

impl Index {
    fn new(workload: &Workload, faults: &mut Faults) -> Self {
        fn of<'n>(
            faults: &mut Faults,
            what: &str,
            names: impl Iterator<Item = (&'n String, Option<&'n Place>)>,
        ) -> HashMap<String, usize> {
            let mut index = HashMap::new();
            for (number, (name, place)) in names.enumerate() {
                if let (Some(_), Some(place)) = (index.insert(name.clone(), number), place) {
                    let reason = format!("there are two {what} of the name '{name}'");
                    faults.syntax(place, reason, "give each a name of its own");
                }
            }
            index
        }
        let Workload { storages, trees, works, file_works, hosts, .. } = workload;
        Self {
            storages: of(faults, "sd", storages.iter().map(|it| (&it.name, Some(&it.place)))),
            trees: of(faults, "fsd", trees.iter().map(|it| (&it.name, Some(&it.place)))),
            works: of(faults, "wd", works.iter().map(|it| (&it.name, Some(&it.place)))),
            file_works: of(faults, "fwd", file_works.iter().map(|it| (&it.name, Some(&it.place)))),
            hosts: of(faults, "hd", hosts.iter().map(|it| (&it.name, None))),
        }
    }
}

/// The numbers of what names mean, in the order of the definitions. Each name is one, a range
/// `sd1-sd9`, or has an asterisk.
fn looked_up(
    names: &[(String, Place)],
    index: &HashMap<String, usize>,
    what: &str,
    faults: &mut Faults,
) -> Vec<usize> {
    let mut all = Vec::new();
    for (name, place) in names {
        let before = all.len();
        if let Some(number) = index.get(name) {
            all.push(*number);
        } else if name.contains('*') {
            let mut found: Vec<usize> =
                index.iter().filter(|(it, _)| is_like(it, name)).map(|(_, at)| *at).collect();
            found.sort_unstable();
            all.append(&mut found);
        } else if let Some(range) = range(name) {
            all.extend(range.filter_map(|name| index.get(&name)));
        }
        if all.len() == before {
            // Among very many names the nearest would take long to find, and be no help.
            let known = index.keys().map(String::as_str).take(COMPARED_MAX).collect::<Vec<_>>();
            let help = match nearest(name, &known) {
                Some(near) => format!("did you mean '{near}'?"),
                None if known.is_empty() => format!("the file defines no {what}"),
                None => format!("define it with {what}={name},…"),
            };
            faults.syntax(place, format!("there is no {what} '{name}'"), help);
        }
    }
    let mut seen = HashSet::new();
    all.retain(|number| seen.insert(*number));
    all
}

/// Whether a name is like a pattern with asterisks.
pub(super) fn is_like(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The names of a range such as `sd1-sd9` or `sd01-sd12`.
fn range(text: &str) -> Option<impl Iterator<Item = String>> {
    let (from, to) = text.split_once('-')?;
    let parts = |text: &str| {
        let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (name, number) = text.split_at(text.len() - digits);
        Some((name.to_owned(), number.to_owned(), number.parse::<u64>().ok()?))
    };
    let ((name, digits, from), (other, _, to)) = (parts(from)?, parts(to)?);
    let is_range = (other == name || other.is_empty()) && from <= to && to - from < 1_000_000;
    let width = digits.len();
    is_range.then(|| (from..=to).map(move |number| format!("{name}{number:0width$}")))
}

fn run(values: &mut Values<'_>, workload: &mut Workload, index: &Index) -> Run {
    let definition = values.definition;
    let of_trees = values.entry("fwd").is_some();
    let wanted = names(definition, "wd");
    let mut works = looked_up(&wanted, &index.works, "wd", values.faults);
    let file_works = looked_up(&names(definition, "fwd"), &index.file_works, "fwd", values.faults);
    let choice = choice(values, index);
    let replay = values.texts("replay");
    if wanted.is_empty() && !of_trees && replay.is_empty() {
        if choice == Choice::OfWorks {
            let reason = format!("the rd '{}' names no wd, fwd or sd", definition.name);
            values.faults.syntax(&definition.place, reason, "write wd=…, fwd=… or sd=…");
        }
        // A run without a load describes its own, in its loops.
        works.push(workload.works.len());
        let work = Work::of_run(&definition.name, &definition.place);
        workload.works.push(Work { is_of_run: true, ..work });
    }
    let distribution = distribution(values);
    let (key, of) = if of_trees { ("fwdrate", "fwd") } else { ("iorate", "wd") };
    let rates = rates(values, key, &distribution);
    if !rates.iter().any(|rate| matches!(rate, Rate::Curve(_))) {
        tell_unused_curve(values, key, workload);
    }
    let other = if of_trees { "iorate" } else { "fwdrate" };
    if let Some(entry) = values.entry(other) {
        let help = format!("write {key}=…");
        values.faults.syntax(&entry.place, format!("{other} does not go with {of}"), help);
    }
    let duration = values.time("elapsed").unwrap_or(DURATION);
    if let (true, Some(entry)) = (duration <= Nanos::ZERO, values.entry("elapsed")) {
        values.faults.impossible(&entry.place, "a run of no time measures nothing", "write more");
    }
    let interval = Nanos((duration.0 / 2).clamp(1_000_000_000, INTERVAL_MAX.0));
    Run {
        open: values.words("openflags", OPEN_FLAGS),
        name: definition.name.clone(),
        place: definition.place.clone(),
        works,
        file_works: file_works
            .into_iter()
            .filter(|at| workload.file_works[*at].name != FORMAT)
            .collect(),
        choice,
        rates,
        stop_curve: values
            .decimal("stopcurve", 0.0..=1e9)
            .map(|milliseconds| Nanos((milliseconds * 1e6) as i64)),
        loops: loops(values),
        duration,
        warmup: values.time("warmup").unwrap_or(Nanos::ZERO),
        interval: values.time("interval").filter(|it| *it > Nanos::ZERO).unwrap_or(interval),
        pause: values.time("pause").unwrap_or(Nanos::ZERO),
        arrival: distribution.arrival,
        data: ["maxdata", "maxdataread", "maxdatawritten"].map(|key| values.size(key)),
        before: values.texts("startcmd"),
        after: values.texts("endcmd"),
        format: formats(values),
        ops: values.words("operations", OPERATIONS),
        replay,
    }
}

/// Tells of points and of an end of a curve that a run does not have; those that a default gives to
/// several runs once.
fn tell_unused_curve(values: &Values<'_>, rate: &str, workload: &mut Workload) {
    for key in ["curve", "stopcurve"] {
        let Some(Entry { place, .. }) = values.entry(key) else { continue };
        if !workload.told.iter().any(|told| told.place == *place) {
            let name = &values.definition.name;
            let what = format!("{key}= counts for nothing in '{name}': only {rate}=curve needs it");
            workload.told.push(Told { place: place.clone(), what });
        }
    }
}

fn choice(values: &mut Values<'_>, index: &Index) -> Choice {
    let Some(entry) = values.entry("sd") else { return Choice::OfWorks };
    let definition = values.definition;
    let mut these =
        || Choice::These(looked_up(&names(definition, "sd"), &index.storages, "sd", values.faults));
    let [item] = &entry.items[..] else { return these() };
    match item.text.as_str() {
        "single" => Choice::Single,
        "range" => Choice::Growing,
        text => match text.strip_prefix("setsof").map(whole) {
            Some(Some(count)) if count > 0 => Choice::Sets(count),
            Some(_) => {
                let help = "write it like setsof4";
                values.faults.syntax(&item.place, format!("'{text}' names no number"), help);
                Choice::OfWorks
            }
            None => these(),
        },
    }
}

struct Distribution {
    arrival: Arrival,
    /// Whether rates change, and whether they jump.
    changes: bool,
    jumps: bool,
}

fn distribution(values: &mut Values<'_>) -> Distribution {
    let mut found = Distribution { arrival: Arrival::Poisson, changes: false, jumps: false };
    let words = &["exponential", "uniform", "deterministic", "variable", "spike"];
    for item in values.entry("distribution").map_or(&[][..], |entry| &entry.items) {
        // Single letters are taken: 'dist=d' is published.
        let lower = item.text.to_ascii_lowercase();
        match one_of(&lower, words) {
            Some("exponential") => found.arrival = Arrival::Poisson,
            Some("uniform") => found.arrival = Arrival::Uniform,
            Some("deterministic") => found.arrival = Arrival::Constant,
            Some("variable") => found.changes = true,
            Some(_) => found.jumps = true,
            None => {
                let reason = format!("'{}' is none of {}", item.text, words.join(", "));
                values.faults.syntax(&item.place, reason, "write one of them");
            }
        }
    }
    found
}

fn rates(values: &mut Values<'_>, key: &str, distribution: &Distribution) -> Vec<Rate> {
    let mut curve = values.percents("curve");
    if curve.is_empty() {
        curve = CURVE.to_vec();
    }
    if let (Some(entry), true) =
        (values.entry("curve"), curve.iter().any(|percent| !(0.001..=1000.0).contains(percent)))
    {
        let help = "they are percentages of the highest rate, above 0";
        values.faults.impossible(&entry.place, "these points of a curve are not possible", help);
        curve = CURVE.to_vec();
    }
    let Some(entry) = values.entry(key) else { return vec![Rate::Max] };
    let mut rates = Vec::new();
    let mut numbers = Vec::new();
    let mut all = entry.items.iter().peekable();
    while let Some(item) = all.next() {
        match item.text.to_ascii_lowercase().as_str() {
            "max" => rates.push(Rate::Max),
            "curve" => rates.push(Rate::Curve(curve.clone())),
            _ => {
                let mut run = vec![item.clone()];
                let is_number =
                    |text: &str| !matches!(text.to_ascii_lowercase().as_str(), "max" | "curve");
                while let Some(next) = all.next_if(|next| is_number(&next.text)) {
                    run.push(next.clone());
                }
                let read = values.list_of(&run, &super::values::DECIMALS);
                numbers.extend(read.iter().copied());
                rates.extend(read.into_iter().map(Rate::Fixed));
            }
        }
    }
    let place = &entry.items[0].place;
    if distribution.changes {
        let is_pairs = rates.len() == numbers.len() && numbers.len().is_multiple_of(2);
        if !is_pairs || numbers.chunks(2).any(|pair| pair.get(1).is_none_or(|it| *it < 0.001)) {
            let reason = "with distribution=variable rates are pairs of a rate and seconds";
            values.faults.syntax(place, reason, format!("write it like {key}=(100,10,500,10)"));
            return vec![Rate::Max];
        }
        if numbers.chunks_exact(2).any(|pair| pair[0] > 1e7) || numbers.len() > PAIRS_MAX {
            let help = format!("rates are at most 10 million, and at most {PAIRS_MAX} numbers");
            values.faults.impossible(place, "these rates are not possible", help);
        }
        let pair = |pair: &[f64]| (pair[0], Nanos((pair[1].min(1e9) * 1e9) as i64));
        let pairs = numbers.chunks_exact(2).map(pair).collect();
        return vec![Rate::Changing { pairs, jumps: distribution.jumps }];
    }
    if numbers.iter().any(|rate| !(0.001..=1e7).contains(rate)) {
        let reason = format!("a rate of {key} is not possible");
        values.faults.impossible(place, reason, "rates lie between 0.001 and 10 million");
    }
    rates
}

/// The loops in their order of appearance.
fn loops(values: &mut Values<'_>) -> Vec<Loop> {
    let mut loops = Vec::new();
    for entry in values.definition.entries.iter().filter(|entry| entry.key.loops) {
        let name = entry.key.name;
        let read: Vec<Value> = match entry.key.kind {
            Kind::Sizes => {
                let sizes = values.sizes(name);
                let is_length = matches!(name, "forxfersize" | "foroffset" | "foralign");
                for size in sizes.iter().filter(|_| is_length) {
                    check_sectors(values.faults, &entry.items[0], name, *size);
                }
                if name == "forxfersize" && sizes.contains(&0) {
                    let help = "take it out";
                    values.faults.impossible(&entry.place, "a request has no length of 0", help);
                }
                sizes.into_iter().map(Value::Size).collect()
            }
            Kind::Numbers => {
                let numbers = values.numbers(name);
                let within = within(entry.key.ours);
                if let Some(number) = numbers.iter().find(|number| !within.contains(number)) {
                    let reason = format!("{name}={number} is not possible");
                    let help = format!("it lies between {} and {}", within.start(), within.end());
                    values.faults.impossible(&entry.place, reason, help);
                }
                numbers.into_iter().map(Value::Number).collect()
            }
            Kind::Flags(_) => values.words(name, OPERATIONS).into_iter().map(Value::Word).collect(),
            Kind::Texts => seeks(values, name),
            _ => {
                let numbers = ratios(values, name);
                let most = if name == "forcompratio" { 1e6 } else { 100.0 };
                if let Some(number) = numbers.iter().find(|number| **number > most) {
                    let reason = format!("{name}={number} is not possible");
                    let help = format!("it is at most {most}");
                    values.faults.impossible(&entry.place, reason, help);
                }
                numbers.into_iter().map(Value::Decimal).collect()
            }
        };
        if !read.is_empty() {
            loops.push(Loop { key: entry.key.ours, values: read });
        }
    }
    loops
}

/// Shares of seeks: a list of percentages with their ranges, or of words.
fn seeks(values: &mut Values<'_>, name: &str) -> Vec<Value> {
    let Some(entry) = values.entry(name) else { return Vec::new() };
    let is_range =
        |text: &str| text.split_once('-').is_some_and(|(from, _)| decimal(from).is_some());
    if entry.items.iter().any(|item| is_range(&item.text)) {
        let shares = values.percents(name).into_iter();
        return shares.map(|share| Value::Seek(super::model::Seek::Share(share))).collect();
    }
    let items = entry.items.iter();
    items
        .filter_map(|item| seek(values.faults, std::slice::from_ref(item)))
        .map(Value::Seek)
        .collect()
}

/// What was looked at already: a load that many runs use is checked once.
#[derive(Default)]
struct Checked {
    works: HashSet<usize>,
    of_works: HashSet<usize>,
    file_works: HashSet<usize>,
    storages: HashSet<usize>,
    trees: HashSet<usize>,
}

impl Checked {
    /// Looks up the names that a run uses.
    fn run(&mut self, workload: &mut Workload, run: usize, index: &Index, faults: &mut Faults) {
        let run = &workload.runs[run];
        let mut storages = match &run.choice {
            Choice::These(these) => these.clone(),
            _ => Vec::new(),
        };
        let is_of_works = !matches!(run.choice, Choice::These(_)) && run.replay.is_empty();
        for at in &run.works {
            let work = &mut workload.works[*at];
            if is_of_works && !work.is_of_run && self.of_works.insert(*at) {
                if work.on.is_empty() {
                    let reason = format!("the wd '{}' names no sd", work.name);
                    faults.syntax(&work.place, reason, "write sd=…");
                }
                work.storages = looked_up(&work.on, &index.storages, "sd", faults);
                storages.extend_from_slice(&work.storages);
            }
            if self.works.insert(*at) {
                hosts(&work.hosts, index, faults);
            }
        }
        for at in storages.into_iter().filter(|at| self.storages.insert(*at)) {
            let storage = &workload.storages[at];
            for (host, _) in &storage.paths {
                let named: Vec<_> =
                    host.iter().map(|it| (it.clone(), storage.place.clone())).collect();
                hosts(&named, index, faults);
            }
        }
        let mut anchors = Vec::new();
        for at in run.file_works.iter().filter(|at| self.file_works.insert(**at)) {
            let work = &mut workload.file_works[*at];
            if work.on.is_empty() {
                let reason = format!("the fwd '{}' names no fsd", work.name);
                faults.syntax(&work.place, reason, "write fsd=…");
            }
            hosts(&work.hosts, index, faults);
            work.trees = looked_up(&work.on, &index.trees, "fsd", faults);
            anchors.extend_from_slice(&work.trees);
        }
        anchors.retain(|at| self.trees.insert(*at));
        overlaps(workload, &anchors, faults);
    }
}

/// Whether hosts are defined. This host need not be.
fn hosts(names: &[(String, Place)], index: &Index, faults: &mut Faults) {
    let is_other = |name: &str| !matches!(name, "localhost" | "*");
    let others: Vec<_> = names.iter().filter(|(name, _)| is_other(name)).cloned().collect();
    looked_up(&others, &index.hosts, "hd", faults);
}

/// Refuses trees within trees: each would delete the other's files.
fn overlaps(workload: &Workload, trees: &[usize], faults: &mut Faults) {
    let mut anchors: Vec<(&str, usize)> =
        trees.iter().map(|at| (workload.trees[*at].anchor.trim_end_matches('/'), *at)).collect();
    anchors.sort_unstable();
    for pair in anchors.windows(2) {
        let ((outer, _), (inner, at)) = (pair[0], pair[1]);
        let below = inner.strip_prefix(outer);
        if !outer.is_empty() && below.is_some_and(|below| below.starts_with('/')) {
            let reason = format!("the anchor {inner} lies in the anchor {outer}");
            let help = "give each tree a directory of its own";
            faults.impossible(&workload.trees[at].place, reason, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_ranges_and_asterisks() {
        let names = |text: &str| range(text).map(Iterator::collect::<Vec<_>>);
        assert_eq!(names("sd9-sd11").unwrap(), ["sd9", "sd10", "sd11"]);
        assert_eq!(names("sd09-sd11").unwrap(), ["sd09", "sd10", "sd11"]);
        assert!(names("sd1").is_none() && names("a1-b2").is_none() && names("sd2-sd1").is_none());
        assert!(is_like("host01.3", "host01.*") && is_like("abc", "*b*") && is_like("x", "*"));
        assert!(!is_like("sd", "sd1*") && !is_like("ab", "ab*b"));
    }
}
