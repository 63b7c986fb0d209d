//! `ioecho library verify`: is every load what the library says it is?
//!
//! Disks rot, copies break off, somebody edits a file. Everything that can be computed is computed
//! again: the hashes of the files, the requests to the last one, their hash, and every figure.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use ioecho_linux::OpenDirectory;
use ioecho_run::digest;
use ioecho_run::regular;
use ioecho_trace::units::counted as counted_of;
use ioecho_trace::{Stop, TraceError};
use serde::Serialize;
use serde_json::json;

use super::add::counted;
use crate::args::VerifyLibraryArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit;
use crate::fetch::{self, Location, Workshop, is_url};
use crate::library::{
    Facts, LIBRARY_VERSION, LOAD_FILE, Name, SUMMED_FILES, SUMS_FILE, facts_of, loads_in,
};
use crate::print::{Out, visible};
use crate::typed::sentence;

/// What was found of a load.
#[derive(Debug, Serialize)]
struct Checked {
    name: Name,
    /// How many requests its file holds, if it could be read.
    requests: Option<u64>,
    /// What is not as it should be, each a sentence.
    problems: Vec<String>,
}

pub(super) fn run(args: &VerifyLibraryArgs, out: &mut Out) -> anyhow::Result<u8> {
    let stop = stop_on_signals()?;
    let mut all = if is_url(&args.library) {
        published(&fetch::parse(&args.library)?, &stop)?
    } else {
        here(&args.library, &stop)?
    };
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let is_whole = all.iter().all(|checked| checked.problems.is_empty());
    if args.json {
        out.json(&json!({ "version": LIBRARY_VERSION, "whole": is_whole, "loads": all }))?;
    } else {
        print(out, &all)?;
    }
    Ok(if is_whole { exit::OK } else { exit::NOT_AS_PUBLISHED })
}

/// The loads in a directory.
fn here(library: &Path, stop: &Stop) -> anyhow::Result<Vec<Checked>> {
    let index = fetch::index_of(library)?;
    let mut stated: BTreeMap<&Name, &Facts> =
        index.loads.iter().map(|load| (&load.name, load)).collect();
    let mut all = Vec::new();
    for name in loads_in(library)? {
        stop.check()?;
        all.push(check(library, &name, stated.remove(&name), stop)?);
    }
    for name in stated.into_keys() {
        let problems = vec!["the index has it, and there is no such directory".to_owned()];
        all.push(Checked { name: name.clone(), requests: None, problems });
    }
    Ok(all)
}

/// The loads at an URL, as they are there now, whatever was fetched before: one after the other is
/// fetched into a directory and checked like any other. What the index does not have nobody finds.
fn published(library: &Location, stop: &Stop) -> anyhow::Result<Vec<Checked>> {
    let workshop = Workshop::open(library)?;
    let workshop = &workshop.directory;
    let index = fetch::index_afresh(library, workshop)?;
    let mut all = Vec::new();
    for load in &index.loads {
        let directory = workshop.join(load.name.as_str());
        let unkept = |error| TraceError::write(&directory, error);
        fs::create_dir(&directory).map_err(unkept)?;
        for name in SUMMED_FILES.into_iter().chain([SUMS_FILE]) {
            stop.check()?;
            let location = library.in_library(&format!("{}/{name}", load.name));
            if let Some(file) = fetch::afresh(&location, workshop)? {
                let move_in = || {
                    let (from, own) = OpenDirectory::of_file(&file)?;
                    from.move_to(own, &OpenDirectory::open(&directory)?, name.as_ref())
                };
                move_in().map_err(unkept)?;
            }
        }
        all.push(check(workshop, &load.name, Some(load), stop)?);
        fs::remove_dir_all(&directory).map_err(unkept)?;
    }
    Ok(all)
}

fn print(out: &mut impl Write, all: &[Checked]) -> io::Result<()> {
    for Checked { name, requests, problems } in all {
        if problems.is_empty() {
            let requests = counted_of(requests.unwrap_or_default(), "request");
            writeln!(out, "{name}: as published, {requests}")?;
        }
        for problem in problems {
            writeln!(out, "{name}: {}", visible(problem))?;
        }
    }
    let broken = all.iter().filter(|checked| !checked.problems.is_empty()).count();
    writeln!(out, "{}, {broken} not as published", counted_of(all.len() as u64, "load"))
}

fn check(
    library: &Path,
    name: &Name,
    stated: Option<&Facts>,
    stop: &Stop,
) -> anyhow::Result<Checked> {
    let mut checked = Checked { name: name.clone(), requests: None, problems: Vec::new() };
    let problems = &mut checked.problems;
    check_sums(library, name, problems);
    let facts = match facts_of(library, name) {
        Ok(facts) => facts,
        Err(reason) => {
            problems.push(reason);
            return Ok(checked);
        }
    };
    match stated {
        None => problems
            .push("the index does not have it; `ioecho library index` makes it anew".to_owned()),
        Some(stated) if !stated.agrees(&facts) => {
            problems.push("the index says something else than its load.toml".to_owned());
        }
        Some(_) => {}
    }
    let file = library.join(name.as_str()).join(LOAD_FILE);
    let open = |file: &str| regular::open_below(library, &[name.as_str(), file]);
    // What cannot be opened is told with the sums, and not opened again.
    let Ok(opened) = open(LOAD_FILE) else {
        problems.sort_unstable();
        return Ok(checked);
    };
    match opened.metadata() {
        Ok(metadata) if metadata.len() != facts.file_bytes => problems.push(format!(
            "{LOAD_FILE} has {} bytes, and should have {}",
            metadata.len(),
            facts.file_bytes
        )),
        _ => {}
    }
    if digest::of_opened(opened).is_ok_and(|hash| hash != facts.sha256) {
        problems.push(format!("{LOAD_FILE} is not the file that its load.toml is about"));
    }
    match counted(&file, stop) {
        Err(_) if stop.is_asked() => stop.check()?,
        Err(error) => problems.push(sentence(error.as_ref())),
        Ok(counted) => {
            let figures = counted.summary.figures();
            if counted.header.damage == facts.damage {
                checked.requests = Some(figures.requests);
            } else {
                let how = counted.header.damage.unwrap_or_else(|| "nowhere".to_owned());
                problems.push(format!("{LOAD_FILE} breaks off: {how}"));
            }
            if counted.hash.digits() != facts.requests_sha256 {
                problems.push("its requests are others than those that were added".to_owned());
            }
            let mut again = facts.clone();
            again.count(&figures);
            if !again.agrees(&facts) {
                problems.push("its load.toml states other figures than its requests have".into());
            }
        }
    }
    problems.sort_unstable();
    Ok(checked)
}

/// Holds the files against their hashes.
fn check_sums(library: &Path, name: &Name, problems: &mut Vec<String>) {
    let sums = match regular::read_below(library, &[name.as_str(), SUMS_FILE]) {
        Ok(sums) => String::from_utf8_lossy(&sums).into_owned(),
        Err(error) => {
            problems.push(format!("cannot read {SUMS_FILE}: {error}"));
            return;
        }
    };
    let mut listed = BTreeMap::new();
    for line in digest::listed(&sums) {
        match line {
            Ok((hash, name)) => _ = listed.insert(name, hash),
            Err(line) => problems.push(format!("{SUMS_FILE} has a line that is none: {line}")),
        }
    }
    for file in SUMMED_FILES {
        let opened = regular::open_below(library, &[name.as_str(), file]);
        match (listed.remove(file), opened.and_then(digest::of_opened)) {
            (None, _) => problems.push(format!("{SUMS_FILE} does not have {file}")),
            (_, Err(error)) => problems.push(format!("cannot read {file}: {error}")),
            (Some(stated), Ok(hash)) if stated != hash => {
                problems.push(format!("{file} is not what {SUMS_FILE} says"));
            }
            _ => {}
        }
    }
    for name in listed.into_keys() {
        problems.push(format!("{SUMS_FILE} has a file that belongs to no load: {name}"));
    }
}
