//! The heaviest stretch of a trace.
//!
//! Storage fails at the peak, not at the mean, and the peak of a day is five minutes that are hard
//! to find. Of all windows of a length the one with the most requests, the most bytes, or the
//! largest working set is taken. A window may begin at any request, so none is missed because it
//! lies across the border of two minutes.
//!
//! The trace goes once into a temporary file; two cursors then move through it, one at the end of
//! the window and one at its beginning, so every request is read twice.

use std::collections::BTreeMap;

use super::{ArgumentError, Arguments, Context, Kind, Transform, Window};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Header;
use crate::order::spill::{CHUNK_ROWS, Spill};
use crate::request::Op;
use crate::stop::Stop;
use crate::stream::Source;
use crate::units::{Bytes, Nanos, decimal_seconds};

/// `busiest LENGTH`.
pub const KIND: Kind = Kind {
    name: "busiest",
    value: "LENGTH[,by=iops|bytes|working-set][,page=SIZE]",
    help: "Keep the heaviest stretch of this length: by requests, by bytes read and written, or by \
           distinct pages touched [page: 4k]. The provenance tells where it was (at=TIME), and \
           with that it is taken from there without a search",
    spills: true,
    parse,
};

/// The size of a page where none is given.
const PAGE_BYTES: u64 = 4096;

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let length: Nanos = arguments.demand("the length")?;
    let choices = [("iops", By::Requests), ("bytes", By::Bytes), ("working-set", By::Pages)];
    let by = arguments.choice("by", &choices)?.unwrap_or(By::Requests);
    let page: Option<Bytes> = arguments.setting("page")?;
    let at = arguments.setting("at")?;
    arguments.finish()?;
    if length <= Nanos::ZERO {
        return Err(ArgumentError::new("the length must be longer than nothing"));
    }
    if page == Some(Bytes::ZERO) {
        return Err(ArgumentError::new("a page must be larger than nothing"));
    }
    if page.is_some() && by != By::Pages {
        return Err(ArgumentError::new("page says what by=working-set counts; say that too"));
    }
    Ok(Box::new(Busiest { length, by, page: page.map_or(PAGE_BYTES, |page| page.0), at }))
}

/// The quantity by which windows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Requests,
    Bytes,
    Pages,
}

#[derive(Clone, Copy, Debug)]
struct Busiest {
    length: Nanos,
    by: By,
    page: u64,
    at: Option<Nanos>,
}

impl Busiest {
    fn told(&self, at: Nanos) -> String {
        let by = match self.by {
            By::Requests => "iops".to_owned(),
            By::Bytes => "bytes".to_owned(),
            By::Pages => format!("working-set,page={}", self.page),
        };
        let (length, at) = (decimal_seconds(self.length), decimal_seconds(at));
        format!("busiest {length}s,by={by},at={at}s")
    }
}

impl Transform for Busiest {
    fn over(
        &self,
        mut source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        if let Some(at) = self.at {
            let window = Window { start: Some(at), duration: Some(self.length) };
            let (source, line) = (window.of(source), self.told(at));
            let mut told = Told { source, header: Header::default(), line };
            told.take_header();
            return Ok(Box::new(told));
        }
        let spill = Spill::of(&mut source, &context.spill_directory)?;
        let found = self.search(&spill, &context.stop)?;
        let mut header = source.header().clone();
        header.transforms.push(self.told(found.at));
        Ok(Box::new(Stretch { spill, header, next: found.from, to: found.to }))
    }

    fn streams(&self) -> bool {
        self.at.is_some()
    }

    fn ends(&self) -> bool {
        self.at.is_some()
    }
}

/// A stretch of rows, and the instant at which it begins.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    at: Nanos,
    from: u64,
    to: u64,
}

impl Busiest {
    /// The first of the heaviest windows.
    fn search(&self, spill: &Spill, stop: &Stop) -> Result<Busy, TraceError> {
        let instants_alone = self.by == By::Requests;
        let mut ahead = Cursor::new(spill, instants_alone);
        let mut behind = Cursor::new(spill, instants_alone);
        let mut weight = Weight::default();
        let (mut best, mut heaviest) = (Busy::default(), 0);
        while let Some(at) = behind.instant()? {
            let end = at.saturating_add(self.length);
            while let Some(instant) = ahead.instant()?
                && (instant < end || ahead.row == behind.row)
            {
                weight.add(&ahead, self);
                ahead.row += 1;
            }
            let weighed = weight.of(self.by);
            if weighed > heaviest || best.to == 0 {
                heaviest = weighed;
                best = Busy { at, from: behind.row, to: ahead.row };
            }
            weight.remove(&behind, self);
            behind.row += 1;
            if behind.row.is_multiple_of(CHUNK_ROWS) {
                stop.check()?;
            }
        }
        Ok(best)
    }
}

/// A place in the trace that moves forwards.
struct Cursor<'a> {
    spill: &'a Spill,
    instants_alone: bool,
    row: u64,
    /// The chunk that is loaded.
    chunk: Option<u64>,
    batch: Batch,
}

impl<'a> Cursor<'a> {
    fn new(spill: &'a Spill, instants_alone: bool) -> Self {
        Self { spill, instants_alone, row: 0, chunk: None, batch: Batch::default() }
    }

    /// The instant of the row here.
    fn instant(&mut self) -> Result<Option<Nanos>, TraceError> {
        if self.row >= self.spill.rows() {
            return Ok(None);
        }
        let chunk = self.row / CHUNK_ROWS;
        if self.chunk != Some(chunk) {
            if self.instants_alone {
                self.spill.read_instants(chunk, &mut self.batch.issue_ns)?;
            } else {
                self.spill.read(chunk * CHUNK_ROWS, u64::MAX, &mut self.batch)?;
            }
            self.chunk = Some(chunk);
        }
        Ok(Some(Nanos(self.batch.issue_ns[self.index()])))
    }

    fn index(&self) -> usize {
        (self.row % CHUNK_ROWS) as usize
    }

    /// The range of data that the request here moves: its volume, its offset and length in bytes.
    /// `None` if it moves none.
    fn moved(&self) -> Option<(u32, u64, u64)> {
        let index = self.index();
        matches!(self.batch.op[index], Op::Read | Op::Write).then(|| {
            let (offset, length) = (self.batch.offset_bytes[index], self.batch.length_bytes[index]);
            (self.batch.volume[index], offset, length)
        })
    }
}

/// The weight of the window.
#[derive(Default)]
struct Weight {
    requests: u64,
    bytes: u128,
    pages: Coverage,
}

impl Weight {
    fn of(&self, by: By) -> u128 {
        match by {
            By::Requests => u128::from(self.requests),
            By::Bytes => self.bytes,
            By::Pages => self.pages.covered,
        }
    }

    fn add(&mut self, place: &Cursor<'_>, what: &Busiest) {
        match what.by {
            By::Requests => self.requests += 1,
            By::Bytes => {
                self.bytes += place.moved().map_or(0, |(_, _, length)| u128::from(length));
            }
            By::Pages => {
                if let Some((volume, from, to)) = pages(place, what.page) {
                    self.pages.add(volume, from, to);
                }
            }
        }
    }

    fn remove(&mut self, place: &Cursor<'_>, what: &Busiest) {
        match what.by {
            By::Requests => self.requests -= 1,
            By::Bytes => {
                self.bytes -= place.moved().map_or(0, |(_, _, length)| u128::from(length));
            }
            By::Pages => {
                if let Some((volume, from, to)) = pages(place, what.page) {
                    self.pages.remove(volume, from, to);
                }
            }
        }
    }
}

/// The pages that the request here touches: its volume, the first page, and the page behind the
/// last.
fn pages(place: &Cursor<'_>, page: u64) -> Option<(u32, u64, u64)> {
    let (volume, offset, length) = place.moved()?;
    (length > 0).then(|| (volume, offset / page, offset.saturating_add(length).div_ceil(page)))
}

/// The number of requests that cover each page, as steps. A stretch of pages is one entry however
/// long it is, so that the memory follows the requests of the window and not the lengths that they
/// claim.
#[derive(Debug, Default)]
struct Coverage {
    /// For a volume and a page: the number of requests that cover the pages from there to the next
    /// entry.
    steps: BTreeMap<(u32, u64), u64>,
    /// The number of pages that are covered at all.
    covered: u128,
}

impl Coverage {
    /// The number of requests that cover the page.
    fn at(&self, volume: u32, page: u64) -> u64 {
        let before = self.steps.range((volume, 0)..=(volume, page)).next_back();
        before.map_or(0, |(_, count)| *count)
    }

    /// Inserts an entry at this page, if there is none, without changing the coverage.
    fn cut(&mut self, volume: u32, page: u64) {
        let count = self.at(volume, page);
        self.steps.entry((volume, page)).or_insert(count);
    }

    /// Removes the entry at this page if the coverage does not change there.
    fn mend(&mut self, volume: u32, page: u64) {
        let before = self.steps.range((volume, 0)..(volume, page)).next_back();
        let before = before.map_or(0, |(_, count)| *count);
        if self.steps.get(&(volume, page)) == Some(&before) {
            self.steps.remove(&(volume, page));
        }
    }

    fn add(&mut self, volume: u32, from: u64, to: u64) {
        self.change(volume, from, to, |count| count + 1);
    }

    fn remove(&mut self, volume: u32, from: u64, to: u64) {
        self.change(volume, from, to, |count| count - 1);
    }

    fn change(&mut self, volume: u32, from: u64, to: u64, change: impl Fn(u64) -> u64) {
        self.cut(volume, from);
        self.cut(volume, to);
        // Each stretch ends where the next one begins.
        let mut stretch: Option<(u64, bool, bool)> = None;
        let mut end = |stretch: &mut Option<(u64, bool, bool)>, page: u64| {
            if let Some((begin, was, is)) = stretch.take() {
                let pages = u128::from(page - begin);
                self.covered += if is && !was { pages } else { 0 };
                self.covered -= if was && !is { pages } else { 0 };
            }
        };
        for (&(_, page), count) in self.steps.range_mut((volume, from)..(volume, to)) {
            end(&mut stretch, page);
            let was = *count > 0;
            *count = change(*count);
            stretch = Some((page, was, *count > 0));
        }
        end(&mut stretch, to);
        self.mend(volume, from);
        self.mend(volume, to);
    }
}

/// The rows of a stretch.
struct Stretch {
    spill: Spill,
    header: Header,
    next: u64,
    to: u64,
}

impl Source for Stretch {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let rows = self.spill.read(self.next, self.to, batch)?;
        self.next += rows;
        Ok(rows > 0)
    }
}

/// A source whose provenance states the transform as it was typed, without its steps.
struct Told {
    source: Box<dyn Source>,
    header: Header,
    line: String,
}

impl Told {
    fn take_header(&mut self) {
        self.header = self.source.header().clone();
        if let Some(last) = self.header.transforms.last_mut() {
            last.clone_from(&self.line);
        }
    }
}

impl Source for Told {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = self.source.next_batch(batch)?;
        self.take_header();
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{made, refusal, trace};
    use super::*;
    use crate::Request;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn weight(window: &[Request], by: &str, page: u64) -> u128 {
        let moved = window.iter().filter(|request| matches!(request.op, Op::Read | Op::Write));
        match by {
            "iops" => window.len() as u128,
            "bytes" => moved.map(|request| u128::from(request.length.0)).sum(),
            _ => {
                let pages: HashSet<_> = moved
                    .filter(|request| request.length.0 > 0)
                    .flat_map(|request| {
                        let pages = request.offset.0 / page..request.end().0.div_ceil(page);
                        pages.map(|page| (request.volume, page))
                    })
                    .collect();
                pages.len() as u128
            }
        }
    }

    /// A request: its distance in time to the one before, its operation, its offset, its length,
    /// its volume.
    fn rows() -> impl Strategy<Value = Vec<(i64, u8, u64, u64, u32)>> {
        let row = (0_i64..4, 0_u8..6, 0_u64..40, 0_u64..12, 0_u32..2);
        proptest::collection::vec(row, 0..60)
    }

    proptest! {
        #[test]
        fn no_window_is_heavier_and_none_before_it_as_heavy(
            rows in rows(), length in 1_i64..20, by in 0_usize..3, batch_rows in 1_usize..20,
        ) {
            let by = ["iops", "bytes", "working-set"][by];
            let mut now = 0;
            let requests: Vec<_> = rows.iter().map(|&(gap, op, sector, sectors, volume)| {
                now += gap;
                let op = Op::from_code(op).unwrap();
                let volume = crate::VolumeId(volume);
                Request { volume, ..trace(&[(now, op, sector, sectors)])[0] }
            }).collect();
            let page = if by == "working-set" { ",page=1k" } else { "" };
            let line = format!("busiest {length}s,by={by}{page}");
            let (found, header) = made(&line, &requests, batch_rows);
            let window = |from: usize| {
                let end = requests[from].issue.0 + length * 1_000_000_000;
                let to = requests.partition_point(|request| request.issue.0 < end);
                &requests[from..to]
            };
            // The last of the heaviest is the first of them, seen from behind.
            let best = (0..requests.len())
                .rev()
                .max_by_key(|from| weight(window(*from), by, 1024));
            let plain = |requests: &[Request]| requests.iter()
                .map(|r| (r.issue, r.op, r.offset, r.length, r.volume)).collect::<Vec<_>>();
            let expected = best.map_or(&[][..], window);
            prop_assert_eq!(plain(&found), plain(expected));
            let at = expected.first().map_or(0, |first| first.issue.0 / 1_000_000_000);
            let last = header.transforms[0].clone();
            prop_assert!(last.ends_with(&format!(",at={at}s")), "{}", last);
        }
    }

    #[test]
    fn a_length_that_is_a_lie_costs_nothing() {
        let mut requests = trace(&[(0, Op::Read, 0, 8), (1, Op::Read, 8, 8), (9, Op::Read, 0, 8)]);
        requests[1].length = Bytes(u64::MAX - 9999);
        let (found, _) = made("busiest 2s,by=working-set,page=1", &requests, 2);
        assert_eq!(found.len(), 2);
        let (found, _) = made("busiest 1s,by=bytes", &requests, 2);
        assert_eq!(found[0].issue, Nanos::from_secs(1));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        assert_eq!(refusal("busiest"), "the length is missing");
        assert_eq!(refusal("busiest 0s"), "the length must be longer than nothing");
        assert_eq!(refusal("busiest 1s,by=size"), "by: 'size' is none of iops, bytes, working-set");
        assert!(refusal("busiest 1s,page=4k").contains("by=working-set"));
        assert!(refusal("busiest 1s,by=working-set,page=0").contains("larger than nothing"));
    }
}
