//! The events of all processors in the order of their time.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::layout::Layouts;
use crate::error::TraceError;
use crate::formats::blktrace::gaps::Gaps;
use crate::formats::recording::frames::Segments;
use crate::formats::recording::log::Log;

/// An event.
pub(super) struct Seen {
    /// Nanoseconds of the monotonic clock.
    pub(super) time: u64,
    pub(super) data: Vec<u8>,
}

/// The events of a processor.
struct Lane {
    cpu: u32,
    segments: Segments,
    page: Vec<u8>,
    /// Those of the page.
    seen: VecDeque<Seen>,
    gaps: Gaps,
    /// Whether the recorder counted the losses; then the marks in the pages are redundant.
    is_counted: bool,
    noted_gaps: usize,
    counted: Option<(u64, u64)>,
    events: u64,
    last: u64,
    is_torn: bool,
    ended: bool,
}

/// All processors.
pub(super) struct Lanes {
    layouts: Layouts,
    lanes: Vec<Lane>,
}

impl Lanes {
    pub(super) fn open(
        directory: &Path,
        layouts: Layouts,
        files: BTreeMap<u32, Vec<PathBuf>>,
        log: &Log,
        strict: bool,
    ) -> Self {
        let lane = |(cpu, paths)| {
            let gaps = log.gaps(cpu);
            Lane {
                cpu,
                segments: Segments::new(directory, cpu, paths, strict),
                page: Vec::new(),
                seen: VecDeque::new(),
                is_counted: gaps.events() > 0,
                noted_gaps: gaps.stretches().len(),
                gaps,
                counted: log.counted(cpu),
                events: 0,
                last: 0,
                is_torn: false,
                ended: false,
            }
        };
        Self { layouts, lanes: files.into_iter().map(lane).collect() }
    }

    pub(super) fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// The next event of all; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Seen>, TraceError> {
        for lane in &mut self.lanes {
            while lane.seen.is_empty() && !lane.ended {
                lane.decode(&self.layouts)?;
            }
        }
        let first = |lane: &Lane| lane.seen.front().map(|seen| seen.time);
        let with_one = self.lanes.iter_mut().filter(|lane| !lane.seen.is_empty());
        let earliest = with_one.min_by_key(|lane| first(lane));
        Ok(earliest.and_then(|lane| lane.seen.pop_front()))
    }

    /// The gaps of each processor.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (u32, &Gaps)> {
        self.lanes.iter().map(|lane| (lane.cpu, &lane.gaps))
    }

    /// What is damaged.
    pub(super) fn damages(&self) -> Vec<String> {
        self.lanes.iter().flat_map(|lane| lane.segments.damages.iter().cloned()).collect()
    }
}

impl Lane {
    /// Decodes the next page.
    fn decode(&mut self, layouts: &Layouts) -> Result<(), TraceError> {
        let Some(is_torn) = self.segments.next(&mut self.page)? else {
            self.ended = true;
            return self.compare();
        };
        self.is_torn |= is_torn;
        let Some(head) = layouts.page.head(&self.page) else {
            self.is_torn = true;
            return self.segments.damage(0, "a page is shorter than it says");
        };
        if std::mem::take(&mut self.is_torn) || head.missed && !self.is_counted {
            let from = if self.last == 0 { head.time } else { self.last };
            self.gaps.add(from, head.time, head.missed_events.unwrap_or(0));
        }
        let (seen, events, last) = (&mut self.seen, &mut self.events, &mut self.last);
        let done = layouts.page.walk(&self.page, &head, |time, data| {
            *events += 1;
            *last = time;
            seen.push_back(Seen { time, data: data.to_vec() });
            Ok(())
        });
        if let Err(why) = done {
            self.segments.damage(0, &format!("{why} (a page whose checksum is sound)"))?;
            self.is_torn = true;
        }
        Ok(())
    }

    /// Compares the number of events with the recorder's count, and notes the missing ones.
    fn compare(&mut self) -> Result<(), TraceError> {
        let Some((counted, at)) = self.counted else { return Ok(()) };
        let missing = counted.saturating_sub(self.events);
        if missing > 0 {
            self.gaps.count(self.noted_gaps, self.last, at, missing);
            self.segments.lack(missing, counted)?;
        }
        Ok(())
    }
}
