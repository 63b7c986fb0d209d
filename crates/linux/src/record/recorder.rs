//! A recording that goes on: a thread that empties the kernel's buffers into files.
//!
//! A recorder disturbs what it records, by each processor cycle that it takes and by when it takes
//! it. Waiting for events would cost most, because the kernel would wake the thread for each. So
//! the thread sleeps by the clock, as long as the buffers allow, and has the lowest priority until
//! the buffers fill up.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_trace::recording::{ASKED_TO, Calls, DESCRIPTION_VERSION, Description, Totals};
use ioecho_trace::{Bytes, Nanos};
use rustix::thread::gettid;

use super::attach::{attach, clean, others};
use super::clocks::anchor;
use super::error::RecordError;
use super::filter::Events;
use super::interface::{Interface, InterfaceChoice};
use super::store::{self, SegmentLimit, Store};
use super::target::{self, Target};
use super::worker::Worker;
use crate::chain::Chains;
use crate::open_directory::OpenDirectory;

/// How many sentences are kept, even if somebody switches settings off and on all the time.
const NOTES_MAX: usize = 100;

/// The recorders of this process that may have something in the kernel.
static RECORDERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// What is asked of a recorder.
#[derive(Clone, Debug)]
pub struct Options {
    /// By which interface of the kernel.
    pub interface: InterfaceChoice,
    /// The directory that the recording becomes. It is made, and must not be there yet.
    pub directory: PathBuf,
    /// Whether system calls on files are recorded, and no devices.
    pub calls: bool,
    /// The buffer of each processor; by a rule that stands in the recording where nothing is said.
    pub buffer: Option<Bytes>,
    /// Which tracepoints.
    pub events: Events,
    /// When a segment is full.
    pub segment_bytes: Bytes,
    /// When a segment that is not full ends all the same.
    pub segment_time: Duration,
    /// The recording ends when the file system has less space left than this; by a rule where
    /// nothing is said: a tenth of the file system, but at most 256 MiB.
    pub reserve: Option<Bytes>,
    /// The program that records, with its version.
    pub recorder: String,
}

impl Options {
    /// The usual choices: any interface, segments of 256 MiB or ten minutes.
    pub fn new(directory: &Path, recorder: &str) -> Self {
        Self {
            interface: InterfaceChoice::Auto,
            directory: directory.to_owned(),
            calls: false,
            buffer: None,
            events: Events::Needed,
            segment_bytes: Bytes(256 << 20),
            segment_time: Duration::from_mins(10),
            reserve: None,
            recorder: recorder.to_owned(),
        }
    }
}

/// Why a recording ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Somebody asked for it.
    #[default]
    Asked,
    /// All of its devices are gone; what happened to the last one.
    DeviceGone(String),
    /// The file system is full, or nearly so.
    DiskFull(String),
    /// The directory that it is written into was taken away or moved; where it is now, if it is.
    Misplaced(String),
    /// Something failed.
    Failed(String),
}

impl Ending {
    /// Whether it is the end that was asked for.
    pub fn is_good(&self) -> bool {
        *self == Self::Asked
    }

    /// The ending as a phrase.
    pub fn phrase(&self) -> &str {
        match self {
            Self::Asked => ASKED_TO,
            Self::DeviceGone(why)
            | Self::DiskFull(why)
            | Self::Misplaced(why)
            | Self::Failed(why) => why,
        }
    }
}

/// How a recording stands. Figures of the kernel are up to a second old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Events that were taken from the kernel.
    pub events: u64,
    /// Bytes that were written.
    pub bytes: Bytes,
    /// Events that found no room, in the kernel's buffers or on the disk.
    pub lost: u64,
    /// Processor time of the recorder's threads.
    pub cpu: Nanos,
    /// What is to be said so far, as sentences; the same as later in the [`Summary`].
    pub notes: Vec<String>,
    /// Why it has ended, if it has.
    pub ended: Option<Ending>,
}

/// The result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Why it ended.
    pub ending: Ending,
    /// Processor by processor.
    pub cpus: Vec<Totals>,
    /// Bytes that were written.
    pub bytes: Bytes,
    /// In how many segments.
    pub segments: u32,
    /// Processor time of the recorder's threads.
    pub cpu: Nanos,
    /// How long it took.
    pub wall: Nanos,
    /// The fullest that a buffer was when it was emptied, in thousandths.
    pub fullest: u32,
    /// Of the lost events those that the kernel gave and that could not be written.
    pub dropped: u64,
    /// Of the lost events those that another program took out of the kernel's buffers.
    pub taken: u64,
    /// How long another program suppressed an unknown number of events, by switching them off or
    /// clearing a buffer.
    pub blind: Nanos,
    /// What else is to be said, as sentences.
    pub notes: Vec<String>,
}

impl Summary {
    /// Events that were taken from the kernel and kept.
    pub fn events(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.read).sum()
    }

    /// Events that found no room, in the kernel's buffers or on the disk, or that another program
    /// took.
    pub fn lost(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.lost).sum()
    }

    /// Whether no event is missing, as far as the kernel knows.
    pub fn is_whole(&self) -> bool {
        self.lost() == 0 && self.blind.0 == 0
    }
}

/// What a recorder would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The interface.
    pub interface: Interface,
    /// Why this one, as a phrase.
    pub why: String,
    /// The buffer of each processor.
    pub buffer: Bytes,
    /// The rule by which it is so large.
    pub buffer_rule: String,
    /// How many processors have one.
    pub cpus: usize,
    /// The tracepoints, where the interface has such.
    pub events: Vec<String>,
    /// What else is to be said, as sentences.
    pub notes: Vec<String>,
}

/// State shared by the thread and its owner.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// Whether nothing is left in the kernel.
    pub(super) is_detached: AtomicBool,
    pub(super) events: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) cpu_ns: AtomicU64,
    pub(super) ended: Mutex<Option<Ending>>,
    notes: Mutex<Vec<String>>,
    /// Why the end was asked for.
    why: Mutex<String>,
}

impl Shared {
    /// Adds a sentence to what is to be said.
    pub(super) fn note(&self, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX {
            notes.push(text);
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the end was asked for, as a phrase.
    pub(super) fn why(&self) -> String {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if why.is_empty() { ASKED_TO.to_owned() } else { why }
    }
}

/// A recording that goes on. Dropping it ends it, like [`stop`](Self::stop).
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Summary>>,
    interface: Interface,
    why: String,
    notes: Vec<String>,
    /// Takes the task whose calls are recorded.
    followed: Option<PathBuf>,
}

impl Recorder {
    /// Begins to record these devices, or calls on files. When it returns, events are being
    /// recorded; of calls, once a thread is followed.
    ///
    /// Neither this nor what follows asks anything of the devices themselves. Needs root, or
    /// whoever may use the interface.
    pub fn start(targets: Vec<Target>, options: &Options) -> Result<Self, RecordError> {
        check(&targets, options)?;
        let mut notes = notes(&targets);
        notes.extend(unseen(&options.directory));
        // From here on `end_all` knows of it.
        let shared = Arc::new(Shared::default());
        {
            let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
            recorders.retain(|one| one.strong_count() > 0);
            recorders.push(Arc::downgrade(&shared));
        }
        let (mut tracer, why) = attach(&targets, options)?;
        let directory = &options.directory;
        fs::create_dir(directory).map_err(|error| RecordError::output(directory, error))?;
        let interface = tracer.interface();
        notes.extend(tracer.note());
        let began = || {
            let chains = Chains::new();
            let mut description = Description {
                version: DESCRIPTION_VERSION,
                interface,
                why: why.clone(),
                recorder: options.recorder.clone(),
                kernel: kernel(),
                big_endian: cfg!(target_endian = "big"),
                page_bytes: page_bytes(),
                calls: options.calls.then(whose),
                devices: targets.iter().flat_map(|target| target.describe(&chains)).collect(),
                cpus: tracer.streams().iter().map(|stream| stream.cpu).collect(),
                started: Some(anchor()),
                ..Description::default()
            };
            tracer.describe(&mut description);
            description.save(directory).map_err(|error| RecordError::output(directory, error))?;
            let limit =
                SegmentLimit { bytes: options.segment_bytes.0.max(1), time: options.segment_time };
            Store::new(directory, tracer.streams().iter().map(|stream| stream.cpu), limit)
        };
        let store = match began() {
            Ok(store) => store,
            Err(error) => {
                store::remove(directory);
                return Err(error);
            }
        };
        if let Err(error) = tracer.start() {
            store::remove(directory);
            return Err(error);
        }
        let followed = tracer.followed();
        let reserve = options.reserve.map(|bytes| bytes.0);
        let worker = Worker::new(tracer, store, targets, directory, reserve, Arc::clone(&shared));
        let (ready, begun) = sync_channel(1);
        let thread = thread::Builder::new().name("record".to_owned());
        let thread = thread.spawn(move || worker.run(&ready)).map_err(|error| {
            store::remove(directory);
            RecordError::output(directory, error)
        })?;
        // The first pass over the buffers has been made when the thread says so.
        let _ = begun.recv();
        Ok(Self { shared, thread: Some(thread), interface, why, notes, followed })
    }

    /// What [`start`](Self::start) would do, or its error: everything is made ready, and taken away
    /// again before the first event.
    pub fn plan(targets: &[Target], options: &Options) -> Result<Plan, RecordError> {
        check(targets, options)?;
        let mut notes = others(targets);
        notes.extend(unseen(&options.directory));
        let (mut tracer, why) = attach(targets, options)?;
        let mut description = Description::default();
        tracer.describe(&mut description);
        notes.extend(tracer.note());
        let events = description.tracefs.into_iter().flat_map(|tracefs| tracefs.events);
        let plan = Plan {
            interface: tracer.interface(),
            why,
            buffer: Bytes(description.buffer_bytes),
            buffer_rule: description.buffer_rule,
            cpus: tracer.streams().len(),
            events: events.map(|event| event.name).collect(),
            notes,
        };
        tracer.detach()?;
        Ok(plan)
    }

    /// Records the calls of the processes that this thread starts from now on. It must be the
    /// thread that began the recording. Does nothing where devices are recorded.
    pub fn follow_this_thread(&self) -> Result<(), RecordError> {
        let Some(path) = &self.followed else { return Ok(()) };
        let task = gettid().as_raw_nonzero().to_string();
        // Truncated, the list would be empty for a moment, and all tasks followed.
        let file = fs::File::options().append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(task.as_bytes()));
        written.map_err(|error| RecordError::system("write", path, error))
    }

    /// By which interface.
    pub const fn interface(&self) -> Interface {
        self.interface
    }

    /// Why by this one, as a phrase.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// What is to be said of its beginning, as sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How it stands. Takes no time worth mentioning.
    pub fn status(&self) -> Status {
        // The order matters: a thread that ends in between has stated why.
        let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = ended.or_else(|| is_over.then(failed));
        Status {
            events: self.shared.events.load(Relaxed),
            bytes: Bytes(self.shared.bytes.load(Relaxed)),
            lost: self.shared.lost.load(Relaxed),
            cpu: Nanos(self.shared.cpu_ns.load(Relaxed) as i64),
            notes: self.shared.notes(),
            ended,
        }
    }

    /// Ends it: lets no more events come, takes those that are there, and waits until the files
    /// are on the disk and nothing is left in the kernel.
    pub fn stop(self) -> Summary {
        self.stop_because("")
    }

    /// Like [`stop`](Self::stop); the recording says by what it was asked to end, as a phrase,
    /// where it does not end by itself before.
    pub fn stop_because(mut self, by: &str) -> Summary {
        if !by.is_empty() {
            let why = format!("{ASKED_TO}: {by}");
            *self.shared.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
        }
        self.end().unwrap_or_default()
    }

    /// Asks it to end, and does not wait for that.
    fn ask_to_end(&self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn end(&mut self) -> Option<Summary> {
        self.ask_to_end();
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|_| Summary { ending: failed(), ..Summary::default() }))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asks all recordings of this process to end, for whoever ends the process without waiting for
/// their owners, and waits until nothing of them is left in the kernel, but no longer than this.
pub fn end_all(patience: Duration) {
    let begun = Instant::now();
    loop {
        let recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let here = recorders.iter().filter_map(Weak::upgrade);
        let is_here = here.fold(false, |is_here, shared| {
            shared.stop.store(true, Relaxed);
            is_here || !shared.is_detached.load(Relaxed)
        });
        if !is_here || begun.elapsed() > patience {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// How a thread ends that cannot say why.
fn failed() -> Ending {
    Ending::Failed("the recorder's thread ended by itself".to_owned())
}

/// Whose calls are recorded: those of the processes that this thread will start.
fn whose() -> Calls {
    let directory = std::env::current_dir().ok();
    let directory = directory.and_then(|path| path.into_os_string().into_string().ok());
    Calls { parent: gettid().as_raw_nonzero().get() as u32, directory }
}

/// Refuses recordings that should not be begun.
fn check(targets: &[Target], options: &Options) -> Result<(), RecordError> {
    if !options.calls {
        target::check(targets)?;
    }
    let directory = &options.directory;
    if directory.symlink_metadata().is_ok() {
        let source = std::io::Error::new(
            std::io::ErrorKind::AlreadyExists,
            "it is there already\n  = help: a recording that was killed can be read as it is; \
             remove the directory when you need it no more",
        );
        return Err(RecordError::output(directory, source));
    }
    target::check_place(targets, place(directory))?;
    check_room(options)
}

/// Refuses a recording that would end within a second.
fn check_room(options: &Options) -> Result<(), RecordError> {
    let Some(reserve) = options.reserve else { return Ok(()) };
    let directory = place(&options.directory);
    let room =
        OpenDirectory::open(&directory.canonicalize().unwrap_or_else(|_| directory.to_owned()))
            .and_then(|place| place.space());
    // Where there is no such directory, to make the other in it says so.
    let Ok((left, _)) = room else { return Ok(()) };
    if left >= reserve.0 {
        return Ok(());
    }
    let (directory, left) = (directory.to_owned(), Bytes(left));
    Err(RecordError::Reserve { directory, left, reserve })
}

/// Where the directory of a recording lies.
fn place(directory: &Path) -> &Path {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Says so where it cannot be known whether a recording lies on what it records.
fn unseen(directory: &Path) -> Option<String> {
    let chains = Chains::new();
    let place = place(directory);
    chains.unseen(place).map(|kind| {
        format!(
            "the devices of the {kind} that {} lies on are not known; if a recorded one is among \
             them, the recording records itself",
            place.display()
        )
    })
}

/// Cleans up after recorders that were killed, and says what is to be said before a recording.
fn notes(targets: &[Target]) -> Vec<String> {
    // Who may not clean up may not record either, which is told with its remedy.
    let left = clean().unwrap_or_default().into_iter();
    let left = left.map(|what| format!("removed what a killed recorder had left behind: {what}"));
    left.chain(others(targets)).collect()
}

/// The kernel's release.
fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Bytes of a page of memory.
fn page_bytes() -> u32 {
    // SAFETY: sysconf(3) takes a number and touches no memory of this process.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(bytes).unwrap_or(0)
}
