use std::fmt::Write as _;
use std::fs;

use super::*;
use crate::formats::import::JUNK;
use crate::formats::{ReadOptions, create, open};
use crate::header::Volume;
use crate::{Batch, Bytes, Header, Nanos, Op, Request, TraceError, VolumeId};
use proptest::prelude::*;

fn read_with(bytes: &[u8], strict: bool) -> Result<(Vec<Request>, Header), TraceError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    fs::write(&path, bytes).unwrap();
    let options = ReadOptions { strict, ..ReadOptions::default() };
    let mut source = open(&path, &options)?;
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch)? {
        all.extend(batch.iter());
    }
    Ok((all, source.header().clone()))
}

fn read(text: &str) -> (Vec<Request>, Header) {
    read_with(text.as_bytes(), false).unwrap()
}

fn request(us: i64, op: Op, sector: u64, sectors: u64, latency: Option<i64>) -> Request {
    let mut request = Request::new(Nanos(us), op, Bytes(sector * 512), Bytes(sectors * 512));
    request.latency = latency.map(Nanos);
    request
}

const HEADER: &str = "#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,\
    SEQID.I,LUN_SSID.I,OP.I,PHASE.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,HOST_LUN.I,\
    LATENCY_USECS.D\n";

/// Real lines of the published samples.
const LINES: &str = "\
    5488,112764.088,240563388,WR_IN,0,26147481340168100,82333390,5,1,0,112,8,149108,7,5,69.894\n\
    4124,112850,822590674,RD,2,822590674,5001,6,0,0,2,2,426600,7,6,200\n";

#[test]
fn a_published_sample_is_read_with_its_devices_and_latencies() {
    let (all, header) = read(&format!("{HEADER}{LINES}"));
    let mut second = request(112_850_000, Op::Read, 2, 2, Some(200_000));
    second.volume = VolumeId(1);
    assert_eq!(all, [request(112_764_088, Op::Write, 112, 8, Some(69_894)), second]);
    let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!((names, header.format.as_str()), (vec!["5", "6"], "hfplayer CSV"));
    assert!(header.losses.is_empty() && header.guesses.is_empty());
}

#[test]
fn a_line_that_begins_with_a_part_of_a_mark_is_read_or_counted() {
    for first in [&b"\xef"[..], b"\xef\xbb", b"\xff"] {
        let text = [HEADER.as_bytes(), first, LINES.as_bytes()].concat();
        let (all, header) = read_with(&text, false).unwrap();
        // The broken mark stands in a column that is not read.
        assert_eq!((all.len(), header.losses.count_of(JUNK)), (2, 0), "{first:?}");
    }
    let marked = [HEADER.as_bytes(), b"\xef\xbb\xbf", LINES.as_bytes()].concat();
    assert_eq!(read_with(&marked, false).unwrap().0.len(), 2);
}

/// The second layout, as the storage controller captured it: arrivals and completions.
const CAPTURED: &str = "\
#DUMP_OFFSET.I,ABS_SECS.D,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,\
    SEQID.I,LUN_SSID.I,OP.I,PHASE.I,CORENUM.I,PAD1.I,PAD2.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,\
    HOST_ID.I,HOST_LUN.I,LATENCY_USECS.D,THINK_TICKS.I,THINK_USECS.D,LBA_SHIFT.N
4128,1443033226.416,18415864.166,36831728332,WR_IN,1,335362877300424,2130376,0,1,0,1,0,\
    0,8178892784,8,0,0,0,0.000,13892512,6946.256,104
4160,1443033226.416,18416282.474,36832564948,RD_IN,2,335362878137040,2130377,0,0,0,1,0,\
    0,0,8,0,0,0,0.000,836616,418.308,-8178892792
28768,1443033226.416,18416194.454,36832388908,RD_OUT,769,335362877961000,2130376,0,2,1,\
    0,0,0,0,0,661596,7,0,330.798,0,0.000,0
4192,1443033226.423,18422545.934,36845091868,RD_IN,3,335362890663960,2130378,0,0,0,1,0,\
    0,8,8,0,0,0,0.000,12526920,6263.460,0
28736,1443033226.416,18415814.012,36831628024,RD_OUT,770,335362877200116,2130375,0,2,1,\
    0,0,0,0,0,13793628,7,0,6896.814,0,0.000,0
28832,1443033226.423,18422722.494,36845443988,RD_OUT,767,335362891017080,2130378,0,2,1,\
    0,0,0,0,0,353352,7,0,176.676,0,0.000,0
";

#[test]
fn completions_of_their_own_give_their_arrivals_a_latency() {
    let (all, header) = read(CAPTURED);
    assert_eq!(
        all,
        [
            request(18_415_864_166, Op::Write, 8_178_892_784, 8, Some(330_288)),
            request(18_416_282_474, Op::Read, 0, 8, None),
            request(18_422_545_934, Op::Read, 8, 8, Some(176_560)),
        ]
    );
    assert_eq!(header.losses.count_of("completions without an arrival"), 1);
    assert_eq!(header.losses.count_of("latencies of arrivals without a completion"), 1);
    assert_eq!(header.started.as_deref(), Some("2015-09-23T18:33:28Z"));
}

#[test]
fn columns_are_found_by_name_in_any_order_and_case() {
    let text = "#nblks.i,lba.i,Op.I,elapsed_usecs.D\n8,16,1,2.5\n# a comment\n2k,1m,0,3\n";
    let (all, header) = read(text);
    let expected =
        [request(2_500, Op::Write, 16, 8, None), request(3_000, Op::Read, 1 << 20, 2048, None)];
    assert_eq!(all, expected);
    assert!(header.losses.is_empty());
}

#[test]
fn what_is_not_understood_is_counted() {
    let text = format!(
        "{HEADER}{LINES}junk\n1,x,0,RD,0,0,1,0,0,0,1,1,0,0,0,0\n\
         1,1,0,XX,0,0,1,0,7,0,1,1,0,0,0,0\n1,200000,0,RD,0,0,1,5,1,0,1,1,0,0,0,5\n"
    );
    let (all, header) = read(&text);
    assert_eq!((all.len(), all[2].op), (3, Op::Write));
    assert_eq!(header.losses.count_of(JUNK), 2);
    assert_eq!(header.losses.count_of(reader::OTHER_OPS), 1);
    assert_eq!(header.guesses.count_of(reader::CONTRADICTIONS), 1);
    assert!(read_with(text.as_bytes(), true).is_err());
}

#[test]
fn what_is_written_is_what_hfplayer_reads_with_the_number_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.hfplayer.csv");
    let volume = Volume { id: VolumeId(0), name: "6".to_owned(), size: None };
    let header = Header { volumes: vec![volume], ..Header::default() };
    let columns = Columns { latency: true, ..Columns::default() };
    let mut batch = Batch::new(columns);
    batch.extend(&[
        request(1_001, Op::Read, 8, 8, Some(3_000)),
        request(2_000, Op::Write, 16, 1, None),
        request(4_001, Op::Read, 0, 8, Some(1)),
        Request { op: Op::Discard, ..request(5_000, Op::Read, 0, 8, None) },
    ]);
    let mut sink = create(&path, &header).unwrap();
    sink.write(&batch).unwrap();
    let written = sink.finish(&header).unwrap();
    assert_eq!((written.requests, written.lost.count_of("discards")), (3, 1));
    let text = fs::read_to_string(&path).unwrap();
    let expected = "\
        1,1.001,1001,RD,0,1001,1,6,0,0,8,8,3000,0,0,3.000\n\
        2,2.000,2000,WR,1,2000,2,6,1,0,16,1,0,0,0,0.000\n\
        3,4.001,4001,RD,0,4001,3,6,0,0,0,8,1,0,0,0.001\n";
    assert_eq!(text, format!("{HEADER}{expected}"));
}

#[test]
fn the_published_samples_are_read_to_the_last_request() {
    // Counted with `awk -F, '!/^#/{n++; s+=$12; l+=$16} END{print n, s, l, $2}'`: requests,
    // sectors, microseconds of latency, the last arrival.
    for (name, requests, sectors, latency_ns, last) in [
        ("hfplayer-small-tpch.csv", 780, 74_872, 121_920_170, 82_367_916_309),
        ("hfplayer-sampleTrace.csv", 19, 38, 3_800_000, 950_000),
        ("hfplayer-sampleDepTrace.csv", 7, 14, 700_000, 300_000),
    ] {
        let Some(path) = ioecho_fixture::recording(name) else { continue };
        let bytes = fs::read(&path).unwrap();
        let (all, header) = read_with(&bytes, true).unwrap();
        assert_eq!((all.len(), all[all.len() - 1].issue), (requests, Nanos(last)));
        assert!(header.losses.is_empty() && header.guesses.is_empty());
        assert_eq!(all.iter().map(|request| request.length.sectors()).sum::<u64>(), sectors);
        let latency = all.iter().filter_map(|request| request.latency).map(|latency| latency.0);
        assert_eq!(latency.sum::<i64>(), latency_ns);
    }
}

/// The links in `text`: for each request its number and those of its parents.
fn links(text: &str) -> (Vec<(u64, Vec<u64>)>, Header) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    fs::write(&path, text).unwrap();
    let options = ReadOptions { dependencies: true, ..ReadOptions::default() };
    let mut source = open(&path, &options).unwrap();
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        for row in 0..batch.len() {
            let dependency = batch.dependency(row).unwrap();
            all.push((dependency.id, dependency.parents.to_vec()));
        }
    }
    (all, source.header().clone())
}

/// Lines that `depAnalyser` wrote, the last but one out of order.
const ANNOTATED: &str = "\
#DUMP_OFFSET.I,ABS_SECS.D,ELAPSED_USECS.D,CMD.S,LUN_SSID.I,OP.I,LBA.I,NBLKS.I,LATENCY_USECS.D,\
    DEP_PARENT_COUNT.I,DEP_PARENT_LIST.S
4124,0,50.000,RD,6,0,2,2,20.000,0,NA
4152,0,100.000,RD,6,0,4,2,20.000,1,4124
4208,0,400.000,RD,6,0,8,2,20.000,2,4152-4124
4180,0,150.000,RD,6,0,6,2,20.000,1,4152
4236,0,500.000,RD,6,0,8,2,20.000,2,x-4124
";

#[test]
fn annotations_are_read_where_they_are_asked_for() {
    let (all, header) = links(ANNOTATED);
    let expected =
        [(4124, vec![]), (4152, vec![4124]), (4180, vec![4152]), (4208, vec![4152, 4124])];
    assert_eq!(all, expected);
    assert!(header.columns.dependencies);
    assert_eq!(header.losses.count_of(JUNK), 1);
    assert!(!read(ANNOTATED).1.columns.dependencies);
}

#[test]
fn annotations_are_written_as_they_were_read() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("x"), directory.path().join("y.hfplayer.csv"));
    fs::write(&from, ANNOTATED).unwrap();
    let options = ReadOptions { dependencies: true, ..ReadOptions::default() };
    let mut source = open(&from, &options).unwrap();
    let sink = create(&to, source.header()).unwrap();
    crate::stream::copy(&mut *source, sink).unwrap();
    let text = fs::read_to_string(&to).unwrap();
    assert_eq!(links(&text).0, links(ANNOTATED).0);
    assert!(text.lines().nth(4).unwrap().ends_with(",2,4152-4124"), "{text}");
}

proptest! {
    #[test]
    fn no_annotation_makes_the_reader_panic(
        lists in proptest::collection::vec("[0-9NAkmg-]{0,40}", 0..40),
    ) {
        let line = |list: &String| format!("1,0,1.0,RD,6,0,2,2,20.000,1,{list}\n");
        let text = format!("{ANNOTATED}{}", lists.iter().map(line).collect::<String>());
        let (all, _) = links(&text);
        prop_assert!(all.len() >= 4);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), strict in any::<bool>(),
    ) {
        let _ = (recognise(&bytes), read_with(&bytes, strict));
        let _ = read_with(&[HEADER.as_bytes(), &bytes].concat(), strict);
    }

    #[test]
    fn no_text_of_columns_makes_the_reader_panic(
        lines in proptest::collection::vec("[0-9.,RDWIN_OUTkmgsh#-]{0,60}", 0..40),
    ) {
        let _ = read(&format!("{CAPTURED}{LINES}{}", lines.join("\n")));
    }

    #[test]
    fn all_requests_between_junk_are_read_with_their_latencies_wherever_completions_stand(
        requests in proptest::collection::vec(
            (
                0_i64..1 << 40, any::<bool>(), 0_u64..1 << 50, 1_u64..1 << 20, 0_i64..1 << 30,
                0_u8..3,
            ),
            1..60),
        junk in proptest::collection::vec("[a-z]{1,20}", 60),
    ) {
        let mut requests = requests;
        requests.sort_by_key(|request| request.0);
        let us = |ns: i64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let (mut text, mut ends, mut expected) = (HEADER.to_owned(), Vec::new(), Vec::new());
        for (number, (ns, read, sector, sectors, latency, how)) in requests.iter().enumerate() {
            let (op, command) = if *read { (Op::Read, "RD") } else { (Op::Write, "WR") };
            let code = u8::from(!read);
            // Some requests have their latency, some a line of completion, some nothing.
            let known = if *how == 0 { *latency } else { 0 };
            let (at, known, junk) = (us(*ns), us(known), &junk[number]);
            let place = format!("{number},0,{code},0,{sector},{sectors}");
            writeln!(text, "0,{at},0,{command}_IN,0,0,{place},0,0,0,{known}\n{junk}").unwrap();
            if *how == 1 {
                ends.push(format!("0,{},0,{command}_OUT,0,0,{number},0,2,1,0,0,0,0,0,0\n",
                    us(ns + latency)));
            }
            let latency = if *how == 0 { Some(*latency).filter(|l| *l > 0) }
                else { Some(*latency).filter(|_| *how == 1) };
            expected.push(request(*ns, op, *sector, *sectors, latency));
        }
        text += &ends.concat();
        let (all, header) = read(&text);
        prop_assert_eq!(all, expected);
        prop_assert_eq!(header.losses.count_of(JUNK) as usize, requests.len());
    }
}
