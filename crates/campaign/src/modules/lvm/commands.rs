//! The commands of LVM: what makes, removes and shows (lvm(8), lvmreport(7)).

use super::super::mark;
use super::{Lvm, POOL, volume_name};
use crate::ground::{Command, Fault, Ground, Result, Volume};
use crate::ledger::Making;
use crate::ledger::line::Probe;

/// Removes a physical volume, wherever its device is now; `$0` is its UUID.
pub(super) const REMOVE_PHYSICAL: &str =
    r#"pvremove --yes $(pvs --noheadings -o pv_name -S "pv_uuid=$0")"#;

/// The size of a logical volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// In bytes.
    Bytes(u64),
    /// In extents of the group.
    Extents(u64),
    /// An equal share of what is free, which is not known yet.
    Share,
    /// A pool of so many bytes.
    Pool(u64),
    /// What a thin volume pretends to have, in bytes.
    Thin(u64),
}

impl Lvm {
    /// What takes the signatures from a device whose data are given up.
    pub(super) fn wipe(&self, path: &str) -> Command {
        self.command(["wipefs", "--all", path])
    }

    /// The volumes that are made, in their order. `share` is the number of extents of each that is
    /// replayed against, where no size is given.
    pub(super) fn made(&self, share: Option<u64>) -> Vec<(String, Size)> {
        let mut made: Vec<(String, Size)> =
            self.extra.iter().map(|(name, size)| (name.clone(), Size::Bytes(*size))).collect();
        made.extend(self.pool.map(|size| (POOL.to_owned(), Size::Pool(size))));
        let each = match (self.size, self.pool) {
            (Some(size), Some(_)) => Size::Thin(size),
            (Some(size), None) => Size::Bytes(size),
            (None, _) => share.map_or(Size::Share, Size::Extents),
        };
        made.extend((1..=self.count).map(|number| (volume_name(number), each)));
        made
    }

    /// A device that becomes a physical volume, with a UUID of ours.
    pub(super) fn physical(&self, tag: &str, number: usize, path: &str) -> Making {
        let uuid = physical_uuid(&format!("{tag}-{}", self.name), number);
        let select = format!("pv_uuid={uuid}");
        let ask = ["pvs", "--noheadings", "-o", "pv_uuid", "-S", &select];
        Making {
            kind: "physical volume",
            id: path.to_owned(),
            create: self.command(["pvcreate", "--yes", "--norestorefile", "--uuid", &uuid, path]),
            remove: self.command(["sh", "-c", REMOVE_PHYSICAL, &uuid]),
            exists: Probe::Command { ask: self.command(ask), ours: uuid.clone() },
        }
    }

    pub(super) fn make_group(&self, group: &str, tag: &str, on: &[Volume]) -> Command {
        let fixed = ["vgcreate", "--yes", "--addtag", tag, group].map(str::to_owned);
        self.command(fixed.into_iter().chain(on.iter().map(|volume| volume.path.clone())))
    }

    /// The volume group of the devices.
    pub(super) fn group_of_all(&self, group: &str, tag: &str, on: &[Volume]) -> Making {
        let select = format!("vg_name={group}");
        let ask = ["vgs", "--noheadings", "-o", "vg_name,vg_tags", "-S", &select];
        Making {
            kind: "volume group",
            id: group.to_owned(),
            create: self.make_group(group, tag, on),
            remove: self.command(["vgremove", "--yes", group]),
            exists: Probe::Command { ask: self.command(ask), ours: tag.to_owned() },
        }
    }

    pub(super) fn make_volume(&self, group: &str, tag: &str, name: &str, size: Size) -> Command {
        let mut argv: Vec<String> =
            ["lvcreate", "--yes", "--addtag", tag, "--name", name].map(str::to_owned).to_vec();
        match size {
            Size::Bytes(bytes) => argv.push(format!("--size={bytes}b")),
            Size::Extents(extents) => argv.push(format!("--extents={extents}")),
            Size::Share => argv.push("--extents=*".to_owned()),
            Size::Pool(bytes) => {
                argv.extend(["--type=thin-pool".to_owned(), format!("--size={bytes}b")]);
            }
            Size::Thin(bytes) => {
                argv.push("--type=thin".to_owned());
                argv.extend([format!("--virtualsize={bytes}b"), format!("--thinpool={POOL}")]);
            }
        }
        // Signatures of what lay there before must not turn up in a new volume.
        if !matches!(size, Size::Pool(_) | Size::Thin(_)) {
            argv.extend(["--wipesignatures=y", "--zero=y"].map(str::to_owned));
        }
        let is_data = name == POOL || self.pool.is_none() && self.replayed(name);
        if let Some((stripes, size)) = self.stripes.filter(|_| is_data) {
            argv.push(format!("--stripes={stripes}"));
            argv.extend(size.map(|size| format!("--stripesize={size}b")));
        }
        argv.push(group.to_owned());
        self.command(argv)
    }

    fn replayed(&self, name: &str) -> bool {
        !self.extra.iter().any(|(extra, _)| extra == name)
    }

    /// A logical volume.
    pub(super) fn logical(&self, group: &str, tag: &str, name: &str, size: Size) -> Making {
        let select = format!("vg_name={group} && lv_name={name}");
        let ask = ["lvs", "--noheadings", "-o", "lv_name,lv_tags", "-S", &select];
        let id = format!("{group}/{name}");
        Making {
            kind: "logical volume",
            create: self.make_volume(group, tag, name, size),
            remove: self.command(["lvremove", "--yes", &id]),
            exists: Probe::Command { ask: self.command(ask), ours: tag.to_owned() },
            id,
        }
    }

    /// The extents of each volume, where each gets an equal share of what is free.
    pub(super) fn share(&self, ground: &dyn Ground, group: &str) -> Result<u64> {
        let figures = ["--noheadings", "--units", "b", "--nosuffix"];
        let fields = ["-o", "vg_free_count,vg_extent_size", group];
        let ask = self.command(["vgs"].into_iter().chain(figures).chain(fields));
        let text = ground.ask(&ask)?.good(&ask)?.stdout;
        let mut words = text.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(free)), Some(Ok(extent))) = (words.next(), words.next()) else {
            return Err(Fault::Failed(format!("{ask}: it told '{}'", text.trim())));
        };
        // What the extra volumes will take, in whole extents.
        let of_extra = |(_, size): &(String, u64)| size.div_ceil(extent.max(1));
        let extra = self.extra.iter().map(of_extra).fold(0, u64::saturating_add);
        let most = self.size_max.map_or(u64::MAX, |size| size / extent.max(1));
        // As many from each device.
        let stripes = u64::from(self.stripes.map_or(1, |(stripes, _)| stripes));
        let share = free.saturating_sub(extra) / u64::from(self.count);
        match share.min(most) / stripes * stripes {
            0 => Err(Fault::Refused(format!("'{group}' has no room for {} volumes", self.count))),
            share => Ok(share),
        }
    }

    /// The volume group of a device, and its tags; `None` if it is in none.
    pub(super) fn group_of(
        &self,
        ground: &dyn Ground,
        path: &str,
    ) -> Result<Option<(String, String)>> {
        let ask = self.command(["pvs", "--noheadings", "-o", "vg_name,vg_tags", path]);
        let output = ground.ask(&ask)?;
        let mut words = output.stdout.split_whitespace();
        let group = words.next().filter(|_| output.is_good());
        Ok(group.map(|group| (group.to_owned(), words.next().unwrap_or_default().to_owned())))
    }

    /// The tags of a volume group; `None` if there is none.
    pub(super) fn tags_of(&self, ground: &dyn Ground, group: &str) -> Result<Option<String>> {
        let select = format!("vg_name={group}");
        let ask =
            self.command(["vgs", "--noheadings", "-o", "vg_name,vg_tags", "-S", select.as_str()]);
        let output = ground.ask(&ask)?.good(&ask)?;
        let mut words = output.stdout.split_whitespace();
        Ok(words.next().map(|_| words.next().unwrap_or_default().to_owned()))
    }

    /// The devices of a volume group.
    pub(super) fn devices_of(&self, ground: &dyn Ground, group: &str) -> Result<Vec<String>> {
        let select = format!("vg_name={group}");
        self.listed(ground, ["pvs", "--noheadings", "-o", "pv_name", "-S", select.as_str()])
    }

    /// The paths of the logical volumes of a group, by their names.
    pub(super) fn volumes_of(&self, ground: &dyn Ground, group: &str) -> Result<Vec<String>> {
        // A pool has no path of its own that could be replayed against.
        let select = format!("vg_name={group} && lv_layout!=pool");
        let sorted = ["-O", "lv_name", "-S", select.as_str()];
        let argv = ["lvs", "--noheadings", "-o", "lv_path"].into_iter().chain(sorted);
        self.listed(ground, argv)
    }

    fn listed<'a>(
        &self,
        ground: &dyn Ground,
        argv: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<String>> {
        let ask = self.command(argv);
        let output = ground.ask(&ask)?.good(&ask)?;
        Ok(output.stdout.split_whitespace().map(str::to_owned).collect())
    }
}

/// The UUID of a physical volume, in LVM's groups of 6, 4, 4, 4, 4, 4 and 6 digits.
fn physical_uuid(name: &str, number: usize) -> String {
    let digits = mark(&format!("{name}-{number}"));
    let (mut uuid, mut at) = (String::new(), 0);
    for length in [6, 4, 4, 4, 4, 4, 6] {
        if at > 0 {
            uuid.push('-');
        }
        uuid.push_str(&digits[at..at + length]);
        at += length;
    }
    uuid
}
