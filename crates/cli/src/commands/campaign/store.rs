//! The directory of a campaign.
//!
//! ```text
//! NAME.campaign/
//!   campaign.toml              the file, as it was when the last `run` began
//!   plan.json                  the cells with everything that decides their results
//!   journal.jsonl              what happened, line by line
//!   cells/KEY/cell.json        what the cell is
//!   cells/KEY/ATTEMPT/         attempt.json (it alone says that the attempt has ended), run/
//!   runs.parquet report.html status.json   derived from the others
//! ```
//!
//! A process may be killed at any instant, so files are written whole, and the journal is flushed
//! line by line. Two locks tell who is there: `lock` is held by the process that works on the
//! campaign, and `running` by its child as well: a run that outlives its campaign is waited for.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use ioecho_campaign::attempt::{ATTEMPT_VERSION, Attempt, End};
use ioecho_campaign::conclusion::Conclusion;
use ioecho_campaign::executor::Attempts;
use ioecho_campaign::journal::{Happening, Journal, Line};
use ioecho_campaign::key::Identity;
use ioecho_campaign::plan::{Cell, Plan};
use ioecho_campaign::share::Share;
use ioecho_linux::OpenDirectory;
use ioecho_run::place::{refuse_stranger, unwritable};
use ioecho_run::{digest, regular, stored};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::exit::{self, Coded};
use crate::lock;
use crate::print::tell;
use crate::results::{CELLS, PLAN};

pub(super) use crate::results::entries;

/// The version of `plan.json`.
const PLAN_VERSION: u32 = 1;

const CAMPAIGN: &str = "campaign.toml";
/// The version of `status.json`.
const STATUS_VERSION: u32 = 2;

const STATUS: &str = "status.json";
const JOURNAL: &str = "journal.jsonl";
const STOP: &str = "stop";
const ATTEMPT: &str = "attempt.json";

/// `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredPlan {
    /// [`PLAN_VERSION`] of the program that wrote it.
    pub(super) version: u32,
    /// The name of the campaign.
    pub(super) name: String,
    /// The directory in which relative paths begin.
    pub(super) base: PathBuf,
    /// What overruled the file.
    pub(super) set: Vec<String>,
    /// The devices whose content may be destroyed.
    pub(super) destroy: Vec<String>,
    /// The texts of the files that the file includes, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) includes: BTreeMap<String, String>,
    /// The share of the cells that is done here.
    #[serde(default)]
    pub(super) share: Share,
    /// The cells.
    pub(super) cells: Vec<StoredCell>,
}

/// A cell in `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCell {
    pub(super) key: String,
    pub(super) point: Vec<(String, String)>,
    pub(super) repeat: u32,
    pub(super) identity: Identity,
}

impl StoredPlan {
    pub(super) fn of(plan: &Plan, base: &Path, set: &[String], destroy: &[String]) -> Self {
        let cells = plan.cells.iter().map(|cell| StoredCell {
            key: cell.key.clone(),
            point: cell.point.clone(),
            repeat: cell.repeat,
            identity: cell.identity.clone(),
        });
        Self {
            version: PLAN_VERSION,
            name: plan.file.name.clone(),
            base: base.to_owned(),
            set: set.to_vec(),
            destroy: destroy.to_vec(),
            includes: BTreeMap::new(),
            share: Share::default(),
            cells: cells.collect(),
        }
    }
}

/// `status.json`: a conclusion, and what it was drawn from.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredStatus {
    /// [`STATUS_VERSION`] of the program that wrote it.
    pub(super) version: u32,
    /// What it was drawn from.
    seen: Seen,
    /// Whether no run was going on.
    is_last: bool,
    /// How long the missing runs took at most, as runs had taken so far.
    #[serde(default)]
    pub(super) seconds_left: Option<f64>,
    pub(super) conclusion: Conclusion,
}

/// What tells whether anything has happened since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    /// The length of the journal.
    journal: u64,
    /// SHA-256 of the plan.
    plan: Option<String>,
    /// When a cell came or went last.
    cells: (i64, i64),
}

/// When an attempt began, how long it took, and the hash of its result.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) started: String,
    pub(super) seconds: f64,
    pub(super) summary_sha256: Option<String>,
    pub(super) summaries_sha256: BTreeMap<String, String>,
    pub(super) environment: BTreeMap<String, String>,
}

/// The attempts that a store holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// What came of them, by the keys of their cells.
    pub(super) attempts: BTreeMap<String, Attempts>,
    /// What else is known of those that have ended, by key and number.
    pub(super) clocks: BTreeMap<(String, u32), Clock>,
    /// Files that cannot be read, each with the reason.
    pub(super) unreadable: Vec<String>,
}

impl Held {
    /// The attempts below these directories of cells.
    fn of_cells(cells: &[PathBuf]) -> Self {
        let mut held = Self::default();
        for cell in cells {
            let key = name_of(cell);
            if !digest::is_digest(&key) {
                continue;
            }
            for attempt in entries(cell) {
                let Ok(number) = name_of(&attempt).parse::<u32>() else { continue };
                held.add(&attempt.join(ATTEMPT), &key, number);
            }
        }
        held
    }

    fn add(&mut self, file: &Path, key: &str, number: u32) {
        let end = match read_attempt(file, key, number) {
            Ok(Some(read)) => {
                let Attempt {
                    started,
                    seconds,
                    summary_sha256,
                    summaries_sha256,
                    environment,
                    end,
                    ..
                } = read;
                let clock =
                    Clock { started, seconds, summary_sha256, summaries_sha256, environment };
                self.clocks.insert((key.to_owned(), number), clock);
                end
            }
            // It has no end: its number is taken, and it counts for nothing.
            Ok(None) => End::Stopped,
            Err(reason) => {
                self.unreadable.push(format!("{}: {reason}", file.display()));
                End::Stopped
            }
        };
        self.attempts.entry(key.to_owned()).or_default().insert(number, end);
    }

    /// The time that all attempts took.
    pub(super) fn seconds(&self) -> f64 {
        self.clocks.values().map(|clock| clock.seconds).sum()
    }
}

/// The directory of a campaign, held open.
#[derive(Debug)]
pub(super) struct Store {
    place: OpenDirectory,
}

impl Store {
    /// The store at this path.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if !path.join(PLAN).is_file() {
            let text = format!(
                "{} is no campaign: it holds no {PLAN}\n  = help: name a directory that `ioecho \
                 campaign run` made",
                path.display()
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        let place = OpenDirectory::at(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { place })
    }

    /// The store at this path, which is made if there is none.
    pub(super) fn make(path: &Path) -> anyhow::Result<Self> {
        refuse_stranger(path)?;
        if path.join(PLAN).is_file() {
            return Self::open(path);
        }
        let is_foreign = |path: &PathBuf| !is_beginning(&name_of(path));
        if entries(path).iter().any(is_foreign) {
            let text = format!(
                "{} is not empty, and holds no campaign\n  = help: name a new directory with -o",
                path.display()
            );
            return Err(Coded::error(exit::OUTPUT, text));
        }
        let made = || {
            if path.is_dir() { OpenDirectory::at(path) } else { OpenDirectory::make(path) }
        };
        let place = made().map_err(|error| unwritable(path, &error))?;
        Ok(Self { place })
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// The directory, open, from which things are removed.
    pub(super) fn place(&self) -> &OpenDirectory {
        &self.place
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let put = self.place.put(name, bytes);
        Ok(put.map_err(|error| unwritable(&self.path().join(name), &error))?)
    }

    /// Takes the campaign for this process, or refuses where another one has it.
    pub(super) fn lock(&self) -> anyhow::Result<File> {
        let file = self.file("lock")?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "another process works on {}\n  = help: `ioecho campaign status` tells how \
                     far it is",
                    self.path().display()
                );
                Err(Coded::error(exit::REFUSED, text))
            }
            Err(TryLockError::Error(error)) => Err(unwritable(self.path(), &error).into()),
        }
    }

    /// Whether a process works on the campaign.
    pub(super) fn is_taken(&self) -> bool {
        let lock = File::open(self.path().join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// The lock that a run holds as well. A run that a killed campaign left is waited for.
    pub(super) fn running(&self) -> anyhow::Result<File> {
        let file = self.file("running")?;
        let taken =
            lock::take(&file, || "that an earlier campaign began, and that still runs".to_owned());
        taken.map_err(|error| unwritable(self.path(), &error))?;
        Ok(file)
    }

    fn file(&self, name: &str) -> anyhow::Result<File> {
        let opened = self.place.append(name);
        Ok(opened.map_err(|error| unwritable(&self.path().join(name), &error))?)
    }

    pub(super) fn plan(&self) -> anyhow::Result<StoredPlan> {
        let path = self.path().join(PLAN);
        let broken = |reason: String| {
            Coded::error(exit::TRACE, format!("cannot read {}: {reason}", path.display()))
        };
        let bytes = regular::read(&path).map_err(|error| broken(error.to_string()))?;
        stored::from_json(&bytes, PLAN_VERSION).map_err(|unread| broken(unread.to_string()))
    }

    pub(super) fn campaign(&self) -> anyhow::Result<(PathBuf, String)> {
        let path = self.path().join(CAMPAIGN);
        let text = read_text(&path)?;
        Ok((path, text))
    }

    /// Stores the plan and the file that it was made of.
    pub(super) fn put_plan(&self, plan: &StoredPlan, text: &str) -> anyhow::Result<()> {
        self.put(CAMPAIGN, text.as_bytes())?;
        self.put(PLAN, &serde_json::to_vec(plan)?)
    }

    /// Every attempt. Ten thousand files are read by several threads.
    pub(super) fn held(&self) -> Held {
        let cells = entries(&self.path().join(CELLS));
        let at_once = thread::available_parallelism().map_or(1, usize::from);
        let mut held = Held::default();
        thread::scope(|scope| {
            let shares = cells.chunks(cells.len().div_ceil(at_once).max(1));
            let threads: Vec<_> =
                shares.map(|share| scope.spawn(move || Held::of_cells(share))).collect();
            for thread in threads {
                // A thread that panicked has told so; what it read is missing, not wrong.
                let Held { attempts, clocks, unreadable } = thread.join().unwrap_or_default();
                held.attempts.extend(attempts);
                held.clocks.extend(clocks);
                held.unreadable.extend(unreadable);
            }
        });
        held
    }

    /// Makes the directory of an attempt.
    pub(super) fn begin(&self, cell: &Cell, attempt: u32) -> anyhow::Result<OpenDirectory> {
        let made = || {
            let cells = opened_or_made(&self.place, CELLS)?;
            let of_cell = opened_or_made(&cells, &cell.key)?;
            if !of_cell.path().join("cell.json").exists() {
                of_cell.put("cell.json", &serde_json::to_vec_pretty(cell)?)?;
            }
            of_cell.make_in(attempt.to_string())
        };
        let path = self.path().join(CELLS).join(&cell.key);
        Ok(made().map_err(|error| unwritable(&path, &error))?)
    }

    /// Opens the journal, tells what cannot be read of it, and closes what has no end.
    pub(super) fn journal(&self, held: &Held) -> anyhow::Result<JournalFile> {
        let path = self.path().join(JOURNAL);
        let text = if path.exists() { read_text(&path)? } else { String::new() };
        let journal = Journal::read(&text);
        for line in &journal.unreadable {
            tell(&format!("warning: line {line} of {} is torn, and left out", path.display()));
        }
        let mut file = JournalFile { file: self.file(JOURNAL)?, path };
        if journal.is_torn {
            file.write("\n")?;
        }
        for (key, attempt) in journal.open() {
            let clock = held.clocks.get(&(key.clone(), attempt));
            file.add(match clock {
                Some(clock) => Happening::Ended { key, attempt, seconds: clock.seconds },
                None => Happening::Lost { key, attempt },
            })?;
        }
        Ok(file)
    }

    /// The conclusion that was stored last, if nothing has happened since, or if a process works
    /// on the campaign: that one stores it every second, between two runs.
    pub(super) fn status(&self) -> Option<StoredStatus> {
        let bytes = regular::read(&self.path().join(STATUS)).ok()?;
        let status: StoredStatus = stored::from_json(&bytes, STATUS_VERSION).ok()?;
        let is_told = if self.is_taken() {
            !status.is_last && status.seen.plan == self.plan_digest()
        } else {
            status.is_last && status.seen == self.seen()
        };
        is_told.then_some(status)
    }

    /// What tells later whether anything has happened since.
    pub(super) fn seen(&self) -> Seen {
        let journal = fs::metadata(self.path().join(JOURNAL)).map_or(0, |metadata| metadata.len());
        let cells = fs::metadata(self.path().join(CELLS));
        let cells = cells.map_or((0, 0), |cells| (cells.mtime(), cells.mtime_nsec()));
        Seen { journal, plan: self.plan_digest(), cells }
    }

    /// Stores a conclusion for those who ask while nothing more happens. `seen` is from before it
    /// was drawn. Where it cannot be stored, they draw it themselves.
    pub(super) fn put_status(
        &self,
        seen: Seen,
        conclusion: Conclusion,
        seconds_left: Option<f64>,
        is_last: bool,
    ) {
        let status =
            StoredStatus { version: STATUS_VERSION, seen, is_last, seconds_left, conclusion };
        let _ = serde_json::to_vec(&status).map(|bytes| self.place.put_soon(STATUS, &bytes));
    }

    fn plan_digest(&self) -> Option<String> {
        digest::of_file(&self.path().join(PLAN)).ok()
    }

    /// Whether somebody asked for the end; `Some(true)` if the run may come to its end.
    pub(super) fn stop_asked(&self) -> Option<bool> {
        let bytes = regular::read(&self.path().join(STOP)).ok()?;
        Some(bytes.starts_with(b"after-cell"))
    }

    /// Asks for the end.
    pub(super) fn ask_stop(&self, after_cell: bool) -> anyhow::Result<()> {
        self.put(STOP, if after_cell { b"after-cell\n" } else { b"now\n" })
    }

    /// Forgets that somebody asked for the end.
    pub(super) fn forget_stop(&self) {
        let _ = self.place.remove(STOP);
    }
}

/// Stores the end of an attempt: from here on it has ended.
pub(super) fn end(place: &OpenDirectory, attempt: &Attempt) -> anyhow::Result<()> {
    let put = place.put(ATTEMPT, &serde_json::to_vec_pretty(attempt)?);
    Ok(put.map_err(|error| unwritable(&place.path().join(ATTEMPT), &error))?)
}

/// The journal, open to be written.
pub(super) struct JournalFile {
    file: File,
    path: PathBuf,
}

impl JournalFile {
    /// Adds a line, which is on the disk when this returns.
    pub(super) fn add(&mut self, what: Happening) -> anyhow::Result<()> {
        let line = Line { at: Timestamp::now().to_string(), what };
        self.write(&line.stored())
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        Ok(written.map_err(|error| unwritable(&self.path, &error))?)
    }
}

/// The text of a file of the user or of a campaign.
pub(super) fn read_text(path: &Path) -> anyhow::Result<String> {
    let broken = |reason: String| {
        Coded::error(exit::USAGE, format!("cannot read {}: {reason}", path.display()))
    };
    let bytes = regular::read(path).map_err(|error| broken(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let good = String::from_utf8_lossy(good);
        let (line, column) = (good.matches('\n').count() + 1, good.lines().last().unwrap_or(""));
        let column = if good.ends_with('\n') { 0 } else { column.chars().count() };
        let text = format!(
            "{}:{line}:{}: this is no text\n  = help: store the file as UTF-8",
            path.display(),
            column + 1
        );
        Coded::error(exit::USAGE, text)
    })
}

/// The attempt in a file; `None` if it is not there. The error says why it does not count.
fn read_attempt(file: &Path, key: &str, number: u32) -> Result<Option<Attempt>, String> {
    let bytes = match regular::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let attempt: Attempt =
        stored::from_json(&bytes, ATTEMPT_VERSION).map_err(|unread| unread.what())?;
    if attempt.key != key || attempt.attempt != number {
        return Err("it belongs to another cell or attempt".to_owned());
    }
    Ok(Some(attempt))
}

fn opened_or_made(above: &OpenDirectory, name: &str) -> io::Result<OpenDirectory> {
    match above.make_in(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenDirectory::open(&above.path().join(name))
        }
        made => made,
    }
}

/// Whether a file of this name may be all that is left of a campaign that was killed before it had
/// a plan.
fn is_beginning(name: &str) -> bool {
    let is_draft = name.starts_with('.') && name.ends_with(".partial");
    is_draft || ["lock", CAMPAIGN].contains(&name)
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
