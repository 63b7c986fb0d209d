//! A shell command that runs, the threads around it, and its end.
//!
//! A command is more than one process: the shell starts others, and one of them may hold the pipes
//! when the shell is long gone. So the command gets its own process group, which is killed as a
//! whole when its output is no longer needed. Nothing here waits on a pipe without regularly
//! checking whether a stop was asked for and whether the shell still runs.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Fed, failure, fault, feed, tail};
use crate::compression::Positioned;
use crate::error::TraceError;
use crate::header::{NoteKind, Topic};
use crate::stop::Stop;
use crate::stream::Source;

/// The note on processes that kept a pipe open when the shell had ended.
pub(super) const LEFT_BEHIND: Topic<'static> = NoteKind::Unreadable
    .of("background processes that held the output open and were not waited for");

/// The time that background processes may be silent after the shell has ended.
const GRACE: Duration = Duration::from_secs(1);

/// The time between two checks for a stop and for the end of the shell.
const LOOK_UP: Duration = Duration::from_millis(20);

/// The processes of a command.
struct Processes {
    /// The shell, whose number is that of the group.
    shell: Pid,
    /// Whether processes were left behind and not waited for.
    left_behind: AtomicBool,
}

impl Processes {
    /// Whether the shell has ended. It is not waited for, so its number stays its own.
    fn shell_has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.shell), options) {
                Ok(ended) => return ended.is_some(),
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    /// Ends all of them.
    fn kill(&self) {
        // An error means that no process is left.
        let _ = kill_process_group(self.shell, Signal::KILL);
    }

    fn leave_behind(&self) {
        self.left_behind.store(true, Ordering::Relaxed);
        self.kill();
    }
}

/// The output of the command.
pub(super) struct Output {
    pipe: ChildStdout,
    bytes: u64,
    processes: Arc<Processes>,
    stop: Stop,
}

impl Output {
    /// Waits for output; answers whether there may be some to read.
    fn wait(&self) -> io::Result<bool> {
        let look_up = Timespec { tv_sec: 0, tv_nsec: LOOK_UP.as_nanos() as i64 };
        let mut alone_since: Option<Instant> = None;
        loop {
            match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], Some(&look_up)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
            if self.stop.is_asked() {
                return Err(io::Error::other("stopped"));
            }
            if alone_since.is_some() || self.processes.shell_has_ended() {
                let alone = alone_since.get_or_insert_with(Instant::now).elapsed();
                if alone > 2 * GRACE {
                    // A process that left the group holds the pipe and cannot be killed.
                    return Ok(false);
                }
                if alone > GRACE {
                    self.processes.leave_behind();
                }
            }
        }
    }
}

impl Read for Output {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.wait()? {
            return Ok(0);
        }
        let count = self.pipe.read(into)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl Positioned for Output {
    fn position(&self) -> u64 {
        self.bytes
    }
}

/// A command that runs, and the threads around it.
pub(super) struct Running {
    command: String,
    child: Child,
    processes: Arc<Processes>,
    stop: Stop,
    /// Whether the end of the command was waited for.
    ended: bool,
    feeder: Option<JoinHandle<Result<Fed, TraceError>>>,
    complaints: Option<JoinHandle<String>>,
}

impl Running {
    pub(super) fn start(
        command: &str,
        source: Box<dyn Source>,
        stop: &Stop,
    ) -> Result<(Self, Output), TraceError> {
        let failed = |error: io::Error| fault(command, &format!("it cannot be run: {error}"));
        let mut child = Command::new("/bin/sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (input, output, complaints) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let shell = Pid::from_child(&child);
        let processes = Arc::new(Processes { shell, left_behind: AtomicBool::new(false) });
        let mut running = Self {
            command: command.to_owned(),
            child,
            processes: Arc::clone(&processes),
            stop: stop.clone(),
            ended: false,
            feeder: None,
            complaints: None,
        };
        let no_pipe = || failed(io::ErrorKind::BrokenPipe.into());
        let (input, output) = input.zip(output).ok_or_else(no_pipe)?;
        let complaints = complaints.ok_or_else(no_pipe)?;
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let feeder = named("cmd-input").spawn(move || feed(source, input)).map_err(failed)?;
        running.feeder = Some(feeder);
        let listener = named("cmd-errors").spawn(move || tail(complaints)).map_err(failed)?;
        running.complaints = Some(listener);
        Ok((running, Output { pipe: output, bytes: 0, processes, stop: stop.clone() }))
    }

    /// Waits until the whole trace was fed and the command has ended; its failure is an error.
    pub(super) fn end(mut self) -> Result<Fed, TraceError> {
        while !self.processes.shell_has_ended() {
            self.look_up()?;
        }
        let fed = self.fed()?;
        let complaints = self.complaints();
        // After waiting, the number of the group is no longer ours, so the others can no longer be
        // killed.
        let status = self.child.wait();
        self.ended = true;
        // An error in reading the trace takes precedence over the failure of a command that did not
        // get all of it.
        let mut fed = fed?;
        let left_behind = self.processes.left_behind.load(Ordering::Relaxed);
        fed.lost.add(LEFT_BEHIND, left_behind.into(), None);
        match status {
            Ok(status) if status.success() => Ok(fed),
            Ok(status) => Err(self.failed(status, &complaints)),
            Err(error) => Err(fault(&self.command, &format!("it was lost: {error}"))),
        }
    }

    fn failed(&self, status: ExitStatus, complaints: &str) -> TraceError {
        failure(&self.command, status, complaints)
    }

    fn look_up(&self) -> Result<(), TraceError> {
        thread::sleep(LOOK_UP);
        self.stop.check()
    }

    /// The result of the feeder. If it is blocked writing to a process that does not read, the end
    /// of that process frees it; if it waits for its source, it goes on.
    fn fed(&mut self) -> Result<Result<Fed, TraceError>, TraceError> {
        let unfed = || fault(&self.command, "it could not be fed");
        let feeder = self.feeder.take().ok_or_else(unfed)?;
        let begin = Instant::now();
        while !feeder.is_finished() {
            self.look_up()?;
            if begin.elapsed() > GRACE {
                self.processes.kill();
            }
        }
        feeder.join().map_err(|_| unfed())
    }

    /// The end of the command's standard error.
    fn complaints(&mut self) -> String {
        let Some(listener) = self.complaints.take() else { return String::new() };
        let begin = Instant::now();
        while !listener.is_finished() {
            thread::sleep(LOOK_UP);
            if begin.elapsed() > 2 * GRACE {
                return String::new();
            }
            if begin.elapsed() > GRACE {
                self.processes.leave_behind();
            }
        }
        listener.join().unwrap_or_default()
    }
}

impl Drop for Running {
    /// Dropping ends the command without waiting for it.
    fn drop(&mut self) {
        if !self.ended {
            self.processes.kill();
            let _ = self.child.wait();
        }
    }
}
