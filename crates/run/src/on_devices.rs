//! A trace whose requests go to devices: it has none that only file systems have.
//!
//! A block device knows nothing of files. A replay that counted such requests as not supported
//! would measure another load, so it refuses the trace instead: before anything is touched if the
//! first requests have one, as those of trees do, otherwise at the first.

use std::path::{Path, PathBuf};

use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Header, Source, TraceError};

/// A source of requests for devices.
pub(crate) struct OnDevices {
    source: Box<dyn Source>,
    path: PathBuf,
    /// What came of reading the first requests, until it is asked for.
    first: Option<(Batch, Result<bool, TraceError>)>,
}

impl OnDevices {
    /// Refuses a trace whose first requests have operations on files.
    pub(crate) fn new(mut source: Box<dyn Source>, path: &Path) -> Result<Self, TraceError> {
        let mut first = Batch::default();
        let read = source.next_batch(&mut first);
        check(&first, path)?;
        Ok(Self { source, path: path.to_owned(), first: Some((first, read)) })
    }
}

fn check(batch: &Batch, path: &Path) -> Result<(), TraceError> {
    let Some(op) = batch.op().iter().find(|op| op.is_of_files()) else { return Ok(()) };
    let reason =
        format!("a request of it is '{}', which is for files and not for devices", op.name());
    let remedy = Wording::from("convert its reads and writes alone first: ")
        .set("filter", "'op in {read, write}'");
    Err(TraceError::Unusable { path: path.to_owned(), reason, remedy })
}

impl Source for OnDevices {
    fn header(&self) -> &Header {
        self.source.header()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if let Some((first, read)) = self.first.take() {
            *batch = first;
            return read;
        }
        let is_more = self.source.next_batch(batch)?;
        check(batch, &self.path)?;
        Ok(is_more)
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Bytes, Columns, Nanos, Op, Request};

    use super::*;

    /// A trace of one request.
    struct One(Header, Option<Request>);

    impl Source for One {
        fn header(&self) -> &Header {
            &self.0
        }

        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
            batch.reset(Columns::default());
            let Some(request) = self.1.take() else { return Ok(false) };
            batch.push(&request);
            Ok(true)
        }
    }

    #[test]
    fn what_devices_do_passes_and_the_first_operation_on_files_is_refused_by_name() {
        for op in Op::ALL {
            let request = Request::new(Nanos(0), op, Bytes(0), Bytes(0));
            let source = Box::new(One(Header::default(), Some(request)));
            match OnDevices::new(source, Path::new("a.parquet")) {
                Ok(mut source) => {
                    assert!(!op.is_of_files(), "{}", op.name());
                    let mut batch = Batch::default();
                    assert!(source.next_batch(&mut batch).unwrap());
                    assert_eq!(batch.get(0), request);
                    assert!(!source.next_batch(&mut batch).unwrap());
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(op.is_of_files(), "{said}");
                    assert!(said.contains(&format!("'{}'", op.name())), "{said}");
                    assert!(said.contains("op in {read, write}"), "{said}");
                }
            }
        }
    }
}
