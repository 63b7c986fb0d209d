//! Two traces as one, by time.
//!
//! Loads that ran on different hosts are to share one storage, and a recording comes as a file per
//! processor. The other trace begins together with this one, or later by a given span; or, if both
//! have a wall-clock start, each at its own. Requests of one instant keep this order: this trace,
//! the other.
//!
//! Each trace numbers its devices and processes in its own way. Unless they are joined, the other's
//! devices become further devices. The numbers of its processes grow by 4,194,304, the limit of a
//! kernel (`PID_MAX_LIMIT` in `include/linux/threads.h`), once for each merged trace.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::called::{called, shown};
use super::place::NO_INSTANT;
use super::reverse::{forget_measured, note_forgotten};
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::{BATCH_ROWS, Batch, Columns};
use crate::calendar;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes, Topic, Volume};
use crate::stream::Source;
use crate::units::{Bytes, Nanos, VolumeId, decimal_seconds};
use crate::wording::Wording;

/// `merge FILE`.
pub const KIND: Kind = Kind {
    name: "merge",
    value: "FILE[,at=TIME][,offset=SIZE][,align=start|clock][,volumes=apart|join]",
    help: "Merge another trace in by time: from the start on or TIME later, or each at its own \
           hour (align=clock), its positions moved by SIZE, its volumes kept apart or joined with \
           those of this trace",
    spills: false,
    parse,
};

/// The note on requests that would reach beyond 64-bit addresses.
const TOO_FAR: Topic<'static> =
    NoteKind::LeftOut.of("requests moved beyond 64-bit addresses by merging");

/// The note on processes whose number does not fit.
const PROCESS: Topic<'static> =
    NoteKind::Beside.of("processes whose number is too large to be kept apart by merging");

/// The number that is added to the processes of a merged trace: `PID_MAX_LIMIT`.
const PROCESSES: u32 = 1 << 22;

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    // The name of a file may hold a comma, but no comma and then a setting.
    let end = text
        .match_indices(',')
        .map(|(at, _)| at)
        .find(|at| text[at + 1..].split(',').next().is_some_and(|part| part.contains('=')))
        .unwrap_or(text.len());
    let (file, settings) = text.split_at(end);
    if file.trim().is_empty() {
        return Err(ArgumentError::new("the other trace is missing"));
    }
    let mut arguments = Arguments::new(settings, ',')?;
    let at = arguments.setting("at")?.unwrap_or(Nanos::ZERO);
    let offset = arguments.setting("offset")?.unwrap_or(Bytes::ZERO);
    let aligns = [("start", false), ("clock", true)];
    let clock = arguments.choice("align", &aligns)?.unwrap_or(false);
    let join = arguments.choice("volumes", &[("apart", false), ("join", true)])?.unwrap_or(false);
    arguments.finish()?;
    Ok(Box::new(Merge { file: file.trim().into(), at, offset, clock, join }))
}

#[derive(Clone, Debug)]
struct Merge {
    file: PathBuf,
    at: Nanos,
    offset: Bytes,
    clock: bool,
    join: bool,
}

impl Merge {
    fn told(&self) -> String {
        let at = match self.at {
            Nanos::ZERO => String::new(),
            at => format!(",at={}s", decimal_seconds(at)),
        };
        let offset = match self.offset {
            Bytes::ZERO => String::new(),
            offset => format!(",offset={}", offset.0),
        };
        let align = if self.clock { ",align=clock" } else { "" };
        let volumes = if self.join { ",volumes=join" } else { "" };
        format!("merge {}{at}{offset}{align}{volumes}", called(&self.file))
    }

    /// The distances in time by which the two traces are moved, and the start of the merged one.
    fn aligned(&self, this: &Header, other: &Header) -> Result<Aligned, TraceError> {
        if !self.clock {
            return Ok(Aligned { this: 0, other: self.at.0, started: this.started.clone() });
        }
        let hour = |header: &Header, path: &Path| {
            header.started.as_deref().and_then(calendar::unix_ns).ok_or_else(|| TraceError::Asked {
                path: shown(path),
                reason: "it does not know at what hour it was recorded".into(),
                remedy: Wording::from("say where it begins: ").set("merge", "FILE,at=TIME"),
            })
        };
        let (this, other) = (hour(this, Path::new(&this.source))?, hour(other, &self.file)?);
        let aligned = other.checked_add(self.at.0).and_then(|begin| {
            let earlier = this.min(begin);
            Some(Aligned {
                this: this.checked_sub(earlier)?,
                other: begin.checked_sub(earlier)?,
                started: Some(calendar::rfc3339(earlier)),
            })
        });
        aligned.ok_or_else(|| TraceError::Unusable {
            path: shown(&self.file),
            reason: "it would begin beyond what 64 bits of nanoseconds hold".to_owned(),
            remedy: "merge it at an earlier TIME".into(),
        })
    }
}

#[derive(Clone, Debug)]
struct Aligned {
    this: i64,
    other: i64,
    started: Option<String>,
}

impl Transform for Merge {
    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let mut this = Side::new(source);
        let mut other = Side::new((context.open)(&self.file)?);
        // Some formats know the wall clock only at their first request.
        this.refill()?;
        other.refill()?;
        let aligned = self.aligned(this.source.header(), other.source.header())?;
        this.moved = aligned.this;
        other.moved = aligned.other;
        let columns = |side: &Side| side.source.header().columns;
        let columns = Columns {
            latency: columns(&this).latency || columns(&other).latency,
            origin: columns(&this).origin || columns(&other).origin,
            measured: false,
            dependencies: false,
        };
        let mut volumes = Numbers { join: self.join, ..Numbers::default() };
        volumes.begin(this.source.header(), other.source.header());
        let before = this.source.header().transforms.iter();
        let before = before.filter(|line| line.starts_with("merge ")).count() as u32;
        let processes = if self.join { 0 } else { (before + 1).saturating_mul(PROCESSES) };
        let header = Header::default();
        let mut merged = Merged {
            merge: self.clone(),
            this,
            other,
            started: aligned.started,
            columns,
            volumes,
            told_volumes: 0,
            processes,
            header,
            lost: Notes::default(),
            forgotten: 0,
        };
        merged.prepare_this();
        merged.prepare_other();
        merged.take_header();
        Ok(Box::new(merged))
    }

    fn other_trace(&self) -> Option<&Path> {
        Some(&self.file)
    }
}

/// One of the two traces.
struct Side {
    source: Box<dyn Source>,
    batch: Batch,
    /// The next row.
    row: usize,
    ended: bool,
    moved: i64,
}

impl Side {
    fn new(source: Box<dyn Source>) -> Self {
        let batch = Batch::new(source.header().columns);
        Self { source, batch, row: 0, ended: false, moved: 0 }
    }

    /// Takes the next batch if this one is used up; answers whether it did.
    fn refill(&mut self) -> Result<bool, TraceError> {
        if self.ended || self.row < self.batch.len() {
            return Ok(false);
        }
        self.row = 0;
        self.ended = !self.source.next_batch(&mut self.batch)?;
        Ok(!self.ended)
    }

    fn instants(&self) -> &[i64] {
        &self.batch.issue_ns[self.row..]
    }
}

/// The numbers of the volumes of both traces, in the merged trace.
#[derive(Debug, Default)]
struct Numbers {
    join: bool,
    this: FxHashMap<u32, u32>,
    other: FxHashMap<u32, u32>,
    next: u32,
}

impl Numbers {
    fn begin(&mut self, this: &Header, other: &Header) {
        for volume in &this.volumes {
            self.of_this(volume.id.0);
        }
        for volume in &other.volumes {
            self.of_other(volume.id.0, this, other);
        }
    }

    fn of_this(&mut self, id: u32) -> u32 {
        let next = &mut self.next;
        *self.this.entry(id).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    fn of_other(&mut self, id: u32, this: &Header, other: &Header) -> u32 {
        if let Some(number) = self.other.get(&id) {
            return *number;
        }
        let twin = if self.join { joined(id, this, other) } else { None };
        let number = if let Some(twin) = twin {
            self.of_this(twin)
        } else {
            self.next += 1;
            self.next - 1
        };
        self.other.insert(id, number);
        number
    }
}

/// The volume of `this` that is the same as volume `id` of `other`: that of the same name, or, if
/// one of them has no name, that of the same number.
fn joined(id: u32, this: &Header, other: &Header) -> Option<u32> {
    let name = |header: &Header, id: u32| {
        let volume = header.volumes.iter().find(|volume| volume.id.0 == id);
        volume.map_or(String::new(), |volume| volume.name.clone())
    };
    let named = name(other, id);
    let twin = this.volumes.iter().find(|volume| volume.name == named);
    match twin {
        Some(twin) if !named.is_empty() => Some(twin.id.0),
        _ if named.is_empty() || name(this, id).is_empty() => Some(id),
        _ => None,
    }
}

struct Merged {
    merge: Merge,
    this: Side,
    other: Side,
    started: Option<String>,
    columns: Columns,
    volumes: Numbers,
    /// The number of volumes when the header was last made.
    told_volumes: u32,
    /// The number that is added to the other's processes.
    processes: u32,
    header: Header,
    lost: Notes,
    /// The number of requests of both traces that had been measured.
    forgotten: u64,
}

impl Merged {
    fn refill(&mut self) -> Result<(), TraceError> {
        // All requests of a batch may have been moved beyond the instants, or the addresses.
        while self.this.refill()? {
            self.prepare_this();
        }
        while self.other.refill()? {
            self.prepare_other();
        }
        Ok(())
    }

    /// Moves and renumbers the rows just read of this trace.
    fn prepare_this(&mut self) {
        self.forgotten += self.this.batch.measured_rows();
        let Side { batch, moved, .. } = &mut self.this;
        shift(batch, *moved, &mut self.lost);
        for volume in &mut batch.volume {
            *volume = self.volumes.of_this(*volume);
        }
    }

    /// Moves and renumbers the rows just read of the other trace.
    fn prepare_other(&mut self) {
        self.forgotten += self.other.batch.measured_rows();
        let Side { batch, moved, source, .. } = &mut self.other;
        shift(batch, *moved, &mut self.lost);
        let (mut last, mut number) = (None, 0);
        for volume in &mut batch.volume {
            if last != Some(*volume) {
                last = Some(*volume);
                let (this, other) = (self.this.source.header(), source.header());
                number = self.volumes.of_other(*volume, this, other);
            }
            *volume = number;
        }
        if let Some(origin) = &mut batch.origin {
            for pid in &mut origin.pid {
                // Process 0 is the kernel, or an unknown process.
                if *pid == 0 {
                    continue;
                }
                *pid = pid.checked_add(self.processes).unwrap_or_else(|| {
                    self.lost.add(PROCESS, 1, None);
                    0
                });
            }
        }
        let by = self.merge.offset.0;
        if by == 0 {
            return;
        }
        let mut fits = Vec::with_capacity(batch.len());
        for (op, (offset, length)) in
            batch.op.iter().zip(batch.offset_bytes.iter_mut().zip(&batch.length_bytes))
        {
            // A flush has no place.
            let to = if *op == crate::Op::Flush { Some(0) } else { offset.checked_add(by) };
            let end = to.and_then(|to| to.checked_add(*length));
            *offset = to.unwrap_or(*offset);
            fits.push(end.is_some());
        }
        let lost = fits.iter().filter(|fits| !**fits).count() as u64;
        if lost > 0 {
            self.lost.add(TOO_FAR, lost, None);
            batch.retain(&fits);
        }
    }

    fn take_header(&mut self) {
        let (this, other) = (self.this.source.header(), self.other.source.header());
        let mut header = this.clone();
        forget_measured(&mut header);
        header.columns = self.columns;
        // Places of one trace would name those of the other.
        header.files = None;
        header.started.clone_from(&self.started);
        if let Some(recording) = &mut header.recording {
            // The zero of the merged trace need not be that of either, so it is unknown.
            recording.zero_monotonic_ns = None;
            (recording.from_ns, recording.until_ns) = (None, None);
        }
        header.transforms.push(self.merge.told());
        header.merged.push(Header { files: None, ..other.clone() });
        header.volumes = merged_volumes(&self.volumes, this, other, &self.merge.file);
        for (pid, name) in &other.processes {
            let pid = if *pid == 0 { Some(0) } else { pid.checked_add(self.processes) };
            if let Some(pid) = pid {
                header.processes.entry(pid).or_insert_with(|| name.clone());
            }
        }
        let file = called(&self.merge.file);
        for (into, from) in
            [(&mut header.losses, &other.losses), (&mut header.guesses, &other.guesses)]
        {
            for note in from.iter() {
                into.add_note(&note.within(&file));
            }
        }
        for note in self.lost.iter() {
            header.losses.add_note(note);
        }
        note_forgotten(&mut header, KIND.name, self.forgotten);
        if let Some(damage) = &other.damage {
            header.damaged(format!("{file}: {damage}"));
        }
        self.header = header;
    }
}

/// The volumes of both traces under their new numbers. If two devices have the same name, the name
/// of the other trace's device gets its file appended.
fn merged_volumes(numbers: &Numbers, this: &Header, other: &Header, file: &Path) -> Vec<Volume> {
    let mut volumes: Vec<Volume> = Vec::new();
    for volume in &this.volumes {
        if let Some(number) = numbers.this.get(&volume.id.0) {
            volumes.push(Volume { id: VolumeId(*number), ..volume.clone() });
        }
    }
    for volume in &other.volumes {
        let Some(number) = numbers.other.get(&volume.id.0) else { continue };
        if let Some(twin) = volumes.iter_mut().find(|twin| twin.id.0 == *number) {
            twin.size = twin.size.max(volume.size);
            if twin.name.is_empty() {
                twin.name.clone_from(&volume.name);
            }
            continue;
        }
        let mut volume = Volume { id: VolumeId(*number), ..volume.clone() };
        if !volume.name.is_empty() && volumes.iter().any(|twin| twin.name == volume.name) {
            let file = called(file);
            let file = file.rsplit('/').next().unwrap_or_default();
            volume.name = format!("{} of {file}", volume.name);
        }
        volumes.push(volume);
    }
    volumes.sort_by_key(|volume| volume.id.0);
    volumes
}

/// Moves the instants of `batch` by `by` nanoseconds. Requests beyond 64 bits are dropped and
/// counted.
fn shift(batch: &mut Batch, by: i64, lost: &mut Notes) {
    if by == 0 {
        return;
    }
    let mut fits = Vec::with_capacity(batch.len());
    for issue in &mut batch.issue_ns {
        let moved = issue.checked_add(by);
        *issue = moved.unwrap_or(*issue);
        fits.push(moved.is_some());
    }
    let gone = fits.iter().filter(|fits| !**fits).count() as u64;
    if gone > 0 {
        lost.add(NoteKind::LeftOut.of(NO_INSTANT), gone, None);
        batch.retain(&fits);
    }
}

impl Source for Merged {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.columns);
        while batch.len() < BATCH_ROWS {
            self.refill()?;
            let (this, other) = (self.this.instants(), self.other.instants());
            let room = BATCH_ROWS - batch.len();
            // The longest run of one trace that stands before the next request of the other.
            let (is_this, run) = match (this.first(), other.first()) {
                (None, None) => break,
                (Some(_), None) => (true, this.len()),
                (None, Some(_)) => (false, other.len()),
                (Some(first), Some(second)) if first <= second => {
                    (true, this.partition_point(|issue| issue <= second))
                }
                (Some(first), Some(_)) => (false, other.partition_point(|issue| issue < first)),
            };
            let side = if is_this { &mut self.this } else { &mut self.other };
            let to = side.row + run.min(room);
            batch.append(&side.batch, side.row, to);
            side.row = to;
        }
        // The header is remade when new volumes appear, and at the end.
        if self.told_volumes != self.volumes.next || batch.is_empty() {
            self.told_volumes = self.volumes.next;
            self.take_header();
        }
        Ok(!batch.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, refusal, trace, unmeasured, with_context};
    use super::super::tests::Given;
    use super::super::{Asked, apply};
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Op, Origin, Request};
    use proptest::prelude::*;

    fn merged(line: &str, this: &[Request], other: &[Request]) -> (Vec<Request>, Header) {
        with_context(&[other.to_vec()], |context| {
            let asked: Asked = line.parse().unwrap();
            let given = Box::new(Given::new(this, 5));
            let mut source = apply(&[asked], given, context).unwrap();
            let merged = all(&mut source);
            let header = source.header().clone();
            assert!(header.transforms[0].parse::<Asked>().is_ok());
            (merged, header)
        })
    }

    #[test]
    fn what_is_moved_beyond_the_instants_is_dropped_and_counted() {
        let other = trace(&[(0, Op::Write, 0, 8), (300_000_000, Op::Write, 8, 8)]);
        let this = trace(&[(1, Op::Read, 0, 8)]);
        let (kept, header) = merged("merge 0,at=9000000000s", &this, &other);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[1].issue, Nanos::from_secs(9_000_000_000));
        assert_eq!(header.losses.count_of(NO_INSTANT), 1);
    }

    fn in_order(mut requests: Vec<Request>) -> Vec<Request> {
        for request in &mut requests {
            request.issue.0 %= 1000;
            request.volume = VolumeId(0);
            request.origin = Some(Origin { pid: 7, cpu: 0 });
        }
        requests.sort_by_key(|request| request.issue);
        requests
    }

    proptest! {
        #[test]
        fn it_is_the_stable_sort_of_both(
            this in proptest::collection::vec(any_request(), 0..60),
            other in proptest::collection::vec(any_request(), 0..60),
        ) {
            let (this, other) = (in_order(this), in_order(other));
            let (merged, header) = merged("merge 0,at=300ns,offset=1M", &this, &other);
            let mut expected = this.clone();
            expected.extend(other.iter().map(|request| {
                let flush = request.op == Op::Flush;
                Request {
                    issue: request.issue + Nanos(300),
                    offset: if flush { Bytes::ZERO } else { Bytes(request.offset.0 + (1 << 20)) },
                    volume: VolumeId(u32::from(!this.is_empty())),
                    origin: Some(Origin { pid: 7 + PROCESSES, cpu: 0 }),
                    ..*request
                }
            }));
            expected.sort_by_key(|request| request.issue);
            prop_assert_eq!(merged, unmeasured(&expected));
            prop_assert_eq!(&header.transforms[0], "merge 0,at=0.0000003s,offset=1048576");
            prop_assert_eq!(header.merged.len(), 1);
        }
    }

    #[test]
    fn joined_volumes_and_processes_keep_their_numbers() {
        let request = trace(&[(1, Op::Read, 8, 8)])[0];
        let request = Request { origin: Some(Origin { pid: 9, cpu: 1 }), ..request };
        let (all, _) = merged("merge 0,volumes=join", &[request], &[request]);
        assert_eq!(all[0], all[1]);
        let (all, _) = merged("merge 0", &[request], &[request]);
        assert_eq!((all[0].volume, all[1].volume), (VolumeId(0), VolumeId(1)));
    }

    #[test]
    fn what_leaves_the_addresses_is_dropped_and_told() {
        let mut far = trace(&[(1, Op::Read, 8, 8), (2, Op::Read, 8, 8)]);
        far[0].offset = Bytes(u64::MAX - 4096);
        let (all, header) = merged("merge 0,offset=4k", &trace(&[(1, Op::Read, 0, 8)]), &far);
        assert_eq!(all.len(), 2);
        assert_eq!(header.losses.count_of(TOO_FAR), 1);
    }

    #[test]
    fn the_header_does_not_say_where_the_other_trace_is_kept() {
        for (file, told) in [
            ("/srv/customer/b.load", "merge b.load"),
            ("https://me:word@h/b.load?sig=x", "merge https://h/b.load"),
        ] {
            let (at, offset) = (Nanos::ZERO, Bytes::ZERO);
            let merge = Merge { file: file.into(), at, offset, clock: false, join: false };
            assert_eq!(merge.told(), told);
        }
    }

    #[test]
    fn by_the_clock_the_earlier_one_begins() {
        let merge = Merge {
            file: "b".into(),
            at: Nanos::ZERO,
            offset: Bytes::ZERO,
            clock: true,
            join: false,
        };
        let at = |hour: &str| Header { started: Some(hour.to_owned()), ..Header::default() };
        let (early, late) = (at("2023-11-14T22:00:00Z"), at("2023-11-14T22:00:05Z"));
        for (this, other, moved) in
            [(&early, &late, (0, 5_000_000_000)), (&late, &early, (5_000_000_000, 0))]
        {
            let aligned = merge.aligned(this, other).unwrap();
            assert_eq!((aligned.this, aligned.other), moved);
            assert_eq!(aligned.started, early.started);
        }
        let error = merge.aligned(&early, &Header::default()).unwrap_err().to_string();
        assert!(error.starts_with("b: it does not know at what hour"), "{error}");
    }

    #[test]
    fn volumes_of_one_name_are_joined_or_told_apart() {
        let header = |names: &[&str]| Header {
            volumes: (0..)
                .zip(names)
                .map(|(id, name)| Volume { id: VolumeId(id), name: (*name).to_owned(), size: None })
                .collect(),
            ..Header::default()
        };
        let (this, other) = (header(&["sda", "sdb"]), header(&["sdb", "sdc"]));
        let names = |join| {
            let mut numbers = Numbers { join, ..Numbers::default() };
            numbers.begin(&this, &other);
            let volumes = merged_volumes(&numbers, &this, &other, Path::new("x/b.load"));
            volumes.into_iter().map(|volume| volume.name).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["sda", "sdb", "sdc"]);
        assert_eq!(names(false), ["sda", "sdb", "sdb of b.load", "sdc"]);
    }

    #[test]
    fn a_name_may_hold_a_comma_and_what_is_wrong_is_refused() {
        let asked: Asked = "merge a,b.load,at=3s".parse().unwrap();
        assert!(format!("{asked:?}").contains("\"a,b.load\""));
        assert_eq!(refusal("merge ,at=3"), "the other trace is missing");
        assert!(refusal("merge b,align=hour").contains("none of start, clock"));
        assert!(refusal("merge b,to=3").contains("known are at, offset, align, volumes"));
    }
}
