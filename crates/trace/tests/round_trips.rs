//! What is written is what is read again, for every format.
//!
//! A format says less than a trace, and a conversion is honest if it loses exactly what it counts
//! and what is documented. So for every format that can be written there is a line here that says
//! what it keeps; any requests are written, the file is opened as any file is, without a word about
//! its format, and what comes out must be what the line says, to the last bit.
//!
//! A further format is a further line in [`KEEPS`].

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use ioecho_trace::formats::write::{WRITABLE, Writable};
use ioecho_trace::formats::{ReadOptions, open};
use ioecho_trace::stream::Written;
use ioecho_trace::{
    Batch, Bytes, Columns, Flags, Header, Measured, Nanos, Op, Origin, Request, Volume, VolumeId,
};
use proptest::prelude::*;

/// What becomes of the volumes.
#[derive(Clone, Copy, PartialEq)]
enum Volumes {
    /// Their names are kept.
    Named,
    /// They are told apart, under other names.
    Apart,
    /// All requests are on one afterwards.
    Joined,
    /// Only the requests to the volume of the first one are kept.
    First,
}

/// What a format keeps of a trace.
struct Keeps {
    /// The name in [`WRITABLE`].
    name: &'static str,
    /// What the header says as its format when the file is read.
    read_as: &'static str,
    /// The unit that instants are cut down to, in nanoseconds.
    time_ns: i64,
    /// Whether the first request becomes the trace's start.
    rebased: bool,
    /// The unit that ranges are widened to, in bytes.
    sector: u64,
    ops: &'static [Op],
    volumes: Volumes,
    /// The unit that latencies are cut down to, in nanoseconds, where they are kept.
    latency_ns: Option<i64>,
    origin: bool,
    /// What else is peculiar to the format.
    change: fn(&mut Request),
}

const ALL: &[Op] = &Op::ALL;
const READS_AND_WRITES: &[Op] = &[Op::Read, Op::Write];

/// The usual: a line says what its format does not have in common with this.
const USUAL: Keeps = Keeps {
    name: "",
    read_as: "",
    time_ns: 1,
    rebased: false,
    sector: 512,
    ops: READS_AND_WRITES,
    volumes: Volumes::Named,
    latency_ns: None,
    origin: false,
    change: |request| request.flags = Flags::empty(),
};

/// A line for each format that is both written and read.
const KEEPS: &[Keeps] = &[
    Keeps {
        name: "native",
        read_as: "a recording",
        sector: 1,
        ops: ALL,
        latency_ns: Some(1),
        origin: true,
        change: |_| (),
        ..USUAL
    },
    Keeps {
        name: "csv",
        read_as: "ioecho CSV",
        sector: 1,
        ops: ALL,
        latency_ns: Some(1),
        origin: true,
        change: |_| (),
        ..USUAL
    },
    Keeps {
        name: "blkreplay",
        read_as: "blkreplay load",
        volumes: Volumes::First,
        change: |request| {
            let kept = if request.op == Op::Read { Flags::READAHEAD } else { Flags::empty() };
            request.flags &= kept;
        },
        ..USUAL
    },
    Keeps {
        name: "blkreplay-result",
        read_as: "blkreplay replay result",
        volumes: Volumes::Joined,
        latency_ns: Some(1),
        change: as_result,
        ..USUAL
    },
    Keeps {
        name: "hfplayer",
        read_as: "hfplayer CSV",
        latency_ns: Some(1),
        change: unknown_if_zero,
        ..USUAL
    },
    Keeps {
        name: "msr",
        read_as: "MSR Cambridge CSV",
        time_ns: 100,
        rebased: true,
        sector: 1,
        // A volume is called by its name and its number there.
        volumes: Volumes::Apart,
        latency_ns: Some(100),
        change: unknown_if_zero,
        ..USUAL
    },
    Keeps {
        name: "alibaba",
        read_as: "Alibaba block trace",
        time_ns: 1_000,
        rebased: true,
        sector: 1,
        ..USUAL
    },
    Keeps {
        name: "fio",
        read_as: "fio iolog",
        time_ns: 1_000,
        sector: 1,
        ops: &[Op::Read, Op::Write, Op::Discard, Op::Flush],
        ..USUAL
    },
    Keeps {
        name: "vdbench",
        read_as: "vdbench flatfile",
        time_ns: 1_000,
        sector: 1,
        latency_ns: Some(1_000),
        origin: true,
        change: |request| {
            unknown_if_zero(request);
            request.origin = request.origin.map(|origin| Origin { cpu: 0, ..origin });
        },
        ..USUAL
    },
    Keeps {
        name: "btreplay",
        read_as: "btreplay",
        volumes: Volumes::First,
        // Where a request begins is counted in sectors, how long it is in bytes.
        sector: 1,
        change: |request| {
            let end = request.end();
            request.offset.0 = request.offset.0 / 512 * 512;
            request.length.0 = end.0 - request.offset.0;
            request.flags = Flags::empty();
        },
        ..USUAL
    },
    Keeps {
        name: "blkparse",
        read_as: "blkparse",
        rebased: false,
        ops: &[Op::Read, Op::Write, Op::Discard, Op::WriteZeroes, Op::Flush],
        volumes: Volumes::Apart,
        // Completions are lines of their own, which a reader matches as far as it can: that is
        // shown beside the format.
        origin: true,
        change: |request| {
            if request.op == Op::Flush {
                request.flags -= Flags::PREFLUSH | Flags::FUA;
            }
        },
        ..USUAL
    },
];

/// Formats that nothing reads again.
const WRITE_ONLY: &[&str] = &["perfetto"];

/// A latency of zero is one that is not known; and no flags are kept.
fn unknown_if_zero(request: &mut Request) {
    request.flags = Flags::empty();
    request.latency = request.latency.filter(|latency| latency.0 > 0);
}

/// A recorded latency is told as what a replay on time would have measured.
fn as_result(request: &mut Request) {
    let end = request.issue + request.latency.unwrap_or_default();
    request.flags = Flags::empty();
    request.latency = None;
    request.measured = Some(Measured {
        target_offset: Some(request.offset),
        in_flight: 0,
        ..Measured::done(request.issue, request.issue, end)
    });
}

impl Keeps {
    /// What `requests` are when they come back.
    fn kept(&self, requests: &[Request]) -> Vec<Request> {
        let first = requests.iter().find(|request| self.ops.contains(&request.op));
        let first = first.map(|request| request.volume);
        let is_kept = |request: &&Request| {
            let is_there = self.volumes != Volumes::First || Some(request.volume) == first;
            self.ops.contains(&request.op) && is_there
        };
        let mut kept: Vec<_> = requests.iter().filter(is_kept).copied().collect();
        let start = kept.first().map_or(0, |request| request.issue.0 / self.time_ns * self.time_ns);
        for request in &mut kept {
            let end = request.end().0.next_multiple_of(self.sector);
            request.offset.0 = request.offset.0 / self.sector * self.sector;
            request.length.0 = end - request.offset.0;
            request.issue.0 = request.issue.0 / self.time_ns * self.time_ns;
            if self.rebased {
                request.issue.0 -= start;
            }
            request.latency = match (request.latency, self.latency_ns) {
                (Some(latency), Some(unit)) => Some(Nanos(latency.0 / unit * unit)),
                _ => None,
            };
            request.origin = request.origin.filter(|_| self.origin);
            (self.change)(request);
        }
        self.number(&mut kept, |id| id.0.to_string());
        kept
    }

    /// Numbers volumes so that they can be compared whatever the reader numbers them by: by their
    /// names, which are numbers here, or in the order of their first request, or all alike.
    fn number(&self, requests: &mut [Request], name: impl Fn(VolumeId) -> String) {
        let mut seen = Vec::new();
        for request in requests {
            let at = seen.iter().position(|id| *id == request.volume).unwrap_or_else(|| {
                seen.push(request.volume);
                seen.len() - 1
            });
            request.volume = VolumeId(match self.volumes {
                Volumes::Named => name(request.volume).parse().unwrap_or(u32::MAX),
                Volumes::Apart => at as u32,
                Volumes::Joined | Volumes::First => 0,
            });
        }
    }
}

const COLUMNS: Columns =
    Columns { latency: true, origin: true, measured: false, dependencies: false };

fn header() -> Header {
    let volume = |id: u32| Volume { id: VolumeId(id), name: id.to_string(), size: None };
    let volumes = (0..4).map(volume).collect();
    let (source, format) = ("x".to_owned(), "a recording".to_owned());
    Header { source, format, columns: COLUMNS, volumes, ..Header::default() }
}

fn write(format: &Writable, path: &Path, requests: &[Request]) -> Written {
    let header = header();
    let mut sink = (format.create)(path, &header).unwrap();
    for chunk in requests.chunks(7) {
        let mut batch = Batch::new(COLUMNS);
        batch.extend(chunk);
        sink.write(&batch).unwrap();
    }
    sink.finish(&header).unwrap()
}

/// The requests of the file, with volumes numbered as `keeps` says.
fn read(path: &Path, keeps: &Keeps) -> Vec<Request> {
    let mut source = open(path, &ReadOptions::default()).unwrap();
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        all.extend(batch.iter());
    }
    let header = source.header();
    assert_eq!(header.format, keeps.read_as, "{}", keeps.name);
    let lost = header.losses.iter().filter(|note| !note.what.contains("completion")).count();
    assert_eq!(lost, 0, "{}: {:?}", keeps.name, header.losses);
    keeps.number(&mut all, |id| {
        let volume = header.volumes.iter().find(|volume| volume.id == id);
        volume.map_or(String::new(), |volume| volume.name.clone())
    });
    for request in &mut all {
        request.origin = request.origin.filter(|_| keeps.origin);
        request.latency = request.latency.filter(|_| keeps.latency_ns.is_some());
    }
    all
}

prop_compose! {
    /// Any request of a trace that may be seconds or a year long.
    fn any_request()(
        issue in prop_oneof![0_i64..1 << 40, 0_i64..1 << 55],
        op in prop_oneof![0_u8..2, 0_u8..6],
        flags in prop_oneof![Just(0_u16), 0_u16..32],
        sector in 0_u64..1 << 40,
        sectors in 1_u64..4096,
        odd in prop_oneof![Just((0_u64, 0_u64)), (0_u64..512, 0_u64..512)],
        volume in 0_u32..4,
        latency in proptest::option::of(0_i64..1 << 40),
        pid in 0_u32..1 << 22,
        cpu in 0_u32..1024,
    ) -> Request {
        let op = Op::from_code(op).unwrap();
        let range = |bytes: u64| Bytes(if op == Op::Flush { 0 } else { bytes });
        let (offset, length) = (range(sector * 512 + odd.0), range(sectors * 512 + odd.1));
        Request {
            flags: Flags::from_bits_truncate(flags),
            volume: VolumeId(volume),
            latency: latency.map(Nanos),
            origin: Some(Origin { pid, cpu }),
            ..Request::new(Nanos(issue), op, offset, length)
        }
    }
}

#[test]
fn every_format_that_is_written_is_here() {
    for format in WRITABLE {
        let lines = KEEPS.iter().filter(|keeps| keeps.name == format.name).count();
        let expected = usize::from(!WRITE_ONLY.contains(&format.name));
        assert_eq!(lines, expected, "{}: a line in KEEPS is missing, or one too many", format.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_is_read_again_as_far_as_the_format_can_say(
        requests in proptest::collection::vec(any_request(), 1..60),
    ) {
        let mut requests = requests;
        requests.sort_by_key(|request| request.issue);
        let directory = tempfile::tempdir().unwrap();
        for keeps in KEEPS {
            let format = WRITABLE.iter().find(|format| format.name == keeps.name).unwrap();
            let path = directory.path().join(format!("x{}", format.endings[0]));
            let written = write(format, &path, &requests);
            let expected = keeps.kept(&requests);
            prop_assert_eq!(written.requests as usize, expected.len(), "{}", keeps.name);
            if expected.is_empty() {
                continue;
            }
            let all = read(&path, keeps);
            prop_assert_eq!(&all, &expected, "{}", keeps.name);
            // What was not counted as lost is there.
            if written.lost.is_empty() {
                let told = |r: &Request| (r.op, r.offset, r.length, r.flags);
                let (there, asked): (Vec<_>, Vec<_>) =
                    (all.iter().map(told).collect(), requests.iter().map(told).collect());
                prop_assert_eq!(there, asked, "{}", keeps.name);
            }
        }
    }
}
