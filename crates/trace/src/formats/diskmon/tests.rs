use std::fmt::Write as _;

use proptest::prelude::*;

use super::FORMAT;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, recognised, survives};
use crate::request::{Op, Request};

fn rows(requests: &[Request]) -> Vec<(i64, Op, u64, u64, i64, u32)> {
    let row = |r: &Request| {
        let latency = r.latency.unwrap().0;
        (r.issue.0, r.op, r.offset.0 / 512, r.length.0 / 512, latency, r.volume.0)
    };
    requests.iter().map(row).collect()
}

const LOG: &str = "\
0\t0.000000\t0.00001526\t0\tWrite\t2983648\t8\r
1\t0.015625\t0.00003052\t1\tRead\t64\t128\r
2\t1.5\t0.0\t0\tFlush\r
";

#[test]
fn a_line_is_a_request_of_a_disk() {
    let (requests, header) = read(&FORMAT, LOG);
    assert_eq!(
        rows(&requests),
        [
            (0, Op::Write, 2_983_648, 8, 15_260, 0),
            (15_625_000, Op::Read, 64, 128, 30_520, 1),
            (1_500_000_000, Op::Flush, 0, 0, 0, 0),
        ]
    );
    assert_eq!(header.volumes[1].name, "1");
    assert!(header.losses.is_empty() && header.guesses.is_empty());
    // Blanks do as well, and the heading does not hurt.
    let text =
        format!("#  Time Duration (s) Disk Request Sector Length\n{}", LOG.replace('\t', "  "));
    assert_eq!(rows(&read(&FORMAT, &text).0), rows(&requests));
}

#[test]
fn a_time_of_day_counts_from_the_first_request_and_goes_on_behind_midnight() {
    let text = "1 11:59:59.25 PM 0.001 0 Read 8 8\n2 12:00:00.50 AM 0.001 0 Read 16 8\n";
    let instants = |text: &str| read(&FORMAT, text).0.iter().map(|r| r.issue.0).collect::<Vec<_>>();
    assert_eq!(instants(text), [0, 1_250_000_000]);
    assert_eq!(
        instants("1 09:00:00 0.001 0 Read 8 8\n2 21:30:00 0.001 0 Read 8 8\n"),
        [0, 45_000_000_000_000]
    );
}

#[test]
fn decimals_may_stand_behind_a_comma() {
    let german = LOG.replace('.', ",");
    assert_eq!(recognised(&german), Some("diskmon"));
    assert_eq!(rows(&read(&FORMAT, &german).0), rows(&read(&FORMAT, LOG).0));
    let (requests, _) = read(&FORMAT, "1 9:00:00,25 0,001 0 Read 8 8\n2 9:00:01 0,5 0 Read 8 8\n");
    assert_eq!(requests[1].issue.0, 750_000_000);
    assert_eq!(requests[0].latency.unwrap().0, 1_000_000);
}

#[test]
fn logs_are_known_by_their_lines() {
    assert_eq!(recognised(LOG), Some("diskmon"));
    for text in
        ["938513000 4 264719034 16 0\n", "0 0.1 0.1 0 Erase 1 8\n", "0,0.1,0.1,0,Read,1,8\n"]
    {
        assert!(!(FORMAT.recognise)(text.as_bytes()), "{text}");
    }
}

#[test]
fn junk_is_counted() {
    let mut text = LOG.to_owned();
    for line in [
        "x",
        "1 x 0.1 0 Read 8 8",
        "1 0.1 x 0 Read 8 8",
        "1 0.1 0.1 C: Read 8 8",
        "1 0.1 0.1 0 Erase 8 8",
        "1 0.1 0.1 0 Read x 8",
        "1 0.1 0.1 0 Read 8",
        "1 0.1 0.1 0 Read 8 8 8",
        "1 0.1 0.1 0 Read 99999999999999999 8",
        "1 25:00:00 0.1 0 Read 8 8",
        "1 99999999999.0 0.1 0 Read 8 8",
        "1 0.1 0.1 0 Read 18446744073709551615 8",
    ] {
        let _ = writeln!(text, "{line}");
    }
    let (requests, header) = read(&FORMAT, &text);
    assert_eq!((requests.len(), header.losses.count_of(JUNK)), (3, 12));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(&FORMAT, &bytes);
    }

    #[test]
    fn any_text_like_it_is_read_or_counted(
        text in concat!(
            "([0-9]{1,3} [0-9:.]{1,22}( [AP]M)? [0-9.]{1,22} [0-9]{1,3} ",
            "(Read|Write|Flush) [0-9 ]{0,24}\n){0,20}",
        )
    ) {
        survives(&FORMAT, text.as_bytes());
    }

    #[test]
    fn requests_are_read_with_junk_between(
        rows in prop::collection::vec((1..1_u64 << 40, 1..1_u64 << 20, 0..9_u8), 1..40),
        junk in "[a-z;]{1,20}",
    ) {
        let mut text = String::new();
        for (index, (sector, sectors, disk)) in rows.iter().enumerate() {
            let at = format!("{index}\t{index}.25\t0.5");
            let _ = writeln!(text, "{at}\t{disk}\tRead\t{sector}\t{sectors}\n{junk}");
        }
        let (requests, header) = read(&FORMAT, &text);
        let found: Vec<_> = requests
            .iter()
            .map(|r| {
                let disk = &header.volumes[r.volume.0 as usize].name;
                (r.offset.0 / 512, r.length.0 / 512, disk.parse::<u8>().unwrap())
            })
            .collect();
        prop_assert_eq!(found, rows.clone());
        prop_assert_eq!(header.losses.count_of(JUNK), rows.len() as u64);
    }
}
