//! Verification on a host: its files, and the verification of a past run.
//!
//! The decisions are in `ioecho_replay::verify`, which does no I/O. Here are a `table` of versions
//! in a file, the `ring` of intended writes, and [`later`], which rebuilds from the `records` of a
//! run the states that its targets may be in, and reads them; `notes` describe the limits of that.
//! Of trees of files, `tree` compares names too.

pub(crate) mod before;
pub(crate) mod family;
pub mod later;
pub(crate) mod line;
mod notes;
mod rebuilt;
mod records;
pub mod result;
mod ring;
pub mod subject;
mod table;
pub(crate) mod tree;

use ioecho_replay::verify::{Intents, Verifier, VerifyConfig};
use ioecho_trace::{Bytes, JournalMode};

use crate::directory::RunDirectory;
use crate::error::Result;
use before::Before;
use ring::RingFile;

/// The verifier of a target during a run, with its files in the run's directory. For a real target
/// it includes the ring, for a verification after the process was killed: `journal` says what that
/// must survive. `tags` is the number of requests that can be in flight, and `tell` receives
/// messages. A run that goes on from others begins with the state that they left.
pub(crate) fn verifier(
    run: &RunDirectory,
    config: VerifyConfig,
    before: Option<&Before>,
    capacity: Bytes,
    tags: u32,
    journal: Option<JournalMode>,
    tell: &dyn Fn(&str),
) -> Result<Verifier> {
    let target = usize::from(config.target);
    // Another one's is needed for as long as that is rebuilt beside this target.
    let open = |other: Option<(u16, Bytes)>| {
        let path = table::beside(&run.versions(target), other.map(|(number, _)| number));
        table::open(run, &path, other.map_or(capacity, |(_, capacity)| capacity))
    };
    let mut intents: Option<Box<dyn Intents + Send>> = None;
    if let Some(journal) = journal {
        let path = run.intents(target);
        let ring = RingFile::create(run, &path, config.run, config.target, tags, journal)?;
        intents = Some(Box::new(ring));
    }
    match before {
        None => Ok(Verifier::new(config, open(None)?, intents)),
        Some(before) => before.verifier(config, open, intents, tell),
    }
}
