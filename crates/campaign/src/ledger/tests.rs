//! The ledger on a machine in memory: whatever kills it, the machine is left as it was found.

use std::collections::BTreeMap;

use super::line::{Form, Probe, Witness};
use super::*;
use crate::ground::fake::{Death, Fake};
use crate::ground::{Ground as _, Output};

/// A random number below `end`, by splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * end as u128) >> 64) as usize
    }
}

const FILES: [(&str, &str, &str); 3] = [
    ("/sys/block/sda/queue/scheduler", "[none] mq-deadline bfq", "bfq"),
    ("/sys/block/sda/queue/nr_requests", "256", "64"),
    ("/sys/fs/cgroup/cgroup.subtree_control", "cpu memory", "+io"),
];

/// A machine with files of the kernel, and programs that make things and change a secret.
fn machine() -> Fake {
    let fake = Fake::new();
    for (file, text, _) in FILES {
        fake.state_mut().put(file, text);
    }
    fake.state_mut().put("/sys/block/sda/diskseq", "3");
    fake.state_mut().put("/firmware", "wb");
    fake.state_mut().put_disk("/dev/sda", 1 << 30);
    let good = || Output { code: Some(0), ..Output::default() };
    fake.install("thing", move |state, words| {
        let (verb, path) = (words[0], format!("/things/{}", words[1]));
        match verb {
            "create" if !state.files.contains_key(&path) => state.put(&path, words[2]),
            "remove" if state.files.contains_key(&path) => _ = state.files.remove(&path),
            "release" => {}
            "show" => {
                let stdout = state.files.get(&path).cloned().unwrap_or_default();
                return Output { stdout, ..good() };
            }
            _ => return Output { code: Some(1), ..Output::default() },
        }
        good()
    });
    fake.install("firmware", move |state, words| {
        state.put("/firmware", words[0]);
        good()
    });
    fake.install("wipe", move |_, _| good());
    fake
}

fn thing(ledger: &Ledger<'_>, name: &str) -> Making {
    let tag = ledger.tag();
    Making {
        kind: "thing",
        id: name.to_owned(),
        create: Command::new(["thing", "create", name, &tag]),
        remove: Command::new(["thing", "remove", name]),
        exists: Probe::Command { ask: Command::new(["thing", "show", name]), ours: tag },
    }
}

fn form(number: usize) -> Form {
    match number {
        0 => Form::Choice,
        2 => Form::Member("io".to_owned()),
        _ => Form::Plain,
    }
}

/// Does a change that a seed chooses.
fn change(ledger: &mut Ledger<'_>, random: &mut Random) -> Result<()> {
    match random.below(8) {
        0..3 => {
            let number = random.below(FILES.len());
            let (file, _, value) = FILES[number];
            ledger.set(file, &form(number), value, None)
        }
        3..6 => {
            let name = format!("t{}", random.below(3));
            match ledger.make(thing(ledger, &name)) {
                // It was made already.
                Err(Fault::Refused(_)) => Ok(()),
                other => other.map(|_| ()),
            }
        }
        6 => {
            let (set, undo) = (Command::new(["firmware", "wt"]), Command::new(["firmware", "wb"]));
            ledger.ran(&set, Some(undo), Value::Null).map(|_| ())
        }
        _ => {
            let disk = Volume { may_lose: true, ..ledger.ground().volume("/dev/sda")? };
            ledger.lose(&disk, &Command::new(["wipe"])).map(|_| ())
        }
    }
}

/// The values of the machine's files, as somebody reads them.
fn seen(fake: &Fake) -> BTreeMap<String, String> {
    let number = |path: &str| FILES.iter().position(|(file, ..)| *file == path);
    let state = fake.state();
    let value = |path: &str, text: &str| {
        number(path).map_or_else(|| text.to_owned(), |number| form(number).value(text))
    };
    state.files.iter().map(|(path, text)| (path.clone(), value(path, text))).collect()
}

/// Undoes what a ledger has left, with the process dying at an operation; whether it survived.
fn undone(fake: &Fake, death: Option<Death>) -> bool {
    fake.revive();
    if fake.book_text().is_none() {
        return true;
    }
    fake.dies_at(death);
    let undo = || -> Result<()> {
        let mut ledger = Ledger::left(fake, fake.book())?;
        let came = ledger.undo(0)?;
        if !fake.is_dead() {
            assert_eq!(came.left, [], "{:?}", fake.book_text());
        }
        if ledger.is_clear() { ledger.close() } else { Ok(()) }
    };
    undo().is_ok() && !fake.is_dead()
}

/// One life of a machine: changes, a death at any operation, deaths within undo, perhaps a boot.
fn life(seed: u64, death: impl Fn(usize) -> Death) -> usize {
    let mut random = Random(seed);
    let fake = machine();
    let before = seen(&fake);
    let changes = 1 + random.below(6);
    let at = random.below(24);
    fake.dies_at(Some(death(at)));
    let mut done = || -> Result<()> {
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test")?;
        for _ in 0..changes {
            change(&mut ledger, &mut random)?;
        }
        Ok(())
    };
    let _ = done();
    let mut deaths = usize::from(fake.is_dead());
    if random.below(4) == 0 {
        // Files of the kernel do not outlive a boot, things on disks and in firmware do.
        fake.state_mut().boot += 1;
        for (file, text, _) in FILES {
            fake.state_mut().put(file, text);
        }
    }
    for _ in 0..random.below(4) {
        let at = random.below(12);
        deaths += usize::from(!undone(&fake, Some(death(at))));
    }
    assert!(undone(&fake, None), "seed {seed}");
    assert_eq!(seen(&fake), before, "seed {seed}");
    assert_eq!(fake.book_text(), None, "seed {seed}");
    deaths
}

#[test]
fn whatever_kills_it_the_machine_is_left_as_it_was_found() {
    let lives = 100_000;
    let mut deaths = 0;
    for seed in 0..lives {
        deaths += match seed % 3 {
            0 => life(seed, Death::Before),
            1 => life(seed, Death::After),
            _ => life(seed, Death::Within),
        };
    }
    assert!(deaths as u64 > lives / 2, "only {deaths} deaths: the test tests nothing");
}

#[test]
fn every_single_operation_is_survived() {
    // The same changes, with the death at each operation in turn, then at each one within undo.
    for death in [Death::Before, Death::After, Death::Within] {
        for at in 0.. {
            let is_over = all_changes(&machine(), Some(death(at)));
            for within in 0..12 {
                let fake = machine();
                let before = seen(&fake);
                all_changes(&fake, Some(death(at)));
                undone(&fake, Some(death(within)));
                assert!(undone(&fake, None));
                assert_eq!(seen(&fake), before, "{:?}, then {:?}", death(at), death(within));
            }
            if is_over {
                break;
            }
        }
    }
}

/// A change of each kind; whether the process survived them.
fn all_changes(fake: &Fake, death: Option<Death>) -> bool {
    fake.dies_at(death);
    let done = || -> Result<()> {
        let mut ledger = Ledger::open(fake, fake.book(), "7", "test")?;
        for (number, (file, _, value)) in FILES.into_iter().enumerate() {
            ledger.set(file, &form(number), value, None)?;
        }
        ledger.make(thing(&ledger, "t"))?;
        let undo = Command::new(["firmware", "wb"]);
        ledger.ran(&Command::new(["firmware", "wt"]), Some(undo), Value::Null)?;
        Ok(())
    };
    done().is_ok()
}

#[test]
fn what_somebody_else_changed_is_left_and_told() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let (file, _, value) = FILES[1];
    ledger.set(file, &Form::Plain, value, None).unwrap();
    ledger.make(thing(&ledger, "t")).unwrap();
    fake.state_mut().put(file, "1000");
    fake.state_mut().put("/things/t", "somebody");
    let left = ledger.undo(0).unwrap().left;
    assert_eq!(left[0].why, "the thing 't' is now somebody else's");
    assert_eq!(left[1].why, "it was '256', was set to '64', and is '1000' now");
    assert!(!ledger.is_clear());
    assert_eq!(fake.state().files[file], "1000");
    assert_eq!(fake.state().files["/things/t"], "somebody");
    // Once they put it back, undoing again finds nothing to do.
    fake.state_mut().put(file, "256");
    fake.state_mut().files.remove("/things/t");
    assert_eq!(ledger.undo(0).unwrap(), Undone::default());
    assert!(ledger.is_clear());
}

#[test]
fn what_something_that_stays_was_made_on_is_not_removed_below_it() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    ledger.set(FILES[1].0, &Form::Plain, "64", None).unwrap();
    ledger.make(thing(&ledger, "below")).unwrap();
    // Somebody uses it, as a mount is used.
    let busy = Making { remove: Command::new(["thing", "busy", "t"]), ..thing(&ledger, "t") };
    ledger.make(busy).unwrap();
    assert_eq!(ledger.undo(0).unwrap().left.len(), 2);
    assert!(fake.state().files.contains_key("/things/below"));
    assert_eq!(fake.state().files[FILES[1].0], "256");
    // Once the other is gone, it can go.
    fake.state_mut().files.remove("/things/t");
    assert_eq!(ledger.undo(0).unwrap().left, []);
    assert!(!fake.state().files.contains_key("/things/below"));
}

#[test]
fn a_thing_that_goes_a_moment_after_its_command_is_gone() {
    let left = |after_s: f64| {
        let fake = machine();
        let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
        let lazy = Command::new(["thing", "release", "t"]);
        ledger.make(Making { remove: lazy, ..thing(&ledger, "t") }).unwrap();
        fake.lets_go("/things/t", after_s);
        ledger.undo(0).unwrap().left.len()
    };
    assert_eq!((left(2.0), left(60.0)), (0, 1));
}

#[test]
fn a_thing_that_is_there_already_is_never_taken_for_ours() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    fake.state_mut().put("/things/t", "somebody");
    assert!(matches!(ledger.make(thing(&ledger, "t")), Err(Fault::Refused(_))));
    assert_eq!(ledger.undo(0).unwrap(), Undone::default());
    assert_eq!(fake.state().files["/things/t"], "somebody");
}

#[test]
fn data_are_lost_only_where_that_is_allowed_and_nobody_uses_them() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let disk = fake.volume("/dev/sda").unwrap();
    let wipe = || Command::new(["wipe", "/dev/sda"]);
    assert!(matches!(ledger.lose(&disk, &wipe()), Err(Fault::Refused(_))));
    let disk = Volume { may_lose: true, ..disk };
    fake.state_mut().used.insert("/dev/sda".to_owned(), "it is mounted".to_owned());
    assert!(matches!(ledger.lose(&disk, &wipe()), Err(Fault::Refused(_))));
    assert!(fake.state().ran.is_empty());
    fake.state_mut().used.clear();
    ledger.lose(&disk, &wipe()).unwrap();
    assert_eq!(fake.state().ran, ["wipe /dev/sda"]);
    ledger.undo(0).unwrap();
    assert!(ledger.is_clear());
}

#[test]
fn a_value_that_the_kernel_changes_is_refused_and_put_back() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let file = FILES[0].0;
    // The kernel offers no such scheduler and keeps the old one.
    let fault = ledger.set(file, &Form::Choice, "cfq", None).unwrap_err();
    assert!(matches!(fault, Fault::Failed(_)), "{fault:?}");
    assert!(ledger.is_clear());
}

#[test]
fn after_a_boot_settings_of_the_kernel_are_left_alone() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let (file, _, value) = FILES[1];
    ledger.set(file, &Form::Plain, value, None).unwrap();
    // Another disk may have the name after a boot, with this very value.
    fake.state_mut().boot += 1;
    assert_eq!(ledger.undo(0).unwrap(), Undone::default());
    assert_eq!(fake.state().files[file], "64");
}

#[test]
fn undo_goes_back_to_a_mark() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    ledger.make(thing(&ledger, "below")).unwrap();
    let mark = ledger.mark();
    let witness = Witness { file: "/sys/block/sda/diskseq".to_owned(), text: "3".to_owned() };
    ledger.set(FILES[1].0, &Form::Plain, "64", Some(witness)).unwrap();
    let told = ledger.would_undo().back;
    assert_eq!(told, ["/sys/block/sda/queue/nr_requests = 256", "thing remove below"]);
    ledger.undo(mark).unwrap();
    assert_eq!(fake.state().files[FILES[1].0], "256");
    assert!(fake.state().files.contains_key("/things/below"));
}

#[test]
fn writes_within_what_was_made_need_no_undo_and_others_are_refused() {
    let fake = machine();
    let mut ledger = Ledger::open(&fake, fake.book(), "7", "test").unwrap();
    let path = "/things/dir".to_owned();
    let making = Making { exists: Probe::File { path, ours: None }, ..thing(&ledger, "dir") };
    ledger.make(making).unwrap();
    fake.state_mut().put("/things/dir/limit", "");
    ledger.set_within("/things/dir/limit", "1").unwrap();
    for foreign in ["/things/directory", "/firmware"] {
        assert!(matches!(ledger.set_within(foreign, "1"), Err(Fault::Refused(_))), "{foreign}");
    }
}

#[test]
fn an_undo_file_of_another_version_or_with_rubbish_is_refused() {
    let line = r#"{"opened":{"version":2,"id":"7","owner":"x"}}"#;
    for text in
        [format!("{line}\n"), "rubbish\n".to_owned(), r#"{"done":{"number":4}}"#.to_owned() + "\n"]
    {
        let fake = machine();
        fake.book().append(&text).unwrap();
        assert!(Ledger::left(&fake, fake.book()).is_err(), "{text}");
    }
}
