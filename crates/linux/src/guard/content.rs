//! Whether a target holds somebody's data.
//!
//! Raw databases, encrypted volumes and disks of virtual machines carry no signature, and reading a
//! whole disk takes hours. So a small target is read whole. Of a larger one the beginning, the end,
//! and samples from all over are read: data that is neither blank nor written by ioecho belongs to
//! somebody. The samples are at random places, because fixed places would overlook the same data
//! every time.
//!
//! Each sample is drawn from its own one of [`SAMPLES`] equal parts, so data that fill the share f
//! of a target are overlooked with a probability of (1 − f)^[`SAMPLES`] at most, however they are
//! spread: of 1 %, once in 10⁹ times; of one in a thousand, once in eight.
//!
//! The storage's caches should be cold when a run begins. So at most 10 MiB of a large target are
//! read, no holes of files, and the page cache is bypassed if possible.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ioecho_replay::pattern::{MARK, SplitMix64};
use ioecho_trace::Bytes;
use rustix::fs::{SeekFrom, seek};

/// A target with no more data than this, holes aside, is read whole: in a second on a disk.
const WHOLE_MAX: u64 = 64 << 20;

/// So much is read from the beginning and from the end of what holds more.
const EDGE: u64 = 1 << 20;

/// What is read whole is read in pieces of this size.
const PIECE: u64 = 256 << 10;

/// Samples of a larger target, and how large each is.
const SAMPLES: u64 = 2048;
const SAMPLE: u64 = 4096;

/// They are taken in so many passes upwards, each over all of the target: a disk is quicker in one
/// direction, and when time is up the samples lie everywhere.
const PASSES: u64 = 32;

/// With fewer places than these nothing is known of a large target.
const PLACES_MIN: u64 = 64;

/// How long reading takes at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// If so many places of a large target were read.
    usual: Duration,
    places: u64,
    /// If fewer were, and for a small target, which is read completely.
    longest: Duration,
}

impl Time {
    /// For the first look at a target. A disk gives so many places in that time. A busy host may
    /// give fewer, and data overlooked are worse than seconds lost.
    pub(super) const FIRST: Self =
        Self { usual: Duration::from_secs(2), places: 300, longest: Duration::from_secs(10) };

    /// For another one soon after it.
    pub(super) const AGAIN: Self =
        Self { usual: Duration::from_millis(500), places: PLACES_MIN, ..Self::FIRST };
}

/// Of a file in more pieces than these, the rest is taken for one.
const EXTENTS_MAX: usize = 1 << 16;

/// Direct I/O wants memory and places aligned like this, if not more.
const ALIGNMENT: u64 = 4096;

const SECTOR: usize = 512;

/// A target to look into.
pub(super) struct Content<'a> {
    file: &'a File,
    /// In bytes.
    pub(super) size: u64,
    /// What is read begins and ends at multiples of so many bytes.
    alignment: u64,
    /// Whether bytes of 0xFF are those of erased flash. In a file they are somebody's.
    may_be_erased: bool,
}

/// The result of inspecting a target's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// No data of anybody.
    Blank,
    /// Data at this place that ioecho did not write.
    Foreign(Bytes),
    /// Too little to know: so many places could be read in the time that there is.
    TooLittle(u64),
}

impl<'a> Content<'a> {
    /// `block` is what direct I/O on it must be aligned to.
    pub(super) const fn new(file: &'a File, size: u64, block: u64) -> Self {
        let alignment = if block > ALIGNMENT { block } else { ALIGNMENT };
        Self { file, size, alignment, may_be_erased: false }
    }

    /// A device: sectors of 0xFF are erased flash.
    pub(super) const fn of_device(self) -> Self {
        Self { may_be_erased: true, ..self }
    }

    /// Whether `magic` stands at byte `at`, and not by chance in a sector that ioecho wrote.
    pub(super) fn has(&self, at: u64, magic: &[u8]) -> io::Result<bool> {
        let sector = at / SECTOR as u64 * SECTOR as u64;
        let skip = (at - sector) as usize;
        if at.checked_add(magic.len() as u64).is_none_or(|end| end > self.size) {
            return Ok(false);
        }
        let bytes = self.read(sector, (skip + magic.len()) as u64)?;
        Ok(bytes.get(skip..) == Some(magic) && (skip == 0 || !bytes.starts_with(&MARK)))
    }

    /// The bytes from `at` on, fewer at the end.
    pub(super) fn read(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = length.min(self.size.saturating_sub(at)) as usize;
        let from = at / self.alignment * self.alignment;
        let skip = (at - from) as usize;
        let whole = (skip + length).next_multiple_of(self.alignment as usize);
        let mut memory = vec![0; whole + ALIGNMENT as usize];
        let start = memory.as_ptr().align_offset(ALIGNMENT as usize).min(ALIGNMENT as usize);
        let buffer = &mut memory[start..start + whole];
        let mut done = 0;
        while done < skip + length {
            match self.file.read_at(&mut buffer[done..], from + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer[skip..skip + length].to_vec())
    }

    /// Looks for data that are neither blank nor ioecho's. A place that cannot be read is passed
    /// over: a disk with bad sectors may be replayed on.
    pub(super) fn look(&self, time: Time) -> Seen {
        self.look_for(time, RandomState::new().build_hasher().finish())
    }

    fn look_for(&self, time: Time, seed: u64) -> Seen {
        let held = Held::of(self.file, self.size);
        let began = Instant::now();
        let is_small = held.total <= WHOLE_MAX;
        let whole = 0..held.total;
        let places = if is_small { vec![whole] } else { places(held.total, seed) };
        let (mut looked, mut read) = (0, 0);
        let mut is_done = true;
        for place in places.into_iter().flat_map(|place| held.pieces(place)) {
            let is_quick = !is_small && read >= time.places;
            if began.elapsed() >= if is_quick { time.usual } else { time.longest } {
                is_done = !is_small && read >= PLACES_MIN;
                break;
            }
            looked += 1;
            let at = place.start / SAMPLE * SAMPLE;
            let Ok(bytes) = self.read(at, place.end.next_multiple_of(SAMPLE) - at) else {
                continue;
            };
            read += 1;
            if let Some(sector) = bytes.chunks(SECTOR).position(|bytes| self.is_foreign(bytes)) {
                return Seen::Foreign(Bytes(at + (sector * SECTOR) as u64));
            }
        }
        if is_done && read * 2 >= looked { Seen::Blank } else { Seen::TooLittle(read) }
    }

    /// Whether a sector holds anything that ioecho did not write.
    fn is_foreign(&self, sector: &[u8]) -> bool {
        let is_all = |value: u8| sector.iter().all(|byte| *byte == value);
        !(sector.starts_with(&MARK) || is_all(0) || self.may_be_erased && is_all(0xFF))
    }
}

/// Which places of a row of so many bytes are looked at, in this order.
fn places(total: u64, seed: u64) -> Vec<Range<u64>> {
    let mut random = SplitMix64(seed);
    let part = total / SAMPLES;
    // 0, 16, 8, 24, 4 and so on: each halves the gaps that those before it left.
    let passes = (0..PASSES).map(|pass| pass.reverse_bits() >> (64 - PASSES.trailing_zeros()));
    let parts = passes.flat_map(|pass| (pass..SAMPLES).step_by(PASSES as usize));
    let samples = parts.map(|number| {
        let at = number * part + random.below(part);
        // The block that it lies in is read.
        at..at + 1
    });
    [0..EDGE, total - EDGE..total].into_iter().chain(samples).collect()
}

/// What of a target is no hole, as one row of bytes.
struct Held {
    /// Parts of the target in ascending order, and where in the row each begins.
    extents: Vec<(u64, Range<u64>)>,
    total: u64,
}

impl Held {
    /// Of a device, and where the file system does not tell, that is everything.
    fn of(file: &File, size: u64) -> Self {
        let mut held = Self { extents: Vec::new(), total: 0 };
        let mut from = 0;
        while from < size {
            let data = match seek(file, SeekFrom::Data(from)) {
                Ok(data) => data.max(from),
                Err(rustix::io::Errno::NXIO) => break,
                Err(_) => from,
            };
            let is_last = held.extents.len() + 1 == EXTENTS_MAX;
            let hole = seek(file, SeekFrom::Hole(data)).ok().filter(|_| !is_last);
            let end = hole.unwrap_or(size).min(size);
            if end <= data {
                break;
            }
            held.extents.push((held.total, data..end));
            held.total += end - data;
            from = end;
        }
        held
    }

    /// Where on the target a part of the row is, in pieces of [`PIECE`] at most.
    fn pieces(&self, part: Range<u64>) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        let first = self.extents.partition_point(|(begins, _)| *begins <= part.start).max(1) - 1;
        for (begins, extent) in self.extents.iter().skip(first) {
            let from = extent.start + part.start.saturating_sub(*begins);
            let to = extent.end.min(extent.start + part.end.saturating_sub(*begins));
            if to <= from {
                break;
            }
            let starts = (from..to).step_by(PIECE as usize);
            pieces.extend(starts.map(|at| at..(at + PIECE).min(to)));
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SIZE: u64 = 256 << 20;

    fn file(parts: &[(u64, &[u8])], size: u64) -> File {
        let mut file = tempfile::tempfile().unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        file.set_len(size).unwrap();
        file.flush().unwrap();
        file
    }

    fn seen(file: &File, size: u64) -> Seen {
        Content::new(file, size, 512).look(Time::FIRST)
    }

    #[test]
    fn zeroes_and_holes_are_nobodys() {
        let file = file(&[(8192, &[0; 4096])], SIZE);
        assert_eq!(seen(&file, SIZE), Seen::Blank);
    }

    #[test]
    fn sectors_that_ioecho_wrote_are_nobodys() {
        let mut sector = [7; SECTOR];
        sector[..7].copy_from_slice(&MARK);
        let file = file(&[(0, &sector), (512, &sector), (5 << 20, &sector)], SIZE);
        assert_eq!(seen(&file, SIZE), Seen::Blank);
    }

    #[test]
    fn a_line_of_text_is_somebodys() {
        let text = b"hello\n";
        let file = file(&[(0, text)], text.len() as u64);
        assert_eq!(seen(&file, 6), Seen::Foreign(Bytes(0)));
    }

    #[test]
    fn a_single_byte_behind_a_large_hole_is_found() {
        let file = file(&[(50_000_000, b"x"), (150_000_001, b"x")], SIZE);
        assert_eq!(seen(&file, SIZE), Seen::Foreign(Bytes(50_000_000 / 512 * 512)));
    }

    #[test]
    fn erased_flash_is_blank_and_a_file_of_the_same_bytes_is_somebodys() {
        let file = file(&[(0, &[0xFF; 8192])], 8192);
        assert_eq!(seen(&file, 8192), Seen::Foreign(Bytes(0)));
        assert_eq!(Content::new(&file, 8192, 512).of_device().look(Time::FIRST), Seen::Blank);
        file.write_all_at(&[0xFE], 8191).unwrap();
        let found = Content::new(&file, 8192, 512).of_device().look(Time::FIRST);
        assert_eq!(found, Seen::Foreign(Bytes(7680)));
    }

    #[test]
    fn of_a_small_target_no_sector_is_overlooked() {
        let size = 3 * PIECE + 1024;
        for at in [0, PIECE - 1, PIECE, 2 * PIECE + 5000, size - 1] {
            let zeroes = vec![0; size as usize];
            let file = file(&[(0, &zeroes), (at, b"x")], size);
            assert_eq!(seen(&file, size), Seen::Foreign(Bytes(at / 512 * 512)), "byte {at}");
        }
    }

    #[test]
    fn what_a_target_without_holes_begins_and_ends_with_is_always_read() {
        let places = places(1 << 40, 1);
        assert_eq!(places[..2], [0..EDGE, (1 << 40) - EDGE..1 << 40]);
    }

    #[test]
    fn every_part_of_a_large_target_has_its_sample_and_nobody_knows_where() {
        let total = (1 << 40) + 12345;
        let samples = |seed| {
            let mut samples = places(total, seed).split_off(2);
            samples.sort_by_key(|place| place.start);
            samples
        };
        let (one, other) = (samples(1), samples(2));
        for (number, place) in one.iter().enumerate() {
            assert_eq!(place.start / (total / SAMPLES), number as u64);
        }
        assert_eq!(one.len() as u64, SAMPLES);
        assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 8);
    }

    #[test]
    fn when_time_is_up_early_the_samples_are_all_over_the_target() {
        let total = 1 << 40;
        let first = &places(total, 3)[2..][..(SAMPLES / PASSES) as usize];
        let gaps = first.windows(2).map(|pair| pair[1].start - pair[0].start);
        assert!(gaps.max().unwrap() < total / SAMPLES * (PASSES + 1));
        assert!(first.last().unwrap().start > total / SAMPLES * (SAMPLES - 2 * PASSES));
    }

    #[test]
    fn without_time_nothing_is_called_blank() {
        for size in [SIZE, 1 << 20] {
            let file = file(&[(0, &[0; 4096])], size);
            let content = Content::new(&file, size, 512);
            let none = Time { usual: Duration::ZERO, places: 1, longest: Duration::ZERO };
            assert_eq!(content.look_for(none, 1), Seen::TooLittle(0));
        }
    }

    #[test]
    fn of_a_slow_target_no_more_is_read_than_it_takes_to_know_something() {
        let size = WHOLE_MAX + (1 << 20);
        let file = file(&[(0, &vec![0; size as usize])], size);
        // Data in most of two parts that are not looked at in the first pass.
        let part = size / SAMPLES;
        let data = vec![1; 2 * (part - SAMPLE) as usize];
        file.write_all_at(&data, 350 * part + SAMPLE).unwrap();
        let seen = |usual, places| {
            let time = Time { usual, places, longest: Duration::MAX };
            Content::new(&file, size, 512).look_for(time, 1)
        };
        assert_eq!(seen(Duration::ZERO, PLACES_MIN), Seen::Blank);
        assert!(matches!(seen(Duration::MAX, PLACES_MIN), Seen::Foreign(_)));
        // However late it is: so many places are looked at first.
        assert!(matches!(seen(Duration::ZERO, SAMPLES), Seen::Foreign(_)));
    }

    #[test]
    fn a_part_of_the_row_is_found_in_all_extents_that_it_spans() {
        let held = Held { extents: vec![(0, 100..110), (10, 200..230), (40, 500..501)], total: 41 };
        assert_eq!(held.pieces(0..41), [100..110, 200..230, 500..501]);
        assert_eq!(held.pieces(5..12), [105..110, 200..202]);
        assert_eq!(held.pieces(10..11).first(), Some(&(200..201)));
        assert_eq!(held.pieces(40..99).first(), Some(&(500..501)));
        assert_eq!(Held { extents: Vec::new(), total: 0 }.pieces(0..0), []);
    }

    #[test]
    fn a_magic_inside_a_sector_of_ioecho_is_chance() {
        let mut sector = [0; SECTOR];
        sector[56..58].copy_from_slice(&[0x53, 0xef]);
        let foreign = file(&[(1024, &sector)], 8192);
        let has = |file| Content::new(file, 8192, 512).has(1080, &[0x53, 0xef]).unwrap();
        assert!(has(&foreign));
        sector[..7].copy_from_slice(&MARK);
        assert!(!has(&file(&[(1024, &sector)], 8192)));
    }
}
