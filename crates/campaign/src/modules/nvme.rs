//! `nvme-target` and `nvme-initiator`: volumes over `NVMe` over Fabrics, by TCP or within
//! the host.
//!
//! The target is the kernel's (nvmet), set up through configfs; the initiator is its own client,
//! told by `nvme connect`. With `loop` there is no network: what `NVMe` itself costs is measured.

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
    name: "nvme-target",
    keys: Keys::These(&["transport", "portal", "nqn"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Target::read(given)?)),
};

/// The module that makes devices of what is exported.
pub(super) const INITIATOR: Family = Family {
    name: "nvme-initiator",
    keys: Keys::These(&[]),
    every: Every::Once,
    read: |given| Ok(Box::new(Initiator { limit: given.limit()? })),
};

/// Where nvmet is set up.
const NVMET: &str = "/sys/kernel/config/nvmet";

/// The port of `NVMe` over TCP.
const PORT: u16 = 4420;

/// What the names of our subsystems begin with.
const OURS: &str = "nqn.2026-01.io.ioecho:";

/// Shows the name of a subsystem that this host is connected to; `$0` is the name.
const CONNECTED: &str = r#"cat /sys/class/nvme/nvme*/subsysnqn 2>/dev/null | grep -Fx "$0""#;

const TRANSPORTS: [(&str, Transport); 2] = [("loop", Transport::Loop), ("tcp", Transport::Tcp)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Loop,
    Tcp,
}

impl Transport {
    fn word(self) -> &'static str {
        TRANSPORTS.iter().find(|(_, it)| *it == self).map_or("", |(word, _)| word)
    }

    /// What an address begins with.
    fn scheme(self) -> &'static str {
        match self {
            Self::Loop => "nvme-loop",
            Self::Tcp => "nvme-tcp",
        }
    }

    /// The kernel's drivers of both sides.
    fn drivers(self) -> &'static str {
        match self {
            Self::Loop => "nvmet nvme-loop",
            Self::Tcp => "nvmet nvmet-tcp nvme-tcp",
        }
    }
}

struct Target {
    name: String,
    transport: Transport,
    /// Address and port, at which it listens.
    portal: String,
    is_portal_given: bool,
    /// The name of the subsystem; without it, one with our tag.
    nqn: Option<String>,
    limit: Duration,
}

impl Target {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let nqn = |text: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
            let is_name = text.starts_with("nqn.") && text.len() <= 223;
            (is_name && text.chars().all(is_part)).then(|| text.to_owned())
        };
        let transport = given.word("transport", &TRANSPORTS)?;
        if transport == Transport::Loop && given.settings.contains_key("portal") {
            let help = "write transport = \"tcp\" as well";
            return Err(Wrong::new("portal", "within the host nothing listens", help));
        }
        let (portal, is_portal_given) = exported::portal(given, PORT)?;
        Ok(Self {
            name: exported::plain_name(given)?,
            transport,
            portal,
            is_portal_given,
            nqn: given.parsed("nqn", nqn, "write nqn.2026-01.org.example:disk")?,
            limit: given.limit()?,
        })
    }

    fn nqn(&self, tag: &str) -> String {
        let own = || format!("{OURS}{tag}-{}", self.name);
        self.nqn.clone().unwrap_or_else(own)
    }

    fn place(&self) -> Place {
        let targets = "/sys/kernel/config/nvmet/subsystems";
        Place { root: NVMET, targets, drivers: self.transport.drivers() }
    }

    /// The directory of the port, whose number is made of our tag.
    fn port(&self, tag: &str) -> String {
        let digits = mark(&format!("{tag}-{}", self.name));
        let number = u16::from_str_radix(&digits[..4], 16).unwrap_or(0).max(1);
        format!("{NVMET}/ports/{number}")
    }

    fn export(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<()> {
        let tag = ledger.tag();
        let (nqn, port) = (self.nqn(&tag), self.port(&tag));
        let system = format!("{NVMET}/subsystems/{nqn}");
        let mut configfs = Configfs { ledger, limit: self.limit };
        configfs.make(&system)?;
        // Whoever reaches the port may write, as long as the campaign goes on.
        configfs.set(&format!("{system}/attr_allow_any_host"), "1")?;
        for (number, volume) in on.iter().enumerate() {
            let space = format!("{system}/namespaces/{}", number + 1);
            configfs.make(&space)?;
            configfs.set(&format!("{space}/device_path"), &volume.path)?;
            configfs.set(&format!("{space}/enable"), "1")?;
        }
        configfs.make(&port)?;
        let mut set = |name: &str, value: &str| configfs.set(&format!("{port}/{name}"), value);
        set("addr_trtype", self.transport.word())?;
        if self.transport == Transport::Tcp {
            let (address, service) = exported::parts(&self.portal);
            set("addr_adrfam", if address.contains(':') { "ipv6" } else { "ipv4" })?;
            set("addr_traddr", address)?;
            set("addr_trsvcid", service)?;
        }
        configfs.link(&system, &format!("{port}/subsystems/{nqn}"))
    }

    fn volumes(&self, tag: &str, on: &[Volume]) -> Vec<Volume> {
        let each = on.iter().enumerate().map(|(number, volume)| {
            let (scheme, name) = (self.transport.scheme(), self.nqn(tag));
            let is_tcp = self.transport == Transport::Tcp;
            let portal = if is_tcp { self.portal.clone() } else { String::new() };
            let address = Address { scheme, portal, name, unit: number as u32 + 1 };
            Volume { path: address.to_string(), kind: Kind::Exported, ..volume.clone() }
        });
        each.collect()
    }
}

impl Module for Target {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let on = self.place().check(ground, on, self.nqn.as_deref())?;
        let tag = "ioecho-*";
        let nqn = self.nqn(tag);
        let at = match self.transport {
            Transport::Loop => "within the host",
            Transport::Tcp => &format!("at {}", self.portal),
        };
        let told = |number| format!("namespace {} of {nqn} {at}", number + 1);
        Ok(configfs::outlook(on, self.volumes(tag, on), told))
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let on = block_volumes(on)?;
        on.iter().try_for_each(|volume| given_up(ledger.ground(), volume))?;
        self.export(ledger, on)?;
        Ok(self.volumes(&ledger.tag(), on))
    }

    fn hands_over(&self) -> std::result::Result<Over, Wrong> {
        match self.transport {
            Transport::Loop => {
                let help = "write transport = \"tcp\", and the portal";
                Err(Wrong::new("transport", "loop is within one host", help))
            }
            Transport::Tcp if self.is_portal_given => Ok(Over::To(INITIATOR.name)),
            Transport::Tcp => Err(exported::portal_missing(PORT)),
        }
    }

    fn exports(&self, volume: &Volume) -> bool {
        let ours = (OURS, &*format!("-{}", self.name));
        let at = (self.transport.scheme(), &*self.portal);
        exported::is_exported(volume, at, self.nqn.as_deref(), ours)
    }
}

struct Initiator {
    limit: Duration,
}

impl Initiator {
    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }

    fn connect(&self, address: &Address) -> Command {
        let (host, service) = exported::parts(&address.portal);
        let mut argv = vec!["nvme".to_owned(), "connect".to_owned()];
        argv.push(format!("--nqn={}", address.name));
        if address.portal.is_empty() {
            argv.push("--transport=loop".to_owned());
        } else {
            argv.push("--transport=tcp".to_owned());
            argv.extend([format!("--traddr={host}"), format!("--trsvcid={service}")]);
        }
        self.command(argv)
    }

    fn making(&self, address: &Address) -> Making {
        let name = address.name.clone();
        let nqn = format!("--nqn={name}");
        Making {
            kind: "NVMe connection",
            id: name.clone(),
            create: self.connect(address),
            remove: self.command(["nvme", "disconnect", &nqn]),
            exists: Probe::Command {
                ask: self.command(["sh", "-c", CONNECTED, &name]),
                ours: name,
            },
        }
    }

    /// The devices of a subsystem that this host is connected to, by the numbers of namespaces.
    fn disks(ground: &dyn Ground, name: &str) -> Result<Vec<(u32, String)>> {
        let (systems, mut disks) = ("/sys/class/nvme-subsystem", Vec::new());
        for system in ground.list(systems)? {
            let system = format!("{systems}/{system}");
            let of = ground.read(&format!("{system}/subsysnqn"))?.unwrap_or_default();
            if of.trim() != name {
                continue;
            }
            // The device of a namespace lies here where the kernel knows several paths to it, and
            // with its controller otherwise.
            let mut names = ground.list(&system)?;
            for controller in names.clone().iter().filter(|it| it.starts_with("nvme")) {
                names.extend(ground.list(&format!("{system}/{controller}"))?);
            }
            for name in names {
                let number = ground.read(&format!("/sys/block/{name}/nsid"))?;
                let number = number.and_then(|text| text.trim().parse().ok());
                disks.extend(number.map(|number| (number, format!("/dev/{name}"))));
            }
        }
        Ok(disks)
    }
}

impl Module for Initiator {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        tools(ground, &["nvme", "sh", "grep"])?;
        let addresses = Self::addresses(on)?;
        let connect = |address: &Address| self.connect(address).to_string();
        let does = exported::names(&addresses).into_iter().map(connect).collect();
        Ok(Outlook { does, volumes: exported::foreseen(on), ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let addresses = Self::addresses(on)?;
        for address in exported::names(&addresses) {
            ledger.make(self.making(address))?;
        }
        let ground = ledger.ground();
        exported::appeared(ground, on, &addresses, self.limit, &Self::disks)
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        exported::are_there(ground, on)
    }
}

impl Initiator {
    fn addresses(on: &[Volume]) -> Result<Vec<Address>> {
        let by_tcp = exported::addresses(on, Transport::Tcp.scheme());
        by_tcp.or_else(|_| exported::addresses(on, Transport::Loop.scheme()))
    }
}
