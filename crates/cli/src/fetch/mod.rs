//! Loads at a URL: `https://…` may stand wherever a command takes a trace.
//!
//! If a load changed while it is fetched, broke off, or were another one than was published, it
//! would be replayed without anybody noticing, and two systems would be compared under two loads.
//! So nothing reads from the network directly. A file is fetched whole into a [`cache`] and
//! compared with the hash in its library. Only then does it have a path, which is opened like any
//! other. The same file is used again as long as the server says that it has not changed.

mod cache;
mod client;
mod download;
mod location;
mod published;
mod secret;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ioecho_run::error::{Kind, Result, RunError};
use ioecho_trace::secrets::url_shown;

use crate::args::FetchArgs;
use crate::library::{self, INDEX_FILE, Index};
use crate::lock;

use self::cache::Entry;
pub(crate) use self::location::{Location, is_url};
pub(crate) use self::published::{index_afresh, index_of};
pub(crate) use self::secret::taken_out;

/// How this process fetches.
static SETTINGS: OnceLock<FetchArgs> = OnceLock::new();

/// The files that this process has fetched. A command that opens its trace twice opens the same
/// file.
static FETCHED: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());

/// How many files are being fetched.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// Exists while a file is being fetched.
struct UnderWay;

impl UnderWay {
    fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a file is being fetched. Then the process waits for a server and can be ended at any
/// moment, because the received part is kept for the next time.
pub(crate) fn is_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Chooses how this process fetches, once. Until then it fetches nothing: the limit is zero.
pub(crate) fn set(settings: FetchArgs) {
    let _ = SETTINGS.set(settings);
}

fn settings() -> FetchArgs {
    SETTINGS.get().copied().unwrap_or_default()
}

/// A file that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    location: Location,
    /// The SHA-256 that its publisher states.
    sha256: Option<String>,
}

/// The file for a path: the path itself, the fetched file for a URL, or the load that the path
/// names in a library on this host.
pub(crate) fn local(path: &Path) -> Result<PathBuf> {
    let named = if is_url(path) { None } else { library::named(path) };
    if !is_url(path) && named.is_none() {
        return match location::nearly_url(path).filter(|_| !path.exists()) {
            Some(scheme) => {
                // The message shows no more of it, because the rest may hold a password.
                let text = format!(
                    "'{scheme}…' is no file, and no URL\n  = help: an URL begins with {}://",
                    scheme.to_ascii_lowercase()
                );
                Err(RunError::new(Kind::Usage, text))
            }
            None => Ok(path.to_owned()),
        };
    }
    let known = || FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = known().get(path) {
        return Ok(file.clone());
    }
    if let Some((library, name)) = named {
        let file = library::load_file(library, name)?;
        known().insert(path.to_owned(), file.clone());
        return Ok(file);
    }
    let location = parse(path)?;
    let _under_way = UnderWay::begin();
    let wanted = match location.fragment.clone() {
        Some(name) => published::load(&location, &name)?,
        None => Wanted { sha256: published::sum(&location)?, location },
    };
    let place = Entry::of(&wanted.location)?;
    download::bring(&place, &wanted, settings())?;
    let file = place.file();
    known().insert(path.to_owned(), file.clone());
    Ok(file)
}

/// The error for a path that is no load: a library, on this host or at a URL, or the directory of a
/// load.
pub(crate) fn is_library(path: &Path) -> Option<RunError> {
    if is_url(path) {
        let location = parse(path).ok()?;
        return if location.fragment.is_none() { at(&location) } else { None };
    }
    if let Some(load) = library::load_of(path) {
        let shown = path.display();
        let text = format!(
            "{shown} is the directory of a load\n  = help: name the load: {}",
            load.display()
        );
        return Some(RunError::new(Kind::Trace, text));
    }
    let directory = if path.ends_with(INDEX_FILE) { library::above(path)? } else { path };
    directory
        .join(INDEX_FILE)
        .exists()
        .then(|| Index::of(directory))?
        .map_or_else(Some, |index| Some(index.is_no_load(&directory.display().to_string())))
}

/// The same for a URL at which there is no file.
fn at(location: &Location) -> Option<RunError> {
    Some(published::index(location).ok()?.is_no_load(&location.to_string()))
}

/// Fetches the current file, whatever the cache holds. Returns `None` if the server has no such
/// file. The file is stored in the caller's directory.
pub(crate) fn afresh(location: &Location, directory: &Path) -> Result<Option<PathBuf>> {
    let _under_way = UnderWay::begin();
    let wanted = Wanted { location: location.clone(), sha256: None };
    let place = Entry::below(directory, location)?;
    let about = download::bring_if_there(&place, &wanted, settings())?;
    Ok(about.map(|_| place.file()))
}

/// The workshop of this process. It is stored here so that another thread can remove it.
static WORKSHOP: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A directory in the cache for this process alone. It is removed with its contents when it is
/// dropped.
pub(crate) struct Workshop {
    pub(crate) directory: PathBuf,
    _lock: fs::File,
}

impl Drop for Workshop {
    fn drop(&mut self) {
        clear_away();
    }
}

impl Workshop {
    /// Makes an empty workshop, into which this library is fetched.
    pub(crate) fn open(library: &Location) -> Result<Self> {
        if settings().offline {
            let reason = "to verify it everything is fetched anew, and --offline forbids that";
            return Err(failed(library, reason, "leave away --offline"));
        }
        let root = cache::root()?;
        let directory = root.join("verify");
        let make = || {
            cache::make_private(&root)?;
            let lock = ioecho_linux::OpenDirectory::at(&root)?.append("verify.lock")?;
            lock::take(&lock, || "that verifies a library at an URL".to_owned())?;
            // Removes the files that a killed process left.
            match fs::remove_dir_all(&directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            fs::create_dir(&directory)?;
            Ok(lock)
        };
        let lock = make().map_err(|error| cache::cannot_keep(&root, &error))?;
        *WORKSHOP.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory.clone());
        Ok(Self { directory, _lock: lock })
    }
}

/// Removes the workshop of this process, if there is one. Nobody else needs its files.
pub(crate) fn clear_away() {
    if let Some(workshop) = WORKSHOP.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // If a file cannot be removed now, the next verification removes it.
        let _ = fs::remove_dir_all(workshop);
    }
}

/// Parses the URL in a path.
pub(crate) fn parse(path: &Path) -> Result<Location> {
    let text = path.to_str().unwrap_or_default();
    Location::parse(&secret::typed(text)).map_err(|reason| {
        let text = format!(
            "{}: {reason}\n  = help: a load's URL is like https://HOST/LIBRARY/NAME/load.parquet \
             or https://HOST/LIBRARY#NAME",
            url_shown(text)
        );
        RunError::new(Kind::Usage, text)
    })
}

/// The error if a file cannot be fetched: the reason, and how to help.
fn failed(location: &Location, reason: &str, help: &str) -> RunError {
    RunError::new(Kind::Fetch, format!("{location}: cannot be fetched: {reason}\n  = help: {help}"))
}
