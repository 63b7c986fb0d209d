//! Modules that run tools, programs and people: as a user has them, with imitations of the tools.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fixture::{Fixture, said};
use ioecho_fixture::skip::skipped;

/// A campaign of one short run on a simulated device, with this stack.
fn simulated(stack: &str) -> Fixture {
    with("d = \"sim\"", "1s", stack)
}

fn with(device: &str, duration: &str, stack: &str) -> Fixture {
    let fixture = Fixture::regular(10, 10);
    let text = format!(
        "name = \"c\"\nretries = 0\n[devices]\n{device}\n[replay]\ndevice = \"d\"\ntrace = \
         \"gen:random?read=100&size=4k&area=1M&rate=50&duration={duration}\"\n{stack}"
    );
    fs::write(fixture.path("c.toml"), text).unwrap();
    fixture
}

/// A command of ioecho, which finds tools in `bin` before those of the system.
fn ioecho(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    command.args(arguments);
    within(fixture, &mut command);
    command
}

fn within(fixture: &Fixture, command: &mut Command) {
    let system = std::env::var("PATH").unwrap();
    command.current_dir(fixture.path("."));
    command.env("IOECHO_UNDO_DIR", fixture.path("undo"));
    command.env("PATH", format!("{}:{system}", fixture.path("bin").display()));
    command.stdin(Stdio::null());
}

fn run(fixture: &Fixture) -> Output {
    ioecho(fixture, &["campaign", "run", "c.toml"]).output().unwrap()
}

/// Puts a script where it can be run.
fn script(fixture: &Fixture, name: &str, text: &str) {
    let path = fixture.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The directory of the only attempt.
fn attempt(fixture: &Fixture) -> PathBuf {
    let cells = fixture.path("c.campaign/cells");
    let cell = fs::read_dir(cells).unwrap().next().unwrap().unwrap();
    cell.path().join("1")
}

fn kept(fixture: &Fixture, name: &str) -> String {
    fs::read_to_string(attempt(fixture).join(name)).unwrap()
}

/// Puts an example where it can be run.
fn example(fixture: &Fixture, name: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/campaigns");
    fs::copy(examples.join(name), fixture.path(name)).unwrap();
}

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The processes of which a word of the command line begins so.
fn processes(word: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let is_it = |line: &Vec<u8>| line.split(|byte| *byte == 0).any(|it| it == word.as_bytes());
    lines.filter(is_it).count()
}

/// The tag of the only ledger that is open.
fn open_tag(fixture: &Fixture) -> Option<String> {
    let names = fs::read_dir(fixture.path("undo")).ok()?.flatten().map(|it| it.path());
    let ledger = names.into_iter().find(|path| path.extension().is_some())?;
    Some(format!("ioecho-{}", ledger.file_stem()?.to_str()?))
}

fn has_loop_devices() -> bool {
    let found = Command::new("losetup").arg("--find").output();
    found.is_ok_and(|output| output.status.success())
}

/// Whether no ledger is open.
fn is_closed(fixture: &Fixture) -> bool {
    let names = fs::read_dir(fixture.path("undo")).unwrap().flatten();
    !names.map(|it| it.path()).any(|path: PathBuf| path.extension().is_some())
}

const LOOP: &str = "[[stack]]\nmodule = \"loop\"\nsize = \"2M\"\ndirectory = \".\"\n";
const FROM_STACK: &str = "d = {from = \"stack\"}";

#[test]
fn what_a_disk_tells_is_kept_with_the_results_and_what_grew_is_told() {
    if !has_loop_devices() {
        return skipped("there are no loop devices");
    }
    let fixture = with(FROM_STACK, "1s", &format!("{LOOP}[[stack]]\nmodule = \"smart\"\n"));
    let counts = "n=$(($(cat count 2>/dev/null || echo 0) + 1))\necho $n > count\n\
                  printf '{\"asked\":\"%s\",\"scsi_grown_defect_list\":%s}' \"$3\" $n\nexit 64\n";
    script(&fixture, "bin/smartctl", counts);
    // Whatever the run itself came to on a busy machine.
    let output = run(&fixture);
    let told = "grown defects 1 → 2";
    assert!(said(&output).contains(told), "{}", said(&output));
    assert!(kept(&fixture, "smart.txt").contains(told));
    assert!(kept(&fixture, "smart-before.json").contains("\"asked\": \"/dev/loop"));
    assert!(kept(&fixture, "smart-after.json").contains("\"scsi_grown_defect_list\": 2"));
}

#[test]
fn what_one_cell_needs_does_not_stand_for_another_that_does_without() {
    let stack = "[[stack]]\nmodule = \"smart\"\nevery = \"once\"\ndevices = [\"/dev/x\"]\n\
                 [axes]\nstack.smart.enable = [true, false]\n";
    let fixture = simulated(stack);
    let text = fs::read_to_string(fixture.path("c.toml")).unwrap();
    let text = text.replace("retries = 0", "retries = 0\norder = \"written\"");
    fs::write(fixture.path("c.toml"), text).unwrap();
    script(&fixture, "bin/smartctl", "echo {}\n");
    let output = run(&fixture);
    assert!(said(&output).contains("2 with a result"), "{}", said(&output));
    let cells = fs::read_dir(fixture.path("c.campaign/cells")).unwrap().flatten();
    let asked = cells.filter(|cell| cell.path().join("1/smart.txt").exists()).count();
    assert_eq!(asked, 1);
}

#[test]
fn a_disk_that_cannot_be_asked_is_found_before_anything_runs() {
    let disk = "[[stack]]\nmodule = \"smart\"\ndevices = [\"/dev/no-such\"]\n";
    let fixture = simulated(disk);
    script(&fixture, "bin/smartctl", "echo 'no such device' >&2; exit 2\n");
    let output = run(&fixture);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("exit code 2: no such device"), "{}", said(&output));
    assert!(is_empty(&fixture));
}

/// Whether no cell was begun.
fn is_empty(fixture: &Fixture) -> bool {
    fs::read_dir(fixture.path("c.campaign/cells")).map_or(true, |mut cells| cells.next().is_none())
}

const PROGRAM: &str = "[[stack]]\nname = \"busy\"\nmodule = \"program\"\nlimit = \"5s\"\n";

#[test]
fn the_example_of_a_program_runs_beside_the_replay_and_is_undone() {
    if !has_python() {
        return skipped("python3 is missing");
    }
    let stack = format!("{PROGRAM}run = [\"./neighbour.py\"]\nset = {{processes = 2}}\n");
    let fixture = simulated(&stack);
    example(&fixture, "neighbour.py");
    let plan = ioecho(&fixture, &["campaign", "plan", "c.toml"]).output().unwrap();
    assert!(said(&plan).contains("busy: ./neighbour.py (apply"), "{}", said(&plan));
    assert!(said(&plan).contains("busy: ./neighbour.py is sha256:"), "{}", said(&plan));
    let output = run(&fixture);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("busy: 2 of 2 processes are busy"), "{}", said(&output));
    assert_eq!(kept(&fixture, "busy.json"), "{\n  \"busy\": 2\n}\n");
    assert!(is_closed(&fixture));
    // Another program is another cell.
    fs::write(fixture.path("neighbour.py"), "#!/bin/sh\necho '{\"ok\":true}'\n").unwrap();
    let plan = ioecho(&fixture, &["campaign", "plan", "c.toml"]).output().unwrap();
    assert!(said(&plan).contains("the stack changed"), "{}", said(&plan));
}

#[test]
fn what_a_program_of_a_killed_campaign_began_is_undone() {
    if !has_python() {
        return skipped("python3 is missing");
    }
    if !has_loop_devices() {
        return skipped("there are no loop devices");
    }
    // A real device, so that the replay takes its time.
    let stack = format!("{LOOP}{PROGRAM}run = [\"./neighbour.py\"]\n");
    let fixture = with(FROM_STACK, "5s", &stack);
    example(&fixture, "neighbour.py");
    let mut campaign = ioecho(&fixture, &["campaign", "run", "c.toml", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let tag = loop {
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing was set up");
        if let Some(tag) = open_tag(&fixture).filter(|tag| processes(tag) > 0) {
            break tag;
        }
        thread::sleep(Duration::from_millis(20));
    };
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    let output = ioecho(&fixture, &["campaign", "undo"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("./neighbour.py (undo)"), "{}", said(&output));
    assert_eq!(processes(&tag), 0);
    assert!(is_closed(&fixture));
}

#[test]
fn a_program_that_is_edited_meanwhile_is_not_run_as_the_one_that_was_planned() {
    let stack = format!("{PROGRAM}run = [\"./p.sh\"]\nevery = \"cell\"\n");
    let fixture = simulated(&stack);
    let text = fs::read_to_string(fixture.path("c.toml")).unwrap();
    fs::write(fixture.path("c.toml"), text.replace("retries = 0", "repeats = 2")).unwrap();
    // It edits itself when the first cell is over.
    let body = "line=$(cat)\ncase $line in *'\"verb\":\"collect\"'*) echo '# more' >>p.sh;; esac\n\
                echo '{\"ok\":true}'\n";
    script(&fixture, "p.sh", body);
    let output = run(&fixture);
    assert_eq!(output.status.code(), Some(40), "{}", said(&output));
    assert!(said(&output).contains("1 with a result, 1 failed"), "{}", said(&output));
    assert!(said(&output).contains("./p.sh is another program than when"), "{}", said(&output));
}

#[test]
fn a_program_makes_the_device_of_the_replay_whose_data_may_be_lost() {
    if !has_loop_devices() {
        return skipped("there are no loop devices");
    }
    let fixture = with(FROM_STACK, "1s", &format!("{PROGRAM}run = [\"./disk.sh\"]\n"));
    let text = fs::read_to_string(fixture.path("c.toml")).unwrap();
    fs::write(fixture.path("c.toml"), text.replace("read=100", "read=0")).unwrap();
    // What it makes is found by the tag, so that undo needs to know nothing.
    let body = r#"line=$(cat)
tag=$(echo "$line" | sed -n 's/.*"tag":"\([^"]*\)".*/\1/p')
device() { losetup --noheadings --output NAME --associated "$tag.img"; }
case $line in
*'"verb":"check"'*) echo '{"ok":true,"volumes":[{"path":"/dev/made","size":4194304}]}'; exit;;
*'"verb":"apply"'*)
    truncate -s 4M "$tag.img" && losetup --find "$tag.img" || exit 1
    echo "{\"ok\":true,\"volumes\":[{\"path\":\"$(device)\"}]}"; exit;;
*'"verb":"undo"'*)
    [ -z "$(device)" ] || losetup --detach "$(device)" || exit 1
    rm -f "$tag.img";;
esac
echo '{"ok":true}'
"#;
    script(&fixture, "disk.sh", body);
    let plan = ioecho(&fixture, &["campaign", "plan", "c.toml"]).output().unwrap();
    assert!(plan.status.success(), "{}", said(&plan));
    let output = run(&fixture);
    // Whatever else a busy machine made of it: it wrote to the device, and the device is gone.
    let summary = attempt(&fixture).join("run/summary.json");
    let summary = fs::read_to_string(summary).unwrap_or_else(|_| panic!("{}", said(&output)));
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert!(summary["bytes_written"].as_u64().unwrap() > 0);
    let mut files = fs::read_dir(fixture.path(".")).unwrap().flatten();
    assert!(!files.any(|file| file.file_name().to_string_lossy().ends_with(".img")));
    assert!(is_closed(&fixture));
}

#[test]
fn a_program_that_does_not_answer_as_it_must_is_refused_before_anything_runs() {
    for (body, expected) in [
        ("exit 3", "check: ./p.sh: exit code 3"),
        ("true", "it gave no answer"),
        ("echo rubbish", "its answer is wrong"),
        ("echo '{\"ok\":true,\"volums\":[]}'", "unknown field `volums`"),
        ("echo '{\"v\":2,\"ok\":true}'", "it answers in version 2, and 1 is known"),
        ("echo '{\"ok\":false,\"say\":\"no battery\"}'", "no battery"),
        ("sleep 30", "took longer than 1 s"),
    ] {
        let fixture = simulated(&PROGRAM.replace("5s", "1s\"\nrun = [\"./p.sh\"]\n#"));
        script(&fixture, "p.sh", &format!("{body}\n"));
        let output = run(&fixture);
        assert_eq!(output.status.code(), Some(6), "{body}: {}", said(&output));
        assert!(said(&output).contains(expected), "{body}: {}", said(&output));
        assert!(is_empty(&fixture));
    }
}

#[test]
fn a_program_that_fails_while_it_sets_up_costs_its_cell_and_is_undone() {
    let fixture = simulated(&format!("{PROGRAM}run = [\"./p.sh\"]\n"));
    let text = "line=$(cat)\ncase $line in\n\
                *'\"verb\":\"apply\"'*) echo 'half done' >&2; exit 9;;\n\
                *'\"verb\":\"undo\"'*) touch undone;;\nesac\necho '{\"ok\":true}'\n";
    script(&fixture, "p.sh", text);
    let output = run(&fixture);
    assert_eq!(output.status.code(), Some(40), "{}", said(&output));
    assert!(said(&output).contains("apply: ./p.sh: exit code 9: half done"), "{}", said(&output));
    assert_eq!(kept(&fixture, "busy.log"), "apply: half done\n");
    assert!(fixture.path("undone").exists() && is_closed(&fixture));
}

/// A campaign against a file, whose replay takes its time without root's rights.
fn on_file(duration: &str, stack: &str) -> Fixture {
    let stack = format!("read-only = true\n{stack}");
    let fixture = with("d = \"disk.img\"", duration, &stack);
    fs::write(fixture.path("disk.img"), vec![7; 1 << 20]).unwrap();
    fixture
}

fn fault(kind: &str) -> String {
    format!("[[stack]]\nmodule = \"fault\"\nat = \"1s\"\nkind = {kind}\n")
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_fault_begins_in_the_midst_of_a_replay_and_is_put_right_before_its_end() {
    let kind = "\"command\"\ncommand = [\"cp\", \"disk.img\", \"broken\"]\n\
                undo = [\"rm\", \"-f\", \"broken\"]\nfor = \"1s\"";
    let fixture = on_file("3s", &fault(kind));
    let mut campaign = ioecho(&fixture, &["campaign", "run", "c.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the fault begins", || fixture.path("broken").exists());
    until("it is put right", || !fixture.path("broken").exists());
    assert!(campaign.try_wait().unwrap().is_none(), "the replay was over before");
    campaign.wait().unwrap();
    let kept = kept(&fixture, "fault.txt");
    let seconds: Vec<f64> =
        kept.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    assert!(matches!(seconds[..], [on, off] if (1.0..1.9).contains(&on) && off >= 2.0), "{kept}");
    assert!(kept.ends_with("it was put right\n"), "{kept}");
    assert!(is_closed(&fixture));
}

#[test]
fn a_replay_that_is_over_before_its_fault_has_no_result() {
    let kind = "\"command\"\ncommand = [\"true\"]\nundo = [\"true\"]";
    let fixture = simulated(&fault(kind).replace("1s", "1h"));
    let output = run(&fixture);
    assert_eq!(output.status.code(), Some(40), "{}", said(&output));
    assert!(said(&output).contains("it is due 3600 s after"), "{}", said(&output));
}

#[test]
fn a_campaign_that_is_killed_in_a_fault_is_put_right() {
    if !has_loop_devices() {
        return skipped("there are no loop devices");
    }
    let stack = format!("{LOOP}{}", fault("\"queue\"\nset = {read_ahead_kb = 4}"));
    let fixture = with(FROM_STACK, "10s", &stack);
    let mut campaign = ioecho(&fixture, &["campaign", "run", "c.toml", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let of_ours = fs::canonicalize(fixture.path(".")).unwrap().display().to_string();
    let broken = || {
        let devices = fs::read_dir("/sys/block").unwrap().flatten().map(|it| it.path());
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let ours = |path: &PathBuf| read(path.join("loop/backing_file")).starts_with(&of_ours);
        let is_set = |path: PathBuf| read(path.join("queue/read_ahead_kb")).trim() == "4";
        devices.into_iter().filter(ours).any(is_set)
    };
    until("the fault begins", broken);
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    assert!(broken(), "nobody has put it right yet");
    // It waits for the replay, which has outlived its campaign.
    let output = ioecho(&fixture, &["campaign", "undo"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("read_ahead_kb from"), "{}", said(&output));
    assert!(!broken() && is_closed(&fixture));
}

#[test]
fn a_replay_is_throttled_for_a_while_and_never_after() {
    if !has_loop_devices() {
        return skipped("there are no loop devices");
    }
    let kind = "\"throttle\"\nread-iops = 10\nfor = \"1s\"";
    // In that second 50 requests are due, and 10 may be: a fifth of the 200 waits, half a second in
    // the mean.
    let expect = "[[expect]]\nthat = \"p90.response > 300ms\"\n";
    let fixture = with(FROM_STACK, "4s", &format!("{LOOP}{}{expect}", fault(kind)));
    let output = run(&fixture);
    if said(&output).contains("limits no I/O of control groups") {
        return skipped("no I/O of control groups is limited here");
    }
    let told = kept(&fixture, "fault.txt");
    assert!(told.contains("it began\n") && told.ends_with("it was put right\n"), "{told}");
    // Whatever else a busy machine made of the run, these waited.
    let summary = fs::read(attempt(&fixture).join("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let all = &summary["response_time"]["all"];
    assert!(all["p90_ns"].as_u64() > Some(300_000_000), "{told}{all}");
    assert_ne!(output.status.code(), Some(16), "{told}{}", said(&output));
    assert!(is_closed(&fixture));
}

#[test]
fn a_link_goes_down_and_comes_up_again() {
    // In a network of its own, whose only link is nobody else's.
    let program = env!("CARGO_BIN_EXE_ioecho");
    let script = format!(
        "mount -t sysfs sysfs /sys && ip link set lo up || exit 99\n\
         {program} campaign run c.toml --quiet >out 2>&1 &\n\
         for try in $(seq 100); do\n\
         [ $(($(cat /sys/class/net/lo/flags) & 1)) = 0 ] && touch down && break; sleep 0.05; done\n\
         wait; cat /sys/class/net/lo/flags >after"
    );
    let fixture = on_file("3s", &fault("\"link-down\"\ninterface = \"lo\"\nfor = \"1s\""));
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", &script]);
    within(&fixture, &mut command);
    let output = match command.output() {
        Ok(output) if output.status.success() => output,
        _ => return skipped("no network of its own can be made here"),
    };
    let told = fs::read_to_string(fixture.path("out")).unwrap_or_default();
    assert!(fixture.path("down").exists(), "{told}{}", said(&output));
    let after = fs::read_to_string(fixture.path("after")).unwrap();
    let flags = u32::from_str_radix(after.trim().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(flags & 1, 1, "{after}");
    assert!(kept(&fixture, "fault.txt").ends_with("it was put right\n"));
}

const ASK: &str = "[[stack]]\nmodule = \"ask\"\ntext = \"pull the disk\"\nundo = \"put it back\"\n";

/// Runs the campaign at a terminal, at which this is typed.
fn at_terminal(fixture: &Fixture, arguments: &str, typed: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_ioecho");
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{program} campaign {arguments}"), "/dev/null"]);
    within(fixture, &mut command);
    let piped = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = piped;
    let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
    // It stays open: the end of the input would be the end of the terminal.
    let mut keyboard = child.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    output
}

fn has_script() -> bool {
    Path::new("/usr/bin/script").exists()
}

#[test]
fn a_person_at_a_terminal_does_what_is_asked_and_takes_it_back() {
    if !has_script() {
        return skipped("script, which makes a terminal, is missing");
    }
    let fixture = simulated(ASK);
    let output = at_terminal(&fixture, "run c.toml", "maybe\nyes\nyes\n");
    assert!(output.status.success(), "{}", said(&output));
    let told = said(&output);
    assert_eq!(told.matches("pull the disk").count(), 2, "{told}");
    assert_eq!(told.matches("put it back").count(), 1, "{told}");
    assert!(kept(&fixture, "ask.txt").contains("done by a person"));
    assert!(is_closed(&fixture));
}

#[test]
fn what_a_person_does_not_take_back_closes_the_host_until_it_is() {
    if !has_script() {
        return skipped("script, which makes a terminal, is missing");
    }
    let fixture = simulated(ASK);
    let output = at_terminal(&fixture, "run c.toml", "yes\nno\n");
    assert_eq!(output.status.code(), Some(41), "{}", said(&output));
    assert!(!is_closed(&fixture));
    // Without a terminal nobody can.
    let output = ioecho(&fixture, &["campaign", "undo"]).output().unwrap();
    assert_eq!(output.status.code(), Some(41), "{}", said(&output));
    assert!(said(&output).contains("put it back: there is no terminal"), "{}", said(&output));
    let output = at_terminal(&fixture, "undo", "yes\n");
    assert!(output.status.success(), "{}", said(&output));
    assert!(is_closed(&fixture));
}

#[test]
fn without_a_terminal_a_question_is_refused_or_skipped() {
    let fixture = simulated(ASK);
    let output = run(&fixture);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("without-terminal = \"skip\""), "{}", said(&output));
    let fixture = simulated(&format!("{ASK}without-terminal = \"skip\"\n"));
    let output = run(&fixture);
    assert!(output.status.success(), "{}", said(&output));
    assert!(kept(&fixture, "ask.txt").contains("skipped"));
}
