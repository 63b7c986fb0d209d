use std::fmt::Write as _;

use proptest::prelude::*;

use super::FORMAT;
use crate::formats::ReadOptions;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, read_with, recognised, refusal, survives};
use crate::request::{Op, Request};

fn rows(requests: &[Request]) -> Vec<(i64, Op, u64, u64, i64)> {
    let row =
        |r: &Request| (r.issue.0, r.op, r.offset.0, r.length.0, r.latency.unwrap_or_default().0);
    requests.iter().map(row).collect()
}

#[test]
fn instants_are_completions_less_latencies_where_no_others_are_told() {
    let text = "5, 2500000, 0, 4096, 8192, 0\n6, 500000, 1, 512, 0, 0\n6, 1, 2, 512, 1024, 1\n";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(
        rows(&requests),
        [
            (2_500_000, Op::Read, 8192, 4096, 2_500_000),
            (5_500_000, Op::Write, 0, 512, 500_000),
            (5_999_999, Op::Discard, 1024, 512, 1),
        ]
    );
    assert_eq!(header.guesses.iter().map(|note| note.count).collect::<Vec<_>>(), [3, 3]);
    let options = ReadOptions { time_unit_ns: Some(1_000), ..ReadOptions::default() };
    let (requests, header) = read_with(&FORMAT, "9, 250, 0, 512, 4096, 0\n", &options);
    assert_eq!((requests[0].latency.unwrap().0, header.guesses.iter().count()), (250_000, 1));
}

#[test]
fn instants_of_issue_are_taken_where_they_are() {
    let text = "5, 700, 0, 4096, 8192, 0x4004, 5000100\n5, 900, 1, 4096, 0, 0x0000, 5000000\n";
    let (requests, header) = read(&FORMAT, text);
    let expected = [(5_000_000, Op::Write, 0, 4096, 900), (5_000_100, Op::Read, 8192, 4096, 700)];
    assert_eq!(rows(&requests), expected);
    assert!(header.guesses.iter().all(|note| !note.what.contains("millisecond")));
}

#[test]
fn old_logs_have_an_offset_and_no_priority() {
    let (requests, _) = read(&FORMAT, "1, 70, 0, 4096, 0\n2, 70, 0, 4096, 1\n3, 9, 1, 512, 4096\n");
    assert_eq!(requests.iter().map(|r| r.offset.0).collect::<Vec<_>>(), [0, 1, 4096]);
}

#[test]
fn a_log_without_offsets_is_refused_with_the_remedy() {
    for text in [
        "1, 70, 0, 4096\n",
        "1, 70, 0, 4096, 0\n2, 70, 1, 4096, 1\n",
        "1, 70, 0, 4096, 0x4004\n",
        "1, 70, 0, 4096, 0, 123456\n2, 70, 0, 4096, 0, 234567\n",
    ] {
        assert_eq!(recognised(text), Some("fio-lat"), "{text}");
        let refusal = refusal(&FORMAT, text);
        assert!(refusal.contains("no offsets") && refusal.contains("log_offset=1"), "{refusal}");
    }
    // Averages over time have neither sizes nor places.
    let averaged = refusal(&FORMAT, "500, 70123, 0, 0, 0, 0\n1000, 70123, 1, 0, 0, 0\n");
    assert!(averaged.contains("log_avg_msec"), "{averaged}");
}

#[test]
fn a_log_by_the_wall_clock_says_when_it_began() {
    let (requests, header) = read(&FORMAT, "1700000000005, 5000000, 0, 4096, 8192, 0\n");
    assert_eq!((requests[0].issue.0, header.started.as_deref()), (0, Some("2023-11-14T22:13:20Z")));
}

#[test]
fn tables_of_numbers_that_are_no_logs_are_not_taken_for_one() {
    for text in [
        "1538323200,4247200,128,1,1058\n",
        "0, 20941264, 8192, W, 0.551706\n",
        "1, 2, 3\n",
        "1, 70, 9, 4096, 0, 0\n",
        "128166385295514663,hm,0,Write,9056014336,2048,2833\n",
    ] {
        assert!(!(FORMAT.recognise)(text.as_bytes()), "{text}");
    }
}

#[test]
fn junk_is_counted() {
    let text = "1, 7, 0, 512, 8, 0\nx\n1, 7, 0, 512, 8\n1, 7, 9, 512, 8, 0\n1, 7, 0, 0, 8, 0\n\
        1, 99999999999999999999, 0, 512, 8, 0\n18446744073709551615, 7, 0, 512, 8, 0\n";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(requests.len(), 1);
    assert_eq!(header.losses.count_of(JUNK), 5);
    assert_eq!(header.losses.count_of("requests of zero length"), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(&FORMAT, &bytes);
    }

    #[test]
    fn any_text_like_it_is_read_or_counted(
        text in "([0-9]{1,20}, [0-9]{1,20}, [0-3], [0-9]{1,9}(, [0-9x]{1,20}){0,4}\n){0,20}"
    ) {
        survives(&FORMAT, text.as_bytes());
    }

    #[test]
    fn requests_are_read_with_junk_between(
        rows in prop::collection::vec((0..1_000_u64, 0..3_u64, 1..1_u64 << 40), 1..40),
        junk in "[a-z,;]{1,20}",
    ) {
        let mut text = String::new();
        for (latency, direction, offset) in &rows {
            let _ = write!(text, "70, {latency}, {direction}, 512, {offset}, 0\n{junk}\n");
        }
        let (requests, header) = read(&FORMAT, &text);
        let mut found: Vec<_> = requests.iter().map(|r| r.offset.0).collect();
        let mut expected: Vec<_> = rows.iter().map(|(_, _, offset)| *offset).collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(header.losses.count_of(JUNK), rows.len() as u64);
    }
}
