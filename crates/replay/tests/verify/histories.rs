//! Random histories: every read is judged as the definition says, whatever it brings.

use ioecho_replay::Completion;
use ioecho_replay::pattern::SplitMix64;
use ioecho_replay::verify::{MemoryTable, Verifier, VerifyConfig};
use ioecho_trace::{Integrity, Nanos, Op, Outcome};

use crate::model::{Content, Done, RUN, SECTORS, any_io, any_outcome, bytes, legal, permits};

fn verifier(isolated: bool) -> Verifier {
    let config = VerifyConfig { run: RUN, target: 0, isolated };
    Verifier::new(config, Box::new(MemoryTable::default()), None)
}

/// Requests that go in and out in any order, with a verifier beside them.
struct World {
    random: SplitMix64,
    verifier: Verifier,
    isolated: bool,
    now: i64,
    history: Vec<Done>,
    in_flight: Vec<usize>,
}

impl World {
    fn new(seed: u64, isolated: bool) -> Self {
        Self {
            random: SplitMix64(seed),
            verifier: verifier(isolated),
            isolated,
            now: 0,
            history: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    fn issue(&mut self) -> Option<usize> {
        let used: Vec<u32> = self.in_flight.iter().map(|at| self.history[*at].io.tag).collect();
        let tag = (0..100).find(|tag| !used.contains(tag)).unwrap();
        let io = any_io(&mut self.random, self.history.len() as u64, tag);
        let conflicts = self.in_flight.iter().map(|at| &self.history[*at]).any(|other| {
            other.overlaps(&io) && (other.io.op.changes_data() || io.op.changes_data())
        });
        if self.isolated && conflicts {
            return None;
        }
        self.verifier.issued(&io, Nanos(self.now));
        let outcome = any_outcome(&mut self.random);
        let certain = false;
        self.history.push(Done { io, submitted: self.now, completed: None, outcome, certain });
        self.in_flight.push(self.history.len() - 1);
        Some(self.history.len() - 1)
    }

    /// Takes any request out of flight; `None` if there is none.
    fn next_to_complete(&mut self) -> Option<usize> {
        let count = self.in_flight.len() as u64;
        (count > 0).then(|| self.in_flight.swap_remove(self.random.below(count) as usize))
    }

    /// The request was submitted a while after it was handed over, as by a thread that had to wait
    /// for a processor: perhaps behind one that was handed over later.
    fn submit_late(&mut self, at: usize) {
        let done = &mut self.history[at];
        let ticks = (self.now - done.submitted) as u64 / 10;
        done.submitted += 5 + 10 * self.random.below(ticks) as i64;
    }

    fn complete(&mut self, at: usize, data: &[u8]) -> Integrity {
        let done = &mut self.history[at];
        let completion = Completion {
            tag: done.io.tag,
            submitted: Nanos(done.submitted),
            completed: Nanos(self.now),
            outcome: done.outcome,
            integrity: Integrity::Unchecked,
        };
        let integrity = self.verifier.completed(&done.io, &completion, data);
        done.completed = Some(self.now);
        done.certain = done.outcome == Outcome::Ok;
        integrity
    }
}

/// Any content that a sector could have, legal or not.
fn any_content(random: &mut SplitMix64, history: &[Done], sector: u64) -> Content {
    let writes: Vec<u64> = history
        .iter()
        .filter(|done| done.io.op == Op::Write && done.covers(sector))
        .map(|done| done.io.request)
        .collect();
    match random.below(10) {
        0 => Content::Zeroes,
        1 => Content::Before,
        _ if writes.is_empty() => Content::Before,
        // The youngest ones are where it gets interesting.
        _ => Content::Version(
            writes[writes.len() - 1 - random.below(writes.len().min(5) as u64) as usize],
        ),
    }
}

fn judged_as_defined(seed: u64, isolated: bool, steps: u32) {
    let mut world = World::new(seed, isolated);
    for step in 0..steps {
        // No two events are of one instant: which came first would be a matter of opinion.
        world.now += 10 * (1 + world.random.below(3) as i64);
        if world.in_flight.len() < 6 && world.random.below(2) == 0 {
            world.issue();
            continue;
        }
        let Some(at) = world.next_to_complete() else { continue };
        world.submit_late(at);
        let done = world.history[at];
        if done.io.op != Op::Read {
            world.complete(at, &[]);
            continue;
        }
        let first = done.io.offset.0 / 512;
        let mut data = Vec::new();
        let mut right = true;
        let mut known = false;
        for sector in first..first + done.io.length.0 / 512 {
            let legal = legal(&world.history, sector, done.submitted, world.now);
            let content = if world.random.below(4) > 0 {
                legal[world.random.below(legal.len() as u64) as usize]
            } else {
                any_content(&mut world.random, &world.history, sector)
            };
            right &= permits(&legal, content);
            known |= legal.iter().all(|legal| matches!(legal, Content::Version(_)));
            data.extend(bytes(content, sector));
        }
        let integrity = world.complete(at, &data);
        if done.outcome == Outcome::Ok {
            let context = (seed, isolated, step, integrity, &world.verifier.findings().last());
            assert_eq!(!integrity.is_damage(), right, "{context:?}");
            assert!(!known || integrity != Integrity::Unchecked, "{context:?}");
        } else {
            assert_eq!(integrity, Integrity::Unchecked);
        }
    }
    assert_eq!(world.verifier.figures().given_up, 0);
    assert_eq!(world.verifier.figures().ambiguous, 0);
}

#[test]
fn whatever_a_read_brings_is_judged_as_the_definition_says() {
    for seed in 0..150 {
        judged_as_defined(seed, true, 400);
        judged_as_defined(seed, false, 400);
    }
}

/// A device that does what devices do: a sector changes at some instant while its write is in
/// flight, and is read at some instant while its read is.
fn clean_history(seed: u64, isolated: bool, steps: u32, depth: usize) -> (u64, u64) {
    let mut world = World::new(seed, isolated);
    let mut sectors = vec![Content::Before; SECTORS as usize];
    // Sectors of requests in flight to which nothing has happened yet, and what reads have seen.
    let mut open: Vec<(usize, u64)> = Vec::new();
    let mut seen: Vec<(usize, u64, Content)> = Vec::new();
    let mut ebb = false;
    for _ in 0..steps {
        // Now and then two events are of one instant.
        world.now += world.random.below(3) as i64;
        let act = |world: &World, at: usize, sector: u64, sectors: &mut Vec<Content>| {
            let done = &world.history[at];
            let held = &mut sectors[sector as usize];
            match done.io.op {
                Op::Write => *held = Content::Version(done.io.request),
                Op::WriteZeroes => *held = Content::Zeroes,
                Op::Discard => *held = Content::Anything,
                _ => {}
            }
            *held
        };
        // In waves: now and then nothing is left in flight, and everything is settled.
        ebb = if ebb { !world.in_flight.is_empty() } else { world.random.below(300) == 0 };
        match world.random.below(10) {
            0..=4 if world.in_flight.len() < depth && !ebb => {
                if let Some(at) = world.issue() {
                    let done = &world.history[at];
                    let first = done.io.offset.0 / 512;
                    open.extend((first..first + done.io.length.0 / 512).map(|s| (at, s)));
                }
            }
            0..=6 if !open.is_empty() => {
                let pick = world.random.below(open.len() as u64) as usize;
                let (at, sector) = open.swap_remove(pick);
                if world.history[at].outcome.was_issued() {
                    let held = act(&world, at, sector, &mut sectors);
                    seen.push((at, sector, held));
                }
            }
            _ => {
                let Some(at) = world.next_to_complete() else { continue };
                let done = world.history[at];
                let pending: Vec<u64> =
                    open.extract_if(.., |(of, _)| *of == at).map(|(_, sector)| sector).collect();
                for sector in pending {
                    // What failed may have done only a part.
                    let fails = done.outcome != Outcome::Ok && done.io.op != Op::Read;
                    if !fails || (done.outcome.was_issued() && world.random.below(2) == 0) {
                        let held = act(&world, at, sector, &mut sectors);
                        seen.push((at, sector, held));
                    }
                }
                let mut mine: Vec<(u64, Content)> = seen
                    .extract_if(.., |(of, ..)| *of == at)
                    .map(|(_, sector, held)| (sector, held))
                    .collect();
                mine.sort_by_key(|(sector, _)| *sector);
                let data: Vec<u8> = if done.io.op == Op::Read && done.outcome == Outcome::Ok {
                    mine.iter().flat_map(|(sector, held)| bytes(*held, *sector)).collect()
                } else {
                    Vec::new()
                };
                let integrity = world.complete(at, &data);
                let finding = world.verifier.findings().last();
                assert!(!integrity.is_damage(), "seed {seed}: {finding:?}");
            }
        }
    }
    let figures = world.verifier.figures();
    (figures.intact, figures.ambiguous)
}

#[test]
fn a_sound_device_never_raises_an_alarm() {
    let (mut intact, mut ambiguous) = (0, 0);
    for seed in 0..40 {
        // The last: so many at once that there are more alternatives than a set holds.
        for (isolated, steps, depth) in
            [(true, 12_000, 4), (false, 12_000, 6), (false, 12_000, 100)]
        {
            let found = clean_history(seed, isolated, steps, depth);
            intact += found.0;
            ambiguous += found.1;
        }
    }
    assert!(intact > 100_000 && ambiguous > 1000, "{intact} intact, {ambiguous} ambiguous");
}

#[test]
fn a_request_that_hangs_while_many_pass_raises_no_alarm_and_is_counted() {
    let mut verifier = verifier(false);
    let mut random = SplitMix64(1);
    let io = |tag, request, op| ioecho_replay::Io {
        op,
        tag,
        offset: ioecho_trace::Bytes(0),
        length: ioecho_trace::Bytes(512),
        ..any_io(&mut SplitMix64(request), request, tag)
    };
    let completion = |tag, submitted, completed| Completion {
        tag,
        submitted: Nanos(submitted),
        completed: Nanos(completed),
        outcome: Outcome::Ok,
        integrity: Integrity::Unchecked,
    };
    verifier.issued(&io(0, 0, Op::Write), Nanos(0));
    let mut now = 1;
    for request in 1..70_000 {
        let write = io(1, request, Op::Write);
        verifier.issued(&write, Nanos(now));
        verifier.completed(&write, &completion(1, now, now + 1), &[]);
        now += 2;
    }
    // Both the hanging write and the last one may be there.
    for request in [0, 69_999] {
        let read = io(1, 70_000 + random.below(10), Op::Read);
        verifier.issued(&read, Nanos(now));
        let data = bytes(Content::Version(request), 0);
        let integrity = verifier.completed(&read, &completion(1, now, now + 1), &data);
        assert!(!integrity.is_damage(), "{integrity:?}");
        now += 2;
    }
    // One more is in flight when the hanging one ends at last: either of them may have won.
    let racing = io(2, 79_999, Op::Write);
    verifier.issued(&racing, Nanos(now - 1));
    verifier.completed(&io(0, 0, Op::Write), &completion(0, 0, now), &[]);
    verifier.completed(&racing, &completion(2, now - 1, now + 1), &[]);
    assert!(verifier.figures().given_up > 0);
    now += 2;
    for request in [0, 79_999] {
        let read = io(1, 79_990, Op::Read);
        verifier.issued(&read, Nanos(now));
        let data = bytes(Content::Version(request), 0);
        let integrity = verifier.completed(&read, &completion(1, now, now + 1), &data);
        assert!(!integrity.is_damage(), "{request}: {integrity:?}");
        now += 2;
    }
    // A write after all that is known again.
    let write = io(1, 80_000, Op::Write);
    verifier.issued(&write, Nanos(now + 1));
    verifier.completed(&write, &completion(1, now + 1, now + 2), &[]);
    let read = io(1, 80_001, Op::Read);
    verifier.issued(&read, Nanos(now + 3));
    let stale = bytes(Content::Version(69_999), 0);
    let integrity = verifier.completed(&read, &completion(1, now + 3, now + 4), &stale);
    assert_eq!(integrity, Integrity::Stale);
}
