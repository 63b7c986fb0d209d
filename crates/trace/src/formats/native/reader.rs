//! Reading a native file, a batch of rows at a time.
//!
//! The file may be damaged, newer than this program, or made by another one, and the library panics
//! on some damage. So every call into it is guarded, and every refusal gives its reason.

use std::collections::BTreeSet;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::checksums::Checksums;
use super::columns::{
    Fault, GroupColumns, check, check_flushes, check_order, check_ranges, check_start, unknown,
};
use super::footer::{check_codecs, check_places, is_unsigned, layout};
use super::names::UnknownName;
use super::pages::column_reader;
use super::schema::{COLUMNS, Column, KEY_HEADER, KEY_ORDER, KEY_VERSION, ORDER};
use super::{Scratch, VERSION, into_io};
use crate::batch::{BATCH_ROWS, Batch, UNKNOWN};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::header::{Header, NoteKind, Volume};
use crate::order::sort::Sorted;
use crate::request::{Flags, Integrity, LateCause, Op, Outcome};
use crate::stream::Source;
use crate::units::{Nanos, VolumeId};
use crate::wording::Wording;

/// The loss of dependencies in a trace that is made of one.
pub(super) const UNREAD_DEPENDENCIES: &str =
    "columns that say which requests wait for which, which were not taken over";

/// Opens a native file.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    let reader = Reader::open(path, options)?;
    // Tools that write a trace back, such as DuckDB, do not promise an order.
    Ok(if reader.ordered { Box::new(reader) } else { Box::new(Sorted::new(reader, options.order)) })
}

/// Opens part `part`, counted from 0, of a native file cut into `of` parts: consecutive row groups;
/// together the parts are the whole file. Each part can be read by another thread. `None` for a
/// file that does not state that its rows are in order: it must be sorted, and so read as a whole.
pub fn open_part(
    path: &Path,
    options: &ReadOptions,
    part: usize,
    of: usize,
) -> Result<Option<Box<dyn Source>>, TraceError> {
    let mut reader = Reader::open(path, options)?;
    if !reader.ordered {
        return Ok(None);
    }
    let groups = reader.file.num_row_groups();
    let begin = |part: usize| groups * part.min(of) / of.max(1);
    (reader.next_group, reader.end_group) = (begin(part), begin(part + 1));
    let before = &reader.file.metadata().row_groups()[..reader.next_group];
    reader.row = before.iter().map(|group| group.num_rows().max(0) as u64).sum();
    Ok(Some(Box::new(reader)))
}

/// What the footer of a native file says of it, for whoever needs to know that the file is its own.
#[derive(Debug)]
pub struct Claims {
    /// `None` if it has none: another program wrote it, or its footer is damaged.
    pub header: Option<Header>,
    /// Rows.
    pub rows: u64,
    /// Whether damage would be noticed.
    pub has_checksums: bool,
}

/// Reads what the footer of the native file says, and compares the footer with its checksum.
pub fn claims(path: &Path) -> Result<Claims, TraceError> {
    let (file, checksums) = opened(path)?;
    let metadata = file.metadata();
    let rows = metadata.row_groups().iter().map(|group| group.num_rows().max(0) as u64).sum();
    Ok(Claims { header: header_of(path, metadata)?, rows, has_checksums: checksums.is_some() })
}

/// Opens a native file and checks its footer.
fn opened(path: &Path) -> Result<(SerializedFileReader<File>, Option<Checksums>), TraceError> {
    let file = File::open(path).map_err(|error| TraceError::read(path, error))?;
    let length = file.metadata().map_err(|error| TraceError::read(path, error))?.len();
    let summed = file.try_clone().map_err(|error| TraceError::read(path, error))?;
    let file =
        guarded(|| SerializedFileReader::new(file)).map_err(|error| unreadable(path, error))?;
    let metadata = file.metadata();
    let checksums = guarded(|| Checksums::of(summed, length, metadata))
        .map_err(|error| unreadable(path, error))?;
    check_places(metadata, length)
        .map_err(|reason| unusable(path, reason, "the file is damaged: get it again"))?;
    if let Some(version) = value_of(metadata, KEY_VERSION) {
        check_version(version).map_err(|(reason, remedy)| unusable(path, reason, remedy))?;
    }
    Ok((file, checksums))
}

fn unusable(path: &Path, reason: String, remedy: &'static str) -> TraceError {
    TraceError::Unusable { path: path.to_owned(), reason, remedy: remedy.into() }
}

/// The value of a key of the footer.
fn value_of<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn header_of(path: &Path, metadata: &ParquetMetaData) -> Result<Option<Header>, TraceError> {
    let header = value_of(metadata, KEY_HEADER).map(Header::from_json).transpose();
    header.map_err(|error| {
        unusable(path, format!("its header is not readable: {error}"), "get the file again")
    })
}

impl Reader {
    fn open(path: &Path, options: &ReadOptions) -> Result<Self, TraceError> {
        let (file, checksums) = opened(path)?;
        let metadata = file.metadata();
        let (mut indices, columns, others) = layout(metadata).map_err(|reason| {
            unusable(path, reason, "a trace has the columns that docs/formats.md describes")
        })?;
        let mut header = match header_of(path, metadata)? {
            Some(header) => header,
            // Damage is reported when the rows are read; until then the volumes are unknown.
            None => headless(path, guarded(|| volumes_of(&file, &indices)).unwrap_or_default()),
        };
        header.columns = columns;
        if columns.dependencies && !options.reads_dependencies() {
            header.columns.dependencies = false;
            if options.into_another {
                let what = NoteKind::Beside.of(UNREAD_DEPENDENCIES);
                header.losses.add(what, 1, None);
            }
            for column in [Column::Id, Column::Think, Column::Parents] {
                indices[column as usize] = None;
            }
        }
        if !options.reads_dependencies() {
            indices[Column::Behind as usize] = None;
        }
        if checksums.is_none() {
            header.guesses.add(
                NoteKind::Assumed.of("missing checksums; a damaged file may pass unnoticed"),
                1,
                None,
            );
        }
        for other in others {
            header.losses.add(
                NoteKind::Beside.of("columns that a trace does not have"),
                1,
                Some(other),
            );
        }
        check_codecs(metadata, &indices).map_err(|reason| {
            let remedy = "write it with zstd, snappy or gzip; in pandas: \
                          to_parquet(..., compression='zstd')";
            unusable(path, reason, remedy)
        })?;
        let ordered = value_of(metadata, KEY_ORDER) == Some(ORDER);
        let end_group = file.num_row_groups();
        let unsigned = is_unsigned(file.metadata(), indices[Column::Offset as usize]);
        Ok(Self {
            unsigned,
            path: path.to_owned(),
            strict: options.strict,
            file,
            checksums,
            header,
            indices,
            readers: Vec::new(),
            next_group: 0,
            end_group,
            rows_left: 0,
            row: 0,
            ordered,
            latest: i64::MIN,
            failed: false,
            scratch: Scratch::default(),
        })
    }
}

/// Refuses a version that this program cannot read, with the remedy.
fn check_version(version: &str) -> Result<(), (String, &'static str)> {
    match version.parse::<u32>() {
        Ok(1..=VERSION) => Ok(()),
        Ok(newer) if newer > VERSION => Err((
            format!(
                "a newer ioecho wrote it: its format has version {newer}, and this program reads \
                 versions up to {VERSION}"
            ),
            "update ioecho, or convert the file with the one that wrote it",
        )),
        _ => Err((
            format!("'{version}' is no version of ioecho's format"),
            "was its footer edited? Get the file again",
        )),
    }
}

/// The largest number of volumes in a file without a header; garbage must not fill the memory with
/// them.
const VOLUMES_MAX: usize = 1 << 14;

/// The volumes of the requests of a file without a header, by reading that column alone. A replay
/// needs them before the first request is read, to decide where requests go.
fn volumes_of(
    file: &SerializedFileReader<File>,
    indices: &[Option<usize>; COLUMNS],
) -> Result<Vec<Volume>, ParquetError> {
    let mut found = BTreeSet::new();
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number)?;
        let Some(index) = indices[Column::Volume as usize] else { break };
        let mut readers: Vec<Option<ColumnReader>> = Column::ALL.iter().map(|_| None).collect();
        readers[Column::Volume as usize] = Some(column_reader(&*group, Column::Volume, index)?);
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let mut rows_left = usize::try_from(group.metadata().num_rows())?;
        while rows_left > 0 && found.len() <= VOLUMES_MAX {
            let rows = rows_left.min(BATCH_ROWS);
            rows_left -= rows;
            let mut column =
                GroupColumns { readers: &mut readers, rows, unsigned: false, list_level: 0 };
            match column.ints(Column::Volume, &mut values, &mut levels, None) {
                Ok(()) => found.extend(values.iter().map(|volume| *volume as u32)),
                Err(Fault::Library(error)) => return Err(error),
                // The fault is reported when its row is read.
                Err(Fault::Value(..)) => break,
            }
        }
    }
    let named = found.into_iter().take(VOLUMES_MAX);
    Ok(named.map(|id| Volume { id: VolumeId(id), ..Volume::default() }).collect())
}

/// The header of a file with the right columns that another program wrote.
fn headless(path: &Path, volumes: Vec<Volume>) -> Header {
    let mut header = Header {
        source: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        format: "Parquet with ioecho's columns".to_owned(),
        volumes,
        ..Header::default()
    };
    header.guesses.add(
        NoteKind::Assumed.of("missing headers; nothing is known of the origin"),
        1,
        None,
    );
    header
}

/// Runs a piece of the library, whose decoders panic on some damaged files: to a caller a damaged
/// file is an error like any other.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".to_owned())))
}

fn unreadable(path: &Path, error: ParquetError) -> TraceError {
    let error = into_io(error);
    if error.raw_os_error().is_some() {
        return TraceError::read(path, error);
    }
    TraceError::Unusable {
        path: path.to_owned(),
        reason: format!("it begins as a Parquet file and is damaged or cut short: {error}"),
        remedy: "get the file again; a Parquet file without its end cannot be read".into(),
    }
}

/// A native file that is being read.
struct Reader {
    path: PathBuf,
    /// Whether damage is an error.
    strict: bool,
    file: SerializedFileReader<File>,
    checksums: Option<Checksums>,
    header: Header,
    indices: [Option<usize>; COLUMNS],
    /// Whether sizes are unsigned numbers.
    unsigned: bool,
    /// The columns of the row group at hand, by the number of the column.
    readers: Vec<Option<ColumnReader>>,
    next_group: usize,
    /// The number of the row group at which reading ends.
    end_group: usize,
    /// The number of rows of the open row group that are not read yet.
    rows_left: usize,
    /// The number of rows read.
    row: u64,
    /// Whether the file states that its rows are in order.
    ordered: bool,
    /// The last instant that was given, in nanoseconds.
    latest: i64,
    failed: bool,
    scratch: Scratch,
}

impl Reader {
    /// Goes on to the next row group that has rows; answers whether there is one.
    fn next_group(&mut self) -> Result<bool, ParquetError> {
        while self.rows_left == 0 {
            if self.next_group >= self.end_group {
                return Ok(false);
            }
            let number = self.next_group;
            self.next_group += 1;
            if let Some(checksums) = &self.checksums {
                checksums.check(number)?;
            }
            let group = self.file.get_row_group(number)?;
            self.rows_left = usize::try_from(group.metadata().num_rows())?;
            self.readers.clear();
            for (column, index) in Column::ALL.into_iter().zip(self.indices) {
                let reader = index.map(|index| column_reader(&*group, column, index));
                self.readers.push(reader.transpose()?);
            }
        }
        Ok(true)
    }

    /// Ends the file within the open row group: with an error, or with damage noted in the header.
    fn break_off(&mut self, error: ParquetError) -> Result<bool, TraceError> {
        let error = into_io(error);
        if error.raw_os_error().is_some() {
            return Err(TraceError::read(&self.path, error));
        }
        let number = self.next_group.saturating_sub(1);
        let columns = self.file.metadata().row_group(number).columns();
        // Places that were checked when the file was opened.
        let ranges = || columns.iter().map(ColumnChunkMetaData::byte_range);
        let start = ranges().map(|(start, _)| start).min().unwrap_or(0);
        let end = ranges().map(|(start, bytes)| start + bytes).max().unwrap_or(0);
        let reason = format!(
            "row group {number} (bytes {start} to {end}) is damaged, which is where row {} is: \
             {error}",
            self.row
        );
        if self.strict {
            return Err(TraceError::Unusable {
                path: self.path.clone(),
                reason,
                remedy: Wording::from("get the file again; without ")
                    .setting("strict")
                    .text(" everything before this place is read"),
            });
        }
        self.header.damaged(format!("{}: {reason}", self.path.display()));
        Ok(false)
    }

    fn fill(&mut self, batch: &mut Batch, rows: usize) -> Result<(), Fault> {
        let descriptor = self.file.metadata().file_metadata().schema_descr();
        let list_level = self.indices[Column::Parents as usize]
            .map_or(0, |index| descriptor.column(index).max_def_level());
        let unsigned = self.unsigned;
        let mut columns = GroupColumns { readers: &mut self.readers, rows, unsigned, list_level };
        let Scratch { longs, ints, bools, levels, repeats } = &mut self.scratch;
        columns.longs(Column::Issue, &mut batch.issue_ns, levels, None)?;
        check_start(&batch.issue_ns)?;
        if self.ordered {
            check_order(&batch.issue_ns, self.latest)?;
        }

        columns.ints(Column::Op, ints, levels, None)?;
        check(ints, |code| code < Op::ALL.len() as u32, "op")?;
        batch.op.extend(ints.iter().map(|code| Op::from_code(*code as u8).unwrap_or(Op::Read)));

        columns.ints(Column::Flags, ints, levels, None)?;
        check(ints, |bits| bits & !u32::from(Flags::all().bits()) == 0, "flags")?;
        batch.flags.extend(ints.iter().map(|bits| Flags::from_bits_retain(*bits as u16)));

        columns.longs(Column::Offset, longs, levels, None)?;
        batch.offset_bytes.extend(longs.iter().map(|bytes| *bytes as u64));
        columns.longs(Column::Length, longs, levels, None)?;
        batch.length_bytes.extend(longs.iter().map(|bytes| *bytes as u64));
        check_ranges(batch)?;
        check_flushes(batch)?;

        columns.ints(Column::Volume, ints, levels, None)?;
        batch.volume.extend(ints.iter().map(|volume| *volume as u32));

        if let Some(latency) = &mut batch.latency_ns {
            columns.longs(Column::Latency, latency, levels, Some(UNKNOWN))?;
        }
        if let Some(origin) = &mut batch.origin {
            columns.ints(Column::Pid, ints, levels, None)?;
            origin.pid.extend(ints.iter().map(|pid| *pid as u32));
            columns.ints(Column::Cpu, ints, levels, None)?;
            origin.cpu.extend(ints.iter().map(|cpu| *cpu as u32));
        }
        if let Some(measured) = &mut batch.measured {
            columns.longs(Column::Scheduled, &mut measured.scheduled_ns, levels, Some(UNKNOWN))?;
            columns.longs(Column::Submitted, &mut measured.submitted_ns, levels, Some(UNKNOWN))?;
            columns.longs(Column::Completed, &mut measured.completed_ns, levels, Some(UNKNOWN))?;
            let target = &mut measured.target_offset_bytes;
            columns.longs(Column::TargetOffset, target, levels, Some(UNKNOWN))?;
            columns.ints(Column::InFlight, ints, levels, Some(0))?;
            measured.in_flight.extend(ints.iter().map(|number| *number as u32));

            // A row is measured if it was scheduled; then it has an outcome, which is never
            // invented.
            columns.ints(Column::Outcome, ints, levels, Some(i32::MIN))?;
            for (row, outcome) in ints.iter_mut().enumerate() {
                if measured.scheduled_ns[row] == UNKNOWN {
                    *outcome = 0;
                } else if *outcome == i32::MIN {
                    return Err(Fault::Value(row, "it has scheduled_ns and no outcome".to_owned()));
                } else if Outcome::from_code(*outcome).is_none() {
                    return Err(unknown(row, "outcome", *outcome));
                }
            }
            measured.outcome.extend_from_slice(ints);

            columns.bools(bools, levels)?;
            measured.pushed_back.extend_from_slice(bools);
            columns.ints(Column::LateCause, ints, levels, Some(0))?;
            check(ints, |code| code < LateCause::ALL.len() as u32, "late_cause")?;
            measured.late_cause.extend(ints.iter().map(|code| *code as u8));

            // Runs of the first version have neither: they had one target and verified nothing.
            columns.ints(Column::Target, ints, levels, Some(0))?;
            check(ints, |target| u16::try_from(target).is_ok(), "target")?;
            measured.target.extend(ints.iter().map(|target| *target as u16));
            columns.ints(Column::Integrity, ints, levels, Some(0))?;
            check(ints, |code| code < Integrity::ALL.len() as u32, "integrity")?;
            measured.integrity.extend(ints.iter().map(|code| *code as u8));
            columns.ints(Column::Behind, ints, levels, Some(0))?;
            check(ints, |rows| i32::try_from(rows).is_ok(), "behind_rows")?;
            measured.behind.extend(ints.iter().map(|rows| *rows as u32));
            columns.ints(Column::Flow, ints, levels, Some(0))?;
            check(ints, |flow| u16::try_from(flow).is_ok(), "flow")?;
            measured.flow.extend(ints.iter().map(|flow| *flow as u16));
        }
        if let Some(dependencies) = &mut batch.dependencies {
            columns.longs(Column::Id, longs, levels, None)?;
            dependencies.id.extend(longs.iter().map(|id| *id as u64));
            columns.longs(Column::Think, longs, levels, Some(UNKNOWN))?;
            let think = |ns: &i64| (*ns != UNKNOWN).then_some(Nanos(*ns));
            dependencies.think.extend(longs.iter().map(think));
            let ends = &mut dependencies.ends;
            columns.lists(Column::Parents, longs, levels, repeats, ends)?;
            dependencies.parents.extend(longs.iter().map(|id| *id as u64));
        }
        Ok(())
    }
}

impl Source for Reader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        if self.failed {
            return Ok(false);
        }
        // Cleared on success: after an error nothing more can be read.
        self.failed = true;
        match guarded(|| self.next_group()) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return self.break_off(error),
        }
        let rows = self.rows_left.min(BATCH_ROWS);
        let mut fault = None;
        let filled = guarded(|| match self.fill(batch, rows) {
            Ok(()) => Ok(()),
            Err(Fault::Library(ParquetError::External(name))) if name.is::<UnknownName>() => {
                fault = Some((0, name.to_string()));
                Ok(())
            }
            Err(Fault::Library(error)) => Err(error),
            Err(Fault::Value(row, reason)) => {
                fault = Some((row, reason));
                Ok(())
            }
        });
        if let Err(error) = filled {
            batch.reset(self.header.columns);
            return self.break_off(error);
        }
        if let Some((row, reason)) = fault {
            batch.reset(self.header.columns);
            return Err(TraceError::Row {
                path: self.path.clone(),
                row: self.row + row as u64,
                reason,
                remedy: "docs/formats.md says what the columns hold".into(),
            });
        }
        self.rows_left -= rows;
        self.row += rows as u64;
        self.latest = batch.issue_ns.last().copied().unwrap_or(self.latest);
        self.failed = false;
        Ok(true)
    }
}
