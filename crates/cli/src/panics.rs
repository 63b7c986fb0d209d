//! Hides panics that do not concern the user.
//!
//! The Parquet library panics on some damaged files. The reader catches that and returns an
//! ordinary error. But by then the default hook has printed "thread 'main' panicked", as if this
//! program were broken and not the file.

use std::panic;

/// A part of the path of the library's sources, for every version and every place of cargo's
/// registry.
const PARQUET: &str = "/parquet-";

/// Hides panics inside the Parquet library. All others are printed as usual.
pub(crate) fn hush_parquet() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains(PARQUET)) {
            print(panic);
        }
    }));
}
