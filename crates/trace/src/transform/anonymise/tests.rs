use super::super::Asked;
use super::super::tests::{once, refused};
use super::*;
use crate::batch::tests::any_request;
use crate::header::{NoteKind, Volume};
use crate::{Request, VolumeId};
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    #[test]
    fn extents_change_places_and_what_is_in_them_stays(
        mut requests in proptest::collection::vec(any_request(), 0..200), rows in 1_usize..40,
        extent in 1_u64..5000, size in prop_oneof![Just(None), Just(Some(200_000_u64))],
    ) {
        for request in &mut requests {
            request.offset.0 %= 100_000;
            request.length.0 %= 100;
            request.measured = None;
        }
        requests.sort_by_key(|request| request.issue);
        let size = size.map_or(String::new(), |size| format!(",size={size}"));
        let line = format!("anonymise secret,extent={extent}{size}");
        let (all, header) = once(&line, &requests, rows);
        prop_assert_eq!(all.len(), requests.len());
        let mut order = HashMap::new();
        let mut back = HashMap::new();
        let mut across = 0;
        for (new, old) in all.iter().zip(&requests) {
            prop_assert_eq!(Request { offset: old.offset, ..*new }, *old);
            if old.op == Op::Flush {
                prop_assert_eq!(new.offset, old.offset);
                continue;
            }
            if old.offset.0 % extent + old.length.0 > extent {
                across += 1;
                continue;
            }
            prop_assert_eq!(new.offset.0 % extent, old.offset.0 % extent);
            let (from, to) = (old.offset.0 / extent, new.offset.0 / extent);
            prop_assert_eq!(*order.entry((old.volume, from)).or_insert(to), to);
            prop_assert_eq!(*back.entry((old.volume, to)).or_insert(from), from);
        }
        prop_assert_eq!(header.guesses.count_of(ACROSS), across);
    }
}

#[test]
fn the_key_and_every_name_are_gone() {
    let mut header = Header {
        source: "/srv/customer.load".to_owned(),
        description: Some("the customer's database".to_owned()),
        recorder: Some("customer's recorder".to_owned()),
        started: Some("2026-01-01T00:00:00Z".to_owned()),
        damage: Some("/srv/customer.load: at byte 7".to_owned()),
        run: Some("host = \"customer\"".to_owned()),
        volumes: vec![Volume { id: VolumeId(3), name: "customer".to_owned(), size: None }],
        transforms: vec!["merge /srv/customer,offset=1G".to_owned(), "speed 2".to_owned()],
        ..Header::default()
    };
    header.processes.extend([(1, "customer".to_owned()), (2, "x".to_owned())]);
    header.processes.insert(7, "customer".to_owned());
    let junk = NoteKind::Unreadable.of("junk lines");
    header.losses.add(junk, 5, Some("customer".to_owned()));
    let merged = header.losses.iter().next().unwrap().within("/srv/customer");
    header.losses.add_note(&merged);
    header.merged.push(header.clone());
    hide(&mut header);
    assert!(!serde_json::to_string(&header).unwrap().contains("customer"));
    let names: Vec<_> = header.processes.values().map(String::as_str).collect();
    assert_eq!(names, ["process 1", "process 2", "process 1"]);
    assert_eq!(header.losses.count_of("junk lines"), 10);
    assert_eq!(header.transforms, ["merge (not kept)", "speed 2"]);
    let asked: Asked = "anonymise secret,extent=4k".parse().unwrap();
    let (_, header) = once("anonymise secret,extent=4k", &[], 1);
    assert_eq!(header.transforms, ["anonymise key-not-kept,extent=4k,size=1"]);
    assert!(!format!("{:?}", asked.transform).contains("secret"));
    assert_eq!(asked.to_string(), "anonymise key-not-kept,extent=4k");
}

#[test]
fn a_line_of_provenance_can_be_read_but_does_nothing_without_the_key() {
    let asked: Asked = "anonymise key-not-kept,extent=4k,size=1M".parse().unwrap();
    let context = Context {
        open: &|_| unreachable!(),
        spill_directory: std::env::temp_dir(),
        stop: crate::Stop::default(),
    };
    let given = Box::new(super::super::tests::Given::new(&[], 1));
    let error = super::super::apply(&[asked], given, &context).err().unwrap();
    assert!(error.to_string().contains("the key of an anonymised trace is not kept"));
    assert_eq!(refused("anonymise"), "the key is missing");
    assert_eq!(refused("anonymise k,extent=0"), "extent= and size= must be more than 0");
}
