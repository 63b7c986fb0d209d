use proptest::prelude::*;

use super::{FORMAT, WRITABLE};
use crate::batch::Columns;
use crate::formats::ReadOptions;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, read_with, recognised, refusal, survives, written};
use crate::header::{Header, Volume};
use crate::request::{Flags, Op, Request};
use crate::units::{Bytes, Nanos, VolumeId};

fn rows(requests: &[Request]) -> Vec<(i64, Op, u64, u64, u32)> {
    let row = |r: &Request| (r.issue.0, r.op, r.offset.0, r.length.0, r.volume.0);
    requests.iter().map(row).collect()
}

/// Lines of fio's own test t0038, of a recording, and of names with blanks.
const VERSION_3: &str = "\
fio version 3 iolog
30 /dev/null add
41 /dev/null open
10736 /dev/null trim 0 2147483648
10752 /dev/null write 0 4096
10800 /mnt/a file read here read 8192 4096
10900 /dev/null sync 0 0
10901 /dev/null datasync 4096 4096
10950 /dev/null close
";

#[test]
fn stamps_are_microseconds_and_files_are_volumes() {
    let (requests, header) = read(&FORMAT, VERSION_3);
    assert_eq!(
        rows(&requests),
        [
            (10_736_000, Op::Discard, 0, 1 << 31, 0),
            (10_752_000, Op::Write, 0, 4096, 0),
            (10_800_000, Op::Read, 8192, 4096, 1),
            (10_900_000, Op::Flush, 0, 0, 0),
            (10_901_000, Op::Flush, 0, 0, 0),
        ]
    );
    assert_eq!(header.volumes[1].name, "/mnt/a file read here");
    assert!(header.losses.is_empty() && header.guesses.is_empty(), "{header:?}");
    let options = ReadOptions { time_unit_ns: Some(1_000_000), ..ReadOptions::default() };
    assert_eq!(read_with(&FORMAT, VERSION_3, &options).0[0].issue, Nanos(10_736_000_000));
}

#[test]
fn waits_of_version_2_move_the_time_on() {
    let text = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 512\r\n\
        /dev/sda wait 250 0\n/dev/sda write 512 512\n/dev/sda wait 1 0\n/dev/sda read 5 7\n";
    let (requests, header) = read(&FORMAT, text);
    let instants: Vec<_> = requests.iter().map(|request| request.issue.0).collect();
    assert_eq!(instants, [0, 250_000, 251_000]);
    assert_eq!(header.guesses.iter().map(|note| note.count).collect::<Vec<_>>(), [2]);
}

#[test]
fn an_order_without_waits_is_told_to_be_no_time() {
    let text = "fio version 2 iolog\n/gpfs/x write 2072348000 4000\n/gpfs/x read 0 4000\n";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(rows(&requests)[0], (0, Op::Write, 2_072_348_000, 4000, 0));
    let note = header.guesses.iter().next().unwrap();
    assert!(note.what.contains("no waits") && note.count == 2, "{note:?}");
}

#[test]
fn what_is_no_request_is_counted_by_what_it_is() {
    let text = "fio version 3 iolog\n1 a read 0 512\n2 a wait 5 0\n3 a sync_file_range 0 512\n\
        4 a read 0 0\n5 a jump 0 512\n6 a read 0\n7 a lose\nx a read 0 512\n8 read 0 512\n9\n\
        18446744073709551616 a read 0 512\n99999999999999999 a read 0 512\n\
        10 a read 18446744073709551615 2\n11 a read 0x10 512\n12 a read -1 512\n\
        fio version 4 iolog\n";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(requests.len(), 1);
    assert_eq!(header.losses.count_of("waits in version 3"), 1);
    assert_eq!(header.losses.count_of("actions that are no requests"), 1);
    assert_eq!(header.losses.count_of("requests of zero length"), 1);
    assert_eq!(header.losses.count_of("requests that reach beyond 64-bit addresses"), 1);
    assert_eq!(header.losses.count_of(JUNK), 11);
}

#[test]
fn logs_that_fio_appended_are_told() {
    let text = "fio version 3 iolog\n5 a read 0 512\nfio version 3 iolog\n6 a read 512 512\n";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!((requests.len(), header.guesses.iter().count()), (2, 1));
}

#[test]
fn an_iolog_is_known_by_its_first_line_and_nothing_else() {
    assert_eq!(recognised(VERSION_3), Some("fio"));
    assert_eq!(recognised("fio version 2 iolog\n/dev/sda add\n"), Some("fio"));
    assert_eq!(recognised("0, 4096, 4096\n"), None);
    assert!(refusal(&FORMAT, "fio version 3 iolog\n1 a add\n").contains("no request"));
}

#[test]
fn the_file_is_what_fio_reads() {
    let names = ["/dev/sda", "my disk"];
    let volumes = names.into_iter().zip(0..).map(|(name, id)| Volume {
        id: VolumeId(id),
        name: name.to_owned(),
        size: None,
    });
    let header = Header { volumes: volumes.collect(), ..Header::default() };
    let mut large = Request::new(Nanos(2_500), Op::Discard, Bytes(0), Bytes(5 << 30));
    large.flags = Flags::SYNC;
    let mut other = Request::new(Nanos(7_000), Op::Flush, Bytes(0), Bytes(0));
    other.volume = VolumeId(1);
    let zeroes = Request::new(Nanos(8_000), Op::WriteZeroes, Bytes(0), Bytes(512));
    let huge = Request::new(Nanos(8_000), Op::Discard, Bytes(0), Bytes(1 << 40));
    let (text, lost) = written(&WRITABLE, &header, &[large, other, zeroes, huge]);
    assert_eq!(
        text,
        "fio version 3 iolog
2 /dev/sda add
2 /dev/sda open
2 /dev/sda trim 0 2147483648
2 /dev/sda trim 2147483648 3221225472
7 my_disk add
7 my_disk open
7 my_disk sync 0 0
7 /dev/sda close
7 my_disk close
"
    );
    let told: Vec<_> = lost.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        told,
        [
            "instants cut to whole microseconds",
            "flags",
            "requests of 4 GiB and more, split",
            "names that fio cannot read, changed",
            "writes of zeroes",
            "requests of 1 TiB and more",
        ]
    );
}

#[test]
fn no_stamp_is_zero_because_fio_would_forget_the_time_behind_it() {
    let at = |us| Request::new(Nanos::from_micros(us), Op::Read, Bytes(0), Bytes(512));
    let (text, lost) = written(&WRITABLE, &Header::default(), &[at(0), at(0), at(5_000_000)]);
    let stamps: Vec<_> = text.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(stamps, ["1", "1", "1", "1", "5000000", "5000000"]);
    assert_eq!(lost.count_of(super::writer::MOVED), 2);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(&FORMAT, &bytes);
    }

    #[test]
    fn any_text_like_it_is_read_or_counted(
        version in 2..4,
        text in "([0-9]{0,20} ?[/ax ]{0,6} (read|wait|trim|add|x)? [0-9 ]{0,44}\n){0,20}",
    ) {
        survives(&FORMAT, format!("fio version {version} iolog\n{text}").as_bytes());
    }

    #[test]
    fn what_is_written_reads_back_with_junk_between(
        rows in prop::collection::vec(
            (1..1_000_000_i64, 0..4_usize, 0..1_u64 << 50, 1..1_u64 << 32, 0..3_u32), 1..50,
        ),
        junk in "[a-z ]{1,20}",
    ) {
        let volumes = (0..3).map(|id| Volume {
            id: VolumeId(id), name: format!("/dev/sd{id}"), size: None,
        });
        let volumes: Vec<_> = volumes.collect();
        let header = Header { columns: Columns::default(), volumes, ..Header::default() };
        let mut issue = 0;
        let requests: Vec<_> = rows.into_iter().map(|(gap, op, offset, length, volume)| {
            issue += gap * 1_000;
            let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][op];
            let (offset, length) = if op == Op::Flush { (0, 0) } else { (offset, length) };
            let mut request = Request::new(Nanos(issue), op, Bytes(offset), Bytes(length));
            request.volume = VolumeId(volume);
            request
        }).collect();
        let (text, lost) = written(&WRITABLE, &header, &requests);
        prop_assert!(lost.is_empty(), "{lost:?}");
        let junk = format!("\n{junk}!\n");
        let mixed = text.lines().map(|line| line.to_owned() + &junk).collect::<String>();
        let (mut back, seen) = read(&FORMAT, &mixed);
        for request in &mut back {
            let name = &seen.volumes[request.volume.0 as usize].name;
            request.volume = VolumeId(name[7..].parse().unwrap());
        }
        prop_assert_eq!(back, requests);
        prop_assert_eq!(seen.losses.count_of(JUNK), text.lines().count() as u64);
    }
}
