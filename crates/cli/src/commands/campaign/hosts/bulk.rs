//! Loads to hosts, and results from them, each through an agent of its own.
//!
//! What arrives is known by its hash, and what broke off goes on where it was. A host that gives
//! something else is asked once more, and then named.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_campaign::attempt::End;
use ioecho_campaign::file::Host;
use ioecho_campaign::name::is_name;
use ioecho_campaign::protocol::{FileThere, Given, Offered, RunName, Taken, Wanted, line};
use ioecho_linux::OpenDirectory;
use ioecho_run::{digest, regular};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::reach::{self, As};

/// How often a transfer that broke is begun again.
const TRIES: u32 = 5;

/// How long the other side may rest within a transfer.
const RESTS_WITHIN: Duration = Duration::from_secs(15);

/// How long it may take to look at all of a file.
const LOOKS_WITHIN: Duration = Duration::from_mins(10);

/// How long it may take to say why it reads no further.
const SAYS_WITHIN: Duration = Duration::from_secs(1);

/// The longest line that makes sense.
const LINE_MAX: u64 = 64 << 10;

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// How often it is looked whether somebody asks for the end.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether somebody asks for the end.
pub(super) type Asked<'a> = &'a dyn Fn() -> bool;

/// Why something did not come over.
pub(super) enum Unmoved {
    /// Somebody asked for the end. What came stands.
    Stopped,
    /// In words.
    For(String),
}

/// A pipe whose other end may not rest too long.
struct Patient<'a> {
    pipe: File,
    within: Duration,
    asked: Asked<'a>,
}

impl<'a> Patient<'a> {
    fn new(pipe: OwnedFd, asked: Asked<'a>) -> io::Result<Self> {
        let pipe = File::from(pipe);
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { pipe, within: RESTS_WITHIN, asked })
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < self.within {
            if (self.asked)() {
                return Err(io::Error::other("somebody asks for the end"));
            }
            match poll(&mut [PollFd::new(&self.pipe, flags)], Some(&LOOK_EVERY)) {
                Ok(0) => {}
                Ok(_) | Err(rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "it has been silent too long"))
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, some: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.pipe.read(some) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN)?;
                }
                read => return read,
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, some: &[u8]) -> io::Result<usize> {
        loop {
            match self.pipe.write(some) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An agent for one transfer.
struct Carrier<'a> {
    child: Child,
    to: Patient<'a>,
    from: BufReader<Patient<'a>>,
}

impl<'a> Carrier<'a> {
    fn start(host: &Host, as_: As, build: &str, asked: Asked<'a>) -> io::Result<Self> {
        let mut child = reach::agent(host, as_, build)?
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let from = BufReader::new(Patient::new(from.into(), asked)?);
        Ok(Self { child, to: Patient::new(to.into(), asked)?, from })
    }

    fn heard<T: DeserializeOwned>(&mut self, within: Duration) -> io::Result<T> {
        let mut text = Vec::new();
        self.from.get_mut().within = within;
        let read = self.from.by_ref().take(LINE_MAX).read_until(b'\n', &mut text);
        self.from.get_mut().within = RESTS_WITHIN;
        if read? == 0 {
            return Err(io::Error::other("its connection ended"));
        }
        serde_json::from_slice(&text).map_err(io::Error::other)
    }
}

impl Drop for Carrier<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The name of a load or a program on a host: that of its file, which may tell its format.
pub(in super::super) fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let plain = |name: String| -> String {
        name.chars().map(|c| if is_part(c) { c } else { '_' }).collect()
    };
    // The end tells the format, and a name has a longest length.
    let name = name.map(plain).unwrap_or_default();
    let end = name.len().saturating_sub(90);
    let name = format!("load-{}", &name[end..]);
    if is_name(&name) { name } else { "load".to_owned() }
}

/// Brings files to a host, each with its SHA-256, unless they are there.
///
/// # Errors
///
/// If they could not be brought, or somebody `asked` for the end.
pub(super) fn send(
    host: &Host,
    build: &str,
    files: &[(&Path, &str)],
    asked: Asked<'_>,
) -> Result<(), Unmoved> {
    let (mut left, mut at) = (files, Path::new(""));
    again(asked, |_| {
        if left.is_empty() {
            return Ok(());
        }
        let mut carrier = Carrier::start(host, As::Taker, build, asked)?;
        while let Some(((path, sha256), rest)) = left.split_first() {
            at = path;
            sent(&mut carrier, path, sha256)?;
            left = rest;
        }
        Ok(())
    })
    .map_err(|why| why.told(|why| format!("{} cannot be sent: {why}", at.display())))
}

fn sent(carrier: &mut Carrier<'_>, path: &Path, sha256: &str) -> Result<(), Broken> {
    let mut file = regular::open(path).map_err(|error| Broken::ForGood(error.to_string()))?;
    let bytes = file.metadata()?.len();
    let (sha256, name) = (sha256.to_owned(), name_of(path));
    carrier.to.write_all(&line(&Offered { sha256, name, bytes }))?;
    loop {
        match carrier.heard::<Taken>(LOOKS_WITHIN)? {
            Taken::Whole => return Ok(()),
            Taken::Refused(why) => return Err(Broken::ForGood(why)),
            Taken::Have(have) if have <= bytes => {
                file.seek(io::SeekFrom::Start(have))?;
                let mut rest = Read::by_ref(&mut file).take(bytes - have);
                if let Err(error) = io::copy(&mut rest, &mut carrier.to) {
                    // A host whose disk is full says so, and reads no further.
                    return Err(match carrier.heard(SAYS_WITHIN) {
                        Ok(Taken::Refused(why)) => Broken::ForGood(why),
                        _ => error.into(),
                    });
                }
            }
            Taken::Have(_) => {
                return Err(Broken::ForGood("it has more of it than there is".into()));
            }
        }
    }
}

/// A run in an agent's spool, and where its files go.
pub(super) struct Fetching<'f> {
    pub(super) campaign: &'f str,
    pub(super) run: &'f RunName,
    pub(super) files: &'f [&'f FileThere],
    pub(super) into: &'f OpenDirectory,
    /// Where an earlier attempt to fetch the same run has left what had come.
    pub(super) earlier: Option<&'f Path>,
}

/// Fetches the files of a run.
///
/// # Errors
///
/// If they could not be fetched, or somebody `asked` for the end: what has come stands.
pub(super) fn fetch(
    host: &Host,
    build: &str,
    fetching: &Fetching<'_>,
    asked: Asked<'_>,
) -> Result<(), Unmoved> {
    let Fetching { campaign, run, files, into, earlier } = *fetching;
    let needed = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    let room = into.space().map_err(|error| Unmoved::For(error.to_string()))?.0;
    if needed > room {
        let why = format!("its results have {needed} bytes, for which there is no room");
        return Err(Unmoved::For(why));
    }
    let mut begun: Vec<Option<Arriving>> = files.iter().map(|_| None).collect();
    again(asked, |_| {
        let mut carrier = Carrier::start(host, As::Giver, build, asked)?;
        for (file, arriving) in files.iter().zip(&mut begun) {
            let arriving = match arriving {
                Some(arriving) => arriving,
                None => arriving.insert(Arriving::new(into, file, earlier)?),
            };
            let wanted = Wanted {
                campaign: campaign.to_owned(),
                host: host.name.clone(),
                run: run.clone(),
                file: file.name.clone(),
                from: arriving.count,
            };
            if arriving.count < file.bytes || arriving.count == 0 {
                carrier.to.write_all(&line(&wanted))?;
                arriving.take(&mut carrier, file)?;
            }
            if digest::digits(arriving.hash.clone().finalize()) != file.sha256 {
                arriving.forget()?;
                return Err(Broken::Again(format!("{} is not what its hash says", file.name)));
            }
            arriving.file.sync_all()?;
        }
        into.sync()?;
        Ok(())
    })
    .map_err(|why| why.told(|why| format!("its results cannot be fetched: {why}")))
}

/// A file that arrives.
struct Arriving {
    file: File,
    hash: Sha256,
    count: u64,
}

impl Arriving {
    /// A new file, which begins with what came of it `earlier`. It is compared with its hash like
    /// everything else.
    fn new(into: &OpenDirectory, file: &FileThere, earlier: Option<&Path>) -> io::Result<Self> {
        let mut new = Self { file: into.create_new(&file.name)?, hash: Sha256::new(), count: 0 };
        if let Some(earlier) = earlier
            && let Ok(came) = regular::open(&earlier.join(&file.name))
        {
            let mut came = came.take(file.bytes);
            let mut some = vec![0; CHUNK];
            loop {
                match came.read(&mut some)? {
                    0 => break,
                    count => new.add(&some[..count])?,
                }
            }
        }
        Ok(new)
    }

    fn add(&mut self, some: &[u8]) -> io::Result<()> {
        self.file.write_all(some)?;
        self.hash.update(some);
        self.count += some.len() as u64;
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        (self.hash, self.count) = (Sha256::new(), 0);
        Ok(())
    }

    fn take(&mut self, carrier: &mut Carrier<'_>, file: &FileThere) -> Result<(), Broken> {
        let left = match carrier.heard(RESTS_WITHIN)? {
            Given::Bytes(left) => left,
            Given::Nothing(why) => return Err(Broken::ForGood(why)),
        };
        if self.count.checked_add(left) != Some(file.bytes) {
            return Err(Broken::ForGood(format!("{} has another length by now", file.name)));
        }
        let mut some = vec![0; CHUNK];
        while self.count < file.bytes {
            let most = (file.bytes - self.count).min(some.len() as u64) as usize;
            let read = carrier.from.read(&mut some[..most])?;
            if read == 0 {
                return Err(Broken::Again("its connection ended".to_owned()));
            }
            self.add(&some[..read])?;
            if (carrier.to.asked)() {
                return Err(Broken::Again("somebody asks for the end".to_owned()));
            }
        }
        Ok(())
    }
}

/// Why a transfer broke off.
enum Broken {
    /// It may go on.
    Again(String),
    /// Another try would end alike.
    ForGood(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Again(error.to_string())
    }
}

/// Tries something some times, with longer and longer pauses, unless somebody asks for the end.
fn again(asked: Asked<'_>, mut work: impl FnMut(u32) -> Result<(), Broken>) -> Result<(), Unmoved> {
    let mut number = 1;
    loop {
        if asked() {
            return Err(Unmoved::Stopped);
        }
        match work(number) {
            Ok(()) => return Ok(()),
            Err(_) if asked() => return Err(Unmoved::Stopped),
            Err(Broken::ForGood(why)) => return Err(Unmoved::For(why)),
            Err(Broken::Again(why)) if number >= TRIES => return Err(Unmoved::For(why)),
            Err(Broken::Again(_)) => thread::sleep(Duration::from_millis(200) * number),
        }
        number += 1;
    }
}

impl Unmoved {
    /// The same, in other words.
    fn told(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Stopped => Self::Stopped,
            Self::For(why) => Self::For(words(why)),
        }
    }

    /// The end of an attempt by it, of the host of this name.
    pub(super) fn end(self, host: &str) -> End {
        match self {
            Self::Stopped => End::Stopped,
            Self::For(why) => End::Fault(format!("{host}: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_load_is_a_name_and_tells_its_format() {
        assert_eq!(name_of(Path::new("/x/oltp.parquet")), "load-oltp.parquet");
        assert_eq!(name_of(Path::new("../a b;ü.gz")), "load-a_b__.gz");
        assert_eq!(name_of(Path::new("/")), "load-");
        let long = format!("{}.blkreplay.gz", "x".repeat(200));
        let name = name_of(Path::new(&long));
        assert!(is_name(&name) && name.ends_with(".blkreplay.gz"), "{name}");
    }
}
