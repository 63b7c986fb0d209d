//! `cgroup`: the replay runs in a control group whose I/O is limited.
//!
//! A tenant of a cloud gets a share of a device. The kernel has two interfaces for that, and which
//! one a host offers was decided at its boot: the unified hierarchy (`io.max`) or the older one
//! (`blkio.throttle`). The group is made for the campaign and removed after it.

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::line::{Form, Probe};
use crate::ledger::{Ledger, Making};

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "cgroup",
    keys: Keys::These(&["read-iops", "write-iops", "read-bytes", "write-bytes"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Group::read(given)?)),
};

/// Each limit by its key, its name in `io.max`, and its file of the older interface.
pub(super) const LIMITS: [(&str, &str, &str); 4] = [
    ("read-iops", "riops", "blkio.throttle.read_iops_device"),
    ("write-iops", "wiops", "blkio.throttle.write_iops_device"),
    ("read-bytes", "rbps", "blkio.throttle.read_bps_device"),
    ("write-bytes", "wbps", "blkio.throttle.write_bps_device"),
];

/// A control group with limits.
pub(super) struct Group {
    name: String,
    /// The limits, by their numbers in [`LIMITS`].
    limits: Vec<(usize, u64)>,
}

/// An interface, and the directory below which groups are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Unified(&'static str),
    Older(&'static str),
}

impl Interface {
    fn of(ground: &dyn Ground) -> Result<Self> {
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let controllers = ground.read(&format!("{root}/cgroup.controllers"))?;
            if controllers.is_some_and(|it| it.split_whitespace().any(|word| word == "io")) {
                return Ok(Self::Unified(root));
            }
        }
        let older = "/sys/fs/cgroup/blkio";
        // The root's group has no limits; only the controller's own files tell that it is there.
        if ground.exists(&format!("{older}/blkio.throttle.io_serviced")) {
            return Ok(Self::Older(older));
        }
        Err(Fault::Lacking("this kernel limits no I/O of control groups".to_owned()))
    }

    fn root(self) -> &'static str {
        match self {
            Self::Unified(root) | Self::Older(root) => root,
        }
    }
}

impl Group {
    pub(super) fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let mut limits = Vec::new();
        for (number, (key, ..)) in LIMITS.iter().enumerate() {
            let limit = given.size(key)?;
            limits.extend(limit.map(|limit| (number, limit)));
        }
        if limits.is_empty() {
            let help = "write read-iops, write-iops, read-bytes or write-bytes";
            return Err(Wrong::new("read-iops", "nothing is limited here", help));
        }
        Ok(Self { name: given.name.clone(), limits })
    }

    /// What is written: files below the group, and their values, for a device.
    fn values(&self, interface: Interface, number: &str) -> Vec<(&'static str, String)> {
        self.values_of(interface, number, |value| value.to_string())
    }

    /// The same where nothing is limited any more.
    fn lifted(&self, interface: Interface, number: &str) -> Vec<(&'static str, String)> {
        let none = match interface {
            Interface::Older(_) => "0",
            Interface::Unified(_) => "max",
        };
        self.values_of(interface, number, |_| none.to_owned())
    }

    fn values_of(
        &self,
        interface: Interface,
        number: &str,
        told: impl Fn(u64) -> String,
    ) -> Vec<(&'static str, String)> {
        let each = self.limits.iter().map(|(limit, value)| (&LIMITS[*limit], told(*value)));
        match interface {
            Interface::Older(_) => {
                each.map(|((_, _, file), value)| (*file, format!("{number} {value}"))).collect()
            }
            Interface::Unified(_) => {
                let words: Vec<String> =
                    each.map(|((_, word, _), value)| format!("{word}={value}")).collect();
                vec![("io.max", format!("{number} {}", words.join(" ")))]
            }
        }
    }

    /// Its directory.
    fn directory(&self, interface: Interface, tag: &str) -> String {
        format!("{}/{tag}-{}", interface.root(), self.name)
    }

    /// Makes the group, which limits nothing yet.
    pub(super) fn make(&self, ledger: &mut Ledger<'_>) -> Result<()> {
        let interface = Interface::of(ledger.ground())?;
        if let Interface::Unified(root) = interface {
            let file = format!("{root}/cgroup.subtree_control");
            ledger.set(&file, &Form::Member("io".to_owned()), "+io", None)?;
        }
        let group = self.directory(interface, &ledger.tag());
        ledger.make(Making {
            kind: "control group",
            id: group.clone(),
            create: Command::new(["mkdir", "--", &group]),
            remove: Command::new(["rmdir", "--", &group]),
            exists: Probe::File { path: group, ours: None },
        })?;
        Ok(())
    }

    /// Limits the devices, or no longer.
    pub(super) fn limit(
        &self,
        ledger: &mut Ledger<'_>,
        on: &[Volume],
        is_limited: bool,
    ) -> Result<()> {
        let interface = Interface::of(ledger.ground())?;
        let group = self.directory(interface, &ledger.tag());
        for volume in Self::devices(on)? {
            let number = Self::number(ledger.ground(), volume)?;
            let values = if is_limited {
                self.values(interface, &number)
            } else {
                self.lifted(interface, &number)
            };
            for (file, value) in values {
                ledger.set_within(&format!("{group}/{file}"), &value)?;
            }
        }
        Ok(())
    }

    /// Whether a process is in it.
    pub(super) fn has_process(&self, ground: &dyn Ground, tag: &str) -> Result<bool> {
        let group = self.directory(Interface::of(ground)?, tag);
        let processes = ground.read(&format!("{group}/cgroup.procs"))?;
        Ok(processes.is_some_and(|text| !text.trim().is_empty()))
    }

    /// The number of a device, as `MAJOR:MINOR`.
    fn number(ground: &dyn Ground, volume: &Volume) -> Result<String> {
        let text = ground.read(&format!("/sys/class/block/{}/dev", volume.name()))?;
        let text = text.ok_or_else(|| Fault::Failed(format!("{} has no number", volume.path)))?;
        Ok(text.trim().to_owned())
    }

    fn devices(on: &[Volume]) -> Result<&[Volume]> {
        if on.is_empty() || on.iter().any(|volume| volume.kind != Kind::Block) {
            let text = "limits are a block device's; put it below the file system";
            return Err(Fault::Refused(text.to_owned()));
        }
        Ok(on)
    }
}

impl Module for Group {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let interface = Interface::of(ground)?;
        let mut does = Vec::new();
        for volume in Self::devices(on)? {
            for (file, value) in self.values(interface, &volume.path) {
                does.push(format!("{}/ioecho-*-{}/{file}: {value}", interface.root(), self.name));
            }
        }
        Ok(Outlook { does, volumes: on.to_vec(), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        self.make(ledger)?;
        self.limit(ledger, on, true)?;
        Ok(on.to_vec())
    }

    fn launch(&self, ground: &dyn Ground, tag: &str) -> Result<Vec<String>> {
        let procs = format!("{}/cgroup.procs", self.directory(Interface::of(ground)?, tag));
        // The shell becomes the replay, so it is in the group before its first request.
        let script = r#"echo $$ > "$0" && exec "$@""#;
        Ok(["sh", "-c", script, &procs].map(str::to_owned).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ground::fake::Fake;
    use crate::value::Value;

    fn group() -> Group {
        let one = |(key, value): (&str, &str)| (key.to_owned(), Value::One(value.to_owned()));
        let settings = BTreeMap::from([("read-iops", "100"), ("write-bytes", "1M")].map(one));
        Group::read(&Given { name: "g".to_owned(), settings, ..Given::default() }).unwrap()
    }

    #[test]
    fn limits_are_written_as_each_interface_has_them() {
        let older = group().values(Interface::Older("/x"), "7:0");
        assert_eq!(older[0], ("blkio.throttle.read_iops_device", "7:0 100".to_owned()));
        assert_eq!(older[1], ("blkio.throttle.write_bps_device", "7:0 1048576".to_owned()));
        let unified = group().values(Interface::Unified("/x"), "7:0");
        assert_eq!(unified, [("io.max", "7:0 riops=100 wbps=1048576".to_owned())]);
        let lifted = group().lifted(Interface::Older("/x"), "7:0");
        assert_eq!(lifted[0], ("blkio.throttle.read_iops_device", "7:0 0".to_owned()));
        let lifted = group().lifted(Interface::Unified("/x"), "7:0");
        assert_eq!(lifted, [("io.max", "7:0 riops=max wbps=max".to_owned())]);
    }

    #[test]
    fn the_interface_is_the_one_that_limits_io() {
        let fake = Fake::new();
        assert!(matches!(Interface::of(&fake), Err(Fault::Lacking(_))));
        fake.state_mut().put("/sys/fs/cgroup/unified/cgroup.controllers", "cpu memory");
        fake.state_mut().put("/sys/fs/cgroup/blkio/blkio.throttle.io_serviced", "");
        assert_eq!(Interface::of(&fake), Ok(Interface::Older("/sys/fs/cgroup/blkio")));
        fake.state_mut().put("/sys/fs/cgroup/cgroup.controllers", "cpu io");
        assert_eq!(Interface::of(&fake), Ok(Interface::Unified("/sys/fs/cgroup")));
    }

    #[test]
    fn the_controller_is_switched_off_again_where_it_was_off() {
        let fake = Fake::new();
        fake.state_mut().put("/sys/fs/cgroup/cgroup.controllers", "cpu io");
        fake.state_mut().put("/sys/fs/cgroup/cgroup.subtree_control", "cpu");
        fake.state_mut().put("/sys/class/block/sda/dev", "8:0\n");
        fake.state_mut().put_disk("/dev/sda", 1 << 30);
        let good = || crate::ground::Output { code: Some(0), ..Default::default() };
        fake.install("mkdir", move |state, words| {
            state.put(words[1], "");
            state.put(&format!("{}/io.max", words[1]), "");
            good()
        });
        fake.install("rmdir", move |state, words| {
            state.files.retain(|path, _| !path.starts_with(words[1]));
            good()
        });
        let before = fake.state().files.clone();
        let on = [fake.volume("/dev/sda").unwrap()];
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        group().apply(&mut ledger, &on).unwrap();
        let max = fake.state().files["/sys/fs/cgroup/ioecho-7-g/io.max"].clone();
        assert_eq!(max, "8:0 riops=100 wbps=1048576");
        assert_eq!(ledger.undo(0).unwrap().left, []);
        assert_eq!(fake.state().files, before);
    }
}
