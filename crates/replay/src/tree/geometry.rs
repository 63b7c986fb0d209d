//! The shape of a tree: how many directories and files, their names, their sizes, their places.
//!
//! All of it is computed from the number of a file or directory, so none of it takes memory.
//! Directories are numbered level by level, so a directory has a larger number than the one that it
//! lies in. The names are those that Vdbench gives, so its trees are taken over, and ours by it.

use std::fmt;
use std::str::FromStr;

use ioecho_trace::Bytes;
use ioecho_trace::arguments::{ArgumentError, Arguments};
use ioecho_trace::workload::levels::{Levels, PLACE_BITS};
use ioecho_trace::workload::model::{Sizes, plain};

use crate::pattern::SplitMix64;

/// The file by which an anchor is known as one of ours.
pub const MARKER: &str = "ioecho.tree";

/// The file by which Vdbench knows an anchor as its own.
pub const CONTROL: &str = "vdb_control.file";

/// The unit of sizes around an average, in bytes.
const AVERAGE_UNIT: u64 = 512;

/// Makes the sizes of files differ from other sequences.
const SIZES: u64 = 0x51_2E5;

/// The shape of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    depth: u32,
    width: u64,
    per_directory: u64,
    sizes: Sizes,
    everywhere: bool,
    total: Option<u64>,
    working_set: Option<u64>,
    /// The number of the first directory of each level, and of the first behind the last.
    levels: Vec<u64>,
    /// The first directory with files.
    first: u64,
    files: u64,
    used: u64,
    shift: u32,
}

/// A text that describes no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeError {
    line: String,
    reason: String,
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let like = "depth=1&width=4&files=100&size=4k:50,64k:50";
        write!(f, "'{}': {}; write it like '{like}'", self.line, self.reason)
    }
}

impl std::error::Error for TreeError {}

/// A directory's name in its own directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryName {
    level: u32,
    number: u64,
}

impl DirectoryName {
    /// The name in `text`, if that is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (level, number) = text.strip_prefix("vdb.")?.strip_suffix(".dir")?.split_once('_')?;
        let name = Self { level: level.parse().ok()?, number: number.parse().ok()? };
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for DirectoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vdb.{}_{}.dir", self.level, self.number)
    }
}

/// The number in its directory of the file of this name, counted from 1, if the name is one.
pub fn file_number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("vdb_f")?.strip_suffix(".file")?;
    let number: u64 = digits.parse().ok().filter(|number| *number > 0)?;
    (format!("{number:04}") == digits).then_some(number)
}

impl Geometry {
    fn read(text: &str) -> Result<Self, ArgumentError> {
        let mut settings = Arguments::new(text, '&')?;
        let yes = |word: Option<bool>| word.unwrap_or(false);
        let words = [("yes", true), ("no", false)];
        let depth = settings.setting("depth")?.unwrap_or(1);
        let width = settings.setting("width")?.unwrap_or(1);
        let per_directory = settings.setting("files")?.unwrap_or(1);
        let sizes = settings.setting::<String>("size")?;
        let sizes = sizes.map_or(Ok(Sizes::only(4096)), |text| parse_sizes(&text))?;
        let everywhere = yes(settings.choice("everywhere", &words)?);
        let total: Option<Bytes> = settings.setting("total")?;
        let working_set: Option<Bytes> = settings.setting("working-set")?;
        settings.finish()?;
        let (total, working_set) = (total.map(|it| it.0), working_set.map(|it| it.0));
        Self::new(depth, width, per_directory, sizes, everywhere, total, working_set)
            .map_err(ArgumentError::new)
    }

    fn new(
        depth: u32,
        width: u64,
        per_directory: u64,
        sizes: Sizes,
        everywhere: bool,
        total: Option<u64>,
        working_set: Option<u64>,
    ) -> Result<Self, String> {
        let Levels { firsts: levels, first, files, shift } =
            Levels::new(depth, width, per_directory, everywhere, &sizes)?;
        let mut geometry = Self {
            depth,
            width,
            per_directory,
            sizes,
            everywhere,
            total,
            working_set,
            levels,
            first,
            files,
            used: files,
            shift,
        };
        if let Some(total) = total {
            geometry.files = geometry.files_of(total);
        }
        geometry.used = working_set.map_or(geometry.files, |bytes| geometry.files_of(bytes));
        Ok(geometry)
    }

    /// How many of the first files have so many bytes, at least one.
    fn files_of(&self, bytes: u64) -> u64 {
        let mut sum = 0_u64;
        let is_less = |file: &u64| {
            let is_less = sum < bytes;
            sum = sum.saturating_add(self.size(*file));
            is_less
        };
        (0..self.files).take_while(is_less).count().max(1.min(self.files as usize)) as u64
    }

    /// How many files it has.
    pub const fn files(&self) -> u64 {
        self.files
    }

    /// How many of its files are used, the first ones.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// How many directories it has, without its anchor.
    pub fn directories(&self) -> u64 {
        self.levels.last().copied().unwrap_or(0)
    }

    /// How many bytes its places take: all files and directories have one.
    pub fn extent(&self) -> Bytes {
        Bytes((self.files + self.directories()).max(1) << self.shift)
    }

    /// The size of a file in bytes. It follows from its number, so it is the same in every run.
    pub fn size(&self, file: u64) -> u64 {
        match &self.sizes {
            Sizes::Mix(mix) => match &mix[..] {
                [(size, share)] if *share > 0.0 => *size,
                // An average: anything between half of it and as much again above it.
                [(size, _)] => {
                    let half = size / 2;
                    let any = half + SplitMix64(SIZES ^ file).below(2 * half + 1);
                    (any / AVERAGE_UNIT * AVERAGE_UNIT).max(1.min(*size))
                }
                mix => pick(mix, SplitMix64(SIZES ^ file).unit()),
            },
            Sizes::Range { least, most, step } => {
                let steps = (most - least) / (*step).max(1) + 1;
                least + SplitMix64(SIZES ^ file).below(steps) * step
            }
        }
    }

    /// Whether all files consist of whole blocks of so many bytes.
    pub fn is_in_blocks(&self, block: u64) -> bool {
        consists_of_blocks(&self.sizes, block)
    }

    /// Where a file begins in its volume.
    pub const fn place_of_file(&self, file: u64) -> u64 {
        file << self.shift
    }

    /// Where a directory is in its volume.
    pub const fn place_of_directory(&self, directory: u64) -> u64 {
        (self.files + directory) << self.shift
    }

    /// The number of the file or directory at a place, directories behind the files.
    pub const fn number_at(&self, place: u64) -> u64 {
        place >> self.shift
    }

    /// How far a place lies in its file.
    pub const fn within(&self, place: u64) -> u64 {
        place & ((1 << self.shift) - 1)
    }

    fn level(&self, directory: u64) -> u32 {
        self.levels.partition_point(|first| *first <= directory) as u32
    }

    /// The directory that a directory lies in; `None` for one in the anchor.
    pub fn parent(&self, directory: u64) -> Option<u64> {
        let level = self.level(directory) as usize;
        let in_level = directory - self.levels[level - 1];
        (level > 1).then(|| self.levels[level - 2] + in_level / self.width)
    }

    /// The directory that a file lies in; `None` for the anchor.
    pub fn directory_of(&self, file: u64) -> Option<u64> {
        (self.depth > 0).then(|| self.first + file / self.per_directory)
    }

    /// The name of a directory in its own directory.
    pub fn directory_name(&self, directory: u64) -> DirectoryName {
        let level = self.level(directory);
        let in_level = directory - self.levels[level as usize - 1];
        DirectoryName { level, number: in_level % self.width + 1 }
    }

    /// Writes the name of a file in its directory to `name`.
    pub fn file_name(&self, file: u64, name: &mut String) {
        name.clear();
        name.push_str("vdb_f");
        push_number(name, file % self.per_directory + 1);
        name.push_str(".file");
    }

    /// The path of a directory below the anchor; of `None` it is empty.
    pub fn path_of(&self, directory: Option<u64>) -> String {
        let Some(directory) = directory else { return String::new() };
        let above = self.path_of(self.parent(directory));
        format!("{above}{}/", self.directory_name(directory))
    }

    /// The path of the file or directory of a number, directories behind the files.
    pub fn path(&self, number: u64) -> String {
        if let Some(directory) = number.checked_sub(self.files) {
            let mut path = self.path_of(Some(directory));
            path.pop();
            return path;
        }
        let mut name = String::new();
        self.file_name(number, &mut name);
        format!("{}{name}", self.path_of(self.directory_of(number)))
    }

    /// The file of this path below the anchor, if the tree has it.
    pub fn file_of(&self, path: &str) -> Option<u64> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut directory = None;
        for name in above.split('/').filter(|name| !name.is_empty()) {
            directory = Some(self.child(directory, DirectoryName::parse(name)?)?);
        }
        self.file_in(directory, file_number(name)?)
    }

    /// The directory of this name in a directory or the anchor, if the tree has it.
    pub fn child(&self, parent: Option<u64>, name: DirectoryName) -> Option<u64> {
        let level = parent.map_or(0, |parent| self.level(parent)) as usize;
        let in_parent = name.number.checked_sub(1).filter(|number| *number < self.width)?;
        if name.level as usize != level + 1 || level >= self.depth as usize {
            return None;
        }
        let in_level = parent.map_or(0, |parent| parent - self.levels[level - 1]);
        Some(self.levels[level] + in_level * self.width + in_parent)
    }

    /// The file of this number in a directory or the anchor, if the tree has it.
    pub fn file_in(&self, directory: Option<u64>, number: u64) -> Option<u64> {
        let has_files = match directory {
            None => (self.depth == 0).then_some(0),
            Some(directory) => directory.checked_sub(self.first),
        };
        let in_directory = number.checked_sub(1).filter(|number| *number < self.per_directory)?;
        let file = has_files? * self.per_directory + in_directory;
        (file < self.files).then_some(file)
    }
}

/// Adds a number with four digits at least. Each call on a file needs one, and the formatting of
/// the standard library takes a tenth of the call.
fn push_number(text: &mut String, number: u64) {
    let mut digits = [b'0'; 20];
    let (mut left, mut first) = (number, digits.len());
    while left > 0 || first > digits.len() - 4 {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    digits[first..].iter().for_each(|digit| text.push(char::from(*digit)));
}

/// The size of a mix at this part of its shares.
pub(super) fn pick(mix: &[(u64, f64)], unit: f64) -> u64 {
    let whole: f64 = mix.iter().map(|(_, share)| share).sum();
    let mut left = unit * whole;
    for (size, share) in mix {
        if left < *share {
            return *size;
        }
        left -= share;
    }
    mix.last().map_or(0, |(size, _)| *size)
}

/// Whether all sizes are multiples of so many bytes; those around an average are of 512.
pub(super) fn consists_of_blocks(sizes: &Sizes, block: u64) -> bool {
    let is_whole = |bytes: u64| bytes.is_multiple_of(block);
    match sizes {
        Sizes::Mix(mix) => match &mix[..] {
            [(size, share)] if *share <= 0.0 => {
                *size == 0 || *size >= 2 * AVERAGE_UNIT && AVERAGE_UNIT.is_multiple_of(block)
            }
            mix => mix.iter().all(|(size, _)| is_whole(*size)),
        },
        Sizes::Range { least, step, .. } => is_whole(*least) && is_whole(*step),
    }
}

/// Sizes as a line has them: `4k`, `4k:60,8k:40`, `100k:0` (an average), `4k-64k/4k`.
pub(super) fn parse_sizes(text: &str) -> Result<Sizes, ArgumentError> {
    let bytes = |text: &str| -> Result<u64, ArgumentError> {
        let wrong = || ArgumentError::new(format!("size: '{text}' is no size"));
        let bytes: Bytes = text.parse().map_err(|_| wrong())?;
        if bytes.0 >= 1 << PLACE_BITS { Err(wrong()) } else { Ok(bytes.0) }
    };
    if let Some((least, rest)) = text.split_once('-') {
        let (most, step) = rest.split_once('/').unwrap_or((rest, "512"));
        let (least, most, step) = (bytes(least)?, bytes(most)?, bytes(step)?);
        if step == 0 || least > most {
            return Err(ArgumentError::new(format!("size: '{text}' is no range of sizes")));
        }
        return Ok(Sizes::Range { least, most, step });
    }
    let mut mix = Vec::new();
    for part in text.split(',') {
        let (size, share) = part.split_once(':').unwrap_or((part, "100"));
        let share: f64 = share.parse().unwrap_or(-1.0);
        if !(0.0..=1e6).contains(&share) {
            return Err(ArgumentError::new(format!("size: '{part}' has no share from 0 on")));
        }
        mix.push((bytes(size)?, share));
    }
    if mix.len() > 1 && mix.iter().map(|(_, share)| share).sum::<f64>() <= 0.0 {
        return Err(ArgumentError::new(format!("size: the shares of '{text}' come to nothing")));
    }
    Ok(Sizes::Mix(mix))
}

impl FromStr for Geometry {
    type Err = TreeError;

    fn from_str(line: &str) -> Result<Self, TreeError> {
        Self::read(line)
            .map_err(|error| TreeError { line: line.to_owned(), reason: error.to_string() })
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { depth, width, per_directory, sizes, .. } = self;
        write!(f, "depth={depth}&width={width}&files={per_directory}&size=")?;
        match sizes {
            Sizes::Mix(mix) if mix.len() == 1 && mix[0].1 <= 0.0 => {
                write!(f, "{}:0", plain(mix[0].0))?;
            }
            sizes => write!(f, "{sizes}")?,
        }
        if self.everywhere {
            f.write_str("&everywhere=yes")?;
        }
        if let Some(total) = self.total {
            write!(f, "&total={}", plain(total))?;
        }
        if let Some(bytes) = self.working_set {
            write!(f, "&working-set={}", plain(bytes))?;
        }
        Ok(())
    }
}
