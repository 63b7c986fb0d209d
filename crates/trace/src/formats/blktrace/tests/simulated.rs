//! The matching, compared with a model of the block layer that knows the right answer.
//!
//! A slow model of the kernel's block layer: bios are split, merged with their neighbours, handed
//! to the driver in any order, given back, and completed whole or in parts. Many of them are at the
//! same place at once. The model knows when each bio was complete. Each latency that the reader
//! returns must be the true one, or be marked as doubtful.

use proptest::prelude::*;

use super::super::classify::classify;
use super::super::matching::{Completion, Matching};
use super::super::record::category::READ;
use super::super::record::{Event, kind};
use super::super::row::Row;
use crate::request::Flags;

/// A generator of numbers (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A piece of a bio: its number, first sector and the sector behind the last.
type Piece = (usize, u64, u64);

/// A request: first sector, the sector behind the last, and its pieces.
#[derive(Clone, Debug)]
struct Made {
    begin: u64,
    end: u64,
    pieces: Vec<Piece>,
}

/// The settings of a simulated queue.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Sectors of the device; as many as fit into one when `apart`.
    sectors: u64,
    longest: u64,
    /// Sectors that fit into one request.
    fits: u64,
    depth: usize,
    bios: usize,
    /// No two bios overlap.
    apart: bool,
    /// Percent of completions that are partial, and of requests that are given back.
    partial: u64,
    given_back: u64,
    /// Only the driver's events are seen: each bio is a request of the driver.
    in_driver: bool,
    /// Percent of completions that are not recorded, without a sign of the loss.
    unseen: u64,
    /// The steps from which and to which events are lost. A recording that begins late is one that
    /// loses all before.
    lost: Option<(u64, u64)>,
    /// Percent of events that are lost then.
    deaf: u64,
    /// What comes after the lost events is at other places.
    elsewhere: bool,
}

const PLAN: Plan = Plan {
    sectors: 48,
    longest: 24,
    fits: 8,
    depth: 12,
    bios: 150,
    apart: false,
    partial: 10,
    given_back: 5,
    in_driver: false,
    unseen: 0,
    lost: None,
    deaf: 50,
    elsewhere: false,
};

/// For each request that was seen: the true latency, the one returned, and whether it is doubtful.
type Told = Vec<(Option<u64>, Option<u64>, bool)>;

struct Model {
    dice: Dice,
    now: u64,
    matching: Matching,
    /// The instant at which each bio was complete, and the number of its sectors that are not.
    done: Vec<Option<u64>>,
    left: Vec<u64>,
    /// The numbers of the bios whose queueing was seen.
    seen: Vec<usize>,
    /// Percent of events that are lost now.
    deaf: u64,
    told: Told,
}

impl Model {
    fn event(&mut self, begin: u64, end: u64) -> Option<Completion> {
        if self.deaf > 0 && self.dice.chance(self.deaf) {
            return None;
        }
        self.matching.at(self.now);
        Some(Completion {
            time: self.now,
            volume: 0,
            class: read().1,
            offset: begin * 512,
            bytes: ((end - begin) * 512) as u32,
            flags: Flags::empty(),
            pid: 1,
            failed: false,
        })
    }

    /// The recording's request is seen: that a bio is queued, or that the driver gets it.
    fn see(&mut self, (bio, begin, end): Piece, in_driver: bool) {
        if let Some(of_range) = self.event(begin, end) {
            let (event, class) = read();
            let event = Event { time: self.now, bytes: of_range.bytes, pid: 1, ..event };
            let meaning = classify(&event).unwrap();
            self.seen.push(bio);
            let row = Row::new(&event, meaning.op, class, meaning.flags, 0, of_range.offset);
            self.matching.push(row, in_driver);
        }
    }

    /// Completes the sectors before `until`.
    fn complete(&mut self, made: &mut Made, until: u64, unseen: u64) {
        if !self.dice.chance(unseen)
            && let Some(of_range) = self.event(made.begin, until)
        {
            self.matching.complete(&of_range, true);
        }
        for (bio, begin, end) in &mut made.pieces {
            let done = until.min(*end).saturating_sub(*begin);
            *begin += done;
            self.left[*bio] -= done;
            if done > 0 && self.left[*bio] == 0 {
                self.done[*bio] = Some(self.now);
            }
        }
        made.pieces.retain(|(_, begin, end)| begin < end);
        made.begin = until;
    }

    fn take_out(&mut self, now: Option<u64>) {
        while let Some((row, is_unmatched)) = self.matching.pop(now) {
            let bio = self.seen[self.told.len()];
            let told = (!is_unmatched).then_some(row.completed);
            self.told.push((self.done[bio], told, row.in_doubt));
        }
    }
}

fn read() -> (Event, super::super::classify::Class) {
    let event = Event { categories: READ, kind: kind::QUEUE, bytes: 512, ..Event::default() };
    (event, classify(&event).unwrap().class)
}

fn run(seed: u64, plan: Plan) -> (Told, Matching) {
    let mut layer = Layer {
        model: Model {
            dice: Dice(seed),
            now: 0,
            matching: Matching::default(),
            done: Vec::new(),
            left: Vec::new(),
            seen: Vec::new(),
            deaf: 0,
            told: Told::new(),
        },
        plan,
        queue: Vec::new(),
        driver: Vec::new(),
        area: 0,
        fresh: 0,
    };
    let mut step = 0;
    while !layer.is_idle() {
        step += 1;
        layer.step(step);
        layer.model.take_out(Some(layer.model.now));
    }
    layer.model.take_out(None);
    let Model { mut told, seen, matching, .. } = layer.model;
    assert_eq!(told.len(), seen.len(), "every request comes out once");
    // Some were found doubtful after they had come out.
    for serial in matching.settled() {
        if let Some(told) = told.get_mut(serial as usize) {
            told.2 = true;
        }
    }
    (told, matching)
}

/// The queue of the block layer, and the driver below it.
struct Layer {
    model: Model,
    plan: Plan,
    queue: Vec<Made>,
    driver: Vec<Made>,
    /// The first sector of the area in which bios are made.
    area: u64,
    /// The last sector of the area at which a bio was made, for plans in which none may overlap.
    fresh: u64,
}

impl Layer {
    fn is_idle(&self) -> bool {
        self.model.done.len() == self.plan.bios && self.queue.is_empty() && self.driver.is_empty()
    }

    fn step(&mut self, step: u64) {
        self.model.now += 1 + self.model.dice.below(20);
        self.listen(step);
        let has_more = self.model.done.len() < self.plan.bios;
        let choice = self.model.dice.below(if has_more { 3 } else { 2 });
        if choice == 2 && self.queue.len() + self.driver.len() < self.plan.depth {
            self.make();
        } else if choice == 1 && !self.queue.is_empty() {
            self.hand_over();
        } else if choice == 0 && !self.driver.is_empty() {
            self.work();
        }
    }

    /// Loses events, or ends losing them.
    fn listen(&mut self, step: u64) {
        let model = &mut self.model;
        let was_deaf = model.deaf > 0;
        let lost = self.plan.lost.filter(|(from, to)| (*from..*to).contains(&step));
        model.deaf = if lost.is_some() { self.plan.deaf } else { 0 };
        if let Some((from, to)) = lost.filter(|_| !was_deaf)
            && from > 0
        {
            model.matching.lose(model.now + 20 * (to - step));
        }
        if was_deaf && model.deaf == 0 {
            model.now += 20 * step;
            if self.plan.elsewhere {
                self.area += 1_000_000;
                self.fresh = 0;
            }
        }
    }

    /// Makes a bio.
    fn make(&mut self) {
        let length = 1 + self.model.dice.below(self.plan.longest);
        let begin = if self.plan.apart {
            self.fresh += 1 + self.plan.longest;
            self.fresh
        } else {
            self.model.dice.below(self.plan.sectors)
        };
        let (begin, end) = (self.area + begin, self.area + begin + length);
        let bio = self.model.done.len();
        self.model.done.push(None);
        self.model.left.push(length);
        if self.plan.in_driver {
            self.queue.push(Made { begin, end, pieces: vec![(bio, begin, end)] });
        } else {
            self.model.see((bio, begin, end), false);
            self.split((bio, begin, end));
        }
    }

    /// Cuts a bio into pieces that fit, and queues each, by itself or with a neighbour.
    fn split(&mut self, (bio, mut at, end): Piece) {
        while at < end {
            let until = end.min(at + 1 + self.model.dice.below(self.plan.fits));
            if until < end
                && let Some(split) = self.model.event(at, until)
            {
                self.model.matching.split(&split);
            }
            let piece = (bio, at, until);
            let wish = self.model.dice.below(3);
            let queue = &mut self.queue;
            if let Some(made) = queue.iter_mut().find(|made| made.end == at && wish == 1) {
                made.end = until;
                made.pieces.push(piece);
            } else if let Some(made) =
                queue.iter_mut().find(|made| made.begin == until && wish == 2)
            {
                made.begin = at;
                made.pieces.insert(0, piece);
            } else {
                queue.push(Made { begin: at, end: until, pieces: vec![piece] });
            }
            at = until;
        }
    }

    /// The driver gets any of the requests that are queued.
    fn hand_over(&mut self) {
        let any = self.model.dice.below(self.queue.len() as u64) as usize;
        let made = self.queue.swap_remove(any);
        if self.plan.in_driver {
            self.model.see(made.pieces[0], true);
        } else if let Some(of_range) = self.model.event(made.begin, made.end) {
            self.model.matching.hand_over(&of_range);
        }
        self.driver.push(made);
    }

    /// The driver gives back any of its requests, or completes it in part or whole.
    fn work(&mut self) {
        let any = self.model.dice.below(self.driver.len() as u64) as usize;
        let mut made = self.driver.swap_remove(any);
        if self.model.dice.chance(self.plan.given_back) {
            if let Some(of_range) = self.model.event(made.begin, made.end) {
                self.model.matching.give_back(&of_range);
            }
            self.queue.push(made);
        } else if made.end - made.begin > 1 && self.model.dice.chance(self.plan.partial) {
            let until = made.begin + 1 + self.model.dice.below(made.end - made.begin - 1);
            self.model.complete(&mut made, until, self.plan.unseen);
            self.driver.push(made);
        } else {
            let end = made.end;
            self.model.complete(&mut made, end, self.plan.unseen);
        }
    }
}

/// Checks that every latency returned without doubt is the true one.
fn expect_true(told: &Told, seed: u64) {
    for (number, (truth, found, in_doubt)) in told.iter().enumerate() {
        let is_true = found.is_none() || *in_doubt || found == truth;
        assert!(is_true, "seed {seed}, request {number}: {found:?} instead of {truth:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_latency_is_anothers(seed in any::<u64>(), sectors in 8_u64..400) {
        let (told, matching) = run(seed, Plan { sectors, ..PLAN });
        expect_true(&told, seed);
        let in_doubt = told.iter().filter(|(_, found, doubt)| found.is_some() && *doubt).count();
        prop_assert_eq!(matching.figures().ambiguous, in_doubt as u64);
    }

    #[test]
    fn what_overlaps_nothing_is_matched_without_doubt(seed in any::<u64>()) {
        let (told, matching) = run(seed, Plan { apart: true, ..PLAN });
        prop_assert!(told.iter().all(|(truth, found, _)| truth == found && found.is_some()));
        prop_assert_eq!((matching.figures().ambiguous, matching.figures().unmatched), (0, 0));
    }

    #[test]
    fn no_latency_of_what_the_driver_got_is_anothers(
        seed in any::<u64>(),
        sectors in 8_u64..400,
        unseen in 0_u64..30,
    ) {
        // If the first completion of a request in parts is unseen, the rest may be taken for
        // another's.
        let partial = if unseen == 0 { 20 } else { 0 };
        let plan = Plan { in_driver: true, given_back: 0, sectors, partial, unseen, ..PLAN };
        let (told, matching) = run(seed, plan);
        expect_true(&told, seed);
        prop_assert_eq!(matching.held()[0], 0);
    }

    #[test]
    fn no_latency_reaches_across_lost_events(
        seed in any::<u64>(),
        (from, length) in (50_u64..300, 20_u64..150),
        deaf in 50_u64..=100,
        sectors in 8_u64..400,
        elsewhere in any::<bool>(),
    ) {
        let lost = Some((from, from + length));
        let plan = Plan { sectors, lost, deaf, elsewhere, ..PLAN };
        let (told, matching) = run(seed, plan);
        expect_true(&told, seed);
        let in_doubt = told.iter().filter(|(_, found, doubt)| found.is_some() && *doubt).count();
        prop_assert_eq!(matching.figures().ambiguous, in_doubt as u64);
    }

    #[test]
    fn no_latency_is_that_of_what_was_in_flight_before_the_recording(
        seed in any::<u64>(),
        to in 10_u64..200,
        sectors in 8_u64..400,
        in_driver in any::<bool>(),
    ) {
        let given_back = if in_driver { 0 } else { PLAN.given_back };
        let plan = Plan { sectors, lost: Some((0, to)), deaf: 100, in_driver, given_back, ..PLAN };
        let (told, _) = run(seed, plan);
        expect_true(&told, seed);
    }
}

/// A request was queued at a place in doubt and went to the driver as a part of another; the one
/// that was matched there in its stead ended the doubt, and it was itself found not doubtful.
#[test]
fn what_waits_at_a_place_in_doubt_may_have_been_completed() {
    let (seed, from) = (16_565_223_046_979_509_734, 69);
    let (told, _) =
        run(seed, Plan { sectors: 200, lost: Some((from, from + 20)), elsewhere: true, ..PLAN });
    expect_true(&told, seed);
}

#[test]
fn few_are_in_doubt_where_few_overlap() {
    let (mut in_doubt, mut all) = (0, 0);
    for seed in 0..100 {
        let (told, _) = run(seed, Plan { sectors: 20_000, ..PLAN });
        in_doubt += told.iter().filter(|(_, found, doubt)| found.is_none() || *doubt).count();
        all += told.len();
    }
    assert!(in_doubt * 100 < all, "{in_doubt} of {all}");
}
