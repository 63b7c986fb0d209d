//! Campaigns that set devices up, on real loop devices: whatever happens, the machine is left as it
//! was found.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fixture::{Fixture, said};
use ioecho_fixture::skip::skipped;
use ioecho_fixture::{LoopDevice, MountPoint, or_skip};

const CAMPAIGN: &str = r#"
name = "stack"
[devices]
disk = {from = "stack"}
[replay]
device = "disk"
trace = "gen:random?read=50&size=4k&area=32M&endless=yes"
# Without a schedule nothing is late, however busy this machine is.
timing = "afap"
in-flight-max = 4
end-after = "DURATION"
[axes]
type = ["ext4", "xfs"]
[[stack]]
module = "loop"
size = "350M"
directory = "."
[[stack]]
module = "queue"
set = {scheduler = "mq-deadline", read_ahead_kb = 64}
[[stack]]
module = "erase"
every = "once"
[[stack]]
name = "OWN"
module = "cgroup"
read-iops = 1000
[[stack]]
module = "fs"
type = "{type}"
size = "32M"
directory = "."
"#;

fn with(duration: &str) -> Fixture {
    let fixture = Fixture::regular(10, 10);
    let campaign = CAMPAIGN.replace("DURATION", duration).replace("OWN", &own(&fixture));
    fs::write(fixture.path("c.toml"), campaign).unwrap();
    fixture
}

/// The name of the control group of this fixture: other tests of this machine make groups too.
fn own(fixture: &Fixture) -> String {
    let directory = fs::canonicalize(fixture.path(".")).unwrap();
    let name = directory.file_name().unwrap().to_string_lossy().into_owned();
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn ioecho(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    command.args(arguments).current_dir(fixture.path("."));
    command.env("IOECHO_UNDO_DIR", fixture.path("undo"));
    command
}

/// One campaign at a time sets a host up. These have undo files of their own, so they do not know
/// of one another, and take turns here.
static TURN: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why such a campaign cannot run here, if it cannot.
fn lacks() -> Option<String> {
    for tool in ["losetup", "mkfs.ext4", "mkfs.xfs", "blkdiscard", "fallocate"] {
        if Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_err()
        {
            return Some(format!("{tool} is missing"));
        }
    }
    let is_limited = Path::new("/sys/fs/cgroup/blkio").exists()
        || fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|text| text.contains("io"));
    if !is_limited {
        return Some("no I/O of control groups is limited here".to_owned());
    }
    let found = Command::new("losetup").arg("--find").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return Some("there are no loop devices".to_owned());
    }
    None
}

/// Everything of the machine that bears the name of the fixture's directory or our tag: loop
/// devices, mounts, files, control groups; and the settings of the queues of free loop devices.
fn state(fixture: &Fixture) -> BTreeSet<String> {
    let directory = fs::canonicalize(fixture.path(".")).unwrap().display().to_string();
    let mut state = BTreeSet::new();
    let lines = |path: &str| fs::read_to_string(path).unwrap_or_default();
    state.extend(
        lines("/proc/mounts").lines().filter(|it| it.contains(&directory)).map(str::to_owned),
    );
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let of = |name: &str| lines(&entry.path().join(name).display().to_string());
        let backing = of("loop/backing_file");
        if backing.contains(&directory) {
            state.insert(backing.clone());
        }
        // The device of another test is nobody's business here.
        if entry.file_name().to_string_lossy().starts_with("loop") && backing.is_empty() {
            let queue = format!("{} {}", of("queue/scheduler"), of("queue/read_ahead_kb"));
            state.insert(format!("{} {queue}", entry.file_name().display()));
        }
    }
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/blkio"] {
        let groups = fs::read_dir(root).into_iter().flatten().flatten();
        let names = groups.map(|group| group.path().display().to_string());
        let own = own(fixture);
        state.extend(names.filter(|name| name.contains("ioecho-") && name.ends_with(&own)));
    }
    let files = fs::read_dir(&directory).unwrap().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    state.extend(names.filter(|name| name.contains("ioecho-")));
    state
}

fn free_of_ours(state: &BTreeSet<String>) -> bool {
    !state.iter().any(|it| it.contains("ioecho-"))
}

#[test]
fn a_stack_is_set_up_for_each_cell_and_the_machine_left_as_it_was_found() {
    let _turn = my_turn();
    if let Some(reason) = lacks() {
        return skipped(reason);
    }
    let fixture = with("1s");
    assert!(free_of_ours(&state(&fixture)));
    let output = ioecho(&fixture, &["campaign", "run", "c.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("2 with a result"), "{}", said(&output));
    assert!(free_of_ours(&state(&fixture)), "{:?}", state(&fixture));
    let open = fs::read_dir(fixture.path("undo")).unwrap().flatten();
    assert_eq!(open.filter(|it| it.path().extension().is_some()).count(), 0);
}

#[test]
fn a_killed_campaign_is_undone_wherever_it_was() {
    let _turn = my_turn();
    if let Some(reason) = lacks() {
        return skipped(reason);
    }
    let mut undone = 0;
    for millis in [40, 120, 250, 400, 700] {
        let fixture = with("3s");
        let mut campaign = ioecho(&fixture, &["campaign", "run", "c.toml", "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(millis));
        campaign.kill().unwrap();
        campaign.wait().unwrap();
        let is_open = !free_of_ours(&state(&fixture));
        let output = ioecho(&fixture, &["campaign", "undo"]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        undone += u32::from(is_open);
        assert!(free_of_ours(&state(&fixture)), "{millis} ms: {:?}", state(&fixture));
        // Undoing again finds nothing.
        let again = ioecho(&fixture, &["campaign", "undo"]).output().unwrap();
        assert!(said(&again).contains("no campaign has left anything"), "{}", said(&again));
    }
    assert!(undone > 0, "no kill came while something was set up: the test tests nothing");
}

#[test]
fn resume_undoes_first_and_another_campaign_is_refused_meanwhile() {
    let _turn = my_turn();
    if let Some(reason) = lacks() {
        return skipped(reason);
    }
    let fixture = with("1s");
    let mut campaign = ioecho(&fixture, &["campaign", "run", "c.toml", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(1200));
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    assert!(!free_of_ours(&state(&fixture)), "nothing was set up after 1.2 s");
    let other = ioecho(&fixture, &["campaign", "run", "c.toml", "-o", "other"]).output().unwrap();
    assert_eq!(other.status.code(), Some(6), "{}", said(&other));
    assert!(said(&other).contains("ioecho campaign undo"), "{}", said(&other));
    let output = ioecho(&fixture, &["campaign", "resume", "stack.campaign"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("2 with a result"), "{}", said(&output));
    assert!(free_of_ours(&state(&fixture)), "{:?}", state(&fixture));
}

#[test]
fn data_that_nobody_gave_up_are_not_lost() {
    let _turn = my_turn();
    let fixture = Fixture::regular(10, 10);
    fs::write(fixture.path("disk.img"), vec![7; 1 << 20]).unwrap();
    let campaign = "name='x'\n[devices]\nd='disk.img'\n[replay]\ndevice='d'\n\
                    trace='gen:random?area=1M&rate=10&duration=1s'\n[[stack]]\nmodule='fill'\n";
    fs::write(fixture.path("c.toml"), campaign).unwrap();
    let output = ioecho(&fixture, &["campaign", "run", "c.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("--destroy d"), "{}", said(&output));
    assert_eq!(fs::read(fixture.path("disk.img")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn a_device_that_somebody_uses_is_refused_before_anything_is_touched() {
    let _turn = my_turn();
    if let Some(reason) = lacks() {
        return skipped(reason);
    }
    let device = or_skip!(LoopDevice::new(32 << 20));
    let path = device.path();
    let made = Command::new("mkfs.ext4").args(["-q", path]).status().unwrap();
    assert!(made.success());
    let mount = or_skip!(MountPoint::of(Path::new(path)));
    fs::write(mount.path().join("precious"), "x").unwrap();
    let name = path.rsplit('/').next().unwrap();
    let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap();
    let fixture = Fixture::regular(10, 10);
    let campaign = format!(
        "name='x'\n[devices]\nd={{path='{path}',backing='{}'}}\n[replay]\ndevice='d'\n\
         trace='gen:random?area=1M&rate=10&duration=1s'\n[[stack]]\nmodule='fill'\n",
        backing.trim()
    );
    fs::write(fixture.path("c.toml"), campaign).unwrap();
    let run = ["campaign", "run", "c.toml", "--destroy", "d"];
    let output = ioecho(&fixture, &run).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("mounted"), "{}", said(&output));
    assert_eq!(fs::read(mount.path().join("precious")).unwrap(), b"x");
}
