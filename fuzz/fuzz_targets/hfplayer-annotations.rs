//! Annotated traces of hfplayer, and the check of what they say.
#![no_main]

use ioecho_replay::graph::given::Annotations;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Dependency};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let format = formats::by_name("hfplayer").expect("there is such a format");
    let options = ReadOptions { dependencies: true, ..ioecho_fuzz::options(bytes) };
    let Ok(mut source) = ioecho_fuzz::open_with(format, bytes, &options) else { return };
    let columns = source.header().columns;
    let mut batch = Batch::default();
    let mut annotations = Annotations::new(64);
    let (mut taken, mut given) = (0_u64, 0);
    while let Ok(true) = source.next_batch(&mut batch) {
        assert_eq!(batch.columns(), columns, "the columns of a batch are not the header's");
        for (row, request) in batch.iter().enumerate() {
            let Some(Dependency { id, think, parents }) = batch.dependency(row) else { continue };
            taken += 1;
            annotations.push(&request, id, parents, think);
            match annotations.give(false) {
                Ok(told) => given += u64::from(told.is_some()),
                Err(cycle) => return assert_eq!(cycle.0.first(), cycle.0.last()),
            }
        }
    }
    loop {
        match annotations.give(true) {
            Ok(Some(_)) => given += 1,
            Ok(None) => return assert_eq!(taken, given, "requests were lost"),
            Err(cycle) => return assert_eq!(cycle.0.first(), cycle.0.last()),
        }
    }
});
