//! Written traces are read back unchanged, and unreadable ones are refused with the reason.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Encoding, GzipLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use proptest::prelude::*;

use super::columns::{Fault, check_order, check_unknown};
use super::schema::{
    Column, KEY_CODES, KEY_CRC_FOOTER, KEY_CRC_GROUPS, KEY_HEADER, KEY_ORDER, KEY_VERSION, ORDER,
};
use super::writer::{BEYOND, GROUP_ROWS};
use super::{create, open, open_part};
use crate::batch::tests::any_request;
use crate::batch::{Batch, Columns, UNKNOWN};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::header::{Header, NoteKind};
use crate::{Bytes, Flags, Integrity, Measured, Nanos, Op, Request, VolumeId};

mod links;

fn header(columns: Columns) -> Header {
    let mut header = Header { columns, ..Header::default() };
    "a file".clone_into(&mut header.source);
    header.losses.add(NoteKind::Unreadable.of("junk lines"), 3, Some("line 1: ;".to_owned()));
    header.processes.insert(7, "mysqld".to_owned());
    header
}

/// Writes requests in batches of `rows`.
fn write(path: &Path, columns: Columns, requests: &[Request], rows: usize) {
    let header = header(columns);
    let mut sink = create(path, &header).unwrap();
    for chunk in requests.chunks(rows) {
        let mut batch = Batch::new(columns);
        batch.extend(chunk);
        sink.write(&batch).unwrap();
    }
    assert!(!path.exists());
    assert!(sink.finish(&header).unwrap().lost.is_empty());
}

fn read(path: &Path) -> Result<(Vec<Request>, Header), TraceError> {
    read_with(path, false)
}

fn read_with(path: &Path, strict: bool) -> Result<(Vec<Request>, Header), TraceError> {
    let mut source = open(path, &ReadOptions { strict, ..ReadOptions::default() })?;
    let mut batch = Batch::default();
    let mut all = Vec::new();
    while source.next_batch(&mut batch)? {
        assert!(!batch.is_empty());
        all.extend(batch.iter());
    }
    Ok((all, source.header().clone()))
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.parquet");
    (directory, path)
}

/// The part of `request` that a trace with these columns keeps, for readers that do not ask who
/// waited for whom.
fn kept(request: &Request, columns: Columns) -> Request {
    Request {
        latency: request.latency.filter(|_| columns.latency),
        origin: request.origin.filter(|_| columns.origin),
        measured: request
            .measured
            .filter(|_| columns.measured)
            .map(|measured| Measured { behind: 0, ..measured }),
        ..*request
    }
}

prop_compose! {
    fn any_columns()(bits in 0_u8..8) -> Columns {
        Columns {
            latency: bits & 1 != 0,
            origin: bits & 2 != 0,
            measured: bits & 4 != 0,
            dependencies: false,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_what_is_read_with_any_columns(
        mut requests in proptest::collection::vec((any_request(), any::<bool>()), 0..200),
        columns in any_columns(), rows in 1_usize..100,
    ) {
        requests.sort_by_key(|(request, _)| request.issue);
        let requests: Vec<_> = requests.into_iter().map(|(mut request, is_measured)| {
            request.measured = request.measured.filter(|_| is_measured);
            kept(&request, columns)
        }).collect();
        let (_directory, path) = file();
        write(&path, columns, &requests, rows);
        let (all, found) = read(&path).unwrap();
        prop_assert_eq!(all, requests);
        prop_assert_eq!(found, header(columns));
    }
}

fn some_requests(count: i64) -> Vec<Request> {
    (0..count)
        .map(|n| {
            let offset = Bytes((n as u64 * 7919 % 1_000_003) * 512);
            let op = if n % 3 == 0 { Op::Read } else { Op::Write };
            let mut request = Request::new(Nanos(n * 1000), op, offset, Bytes(4096));
            request.latency = (n % 5 != 0).then_some(Nanos(n));
            request
        })
        .collect()
}

const WITH_LATENCY: Columns =
    Columns { latency: true, origin: false, measured: false, dependencies: false };

#[test]
fn row_groups_and_pages_follow_each_other_without_a_seam() {
    let (_directory, path) = file();
    let requests = some_requests(GROUP_ROWS as i64 * 2 + 12_345);
    write(&path, WITH_LATENCY, &requests, 5000);
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(file.num_row_groups(), 3);
    assert!(read(&path).unwrap().0 == requests);
}

#[test]
fn rows_out_of_order_are_sorted_and_told() {
    let (_directory, path) = file();
    let mut requests = some_requests(100);
    requests.swap(40, 41);
    write(&path, WITH_LATENCY, &requests, 7);
    let (all, header) = read(&path).unwrap();
    requests.swap(40, 41);
    assert_eq!(all, requests);
    assert_eq!(header.guesses.count_of(crate::order::sort::SORTED), 1);
}

#[test]
fn a_trace_without_a_request_is_one() {
    let (_directory, path) = file();
    write(&path, WITH_LATENCY, &[], 1);
    assert_eq!(read(&path).unwrap(), (Vec::new(), header(WITH_LATENCY)));
}

#[test]
fn the_footer_says_version_order_and_codes() {
    let (_directory, path) = file();
    write(&path, Columns::default(), &some_requests(10), 10);
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let pairs = file.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let value =
        |key: &str| pairs.iter().find(|pair| pair.key == key).unwrap().value.clone().unwrap();
    assert_eq!(value(KEY_VERSION), "2");
    assert_eq!(value(KEY_ORDER), "issue_ns");
    let codes: serde_json::Value = serde_json::from_str(&value(KEY_CODES)).unwrap();
    assert_eq!(codes["op"][4], "write-zeroes");
    assert_eq!(codes["flags (a sum of)"]["16"], "readahead");
    assert_eq!(codes["outcome"][6], "crosses the end of the target");
    assert_eq!(codes["late_cause"][2], "in-flight-cap");
    assert_eq!(codes["integrity"][8], "stale");
}

#[test]
fn operations_on_files_are_kept_by_their_names() {
    let (_directory, path) = file();
    let request = |op: Op| Request::new(Nanos(0), op, Bytes(8192), Bytes::ZERO);
    let all: Vec<Request> = Op::ALL.into_iter().map(request).collect();
    write(&path, Columns::default(), &all, 10);
    assert_eq!(read(&path).unwrap().0, all);
    let codes = Column::Op;
    for (op, name) in [(Op::Mkdir, "mkdir"), (Op::Getattr, "getattr"), (Op::Readdir, "readdir")] {
        assert_eq!(codes.name_of(i32::from(op.code())).as_deref(), Some(name));
        assert_eq!(codes.code_of(name), Some(i32::from(op.code())));
    }
    assert_eq!(Op::from_code(Op::ALL.len() as u8), None);
}

/// A file with these columns and one row, as another program might write it.
fn foreign(path: &Path, schema: &str, values: &[(&str, i64)], pairs: &[(&str, &str)]) {
    foreign_rows(path, schema, &[values], pairs);
}

/// As [`foreign`], with several rows, each in a group of its own.
fn foreign_rows(path: &Path, schema: &str, rows: &[&[(&str, i64)]], pairs: &[(&str, &str)]) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    for values in rows {
        let mut group = writer.next_row_group().unwrap();
        let mut values = values.iter();
        while let Some(mut column) = group.next_column().unwrap() {
            let &(_, value) = values.next().unwrap();
            let nullable = column.typed_descr_is_optional();
            let (level, count) = if value == UNKNOWN { ([0], 0) } else { ([1], 1) };
            let levels = nullable.then_some(&level[..]);
            match column.untyped() {
                parquet::column::writer::ColumnWriter::Int64ColumnWriter(writer) => {
                    writer.write_batch(&[value][..count], levels, None).unwrap();
                }
                parquet::column::writer::ColumnWriter::Int32ColumnWriter(writer) => {
                    writer.write_batch(&[value as i32][..count], levels, None).unwrap();
                }
                parquet::column::writer::ColumnWriter::BoolColumnWriter(writer) => {
                    writer.write_batch(&[value != 0][..count], levels, None).unwrap();
                }
                _ => unreachable!("a type that no column of ours has"),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    for (key, value) in pairs {
        let pair = KeyValue::new((*key).to_owned(), Some((*value).to_owned()));
        writer.append_key_value_metadata(pair);
    }
    writer.close().unwrap();
}

trait Descr {
    fn typed_descr_is_optional(&mut self) -> bool;
}

impl Descr for SerializedColumnWriter<'_> {
    fn typed_descr_is_optional(&mut self) -> bool {
        use parquet::column::writer::ColumnWriter;
        match self.untyped() {
            ColumnWriter::Int64ColumnWriter(writer) => writer.get_descriptor().max_def_level(),
            ColumnWriter::Int32ColumnWriter(writer) => writer.get_descriptor().max_def_level(),
            ColumnWriter::BoolColumnWriter(writer) => writer.get_descriptor().max_def_level(),
            _ => 0,
        }
        .is_positive()
    }
}

const SCHEMA: &str = "message m { optional int64 issue_ns; optional int32 op; \
    optional int32 flags; optional int64 offset_bytes; optional int64 length_bytes; \
    optional int32 volume;";
const ROW: [(&str, i64); 6] =
    [("issue_ns", 5), ("op", 1), ("flags", 2), ("offset", 512), ("length", 1024), ("volume", 0)];

fn message(path: &Path) -> String {
    read_with(path, true).unwrap_err().to_string()
}

#[test]
fn a_file_of_another_program_with_the_right_columns_is_a_trace() {
    let (_directory, path) = file();
    let row = [&ROW[..], &[("colour", 3)]].concat();
    foreign(&path, &format!("{SCHEMA} optional int32 colour; }}"), &row, &[]);
    let (all, header) = read(&path).unwrap();
    let mut expected = Request::new(Nanos(5), Op::Write, Bytes(512), Bytes(1024));
    expected.flags = Flags::FUA;
    assert_eq!(all, [expected]);
    assert_eq!(header.guesses.iter().count(), 2);
    assert_eq!(header.guesses.count_of(UNSUMMED), 1);
    assert_eq!(header.losses.iter().next().unwrap().examples, ["colour"]);
}

#[test]
fn a_foreign_file_is_refused_with_the_name_of_what_is_missing() {
    let (_directory, path) = file();
    foreign(&path, "message m { required int64 issue_ns; }", &ROW[..1], &[]);
    assert!(message(&path).contains("no column op"), "{}", message(&path));
    for (kind, of) in [("boolean op", "BOOLEAN"), ("int64 op (TIMESTAMP(MILLIS,true))", "INT64 (T")]
    {
        let schema = format!("message m {{ required int64 issue_ns; required {kind}; }}");
        foreign(&path, &schema, &ROW, &[]);
        let reason = format!("column op is of type {of}");
        assert!(message(&path).contains(&reason), "{}", message(&path));
    }
    let row = [&ROW[..], &[("scheduled_ns", 3)]].concat();
    foreign(&path, &format!("{SCHEMA} optional int64 scheduled_ns; }}"), &row, &[]);
    assert!(message(&path).contains("no column submitted_ns"), "{}", message(&path));
}

#[test]
fn a_file_packed_otherwise_is_refused_with_the_remedy() {
    let (_directory, path) = file();
    foreign(&path, &format!("{SCHEMA} }}"), &ROW, &[]);
    // The codec of a column is the fourth field of its metadata in the footer (parquet.thrift).
    let bytes = fs::read(&path).unwrap();
    let name = b"issue_ns\x15\x00";
    let place = memchr::memmem::rfind(&bytes, name).unwrap() + name.len() - 1;
    let brotli = [&bytes[..place], &[8], &bytes[place + 1..]].concat();
    fs::write(&path, brotli).unwrap();
    assert!(message(&path).contains("issue_ns is packed with BROTLI"), "{}", message(&path));
}

#[test]
fn a_value_that_means_nothing_is_refused_with_its_row() {
    let (_directory, path) = file();
    for (column, value, reason) in [
        (1, 23, "row 0: op is 23"),
        (1, -1, "row 0: op is -1"),
        (2, 32, "row 0: flags is 32"),
        (3, -1024, "row 0: offset_bytes is -1024, below zero"),
        (4, -1, "row 0: length_bytes is -1, below zero"),
        (0, UNKNOWN, "row 0: issue_ns is null"),
        (0, -1, "row 0: issue_ns is -1, before the start"),
        (0, UNKNOWN + 1, "before the start of the trace"),
        (1, 2, "row 0: a flush has length_bytes 1024"),
    ] {
        let mut row = ROW;
        row[column].1 = value;
        foreign(&path, &format!("{SCHEMA} }}"), &row, &[]);
        assert!(message(&path).contains(reason), "{}", message(&path));
    }
    let schema = "optional int64 scheduled_ns; optional int64 submitted_ns; \
        optional int64 completed_ns; optional int64 target_offset_bytes; \
        optional int32 in_flight; optional int32 outcome; \
        optional boolean pushed_back; optional int32 late_cause;";
    for (outcome, cause, reason) in
        [(UNKNOWN, 0, "no outcome"), (-99, 0, "outcome is -99"), (0, 10, "late_cause is 10")]
    {
        let measured = [
            ("scheduled_ns", 3),
            ("submitted_ns", 3),
            ("completed_ns", 3),
            ("target_offset_bytes", 0),
            ("in_flight", 0),
            ("outcome", outcome),
            ("pushed_back", 1),
            ("late_cause", cause),
        ];
        let row = [&ROW[..], &measured].concat();
        foreign(&path, &format!("{SCHEMA} {schema} }}"), &row, &[]);
        assert!(message(&path).contains(reason), "{}", message(&path));
    }
}

/// Writes the values of a column.
type WriteColumn<'a> = dyn FnMut(&mut SerializedColumnWriter<'_>) + 'a;

/// Writes a row for each operation, as another program might: with `properties`, and offsets and
/// lengths as floating point numbers.
fn named(path: &Path, ops: &[&str], properties: WriterPropertiesBuilder) {
    let schema = "message m { optional int64 issue_ns; optional binary op (STRING); \
        required int64 flags; optional double offset_bytes; optional double length_bytes; \
        required int64 volume; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let (file, properties) = (File::create(path).unwrap(), Arc::new(properties.build()));
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let levels = vec![1; ops.len()];
    let names: Vec<ByteArray> = ops.iter().map(|op| ByteArray::from(*op)).collect();
    let volumes = vec![i64::from(u32::MAX); ops.len()];
    let mut columns: [Box<WriteColumn<'_>>; 6] = [
        Box::new(|column| {
            let instants: Vec<i64> = (0..ops.len() as i64).collect();
            column.typed::<Int64Type>().write_batch(&instants, Some(&levels), None).unwrap();
        }),
        Box::new(|column| {
            column.typed::<ByteArrayType>().write_batch(&names, Some(&levels), None).unwrap();
        }),
        Box::new(|column| {
            column.typed::<Int64Type>().write_batch(&vec![2; ops.len()], None, None).unwrap();
        }),
        Box::new(|column| {
            let sizes = vec![512.0; ops.len()];
            column.typed::<DoubleType>().write_batch(&sizes, Some(&levels), None).unwrap();
        }),
        Box::new(|column| {
            let sizes = vec![0.0; ops.len()];
            column.typed::<DoubleType>().write_batch(&sizes, Some(&levels), None).unwrap();
        }),
        Box::new(|column| {
            column.typed::<Int64Type>().write_batch(&volumes, None, None).unwrap();
        }),
    ];
    for write in &mut columns {
        let mut column = group.next_column().unwrap().unwrap();
        write(&mut column);
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn names_and_wide_numbers_of_other_programs_are_read_however_they_are_encoded() {
    let (_directory, path) = file();
    let names = ["write", "read", "flush", "write", "write-zeroes"];
    let gzip = Compression::GZIP(GzipLevel::default());
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for (is_dictionary, codec) in [(true, Compression::SNAPPY), (false, gzip)] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(is_dictionary)
                .set_column_encoding(ColumnPath::from("op"), Encoding::PLAIN)
                .set_compression(codec);
            named(&path, &names, properties);
            let (all, header) = read(&path).unwrap();
            assert_eq!(header.volumes.len(), 1);
            assert_eq!(all.iter().map(|request| request.op.name()).collect::<Vec<_>>(), names);
            let first = all[0];
            assert_eq!(
                (first.offset, first.length, first.flags),
                (Bytes(512), Bytes(0), Flags::FUA)
            );
            assert_eq!(first.volume, VolumeId(u32::MAX));
        }
    }
}

#[test]
fn a_name_that_means_nothing_is_refused() {
    let (_directory, path) = file();
    named(&path, &["read", "trim"], WriterProperties::builder());
    let text = message(&path);
    assert!(text.contains("row 0: op is 'trim' here or later"), "{text}");
}

#[test]
fn others_read_names_and_differences_of_offsets() {
    let (_directory, path) = file();
    write(&path, Columns { measured: true, ..Columns::default() }, &some_requests(10), 10);
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let schema = file.metadata().file_metadata().schema_descr();
    for column in schema.columns() {
        let name = column.name();
        let is_named = ["op", "outcome", "late_cause", "integrity"].contains(&name);
        assert_eq!(column.converted_type() == ConvertedType::UTF8, is_named, "{name}");
        let is_number_of_something = ["flags", "volume", "target", "flow"].contains(&name);
        let unsigned = [ConvertedType::UINT_16, ConvertedType::UINT_32, ConvertedType::UINT_64];
        assert_eq!(unsigned.contains(&column.converted_type()), is_number_of_something, "{name}");
    }
}

#[test]
fn offsets_of_version_1_have_all_64_bits_and_those_that_version_2_cannot_hold_are_left_out() {
    let (_directory, path) = file();
    let schema = "message m { required int64 issue_ns; required int32 op; required int32 flags; \
        required int64 offset_bytes (INTEGER(64,false)); \
        required int64 length_bytes (INTEGER(64,false)); required int32 volume; }";
    let mut row = ROW;
    row[3].1 = -4096;
    foreign(&path, schema, &row, &[(KEY_VERSION, "1")]);
    let (all, header) = read(&path).unwrap();
    assert_eq!(all[0].offset, Bytes(u64::MAX - 4095));

    let mut sink = create(&path, &header).unwrap();
    let mut batch = Batch::new(header.columns);
    batch.extend(&[all[0], Request::new(Nanos(9), Op::Read, Bytes(512), Bytes(512))]);
    sink.write(&batch).unwrap();
    let written = sink.finish(&header).unwrap();
    assert_eq!((written.requests, written.lost.count_of(BEYOND)), (1, 1));
    assert_eq!(read(&path).unwrap().0[0].issue, Nanos(9));
}

#[test]
fn results_from_before_there_were_targets_and_verification_had_one_and_none() {
    let (_directory, path) = file();
    let schema = "optional int64 scheduled_ns; optional int64 submitted_ns; \
        optional int64 completed_ns; optional int64 target_offset_bytes; \
        optional int32 in_flight; optional int32 outcome; \
        optional boolean pushed_back; optional int32 late_cause;";
    let measured = [
        ("scheduled_ns", 3),
        ("submitted_ns", 3),
        ("completed_ns", 9),
        ("target_offset_bytes", 0),
        ("in_flight", 1),
        ("outcome", 0),
        ("pushed_back", 0),
        ("late_cause", 0),
    ];
    let row = [&ROW[..], &measured].concat();
    foreign(&path, &format!("{SCHEMA} {schema} }}"), &row, &[]);
    let found = read(&path).unwrap().0[0].measured.unwrap();
    assert_eq!((found.target, found.integrity), (0, Integrity::Unchecked));

    let schema = format!("{schema} optional int32 target; optional int32 integrity;");
    for (target, integrity, reason) in [
        (65_535, 9, None),
        (65_536, 0, Some("target is 65536")),
        (0, 10, Some("integrity is 10")),
        (-1, 0, Some("target is")),
    ] {
        let row = [&row[..], &[("target", target), ("integrity", integrity)]].concat();
        foreign(&path, &format!("{SCHEMA} {schema} }}"), &row, &[]);
        if let Some(reason) = reason {
            assert!(message(&path).contains(reason), "{}", message(&path));
        } else {
            let found = read(&path).unwrap().0[0].measured.unwrap();
            assert_eq!((found.target, found.integrity), (65_535, Integrity::Phantom));
        }
    }
}

#[test]
fn rows_that_step_back_where_the_footer_says_they_do_not_are_refused() {
    let (_directory, path) = file();
    let mut before = ROW;
    before[0].1 -= 1;
    let rows: [&[_]; 3] = [&before, &ROW, &before];
    foreign_rows(&path, &format!("{SCHEMA} }}"), &rows, &[(KEY_ORDER, ORDER)]);
    assert!(message(&path).contains("row 2: issue_ns steps back"), "{}", message(&path));
    foreign_rows(&path, &format!("{SCHEMA} }}"), &rows[..2], &[(KEY_ORDER, ORDER)]);
    assert_eq!(read(&path).unwrap().0.len(), 2);
    for (issue_ns, latest, row) in [([1, 3, 2], 0, 2), ([1, 2, 3], 2, 0)] {
        assert!(matches!(check_order(&issue_ns, latest), Err(Fault::Value(at, _)) if at == row));
    }
}

#[test]
fn a_dictionary_that_claims_more_values_than_it_holds_takes_no_room_for_them() {
    let (_directory, path) = file();
    write(&path, WITH_LATENCY, &some_requests(3), 3);
    let mut bytes = fs::read(&path).unwrap();
    // The header of the dictionary of `flags` (parquet.thrift, compact): kind 2, sizes of 4 and 13
    // bytes, then its own header, whose first field is the number of values: 1, in zigzag.
    let page = [0x15, 4, 0x15, 8, 0x15, 26, 0x4c, 0x15, 2];
    let place = memchr::memmem::find(&bytes, &page).unwrap() + page.len() - 1;
    // 2^31 - 1 values take four bytes more; as many go behind the rest of this page, 18 bytes.
    bytes.splice(place..=place, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
    bytes.drain(place + 23..place + 27);
    unsum(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    let reason = "a dictionary of 4 bytes claims to hold 2147483647 values";
    assert!(message(&path).contains(reason), "{}", message(&path));
}

const UNSUMMED: &str = "missing checksums; a damaged file may pass unnoticed";

/// Changes a file so that its checksums are not believed.
fn unsum(bytes: &mut [u8]) {
    let place = memchr::memmem::rfind(bytes, b"ioecho 0").unwrap();
    bytes[place] = b'x';
}

/// The CRC-32C by another method, bit by bit (RFC 3720: the polynomial 0x1edc6f41).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0x82f6_3b78 }
        })
    })
}

#[test]
fn the_checksums_are_those_that_the_documentation_describes() {
    for requests in [0, 1000, GROUP_ROWS as i64 + 10] {
        let (_directory, path) = file();
        write(&path, WITH_LATENCY, &some_requests(requests), 1000);
        let mut bytes = fs::read(&path).unwrap();
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let pairs = file.metadata().file_metadata().key_value_metadata().unwrap().clone();
        let value =
            |key: &str| pairs.iter().find(|pair| pair.key == key).unwrap().value.clone().unwrap();
        let sums: Vec<(u64, u32)> = serde_json::from_str(&value(KEY_CRC_GROUPS)).unwrap();
        assert_eq!(sums.len(), file.num_row_groups());
        let mut from = 0;
        for (end, sum) in sums {
            assert_eq!(sum, crc32c(&bytes[from..end as usize]));
            from = end as usize;
        }
        let digits = value(KEY_CRC_FOOTER);
        let place = memchr::memmem::rfind(&bytes, digits.as_bytes()).unwrap();
        bytes[place..place + 8].fill(b'0');
        assert_eq!(digits, format!("{:08x}", crc32c(&bytes[from..])));
    }
}

#[test]
fn no_flipped_bit_of_a_file_goes_unnoticed() {
    let (_directory, path) = file();
    let columns = Columns { latency: true, origin: true, measured: false, dependencies: false };
    let requests: Vec<_> = some_requests(60).iter().map(|one| kept(one, columns)).collect();
    write(&path, columns, &requests, 60);
    let expected = read(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    for bit in (0..bytes.len() * 8).step_by(5) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok((found, header)) = read(&path) {
            // If the damage hits the program's name, the file counts as a foreign one.
            let told = header.damage.is_some() || header.guesses.count_of(UNSUMMED) == 1;
            assert!(told, "bit {bit}");
            assert!(header.damage.is_some() || found == expected.0, "bit {bit}");
            assert!(header.damage.is_none() || found.is_empty(), "bit {bit}");
        }
    }
}

#[test]
fn what_lies_before_a_damaged_row_group_is_read_and_the_damage_is_told() {
    let (_directory, path) = file();
    let requests = some_requests(GROUP_ROWS as i64 * 2 + 10);
    write(&path, WITH_LATENCY, &requests, 5000);
    let whole = fs::read(&path).unwrap();
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let (start, length) = file.metadata().row_group(1).column(3).byte_range();
    let mut bytes = whole.clone();
    bytes[(start + length / 2) as usize] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let (all, header) = read(&path).unwrap();
    assert!(all == requests[..GROUP_ROWS]);
    let damage = header.damage.unwrap();
    assert!(damage.contains("row group 1 (bytes ") && damage.contains("checksum"), "{damage}");
    assert!(damage.contains("row 262144"), "{damage}");
    assert!(message(&path).contains("row group 1 (bytes "), "{}", message(&path));

    // Without checksums the library finds the pages that cannot be unpacked.
    let mut bytes = whole;
    bytes[start as usize..(start + length) as usize].fill(0xff);
    unsum(&mut bytes);
    fs::write(&path, &bytes).unwrap();
    let (all, header) = read(&path).unwrap();
    assert!(all == requests[..GROUP_ROWS]);
    assert!(header.damage.unwrap().contains("row group 1 (bytes "));
    assert!(message(&path).contains("without 'strict'"), "{}", message(&path));
}

#[test]
fn a_damaged_footer_is_an_error_even_where_it_still_reads() {
    let (_directory, path) = file();
    write(&path, WITH_LATENCY, &some_requests(10), 10);
    let bytes = fs::read(&path).unwrap();
    for (good, bad) in [("a file", "a fire"), (KEY_ORDER, "ioecho.odder"), (KEY_CRC_FOOTER, "x")] {
        let mut bytes = bytes.clone();
        let place = memchr::memmem::rfind(&bytes, good.as_bytes()).unwrap();
        bytes[place..place + bad.len()].copy_from_slice(bad.as_bytes());
        fs::write(&path, &bytes).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("damaged"), "{good}");
    }
}

#[test]
fn checksums_that_another_program_copied_into_its_file_are_not_believed() {
    let (_directory, path) = file();
    let pairs = [(KEY_CRC_GROUPS, "[[4,0]]"), (KEY_CRC_FOOTER, "00000000")];
    foreign(&path, &format!("{SCHEMA} }}"), &ROW, &pairs);
    let (all, header) = read(&path).unwrap();
    assert_eq!((all.len(), header.guesses.count_of(UNSUMMED)), (1, 1));
}

#[test]
fn the_number_that_stands_for_null_in_memory_is_no_value_of_a_file() {
    let (_directory, path) = file();
    let latency = "required int64 latency_ns;";
    let row = [&ROW[..], &[("latency_ns", UNKNOWN + 1)]].concat();
    foreign(&path, &format!("{SCHEMA} {latency} }}"), &row, &[]);
    assert_eq!(read(&path).unwrap().0[0].latency, Some(Nanos(UNKNOWN + 1)));
    for (first, levels) in [(5, &[][..]), (5, &[1, 1, 1]), (UNKNOWN, &[0, 1, 1])] {
        let fault = check_unknown(&[first, UNKNOWN, 7], levels, Column::Latency);
        assert!(matches!(fault, Err(Fault::Value(1, _))));
    }
    assert!(check_unknown(&[UNKNOWN, 5], &[0, 1], Column::Latency).is_ok());
}

#[test]
fn a_newer_version_is_refused_with_both_versions() {
    let (_directory, path) = file();
    for (version, reason) in
        [("3", "format has version 3, and this program reads versions up to 2"), ("x", "'x' is no")]
    {
        foreign(&path, &format!("{SCHEMA} }}"), &ROW, &[(KEY_VERSION, version)]);
        assert!(message(&path).contains(reason), "{}", message(&path));
    }
    foreign(&path, &format!("{SCHEMA} }}"), &ROW, &[(KEY_HEADER, "{")]);
    assert!(message(&path).contains("header is not readable"), "{}", message(&path));
}

#[test]
fn a_file_cut_short_anywhere_is_an_error() {
    let (_directory, path) = file();
    write(&path, WITH_LATENCY, &some_requests(1000), 1000);
    let whole = fs::read(&path).unwrap();
    for length in (4..whole.len()).step_by(97).chain(whole.len() - 20..whole.len()) {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(message(&path).contains("damaged or cut short"), "{}", message(&path));
    }
}

#[test]
fn an_unfinished_file_leaves_nothing_behind() {
    let (directory, path) = file();
    let mut sink = create(&path, &header(WITH_LATENCY)).unwrap();
    let mut batch = Batch::new(WITH_LATENCY);
    batch.extend(&some_requests(100));
    sink.write(&batch).unwrap();
    drop(sink);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_to_a_file_makes_the_reader_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        in_footer in any::<bool>(),
    ) {
        let (_directory, path) = file();
        let columns = Columns { latency: true, origin: true, measured: true, dependencies: false };
        write(&path, columns, &some_requests(50), 50);
        let mut bytes = fs::read(&path).unwrap();
        let (from, to) = (if in_footer { bytes.len() / 2 } else { 0 }, bytes.len());
        for (place, value) in changes {
            let place = from + place.index(to - from);
            bytes[place] = value;
        }
        fs::write(&path, &bytes).unwrap();
        let _ = read(&path);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), end in any::<bool>(),
    ) {
        let (_directory, path) = file();
        let mut file = [b"PAR1", &bytes[..]].concat();
        if end {
            file.extend((bytes.len() as u32).to_le_bytes());
            file.extend(b"PAR1");
        }
        fs::write(&path, &file).unwrap();
        let _ = read(&path);
    }
}

#[test]
fn the_parts_of_a_file_are_the_whole_one_behind_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.parquet");
    let rows = 2 * GROUP_ROWS + 10;
    let requests: Vec<Request> =
        (0..rows as i64).map(|n| Request::new(Nanos(n), Op::Read, Bytes(0), Bytes(512))).collect();
    write(&path, Columns::default(), &requests, 8192);
    for of in [1, 2, 3, 5] {
        let mut all = Vec::new();
        for part in 0..of {
            let options = ReadOptions::default();
            let mut source = open_part(&path, &options, part, of).unwrap().unwrap();
            let mut batch = Batch::default();
            while source.next_batch(&mut batch).unwrap() {
                all.extend(batch.iter());
            }
        }
        assert!(all == requests, "{} of {rows} requests in {of} parts", all.len());
    }
}
