//! Formats that know no more than the second, and the choice that this leaves.

use std::io::Write as _;

use ioecho_trace::Batch;
use ioecho_trace::formats::{self, ReadOptions, WholeSeconds};
use ioecho_trace::header::NoteKind;

use crate::lines::CASES;
use crate::read_bytes;

const TEXT: &str = "1538323201,8,8,1,1\n1538323201,16,8,1,1\n1538323200,24,8,0,1\n\
                    1538323201,32,8,0,1\n1538323203,40,8,0,1\n1538323201,48,8,0,1\n";

/// The instants in milliseconds, and what was guessed.
fn with(choice: WholeSeconds) -> (Vec<i64>, Vec<(String, u64)>) {
    let options = ReadOptions { whole_seconds: choice, ..ReadOptions::default() };
    let (requests, header) = read_bytes(TEXT.as_bytes(), &options).unwrap();
    let instants = requests.iter().map(|request| request.issue.0 / 1_000_000).collect();
    let guesses = header.guesses.iter().map(|guess| (guess.what.clone(), guess.count));
    (instants, guesses.filter(|(what, _)| what.contains("second")).collect())
}

#[test]
fn nobody_chose_means_that_they_stay_and_that_it_is_told_with_the_remedy() {
    let (instants, guesses) = with(WholeSeconds::Unchosen);
    assert_eq!(instants, [0, 1000, 1000, 1000, 1000, 3000]);
    assert_eq!(guesses[0].1, 6);
    assert!(guesses[0].0.contains("`whole-seconds` even"), "{}", guesses[0].0);
}

#[test]
fn each_choice_does_what_it_says_and_stands_in_the_header() {
    let (instants, guesses) = with(WholeSeconds::Even);
    assert_eq!(instants, [0, 1000, 1250, 1500, 1750, 3000]);
    assert!(guesses[0].0.contains("evenly") && guesses[0].1 == 6);
    let (instants, guesses) = with(WholeSeconds::Burst);
    assert_eq!(instants, [0, 1000, 1000, 1000, 1000, 3000]);
    assert!(guesses[0].0.contains("as asked for") && guesses[0].1 == 6);
    let (instants, guesses) = with(WholeSeconds::Poisson);
    assert_eq!(instants, with(WholeSeconds::Poisson).0);
    assert!(guesses[0].0.contains("at random") && guesses[0].1 == 6);
    assert!(instants.windows(2).any(|pair| (pair[1] - pair[0]) % 125 != 0));
}

#[test]
fn who_refuses_whole_seconds_is_told_what_to_choose() {
    for case in CASES {
        let choice = WholeSeconds::Refuse;
        let options = ReadOptions { whole_seconds: choice, ..ReadOptions::default() };
        let result = read_bytes(case.real.join("\n").as_bytes(), &options);
        if matches!(case.name, "tencent" | "cloudphysics-csv" | "tectonic") {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("whole-seconds even, poisson or burst"), "{error}");
        } else {
            assert!(result.is_ok(), "{}", case.name);
        }
    }
}

#[test]
fn a_copy_of_msr_that_was_rounded_to_the_second_is_refused_without_a_choice() {
    let line = |ticks: u64| format!("{},hm,0,Read,0,4096,500\n", 128_166_372_000_000_000 + ticks);
    let refuse = ReadOptions { whole_seconds: WholeSeconds::Refuse, ..ReadOptions::default() };
    let rounded: String = (0..20).map(|number| line(number / 3 * 10_000_000)).collect();
    let error = read_bytes(rounded.as_bytes(), &refuse).unwrap_err().to_string();
    assert!(error.contains("whole-seconds even, poisson or burst"), "{error}");
    let (requests, header) = read_bytes(rounded.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((requests.len(), header.guesses.iter().next().unwrap().count), (20, 20));
    let exact: String = (0..20).map(|number| line(number / 3 * 10_000_001)).collect();
    assert!(read_bytes(exact.as_bytes(), &refuse).is_ok());
}

#[test]
fn instants_with_decimals_are_not_whole_seconds() {
    let choice = WholeSeconds::Refuse;
    let options = ReadOptions { whole_seconds: choice, ..ReadOptions::default() };
    let text = "10 0 512 1675238400.25 2 0 0 7\n10 0 512 1675238400.5 2 0 0 7\n";
    assert_eq!(read_bytes(text.as_bytes(), &options).unwrap().0.len(), 2);
}

#[test]
fn what_was_guessed_is_told_of_a_trace_that_is_read_in_part_too() {
    let mut text = String::new();
    for second in 0..200 {
        text.push_str(&format!("{},8,8,1,1\n", 1_538_323_200 + second).repeat(500));
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    for choice in [WholeSeconds::Even, WholeSeconds::Burst] {
        let options = ReadOptions { whole_seconds: choice, ..ReadOptions::default() };
        let mut source = formats::open(file.path(), &options).unwrap();
        let mut batch = Batch::default();
        let mut read = 0;
        for _ in 0..2 {
            assert!(source.next_batch(&mut batch).unwrap());
            read += batch.len() as u64;
        }
        let guesses = source.header().guesses.iter();
        let guessed: u64 =
            guesses.filter(|note| note.kind == NoteKind::Instant).map(|n| n.count).sum();
        assert!(read < 100_000 && guessed >= read, "{guessed} of {read}");
    }
}
