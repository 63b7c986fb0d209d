//! Stacks across hosts whose agents fail, vanish and are killed, from seeds: nothing below changes
//! while something stands on it, and nothing is left in the end.

use super::*;
use crate::file::Proof;
use crate::modules::Every;
use crate::value::Value;

/// Numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

fn placed(module: &str, name: &str, every: Every, settings: &[(&str, &str)]) -> Placed {
    let one = |(key, value): &(&str, &str)| ((*key).to_owned(), Value::One((*value).to_owned()));
    let settings = settings.iter().map(one).collect();
    let (module, name) = (module.to_owned(), name.to_owned());
    Placed { every, hosts: Vec::new(), module, name, programs: BTreeMap::new(), settings }
}

fn target(every: Every, scheduler: &str) -> Vec<Placed> {
    let portal = [("portal", "10.0.0.1")];
    vec![
        placed("queue", "queue", every, &[("set.scheduler", scheduler)]),
        placed("iscsi-target", "iscsi-target", Every::Once, &portal),
    ]
}

fn initiator() -> Vec<Placed> {
    vec![placed("iscsi-initiator", "iscsi-initiator", Every::Once, &[])]
}

fn device() -> DeviceThere {
    let path = Some("/dev/sda".to_owned());
    DeviceThere { path, proof: Proof::default(), may_lose: true, handed: Vec::new() }
}

fn exported(tag: u64, unit: usize) -> Volume {
    let path =
        format!("iscsi://10.0.0.1:3260/iqn.2026-01.io.ioecho:ioecho-{tag:x}-iscsi-target/{unit}");
    Volume { path, kind: Kind::Exported, size: 1 << 20, may_lose: false, is_there: true }
}

/// A host: what stands there in truth, by the names of the volumes that it is made on.
#[derive(Clone, Debug, Default)]
struct Host {
    stands: Option<(Vec<Placed>, DeviceThere, u64)>,
    /// Which agent it has.
    agent: u32,
    /// Whether what stands there is left by an agent that was killed.
    is_left: bool,
}

/// Three hosts: the first has the device, the others take in what it exports.
struct World {
    draw: Draw,
    hosts: Vec<Host>,
    targets: u64,
}

const RANKS: [usize; 3] = [0, 2, 2];

impl World {
    /// The targets that hosts above stand on.
    fn in_use(&self) -> bool {
        self.hosts[1..].iter().any(|host| host.stands.is_some())
    }

    /// The first host changes what it has.
    fn changes(&mut self, host: usize, what: &str) {
        assert!(host > 0 || !self.in_use(), "{what}: a target changed below its initiators");
    }

    /// An agent takes down everything; whether it could.
    fn clear(&mut self, host: usize) -> bool {
        if self.draw.is_one_in(12) {
            return false;
        }
        if self.hosts[host].stands.is_some() {
            self.changes(host, "clear");
        }
        self.hosts[host] = Host { agent: self.hosts[host].agent, ..Host::default() };
        true
    }

    /// An agent sets up, as `Setup` does; its volumes, if it could.
    fn raise(&mut self, host: usize, stack: &[Placed], on: &DeviceThere) -> Option<Vec<Volume>> {
        let here = &self.hosts[host];
        let stays = here.stands.as_ref().filter(|(old, below, _)| {
            old == stack
                && below == on
                && !here.is_left
                && stack.iter().all(|it| it.every == Every::Once)
        });
        if let Some((_, _, tag)) = stays {
            return Some((0..3).map(|unit| exported(*tag, unit)).collect());
        }
        if here.stands.is_some() {
            self.changes(host, "raise");
            self.hosts[host].stands = None;
        }
        if self.draw.is_one_in(12) {
            return None;
        }
        if host > 0 {
            let (_, _, tag) = self.hosts[0].stands.as_ref().expect("its target is there");
            let is_there = |volume: &Volume| volume.path.contains(&format!("ioecho-{tag:x}-"));
            assert!(on.handed.iter().all(is_there), "it stands on a target that is gone");
        }
        self.targets += 1;
        let tag = self.targets;
        let agent = self.hosts[host].agent;
        let stands = Some((stack.to_vec(), on.clone(), tag));
        self.hosts[host] = Host { stands, agent, is_left: false };
        Some((0..3).map(|unit| exported(tag, unit)).collect())
    }

    /// An agent is killed: what it set up stands, and the next one knows nothing of it.
    fn lose(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.agent += 1;
        host.is_left = host.stands.is_some();
    }

    /// An attempt at a cell, which may break off anywhere.
    fn attempt(
        &mut self,
        up: Vec<Up>,
        base: &[Placed],
        part: usize,
        turn: (usize, u32),
    ) -> Vec<Up> {
        let above = initiator();
        let nothing = DeviceThere { path: None, ..device() };
        let bottom = vec![Wanted { host: 0, device: device(), takes_part: true }];
        let upper = |host| Wanted { host, device: nothing.clone(), takes_part: host <= part };
        let levels = vec![(base, bottom), (&above[..], (1..3).map(upper).collect())];
        let agents = self.hosts.iter().map(|host| host.agent).collect();
        let mut raising = Raising::new(up, (RANKS.to_vec(), agents), levels, turn, true);
        for _ in 0..20 {
            let step = raising.step().unwrap();
            raising.begins(&step);
            match step {
                Step::Over => {
                    let stand = self.hosts[1..=part].iter().all(|host| host.stands.is_some());
                    assert!(stand && self.hosts[0].stands.is_some());
                    return raising.up;
                }
                Step::Clear(hosts) => {
                    let could: Vec<bool> = hosts.iter().map(|host| self.clear(*host)).collect();
                    if could.contains(&false) {
                        return raising.up;
                    }
                    raising.cleared(&hosts);
                }
                Step::Raise(hosts) => {
                    let stack = if hosts[0].0 == 0 { base.to_vec() } else { above.clone() };
                    let volumes: Vec<_> =
                        hosts.iter().map(|(host, on)| self.raise(*host, &stack, on)).collect();
                    let Some(volumes) = volumes.into_iter().collect() else { return raising.up };
                    raising.raised(hosts, volumes).unwrap();
                }
            }
        }
        panic!("it never comes to an end");
    }

    /// Takes down everything; those that cannot are left, and what they stand on with them.
    fn end(&mut self) {
        let mut above = Vec::new();
        for group in downward(&RANKS) {
            match then(&above) {
                Then::Leave => above.push(Down::Left),
                Then::Undo => {
                    for host in group {
                        let down = if self.clear(host) { Down::Clean } else { Down::Left };
                        above.push(down);
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_changes_below_what_stands_on_it_and_nothing_is_left_in_the_end() {
    for seed in 0..20_000 {
        let hosts = vec![Host::default(); 3];
        let mut world = World { draw: Draw(seed), hosts, targets: 0 };
        let mut up = vec![Up::Nothing; 3];
        for repeat in 1..8 {
            let scheduler = ["none", "bfq"][world.draw.below(2) as usize];
            let every = if world.draw.is_one_in(4) { Every::Cell } else { Every::Once };
            let part = 1 + world.draw.below(2) as usize;
            up = world.attempt(up, &target(every, scheduler), part, (0, repeat));
            for (host, up) in up.iter_mut().enumerate() {
                if world.draw.is_one_in(10) {
                    world.lose(host);
                    if *up != Up::Nothing {
                        *up = Up::Unknown;
                    }
                }
            }
            if world.draw.is_one_in(10) {
                // The campaign is killed: the next process knows nothing, and undoes first.
                world.end();
                up = vec![Up::Unknown; 3];
            }
        }
        while world.hosts.iter().any(|host| host.stands.is_some()) {
            world.end();
        }
    }
}

#[test]
fn what_stands_alike_stays_also_where_other_hosts_take_part() {
    let hosts = vec![Host::default(); 3];
    let mut world = World { draw: Draw(7), hosts, targets: 0 };
    let base = target(Every::Once, "none");
    let mut up = vec![Up::Nothing; 3];
    // Until nothing failed by chance.
    while up.iter().any(|up| !matches!(up, Up::Stands(_))) {
        up = world.attempt(up, &base, 2, (0, 1));
    }
    let made = world.targets;
    up = world.attempt(up, &base, 1, (1, 1));
    up = world.attempt(up, &base, 2, (2, 1));
    assert_eq!((world.targets, matches!(up[2], Up::Stands(_))), (made, true));
}

#[test]
fn a_host_hands_over_only_what_it_was_told_to_export() {
    let stack = target(Every::Once, "none");
    let good = exported(0xa1, 0);
    let got = handed(&stack, vec![good.clone()], true, true).unwrap();
    assert!(got[0].may_lose, "the device was named");
    assert!(!handed(&stack, vec![good.clone()], false, true).unwrap()[0].may_lose);
    for path in [
        "/dev/sda",
        "iscsi://10.0.0.9:3260/iqn.2026-01.io.ioecho:ioecho-a1-iscsi-target/0",
        "iscsi://10.0.0.1:3260/iqn.2001-04.com.example:array/0",
        "iscsi://10.0.0.1:3260/iqn.2026-01.io.ioecho:ioecho-a1 -x-iscsi-target/0",
        "nvme-tcp://10.0.0.1:3260/iqn.2026-01.io.ioecho:ioecho-a1-iscsi-target/0",
        "iscsi://10.0.0.1:3260/../0",
    ] {
        let volume = Volume { path: path.to_owned(), ..good.clone() };
        let why = handed(&stack, vec![volume], true, true).unwrap_err();
        assert!(why.contains("does not have"), "{path}: {why}");
    }
    // By a path alone nothing is lost.
    let program = [placed("program", "p", Every::Once, &[("run", "./p")])];
    let disk = Volume { path: "/dev/sdb".to_owned(), kind: Kind::Block, may_lose: true, ..good };
    assert!(!handed(&program, vec![disk.clone()], true, true).unwrap()[0].may_lose);
    assert!(handed(&[], vec![disk], true, true).is_err());
}

#[test]
fn volumes_are_dealt_in_turn_and_none_is_for_two() {
    let volumes: Vec<Volume> = (0..5).map(|unit| exported(1, unit)).collect();
    let shares = dealt(&volumes, 2).unwrap();
    assert_eq!(shares[0], [volumes[0].clone(), volumes[2].clone(), volumes[4].clone()]);
    assert_eq!(shares[1], [volumes[1].clone(), volumes[3].clone()]);
    assert!(dealt(&volumes, 6).unwrap_err().contains("count = 6"));
}

#[test]
fn hosts_are_taken_down_from_the_highest_on_and_a_target_in_use_stays() {
    assert_eq!(downward(&[0, 2, 0, 3, 2]), [vec![3], vec![4, 1], vec![2, 0]]);
    assert_eq!(then(&[Down::Clean, Down::Gone]), Then::Undo);
    assert_eq!(then(&[Down::Clean, Down::Left]), Then::Leave);
}
