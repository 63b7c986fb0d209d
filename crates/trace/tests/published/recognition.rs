//! Each format is recognised as itself: few columns of numbers fit many formats.

use ioecho_trace::formats::{FORMATS, ReadOptions};

use crate::lines::CASES;
use crate::read_bytes;

/// The format that a file which begins so is taken for.
fn recognised(first_bytes: &[u8]) -> &'static str {
    let found = FORMATS.iter().find(|format| (format.recognise)(first_bytes));
    found.map_or("none", |format| format.name)
}

#[test]
fn real_lines_are_recognised_as_what_they_are() {
    for case in CASES {
        let text = case.real.join("\n") + "\n";
        assert_eq!(recognised(text.as_bytes()), case.name);
        assert_eq!(recognised(text.replace('\n', "\r\n").as_bytes()), case.name, "with CR LF");
        assert_eq!(recognised(text.trim_end().as_bytes()), case.name, "without a last newline");
        let cut = text.len() - 7;
        assert_eq!(recognised(&text.as_bytes()[..cut]), case.name, "with the last line cut");
    }
}

#[test]
fn real_lines_are_recognised_without_the_header() {
    for case in CASES {
        let is_header = |line: &&&str| line.starts_with(|c: char| c.is_alphabetic() || c == '#');
        let header = case.real.first().filter(is_header).filter(|_| case.real.len() > 2);
        let skip = usize::from(header.is_some_and(|line| line.contains("ime,") || line.len() > 30));
        let skip = if case.name == "thesios" { 1 } else { skip };
        let text = case.real[skip..].join("\n");
        assert_eq!(recognised(text.as_bytes()), case.name);
    }
}

#[test]
fn a_malformed_line_among_good_ones_does_not_mislead() {
    for case in CASES {
        for malformed in ["2,30862016,4096,W,2 448003", "this is no request", "1,2,3", ";"] {
            for at in 0..=case.real.len() {
                let mut lines = case.real.to_vec();
                lines.insert(at, malformed);
                let text = lines.join("\n") + "\n";
                assert_eq!(recognised(text.as_bytes()), case.name, "{malformed}");
            }
        }
    }
}

#[test]
fn one_line_is_enough() {
    for case in CASES {
        let last = case.real.last().unwrap();
        assert_eq!(recognised(format!("{last}\n").as_bytes()), case.name);
    }
}

#[test]
fn a_file_that_ends_behind_its_header_is_of_that_format_and_has_no_request() {
    let mut headers = 0;
    for case in CASES {
        let header = case.real.iter().find(|line| {
            line.trim_start_matches('#').trim_start().starts_with(|c: char| c.is_alphabetic())
                && !line.contains("0x")
                && line.split(',').skip(1).all(|name| name.parse::<f64>().is_err())
        });
        let Some(header) = header else { continue };
        headers += 1;
        let text = format!("{header}\n");
        assert_eq!(recognised(text.as_bytes()), case.name);
        let error = read_bytes(text.as_bytes(), &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("there is no request in its 1 line"), "{}: {error}", case.name);
    }
    assert!(headers >= 3, "{headers}");
}

#[test]
fn what_is_none_of_them_is_recognised_as_none() {
    for text in [
        "time,lba\n1,2\n",
        "a b c d e\nf g h i j\n",
        "1 2 3\n4 5 6\n",
        "1 2 3 4 5\n6 7 8 9 10\n",
        // Numbers alone, and cache accesses: start, count, a zero, the number of the request.
        "42932745\n42932746\n",
        "4534984 1 0 0\n4534985 1 0 1\n",
        "Dear reader,\n0,1\n",
        "",
    ] {
        assert_eq!(recognised(text.as_bytes()), "none", "{text}");
    }
}
