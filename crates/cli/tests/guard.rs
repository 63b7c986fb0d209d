//! Users of a target that the program cannot see, and changes between the check and the first
//! write. Such a target is refused, and its data stay.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use ioecho_fixture::loop_device::Attached;
use ioecho_fixture::{or_skip, run as system, skipped};
use ioecho_replay::pattern::MARK;

mod fixture;

use fixture::{Fixture, said};

const REFUSED: Option<i32> = Some(6);

/// The program in a mount namespace of its own, after a command there.
fn after(fixture: &Fixture, first: &str, arguments: &[&str]) -> Result<Output, String> {
    let script = format!("{first} && exec \"$@\"");
    let words = ["--mount", "--propagation", "private", "sh", "-c"];
    system("unshare", &[&words[..], &["mount -t tmpfs none /mnt"]].concat())?;
    let mut command = Command::new("unshare");
    command.args(words).args([&script, "sh", env!("CARGO_BIN_EXE_ioecho")]).args(arguments);
    Ok(command.current_dir(fixture.directory.path()).output().unwrap())
}

/// The number of sectors of a file that ioecho wrote.
fn written(path: &Path) -> usize {
    fs::read(path).unwrap().chunks(512).filter(|sector| sector.starts_with(&MARK)).count()
}

#[test]
fn without_sys_a_device_is_refused_until_its_user_says_that_he_knows() {
    let fixture = Fixture::regular(30, 1000);
    let device = or_skip!(Attached::over(&fixture.path("target"), &[]));
    let words = ["replay", "load", "-t", device.path(), "-o", "run", "-q"];
    let hide = "mount -t tmpfs none /sys";
    let refused = or_skip!(after(&fixture, hide, &words));
    let told = said(&refused);
    assert_eq!(refused.status.code(), REFUSED, "{told}");
    assert!(told.contains("cannot tell") && told.contains("/sys"), "{told}");
    assert!(told.contains("if you know that nobody uses it"), "{told}");
    assert_eq!(written(&fixture.path("target")), 0);
    let named = [&words[..], &["--destroy", device.path()]].concat();
    let told = said(&after(&fixture, hide, &named).unwrap());
    assert!(told.contains("warning") && told.contains("cannot tell"), "{told}");
    assert!(written(&fixture.path("target")) > 0, "{told}");
}

#[test]
fn without_sys_what_is_mounted_through_another_loop_device_is_refused_even_if_named() {
    let fixture = Fixture::regular(30, 1000);
    let device = or_skip!(Attached::over(&fixture.path("target"), &[]));
    let beside = or_skip!(Attached::over(&fixture.path("target"), &[]));
    or_skip!(system("mkfs.ext4", &["-q", device.path()]));
    let first = format!("mount {} /mnt && mount -t tmpfs none /sys", device.path());
    or_skip!(system("unshare", &["--mount", "--propagation", "private", "sh", "-c", &first]));
    let words =
        ["replay", "load", "-t", beside.path(), "-o", "run", "-q", "--destroy", beside.path()];
    let refused = or_skip!(after(&fixture, &first, &words));
    assert_eq!(refused.status.code(), REFUSED, "{}", said(&refused));
    assert!(said(&refused).contains("is mounted at /mnt"), "{}", said(&refused));
    let file = ["replay", "load", "-t", "target", "-o", "run", "-q", "--destroy", "target"];
    let refused = after(&fixture, &first, &[&file[..], &["--allow-cached"]].concat()).unwrap();
    assert_eq!(refused.status.code(), REFUSED, "{}", said(&refused));
    assert!(said(&refused).contains("behind the loop device"), "{}", said(&refused));
    assert_eq!(written(&fixture.path("target")), 0);
}

#[test]
fn without_proc_a_device_is_refused() {
    let fixture = Fixture::regular(30, 1000);
    let device = or_skip!(Attached::over(&fixture.path("target"), &[]));
    let words = ["prepare", device.path(), "-q"];
    let refused = or_skip!(after(&fixture, "mount -t tmpfs none /proc", &words));
    assert_eq!(refused.status.code(), REFUSED, "{}", said(&refused));
    assert!(said(&refused).contains("/proc is not mounted"), "{}", said(&refused));
    assert_eq!(written(&fixture.path("target")), 0);
}

#[test]
fn in_another_pid_namespace_a_device_is_refused_and_a_file_is_not() {
    let fixture = Fixture::regular(30, 1000);
    let device = or_skip!(Attached::over(&fixture.path("target"), &[]));
    let within = |target: &str, run: &str| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_ioecho"), "replay"]);
        command.args(["load", "-t", target, "-o", run, "-q", "--allow-cached"]);
        command.current_dir(fixture.directory.path()).output().unwrap()
    };
    or_skip!(system("unshare", &["--pid", "--fork", "--mount-proc", "true"]));
    let refused = within(device.path(), "one");
    assert_eq!(refused.status.code(), REFUSED, "{}", said(&refused));
    assert!(said(&refused).contains("--pid=host"), "{}", said(&refused));
    assert_eq!(written(&fixture.path("target")), 0);
    // The kernel knows who writes to a file, in every namespace.
    File::create(fixture.path("file")).unwrap().set_len(16 << 20).unwrap();
    let allowed = within("file", "two");
    assert!(fixture.path("two").exists(), "{}", said(&allowed));
}

#[test]
fn where_no_lease_is_given_a_file_is_refused() {
    let fixture = Fixture::regular(30, 1000);
    // A file of another user that everybody may write.
    let (target, run) = (fixture.path("target"), fixture.path("out"));
    fs::create_dir(&run).unwrap();
    let everybody = |path: &Path| {
        system("chmod", &["a+rwx", path.to_str().unwrap()])
            .and_then(|_| system("setpriv", &["--reuid", "65534", "--clear-groups", "true"]))
    };
    for path in [fixture.directory.path(), &target, &run] {
        or_skip!(everybody(path));
    }
    let as_nobody = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program]);
        command.args(arguments).current_dir(fixture.directory.path()).output().unwrap()
    };
    let binary = env!("CARGO_BIN_EXE_ioecho");
    if !as_nobody(binary, &["--version"]).status.success() {
        return skipped("nobody may not run the program where it is");
    }
    let words = ["replay", "load", "-t", "target", "-o", "out/run", "-q", "--allow-cached"];
    let refused = as_nobody(binary, &words);
    assert_eq!(refused.status.code(), REFUSED, "{}", said(&refused));
    assert!(said(&refused).contains("gives no lease"), "{}", said(&refused));
    assert_eq!(written(&target), 0);
}

/// A trace that is read through a pipe. The test can act when its first half has been read.
struct SlowTrace {
    pipe: PathBuf,
    halves: [String; 2],
}

impl SlowTrace {
    fn new(fixture: &Fixture) -> Self {
        let pipe = fixture.path("slow.load");
        system("mkfifo", &[pipe.to_str().unwrap()]).unwrap();
        let line = |n: u64| format!("0.{n:09} ; {} ; 8 ; W ; 0.0 ; 0.0\n", n * 7 % 2000 * 8);
        // Each half is larger than a pipe holds. So the reader has come far when the first half is
        // gone. Each is also smaller than the look-ahead of a replay.
        let half = |from: u64| (from..from + 20_000).map(line).collect::<String>();
        let heading = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";
        Self { pipe, halves: [heading.to_owned() + &half(0), half(20_000)] }
    }

    /// Returns the output of the program. `meanwhile` is called in the middle of the reading.
    fn feed(&self, program: Child, meanwhile: impl FnOnce()) -> Output {
        let opened = File::options().write(true).open(&self.pipe);
        let first = opened.and_then(|mut pipe| {
            pipe.write_all(self.halves[0].as_bytes())?;
            Ok(pipe)
        });
        meanwhile();
        // A program that has refused its target reads no more.
        let _ = first.and_then(|mut pipe| pipe.write_all(self.halves[1].as_bytes()));
        program.wait_with_output().unwrap()
    }
}

fn start(fixture: &Fixture, arguments: &[&str]) -> Child {
    let mut command = fixture.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The commands that write to this target, with a slow trace.
const WRITERS: [&[&str]; 2] = [
    &["prepare", "--part", "touched", "--trace", "slow.load", "-q", "--allow-cached"],
    &["replay", "slow.load", "-o", "run", "-q", "--allow-cached", "--timing", "afap", "-t"],
];

#[test]
fn what_another_program_writes_while_the_trace_is_read_is_kept() {
    for words in WRITERS {
        let fixture = Fixture::regular(1, 1);
        let trace = SlowTrace::new(&fixture);
        let target = fixture.path("target");
        let program = start(&fixture, &[words, &["target"]].concat());
        let mut somebody = None;
        let output = trace.feed(program, || {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "exec 3<>\"$1\"; printf letter >&3; echo; read _", "sh"])
                .arg(&target);
            let child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let child = somebody.insert(child);
            let mut line = [0];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        });
        let mut somebody = somebody.unwrap();
        somebody.kill().unwrap();
        somebody.wait().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), REFUSED, "{words:?}: {told}");
        assert!(told.contains("open for writing in sh"), "{told}");
        let mut letter = [0; 6];
        File::open(&target).unwrap().read_exact_at(&mut letter, 0).unwrap();
        assert_eq!((&letter, written(&target)), (b"letter", 0));
        assert!(!fixture.path("run").exists(), "nothing is left of a run that did not begin");
    }
}

#[test]
fn a_loop_device_that_is_attached_while_the_trace_is_read_keeps_its_file() {
    for words in WRITERS {
        let fixture = Fixture::regular(1, 1);
        let trace = SlowTrace::new(&fixture);
        let target = fixture.path("target");
        or_skip!(Attached::over(&target, &[]));
        let program = start(&fixture, &[words, &["target"]].concat());
        let mut device = None;
        let output = trace.feed(program, || device = Some(Attached::over(&target, &[])));
        let _device = or_skip!(device.unwrap());
        let told = said(&output);
        assert_eq!(output.status.code(), REFUSED, "{words:?}: {told}");
        assert!(told.contains("behind the loop device"), "{told}");
        assert_eq!(written(&target), 0);
    }
}
