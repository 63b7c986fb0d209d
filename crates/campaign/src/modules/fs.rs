//! `fs`: a file system on the volume below, mounted, and a file in it to replay against.
//!
//! Applications write to files. What a file system adds to a device's time is measured by the same
//! load on a file in it. The mount point has our tag and goes with the mount.

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::line::Probe;
use crate::ledger::{Ledger, Making};

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "fs",
    keys: Keys::These(&["type", "size", "mkfs", "options", "directory"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Fs::read(given)?)),
};

const TYPES: [(&str, Type); 3] = [("ext4", Type::Ext4), ("xfs", Type::Xfs), ("btrfs", Type::Btrfs)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Ext4,
    Xfs,
    Btrfs,
}

struct Fs {
    name: String,
    kind: Type,
    /// The size of the file.
    size: u64,
    /// Arguments of mkfs.
    mkfs: Vec<String>,
    /// Options of the mount.
    options: Option<String>,
    /// Where the mount point is made.
    directory: String,
    limit: std::time::Duration,
}

impl Type {
    fn word(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// The flag by which mkfs overwrites what it finds: that it may was decided before.
    fn force(self) -> &'static str {
        match self {
            Self::Ext4 => "-F",
            Self::Xfs | Self::Btrfs => "-f",
        }
    }
}

impl Fs {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let missing = || Wrong::new("size", "'size' is missing", "write the file's: size = \"1G\"");
        Ok(Self {
            name: given.name.clone(),
            kind: given.word("type", &TYPES)?,
            size: given.size("size")?.ok_or_else(missing)?,
            mkfs: given.list("mkfs")?.unwrap_or_default(),
            options: given.list("options")?.map(|options| options.join(",")),
            directory: given.path(given.text("directory")?.unwrap_or("/var/tmp")),
            limit: given.limit()?,
        })
    }

    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }

    fn make_fs(&self, device: &str) -> Command {
        let program = format!("mkfs.{}", self.kind.word());
        let fixed = [program, self.kind.force().to_owned()];
        let own = self.mkfs.iter().cloned().chain([device.to_owned()]);
        self.command(fixed.into_iter().chain(own))
    }

    fn mount(&self, device: &str, at: &str) -> Command {
        let options = self.options.iter().flat_map(|it| ["-o".to_owned(), it.clone()]);
        let fixed = ["mount", "-t", self.kind.word()].map(str::to_owned);
        let what = [device.to_owned(), at.to_owned()];
        self.command(fixed.into_iter().chain(options).chain(what))
    }

    fn one(on: &[Volume]) -> Result<&Volume> {
        match on {
            [volume] if volume.kind == Kind::Block => Ok(volume),
            _ => Err(Fault::Refused("it is made on one block device".to_owned())),
        }
    }
}

impl Module for Fs {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let below = Self::one(on)?;
        super::tools(ground, &[&format!("mkfs.{}", self.kind.word()), "mount", "fallocate"])?;
        if below.size < self.size && below.size > 0 {
            let text = format!("a file of {} bytes does not fit on {}", self.size, below.path);
            return Err(Fault::Refused(text));
        }
        let at = format!("{}/ioecho-*-{}", self.directory, self.name);
        let does = vec![
            self.make_fs(&below.path).to_string(),
            self.mount(&below.path, &at).to_string(),
            format!("fallocate --length {} {at}/target", self.size),
        ];
        let (path, kind, size) = (format!("{at}/target"), Kind::File, self.size);
        let volumes = vec![Volume { path, kind, size, may_lose: true, is_there: false }];
        Ok(Outlook { does, loses: vec![below.path.clone()], seconds: None, volumes })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let below = Self::one(on)?;
        let directory = super::real_directory(ledger.ground(), &self.directory)?;
        ledger.lose(below, &self.make_fs(&below.path))?;
        let at = format!("{directory}/{}-{}", ledger.tag(), self.name);
        ledger.make(Making {
            kind: "directory",
            id: at.clone(),
            create: self.command(["mkdir", "--", &at]),
            remove: self.command(["rmdir", "--", &at]),
            exists: Probe::File { path: at.clone(), ours: None },
        })?;
        ledger.make(Making {
            kind: "mount",
            id: at.clone(),
            create: self.mount(&below.path, &at),
            remove: self.command(["umount", "--", &at]),
            exists: Probe::Line {
                path: "/proc/self/mounts".to_owned(),
                word: at.clone(),
                ours: below.path.clone(),
            },
        })?;
        let file = format!("{at}/target");
        let length = self.size.to_string();
        ledger.make(Making {
            kind: "file",
            id: file.clone(),
            create: self.command(["fallocate", "--length", &length, &file]),
            remove: self.command(["rm", "--", &file]),
            exists: Probe::File { path: file.clone(), ours: None },
        })?;
        Ok(vec![Volume { may_lose: true, ..ledger.ground().volume(&file)? }])
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        let is_whole =
            |volume: &&Volume| ground.volume(&volume.path).is_ok_and(|now| now.size == self.size);
        match on.iter().find(|volume| !is_whole(volume)) {
            Some(volume) => Err(Fault::Failed(format!("{} is not as it was made", volume.path))),
            None => Ok(()),
        }
    }
}
