use std::fs;

use super::writer::RENAMED;
use super::*;
use crate::batch::tests::any_request;
use crate::formats::import::JUNK;
use crate::formats::{ReadOptions, create, open};
use crate::header::Volume;
use crate::{Batch, Columns, Header, Measured, Op, Request, TraceError, VolumeId};
use proptest::prelude::*;

fn read(bytes: &[u8], strict: bool) -> Result<(Vec<Request>, Header), TraceError> {
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

fn written(requests: &[Request], header: &Header) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.csv");
    let mut sink = create(&path, header).unwrap();
    let mut batch = Batch::new(header.columns);
    batch.extend(requests);
    sink.write(&batch).unwrap();
    // All names are kept but one that two volumes have.
    let lost = sink.finish(header).unwrap().lost;
    assert!(lost.iter().all(|note| note.what == RENAMED), "{lost:?}");
    fs::read_to_string(&path).unwrap()
}

const TEXT: &str = "\
issue_ns,op,flags,offset_bytes,length_bytes,volume,latency_ns
1,read,,4096,512,\"a, b\",7
5,write,sync|fua,0,4096,sdb,
";

#[test]
fn a_row_says_a_request_in_words_and_whole_units() {
    let columns = Columns { latency: true, ..Columns::default() };
    let volumes = ["a, b", "sdb"].into_iter().enumerate().map(|(id, name)| Volume {
        id: VolumeId(id as u32),
        name: name.to_owned(),
        size: None,
    });
    let header = Header { columns, volumes: volumes.collect(), ..Header::default() };
    let (all, read_header) = read(TEXT.as_bytes(), true).unwrap();
    assert_eq!(read_header.columns, columns);
    assert_eq!(read_header.volumes, header.volumes);
    assert_eq!((all[0].op, all[1].volume), (Op::Read, VolumeId(1)));
    assert_eq!(written(&all, &header), TEXT);
}

#[test]
fn columns_are_found_by_name_wherever_they_stand_and_more_are_no_harm() {
    let text = "\u{feff}x,length_bytes,op,issue_ns,offset_bytes\r\na,512,write,3,1024\r\n";
    let (all, header) = read(text.as_bytes(), true).unwrap();
    assert_eq!((all[0].length.0, all[0].offset.0, all[0].issue.0), (512, 1024, 3));
    assert_eq!(header.columns, Columns::default());
}

#[test]
fn a_file_behind_another_has_its_header_skipped_and_junk_is_counted() {
    let (all, header) = read(format!("{TEXT}{TEXT}junk\n").as_bytes(), false).unwrap();
    assert_eq!(all.len(), 4);
    assert_eq!(header.losses.count_of(JUNK), 1);
    assert!(read(format!("{TEXT}junk\n").as_bytes(), true).is_err());
}

#[test]
fn volumes_of_one_name_stay_two() {
    let name = |id| Volume { id: VolumeId(id), name: "sda".to_owned(), size: None };
    let header = Header { volumes: vec![name(0), name(1)], ..Header::default() };
    let mut requests = read(TEXT.as_bytes(), true).unwrap().0;
    requests[0].latency = None;
    let (all, header) = read(written(&requests, &header).as_bytes(), true).unwrap();
    assert_ne!(all[0].volume, all[1].volume);
    assert_eq!(header.volumes.len(), 2);
}

proptest! {
    #[test]
    fn all_that_a_request_is_comes_back(
        mut requests in proptest::collection::vec(any_request(), 1..60), columns in 0..8_u8,
    ) {
        let columns = Columns {
            latency: columns & 1 != 0, origin: columns & 2 != 0, measured: columns & 4 != 0,
                dependencies: false,
        };
        requests.retain(|r| r.length.0 > 0 || matches!(r.op, Op::Flush | Op::Zone));
        requests.sort_by_key(|request| request.issue);
        prop_assume!(!requests.is_empty());
        let volumes = (0..4).map(|id| Volume {
            id: VolumeId(id), name: format!("\"v\", {id}"), size: None,
        });
        let header = Header { columns, volumes: volumes.collect(), ..Header::default() };
        let text = written(&requests, &header);
        let (mut all, found) = read(text.as_bytes(), true).unwrap();
        for request in &mut all {
            let name = &found.volumes[request.volume.0 as usize].name;
            let volume = header.volumes.iter().find(|volume| volume.name == *name);
            request.volume = volume.unwrap().id;
        }
        for request in &mut requests {
            request.latency = request.latency.filter(|_| columns.latency);
            request.origin = request.origin.filter(|_| columns.origin);
            // A file of lines has no place for `behind`, which holds only where no line is lost.
            let measured = request.measured.filter(|_| columns.measured);
            request.measured = measured.map(|measured| Measured { behind: 0, flow: 0, ..measured });
            if request.op == Op::Flush {
                request.offset = crate::Bytes::ZERO;
            }
        }
        prop_assert_eq!(all, requests);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), strict in any::<bool>(),
    ) {
        let _ = (recognise(&bytes), read(&[TEXT.as_bytes(), &bytes].concat(), strict));
    }

    #[test]
    fn no_text_of_columns_makes_the_reader_panic(
        lines in proptest::collection::vec("[0-9,a-z\"|-]{0,60}", 0..40),
    ) {
        let _ = read(format!("{TEXT}{}", lines.join("\n")).as_bytes(), false);
    }
}
