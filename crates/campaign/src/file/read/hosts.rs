//! The hosts of a file, and how their replays begin.

use ioecho_trace::Nanos;

use super::Reader;
use crate::file::table::{Spot, Table};
use crate::file::{File, Host, Layer, Parallel, Setting};
use crate::name::is_name;
use crate::place::{Place, Refused, Result};
use crate::template::{expanded, filled, names};

/// What starts a shell on another host, with nobody at the keyboard, and notices that it is gone.
const SSH: [&str; 8] = [
    "ssh",
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];

impl Reader<'_, '_> {
    pub(super) fn hosts(&self) -> Result<Vec<Host>> {
        let mut hosts: Vec<Host> = Vec::new();
        for (pattern, place, value) in self.entries("hosts")? {
            let table = self.table(value)?;
            table.only("key of a host", &["ssh", "launch", "directory", "set"])?;
            let set = self.layer_at(&table, "set")?;
            if let Some(Setting { key, place, .. }) =
                set.iter().find(|setting| self.known.flag(&setting.key).is_none())
            {
                let reason = format!("{key} is the same on all hosts of a device");
                return Err(Refused::new(place, reason, "a host's set has flags of `replay`"));
            }
            let texts = expanded(&pattern).and_then(|all| Ok((all, names(&pattern)?)));
            let (all, others) =
                texts.map_err(|reason| Refused::new(&place, reason, "write n{01..10}"))?;
            if !others.is_empty() || pattern.matches("..").count() > 1 {
                let reason = format!("'{pattern}' is no name of hosts");
                return Err(Refused::new(&place, reason, "write at most one range: n{01..10}"));
            }
            // What stands before the range and behind it, so that the number is what is between.
            let before = pattern.find('{').unwrap_or(pattern.len());
            let behind = pattern.rfind('}').map_or(0, |at| pattern.len() - at - 1);
            for name in all {
                if !is_name(&name) || hosts.iter().any(|host| host.name == name) {
                    let reason = format!("'{name}' is no name of a host, or stands here twice");
                    let help = "letters, digits, '-', '_' and '.' make a name";
                    return Err(Refused::new(&place, reason, help));
                }
                let number = name.get(before..name.len().saturating_sub(behind));
                let number = number.unwrap_or_default().to_owned();
                hosts.push(Host { set: set.clone(), ..host(&table, name, number, &place)? });
            }
        }
        Ok(hosts)
    }

    /// How far apart replays on several hosts may begin.
    pub(super) fn start_skew(&self) -> Result<Nanos> {
        let Some(value) = self.top.get("start") else { return Ok(SKEW_MAX) };
        let table = self.table(value)?;
        table.only("key of start", &["skew"])?;
        let span = |text: &str| text.parse::<Nanos>().ok().filter(|span| *span > Nanos::ZERO);
        Ok(table.parsed("skew", span, "write a time such as 1ms")?.unwrap_or(SKEW_MAX))
    }
}

/// Refuses devices without a host where cells go on at the same time by their hosts: this
/// machine drives the others, and would be disturbed by that.
pub(super) fn check_parallel(file: &File) -> Result<()> {
    let here = file.devices.iter().find(|device| device.hosts.is_empty());
    match (here, file.parallel) {
        (Some(device), Parallel::Host) => {
            let reason =
                format!("'{}' has no host, and parallel = \"host\" needs one", device.name);
            let help = "write host = \"NAME\"; [hosts] NAME = {launch = []} is an agent on \
                        this machine";
            Err(Refused::new(&device.place, reason, help))
        }
        _ => Ok(()),
    }
}

/// How far apart replays may begin if nothing else is asked for.
const SKEW_MAX: Nanos = Nanos::from_millis(1);

fn host(table: &Table<'_, '_>, name: String, number: String, place: &Place) -> Result<Host> {
    let value = |part: &str| match part {
        "" => Some(number.clone()),
        "host" => Some(name.clone()),
        _ => None,
    };
    let fill = |text: &str, at: &Place| {
        let parts = names(text);
        let parts = parts.map_err(|reason| Refused::new(at, reason, "write {} for the number"))?;
        match parts.into_iter().find(|part| value(part).is_none()) {
            Some(other) => Err(Refused::unknown(at, "name", other, ["host"])),
            None => Ok(filled(text, &value)),
        }
    };
    let directory = match table.get("directory") {
        Some(value) => Some(fill(&table.text_at(value)?, &table.place(value))?),
        None => None,
    };
    if let Some(relative) = directory.as_ref().filter(|it| !it.starts_with('/')) {
        let reason = format!("'{relative}' is no place on every host");
        return Err(Refused::new(place, reason, "write a path that begins with /"));
    }
    let launch = match (table.get("ssh"), table.get("launch")) {
        (Some(value), None) => {
            let at = fill(&table.text_at(value)?, &table.place(value))?;
            if at.is_empty() || at.starts_with('-') || at.chars().any(char::is_whitespace) {
                return Err(table.wrong(value, "this is no host for ssh", "write \"root@host\""));
            }
            SSH.into_iter().map(str::to_owned).chain([at]).collect()
        }
        (None, Some(value)) => {
            let words = table.texts_at(value)?;
            words.iter().map(|(word, at)| fill(word, at)).collect::<Result<Vec<_>>>()?
        }
        _ => {
            let reason = format!("the host '{name}' has no way to it, or two");
            let help = "write ssh = \"root@host\", or launch = [\"ip\", \"netns\", \"exec\", \
                        \"n1\"]; [] is this machine";
            return Err(Refused::new(place, reason, help));
        }
    };
    // A remote shell takes the words apart once more.
    let is_ssh = |word: &String| word.rsplit('/').next() == Some("ssh");
    let is_shell = launch.iter().any(is_ssh);
    let (set, place) = (Layer::new(), place.clone());
    Ok(Host { name, launch, is_shell, directory, set, number, place })
}

/// The hosts that a device names, each of which must be there.
pub(super) fn hosts_of(
    table: &Table<'_, '_>,
    value: Spot<'_, '_>,
    known: &[Host],
) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for (text, place) in table.texts_at(value)? {
        let all = expanded(&text);
        for name in all.map_err(|reason| Refused::new(&place, reason, "write n{01..10}"))? {
            if !known.iter().any(|host| host.name == name) {
                let names = known.iter().map(|host| host.name.as_str());
                return Err(Refused::unknown(&place, "host", &name, names));
            }
            if hosts.contains(&name) {
                let reason = format!("'{name}' stands here twice");
                return Err(Refused::new(&place, reason, "name each host once"));
            }
            hosts.push(name);
        }
    }
    Ok(hosts)
}
