//! Ten hosts with an sshd each: network namespaces of this machine, behind a bridge of their own.
//!
//! All share one clock, so the truth about the start skew is known. Needs root, `ip` and OpenSSH.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_fixture::LoopDevice;

use super::losses::{kill, until, until_replaying};
use super::{Site, check, json, said};

const SSHD: &str = "/usr/sbin/sshd";

/// The hosts, by the last number of their addresses.
const HOSTS: std::ops::RangeInclusive<u32> = 11..=20;

/// A bridge, a namespace for each host and one for the campaign, and their sshd.
struct Net {
    id: String,
    servers: Vec<Child>,
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{}: {}", words.join(" "), said(&output).trim())),
        Err(error) => Err(format!("{}: {error}", words[0])),
    }
}

impl Net {
    fn new(site: &Site) -> Result<Self, String> {
        let id = format!("i{}", std::process::id());
        let mut net = Self { id, servers: Vec::new() };
        net.build(site).map(|()| net)
    }

    fn campaign(&self) -> String {
        format!("{}c", self.id)
    }

    fn host(&self, number: u32) -> String {
        format!("{}h{number}", self.id)
    }

    fn build(&mut self, site: &Site) -> Result<(), String> {
        if !PathBuf::from(SSHD).exists() {
            return Err("there is no sshd".to_owned());
        }
        fs::create_dir_all("/run/sshd").map_err(|error| error.to_string())?;
        let path = |name: &str| site.path(name).display().to_string();
        for name in ["host-key", "user-key"] {
            run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path(name)])?;
        }
        let centre = self.campaign();
        run(&["ip", "netns", "add", &centre])?;
        run(&["ip", "-n", &centre, "link", "add", "name", "br0", "type", "bridge"])?;
        run(&["ip", "-n", &centre, "addr", "add", "10.77.0.1/24", "dev", "br0"])?;
        run(&["ip", "-n", &centre, "link", "set", "br0", "up"])?;
        for number in HOSTS {
            let (host, end) = (self.host(number), format!("v{number}"));
            run(&["ip", "netns", "add", &host])?;
            run(&[
                "ip", "link", "add", "name", &end, "netns", &centre, "type", "veth", "peer",
                "name", "eth0", "netns", &host,
            ])?;
            run(&["ip", "-n", &centre, "link", "set", &end, "master", "br0", "up"])?;
            let address = format!("10.77.0.{number}/24");
            run(&["ip", "-n", &host, "addr", "add", &address, "dev", "eth0"])?;
            run(&["ip", "-n", &host, "link", "set", "eth0", "up"])?;
            run(&["ip", "-n", &host, "link", "set", "lo", "up"])?;
            let server = Command::new("ip")
                .args(["netns", "exec", &host, SSHD, "-D", "-e", "-f", "/dev/null"])
                .args(["-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "PidFile=none"])
                .args(["-o", &format!("ListenAddress=10.77.0.{number}")])
                .args(["-o", &format!("HostKey={}", path("host-key"))])
                .args(["-o", &format!("AuthorizedKeysFile={}", path("user-key.pub"))])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| error.to_string())?;
            self.servers.push(server);
        }
        let begun = Instant::now();
        for number in HOSTS {
            let words = self.ssh(site, &format!("root@10.77.0.{number}"));
            let words: Vec<&str> = words.iter().map(String::as_str).chain(["true"]).collect();
            while let Err(why) = run(&words) {
                if begun.elapsed() > Duration::from_secs(30) {
                    return Err(why);
                }
                thread::sleep(Duration::from_millis(200));
            }
        }
        Ok(())
    }

    fn ssh(&self, site: &Site, at: &str) -> Vec<String> {
        let path = |name: &str| site.path(name).display().to_string();
        let known = format!("UserKnownHostsFile={}", path("known"));
        let centre = self.campaign();
        let words = ["ip", "netns", "exec", &centre, "ssh", "-T", "-F", "/dev/null"];
        let options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-o"];
        let words = words.iter().chain(&options).map(|word| (*word).to_owned());
        // A link that is down is noticed by ssh itself.
        let alive = ["ServerAliveInterval=1", "ServerAliveCountMax=4", "LogLevel=ERROR"];
        let alive = alive.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]);
        let rest = [known].into_iter().chain(alive).chain(["-i".to_owned()]);
        words.chain(rest).chain([path("user-key"), at.to_owned()]).collect()
    }

    fn link(&self, number: u32, state: &str) {
        run(&["ip", "-n", &self.campaign(), "link", "set", &format!("v{number}"), state]).unwrap();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for number in HOSTS {
            let _ = run(&["ip", "netns", "del", &self.host(number)]);
        }
        let _ = run(&["ip", "netns", "del", &self.campaign()]);
    }
}

/// A campaign of a load on a loop device of each host. They share the directory of their agents, so
/// that the program is sent once. The load goes on until the loss is noticed, after five seconds.
fn text(net: &Net, site: &Site) -> Result<(String, Vec<LoopDevice>), String> {
    fs::create_dir(site.path("dev")).unwrap();
    let mut loops = Vec::new();
    for number in HOSTS {
        let device = LoopDevice::new(4 << 20)?;
        symlink(device.path(), site.path(&format!("dev/n{number}"))).unwrap();
        loops.push(device);
    }
    let words: Vec<String> =
        net.ssh(site, "root@10.77.0.{}").iter().map(|word| format!("'{word}'")).collect();
    let at = site.path("").display().to_string();
    let text = format!(
        "name='c'\nretries=5\nstart.skew='10s'\n[hosts]\n\"n{{11..20}}\"={{launch=[{}],\
         directory='{at}/agent'}}\n[devices]\nd={{host=['n{{11..20}}'],\
         path='{at}/dev/{{host}}'}}\n[replay]\ndevice='d'\nread-only=true\n\
         trace='gen:random?read=100&rate=100&duration=10s&size=4k&area=1M'\n",
        words.join(",")
    );
    Ok((text, loops))
}

/// The printed skew against that of the runs' own zeros.
fn holds_the_truth(output: &Output, attempt: &Path) {
    let whole = json(&attempt.join("run/summary.json"));
    let skew = check(&whole, "start-skew");
    assert_eq!(skew["grade"], "pass", "{skew}");
    let start = json(&attempt.join("start.json"));
    for host in start["hosts"].as_array().unwrap() {
        let name = host["host"].as_str().unwrap();
        let facts = fs::read_to_string(attempt.join("hosts").join(name).join("run/run.toml"));
        let facts: toml::Table = facts.unwrap().parse().unwrap();
        let zero = facts["zero_monotonic_ns"].as_integer().unwrap();
        let ends = host["zero_ns"].as_array().unwrap();
        let [low, high] = [0, 1].map(|end: usize| ends[end].as_i64().unwrap());
        assert!(low <= zero && zero <= high, "{name}: {low} {zero} {high}: {}", said(output));
    }
    println!("{}", skew["measured"]);
}

#[test]
fn ten_hosts_over_ssh_begin_together_and_losses_of_a_link_and_of_the_campaign_cost_an_attempt() {
    let site = Site::new();
    let net = match Net::new(&site) {
        Ok(net) => net,
        Err(why) => return ioecho_fixture::skipped(format!("no network namespaces: {why}")),
    };
    let (text, _loops) = match text(&net, &site) {
        Ok(made) => made,
        Err(why) => return ioecho_fixture::skipped(format!("no loop devices: {why}")),
    };
    let mut child = site.begin(&text);
    // All replay: then one link goes down until that is noticed.
    let first = until_replaying(&site, Path::new(""));
    net.link(15, "down");
    until("the host is lost", || first.join("attempt.json").exists());
    net.link(15, "up");
    let end = json(&first.join("attempt.json"))["end"]["fault"].clone();
    assert!(end.as_str().unwrap().starts_with("host-lost: n15"), "{end}");
    // All replay again: then the campaign is killed.
    let second = until_replaying(&site, &first);
    kill(child.id(), "-KILL");
    child.wait().unwrap();
    let output = site.command(&["campaign", "resume", "c.campaign"]).output().unwrap();
    assert!(!second.join("attempt.json").exists(), "it has no end");
    let last = site.measured(&output);
    assert!(last > second, "{}", said(&output));
    holds_the_truth(&output, &last);
    assert_eq!(site.kept(), 0, "nothing stays in a spool");
}
