//! What targets and initiators have in common: addresses of exported volumes, and the wait for
//! devices that appear.

use std::fmt;
use std::time::Duration;

use super::{Given, Wrong};
use crate::ground::{Fault, Ground, Kind, Result, Volume};

/// How often it is looked whether a device has appeared.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The disks of a target of this name that are there now, each with the number of its volume.
pub(super) type Disks = dyn Fn(&dyn Ground, &str) -> Result<Vec<(u32, String)>>;

/// Where a volume is exported: `SCHEME://PORTAL/NAME/UNIT`, as libiscsi writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) scheme: &'static str,
    /// Address and port; empty within one host.
    pub(super) portal: String,
    /// The name of the target.
    pub(super) name: String,
    /// The number of the volume there.
    pub(super) unit: u32,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}/{}", self.scheme, self.portal, self.name, self.unit)
    }
}

impl Address {
    fn read(text: &str, scheme: &'static str) -> Option<Self> {
        let rest = text.strip_prefix(scheme)?.strip_prefix("://")?;
        let mut parts = rest.split('/');
        let (portal, name) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let unit = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { scheme, portal, name, unit })
    }
}

/// The addresses of volumes that are all exported by this scheme.
pub(super) fn addresses(on: &[Volume], scheme: &'static str) -> Result<Vec<Address>> {
    let read = |volume: &Volume| {
        let address = Some(volume).filter(|it| it.kind == Kind::Exported);
        let address = address.and_then(|volume| Address::read(&volume.path, scheme));
        let text = format!("{} is not exported in a way that it knows", volume.path);
        address.ok_or(Fault::Refused(text))
    };
    if on.is_empty() {
        return Err(Fault::Refused("there is no target below it in the stack".to_owned()));
    }
    on.iter().map(read).collect()
}

/// Whether a volume is exported by this scheme at this portal. The target has the name that the
/// user chose, or one of ours: `ours` is what it begins with, and the name of its entry the end.
pub(super) fn is_exported(
    volume: &Volume,
    (scheme, portal): (&'static str, &str),
    chosen: Option<&str>,
    (ours, entry): (&str, &str),
) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
    let is_ours = |name: &str| {
        let tag = name.strip_prefix(ours).and_then(|rest| rest.strip_suffix(entry));
        tag.is_some_and(|tag| tag.starts_with("ioecho-")) && name.chars().all(is_plain)
    };
    let is_named = |name: &str| chosen.map_or_else(|| is_ours(name), |chosen| name == chosen);
    let address = Address::read(&volume.path, scheme);
    volume.kind == Kind::Exported
        && address.is_some_and(|it| it.portal == portal && is_named(&it.name))
}

/// Why other hosts cannot reach a target that only its own host can.
pub(super) fn portal_missing(port: u16) -> Wrong {
    let reason = "other hosts reach it by an address of its host, and 'portal' is missing";
    Wrong::new("portal", reason, format!("write an address, such as 10.0.0.1 or 10.0.0.1:{port}"))
}

/// An address of each target, which may export several volumes.
pub(super) fn names(addresses: &[Address]) -> Vec<&Address> {
    let mut each: Vec<&Address> = Vec::new();
    for address in addresses {
        if !each.iter().any(|it| it.name == address.name) {
            each.push(address);
        }
    }
    each
}

/// The volumes that will be made of exported ones.
pub(super) fn foreseen(on: &[Volume]) -> Vec<Volume> {
    let each = on.iter().map(|volume| {
        let path = format!("the disk of {}", volume.path);
        Volume { path, kind: Kind::Block, is_there: false, ..volume.clone() }
    });
    each.collect()
}

/// The devices of exported volumes, once they have appeared. `disks` finds those of a target, with
/// the numbers of their volumes.
pub(super) fn appeared(
    ground: &dyn Ground,
    on: &[Volume],
    addresses: &[Address],
    limit: Duration,
    disks: &Disks,
) -> Result<Vec<Volume>> {
    let begun = ground.seconds();
    let found = |address: &Address| -> Result<Option<Volume>> {
        let of_target = disks(ground, &address.name)?;
        let disk = of_target.into_iter().find(|(unit, _)| *unit == address.unit);
        // Its node may come after its directory, and its size after both.
        let volume = disk.and_then(|(_, path)| ground.volume(&path).ok());
        Ok(volume.filter(|volume| volume.size > 0))
    };
    loop {
        let all: Vec<Option<Volume>> = addresses.iter().map(found).collect::<Result<_>>()?;
        if let Some(all) = all.into_iter().collect::<Option<Vec<Volume>>>() {
            let with = |(volume, on): (Volume, &Volume)| Volume { may_lose: on.may_lose, ..volume };
            return Ok(all.into_iter().zip(on).map(with).collect());
        }
        if ground.seconds() - begun > limit.as_secs_f64() {
            let limit = limit.as_secs();
            return Err(Fault::Failed(format!("the disks have not appeared after {limit} s")));
        }
        ground.wait(LOOK_EVERY)?;
    }
}

/// Refuses volumes that are gone.
pub(super) fn are_there(ground: &dyn Ground, on: &[Volume]) -> Result<()> {
    match on.iter().find(|volume| ground.volume(&volume.path).is_err()) {
        Some(volume) => Err(Fault::Failed(format!("{} is gone", volume.path))),
        None => Ok(()),
    }
}

/// Address and port of a target, and whether they were given.
pub(super) fn portal(given: &Given, port: u16) -> std::result::Result<(String, bool), Wrong> {
    let help = format!("write an address, such as 10.0.0.1 or 10.0.0.1:{port}");
    let read = |text: &str| {
        if let Ok(both) = text.parse::<std::net::SocketAddr>() {
            return (both.port() > 0).then(|| both.to_string());
        }
        let address = text.parse::<std::net::IpAddr>().ok()?;
        Some(std::net::SocketAddr::new(address, port).to_string())
    };
    let given = given.parsed("portal", read, &help)?;
    let is_given = given.is_some();
    Ok((given.unwrap_or_else(|| format!("127.0.0.1:{port}")), is_given))
}

/// The address and the port of a portal.
pub(super) fn parts(portal: &str) -> (&str, &str) {
    let (address, port) = portal.rsplit_once(':').unwrap_or((portal, ""));
    (address.trim_matches(['[', ']']), port)
}

/// The name of the entry, which becomes a part of names that others read.
pub(super) fn plain_name(given: &Given) -> std::result::Result<String, Wrong> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if given.name.chars().all(is_part) && given.name.len() <= 60 {
        return Ok(given.name.clone());
    }
    let reason = format!("'{}' cannot be a part of the target's name", given.name);
    Err(Wrong::new("name", reason, "use small letters, digits and dashes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let address = |portal: &str| Address {
            scheme: "iscsi",
            portal: portal.to_owned(),
            name: "iqn.x:y".to_owned(),
            unit: 3,
        };
        for portal in ["10.0.0.1:3260", "[::1]:3260", ""] {
            let address = address(portal);
            assert_eq!(Address::read(&address.to_string(), "iscsi"), Some(address));
        }
        for text in ["iscsi://a/b", "iscsi://a/b/c", "nvme-tcp://a/b/1", "iscsi://a/b/1/2"] {
            assert_eq!(Address::read(text, "iscsi"), None, "{text}");
        }
        assert_eq!(parts("[::1]:3260"), ("::1", "3260"));
    }
}
