//! `dm`: a device of the device mapper on the volumes below: slower, flaky, with bad places, with
//! a cache, encrypted, or with a log of its writes.
//!
//! Hardware seldom fails when it is asked to. The kernel's own targets do, in the same way each
//! time. A device of theirs has our tag in its name and in its UUID, and is gone after a reboot.

mod kinds;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong, block_volumes, given_up, tools};
use crate::ground::{Command, Fault, Ground, Kind as Sort, Result, Volume};
use crate::ledger::line::Probe;
use crate::ledger::{Ledger, Making};
use kinds::Kind;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "dm",
    keys: Keys::These(&[
        "kind",
        "read-delay",
        "write-delay",
        "up",
        "down",
        "writes",
        "from",
        "size",
        "mode",
        "block-size",
        "cipher",
    ]),
    every: Every::Once,
    read: |given| Ok(Box::new(Dm::read(given)?)),
};

struct Dm {
    name: String,
    kind: Kind,
    limit: Duration,
}

/// A device that is made: the end of its name, and its table.
struct Part {
    ending: &'static str,
    table: String,
}

impl Dm {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        Ok(Self { name: given.name.clone(), kind: Kind::read(given)?, limit: given.limit()? })
    }

    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }

    fn device(&self, tag: &str, ending: &str) -> String {
        format!("{tag}-{}{ending}", self.name)
    }

    fn create(&self, tag: &str, part: &Part) -> Command {
        let name = self.device(tag, part.ending);
        let argv = ["dmsetup", "create", &name, "--uuid", &name];
        self.command(argv).reading(format!("{}\n", part.table))
    }

    /// What is done for a part, in words.
    fn told(&self, tag: &str, part: &Part) -> String {
        format!("{}: {}", self.create(tag, part), part.table.replace('\n', "; "))
    }

    fn making(&self, tag: &str, part: &Part) -> Making {
        let name = self.device(tag, part.ending);
        let ask = ["dmsetup", "info", "-c", "--noheadings", "--separator", " ", "-o", "name,uuid"];
        Making {
            kind: "mapped device",
            create: self.create(tag, part),
            remove: self.command(["dmsetup", "remove", "--retry", &name]),
            // Both are the tag; a name alone might be somebody's.
            exists: Probe::Command {
                ask: self.command(ask.into_iter().chain([name.as_str()])),
                ours: name.clone(),
            },
            id: name,
        }
    }

    /// The device in `/dev` that a part has become.
    fn made(&self, ground: &dyn Ground, tag: &str, part: &Part) -> Result<Volume> {
        let name = self.device(tag, part.ending);
        let ask = ["dmsetup", "info", "-c", "--noheadings", "-o", "minor", &name];
        let ask = self.command(ask);
        let minor = ground.ask(&ask)?.good(&ask)?.stdout;
        ground.volume(&format!("/dev/dm-{}", minor.trim()))
    }
}

impl Module for Dm {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let on = self.kind.fits(block_volumes(on)?)?;
        tools(ground, &["dmsetup"])?;
        self.kind.check_sizes(on)?;
        let tag = "ioecho-*";
        let [meta, data] =
            ["-meta", "-fast"].map(|it| format!("/dev/mapper/{}", self.device(tag, it)));
        let mut does = Vec::new();
        if let Some(wipe) = self.kind.wipe(on) {
            does.push(self.command(wipe).to_string());
        }
        for part in self.kind.below(on) {
            does.push(self.told(tag, &part));
        }
        does.push(self.told(tag, &self.kind.top(on, &meta, &data)));
        let loses = self.kind.lost(on).iter().map(|volume| volume.path.clone()).collect();
        let volume = Volume {
            path: format!("/dev/mapper/{}", self.device(tag, "")),
            is_there: false,
            kind: Sort::Block,
            ..on[0].clone()
        };
        Ok(Outlook { does, loses, seconds: None, volumes: vec![volume] })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let (ground, tag) = (ledger.ground(), ledger.tag());
        let on = self.kind.fits(block_volumes(on)?)?;
        self.kind.check_sizes(on)?;
        on.iter().try_for_each(|volume| ground.unused(&volume.path))?;
        self.kind.lost(on).iter().try_for_each(|volume| given_up(ground, volume))?;
        if let (Some(wipe), Some(volume)) = (self.kind.wipe(on), on.last()) {
            ledger.lose(volume, &self.command(wipe))?;
        }
        let mut below = Vec::new();
        for part in self.kind.below(on) {
            ledger.make(self.making(&tag, &part))?;
            below.push(self.made(ground, &tag, &part)?.path);
        }
        let path = |number: usize| below.get(number).map_or("", String::as_str);
        let top = self.kind.top(on, path(0), path(1));
        ledger.make(self.making(&tag, &top))?;
        let may_lose = on[0].may_lose;
        Ok(vec![Volume { may_lose, ..self.made(ground, &tag, &top)? }])
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        match on.iter().find(|volume| ground.volume(&volume.path).is_err()) {
            Some(volume) => Err(Fault::Failed(format!("{} is gone", volume.path))),
            None => Ok(()),
        }
    }
}
