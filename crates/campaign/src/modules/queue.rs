//! `queue`: the settings of the kernel's request queue, on the devices of the stack only.
//!
//! The same disk behaves differently under another I/O scheduler, and a machine's default depends
//! on its distribution. A campaign that does not say which one it measured has measured any.

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Fault, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;
use crate::ledger::line::{Form, Witness};

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "queue",
    keys: Keys::These(&["set.*"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Queue::read(given)?)),
};

/// Settings of queues.
pub(super) struct Queue {
    /// Files below `/sys/block/NAME/queue`, and their values.
    set: Vec<(String, String)>,
}

impl Queue {
    pub(super) fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let mut set = Vec::new();
        for (name, value) in given.table("set") {
            let key = format!("set.{name}");
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            // Settings of a scheduler lie below `iosched`.
            let is_name = name.split('.').all(|it| !it.is_empty() && it.chars().all(is_part));
            if !is_name {
                let help = "write one of ls /sys/block/sda/queue";
                return Err(Wrong::new(&key, format!("'{name}' is no file of a queue"), help));
            }
            let value = match value.texts() {
                [] => u8::from(value.shown() == "true").to_string(),
                [text] => text.clone(),
                _ => return Err(Wrong::new(&key, format!("{name} has one value"), "write one")),
            };
            set.push((name.replace('.', "/"), value));
        }
        if set.is_empty() {
            let help = "write set = {scheduler = \"none\"}";
            return Err(Wrong::new("set", "nothing is set here", help));
        }
        // The settings of a scheduler exist once it is chosen.
        set.sort_by_key(|(name, _)| (name != "scheduler", name.contains('/')));
        Ok(Self { set })
    }

    fn file(volume: &Volume, name: &str) -> String {
        format!("/sys/block/{}/queue/{name}", volume.name())
    }
}

/// What tells that a block device is the same one as before, since kernel 5.15.
pub(super) fn same_disk(ground: &dyn Ground, volume: &Volume) -> Result<Option<Witness>> {
    let file = format!("/sys/block/{}/diskseq", volume.name());
    let text = ground.read(&file)?;
    Ok(text.map(|text| Witness { file, text: text.trim().to_owned() }))
}

/// Refuses volumes that are no whole block devices.
pub(super) fn block_devices<'v>(
    ground: &dyn Ground,
    on: &'v [Volume],
    module: &str,
) -> Result<&'v [Volume]> {
    if on.is_empty() {
        return Err(Fault::Refused(format!("{module}: there is no volume below it in the stack")));
    }
    for volume in on {
        if volume.kind != Kind::Block {
            let text = format!("{module}: {} is no block device", volume.path);
            return Err(Fault::Refused(text));
        }
        let directory = format!("/sys/block/{}", volume.name());
        if volume.is_there && !ground.exists(&directory) {
            return Err(Fault::Refused(format!(
                "{module}: {} is a part of a device, and settings are the device's\n  = help: \
                 name the whole device",
                volume.path
            )));
        }
    }
    Ok(on)
}

impl Module for Queue {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let mut does = Vec::new();
        for volume in block_devices(ground, on, "queue")? {
            for (name, value) in &self.set {
                let file = Self::file(volume, name);
                does.push(format!("{file} = {value}"));
                let text = ground.read(&file)?;
                // What only comes with a scheduler cannot be seen yet.
                if text.is_none() && volume.is_there && !name.contains('/') {
                    return Err(Fault::Lacking(format!("queue: {file}: there is no such file")));
                }
                let offered = text.unwrap_or_default();
                if name == "scheduler" && volume.is_there && !offers(&offered, value) {
                    let offered = offered.trim();
                    return Err(Fault::Lacking(format!("queue: {file} offers: {offered}")));
                }
            }
        }
        Ok(Outlook { does, volumes: on.to_vec(), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        for volume in block_devices(ledger.ground(), on, "queue")? {
            let witness = same_disk(ledger.ground(), volume)?;
            for (name, value) in &self.set {
                ledger.set(&Self::file(volume, name), &Form::Choice, value, witness.clone())?;
            }
        }
        Ok(on.to_vec())
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        for volume in on {
            for (name, value) in &self.set {
                let file = Self::file(volume, name);
                let now = ground.read(&file)?.map(|text| Form::Choice.value(&text));
                if now.as_ref() != Some(value) {
                    let now = now.unwrap_or_else(|| "gone".to_owned());
                    return Err(Fault::Failed(format!("{file} is {now}, not {value}")));
                }
            }
        }
        Ok(())
    }
}

fn offers(text: &str, scheduler: &str) -> bool {
    text.split_whitespace().any(|word| word.trim_matches(['[', ']']) == scheduler)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::fake::Fake;
    use crate::value::Value;

    fn machine() -> Fake {
        let fake = Fake::new();
        {
            let mut state = fake.state_mut();
            state.put("/sys/block/sda", "");
            state.put("/sys/block/sda/diskseq", "7\n");
            state.put("/sys/block/sda/queue/scheduler", "[none] mq-deadline\n");
            state.put("/sys/block/sda/queue/nr_requests", "256\n");
            state.put_disk("/dev/sda", 1 << 30);
        }
        fake
    }

    fn queue(settings: &[(&str, &str)]) -> std::result::Result<Queue, Wrong> {
        let one =
            |(key, value): &(&str, &str)| (format!("set.{key}"), Value::One((*value).to_owned()));
        let settings = settings.iter().map(one).collect();
        Queue::read(&Given { settings, ..Given::default() })
    }

    #[test]
    fn a_queue_is_set_and_taken_back() {
        let fake = machine();
        let before = fake.state().files.clone();
        let queue = queue(&[("nr_requests", "64"), ("scheduler", "mq-deadline")]).unwrap();
        let on = [fake.volume("/dev/sda").unwrap()];
        assert_eq!(queue.check(&fake, &on).unwrap().does.len(), 2);
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        queue.apply(&mut ledger, &on).unwrap();
        queue.verify(&fake, &on).unwrap();
        assert_eq!(fake.state().files["/sys/block/sda/queue/nr_requests"], "64");
        assert_eq!(ledger.undo(0).unwrap().back.len(), 2);
        let now = &fake.state().files;
        for (path, text) in before {
            assert_eq!(now[&path].trim(), text.trim());
        }
    }

    #[test]
    fn a_disk_that_was_swapped_under_its_name_keeps_its_settings() {
        let fake = machine();
        let queue = queue(&[("nr_requests", "64")]).unwrap();
        let on = [fake.volume("/dev/sda").unwrap()];
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        queue.apply(&mut ledger, &on).unwrap();
        fake.state_mut().put("/sys/block/sda/diskseq", "8\n");
        assert_eq!(ledger.undo(0).unwrap(), crate::ledger::Undone::default());
        assert_eq!(fake.state().files["/sys/block/sda/queue/nr_requests"], "64");
    }

    #[test]
    fn what_a_queue_does_not_offer_is_refused_before_anything_is_touched() {
        let fake = machine();
        let on = [fake.volume("/dev/sda").unwrap()];
        for wrong in [("scheduler", "cfq"), ("nr_request", "1")] {
            let fault = queue(&[wrong]).unwrap().check(&fake, &on).unwrap_err();
            assert!(matches!(fault, Fault::Lacking(_)), "{fault:?}");
        }
        assert!(queue(&[("../size", "1")]).is_err());
        assert!(queue(&[]).is_err());
    }
}
