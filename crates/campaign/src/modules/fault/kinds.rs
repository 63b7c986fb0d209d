//! The kinds of faults: what breaks, and how it is put right.

use super::super::cgroup::{Group, LIMITS};
use super::super::command::on_volume;
use super::super::queue::{Queue, same_disk};
use super::super::{Given, Module as _, Outlook, Wrong, below, tools};
use crate::ground::{Command, Fault, Ground, Result, Volume};
use crate::ledger::Ledger;
use crate::ledger::line::Form;

/// What breaks.
pub(super) enum Kind {
    /// A leg of a RAID set fails, and is put back in.
    FailLeg(String, std::time::Duration),
    /// A SCSI disk no longer answers.
    Offline(Option<String>),
    /// A network link goes down.
    LinkDown(String, std::time::Duration),
    /// A program breaks something, and another one puts it right.
    Command(Command, Command),
    /// A queue has other settings.
    Queue(Queue),
    /// The replay gets less of the device.
    Throttle(Group),
}

/// The kinds, by their words, with the keys that belong to each of them.
const KINDS: [(&str, &[&str]); 6] = [
    ("fail-leg", &["device"]),
    ("offline", &["device"]),
    ("link-down", &["interface"]),
    ("command", &["command", "undo"]),
    ("queue", &["set"]),
    ("throttle", &[LIMITS[0].0, LIMITS[1].0, LIMITS[2].0, LIMITS[3].0]),
];

/// Takes a failed leg out and puts it back; nothing, if it is as it was. `$0` is the set, `$1` the
/// leg, and `$2` the directory that the set has for it as long as it is in.
pub(super) const PUT_LEG_BACK: &str = r#"
if grep -q faulty "$2/state" 2>/dev/null; then
    # The set lets go of it when its last request has ended.
    for wait in 0.1 0.2 0.5 1 2 5; do
        mdadm --manage "$0" --remove "$1" && break
        sleep $wait
    done
fi
[ -e "$2" ] || mdadm --manage "$0" --re-add "$1" || mdadm --manage "$0" --add "$1"
"#;

impl Kind {
    pub(super) fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let word = given.kind("kind", &KINDS)?;
        let limit = given.limit()?;
        let command = |key: &str| {
            let missing = || {
                let help = format!("write {key} = [\"program\", \"argument\"]");
                Wrong::new(key, format!("'{key}' is missing"), help)
            };
            given.command(key)?.map(|it| it.at(&given.base)).ok_or_else(missing)
        };
        Ok(match word {
            "fail-leg" => Self::FailLeg(given.needed("device")?.to_owned(), limit),
            "offline" => Self::Offline(given.text("device")?.map(str::to_owned)),
            "link-down" => Self::LinkDown(given.needed("interface")?.to_owned(), limit),
            "command" => Self::Command(command("command")?, command("undo")?),
            "queue" => Self::Queue(Queue::read(given)?),
            _ => Self::Throttle(Group::read(given)?),
        })
    }

    /// The programs that it runs by a name of the user's choice.
    pub(super) fn programs(&self) -> Vec<String> {
        let Self::Command(command, undo) = self else { return Vec::new() };
        let words = command.argv.iter().chain(&undo.argv);
        words.filter(|word| word.contains('/')).cloned().collect()
    }

    /// What it would do, if it can be done.
    pub(super) fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let outlook = |does: Vec<String>, loses: Vec<String>| {
            Ok(Outlook { does, loses, seconds: None, volumes: on.to_vec() })
        };
        let are_there = on.iter().all(|volume| volume.is_there);
        match self {
            Self::FailLeg(leg, limit) => {
                tools(ground, &["mdadm", "sh", "grep"])?;
                let set = raid_set(ground, on)?;
                if are_there {
                    of_stack(ground, leg, on)?;
                }
                let (fail, back) = fail_leg(ground, set, leg, *limit);
                let undone = back.argv.iter().skip(3).map(String::as_str);
                let words: Vec<&str> = undone.collect();
                let does =
                    vec![format!("{fail}"), format!("undone: the leg of {}", words.join(" "))];
                outlook(does, vec![set.path.clone()])
            }
            Self::Offline(_) => {
                if !are_there {
                    let does = "its disk = offline".to_owned();
                    return outlook(vec![does], Vec::new());
                }
                let (volume, file) = self.switch(ground, on)?;
                outlook(vec![format!("{file} = offline")], vec![volume.path])
            }
            Self::LinkDown(interface, limit) => {
                tools(ground, &["ip"])?;
                is_up(ground, interface)?;
                outlook(vec![link(interface, "down", *limit).to_string()], Vec::new())
            }
            Self::Command(command, undo) => {
                tools(ground, &[command.program(), undo.program()])?;
                let (command, undo) = (on_volume(command, on)?, on_volume(undo, on)?);
                outlook(vec![command.to_string(), format!("undone by {undo}")], Vec::new())
            }
            Self::Queue(queue) => queue.check(ground, on),
            Self::Throttle(group) => group.check(ground, on),
        }
    }

    /// What has to stand before the replay begins.
    pub(super) fn prepare(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<()> {
        // What was made by now is looked at now, before a replay is spent on it.
        let outlook = self.check(ledger.ground(), on)?;
        let lost = on.iter().find(|it| outlook.loses.contains(&it.path) && !it.may_lose);
        if let Some(volume) = lost {
            let text =
                format!("{}: what is written might be lost, and nothing allows it", volume.path);
            return Err(Fault::Refused(text));
        }
        match self {
            // An earlier process may have left it down, which is undone after the first look.
            Self::LinkDown(interface, _) if !is_up(ledger.ground(), interface)? => {
                Err(Fault::Refused(format!("the link '{interface}' is down already")))
            }
            Self::Throttle(group) => group.make(ledger),
            _ => Ok(()),
        }
    }

    /// What is typed in front of the replay.
    pub(super) fn launch(&self, ground: &dyn Ground, tag: &str) -> Result<Vec<String>> {
        match self {
            Self::Throttle(group) => group.launch(ground, tag),
            _ => Ok(Vec::new()),
        }
    }

    /// Breaks it.
    pub(super) fn begin(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<()> {
        let ground = ledger.ground();
        match self {
            Self::FailLeg(leg, limit) => {
                let set = raid_set(ground, on)?;
                let (fail, back) = fail_leg(ground, set, leg, *limit);
                ledger.ran(&fail, Some(back), serde_json::Value::Null)?;
            }
            Self::Offline(_) => {
                let (disk, file) = self.switch(ground, on)?;
                let disk = Volume { path: format!("/dev/{}", disk_of(&file)), ..disk };
                let witness = same_disk(ground, &disk)?;
                ledger.set(&file, &Form::Plain, "offline", witness)?;
            }
            Self::LinkDown(interface, limit) => {
                let [down, up] = ["down", "up"].map(|way| link(interface, way, *limit));
                ledger.ran(&down, Some(up), serde_json::Value::Null)?;
            }
            Self::Command(command, undo) => {
                let (command, undo) = (on_volume(command, on)?, on_volume(undo, on)?);
                ledger.ran(&command, Some(undo), serde_json::Value::Null)?;
            }
            Self::Queue(queue) => {
                queue.apply(ledger, on)?;
            }
            Self::Throttle(group) => {
                if !group.has_process(ground, &ledger.tag())? {
                    let text = "the replay is in another control group, which has other limits\n  \
                                = help: leave out the entry cgroup";
                    return Err(Fault::Refused(text.to_owned()));
                }
                group.limit(ledger, on, true)?;
            }
        }
        Ok(())
    }

    /// Puts right what lies within something that the ledger made. Everything else is for undo.
    pub(super) fn end(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<()> {
        match self {
            Self::Throttle(group) => group.limit(ledger, on, false),
            _ => Ok(()),
        }
    }

    /// The switch of the disk that no longer answers, and the volume that it is of.
    fn switch(&self, ground: &dyn Ground, on: &[Volume]) -> Result<(Volume, String)> {
        let first = || Fault::Refused("there is no volume below it in the stack".to_owned());
        let (volume, name) = if let Self::Offline(Some(device)) = self {
            of_stack(ground, device, on)?
        } else {
            let volume = on.first().ok_or_else(first)?;
            (volume.clone(), volume.name().to_owned())
        };
        let file = format!("/sys/block/{name}/device/state");
        match ground.read(&file)?.as_deref().map(str::trim) {
            Some("running" | "offline") => Ok((volume, file)),
            Some(other) => Err(Fault::Refused(format!("{file} is '{other}', not 'running'"))),
            None => Err(Fault::Lacking(format!(
                "{file}: there is no such file; only SCSI and SATA disks have this switch"
            ))),
        }
    }
}

/// The name of the disk of a switch.
fn disk_of(file: &str) -> &str {
    file.split('/').nth(3).unwrap_or_default()
}

/// The volume of the stack that a device is, or lies below, and the device's name.
fn of_stack(ground: &dyn Ground, device: &str, on: &[Volume]) -> Result<(Volume, String)> {
    let real = ground.real(device);
    let real = real.ok_or_else(|| Fault::Lacking(format!("{device}: there is no such device")))?;
    let name = real.rsplit('/').next().unwrap_or_default().to_owned();
    let has = |volume: &&Volume| below::parts(ground, volume).contains(&name);
    match on.iter().find(has) {
        Some(volume) => Ok((volume.clone(), name)),
        None => Err(Fault::Refused(format!(
            "{device} is none of the volumes below it in the stack, nor a part of one"
        ))),
    }
}

fn raid_set<'v>(ground: &dyn Ground, on: &'v [Volume]) -> Result<&'v Volume> {
    let [set] = on else {
        return Err(Fault::Refused("a leg is that of one RAID set".to_owned()));
    };
    if set.is_there && !ground.exists(&format!("/sys/block/{}/md", set.name())) {
        return Err(Fault::Refused(format!("{} is no RAID set of md", set.path)));
    }
    Ok(set)
}

/// What lets a leg fail, and what puts it back.
fn fail_leg(
    ground: &dyn Ground,
    set: &Volume,
    leg: &str,
    limit: std::time::Duration,
) -> (Command, Command) {
    let leg = ground.real(leg).unwrap_or_else(|| leg.to_owned());
    let name = leg.rsplit('/').next().unwrap_or_default();
    let place = format!("/sys/block/{}/md/dev-{name}", set.name());
    let fail = Command::new(["mdadm", "--manage", &set.path, "--fail", &leg]);
    let back = Command::new(["sh", "-c", PUT_LEG_BACK, &set.path, &leg, &place]);
    (fail.within(limit), back.within(limit))
}

fn link(interface: &str, way: &str, limit: std::time::Duration) -> Command {
    Command::new(["ip", "link", "set", "dev", interface, way]).within(limit)
}

/// Whether a link is up: the first bit of its flags (in hexadecimal digits), as `<linux/if.h>` has
/// it.
fn is_up(ground: &dyn Ground, interface: &str) -> Result<bool> {
    let flags = ground.read(&format!("/sys/class/net/{interface}/flags"))?;
    let flags = flags.ok_or_else(|| Fault::Lacking(format!("there is no link '{interface}'")))?;
    let digits = flags.trim().trim_start_matches("0x");
    Ok(u32::from_str_radix(digits, 16).is_ok_and(|flags| flags & 1 == 1))
}
