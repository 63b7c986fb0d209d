//! One host makes volumes, others take them in: set up in order, and undone in the reverse order,
//! whoever is lost. The host that makes them is an agent with a program, whose volumes have the
//! same paths for the others; each notes what it does in one file.

use std::fs;
use std::process::Output;

use super::losses::{children, kill, until};
use super::{Site, said};

/// A program that makes a volume for each host, and notes when.
const MAKER: &str = r#"#!/bin/sh
at=$1
read -r line
case $line in
*'"verb":"apply"'*)
    for host in n1 n2; do head -c 4M /dev/zero >"$at/vol-$host"; done
    echo 'san up' >>"$at/order" ;;
*'"verb":"undo"'*)
    [ -e "$at/vol-n1" ] && echo 'san down' >>"$at/order"
    rm -f "$at/vol-n1" "$at/vol-n2" ;;
*'"verb":"beside"'*) echo 'san beside' >>"$at/order" ;;
esac
printf '{"ok":true,"volumes":[{"path":"%s/vol-n1"},{"path":"%s/vol-n2"}],"state":1}\n' "$at" "$at"
"#;

fn at(site: &Site) -> String {
    site.path("").display().to_string()
}

/// A campaign whose device is on one host, and whose load is on two others.
fn text(site: &Site, seconds: u32, more: &str) -> String {
    fs::write(site.path("maker.sh"), MAKER).unwrap();
    fs::write(site.path("disk.img"), vec![7; 1 << 20]).unwrap();
    let at = at(site);
    let host = |name: &str| format!("{name}={{launch=['env','IOECHO_UNDO_DIR={at}/undo-{name}']}}");
    let hosts = ["san", "n1", "n2"].map(host).join("\n");
    format!(
        "name='c'\nretries=5\nstart.skew='10s'\norder='written'\n{more}\n[hosts]\n{hosts}\n\
         [devices]\nd={{host='san',path='{at}/disk.img'}}\n[replay]\ndevice='d'\nread-only=true\n\
         allow-cached=true\n\
         trace='gen:random?read=100&rate=100&duration={seconds}s&size=4k&area=1M'\n\
         [[stack]]\nname='maker'\nmodule='program'\nrun=['sh','{at}/maker.sh','{at}']\nat='0.1s'\n\
         [[stack]]\nname='taker'\nmodule='command'\nhosts=['n1','n2']\n\
         apply=['sh','-c','test -e {{volume}} && echo $(basename {{volume}}) up >>{at}/order']\n\
         undo=['sh','-c','test -e {{volume}} && echo $(basename {{volume}}) down >>{at}/order']\n"
    )
}

/// What the hosts did, in its order.
fn order(site: &Site) -> Vec<String> {
    let text = fs::read_to_string(site.path("order")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What was made below stood whenever something above it was set up or taken down, and nothing
/// stands any more.
fn holds(site: &Site, output: &Output) {
    let (mut below, mut above) = (false, 0);
    let order = order(site);
    for line in &order {
        match line.as_str() {
            "san up" => below = true,
            "san down" => {
                assert_eq!(above, 0, "{order:?}: {}", said(output));
                below = false;
            }
            "san beside" => {}
            line => {
                assert!(below, "{order:?}: {}", said(output));
                above += if line.ends_with("up") { 1 } else { -1 };
            }
        }
    }
    assert!(!below && above == 0, "{order:?}: {}", said(output));
    for host in ["san", "n1", "n2"] {
        let left = fs::read_dir(site.path(&format!("undo-{host}"))).into_iter().flatten().flatten();
        let open = left.filter(|entry| entry.path().extension().is_some_and(|it| it == "jsonl"));
        assert_eq!(open.count(), 0, "{host}");
    }
}

#[test]
fn volumes_of_one_host_are_for_others_and_what_stands_is_used_again() {
    let site = Site::new();
    let output = site.run(&(text(&site, 1, "") + "[axes]\ntargets-max=[2,1]\n"));
    let attempts = site.attempts();
    assert!(attempts.iter().any(|it| it.join("hosts/n2/run").exists()), "{}", said(&output));
    holds(&site, &output);
    let order = order(&site);
    let count = |what: &str| order.iter().filter(|line| *line == what).count();
    // A stall of a busy machine costs an attempt, and nothing that stands.
    assert_eq!((count("san up"), count("vol-n1 up"), count("vol-n2 up")), (1, 1, 1), "{order:?}");
    // What is due beside a replay is done on the host that has the device.
    let besides = site.whole().len()..=attempts.len();
    assert!(besides.contains(&count("san beside")), "{order:?}: {}", said(&output));
}

/// A campaign whose replays go on when somebody is killed: the campaign, or the agent of a host. It
/// gets its result all the same, and everything is undone in the reverse order.
fn killed(victim: &str) {
    let site = Site::new();
    let child = site.begin(&text(&site, 3, ""));
    until("the replays go on", || order(&site).contains(&"san beside".to_owned()));
    let agent = |name: &str| {
        let environment = format!("IOECHO_UNDO_DIR={}/undo-{name}", at(&site));
        let is_it = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
            text.split('\0').any(|it| it == environment)
        };
        children(child.id(), "agent").into_iter().find(is_it).unwrap()
    };
    kill(if victim == "campaign" { child.id() } else { agent(victim) }, "-KILL");
    let mut output = child.wait_with_output().unwrap();
    if victim == "campaign" {
        output = site.command(&["campaign", "resume", "c.campaign"]).output().unwrap();
    }
    site.measured(&output);
    holds(&site, &output);
}

#[test]
fn the_host_of_the_device_may_be_killed() {
    killed("san");
}

#[test]
fn a_host_that_takes_in_may_be_killed() {
    killed("n1");
}

#[test]
fn the_campaign_may_be_killed_and_resume_undoes_in_order() {
    killed("campaign");
}
