//! Commands that wait, for a reader or a terminal, end when they are told to and leave nothing
//! behind.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A load of this many seconds on a simulated device with the clock of the host, and its target.
const LOAD: &str = "gen:random?rate=1000&duration=20s&size=4K&area=8M&seed=1";

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_mins(1), "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// A directory with a file to replay on.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::File::create(home.path().join("target")).unwrap().set_len(16 << 20).unwrap();
    home
}

fn said(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// A replay that writes its lines into a pipe. Its messages go to the file `said`.
fn into_pipe(home: &Path, load: &str) -> (Child, PathBuf) {
    assert!(Command::new("mkfifo").arg(home.join("pipe")).status().unwrap().success());
    let words = home.join("said");
    // The process that runs the tests may ignore a signal, and a child inherits that.
    let child = Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_ioecho"), "replay", load])
        .args(["--target", "sim:size=64M", "-o", "run", "--interval-csv", "pipe"])
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&words).unwrap())
        .spawn()
        .unwrap();
    (child, words)
}

#[test]
fn a_pipe_that_nobody_reads_is_waited_for_until_the_first_signal() {
    let home = home();
    let (mut child, words) = into_pipe(home.path(), LOAD);
    wait_until("it says what it waits for", || said(&words).contains("waiting for a reader"));
    signal(child.id(), "-TERM");
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(13));
    assert!(said(&words).contains("nobody read pipe"), "{}", said(&words));
    assert!(!home.path().join("run").exists(), "no half-made run is left");
}

#[test]
fn a_reader_of_a_pipe_that_comes_later_gets_every_line() {
    let home = home();
    let (mut child, words) = into_pipe(home.path(), "gen:random?rate=100&duration=3s&area=8M");
    wait_until("it says what it waits for", || said(&words).contains("waiting for a reader"));
    let lines = fs::read_to_string(home.path().join("pipe")).unwrap();
    assert!(child.wait().unwrap().success(), "{}", said(&words));
    assert_eq!(lines.lines().count(), 4, "a header and three seconds: {lines}");
}

#[test]
fn a_reader_that_stops_does_not_hold_up_a_run_that_has_ended() {
    let home = home();
    assert!(Command::new("mkfifo").arg(home.path().join("pipe")).status().unwrap().success());
    // The test opens the pipe without waiting for a writer and never reads it. The pipe is nearly
    // full already: it holds 64 KiB.
    let pipe = home.path().join("pipe");
    let mut reader = fs::File::options().read(true).write(true).open(pipe).unwrap();
    reader.write_all(&vec![b' '; 60 << 10]).unwrap();
    let words = home.path().join("said");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(["replay", "gen:random?rate=1000&duration=3s&area=8M&read=50", "-q", "-o", "run"])
        .args(["--target", "target", "--allow-cached", "--interval", "100ms"])
        .args(["--interval-json", "pipe"])
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&words).unwrap())
        .spawn()
        .unwrap();
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    assert!(said(&words).contains("nobody has read the lines"), "{}", said(&words));
    assert!(home.path().join("run/summary.json").exists());
    drop(reader);
}

#[test]
fn a_pipe_in_the_place_of_a_runs_file_is_refused() {
    let home = home();
    let ioecho = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(words).current_dir(home.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(fs::File::create(home.path().join("said")).unwrap());
        let mut child = command.spawn().unwrap();
        wait_until("it ends", || child.try_wait().unwrap().is_some());
        (child.wait().unwrap().code(), said(&home.path().join("said")))
    };
    let replay = |name: &str| {
        let load = "gen:random?rate=1000&duration=100ms&area=8M&read=50";
        ioecho(&["replay", load, "-q", "--target", "target", "--allow-cached", "-o", name])
    };
    for name in ["run", "other"] {
        replay(name);
        assert!(home.path().join(name).join("summary.json").exists());
    }
    let [journal, summary] =
        ["requests.journal", "summary.json"].map(|name| home.path().join("run").join(name));
    for file in ["summary.json", "requests.parquet", "requests.journal", "run.toml"] {
        let path = home.path().join("run").join(file);
        let kept = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        for words in [
            &["verify", "run"][..],
            &["report", "run"],
            &["compare", "run", "other"],
            &["merge", "run", "other", "-o", "merged"],
            &["info", "run"],
        ] {
            let (code, told) = ioecho(words);
            // A reader of a file does not delay the run.
            let concerns = match words[0] {
                "verify" => true,
                "info" => path != journal && path != summary,
                _ => path != journal,
            };
            let is_refused = code == Some(3) && told.contains("run");
            assert!(is_refused || !concerns, "{words:?} with {file}: {code:?} {told}");
        }
        fs::remove_file(&path).unwrap();
        if let Some(bytes) = kept {
            fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn a_quit_gives_the_terminal_of_the_panels_back() {
    if Command::new("script").arg("--version").output().is_err() {
        ioecho_fixture::skipped("there is no `script` to make a terminal");
        return;
    }
    let home = home();
    let replay = format!(
        "{} replay '{LOAD}' --target target --destroy target --live -o run",
        env!("CARGO_BIN_EXE_ioecho")
    );
    fs::write(home.path().join("replay.sh"), format!("echo $$ > pid\nexec {replay}\n")).unwrap();
    let mut terminal = Command::new("script")
        .args([
            "-q",
            "-f",
            "-c",
            // A shell ignores SIGQUIT for a command in the background, and it stays ignored.
            "ulimit -c 0; stty rows 40 cols 120; env --default-signal sh replay.sh; echo; \
             stty -a",
            "screen",
        ])
        .current_dir(home.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let screen = || {
        let bytes = fs::read(home.path().join("screen")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // A terminal answers the question where its cursor is.
    wait_until("the cursor is asked for", || screen().contains("\u{1b}[6n"));
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x1b[1;1R").unwrap();
    wait_until("the panels are shown", || screen().contains("Ctrl-C"));
    let pid: u32 = said(&home.path().join("pid")).trim().parse().unwrap();
    signal(pid, "-QUIT");
    wait_until("it ends", || terminal.try_wait().unwrap().is_some());
    let screen = screen();
    assert!(screen.contains("\u{1b}[?1049l"), "the screen of before is shown again");
    let modes = screen.rsplit("speed").next().unwrap();
    assert!(modes.contains(" icanon") && !modes.contains("-icanon"), "{modes}");
}
