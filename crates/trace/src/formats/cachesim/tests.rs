use proptest::prelude::*;

use super::super::from_bytes::{read, read_alike};
use super::super::{FORMATS, ReadOptions, by_name};
use super::lcs::{BLOCK_AT, EARLY_BYTES, HEADER_BYTES, MAGIC, START_AT, UNIT_AT};
use super::*;

/// The values of a record: second, object, bytes, operation, name space, next request.
type Row = (u32, u64, u64, u8, u16, i64);

fn record(name: &str, row: Row) -> Vec<u8> {
    let (second, object, length, op, space, next) = row;
    let mut bytes = second.to_le_bytes().to_vec();
    bytes.extend_from_slice(&object.to_le_bytes());
    match name {
        "lcs 3" | "lcs 6" => bytes.extend_from_slice(&length.to_le_bytes()),
        _ => bytes.extend_from_slice(&(length as u32).to_le_bytes()),
    }
    match name {
        "lcs 2" | "lcs 3" | "lcs 6" => {
            let word = u32::from(space) << 8 | u32::from(op);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        "oracle-general-opns" | "iqibh" => {
            bytes.push(op);
            bytes.extend_from_slice(&space.to_le_bytes());
        }
        _ => {}
    }
    if matches!(name, "lcs 3" | "lcs 6") {
        bytes.extend_from_slice(&[9; 4]);
    }
    if !name.starts_with("iqi") {
        bytes.extend_from_slice(&next.to_le_bytes());
    }
    if name == "lcs 6" {
        bytes.extend_from_slice(&[8; 16]);
    }
    bytes
}

fn lcs_header(version: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    // Counts that must be ignored.
    bytes[24..32].fill(0x7f);
    bytes[HEADER_BYTES - 8..].copy_from_slice(&MAGIC.to_le_bytes());
    bytes
}

fn file(name: &str, rows: &[Row]) -> Vec<u8> {
    let head = name
        .strip_prefix("lcs ")
        .map_or(Vec::new(), |version| lcs_header(version.parse().unwrap()));
    let records = rows.iter().flat_map(|row| record(name, *row));
    head.into_iter().chain(records).collect()
}

const NAMES: [&str; 8] =
    ["oracle-general", "oracle-general-opns", "iqi", "iqibh", "lcs 1", "lcs 2", "lcs 3", "lcs 6"];

fn has_op(name: &str) -> bool {
    !matches!(name, "oracle-general" | "iqi" | "lcs 1")
}

/// Rows as the block traces have them: three requests a second, reads and writes by turns.
fn rows(count: u32) -> Vec<Row> {
    let row = |n: u32| {
        let next = if n.is_multiple_of(3) { -1 } else { i64::from(n) + 5 };
        (5_633_898 + n / 3, 42_932_745 + u64::from(n), 512, 12 + n as u8 % 2, 4, next)
    };
    (0..count).map(row).collect()
}

#[test]
fn every_layout_is_known_by_its_shape_and_read() {
    let rows = rows(3000);
    for name in NAMES {
        let bytes = file(name, &rows);
        let format = FORMATS.iter().find(|format| (format.recognise)(&bytes[..45_000]));
        assert_eq!(format.unwrap().name, name.split(' ').next().unwrap());
        let (requests, header) = read_alike(&bytes);
        assert_eq!(requests.len(), rows.len(), "{name}");
        for (request, (second, object, length, op, ..)) in requests.iter().zip(&rows) {
            assert_eq!(request.issue, Nanos::from_secs(i64::from(*second) - 5_633_898));
            assert_eq!((request.offset.0, request.length.0), (object * 512, *length));
            assert_eq!(request.op == Op::Write, has_op(name) && *op == 13, "{name}");
        }
        let volume = if has_op(name) { "4" } else { "" };
        assert_eq!(header.volumes[0].name, volume, "{name}");
        let reads = if has_op(name) { 0 } else { 3000 };
        assert_eq!(header.guesses.count_of(GUESSED_READ), reads, "{name}");
        assert!(header.guesses.iter().any(|note| note.what.contains("`block-size`")));
        assert!(header.losses.is_empty() && header.damage.is_none());
    }
}

#[test]
fn a_block_size_that_is_said_is_no_guess() {
    let bytes = file("oracle-general", &rows(10));
    let options = ReadOptions { block_size: Some(Bytes(4096)), ..ReadOptions::default() };
    let (requests, header) = read(&bytes, &options).unwrap();
    assert_eq!(requests[0].offset, Bytes(42_932_745 * 4096));
    assert!(!header.guesses.iter().any(|note| note.what.contains("`block-size`")));
}

#[test]
fn operations_are_those_of_libcachesim_and_unknown_ones_are_counted() {
    let op = |op| (1, 8, 512, op, 0, -1);
    let rows = [op(1), op(12), op(3), op(13), op(9), op(0), op(255), op(77)];
    let format = Some(by_name("oracle-general-opns").unwrap());
    let options = ReadOptions { format, ..ReadOptions::default() };
    let (requests, header) = read(&file("oracle-general-opns", &rows), &options).unwrap();
    let ops: Vec<_> = requests.iter().map(|request| request.op).collect();
    assert_eq!(ops, [Op::Read, Op::Read, Op::Write, Op::Write, Op::Discard, Op::Read, Op::Read]);
    assert_eq!(header.guesses.count_of(GUESSED_READ), 2);
    assert_eq!(header.losses.count_of(NO_RANGE), 1);
}

#[test]
fn hashes_for_numbers_and_sizes_below_zero_are_lost() {
    let mut rows = rows(6);
    rows[2].1 = u64::MAX / 512 + 1;
    rows[3].2 = u64::MAX;
    let (requests, header) = read(&file("lcs 3", &rows), &ReadOptions::default()).unwrap();
    assert_eq!(requests.len(), 4);
    assert_eq!(header.losses.count_of(TOO_FAR), 1);
    assert_eq!(header.losses.count_of(NO_SIZE), 1);
}

#[test]
fn a_header_of_another_version_or_length_is_refused_with_the_remedy() {
    let refused = |bytes: &[u8]| read(bytes, &ReadOptions::default()).err().unwrap().to_string();
    let mut bytes = file("lcs 2", &rows(4));
    bytes[8] = 9;
    assert!(refused(&bytes).contains("LCS version 9"));
    assert!(refused(&bytes[..4000]).contains("within its header"));
    let error = refused(&bytes[..4000]);
    bytes[HEADER_BYTES - 1] = 0;
    assert!(error.contains("within its header") && error.contains("traceConv"), "{error}");
    bytes.resize(2 * HEADER_BYTES, 1);
    assert!(refused(&bytes).contains("does not end"));
}

#[test]
fn the_short_headers_of_the_first_versions_are_read_too() {
    let rows = rows(20);
    let early = |name: &str, said: &[u8]| {
        let mut bytes = vec![0; EARLY_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..8 + said.len()].copy_from_slice(said);
        bytes[EARLY_BYTES - 8..].copy_from_slice(&MAGIC.to_le_bytes());
        bytes.extend(rows.iter().flat_map(|row| record(name, *row)));
        read(&bytes, &ReadOptions::default())
    };
    for (name, said) in [("lcs 1", &b"<IQIQ"[..]), ("lcs 1", &[1]), ("lcs 2", &[2])] {
        let (requests, header) = early(name, said).unwrap();
        assert_eq!(requests.len(), 20, "{name}");
        assert_eq!(requests[19].offset, Bytes(rows[19].1 * 512));
        assert!(header.damage.is_none());
    }
    // A text in the place of a version is not shown as a number.
    let error = early("lcs 1", b"<QQ").err().unwrap().to_string();
    assert!(error.contains("as '<QQ'"), "{error}");
    let error = early("lcs 1", &[0xff; 8]).err().unwrap().to_string();
    assert!(error.contains("names no version"), "{error}");
}

#[test]
fn a_duration_that_is_not_the_headers_is_questioned() {
    for (seconds, is_questioned) in [(0, false), (6, false), (6_000, false), (6_001, true)] {
        let mut bytes = file("lcs 3", &rows(20));
        bytes[START_AT + 8..START_AT + 16].copy_from_slice(&u64::to_le_bytes(seconds));
        let (_, header) = read(&bytes, &ReadOptions::default()).unwrap();
        assert_eq!(header.guesses.count_of(OTHER_DURATION) > 0, is_questioned, "{seconds}");
    }
}

/// A file of the second version with an early header that states this size of a block and this unit
/// of time.
fn early(block: i32, unit: i32, rows: &[Row]) -> Vec<u8> {
    let mut bytes = vec![0; EARLY_BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8] = 2;
    bytes[BLOCK_AT..BLOCK_AT + 4].copy_from_slice(&block.to_le_bytes());
    bytes[UNIT_AT..UNIT_AT + 4].copy_from_slice(&unit.to_le_bytes());
    bytes[EARLY_BYTES - 8..].copy_from_slice(&MAGIC.to_le_bytes());
    bytes.extend(rows.iter().flat_map(|row| record("lcs 2", *row)));
    bytes
}

#[test]
fn an_early_header_says_the_unit_of_time_and_the_size_of_blocks() {
    let rows = [(5, 3, 4096, 12, 1, -1), (1007, 4, 4096, 13, 1, -1)];
    for (unit, unit_ns) in [(0, SECOND_NS), (1, SECOND_NS), (2, 1_000_000), (3, 1_000), (4, 1)] {
        let (requests, header) = read(&early(4096, unit, &rows), &ReadOptions::default()).unwrap();
        let issues: Vec<_> = requests.iter().map(|request| request.issue.0).collect();
        assert_eq!(issues, [0, 1002 * unit_ns]);
        assert_eq!(requests[0].offset, Bytes(3 * 4096));
        // Nothing is guessed but where in its second a request was, if seconds they are.
        let guesses = header.guesses.iter().count();
        assert_eq!(guesses, 2 * usize::from(unit_ns == SECOND_NS), "{:?}", header.guesses);
        let told = header.guesses.count_of(AS_SECONDS);
        assert_eq!(told, if unit_ns == SECOND_NS { 2 } else { 0 });
    }
    for block in [0, -4096] {
        let (requests, header) = read(&early(block, 2, &rows), &ReadOptions::default()).unwrap();
        assert_eq!(requests[0].offset, Bytes(3 * 512));
        assert!(header.guesses.iter().any(|note| note.what.contains("`block-size`")));
    }
    for unit in [5, -1] {
        let bytes = early(4096, unit, &rows);
        let error = read(&bytes, &ReadOptions::default()).err().unwrap().to_string();
        assert!(error.contains("unit of time") && error.contains("time-unit s"), "{error}");
        let options = ReadOptions { time_unit_ns: Some(1_000), ..ReadOptions::default() };
        assert_eq!(read(&bytes, &options).unwrap().0[1].issue, Nanos(1_002_000));
    }
}

#[test]
fn text_and_noise_have_none_of_the_shapes() {
    let text = "1,5633898,2a,512,42932745\n".repeat(3000);
    let csv = "128166372003061629,hm,0,Write,9056014336,2048,2833\n".repeat(2000);
    let mut random = 1_u64;
    let noise: Vec<u8> = (0..65_536)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        })
        .collect();
    let constants = [0_u8, 1, b' ', b'0', b'a', 0xff].map(|byte| vec![byte; 65_536]);
    let files = [text.into_bytes(), csv.into_bytes(), noise];
    for bytes in files.iter().chain(&constants) {
        for layout in
            [layout::ORACLE_GENERAL, layout::ORACLE_GENERAL_OPNS, layout::IQI, layout::IQIBH]
        {
            assert!(!shape::fits(bytes, &layout), "{layout:?} {:?}", &bytes[..16]);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_read_as_any_layout_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600), name in 0_usize..NAMES.len(),
    ) {
        let whole = [file(NAMES[name], &rows(1)), bytes].concat();
        let format = Some(by_name(NAMES[name].split(' ').next().unwrap()).unwrap());
        let (requests, header) = read(&whole, &ReadOptions { format, ..ReadOptions::default() })
            .unwrap();
        let lost: u64 = header.losses.iter().map(|note| note.count).sum();
        prop_assert_eq!(requests.len() as u64 + lost, header.imported.unwrap().units);
    }

    #[test]
    fn requests_are_read_with_junk_between(
        valid in proptest::collection::vec((0_u32..1 << 30, 0_u64..1 << 50, 1_u64..1 << 30), 1..50),
        every in 1_usize..9, name in 0_usize..NAMES.len(),
    ) {
        let mut seconds: Vec<_> = valid.iter().map(|row| row.0).collect();
        seconds.sort_unstable();
        let mut rows = Vec::new();
        for (at, ((_, object, length), second)) in valid.iter().zip(&seconds).enumerate() {
            rows.push((*second, *object, *length, 13, 0, -1));
            if at % every == 0 {
                // No address.
                rows.push((*second, u64::MAX, 1, 13, 0, -1));
            }
        }
        let format = Some(by_name(NAMES[name].split(' ').next().unwrap()).unwrap());
        let options = ReadOptions { format, ..ReadOptions::default() };
        let (requests, header) = read(&file(NAMES[name], &rows), &options).unwrap();
        prop_assert_eq!(requests.len(), valid.len());
        for (request, (_, object, length)) in requests.iter().zip(&valid) {
            prop_assert_eq!((request.offset.0, request.length.0), (object * 512, *length));
        }
        prop_assert_eq!(header.losses.count_of(TOO_FAR), valid.len().div_ceil(every) as u64);
    }
}
