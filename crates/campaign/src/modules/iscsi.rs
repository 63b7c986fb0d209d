//! `iscsi-target` and `iscsi-initiator`: volumes over iSCSI.
//!
//! A load that is measured on a local disk says nothing about the network between. The target is
//! the kernel's own (LIO), set up through configfs, so nothing but the kernel is needed; the
//! initiator is open-iscsi. Between the two modules a volume is an address, and no device.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::configfs::{self, Configfs, Place};
use super::exported::{self, Address};
use super::{
    Every, Family, Given, Keys, Module, Outlook, Over, Wrong, block_volumes, given_up, mark, tools,
};
use crate::ground::{Command, Ground, Kind, Result, Volume};
use crate::ledger::line::Probe;
use crate::ledger::{Ledger, Making};

/// The module that exports.
pub(super) const TARGET: Family = Family {
    name: "iscsi-target",
    keys: Keys::These(&["portal", "iqn"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Target::read(given)?)),
};

/// The module that makes devices of what is exported.
pub(super) const INITIATOR: Family = Family {
    name: "iscsi-initiator",
    keys: Keys::These(&[]),
    every: Every::Once,
    read: |given| Ok(Box::new(Initiator { limit: given.limit()? })),
};

/// Where LIO is set up (`Documentation/target` of the kernel).
const LIO: &str = "/sys/kernel/config/target";

const PLACE: Place = Place {
    root: LIO,
    targets: "/sys/kernel/config/target/iscsi",
    drivers: "target_core_mod iscsi_target_mod target_core_iblock",
};

/// The port of iSCSI (RFC 7143).
const PORT: u16 = 3260;

/// What an address of ours begins with.
const SCHEME: &str = "iscsi";

/// What the names of our targets begin with.
const OURS: &str = "iqn.2026-01.io.ioecho:";

/// Shows the session of a target; `$0` is its name.
const SESSION: &str = r#"iscsiadm -m session 2>/dev/null | grep -F " $0 ""#;

struct Target {
    name: String,
    /// Address and port, at which it listens.
    portal: String,
    is_portal_given: bool,
    /// The name of the target; without it, one with our tag.
    iqn: Option<String>,
    limit: Duration,
}

impl Target {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        // RFC 7143, 4.2.7.3: letters, digits, dots, dashes and colons.
        let iqn = |text: &str| {
            let is_part =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-:".contains(c);
            let is_name = text.starts_with("iqn.") && text.len() <= 223;
            (is_name && text.chars().all(is_part)).then(|| text.to_owned())
        };
        let (portal, is_portal_given) = exported::portal(given, PORT)?;
        Ok(Self {
            name: exported::plain_name(given)?,
            portal,
            is_portal_given,
            iqn: given.parsed("iqn", iqn, "write iqn.2026-01.org.example:disk")?,
            limit: given.limit()?,
        })
    }

    fn iqn(&self, tag: &str) -> String {
        let own = || format!("{OURS}{tag}-{}", self.name);
        self.iqn.clone().unwrap_or_else(own)
    }

    /// The directory of the store of a volume, below that of its adapter, whose number is made of
    /// our tag.
    fn adapter(&self, tag: &str) -> String {
        let digits = mark(&format!("{tag}-{}", self.name));
        let number = u32::from_str_radix(&digits[..6], 16).unwrap_or(0);
        format!("{LIO}/core/iblock_{number}")
    }

    fn export(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<()> {
        let (tag, ground) = (ledger.tag(), ledger.ground());
        let (adapter, fabric) = (self.adapter(&tag), PLACE.targets);
        let mut configfs = Configfs { ledger, limit: self.limit };
        configfs.make(&adapter)?;
        for (number, volume) in on.iter().enumerate() {
            let store = format!("{adapter}/{tag}-{number}");
            configfs.make(&store)?;
            configfs.set(&format!("{store}/control"), &format!("udev_path={}", volume.path))?;
            // Two stores with one serial number would be one disk to multipath.
            let serial = mark(&format!("{tag}-{}-{number}", self.name));
            configfs.set(&format!("{store}/wwn/vpd_unit_serial"), &serial)?;
            configfs.set(&format!("{store}/enable"), "1")?;
        }
        if !ground.exists(fabric) {
            configfs.make(fabric)?;
        }
        let target = format!("{fabric}/{}", self.iqn(&tag));
        configfs.make(&target)?;
        let group = format!("{target}/tpgt_1");
        configfs.make(&group)?;
        for (number, _) in on.iter().enumerate() {
            let unit = format!("{group}/lun/lun_{number}");
            configfs.make(&unit)?;
            configfs.link(&format!("{adapter}/{tag}-{number}"), &format!("{unit}/{tag}"))?;
        }
        // Whoever reaches the portal may write, as long as the campaign goes on.
        for (name, value) in [
            ("authentication", "0"),
            ("generate_node_acls", "1"),
            ("cache_dynamic_acls", "1"),
            ("demo_mode_write_protect", "0"),
        ] {
            configfs.set(&format!("{group}/attrib/{name}"), value)?;
        }
        configfs.make(&format!("{group}/np/{}", self.portal))?;
        configfs.set(&format!("{group}/enable"), "1")
    }

    fn volumes(&self, tag: &str, on: &[Volume]) -> Vec<Volume> {
        let each = on.iter().enumerate().map(|(number, volume)| {
            let name = self.iqn(tag);
            let address =
                Address { scheme: SCHEME, portal: self.portal.clone(), name, unit: number as u32 };
            Volume { path: address.to_string(), kind: Kind::Exported, ..volume.clone() }
        });
        each.collect()
    }
}

impl Module for Target {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let on = PLACE.check(ground, on, self.iqn.as_deref())?;
        let tag = "ioecho-*";
        let (iqn, portal) = (self.iqn(tag), &self.portal);
        let told = |number| format!("unit {number} of {iqn} at {portal}");
        Ok(configfs::outlook(on, self.volumes(tag, on), told))
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let on = block_volumes(on)?;
        on.iter().try_for_each(|volume| given_up(ledger.ground(), volume))?;
        self.export(ledger, on)?;
        Ok(self.volumes(&ledger.tag(), on))
    }

    fn hands_over(&self) -> std::result::Result<Over, Wrong> {
        let over = self.is_portal_given.then_some(Over::To(INITIATOR.name));
        over.ok_or_else(|| exported::portal_missing(PORT))
    }

    fn exports(&self, volume: &Volume) -> bool {
        let ours = (OURS, &*format!("-{}", self.name));
        exported::is_exported(volume, (SCHEME, &self.portal), self.iqn.as_deref(), ours)
    }
}

struct Initiator {
    limit: Duration,
}

impl Initiator {
    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }

    fn node(&self, address: &Address, words: &[&str]) -> Command {
        let fixed = ["iscsiadm", "-m", "node", "-T", &address.name, "-p", &address.portal];
        self.command(fixed.into_iter().chain(words.iter().copied()))
    }

    fn making(&self, address: &Address) -> [Making; 2] {
        let name = address.name.clone();
        let record = Making {
            kind: "record of an iSCSI target",
            id: name.clone(),
            create: self.node(address, &["-o", "new"]),
            remove: self.node(address, &["-o", "delete"]),
            exists: Probe::Command { ask: self.node(address, &["-o", "show"]), ours: name.clone() },
        };
        let session = Making {
            kind: "iSCSI session",
            id: name.clone(),
            create: self.node(address, &["--login"]),
            remove: self.node(address, &["--logout"]),
            exists: Probe::Command { ask: self.command(["sh", "-c", SESSION, &name]), ours: name },
        };
        [record, session]
    }

    /// The disks of a target that is logged in, by their units.
    fn disks(ground: &dyn Ground, name: &str) -> Result<Vec<(u32, String)>> {
        let (sessions, mut disks) = ("/sys/class/iscsi_session", Vec::new());
        for session in ground.list(sessions)? {
            let session = format!("{sessions}/{session}");
            let of = ground.read(&format!("{session}/targetname"))?.unwrap_or_default();
            if of.trim() != name {
                continue;
            }
            let device = format!("{session}/device");
            for target in ground.list(&device)?.iter().filter(|it| it.starts_with("target")) {
                for unit in ground.list(&format!("{device}/{target}"))? {
                    // HOST:CHANNEL:TARGET:UNIT; everything else is no unit.
                    let number = unit.rsplit(':').next().and_then(|it| it.parse().ok());
                    let Some(number) = number else { continue };
                    let disk = ground.list(&format!("{device}/{target}/{unit}/block"))?;
                    disks.extend(disk.first().map(|name| (number, format!("/dev/{name}"))));
                }
            }
        }
        Ok(disks)
    }
}

impl Module for Initiator {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        tools(ground, &["iscsiadm", "sh", "grep", "sync"])?;
        let addresses = exported::addresses(on, SCHEME)?;
        let login = |address: &Address| self.node(address, &["--login"]).to_string();
        let does = exported::names(&addresses).into_iter().map(login).collect();
        Ok(Outlook { does, volumes: exported::foreseen(on), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let addresses = exported::addresses(on, SCHEME)?;
        for address in exported::names(&addresses) {
            let [record, session] = self.making(address);
            ledger.make(record)?;
            // open-iscsi leaves that to the kernel. A record that lost its text when the power went
            // is one that iscsiadm neither shows nor deletes.
            let flush = self.command(["sync"]);
            ledger.ground().ask(&flush)?.good(&flush)?;
            ledger.make(session)?;
        }
        let ground = ledger.ground();
        exported::appeared(ground, on, &addresses, self.limit, &Self::disks)
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        exported::are_there(ground, on)
    }
}
