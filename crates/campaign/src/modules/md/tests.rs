//! RAID sets on a machine in memory, which knows mdadm's commands.

use super::super::killed;
use super::*;
use crate::ground::Output;
use crate::ground::fake::Fake;
use crate::value::Value;

const LEGS: [&str; 4] = ["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"];

/// The kernel's files of the set.
const MD: &str = "/sys/block/SET/md";

fn good() -> Output {
    Output { code: Some(0), ..Output::default() }
}

/// The file of a set: its tail is that of the device's path.
fn file(set: &str, name: &str) -> String {
    MD.replace("SET", set.rsplit('/').next().unwrap_or_default()) + "/" + name
}

/// A machine with four disks, and mdadm. Each leg has a file `/leg/PATH` with the UUID, the set a
/// file `/set` with its path and UUID.
fn machine() -> Fake {
    let fake = Fake::new();
    for leg in LEGS {
        fake.state_mut().put_disk(leg, 1 << 30);
    }
    fake.install("wipefs", |_, _| good());
    fake.install("grep", |_, _| good());
    fake.install("mdadm", |state, words| {
        if words[0] == "--manage" {
            state.put(&file(words[1], "degraded"), "1\n");
            return good();
        }
        let uuid = words.iter().find_map(|word| word.strip_prefix("--uuid=")).unwrap();
        let set = words[1].to_owned();
        for leg in words.iter().filter(|word| LEGS.contains(word)) {
            state.put(&format!("/leg{leg}"), uuid);
        }
        state.put("/set", &format!("{set} {uuid}"));
        state.put_disk(&set, 1 << 30);
        state.put(&file(&set, "degraded"), "0\n");
        state.put(&file(&set, "sync_action"), "idle\n");
        good()
    });
    fake.install("sh", |state, words| {
        let (script, uuid) = (words[1], words[2]);
        let has = |text: &str| text.split(' ').next_back() == Some(uuid);
        let legs: Vec<String> = state
            .files
            .iter()
            .filter(|(path, text)| path.starts_with("/leg") && has(text))
            .map(|(path, _)| path.clone())
            .collect();
        let set = state.files.get("/set").filter(|text| has(text)).cloned();
        if script == FIND {
            let stdout = match (set, legs.is_empty()) {
                (None, true) => return Output { code: Some(1), ..Output::default() },
                _ => format!("ARRAY /dev/md/x metadata=1.2 UUID={uuid} name=any:x\n"),
            };
            return Output { stdout, ..good() };
        }
        assert_eq!(script, REMOVE);
        if let Some((set, _)) = set.as_deref().and_then(|set| set.split_once(' ')) {
            state.files.remove("/set");
            state.volumes.remove(set);
            let within = file(set, "");
            state.files.retain(|path, _| !path.starts_with(&within));
        }
        for leg in legs {
            state.files.remove(&leg);
        }
        good()
    });
    fake
}

fn md(settings: &[(&str, &str)]) -> std::result::Result<Md, Wrong> {
    let one = |(key, value): &(&str, &str)| ((*key).to_owned(), Value::One((*value).to_owned()));
    let settings = settings.iter().map(one).collect();
    Md::read(&Given { name: "raid".to_owned(), settings, ..Given::default() })
}

fn on(fake: &Fake, legs: usize) -> Vec<Volume> {
    let volume = |path: &&str| Volume { may_lose: true, ..fake.volume(path).unwrap() };
    LEGS.iter().take(legs).map(volume).collect()
}

fn same(one: &Fake, other: &Fake) -> bool {
    let (one, other) = (one.state(), other.state());
    one.files == other.files && one.volumes == other.volumes
}

#[test]
fn wherever_it_is_killed_no_set_is_left() {
    for settings in [
        &[("level", "5"), ("degrade", "1"), ("chunk", "64K")][..],
        &[("level", "1"), ("spares", "1"), ("resync", "skip")],
        &[("level", "0")],
    ] {
        killed::everywhere(&machine, &md(settings).unwrap(), &LEGS, &same);
    }
}

#[test]
fn a_set_is_waited_for_and_then_its_last_leg_fails() {
    let fake = machine();
    let md = md(&[("level", "5"), ("degrade", "1")]).unwrap();
    let on = on(&fake, 3);
    let told = md.check(&fake, &on).unwrap();
    assert_eq!(told.volumes[0].size, 2 << 30);
    assert_eq!(told.loses, LEGS[..3]);
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let volumes = md.apply(&mut ledger, &on).unwrap();
    assert_eq!(volumes[0].path, "/dev/md/ioecho-7-raid");
    md.verify(&fake, &volumes).unwrap();
    let ran = fake.state().ran.clone();
    assert!(
        ran.iter().any(|it| it.contains("--level=5 --raid-devices=3 --bitmap=none")),
        "{ran:?}"
    );
    assert_eq!(ran.last().unwrap(), "mdadm --manage /dev/md/ioecho-7-raid --fail /dev/sdc");
}

#[test]
fn legs_that_never_agree_are_a_fault() {
    let fake = machine();
    let md = md(&[("level", "1"), ("limit", "10s")]).unwrap();
    let set = Volume { path: "/dev/md9".to_owned(), ..on(&fake, 1)[0].clone() };
    fake.state_mut().put("/sys/block/md9/md/sync_action", "resync\n");
    let fault = md.synchronised(&fake, &set).unwrap_err();
    assert!(fault.to_string().contains("not in step after 10 s"), "{fault}");
    assert!((10.0..12.0).contains(&fake.seconds()));
}

#[test]
fn a_set_that_rests_before_its_legs_agree_is_not_in_step() {
    for (name, differs) in [("resync_start", "0\n"), ("degraded", "1\n")] {
        let fake = machine();
        let set = Volume { path: "/dev/md9".to_owned(), ..on(&fake, 1)[0].clone() };
        for (file, text) in [("sync_action", "idle\n"), ("resync_start", "none\n")] {
            fake.state_mut().put(&format!("/sys/block/md9/md/{file}"), text);
        }
        let md = md(&[("level", "5")]).unwrap();
        assert_eq!(md.synchronised(&fake, &set), Ok(()));
        fake.state_mut().put(&format!("/sys/block/md9/md/{name}"), differs);
        let fault = md.synchronised(&fake, &set).unwrap_err();
        assert!(fault.to_string().contains("nothing brings them into step"), "{fault}");
        assert!((10.0..12.0).contains(&fake.seconds()));
    }
}

#[test]
fn sets_that_make_no_sense_are_refused() {
    for (settings, key) in [
        (&[][..], "level"),
        (&[("level", "7")], "level"),
        (&[("level", "0"), ("degrade", "1")], "degrade"),
        (&[("level", "5"), ("degrade", "2")], "degrade"),
        (&[("level", "6"), ("resync", "skip")], "resync"),
        (&[("level", "5"), ("chunk", "1000")], "chunk"),
        (&[("level", "10"), ("layout", "f2; rm")], "layout"),
    ] {
        assert_eq!(md(settings).err().map(|wrong| wrong.key).as_deref(), Some(key), "{settings:?}");
    }
    let fake = machine();
    for (settings, legs) in [
        (&[("level", "5")][..], 2),
        (&[("level", "1"), ("degrade", "2")], 2),
        (&[("level", "6")], 3),
    ] {
        let fault = md(settings).unwrap().check(&fake, &on(&fake, legs)).unwrap_err();
        assert!(matches!(fault, Fault::Refused(_)), "{fault:?}");
    }
}

#[test]
fn data_that_nobody_gave_up_are_refused() {
    let fake = machine();
    let md = md(&[("level", "1")]).unwrap();
    let mut legs = on(&fake, 2);
    legs[1].may_lose = false;
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    assert!(matches!(md.apply(&mut ledger, &legs), Err(Fault::Refused(_))));
    assert_eq!(fake.state().ran, [""; 0]);
}
