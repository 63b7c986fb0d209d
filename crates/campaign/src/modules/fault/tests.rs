//! Faults on a machine in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command as Process;

use super::*;
use crate::ground::Output;
use crate::ground::fake::{Death, Fake};
use crate::value::Value;

const REQUESTS: &str = "/sys/block/sda/queue/nr_requests";
const STATE: &str = "/sys/block/sda/device/state";
const FLAGS: &str = "/sys/class/net/eth0/flags";

/// A machine with a disk, a RAID set on it, and a link.
fn machine() -> Fake {
    let fake = Fake::new();
    for (file, text) in [
        ("/sys/block/sda", ""),
        (REQUESTS, "256\n"),
        (STATE, "running\n"),
        ("/sys/block/sda/diskseq", "7\n"),
        ("/sys/class/block/sda/size", "8"),
        ("/sys/class/block/md0/slaves/sda", ""),
        ("/sys/block/md0/md", ""),
        (FLAGS, "0x1003\n"),
        ("/broken", "no"),
    ] {
        fake.state_mut().put(file, text);
    }
    for disk in ["/dev/sda", "/dev/sdb", "/dev/md0"] {
        fake.state_mut().put_disk(disk, 4096);
    }
    let good = || Output { code: Some(0), ..Output::default() };
    fake.install("break", move |state, words| {
        state.put("/broken", words[0]);
        good()
    });
    fake.install("ip", move |state, words| {
        state.put(FLAGS, if words[4] == "up" { "0x1003\n" } else { "0x1002\n" });
        good()
    });
    for tool in ["mdadm", "sh", "grep"] {
        fake.install(tool, move |_, _| good());
    }
    fake
}

fn on(fake: &Fake, path: &str) -> Vec<Volume> {
    vec![Volume { may_lose: true, ..fake.volume(path).unwrap() }]
}

fn read(settings: &[(&str, &str)]) -> std::result::Result<Faulty, Wrong> {
    let one = |(key, value): &(&str, &str)| {
        let words = value.split(' ').map(str::to_owned).collect();
        let is_command = matches!(*key, "command" | "undo");
        let value = if is_command { Value::Many(words) } else { Value::One((*value).to_owned()) };
        ((*key).to_owned(), value)
    };
    let settings = settings.iter().map(one).collect();
    Faulty::read(&Given { name: "fault".to_owned(), settings, ..Given::default() })
}

fn fault(settings: &[(&str, &str)]) -> Faulty {
    read(&[&[("at", "10s"), ("for", "5s")], settings].concat()).unwrap()
}

const BREAK: [(&str, &str); 3] =
    [("kind", "command"), ("command", "break yes"), ("undo", "break no")];

#[test]
fn a_fault_begins_and_is_put_right_in_the_midst_of_a_replay() {
    let now = |fake: &Fake, file: &str| fake.state().files[file].trim().to_owned();
    for (settings, file, before, broken) in [
        (&BREAK[..], "/broken", "no", "yes"),
        (&[("kind", "queue"), ("set.nr_requests", "4")], REQUESTS, "256", "4"),
        (&[("kind", "offline")], STATE, "running", "offline"),
        (&[("kind", "offline"), ("device", "/dev/sda")], STATE, "running", "offline"),
        (&[("kind", "link-down"), ("interface", "eth0")], FLAGS, "0x1003", "0x1002"),
    ] {
        let fake = machine();
        let (fault, on) = (fault(settings), on(&fake, "/dev/sda"));
        fault.check(&fake, &on).unwrap();
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        fault.apply(&mut ledger, &on).unwrap();
        // Two replays of one cell: each has the fault at the same instant.
        for _ in 0..2 {
            fault.beside(&mut ledger, &on, 0.0..9.9).unwrap();
            assert_eq!(now(&fake, file), before);
            fault.beside(&mut ledger, &on, 9.9..10.1).unwrap();
            assert_eq!(now(&fake, file), broken);
            fault.beside(&mut ledger, &on, 10.1..14.9).unwrap();
            assert_eq!(now(&fake, file), broken);
            fault.beside(&mut ledger, &on, 14.9..15.2).unwrap();
            assert_eq!(now(&fake, file), before);
            fault.beside(&mut ledger, &on, 15.2..30.0).unwrap();
            fault.ended(&mut ledger, &on, 30.0).unwrap();
            assert_eq!(now(&fake, file), before);
        }
        let kept = fault.collect(&fake, &on).unwrap();
        assert!(kept[0].1.starts_with("10.100 s: it began\n15.200 s: it was put right\n"));
        assert_eq!(ledger.undo(0).unwrap(), crate::ledger::Undone::default());
    }
}

#[test]
fn a_fault_that_outlasts_its_replay_is_put_right_and_one_that_never_came_is_told() {
    let fake = machine();
    let (fault, on) = (fault(&BREAK), on(&fake, "/dev/sda"));
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    fault.apply(&mut ledger, &on).unwrap();
    fault.beside(&mut ledger, &on, 0.0..11.0).unwrap();
    fault.ended(&mut ledger, &on, 11.0).unwrap();
    assert_eq!(fake.state().files["/broken"], "no");
    fault.beside(&mut ledger, &on, 0.0..9.0).unwrap();
    let came = fault.ended(&mut ledger, &on, 9.0).unwrap_err();
    assert!(matches!(came, Fault::Refused(_)), "{came:?}");
}

#[test]
fn a_fault_that_begins_late_lasts_as_long_as_was_asked_for() {
    let fake = machine();
    let (fault, on) = (fault(&BREAK), on(&fake, "/dev/sda"));
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    fault.beside(&mut ledger, &on, 0.0..14.0).unwrap();
    fault.beside(&mut ledger, &on, 14.0..18.9).unwrap();
    assert_eq!(fake.state().files["/broken"], "yes");
    fault.beside(&mut ledger, &on, 18.9..19.1).unwrap();
    assert_eq!(fake.state().files["/broken"], "no");
}

#[test]
fn what_another_fault_changed_later_stays_when_the_first_is_put_right() {
    let fake = machine();
    let (first, second) = (fault(&BREAK), fault(&[("kind", "queue"), ("set.nr_requests", "4")]));
    let on = on(&fake, "/dev/sda");
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    first.beside(&mut ledger, &on, 0.0..10.1).unwrap();
    second.beside(&mut ledger, &on, 0.0..14.0).unwrap();
    first.beside(&mut ledger, &on, 14.0..15.2).unwrap();
    let files = fake.state().files.clone();
    assert_eq!((files["/broken"].as_str(), files[REQUESTS].as_str()), ("no", "4"));
}

#[test]
fn wherever_a_campaign_is_killed_the_fault_is_undone() {
    let mut deaths = 0;
    for settings in [&BREAK[..], &[("kind", "queue"), ("set.nr_requests", "4")]] {
        for death in [Death::Before, Death::After] {
            for at in 0..8 {
                let fake = machine();
                let (fault, on) = (fault(settings), on(&fake, "/dev/sda"));
                let before = fake.state().files.clone();
                fake.dies_at(Some(death(at)));
                let life = || -> Result<()> {
                    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test")?;
                    fault.apply(&mut ledger, &on)?;
                    fault.beside(&mut ledger, &on, 0.0..10.1)?;
                    fault.beside(&mut ledger, &on, 10.1..15.2)
                };
                let _ = life();
                deaths += u32::from(fake.is_dead());
                fake.revive();
                if fake.book_text().is_some() {
                    let mut left = Ledger::left(&fake, fake.book()).unwrap();
                    assert_eq!(left.undo(0).unwrap().left, []);
                }
                for (path, text) in before {
                    assert_eq!(fake.state().files[&path].trim(), text.trim(), "{:?}", death(at));
                }
            }
        }
    }
    assert!(deaths >= 20, "{deaths}: the test tests nothing");
}

#[test]
fn a_fault_that_nothing_puts_right_is_one_of_the_measurement() {
    let fake = machine();
    fake.install("stuck", |_, _| Output { code: Some(1), ..Output::default() });
    let stuck = [("kind", "command"), ("command", "break yes"), ("undo", "stuck")];
    let (fault, on) = (fault(&stuck), on(&fake, "/dev/sda"));
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    fault.beside(&mut ledger, &on, 0.0..10.1).unwrap();
    let came = fault.beside(&mut ledger, &on, 10.1..15.2).unwrap_err();
    assert!(matches!(&came, Fault::Failed(text) if text.contains("cannot be put right")));
    assert!(!ledger.is_clear(), "undo tries it again");
}

#[test]
fn only_what_belongs_to_the_stack_breaks() {
    let fake = machine();
    let sda = on(&fake, "/dev/sda");
    let other = fault(&[("kind", "offline"), ("device", "/dev/sdb")]);
    let came = other.check(&fake, &sda).unwrap_err();
    assert!(matches!(&came, Fault::Refused(text) if text.contains("none of the volumes")));
    // A part of a volume of the stack does.
    let leg = fault(&[("kind", "fail-leg"), ("device", "/dev/sda")]);
    let set = on(&fake, "/dev/md0");
    let outlook = leg.check(&fake, &set).unwrap();
    assert!(outlook.does[0].ends_with("mdadm --manage /dev/md0 --fail /dev/sda"), "{outlook:?}");
    assert_eq!(outlook.loses, ["/dev/md0"], "so --destroy has to name it");
    assert!(leg.check(&fake, &sda).is_err(), "a disk is no RAID set");
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    let kept = [Volume { may_lose: false, ..set[0].clone() }];
    assert!(matches!(leg.apply(&mut ledger, &kept), Err(Fault::Refused(_))));
    leg.apply(&mut ledger, &set).unwrap();
    leg.beside(&mut ledger, &set, 0.0..10.1).unwrap();
    assert_eq!(fake.state().ran, ["mdadm --manage /dev/md0 --fail /dev/sda"]);
    leg.ended(&mut ledger, &set, 11.0).unwrap();
    let back = fake.state().ran[1].clone();
    assert!(back.ends_with("/dev/md0 /dev/sda /sys/block/md0/md/dev-sda"), "{back}");
}

#[test]
fn keys_that_do_not_go_together_are_refused() {
    for (settings, key) in [
        (&[("at", "1s")][..], "kind"),
        (&[("kind", "flaky"), ("at", "1s")], "kind"),
        (&[("kind", "offline")], "at"),
        (&[("kind", "offline"), ("at", "soon")], "at"),
        (&[("kind", "offline"), ("at", "1s"), ("interface", "lo")], "interface"),
        (&[("kind", "command"), ("at", "1s"), ("command", "break yes")], "undo"),
        (&[("kind", "queue"), ("at", "1s")], "set"),
        (&[("kind", "throttle"), ("at", "1s")], "read-iops"),
        (&[("kind", "link-down"), ("at", "1s")], "interface"),
    ] {
        let wrong = read(settings).err().unwrap_or_else(|| panic!("accepted: {settings:?}"));
        assert_eq!(wrong.key, key, "{wrong:?}");
    }
}

/// The script that puts a leg back, with an mdadm that notes what it is asked; what it noted.
fn put_back(state: Option<&str>, fails: &str) -> (bool, String) {
    let name = format!("ioecho-leg-{}-{}{fails}", std::process::id(), state.unwrap_or_default());
    let directory = std::env::temp_dir().join(name);
    let leg = directory.join("dev-sda");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    if let Some(state) = state {
        fs::create_dir(&leg).unwrap();
        fs::write(leg.join("state"), state).unwrap();
    }
    let tool = directory.join("mdadm");
    let text = format!(
        "#!/bin/sh\necho \"$3\" >>\"${{0%/*}}/asked\"\n[ \"$3\" = --remove ] && rm -r '{}'\n\
         [ \"$3\" != {fails} ]\n",
        leg.display()
    );
    fs::write(&tool, text).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let status = Process::new("sh")
        .args(["-c", kinds::PUT_LEG_BACK, "/dev/md0", "/dev/sda"])
        .arg(&leg)
        .env("PATH", path)
        .status()
        .unwrap();
    let asked = fs::read_to_string(directory.join("asked")).unwrap_or_default();
    fs::remove_dir_all(&directory).unwrap();
    (status.success(), asked)
}

#[test]
fn a_leg_is_put_back_from_whatever_state_it_is_in() {
    assert_eq!(put_back(Some("in_sync"), "-"), (true, String::new()));
    assert_eq!(put_back(Some("faulty"), "-"), (true, "--remove\n--re-add\n".to_owned()));
    // It was killed after the removal.
    assert_eq!(put_back(None, "-"), (true, "--re-add\n".to_owned()));
    // Without a bitmap there is nothing to begin from.
    let (is_good, asked) = put_back(None, "--re-add");
    assert_eq!((is_good, asked.as_str()), (true, "--re-add\n--add\n"));
}
