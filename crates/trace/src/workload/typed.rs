//! Definitions become the model: values are read, and names are kept as they are written.
//!
//! Names are looked up where a run uses them (`runs`), because a file may name what it does not
//! need, and published files do.

use std::ops::RangeInclusive;

use super::definitions::{Definition, Entry};
use super::fault::Faults;
use super::keys::{FILE_IO, FORMATS, FROM, OPEN_FLAGS, OPERATIONS, Section};
use super::levels::DEPTH_MAX;
use super::model::{
    Band, DEDUPS, Extent, FileWork, General, Host, ReplayGroup, Seek, Sizes, Storage, Tree, Work,
    Workload,
};
use super::tokens::Item;
use super::values::{DECIMALS, Values, decimal, one_of, whole};
use crate::place::Place;
use crate::units::SECTOR;

/// The most requests in flight of a flow.
pub(super) const THREADS_MAX: u64 = 4096;

/// Vdbench's requests in flight of a storage for which nothing is said.
const THREADS: u64 = 8;

/// Vdbench's hit area.
const HIT_AREA: u64 = 1 << 20;

/// Numbers of a range up to this are percentages, larger ones bytes.
const PERCENT_MAX: f64 = 200.0;

/// The longest request: the kernel's lengths have 32 bits.
const LENGTH_MAX: u64 = 1 << 32;

/// The most sizes of a mix.
const MIX_MAX: usize = 1024;

/// The most storages or trees that `count` makes of one.
const COUNT_MAX: u64 = 100_000;

/// Reads everything but the runs.
pub(super) fn read(definitions: &[Definition], faults: &mut Faults) -> Workload {
    let mut workload = Workload::default();
    for definition in definitions {
        let mut values = Values { definition, faults: &mut *faults };
        match definition.section {
            Section::General => workload.general = general(&mut values),
            Section::Host => workload.hosts.push(host(&mut values)),
            Section::Replay => {
                let name = definition.name.clone();
                workload.replays.push(ReplayGroup { name, devices: values.numbers("devices") });
            }
            Section::Storage => workload.storages.extend(storages(&mut values)),
            Section::Work => workload.works.push(work(&mut values)),
            Section::Tree => workload.trees.extend(trees(&mut values)),
            Section::FileWork => workload.file_works.push(file_work(&mut values)),
            Section::Run => {}
        }
    }
    workload
}

fn general(values: &mut Values<'_>) -> General {
    let first = |list: Vec<f64>| list.first().copied();
    let ratio = |values: &mut Values<'_>, key: &str| {
        let ratio = first(values.percents(key));
        let most = if key == "dedupratio" { *DEDUPS.end() } else { f64::INFINITY };
        if let (Some(ratio), Some(entry)) = (ratio, values.entry(key))
            && !(1.0..=most).contains(&ratio)
        {
            let reason = format!("{key}={ratio} is not possible");
            let help = if ratio > most {
                format!("a ratio is at most {most}")
            } else {
                "a ratio is at least 1".to_owned()
            };
            values.faults.impossible(&entry.items[0].place, reason, help);
        }
        ratio
    };
    let percent = values.percent("compression").filter(|percent| *percent > 0.0);
    // The yes-or-no words and sizes that nothing here needs are checked all the same.
    for key in ["fwd_thread_adjust", "formatsds", "report_run_totals", "showlba", "dedupacross"] {
        values.yes(key);
    }
    values.percent("abort_failed_skew");
    General {
        compress: ratio(values, "compratio").or(percent.map(|percent| 100.0 / percent)),
        dedup: ratio(values, "dedupratio"),
        dedup_unit: values.size("dedupunit"),
        verify: values.texts("validate").into_iter().filter(|word| word != "no").collect(),
        journal: values.texts("journal").into_iter().filter(|word| word != "no").collect(),
        concatenate: values.yes("concatenatesds").unwrap_or(false),
        create_anchors: values.yes("create_anchors").unwrap_or(false),
        format_size: values.size("formatxfersize"),
        before: values.texts("startcmd"),
        after: values.texts("endcmd"),
        errors_max: match &values.texts("data_errors")[..] {
            [one] => whole(one),
            _ => None,
        },
    }
}

fn host(values: &mut Values<'_>) -> Host {
    let name = values.definition.name.clone();
    let system = values.text("system").unwrap_or_else(|| name.clone());
    Host { name, system, user: values.text("user") }
}

/// The storages of a definition: `count=(from,number)` makes several of one.
fn storages(values: &mut Values<'_>) -> Vec<Storage> {
    let definition = values.definition;
    let paths = paths(definition);
    if paths.is_empty() && values.entry("lun").is_none() {
        let reason = format!("the sd '{}' has no lun", definition.name);
        values.faults.syntax(&definition.place, reason, "write lun=…, a device or a file");
    }
    refuse_empty(values, "lun", "write a device or a file");
    let storage = Storage {
        name: definition.name.clone(),
        place: definition.place.clone(),
        paths,
        size: extent(values, "size"),
        range: band(values, "range"),
        threads: values.number("threads", within("threads")).unwrap_or(THREADS),
        hit_area: values.size("hitarea").unwrap_or(HIT_AREA),
        shift: sectors(values, "offset").unwrap_or(0),
        align: sectors(values, "align").filter(|align| *align > 0),
        open: values.words("openflags", OPEN_FLAGS),
        replay: values.texts("replay"),
        instead: None,
    };
    if let (Some(align), Some(entry)) = (storage.align, values.entry("align"))
        && !align.is_power_of_two()
    {
        let reason = format!("align={} is not possible", entry.items[0].text);
        values.faults.impossible(&entry.items[0].place, reason, "it is a power of two, such as 4k");
    }
    values.numbers("deduphotsets");
    counted(values, &storage.name)
        .into_iter()
        .map(|(name, number)| {
            let of_path = |path: &String| path_of(path, number);
            let paths = storage.paths.iter().map(|(host, path)| (host.clone(), of_path(path)));
            Storage { name, paths: paths.collect(), ..storage.clone() }
        })
        .collect()
}

/// Names and numbers of what a definition with `count` makes; without it the one name.
fn counted(values: &mut Values<'_>, name: &str) -> Vec<(String, Option<u64>)> {
    let Some(entry) = values.entry("count") else { return vec![(name.to_owned(), None)] };
    let numbers: Vec<u64> = entry.items.iter().filter_map(|item| whole(&item.text)).collect();
    let [from, count @ 1..=COUNT_MAX] = numbers[..] else {
        let reason = "count takes the first number and how many";
        values.faults.syntax(&entry.place, reason, "write it like count=(1,8)");
        return Vec::new();
    };
    let numbers = from..from.saturating_add(count);
    numbers.map(|number| (format!("{name}{number}"), Some(number))).collect()
}

/// A path with its number: in the place of `%d` or `%04d`, or behind it.
fn path_of(path: &str, number: Option<u64>) -> String {
    let Some(number) = number else { return path.to_owned() };
    let mask = path.find('%').and_then(|at| {
        let digits = &path[at + 1..];
        let end = digits.find('d')?;
        let width = &digits[..end];
        let is_width = width.bytes().all(|c| c.is_ascii_digit());
        is_width.then(|| (at, at + 2 + end, width.parse::<usize>().unwrap_or(0).min(20)))
    });
    match mask {
        Some((at, end, width)) => format!("{}{number:0width$}{}", &path[..at], &path[end..]),
        None => format!("{path}{number}"),
    }
}

/// The paths of a storage, each with the host that was named before it.
fn paths(definition: &Definition) -> Vec<(Option<String>, String)> {
    let mut paths = Vec::new();
    let mut hosts: Vec<Option<String>> = vec![None];
    let is_path = |entry: &&Entry| matches!(entry.key.name, "lun" | "host");
    let entries: Vec<&Entry> = definition.entries.iter().filter(is_path).collect();
    // The only host may stand behind the path.
    let named: Vec<&Entry> =
        entries.iter().filter(|entry| entry.key.name == "host").copied().collect();
    if let [only] = named[..] {
        hosts = only.items.iter().map(|item| Some(item.text.clone())).collect();
    }
    for entry in entries {
        if entry.key.name == "host" {
            hosts = entry.items.iter().map(|item| Some(item.text.clone())).collect();
            continue;
        }
        for path in &entry.items {
            paths.extend(hosts.iter().map(|host| (host.clone(), path.text.clone())));
        }
    }
    paths
}

fn extent(values: &mut Values<'_>, key: &str) -> Option<Extent> {
    let item = values.entry(key)?.items.first()?;
    if let Some(percent) = item.text.strip_suffix('%').and_then(decimal) {
        if (0.0..=100.0).contains(&percent) && percent > 0.0 {
            return Some(Extent::Percent(percent));
        }
        let reason = format!("{key}={} is not possible", item.text);
        values.faults.impossible(&item.place, reason, "it is more than 0 % and at most 100 %");
        return None;
    }
    let size = values.size_of(item)?;
    if size == 0 || size > i64::MAX as u64 {
        let reason = format!("{key}={} is not possible", item.text);
        values.faults.impossible(&item.place, reason, "it is more than nothing and below 8 EiB");
    }
    Some(Extent::Bytes(size))
}

/// A size that counts in sectors.
pub(super) fn sectors(values: &mut Values<'_>, key: &str) -> Option<u64> {
    let size = values.size(key)?;
    let item = &values.entry(key)?.items[0];
    check_sectors(values.faults, item, key, size);
    Some(size)
}

pub(super) fn check_sectors(faults: &mut Faults, item: &Item, key: &str, size: u64) {
    if !size.is_multiple_of(SECTOR) || size > LENGTH_MAX {
        let reason = format!("{key}={} is not possible", item.text);
        faults.impossible(&item.place, reason, "it is a multiple of 512, of at most 4 GiB");
    }
}

fn band(values: &mut Values<'_>, key: &str) -> Option<Band> {
    let entry = values.entry(key)?;
    let [from, to] = &entry.items[..] else {
        let help = format!("write it like {key}=(0,50), in percent, or {key}=(1g,2g)");
        values.faults.syntax(&entry.place, format!("{key} takes two values"), help);
        return None;
    };
    let mut one = |item: &Item| match decimal(item.text.trim_end_matches('%')) {
        Some(percent) if percent <= PERCENT_MAX => Some(Extent::Percent(percent)),
        _ => values.size_of(item).map(Extent::Bytes),
    };
    let (mut from_at, to_at) = (one(from)?, one(to)?);
    if let (Extent::Percent(zero), Extent::Bytes(_)) = (from_at, to_at)
        && zero == 0.0
    {
        from_at = Extent::Bytes(0);
    }
    let is_empty = match (from_at, to_at) {
        (Extent::Bytes(from), Extent::Bytes(to)) => to <= from,
        (Extent::Percent(from), Extent::Percent(to)) => {
            to <= from || from >= 100.0 || to - from > 100.0
        }
        _ => true,
    };
    if is_empty {
        let reason = format!("{key}=({},{}) is not possible", from.text, to.text);
        let help = "it begins before it ends, below 100 %, and is no longer than all; both are \
                    percentages or both are sizes";
        values.faults.impossible(&from.place, reason, help);
        return None;
    }
    Some(Band { from: from_at, to: to_at })
}

/// The lengths of requests, or the sizes of files.
fn sizes(values: &mut Values<'_>, key: &str, is_length: bool) -> Option<Sizes> {
    let entry = values.entry(key)?;
    let before = values.faults.all().len();
    let sizes = match &entry.items[..] {
        [one] => Sizes::only(values.size_of(one)?),
        [least, most, step] => Sizes::Range {
            least: values.size_of(least)?,
            most: values.size_of(most)?,
            step: values.size_of(step)?,
        },
        items if items.len().is_multiple_of(2) => {
            let mut mix = Vec::new();
            for pair in items.chunks_exact(2) {
                let size = values.size_of(&pair[0])?;
                let Some(share) = decimal(pair[1].text.trim_end_matches('%')) else {
                    let reason = format!("'{}' is no percentage", pair[1].text);
                    let help = format!(
                        "write {key}=(4k,60,8k,40), or {key}=(4k,64k,4k): the smallest, the \
                         largest, and what both are multiples of"
                    );
                    values.faults.syntax(&pair[1].place, reason, help);
                    return None;
                };
                mix.push((size, share));
            }
            Sizes::Mix(mix)
        }
        _ => {
            let reason = format!("{key} takes one size, pairs of size and percentage, or three");
            let help = format!("write {key}=4k, {key}=(4k,60,8k,40) or {key}=(4k,64k,4k)");
            values.faults.syntax(&entry.place, reason, help);
            return None;
        }
    };
    check_sizes(values, entry, key, &sizes, is_length);
    (values.faults.all().len() == before).then_some(sizes)
}

fn check_sizes(values: &mut Values<'_>, entry: &Entry, key: &str, sizes: &Sizes, is_length: bool) {
    let place = &entry.items[0].place;
    match sizes {
        Sizes::Mix(mix) => {
            let total: f64 = mix.iter().map(|(_, share)| share).sum();
            // A share of 0 says that a file has this size on average.
            let is_average = !is_length && mix.len() == 1 && total == 0.0;
            if (total - 100.0).abs() > 0.5 && !is_average {
                let reason = format!("the shares of {key} come to {total} %");
                values.faults.impossible(place, reason, "they come to 100 %");
            }
            if mix.len() > MIX_MAX {
                let reason = format!("{key} holds more than {MIX_MAX} sizes");
                values.faults.impossible(place, reason, "take some out");
            }
            if mix.iter().any(|(size, _)| *size == 0) {
                values.faults.impossible(place, format!("{key} holds a size of 0"), "take it out");
            }
        }
        Sizes::Range { least, most, step } => {
            let is_range = *least > 0 && least <= most && *step > 0 && least.is_multiple_of(*step);
            if !is_range {
                let reason = format!("these sizes of {key} are not possible");
                let help = "they are the smallest, the largest, and what both are multiples of";
                values.faults.impossible(place, reason, help);
            }
        }
    }
    let lengths: Vec<u64> = match sizes {
        Sizes::Mix(mix) => mix.iter().map(|(size, _)| *size).collect(),
        Sizes::Range { least, most, step } => vec![*least, *most, *step],
    };
    if is_length && lengths.iter().any(|size| !size.is_multiple_of(SECTOR) || *size > LENGTH_MAX) {
        let reason = format!("{key} holds a length that is not possible");
        let help = "lengths are multiples of 512, of at most 4 GiB";
        values.faults.impossible(place, reason, help);
    }
}

/// How often a load seeks: the items of `seekpct`.
pub(super) fn seek(faults: &mut Faults, items: &[Item]) -> Option<Seek> {
    let first = items.first()?;
    let words = &["random", "sequential", "sequentialnz", "eof", "poisson"];
    let lower = first.text.to_ascii_lowercase();
    if let Some(percent) = decimal(lower.trim_end_matches('%')) {
        if percent <= 100.0 {
            return Some(Seek::Share(percent));
        }
        let reason = format!("seekpct={} is not possible", first.text);
        faults.impossible(&first.place, reason, "it lies between 0 and 100");
        return None;
    }
    match if lower == "-1" { Some("eof") } else { one_of(&lower, words) } {
        Some("random") => Some(Seek::Share(100.0)),
        Some("sequential") => Some(Seek::Share(0.0)),
        Some("sequentialnz") => Some(Seek::FromAnywhere),
        Some("eof") => Some(Seek::Once),
        Some(_) => Some(Seek::Skewed),
        None => {
            let reason = format!("'{}' is no share of seeks", first.text);
            let help = "write a percentage, random, sequential, seqnz, eof or poisson";
            faults.syntax(&first.place, reason, help);
            None
        }
    }
}

fn work(values: &mut Values<'_>) -> Work {
    let definition = values.definition;
    let write = values.percent("wrpct").map(|percent| 100.0 - percent);
    let read_hits = values.percent("rhpct");
    let write_hits = values.percent("whpct");
    let hits =
        read_hits.or(write_hits).map(|_| (read_hits.unwrap_or(0.0), write_hits.unwrap_or(0.0)));
    let stride = values.entry("stride").and_then(|entry| match &entry.items[..] {
        [from, to] => Some((values.size_of(from)?, values.size_of(to)?)),
        [one] => values.size_of(one).map(|size| (size, size)),
        _ => {
            let reason = "stride takes the smallest and the largest distance";
            values.faults.syntax(&entry.place, reason, "write it like stride=(4k,128k)");
            None
        }
    });
    if let (Some((from, to)), Some(entry)) = (stride, values.entry("stride"))
        && (to < from || to == 0)
    {
        let help = "the first is the smallest distance, the second the largest";
        values.faults.impossible(&entry.place, "this stride is not possible", help);
    }
    let seeks = values.entry("seekpct").map(|entry| entry.items.clone()).unwrap_or_default();
    Work {
        open: values.words("openflags", OPEN_FLAGS),
        on: names(definition, "sd"),
        hosts: names(definition, "host"),
        sizes: sizes(values, "xfersize", true).unwrap_or(Sizes::only(4096)),
        read: values.percent("rdpct").or(write).unwrap_or(100.0),
        hits,
        seek: seek(values.faults, &seeks).unwrap_or(Seek::Share(100.0)),
        range: band(values, "range"),
        stride,
        band: band(values, "hotband"),
        skew: values.percent("skew"),
        rate: values.decimal("iorate", 0.001..=1e7),
        priority: values.number("priority", 1..=1_000_000),
        threads: values.number("threads", within("threads")),
        streams: values.number("streams", 1..=65_536),
        from: values.text(FROM),
        ..Work::of_run(&definition.name, &definition.place)
    }
}

/// Names as they are written, each with its place.
pub(super) fn names(definition: &Definition, key: &str) -> Vec<(String, Place)> {
    let items = definition.get(key).into_iter().flat_map(|entry| &entry.items);
    items.map(|item| (item.text.clone(), item.place.clone())).collect()
}

/// Refuses an empty path, which would be the directory that the command is typed in.
fn refuse_empty(values: &mut Values<'_>, key: &str, help: &str) {
    let items = values.definition.all(key).flat_map(|entry| &entry.items);
    for item in items.filter(|item| item.text.is_empty()) {
        values.faults.impossible(&item.place, format!("{key} is an empty name"), help);
    }
}

fn trees(values: &mut Values<'_>) -> Vec<Tree> {
    let definition = values.definition;
    let anchor = values.text("anchor");
    if anchor.is_none() && values.entry("anchor").is_none() {
        let reason = format!("the fsd '{}' has no anchor", definition.name);
        values.faults.syntax(&definition.place, reason, "write anchor=…, a directory");
    }
    refuse_empty(values, "anchor", "write anchor=…, a directory");
    for key in ["mask", "journal"] {
        values.texts(key);
    }
    let tree = Tree {
        name: definition.name.clone(),
        place: definition.place.clone(),
        anchor: anchor.unwrap_or_default(),
        depth: values.number("depth", within("depth")).unwrap_or(1),
        width: values.number("width", within("width")).unwrap_or(1),
        files: values.number("files", within("files")).unwrap_or(1),
        sizes: sizes(values, "sizes", false).unwrap_or(Sizes::only(4096)),
        everywhere: values.word("distribution", &["bottom", "all"]) == Some("all"),
        total: values.size("totalsize"),
        working_set: values.size("workingsetsize"),
        shared: values.yes("shared").unwrap_or(false),
        open: values.words("openflags", OPEN_FLAGS),
        instead: None,
    };
    counted(values, &tree.name)
        .into_iter()
        .map(|(name, number)| {
            let anchor = path_of(&tree.anchor, number);
            Tree { name, anchor, ..tree.clone() }
        })
        .collect()
}

/// What a number of a tree or of threads lies between.
pub(super) fn within(key: &str) -> RangeInclusive<u64> {
    match key {
        "depth" => 0..=u64::from(DEPTH_MAX),
        "width" => 1..=1_000_000,
        "files" => 1..=1 << 32,
        _ => 1..=THREADS_MAX,
    }
}

/// After how many requests, or percent of a file, it is left.
fn stop_after(values: &mut Values<'_>) -> Option<String> {
    let text = values.text("stopafter")?;
    let item = &values.entry("stopafter")?.items[0];
    let percent = text.strip_suffix('%');
    let is_possible = match percent {
        Some(percent) => decimal(percent).map(|it| it > 0.0 && it <= 1e6),
        None => whole(&text).map(|requests| requests > 0),
    };
    match is_possible {
        Some(true) => return Some(text),
        Some(false) => {
            let help = "it is a number of requests from 1 on, or a percentage above 0";
            let reason = format!("stopafter={text} is not possible");
            values.faults.impossible(&item.place, reason, help);
        }
        None => {
            let reason = format!("'{text}' is no number and no percentage");
            values.faults.syntax(&item.place, reason, "write it like 100 or 50%");
        }
    }
    None
}

fn file_work(values: &mut Values<'_>) -> FileWork {
    let definition = values.definition;
    FileWork {
        name: definition.name.clone(),
        place: definition.place.clone(),
        on: names(definition, "fsd"),
        trees: Vec::new(),
        hosts: names(definition, "host"),
        ops: values.words("operation", OPERATIONS),
        read: values.percent("rdpct"),
        access: values.words("fileio", FILE_IO),
        select: selection(values),
        sizes: sizes(values, "xfersizes", true).unwrap_or(Sizes::only(4096)),
        threads: values.number("threads", within("threads")).unwrap_or(1),
        skew: values.percent("skew"),
        stop_after: stop_after(values),
        open: values.words("openflags", OPEN_FLAGS),
    }
}

/// How files are chosen: a word, or a word with a number or another one.
fn selection(values: &mut Values<'_>) -> Vec<String> {
    let words =
        &["sequential", "sequentialnz", "random", "poisson", "once", "full", "empty", "notfull"];
    let Some(entry) = values.entry("fileselect") else { return Vec::new() };
    let mut all = Vec::new();
    for (number, item) in entry.items.iter().enumerate() {
        if number > 0 && decimal(&item.text).is_some() {
            all.push(item.text.clone());
        } else if let Some(word) = values.word_of(item, words) {
            all.push(word.to_owned());
        }
    }
    all
}

/// The words of `format`.
pub(super) fn formats(values: &mut Values<'_>) -> Vec<&'static str> {
    values.words("format", FORMATS)
}

/// The values of a loop as sizes or as decimals.
pub(super) fn ratios(values: &mut Values<'_>, key: &str) -> Vec<f64> {
    values.list(key, &DECIMALS)
}
