//! `loop`: a block device made of a file.
//!
//! Without a spare disk a campaign can still be tried, and a file system's file be measured through
//! the block layer. The file is the volume below it in the stack, or one that is made here: its
//! name has our tag, so it is never taken for somebody's.

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::line::Probe;
use crate::ledger::{Ledger, Making, Presence};

/// The most devices; more is a slip of the pen.
const COUNT_MAX: u32 = 100;

/// How often a free device is asked for.
const TRIES: usize = 8;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "loop",
    keys: Keys::These(&["size", "count", "directory", "direct", "sector-size"]),
    every: Every::Once,
    read: |given| Ok(Box::new(Loop::read(given)?)),
};

struct Loop {
    name: String,
    /// The size of a file that is made, if there is none below.
    size: Option<u64>,
    /// How many files are made, each with a device.
    count: u32,
    /// Where they are made.
    directory: String,
    is_direct: bool,
    sector_size: Option<u64>,
    limit: std::time::Duration,
}

impl Loop {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let (size, count) = (given.size("size")?, given.count("count", 1..=COUNT_MAX)?);
        if let (None, Some(_)) = (size, count) {
            let help = "write the size of each file as well";
            return Err(Wrong::new("count", "no file is made here", help));
        }
        Ok(Self {
            name: given.name.clone(),
            size,
            count: count.unwrap_or(1),
            directory: given.path(given.text("directory")?.unwrap_or("/var/tmp")),
            is_direct: given.switch("direct")?.unwrap_or(true),
            sector_size: given.size("sector-size")?,
            limit: given.limit()?,
        })
    }

    fn command<S: Into<String>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        Command::new(argv).within(self.limit)
    }

    /// The commands that make the file, and the device of it.
    fn attach(&self, device: &str, file: &str) -> Command {
        let mut argv = vec!["losetup".to_owned()];
        if self.is_direct {
            argv.push("--direct-io=on".to_owned());
        }
        argv.extend(self.sector_size.map(|size| format!("--sector-size={size}")));
        argv.extend([device.to_owned(), file.to_owned()]);
        self.command(argv)
    }

    /// The file below, or `None` if one is made.
    fn below<'v>(&self, on: &'v [Volume]) -> Result<Option<&'v Volume>> {
        match (on, self.size) {
            ([], Some(_)) => Ok(None),
            ([], None) => {
                let text = "there is no file below it, and it has no size to make one";
                Err(Fault::Refused(text.to_owned()))
            }
            ([file], None) if file.kind == Kind::File => Ok(Some(file)),
            ([_], None) => Err(Fault::Refused("it is made of a file".to_owned())),
            ([_], Some(_)) => {
                let text = "there is a file below it, so it has no size of its own";
                Err(Fault::Refused(text.to_owned()))
            }
            _ => Err(Fault::Refused("it is made of one file".to_owned())),
        }
    }

    /// The name of a file that is made, of which there may be several.
    fn file_name(&self, tag: &str, number: u32) -> String {
        let number = if self.count > 1 { format!("-{number}") } else { String::new() };
        format!("{tag}-{}{number}.img", self.name)
    }

    fn make_file(&self, ledger: &mut Ledger<'_>, number: u32, size: u64) -> Result<String> {
        let directory = super::real_directory(ledger.ground(), &self.directory)?;
        let file = format!("{directory}/{}", self.file_name(&ledger.tag(), number));
        let length = size.to_string();
        ledger.make(Making {
            kind: "file",
            id: file.clone(),
            create: self.command(["fallocate", "--length", &length, &file]),
            remove: self.command(["rm", "--", &file]),
            exists: Probe::File { path: file.clone(), ours: None },
        })?;
        Ok(file)
    }

    /// Makes a loop device of the file, and another one if somebody else takes the free one first.
    fn make_device(&self, ledger: &mut Ledger<'_>, file: &str) -> Result<String> {
        let ask = self.command(["losetup", "--find"]);
        let mut tries = 0;
        loop {
            let device = ledger.ground().ask(&ask)?.good(&ask)?.stdout.trim().to_owned();
            let name = device.rsplit('/').next().unwrap_or_default();
            let path = format!("/sys/block/{name}/loop/backing_file");
            let exists = Probe::File { path, ours: Some(file.to_owned()) };
            let made = ledger.make(Making {
                kind: "loop device",
                id: device.clone(),
                create: self.attach(&device, file),
                remove: self.command(["losetup", "--detach", &device]),
                exists: exists.clone(),
            });
            let Err(fault) = made else { return Ok(device) };
            tries += 1;
            if tries == TRIES || ledger.presence(&exists)? != Presence::Foreign {
                return Err(fault);
            }
        }
    }
}

impl Module for Loop {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        super::tools(ground, &["losetup", "fallocate"])?;
        let below = self.below(on)?;
        let (file, size, may_lose) = match (below, self.size) {
            (Some(file), _) => (file.path.clone(), file.size, file.may_lose),
            (None, size) => {
                let size = size.unwrap_or_default();
                if !ground.exists(&self.directory) {
                    let text = format!("{}: there is no such directory", self.directory);
                    return Err(Fault::Lacking(text));
                }
                (String::new(), size, true)
            }
        };
        let (mut does, mut volumes) = (Vec::new(), Vec::new());
        for number in 1..=self.count {
            let mut file = file.clone();
            if below.is_none() {
                file = format!("{}/{}", self.directory, self.file_name("ioecho-*", number));
                does.push(format!("fallocate --length {size} {file}"));
            }
            does.push(self.attach("/dev/loop*", &file).to_string());
            let (path, kind) = ("/dev/loop*".to_owned(), Kind::Block);
            volumes.push(Volume { path, kind, size, may_lose, is_there: false });
        }
        Ok(Outlook { does, volumes, ..Outlook::default() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let below = self.below(on)?.cloned();
        let mut volumes = Vec::new();
        for number in 1..=self.count {
            let (file, may_lose) = match (&below, self.size) {
                (Some(file), _) => (file.path.clone(), file.may_lose),
                (None, size) => (self.make_file(ledger, number, size.unwrap_or_default())?, true),
            };
            let device = self.make_device(ledger, &file)?;
            volumes.push(Volume { may_lose, ..ledger.ground().volume(&device)? });
        }
        Ok(volumes)
    }

    fn verify(&self, ground: &dyn Ground, on: &[Volume]) -> Result<()> {
        for volume in on {
            let file = format!("/sys/block/{}/loop/backing_file", volume.name());
            if ground.read(&file)?.is_none() {
                return Err(Fault::Failed(format!("{} has no file any more", volume.path)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::Output;
    use crate::ground::fake::Fake;
    use crate::value::Value;

    #[test]
    fn a_free_device_that_somebody_else_takes_first_is_left_to_them() {
        let fake = Fake::new();
        fake.state_mut().put("/var/tmp", "");
        fake.install("fallocate", |state, words| {
            state.put(words[2], "");
            Output { code: Some(0), ..Output::default() }
        });
        // The first device is free when it is asked for, and taken before it is used.
        fake.install("losetup", |state, words| {
            let backing = |device: &str| format!("/sys/block/{device}/loop/backing_file");
            let is_taken = |state: &crate::ground::fake::State, device: &str| {
                state.files.contains_key(&backing(device))
            };
            if words == ["--find"] {
                let free = if is_taken(state, "loop0") { "/dev/loop1" } else { "/dev/loop0" };
                return Output { code: Some(0), stdout: free.to_owned(), ..Output::default() };
            }
            let (device, file) = (words[1].trim_start_matches("/dev/").to_owned(), words[2]);
            if device == "loop0" {
                state.put(&backing("loop0"), "/somebody/else");
                return Output { code: Some(1), ..Output::default() };
            }
            state.put(&backing(&device), file);
            state.put_disk(words[1], 1 << 20);
            Output { code: Some(0), ..Output::default() }
        });
        let settings = [("size".to_owned(), Value::One("1M".to_owned()))].into();
        let given = Given { name: "l".to_owned(), settings, ..Given::default() };
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        let volumes = Loop::read(&given).unwrap().apply(&mut ledger, &[]).unwrap();
        assert_eq!(volumes[0].path, "/dev/loop1");
        let would = ledger.would_undo();
        assert!(would.back.iter().all(|it| !it.contains("loop0")), "{would:?}");
        assert!(would.back.iter().any(|it| it.contains("/dev/loop1")), "{would:?}");
    }
}
