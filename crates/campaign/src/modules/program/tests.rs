//! A program on a machine in memory: it sets a firmware, and makes a disk.

use super::*;
use crate::ground::Output;
use crate::ground::fake::{Death, Fake, INPUT, State};

const FIRMWARE: &str = "/firmware";

fn question(state: &State) -> Json {
    serde_json::from_str(&state.files[INPUT]).unwrap()
}

fn prints(answer: &Json) -> Output {
    Output { code: Some(0), stdout: answer.to_string(), stderr: "working\n".to_owned() }
}

/// A program that sets the firmware to `set.mode`, and tells the mode before as its state.
fn firmware(state: &mut State, _: &[&str]) -> Output {
    let question = question(state);
    let ok = serde_json::json!({"ok": true});
    prints(&match question["verb"].as_str().unwrap() {
        "before" => serde_json::json!({"ok": true, "state": state.files[FIRMWARE]}),
        "apply" => {
            state.put(FIRMWARE, question["set"]["mode"].as_str().unwrap());
            ok
        }
        "verify" => {
            let is_set = question["set"]["mode"] == state.files[FIRMWARE].as_str();
            serde_json::json!({"ok": is_set, "say": "looked"})
        }
        "beside" => {
            state.put(FIRMWARE, &format!("beside at {}", question["at"]));
            ok
        }
        "undo" => {
            // Nothing is to be taken back where nothing is known.
            if let Some(before) = question["state"].as_str() {
                state.put(FIRMWARE, before);
            }
            ok
        }
        "collect" => serde_json::json!({"ok": true, "state": {"mode": state.files[FIRMWARE]}}),
        _ => ok,
    })
}

/// A machine with a disk that may be lost, and this program.
fn machine(
    program: impl Fn(&mut State, &[&str]) -> Output + 'static,
) -> (Fake, Vec<Volume>, Program) {
    let fake = Fake::new();
    fake.state_mut().put(FIRMWARE, "wb");
    fake.state_mut().put("/sys/class/block/sda/size", "8");
    fake.state_mut().put("/sys/class/block/sdb/size", "8");
    for disk in ["/dev/sda", "/dev/sdb"] {
        fake.state_mut().put_disk(disk, 4096);
    }
    fake.install("./p", program);
    let on = vec![Volume { may_lose: true, ..fake.volume("/dev/sda").unwrap() }];
    let many = |words: &[&str]| Value::Many(words.iter().map(|it| (*it).to_owned()).collect());
    let settings = [
        ("run".to_owned(), many(&["./p"])),
        ("set.mode".to_owned(), Value::One("wt".to_owned())),
        ("at".to_owned(), many(&["1s", "1500ms"])),
    ];
    let given = Given { name: "p".to_owned(), settings: settings.into(), ..Given::default() };
    (fake, on, Program::read(&given).unwrap())
}

#[test]
fn a_program_is_asked_verb_by_verb_and_undone_with_the_state_before() {
    let (fake, on, program) = machine(firmware);
    assert_eq!(program.programs(), ["./p"]);
    assert_eq!(program.check(&fake, &on).unwrap().volumes, on);
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    assert_eq!(program.apply(&mut ledger, &on).unwrap(), on);
    assert_eq!(fake.state().files[FIRMWARE], "wt");
    program.verify(&fake, &on).unwrap();
    assert_eq!(fake.told(), ["    p: looked"]);
    program.beside(&mut ledger, &on, 0.0..1.2).unwrap();
    assert_eq!(fake.state().files[FIRMWARE], "beside at 1.0");
    program.beside(&mut ledger, &on, 1.2..1.4).unwrap();
    assert_eq!(fake.state().files[FIRMWARE], "beside at 1.0", "nothing was due");
    let kept = program.collect(&fake, &on).unwrap();
    assert_eq!(kept[0].0, "p.log");
    assert!(kept[0].1.contains("apply: working\n") && kept[0].1.contains("said looked"));
    assert_eq!(kept[1], ("p.json".to_owned(), "{\n  \"mode\": \"beside at 1.0\"\n}\n".to_owned()));
    // The second instant never came.
    let fault = program.ended(&mut ledger, &on, 1.4).unwrap_err();
    assert!(matches!(&fault, Fault::Refused(text) if text.contains("1.5 s")), "{fault:?}");
    assert_eq!(ledger.undo(0).unwrap().back, [": ./p (undo)"]);
    assert_eq!(fake.state().files[FIRMWARE], "wb");
}

#[test]
fn wherever_a_campaign_is_killed_the_program_is_undone() {
    let mut deaths = 0;
    for death in [Death::Before, Death::After] {
        for at in 0..12 {
            let (fake, on, program) = machine(firmware);
            fake.dies_at(Some(death(at)));
            let life = || -> Result<()> {
                let mut ledger = Ledger::open(&fake, fake.book(), "1", "test")?;
                program.apply(&mut ledger, &on)?;
                program.beside(&mut ledger, &on, 0.0..2.0)
            };
            let _ = life();
            deaths += u32::from(fake.is_dead());
            fake.revive();
            if fake.book_text().is_some() {
                let mut left = Ledger::left(&fake, fake.book()).unwrap();
                assert_eq!(left.undo(0).unwrap().left, []);
            }
            assert_eq!(fake.state().files[FIRMWARE], "wb", "{:?}", death(at));
        }
    }
    assert!(deaths >= 20, "{deaths}: the test tests nothing");
}

#[test]
fn an_undo_that_answers_no_leaves_the_machine_changed() {
    let (fake, on, program) = machine(|state, words| {
        let is_undo = question(state)["verb"] == "undo";
        let answer = serde_json::json!({"ok": false, "say": "the controller is gone"});
        if is_undo { prints(&answer) } else { firmware(state, words) }
    });
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    program.apply(&mut ledger, &on).unwrap();
    let left = ledger.undo(0).unwrap().left;
    assert_eq!(left[0].why, "./p: the controller is gone");
}

#[test]
fn a_program_that_fails_says_at_which_verb_and_its_log_is_told() {
    let (fake, on, program) = machine(|state, words| {
        let is_apply = question(state)["verb"] == "apply";
        let failed =
            Output { code: Some(2), stderr: "no rights\n".to_owned(), ..Output::default() };
        if is_apply { failed } else { firmware(state, words) }
    });
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    let fault = program.apply(&mut ledger, &on).unwrap_err();
    assert_eq!(fault, Fault::Failed("apply: ./p: exit code 2: no rights".to_owned()));
    assert_eq!(fake.told(), ["    p: apply: no rights"]);
    let kept = ledger.take_kept();
    assert_eq!(kept[0].0, "p.log");
    assert!(kept[0].1.ends_with("apply: no rights\n"), "{kept:?}");
}

#[test]
fn an_answer_that_is_none_is_a_fault_and_nothing_is_left_of_it() {
    for rubbish in ["", "done", "[]", "{\"ok\": \"yes\"}", "{\"ok\": true}\n{\"ok\": true}"] {
        let (fake, on, program) = machine(move |state, words| {
            let is_apply = question(state)["verb"] == "apply";
            let answer = Output { stdout: rubbish.to_owned(), ..prints(&Json::Null) };
            if is_apply { answer } else { firmware(state, words) }
        });
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        let fault = program.apply(&mut ledger, &on).unwrap_err();
        assert!(matches!(fault, Fault::Failed(_)), "{rubbish}: {fault:?}");
        assert_eq!(ledger.undo(0).unwrap().left, []);
        assert_eq!(fake.state().files[FIRMWARE], "wb", "{rubbish}");
    }
}

#[test]
fn data_are_lost_only_where_they_may_be() {
    let answers = |answer: &'static str| {
        move |_: &mut State, _: &[&str]| Output {
            code: Some(0),
            stdout: answer.to_owned(),
            ..Output::default()
        }
    };
    let (fake, on, program) = machine(answers(r#"{"ok":true,"loses":["/dev/sda"]}"#));
    assert_eq!(program.check(&fake, &on).unwrap().loses, ["/dev/sda"]);
    let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
    program.apply(&mut ledger, &on).unwrap();
    let kept = [Volume { may_lose: false, ..on[0].clone() }];
    let fault = program.apply(&mut ledger, &kept).unwrap_err();
    assert!(matches!(fault, Fault::Refused(_)), "{fault:?}");
    fake.state_mut().used.insert("/dev/sda".to_owned(), "mounted".to_owned());
    assert!(program.apply(&mut ledger, &on).is_err(), "what is in use is not lost");

    let (fake, on, program) = machine(answers(r#"{"ok":true,"loses":["/dev/sdb"]}"#));
    let fault = program.check(&fake, &on).unwrap_err();
    assert!(matches!(&fault, Fault::Refused(text) if text.contains("/dev/sdb")), "{fault:?}");
}

#[test]
fn a_volume_may_be_lost_if_it_was_made_and_not_because_the_program_says_so() {
    let told = r#"{"ok":true,"volumes":[{"path":"/dev/PATH","may_lose":true}]}"#;
    for (path, made, expected) in
        [("sdb", false, false), ("new", true, true), ("sda", false, true), ("loop0", true, true)]
    {
        let answer = told.replace("PATH", path);
        let (fake, on, program) = machine(move |state, _| {
            if made && question(state)["verb"] == "apply" {
                state.put_disk(&format!("/dev/{path}"), 4096);
                state.put(&format!("/sys/class/block/{path}/size"), "8");
            }
            Output { code: Some(0), stdout: answer.clone(), ..Output::default() }
        });
        fake.state_mut().put("/sys/class/block/loop0/size", "0");
        let mut ledger = Ledger::open(&fake, fake.book(), "1", "test").unwrap();
        let volumes = program.apply(&mut ledger, &on).unwrap();
        assert_eq!(volumes[0].may_lose, expected, "{path}");
    }
}
