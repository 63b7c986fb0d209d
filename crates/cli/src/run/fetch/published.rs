//! What a library says of the load that is asked for.

use ioecho_run::digest;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_trace::Bytes;

use super::cache::Entry;
use super::location::Location;
use super::{Settings, Wanted, download, settings};
use crate::library::{Index, LOAD_FILE, SUMS_FILE};

/// How large a list of hashes may be.
const SUMS_BYTES_MAX: u64 = 1 << 20;

/// The load of this name in the library at this URL.
pub(super) fn load(library: &Location, name: &str) -> Result<Wanted> {
    let index = Index::fetch(library)?;
    let load = index.load(name, &library.to_string())?;
    let location = library.in_library(&format!("{}/{LOAD_FILE}", load.name));
    Ok(Wanted { location, sha256: Some(load.sha256.clone()) })
}

/// The hash that stands beside a file, if it looks like one of a library: not every server that
/// has a file has hashes, too.
pub(super) fn sum(file: &Location) -> Result<Option<String>> {
    if file.file_name() != LOAD_FILE {
        return Ok(None);
    }
    let sums = file.beside(SUMS_FILE);
    let place = Entry::of(&sums)?;
    // Where none stood beside it when it was fetched, there is none to ask for.
    if settings().offline && place.about().is_none() {
        return Ok(None);
    }
    let wanted = Wanted { location: sums.clone(), sha256: None };
    let limit = Bytes(settings().limit.0.min(SUMS_BYTES_MAX));
    if download::bring_if_there(&place, &wanted, Settings { limit, ..settings() })?.is_none() {
        return Ok(None);
    }
    let broken = || {
        let text = format!(
            "{sums}: this is no list of hashes\n  = help: tell the owner of the library; a copy of \
             the file in another directory is read without it"
        );
        RunError::new(Kind::NotAsPublished, text)
    };
    let text = std::fs::read_to_string(place.file()).map_err(|_| broken())?;
    let line = digest::listed(&text).find_map(|line| match line {
        Ok((hash, LOAD_FILE)) => Some(hash.to_owned()),
        _ => None,
    });
    line.map(Some).ok_or_else(broken)
}
