//! What a library says of the load that is asked for.

use std::fs;
use std::path::Path;

use ioecho_run::digest;
use ioecho_run::error::{Kind, Result, RunError};
use ioecho_trace::Bytes;

use super::cache::{Entry, cannot_keep};
use super::location::{Location, is_url};
use super::{UnderWay, Wanted, download, parse, settings};
use crate::args::FetchArgs;
use crate::library::{INDEX_FILE, Index, LOAD_FILE, SUMS_FILE};

/// How large an index of a library may be.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// How large a list of hashes may be.
const SUMS_BYTES_MAX: u64 = 1 << 20;

/// The index of the library in this directory or at this URL.
pub(crate) fn index_of(library: &Path) -> Result<Index> {
    if is_url(library) { index(&parse(library)?) } else { Index::of(library) }
}

/// The index of the library at this URL.
pub(super) fn index(library: &Location) -> Result<Index> {
    let location = library.in_library(INDEX_FILE);
    index_in(&Entry::of(&location)?, &location)
}

/// The index of the library as it is on its server now, whatever was fetched before. The directory
/// is the caller's own.
pub(crate) fn index_afresh(library: &Location, directory: &Path) -> Result<Index> {
    let location = library.in_library(INDEX_FILE);
    index_in(&Entry::below(directory, &location)?, &location)
}

fn index_in(place: &Entry, location: &Location) -> Result<Index> {
    let _under_way = UnderWay::begin();
    let wanted = Wanted { location: location.clone(), sha256: None };
    download::bring(place, &wanted, settings_of_small(INDEX_BYTES_MAX))?;
    let bytes = fs::read(place.file()).map_err(|error| cannot_keep(place.directory(), &error))?;
    Index::published(location, &bytes)
}

/// How a file is fetched that cannot be larger than this.
fn settings_of_small(bytes_max: u64) -> FetchArgs {
    let settings = settings();
    FetchArgs { download_limit: Bytes(settings.download_limit.0.min(bytes_max)), ..settings }
}

/// The load of this name in the library at this URL.
pub(super) fn load(library: &Location, name: &str) -> Result<Wanted> {
    let index = index(library)?;
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
    let settings = settings_of_small(SUMS_BYTES_MAX);
    if download::bring_if_there(&place, &wanted, settings)?.is_none() {
        return Ok(None);
    }
    let broken = || {
        let text = format!(
            "{sums}: this is no list of hashes\n  = help: tell the owner of the library; a copy of \
             the file in another directory is read without it"
        );
        RunError::new(Kind::NotAsPublished, text)
    };
    let text = fs::read_to_string(place.file()).map_err(|_| broken())?;
    let line = digest::listed(&text).find_map(|line| match line {
        Ok((hash, LOAD_FILE)) => Some(hash.to_owned()),
        _ => None,
    });
    line.map(Some).ok_or_else(broken)
}
