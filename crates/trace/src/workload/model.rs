//! What a description means: storages, flows, and a plan of runs.
//!
//! Two languages describe workloads here, and the rest of the program should know of neither. So
//! both are read into this model, in which names are resolved, units are bytes and nanoseconds, and
//! nothing is left to a default that is written elsewhere.

use std::fmt;
use std::ops::RangeInclusive;

use crate::place::Place;
use crate::units::{Bytes, Nanos};

pub use super::gather::Told;
use super::levels::Levels;

/// How often the same data may be written, at least and at most.
pub const DEDUPS: RangeInclusive<f64> = 1.0..=1e3;

/// A workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// What holds for everything.
    pub general: General,
    /// The hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// Devices and files.
    pub storages: Vec<Storage>,
    /// Trees of files.
    pub trees: Vec<Tree>,
    /// Groups of recorded devices.
    pub replays: Vec<ReplayGroup>,
    /// Loads on storages.
    pub works: Vec<Work>,
    /// Loads on trees.
    pub file_works: Vec<FileWork>,
    /// The runs, in the order of the file.
    pub runs: Vec<Run>,
    /// What counts for nothing here, or otherwise than there.
    pub told: Vec<Told>,
}

/// What holds for everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct General {
    /// How far data can be compressed: 2 is to the half.
    pub compress: Option<f64>,
    /// How often the same data are written: 2 is each block twice.
    pub dedup: Option<f64>,
    /// The unit of equal data, in bytes.
    pub dedup_unit: Option<u64>,
    /// How data are verified; none if they are not.
    pub verify: Vec<String>,
    /// How a journal is kept; none if there is none.
    pub journal: Vec<String>,
    /// Whether the storages of a load are one volume.
    pub concatenate: bool,
    /// Whether the directories above an anchor are made.
    pub create_anchors: bool,
    /// The size of the requests that make files, in bytes.
    pub format_size: Option<u64>,
    /// Commands before the first run.
    pub before: Vec<String>,
    /// Commands behind the last run.
    pub after: Vec<String>,
    /// After so many failed requests a run ends.
    pub errors_max: Option<u64>,
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its name in the file.
    pub name: String,
    /// Its address.
    pub system: String,
    /// The user to log in as.
    pub user: Option<String>,
}

/// A group of recorded devices.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayGroup {
    /// Its name in the file.
    pub name: String,
    /// The numbers of the devices.
    pub devices: Vec<u64>,
}

/// How much of a target is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// So many bytes.
    Bytes(u64),
    /// A percentage of it.
    Percent(f64),
}

/// A part of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: Extent,
    /// Where it ends. Beyond 100 % it goes on at the beginning.
    pub to: Extent,
}

/// A device or a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Its name in the file.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// Its path on each host; the host is missing where the file names none.
    pub paths: Vec<(Option<String>, String)>,
    /// How much of it is used; all, if nothing is said.
    pub size: Option<Extent>,
    /// The part that is used.
    pub range: Option<Band>,
    /// The most requests in flight.
    pub threads: u64,
    /// The size of the area that caches hold, in bytes.
    pub hit_area: u64,
    /// What is added to every place, in bytes.
    pub shift: u64,
    /// Places are multiples of this number of bytes.
    pub align: Option<u64>,
    /// How it is opened.
    pub open: Vec<&'static str>,
    /// Groups or numbers of recorded devices that are replayed on it.
    pub replay: Vec<String>,
    /// What stands in for its path.
    pub instead: Option<String>,
}

impl Storage {
    /// Its path on this host, or what stands in for it.
    pub fn path(&self) -> &str {
        self.instead.as_deref().unwrap_or_else(|| self.written_path())
    }

    /// Its path as the file has it.
    pub fn written_path(&self) -> &str {
        self.paths.first().map_or("", |(_, path)| path)
    }

    /// Whether it is a device: a file is made if it is not there, a device never. What stands in
    /// for a device gets the requests of a device.
    pub fn is_device(&self) -> bool {
        self.written_path().starts_with("/dev/") || self.written_path().starts_with(r"\\")
    }
}

/// The lengths of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Lengths in bytes, with their shares in percent.
    Mix(Vec<(u64, f64)>),
    /// Any multiple of `step` bytes between these.
    Range {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
        /// The distance of two.
        step: u64,
    },
}

impl Sizes {
    /// One length.
    pub fn only(size: u64) -> Self {
        Self::Mix(vec![(size, 100.0)])
    }

    /// Whether there are several, one of which is chosen each time.
    pub fn are_several(&self) -> bool {
        !matches!(self, Self::Mix(mix) if mix.len() <= 1)
    }

    /// The largest length in bytes.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Mix(mix) => mix.iter().map(|(size, _)| *size).max().unwrap_or(0),
            Self::Range { most, .. } => *most,
        }
    }

    /// The largest power of two of which all lengths are multiples.
    pub fn alignment(&self) -> u64 {
        let bits = match self {
            Self::Mix(mix) => mix.iter().fold(0, |bits, (size, _)| bits | size),
            Self::Range { least, step, .. } => least | step,
        };
        1 << bits.trailing_zeros().min(62)
    }
}

impl fmt::Display for Sizes {
    /// As a generator takes them: `4k`, `4k:60,8k:40`, `4k-64k/4k`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mix(mix) => match &mix[..] {
                [(size, _)] => f.write_str(&plain(*size)),
                mix => {
                    for (number, (size, share)) in mix.iter().enumerate() {
                        let comma = if number == 0 { "" } else { "," };
                        write!(f, "{comma}{}:{share}", plain(*size))?;
                    }
                    Ok(())
                }
            },
            Self::Range { least, most, step } => {
                write!(f, "{}-{}/{}", plain(*least), plain(*most), plain(*step))
            }
        }
    }
}

/// A number of bytes as the languages here write it, exactly: `4k`, `10G`, `700`.
pub fn plain(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "k")];
    let fits = |(shift, _): &&(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << *shift);
    match units.iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// How often a request seeks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seek {
    /// So many percent go anywhere, the others behind the one before.
    Share(f64),
    /// One behind the other, once.
    Once,
    /// One behind the other, from a random place on.
    FromAnywhere,
    /// Mostly at the beginning.
    Skewed,
}

impl fmt::Display for Seek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(percent) => write!(f, "{percent}"),
            Self::Once => f.write_str("eof"),
            Self::FromAnywhere => f.write_str("seqnz"),
            Self::Skewed => f.write_str("poisson"),
        }
    }
}

/// A load on storages.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Its name in the file.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// The names of its storages, as they are written.
    pub on: Vec<(String, Place)>,
    /// The numbers of its storages; none if no run needs them.
    pub storages: Vec<usize>,
    /// The names of its hosts, as they are written.
    pub hosts: Vec<(String, Place)>,
    /// The lengths of requests.
    pub sizes: Sizes,
    /// Percent of reads.
    pub read: f64,
    /// Percent of reads and of writes that go to the hit area.
    pub hits: Option<(f64, f64)>,
    /// How often it seeks.
    pub seek: Seek,
    /// The part of each storage.
    pub range: Option<Band>,
    /// The distance of two requests, in bytes: from, to.
    pub stride: Option<(u64, u64)>,
    /// The hot part, in percent.
    pub band: Option<Band>,
    /// Its percentage of the rate.
    pub skew: Option<f64>,
    /// A rate of its own, in requests per second.
    pub rate: Option<f64>,
    /// Which load goes first.
    pub priority: Option<u64>,
    /// The most requests in flight.
    pub threads: Option<u64>,
    /// How many sequential streams it has.
    pub streams: Option<u64>,
    /// How its storages are opened.
    pub open: Vec<&'static str>,
    /// A trace or a generator that makes its requests.
    pub from: Option<String>,
    /// Whether a run describes it, which then has the storages.
    pub is_of_run: bool,
}

impl Work {
    /// A load of a run that describes its load itself.
    pub(super) fn of_run(name: &str, place: &Place) -> Self {
        Self {
            name: name.to_owned(),
            place: place.clone(),
            on: Vec::new(),
            storages: Vec::new(),
            hosts: Vec::new(),
            sizes: Sizes::only(4096),
            read: 100.0,
            hits: None,
            seek: Seek::Share(100.0),
            range: None,
            stride: None,
            band: None,
            skew: None,
            rate: None,
            priority: None,
            threads: None,
            streams: None,
            open: Vec::new(),
            from: None,
            is_of_run: false,
        }
    }
}

/// A tree of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Its name in the file.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// The directory.
    pub anchor: String,
    /// Levels of directories.
    pub depth: u64,
    /// Directories in each.
    pub width: u64,
    /// Files in each directory of the lowest level, or of all.
    pub files: u64,
    /// The sizes of files.
    pub sizes: Sizes,
    /// Whether directories of every level have files.
    pub everywhere: bool,
    /// Files are made until there are so many bytes.
    pub total: Option<u64>,
    /// So many bytes are used.
    pub working_set: Option<u64>,
    /// Whether hosts share it.
    pub shared: bool,
    /// How files are opened.
    pub open: Vec<&'static str>,
    /// The description of the simulation that stands in for it, without `sim:`.
    pub instead: Option<String>,
}

impl Tree {
    /// Its levels.
    ///
    /// # Errors
    ///
    /// In words, if there cannot be so many directories or files.
    pub fn levels(&self) -> Result<Levels, String> {
        let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
        Levels::new(depth, self.width, self.files, self.everywhere, &self.sizes)
    }

    /// How many files it has.
    pub fn count(&self) -> u64 {
        self.levels().map_or(u64::MAX, |levels| levels.files)
    }
}

/// A load on trees.
#[derive(Clone, Debug, PartialEq)]
pub struct FileWork {
    /// Its name in the file.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// The names of its trees, as they are written.
    pub on: Vec<(String, Place)>,
    /// The numbers of its trees; none if no run needs them.
    pub trees: Vec<usize>,
    /// The names of its hosts, as they are written.
    pub hosts: Vec<(String, Place)>,
    /// What it does; reads and writes by `read` if nothing is said.
    pub ops: Vec<&'static str>,
    /// Percent of reads, where it does both.
    pub read: Option<f64>,
    /// How it goes through a file.
    pub access: Vec<&'static str>,
    /// How it chooses files.
    pub select: Vec<String>,
    /// The lengths of requests.
    pub sizes: Sizes,
    /// How many work at once.
    pub threads: u64,
    /// Its percentage of the rate.
    pub skew: Option<f64>,
    /// After so many requests it goes to the next file.
    pub stop_after: Option<String>,
    /// How files are opened.
    pub open: Vec<&'static str>,
}

/// Whether the name is that of the load that makes trees.
pub(super) const FORMAT: &str = "format";

/// The rates of a run, one run for each.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the places in flight allow.
    Max,
    /// So many requests per second.
    Fixed(f64),
    /// As fast as possible first, then at these percentages of that.
    Curve(Vec<f64>),
    /// Rates that change: requests per second, and for how long.
    Changing {
        /// The rates and the times until which they hold or are reached.
        pairs: Vec<(f64, Nanos)>,
        /// Whether the rate jumps instead of changing linearly.
        jumps: bool,
    },
}

/// The distribution of the gaps between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Exponential: a Poisson process.
    Poisson,
    /// Uniform between nothing and twice the mean.
    Uniform,
    /// All alike.
    Constant,
}

/// The storages of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Those of its loads.
    OfWorks,
    /// Those of these numbers.
    These(Vec<usize>),
    /// One run for each storage.
    Single,
    /// One run with the first, one with the first two, and so on.
    Growing,
    /// One run for each set of so many.
    Sets(u64),
}

/// A value of a loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Bytes.
    Size(u64),
    /// A count.
    Number(u64),
    /// A percentage or a ratio.
    Decimal(f64),
    /// How often it seeks.
    Seek(Seek),
    /// An operation on files.
    Word(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => f.write_str(&plain(*size)),
            Self::Number(number) => write!(f, "{number}"),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Seek(seek) => write!(f, "{seek}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// A loop of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The key in our own form, such as `threads`.
    pub key: &'static str,
    /// Its values, in their order.
    pub values: Vec<Value>,
}

/// A run, or several in loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its name in the file.
    pub name: String,
    /// Where it is defined.
    pub place: Place,
    /// Numbers of its loads on storages.
    pub works: Vec<usize>,
    /// Numbers of its loads on trees.
    pub file_works: Vec<usize>,
    /// Its storages.
    pub choice: Choice,
    /// The rates.
    pub rates: Vec<Rate>,
    /// A curve ends when response times reach this.
    pub stop_curve: Option<Nanos>,
    /// The loops, the outermost first.
    pub loops: Vec<Loop>,
    /// How long it is measured.
    pub duration: Nanos,
    /// How long it runs before that.
    pub warmup: Nanos,
    /// The length of an interval of its reports.
    pub interval: Nanos,
    /// How long nothing happens before it.
    pub pause: Nanos,
    /// The distribution of gaps.
    pub arrival: Arrival,
    /// It ends after so many bytes: all, read, written. Below 100 they are multiples of the sizes
    /// of all storages.
    pub data: [Option<u64>; 3],
    /// Commands before it.
    pub before: Vec<String>,
    /// Commands behind it.
    pub after: Vec<String>,
    /// What is done to trees first.
    pub format: Vec<&'static str>,
    /// What is done to files, all at once.
    pub ops: Vec<&'static str>,
    /// How its storages are opened.
    pub open: Vec<&'static str>,
    /// A recording that is replayed, and how.
    pub replay: Vec<String>,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&Bytes(*bytes).to_string()),
            Self::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}
