//! Verification on a host: the files that it needs, and the verification of a run that is over.
//!
//! What decides is in `ioecho_replay::verify` and does no I/O. Here are a `table` of versions in
//! a file, the `ring` of what was about to be written, and [`later`], which rebuilds from the
//! `records` of a run what its targets may hold, and reads them; `notes` say how far that goes.

pub mod later;
pub(crate) mod line;
mod notes;
mod rebuilt;
mod records;
pub mod result;
mod ring;
mod table;

use ioecho_replay::verify::{Intents, Verifier, VerifyConfig};
use ioecho_trace::Bytes;

use crate::directory::RunDirectory;
use crate::error::Result;
use line::Continues;
use ring::RingFile;

/// What follows a target while a run goes on, with its files in the run's directory; of a real
/// target also the ring, for a verification after the process was killed. `tags` is how many
/// requests can be in flight, and `tell` hears what there is to know. A run that continues another
/// one begins with what that one left.
pub(crate) fn verifier(
    run: &RunDirectory,
    config: VerifyConfig,
    continues: Option<&Continues>,
    capacity: Bytes,
    tags: u32,
    simulated: bool,
    tell: &dyn Fn(&str),
) -> Result<Verifier> {
    let target = usize::from(config.target);
    let table = table::open(run, &run.versions(target), capacity)?;
    let mut intents: Option<Box<dyn Intents + Send>> = None;
    if !simulated {
        let ring = RingFile::create(run, &run.intents(target), config.run, config.target, tags)?;
        intents = Some(Box::new(ring));
    }
    match continues {
        None => Ok(Verifier::new(config, table, intents)),
        Some(continues) => continues.verifier(config, table, intents, tell),
    }
}
