//! The common part of the tests of transforms: a trace in, a trace out.

use std::path::Path;

use super::tests::Given;
use super::{Asked, Context, apply};
use crate::{Batch, Header, Op, Request, Source, TraceError};

/// A context whose other traces are `others`, each under the name of its place: `0`, `1`.
pub(crate) fn with_context<T>(others: &[Vec<Request>], run: impl FnOnce(&Context<'_>) -> T) -> T {
    let open = |path: &Path| -> Result<Box<dyn Source>, TraceError> {
        let index: usize = path.to_str().unwrap().parse().unwrap();
        Ok(Box::new(Given::new(&others[index], 7)))
    };
    let stop = crate::Stop::default();
    run(&Context { open: &open, spill_directory: std::env::temp_dir(), stop })
}

/// All requests of `source`. Checks that its batches are not empty and are in order.
pub(crate) fn all(source: &mut dyn Source) -> Vec<Request> {
    let mut batch = Batch::default();
    let mut all: Vec<Request> = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        assert!(!batch.is_empty() && batch.is_ordered());
        assert_eq!(batch.columns(), source.header().columns);
        assert!(all.last().is_none_or(|last| last.issue.0 <= batch.issue_ns()[0]));
        all.extend(batch.iter());
    }
    assert!(!source.next_batch(&mut batch).unwrap());
    all
}

/// The result of `line` for `requests`. Checks that its line of provenance makes the same result.
pub(crate) fn made(line: &str, requests: &[Request], rows: usize) -> (Vec<Request>, Header) {
    with_context(&[], |context| {
        let run = |line: &str| {
            let asked: Asked = line.parse().unwrap();
            let given = Box::new(Given::new(requests, rows));
            let mut source = apply(&[asked], given, context).unwrap();
            (all(&mut source), source.header().clone())
        };
        let (made, header) = run(line);
        assert_eq!(run(&header.transforms[0]), (made.clone(), header.clone()));
        (made, header)
    })
}

/// The refusal of `line`.
pub(crate) fn refusal(line: &str) -> String {
    line.parse::<Asked>().unwrap_err().to_string()
}

/// Requests of one volume in the order of their issue: instants in seconds, sectors, lengths in
/// sectors.
pub(crate) fn trace(rows: &[(i64, Op, u64, u64)]) -> Vec<Request> {
    rows.iter()
        .map(|&(at, op, sector, sectors)| {
            let (offset, length) = (crate::Bytes(512 * sector), crate::Bytes(512 * sectors));
            Request::new(crate::Nanos::from_secs(at), op, offset, length)
        })
        .collect()
}

/// The requests without measurements, as a source without them gives them.
pub(crate) fn unmeasured(requests: &[Request]) -> Vec<Request> {
    requests.iter().map(|request| Request { measured: None, ..*request }).collect()
}
