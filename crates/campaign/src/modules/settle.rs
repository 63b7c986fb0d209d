//! `settle`: waits until the devices have come to rest.
//!
//! After an erase or a fill an SSD tidies up by itself, and a RAID set resynchronises. What is
//! measured meanwhile is measured beside other work.

use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Fault, Ground, Kind, LIMIT, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "settle",
    keys: Keys::These(&["wait", "idle"]),
    every: Every::Cell,
    read: |given| Ok(Box::new(Settle::read(given)?)),
};

/// How often a device is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

struct Settle {
    /// How long it waits in any case.
    wait: Duration,
    /// For how long a device must have done nothing.
    idle: Duration,
    limit: Duration,
}

impl Settle {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let (wait, idle) = (given.span("wait")?, given.span("idle")?);
        if wait.is_none() && idle.is_none() {
            let help = "write wait = \"1m\" or idle = \"10s\"";
            return Err(Wrong::new("wait", "nothing is waited for", help));
        }
        let limit = given.span("limit")?.unwrap_or(LIMIT);
        let (wait, idle) = (wait.unwrap_or_default(), idle.unwrap_or_default());
        Ok(Self { wait, idle, limit })
    }

    /// Waits until the counters of a device have not changed for the time.
    fn until_idle(&self, ground: &dyn Ground, volume: &Volume) -> Result<()> {
        let file = format!("/sys/class/block/{}/stat", volume.name());
        let gone = || Fault::Failed(format!("{} is gone", volume.path));
        let begun = ground.seconds();
        let (mut since, mut last) = (begun, ground.read(&file)?.ok_or_else(gone)?);
        loop {
            let now = ground.seconds();
            if now - since >= self.idle.as_secs_f64() {
                return Ok(());
            }
            if now - begun >= self.limit.as_secs_f64() {
                let text = format!("{} was not idle for {:?}", volume.path, self.idle);
                return Err(Fault::Failed(text));
            }
            ground.wait(LOOK_EVERY)?;
            let stat = ground.read(&file)?.ok_or_else(gone)?;
            if stat != last {
                (since, last) = (ground.seconds(), stat);
            }
        }
    }
}

impl Module for Settle {
    fn check(&self, _: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let mut does = Vec::new();
        if !self.wait.is_zero() {
            does.push(format!("waits {:?}", self.wait));
        }
        if !self.idle.is_zero() {
            does.push(format!("waits until nothing was done for {:?}", self.idle));
        }
        let seconds = Some((self.wait + self.idle).as_secs_f64());
        Ok(Outlook { does, loses: Vec::new(), seconds, volumes: on.to_vec() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let ground = ledger.ground();
        ground.wait(self.wait)?;
        if !self.idle.is_zero() {
            for volume in on.iter().filter(|volume| volume.kind == Kind::Block) {
                self.until_idle(ground, volume)?;
            }
        }
        Ok(on.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ground::fake::Fake;
    use crate::value::Value;

    #[test]
    fn it_waits_for_a_device_that_does_nothing_and_no_longer_than_its_limit() {
        let one = |(key, value): (&str, &str)| (key.to_owned(), Value::One(value.to_owned()));
        let settings: BTreeMap<_, _> = [("wait", "5s"), ("idle", "2s")].map(one).into();
        let settle = Settle::read(&Given { settings, ..Given::default() }).unwrap();
        let fake = Fake::new();
        fake.state_mut().put_disk("/dev/sda", 1 << 30);
        fake.state_mut().put("/sys/class/block/sda/stat", "1 2 3");
        let on = [fake.volume("/dev/sda").unwrap()];
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        settle.apply(&mut ledger, &on).unwrap();
        assert!((7.0..7.2).contains(&fake.seconds()), "{}", fake.seconds());
        fake.keeps_busy("/sys/class/block/sda/stat");
        let fault = settle.apply(&mut ledger, &on).unwrap_err();
        assert!(matches!(fault, Fault::Failed(_)), "{fault:?}");
        assert!((600.0..700.0).contains(&fake.seconds()), "{}", fake.seconds());
    }
}
