//! A run of a campaign: a child process of its own, and what came of it.
//!
//! The run is `ioecho replay` as a user would type it, so whatever it does, it can be repeated by
//! hand, and a crash of it ends no other run. Its result is read by the types that wrote it. Its
//! standard input is the lock `running`, which it holds as long as it lives.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::attempt::{End, Measured};
use ioecho_campaign::plan::Cell;
use ioecho_linux::OpenDirectory;
use ioecho_run::digest;
use ioecho_run::directory::RunDirectory;
use ioecho_run::regular;
use ioecho_run::warmup::summary_from;
use ioecho_stats::verdict::Finding;
use ioecho_trace::Nanos;
use rustix::process::{Pid, Signal, kill_process};

use super::flags;
use super::lingering::Lingering;
use crate::exit;

/// The directory of a run that is its cell's only one, below that of the attempt.
const RUN: &str = "run";

/// What the run prints. Where a cell has several runs, each has a file of its own.
fn output_of(name: &str) -> String {
    if name == RUN { "output.txt".to_owned() } else { format!("{name}.txt") }
}

/// The longest pause between two looks at the child.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longest reason that is quoted from a run's output, in characters.
const REASON_MAX: usize = 300;

/// What came of a run.
pub(super) struct Came {
    pub(super) end: End,
    pub(super) seconds: f64,
    pub(super) summary_sha256: Option<String>,
}

/// The command line of a run, without the program. Of each target is told whether its data may be
/// lost; `store` is the directory of the results.
pub(super) fn words(
    cell: &Cell,
    targets: &[(String, bool)],
    run: &Path,
    store: &Path,
) -> Vec<String> {
    let family = format!("--{}=", flags::FAMILY);
    let typed = flags::typed(cell).into_iter().map(|word| match word.strip_prefix(&family) {
        Some(name) => format!("{family}{}", store.join(name).display()),
        None => word,
    });
    let flags: Vec<String> = typed.collect();
    words_of(targets, &flags, run, Some(&cell.trace).filter(|it| !it.is_empty()))
}

/// The same of a run with these flags and this load, if flows do not stand in its place.
pub(super) fn words_of(
    targets: &[(String, bool)],
    flags: &[String],
    run: &Path,
    trace: Option<&String>,
) -> Vec<String> {
    let mut words = vec!["replay".to_owned()];
    for (target, may_destroy) in targets {
        words.push(format!("--target={target}"));
        if *may_destroy {
            words.push(format!("--destroy={target}"));
        }
    }
    words.extend_from_slice(flags);
    words.push(format!("--output={}", run.display()));
    words.push("--quiet".to_owned());
    if let Some(trace) = trace {
        words.extend(["--".to_owned(), trace.clone()]);
    }
    words
}

/// The result of a run that was measured, without its warm-up.
pub(super) fn without_warmup(end: End, run: &Path, warmup: Nanos) -> End {
    let End::Measured(measured) = end else { return end };
    let window = RunDirectory::at(run)
        .ok_or_else(|| "it is no run".to_owned())
        .and_then(|run| summary_from(&run, warmup).map_err(|error| error.to_string()));
    match window {
        Ok(window) => {
            End::Measured(Measured { figures: Measured::of(&window).figures, ..measured })
        }
        Err(reason) => End::Fault(format!("its results cannot be read: {reason}")),
    }
}

/// Does the run `name`; `launch` is typed in front of it. `asked` is asked again and again whether
/// the run shall end now.
pub(super) fn run(
    launch: &[String],
    words: &[String],
    place: &OpenDirectory,
    name: &str,
    base: &Path,
    running: &File,
    asked: &mut dyn FnMut() -> bool,
) -> io::Result<Came> {
    let file = output_of(name);
    let output = place.create_new(&file)?;
    let begun = Instant::now();
    let own = std::env::current_exe()?;
    let mut command = match launch.split_first() {
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).arg(own);
            command
        }
        None => Command::new(own),
    };
    let mut child = command
        .args(words)
        .current_dir(base)
        .stdin(Stdio::from(running.try_clone()?))
        .stdout(Stdio::from(output.try_clone()?))
        .stderr(Stdio::from(output))
        .spawn()?;
    let (status, was_asked) = wait(&mut child, asked)?;
    let seconds = begun.elapsed().as_secs_f64();
    let run = place.path().join(name);
    let summary_sha256 = digest::of_file(&run.join("summary.json")).ok();
    let end = end(&run, status, was_asked, &place.path().join(file));
    Ok(Came { end, seconds, summary_sha256 })
}

/// Waits for the child, and asks it to end once somebody asks for that.
fn wait(child: &mut Child, asked: &mut dyn FnMut() -> bool) -> io::Result<(ExitStatus, bool)> {
    let (mut was_asked, mut pause) = (false, Duration::from_millis(1));
    let mut lingering = Lingering::of(child);
    loop {
        if let Some(status) = child.try_wait()? {
            // A terminal's Ctrl-C may end the run before this process has noticed it.
            return Ok((status, was_asked || asked()));
        }
        if !was_asked && asked() {
            was_asked = true;
            // The terminal may have sent it a signal already; a run counts both as one.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        if lingering.is_so() && was_asked {
            return Ok((gone(), true));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK_EVERY);
    }
}

/// The status of a run whose process nobody waits for any more.
pub(super) fn gone() -> ExitStatus {
    ExitStatus::from_raw(Signal::KILL.as_raw())
}

/// What came of a run that left `status`.
pub(super) fn end(run: &Path, status: ExitStatus, was_asked: bool, output: &Path) -> End {
    let summary = RunDirectory::at(run).and_then(|run| run.read_summary().ok());
    if let Some(summary) = summary {
        let is_stopped = was_asked && summary.verdict.finding == Finding::Incomplete;
        return if is_stopped { End::Stopped } else { End::of_run(&summary) };
    }
    if was_asked {
        return End::Stopped;
    }
    let Some(code) = status.code() else {
        return End::Fault(format!("the run was ended: {status}"));
    };
    let reason = format!("exit code {code}: {}", last_words(output));
    // A full disk says nothing of the device, and there will be room another time.
    if code == i32::from(exit::OUTPUT) {
        return End::Stopped;
    }
    // Another attempt would be refused alike.
    let is_final = [exit::USAGE, exit::TRACE, exit::DAMAGED, exit::TARGET, exit::REFUSED];
    if is_final.iter().any(|it| i32::from(*it) == code) {
        End::Failed(reason)
    } else {
        End::Fault(reason)
    }
}

/// The error that a run printed, or its last line.
pub(super) fn last_words(output: &Path) -> String {
    let bytes = regular::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let error = text.lines().find(|line| line.starts_with("error"));
    let line = error.or_else(|| text.lines().last()).unwrap_or("it printed nothing");
    line.trim_start_matches("error: ").chars().take(REASON_MAX).collect()
}
