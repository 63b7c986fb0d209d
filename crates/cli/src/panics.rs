//! Panics that are none of the user's business.
//!
//! The Parquet library panics on some damaged files. The reader catches that and answers with an
//! error like any other, but by then the default hook has printed "thread 'main' panicked" above
//! it, as if this program were broken and not the file.

use std::panic;

/// Where the sources of the library lie, whatever its version and the place of cargo's registry.
const PARQUET: &str = "/parquet-";

/// Keeps silent about panics inside the Parquet library; all others are printed as ever.
pub(crate) fn hush_parquet() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains(PARQUET)) {
            print(panic);
        }
    }));
}
