//! The content of a target, by samples.
//!
//! Reads of unwritten places do not touch the storage, and thin or compressing storage does not
//! store zeroes; both lead to figures that no real load ever sees. A whole target cannot be read
//! before each run, so a thousand blocks at random places are, for a second at most, without the
//! page cache and without changing anything.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ioecho_replay::fill::seed_of;
use ioecho_replay::pattern::{SplitMix64, read_stamp};
use ioecho_trace::units::SECTOR;
use rustix::fs::{SeekFrom, seek};
use serde::{Deserialize, Serialize};

use super::facts::TargetKind;
use super::open::OpenedTarget;
use crate::sysfs::BlockNode;

/// How many blocks are looked at, of how many bytes.
const SAMPLES: usize = 1000;
const BLOCK: usize = 4096;

/// Then it ends, however many have been looked at: a disk reads a hundred in a second.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Fixes the places.
const SEED: u64 = 0x5A4D_504C_4553;

/// So many runs are told by their numbers.
const RUNS_MAX: usize = 8;

/// From this share on, zeroes and places never written make figures doubtful.
pub const EMPTY_TOLERATED: f64 = 0.05;

/// Equal parts of a target that are told apart, at most.
const PARTS: u64 = 64;

/// Direct I/O wants memory aligned like this anywhere.
const ALIGNMENT: usize = 4096;

/// What a sample of a target holds. Shares are of the blocks that were looked at, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetContent {
    /// How many blocks were looked at.
    pub samples: usize,
    /// How large they are, in bytes.
    pub block: usize,
    /// Written by ioecho, in whole or beside zeroes.
    pub ioecho: f64,
    /// Zeroes alone. What was never written reads so too.
    pub zeroes: f64,
    /// Anything else.
    pub other: f64,
    /// Could not be read.
    pub unreadable: f64,
    /// Never written, if the system knows it; these blocks are not read.
    pub never_written: Option<f64>,
    /// How the system knows it.
    pub told_by: Option<ToldBy>,
    /// The runs that wrote, those with the most blocks first; eight at most.
    pub runs: Vec<WrittenBy>,
    /// How many bytes each of `parts` has; the last one perhaps fewer.
    #[serde(skip)]
    pub part: u64,
    /// Equal parts of the target, with what was found in each.
    #[serde(skip)]
    pub parts: Vec<Part>,
}

/// How a system can tell where a target was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToldBy {
    /// The file system knows holes.
    #[serde(rename = "holes of the file")]
    Holes,
    /// The device knows how much of it holds anything.
    #[serde(rename = "statistics of the device")]
    Statistics,
}

impl ToldBy {
    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holes => "holes of the file",
            Self::Statistics => "statistics of the device",
        }
    }
}

/// What was found in a part of a target: numbers of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Looked at.
    pub samples: u32,
    /// Never written, as far as the system tells.
    pub never_written: u32,
    /// Zeroes, in places that were written or of which nobody can tell.
    pub zeroes: u32,
}

/// A run that wrote a part of what is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenBy {
    /// Its number in hexadecimal, as in its `run.toml`.
    pub run: String,
    /// Whether it was no replay but a fill (`ioecho prepare`).
    pub prepared: bool,
    /// The share of blocks whose first sector it wrote.
    pub share: f64,
}

/// A doubt about measuring on a target with these shares of unwritten places and of zeroes, with
/// the remedy; `None` if there is none.
pub fn doubt(target: &Path, never_written: f64, zeroes: f64) -> Option<String> {
    let empty = never_written.max(zeroes);
    (empty > EMPTY_TOLERATED).then(|| {
        format!(
            "of the places that the load goes to first, {} {}: such places are read and written \
             faster than real data\n  = help: fill the target first: ioecho prepare {}",
            percent(empty),
            if never_written >= zeroes { "were never written" } else { "hold zeroes only" },
            target.display()
        )
    })
}

impl fmt::Display for TargetContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, block, .. } = self;
        write!(
            f,
            "of {samples} blocks of {block} bytes: {} written by ioecho",
            percent(self.ioecho)
        )?;
        if let Some(most) = self.runs.first() {
            let what = if most.prepared { "prepare" } else { "run" };
            write!(f, " ({what} {}", most.run)?;
            match self.runs.len() - 1 {
                0 => write!(f, ")")?,
                more => write!(f, " and {more} more)")?,
            }
        }
        write!(f, ", {} zeroes, {} other data", percent(self.zeroes), percent(self.other))?;
        if self.unreadable > 0.0 {
            write!(f, ", {} unreadable", percent(self.unreadable))?;
        }
        if let (Some(share), Some(by)) = (self.never_written, self.told_by) {
            write!(f, "; {} never written ({})", percent(share), by.name())?;
        }
        Ok(())
    }
}

/// Whole percents, but never 0 % for what is there or 100 % for what is not all.
fn percent(share: f64) -> String {
    let whole = (share * 100.0).round();
    if (whole < 1.0 && share > 0.0) || (whole > 99.0 && share < 1.0) {
        format!("{:.1} %", share * 100.0)
    } else {
        format!("{whole:.0} %")
    }
}

/// What the blocks that were looked at hold.
#[derive(Debug, Default)]
struct Counts {
    looked: usize,
    ioecho: usize,
    zeroes: usize,
    other: usize,
    unreadable: usize,
    asked: usize,
    never_written: usize,
    /// Runs and how many blocks each wrote, in the order in which they were seen.
    runs: Vec<(u64, usize)>,
}

/// Looks at some 1,000 blocks at places that are the same for every target of a size, for about a
/// second at most.
pub fn sample(target: &OpenedTarget) -> TargetContent {
    let facts = target.facts();
    let block = (facts.logical_block.0 as usize).max(BLOCK).min(facts.capacity.0 as usize);
    let holes = Holes::of(target);
    let mut reader = BlockReader::new(target, block);
    let mut random = SplitMix64(SEED);
    let blocks = (facts.capacity.0 / block as u64).max(1);
    let mut counts = Counts::default();
    let part = facts.capacity.0.div_ceil(PARTS).max(block as u64);
    let mut parts = vec![Part::default(); facts.capacity.0.div_ceil(part) as usize];
    let began = Instant::now();
    while counts.looked < SAMPLES && began.elapsed() < TIME_MAX {
        let at = random.below(blocks) * block as u64;
        counts.looked += 1;
        let written = holes.as_ref().and_then(|holes| holes.is_written(at, block as u64));
        if let Some(written) = written {
            counts.asked += 1;
            counts.never_written += usize::from(!written);
        }
        let zeroes_before = counts.zeroes;
        match reader.as_mut().map(|reader| reader.read(at)) {
            Ok(Ok(data)) => counts.add(data),
            Ok(Err(_)) | Err(_) => counts.unreadable += 1,
        }
        if let Some(part) = parts.get_mut((at / part) as usize) {
            let never = written == Some(false);
            part.samples += 1;
            part.never_written += u32::from(never);
            part.zeroes += u32::from(counts.zeroes > zeroes_before && !never);
        }
    }
    let by_zram = if counts.asked == 0 { zram_share(target) } else { None };
    TargetContent { part, parts, ..counts.shares(block, by_zram) }
}

/// Places of a target: whether they were ever written and, if they must be read for it, whether
/// they hold anything. Reading warms the caches that a run should find cold.
#[derive(Debug)]
pub struct Places {
    holes: Option<Holes>,
    reader: Option<BlockReader>,
}

impl Places {
    /// Those of a target; as much can be asked of them as the system lets.
    pub fn of(target: &OpenedTarget) -> Self {
        let facts = target.facts();
        let block = (facts.logical_block.0 as usize).max(BLOCK).min(facts.capacity.0 as usize);
        Self { holes: Holes::of(target), reader: BlockReader::new(target, block).ok() }
    }

    /// Whether any byte of the range was ever written, without reading it; `None` where nothing
    /// tells.
    pub fn is_written(&self, offset: u64, length: u64) -> Option<bool> {
        self.holes.as_ref()?.is_written(offset, length)
    }

    /// Reads the block with this byte, and tells whether it holds zeroes only; `None` where it
    /// cannot be read.
    pub fn is_zero(&mut self, offset: u64) -> Option<bool> {
        let reader = self.reader.as_mut()?;
        let data = reader.read(offset - offset % reader.length as u64).ok()?;
        (!data.is_empty()).then(|| data.iter().all(|byte| *byte == 0))
    }
}

impl Counts {
    fn add(&mut self, data: &[u8]) {
        let (mut written, mut foreign) = (false, false);
        for (index, sector) in data.chunks(SECTOR as usize).enumerate() {
            if let Some(stamp) = read_stamp(sector) {
                written = true;
                if index == 0 {
                    match self.runs.iter_mut().find(|(run, _)| *run == stamp.run) {
                        Some((_, count)) => *count += 1,
                        None => self.runs.push((stamp.run, 1)),
                    }
                }
            } else if sector.iter().any(|byte| *byte != 0) {
                foreign = true;
            }
        }
        match (written, foreign) {
            (_, true) => self.other += 1,
            (true, false) => self.ioecho += 1,
            (false, false) => self.zeroes += 1,
        }
    }

    /// `by_zram` is the share never written, where the device knows it as a whole.
    fn shares(mut self, block: usize, by_zram: Option<f64>) -> TargetContent {
        let share = |count: usize| count as f64 / self.looked.max(1) as f64;
        self.runs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let runs = self.runs.iter().take(RUNS_MAX).map(|(run, count)| WrittenBy {
            run: format!("{run:016x}"),
            prepared: seed_of(*run).is_some(),
            share: share(*count),
        });
        let by_holes = (self.asked > 0).then(|| self.never_written as f64 / self.asked as f64);
        TargetContent {
            samples: self.looked,
            block,
            ioecho: share(self.ioecho),
            zeroes: share(self.zeroes),
            other: share(self.other),
            unreadable: share(self.unreadable),
            never_written: by_holes.or(by_zram),
            told_by: by_holes.map(|_| ToldBy::Holes).or(by_zram.map(|_| ToldBy::Statistics)),
            runs: runs.collect(),
            ..TargetContent::default()
        }
    }
}

/// Reads blocks of a target past the page cache, one at a time.
#[derive(Debug)]
pub struct BlockReader {
    file: File,
    capacity: u64,
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl BlockReader {
    /// A reader of blocks of `length` bytes, which is a multiple of the target's logical block.
    ///
    /// # Errors
    ///
    /// There is no further file descriptor.
    pub fn new(target: &OpenedTarget, length: usize) -> io::Result<Self> {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let capacity = target.facts().capacity.0;
        Ok(Self { file: target.file.try_clone()?, capacity, memory, start, length })
    }

    /// What stands at `at`, a multiple of the target's logical block; fewer bytes at its end.
    pub fn read(&mut self, at: u64) -> io::Result<&[u8]> {
        let left = self.capacity.saturating_sub(at);
        let length = self.length.min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut self.memory[self.start..self.start + length];
        self.file.read_exact_at(buffer, at)?;
        Ok(buffer)
    }
}

/// The file that knows where a target was never written: the file itself, or what lies behind a
/// loop device. A file without holes knows too: everything was.
#[derive(Debug)]
struct Holes {
    file: File,
    /// Where the target begins in it.
    offset: u64,
}

impl Holes {
    fn of(target: &OpenedTarget) -> Option<Self> {
        let facts = target.facts();
        match facts.kind {
            TargetKind::File => Some(Self { file: target.file.try_clone().ok()?, offset: 0 }),
            TargetKind::BlockDevice => {
                let node = node(target)?;
                // The path is that of another mount namespace or time, perhaps; then there is
                // another file or none, and a file that is too short is another one.
                let file = File::open(facts.backing_file.as_ref()?).ok()?;
                let before = node.disk()?.number("loop/offset").unwrap_or(0);
                let offset = before + node.number("start").unwrap_or(0) * SECTOR;
                let long_enough =
                    file.metadata().is_ok_and(|data| data.len() >= offset + facts.capacity.0);
                long_enough.then_some(Self { file, offset })
            }
        }
    }

    /// Whether any of the block was ever written (lseek(2), `SEEK_DATA`); `None` where the file
    /// system does not tell.
    fn is_written(&self, at: u64, length: u64) -> Option<bool> {
        let from = self.offset.saturating_add(at);
        match seek(&self.file, SeekFrom::Data(from)) {
            Ok(data) => Some(data < from.saturating_add(length)),
            Err(rustix::io::Errno::NXIO) => Some(false),
            Err(_) => None,
        }
    }
}

/// The share of a zram device that was never written. `mm_stat` begins with the bytes that it
/// stores, uncompressed (`Documentation/admin-guide/blockdev/zram.rst`).
fn zram_share(target: &OpenedTarget) -> Option<f64> {
    let stored = node(target)?.attribute("mm_stat")?;
    let stored: f64 = stored.split_whitespace().next()?.parse().ok()?;
    let capacity = target.facts().capacity.0 as f64;
    Some((1.0 - stored / capacity).clamp(0.0, 1.0))
}

fn node(target: &OpenedTarget) -> Option<BlockNode> {
    if target.facts().kind == TargetKind::File {
        return None;
    }
    BlockNode::of(crate::sysfs::parse_dev(&target.facts().device)?)
}

#[cfg(test)]
mod tests {
    use ioecho_replay::fill::{FillPayload, fill_run};
    use ioecho_replay::{Io, Payload};
    use ioecho_trace::{Bytes, Flags, Nanos, Op};

    use super::*;
    use crate::target::{self, Access, OpenOptions};

    const SIZE: u64 = 8 << 20;

    /// Opens a file of 8 MiB that holds these pieces.
    fn opened(pieces: &[(u64, &[u8])]) -> (tempfile::NamedTempFile, OpenedTarget) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE).unwrap();
        for (at, bytes) in pieces {
            file.as_file().write_all_at(bytes, *at).unwrap();
        }
        file.as_file().sync_all().unwrap();
        let mut options = OpenOptions::new(Access::ReadOnly);
        options.allow_cached = true;
        let target = target::open(file.path(), options).unwrap();
        (file, target)
    }

    fn filled(length: u64) -> Vec<u8> {
        let mut data = vec![0; length as usize];
        let io = Io {
            tag: 0,
            request: 0,
            scheduled: Nanos::ZERO,
            op: Op::Write,
            flags: Flags::empty(),
            offset: Bytes::ZERO,
            length: Bytes(length),
        };
        FillPayload::new(fill_run(7)).fill(&io, &mut data);
        data
    }

    fn near(share: f64, expected: f64) -> bool {
        (share - expected).abs() < 0.06
    }

    #[test]
    fn an_empty_file_was_never_written() {
        let (_file, target) = opened(&[]);
        let content = sample(&target);
        assert!((content.zeroes - 1.0).abs() < 1e-9, "{content:?}");
        if let Some(share) = content.never_written {
            assert!((share - 1.0).abs() < 1e-9, "{content:?}");
        }
    }

    #[test]
    fn places_never_written_and_zeroes_are_doubted_beyond_one_in_twenty() {
        let doubt = |never, zeroes| doubt(Path::new("/dev/sdx"), never, zeroes);
        assert_eq!(doubt(0.05, 0.05), None);
        let holes = doubt(0.9, 0.1).unwrap();
        assert!(holes.contains("90 % were never written"), "{holes}");
        assert!(holes.contains("ioecho prepare /dev/sdx"), "{holes}");
        let zeroes = doubt(0.01, 0.06).unwrap();
        assert!(zeroes.contains("6 % hold zeroes only"), "{zeroes}");
    }

    #[test]
    fn a_mixed_file_is_told_in_its_parts() {
        let fill = filled(SIZE / 2);
        let noise = vec![0x5A; SIZE as usize / 4];
        let (_file, target) = opened(&[(0, &fill), (SIZE / 2, &noise)]);
        let content = sample(&target);
        assert!(near(content.ioecho, 0.5), "{content:?}");
        assert!(near(content.other, 0.25), "{content:?}");
        assert!(near(content.zeroes, 0.25), "{content:?}");
        assert!((content.ioecho + content.other + content.zeroes - 1.0).abs() < 1e-9);
        assert_eq!(content.runs.len(), 1);
        assert_eq!(content.runs[0].run, format!("{:016x}", fill_run(7)));
        assert!(content.runs[0].prepared);
        let zeroes = |part: &Part| part.zeroes + part.never_written;
        let empty = |from: u64| content.parts.iter().skip((from / content.part) as usize);
        assert!(empty(SIZE / 4 * 3).all(|part| zeroes(part) == part.samples), "{content:?}");
        let full = content.parts.iter().take((SIZE / 4 * 3 / content.part) as usize);
        assert_eq!(full.map(zeroes).sum::<u32>(), 0, "{content:?}");
    }

    #[test]
    fn places_are_asked_after_without_being_read() {
        let (_file, target) = opened(&[(SIZE / 2, &[1; 4096])]);
        let places = Places::of(&target);
        if places.is_written(0, 4096) == Some(true) {
            // A file system without holes.
            return;
        }
        assert_eq!(places.is_written(0, 4096), Some(false));
        assert_eq!(places.is_written(SIZE / 2, 4096), Some(true));
        assert_eq!(places.is_written(SIZE / 2 + 4096, u64::MAX), Some(false));
    }

    #[test]
    fn a_place_is_read_with_the_block_around_it() {
        let (_file, target) = opened(&[(SIZE / 2, &[1])]);
        let mut places = Places::of(&target);
        let is_zero = [SIZE / 2 + 4095, SIZE / 2 - 1, 0, SIZE].map(|at| places.is_zero(at));
        assert_eq!(is_zero, [Some(false), Some(true), Some(true), None]);
    }

    #[test]
    fn a_filled_file_leaves_no_doubt() {
        let fill = filled(SIZE);
        let (_file, target) = opened(&[(0, &fill)]);
        let content = sample(&target);
        assert!((content.ioecho - 1.0).abs() < 1e-9, "{content:?}");
        let told = content.to_string();
        assert!(told.contains("100 % written by ioecho (prepare 505250"), "{told}");
    }

    #[test]
    fn a_block_with_a_single_foreign_sector_is_foreign() {
        let mut data = filled(4096);
        data[512..1024].fill(1);
        let mut counts = Counts::default();
        counts.add(&data);
        assert_eq!((counts.other, counts.ioecho, counts.runs.len()), (1, 0, 1));
    }

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.001), "0.1 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(percent(0.999), "99.9 %");
        assert_eq!(percent(1.0), "100 %");
    }
}
