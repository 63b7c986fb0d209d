//! The ASCII traces of `DiskSim`, and of `MQSim`, trace-replay and other simulators after it.
//!
//! Lines of `arrival device block count flags` with blanks between: blocks and counts are sectors,
//! flags are hexadecimal and their lowest bit says read. The file does not state the unit of the
//! arrival: milliseconds with decimals in `DiskSim`, whole numbers of a unit that a configuration
//! names in `MQSim` (nanoseconds in the traces that come with it). So decimals are taken as
//! milliseconds and whole numbers as nanoseconds, which is noted as a guess; `--time-unit`
//! overrides it.
//!
//! Five numbers in a line are a weak sign. So a file is recognised only if arrivals rise, lengths
//! are plausible and flags are those of a read or a write. Even then the format is noted as a
//! guess, unless `--format` named it.

use super::import::{
    self, Blanks, Delimited, Epoch, Facts, Fault, Intake, Look, Numbered, OnVolume, Told,
    looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::stream::Opened;
use crate::text::Cursor;
use crate::units::{Nanos, SECTOR};

/// Traces of simulators.
pub const FORMAT: Format = Format {
    name: "disksim",
    title: "ASCII traces of DiskSim and MQSim",
    several: Several::ByTime,
    recognise,
    open,
};

/// The device and the request of a line, in instants of `unit_ns`.
#[inline]
fn parse(line: &[u8], unit_ns: i64, block: u64) -> Result<OnVolume, Fault> {
    let mut fields = Blanks::new(line);
    let issue = fields.decimal(unit_ns, "the arrival is no number")?;
    let device = fields.integer("the device is no number")?;
    let offset = fields.blocks(block, "the address is no number of blocks")?;
    let length = fields.blocks(block, "the length is no number of blocks")?;
    let flags = fields.hexadecimal("the flags are no hexadecimal number")?;
    fields.end()?;
    let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
    Ok((device, Request::new(Nanos(issue), op, offset, length)))
}

/// The largest plausible device number and the longest plausible request, in blocks.
const DEVICE_MAX: u64 = 65_535;
const BLOCKS_MAX: u64 = 1 << 20;

/// The bits that `DiskSim` defines for flags: read, time-critical, time-limited, and some of its
/// own. The first two are usual in `DiskSim`'s own traces, whose arrivals have decimals.
const FLAGS_MAX: u64 = 0xff;
const TIMED_FLAGS_MAX: u64 = 3;

/// The least number of lines if other flags occur, and the largest number of different ones.
const LINES_MIN: usize = 8;
const KINDS_MAX: u32 = 6;

/// The flags of a line of a simulator.
fn flags_of(line: &[u8]) -> Option<u64> {
    let (device, request) = parse(line, 1, 1).ok()?;
    let flags = line.trim_ascii_end().rsplit(u8::is_ascii_whitespace).next()?;
    let flags = Cursor::new(flags).hexadecimal().ok()?;
    let is_plausible =
        device <= DEVICE_MAX && (1..=BLOCKS_MAX).contains(&request.length.0) && flags <= FLAGS_MAX;
    is_plausible.then_some(flags)
}

fn recognise(first_bytes: &[u8]) -> bool {
    let (mut lines, mut steps_back, mut latest) = (0_usize, 0_usize, None);
    // The flags that occur besides the usual ones: a bit for each.
    let mut others = [0_u128; 2];
    let is_like = looks_like(first_bytes, |line| {
        let (Some(flags), Ok((_, request))) = (flags_of(line), parse(line, 1_000_000, 1)) else {
            return Look::Strange;
        };
        lines += 1;
        steps_back += usize::from(latest > Some(request.issue));
        latest = Some(request.issue);
        let has_decimals = line.contains(&b'.');
        if flags > if has_decimals { TIMED_FLAGS_MAX } else { 1 } {
            others[(flags >> 7) as usize] |= 1 << (flags & 0x7f);
        }
        Look::Request
    });
    let kinds = others[0].count_ones() + others[1].count_ones();
    is_like && steps_back * 8 <= lines && (kinds == 0 || lines >= LINES_MIN && kinds <= KINDS_MAX)
}

/// Whether one of the first requests arrives between two units.
fn has_decimals(first_bytes: &[u8]) -> bool {
    first_bytes.split(|byte| *byte == b'\n').any(|line| {
        let first = line.trim_ascii_start().split(u8::is_ascii_whitespace).next();
        first.is_some_and(|word| word.contains(&b'.')) && parse(line.trim_ascii(), 1, 1).is_ok()
    })
}

const AS_SIMULATOR: Topic<'static> = NoteKind::Assumed.of(
    "lines of five numbers, taken for those of a simulator (`format` or `columns` says otherwise)",
);
const AS_MILLISECONDS: Topic<'static> = NoteKind::Unit
    .of("instants taken as milliseconds, because they have decimals (`time-unit` says otherwise)");
const AS_NANOSECONDS: Topic<'static> = NoteKind::Unit
    .of("instants taken as nanoseconds, because they are whole (`time-unit` says otherwise)");

fn open(opening: Opening<'_>) -> Opened {
    let (unit_ns, guess) = match opening.options.time_unit_ns {
        Some(unit_ns) => (unit_ns, None),
        None if has_decimals(opening.stream.first_bytes()) => (1_000_000, Some(AS_MILLISECONDS)),
        None => (1, Some(AS_NANOSECONDS)),
    };
    let block = opening.options.block_size.map_or(SECTOR, |block| block.0);
    let facts = Facts {
        format: "DiskSim ASCII trace",
        columns: Columns::default(),
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let is_guessed = opening.options.format.is_none();
    let parser = Parser { unit_ns, is_guessed, guess, block, devices: Numbered::default() };
    import::lines(opening, parser, facts, "its lines look like '938513000 4 264719034 16 0'")
}

struct Parser {
    unit_ns: i64,
    /// Whether the format was guessed from the lines alone.
    is_guessed: bool,
    guess: Option<Topic<'static>>,
    /// The unit of addresses and lengths in bytes.
    block: u64,
    devices: Numbered,
}

impl Delimited for Parser {
    type Row<'a> = OnVolume;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<OnVolume, Fault> {
        parse(line, self.unit_ns, self.block)
    }

    #[inline]
    fn give(&mut self, row: OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        self.devices.give(row, intake)
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(self.is_guessed, AS_SIMULATOR);
        self.guess.into_iter().for_each(|guess| told.guess_all(true, guess));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::ReadOptions;
    use crate::formats::reading::{read, read_with, recognised};

    /// From a trace that comes with `MQSim`.
    const TPCC: &str = "938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n";

    #[test]
    fn five_numbers_are_a_simulators_only_if_they_look_like_its_own() {
        assert_eq!(recognised(TPCC), Some("disksim"));
        assert_eq!(recognised("0.000000 0 9 8 1\n0.5 0 17 8 0x0\n"), Some("disksim"));
        let lines = |line: &dyn Fn(usize) -> String| (0..40).map(line).collect::<String>();
        let with_flags =
            |flags: [&str; 4]| lines(&|n| format!("{n}.25 1 {} 8 {}\n", n * 8, flags[n % 4]));
        assert_eq!(recognised(&with_flags(["0", "1", "3", "2"])), Some("disksim"));
        for text in [
            "1 2 3 4 5\n6 7 8 9 10\n".to_owned(),
            // Other flags need more lines, and must not differ on each line.
            "1 0 8 8 3\n2 0 8 8 2\n".to_owned(),
            lines(&|n| format!("{n} 0 {n} 8 {n}\n")),
            with_flags(["3fc", "3fd", "3fc", "3fd"]),
            // Arrivals that fall, lengths of zero and beyond any limit, devices beyond any limit.
            lines(&|n| format!("{} 0 {n} 8 1\n", 99 - n)),
            "1 0 8 0 1\n2 0 8 0 0\n".to_owned(),
            "1 0 8 264719034 1\n2 0 8 264719034 0\n".to_owned(),
            "1 264719034 8 8 1\n".to_owned(),
        ] {
            assert_eq!(recognised(&text), None, "{text}");
        }
    }

    #[test]
    fn that_it_was_a_guess_is_told_unless_it_was_said() {
        let (requests, header) = read(&FORMAT, TPCC);
        assert_eq!(requests.len(), 2);
        assert_eq!(header.guesses.count_of(AS_SIMULATOR), 2);
        let options = ReadOptions { format: Some(&FORMAT), ..ReadOptions::default() };
        let (_, header) = read_with(&FORMAT, "1 2 3 4 5\n", &options);
        assert_eq!(
            (header.guesses.count_of(AS_SIMULATOR), header.imported.unwrap().requests),
            (0, 1)
        );
    }
}
