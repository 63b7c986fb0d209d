//! One record of the kernel: its layouts and its bits.
//!
//! The kernel writes its structure as it lies in memory, so a recording of a big-endian machine is
//! byte-swapped throughout. Since 2025 there are two structures. The magic word at the beginning of
//! every record shows the byte order and the structure. Source of all numbers here: Linux
//! `include/uapi/linux/blktrace_api.h`.

/// `BLK_IO_TRACE_MAGIC` without its low byte, which holds the version.
const MAGIC: u32 = 0x65_6174;

/// The longest header (version 8), in bytes.
pub(in crate::formats) const HEADER_MAX: usize = 64;

/// The longest record: header and payload (`pdu_len` has 16 bits), in bytes.
pub(in crate::formats) const RECORD_MAX: usize = HEADER_MAX + u16::MAX as usize;

/// The kind of event: `enum blktrace_act`, the low 16 bits of the action.
pub(in crate::formats) mod kind {
    /// `Q`: a bio entered the block layer.
    pub(crate) const QUEUE: u8 = 1;
    /// `M`: a bio was merged behind a request.
    pub(crate) const BACK_MERGE: u8 = 2;
    /// `F`: a bio was merged before a request.
    pub(crate) const FRONT_MERGE: u8 = 3;
    /// `R`: the driver gave the request back.
    pub(crate) const REQUEUE: u8 = 6;
    /// `D`: a request was handed to the driver.
    pub(crate) const ISSUE: u8 = 7;
    /// `C`: a request was completed.
    pub(crate) const COMPLETE: u8 = 8;
    /// `I`: a request was inserted into the scheduler's queue.
    pub(crate) const INSERT: u8 = 12;
    /// `X`: a bio was split.
    pub(crate) const SPLIT: u8 = 13;
    /// `A`: a bio was passed on to a device below.
    pub(crate) const REMAP: u8 = 15;
    /// The number of kinds that are counted separately; greater numbers count as the last.
    pub(crate) const COUNT: usize = 32;

    /// The name in messages, with blkparse's letter where it has one.
    pub(crate) const fn name(kind: u8) -> &'static str {
        match kind {
            QUEUE => "queued (Q)",
            BACK_MERGE => "back merge (M)",
            FRONT_MERGE => "front merge (F)",
            4 => "request allocated (G)",
            5 => "waiting for a request (S)",
            REQUEUE => "requeued (R)",
            ISSUE => "issued to the driver (D)",
            COMPLETE => "completed (C)",
            9 => "plug (P)",
            10 => "unplug (U)",
            11 => "timed unplug (T)",
            INSERT => "inserted (I)",
            SPLIT => "split (X)",
            14 => "bounced (B)",
            REMAP => "remapped (A)",
            16 => "aborted",
            17 => "driver data",
            18 => "zone plug",
            19 => "zone unplug",
            _ => "unknown",
        }
    }
}

/// The category: `enum blktrace_cat`, the action above its low 16 bits.
pub(in crate::formats) mod category {
    /// `BLK_TC_READ`.
    pub(crate) const READ: u32 = 1;
    /// `BLK_TC_WRITE`.
    pub(crate) const WRITE: u32 = 1 << 1;
    /// `BLK_TC_FLUSH`.
    pub(crate) const FLUSH: u32 = 1 << 2;
    /// `BLK_TC_SYNC`.
    pub(crate) const SYNC: u32 = 1 << 3;
    /// `BLK_TC_PC`: a command that is no read or write, passed through to the device.
    pub(crate) const PASSTHROUGH: u32 = 1 << 9;
    /// `BLK_TC_NOTIFY`: a message of the recorder, not an event of a request.
    pub(crate) const NOTIFY: u32 = 1 << 10;
    /// `BLK_TC_AHEAD`.
    pub(crate) const AHEAD: u32 = 1 << 11;
    /// `BLK_TC_META`.
    pub(crate) const META: u32 = 1 << 12;
    /// `BLK_TC_DISCARD`; also set for secure erase.
    pub(crate) const DISCARD: u32 = 1 << 13;
    /// `BLK_TC_FUA`.
    pub(crate) const FUA: u32 = 1 << 15;
    /// `BLK_TC_ZONE_APPEND` to `BLK_TC_ZONE_CLOSE`, version 8 only.
    pub(crate) const ZONE: u32 = 0x3f << 16;
    /// `BLK_TC_WRITE_ZEROES`, version 8 only.
    pub(crate) const WRITE_ZEROES: u32 = 1 << 22;
}

/// The kinds of message: `enum blktrace_notify`.
pub(in crate::formats) mod notify {
    /// The payload is the name of the process.
    pub(crate) const PROCESS: u16 = 0;
    /// The payload is the wall clock: seconds and nanoseconds, 32 bits each.
    pub(crate) const TIMESTAMP: u16 = 1;
    /// The payload is a text of a driver or a scheduler.
    pub(crate) const MESSAGE: u16 = 2;
}

/// `__BLK_TA_CGROUP`: the payload begins with the eight bytes of a cgroup's number. It shares the
/// low half with the kind, which has to be compared without it.
const CGROUP: u16 = 0x100;

/// The layout of a record's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) struct Layout {
    /// Whether a big-endian machine wrote the record.
    big_endian: bool,
    /// Whether the record has version 8 (`struct blk_io_trace2`) rather than 7 (`struct
    /// blk_io_trace`).
    second: bool,
}

/// The fields of an event that the reader needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::formats) struct Event {
    /// The instant in nanoseconds of the recording's clock.
    pub(in crate::formats) time: u64,
    /// The first sector, of 512 bytes.
    pub(in crate::formats) sector: u64,
    /// The length in bytes.
    pub(in crate::formats) bytes: u32,
    /// The bits of the [`category`].
    pub(in crate::formats) categories: u32,
    /// The event's number on its processor.
    pub(in crate::formats) sequence: u32,
    /// The thread that caused the event.
    pub(in crate::formats) pid: u32,
    /// The kernel's `dev_t`: 12 bits of major, 20 bits of minor number.
    pub(in crate::formats) device: u32,
    /// The processor on which the event happened.
    pub(in crate::formats) cpu: u32,
    /// The [`kind`].
    pub(in crate::formats) kind: u8,
    /// Whether the completion was an error.
    pub(in crate::formats) failed: bool,
    /// Whether the error was [`EAGAIN`]: the kernel would have had to wait.
    pub(in crate::formats) refused: bool,
}

/// `EAGAIN` (Linux `include/uapi/asm-generic/errno-base.h`), the error of a bio that must not wait
/// but would have had to (`bio_wouldblock_error`).
pub(in crate::formats) const EAGAIN: i16 = 11;

/// The parts of a record that matter to its frame and to notices only.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats) struct Frame {
    /// The low 16 bits of the action without the cgroup bit.
    pub(in crate::formats) low: u16,
    /// The length of the payload in bytes.
    pub(in crate::formats) payload: usize,
    /// The number of bytes of the cgroup's number, with which the payload begins; 0 if it has none.
    pub(in crate::formats) cgroup: usize,
}

impl Layout {
    /// The layout of a record that begins with these bytes.
    #[inline]
    pub(in crate::formats) fn of(first_bytes: &[u8]) -> Option<Self> {
        let word = u32::from_le_bytes(*first_bytes.first_chunk()?);
        let (word, big_endian) =
            if word >> 8 == MAGIC { (word, false) } else { (word.swap_bytes(), true) };
        match (word >> 8, word & 0xff) {
            (MAGIC, 7) => Some(Self { big_endian, second: false }),
            (MAGIC, 8) => Some(Self { big_endian, second: true }),
            _ => None,
        }
    }

    /// The version in these first bytes if they are blktrace's; `None` if they are not, or if the
    /// version is known.
    pub(in crate::formats) fn unknown_version(first_bytes: &[u8]) -> Option<u32> {
        let word = u32::from_le_bytes(*first_bytes.first_chunk()?);
        let word = if word >> 8 == MAGIC { word } else { word.swap_bytes() };
        (word >> 8 == MAGIC && Self::of(first_bytes).is_none()).then_some(word & 0xff)
    }

    /// The length of the header in bytes.
    #[inline]
    pub(in crate::formats) const fn header_bytes(self) -> usize {
        if self.second { 64 } else { 48 }
    }

    /// The layout in words.
    pub(in crate::formats) const fn describe(self) -> &'static str {
        match (self.second, self.big_endian) {
            (false, false) => "version 7, little-endian",
            (false, true) => "version 7, big-endian",
            (true, false) => "version 8, little-endian",
            (true, true) => "version 8, big-endian",
        }
    }

    /// A 32-bit number of a payload, or zero behind its end.
    pub(in crate::formats) fn word(self, bytes: &[u8], at: usize) -> u32 {
        bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| self.u32(*chunk))
    }

    /// Reads a header; `bytes` holds at least [`Layout::header_bytes`] bytes.
    #[inline]
    pub(in crate::formats) fn decode(self, bytes: &[u8]) -> Option<(Event, Frame)> {
        // Both headers hold the first 28 bytes in common.
        let head: &[u8; 48] = bytes.first_chunk()?;
        let (pid, action, device, cpu, error, payload) = if self.second {
            let head: &[u8; 64] = bytes.first_chunk()?;
            let (low, high) = (self.u32_at(head, 32), self.u32_at(head, 36));
            let (low, high) = if self.big_endian { (high, low) } else { (low, high) };
            let action = u64::from(high) << 32 | u64::from(low);
            let (error, payload) = (self.u16_at(head, 48), self.u16_at(head, 50));
            let (device, cpu) = (self.u32_at(head, 40), self.u32_at(head, 44));
            (self.u32_at(head, 28), action, device, cpu, error, payload)
        } else {
            let action = u64::from(self.u32_at(head, 28));
            let (error, payload) = (self.u16_at(head, 44), self.u16_at(head, 46));
            let (device, cpu) = (self.u32_at(head, 36), self.u32_at(head, 40));
            (self.u32_at(head, 32), action, device, cpu, error, payload)
        };
        let low = action as u16 & !CGROUP;
        let event = Event {
            time: self.u64_at(head, 8),
            sector: self.u64_at(head, 16),
            bytes: self.u32_at(head, 24),
            categories: (action >> 16) as u32,
            sequence: self.u32_at(head, 4),
            pid,
            device,
            cpu,
            kind: low.min(kind::COUNT as u16 - 1) as u8,
            failed: error != 0,
            refused: error as i16 == -EAGAIN,
        };
        let payload = usize::from(payload);
        let cgroup = if action as u16 & CGROUP == 0 { 0 } else { payload.min(8) };
        Some((event, Frame { low, payload, cgroup }))
    }

    #[inline]
    fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    #[inline]
    fn u16_at<const N: usize>(self, bytes: &[u8; N], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    #[inline]
    fn u32_at<const N: usize>(self, bytes: &[u8; N], at: usize) -> u32 {
        self.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    #[inline]
    fn u64_at<const N: usize>(self, bytes: &[u8; N], at: usize) -> u64 {
        let (low, high) = (self.u32_at(bytes, at), self.u32_at(bytes, at + 4));
        let (low, high) = if self.big_endian { (high, low) } else { (low, high) };
        u64::from(high) << 32 | u64::from(low)
    }
}
