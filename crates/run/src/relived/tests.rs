//! What results become.

use std::cell::Cell;

use ioecho_trace::{Bytes, Origin};

use super::*;

/// Results that are made up.
struct Results(Header, Vec<Request>);

impl Source for Results {
    fn header(&self) -> &Header {
        &self.0
    }

    fn next_batch(&mut self, batch: &mut Batch) -> std::result::Result<bool, TraceError> {
        batch.reset(self.0.columns);
        self.1.drain(..).for_each(|request| batch.push(&request));
        Ok(!batch.is_empty())
    }
}

/// The results of these calls on the first file of the first of two trees, by one thread of the
/// first flow: what, when, for how long.
fn results(calls: &[(Op, i64, i64)]) -> Box<dyn Source> {
    let columns = Columns { origin: true, measured: true, ..Columns::default() };
    let made = |(op, begun, took): &(Op, i64, i64)| {
        let begun = Nanos(*begun);
        let mut request = Request::new(begun, *op, Bytes(0), Bytes(0));
        request.origin = Some(Origin { pid: 1, cpu: 0 });
        let done = Measured::done(begun, begun, begun + Nanos(*took));
        request.measured = Some(Measured { flow: 1, ..done });
        request
    };
    let header = Header { columns, ..Header::default() };
    Box::new(Results(header, calls.iter().map(made).collect()))
}

/// Two trees of one file of this size, from the first of which a flow copies to the second.
fn trees(size: &str) -> Arc<PastTrees> {
    let tree = |above: &str| PastTree {
        geometry: format!("depth=0&files=1&size={size}").parse().unwrap(),
        open: OpenWords::default(),
        above: above.to_owned(),
    };
    let trees = vec![tree("1/"), tree("2/")];
    Arc::new(PastTrees { trees, loads: vec![TreeLoad { writes: true, to: Some(1) }] })
}

/// All rows of a load: what, when, for how long.
fn rows(source: &mut dyn Source) -> Vec<(Op, i64, Option<i64>)> {
    let mut batch = Batch::new(source.header().columns);
    let mut rows = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        let told = |row: Request| (row.op, row.issue.0, row.latency.map(|took| took.0));
        rows.extend(batch.iter().map(told));
    }
    rows
}

/// The load that these calls were.
fn relived(past: Arc<PastTrees>, calls: &[(Op, i64, i64)]) -> Box<dyn Source> {
    let opening = Opening::new(Some(past), true, Path::new("run"), || Ok(results(calls)));
    opening.unwrap().open().unwrap()
}

#[test]
fn the_time_of_a_copy_is_that_of_its_reads_and_writes_one_after_the_other() {
    let mut source = relived(trees("2560m"), &[(Op::Copy, 100, 5001)]);
    let expected = [
        (Op::Open, 100, None),
        (Op::Create, 100, None),
        (Op::Read, 100, Some(1000)),
        (Op::Write, 1100, Some(1000)),
        (Op::Read, 2100, Some(1000)),
        (Op::Write, 3100, Some(1000)),
        (Op::Read, 4100, Some(500)),
        (Op::Write, 4600, Some(501)),
        (Op::Close, 5101, None),
        (Op::Close, 5101, None),
    ];
    assert_eq!(rows(&mut *source), expected);
}

#[test]
fn one_pass_tells_the_names_and_the_chains_before_the_results_are_replayed() {
    let opened = Cell::new(0);
    let open = || {
        opened.set(opened.get() + 1);
        Ok(results(&[(Op::Open, 0, 10), (Op::Read, 20, 5), (Op::Close, 30, 5)]))
    };
    let opening = Opening::new(Some(trees("4k")), true, Path::new("run"), open).unwrap();
    assert!(matches!(opening.chains(), Some(Chains::Named { tasks: 1 })));
    let source = opening.open().unwrap();
    let files = source.header().files.as_ref().unwrap();
    assert!(files.linked);
    let before: Vec<(&str, u64)> =
        files.before.iter().map(|it| (it.path.as_str(), it.size)).collect();
    assert_eq!(before, [("1", 0), ("1/vdb_f0001.file", 4096)]);
    assert_eq!(opened.get(), 2);
}

#[test]
fn what_cannot_be_made_again_is_left_out_and_counted() {
    let calls = [(Op::Write, 0, 10), (Op::Flush, 20, 5), (Op::Getattr, 30, 5)];
    let mut source = relived(trees("4k"), &calls);
    assert_eq!(rows(&mut *source), [(Op::Getattr, 30, Some(5))]);
    assert_eq!(source.header().losses.count_of(NOT_MADE_AGAIN), 1);
}
