//! Loads at an URL: wherever a trace is read, `https://…` may stand in the place of a file.
//!
//! A load that changes while it is fetched, that breaks off, or that is not the one that was
//! published would be replayed without anybody noticing, and two systems would be compared under
//! two loads. So nothing reads from the network: a file is fetched whole into a [`cache`], held
//! against the hash that its library states, and only then has a path, which is opened like any
//! other. The same path is used again as long as the server says that the file is the same.

mod cache;
mod client;
pub(crate) mod digest;
mod download;
mod location;
mod published;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use ioecho_trace::Bytes;

use crate::exit::{self, Coded};

use self::cache::Place;
pub(crate) use self::location::{Location, is_url, kept, kept_path};

/// How large an index of a library may be.
pub(crate) const INDEX_BYTES_MAX: u64 = 64 << 20;

/// How much is fetched at most, unless somebody says more.
pub(crate) const DOWNLOAD_LIMIT: Bytes = Bytes(64 << 30);

/// How this process fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether the network is left alone: only what was fetched before is there.
    pub(crate) offline: bool,
    /// No larger file is fetched.
    pub(crate) limit: Bytes,
}

impl Default for Settings {
    fn default() -> Self {
        Self { offline: false, limit: DOWNLOAD_LIMIT }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// What was fetched by this process: a command that opens its trace twice opens one file.
static FETCHED: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());

/// Chooses how this process fetches, once, before anything is.
pub(crate) fn set(settings: Settings) {
    let _ = SETTINGS.set(settings);
}

fn settings() -> Settings {
    SETTINGS.get().copied().unwrap_or_default()
}

/// What is known of a file before it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    location: Location,
    /// The SHA-256 that its publisher states.
    sha256: Option<String>,
}

/// The file behind a path: the path itself, or what was fetched from the URL that it is.
pub(crate) fn local(path: &Path) -> anyhow::Result<PathBuf> {
    if !is_url(path) {
        return Ok(path.to_owned());
    }
    let known = || FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = known().get(path) {
        return Ok(file.clone());
    }
    let location = parse(path)?;
    let wanted = match location.fragment.clone() {
        Some(name) => published::load(&location, &name)?,
        None => Wanted { sha256: published::sum(&location)?, location },
    };
    let place = Place::of(&wanted.location)?;
    download::bring(&place, &wanted, settings())?;
    let file = place.file();
    known().insert(path.to_owned(), file.clone());
    Ok(file)
}

/// The bytes of a small file.
pub(crate) fn bytes(location: &Location) -> anyhow::Result<Vec<u8>> {
    let wanted = Wanted { location: location.clone(), sha256: None };
    let place = Place::of(location)?;
    let limit = Bytes(settings().limit.0.min(INDEX_BYTES_MAX));
    download::bring(&place, &wanted, Settings { limit, ..settings() })?;
    fs::read(place.file()).map_err(|error| cache::cannot_keep(place.directory(), &error))
}

/// The URL that a path is.
pub(crate) fn parse(path: &Path) -> anyhow::Result<Location> {
    let text = path.to_str().unwrap_or_default();
    Location::parse(text).map_err(|reason| {
        let text = format!(
            "{}: {reason}\n  = help: a load's URL is like https://HOST/LIBRARY/NAME/load.parquet \
             or https://HOST/LIBRARY#NAME",
            kept(text)
        );
        Coded::error(exit::USAGE, text)
    })
}

/// Something cannot be fetched: why, and what to do.
fn failed(location: &Location, reason: &str, help: &str) -> anyhow::Error {
    Coded::error(exit::FETCH, format!("{location}: cannot be fetched: {reason}\n  = help: {help}"))
}
