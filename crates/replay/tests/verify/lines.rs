//! Data of an earlier run is judged for the next run as for the run itself.

use ioecho_replay::pattern::{SplitMix64, Stamp, expected_sector};
use ioecho_replay::verify::{
    After, DurableBefore, Expected, MemoryTable, Rebuild, Verifier, VerifyConfig,
};
use ioecho_replay::{Completion, Io};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

use crate::model::{Content, Done, SECTORS, any_io, bytes, legal, permits};

const RUNS: [u64; 3] = [11, 22, 33];

/// What a run wrote into a sector.
fn version(run: usize, request: u64, sector: u64) -> Vec<u8> {
    let stamp = Stamp {
        run: RUNS[run],
        target: run as u16,
        position: sector * 512,
        request,
        scheduled: Nanos(0),
        index: 0,
        random: 100,
        shared: false,
    };
    expected_sector(&stamp).to_vec()
}

/// What a sector holds: of which run, and what.
type Held = (usize, Content);

fn data(held: Held, sector: u64) -> Vec<u8> {
    match held {
        (run, Content::Version(request)) => version(run, request, sector),
        (_, content) => bytes(content, sector).to_vec(),
    }
}

/// A run: every change alone, and the last ones never seen to end.
fn history(random: &mut SplitMix64) -> Vec<Done> {
    let count = 12 + random.below(12);
    (0..count)
        .map(|request| {
            let io = any_io(random, request, 0);
            let hangs = request + 3 > count;
            let (completed, outcome) = match random.below(6) {
                _ if hangs => (None, Outcome::Abandoned),
                0 => (Some(request as i64 * 4 + 2), Outcome::Error(5)),
                _ => (Some(request as i64 * 4 + 2), Outcome::Ok),
            };
            let certain = outcome == Outcome::Ok;
            Done { io, submitted: request as i64 * 4, completed, outcome, certain }
        })
        .collect()
}

fn config(run: usize) -> VerifyConfig {
    VerifyConfig { run: RUNS[run], target: run as u16, isolated: true }
}

fn rebuilt(known: Option<Verifier>, run: usize, history: &[Done]) -> Verifier {
    let (after, durable) = (After::Kill, DurableBefore::default());
    let mut rebuild = match known {
        Some(known) => Rebuild::go_on(known, config(run), after, durable),
        None => Rebuild::new(config(run), Box::new(MemoryTable::default()), after, durable),
    };
    for done in history {
        rebuild.record(done.io.request, false);
        rebuild.apply(&done.change());
    }
    rebuild.finish(false)
}

/// What may be in a sector after these runs, straight from the definition: what the last one may
/// have left, and what was there before it where that may be there still.
fn may_hold(histories: &[Vec<Done>], sector: u64) -> Vec<Held> {
    let Some((last, before)) = histories.split_last() else { return vec![(0, Content::Before)] };
    let end = i64::MAX - 1;
    let legal = legal(last, sector, end, end);
    let own = legal.iter().filter(|content| **content != Content::Before);
    let mut all: Vec<Held> = own.map(|content| (before.len(), *content)).collect();
    if legal.contains(&Content::Before) {
        all.extend(may_hold(before, sector));
    }
    all
}

/// Whether it is told of an earlier run, by its number.
fn is_earlier(expected: &Expected) -> bool {
    matches!(expected, Expected::Earlier { run, .. } if RUNS[..2].contains(run))
}

#[test]
fn what_each_run_of_a_line_left_is_judged_as_the_definition_says() {
    let (mut right, mut wrong, mut named) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = SplitMix64(seed);
        let histories: Vec<Vec<Done>> = (0..3).map(|_| history(&mut random)).collect();
        let mut known = rebuilt(None, 0, &histories[0]);
        known = rebuilt(Some(known), 1, &histories[1]);
        // The last one is not rebuilt: it runs.
        let mut live = known.go_on(config(2), None);
        for done in &histories[2] {
            let now = Nanos(done.submitted);
            live.issued(&done.io, now);
            match done.completed {
                Some(completed) => {
                    let completion = Completion {
                        tag: 0,
                        submitted: now,
                        completed: Nanos(completed),
                        outcome: done.outcome,
                        integrity: Integrity::Unchecked,
                    };
                    live.completed(&done.io, &completion, &[]);
                }
                None => live.abandoned(&done.io),
            }
        }
        for sector in 0..SECTORS {
            let legal = may_hold(&histories, sector);
            let any_of = |run: usize| {
                let writes = histories[run].iter().filter(|done| done.io.op == Op::Write);
                writes.filter(|done| done.covers(sector)).map(move |done| (run, done.io.request))
            };
            let mut candidates = vec![(0, Content::Zeroes), (0, Content::Before)];
            candidates.extend(
                (0..3).flat_map(any_of).map(|(run, request)| (run, Content::Version(request))),
            );
            for held in candidates {
                let contents: Vec<Content> = legal.iter().map(|held| held.1).collect();
                let allowed = match held {
                    (_, Content::Version(_)) => {
                        legal.contains(&held) || contents.contains(&Content::Anything)
                    }
                    (_, content) => permits(&contents, content),
                };
                let io = Io {
                    tag: 0,
                    request: 0,
                    scheduled: Nanos(0),
                    op: Op::Read,
                    flags: Flags::empty(),
                    offset: Bytes(sector * 512),
                    length: Bytes(512),
                };
                let found = live.check_now(&io, &data(held, sector), Nanos(0));
                let context = (seed, sector, held, &legal, live.findings().last());
                assert_eq!(!found.is_damage(), allowed, "{found:?} {context:?}");
                right += u64::from(allowed);
                wrong += u64::from(!allowed);
            }
        }
        let expected = live.findings().iter().flat_map(|finding| &finding.expected);
        named += expected.filter(|expected| is_earlier(expected)).count();
    }
    assert!(right > 2000 && wrong > 2000 && named > 1000, "{right} {wrong} {named}");
}
