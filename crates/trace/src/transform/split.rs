//! One trace per volume, process, operation or range.
//!
//! A recording of a host holds all of its devices, and each of them is to be replayed on another
//! target, or judged alone. One pass deals the requests to as many outputs as there are parts.
//! Each part's provenance is the [`filter`](super::filter) that would have made it.

use rustc_hash::FxHashMap;

use super::parts::{self, Divide, PARTS_MAX, Parts};
use super::{ArgumentError, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::formats::write::volume_name;
use crate::header::{Header, NoteKind, Volume};
use crate::stream::Source;
use crate::units::{Bytes, VolumeId};
use crate::wording::Wording;

/// `split BY`.
pub const KIND: Kind = Kind {
    name: "split",
    value: "volume|pid|op|range=SIZE",
    help: "Make a trace of each volume, process, operation, or stretch of SIZE; the output has {} \
           in its name, which becomes the part's",
    spills: false,
    parse,
};

/// The number of requests of a part that are gathered before they are written: less than a batch,
/// because there may be many parts.
const GATHER_ROWS: usize = 1024;

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let by = match text.trim().split_once('=') {
        None => match text.trim() {
            "volume" => By::Volume,
            "pid" => By::Pid,
            "op" => By::Op,
            other => {
                return Err(ArgumentError::new(format!(
                    "'{other}' is none of volume, pid, op, range=SIZE"
                )));
            }
        },
        Some(("range", size)) => {
            let size: Bytes = size
                .parse()
                .map_err(|error| ArgumentError::new(format!("the range's size: {error}")))?;
            if size == Bytes::ZERO {
                return Err(ArgumentError::new("a range must be larger than nothing"));
            }
            By::Range(size.0)
        }
        Some((other, _)) => {
            return Err(ArgumentError::new(format!(
                "there is no setting '{other}'; known is range"
            )));
        }
    };
    Ok(Box::new(Split { by }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Volume,
    Pid,
    Op,
    /// Ranges of this number of bytes.
    Range(u64),
}

#[derive(Clone, Copy, Debug)]
struct Split {
    by: By,
}

impl Transform for Split {
    fn over(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let remedy = Wording::from("convert to an output with {} in its name, with ")
            .setting("split")
            .text(" as the last transform; or take one part: ")
            .set("filter", "'volume = sda'");
        Err(parts::refuse(source.header(), remedy))
    }

    fn divide(&self) -> Option<&dyn Divide> {
        Some(self)
    }
}

impl Divide for Split {
    fn divide(
        &self,
        source: Box<dyn Source>,
        _context: &Context<'_>,
    ) -> Result<Box<dyn Parts>, TraceError> {
        if self.by == By::Pid && !source.header().columns.origin {
            return Err(TraceError::Asked {
                path: source.header().source.clone().into(),
                reason: "it cannot be split by pid: this trace knows no processes".into(),
                remedy: Wording::default().command("info", "").text(" tells what a trace knows"),
            });
        }
        let incoming = Batch::new(source.header().columns);
        Ok(Box::new(Dealt {
            by: self.by,
            source,
            incoming,
            row: 0,
            ended: false,
            parts: Vec::new(),
            numbers: FxHashMap::default(),
        }))
    }
}

/// A part.
struct Part {
    /// The number of its volume, process, operation or range.
    key: u64,
    name: String,
    gathered: Batch,
    /// Requests that reach into the next range.
    crossing: u64,
}

struct Dealt {
    by: By,
    source: Box<dyn Source>,
    incoming: Batch,
    /// The next row of `incoming`.
    row: usize,
    ended: bool,
    parts: Vec<Part>,
    /// The parts by their keys.
    numbers: FxHashMap<u64, usize>,
}

impl Dealt {
    fn key(&self, row: usize) -> u64 {
        let batch = &self.incoming;
        match self.by {
            By::Volume => batch.volume[row].into(),
            By::Pid => batch.origin.as_ref().map_or(0, |origin| origin.pid[row].into()),
            By::Op => batch.op[row].code().into(),
            By::Range(size) => batch.offset_bytes[row] / size,
        }
    }

    /// The part of the request in row `row`.
    fn part(&mut self, row: usize) -> Result<usize, TraceError> {
        let key = self.key(row);
        if let Some(part) = self.numbers.get(&key) {
            return Ok(*part);
        }
        if self.parts.len() == PARTS_MAX {
            return Err(TraceError::Asked {
                path: self.source.header().source.clone().into(),
                reason: format!("it would be split into more than {PARTS_MAX} files").into(),
                remedy: "filter it first, or split it by larger ranges".into(),
            });
        }
        let name = self.unlike_others(&self.part_name(row, key), key);
        let gathered = Batch::new(self.incoming.columns());
        self.parts.push(Part { key, name, gathered, crossing: 0 });
        self.numbers.insert(key, self.parts.len() - 1);
        Ok(self.parts.len() - 1)
    }

    fn part_name(&self, row: usize, key: u64) -> String {
        let header = self.source.header();
        match self.by {
            By::Volume => volume_name(header, VolumeId(key as u32)),
            By::Pid => {
                let name = header.processes.get(&(key as u32));
                name.map_or(key.to_string(), |name| format!("{key}-{name}"))
            }
            By::Op => self.incoming.op[row].name().to_owned(),
            By::Range(size) => short(u128::from(key) * u128::from(size)),
        }
    }

    /// `name` as a piece of a file's name, different from the names of all other parts.
    fn unlike_others(&self, name: &str, key: u64) -> String {
        let is_harmless = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ',');
        let name: String = name.chars().map(|c| if is_harmless(c) { c } else { '_' }).collect();
        let mut unlike = name.clone();
        let mut tries = 0;
        while self.parts.iter().any(|part| part.name == unlike) {
            unlike = if tries == 0 { format!("{name}.{key}") } else { format!("{unlike}_") };
            tries += 1;
        }
        unlike
    }
}

/// The filter that keeps this volume alone: by its name, if no other volume has it.
fn filter_of_volume(header: &Header, key: u64) -> String {
    let volume = header.volumes.iter().find(|volume| u64::from(volume.id.0) == key);
    let name = volume.map_or("", |volume| volume.name.as_str());
    let is_one = header.volumes.iter().filter(|volume| volume.name == name).count() == 1;
    let can_be_said = |c: char| c != '"' && !c.is_control();
    if is_one && !name.is_empty() && name.chars().all(can_be_said) {
        format!("filter volume = \"{name}\"")
    } else {
        format!("filter volume = {key}")
    }
}

/// A number of bytes in the largest unit in which it is whole: `512`, `64k`, `3G`.
fn short(bytes: u128) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "k")];
    let whole = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or(bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

impl Parts for Dealt {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<Option<usize>, TraceError> {
        batch.reset(self.incoming.columns());
        while !self.ended {
            while self.row < self.incoming.len() {
                // A run of one part is moved as a whole.
                let from = self.row;
                let part = self.part(from)?;
                let key = self.parts[part].key;
                let mut to = from + 1;
                while to < self.incoming.len() && self.key(to) == key {
                    to += 1;
                }
                self.row = to;
                let into = &mut self.parts[part];
                into.gathered.append(&self.incoming, from, to);
                if let By::Range(size) = self.by {
                    let ranges = self.incoming.offset_bytes[from..to].iter();
                    let lengths = &self.incoming.length_bytes[from..to];
                    let crosses = |(offset, length): (&u64, &u64)| {
                        (offset % size).saturating_add(*length) > size
                    };
                    let crossing = ranges.zip(lengths).filter(|range| crosses(*range)).count();
                    into.crossing += crossing as u64;
                }
                if into.gathered.len() >= GATHER_ROWS {
                    std::mem::swap(batch, &mut into.gathered);
                    return Ok(Some(part));
                }
            }
            self.row = 0;
            self.ended = !self.source.next_batch(&mut self.incoming)?;
        }
        let Some(part) = self.parts.iter().position(|part| !part.gathered.is_empty()) else {
            return Ok(None);
        };
        std::mem::swap(batch, &mut self.parts[part].gathered);
        Ok(Some(part))
    }

    fn name(&self, part: usize) -> String {
        self.parts[part].name.clone()
    }

    fn header(&self, part: usize) -> Header {
        let mut header = self.source.header().clone();
        let Part { key, name, crossing, .. } = &self.parts[part];
        let line = match self.by {
            By::Volume => {
                header.volumes.retain(|volume| u64::from(volume.id.0) == *key);
                if header.volumes.is_empty() {
                    let id = VolumeId(*key as u32);
                    header.volumes.push(Volume { id, ..Volume::default() });
                }
                filter_of_volume(self.source.header(), *key)
            }
            By::Pid => format!("filter pid = {key}"),
            By::Op => format!("filter op = {name}"),
            By::Range(size) => {
                let from = u128::from(*key) * u128::from(size);
                match u64::try_from(from + u128::from(size)) {
                    Ok(to) => format!("filter offset in {from}..{to}"),
                    Err(_) => format!("filter offset >= {from}"),
                }
            }
        };
        header.guesses.add(
            NoteKind::Assumed.of("requests reach into the next range, and are kept whole"),
            *crossing,
            None,
        );
        header.transforms.push(line);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, refusal, with_context};
    use super::super::tests::Given;
    use super::super::{Asked, apply};
    use super::*;
    use crate::Request;
    use crate::batch::tests::any_request;
    use proptest::prelude::*;

    /// The parts with their names and headers, in the order in which they begin.
    fn split(line: &str, requests: &[Request]) -> Vec<(String, Vec<Request>, Header)> {
        with_context(&[], |context| {
            let asked: Asked = line.parse().unwrap();
            let given = Box::new(Given::new(requests, 7));
            let mut parts = asked.divide().unwrap().divide(given, context).unwrap();
            let mut batch = Batch::default();
            let mut dealt: Vec<Vec<Request>> = Vec::new();
            while let Some(part) = parts.next_batch(&mut batch).unwrap() {
                assert!(!batch.is_empty());
                dealt.resize(dealt.len().max(part + 1), Vec::new());
                dealt[part].extend(batch.iter());
            }
            let with_name = |(part, requests)| (parts.name(part), requests, parts.header(part));
            dealt.into_iter().enumerate().map(with_name).collect()
        })
    }

    proptest! {
        #[test]
        fn each_part_is_what_its_filter_keeps_and_nothing_is_lost(
            mut requests in proptest::collection::vec(any_request(), 0..80), by in 0_usize..4,
        ) {
            for request in &mut requests {
                request.offset.0 %= 1 << 24;
                request.origin = request.origin.map(|origin| {
                    crate::Origin { pid: origin.pid % 5, ..origin }
                });
            }
            requests.sort_by_key(|request| request.issue);
            let by = ["volume", "pid", "op", "range=1M"][by];
            let parts = split(&format!("split {by}"), &requests);
            let count: usize = parts.iter().map(|(_, part, _)| part.len()).sum();
            prop_assert_eq!(count, requests.len());
            for (index, (name, part, header)) in parts.iter().enumerate() {
                let filter: Asked = header.transforms[0].parse().unwrap();
                let kept = with_context(&[], |context| {
                    let given = Box::new(Given::new(&requests, 9));
                    all(&mut apply(&[filter], given, context).unwrap())
                });
                prop_assert_eq!(part, &kept);
                prop_assert!(parts[..index].iter().all(|(other, ..)| other != name));
            }
        }
    }

    #[test]
    fn parts_are_named_so_that_files_can_be() {
        let at =
            |offset| Request::new(crate::Nanos(0), crate::Op::Read, Bytes(offset), Bytes(4096));
        let requests = [at(0), at((3 << 30) + 512), at(1 << 41), at(u64::MAX - 5000)];
        let names = |line: &str| {
            let parts = split(line, &requests).into_iter();
            parts.map(|(name, ..)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("split range=1G"), ["0", "3G", "2T", "17179869183G"]);
        assert_eq!(names("split op"), ["read"]);
        assert_eq!(names("split volume"), ["0"]);
        let crossing = [at((1 << 30) - 512), at(0)];
        let (_, _, header) = split("split range=1G", &crossing).remove(0);
        assert_eq!(header.guesses.iter().next().unwrap().count, 1);
    }

    #[test]
    fn devices_of_one_name_get_files_of_their_own() {
        let volumes = [(0, "a/b"), (1, "a_b"), (2, "../x")];
        let requests: Vec<_> = volumes
            .iter()
            .map(|(id, _)| {
                let request = Request::new(crate::Nanos(0), crate::Op::Read, Bytes(0), Bytes(512));
                Request { volume: VolumeId(*id), ..request }
            })
            .collect();
        with_context(&[], |context| {
            let mut given = Given::new(&requests, 7);
            given.header_mut().volumes = volumes
                .map(|(id, name)| Volume { id: VolumeId(id), name: name.to_owned(), size: None })
                .to_vec();
            let asked: Asked = "split volume".parse().unwrap();
            let mut parts = asked.divide().unwrap().divide(Box::new(given), context).unwrap();
            while parts.next_batch(&mut Batch::default()).unwrap().is_some() {}
            assert_eq!([parts.name(0), parts.name(1), parts.name(2)], ["a_b", "a_b.1", ".._x"]);
            assert_eq!(parts.header(1).volumes.len(), 1);
        });
    }

    #[test]
    fn there_are_not_too_many_files() {
        let requests: Vec<_> = (0..=PARTS_MAX as u64)
            .map(|n| Request::new(crate::Nanos(0), crate::Op::Read, Bytes(n << 20), Bytes(512)))
            .collect();
        with_context(&[], |context| {
            let asked: Asked = "split range=1M".parse().unwrap();
            let given = Box::new(Given::new(&requests, 100));
            let mut parts = asked.divide().unwrap().divide(given, context).unwrap();
            let error = parts.next_batch(&mut Batch::default()).unwrap_err().to_string();
            assert!(error.contains("more than 1000 files"), "{error}");
        });
    }

    #[test]
    fn what_is_wrong_is_refused() {
        assert_eq!(refusal("split"), "'' is none of volume, pid, op, range=SIZE");
        assert_eq!(refusal("split range"), "'range' is none of volume, pid, op, range=SIZE");
        assert_eq!(refusal("split range=0"), "a range must be larger than nothing");
        assert_eq!(refusal("split size=4k"), "there is no setting 'size'; known is range");
    }
}
