//! A library of loads: recordings with all facts that are needed to use them.
//!
//! Nobody dares to publish or compare with a recording whose origin, licence and device size are
//! unknown, or which may have changed. A library is one directory of plain files that any web
//! server can publish as it is: `library.json` is the [`Index`] with the facts on every load. For
//! each load there is a directory with its name, and in it `load.parquet`, `load.toml` (the same
//! facts for people), `report.html` (its page) and `SHA256SUMS` (so that `sha256sum -c` checks it).
//!
//! The index is made from the `load.toml` files each time a load is added, so no fact stands only
//! there. A load appears when its whole directory is renamed. So a crash leaves either the old
//! library or the library with the load.

mod facts;
mod folder;
mod hash;
mod index;
mod name;
mod named;

pub(crate) use facts::{Facts, Mix, Recorded, Steady};
pub(crate) use folder::{Library, facts_of, loads_in};
pub(crate) use hash::RequestsHash;
pub(crate) use index::Index;
pub(crate) use ioecho_run::named::{LOAD_FILE, above, named};
pub(crate) use name::Name;
pub(crate) use named::{load_file, load_of};

/// The version of `library.json` and `load.toml`. It changes when a key changes its meaning.
pub(crate) const LIBRARY_VERSION: u32 = 1;

/// The index.
pub(crate) const INDEX_FILE: &str = "library.json";

/// The facts on a load.
pub(crate) const FACTS_FILE: &str = "load.toml";

/// The page of a load.
pub(crate) const REPORT_FILE: &str = "report.html";

/// The hashes of the files of a load.
pub(crate) const SUMS_FILE: &str = "SHA256SUMS";

/// The files of a load that its `SHA256SUMS` lists.
pub(crate) const SUMMED_FILES: [&str; 3] = [LOAD_FILE, FACTS_FILE, REPORT_FILE];
