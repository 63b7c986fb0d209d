//! Agents set their hosts up with the modules of a campaign, and leave them as they were found.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use super::losses::{children, kill, until};
use super::{Site, said};

/// A campaign on two hosts, each of which has undo files of its own, and a copy of its target while
/// it is set up.
fn text(site: &Site, seconds: u32) -> String {
    for host in ["n1", "n2"] {
        fs::write(site.path(&format!("{host}.img")), vec![7; 1 << 20]).unwrap();
    }
    let at = site.path("").display().to_string();
    format!(
        "name='c'\nretries=5\nstart.skew='10s'\n[hosts]\n\
         \"n{{1..2}}\"={{launch=['env','IOECHO_UNDO_DIR={at}/undo-{{}}']}}\n[devices]\n\
         d={{host=['n{{1..2}}'],path='{at}/{{host}}.img'}}\n[replay]\ndevice='d'\nread-only=true\n\
         allow-cached=true\n\
         trace='gen:random?read=100&rate=100&duration={seconds}s&size=4k&area=1M'\n\
         [[stack]]\nname='copy'\nmodule='command'\napply=['cp','{{volume}}','{{volume}}.up']\n\
         verify=['test','-e','{{volume}}.up']\nundo=['rm','-f','{{volume}}.up']\n"
    )
}

fn copies(site: &Site) -> usize {
    ["n1", "n2"].iter().filter(|host| site.path(&format!("{host}.img.up")).exists()).count()
}

/// Ledgers that are open.
fn ledgers(site: &Site) -> Vec<PathBuf> {
    let below = |host: u32| fs::read_dir(site.path(&format!("undo-{host}"))).into_iter().flatten();
    let all = (1..=2).flat_map(below).flatten().map(|entry| entry.path());
    all.filter(|path| path.extension().is_some_and(|it| it == "jsonl")).collect()
}

#[test]
fn each_host_is_set_up_by_its_agent_and_left_as_it_was_found() {
    let site = Site::new();
    let output = site.run(&text(&site, 1));
    site.measured(&output);
    assert_eq!((copies(&site), ledgers(&site)), (0, Vec::new()), "{}", said(&output));
}

#[test]
fn programs_of_the_campaigns_directory_are_sent_and_run_on_each_host() {
    let site = Site::new();
    // Nobody has made it executable, and a host has only what it is sent.
    fs::write(site.path("up.sh"), "#!/bin/sh\necho \"$0\" >\"$1.by\"\nexec cp \"$1\" \"$1.up\"\n")
        .unwrap();
    let text = text(&site, 1).replace("['cp','{volume}','{volume}.up']", "['./up.sh','{volume}']");
    let output = site.run(&text);
    site.measured(&output);
    assert_eq!((copies(&site), ledgers(&site)), (0, Vec::new()), "{}", said(&output));
    for host in ["n1", "n2"] {
        let by = fs::read_to_string(site.path(&format!("{host}.img.by"))).unwrap();
        assert!(by.contains("/agent/loads/") && by.ends_with("/load-up.sh\n"), "{by}");
    }
}

#[test]
fn hosts_are_left_as_they_were_found_though_the_campaign_is_killed() {
    let site = Site::new();
    fs::write(site.path("c.toml"), text(&site, 60)).unwrap();
    let mut child = site
        .command(&["campaign", "run", "c.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("both are set up", || copies(&site) == 2 && ledgers(&site).len() == 2);
    let agents = children(child.id(), "agent");
    kill(child.id(), "-KILL");
    child.wait().unwrap();
    until("both are as they were found", || copies(&site) == 0 && ledgers(&site).is_empty());
    let is_there = |pid: &u32| PathBuf::from(format!("/proc/{pid}")).exists();
    until("the agents end", || !agents.iter().any(is_there));
}
