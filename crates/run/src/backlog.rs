//! Requests that were read from a trace before their targets are ready for them.
//!
//! The requests of all targets are in one trace, in the order of time. To reach a target's next
//! request, the feeder must also read those of other targets before it, and a target that cannot
//! take its load accumulates more and more of them. They are kept here so that no other target has
//! to wait: first in memory, then in a temporary file beside the run's results. Both are bounded.
//!
//! Requests leave in the order in which they came. The oldest of a target are in memory (`near`),
//! younger ones in the file (`far`), and the youngest in memory again until they fill a chunk
//! (`last`).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ioecho_replay::Record;
use ioecho_replay::journal::{RECORD_BYTES, decode, encode};
use ioecho_replay::plan::Planned;
use ioecho_trace::{Bytes, Integrity, LateCause, Measured, Outcome};

/// Requests per chunk.
const CHUNK: usize = 1024;

/// The size of a chunk in the file.
const CHUNK_BYTES: usize = CHUNK * RECORD_BYTES;

/// The bounds of all backlogs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Memory for whole chunks, for all targets together.
    pub(crate) memory: Bytes,
    /// The temporary file.
    pub(crate) file: Bytes,
}

impl Default for Bounds {
    /// About two million requests in memory, and 330 million in the file.
    fn default() -> Self {
        Self { memory: Bytes(256 << 20), file: Bytes(32 << 30) }
    }
}

/// Where there is room for more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Memory,
    File,
    Nowhere,
}

/// The backlog of one target.
#[derive(Debug, Default)]
struct Queue {
    near: VecDeque<VecDeque<Planned>>,
    /// The places of its chunks in the file.
    far: VecDeque<u64>,
    last: VecDeque<Planned>,
}

impl Queue {
    fn is_empty(&self) -> bool {
        // A chunk in the file is never empty.
        self.near.is_empty() && self.far.is_empty() && self.last.is_empty()
    }
}

/// The backlogs of all targets of a run.
#[derive(Debug)]
pub(crate) struct Backlogs {
    queues: Vec<Queue>,
    /// The number of requests in `near`, for all targets together.
    held: usize,
    held_max: usize,
    spill: Spill,
}

impl Backlogs {
    /// Empty backlogs for this number of targets. The file is created in `directory` when it is
    /// needed.
    pub(crate) fn new(targets: usize, bounds: Bounds, directory: &Path) -> Self {
        Self {
            queues: (0..targets).map(|_| Queue::default()).collect(),
            held: 0,
            held_max: bounds.memory.0 as usize / size_of::<Planned>(),
            spill: Spill::new(bounds.file, directory),
        }
    }

    /// Whether no request waits for this target.
    pub(crate) fn is_empty(&self, target: usize) -> bool {
        self.queues[target].is_empty()
    }

    /// Whether no request waits for any target.
    pub(crate) fn are_empty(&self) -> bool {
        self.queues.iter().all(Queue::is_empty)
    }

    /// The amount of data in the file.
    pub(crate) fn spilled(&self) -> Bytes {
        self.spill.used()
    }

    /// The error after which the file takes no more chunks, if there was one.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.spill.failure.as_ref()
    }

    /// Where this number of further requests would have room.
    pub(crate) fn room_for(&mut self, requests: usize) -> Room {
        let is_far = self.queues.iter().any(|queue| !queue.far.is_empty());
        if !is_far && self.held + requests <= self.held_max {
            Room::Memory
        } else if self.spill.has_room((requests / CHUNK + self.queues.len()) as u64) {
            Room::File
        } else {
            Room::Nowhere
        }
    }

    /// Adds a request to its target's backlog. If the file cannot take a chunk, the chunk stays in
    /// memory and is not lost; the bounds hold if the caller asks `room_for` first.
    pub(crate) fn push(&mut self, planned: Planned) {
        let target = usize::from(planned.target);
        let queue = &mut self.queues[target];
        queue.last.push_back(planned);
        let (count, is_behind) = (queue.last.len(), !queue.far.is_empty());
        if count < CHUNK {
            return;
        }
        if !is_behind && self.held + count > self.held_max {
            self.make_room(target);
        }
        let queue = &mut self.queues[target];
        if !is_behind && self.held + count <= self.held_max {
            self.held += count;
            queue.near.push_back(std::mem::take(&mut queue.last));
        } else if count == CHUNK
            && let Some(place) = self.spill.write(queue.last.make_contiguous())
        {
            queue.far.push_back(place);
            queue.last.clear();
        }
    }

    /// Moves the youngest full chunk of the target with the most chunks in memory into the file,
    /// because that target will need it last.
    fn make_room(&mut self, asking: usize) {
        let queues = self.queues.iter_mut().enumerate();
        let Some((most, queue)) = queues.max_by_key(|(_, queue)| queue.near.len()) else { return };
        let Some(chunk) = queue.near.back_mut().filter(|chunk| chunk.len() == CHUNK) else {
            return;
        };
        if most != asking
            && let Some(place) = self.spill.write(chunk.make_contiguous())
        {
            queue.near.pop_back();
            queue.far.push_front(place);
            self.held -= CHUNK;
        }
    }

    /// Forgets what waits for this target.
    pub(crate) fn forget(&mut self, target: usize) {
        let queue = std::mem::take(&mut self.queues[target]);
        self.held -= queue.near.iter().map(VecDeque::len).sum::<usize>();
        self.spill.free.extend(queue.far);
    }

    /// Passes the waiting requests of this target to `take`, oldest first, until it returns one.
    pub(crate) fn drain(
        &mut self,
        target: usize,
        mut take: impl FnMut(Planned) -> Option<Planned>,
    ) -> io::Result<()> {
        let queue = &mut self.queues[target];
        loop {
            let Some(chunk) = queue.near.front_mut() else {
                let next = match queue.far.pop_front() {
                    Some(place) => self.spill.read(place)?,
                    None if queue.last.is_empty() => return Ok(()),
                    None => std::mem::take(&mut queue.last),
                };
                self.held += next.len();
                queue.near.push_back(next);
                continue;
            };
            while let Some(planned) = chunk.pop_front() {
                if let Some(planned) = take(planned) {
                    chunk.push_front(planned);
                    return Ok(());
                }
                self.held -= 1;
            }
            queue.near.pop_front();
        }
    }
}

/// Chunks in an unnamed file, which vanishes with the process in every case. Free places are used
/// again, so the file is never larger than the largest backlog.
#[derive(Debug)]
struct Spill {
    directory: PathBuf,
    file: Option<File>,
    places: u64,
    places_max: u64,
    free: Vec<u64>,
    bytes: Vec<u8>,
    failure: Option<io::Error>,
}

impl Spill {
    fn new(bound: Bytes, directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            file: None,
            places: 0,
            places_max: bound.0 / CHUNK_BYTES as u64,
            free: Vec::new(),
            bytes: Vec::new(),
            failure: None,
        }
    }

    fn used(&self) -> Bytes {
        Bytes((self.places - self.free.len() as u64) * CHUNK_BYTES as u64)
    }

    /// Whether this number of further chunks has room: within the bound, and leaving enough of the
    /// disk for the results.
    fn has_room(&self, chunks: u64) -> bool {
        let more = chunks.saturating_sub(self.free.len() as u64);
        let places = self.places + more;
        if self.failure.is_some() || places > self.places_max {
            return false;
        }
        more == 0
            || rustix::fs::statvfs(&self.directory).is_ok_and(|disk| {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                free >= (places + more) * CHUNK_BYTES as u64
            })
    }

    /// Writes a chunk and returns its place; `None` if it cannot be written, now or ever again.
    fn write(&mut self, chunk: &[Planned]) -> Option<u64> {
        if self.failure.is_some() {
            return None;
        }
        match self.try_write(chunk) {
            Ok(place) => Some(place),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    fn try_write(&mut self, chunk: &[Planned]) -> io::Result<u64> {
        debug_assert_eq!(chunk.len(), CHUNK);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.directory)?),
        };
        let place = self.free.last().copied().unwrap_or(self.places);
        self.bytes.clear();
        for planned in chunk {
            self.bytes.extend_from_slice(&encode(&kept(planned)));
        }
        file.write_all_at(&self.bytes, place * CHUNK_BYTES as u64)?;
        if self.free.pop().is_none() {
            self.places += 1;
        }
        Ok(place)
    }

    /// Reads a chunk and frees its place.
    fn read(&mut self, place: u64) -> io::Result<VecDeque<Planned>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        self.bytes.resize(CHUNK_BYTES, 0);
        file.read_exact_at(&mut self.bytes, place * CHUNK_BYTES as u64)?;
        self.free.push(place);
        let (records, _) = self.bytes.as_chunks::<RECORD_BYTES>();
        let requests = records.iter().map(|bytes| decode(bytes).as_ref().map(planned_of));
        requests.collect::<Option<_>>().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "it does not hold what was written to it")
        })
    }
}

/// The request as a record of the journal, the format of the file.
fn kept(planned: &Planned) -> Record {
    let measured = Measured {
        scheduled: planned.scheduled,
        submitted: None,
        completed: None,
        target_offset: Some(planned.offset),
        in_flight: planned.recorded_in_flight,
        outcome: planned.refusal.unwrap_or(Outcome::Ok),
        pushed_back: false,
        late_cause: LateCause::None,
        target: planned.target,
        integrity: Integrity::Unchecked,
        behind: 0,
        flow: 0,
    };
    Record { planned: *planned, measured }
}

/// The request in such a record.
fn planned_of(record: &Record) -> Planned {
    Planned { recorded_in_flight: record.measured.in_flight, ..record.planned }
}

#[cfg(test)]
#[path = "backlog_tests.rs"]
mod tests;
