//! Loads at an URL: wherever a trace is read, `https://…` may stand in the place of a file.
//!
//! A load that changes while it is fetched, that breaks off, or that is not the one that was
//! published would be replayed without anybody noticing, and two systems would be compared under
//! two loads. So nothing reads from the network: a file is fetched whole into a [`cache`], held
//! against the hash that its library states, and only then has a path, which is opened like any
//! other. The same path is used again as long as the server says that the file is the same.

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

/// What was fetched by this process: a command that opens its trace twice opens one file.
static FETCHED: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());

/// How many files are being fetched.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// A file is being fetched as long as this is there.
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

/// Whether a file is being fetched, so that the process waits for others and can be ended at any
/// moment: what was received is gone on with next time.
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

/// What is known of a file before it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    location: Location,
    /// The SHA-256 that its publisher states.
    sha256: Option<String>,
}

/// The file behind a path: the path itself, or what was fetched from the URL that it is, or the
/// load that it names in a library here.
pub(crate) fn local(path: &Path) -> Result<PathBuf> {
    let named = if is_url(path) { None } else { library::named(path) };
    if !is_url(path) && named.is_none() {
        return match location::nearly_url(path).filter(|_| !path.exists()) {
            Some(scheme) => {
                // Not more of it is shown: nobody knows where a password would end.
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

/// The error for a path that is no load but a library, here or at an URL, or a load's directory.
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

/// The same for an URL, of which nothing else was found.
fn at(location: &Location) -> Option<RunError> {
    Some(published::index(location).ok()?.is_no_load(&location.to_string()))
}

/// Fetches a file as it is now, whatever was fetched before, to be held against what is said of it;
/// `None` if the server has none. The directory is the caller's own.
pub(crate) fn afresh(location: &Location, directory: &Path) -> Result<Option<PathBuf>> {
    let _under_way = UnderWay::begin();
    let wanted = Wanted { location: location.clone(), sha256: None };
    let place = Entry::below(directory, location)?;
    let about = download::bring_if_there(&place, &wanted, settings())?;
    Ok(about.map(|_| place.file()))
}

/// The workshop of this process, for who ends it from another thread.
static WORKSHOP: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A directory in the cache for this process alone; removed with all that is in it when dropped.
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
    /// An empty one, in which this library is to be fetched as it is on its server now.
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
            // What a process that was killed left.
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

/// Removes the workshop of this process, if there is one: what lies there is of use to nobody else.
pub(crate) fn clear_away() {
    if let Some(workshop) = WORKSHOP.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // What cannot be removed now, the next one who verifies removes.
        let _ = fs::remove_dir_all(workshop);
    }
}

/// The URL that a path is.
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

/// Something cannot be fetched: why, and what to do.
fn failed(location: &Location, reason: &str, help: &str) -> RunError {
    RunError::new(Kind::Fetch, format!("{location}: cannot be fetched: {reason}\n  = help: {help}"))
}
