//! Verification on a host: its files, and the verification of a past run.
//!
//! The decisions are in `ioecho_replay::verify`, which does no I/O. Here are a `table` of versions
//! in a file, the `ring` of intended writes, and [`later`], which rebuilds from the `records` of a
//! run the states that its targets may be in, and reads them; `notes` describe the limits of that.

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

/// The verifier of a target during a run, with its files in the run's directory. For a real target
/// it includes the ring, for a verification after the process was killed. `tags` is the number of
/// requests that can be in flight, and `tell` receives messages. A run that continues another one
/// begins with the state that the other one left.
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
