//! What a load does to a tree, in one line: `files:read?size=4k&access=random&select=random`.

use std::fmt;
use std::str::FromStr;

use ioecho_trace::Op;
use ioecho_trace::arguments::{ArgumentError, Arguments};
use ioecho_trace::generate::{FILES_PREFIX, FORMAT};
use ioecho_trace::workload::model::Sizes;

use super::geometry::{consists_of_blocks, parse_sizes};
use super::idle::Typed;
use super::states::FileState;

/// What is done with one file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A full file is opened, read and closed.
    Read,
    /// A file is opened, written and closed.
    Write,
    /// A full file is opened, read and written, and closed.
    Mixed,
    /// A file is made, without data.
    Create,
    /// A file is made, or one that is not full is opened; it is written to its size, and closed.
    Fill,
    /// A file is removed.
    Delete,
    /// A file is opened and closed.
    Open,
    /// The attributes of a file are read.
    Getattr,
    /// The attributes of a file are changed.
    Setattr,
    /// It is asked whether a file may be accessed.
    Access,
    /// A full file is copied to the same name in another tree.
    Copy,
    /// A file is moved to the same name in another tree.
    Move,
    /// A directory is made.
    Mkdir,
    /// An empty directory is removed.
    Rmdir,
}

impl Task {
    /// All of them, with their words. `close` is `open`: nothing is closed that was not opened.
    const WORDS: [(&'static str, Self); 15] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("mixed", Self::Mixed),
        ("create", Self::Create),
        ("fill", Self::Fill),
        ("delete", Self::Delete),
        ("open", Self::Open),
        ("close", Self::Open),
        ("getattr", Self::Getattr),
        ("setattr", Self::Setattr),
        ("access", Self::Access),
        ("copy", Self::Copy),
        ("move", Self::Move),
        ("mkdir", Self::Mkdir),
        ("rmdir", Self::Rmdir),
    ];

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, task)| *task == self).map_or("", |(word, _)| word)
    }

    /// Whether it is about directories.
    pub const fn is_of_directories(self) -> bool {
        matches!(self, Self::Mkdir | Self::Rmdir)
    }

    /// Whether the tree is another one afterwards, or its data.
    pub const fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::Open | Self::Getattr | Self::Access)
    }

    /// Whether the name of a file is gone afterwards.
    pub(super) const fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::Move)
    }

    /// Whether it works on a file that is there and stays.
    pub(super) const fn is_inside(self) -> bool {
        let needs_it_alone = self.removes() || self.is_of_directories();
        !needs_it_alone && !matches!(self, Self::Create | Self::Fill | Self::Copy)
    }

    /// Whether it writes to a file, or sets its attributes, which all names of the file share.
    const fn changes_files(self) -> bool {
        matches!(self, Self::Write | Self::Mixed | Self::Create | Self::Fill | Self::Setattr)
    }

    /// The states in which a file must be, as bits.
    pub(super) const fn wants(self) -> u8 {
        match self {
            Self::Read | Self::Mixed | Self::Copy => FileState::Full as u8,
            Self::Create => FileState::Absent as u8,
            Self::Fill => FileState::Absent as u8 | FileState::Empty as u8,
            _ => FileState::THERE,
        }
    }

    /// The call, of those that are a single one.
    pub(super) const fn single(self) -> Option<Op> {
        match self {
            Self::Delete => Some(Op::Delete),
            Self::Getattr => Some(Op::Getattr),
            Self::Setattr => Some(Op::Setattr),
            Self::Access => Some(Op::Access),
            Self::Copy => Some(Op::Copy),
            Self::Move => Some(Op::Move),
            Self::Mkdir => Some(Op::Mkdir),
            Self::Rmdir => Some(Op::Rmdir),
            _ => None,
        }
    }

    /// What a load ran out of that works on files in these states, as bits.
    pub(super) const fn lacks(self, wanted: u8) -> &'static str {
        const FULL: u8 = FileState::Full as u8;
        const EMPTY: u8 = FileState::Empty as u8;
        match (self, wanted) {
            (Self::Mkdir, _) => "no directory is left to make",
            (Self::Rmdir, _) => "no directory is left that is empty",
            (_, FULL) => "no file has its data",
            (_, EMPTY) => "no file is there without its data",
            (_, FileState::THERE) => "no file is there",
            _ => "no file is left to make whose directory is there",
        }
    }
}

/// How a file is gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// From its beginning to its end.
    #[default]
    Sequential,
    /// From a random place to its end.
    FromAnywhere,
    /// At random places, as often as it is large.
    Random,
    /// The same, by several threads in one file.
    Shared,
}

impl Access {
    const WORDS: [(&'static str, Self); 4] = [
        ("sequential", Self::Sequential),
        ("from-anywhere", Self::FromAnywhere),
        ("random", Self::Random),
        ("shared", Self::Shared),
    ];
}

/// How files are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Select {
    /// One after the other.
    #[default]
    Sequential,
    /// One after the other, from any on.
    FromAnywhere,
    /// At random.
    Random,
    /// At random, mostly the first: the mean is an Nth of them, of an exponential distribution.
    Skewed(f64),
}

/// When a file is left before its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopAfter {
    /// After so many reads and writes.
    Requests(u64),
    /// After so many percent of its size.
    Percent(f64),
}

/// What a load does to a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct FileLoad {
    /// What is done. Several are done one after the other, each to everything once.
    pub tasks: Vec<Task>,
    /// Whether the load makes a tree: then each task is done once.
    pub is_format: bool,
    /// Percent of reads of [`Task::Mixed`].
    pub read: f64,
    /// The lengths of reads and writes.
    pub sizes: Sizes,
    /// How a file is gone through.
    pub access: Access,
    /// How files are chosen.
    pub select: Select,
    /// Whether every file is chosen once.
    pub once: bool,
    /// The states of files that count, as bits.
    pub only: u8,
    /// Whether a file is removed when it has been gone through.
    pub then_delete: bool,
    /// When a file is left before its end.
    pub stop_after: Option<StopAfter>,
    /// The other tree of copies and moves, by name or number.
    pub to: Option<String>,
    /// The line of the generator whose instants are those of the load; `None`: there are none.
    pub arrivals: Option<String>,
    /// Makes all choices.
    pub seed: u64,
}

/// Words for the states of files that count.
const ONLY: [(&str, u8); 3] = [
    ("full", FileState::Full as u8),
    ("empty", FileState::Empty as u8),
    ("not-full", FileState::Absent as u8 | FileState::Empty as u8),
];

/// A text that describes no load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{line}': {reason}; write it like 'files:read?size=4k&access=random&select=random'")]
pub struct LoadError {
    line: String,
    reason: String,
}

/// A word of a list.
fn word<T: Copy>(words: &[(&'static str, T)], key: &str, text: &str) -> Result<T, ArgumentError> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant);
    found.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        ArgumentError::new(format!("{key}: '{text}' is none of {}", known.join(", ")))
    })
}

impl FileLoad {
    /// Whether a text is meant to be a load on files.
    pub fn is_line(text: &str) -> bool {
        text.starts_with(FILES_PREFIX)
    }

    fn read(line: &str) -> Result<Self, ArgumentError> {
        let body = line.strip_prefix(FILES_PREFIX).unwrap_or(line);
        let (what, settings) = body.split_once('?').unwrap_or((body, ""));
        let mut settings = Arguments::new(settings, '&')?;
        let is_format = what == FORMAT;
        let tasks = if is_format {
            let typed: String = settings.setting("do")?.unwrap_or_default();
            typed
                .split(',')
                .map(|text| word(&Task::WORDS, "do", text))
                .collect::<Result<Vec<_>, _>>()?
        } else {
            vec![word(&Task::WORDS, "what is done", what)?]
        };
        let sizes: Option<String> = settings.setting("size")?;
        let read: Option<f64> = settings.setting("read")?;
        let skew: Option<f64> = settings.setting("skew")?;
        let select = settings.choice(
            "select",
            &[
                ("sequential", Select::Sequential),
                ("from-anywhere", Select::FromAnywhere),
                ("random", Select::Random),
                ("skewed", Select::Skewed(3.0)),
            ],
        )?;
        let is_select_typed = select.is_some();
        let select = match (select.unwrap_or_default(), skew) {
            (Select::Skewed(_), Some(skew)) => Select::Skewed(skew),
            (_, Some(_)) => return Err(ArgumentError::new("skew goes with select=skewed")),
            (select, None) => select,
        };
        let yes = [("yes", true), ("no", false)];
        let stop: Option<String> = settings.setting("stop-after")?;
        let rate: Option<String> = settings.setting("rate")?;
        let dist: Option<String> = settings.setting("dist")?;
        let duration: Option<String> = settings.setting("duration")?;
        let typed_seed: Option<u64> = settings.setting("seed")?;
        let seed = typed_seed.unwrap_or(1);
        let arrivals = match (rate, duration) {
            (Some(rate), Some(duration)) => {
                let dist = dist.unwrap_or_else(|| "poisson".to_owned());
                Some(format!(
                    "gen:sequential?size=512&area=1M&rate={rate}&dist={dist}&duration={duration}\
                     &seed={seed}"
                ))
            }
            (None, None) if dist.is_none() => None,
            _ => return Err(ArgumentError::new("rate and duration go together")),
        };
        let access = settings.choice("access", &Access::WORDS)?;
        let once = settings.choice("once", &yes)?;
        let only = settings.choice("only", &ONLY)?;
        let then_delete = settings.choice("then-delete", &yes)?;
        let typed = Typed {
            size: sizes.is_some(),
            read: read.is_some(),
            access: access.is_some(),
            select: is_select_typed,
            once: once.is_some(),
            only: only.is_some(),
            stop_after: stop.is_some(),
            then_delete: then_delete.is_some(),
            seed: typed_seed.is_some(),
        };
        let load = Self {
            is_format,
            read: read.unwrap_or(50.0),
            sizes: sizes.map_or(Ok(Sizes::only(4096)), |text| parse_sizes(&text))?,
            access: access.unwrap_or_default(),
            select,
            once: is_format || once.unwrap_or(false),
            only: only.unwrap_or(u8::MAX),
            then_delete: then_delete.unwrap_or(false),
            stop_after: stop.map(|text| stop_after(&text)).transpose()?,
            to: settings.setting("to")?,
            arrivals,
            seed,
            tasks,
        };
        settings.finish()?;
        load.check()?;
        load.refuse_idle(typed)?;
        Ok(load)
    }

    fn check(&self) -> Result<(), ArgumentError> {
        let goes_elsewhere = self.tasks.iter().any(|it| matches!(it, Task::Copy | Task::Move));
        let least = match &self.sizes {
            Sizes::Mix(mix) => mix.iter().map(|(size, _)| *size).min().unwrap_or(0),
            Sizes::Range { least, .. } => *least,
        };
        let rules = [
            (goes_elsewhere != self.to.is_some(), "copy and move, and they alone, have to=TREE"),
            (least == 0, "reads and writes of no length do nothing"),
            (self.sizes.largest() > 1 << 30, "reads and writes are at most 1 GiB"),
            (!(0.0..=100.0).contains(&self.read), "read lies between 0 and 100"),
            (
                matches!(self.select, Select::Skewed(by) if !(1.0..=1e6).contains(&by)),
                "skew lies between 1 and 1000000",
            ),
            (self.is_format && self.arrivals.is_some(), "a format has no rate"),
            (
                self.then_delete && self.access == Access::Shared,
                "a file that others are in is not removed",
            ),
        ];
        match rules.into_iter().find(|(is_broken, _)| *is_broken) {
            Some((_, reason)) => Err(ArgumentError::new(reason)),
            None => Ok(()),
        }
    }

    /// Whether all that it reads and writes consists of whole blocks of so many bytes.
    pub fn is_in_blocks(&self, block: u64) -> bool {
        !self.reads() && !self.writes() || consists_of_blocks(&self.sizes, block)
    }

    /// Whether it changes a tree: its own, or the one that it copies to.
    pub fn changes(&self) -> bool {
        self.then_delete || self.tasks.iter().any(|task| task.changes())
    }

    /// Whether it changes its own tree. A copy only reads there.
    pub fn changes_own(&self) -> bool {
        let changes = |task: &Task| task.changes() && *task != Task::Copy;
        self.then_delete || self.tasks.iter().any(changes)
    }

    /// Whether it changes files of its own tree, and not only their names.
    pub fn changes_files(&self) -> bool {
        self.tasks.iter().any(|task| task.changes_files())
    }

    /// Whether it writes to files of the tree that it copies to.
    pub fn copies(&self) -> bool {
        self.tasks.contains(&Task::Copy)
    }
}

fn stop_after(text: &str) -> Result<StopAfter, ArgumentError> {
    let wrong = || ArgumentError::new(format!("stop-after: '{text}' is no number or percentage"));
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        return if percent > 0.0 && percent <= 1e6 {
            Ok(StopAfter::Percent(percent))
        } else {
            Err(wrong())
        };
    }
    let requests = text.parse().ok().filter(|requests| *requests > 0);
    requests.map(StopAfter::Requests).ok_or_else(wrong)
}

impl FromStr for FileLoad {
    type Err = LoadError;

    fn from_str(line: &str) -> Result<Self, LoadError> {
        Self::read(line)
            .map_err(|error| LoadError { line: line.to_owned(), reason: error.to_string() })
    }
}

impl fmt::Display for FileLoad {
    /// What it does, in a word or two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.tasks.iter().map(|task| task.word()).collect();
        f.write_str(&words.join(", "))
    }
}
