//! A library of loads: recordings with all that must be known to use them.
//!
//! A recording without its origin, its terms, the size of its device and a way to tell whether it
//! is still the same is a file that nobody dares to publish or to compare by. A library is one
//! directory of plain files that any web server can publish as it is:
//!
//! - `library.json`: the [`Index`], everything that is known of every load;
//! - for each load a directory with its name: `load.parquet`, `load.toml` (the same facts for
//!   people), `report.html` (its page), `SHA256SUMS` (so that `sha256sum -c` checks it).
//!
//! The index is made of the `load.toml` files each time something is added, so it is never the
//! only place where something stands. A load appears by renaming a whole directory: a crash leaves
//! either the library as it was or the library with the load.

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

/// The version of `library.json` and `load.toml`: it changes when a key changes its meaning.
pub(crate) const LIBRARY_VERSION: u32 = 1;

/// The index of a library.
pub(crate) const INDEX_FILE: &str = "library.json";

/// What is known of a load.
pub(crate) const FACTS_FILE: &str = "load.toml";

/// The page of a load.
pub(crate) const REPORT_FILE: &str = "report.html";

/// The hashes of the files of a load.
pub(crate) const SUMS_FILE: &str = "SHA256SUMS";

/// The files of a load that its `SHA256SUMS` lists.
pub(crate) const SUMMED_FILES: [&str; 3] = [LOAD_FILE, FACTS_FILE, REPORT_FILE];
