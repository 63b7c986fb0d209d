//! A trace that must be held whole, on disk.
//!
//! Some transforms need the end of a trace before they can return its beginning: the heaviest five
//! minutes, the reversed trace, repetition. A trace of a whole day does not fit into memory. So the
//! requests go into a temporary file without a name, which disappears with the process in any case.
//!
//! Every row takes the same number of bytes, and rows lie column by column in chunks of
//! [`CHUNK_ROWS`]. So the place of a row follows from its number, and no index is held. The file is
//! read from any row in either direction, and the instants can be read alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::batch::{BATCH_ROWS, Batch, Columns};
use crate::error::TraceError;
use crate::request::{Flags, Op};
use crate::stream::Source;
use crate::units::Bytes;

/// The number of rows in a chunk; only the last chunk may hold less.
pub const CHUNK_ROWS: u64 = BATCH_ROWS as u64;

/// Requests held in a temporary file.
#[derive(Debug)]
pub struct Spill {
    directory: PathBuf,
    file: File,
    columns: Columns,
    /// Chunks in the file.
    chunks: u64,
    /// The chunk that is not full yet; it stays in memory.
    tail: Batch,
    encoded: Vec<u8>,
    /// The number of requests that have a replay's measurement.
    measured: u64,
}

impl Spill {
    /// An empty spill, with its file in `directory`.
    pub fn new(directory: &Path, columns: Columns) -> Result<Self, TraceError> {
        let file = tempfile::tempfile_in(directory).map_err(|error| {
            let text = format!("{error}\n  = help: set TMPDIR to a directory for temporary files");
            TraceError::write(directory, io::Error::new(error.kind(), text))
        })?;
        let (directory, tail) = (directory.to_owned(), Batch::new(columns));
        Ok(Self { directory, file, columns, chunks: 0, tail, encoded: Vec::new(), measured: 0 })
    }

    /// Holds all further requests of `source`.
    pub fn of(source: &mut dyn Source, directory: &Path) -> Result<Self, TraceError> {
        let mut spill = Self::new(directory, source.header().columns)?;
        let mut batch = Batch::new(source.header().columns);
        while source.next_batch(&mut batch)? {
            spill.push(&batch)?;
        }
        Ok(spill)
    }

    /// Adds the requests of `batch` behind those before.
    pub fn push(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.measured += batch.measured_rows();
        let mut from = 0;
        while from < batch.len() {
            let to = batch.len().min(from + BATCH_ROWS - self.tail.len());
            self.tail.append(batch, from, to);
            from = to;
            if self.tail.is_full() {
                self.write_tail()?;
            }
        }
        Ok(())
    }

    fn write_tail(&mut self) -> Result<(), TraceError> {
        self.encoded.clear();
        encode(&self.tail, &mut self.encoded);
        let at = self.chunks * CHUNK_ROWS * row_bytes(self.columns);
        self.file.write_all_at(&self.encoded, at).map_err(|error| self.full(&error))?;
        self.chunks += 1;
        self.tail.reset(self.columns);
        Ok(())
    }

    /// The error of a full disk.
    fn full(&self, error: &io::Error) -> TraceError {
        let row = row_bytes(self.columns);
        let text = format!(
            "{error}\n  = note: the trace is held in a temporary file there, {row} bytes for each \
             request: the first {} requests need {}, and more follow\n  = help: set TMPDIR to a \
             directory with more room, or cut the trace first (`window`)",
            self.rows(),
            Bytes(self.rows() * row)
        );
        TraceError::write(&self.directory, io::Error::new(error.kind(), text))
    }

    /// The number of requests held.
    pub fn rows(&self) -> u64 {
        self.chunks * CHUNK_ROWS + self.tail.len() as u64
    }

    /// The number of held requests that have a replay's measurement.
    pub(crate) fn measured_rows(&self) -> u64 {
        self.measured
    }

    /// The columns of the rows.
    pub fn columns(&self) -> Columns {
        self.columns
    }

    /// Empties `batch` and fills it with the rows from `from` on, up to but not including row `to`.
    /// It goes no further than the chunk in which `from` lies. Answers the number of these rows: 0
    /// if `from` is not before `to` or lies behind the last row.
    ///
    /// Forwards, `from` grows by the answer; backwards, chunks are asked for from the last one.
    pub fn read(&self, from: u64, to: u64, batch: &mut Batch) -> Result<u64, TraceError> {
        batch.reset(self.columns);
        let to = to.min(self.rows());
        if from >= to {
            return Ok(0);
        }
        let chunk = from / CHUNK_ROWS;
        let start = chunk * CHUNK_ROWS;
        let (first, last) = ((from - start) as usize, (to - start).min(CHUNK_ROWS) as usize);
        if chunk == self.chunks {
            batch.append(&self.tail, first, last);
        } else {
            decode(&self.rows_of(chunk, first, last)?, last - first, batch);
        }
        Ok((last - first) as u64)
    }

    /// Empties `issue_ns` and fills it with the instants of chunk number `chunk`, in nanoseconds.
    /// It stays empty for a number behind the last chunk.
    pub fn read_instants(&self, chunk: u64, issue_ns: &mut Vec<i64>) -> Result<(), TraceError> {
        issue_ns.clear();
        if chunk < self.chunks {
            let mut encoded = vec![0; CHUNK_ROWS as usize * size_of::<i64>()];
            self.read_at(&mut encoded, chunk * CHUNK_ROWS * row_bytes(self.columns))?;
            Decoder { encoded: &encoded, rows: BATCH_ROWS }.column(issue_ns, i64::from_le_bytes);
        } else if chunk == self.chunks {
            issue_ns.extend_from_slice(&self.tail.issue_ns);
        }
        Ok(())
    }

    /// The rows from `first` up to but not including `last` of a full chunk, encoded as a chunk is.
    fn rows_of(&self, chunk: u64, first: usize, last: usize) -> Result<Vec<u8>, TraceError> {
        let mut encoded = vec![0; (last - first) * row_bytes(self.columns) as usize];
        let mut at = chunk * CHUNK_ROWS * row_bytes(self.columns);
        if last - first == BATCH_ROWS {
            self.read_at(&mut encoded, at)?;
            return Ok(encoded);
        }
        let mut rest = &mut encoded[..];
        for width in widths(self.columns) {
            let (column, others) = rest.split_at_mut((last - first) * width);
            self.read_at(column, at + (first * width) as u64)?;
            at += CHUNK_ROWS * width as u64;
            rest = others;
        }
        Ok(encoded)
    }

    fn read_at(&self, encoded: &mut [u8], at: u64) -> Result<(), TraceError> {
        self.file
            .read_exact_at(encoded, at)
            .map_err(|error| TraceError::read(&self.directory, error))
    }
}

/// The size of a row in bytes.
fn row_bytes(columns: Columns) -> u64 {
    widths(columns).sum::<usize>() as u64
}

/// The sizes of the values of each column, in the order in which columns are encoded.
fn widths(columns: Columns) -> impl Iterator<Item = usize> {
    const LATENCY: &[usize] = &[8];
    const ORIGIN: &[usize] = &[4, 4];
    const MEASURED: &[usize] = &[8, 8, 8, 8, 4, 4, 1, 1, 2, 1, 4, 2];
    let optional =
        [(columns.latency, LATENCY), (columns.origin, ORIGIN), (columns.measured, MEASURED)];
    let optional = optional.into_iter().filter(|(is_there, _)| *is_there);
    [8, 8, 8, 4, 2, 1].into_iter().chain(optional.flat_map(|(_, widths)| widths.iter().copied()))
}

/// Appends the columns of `batch`, one behind the other, the instants first.
fn encode(batch: &Batch, into: &mut Vec<u8>) {
    fn put<T: Copy, const N: usize>(into: &mut Vec<u8>, column: &[T], bytes: fn(T) -> [u8; N]) {
        for value in column {
            into.extend_from_slice(&bytes(*value));
        }
    }
    put(into, &batch.issue_ns, i64::to_le_bytes);
    put(into, &batch.offset_bytes, u64::to_le_bytes);
    put(into, &batch.length_bytes, u64::to_le_bytes);
    put(into, &batch.volume, u32::to_le_bytes);
    put(into, &batch.flags, |flags| flags.bits().to_le_bytes());
    put(into, &batch.op, |op| [op.code()]);
    if let Some(column) = &batch.latency_ns {
        put(into, column, i64::to_le_bytes);
    }
    if let Some(origin) = &batch.origin {
        put(into, &origin.pid, u32::to_le_bytes);
        put(into, &origin.cpu, u32::to_le_bytes);
    }
    if let Some(measured) = &batch.measured {
        put(into, &measured.scheduled_ns, i64::to_le_bytes);
        put(into, &measured.submitted_ns, i64::to_le_bytes);
        put(into, &measured.completed_ns, i64::to_le_bytes);
        put(into, &measured.target_offset_bytes, i64::to_le_bytes);
        put(into, &measured.in_flight, u32::to_le_bytes);
        put(into, &measured.outcome, i32::to_le_bytes);
        put(into, &measured.pushed_back, |pushed_back| [u8::from(pushed_back)]);
        put(into, &measured.late_cause, |cause| [cause]);
        put(into, &measured.target, u16::to_le_bytes);
        put(into, &measured.integrity, |integrity| [integrity]);
        put(into, &measured.behind, u32::to_le_bytes);
        put(into, &measured.flow, u16::to_le_bytes);
    }
}

/// Takes one column after the other out of so many encoded rows.
struct Decoder<'a> {
    encoded: &'a [u8],
    rows: usize,
}

impl Decoder<'_> {
    fn column<T, const N: usize>(&mut self, into: &mut Vec<T>, value: impl Fn([u8; N]) -> T) {
        let (column, rest) = self.encoded.split_at(self.rows * N);
        self.encoded = rest;
        let (values, _) = column.as_chunks::<N>();
        into.extend(values.iter().map(|bytes| value(*bytes)));
    }
}

/// Appends so many encoded rows to `batch`, which has their columns.
fn decode(encoded: &[u8], rows: usize, batch: &mut Batch) {
    let mut decoder = Decoder { encoded, rows };
    decoder.column(&mut batch.issue_ns, i64::from_le_bytes);
    decoder.column(&mut batch.offset_bytes, u64::from_le_bytes);
    decoder.column(&mut batch.length_bytes, u64::from_le_bytes);
    decoder.column(&mut batch.volume, u32::from_le_bytes);
    decoder.column(&mut batch.flags, |bits| Flags::from_bits_retain(u16::from_le_bytes(bits)));
    decoder.column(&mut batch.op, |[code]| Op::from_code(code).unwrap_or(Op::Zone));
    if let Some(column) = &mut batch.latency_ns {
        decoder.column(column, i64::from_le_bytes);
    }
    if let Some(origin) = &mut batch.origin {
        decoder.column(&mut origin.pid, u32::from_le_bytes);
        decoder.column(&mut origin.cpu, u32::from_le_bytes);
    }
    if let Some(measured) = &mut batch.measured {
        decoder.column(&mut measured.scheduled_ns, i64::from_le_bytes);
        decoder.column(&mut measured.submitted_ns, i64::from_le_bytes);
        decoder.column(&mut measured.completed_ns, i64::from_le_bytes);
        decoder.column(&mut measured.target_offset_bytes, i64::from_le_bytes);
        decoder.column(&mut measured.in_flight, u32::from_le_bytes);
        decoder.column(&mut measured.outcome, i32::from_le_bytes);
        decoder.column(&mut measured.pushed_back, |[pushed_back]| pushed_back != 0);
        decoder.column(&mut measured.late_cause, |[cause]| cause);
        decoder.column(&mut measured.target, u16::from_le_bytes);
        decoder.column(&mut measured.integrity, |[integrity]| integrity);
        decoder.column(&mut measured.behind, u32::from_le_bytes);
        decoder.column(&mut measured.flow, u16::from_le_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use crate::batch::tests::any_request;
    use crate::transform::tests::Given;
    use proptest::prelude::*;

    /// As many requests as take more than two chunks, out of a few.
    fn many(few: &[Request], count: usize) -> Vec<Request> {
        few.iter().cycle().take(count).copied().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_was_held_is_given_back_from_any_row_and_any_number_of_times(
            few in proptest::collection::vec(any_request(), 1..40),
            count in 0_usize..20_000, rows in 1_usize..9000, from in 0_usize..20_000,
            length in 0_usize..20_000,
        ) {
            let requests = many(&few, count);
            let directory = tempfile::tempdir().unwrap();
            let spill = Spill::of(&mut Given::new(&requests, rows), directory.path()).unwrap();
            prop_assert_eq!(spill.rows(), count as u64);
            let mut batch = Batch::default();
            for _ in 0..2 {
                let mut all = Vec::new();
                let mut next = from as u64;
                let to = (from + length) as u64;
                loop {
                    let given = spill.read(next, to, &mut batch).unwrap();
                    prop_assert_eq!(given, batch.len() as u64);
                    if given == 0 {
                        break;
                    }
                    all.extend(batch.iter());
                    next += given;
                }
                let (from, to) = (from.min(count), (from + length).min(count));
                prop_assert_eq!(&all[..], &requests[from..to]);
            }
        }

        #[test]
        fn chunks_are_read_backwards_too_and_instants_alone(
            few in proptest::collection::vec(any_request(), 1..40), count in 0_usize..20_000,
        ) {
            let requests = many(&few, count);
            let directory = tempfile::tempdir().unwrap();
            let spill = Spill::of(&mut Given::new(&requests, 5000), directory.path()).unwrap();
            let (mut batch, mut instants) = (Batch::default(), Vec::new());
            let mut backwards = Vec::new();
            for chunk in (0..spill.rows().div_ceil(CHUNK_ROWS)).rev() {
                spill.read(chunk * CHUNK_ROWS, u64::MAX, &mut batch).unwrap();
                spill.read_instants(chunk, &mut instants).unwrap();
                prop_assert_eq!(&instants[..], batch.issue_ns());
                backwards.extend((0..batch.len()).rev().map(|row| batch.get(row)));
            }
            backwards.reverse();
            prop_assert_eq!(backwards, requests);
        }
    }

    #[test]
    fn the_file_has_no_name_and_a_place_that_is_not_there_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::new(directory.path(), Columns::default()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(spill.columns(), Columns::default());
        let error = Spill::new(&directory.path().join("x"), Columns::default()).unwrap_err();
        assert!(error.is_io() && error.to_string().contains("TMPDIR"), "{error}");
    }

    #[test]
    fn a_full_disk_is_told_with_what_was_needed() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(directory.path(), Columns::default()).unwrap();
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        spill.file = full;
        let request = Request::new(crate::Nanos(0), Op::Read, Bytes(0), Bytes(512));
        let mut batch = Batch::default();
        batch.extend(&many(&[request], BATCH_ROWS));
        let error = spill.push(&batch).unwrap_err().to_string();
        assert!(error.contains("the first 8192 requests need 248 KiB"), "{error}");
        assert!(error.contains("31 bytes for each request"), "{error}");
    }
}
