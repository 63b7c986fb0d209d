//! One processor of a raw recording as events in the order of their time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::devices::Devices;
use super::frames::{Payloads, Segments, lacking};
use super::log::Log;
use super::pages::{Decoded, Layouts};
use crate::error::TraceError;
use crate::formats::blktrace::feed::{Feed, Wanted};
use crate::formats::blktrace::gaps::Gaps;
use crate::formats::blktrace::merge::Lane;
use crate::formats::blktrace::notices::Notices;
use crate::formats::blktrace::record::{Event, kind};
use crate::wording::Wording;

/// Size of the buffer for a processor's relay data, in bytes.
const RELAY_BUFFER_BYTES: usize = 1 << 20;

/// The remedy for missing events.
fn remedy() -> Wording {
    Wording::from("without ").setting("strict").text(" everything else is read")
}

/// The number of events by kind where there are none.
const NONE: [u64; kind::COUNT] = [0; kind::COUNT];

/// A processor's events.
pub(super) enum Processor {
    /// Pages of tracefs.
    Pages(Box<Pages>),
    /// Relay data of blktrace.
    Relay(Box<Relay>),
}

/// Pages of one processor.
pub(super) struct Pages {
    layouts: Arc<Layouts>,
    segments: Segments,
    decoded: Decoded,
    /// The page that is decoded.
    page: Vec<u8>,
    /// The events of the page, and the number of them that were given.
    events: Vec<Event>,
    given: usize,
    ended: bool,
    /// The recorder's count of events, and the instant of the count.
    counted: Option<(u64, u64)>,
    /// The latest instant in the recorder's notes.
    noted: u64,
    /// The number of gaps that the recorder noted.
    noted_gaps: usize,
}

/// Relay data of one processor.
pub(super) struct Relay {
    cpu: u32,
    /// The reader of the files; `None` where no file has any data.
    feed: Option<Feed>,
    /// The recorder's count of events, and the instant of the count; taken once it was compared.
    counted: Option<(u64, u64)>,
    strict: Option<PathBuf>,
    damages: Arc<Mutex<Vec<String>>>,
    /// The gaps that the recorder noted.
    gaps: Gaps,
    devices: Arc<Devices>,
    /// Events outside the recorded partitions: the kernel filters by the first and the last sector,
    /// but passes events that begin at 0.
    outside: u64,
}

impl Processor {
    /// The pages in these files; `times` are the first and the last instant of the recording.
    pub(super) fn pages(
        directory: &Path,
        cpu: u32,
        paths: Vec<PathBuf>,
        layouts: &Arc<Layouts>,
        log: &Log,
        times: (u64, u64),
        strict: bool,
    ) -> Self {
        let gaps = log.gaps(cpu);
        let is_counted = gaps.events() > 0;
        let noted_gaps = gaps.stretches().len();
        Self::Pages(Box::new(Pages {
            layouts: Arc::clone(layouts),
            segments: Segments::new(directory, cpu, paths, strict),
            decoded: Decoded::new(cpu, gaps, is_counted, times),
            page: Vec::new(),
            events: Vec::new(),
            given: 0,
            ended: false,
            counted: log.counted(cpu),
            noted: log.last(),
            noted_gaps,
        }))
    }

    /// The relay data in these files.
    pub(super) fn relay(
        directory: &Path,
        cpu: u32,
        paths: Vec<PathBuf>,
        devices: &Arc<Devices>,
        log: &Log,
        strict: bool,
    ) -> Result<Self, TraceError> {
        let path = paths.first().cloned().unwrap_or_else(|| directory.to_owned());
        let (payloads, damages) = Payloads::new(Segments::new(directory, cpu, paths, strict));
        Ok(Self::Relay(Box::new(Relay {
            cpu,
            feed: Feed::open(&path, Box::new(payloads), RELAY_BUFFER_BYTES)?,
            counted: log.counted(cpu),
            strict: strict.then_some(path),
            damages,
            gaps: log.gaps(cpu),
            devices: Arc::clone(devices),
            outside: 0,
        })))
    }
}

impl Relay {
    #[inline]
    fn next(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<Option<Event>, TraceError> {
        if let Some(feed) = &mut self.feed {
            while let Some(event) = feed.next(wanted, notices)? {
                let place = self.devices.place(event.device, event.sector, event.bytes > 0);
                if let Some(place) = place {
                    return Ok(Some(Event { device: place.device, sector: place.sector, ..event }));
                }
                self.outside += 1;
            }
        }
        if let Some((counted, at)) = self.counted.take() {
            self.compare(counted, at)?;
        }
        Ok(None)
    }

    /// Compares the events in the relay data with the recorder's count, and notes the missing ones.
    fn compare(&mut self, counted: u64, at: u64) -> Result<(), TraceError> {
        let read = |feed: &Feed| feed.kinds().iter().chain(feed.passthrough()).sum::<u64>();
        let missing = counted.saturating_sub(self.feed.as_ref().map_or(0, read));
        if missing == 0 {
            return Ok(());
        }
        let why = lacking(self.cpu, missing, counted);
        if let Some(path) = self.strict.clone() {
            return Err(TraceError::Binary { path, offset: 0, reason: why, remedy: remedy() });
        }
        self.damages.lock().unwrap_or_else(PoisonError::into_inner).push(why);
        // Missing sequence numbers already account for some of them.
        let of_feed = self.feed.as_ref().map_or(0, |feed| feed.gaps().events());
        let more = missing.saturating_sub(of_feed.saturating_sub(self.gaps.events()));
        if more > 0 {
            if let Some(feed) = self.feed.as_ref().filter(|_| of_feed >= self.gaps.events()) {
                self.gaps = feed.gaps().clone();
            }
            let last = self.feed.as_ref().map_or(0, Feed::last);
            self.gaps.add(last, at, more);
        }
        Ok(())
    }
}

impl Pages {
    #[inline]
    fn next(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some(event) = self.events.get(self.given) {
                self.given += 1;
                return Ok(Some(*event));
            }
            if self.ended {
                return Ok(None);
            }
            self.decode(wanted, notices)?;
        }
    }

    /// Decodes the next page.
    fn decode(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<(), TraceError> {
        self.events.clear();
        self.given = 0;
        let Some(is_torn) = self.segments.next(&mut self.page)? else {
            self.ended = true;
            if self.segments.is_torn {
                let last = self.decoded.last;
                self.decoded.gaps.add(last, last.max(self.noted), 0);
            }
            self.tell_oddities()?;
            return self.compare();
        };
        self.decoded.is_torn |= is_torn;
        let (layouts, kinds) = (&self.layouts, wanted.kinds);
        let done = self.decoded.page(layouts, &self.page, kinds, &mut self.events, notices);
        if let Err(why) = done {
            let why = format!("{why} (a page whose checksum is sound)");
            self.segments.damage(0, &why)?;
            self.decoded.is_torn = true;
        }
        Ok(())
    }

    /// Notes events that were left out as impossible.
    fn tell_oddities(&mut self) -> Result<(), TraceError> {
        let Decoded { cpu, untimely, absurd, .. } = self.decoded;
        if untimely > 0 {
            self.segments.tell(format!(
                "processor {cpu}: {untimely} events bear times at which nothing was recorded, as \
                 where somebody has changed the clock of the trace; they are left out"
            ))?;
        }
        if absurd > 0 {
            self.segments.tell(format!(
                "processor {cpu}: {absurd} events are none that were to be recorded, or say what \
                 cannot be (a place beyond 2^64 bytes, 4 GiB in one request, no operation); they \
                 are left out"
            ))?;
        }
        Ok(())
    }

    /// Compares the number of decoded events with the recorder's count, and notes the missing ones.
    fn compare(&mut self) -> Result<(), TraceError> {
        let Some((counted, at)) = self.counted else { return Ok(()) };
        let missing = counted.saturating_sub(self.decoded.records);
        if missing > 0 {
            self.decoded.gaps.count(self.noted_gaps, self.decoded.last, at, missing);
            self.segments.lack(missing, counted)?;
        }
        Ok(())
    }
}

impl Lane for Processor {
    #[inline]
    fn next(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<Option<Event>, TraceError> {
        match self {
            Self::Pages(pages) => pages.next(wanted, notices),
            Self::Relay(relay) => relay.next(wanted, notices),
        }
    }

    fn cpu(&self) -> Option<u32> {
        match self {
            Self::Pages(pages) => Some(pages.decoded.cpu),
            Self::Relay(relay) => Some(relay.cpu),
        }
    }

    fn kinds(&self) -> &[u64; kind::COUNT] {
        match self {
            Self::Pages(pages) => &pages.decoded.kinds,
            Self::Relay(relay) => relay.feed.as_ref().map_or(&NONE, |feed| feed.kinds()),
        }
    }

    fn passthrough(&self) -> &[u64; kind::COUNT] {
        match self {
            Self::Pages(pages) => &pages.decoded.passthrough,
            Self::Relay(relay) => relay.feed.as_ref().map_or(&NONE, |feed| feed.passthrough()),
        }
    }

    fn out_of_order(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.decoded.out_of_order,
            Self::Relay(relay) => relay.feed.as_ref().map_or(0, Lane::out_of_order),
        }
    }

    fn gaps(&self) -> &Gaps {
        match self {
            Self::Pages(pages) => &pages.decoded.gaps,
            // Missing sequence numbers show the instants of gaps; the recorder may have counted
            // more events.
            Self::Relay(relay) => match &relay.feed {
                Some(feed) if feed.gaps().events() >= relay.gaps.events() => feed.gaps(),
                _ => &relay.gaps,
            },
        }
    }

    fn damage(&self) -> Option<String> {
        let mut damages = match self {
            Self::Pages(pages) => pages.segments.damages.clone(),
            Self::Relay(relay) => {
                relay.damages.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
        };
        if let Self::Relay(relay) = self {
            damages.extend(relay.feed.as_ref().and_then(Lane::damage));
        }
        (!damages.is_empty()).then(|| damages.join("; "))
    }

    fn outside(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.decoded.outside,
            Self::Relay(relay) => relay.outside,
        }
    }
}
