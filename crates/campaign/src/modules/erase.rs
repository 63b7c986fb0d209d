//! `erase`: the volume is as if it had never been written.
//!
//! An SSD is as fast as what it holds lets it be. So before a device is filled, everything it holds
//! is given up: by discarding, by the drive's own command, or by zeroes. Commands of a drive may
//! erase more than the volume, so they are refused where it has other namespaces.

use std::time::Duration;

use super::{Every, Family, Given, Keys, Module, Outlook, Wrong};
use crate::ground::{Command, Fault, Ground, Kind, Result, Volume};
use crate::ledger::Ledger;

/// The module.
pub(super) const FAMILY: Family = Family {
    name: "erase",
    keys: Keys::These(&["method"]),
    every: Every::Cell,
    read: |given| Ok(Box::new(Erase::read(given)?)),
};

/// The password that a drive has while it is erased by hdparm.
const PASSWORD: &str = "ioecho";

/// How often a drive is asked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Discard,
    Zeroes,
    NvmeFormat,
    NvmeSanitize,
    Hdparm,
    SgFormat,
}

const METHODS: [(&str, Method); 6] = [
    ("discard", Method::Discard),
    ("zeroes", Method::Zeroes),
    ("nvme-format", Method::NvmeFormat),
    ("nvme-sanitize", Method::NvmeSanitize),
    ("hdparm", Method::Hdparm),
    ("sg-format", Method::SgFormat),
];

struct Erase {
    method: Method,
    limit: Duration,
}

impl Erase {
    fn read(given: &Given) -> std::result::Result<Self, Wrong> {
        let method = given.word("method", &METHODS)?;
        Ok(Self { method, limit: given.span("limit")?.unwrap_or(super::fill::LIMIT) })
    }

    /// The command that loses the data.
    fn command(&self, volume: &Volume) -> Command {
        let path = volume.path.as_str();
        let length = volume.size.to_string();
        let is_file = volume.kind == Kind::File;
        let controller = controller(path);
        let argv: Vec<&str> = match self.method {
            Method::Discard if is_file => {
                vec!["fallocate", "--punch-hole", "--offset", "0", "--length", &length, path]
            }
            Method::Zeroes if is_file => {
                vec!["fallocate", "--zero-range", "--offset", "0", "--length", &length, path]
            }
            Method::Discard => vec!["blkdiscard", "--force", path],
            Method::Zeroes => vec!["blkdiscard", "--force", "--zeroout", path],
            Method::NvmeFormat => vec!["nvme", "format", "--ses=1", "--force", path],
            Method::NvmeSanitize => vec!["nvme", "sanitize", "--sanact=2", controller],
            Method::Hdparm => {
                vec!["hdparm", "--user-master", "u", "--security-erase", PASSWORD, path]
            }
            Method::SgFormat => vec!["sg_format", "--format", "--quiet", path],
        };
        Command::new(argv).within(self.limit)
    }

    /// Refuses a method that would erase more than the volume, or is not one for it.
    fn suits(&self, ground: &dyn Ground, volume: &Volume) -> Result<()> {
        let method = METHODS.iter().find(|(_, it)| *it == self.method).map_or("", |(word, _)| word);
        let refused = |why: &str| Err(Fault::Refused(format!("{method}: {} {why}", volume.path)));
        let is_of_drive = !matches!(self.method, Method::Discard | Method::Zeroes);
        if is_of_drive && volume.kind != Kind::Block {
            return refused("is no drive");
        }
        if self.method == Method::Discard && volume.kind == Kind::Block && volume.is_there {
            let file = format!("/sys/block/{}/queue/discard_max_bytes", volume.name());
            if ground.read(&file)?.is_some_and(|text| text.trim() == "0") {
                return refused("does not discard; write method = \"zeroes\"");
            }
        }
        if matches!(self.method, Method::NvmeFormat | Method::NvmeSanitize) {
            let of_controller = |name: &&String| {
                format!("/dev/{name}") != volume.path
                    && controller(name) == controller(volume.name())
            };
            if controller(volume.name()) == volume.name() {
                return refused("is no namespace of an NVMe drive");
            }
            if let Some(other) = ground.list("/sys/block")?.iter().find(of_controller) {
                return refused(&format!("is not alone on its drive: {other} would be erased too"));
            }
        }
        Ok(())
    }

    /// Waits until a drive has sanitized itself.
    fn until_sanitized(&self, ground: &dyn Ground, path: &str) -> Result<()> {
        let log = Command::new(["nvme", "sanitize-log", "--output-format=json", controller(path)]);
        let begun = ground.seconds();
        loop {
            let output = ground.ask(&log)?.good(&log)?;
            match sanitize_status(&output.stdout) {
                // 1: it succeeded; 4: the same, and no deallocation was asked for.
                Some(1 | 4) => return Ok(()),
                Some(2) => {}
                other => {
                    let text = format!("{path}: the drive's state after sanitizing is {other:?}");
                    return Err(Fault::Failed(text));
                }
            }
            if ground.seconds() - begun > self.limit.as_secs_f64() {
                return Err(Fault::Failed(format!("{path} still sanitizes itself")));
            }
            ground.wait(LOOK_EVERY)?;
        }
    }

    fn erase(&self, ledger: &mut Ledger<'_>, volume: &Volume) -> Result<()> {
        self.suits(ledger.ground(), volume)?;
        let path = volume.path.as_str();
        if self.method == Method::Hdparm {
            if !volume.may_lose {
                let text = format!("{path}: its data would be lost, and nothing allows it");
                return Err(Fault::Refused(text));
            }
            ledger.ground().unused(path)?;
            // A drive that is cut off in the middle keeps the password, and would be locked.
            let set = ["hdparm", "--user-master", "u", "--security-set-pass", PASSWORD, path];
            let script = concat!(
                r#"hdparm -I "$1" | grep -q "not.*enabled" || "#,
                r#"hdparm --user-master u --security-disable "$0" "$1""#
            );
            let undo = Command::new(["sh", "-c", script, PASSWORD, path]);
            ledger.ran(&Command::new(set), Some(undo), serde_json::Value::Null)?;
        }
        ledger.lose(volume, &self.command(volume))?;
        if self.method == Method::NvmeSanitize {
            self.until_sanitized(ledger.ground(), path)?;
        }
        Ok(())
    }
}

/// The controller of a namespace: `nvme0` of `nvme0n1`.
fn controller(name: &str) -> &str {
    let Some(at) = name.rfind("nvme") else { return name };
    let rest = &name[at + 4..];
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match rest[digits..].strip_prefix('n') {
        Some(_) => &name[..at + 4 + digits],
        None => name,
    }
}

/// The low bits of the state in nvme-cli's JSON, which has one object for each drive.
fn sanitize_status(json: &str) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let find = |value: &serde_json::Value| value.get("sstat")?.get("status")?.as_u64();
    let direct = |value: &serde_json::Value| value.get("sstat")?.as_u64();
    let nested =
        value.as_object().and_then(|all| all.values().find_map(|it| find(it).or(direct(it))));
    Some(find(&value).or_else(|| direct(&value)).or(nested)? & 7)
}

impl Module for Erase {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let (mut does, mut loses) = (Vec::new(), Vec::new());
        for volume in super::fill::real(on)? {
            self.suits(ground, volume)?;
            let command = self.command(volume);
            super::tools(ground, &[command.program()])?;
            does.push(command.to_string());
            loses.push(volume.path.clone());
        }
        Ok(Outlook { does, loses, seconds: None, volumes: on.to_vec() })
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        for volume in super::fill::real(on)? {
            self.erase(ledger, volume)?;
        }
        Ok(on.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::Output;
    use crate::ground::fake::Fake;
    use crate::value::Value;

    fn erase(method: &str) -> Erase {
        let settings = [("method".to_owned(), Value::One(method.to_owned()))].into();
        Erase::read(&Given { settings, ..Given::default() }).unwrap()
    }

    /// A machine on which each of these tools succeeds, and a drive.
    fn machine(disk: &str) -> Fake {
        let fake = Fake::new();
        for tool in ["blkdiscard", "nvme", "hdparm", "sg_format", "sh"] {
            fake.install(tool, |_, words| {
                let stdout = match words.first() {
                    Some(&"sanitize-log") => r#"{"nvme0":{"sstat":257}}"#.to_owned(),
                    _ => String::new(),
                };
                Output { code: Some(0), stdout, ..Output::default() }
            });
        }
        fake.state_mut().put_disk(&format!("/dev/{disk}"), 1 << 30);
        fake.state_mut().put(&format!("/sys/block/{disk}/size"), "2097152");
        fake
    }

    fn ran(fake: &Fake, disk: &str, method: &str) -> Result<Vec<String>> {
        let on = [Volume { may_lose: true, ..fake.volume(&format!("/dev/{disk}"))? }];
        let mut ledger = Ledger::open(fake, fake.book(), "7", "test")?;
        erase(method).check(fake, &on)?;
        erase(method).apply(&mut ledger, &on)?;
        Ok(fake.state().ran.clone())
    }

    #[test]
    fn each_method_runs_the_command_of_its_drive() {
        for (method, disk, command) in [
            ("discard", "sda", "blkdiscard --force /dev/sda"),
            ("zeroes", "sda", "blkdiscard --force --zeroout /dev/sda"),
            ("nvme-format", "nvme0n1", "nvme format --ses=1 --force /dev/nvme0n1"),
            ("nvme-sanitize", "nvme0n1", "nvme sanitize --sanact=2 /dev/nvme0"),
            ("hdparm", "sda", "hdparm --user-master u --security-erase ioecho /dev/sda"),
            ("sg-format", "sda", "sg_format --format --quiet /dev/sda"),
        ] {
            let fake = machine(disk);
            assert_eq!(ran(&fake, disk, method).unwrap().last().unwrap(), command);
        }
    }

    #[test]
    fn a_drive_with_other_namespaces_is_not_erased() {
        for method in ["nvme-format", "nvme-sanitize"] {
            let fake = machine("nvme0n1");
            fake.state_mut().put("/sys/block/nvme0n2/size", "1");
            assert!(matches!(ran(&fake, "nvme0n1", method), Err(Fault::Refused(_))));
            assert!(fake.state().ran.is_empty());
            // Another drive's namespace is nobody's business.
            let fake = machine("nvme0n1");
            fake.state_mut().put("/sys/block/nvme01n1/size", "1");
            assert!(ran(&fake, "nvme0n1", method).is_ok());
        }
    }

    #[test]
    fn a_password_that_a_cut_off_erase_left_is_taken_back() {
        let fake = machine("sda");
        ran(&fake, "sda", "hdparm").unwrap();
        let mut ledger = Ledger::left(&fake, fake.book()).unwrap();
        assert_eq!(ledger.undo(0).unwrap().back.len(), 1);
        assert!(fake.state().ran.last().unwrap().contains("--security-disable"));
    }

    #[test]
    fn a_device_that_does_not_discard_is_refused_with_the_remedy() {
        let fake = machine("sda");
        fake.state_mut().put("/sys/block/sda/queue/discard_max_bytes", "0\n");
        let fault = ran(&fake, "sda", "discard").unwrap_err();
        assert!(fault.to_string().contains("zeroes"), "{fault}");
    }

    #[test]
    fn the_state_of_a_sanitizing_drive_is_read_in_each_form() {
        assert_eq!(sanitize_status(r#"{"nvme0":{"sprog":65535,"sstat":257}}"#), Some(1));
        assert_eq!(sanitize_status(r#"{"nvme0":{"sstat":{"status":2}}}"#), Some(2));
        assert_eq!(sanitize_status("rubbish"), None);
        assert_eq!(controller("/dev/nvme10n2"), "/dev/nvme10");
    }
}
