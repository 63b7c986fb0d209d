//! Implausible records.
//!
//! If a record is damaged after its magic word, it still looks like a record: it would become a
//! request of a device that does not exist, and its wrong length would swallow good records. A few
//! fields show whether the kernel can have written it.

use super::record::{Event, Frame, category, notify};

/// The longest payload in bytes, except for messages. The kernel's own payloads have some dozens: a
/// name, a clock, an origin, a command.
const PAYLOAD_MAX: usize = 4096;

/// The most processors that a kernel is built for (`NR_CPUS` of x86 and arm64 goes up to 8192).
const CPUS_MAX: u32 = 8192;

/// Properties of the file, seen in its records so far.
#[derive(Debug)]
pub(super) struct Shown {
    /// Whether the file is that of one processor; then it also belongs to one device.
    per_cpu: bool,
    /// Processor and device of the first record.
    first: Option<(u32, u32)>,
}

impl Shown {
    pub(super) fn new(per_cpu: bool) -> Self {
        Self { per_cpu, first: None }
    }

    /// The reason why this cannot be a record of the file; `None` if the record is plausible.
    #[inline]
    pub(super) fn doubt(&mut self, event: &Event, frame: Frame) -> Option<String> {
        let of_file = (event.cpu, event.device);
        let is_long = frame.payload > PAYLOAD_MAX && !is_message(event, frame);
        let is_of_other = self.per_cpu && self.first.is_some_and(|first| first != of_file);
        if is_long || event.cpu >= CPUS_MAX || is_of_other {
            return Some(self.reason(event, frame));
        }
        if self.first.is_none() {
            self.first = Some(of_file);
        }
        None
    }

    #[cold]
    fn reason(&self, event: &Event, frame: Frame) -> String {
        let name = |device: u32| format!("{}:{}", device >> 20, device & 0xf_ffff);
        let says = format!(
            "what begins as a record is none: it says processor {}, device {} and {} bytes of \
             payload",
            event.cpu,
            name(event.device),
            frame.payload
        );
        match self.first {
            Some((cpu, device)) if self.per_cpu => {
                format!("{says}, in a file of processor {cpu} and device {}", name(device))
            }
            _ => says,
        }
    }
}

/// Whether the record is a message, which users of the kernel's interface make.
fn is_message(event: &Event, frame: Frame) -> bool {
    event.categories & category::NOTIFY != 0 && frame.low == notify::MESSAGE
}
