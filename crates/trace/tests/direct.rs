//! A trace that is converted at once and one that is converted by way of the native format are the
//! same file: a writer's decisions do not depend on when volumes become known.

use std::fs;
use std::path::Path;

use ioecho_trace::formats::{ReadOptions, create, open};
use ioecho_trace::stream::copy;

fn convert(from: &Path, to: &Path) {
    let mut source = open(from, &ReadOptions::default()).expect("it opens");
    let sink = create(to, source.header()).expect("it begins");
    copy(&mut *source, sink).expect("it ends");
}

/// Volumes of which the later ones come up after the first batches.
fn alibaba(volumes: &[u64], requests: u64) -> String {
    let line = |n: u64| {
        let volume = volumes[(n * volumes.len() as u64 / requests) as usize];
        format!("{volume},R,{},4096,{}\n", n * 4096, 1_577_808_000_000_074 + n)
    };
    (0..requests).map(line).collect()
}

#[test]
fn a_detour_over_the_native_format_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    // The second one's name is the number that the first one has here.
    let text = alibaba(&[419, 0, 725, 1, 4_000_000_000], 30_000);
    fs::write(path("in.csv"), &text).unwrap();
    convert(&path("in.csv"), &path("in.parquet"));
    for ending in ["alibaba.csv", "msr.csv", "hfplayer.csv", "flatfile.bin", "iolog", "csv"] {
        let (direct, detour) = (path(&format!("a.{ending}")), path(&format!("b.{ending}")));
        convert(&path("in.csv"), &direct);
        convert(&path("in.parquet"), &detour);
        assert!(fs::read(&direct).unwrap() == fs::read(&detour).unwrap(), "{ending}");
        // And no two volumes became one.
        let mut source = open(&direct, &ReadOptions::default()).unwrap();
        let mut batch = ioecho_trace::Batch::default();
        while source.next_batch(&mut batch).unwrap() {}
        assert_eq!(source.header().volumes.len(), 5, "{ending}");
    }
    assert_eq!(fs::read_to_string(path("a.alibaba.csv")).unwrap(), text);
}
