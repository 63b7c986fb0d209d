//! Agents and campaigns that are killed, and clocks that differ by a quarter of an hour.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{Site, campaign, json, said};

/// The processes whose parent this one is, and which have this word in their command line.
pub(super) fn children(parent: u32, word: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let is_child = rest.split(' ').nth(1) == Some(&parent.to_string());
        let words = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if is_child && words.split('\0').any(|it| it == word) {
            found.push(pid);
        }
    }
    found
}

pub(super) fn kill(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Waits until something holds.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(2), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A campaign of a load of some seconds on two agents, begun, and waited for until both replay; and
/// its attempt at that.
fn going(site: &Site, more: &str) -> (Child, PathBuf) {
    for host in ["n01", "n02"] {
        fs::write(site.path(&format!("{host}.img")), vec![7; 16 << 20]).unwrap();
    }
    let device = site.path("{host}.img").display().to_string();
    let text = format!(
        "{}trace='gen:random?read=100&rate=200&duration=4s&size=4k&area=1M'\n\
         read-only=true\nallow-cached=true\n",
        campaign(2, &device, &format!("start.skew='10s'\nretries=5\n{more}"))
    );
    let child = site.begin(&text);
    let attempt = until_replaying(site, Path::new(""));
    (child, attempt)
}

/// Waits until the replays of a campaign go on in an attempt behind this one, and returns it.
pub(super) fn until_replaying(site: &Site, before: &Path) -> PathBuf {
    let is_told = |attempt: &PathBuf| attempt.join("begun.json").exists();
    let told = || behind(site, before).into_iter().rfind(is_told);
    until("all are armed", || told().is_some());
    let attempt = told().unwrap();
    // All clocks are one here, and all were told the same instant on it.
    let begun = json(&attempt.join("begun.json"));
    let told = begun["members"].as_array().unwrap().iter().map(|it| it[1].as_i64().unwrap()).max();
    let now = || {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
        tv_sec * 1_000_000_000 + tv_nsec
    };
    until("they begin", || now() > told.unwrap() + 300_000_000);
    attempt
}

/// The attempts behind this one.
fn behind(site: &Site, attempt: &Path) -> Vec<PathBuf> {
    site.attempts().into_iter().filter(|other| **other > *attempt).collect()
}

fn end_of(attempt: &Path) -> serde_json::Value {
    json(&attempt.join("attempt.json"))["end"].clone()
}

#[test]
fn an_agent_that_is_killed_stops_the_others_and_the_cell_is_done_again() {
    let site = Site::new();
    let (child, first) = going(&site, "");
    let agents = children(child.id(), "agent");
    assert_eq!(agents.len(), 2, "{agents:?}");
    kill(agents[1], "-KILL");
    let output = child.wait_with_output().unwrap();
    let lost = end_of(&first)["fault"].as_str().unwrap().to_owned();
    assert!(lost.starts_with("host-lost: n0"), "{lost}");
    let again = site.measured(&output);
    assert!(again > first && end_of(&again)["measured"].is_object(), "{}", said(&output));
    assert_eq!(json(&again.join("run/summary.json"))["merged"].as_array().unwrap().len(), 2);
    assert_eq!(site.kept(), 0, "nothing stays in a spool");
}

#[test]
fn a_campaign_that_is_killed_leaves_no_replay_and_resume_goes_on() {
    let site = Site::new();
    let (mut child, first) = going(&site, "");
    let agents = children(child.id(), "agent");
    kill(child.id(), "-KILL");
    child.wait().unwrap();
    until("the agents end", || {
        agents.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    });
    let output = site.command(&["campaign", "resume", "c.campaign"]).output().unwrap();
    assert!(!first.join("attempt.json").exists(), "it has no end");
    assert!(site.measured(&output) > first, "{}", said(&output));
    assert_eq!(site.kept(), 0, "nothing stays in a spool");
}

#[test]
fn what_agents_had_finished_when_the_campaign_was_killed_counts() {
    let site = Site::new();
    let (mut child, first) = going(&site, "");
    // It hears nothing more; its agents finish, and keep what they have.
    kill(child.id(), "-STOP");
    until("both have finished", || site.kept() == 2);
    let numbers = runs(&site.path("cache/ioecho/agent/spool"));
    let agents = children(child.id(), "agent");
    kill(child.id(), "-KILL");
    child.wait().unwrap();
    until("the agents end", || {
        agents.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    });
    let output = site.command(&["campaign", "resume", "c.campaign"]).output().unwrap();
    let [second, ..] = &behind(&site, &first)[..] else { panic!("{}", said(&output)) };
    assert!(end_of(second)["measured"].is_object(), "{}", said(&output));
    assert_eq!(runs(&second.join("hosts")), numbers, "they are the runs that the agents had done");
    assert_eq!(site.kept(), 0);
}

#[test]
fn agents_that_are_to_finish_do_so_without_their_campaign_and_resume_collects_it() {
    let site = Site::new();
    let (mut child, first) = going(&site, "on-controller-loss='finish'");
    let numbers = runs(&site.path("cache/ioecho/agent/spool"));
    kill(child.id(), "-KILL");
    child.wait().unwrap();
    // What goes on is waited for.
    let output = site.command(&["campaign", "resume", "c.campaign"]).output().unwrap();
    assert!(said(&output).contains(": what an earlier agent"), "{}", said(&output));
    let [second, ..] = &behind(&site, &first)[..] else { panic!("{}", said(&output)) };
    assert!(!first.join("attempt.json").exists(), "it has no end");
    assert!(end_of(second)["measured"].is_object(), "{}", said(&output));
    assert_eq!(runs(&second.join("hosts")), numbers, "they are the runs that had begun");
    assert_eq!(json(&second.join("run/summary.json"))["merged"].as_array().unwrap().len(), 2);
    assert_eq!(site.kept(), 0);
}

/// The numbers of all runs below a directory.
fn runs(at: &Path) -> Vec<String> {
    let output =
        Command::new("grep").args(["-rh", "--include=run.toml", "^run = "]).arg(at).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_campaign_that_is_asked_to_end_ends_its_replays_and_counts_nothing() {
    let site = Site::new();
    let (child, attempt) = going(&site, "");
    kill(child.id(), "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", said(&output));
    assert_eq!(end_of(&attempt), "stopped");
    assert_eq!((site.whole().len(), behind(&site, &attempt).len()), (0, 0), "{}", said(&output));
}

#[test]
fn a_clock_that_is_ahead_by_a_thousand_seconds_is_found_within_its_bound() {
    let unshare = ["unshare", "-T", "--monotonic", "1000", "--fork", "--"];
    let probe = Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    let can = probe.is_ok_and(|output| output.status.success());
    if !can {
        ioecho_fixture::skipped("time namespaces (unshare -T) are not allowed here");
        return;
    }
    let site = Site::new();
    for host in ["near", "far"] {
        fs::write(site.path(&format!("{host}.img")), vec![7; 16 << 20]).unwrap();
    }
    let words: Vec<String> = unshare.iter().map(|word| format!("'{word}'")).collect();
    let text = format!(
        "name='c'\nretries=5\nstart.skew='10s'\n[hosts]\nnear={{launch=[]}}\nfar={{launch=[{}]}}\n\
         [devices]\nd={{host=['near','far'],path='{}/{{host}}.img'}}\n[replay]\ndevice='d'\n\
         trace='load'\nread-only=true\nallow-cached=true\n",
        words.join(","),
        site.path("").display()
    );
    let output = site.run(&text);
    let attempt = site.measured(&output);
    let start = json(&attempt.join("start.json"));
    for (host, truth) in start["hosts"].as_array().unwrap().iter().zip([0, 1_000_000_000_000]) {
        for when in ["before", "after"] {
            let offset = &host[when]["offset"];
            let [low, high] = ["low_ns", "high_ns"].map(|end| offset[end].as_i64().unwrap());
            assert!(low <= truth && truth <= high, "{when}: {host}");
        }
    }
    // The two began together, although their clocks read so differently.
    let whole = json(&attempt.join("run/summary.json"));
    assert_eq!(super::check(&whole, "start-skew")["grade"], "pass");
}

/// What a campaign types, where results come slowly: so many bytes, and then ten a second as long
/// as a file is there. What is wanted of the agent is noted.
const SLOW: &str = r#"#!/bin/sh
at=$1
shift
case "$*" in
*" agent --give "*)
    tee -a "$at/wanted" | "$@" | {
        dd bs=1 count=20000 2>/dev/null
        while [ -e "$at/slow" ]; do
            dd bs=1 count=1 2>/dev/null
            sleep 0.1
        done
        cat
    } ;;
*) exec "$@" ;;
esac
"#;

#[test]
fn a_campaign_that_is_asked_to_end_while_it_fetches_ends_and_resume_fetches_the_rest() {
    let site = Site::new();
    let at = site.path("").display().to_string();
    fs::write(site.path("slow.sh"), SLOW).unwrap();
    fs::write(site.path("slow"), "").unwrap();
    fs::write(site.path("disk.img"), vec![7; 16 << 20]).unwrap();
    let text = format!(
        "name='c'\nretries=5\nstart.skew='1s'\n[hosts]\n\
         n1={{launch=['sh','{at}/slow.sh','{at}']}}\n[devices]\n\
         d={{host='n1',path='{at}/disk.img'}}\n[replay]\ndevice='d'\nread-only=true\n\
         allow-cached=true\ntrace='gen:random?read=100&rate=3000&duration=1s&size=4k&area=16M'\n"
    );
    let mut child = site.begin(&text);
    let wanted = || fs::read_to_string(site.path("wanted")).unwrap_or_default();
    let came = || -> u64 {
        let files = site.attempts().into_iter().flat_map(|it| fs::read_dir(it.join("run")));
        files.flatten().flatten().map(|file| file.metadata().unwrap().len()).sum()
    };
    until("it waits for the rest", || came() > 10_000);
    kill(child.id(), "-INT");
    // What comes slowly would come for hours.
    until("it ends", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", said(&output));
    let before = site.attempts();
    assert_eq!(end_of(before.last().unwrap()), "stopped");
    assert_eq!(site.kept(), 1, "the agent keeps what is not here yet");
    assert!(!wanted().contains("\"from\":1"), "{}", wanted());
    let numbers = runs(&site.path("cache/ioecho/agent/spool"));
    fs::remove_file(site.path("slow")).unwrap();
    let output = site.command(&["campaign", "resume", "c.campaign"]).output().unwrap();
    let [second, ..] = &site.attempts()[before.len()..] else { panic!("{}", said(&output)) };
    assert!(end_of(second)["measured"].is_object(), "{}", said(&output));
    assert_eq!(runs(&second.join("run")), numbers, "it is the run that the agent had done");
    // What had come was not sent again.
    assert!(wanted().lines().any(|line| !line.ends_with("\"from\":0}")), "{}", wanted());
    // Its clock was compared behind the replay as well.
    assert!(json(&second.join("start.json"))["hosts"][0]["after"].is_object());
    assert_eq!(site.kept(), 0);
}
