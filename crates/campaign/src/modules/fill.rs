//! `fill`: the whole volume is written, by ioecho itself.
//!
//! A device that was never written answers reads without reading, and a fresh SSD writes faster
//! than it ever will again. So it is filled before it is measured, often twice.

use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "fill",
    keys: Keys::These(&["passes", "write-size", "seed"]),
    every: Every::Cell,
    read: |given| Ok(Box::new(Fill::read(given)?)),
};

/// Filling a large disk takes hours.
pub(super) const LIMIT: Duration = Duration::from_hours(48);

struct Fill {
    passes: u32,
    write_size: Option<u64>,
    seed: Option<u64>,
    limit: Duration,
}

impl Fill {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let few = |text: &str| text.parse().ok().filter(|passes| (1..=100).contains(passes));
        let number = |text: &str| text.parse().ok();
        Ok(Self {
            passes: given.parsed("passes", few, "write 1 to 100")?.unwrap_or(1),
            write_size: given.size("write-size")?,
            seed: given.parsed("seed", number, "write a whole number")?,
            limit: given.span("limit")?.unwrap_or(LIMIT),
        })
    }

    fn command(&self, ioecho: &str, volume: &Volume) -> Command {
        let path = &volume.path;
        let mut argv = vec![ioecho.to_owned(), "prepare".to_owned(), "--quiet".to_owned()];
        argv.push(format!("--destroy={path}"));
        argv.extend(self.write_size.map(|size| format!("--write-size={size}")));
        argv.extend(self.seed.map(|seed| format!("--seed={seed}")));
        argv.extend(["--".to_owned(), path.clone()]);
        Command::new(argv).within(self.limit)
    }
}

/// Refuses a stack without a real volume.
pub(super) fn real(on: &[Volume]) -> Result<&[Volume]> {
    if on.is_empty() || on.iter().any(|volume| !volume.kind.is_real()) {
        return Err(Fault::Refused("there is no real volume below it in the stack".to_owned()));
    }
    Ok(on)
}

impl Module for Fill {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let ioecho = ground.ioecho();
        let ioecho = ioecho.rsplit('/').next().unwrap_or_default();
        let each = real(on)?.iter().map(|volume| self.command(ioecho, volume).to_string());
        let does = (0..self.passes).flat_map(|_| each.clone()).collect();
        let loses = on.iter().map(|volume| volume.path.clone()).collect();
        Ok(Outlook { does, loses, seconds: None, volumes: on.to_vec() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        for _ in 0..self.passes {
            for volume in real(on)? {
                let command = self.command(&ledger.ground().ioecho(), volume);
                ledger.lose(volume, &command)?;
            }
        }
        Ok(on.to_vec())
    }
}
