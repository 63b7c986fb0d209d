//! The trace over and over.
//!
//! A recording of an hour cannot heat a storage for a day. So it is repeated, as blkreplay's module
//! `pipe_repeat` does it, and each turn may lie further on, so that caches do not already hold its
//! data. Unlike in blkreplay, the number of turns is always given: for an endless load a large one,
//! with a window after it or a limit of the replay.
//!
//! The distance from one turn to the next is the time from the trace's first request to its last,
//! plus a gap. The default gap is the mean time between two requests, so that the rate is the same
//! across the seam. The first turn passes while it is put into a temporary file; the other turns
//! come from the file.

use super::exact::size;
use super::place::{Mover, NO_INSTANT, NO_PLACE};
use super::reverse::note_forgotten;
use super::{ArgumentError, Arguments, Context, Kind, Transform};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes};
use crate::order::spill::Spill;
use crate::stream::Source;
use crate::units::{Bytes, Nanos, decimal_seconds};

/// `repeat N[,offset=SIZE][,gap=TIME]`.
pub const KIND: Kind = Kind {
    name: "repeat",
    value: "N[,offset=SIZE][,gap=TIME]",
    help: "Give the trace N times in all, each turn a gap (default: the mean time between two \
           requests) behind the one before, and its positions an offset further on",
    spills: true,
    parse,
};

fn parse(text: &str) -> Result<Box<dyn Transform>, ArgumentError> {
    let mut arguments = Arguments::new(text, ',')?;
    let turns = arguments.demand("the number of turns")?;
    let offset = arguments.setting("offset")?.unwrap_or(Bytes::ZERO);
    let gap = arguments.setting("gap")?;
    arguments.finish()?;
    if turns == 0 {
        return Err(ArgumentError::new("the number of turns must be at least 1"));
    }
    Ok(Box::new(Repeat { turns, offset, gap }))
}

/// A trace in several turns.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// The number of turns in all.
    pub turns: u64,
    /// The distance in bytes from the place of each turn to that of the next.
    pub offset: Bytes,
    /// The time from the last request of a turn to the first of the next; `None` for the mean time
    /// between two requests.
    pub gap: Option<Nanos>,
}

impl Transform for Repeat {
    fn over(
        &self,
        source: Box<dyn Source>,
        context: &Context<'_>,
    ) -> Result<Box<dyn Source>, TraceError> {
        let mut columns = source.header().columns;
        columns.measured = false;
        let mut turns = Turns {
            source,
            repeat: *self,
            header: Header::default(),
            spill: Spill::new(&context.spill_directory, columns)?,
            turn: 0,
            next: 0,
            requests: 0,
            ends: None,
            period: 0,
            instants: Mover::new(NO_INSTANT),
            places: Mover::new(NO_PLACE),
            lost: Notes::default(),
            forgotten: 0,
        };
        turns.take_header();
        Ok(Box::new(turns))
    }

    fn streams(&self) -> bool {
        self.turns == 1
    }
}

struct Turns {
    source: Box<dyn Source>,
    repeat: Repeat,
    header: Header,
    /// The requests of the first turn, from which the others are made.
    spill: Spill,
    /// The number of the current turn, counted from 0.
    turn: u64,
    /// The next row of the current turn.
    next: u64,
    /// The number of requests in a turn.
    requests: u64,
    /// The first and the last instant, in nanoseconds.
    ends: Option<(i64, i64)>,
    /// The time from the beginning of a turn to that of the next, in nanoseconds.
    period: u64,
    instants: Mover,
    places: Mover,
    /// Turns that lie wholly beyond 64 bits.
    lost: Notes,
    /// Requests of the first turn that had been measured.
    forgotten: u64,
}

impl Turns {
    fn take_header(&mut self) {
        let Repeat { turns, offset, gap } = self.repeat;
        self.header = self.source.header().clone();
        self.header.columns.measured = false;
        for volume in &mut self.header.volumes {
            let further = offset.0.checked_mul(turns - 1);
            volume.size = volume.size.and_then(|size| Some(Bytes(size.0.checked_add(further?)?)));
        }
        note_forgotten(&mut self.header, KIND.name, self.forgotten);
        self.instants.note(&mut self.header);
        self.places.note(&mut self.header);
        for note in self.lost.iter() {
            self.header.losses.add_note(note);
        }
        let offset = match offset.0 {
            0 => String::new(),
            _ => format!(",offset={}", size(offset)),
        };
        let gap = gap.map_or(String::new(), |gap| format!(",gap={}s", decimal_seconds(gap)));
        self.header.transforms.push(format!("repeat {turns}{offset}{gap}"));
    }

    /// Prepares the further turns once the first turn has been given.
    fn end_first(&mut self) {
        let (first, last) = self.ends.unwrap_or((0, 0));
        let span = last.abs_diff(first);
        let intervals = self.requests.saturating_sub(1).max(1);
        let gap = *self.repeat.gap.get_or_insert(Nanos((span / intervals) as i64));
        self.period = span.saturating_add(gap.0.unsigned_abs());
        self.turn = if self.requests == 0 { self.repeat.turns } else { 1 };
        self.take_header();
    }

    /// The distances by which the instants (ns) and the positions (bytes) of the turn are moved.
    /// `None` if none of its requests can be represented.
    fn shifts(&self) -> Option<(u64, u64)> {
        let later = self.turn.checked_mul(self.period)?;
        self.ends?.0.checked_add_unsigned(later)?;
        Some((later, self.turn.checked_mul(self.repeat.offset.0)?))
    }

    /// Gives the next requests of the turns after the first.
    fn next_again(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        while self.turn < self.repeat.turns {
            let Some((later, further)) = self.shifts() else {
                let turns = self.repeat.turns - self.turn;
                let requests = self.requests.saturating_mul(turns);
                self.lost.add(
                    NoteKind::LeftOut.of("requests of turns beyond what 64 bits hold"),
                    requests,
                    None,
                );
                self.turn = self.repeat.turns;
                break;
            };
            let rows = self.spill.read(self.next, u64::MAX, batch)?;
            self.next += rows;
            if rows == 0 {
                (self.turn, self.next) = (self.turn + 1, 0);
                continue;
            }
            self.instants.instants(batch, |issue| issue.checked_add_unsigned(later));
            if further > 0 {
                self.places.places(batch, |_, offset, _| offset.checked_add(further));
            }
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        batch.reset(self.header.columns);
        self.take_header();
        Ok(false)
    }
}

impl Source for Turns {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if self.turn == 0 {
            if self.source.next_batch(batch)? {
                self.forgotten += batch.measured_rows();
                batch.keep_columns(self.header.columns);
                self.requests += batch.len() as u64;
                if let (Some(first), Some(last)) = (batch.issue_ns.first(), batch.issue_ns.last()) {
                    let (first, _) = self.ends.unwrap_or((*first, *last));
                    self.ends = Some((first, *last));
                }
                if self.repeat.turns > 1 {
                    self.spill.push(batch)?;
                }
                return Ok(true);
            }
            self.end_first();
        }
        self.next_again(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made, refused};
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Op, Request};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_turn_is_the_trace_later_and_further_on(
            mut requests in proptest::collection::vec(any_request(), 0..100), rows in 1_usize..40,
            turns in 1_u64..6, offset in 0_u64..1 << 40,
            gap in proptest::option::of(0_i64..5_000),
        ) {
            for request in &mut requests {
                request.issue.0 %= 1_000_000_000;
            }
            requests.sort_by_key(|request| request.issue);
            let said = gap.map_or(String::new(), |gap| format!(",gap={gap}ns"));
            let line = format!("repeat {turns},offset={offset}{said}");
            let (all, header) = made(&line, &requests, rows);
            let span = requests.last().map_or(0, |last| last.issue.0 - requests[0].issue.0);
            let mean = span / (requests.len() as i64 - 1).max(1);
            let gap = gap.unwrap_or(mean);
            let mut expected = Vec::new();
            for turn in 0..turns {
                expected.extend(requests.iter().map(|request| {
                    let mut request = Request { measured: None, ..*request };
                    request.issue.0 += (span + gap) * turn as i64;
                    if request.op != Op::Flush {
                        request.offset.0 += offset * turn;
                    }
                    request
                }));
            }
            prop_assert_eq!(all, expected);
            prop_assert!(header.losses.iter().all(|note| note.what.starts_with("measured")));
            let told = format!(",gap={}s", decimal_seconds(Nanos(gap)));
            prop_assert!(header.transforms[0].ends_with(&told), "{:?}", header.transforms);
        }
    }

    fn hourly(count: i64) -> Vec<Request> {
        (0..count)
            .map(|n| Request::new(Nanos::from_secs(3600 * n), Op::Read, Bytes(0), Bytes(512)))
            .collect()
    }

    #[test]
    fn the_rate_is_the_same_across_the_seam() {
        let (all, header) = made("repeat 2", &hourly(3), 2);
        let hours: Vec<_> = all.iter().map(|request| request.issue.0 / 3_600_000_000_000).collect();
        assert_eq!(hours, [0, 1, 2, 3, 4, 5]);
        assert_eq!(header.transforms, ["repeat 2,gap=3600s"]);
    }

    #[test]
    fn turns_that_64_bits_do_not_hold_are_counted_and_not_given() {
        let (all, header) = made(&format!("repeat {},offset=8388608T", u64::MAX), &hourly(3), 2);
        assert_eq!(all.len(), 2 * 3);
        let lost: Vec<_> = header.losses.iter().map(|note| note.count).collect();
        assert_eq!(lost, [u64::MAX]);
    }

    #[test]
    fn it_refuses_what_is_no_number_of_turns() {
        assert_eq!(refused("repeat 0"), "the number of turns must be at least 1");
        assert!(refused("repeat x").starts_with("the number of turns: 'x'"));
    }
}
