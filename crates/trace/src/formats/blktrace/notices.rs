//! What the recorder says beside the events.
//!
//! Events know processes by number and time by a clock of the kernel. Both are explained by records
//! of another sort among them, once: the name of a process before its first event, and the wall
//! clock when the recording begins.

use super::record::{Event, Frame, Layout, notify};

/// How many names of processes are kept.
const PROCESSES_MAX: usize = 1 << 16;

/// What the recorder said beside the events, of all files together.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Names of processes that were not taken over yet.
    pub(super) processes: Vec<(u32, String)>,
    /// How many there were in all.
    processes_seen: usize,
    /// The first instant (nanoseconds of the recording's clock) whose wall clock (nanoseconds since
    /// 1970) is told.
    pub(super) clock: Option<(u64, i128)>,
}

impl Notices {
    /// Takes a message of the recorder.
    pub(super) fn note(&mut self, layout: Layout, event: &Event, frame: Frame, payload: &[u8]) {
        let payload = payload.get(frame.cgroup..).unwrap_or_default();
        match frame.low {
            notify::PROCESS if self.processes_seen < PROCESSES_MAX => {
                let name = payload.split(|&byte| byte == 0).next().unwrap_or_default();
                self.processes_seen += 1;
                self.processes.push((event.pid, String::from_utf8_lossy(name).into_owned()));
            }
            notify::TIMESTAMP if self.clock.is_none() && payload.len() >= 8 => {
                let (seconds, nanos) = (layout.word(payload, 0), layout.word(payload, 4));
                let wall = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
                self.clock = Some((event.time, wall));
            }
            _ => {}
        }
    }
}
