//! `lvm`: logical volumes of the devices below: linear, striped, or thin ones of a pool.
//!
//! Servers seldom write to bare disks. The devices become a volume group with our tag, so that it
//! is found again under any path after a reboot, and never taken for somebody's: a group that is
//! there already is refused, unless it is to be used as it is.

mod commands;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong, block_volumes, given_up, tools};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "lvm",
    keys: Keys::These(&[
        "vg",
        "count",
        "size",
        "size-max",
        "stripes",
        "stripe-size",
        "pool",
        "extra.*",
        "keep",
    ]),
    every: Every::Once,
    read: |given| Ok(Box::new(Lvm::read(given)?)),
};

/// The most logical volumes; more is a slip of the pen.
const COUNT_MAX: u32 = 1000;

/// The most stripes that LVM makes.
const STRIPES_MAX: u32 = 128;

/// What our tags begin with.
const OURS: &str = "ioecho-";

struct Lvm {
    name: String,
    /// The name of the volume group; without it, one with our tag.
    vg: Option<String>,
    count: u32,
    /// The size of each volume; without it, equal shares of what is free.
    size: Option<u64>,
    /// The largest such share.
    size_max: Option<u64>,
    /// How many devices each volume lies on, and the bytes on one before the next.
    stripes: Option<(u32, Option<u64>)>,
    /// The size of the pool, if the volumes are thin.
    pool: Option<u64>,
    /// Other volumes, which nothing is replayed against, and their sizes.
    extra: Vec<(String, u64)>,
    /// Whether the volumes of the group are used as they are.
    is_kept: bool,
    limit: Duration,
}

/// The name of a volume that is replayed against, counted from 1.
fn volume_name(number: u32) -> String {
    format!("lv{number}")
}

/// Whether LVM takes this as a name (lvm(8), VALID NAMES).
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+_.-".contains(c);
    !text.is_empty()
        && text.len() <= 100
        && text.chars().all(is_part)
        && !text.starts_with('-')
        && !matches!(text, "." | "..")
}

impl Lvm {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let name = given.name.clone();
        let help = "use letters, digits, and + _ . -";
        if !name.is_empty() && !is_name(&name) {
            return Err(Wrong::new("name", format!("LVM takes no name '{name}'"), help));
        }
        let named = |text: &str| is_name(text).then(|| text.to_owned());
        let stripe_size = given.size("stripe-size")?;
        let is_power = |size: u64| size >= 4096 && size.is_power_of_two();
        if stripe_size.is_some_and(|size| !is_power(size)) {
            let help = "write a power of two from 4K on, such as 64K";
            return Err(Wrong::new("stripe-size", "this is no size of a stripe", help));
        }
        let stripes = given.count("stripes", 1..=STRIPES_MAX)?;
        if let (None, Some(_)) = (stripes, stripe_size) {
            let help = "write stripes = 2 as well";
            return Err(Wrong::new("stripe-size", "nothing is striped here", help));
        }
        let lvm = Self {
            name,
            vg: given.parsed("vg", named, help)?,
            count: given.count("count", 1..=COUNT_MAX)?.unwrap_or(1),
            size: given.size("size")?,
            size_max: given.size("size-max")?,
            stripes: stripes.map(|stripes| (stripes, stripe_size)),
            pool: given.size("pool")?,
            extra: Self::read_extra(given)?,
            is_kept: given.switch("keep")?.unwrap_or(false),
            limit: given.limit()?,
        };
        if lvm.size.is_some() && lvm.size_max.is_some() {
            let reason = "the size is given, and so needs no maximum";
            return Err(Wrong::new("size-max", reason, "leave one of the two out"));
        }
        if lvm.pool.is_some() && lvm.size.is_none() {
            let help = "write the size that each thin volume pretends to have";
            return Err(Wrong::new("size", "'size' is missing", help));
        }
        lvm.check_kept(given)?;
        Ok(lvm)
    }

    fn read_extra(given: &Given) -> std::result::Result<Vec<(String, u64)>, Wrong> {
        let mut extra = Vec::new();
        for name in given.table("extra").keys() {
            let key = format!("extra.{name}");
            let is_ours = |text: &str| {
                let number = text.strip_prefix("lv").unwrap_or_default();
                text == POOL || number.chars().all(|c| c.is_ascii_digit()) && !number.is_empty()
            };
            if !is_name(name) || is_ours(name) {
                let reason = format!("an extra volume cannot have the name '{name}'");
                return Err(Wrong::new(&key, reason, "write another name, such as drbd"));
            }
            extra.extend(given.size(&key)?.map(|size| ((*name).to_owned(), size)));
        }
        Ok(extra)
    }

    /// Of what is used as it is, nothing is made.
    fn check_kept(&self, given: &Given) -> std::result::Result<(), Wrong> {
        if !self.is_kept {
            return Ok(());
        }
        if self.vg.is_none() {
            let help = "write vg = \"NAME\", the volume group that is there";
            return Err(Wrong::new("vg", "'vg' is missing", help));
        }
        let kept = ["vg", "count", "keep", "limit"];
        match given.settings.keys().find(|key| !kept.contains(&key.as_str())) {
            Some(key) => {
                let reason = format!("with keep = true nothing is made, so '{key}' means nothing");
                Err(Wrong::new(key, reason, "leave one of the two out"))
            }
            None => Ok(()),
        }
    }

    /// The name of the volume group.
    fn group(&self, tag: &str) -> String {
        self.vg.clone().unwrap_or_else(|| format!("{tag}-{}", self.name))
    }

    /// Refuses devices of somebody's volume group, and a group of this name. `may_be_ours` where
    /// what an earlier process left is undone first.
    fn refuse_foreign(
        &self,
        ground: &dyn Ground,
        on: &[Volume],
        tag: &str,
        may_be_ours: bool,
    ) -> Result<()> {
        if !ground.may_ask() {
            return Ok(());
        }
        let is_foreign =
            |tags: &str| !(may_be_ours && tags.split(',').any(|it| it.starts_with(OURS)));
        for volume in on.iter().filter(|volume| volume.is_there) {
            if let Some((group, tags)) = self.group_of(ground, &volume.path)?
                && is_foreign(&tags)
            {
                return Err(Fault::Refused(format!(
                    "{} belongs to the volume group '{group}', which is not this campaign's\n  \
                     = help: take it out of the group first (vgreduce, vgremove), or use the \
                     group as it is: keep = true",
                    volume.path
                )));
            }
        }
        let group = self.group(tag);
        match self.tags_of(ground, &group)? {
            Some(tags) if is_foreign(&tags) => Err(Fault::Refused(format!(
                "there is a volume group '{group}' already, which is not this campaign's\n  = \
                 help: write another name, or keep = true to use its volumes as they are"
            ))),
            _ => Ok(()),
        }
    }

    /// The volumes of a group that is used as it is.
    fn kept(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Vec<Volume>> {
        let group = self.group("");
        let devices = self.devices_of(ground, &group)?;
        if devices.is_empty() {
            return Err(Fault::Lacking(format!("there is no volume group '{group}'")));
        }
        let is_below = |device: &String| {
            ground.real(device).is_some_and(|real| on.iter().any(|volume| volume.path == real))
        };
        if let Some(device) = devices.iter().find(|device| !is_below(device)) {
            return Err(Fault::Refused(format!(
                "the volume group '{group}' also lies on {device}, which is not below it in the \
                 stack\n  = help: name all its devices"
            )));
        }
        let may_lose = on.iter().all(|volume| volume.may_lose);
        let paths = self.volumes_of(ground, &group)?;
        if paths.len() < self.count as usize {
            let found = paths.len();
            let text =
                format!("the volume group '{group}' has {found} volumes, not {}", self.count);
            return Err(Fault::Lacking(text));
        }
        let paths = paths.iter().take(self.count as usize);
        paths.map(|path| Ok(Volume { may_lose, ..ground.volume(path)? })).collect()
    }

    /// Refuses what cannot fit on volumes whose sizes are known.
    fn check_room(&self, on: &[Volume]) -> Result<()> {
        let there: u64 = on.iter().map(|volume| volume.size).fold(0, u64::saturating_add);
        let each = if self.pool.is_some() { None } else { self.size };
        let volumes = each.map_or(0, |size| size.saturating_mul(u64::from(self.count)));
        let extra = self.extra.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
        let wanted = volumes.saturating_add(extra).saturating_add(self.pool.unwrap_or(0));
        if on.iter().all(|volume| volume.size > 0) && wanted > there {
            let text = format!("volumes of {wanted} bytes do not fit on {there} bytes");
            return Err(Fault::Refused(text));
        }
        match self.stripes {
            Some((stripes, _)) if stripes as usize > on.len() => Err(Fault::Refused(format!(
                "{stripes} stripes need as many devices below it in the stack, not {}",
                on.len()
            ))),
            _ => Ok(()),
        }
    }
}

/// The name of the pool of thin volumes.
const POOL: &str = "pool";

impl Module for Lvm {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let on = block_volumes(on)?;
        tools(ground, &["pvs", "vgs", "lvs"])?;
        let unknown = |path: String, size: u64, may_lose: bool| Volume {
            path,
            kind: Kind::Block,
            size,
            may_lose,
            is_there: false,
        };
        if self.is_kept {
            let are_there = on.iter().all(|volume| volume.is_there);
            let volumes = if are_there && ground.may_ask() {
                self.kept(ground, on)?
            } else {
                let may_lose = on.iter().all(|volume| volume.may_lose);
                let path = format!("/dev/{}/*", self.group(""));
                (0..self.count).map(|_| unknown(path.clone(), 0, may_lose)).collect()
            };
            let does = vec![format!("uses the volume group {} as it is", self.group(""))];
            return Ok(Outlook { does, volumes, ..Outlook::default() });
        }
        tools(ground, &["wipefs", "pvcreate", "pvremove", "vgcreate", "vgremove"])?;
        tools(ground, &["lvcreate", "lvremove", "sh"])?;
        if self.pool.is_some() {
            // LVM does not activate a pool without it.
            tools(ground, &["thin_check"])?;
        }
        self.check_room(on)?;
        let tag = "ioecho-*";
        self.refuse_foreign(ground, on, tag, true)?;
        let group = self.group(tag);
        let mut does: Vec<String> =
            on.iter().map(|volume| self.wipe(&volume.path).to_string()).collect();
        does.extend(on.iter().map(|volume| format!("pvcreate {}", volume.path)));
        does.push(self.make_group(&group, tag, on).to_string());
        let volume = |(name, size): (&str, commands::Size)| {
            self.make_volume(&group, tag, name, size).to_string()
        };
        does.extend(self.made(None).iter().map(|(name, size)| volume((name, *size))));
        let path = |number| format!("/dev/{group}/{}", volume_name(number));
        let size = self.size.unwrap_or(0);
        let volumes = (1..=self.count).map(|number| unknown(path(number), size, true)).collect();
        let loses = on.iter().map(|volume| volume.path.clone()).collect();
        Ok(Outlook { does, loses, seconds: None, volumes })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let (on, ground, tag) = (block_volumes(on)?, ledger.ground(), ledger.tag());
        if self.is_kept {
            return self.kept(ground, on);
        }
        self.refuse_foreign(ground, on, &tag, false)?;
        on.iter().try_for_each(|volume| given_up(ground, volume))?;
        for volume in on {
            ledger.lose(volume, &self.wipe(&volume.path))?;
        }
        for volume in on {
            let number = ledger.mark();
            ledger.make(self.physical(&tag, number, &volume.path))?;
        }
        let group = self.group(&tag);
        ledger.make(self.group_of_all(&group, &tag, on))?;
        let share = if self.size.is_none() { Some(self.share(ground, &group)?) } else { None };
        for (name, size) in self.made(share) {
            ledger.make(self.logical(&group, &tag, &name, size))?;
        }
        let path = |number| format!("/dev/{group}/{}", volume_name(number));
        let volume = |number| Ok(Volume { may_lose: true, ..ground.volume(&path(number))? });
        (1..=self.count).map(volume).collect()
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        match on.iter().find(|volume| ground.volume(&volume.path).is_err()) {
            Some(volume) => Err(Fault::Failed(format!("{} is gone", volume.path))),
            None => Ok(()),
        }
    }
}

impl Lvm {
    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }
}
