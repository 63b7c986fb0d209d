//! One processor of a raw recording as events in the order of their time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::devices::Devices;
use super::frames::{Payloads, Segments};
use super::log::Log;
use super::pages::{Decoded, Layouts};
use crate::error::TraceError;
use crate::formats::blktrace::feed::{Feed, Wanted};
use crate::formats::blktrace::gaps::Gaps;
use crate::formats::blktrace::merge::Lane;
use crate::formats::blktrace::notices::Notices;
use crate::formats::blktrace::record::{Event, kind};

/// Size of the buffer for a processor's relay data, in bytes.
const RELAY_BUFFER_BYTES: usize = 1 << 20;

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
    /// Its events and how many of them were given.
    events: Vec<Event>,
    given: usize,
    ended: bool,
}

/// Relay data of one processor.
pub(super) struct Relay {
    feed: Feed,
    damages: Arc<Mutex<Vec<String>>>,
    /// What the recorder counted.
    gaps: Gaps,
    devices: Arc<Devices>,
    /// Events in no partition that was recorded: the kernel is told the first and the last sector,
    /// and lets through what begins at 0.
    outside: u64,
}

impl Processor {
    /// The pages in these files.
    pub(super) fn pages(
        cpu: u32,
        paths: Vec<PathBuf>,
        layouts: &Arc<Layouts>,
        log: &Log,
        strict: bool,
    ) -> Self {
        let gaps = log.gaps(cpu);
        let is_counted = gaps.events() > 0;
        Self::Pages(Box::new(Pages {
            layouts: Arc::clone(layouts),
            segments: Segments::new(cpu, paths, strict),
            decoded: Decoded::new(cpu, gaps, is_counted),
            page: Vec::new(),
            events: Vec::new(),
            given: 0,
            ended: false,
        }))
    }

    /// The relay data in these files; `None` where there is none.
    pub(super) fn relay(
        cpu: u32,
        paths: Vec<PathBuf>,
        devices: &Arc<Devices>,
        log: &Log,
        strict: bool,
    ) -> Result<Option<Self>, TraceError> {
        let Some(path) = paths.first().cloned() else { return Ok(None) };
        let (payloads, damages) = Payloads::new(Segments::new(cpu, paths, strict));
        let feed = Feed::open(&path, Box::new(payloads), RELAY_BUFFER_BYTES)?;
        let gaps = log.gaps(cpu);
        let devices = Arc::clone(devices);
        let relay = |feed| Relay { feed, damages, gaps, devices, outside: 0 };
        Ok(feed.map(|feed| Self::Relay(Box::new(relay(feed)))))
    }
}

impl Relay {
    #[inline]
    fn next(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<Option<Event>, TraceError> {
        while let Some(event) = self.feed.next(wanted, notices)? {
            let place = self.devices.place(event.device, event.sector, event.bytes > 0);
            if let Some(place) = place {
                return Ok(Some(Event { device: place.device, sector: place.sector, ..event }));
            }
            self.outside += 1;
        }
        Ok(None)
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
            return Ok(());
        };
        self.decoded.torn |= is_torn;
        let (layouts, kinds) = (&self.layouts, wanted.kinds);
        let done = self.decoded.page(layouts, &self.page, kinds, &mut self.events, notices);
        if let Err(why) = done {
            let why = format!("{why} (a page whose checksum is sound)");
            self.segments.damage(0, &why)?;
            self.decoded.torn = true;
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
            Self::Relay(relay) => relay.feed.cpu(),
        }
    }

    fn kinds(&self) -> &[u64; kind::COUNT] {
        match self {
            Self::Pages(pages) => &pages.decoded.kinds,
            Self::Relay(relay) => relay.feed.kinds(),
        }
    }

    fn passthrough(&self) -> &[u64; kind::COUNT] {
        match self {
            Self::Pages(pages) => &pages.decoded.passthrough,
            Self::Relay(relay) => relay.feed.passthrough(),
        }
    }

    fn out_of_order(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.decoded.out_of_order,
            Self::Relay(relay) => relay.feed.out_of_order(),
        }
    }

    fn gaps(&self) -> &Gaps {
        match self {
            Self::Pages(pages) => &pages.decoded.gaps,
            // Numbers that are missing tell when; what the recorder counted may be more.
            Self::Relay(relay) if relay.gaps.events() > relay.feed.gaps().events() => &relay.gaps,
            Self::Relay(relay) => relay.feed.gaps(),
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
            damages.extend(relay.feed.damage());
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
