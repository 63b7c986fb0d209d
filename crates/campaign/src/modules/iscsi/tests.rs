//! Volumes over iSCSI on a machine in memory, which knows configfs and iscsiadm.

use std::cell::Cell;
use std::rc::Rc;

use super::super::configfs::tests as configfs;
use super::super::killed;
use super::*;
use crate::ground::fake::Fake;
use crate::ground::{Fault, Output};
use crate::value::Value;

const DISKS: [&str; 2] = ["/dev/sda", "/dev/sdb"];

fn output(is_good: bool, stdout: String) -> Output {
    Output { code: Some(if is_good { 0 } else { 21 }), stdout, ..Output::default() }
}

/// A machine with two disks, LIO and open-iscsi. A record is `/nodes/NAME`, a session
/// `/sessions/NAME`.
fn machine() -> Fake {
    let fake = configfs::machine(&DISKS);
    fake.state_mut().put(LIO, "");
    fake.install("grep", |_, _| output(true, String::new()));
    fake.install("sh", |state, words| {
        assert_eq!(words[1], SESSION);
        let is_there = state.files.contains_key(&format!("/sessions/{}", words[2]));
        output(is_there, format!("tcp: [1] 127.0.0.1:3260,1 {} (non-flash)\n", words[2]))
    });
    // Whether the records are on the disk; who only asks changes nothing else.
    let is_flushed = Rc::new(Cell::new(true));
    let flushed = Rc::clone(&is_flushed);
    fake.install("sync", move |_, _| {
        flushed.set(true);
        output(true, String::new())
    });
    fake.install("iscsiadm", move |state, words| {
        let name = words[3];
        let (record, session) = (format!("/nodes/{name}"), format!("/sessions/{name}"));
        match words[words.len() - 1] {
            "new" => {
                is_flushed.set(false);
                state.put(&record, "");
            }
            "delete" => return output(state.files.remove(&record).is_some(), String::new()),
            "show" => {
                let is_there = state.files.contains_key(&record);
                return output(is_there, format!("node.name = {name}\n"));
            }
            "--login" => {
                assert!(is_flushed.get(), "the power may go");
                let group = format!("{LIO}/iscsi/{name}/tpgt_1");
                if state.files.get(&format!("{group}/enable")).is_none_or(|it| it != "1") {
                    return output(false, String::new());
                }
                state.put(&session, "");
                state.put("/sys/class/iscsi_session/session1/targetname", name);
                let file = "device/target3:0:0/uevent";
                let text = "DEVTYPE=scsi_target";
                state.put(&format!("/sys/class/iscsi_session/session1/{file}"), text);
                for (unit, disk) in [(0, "sdx"), (1, "sdy")] {
                    let place = format!("device/target3:0:0/3:0:0:{unit}/block/{disk}");
                    state.put(&format!("/sys/class/iscsi_session/session1/{place}"), "");
                    state.put_disk(&format!("/dev/{disk}"), 1 << 30);
                }
            }
            _ => {
                let is_there = state.files.remove(&session).is_some();
                state.files.retain(|path, _| !path.starts_with("/sys/class/iscsi_session"));
                state.volumes.retain(|path, _| DISKS.contains(&path.as_str()));
                return output(is_there, String::new());
            }
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
fn a_volume_is_exported_and_comes_back_as_a_disk() {
    let fake = machine();
    let on = configfs::on(&fake, &DISKS);
    let both = both(&[("portal", "10.0.0.1")]);
    let foreseen = both.check(&fake, &on).unwrap();
    assert_eq!(foreseen.volumes.len(), 2);
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let volumes = both.apply(&mut ledger, &on).unwrap();
    let paths: Vec<&str> = volumes.iter().map(|volume| volume.path.as_str()).collect();
    assert_eq!(paths, ["/dev/sdx", "/dev/sdy"]);
    assert!(volumes.iter().all(|volume| volume.may_lose));
    both.1.verify(&fake, &volumes).unwrap();
    let ran = fake.state().ran.join("\n");
    assert!(
        ran.contains("iscsi/iqn.2026-01.io.ioecho:ioecho-7-t/tpgt_1/np/10.0.0.1:3260"),
        "{ran}"
    );
    assert_eq!(ledger.undo(0).unwrap().left, []);
    assert!(configfs::same(&fake, &machine()));
}

#[test]
fn wherever_it_is_killed_no_target_is_left() {
    killed::everywhere(&machine, &both(&[]), &DISKS, &configfs::same);
}

#[test]
fn a_target_of_somebody_else_is_refused() {
    let fake = machine();
    fake.state_mut().put(&format!("{LIO}/iscsi"), "");
    fake.state_mut().put(&format!("{LIO}/iscsi/iqn.theirs"), "");
    let target = target(&[("iqn", "iqn.theirs")]).unwrap();
    let on = configfs::on(&fake, &DISKS);
    assert!(matches!(target.check(&fake, &on), Err(Fault::Refused(_))));
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    assert!(matches!(target.apply(&mut ledger, &on), Err(Fault::Refused(_))));
    assert_eq!(ledger.undo(0).unwrap().left, []);
    assert!(fake.exists(&format!("{LIO}/iscsi/iqn.theirs")));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (settings, key) in
        [(("portal", "host"), "portal"), (("portal", "1.2.3.4:0"), "portal"), (("iqn", "x"), "iqn")]
    {
        assert_eq!(target(&[settings]).err().map(|wrong| wrong.key).as_deref(), Some(key));
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
    fake.state_mut().files.remove(LIO);
    let lacking = target(&[]).unwrap().check(&fake, &on);
    assert!(matches!(lacking, Err(Fault::Lacking(_))));
}

#[test]
fn a_disk_that_never_appears_is_a_fault() {
    let fake = machine();
    let on = [Volume {
        path: "iscsi://127.0.0.1:3260/iqn.x/0".to_owned(),
        kind: Kind::Exported,
        ..configfs::on(&fake, &DISKS)[0].clone()
    }];
    let addresses = exported::addresses(&on, SCHEME).unwrap();
    let limit = Duration::from_secs(5);
    let came = exported::appeared(&fake, &on, &addresses, limit, &Initiator::disks);
    assert!(came.unwrap_err().to_string().contains("not appeared after 5 s"));
}
