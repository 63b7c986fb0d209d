//! Block events through the block trace ioctls, as blktrace has taken them since 2006.
//!
//! The kernel writes records of all events of a device into a relay file for each processor. One
//! tracer has the device for itself, and a locked-down kernel refuses the files; in exchange the
//! records have blktrace's own format, and reading them needs no description by the kernel.
//!
//! A recorder that watches several disks reads several files for each processor. Their records are
//! merged by time here, which is exact: on the processor of a file, every record before now can be
//! read now.

mod api;
mod debugfs;
mod disk;
mod lane;
mod marker;
mod relay;
mod rival;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_trace::recording::Description;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use self::debugfs::Debugfs;
use self::disk::Disk;
use self::lane::Lane;
use super::buffer::Wanted as WantedBuffer;
use super::clocks::monotonic_ns;
use super::error::{RecordError, Remedy};
use super::interface::Interface;
use super::ledger::Counting;
use super::target::Target;
use super::tracer::{Contents, Counts, Meddling, Stream, Tracer};
use crate::host::CpuList;
use crate::sysfs::BlockNode;

/// How often a partly filled sub-buffer is fetched.
const FETCH_EVERY: Duration = Duration::from_millis(200);

/// An event that had begun when the trace was stopped is in the buffer after this time: interrupts
/// are off while it is written.
const SETTLE: Duration = Duration::from_millis(2);

/// How long after its trace a removed device may still be in sysfs.
const REMOVAL: Duration = Duration::from_millis(200);

/// The longest chunk.
const CHUNK_BYTES: usize = 256 << 10;

/// The traces of some disks.
#[derive(Debug)]
pub(super) struct BlktraceTracer {
    disks: Vec<Traced>,
    debugfs: Debugfs,
    lanes: Vec<Lane>,
    streams: Vec<Stream>,
    buffer: WantedBuffer,
    is_stopped: bool,
    /// Where the reading thread may run when it does not have to run somewhere.
    home: Option<CpuSet>,
}

/// A disk with its trace.
#[derive(Debug)]
struct Traced {
    disk: Disk,
    node: BlockNode,
    sequence: Option<u64>,
    is_gone: bool,
}

impl BlktraceTracer {
    /// Sets up the traces of the disks of these devices, which see no event yet. `buffer` is the
    /// size of all buffers of a processor together, in bytes.
    pub(super) fn attach(targets: &[Target], buffer: Option<u64>) -> Result<Self, RecordError> {
        let debugfs = Debugfs::open().map_err(|error| no_debugfs(&error))?;
        // Relay makes a buffer on each processor that is on, whichever this process may use.
        let cpus = CpuList::online().map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            |online| online.numbers().len(),
        );
        let buffer = WantedBuffer::of(buffer, cpus)?;
        let wanted = wanted(targets);
        let each = buffer.bytes / wanted.len().max(1) as u64;

        // From here on, what is set up is taken away again by dropping this.
        let mut tracer = Self {
            disks: Vec::new(),
            debugfs,
            lanes: Vec::new(),
            streams: Vec::new(),
            buffer,
            is_stopped: false,
            home: None,
        };
        for Wanted { node, path, sectors } in wanted {
            let (disk, files) = Disk::attach(&tracer.debugfs, &path, node.dev, sectors, each)?;
            let (number, capacity) = (tracer.disks.len(), disk.buffer_bytes);
            let sequence = node.number("diskseq");
            tracer.disks.push(Traced { disk, node, sequence, is_gone: false });
            for (cpu, file) in files {
                let lane = tracer.lane_of(cpu);
                tracer.lanes[lane].add(number, file);
                tracer.streams[lane].capacity += capacity;
            }
        }
        if let Some(first) = tracer.streams.first() {
            tracer.buffer.given(first.capacity);
        }
        Ok(tracer)
    }

    /// The lane of a processor, new if there is none.
    fn lane_of(&mut self, cpu: u32) -> usize {
        self.lanes.iter().position(|lane| lane.cpu == cpu).unwrap_or_else(|| {
            self.lanes.push(Lane::new(cpu));
            self.streams.push(Stream { cpu, capacity: 0 });
            self.lanes.len() - 1
        })
    }

    /// Lets the calling thread run on the processor of a lane only. A processor that is switched
    /// off writes nothing, and one that this process may not use must be read from outside.
    fn go_to(&mut self, lane: usize) {
        if self.home.is_none() {
            self.home = sched_getaffinity(None).ok();
        }
        let cpu = self.lanes[lane].cpu as usize;
        if cpu < CpuSet::MAX_CPU {
            let mut there = CpuSet::new();
            there.set(cpu);
            let _ = sched_setaffinity(None, &there);
        }
    }

    /// Lets the calling thread run where it may again.
    fn go_home(&self) {
        if let Some(home) = &self.home {
            let _ = sched_setaffinity(None, home);
        }
    }

    /// Looks at the files of a lane, and takes what they have until there is no room or no more.
    /// What fails meanwhile is kept in the lane.
    fn look(&mut self, lane: usize, chunk: &mut [u8]) -> usize {
        let Self { disks, debugfs, lanes, is_stopped, .. } = self;
        let mut length = 0;
        loop {
            let mut failure = None;
            let is_empty = lanes[lane].look(monotonic_ns(), *is_stopped, |disk, error| {
                failure = failure.take().or_else(|| disks[disk].why_gone(debugfs, error));
            });
            lanes[lane].failure = lanes[lane].failure.take().or(failure);
            let (taken, is_full) = lanes[lane].take(&mut chunk[length..]);
            length += taken;
            if is_empty || is_full {
                return length;
            }
        }
    }
}

impl Tracer for BlktraceTracer {
    fn interface(&self) -> Interface {
        Interface::Blktrace
    }

    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES
    }

    fn describe(&self, description: &mut Description) {
        "mono".clone_into(&mut description.clock);
        description.buffer_bytes = self.streams.first().map_or(0, |stream| stream.capacity);
        description.sub_buffer_bytes =
            self.disks.first().map_or(0, |traced| traced.disk.sub_buffer_bytes);
        description.buffer_rule = self.buffer.rule();
    }

    fn start(&mut self) -> Result<(), RecordError> {
        self.disks.iter().try_for_each(|traced| traced.disk.start())
    }

    fn read(&mut self, stream: usize, chunk: &mut [u8]) -> io::Result<usize> {
        let lane = &mut self.lanes[stream];
        let (taken, is_full) = lane.take(chunk);
        let is_due =
            self.is_stopped || lane.fetched.elapsed() >= FETCH_EVERY || lane.has_full_part();
        if is_full || !is_due {
            return lane.answer(taken);
        }
        self.go_to(stream);
        let more = self.look(stream, &mut chunk[taken..]);
        self.go_home();
        self.lanes[stream].answer(taken + more)
    }

    fn counting(&self) -> Counting {
        Counting::Together
    }

    /// Kernels before 6.19 count lost events for each disk and not for each processor; with later
    /// ones the numbers of the events show them too. Losses that no number shows count for the
    /// first processor.
    fn counts(&mut self, stream: usize) -> io::Result<Counts> {
        let lane = &self.lanes[stream];
        let mut counts = Counts { read: lane.events(), lost: lane.missing_in_all() };
        if stream == 0 {
            for (number, traced) in self.disks.iter_mut().enumerate() {
                // Later numbers may still show where these are missing.
                if self.is_stopped || !traced.disk.shows_gaps {
                    let seen = self.lanes.iter().map(|lane| lane.missing(number)).sum();
                    counts.lost += traced.disk.lost().saturating_sub(seen);
                }
            }
        }
        Ok(counts)
    }

    fn contents(&self, chunk: &[u8]) -> Contents {
        relay::contents(chunk)
    }

    /// If a trace is removed, reading fails ([`Traced::why_gone`]); a trace that is only stopped
    /// cannot be noticed.
    fn meddling(&mut self) -> Option<Meddling> {
        None
    }

    fn note(&self) -> Option<String> {
        self.buffer.note()
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        let stopped = self.disks.iter().map(|traced| traced.disk.stop(&self.debugfs));
        let stopped = stopped.fold(Ok(()), Result::and);
        sleep(SETTLE);
        self.is_stopped = true;
        stopped
    }

    fn detach(&mut self) -> Result<(), RecordError> {
        let detached = self.disks.iter_mut().map(|traced| traced.disk.detach(&self.debugfs));
        detached.fold(Ok(()), Result::and)
    }
}

impl Drop for BlktraceTracer {
    fn drop(&mut self) {
        // What cannot be taken away now is taken away by the next start.
        let _ = self.detach();
    }
}

impl Traced {
    /// Why the files of this disk cannot be read any more; `None` if the disk was removed, which is
    /// reported elsewhere, or if it was reported already.
    fn why_gone(&mut self, debugfs: &Debugfs, error: io::Error) -> Option<io::Error> {
        if std::mem::replace(&mut self.is_gone, true) {
            return None;
        }
        if self.disk.is_there(debugfs) {
            return Some(error);
        }
        let begun = Instant::now();
        while begun.elapsed() < REMOVAL {
            if self.is_removed() {
                return None;
            }
            sleep(REMOVAL / 10);
        }
        let name = &self.node.name;
        Some(io::Error::other(format!(
            "the trace of {name} was taken down by another program (a second blktrace on a device \
             does that); what it had not given out is lost"
        )))
    }

    fn is_removed(&self) -> bool {
        BlockNode::of(self.node.dev)
            .is_none_or(|now| now.name != self.node.name || now.number("diskseq") != self.sequence)
    }
}

/// A disk that is to be traced.
struct Wanted {
    node: BlockNode,
    path: PathBuf,
    /// The first and the last sector, both zero for all.
    sectors: (u64, u64),
}

/// The disks of these devices. The kernel has one trace for a disk and all its partitions: of
/// several partitions, it looks at all from the first to the last.
fn wanted(targets: &[Target]) -> Vec<Wanted> {
    let mut disks: Vec<Wanted> = Vec::new();
    for target in targets {
        let sectors = target.part().map_or((0, 0), |(start, length)| {
            (start, start.saturating_add(length).saturating_sub(1))
        });
        if let Some(disk) = disks.iter_mut().find(|disk| disk.node.dev == target.disk_dev()) {
            disk.sectors = hull(disk.sectors, sectors);
        } else if let Some(node) = BlockNode::of(target.disk_dev()) {
            let path = match target.part() {
                Some(_) => Path::new("/dev").join(&node.name),
                // Links go with the device and come back with another, and the marker of the trace
                // outlives this process and its directory.
                None => {
                    fs::canonicalize(target.path()).unwrap_or_else(|_| target.path().to_owned())
                }
            };
            disks.push(Wanted { node, path, sectors });
        }
    }
    disks
}

/// From the first to the last sector of both, where both zero stand for all.
fn hull(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    if one == (0, 0) || other == (0, 0) {
        return (0, 0);
    }
    (one.0.min(other.0), one.1.max(other.1))
}

fn no_debugfs(error: &io::Error) -> RecordError {
    let (reason, remedy) = match Errno::from_io_error(error) {
        Some(Errno::NODEV) => (
            "this kernel has no debugfs".to_owned(),
            Remedy::or_tracefs(Some("use a kernel with CONFIG_DEBUG_FS")),
        ),
        Some(Errno::NOSYS) => (
            "debugfs is not mounted".to_owned(),
            Remedy::only("`mount -t debugfs debugfs /sys/kernel/debug` as root"),
        ),
        _ => {
            let reason = format!("debugfs is not mounted and cannot be: {error}");
            (reason, Remedy::only("run as root"))
        }
    };
    RecordError::Unavailable { interface: Interface::Blktrace, reason, remedy }
}

/// Takes away the traces that processes of ioecho left when they were killed, and answers the names
/// of their devices.
pub(super) fn clean() -> Result<Vec<String>, RecordError> {
    match marker::Marker::any() {
        Ok(false) => Ok(Vec::new()),
        Ok(true) => {
            let debugfs = Debugfs::open().map_err(|error| no_debugfs(&error))?;
            disk::clean(&debugfs)
        }
        Err(error) => Err(RecordError::Unavailable {
            interface: Interface::Blktrace,
            reason: format!(
                "what was left of it is written down where only root may look: {error}"
            ),
            remedy: Remedy::only("run as root"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_partitions_all_is_looked_at_from_the_first_to_the_last() {
        assert_eq!(hull((8, 15), (32, 63)), (8, 63));
        assert_eq!(hull((32, 63), (8, 15)), (8, 63));
        assert_eq!(hull((0, 0), (8, 15)), (0, 0), "the whole disk");
    }

    #[test]
    fn without_debugfs_it_is_said_what_to_do() {
        let told = no_debugfs(&Errno::PERM.into()).to_string();
        assert!(told.contains("blktrace interface") && told.contains("run as root"), "{told}");
        assert!(no_debugfs(&Errno::NODEV.into()).to_string().contains("CONFIG_DEBUG_FS"));
    }
}
