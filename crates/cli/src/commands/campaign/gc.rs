//! `ioecho campaign gc`: results that no plan needs any more.
//!
//! Results are kept for ever, because a plan that is changed back needs them again. So nothing is
//! removed but by `--yes`, and what is listed first is what is removed then.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ioecho_campaign::attempt::End;
use ioecho_campaign::executor::Executor;
use ioecho_run::digest;
use ioecho_trace::Bytes;
use serde::Serialize;

use super::doing::kept;
use super::status::settle;
use super::store::{Store, entries, name_of};
use crate::args::{GcCampaignArgs, Keep};
use crate::exit;
use crate::print::{Out, tell};
use crate::results::CELLS;

/// Something that can be removed.
#[derive(Debug, Serialize)]
struct Removable {
    /// Its path, below the campaign's directory.
    path: String,
    /// Why it is not needed.
    why: &'static str,
    /// The space that it takes.
    bytes: u64,
}

#[derive(Serialize)]
struct Printed<'a> {
    version: u32,
    removable: &'a [Removable],
    bytes: u64,
    removed: bool,
}

pub(super) fn run(args: &GcCampaignArgs, out: &mut Out) -> anyhow::Result<u8> {
    let store = Store::open(&args.campaign)?;
    // A campaign that is running needs what it is about to write.
    let _lock = store.lock()?;
    let (made, _) = kept(&store)?;
    let held = store.held();
    let mut executor = Executor::new(&made.plan, &made.here, held.attempts.clone(), 0.0);
    settle(&mut executor)?;
    let needed = |key: &str| executor.cells().iter().any(|cell| cell.key == key);
    let mut removable = Vec::new();
    for cell in entries(&store.path().join(CELLS)) {
        let key = name_of(&cell);
        if !digest::is_digest(&key) {
            continue;
        }
        if !needed(&key) {
            removable.push(of(&store, &cell, "the plan has no such cell"));
            continue;
        }
        for attempt in entries(&cell) {
            let Ok(number) = name_of(&attempt).parse::<u32>() else { continue };
            let end = held.attempts.get(&key).and_then(|all| all.get(&number));
            let is_result = matches!(end, Some(End::Measured(it)) if it.fault().is_none());
            if args.keep == Keep::Summary && is_result {
                let runs = entries(&attempt).into_iter().filter(|path| path.is_dir());
                let requests = runs.map(|run| run.join("requests.parquet"));
                for path in requests.filter(|path| path.is_file()) {
                    removable.push(of(&store, &path, "only summaries are to be kept"));
                }
            }
        }
    }
    let bytes = removable.iter().map(|it| it.bytes).sum();
    if args.yes {
        for it in &removable {
            remove(&store.path().join(&it.path))?;
        }
        store.place().sync()?;
    }
    if args.json {
        out.json(&Printed { version: 1, removable: &removable, bytes, removed: args.yes })?;
        return Ok(exit::OK);
    }
    for it in &removable {
        writeln!(out, "{}  {}: {}", it.path, it.why, Bytes(it.bytes))?;
    }
    let done = if args.yes { "removed" } else { "could be removed" };
    writeln!(out, "{} places, {} {done}", removable.len(), Bytes(bytes))?;
    if !args.yes && !removable.is_empty() {
        tell("nothing was removed; --yes removes it");
    }
    Ok(exit::OK)
}

fn of(store: &Store, path: &Path, why: &'static str) -> Removable {
    let below = path.strip_prefix(store.path()).unwrap_or(path);
    Removable { path: below.display().to_string(), why, bytes: size(path) }
}

/// The bytes of a file, or of everything below a directory. Links are not followed.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if metadata.is_dir() { entries(path).iter().map(|it| size(it)).sum() } else { metadata.len() }
}

/// Removes a file or a directory; of a link only the link. The attempt's own file goes first, so
/// that a directory which is removed in part counts for nothing.
fn remove(path: &PathBuf) -> std::io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    for attempt in entries(path) {
        let file = attempt.join("attempt.json");
        if file.exists() {
            fs::remove_file(file)?;
        }
    }
    fs::remove_dir_all(path)
}
