//! Columns of the requests that a request waits for.

use std::fs::File;

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::super::reader::UNREAD_DEPENDENCIES;
use super::super::writer::GROUP_PARENTS;
use super::super::{create, open};
use super::{file, header, read, some_requests};
use crate::batch::{Batch, Columns};
use crate::formats::ReadOptions;
use crate::{Dependency, Measured, Nanos, Request};

/// A trace with links: one row without parents, one with many, and one with an unknown dependency.
fn linked() -> Batch {
    let columns = Columns { latency: true, dependencies: true, ..Columns::default() };
    let mut batch = Batch::new(columns);
    for (row, request) in some_requests(70_000).iter().enumerate() {
        batch.push(request);
        let parents: Vec<u64> = (0..row as u64 % 5).map(|back| row as u64 - back).collect();
        let think = (!parents.is_empty()).then_some(Nanos(row as i64));
        batch.link_last(Dependency { id: row as u64 * 4, think, parents: &parents });
    }
    batch
}

#[test]
fn links_are_read_where_they_are_asked_for() {
    let (_directory, path) = file();
    let batch = linked();
    let columns = batch.columns();
    let mut sink = create(&path, &header(columns)).unwrap();
    sink.write(&batch).unwrap();
    sink.finish(&header(columns)).unwrap();
    let options = ReadOptions { dependencies: true, ..ReadOptions::default() };
    let mut source = open(&path, &options).unwrap();
    assert_eq!(source.header().columns, columns);
    let (mut some, mut all) = (Batch::default(), Batch::new(columns));
    while source.next_batch(&mut some).unwrap() {
        all.append(&some, 0, some.len());
    }
    assert!(all == batch);
    // Readers that do not ask for links get the same requests. Only a trace that is made of them
    // has lost something.
    let (requests, found) = read(&path).unwrap();
    assert!(requests == batch.iter().collect::<Vec<_>>());
    assert!(!found.columns.dependencies);
    assert_eq!(found.losses.count_of(UNREAD_DEPENDENCIES), 0);
    let options = ReadOptions { into_another: true, ..ReadOptions::default() };
    let copied = open(&path, &options).unwrap();
    assert_eq!(copied.header().losses.count_of(UNREAD_DEPENDENCIES), 1);
}

#[test]
fn the_request_that_was_waited_for_is_read_where_it_is_asked_for() {
    let (_directory, path) = file();
    let columns = Columns { measured: true, ..Columns::default() };
    let mut batch = Batch::new(columns);
    for (row, request) in (0..).zip(&some_requests(100)) {
        let measured = Measured {
            target_offset: Some(request.offset),
            behind: row % 3,
            ..Measured::done(request.issue, request.issue, request.issue)
        };
        batch.push(&Request { latency: None, measured: Some(measured), ..*request });
    }
    let mut sink = create(&path, &header(columns)).unwrap();
    sink.write(&batch).unwrap();
    sink.finish(&header(columns)).unwrap();
    let read = |dependencies| -> Vec<u32> {
        let options = ReadOptions { dependencies, ..ReadOptions::default() };
        let (mut source, mut found) = (open(&path, &options).unwrap(), Batch::new(columns));
        assert!(source.next_batch(&mut found).unwrap());
        found.iter().map(|request| request.measured.unwrap().behind).collect()
    };
    assert_eq!(read(true), (0..100).map(|row| row % 3).collect::<Vec<_>>());
    assert_eq!(read(false), [0; 100]);
}

#[test]
fn a_row_group_ends_early_where_its_rows_have_many_parents() {
    let (_directory, path) = file();
    let columns = Columns { dependencies: true, ..Columns::default() };
    let mut sink = create(&path, &header(columns)).unwrap();
    let parents: Vec<u64> = (1..=4096).collect();
    let mut batch = Batch::new(columns);
    let (rows, of_batch) = (GROUP_PARENTS / parents.len() + 100, 50);
    for requests in some_requests(rows as i64).chunks(of_batch) {
        batch.reset(columns);
        for request in requests {
            batch.push(request);
            batch.link_last(Dependency { id: 7, think: Some(Nanos(1)), parents: &parents });
        }
        sink.write(&batch).unwrap();
    }
    sink.finish(&header(columns)).unwrap();
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let rows: Vec<_> =
        file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(rows, [1050, 74]);
    let options = ReadOptions { dependencies: true, ..ReadOptions::default() };
    let mut source = open(&path, &options).unwrap();
    let mut seen = 0;
    while source.next_batch(&mut batch).unwrap() {
        seen += batch.len();
        assert!((0..batch.len()).all(|row| batch.dependency(row).unwrap().parents == parents));
    }
    assert_eq!(seen, 1124);
}
