//! Events of a page of the kernel's ring buffer.
//!
//! The page holds records of its own: data with the time since the record before, longer times,
//! absolute times and padding. Source: Linux `include/linux/ring_buffer.h` (the enumeration
//! `ring_buffer_type`) and `kernel/trace/ring_buffer.c`; the time of a discarded event counts, as
//! in libtraceevent's `kbuffer-parse.c`.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::devices::{Devices, Location};
use super::layout::{Elsewhere, EventLayout, Field, Length, common_type, of_pages, unusable};
use super::rwbs::categories;
use crate::error::TraceError;
use crate::formats::blktrace::gaps::Gaps;
use crate::formats::blktrace::notices::Notices;
use crate::formats::blktrace::record::{EAGAIN, Event, kind};
use crate::recording::{Description, PageLayout};

/// The place of a recorded tracepoint that is not used here.
const UNUSED: u16 = u16::MAX;

/// The largest number of process names that are remembered for each processor.
const NAMES_MAX: usize = 1 << 14;

/// `TASK_COMM_LEN`: the longest name of a process, with its zero byte.
const NAME_BYTES: usize = 16;

/// The layouts of pages and events.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    page: PageLayout,
    common_type: Field,
    /// By the number of the tracepoint: 1 + the index in `events`, or [`UNUSED`], or 0 for no
    /// tracepoint.
    places: Vec<u16>,
    events: Vec<EventLayout>,
    devices: Devices,
    big_endian: bool,
}

impl Layouts {
    /// Reads the layouts that the recorder wrote down.
    pub(super) fn of(description: &Description, path: &Path) -> Result<Self, TraceError> {
        let unusable = |reason: &str| unusable(path, reason);
        let (tracefs, page) = of_pages(description, path)?;
        let (mut places, mut events, mut common) = (Vec::new(), Vec::new(), None);
        for format in &tracefs.events {
            let id = usize::from(format.id);
            if places.len() <= id {
                places.resize(id + 1, 0);
            }
            let Some(layout) = EventLayout::parse(format, path)? else {
                places[id] = UNUSED;
                continue;
            };
            let its_type = common_type(&format.format);
            if its_type.is_none() || common.is_some_and(|other| Some(other) != its_type) {
                return Err(unusable("its events have no number in common (common_type)"));
            }
            common = its_type;
            events.push(layout);
            places[id] = events.len() as u16;
        }
        let Some(common_type) = common else {
            return Err(unusable("it says nothing of any event of the block layer"));
        };
        let (devices, big_endian) = (Devices::of(description), description.big_endian);
        Ok(Self { page, common_type, places, events, devices, big_endian })
    }

    #[inline]
    fn word(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// A number of an event.
    #[inline]
    fn number(&self, data: &[u8], field: Field) -> Option<u64> {
        let bytes = data.get(field.at..)?;
        let big = self.big_endian;
        Some(match field.bytes {
            4 => {
                let bytes = *bytes.first_chunk()?;
                u64::from(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
            }
            8 => {
                let bytes = *bytes.first_chunk()?;
                if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
            }
            _ => {
                let bytes = *bytes.first_chunk()?;
                u64::from(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
            }
        })
    }

    /// A sector; `None` if all bits are set, as in the flush machinery's own requests.
    #[inline]
    fn sector(&self, data: &[u8], field: Field) -> Option<u64> {
        let sector = self.number(data, field)?;
        let none = if field.bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        Some(if sector == none { 0 } else { sector })
    }

    /// A text of an event.
    #[inline]
    fn text<'a>(&self, data: &'a [u8], field: Field) -> Option<&'a [u8]> {
        if field.elsewhere == Elsewhere::No {
            return data.get(field.at..)?.get(..field.bytes);
        }
        let place = self.word(data, field.at)?;
        let (at, bytes) = ((place & 0xffff) as usize, (place >> 16) as usize);
        let from = if field.elsewhere == Elsewhere::FromBehind { field.at + 4 } else { 0 };
        data.get(from + at..)?.get(..bytes)
    }
}

/// Counts of the decoded pages of one processor.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) cpu: u32,
    /// The number of events of each kind, without passthrough commands.
    pub(super) kinds: [u64; kind::COUNT],
    /// The number of passthrough commands of each kind.
    pub(super) passthrough: [u64; kind::COUNT],
    /// Events in no partition that was recorded.
    pub(super) outside: u64,
    pub(super) out_of_order: u64,
    pub(super) gaps: Gaps,
    /// The first instant of the recording and its length in nanoseconds, where they are known.
    /// Events outside of this time were timed by another clock.
    times: Option<(u64, u64)>,
    /// The number of events outside of `times`.
    pub(super) untimely: u64,
    /// Impossible events.
    pub(super) absurd: u64,
    /// Whether the recorder counted the losses; then the marks in the pages are redundant.
    is_counted: bool,
    /// The number of events of any kind, which is what the kernel counts.
    pub(super) records: u64,
    /// Whether pages are missing before the next one.
    pub(super) is_torn: bool,
    /// The instant of the last event.
    pub(super) last: u64,
    names: FxHashMap<u32, [u8; NAME_BYTES]>,
    last_name: (u32, [u8; NAME_BYTES]),
}

impl Decoded {
    /// Counts of zero. `gaps` are those that the recorder counted, if `is_counted`, and `times` the
    /// first and the last instant at which it recorded.
    pub(super) fn new(cpu: u32, gaps: Gaps, is_counted: bool, times: (u64, u64)) -> Self {
        let times = Some((times.0, times.1.saturating_sub(times.0)));
        Self { cpu, gaps, times, is_counted, ..Self::default() }
    }

    fn is_timely(&self, time: u64) -> bool {
        self.times.is_none_or(|(begins, lasts)| time.wrapping_sub(begins) <= lasts)
    }

    /// Decodes a page: its events of the wanted kinds go to `events`. The error is the reason why
    /// not all of the page can be read.
    pub(super) fn page(
        &mut self,
        layouts: &Layouts,
        page: &[u8],
        wanted: u32,
        events: &mut Vec<Event>,
        notices: &mut Notices,
    ) -> Result<(), &'static str> {
        let Some(head) = layouts.page.head(page) else {
            return Err("a page is shorter than it says");
        };
        if std::mem::take(&mut self.is_torn) || head.missed && !self.is_counted {
            // Before the first page no instant is known.
            let to = if self.is_timely(head.time) { head.time } else { self.last };
            let from = if self.last == 0 { to } else { self.last };
            self.gaps.add(from, to, head.missed_events.unwrap_or(0));
        }
        layouts.page.walk(page, &head, |time, data| {
            self.records += 1;
            if !self.is_timely(time) {
                self.untimely += 1;
                return Ok(());
            }
            self.event(layouts, data, time, wanted, events, notices)
                .ok_or("an event is shorter than its format says")
        })
    }

    /// Takes an event; `None` if it is too short.
    #[inline]
    fn event(
        &mut self,
        layouts: &Layouts,
        data: &[u8],
        time: u64,
        wanted: u32,
        events: &mut Vec<Event>,
        notices: &mut Notices,
    ) -> Option<()> {
        let id = layouts.number(data, layouts.common_type)? as usize;
        let place = layouts.places.get(id).copied().unwrap_or(0);
        let Some(layout) = usize::from(place).checked_sub(1).and_then(|at| layouts.events.get(at))
        else {
            self.absurd += u64::from(place != UNUSED);
            return Some(());
        };
        let kind = layout.kind;
        let (device, sector) =
            (layouts.number(data, layout.device)? as u32, layouts.sector(data, layout.sector)?);
        let sectors = match layout.length {
            Length::Sectors(field) => layouts.number(data, field)?,
            Length::Until(field) => layouts.number(data, field)?.saturating_sub(sector),
        };
        let bytes = u32::try_from(sectors.saturating_mul(512));
        let letters = layouts.text(data, layout.rwbs)?;
        // A bio is shorter than 4 GiB, no device has 2^64 bytes, and an operation has a letter.
        let (Ok(bytes), Some(_), Some(b'A'..=b'Z')) =
            (bytes, sector.checked_mul(512), letters.first())
        else {
            self.absurd += 1;
            return Some(());
        };
        let Some(Location { device, sector, bio_based }) =
            layouts.devices.place(device, sector, bytes > 0)
        else {
            self.outside += 1;
            return Some(());
        };
        let error = match layout.error {
            Some(field) => layouts.number(data, field)? as i32,
            None => 0,
        };
        // On a device with requests, a bio that ends without a request was refused.
        let ends = layout.is_bio_end == bio_based || layout.is_bio_end && error != 0;
        if kind == kind::COMPLETE && !ends {
            return Some(());
        }
        if bytes == 0 && letters.first() == Some(&b'N') {
            self.passthrough[usize::from(kind)] += 1;
            return Some(());
        }
        self.kinds[usize::from(kind)] += 1;
        if let Some(field) = layout.old_device {
            let from = layouts.number(data, field)? as u32;
            if layouts.devices.are_recorded(from, device) {
                notices.passed_on(from, device);
            }
        }
        if wanted >> kind & 1 == 0 {
            return Some(());
        }
        let pid = layouts.number(data, layout.pid)? as u32;
        if let Some(field) = layout.name {
            self.name(pid, layouts.text(data, field)?, notices);
        }
        let late = time < self.last;
        self.out_of_order += u64::from(late);
        self.last = time.max(self.last);
        events.push(Event {
            time: self.last,
            sector,
            bytes,
            categories: categories(letters, bytes),
            sequence: 0,
            pid,
            device,
            cpu: self.cpu,
            kind,
            failed: error != 0,
            refused: error == -i32::from(EAGAIN),
        });
        Some(())
    }

    /// Notes the name of a process if it is new or has changed.
    #[inline]
    fn name(&mut self, pid: u32, name: &[u8], notices: &mut Notices) {
        let mut bytes = [0; NAME_BYTES];
        let length = name.len().min(NAME_BYTES);
        bytes[..length].copy_from_slice(&name[..length]);
        if self.last_name == (pid, bytes) {
            return;
        }
        self.last_name = (pid, bytes);
        let is_known = self.names.get(&pid).is_some_and(|known| *known == bytes);
        if !is_known && (self.names.len() < NAMES_MAX || self.names.contains_key(&pid)) {
            self.names.insert(pid, bytes);
            notices.process(pid, &bytes);
        }
    }
}
