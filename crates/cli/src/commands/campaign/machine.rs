//! This machine, as modules see it and as the ledger changes it.
//!
//! A command that hangs would hang the campaign, so each has a time limit, and is a group of
//! processes of its own that can be ended as a whole. It holds the lock `running` of the undo files
//! as its standard input, or as a file besides where it reads something: what a killed campaign
//! left running is waited for before anything is undone.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::ground::{Command, Fault, Ground, Hands, Kind, Output, Result, Volume};
use ioecho_linux::{guard, setting};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process_group};

use super::person;
use crate::print::tell;

/// The longest pause between two looks at a command.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long after a command its pipes may stay open.
const PIPE_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// How much of what a command prints is kept.
const OUTPUT_MAX: u64 = 4 << 20;

/// This machine.
pub(super) struct Machine<'a> {
    /// Commands begin here.
    base: PathBuf,
    /// The lock that commands hold.
    running: Option<File>,
    /// Whether somebody asks for the end.
    asked: Box<dyn Fn() -> bool + 'a>,
    begun: Instant,
    /// Whether no command is run at all.
    is_looking: bool,
}

impl<'a> Machine<'a> {
    pub(super) fn new(base: &Path, running: Option<File>, asked: impl Fn() -> bool + 'a) -> Self {
        let (asked, begun) = (Box::new(asked), Instant::now());
        Self { base: base.to_owned(), running, asked, begun, is_looking: false }
    }

    /// The machine for a plan that is only shown.
    pub(super) fn to_look_at(base: &Path) -> Self {
        Self { is_looking: true, ..Self::new(base, None, || false) }
    }

    fn call(&self, command: &Command) -> io::Result<(Option<ExitStatus>, Output)> {
        let stdin = match (&command.input, &self.running) {
            (Some(_), _) => Stdio::piped(),
            (None, Some(running)) => Stdio::from(running.try_clone()?),
            (None, None) => Stdio::null(),
        };
        // A duplicate that the command inherits; this process closes it once it has begun.
        let lock = match (&command.input, &self.running) {
            (Some(_), Some(running)) => Some(inherited(running)?),
            _ => None,
        };
        let mut child = Process::new(command.program())
            .args(command.argv.iter().skip(1))
            .current_dir(command.directory.as_ref().map_or(&*self.base, Path::new))
            .env("LC_ALL", "C")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        drop(lock);
        let mut stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let input = command.input.clone().unwrap_or_default();
        // It is not waited for: a command that does not read its input has not needed it.
        thread::spawn(move || {
            let _ = stdin.take().map(|mut pipe| pipe.write_all(input.as_bytes()));
        });
        let readers = [reader(stdout), reader(stderr)];
        let status = wait(&mut child, Duration::from_secs(command.limit_s))?;
        let texts = readers.map(|reader| reader.recv_timeout(PIPE_ENDS_WITHIN));
        let [Ok(stdout), Ok(stderr)] = texts else {
            let text = "it has ended, and something that it left running holds its output open (it \
                        must be started with >/dev/null 2>&1)";
            return Err(io::Error::other(text));
        };
        let code = status.and_then(|status| status.code());
        Ok((status, Output { code, stdout, stderr }))
    }
}

/// A duplicate of a file, which programs that are started inherit.
fn inherited(file: &File) -> io::Result<File> {
    let file = file.try_clone()?;
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

/// Waits for a command; `None` if it took too long and was ended.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= limit {
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK_EVERY);
    }
}

/// Gives the text of a pipe once it has ended. Something in the background may keep it open for
/// ever.
fn reader(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(text(pipe)));
    receiver
}

/// The text that a pipe gives.
fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.by_ref().take(OUTPUT_MAX).read_to_end(&mut bytes);
        let _ = io::copy(&mut pipe, &mut io::sink());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn failed(what: &str, error: &io::Error) -> Fault {
    Fault::Failed(format!("{what}: {error}"))
}

impl Ground for Machine<'_> {
    fn boot(&self) -> String {
        // Without it a boot cannot be noticed, and everything is compared all the same.
        setting::boot_id().unwrap_or_default()
    }

    fn read(&self, path: &str) -> Result<Option<String>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }

    fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(path, &error)),
        };
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.flatten().map(name).collect();
        names.sort();
        Ok(names)
    }

    fn real(&self, path: &str) -> Option<String> {
        Some(fs::canonicalize(self.base.join(path)).ok()?.to_string_lossy().into_owned())
    }

    fn volume(&self, path: &str) -> Result<Volume> {
        let lacking = |error: io::Error| Fault::Lacking(format!("{path}: {error}"));
        let real = fs::canonicalize(self.base.join(path)).map_err(lacking)?;
        let data = fs::metadata(&real).map_err(lacking)?;
        let (real, kind, size) = if data.file_type().is_block_device() {
            let number = data.rdev();
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            let facts = format!("/sys/dev/block/{major}:{minor}");
            let sectors = fs::read_to_string(format!("{facts}/size"));
            let sectors = sectors.ok().and_then(|text| text.trim().parse::<u64>().ok());
            // The kernel's own name, by which its settings are found: without udev, names such as
            // those of logical volumes are nodes of their own.
            let own = fs::canonicalize(facts).ok();
            let own = own.and_then(|own| Some(Path::new("/dev").join(own.file_name()?)));
            let is_same = |own: &PathBuf| fs::metadata(own).is_ok_and(|it| it.rdev() == number);
            let real = own.filter(is_same).unwrap_or(real);
            (real, Kind::Block, sectors.unwrap_or(0).saturating_mul(512))
        } else if data.is_file() {
            (real, Kind::File, data.len())
        } else {
            return Err(Fault::Refused(format!("{path} is neither a block device nor a file")));
        };
        let path = real.to_string_lossy().into_owned();
        Ok(Volume { path, kind, size, may_lose: false, is_there: true })
    }

    fn unused(&self, path: &str) -> Result<()> {
        let hazards = guard::inspect(Path::new(path));
        let hazards = hazards.map_err(|error| Fault::Failed(format!("{path}: {error}")))?;
        match hazards.iter().find(|hazard| !hazard.can_be_named()) {
            Some(hazard) => Err(Fault::Refused(format!("{path}: {hazard}"))),
            None => Ok(()),
        }
    }

    fn has_program(&self, name: &str) -> bool {
        let is_program = |path: &Path| {
            fs::metadata(path).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0)
        };
        if name.contains('/') {
            return is_program(&self.base.join(name));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| is_program(&directory.join(name)))
    }

    fn ioecho(&self) -> String {
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ioecho"));
        own.to_string_lossy().into_owned()
    }

    fn may_ask(&self) -> bool {
        !self.is_looking
    }

    fn ask(&self, command: &Command) -> Result<Output> {
        self.run(command)
    }

    fn tell(&self, text: &str) {
        tell(text);
    }

    fn is_attended(&self) -> bool {
        person::is_there()
    }

    fn person(&self, question: &str, limit: Duration) -> Result<String> {
        person::ask(question, limit, &self.asked)
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn wait(&self, span: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < span {
            if (self.asked)() {
                return Err(Fault::Stopped);
            }
            thread::sleep(LOOK_EVERY.min(span.saturating_sub(begun.elapsed())));
        }
        Ok(())
    }
}

impl Hands for Machine<'_> {
    fn write(&self, path: &str, text: &str) -> Result<()> {
        setting::write(Path::new(path), text).map_err(|error| failed(path, &error))
    }

    fn run(&self, command: &Command) -> Result<Output> {
        match self.call(command) {
            Ok((Some(_), output)) => Ok(output),
            Ok((None, _)) => {
                let limit = command.limit_s;
                Err(Fault::Failed(format!(
                    "{command}: it took longer than {limit} s, and was ended"
                )))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Fault::Lacking(format!("{}: there is no such program", command.program())))
            }
            Err(error) => Err(failed(command.program(), &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine<'static> {
        Machine::new(Path::new("/"), None, || false)
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_its_children() {
        let hangs = Command::new(["sh", "-c", "sleep 60 & sleep 60"]);
        let begun = Instant::now();
        let fault = machine().run(&hangs.within(Duration::from_secs(1))).unwrap_err();
        assert!(fault.to_string().contains("longer than 1 s"), "{fault}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_a_command_leaves_running_does_not_hold_up_the_campaign() {
        let begun = Instant::now();
        let leaves = Command::new(["sh", "-c", "setsid sleep 20 & exit 0"]);
        let fault = machine().run(&leaves).unwrap_err();
        assert!(fault.to_string().contains("holds its output open"), "{fault}");
        assert!(begun.elapsed() < Duration::from_secs(15));
        let quiet = Command::new(["sh", "-c", "setsid sleep 1 >/dev/null 2>&1 & exit 0"]);
        assert!(machine().run(&quiet).unwrap().is_good());
    }

    #[test]
    fn a_command_that_reads_holds_the_lock_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("running");
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        let machine = Machine::new(Path::new("/"), Some(lock), || false);
        // It outlives the machine, as it would a killed campaign.
        let script = "setsid sleep 1 >/dev/null 2>&1 & exit 0";
        machine.run(&Command::new(["sh", "-c", script]).reading("text")).unwrap();
        drop(machine);
        let other = File::open(&path).unwrap();
        assert!(other.try_lock().is_err(), "nothing holds the lock");
        other.lock().unwrap();
    }

    #[test]
    fn a_command_reads_and_prints() {
        let output = machine().run(&Command::new(["cat"]).reading("text")).unwrap();
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "text"));
        let long = "x".repeat(1 << 20);
        let unread = machine().run(&Command::new(["true"]).reading(long)).unwrap();
        assert!(unread.is_good(), "a command need not read: {unread:?}");
        assert!(matches!(machine().run(&Command::new(["/no/such"])), Err(Fault::Lacking(_))));
        assert!(machine().has_program("sh") && !machine().has_program("no-such-program"));
    }
}
