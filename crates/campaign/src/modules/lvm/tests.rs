//! Logical volumes on a machine in memory, which knows LVM's commands.

use super::super::killed;
use super::commands::REMOVE_PHYSICAL;
use super::*;
use crate::ground::Output;
use crate::ground::fake::{Fake, State};
use crate::value::Value;

/// Where the machine keeps what LVM knows: `/lvm/pv/PATH` has `UUID GROUP`, `/lvm/vg/NAME` has its
/// tags, `/lvm/lv/GROUP/NAME` those of a volume.
const PV: &str = "/lvm/pv";
const VG: &str = "/lvm/vg/";
const LV: &str = "/lvm/lv/";

fn output(is_good: bool, stdout: String) -> Output {
    Output { code: Some(if is_good { 0 } else { 5 }), stdout, ..Output::default() }
}

/// The word behind a flag.
fn behind<'w>(words: &[&'w str], flag: &str) -> Option<&'w str> {
    words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied()
}

/// The value of a condition in `-S`.
fn selected<'w>(words: &[&'w str], key: &str) -> Option<&'w str> {
    let mut conditions = behind(words, "-S")?.split(" && ");
    conditions.find_map(|it| it.strip_prefix(key)?.strip_prefix('='))
}

fn physical(
    state: &State,
    is_it: impl Fn(&str, &str, &str) -> bool,
) -> Vec<(String, String, String)> {
    let each = state.files.iter().filter_map(|(path, text)| {
        let path = path.strip_prefix(PV)?;
        let (uuid, group) = text.split_once(' ').unwrap_or((text, ""));
        is_it(path, uuid, group).then(|| (path.to_owned(), uuid.to_owned(), group.to_owned()))
    });
    each.collect()
}

/// A machine with two disks, and LVM.
fn machine() -> Fake {
    let fake = Fake::new();
    for disk in ["/dev/sda", "/dev/sdb"] {
        fake.state_mut().put_disk(disk, 1 << 30);
    }
    fake.install("wipefs", |_, _| output(true, String::new()));
    fake.install("thin_check", |_, _| output(true, String::new()));
    fake.install("pvcreate", |state, words| {
        let path = words[words.len() - 1];
        let uuid = behind(words, "--uuid").unwrap();
        state.put(&format!("{PV}{path}"), uuid);
        output(true, String::new())
    });
    fake.install("sh", |state, words| {
        assert_eq!(words[1], REMOVE_PHYSICAL);
        let ours = physical(state, |_, uuid, group| uuid == words[2] && group.is_empty());
        for (path, ..) in &ours {
            state.files.remove(&format!("{PV}{path}"));
        }
        output(!ours.is_empty(), String::new())
    });
    fake.install("pvremove", |_, _| output(true, String::new()));
    fake.install("pvs", |state, words| {
        let found = if let Some(uuid) = selected(words, "pv_uuid") {
            physical(state, |_, other, _| other == uuid)
        } else if let Some(group) = selected(words, "vg_name") {
            physical(state, |_, _, other| other == group)
        } else {
            let path = words[words.len() - 1];
            physical(state, |other, _, _| other == path)
        };
        let field = behind(words, "-o").unwrap();
        let lines = found.iter().map(|(path, uuid, group)| match field {
            "pv_name" => format!("  {path}\n"),
            "pv_uuid" => format!("  {uuid}\n"),
            _ => format!(
                "  {group} {}\n",
                state.files.get(&format!("{VG}{group}")).map_or("", |it| it)
            ),
        });
        let is_asked_for_one = !words.contains(&"-S");
        output(!(is_asked_for_one && found.is_empty()), lines.collect())
    });
    install_groups(&fake);
    install_volumes(&fake);
    fake
}

fn install_groups(fake: &Fake) {
    fake.install("vgcreate", |state, words| {
        let group = words[3];
        if state.files.contains_key(&format!("{VG}{group}")) {
            return output(false, String::new());
        }
        state.put(&format!("{VG}{group}"), words[2]);
        for path in &words[4..] {
            let file = format!("{PV}{path}");
            let text = format!("{} {group}", state.files[&file]);
            state.put(&file, &text);
        }
        output(true, String::new())
    });
    fake.install("vgremove", |state, words| {
        let group = words[1];
        let is_there = state.files.remove(&format!("{VG}{group}")).is_some();
        for (path, uuid, _) in physical(state, |_, _, other| other == group) {
            state.put(&format!("{PV}{path}"), &uuid);
        }
        output(is_there, String::new())
    });
    fake.install("vgs", |state, words| {
        let Some(group) = selected(words, "vg_name") else {
            return output(true, "  500 4194304\n".to_owned());
        };
        let tags = state.files.get(&format!("{VG}{group}"));
        output(true, tags.map(|tags| format!("  {group} {tags}\n")).unwrap_or_default())
    });
}

fn install_volumes(fake: &Fake) {
    fake.install("lvcreate", |state, words| {
        let (group, name) = (words[words.len() - 1], behind(words, "--name").unwrap());
        state.put(&format!("{LV}{group}/{name}"), behind(words, "--addtag").unwrap());
        state.put_disk(&format!("/dev/{group}/{name}"), 1 << 20);
        output(true, String::new())
    });
    fake.install("lvremove", |state, words| {
        state.volumes.remove(&format!("/dev/{}", words[1]));
        output(state.files.remove(&format!("{LV}{}", words[1])).is_some(), String::new())
    });
    fake.install("lvs", |state, words| {
        let group = selected(words, "vg_name").unwrap();
        let Some(name) = selected(words, "lv_name") else {
            let within = format!("{LV}{group}/");
            let names = state.files.keys().filter_map(|path| path.strip_prefix(&within));
            let paths: Vec<String> = names.map(|name| format!("/dev/{group}/{name}")).collect();
            return output(true, paths.join("\n"));
        };
        let tags = state.files.get(&format!("{LV}{group}/{name}"));
        output(true, tags.map(|tags| format!("  {name} {tags}\n")).unwrap_or_default())
    });
}

fn lvm(settings: &[(&str, &str)]) -> std::result::Result<Lvm, Wrong> {
    let one = |(key, value): &(&str, &str)| ((*key).to_owned(), Value::One((*value).to_owned()));
    let settings = settings.iter().map(one).collect();
    Lvm::read(&Given { name: "lvm".to_owned(), settings, ..Given::default() })
}

fn on(fake: &Fake, paths: &[&str]) -> Vec<Volume> {
    let volume = |path: &&str| Volume { may_lose: true, ..fake.volume(path).unwrap() };
    paths.iter().map(volume).collect()
}

fn same(one: &Fake, other: &Fake) -> bool {
    let (one, other) = (one.state(), other.state());
    one.files == other.files && one.volumes == other.volumes
}

const DISKS: [&str; 2] = ["/dev/sda", "/dev/sdb"];

#[test]
fn wherever_it_is_killed_no_volume_is_left() {
    for settings in [
        &[("count", "3"), ("size", "64M"), ("extra.drbd", "4M")][..],
        &[("vg", "vg-test"), ("stripes", "2"), ("stripe-size", "64K"), ("size-max", "8M")],
        &[("pool", "128M"), ("size", "10G"), ("count", "2")],
    ] {
        killed::everywhere(&machine, &lvm(settings).unwrap(), &DISKS, &same);
    }
}

#[test]
fn what_is_made_has_our_tag_and_the_sizes_that_are_asked_for() {
    let fake = machine();
    let settings = [("stripes", "2"), ("stripe-size", "64K"), ("count", "3"), ("extra.x", "8M")];
    let lvm = lvm(&settings).unwrap();
    let on = on(&fake, &DISKS);
    let told = lvm.check(&fake, &on).unwrap();
    assert_eq!(told.loses, DISKS);
    assert_eq!(told.volumes.len(), 3);
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let volumes = lvm.apply(&mut ledger, &on).unwrap();
    assert_eq!(volumes[2].path, "/dev/ioecho-7-lvm/lv3");
    let ran = fake.state().ran.join("\n");
    assert!(
        ran.contains("vgcreate --yes --addtag ioecho-7 ioecho-7-lvm /dev/sda /dev/sdb"),
        "{ran}"
    );
    // Of 500 free extents two are the extra volume's; a third of the others, as many from each.
    assert!(ran.contains("--name lv1 --extents=166"), "{ran}");
    assert!(ran.contains("--stripes=2 --stripesize=65536b ioecho-7-lvm"), "{ran}");
    assert!(
        !ran.contains("--name x --size=8388608b --wipesignatures=y --zero=y --stripes"),
        "{ran}"
    );
    assert_eq!(ledger.undo(0).unwrap().left, []);
    assert!(same(&fake, &machine()));
}

#[test]
fn a_foreign_group_is_refused_and_nothing_is_touched() {
    let fake = machine();
    fake.state_mut().put(&format!("{PV}/dev/sda"), "xxxxxx vg-test");
    fake.state_mut().put(&format!("{VG}vg-test"), "");
    let before = fake.state().files.clone();
    for (settings, disk) in
        [(&[("size", "1M")][..], "/dev/sda"), (&[("vg", "vg-test")], "/dev/sdb")]
    {
        let (lvm, on) = (lvm(settings).unwrap(), on(&fake, &[disk]));
        let fault = lvm.check(&fake, &on).unwrap_err();
        assert!(matches!(&fault, Fault::Refused(text) if text.contains("vg-test")), "{fault:?}");
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        assert!(matches!(lvm.apply(&mut ledger, &on), Err(Fault::Refused(_))));
        assert_eq!(fake.state().files, before);
        assert_eq!(fake.state().ran, [""; 0]);
    }
}

#[test]
fn a_group_that_an_earlier_process_left_is_undone_and_not_refused() {
    let fake = machine();
    let (lvm, on) = (lvm(&[("vg", "vg-test")]).unwrap(), on(&fake, &DISKS));
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    lvm.apply(&mut ledger, &on).unwrap();
    lvm.check(&fake, &on).unwrap();
    ledger.undo(0).unwrap();
    assert!(same(&fake, &machine()));
}

#[test]
fn a_group_is_used_as_it_is_if_all_its_devices_lie_below() {
    let fake = machine();
    for disk in DISKS {
        fake.state_mut().put(&format!("{PV}{disk}"), "xxxxxx vg-test");
    }
    fake.state_mut().put(&format!("{VG}vg-test"), "");
    for name in ["b", "a"] {
        fake.state_mut().put(&format!("{LV}vg-test/{name}"), "");
        fake.state_mut().put_disk(&format!("/dev/vg-test/{name}"), 1 << 20);
    }
    let (before, lvm) =
        (fake.state().files.clone(), lvm(&[("vg", "vg-test"), ("keep", "true")]).unwrap());
    let both = on(&fake, &DISKS);
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    assert_eq!(lvm.apply(&mut ledger, &both).unwrap()[0].path, "/dev/vg-test/a");
    let fault = lvm.check(&fake, &on(&fake, &["/dev/sda"])).unwrap_err();
    assert!(fault.to_string().contains("also lies on /dev/sdb"), "{fault}");
    assert_eq!(ledger.undo(0).unwrap(), crate::ledger::Undone::default());
    assert_eq!(fake.state().files, before);
}

#[test]
fn data_that_nobody_gave_up_are_refused() {
    let fake = machine();
    let lvm = lvm(&[]).unwrap();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let disk = [fake.volume("/dev/sda").unwrap()];
    assert!(matches!(lvm.apply(&mut ledger, &disk), Err(Fault::Refused(_))));
    assert_eq!(fake.state().ran, [""; 0]);
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    for (settings, key) in [
        (&[("vg", "a b")][..], "vg"),
        (&[("vg", "-x")], "vg"),
        (&[("count", "0")], "count"),
        (&[("stripe-size", "64K")], "stripe-size"),
        (&[("stripes", "2"), ("stripe-size", "5000")], "stripe-size"),
        (&[("size", "1G"), ("size-max", "2G")], "size-max"),
        (&[("pool", "1G")], "size"),
        (&[("extra.lv1", "1G")], "extra.lv1"),
        (&[("keep", "true")], "vg"),
        (&[("keep", "true"), ("vg", "v"), ("size", "1G")], "size"),
    ] {
        assert_eq!(
            lvm(settings).err().map(|wrong| wrong.key).as_deref(),
            Some(key),
            "{settings:?}"
        );
    }
    let fake = machine();
    let on = on(&fake, &["/dev/sda"]);
    for settings in [&[("stripes", "2")][..], &[("size", "2G")]] {
        let fault = lvm(settings).unwrap().check(&fake, &on).unwrap_err();
        assert!(matches!(fault, Fault::Refused(_)), "{fault:?}");
    }
}
