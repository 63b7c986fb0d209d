//! What may happen to a campaign: kills, a full disk, a torn journal, edited results, another disk.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ioecho_fixture::{LoopDevice, MountPoint, or_skip};

use super::fixture::{Fixture, said};
use super::{LADDER, json, results, with};

/// Kills a campaign at so many random instants, and lets it go on each time; whether it ends as one
/// that was never killed.
fn killed(fixture: &Fixture, instants: u64, mut seed: u64) {
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q", "-o", "whole"]).status.success());
    for _ in 0..instants {
        let begun = fixture.path("killed").join("plan.json").exists();
        let next: &[&str] = if begun {
            &["campaign", "resume", "killed", "-q"]
        } else {
            &["campaign", "run", "c.toml", "-q", "-o", "killed"]
        };
        let mut command = fixture.command(next);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        thread::sleep(Duration::from_millis(seed >> 33 & 255));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = fixture.run(&["campaign", "resume", "killed", "-q"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(results(fixture, "killed").0, results(fixture, "whole").0);
    let told = |store| json(fixture, &["campaign", "status", store, "--json"])["sentence"].clone();
    assert_eq!(told("killed"), told("whole"));
}

/// Two steps in each cell, so that kills fall between them as well.
const STEPS: &str = "[[step]]\nname='cold'\n[[step]]\nname='hot'\n";

#[test]
fn a_cell_of_several_replays_is_done_as_a_whole_whenever_it_is_killed() {
    killed(&with(&format!("{LADDER}{STEPS}")), 8, 1);
}

#[test]
#[ignore = "takes a minute"]
fn fifty_kills_change_nothing() {
    killed(&with(&format!("{LADDER}{STEPS}")), 50, 2);
}

#[test]
fn a_full_disk_ends_a_campaign_before_the_run_that_does_not_fit() {
    let fixture = with(LADDER);
    let mount = or_skip!(MountPoint::of_memory(40 << 20));
    let store = mount.path().join("s");
    let store = store.to_str().unwrap();
    let filled = mount.path().join("filled");
    fs::write(&filled, vec![1; 25 << 20]).unwrap();
    let output = fixture.run(&["campaign", "run", "c.toml", "-q", "-o", store]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    let status = json(&fixture, &["campaign", "status", store, "--json"]);
    assert_eq!(status["counts"]["failed"], 0, "{status}");
    // With room again it goes on.
    fs::remove_file(filled).unwrap();
    let output = fixture.run(&["campaign", "resume", store, "-q"]);
    assert!(output.status.success(), "{}", said(&output));
    let status = json(&fixture, &["campaign", "status", store, "--json"]);
    assert!(status["counts"]["done"].as_u64() > Some(2), "{status}");
    assert_eq!(status["counts"]["failed"], 0, "{status}");
}

fn first_run(fixture: &Fixture) -> std::path::PathBuf {
    let cells = fixture.path("two.campaign").join("cells");
    fs::read_dir(cells).unwrap().next().unwrap().unwrap().path().join("1/run")
}

#[test]
fn a_torn_journal_and_an_edited_result_are_told_and_nothing_is_lost() {
    let fixture = with(LADDER);
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    let before = results(&fixture, "two.campaign");
    let journal = fixture.path("two.campaign").join("journal.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all(b"{\"at\":\"2026-11-23T12:0").unwrap();
    let resumed = fixture.run(&["campaign", "resume", "two.campaign", "-q"]);
    assert!(resumed.status.success() && said(&resumed).contains("is torn"), "{}", said(&resumed));
    assert_eq!(results(&fixture, "two.campaign"), before);
    assert!(fs::read_to_string(&journal).unwrap().lines().count() > 20);

    let summary = first_run(&fixture).join("summary.json");
    let text = fs::read_to_string(&summary).unwrap();
    fs::write(&summary, text.replacen('1', "2", 1)).unwrap();
    let reported = fixture.run(&["campaign", "report", "two.campaign"]);
    let told = "was changed or removed after the run";
    assert!(said(&reported).contains(told), "{}", said(&reported));
    let page = fs::read_to_string(fixture.path("two.campaign").join("report.html")).unwrap();
    assert!(page.contains(told));
}

#[test]
fn another_disk_under_the_same_name_is_refused_before_anything_is_touched() {
    let device = or_skip!(LoopDevice::new(32 << 20));
    let (path, file) = (device.path(), "/somewhere/else");
    let fixture = with(&format!(
        "name='x'\n[devices]\na={{path='{path}',serial='{file}'}}\n\
         [replay]\ndevice='a'\ntrace='load'\n"
    ));
    let before = fs::read(Path::new(path)).unwrap();
    for arguments in
        [&["campaign", "plan", "c.toml"][..], &["campaign", "run", "c.toml", "--destroy", "a"][..]]
    {
        let output = fixture.run(arguments);
        assert_eq!(output.status.code(), Some(6), "{}", said(&output));
        assert!(said(&output).contains("has not the serial number"), "{}", said(&output));
    }
    assert!(!fixture.path("x.campaign").exists());
    assert!(fs::read(Path::new(path)).unwrap() == before);
}
