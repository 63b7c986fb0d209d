//! Whatever the bytes are: nothing panics, and good lines are read whatever stands between them.

use ioecho_trace::Op;
use ioecho_trace::formats::ReadOptions;
use proptest::prelude::*;

use crate::lines::{CASES, Plain};
use crate::{forced, read_bytes};

fn plain() -> impl Strategy<Value = Vec<Plain>> {
    let request = (0_u64..3, any::<bool>(), 0_u64..8000, 1_u64..300);
    proptest::collection::vec(request, 1..40).prop_map(|requests| {
        let mut now = 1_600_000_000;
        let one = |(seconds, is_read, sector, sectors)| {
            now += seconds;
            Plain { seconds: now, is_read, sector, sectors }
        };
        requests.into_iter().map(one).collect()
    })
}

/// Lines that are no request of any format here, and no header.
const JUNK: &[&str] = &["junk", "1,2", "x y z", ";;;", "a,b,c,d,e,f,g", "-1,-2,-3", "\u{0}\u{1}é"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn good_lines_are_all_read_whatever_stands_between_them(
        requests in plain(), junk in proptest::collection::vec(0..2 * JUNK.len(), 40),
        ending in prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n")],
    ) {
        for case in CASES {
            let mut text = String::new();
            let mut strange = 0;
            for (request, junk) in requests.iter().zip(&junk) {
                if let Some(junk) = JUNK.get(*junk) {
                    text.push_str(junk);
                    text.push_str(ending);
                    strange += 1;
                }
                text.push_str(&(case.line)(request));
                text.push_str(ending);
            }
            let (found, header) = read_bytes(text.as_bytes(), &forced(case.name)).unwrap();
            prop_assert_eq!(found.len(), requests.len(), "{}", case.name);
            let lost: u64 = header.losses.iter()
                .filter(|loss| loss.what != "digests of content")
                .map(|loss| loss.count).sum();
            prop_assert_eq!(lost, strange, "{}", case.name);
            let imported = header.imported.unwrap();
            prop_assert_eq!(imported.requests, requests.len() as u64);
            for (request, found) in requests.iter().zip(&found) {
                let is_read = found.op == Op::Read;
                let seconds = request.seconds - requests[0].seconds;
                let issued = (found.issue.0 - first_issue(&header.format, &requests[0])) as u64;
                prop_assert_eq!(issued, seconds * 1_000_000_000, "{}", case.name);
                prop_assert_eq!(is_read, request.is_read, "{}", case.name);
                prop_assert_eq!(found.length.0, request.sectors * 512, "{}", case.name);
                // Where an object lies is invented; how its requests lie to each other is not.
                let beginning = if matches!(case.name, "thesios" | "tectonic") {
                    found.offset.0 % (8 << 20)
                } else {
                    found.offset.0
                };
                prop_assert_eq!(beginning, request.sector * 512, "{}", case.name);
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 1..400),
        text in "([0-9]{1,25}|[RW.,# \n-]|0x[0-9a-f]{0,20}|Read|WRITE){1,60}",
    ) {
        for case in CASES {
            let _ = read_bytes(&bytes, &forced(case.name));
            let _ = read_bytes(text.as_bytes(), &forced(case.name));
            let strict = ReadOptions { strict: true, ..forced(case.name) };
            let _ = read_bytes(text.as_bytes(), &strict);
        }
        let _ = read_bytes(text.as_bytes(), &ReadOptions::default());
    }

    #[test]
    fn changed_lines_are_read_without_panic(
        requests in plain(), at in any::<prop::sample::Index>(), byte: u8, digits in 1_usize..30,
    ) {
        for case in CASES {
            let lines: Vec<_> = requests.iter().map(case.line).collect();
            let mut bytes = lines.join("\n").into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = read_bytes(&bytes, &forced(case.name));
            let digits = vec![b'9'; digits];
            bytes.splice(at..at, digits);
            let _ = read_bytes(&bytes, &forced(case.name));
        }
    }
}

/// The instant of the first request: formats that count from the start of the trace keep theirs,
/// some of them only if it cannot be one since 1970.
fn first_issue(format: &str, first: &Plain) -> i64 {
    let keeps = ["SPC trace", "DiskSim ASCII trace", "K5cloud trace"];
    if keeps.contains(&format) { first.seconds as i64 * 1_000_000_000 } else { 0 }
}
