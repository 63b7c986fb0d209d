use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use super::reader::{NUMBERED, OTHER_COMMAND};
use super::*;
use crate::formats::ReadOptions;
use crate::formats::import::JUNK;
use crate::{Batch, Bytes, Flags, Header, Nanos, Op, Origin, Request, VolumeId};
use proptest::prelude::*;

fn read_as(
    text: &[u8],
    description: Description,
    strict: bool,
) -> Result<(Vec<Request>, Header), TraceError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    fs::write(&path, text).unwrap();
    let described = Some(Arc::new(description));
    let options = ReadOptions { strict, described, ..ReadOptions::default() };
    let mut source = crate::formats::open(&path, &options)?;
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch)? {
        all.extend(batch.iter());
    }
    Ok((all, source.header().clone()))
}

fn columns(text: &str, columns: &str) -> (Vec<Request>, Header) {
    read_as(text.as_bytes(), Description::columns(columns).unwrap(), false).unwrap()
}

fn request(ns: i64, op: Op, offset: u64, length: u64) -> Request {
    Request::new(Nanos(ns), op, Bytes(offset), Bytes(length))
}

#[test]
fn columns_are_read_with_their_units_and_the_separator_is_guessed_and_told() {
    let expected = [request(1_500, Op::Read, 1024, 4096), request(2_000, Op::Write, 0, 512)];
    for (separator, blank) in [(",", ""), (";", " "), ("\t", ""), ("|", " "), (" ", " ")] {
        let text = "time,sector,what,bytes,more\n1.5,2,Read,4096,x\n2,0,w,512,y\n"
            .replace(',', &format!("{blank}{separator}{blank}"));
        let (all, header) = columns(&text, "ts:us,offset:sectors,op,length:bytes");
        assert_eq!(all, expected, "{separator:?}");
        assert!(header.losses.is_empty(), "{separator:?}: {:?}", header.losses);
        assert!(header.guesses.iter().any(|note| note.what.contains("separator taken to be")));
        assert_eq!(header.format, "described text");
    }
    let said = Description::columns("ts:us,offset:sectors,op,length:bytes").unwrap();
    let said = said.separated_by(Separator::Byte(b','));
    let (_, header) = read_as(b"1.5,2,r,4096\n", said, true).unwrap();
    assert!(header.guesses.is_empty());
}

#[test]
fn quoted_fields_may_hold_the_separator() {
    let (all, header) = columns(
        "1,\"a, b\",R,0,512\n2,plain,R,0,512\n3,\"a, b\",R,0,512\n",
        "ts:s,vol,op,offset:bytes,length:bytes",
    );
    assert_eq!(all.iter().map(|r| r.volume.0).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(header.volumes[0].name, "a, b");
}

#[test]
fn a_published_layout_is_read_by_its_description() {
    // Lines of the traces of Microsoft Research, Cambridge.
    let (all, header) = columns(
        "128166385295514663,hm,0,Write,9056014336,2048,2833\n\
         128166385295514878,hm,1,Write,11855351808,512,2617\n",
        "ts:filetime,vol,vol,op,offset:bytes,length:bytes,latency:ticks100ns",
    );
    assert_eq!(all[0].issue, Nanos(0));
    assert_eq!(all[1].issue, Nanos(21_500));
    assert_eq!(all[0].latency, Some(Nanos(283_300)));
    assert_eq!(all[1].volume, VolumeId(1));
    assert_eq!(header.volumes[1].name, "hm.1");
    assert_eq!(header.started.as_deref(), Some("2007-02-22T17:22:09.5514663Z"));
    // And of the Alibaba cloud: microseconds since 1970, the volume first.
    let (all, header) = columns(
        "0,R,126703661056,4096,1577808000000046\n1,W,19496058880,77824,1577808000000426\n",
        "vol,op,offset:bytes,length:bytes,ts:us:unix",
    );
    assert_eq!(
        all[1],
        Request { volume: VolumeId(1), ..request(380_000, Op::Write, 19_496_058_880, 77_824) }
    );
    assert_eq!(header.started.as_deref(), Some("2019-12-31T16:00:00.000046Z"));
}

#[test]
fn completions_are_turned_into_issues_by_their_latency() {
    let (all, _) = columns("5.5;1.5;R;0;1\n", "end:ms,latency:ms,op,offset:sectors,length:sectors");
    assert_eq!((all[0].issue, all[0].latency), (Nanos(4_000_000), Some(Nanos(1_500_000))));
    let (all, header) = columns(
        "4;5.5;R;0;1\n6;5.5;R;0;1\n7;;R;0;1\n",
        "ts:ms,end:ms,op,offset:sectors,length:sectors",
    );
    let latencies: Vec<_> = all.iter().map(|request| request.latency).collect();
    assert_eq!(latencies, [Some(Nanos(1_500_000)), None, None]);
    assert_eq!(header.losses.count_of(reader::BAD_LATENCY), 1);
}

#[test]
fn a_pattern_reads_what_no_separator_divides() {
    let pattern = concat!(
        r"^\[(?<ts_s>[0-9.]+)\] (?<comm>.+)\((?<pid>\d+)\) (?<op>\w+) ",
        r"(?<offset_sectors_hex>[0-9a-f]+)\+(?<length_blocks_4k>\d+)$",
    );
    let text = "started\n[1.25] my prog(42) WS ff+2\nnonsense\n[2] sh(7) discard 0+1\n";
    let (all, header) =
        read_as(text.as_bytes(), Description::pattern(pattern).unwrap(), false).unwrap();
    let first = Request {
        flags: Flags::SYNC,
        origin: Some(Origin { pid: 42, cpu: 0 }),
        ..request(1_250_000_000, Op::Write, 255 * 512, 8192)
    };
    assert_eq!(all[0], first);
    assert_eq!(all[1].op, Op::Discard);
    assert_eq!(header.processes[&42], "my prog");
    assert_eq!(header.losses.count_of(JUNK), 1);
}

#[test]
fn processes_with_names_alone_get_numbers_and_a_second_name_of_a_number_is_a_loss() {
    let text = "1,R,0,8,cat\n2,R,8,8,dd\n3,R,16,8,cat\n4,R,24,8,-\n";
    let (all, header) = columns(text, "ts:us,op,offset:bytes,length:bytes,comm");
    let pids: Vec<_> = all.iter().map(|request| request.origin.unwrap().pid).collect();
    assert_eq!(pids, [1, 2, 1, 0]);
    assert_eq!((&*header.processes[&1], &*header.processes[&2]), ("cat", "dd"));
    assert_eq!(header.guesses.count_of(NUMBERED), 2);
    let text = "1,R,0,8,5,cat\n2,R,8,8,5,dd\n3,R,16,8,5,cat\n";
    let (all, header) = columns(text, "ts:us,op,offset:bytes,length:bytes,pid,comm");
    assert_eq!(all[1].origin.unwrap().pid, 5);
    assert_eq!(header.processes[&5], "cat");
    assert_eq!(header.losses.count_of(OTHER_COMMAND), 1);
}

#[test]
fn numbers_for_operations_must_be_explained() {
    let text = b"1,0,0,8\n2,1,8,8\n";
    let described = || Description::columns("ts:s,op,offset:sectors,length:sectors").unwrap();
    let error = read_as(text, described(), false).unwrap_err().to_string();
    assert!(
        error.contains("the operation is '0'") && error.contains("op:0=read/1=write"),
        "{error}"
    );
    let words = described().with_words("0=read/1=write".parse().unwrap());
    let (all, _) = read_as(text, words, true).unwrap();
    assert_eq!((all[0].op, all[1].op), (Op::Read, Op::Write));
    let (all, header) =
        columns("1,0,0,8\n2,1,8,8\n", "ts:s,op:1=write/0=skip,offset:sectors,length:sectors");
    assert_eq!(all.len(), 1);
    assert_eq!(header.losses.count_of(reader::SKIPPED), 1);
    let no_op = Description::columns("ts:s,-,offset:sectors,length:sectors").unwrap();
    let error = read_as(text, no_op.clone(), false).unwrap_err().to_string();
    assert!(error.contains("ops read"), "{error}");
    let (all, _) = read_as(text, no_op.with_words("read".parse().unwrap()), false).unwrap();
    assert!(all.iter().all(|request| request.op == Op::Read));
}

#[test]
fn a_header_that_comes_again_and_comments_are_no_junk_and_junk_is() {
    let (all, header) = columns(
        "t,o,x,n\r\n1,R,0,8\r\n# a comment\r\nt,o,x,n\r\n2,R,-8,8\r\n3,Q,0,8\r\n4,R,1e1,8.0\r\n",
        "ts:s,op,offset:sectors,length:sectors",
    );
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].offset, Bytes(5120));
    assert_eq!(header.losses.count_of(JUNK), 2);
}

#[test]
fn an_instant_that_only_a_clock_can_show_is_told() {
    let (all, header) =
        columns("1577808000000046,R,0,8\n", "ts:us,op,offset:sectors,length:sectors");
    assert_eq!(all[0].issue, Nanos(1_577_808_000_000_046_000));
    assert!(header.guesses.iter().any(|note| note.what.contains(":unix")));
    let (all, header) =
        columns("1577808000000046,R,0,8\n", "ts:us:boot,op,offset:sectors,length:sectors");
    assert_eq!((all[0].issue, header.started), (Nanos(0), None));
}

#[test]
fn a_bad_description_is_refused_with_a_mark_under_the_place() {
    for (text, reason, mark) in [
        ("ts,op", "a time needs its unit", "  | ^^"),
        ("ts:us,when", "there is no column 'when'; known are ts", "  |       ^^^^"),
        ("ts:us,offset:miles", "'miles' is no unit of sizes", "  |              ^^^^^"),
        ("ts:us:ms", "the unit is said twice", "  |       ^^"),
        ("ts:s:unix:unix", "what it counts from is said twice", "  |           ^^^^"),
        ("ts:us,op,op", "this column is there already", "  |          ^^"),
        ("ts:us,op", "the place (offset:sectors) is missing", "  |         ^"),
        ("ts:us,op:R=red", "'red' is no operation", "  |          ^^^^^"),
        ("ts:us,vol:us", "this column has no unit", "  |           ^^"),
        ("ts:us,offset:blocks", "the size of a block follows", "  |              ^^^^^^"),
        ("op,offset:bytes,length:bytes", "the time of issue", "  |                             ^"),
    ] {
        let error = Description::columns(text).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
        assert!(error.contains(&format!("{mark}\n")) || error.ends_with(mark), "{error}");
    }
    let error = Description::pattern(r"(?<ts_us>\d+) (?<offset_miles>\d+)").unwrap_err();
    assert!(error.to_string().ends_with("  |                         ^^^^^"), "{error}");
    let error = Description::pattern("(?<ts_us").unwrap_err().to_string();
    assert!(error.starts_with("no regular expression: "), "{error}");
}

#[test]
fn a_text_of_another_kind_is_told_with_what_was_looked_for() {
    let described = Description::columns("ts:s,op,offset:sectors,length:sectors").unwrap();
    let error = read_as(b"once upon a time\n", described, false).unwrap_err().to_string();
    assert!(error.contains("'ts:s,op,offset:sectors,length:sectors'"), "{error}");
}

fn any_description() -> impl Strategy<Value = Description> {
    prop_oneof![
        Just("ts:us:unix,vol,op,offset:sectors,length:bytes,latency:us"),
        Just("ts:filetime,op:0=read/1=write,offset:sectors:hex,length:4k,pid,comm"),
        Just("end:s,latency:ms,op,vol,vol,offset:bytes,length:bytes,cpu"),
        Just("ts:ns,end:ns,op,offset:blocks:1G,length:sectors"),
    ]
    .prop_map(|columns| Description::columns(columns).unwrap())
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..500),
        description in any_description(), strict in any::<bool>(),
    ) {
        let _ = read_as(&bytes, description, strict);
    }

    #[test]
    fn no_text_of_columns_makes_the_reader_panic(
        lines in proptest::collection::vec("[0-9.,;\"RWe -]{0,60}", 0..40),
        description in any_description(),
    ) {
        let _ = read_as(lines.join("\n").as_bytes(), description, false);
    }

    #[test]
    fn no_description_makes_the_checking_panic(text in "[a-zé:,=/<>()?_0-9*-]{0,40}") {
        let _ = Description::columns(&text).map_err(|error| error.to_string());
        let _ = Description::pattern(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn all_requests_between_junk_are_read(
        requests in proptest::collection::vec(
            (0_i64..1 << 40, any::<bool>(), 0_u64..1 << 50, 1_u64..1 << 20), 1..40),
        junk in proptest::collection::vec("[a-z ]{1,20}", 40),
    ) {
        let mut sorted = requests;
        sorted.sort_by_key(|request| request.0);
        let mut text = String::from("when,what,where,how much\n");
        for ((ns, read, sector, bytes), junk) in sorted.iter().zip(&junk) {
            let op = if *read { "R" } else { "W" };
            let (us, part) = (ns / 1000, ns % 1000);
            writeln!(text, "{us}.{part:03},{op},{sector},{bytes}\n{junk}").unwrap();
        }
        let (all, header) = columns(&text, "ts:us,op,offset:sectors,length:bytes");
        let expected: Vec<_> = sorted.iter().map(|(ns, read, sector, bytes)| {
            request(*ns, if *read { Op::Read } else { Op::Write }, sector * 512, *bytes)
        }).collect();
        prop_assert_eq!(all, expected);
        let blank = junk.iter().take(sorted.len()).filter(|junk| junk.trim().is_empty()).count();
        prop_assert_eq!(header.losses.count_of(JUNK) as usize, sorted.len() - blank);
    }
}
