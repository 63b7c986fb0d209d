//! Reading bytes as a file is read, for the tests of binary formats.

use super::{ReadOptions, open};
use crate::batch::Batch;
use crate::compression::Codec;
use crate::compression::tests::pack;
use crate::error::TraceError;
use crate::formats::create;
use crate::header::{Header, Volume};
use crate::request::Request;
use crate::stream::{Source, Written};
use crate::units::VolumeId;

/// All requests of a source, and its final header.
pub(super) fn drain(source: &mut dyn Source) -> Result<(Vec<Request>, Header), TraceError> {
    let mut batch = Batch::default();
    let mut requests = Vec::new();
    while source.next_batch(&mut batch)? {
        assert!(batch.is_ordered());
        requests.extend(batch.iter());
    }
    Ok((requests, source.header().clone()))
}

/// Reads a file that holds `bytes`.
pub(crate) fn read(
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(Vec<Request>, Header), TraceError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace");
    std::fs::write(&path, bytes).unwrap();
    let mut source = open(&path, options)?;
    drain(&mut *source)
}

/// Reads `bytes` as they are and packed with every codec, and checks that the result is the same.
pub(super) fn read_alike(bytes: &[u8]) -> (Vec<Request>, Header) {
    let options = ReadOptions::default();
    let plain = read(bytes, &options).unwrap();
    for codec in [Codec::Gzip, Codec::Zstd, Codec::Xz, Codec::Bzip2] {
        assert_eq!(read(&pack(bytes, codec), &options).unwrap(), plain, "{codec:?}");
    }
    plain
}

/// Writes requests to volumes of these names as a file that is called `name`. Returns the bytes of
/// the file.
pub(super) fn written(name: &str, volumes: &[&str], requests: &[Request]) -> (Vec<u8>, Written) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    let columns =
        crate::Columns { latency: true, origin: true, measured: false, dependencies: false };
    let volume = |(id, name): (usize, &&str)| Volume {
        id: VolumeId(id as u32),
        name: (*name).to_owned(),
        size: None,
    };
    let volumes = volumes.iter().enumerate().map(volume).collect();
    let header = Header { volumes, columns, ..Header::default() };
    let mut sink = create(&path, &header).unwrap();
    let mut batch = Batch::new(columns);
    for some in requests.chunks(1000) {
        batch.reset(columns);
        for request in some {
            batch.push(request);
        }
        sink.write(&batch).unwrap();
    }
    let written = sink.finish(&header).unwrap();
    (std::fs::read(&path).unwrap(), written)
}
