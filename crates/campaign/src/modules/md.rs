//! `md`: a RAID set of the devices below, whole or with failed legs.
//!
//! A set is measured when its legs agree: while they are brought into step, that is what is
//! measured. So it is waited for, unless that very state is wanted. The set and its legs bear a
//! UUID of ours, by which undo finds them under any name after a reboot.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{
    Every, Family, Given, Keys, Module, Outlook, Wrong, block_volumes, given_up, mark, tools,
};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::line::Probe;
use crate::ledger::{Ledger, Making};

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "md",
    keys: Keys::These(&["level", "chunk", "layout", "bitmap", "spares", "degrade", "resync"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Md::read(given)?)),
};

/// How long legs may take to be brought into step.
const LIMIT: Duration = Duration::from_hours(48);

/// How often it is looked whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long the kernel may rest before it brings them into step.
const REST_MAX: Duration = Duration::from_secs(10);

/// Shows the set and the legs that bear a UUID; `$0` is the UUID.
const FIND: &str = r#"
{ mdadm --detail --scan; mdadm --examine --scan --config=partitions; } 2>/dev/null |
    grep -F "UUID=$0"
"#;

/// Stops the set, and takes its mark from each leg, wherever that is now; `$0` is the UUID.
const REMOVE: &str = r#"
mdadm --detail --scan 2>/dev/null | grep -F "UUID=$0" | while read -r word set rest; do
    # Somebody who only looks, such as udev, may have it open for a moment.
    for wait in 0.1 0.2 0.5 1 2 0; do
        mdadm --stop "$set" && break
        sleep $wait
    done
done
for leg in /sys/class/block/*; do
    leg=/dev/${leg##*/}
    [ -b "$leg" ] || continue
    mdadm --examine --export "$leg" 2>/dev/null | grep -qFx "MD_UUID=$0" || continue
    mdadm --zero-superblock "$leg" || exit 1
done
"#;

/// The levels, and how many legs each of them needs, and may lose; `mdadm(8)`.
const LEVELS: [(&str, Level); 6] = [
    ("0", Level { legs: 1, spare: 0 }),
    ("1", Level { legs: 2, spare: usize::MAX }),
    ("4", Level { legs: 3, spare: 1 }),
    ("5", Level { legs: 3, spare: 1 }),
    ("6", Level { legs: 4, spare: 2 }),
    ("10", Level { legs: 2, spare: 1 }),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    /// The fewest legs.
    legs: usize,
    /// How many may fail; all but one where it is more.
    spare: usize,
}

/// What is done about legs that do not agree yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resync {
    /// It is waited for.
    Wait,
    /// They are taken for equal.
    Skip,
    /// It goes on beside the replay.
    Beside,
}

const RESYNC: [(&str, Resync); 3] =
    [("wait", Resync::Wait), ("skip", Resync::Skip), ("beside", Resync::Beside)];

struct Md {
    name: String,
    word: String,
    level: Level,
    chunk: Option<u64>,
    layout: Option<String>,
    bitmap: &'static str,
    spares: usize,
    /// How many legs fail once the set is whole.
    degrade: usize,
    resync: Resync,
    limit: Duration,
}

impl Md {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let word = given.kind("level", &LEVELS.map(|(word, _)| (word, &[][..])))?;
        let level = LEVELS.iter().find(|(known, _)| *known == word).map(|(_, level)| *level);
        let is_word = |text: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_owned())
        };
        let chunk = given.size("chunk")?;
        if chunk.is_some_and(|chunk| chunk < 4096 || chunk % 1024 != 0) {
            let help = "write a size such as 512K";
            return Err(Wrong::new("chunk", "this is no size of a chunk", help));
        }
        let level = level.unwrap_or(Level { legs: 1, spare: 0 });
        if level.spare == 0 {
            let none = ["degrade", "spares", "bitmap", "resync"];
            if let Some(key) = none.iter().find(|key| given.settings.contains_key(**key)) {
                let reason = format!("level 0 loses everything with one leg, so it has no {key}");
                return Err(Wrong::new(key, reason, "leave it out, or choose another level"));
            }
        }
        let number = |key| given.count(key, 0..=100).map(|it| it.unwrap_or(0) as usize);
        let md = Self {
            name: given.name.clone(),
            word: word.to_owned(),
            level,
            chunk,
            layout: given.parsed("layout", is_word, "write a layout of mdadm, such as f2")?,
            bitmap: given.word("bitmap", &[("none", "none"), ("internal", "internal")])?,
            spares: number("spares")?,
            degrade: number("degrade")?,
            resync: given.word("resync", &RESYNC)?,
            limit: given.span("limit")?.unwrap_or(LIMIT),
        };
        if md.resync == Resync::Skip && matches!(word, "4" | "5" | "6") {
            let reason = format!("legs of level {word} do not agree until they were synchronised");
            return Err(Wrong::new("resync", reason, "write wait or beside"));
        }
        if md.degrade > level.spare {
            let reason = format!("level {word} does not survive {} failed legs", md.degrade);
            return Err(Wrong::new("degrade", reason, format!("write {} at most", level.spare)));
        }
        Ok(md)
    }

    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }

    /// The UUID of the set, as mdadm writes it.
    fn uuid(&self, tag: &str) -> String {
        let digits = mark(&format!("{tag}-{}", self.name));
        let groups: Vec<&str> = (0..4).map(|group| &digits[group * 8..group * 8 + 8]).collect();
        groups.join(":")
    }

    fn path(&self, tag: &str) -> String {
        format!("/dev/md/{tag}-{}", self.name)
    }

    /// How many of the devices below are legs, and not spares.
    fn legs(&self, on: &[Volume]) -> Result<usize> {
        let legs = on.len().saturating_sub(self.spares);
        if legs < self.level.legs {
            return Err(Fault::Refused(format!(
                "level {} needs {} legs below it in the stack, and there are {legs}\n  = help: a \
                 device of several is written as {{of = [\"a\", \"b\"]}}, and the module loop has \
                 a count",
                self.word, self.level.legs
            )));
        }
        if self.degrade >= legs && self.degrade > 0 {
            let text = format!("of {legs} legs {} cannot fail", self.degrade);
            return Err(Fault::Refused(text));
        }
        Ok(legs)
    }

    fn create(&self, tag: &str, on: &[Volume]) -> Result<Command> {
        let legs = self.legs(on)?;
        let mut argv = vec!["mdadm".to_owned(), "--create".to_owned(), self.path(tag)];
        // It asks no questions, and nothing of the host's configuration matters.
        argv.extend(["--run", "--metadata=1.2", "--homehost=any"].map(str::to_owned));
        argv.push(format!("--uuid={}", self.uuid(tag)));
        argv.push(format!("--level={}", self.word));
        argv.push(format!("--raid-devices={legs}"));
        if legs == 1 {
            argv.push("--force".to_owned());
        }
        argv.extend((self.spares > 0).then(|| format!("--spare-devices={}", self.spares)));
        argv.extend(self.chunk.map(|chunk| format!("--chunk={}", chunk / 1024)));
        argv.extend(self.layout.iter().map(|layout| format!("--layout={layout}")));
        if self.level.spare > 0 {
            argv.push(format!("--bitmap={}", self.bitmap));
        }
        argv.extend((self.resync == Resync::Skip).then(|| "--assume-clean".to_owned()));
        argv.extend(on.iter().map(|volume| volume.path.clone()));
        Ok(self.command(argv))
    }

    fn making(&self, tag: &str, on: &[Volume]) -> Result<Making> {
        let uuid = self.uuid(tag);
        Ok(Making {
            kind: "RAID set",
            id: self.path(tag),
            create: self.create(tag, on)?,
            remove: self.command(["sh", "-c", REMOVE, &uuid]),
            exists: Probe::Command {
                ask: self.command(["sh", "-c", FIND, &uuid]),
                ours: format!("UUID={uuid}"),
            },
        })
    }

    /// The size of the set, at most: what its legs have in common.
    fn size(&self, on: &[Volume], legs: usize) -> u64 {
        let least = on.iter().map(|volume| volume.size).min().unwrap_or(0);
        let copies = match self.word.as_str() {
            "0" => legs as u64,
            "1" => 1,
            "10" => legs as u64 / 2,
            _ => (legs - self.level.spare) as u64,
        };
        least.saturating_mul(copies)
    }

    /// A file of the set's own, in the kernel.
    fn state(ground: &dyn Ground, set: &Volume, name: &str) -> Result<Option<String>> {
        let text = ground.read(&format!("/sys/block/{}/md/{name}", set.name()))?;
        Ok(text.map(|text| text.trim().to_owned()))
    }

    /// Whether the legs agree. A set that rests has not begun with that yet, or has given it up.
    fn is_in_step(ground: &dyn Ground, set: &Volume) -> Result<bool> {
        // From which sector on they may differ, and how many of them lack.
        let (differ, lack) =
            (Self::state(ground, set, "resync_start")?, Self::state(ground, set, "degraded")?);
        Ok(differ.is_none_or(|it| it == "none") && lack.is_none_or(|it| it == "0"))
    }

    /// Waits until the legs agree.
    fn synchronised(&self, ground: &dyn Ground, set: &Volume) -> Result<()> {
        let (begun, mut rests_since) = (ground.seconds(), ground.seconds());
        loop {
            let now = ground.seconds();
            match Self::state(ground, set, "sync_action")?.as_deref() {
                // A set of stripes alone has nothing to be brought into step.
                None => return Ok(()),
                Some("idle") if Self::is_in_step(ground, set)? => return Ok(()),
                Some("idle") => {}
                Some(_) => rests_since = now,
            }
            let path = &set.path;
            if now - rests_since > REST_MAX.as_secs_f64() {
                let text = format!("the legs of {path} differ, and nothing brings them into step");
                return Err(Fault::Failed(text));
            }
            if now - begun > self.limit.as_secs_f64() {
                let limit = self.limit.as_secs();
                let text = format!("the legs of {path} are not in step after {limit} s");
                return Err(Fault::Failed(text));
            }
            ground.wait(LOOK_EVERY)?;
        }
    }

    fn fail(&self, set: &str, leg: &str) -> Command {
        self.command(["mdadm", "--manage", set, "--fail", leg])
    }

    /// The legs that fail: the last ones.
    fn failing<'v>(&self, on: &'v [Volume], legs: usize) -> &'v [Volume] {
        &on[legs - self.degrade..legs]
    }
}

impl Module for Md {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let on = block_volumes(on)?;
        tools(ground, &["mdadm", "wipefs", "sh", "grep"])?;
        let (tag, legs) = ("ioecho-*", self.legs(on)?);
        let path = self.path(tag);
        let wipe = on.iter().map(|volume| format!("wipefs --all {}", volume.path));
        let mut does: Vec<String> = wipe.collect();
        // The UUID is made of the tag, which is not known yet.
        let create = self.create(tag, on)?.to_string();
        does.push(create.replace(&self.uuid(tag), "*"));
        if self.resync == Resync::Wait && self.level.spare > 0 {
            does.push("waits until the legs agree".to_owned());
        }
        let failing = self.failing(on, legs).iter();
        does.extend(failing.map(|leg| self.fail(&path, &leg.path).to_string()));
        let volume = Volume {
            path,
            kind: Kind::Block,
            size: self.size(on, legs),
            may_lose: true,
            is_there: false,
        };
        let loses = on.iter().map(|volume| volume.path.clone()).collect();
        Ok(Outlook { does, loses, seconds: None, volumes: vec![volume] })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let (on, ground, tag) = (block_volumes(on)?, ledger.ground(), ledger.tag());
        let legs = self.legs(on)?;
        on.iter().try_for_each(|volume| given_up(ground, volume))?;
        for volume in on {
            ledger.lose(volume, &self.command(["wipefs", "--all", &volume.path]))?;
        }
        ledger.make(self.making(&tag, on)?)?;
        let set = Volume { may_lose: true, ..ground.volume(&self.path(&tag))? };
        if self.resync == Resync::Wait {
            self.synchronised(ground, &set)?;
        }
        for leg in self.failing(on, legs) {
            // It is taken back with the set.
            ledger.ran(&self.fail(&set.path, &leg.path), None, serde_json::Value::Null)?;
        }
        Ok(vec![set])
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        for set in on {
            let lacks = Self::state(ground, set, "degraded")?.unwrap_or_else(|| "0".to_owned());
            // A spare takes the place of a leg at once.
            let is_whole = self.spares > 0 || lacks == self.degrade.to_string();
            if self.resync == Resync::Wait && !is_whole {
                let wanted = self.degrade;
                let text = format!("{} lacks {lacks} legs, not {wanted}", set.path);
                return Err(Fault::Failed(text));
            }
        }
        Ok(())
    }
}
