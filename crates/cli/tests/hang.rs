//! A device that hangs in the middle of a run: a loop device over a file on a frozen file system.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fixture::{Fixture, said};
use ioecho_fixture::{Frozen, LoopDevice, MountPoint, or_skip, run as told};

/// A loop device that can be made to hang. When it is dropped it is thawed and removed.
struct Sleeper {
    fixture: Fixture,
    devices: Vec<String>,
    mounted: bool,
    child: Option<Child>,
}

/// The output of a program, or that it failed.
impl Sleeper {
    /// `Err` says which feature this host lacks.
    fn new(fixture: Fixture) -> Result<Self, String> {
        let mut sleeper = Self { fixture, devices: Vec::new(), mounted: false, child: None };
        sleeper.write("image", 96);
        told("mkfs.ext4", &["-q", "-F", &sleeper.path("image")])?;
        let below = sleeper.attach("image")?;
        fs::create_dir(sleeper.path("mounted")).unwrap();
        told("mount", &["-t", "ext4", &below, &sleeper.path("mounted")])?;
        sleeper.mounted = true;
        sleeper.write("mounted/disk", 16);
        sleeper.attach("mounted/disk")?;
        // Without the permission to freeze there is no test.
        told("fsfreeze", &["-f", &sleeper.path("mounted")])?;
        sleeper.wake();
        Ok(sleeper)
    }

    fn path(&self, name: &str) -> String {
        self.fixture.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, mib: usize) {
        let mut file = fs::File::create(self.fixture.path(name)).unwrap();
        file.write_all(&vec![0; mib << 20]).unwrap();
        file.sync_all().unwrap();
    }

    fn attach(&mut self, name: &str) -> Result<String, String> {
        let device = told("losetup", &["-f", "--show", &self.path(name)])?;
        self.devices.push(device.clone());
        Ok(device)
    }

    fn device(&self) -> &str {
        self.devices.last().unwrap()
    }

    fn hang(&self) {
        told("fsfreeze", &["-f", &self.path("mounted")]).unwrap();
    }

    fn wake(&self) {
        let _ = told("fsfreeze", &["-u", &self.path("mounted")]);
    }

    /// The output of the program, after its end.
    fn end(&mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if self.mounted {
            self.wake();
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        while let Some(device) = self.devices.pop() {
            let _ = told("losetup", &["-d", &device]);
            if std::mem::take(&mut self.mounted) {
                let _ = told("umount", &[&self.path("mounted")]);
            }
        }
    }
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_mins(2), "{what}");
        sleep(Duration::from_millis(20));
    }
}

fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// The kernel's state of a thread of the process, by the thread's name.
fn state(child: &Child, name: &str) -> Option<char> {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).ok()?;
    tasks.filter_map(Result::ok).find_map(|task| {
        let comm = fs::read_to_string(task.path().join("comm")).ok()?;
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        (comm.trim() == name).then(|| stat.rsplit(") ").next()?.chars().next()).flatten()
    })
}

#[test]
fn what_was_measured_is_written_though_a_device_holds_the_issuing_thread() {
    let writes = (0..200_000_u64).map(|n| (n * 7 % 2000 * 8, 8, 'W'));
    let mut sleeper = match Sleeper::new(Fixture::of(writes, 500, 4096)) {
        Ok(sleeper) => sleeper,
        Err(reason) => {
            ioecho_fixture::skipped(reason);
            return;
        }
    };
    let device = sleeper.device().to_owned();
    let arguments =
        ["replay", "load", "--target", &device, "--backend", "aio", "--quiet", "-o", "run"];
    let child = sleeper.fixture.command(&arguments);
    let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleeper.child = Some(child);
    let run = sleeper.fixture.path("run");
    let has_ended =
        |sleeper: &mut Sleeper| sleeper.child.as_mut().unwrap().try_wait().unwrap().is_some();
    wait_until("the run goes on", || {
        has_ended(&mut sleeper) || bytes(&run.join("requests.journal")) > 20_000
    });
    if has_ended(&mut sleeper) {
        let output = sleeper.end();
        ioecho_fixture::skipped(format!("no Linux AIO here: {}", said(&output)));
        return;
    }
    sleeper.hang();
    wait_until("the issuing thread is stuck in the kernel", || {
        state(sleeper.child.as_ref().unwrap(), "ioecho-lane-0") == Some('D')
    });
    let id = sleeper.child.as_ref().unwrap().id().to_string();
    told("kill", &["-INT", &id]).unwrap();
    wait_until("results are written while it hangs", || run.join("report.html").exists());
    let log = || fs::read_to_string(run.join("log.txt")).unwrap();
    wait_until("it says whom it waits for", || log().contains("does not let go of requests"));
    assert_eq!(state(sleeper.child.as_ref().unwrap(), "ioecho-lane-0"), Some('D'));
    let facts = fs::read_to_string(run.join("run.toml")).unwrap();
    assert!(facts.contains("state = \"incomplete\""), "{facts}");
    sleeper.wake();
    let output = sleeper.end();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(13), "{text}");
    assert!(text.contains("does not let go of requests in flight"), "{text}");
    assert!(log().contains("stuck in a system call"), "{}", log());
    let results = sleeper.fixture.run(&["info", "run"]);
    assert!(results.status.code().is_some_and(|code| [0, 4].contains(&code)), "{}", said(&results));
}

#[test]
fn threads_that_a_file_system_holds_are_given_up_and_what_they_did_is_kept() {
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(told("mkfs.ext4", &["-q", device.path()]));
    let mount = or_skip!(MountPoint::of(&device.path));
    // Without the permission to freeze there is no test.
    drop(or_skip!(Frozen::new(&mount)));
    let fixture = Fixture::regular(1, 1);
    let anchor = mount.path().join("a");
    let target = format!("tree:{}?width=2&files=20&size=64k", anchor.display());
    let fill = "files:format?do=mkdir,fill;threads=2";
    fixture.run(&["replay", "-q", "-o", "made", "--target", &target, "--flow", fill]);
    let write = "files:write?size=4k;threads=2";
    let words = ["replay", "-q", "-o", "run", "--end-after", "2m", "--target", &target];
    let mut child = fixture
        .command(&[&words[..], &["--flow", write, "--destroy", anchor.to_str().unwrap()]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = fixture.path("run");
    wait_until("the run goes on", || bytes(&run.join("requests.journal")) > 20_000);
    let frozen = Frozen::new(&mount).unwrap();
    wait_until("a thread is stuck in the kernel", || state(&child, "ioecho-lane-0") == Some('D'));
    told("kill", &["-INT", &child.id().to_string()]).unwrap();
    wait_until("results are written while it hangs", || run.join("report.html").exists());
    assert!(child.try_wait().unwrap().is_none(), "the kernel holds its threads");
    drop(frozen);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", said(&output));
    let summary = fs::read(run.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let count = |name: &str| summary["engine"][name].as_u64().unwrap();
    assert!(count("abandoned") > 0 && count("abandoned") <= 2, "{}", said(&output));
    let recorded = summary["recorded"].as_u64().unwrap();
    assert_eq!(count("planned"), recorded + count("abandoned"), "{}", said(&output));
}
