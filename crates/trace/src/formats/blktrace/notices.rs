//! The recorder's notices.
//!
//! Events know processes by number and time by a clock of the kernel. Both are explained by records
//! of another sort among them, once: the name of a process before its first event, and the wall
//! clock when the recording begins.

use rustc_hash::FxHashSet;

use super::record::{Event, Frame, Layout, notify};

/// The largest number of process names that are kept.
const PROCESSES_MAX: usize = 1 << 16;

/// The largest number of pairs of devices, one passing requests on to the other, that are kept.
const REMAPS_MAX: usize = 1 << 10;

/// The recorder's notices of all files together.
#[derive(Debug, Default)]
pub(in crate::formats) struct Notices {
    /// Names of processes that were not taken over yet.
    pub(in crate::formats) processes: Vec<(u32, String)>,
    /// Threads that issue the requests of other threads, each with the thread that it works for,
    /// not yet taken over.
    pub(in crate::formats) workers: Vec<(u32, u32)>,
    /// The number of names that were seen in all.
    processes_seen: usize,
    /// The first instant (nanoseconds of the recording's clock) with a known wall clock
    /// (nanoseconds since 1970).
    pub(in crate::formats) clock: Option<(u64, i128)>,
    /// Pairs of a device that passed requests on, and the device that got them.
    pub(in crate::formats) remaps: FxHashSet<(u32, u32)>,
}

impl Notices {
    /// Takes a message of the recorder.
    pub(in crate::formats) fn note(
        &mut self,
        layout: Layout,
        event: &Event,
        frame: Frame,
        payload: &[u8],
    ) {
        let payload = payload.get(frame.cgroup..).unwrap_or_default();
        match frame.low {
            notify::PROCESS => {
                self.process(event.pid, payload);
            }
            notify::TIMESTAMP if self.clock.is_none() && payload.len() >= 8 => {
                let (seconds, nanos) = (layout.word(payload, 0), layout.word(payload, 4));
                let wall = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
                self.clock = Some((event.time, wall));
            }
            _ => {}
        }
    }

    /// Notes the name of a process, which ends with a zero byte or at the end of the slice.
    pub(in crate::formats) fn process(&mut self, pid: u32, name: &[u8]) {
        if self.processes_seen < PROCESSES_MAX {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            self.processes_seen += 1;
            if let Some(served) = served_by(name) {
                self.workers.push((pid, served));
            }
            self.processes.push((pid, String::from_utf8_lossy(name).into_owned()));
        }
    }

    /// Notes that a device passed a request on. `payload` is `struct blk_io_trace_remap`, whose
    /// numbers are big-endian on every machine. It begins with the device that passed the request
    /// on.
    pub(in crate::formats) fn remap(&mut self, event: &Event, payload: &[u8]) {
        if let Some(from) = payload.first_chunk() {
            self.passed_on(u32::from_be_bytes(*from), event.device);
        }
    }

    /// Notes that a request to device `from` was passed on to device `to`.
    pub(in crate::formats) fn passed_on(&mut self, from: u32, to: u32) {
        if from != to && self.remaps.len() < REMAPS_MAX {
            self.remaps.insert((from, to));
        }
    }
}

/// The thread that a worker of io_uring works for, which is in the worker's name (`io_wq_worker` in
/// `io_uring/io-wq.c`). 0 for a worker of the kernel's own (`kernel/workqueue.c`).
pub(in crate::formats) fn served_by(name: &[u8]) -> Option<u32> {
    if name.starts_with(b"kworker/") {
        return Some(0);
    }
    let served = name.strip_prefix(b"iou-wrk-")?;
    std::str::from_utf8(served).ok()?.parse().ok()
}
