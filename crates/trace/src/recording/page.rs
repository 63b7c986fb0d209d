//! The frame of a page of the kernel's ring buffer.
//!
//! A page begins with the instant of its first event and the number of bytes that are used. The
//! layout of these depends on the kernel and its word size and is described by
//! `events/header_page`. The upper bits of the second word mark that events were lost before the
//! page (`kernel/trace/ring_buffer.c`: `RB_MISSED_EVENTS`, `RB_MISSED_STORED`).

/// `RB_MISSED_EVENTS`: events were lost before this page.
const MISSED: u64 = 1 << 31;

/// `RB_MISSED_STORED`: the number of lost events stands behind the last event.
const MISSED_STORED: u64 = 1 << 30;

/// `RINGBUF_TYPE_PADDING`, `_TIME_EXTEND` and `_TIME_STAMP`: records of a page that are no events
/// (`include/linux/ring_buffer.h`, `ring_buffer_type`).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of the time in a record's head (`TS_SHIFT`).
const DELTA_BITS: u32 = 27;

/// Bits of an absolute time; the upper bits are those of the time before (`TS_MSB`).
const ABSOLUTE_BITS: u32 = 59;

/// The bits below these two are the number of used bytes.
const COMMIT_MASK: u64 = MISSED_STORED - 1;

/// The layout of a page, taken from the text of `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    timestamp: usize,
    commit: usize,
    /// The size of the kernel's `long` in bytes: 4 or 8.
    commit_bytes: usize,
    data: usize,
    big_endian: bool,
}

/// The content of a page, without decoding its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageContents {
    /// The number of events, without those that a filter discarded.
    pub events: u64,
    /// The instant of the first event, in nanoseconds.
    pub first_ns: u64,
    /// The instant of the last event, in nanoseconds; that of the page if it has no event.
    pub last_ns: u64,
}

/// The values in the head of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHead {
    /// The instant of the first event, in nanoseconds.
    pub(crate) time: u64,
    /// The first byte of the events.
    pub(crate) data: usize,
    /// The first byte behind the events.
    pub(crate) end: usize,
    /// Whether events were lost before this page.
    pub(crate) missed: bool,
    /// The number of lost events; `None` where the kernel does not store it.
    pub(crate) missed_events: Option<u64>,
}

impl PageLayout {
    /// Reads the text of `events/header_page`; `None` if the text is anything else.
    pub fn parse(header_page: &str, big_endian: bool) -> Option<Self> {
        let field = |name: &str| {
            header_page.lines().find_map(|line| {
                let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
                let is_it = declared.split_whitespace().last() == Some(name);
                is_it.then(|| (value(rest, "offset:"), value(rest, "size:")))
            })
        };
        let (timestamp, timestamp_bytes) = field("timestamp")?;
        let (commit, commit_bytes) = field("commit")?;
        let (data, _) = field("data")?;
        let (commit_bytes, sound) = (commit_bytes?, timestamp_bytes? == 8);
        let layout =
            Self { timestamp: timestamp?, commit: commit?, commit_bytes, data: data?, big_endian };
        let fits = layout.timestamp.checked_add(8)? <= layout.data
            && layout.commit.checked_add(commit_bytes)? <= layout.data
            && layout.data <= 4096
            && matches!(commit_bytes, 4 | 8);
        (sound && fits).then_some(layout)
    }

    /// The number of used bytes of a page: its head, its events, and the number of lost events
    /// where it is stored. Only these need be kept; there are never more than `page` has.
    pub fn used(&self, page: &[u8]) -> usize {
        let Some(word) = self.commit_word(page) else { return page.len() };
        let end = self.data.saturating_add((word & COMMIT_MASK) as usize);
        let stored =
            if word & MISSED != 0 && word & MISSED_STORED != 0 { self.commit_bytes } else { 0 };
        end.saturating_add(stored).min(page.len())
    }

    /// Whether the kernel marked that it lost events before this page.
    pub fn has_lost(&self, page: &[u8]) -> bool {
        self.commit_word(page).is_some_and(|word| word & MISSED != 0)
    }

    /// Whether the page has no event.
    pub fn is_empty(&self, page: &[u8]) -> bool {
        self.commit_word(page).is_none_or(|word| word & COMMIT_MASK == 0)
    }

    /// Counts the events of a page, so that the caller can tell the number of missing ones and
    /// their time. Of a damaged page, the events before the damage are counted.
    pub fn contents(&self, page: &[u8]) -> PageContents {
        let Some(head) = self.head(page) else { return PageContents::default() };
        let (page, mut at, mut events) = (&page[..head.end], head.data, 0);
        let (mut time, mut last_ns) = (head.time, head.time);
        let word = |at: usize| {
            let bytes = page.get(at..)?.get(..4)?;
            Some(self.number(bytes) as u32)
        };
        while let Some(record) = word(at) {
            let (sort, delta) = self.record_head(record);
            let length = || word(at + 4).map_or(page.len(), |length| length as usize);
            let long = || u64::from(delta) + (u64::from(word(at + 4).unwrap_or(0)) << DELTA_BITS);
            let step = match sort {
                PADDING if delta == 0 => break,
                PADDING => length(),
                TIME_EXTEND | TIME_STAMP => 4,
                0 => length().next_multiple_of(4).max(4),
                words => 4 * words as usize,
            };
            time = match sort {
                TIME_EXTEND => time.saturating_add(long()),
                TIME_STAMP => absolute(long(), time),
                _ => time.saturating_add(u64::from(delta)),
            };
            if sort < PADDING {
                events += 1;
                last_ns = time;
            }
            at = at.saturating_add(4).saturating_add(step);
        }
        PageContents { events, first_ns: head.time, last_ns }
    }

    /// Gives all events of a page, each with its instant. The error is the reason why not all of
    /// the page can be read.
    #[inline]
    pub(crate) fn walk(
        &self,
        page: &[u8],
        head: &PageHead,
        mut event: impl FnMut(u64, &[u8]) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let (mut time, mut at) = (head.time, head.data);
        let page = &page[..head.end];
        while let Some(word) = self.word(page, at) {
            let (sort, delta) = self.record_head(word);
            let delta = u64::from(delta);
            let body = at + 4;
            let next = || self.word(page, body).ok_or("a record reaches beyond its page");
            match sort {
                PADDING if delta == 0 => break,
                PADDING => {
                    time = time.saturating_add(delta);
                    at = body + next()? as usize;
                }
                TIME_EXTEND => {
                    time = time.saturating_add(delta + (u64::from(next()?) << DELTA_BITS));
                    at = body + 4;
                }
                TIME_STAMP => {
                    time = absolute(delta + (u64::from(next()?) << DELTA_BITS), time);
                    at = body + 4;
                }
                _ => {
                    time = time.saturating_add(delta);
                    let data = if sort == 0 {
                        let length = next()? as usize;
                        at = body + length.next_multiple_of(4).max(4);
                        page.get(body + 4..body + length)
                    } else {
                        at = body + 4 * sort as usize;
                        page.get(body..at)
                    };
                    event(time, data.ok_or("an event reaches beyond its page")?)?;
                }
            }
        }
        Ok(())
    }

    /// A word of a page.
    #[inline]
    fn word(&self, page: &[u8], at: usize) -> Option<u32> {
        let bytes = *page.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// The type and the time of a record in a page, from its first word.
    fn record_head(&self, word: u32) -> (u32, u32) {
        if self.big_endian {
            (word >> DELTA_BITS, word & ((1 << DELTA_BITS) - 1))
        } else {
            (word & 31, word >> 5)
        }
    }

    /// Reads the head; `None` if there are too few bytes.
    pub(crate) fn head(&self, page: &[u8]) -> Option<PageHead> {
        let word = self.commit_word(page)?;
        let time = self.number(page.get(self.timestamp..)?.get(..8)?);
        let end = self.data.checked_add((word & COMMIT_MASK) as usize)?;
        if end > page.len() {
            return None;
        }
        let missed = word & MISSED != 0;
        let stored = page.get(end..).and_then(|rest| rest.get(..self.commit_bytes));
        let missed_events =
            stored.filter(|_| missed && word & MISSED_STORED != 0).map(|bytes| self.number(bytes));
        Some(PageHead { time, data: self.data, end, missed, missed_events })
    }

    /// The word with the number of used bytes and the two marks.
    fn commit_word(&self, page: &[u8]) -> Option<u64> {
        page.get(..self.data)?;
        Some(self.number(page.get(self.commit..)?.get(..self.commit_bytes)?))
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    }
}

/// An absolute time; its upper bits are those of the time before (`rb_fix_abs_ts`).
pub(crate) fn absolute(time: u64, before: u64) -> u64 {
    let time = time & ((1 << ABSOLUTE_BITS) - 1);
    let upper = before >> ABSOLUTE_BITS << ABSOLUTE_BITS;
    if upper == 0 {
        return time;
    }
    let whole = upper | time;
    if whole < before { whole.saturating_add(1 << ABSOLUTE_BITS) } else { whole }
}

/// The number behind `name` in the rest of a field's line.
fn value(rest: &str, name: &str) -> Option<usize> {
    rest.split(';').find_map(|part| part.trim().strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The text of Linux 6.18 on x86-64.
    pub(crate) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(time: u64, word: u64, rest: &[u8]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend(word.to_le_bytes());
        page.extend(rest);
        page
    }

    #[test]
    fn the_layout_is_what_the_kernel_says() {
        let layout = PageLayout::parse(HEADER_PAGE, false).unwrap();
        let expected =
            PageLayout { timestamp: 0, commit: 8, commit_bytes: 8, data: 16, big_endian: false };
        assert_eq!(layout, expected);
        let narrow = HEADER_PAGE.replace("offset:8;\tsize:8", "offset:8;\tsize:4");
        let narrow = narrow.replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        let layout = PageLayout::parse(&narrow, true).unwrap();
        assert_eq!((layout.commit_bytes, layout.data), (4, 12));
        let page = [0, 0, 0, 0, 0, 0, 1, 0, 0x80, 0, 0, 4, 1, 2, 3, 4];
        let head = layout.head(&page).unwrap();
        assert_eq!((head.time, head.end, head.missed), (256, 16, true));
    }

    #[test]
    fn what_is_no_layout_is_none() {
        for text in ["", "field: u64 timestamp;", &HEADER_PAGE.replace("size:8", "size:3")] {
            assert_eq!(PageLayout::parse(text, false), None, "{text}");
        }
        let beyond = HEADER_PAGE.replace("offset:16", "offset:18446744073709551615");
        assert_eq!(PageLayout::parse(&beyond, false), None);
    }

    #[test]
    fn the_used_part_ends_behind_the_number_of_lost_events() {
        let layout = PageLayout::parse(HEADER_PAGE, false).unwrap();
        let mut rest = vec![1; 24];
        rest.extend(77_u64.to_le_bytes());
        rest.resize(4080, 0);
        let plain = page(5, 24, &rest);
        assert_eq!((layout.used(&plain), layout.has_lost(&plain)), (40, false));
        let lost = page(5, 0x18 | MISSED | MISSED_STORED, &rest);
        assert_eq!((layout.used(&lost), layout.has_lost(&lost)), (48, true));
        let head = layout.head(&lost[..48]).unwrap();
        assert_eq!((head.missed, head.missed_events, head.end), (true, Some(77), 40));
        let uncounted = page(5, 0x18 | MISSED, &rest);
        assert_eq!(layout.head(&uncounted).unwrap().missed_events, None);
        assert!(layout.is_empty(&page(5, 0, &rest)) && !layout.is_empty(&plain));
    }

    #[test]
    fn events_are_counted_and_what_is_between_them_is_not() {
        let layout = PageLayout::parse(HEADER_PAGE, false).unwrap();
        let head = |sort: u32, delta: u32| (delta << 5 | sort).to_le_bytes().to_vec();
        let word = |number: u32| number.to_le_bytes().to_vec();
        let records = [
            [head(2, 7), vec![1; 8]].concat(),
            [head(TIME_EXTEND, 1), word(9)].concat(),
            // An event that a filter discarded.
            [head(PADDING, 5), word(8), vec![0; 4]].concat(),
            // A long one, whose length has a word of its own and is made a multiple of four.
            [head(0, 3), word(10), vec![2; 8]].concat(),
            [head(TIME_STAMP, 1), word(9)].concat(),
            [head(1, 3), vec![3; 4]].concat(),
            // No record follows.
            [head(PADDING, 0), vec![4; 12]].concat(),
        ];
        let rest = records.concat();
        let contents = |rest: &[u8]| layout.contents(&page(55, rest.len() as u64, rest));
        // The last event is three nanoseconds behind an absolute time, whose upper bits count from
        // there on.
        let last_ns = (9 << DELTA_BITS) + 1 + 3;
        assert_eq!(contents(&rest), PageContents { events: 3, first_ns: 55, last_ns });
        assert_eq!(contents(&rest[..20]).last_ns, 55 + 7, "time alone is no event");
        for cut in 0..rest.len() {
            assert!(contents(&rest[..cut]).events <= 3, "{cut}");
        }
        let huge = [head(0, 3), word(u32::MAX)].concat();
        assert_eq!(contents(&huge).events, 1);
        assert_eq!(layout.contents(&[0; 15]), PageContents::default());
    }

    #[test]
    fn a_page_that_is_too_short_has_no_head() {
        let layout = PageLayout::parse(HEADER_PAGE, false).unwrap();
        assert_eq!(layout.head(&[0; 15]), None);
        assert_eq!(layout.head(&page(0, 100, &[0; 99])), None);
        assert_eq!(layout.used(&page(0, u64::MAX, &[0; 9])), 25);
    }
}
