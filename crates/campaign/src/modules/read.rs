//! `read`: the whole volume is read once, past the page cache.
//!
//! It fills the caches of arrays and controllers alike before each measurement, and finds sectors
//! that cannot be read before they spoil one.

use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "read",
    keys: Keys::These(&[]),
    every: Every::Cell,
    read: |given| Ok(Box::new(ReadAll::read(given)?)),
};

struct ReadAll {
    limit: Duration,
}

impl ReadAll {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        Ok(Self { limit: given.span("limit")?.unwrap_or(super::fill::LIMIT) })
    }

    fn command(&self, volume: &Volume) -> Command {
        let input = format!("if={}", volume.path);
        let mut argv = vec!["dd".to_owned(), input, "of=/dev/null".to_owned(), "bs=1M".to_owned()];
        // A file may lie where there is no other way than through the page cache.
        argv.extend((volume.kind == Kind::Block).then(|| "iflag=direct".to_owned()));
        Command::new(argv).within(self.limit)
    }
}

impl Module for ReadAll {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        super::tools(ground, &["dd"])?;
        let on = super::fill::real(on)?;
        let does = on.iter().map(|volume| self.command(volume).to_string()).collect();
        Ok(Outlook { does, volumes: on.to_vec(), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        for volume in super::fill::real(on)? {
            let command = self.command(volume);
            // Reading changes nothing, so there is nothing to note.
            ledger.ground().ask(&command)?.good(&command)?;
        }
        Ok(on.to_vec())
    }
}
