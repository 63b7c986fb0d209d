//! One replay of an agent: armed, begun at its instant, watched, and ended.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::attempt::End;
use ioecho_campaign::file::OnLoss;
use ioecho_campaign::ground::Fault;
use ioecho_campaign::name::is_name;
use ioecho_campaign::protocol::{FromAgent, Lines, LoadThere, RunName};
use ioecho_linux::{MonotonicClock, OpenDirectory};
use ioecho_replay::Clock as _;
use ioecho_run::regular;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::home::{Home, of_attempt};
use super::kept::{self, Done};
use super::voice::Voice;
use super::{Asked, Told};
use crate::commands::campaign::child;
use crate::commands::campaign::lingering::Lingering;
use crate::commands::campaign::setting_up::Host;
use crate::print::tell;

/// The longest pause between two looks at the replay where something is due beside it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The same where nothing is due but the end, which is heard of: an agent that only waits costs
/// nothing.
const WAIT_EVERY: Duration = Duration::from_millis(200);

/// How often it is told that it goes on.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What a host says that is told another instant than the one at which it has begun.
pub(super) const BEGUN_ALREADY: &str = "it had begun at an instant that others heard of too late";

/// What a replay runs on.
#[derive(Debug, Default)]
pub(super) struct On {
    /// What is typed in front of it.
    pub(super) launch: Vec<String>,
    /// The targets, and whether their data may be lost.
    pub(super) targets: Vec<(String, bool)>,
}

/// What a replay needs.
pub(super) struct Replaying<'w> {
    pub(super) home: &'w Home,
    pub(super) voice: &'w Voice,
    pub(super) asked: &'w Asked,
    pub(super) starts: &'w mpsc::Receiver<Told>,
    pub(super) spool: &'w OpenDirectory,
    pub(super) running: &'w File,
    pub(super) host: Option<&'w Host<'static>>,
    pub(super) on: &'w On,
    pub(super) on_loss: OnLoss,
}

/// A line of a run at its gate.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AtGate {
    Armed {
        #[serde(rename = "version")]
        _version: u32,
        #[serde(rename = "pid")]
        _pid: u32,
        #[serde(rename = "now_monotonic_ns")]
        _now: i64,
    },
    Heard {
        start_at_monotonic_ns: i64,
        in_time: bool,
    },
    Settled {
        start_at_monotonic_ns: i64,
    },
    Refused {
        #[serde(rename = "reason")]
        _reason: String,
    },
}

/// The gate of a replay, from outside.
struct Gate {
    way: UnixStream,
    lines: Lines,
    was_asked: bool,
}

impl Replaying<'_> {
    /// Does a replay from its arming to its end.
    pub(super) fn run(
        &self,
        run: &RunName,
        flags: &[String],
        load: &LoadThere,
    ) -> Result<FromAgent, Fault> {
        let failed = |error: io::Error| Fault::Failed(format!("the replay: {error}"));
        let trace = self.trace(load)?;
        let place = self.place(run).map_err(failed)?;
        let output = place.path().join(&run.name);
        let words = child::words_of(&self.on.targets, flags, &output, Some(&trace));
        // What was told for another replay is not for this one.
        while self.starts.try_recv().is_ok() {}
        let output = kept::output_of(&run.name);
        let (mut child, mut gate) = self.begin(&words, &place, &output).map_err(failed)?;
        let mut figures = Figures::of(&mut child).map_err(failed)?;
        let mut told = None;
        if let Some(AtGate::Armed { .. }) = self.at_gate(&mut child, &mut gate).map_err(failed)? {
            self.voice.say(&FromAgent::Armed);
            told = self.start(&mut child, &mut gate).map_err(failed)?;
        }
        let begun = told.map(|at_ns| Instant::now() + until(at_ns));
        if begun.is_some() {
            // All hosts were told it, so that it makes sense without the campaign, too.
            self.asked.finishes.store(self.on_loss == OnLoss::Finish, Relaxed);
        }
        let was_asked = gate.was_asked;
        drop(gate);
        let watched = self.watch(&mut child, begun, was_asked, &mut figures);
        let (status, was_asked, fault) = watched.map_err(failed)?;
        let seconds = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let run_path = place.path().join(&run.name);
        let said = place.path().join(&output);
        let end = child::end(&run_path, status, was_asked || self.asked.to_stop(), &said);
        let is_measured = matches!(end, End::Measured(_));
        let ended = self.host.map_or(Ok(()), |host| host.ended(seconds));
        // A replay that failed tells more than what could not be done beside it.
        if let Some(fault) = fault.or(ended.err().filter(|_| is_measured)) {
            return Err(fault);
        }
        match end {
            End::Measured(_) => self.kept(run, &place, &run_path, seconds).map_err(failed),
            End::Fault(text) => Err(Fault::Failed(text)),
            End::Failed(text) => Err(Fault::Refused(text)),
            End::Stopped => {
                if !self.asked.to_stop() {
                    // A full disk ends it as well.
                    tell(&format!("the replay ended: {}", child::last_words(&said)));
                }
                Err(Fault::Stopped)
            }
        }
    }

    /// Keeps a replay that has come to its end, and says what there is of it.
    fn kept(
        &self,
        run: &RunName,
        place: &OpenDirectory,
        path: &Path,
        seconds: f64,
    ) -> io::Result<FromAgent> {
        let said = kept::said(place.path(), &run.name);
        let mut done = Done::new(seconds, said, kept::files(path)?);
        if self.asked.is_gone() {
            // Nobody will ask for it before everything is taken down.
            let kept = self.host.map_or(Ok(Vec::new()), Host::collect);
            done.kept = kept.map_err(|fault| io::Error::other(fault.to_string()))?;
        }
        done.put(place, &run.name)?;
        let Done { seconds, said, files, .. } = done;
        Ok(FromAgent::Done { seconds, said, files })
    }

    fn trace(&self, load: &LoadThere) -> Result<String, Fault> {
        match load {
            LoadThere::Text(text) => Ok(text.clone()),
            LoadThere::Held { sha256, name } => {
                let path = self.home.load(sha256, name);
                let path = path.map_err(|error| Fault::Refused(error.to_string()))?;
                match regular::open(&path) {
                    Ok(_) => Ok(path.display().to_string()),
                    Err(error) => Err(Fault::Lacking(format!("{}: {error}", path.display()))),
                }
            }
        }
    }

    /// The directory of the attempt in the spool.
    fn place(&self, run: &RunName) -> io::Result<OpenDirectory> {
        if !is_name(&run.name) {
            return Err(io::Error::other("this is no name of a run"));
        }
        let name = of_attempt(&run.key, run.attempt)?;
        match self.spool.make_in(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                OpenDirectory::open(&self.spool.path().join(&name))
            }
            made => made,
        }
    }

    /// Begins the replay, which waits at its gate. What it prints goes to a file.
    fn begin(
        &self,
        words: &[String],
        place: &OpenDirectory,
        output: &str,
    ) -> io::Result<(Child, Gate)> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        // The replay inherits it; nothing else is started meanwhile.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let output = place.create_new(output)?;
        let own = std::env::current_exe()?;
        let mut command = match self.on.launch.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(own);
                command
            }
            None => Command::new(own),
        };
        let (first, others) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let child = command
            .arg(first)
            .arg(format!("--gate={}", theirs.as_raw_fd()))
            .arg("--interval-json=-")
            .args(others)
            .current_dir(self.home.path())
            .stdin(Stdio::from(self.running.try_clone()?))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(output))
            .spawn()?;
        drop(theirs);
        ours.set_nonblocking(true)?;
        Ok((child, Gate { way: ours, lines: Lines::default(), was_asked: false }))
    }

    /// What the replay says next at its gate; `None` if it does not begin, and ends.
    fn at_gate(&self, child: &mut Child, gate: &mut Gate) -> io::Result<Option<AtGate>> {
        let mut some = [0; 4096];
        loop {
            if let Some(line) = gate.lines.next_line().map_err(io::Error::other)? {
                let said = serde_json::from_slice(&line).ok();
                // It ends, and says why.
                return Ok(said.filter(|said| !matches!(said, AtGate::Refused { .. })));
            }
            match gate.way.read(&mut some) {
                Ok(0) => return Ok(None),
                Ok(count) => gate.lines.add(&some[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if child.try_wait()?.is_some() {
                        return Ok(None);
                    }
                    if self.asked.to_stop() && !std::mem::replace(&mut gate.was_asked, true) {
                        let _ = kill_process(Pid::from_child(child), Signal::TERM);
                    }
                    heard_of(&gate.way, WAIT_EVERY)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells the replay the instant that the campaign names, and every other one until it is
    /// settled; `None` if it does not begin.
    fn start(&self, child: &mut Child, gate: &mut Gate) -> io::Result<Option<i64>> {
        let mut settled_ns = None;
        loop {
            let left = settled_ns.map_or(WAIT_EVERY, until);
            match self.starts.recv_timeout(left.min(WAIT_EVERY)) {
                Ok(Told { at_ns: start, settled_ns: settled }) => {
                    let settles = format!("\"settled_at_monotonic_ns\":{settled}");
                    let line = format!("{{\"start_at_monotonic_ns\":{start},{settles}}}\n");
                    gate.way.write_all(line.as_bytes())?;
                    let Some(AtGate::Heard { start_at_monotonic_ns: at_ns, in_time }) =
                        self.at_gate(child, gate)?
                    else {
                        return Ok(None);
                    };
                    settled_ns = in_time.then_some(settled);
                    self.voice.say(&FromAgent::Heard { at_ns, in_time });
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if settled_ns.is_some_and(|settled| until(settled).is_zero()) {
                return Ok(match self.at_gate(child, gate)? {
                    Some(AtGate::Settled { start_at_monotonic_ns }) => Some(start_at_monotonic_ns),
                    _ => None,
                });
            }
            if self.asked.to_stop() || child.try_wait()?.is_some() {
                return Ok(None);
            }
        }
    }

    /// Waits for the end of the replay, and does meanwhile what is due beside it, if it has
    /// `begun`.
    fn watch(
        &self,
        child: &mut Child,
        begun: Option<Instant>,
        mut was_asked: bool,
        figures: &mut Figures,
    ) -> io::Result<(ExitStatus, bool, Option<Fault>)> {
        let (mut until, mut fault) = (0.0, None);
        let (has_begun, host) = (begun.is_some(), self.host.filter(|_| begun.is_some()));
        let begun = begun.unwrap_or_else(Instant::now);
        let mut lingering = Lingering::of(child);
        let longest = if host.is_some() { LOOK_EVERY } else { WAIT_EVERY };
        let (mut pause, mut told) = (Duration::from_millis(1), Instant::now());
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, was_asked, fault));
            }
            let span = until..begun.elapsed().as_secs_f64();
            until = span.end;
            if let Some(host) = host.filter(|_| fault.is_none()) {
                fault = host.beside(&span).err();
            }
            if has_begun && self.starts.try_recv().is_ok() {
                fault.get_or_insert_with(|| Fault::Failed(BEGUN_ALREADY.to_owned()));
            }
            if !was_asked && (fault.is_some() || self.asked.to_stop()) {
                was_asked = true;
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
            }
            if lingering.is_so() && was_asked {
                return Ok((child::gone(), was_asked, fault));
            }
            if figures.read() {
                // It ends in a moment.
                pause = Duration::from_millis(1);
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                if self.spool.path().join(kept::NO_USE).exists() {
                    self.asked.finishes.store(false, Relaxed);
                    self.asked.gone.store(true, Relaxed);
                }
                let Figures { completed, p99_ns, .. } = *figures;
                let seconds = begun.elapsed().as_secs_f64();
                self.voice.say(&FromAgent::Progress { seconds, completed, p99_ns });
            }
            figures.wait(pause)?;
            pause = (pause * 2).min(longest);
        }
    }
}

/// A line of a replay about an interval of its time.
#[derive(Deserialize)]
struct Interval {
    completed: u64,
    service_time: BTreeMap<String, Spans>,
    response_time: BTreeMap<String, Spans>,
}

#[derive(Deserialize)]
struct Spans {
    #[serde(default)]
    p99_ns: Option<u64>,
}

/// How far a replay is, by what it says of each interval.
struct Figures {
    from: Option<ChildStdout>,
    lines: Lines,
    completed: u64,
    p99_ns: Option<u64>,
}

impl Figures {
    fn of(child: &mut Child) -> io::Result<Self> {
        let from = child.stdout.take();
        if let Some(from) = &from {
            fcntl_setfl(from, fcntl_getfl(from)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { from, lines: Lines::default(), completed: 0, p99_ns: None })
    }

    /// Waits until there is something to read, but no longer than this.
    fn wait(&self, most: Duration) -> io::Result<()> {
        let Some(from) = &self.from else {
            thread::sleep(most);
            return Ok(());
        };
        heard_of(from, most)
    }

    /// Reads what there is; whether it was the last of all.
    fn read(&mut self) -> bool {
        let mut some = [0; 8 << 10];
        loop {
            let Some(from) = &mut self.from else { return false };
            let count = match from.read(&mut some) {
                Ok(count) if count > 0 => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Ok(_) | Err(_) => {
                    self.from = None;
                    return true;
                }
            };
            self.lines.add(&some[..count]);
            while let Ok(Some(line)) = self.lines.next_line() {
                let Ok(interval) = serde_json::from_slice::<Interval>(&line) else { continue };
                self.completed += interval.completed;
                let p99 =
                    |kinds: &BTreeMap<String, Spans>| kinds.get("all").and_then(|it| it.p99_ns);
                self.p99_ns = p99(&interval.response_time).or_else(|| p99(&interval.service_time));
            }
        }
    }
}

/// Waits until there is something to read, or the other end is closed, but no longer than this part
/// of a second.
fn heard_of(from: &impl AsFd, most: Duration) -> io::Result<()> {
    let most = Timespec { tv_sec: 0, tv_nsec: i64::from(most.subsec_nanos()) };
    match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How long it is until an instant of `CLOCK_MONOTONIC`.
pub(super) fn until(at_ns: i64) -> Duration {
    let clock = MonotonicClock::new();
    let left = at_ns.saturating_sub((clock.origin() + clock.now()).0);
    Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}
