//! Targets of the kernel, which are set up by directories of configfs.
//!
//! To make a directory there is to set something up, and to link one to another is to export it.
//! All of it is the ledger's: directories bear our tag, and the files in one go with it.

use std::time::Duration;

use super::{Outlook, block_volumes, tools};
use crate::ground::{Command, Fault, Ground, Result, Volume};
use crate::ledger::line::Probe;
use crate::ledger::{Ledger, Making};

/// Where a kind of target is set up.
pub(super) struct Place {
    /// The directory that the kernel has for it.
    pub(super) root: &'static str,
    /// The directory of the targets, by their names.
    pub(super) targets: &'static str,
    /// The drivers that have it.
    pub(super) drivers: &'static str,
}

/// The ledger, for what lies in configfs.
pub(super) struct Configfs<'l, 'g> {
    pub(super) ledger: &'l mut Ledger<'g>,
    /// How long each change may take.
    pub(super) limit: Duration,
}

impl Configfs<'_, '_> {
    /// Makes a directory.
    pub(super) fn make(&mut self, path: &str) -> Result<()> {
        self.made("directory", path, ["mkdir", "--", path], ["rmdir", "--", path])
    }

    /// Links a directory to what it exports.
    pub(super) fn link(&mut self, to: &str, path: &str) -> Result<()> {
        self.made("link", path, ["ln", "-s", to, path], ["rm", "--", path])
    }

    /// Writes to a file within a directory that was made.
    pub(super) fn set(&mut self, file: &str, value: &str) -> Result<()> {
        self.ledger.set_within(file, value)
    }

    fn made<const C: usize, const R: usize>(
        &mut self,
        kind: &'static str,
        path: &str,
        create: [&str; C],
        remove: [&str; R],
    ) -> Result<()> {
        let making = Making {
            kind,
            id: path.to_owned(),
            create: Command::new(create).within(self.limit),
            remove: Command::new(remove).within(self.limit),
            exists: Probe::File { path: path.to_owned(), ours: None },
        };
        self.ledger.make(making).map(|_| ())
    }
}

impl Place {
    /// Refuses volumes that cannot be exported here. `name` is the target's, if the user chose it;
    /// any other has our tag.
    pub(super) fn check<'v>(
        &self,
        ground: &dyn Ground,
        on: &'v [Volume],
        name: Option<&str>,
    ) -> Result<&'v [Volume]> {
        let on = block_volumes(on)?;
        tools(ground, &["mkdir", "rmdir", "ln", "rm"])?;
        if !ground.exists(self.root) {
            return Err(Fault::Lacking(format!(
                "{}: there is no such directory\n  = help: mount -t configfs configfs \
                 /sys/kernel/config; modprobe -a {}",
                self.root, self.drivers
            )));
        }
        match name {
            Some(name) if ground.exists(&format!("{}/{name}", self.targets)) => {
                Err(Fault::Refused(format!(
                    "there is a target '{name}' already, which is not this campaign's"
                )))
            }
            _ => Ok(on),
        }
    }
}

/// What a target would do with these volumes, which become those `exported`. `told` says of each
/// how, by its number from 0 on.
pub(super) fn outlook(
    on: &[Volume],
    exported: Vec<Volume>,
    told: impl Fn(usize) -> String,
) -> Outlook {
    let does = on
        .iter()
        .enumerate()
        .map(|(number, on)| format!("exports {} as {}", on.path, told(number)));
    // Whoever reaches the target may write.
    let loses = on.iter().map(|volume| volume.path.clone()).collect();
    let volumes = exported.into_iter().map(|volume| Volume { is_there: false, ..volume }).collect();
    Outlook { does: does.collect(), loses, seconds: None, volumes }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ground::Output;
    use crate::ground::fake::{Fake, State};

    /// The files that the kernel puts into a directory of configfs, by words of its path.
    const ATTRIBUTES: [(&str, &[&str]); 7] = [
        ("/core/iblock_", &["control", "enable", "wwn/vpd_unit_serial"]),
        ("/tpgt_1", &["enable"]),
        (
            "/tpgt_1",
            &[
                "attrib/authentication",
                "attrib/generate_node_acls",
                "attrib/cache_dynamic_acls",
                "attrib/demo_mode_write_protect",
            ],
        ),
        ("/subsystems/", &["attr_allow_any_host"]),
        ("/namespaces/", &["device_path", "enable"]),
        ("/ports/", &["addr_trtype", "addr_adrfam"]),
        ("/ports/", &["addr_traddr", "addr_trsvcid"]),
    ];

    fn output(is_good: bool) -> Output {
        Output { code: Some(i32::from(!is_good)), ..Output::default() }
    }

    fn has_children(state: &State, path: &str) -> bool {
        let within = format!("{path}/");
        // What was made there by hand, not by the kernel.
        state.files.iter().any(|(file, text)| file.starts_with(&within) && text == MADE)
    }

    const MADE: &str = "made";

    /// A machine with these disks and configfs.
    pub(in super::super) fn machine(disks: &[&str]) -> Fake {
        let fake = Fake::new();
        for disk in disks {
            fake.state_mut().put_disk(disk, 1 << 30);
        }
        fake.install("mkdir", |state, words| {
            let path = words[1];
            if state.files.contains_key(path) {
                return output(false);
            }
            state.put(path, MADE);
            for (word, names) in ATTRIBUTES {
                if path.contains(word) {
                    for name in names {
                        state.put(&format!("{path}/{name}"), "");
                    }
                }
            }
            output(true)
        });
        fake.install("rmdir", |state, words| {
            let path = words[1];
            if !state.files.contains_key(path) || has_children(state, path) {
                return output(false);
            }
            let within = format!("{path}/");
            state.files.retain(|file, _| file != path && !file.starts_with(&within));
            output(true)
        });
        fake.install("ln", |state, words| {
            let is_there = state.files.contains_key(words[1]);
            state.put(words[2], MADE);
            output(is_there)
        });
        fake.install("rm", |state, words| output(state.files.remove(words[1]).is_some()));
        fake
    }

    pub(in super::super) fn on(fake: &Fake, disks: &[&str]) -> Vec<Volume> {
        let volume = |path: &&str| Volume { may_lose: true, ..fake.volume(path).unwrap() };
        disks.iter().map(volume).collect()
    }

    pub(in super::super) fn same(one: &Fake, other: &Fake) -> bool {
        let (one, other) = (one.state(), other.state());
        one.files == other.files && one.volumes == other.volumes
    }
}
