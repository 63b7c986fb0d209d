//! Mapped devices on a machine in memory, which knows dmsetup.

use super::super::killed;
use super::*;
use crate::ground::Output;
use crate::ground::fake::{Fake, INPUT};
use crate::value::Value;

const DISKS: [&str; 2] = ["/dev/sda", "/dev/sdb"];

fn good(stdout: String) -> Output {
    Output { code: Some(0), stdout, ..Output::default() }
}

/// A machine with two disks, and dmsetup, which keeps a table in `/dm/NAME`, and the numbers of
/// devices in `/dm-numbers/NAME`.
fn machine() -> Fake {
    let fake = Fake::new();
    fake.state_mut().put_disk(DISKS[0], 1 << 30);
    fake.state_mut().put_disk(DISKS[1], 64 << 20);
    // What a command reads lies there from the first one on.
    fake.state_mut().put(INPUT, "");
    fake.install("dd", |_, _| good(String::new()));
    fake.install("dmsetup", |state, words| {
        let bad = || Output { code: Some(1), ..Output::default() };
        let table =
            format!("/dm/{}", words[if words[0] == "create" { 1 } else { words.len() - 1 }]);
        let number = table.replace("/dm/", "/dm-numbers/");
        match words[0] {
            "create" => {
                let next = state.files.keys().filter(|it| it.starts_with("/dm-numbers")).count();
                let text = state.files[INPUT].clone();
                state.put(&table, &text);
                state.put(&number, &next.to_string());
                state.put_disk(&format!("/dev/dm-{next}"), 1 << 30);
                good(String::new())
            }
            "remove" => {
                let Some(number) = state.files.remove(&number) else { return bad() };
                state.files.remove(&table);
                state.volumes.remove(&format!("/dev/dm-{number}"));
                good(String::new())
            }
            _ => match state.files.get(&number) {
                None => bad(),
                Some(number) if words.contains(&"minor") => good(format!("{number}\n")),
                Some(_) => {
                    let name = words[words.len() - 1];
                    good(format!("{name} {name}\n"))
                }
            },
        }
    });
    fake
}

fn dm(settings: &[(&str, &str)]) -> std::result::Result<Dm, Wrong> {
    let one = |(key, value): &(&str, &str)| ((*key).to_owned(), Value::One((*value).to_owned()));
    let settings = settings.iter().map(one).collect();
    Dm::read(&Given { name: "dm".to_owned(), settings, ..Given::default() })
}

fn on(fake: &Fake, count: usize) -> Vec<Volume> {
    let volume = |path: &&str| Volume { may_lose: true, ..fake.volume(path).unwrap() };
    DISKS.iter().take(count).map(volume).collect()
}

fn same(one: &Fake, other: &Fake) -> bool {
    let (one, other) = (one.state(), other.state());
    let files = |it: &crate::ground::fake::State| {
        let mut files = it.files.clone();
        files.remove(INPUT);
        files
    };
    files(&one) == files(&other) && one.volumes == other.volumes
}

/// Settings, the number of volumes, and the table of the device.
type Case = (&'static [(&'static str, &'static str)], usize, &'static str);

/// Each kind with its settings.
const KINDS: [Case; 9] = [
    (&[("kind", "linear")], 1, "0 2097152 linear /dev/sda 0"),
    (&[("kind", "linear"), ("from", "1M"), ("size", "2M")], 1, "0 4096 linear /dev/sda 2048"),
    (&[("kind", "delay"), ("write-delay", "5ms")], 1, "0 2097152 delay /dev/sda 0 0 /dev/sda 0 5"),
    (&[("kind", "flakey"), ("up", "10s"), ("down", "2s")], 1, "0 2097152 flakey /dev/sda 0 10 2"),
    (
        &[("kind", "flakey"), ("up", "1m"), ("down", "1s"), ("writes", "drop")],
        1,
        "0 2097152 flakey /dev/sda 0 60 1 1 drop_writes",
    ),
    (
        &[("kind", "error"), ("from", "1M"), ("size", "1M")],
        1,
        "0 2048 linear /dev/sda 0\n2048 2048 error\n4096 2093056 linear /dev/sda 4096",
    ),
    (&[("kind", "log-writes")], 2, "0 2097152 log-writes /dev/sda /dev/sdb"),
    (
        &[("kind", "cache"), ("mode", "writeback")],
        2,
        "0 2097152 cache /dev/dm-0 /dev/dm-1 /dev/sda 512 1 writeback default 0",
    ),
    (&[("kind", "crypt")], 1, "0 2097152 crypt aes-xts-plain64 00"),
];

#[test]
fn each_kind_has_its_table() {
    for (settings, count, table) in KINDS {
        let fake = machine();
        let (dm, on) = (dm(settings).unwrap(), on(&fake, count));
        assert!(!dm.check(&fake, &on).unwrap().does.is_empty());
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        let volumes = dm.apply(&mut ledger, &on).unwrap();
        assert!(fake.state().files["/dm/ioecho-7-dm"].starts_with(table), "{settings:?}");
        assert_eq!(volumes.len(), 1);
        assert_eq!(ledger.undo(0).unwrap().left, []);
        assert!(same(&fake, &machine()), "{settings:?}");
    }
}

#[test]
fn a_cache_divides_its_device_between_metadata_and_blocks() {
    let fake = machine();
    let (dm, on) = (dm(&[("kind", "cache")]).unwrap(), on(&fake, 2));
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    dm.apply(&mut ledger, &on).unwrap();
    // 4 MiB and 16 bytes for each of 256 blocks, in whole MiB; then 59 MiB of blocks.
    assert_eq!(fake.state().files["/dm/ioecho-7-dm-meta"], "0 10240 linear /dev/sdb 0\n");
    assert_eq!(fake.state().files["/dm/ioecho-7-dm-fast"], "0 120832 linear /dev/sdb 10240\n");
}

#[test]
fn wherever_it_is_killed_no_device_is_left() {
    for (settings, count, _) in KINDS {
        killed::everywhere(&machine, &dm(settings).unwrap(), &DISKS[..count], &same);
    }
}

#[test]
fn after_a_reboot_nothing_is_left_to_be_undone() {
    let fake = machine();
    let (dm, on) = (dm(&[("kind", "linear")]).unwrap(), on(&fake, 1));
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    dm.apply(&mut ledger, &on).unwrap();
    fake.state_mut().boot += 1;
    fake.state_mut().files.retain(|path, _| !path.starts_with("/dm"));
    assert_eq!(ledger.undo(0).unwrap(), crate::ledger::Undone::default());
    assert!(ledger.is_clear());
}

#[test]
fn data_that_a_kind_may_lose_must_be_given_up() {
    for (settings, count, _) in KINDS {
        let fake = machine();
        let dm = dm(settings).unwrap();
        let on: Vec<Volume> =
            on(&fake, count).into_iter().map(|it| Volume { may_lose: false, ..it }).collect();
        let loses = dm.check(&fake, &on).unwrap().loses;
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        let applied = dm.apply(&mut ledger, &on);
        match settings[0].1 {
            "linear" | "delay" => {
                assert!(loses.is_empty());
                assert!(!applied.unwrap()[0].may_lose);
            }
            _ => {
                assert!(!loses.is_empty());
                assert!(matches!(applied, Err(Fault::Refused(_))), "{settings:?}");
                assert_eq!(fake.state().ran, [""; 0]);
            }
        }
    }
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    for (settings, key) in [
        (&[][..], "kind"),
        (&[("kind", "raid")], "kind"),
        (&[("kind", "delay")], "read-delay"),
        (&[("kind", "delay"), ("read-delay", "1us")], "read-delay"),
        (&[("kind", "flakey"), ("up", "10s")], "down"),
        (&[("kind", "linear"), ("up", "10s")], "up"),
        (&[("kind", "linear"), ("from", "1000")], "from"),
        (&[("kind", "cache"), ("block-size", "10K")], "block-size"),
        (&[("kind", "crypt"), ("cipher", "a b")], "cipher"),
    ] {
        assert_eq!(dm(settings).err().map(|wrong| wrong.key).as_deref(), Some(key), "{settings:?}");
    }
    let fake = machine();
    for (settings, count) in [
        (&[("kind", "cache")][..], 1),
        (&[("kind", "linear")], 2),
        (&[("kind", "linear"), ("from", "2G")], 1),
    ] {
        let fault = dm(settings).unwrap().check(&fake, &on(&fake, count)).unwrap_err();
        assert!(matches!(fault, Fault::Refused(_)), "{fault:?}");
    }
}
