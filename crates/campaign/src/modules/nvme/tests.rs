//! `NVMe` over Fabrics on a machine in memory, which knows configfs and `nvme`.

use super::super::configfs::tests as configfs;
use super::super::killed;
use super::*;
use crate::ground::fake::Fake;
use crate::ground::{Fault, Output};
use crate::value::Value;

const DISKS: [&str; 2] = ["/dev/sda", "/dev/sdb"];

fn output(is_good: bool, stdout: String) -> Output {
    Output { code: Some(i32::from(!is_good)), stdout, ..Output::default() }
}

/// A machine with two disks, nvmet and nvme-cli. A connection is `/connected/NAME`.
fn machine() -> Fake {
    let fake = configfs::machine(&DISKS);
    fake.state_mut().put(NVMET, "");
    fake.install("grep", |_, _| output(true, String::new()));
    fake.install("sh", |state, words| {
        assert_eq!(words[1], CONNECTED);
        let is_there = state.files.contains_key(&format!("/connected/{}", words[2]));
        output(is_there, if is_there { format!("{}\n", words[2]) } else { String::new() })
    });
    fake.install("nvme", |state, words| {
        let name = words[1].trim_start_matches("--nqn=");
        let connection = format!("/connected/{name}");
        if words[0] == "disconnect" {
            let is_there = state.files.remove(&connection).is_some();
            let is_of_it = |path: &str| path.contains("nvme-subsys") || path.contains("nvme0n");
            state.files.retain(|path, _| !is_of_it(path));
            state.volumes.retain(|path, _| DISKS.contains(&path.as_str()));
            return output(is_there, String::new());
        }
        let is_linked = |path: &String| path.ends_with(&format!("/subsystems/{name}"));
        if !state.files.keys().any(|path| path.contains("/ports/") && is_linked(path)) {
            return output(false, String::new());
        }
        state.put(&connection, &words[2..].join(" "));
        let system = "/sys/class/nvme-subsystem/nvme-subsys0";
        state.put(&format!("{system}/subsysnqn"), &format!("{name}\n"));
        for number in 1..=2 {
            state.put(&format!("{system}/nvme0/nvme0c0n{number}/x"), "");
            state.put(&format!("{system}/nvme0n{number}/x"), "");
            state.put(&format!("/sys/block/nvme0n{number}/nsid"), &format!("{number}\n"));
            state.put_disk(&format!("/dev/nvme0n{number}"), 1 << 30);
        }
        output(true, String::new())
    });
    fake
}

/// Both modules, one on the other.
struct Both(Target, Initiator);

impl Module for Both {
    fn check(&self, ground: &dyn Ground, on: &[Volume]) -> Result<Outlook> {
        let below = self.0.check(ground, on)?;
        self.1.check(ground, &below.volumes)
    }

    fn apply(&self, ledger: &mut Ledger<'_>, on: &[Volume]) -> Result<Vec<Volume>> {
        let below = self.0.apply(ledger, on)?;
        self.1.apply(ledger, &below)
    }
}

fn target(settings: &[(&str, &str)]) -> std::result::Result<Target, Wrong> {
    let one = |(key, value): &(&str, &str)| ((*key).to_owned(), Value::One((*value).to_owned()));
    let settings = settings.iter().map(one).collect();
    Target::read(&Given { name: "t".to_owned(), settings, ..Given::default() })
}

fn both(settings: &[(&str, &str)]) -> Both {
    Both(target(settings).unwrap(), Initiator { limit: Duration::from_secs(5) })
}

#[test]
fn a_volume_is_exported_and_comes_back_as_a_namespace() {
    let tcp: &[(&str, &str)] = &[("transport", "tcp"), ("portal", "10.0.0.1:5000")];
    for (settings, told) in
        [(&[][..], "--transport=loop"), (tcp, "--transport=tcp --traddr=10.0.0.1 --trsvcid=5000")]
    {
        let fake = machine();
        let on = configfs::on(&fake, &DISKS);
        let both = both(settings);
        assert_eq!(both.check(&fake, &on).unwrap().volumes.len(), 2);
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        let volumes = both.apply(&mut ledger, &on).unwrap();
        let paths: Vec<&str> = volumes.iter().map(|volume| volume.path.as_str()).collect();
        assert_eq!(paths, ["/dev/nvme0n1", "/dev/nvme0n2"]);
        let ran = fake.state().ran.join("\n");
        assert!(ran.contains(told), "{ran}");
        assert_eq!(ledger.undo(0).unwrap().left, []);
        assert!(configfs::same(&fake, &machine()));
    }
}

#[test]
fn wherever_it_is_killed_no_target_is_left() {
    for settings in [&[][..], &[("transport", "tcp")]] {
        killed::everywhere(&machine, &both(settings), &DISKS, &configfs::same);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (settings, key) in [
        (&[("portal", "10.0.0.1")][..], "portal"),
        (&[("transport", "rdma")], "transport"),
        (&[("nqn", "a b")], "nqn"),
    ] {
        assert_eq!(target(settings).err().map(|wrong| wrong.key).as_deref(), Some(key));
    }
    let fake = machine();
    let on = configfs::on(&fake, &DISKS);
    let initiator = Initiator { limit: Duration::from_secs(5) };
    assert!(matches!(initiator.check(&fake, &on), Err(Fault::Refused(_))));
    let given = [Volume { may_lose: false, ..on[0].clone() }];
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let applied = target(&[]).unwrap().apply(&mut ledger, &given);
    assert!(matches!(applied, Err(Fault::Refused(_))));
    assert_eq!(fake.state().ran, [""; 0]);
}
