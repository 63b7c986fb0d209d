//! The state rebuilt from a run's records agrees with the definition, after a kill and after a
//! power cut.

use ioecho_replay::Io;
use ioecho_replay::pattern::SplitMix64;
use ioecho_replay::verify::{After, DurableBefore, MemoryTable, Rebuild, Verifier, VerifyConfig};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

use crate::model::{Content, Done, RUN, SECTORS, any_io, any_outcome, bytes, legal, permits};

/// A finished run: what was in flight at the end never completed.
fn run(random: &mut SplitMix64, isolated: bool, count: usize) -> Vec<Done> {
    let mut history: Vec<Done> = Vec::new();
    let mut now = 0;
    while history.len() < count {
        now += random.below(3) as i64;
        let io = any_io(random, history.len() as u64, 0);
        let conflicts = |other: &&Done| {
            other.overlaps(&io)
                && (io.op.changes_data() || other.io.op.changes_data())
                && other.completed.is_none_or(|completed| completed >= now)
        };
        if isolated && history.iter().any(|other| conflicts(&other)) {
            continue;
        }
        let completed = now + random.below(12) as i64;
        history.push(Done {
            io,
            submitted: now,
            completed: Some(completed),
            outcome: any_outcome(random),
            certain: false,
        });
    }
    for done in &mut history {
        if done.completed > Some(now) {
            (done.completed, done.outcome) = (None, Outcome::Abandoned);
        }
    }
    history
}

fn rebuilt(history: &[Done], isolated: bool, after: After, tail_lost: bool) -> Verifier {
    let mut durable = DurableBefore::default();
    for done in history {
        durable.look(&done.change());
    }
    let config = VerifyConfig { run: RUN, target: 0, isolated };
    let mut rebuild = Rebuild::new(config, Box::new(MemoryTable::default()), after, durable);
    for done in history {
        rebuild.record(done.io.request, false);
        rebuild.apply(&done.change());
    }
    rebuild.finish(tail_lost)
}

fn check(verifier: &mut Verifier, sector: u64, content: Content) -> Integrity {
    let io = Io {
        tag: 0,
        request: 0,
        scheduled: Nanos(0),
        op: Op::Read,
        flags: Flags::empty(),
        offset: Bytes(sector * 512),
        length: Bytes(512),
    };
    verifier.check_now(&io, &bytes(content, sector), Nanos(0))
}

/// Says which writes are certain to be there, straight from the words.
fn mark_certain(history: &mut [Done], after: After) {
    let all = history.to_vec();
    for done in history {
        let completed = done.completed.filter(|_| done.outcome == Outcome::Ok);
        let durable = completed.is_some_and(|completed| {
            done.io.flags.contains(Flags::FUA)
                || all.iter().any(|flush| {
                    (flush.io.op == Op::Flush || flush.io.flags.contains(Flags::PREFLUSH))
                        && flush.outcome == Outcome::Ok
                        && flush.completed.is_some()
                        && flush.submitted > completed
                })
        });
        done.certain = completed.is_some() && (after == After::Kill || durable);
    }
}

#[test]
fn the_records_give_what_the_definition_gives() {
    let mut exact = 0;
    for seed in 0..200 {
        let mut random = SplitMix64(seed);
        let isolated = seed.is_multiple_of(2);
        let after = if random.below(2) == 0 { After::Kill } else { After::PowerCut };
        let mut history = run(&mut random, isolated, 60);
        let mut verifier = rebuilt(&history, isolated, after, false);
        mark_certain(&mut history, after);
        let end = i64::MAX - 1;
        for sector in 0..SECTORS {
            let legal = legal(&history, sector, end, end);
            let mut candidates = vec![Content::Zeroes, Content::Before];
            candidates.extend(
                history
                    .iter()
                    .filter(|done| done.io.op == Op::Write && done.covers(sector))
                    .map(|done| Content::Version(done.io.request)),
            );
            for content in candidates {
                let before = verifier.figures().ambiguous;
                let damaged = check(&mut verifier, sector, content).is_damage();
                let permitted = permits(&legal, content);
                // Where there are more alternatives than a set holds, less is noticed.
                let many = legal.len() > 8 || verifier.figures().ambiguous > before;
                assert!(
                    damaged != permitted || (many && !damaged),
                    "seed {seed} {after:?} isolated {isolated} sector {sector}: {content:?} in \
                     {legal:?}"
                );
                exact += u64::from(!many);
            }
        }
    }
    assert!(exact > 20_000, "{exact}");
}

#[test]
fn what_has_no_record_is_accepted_where_it_is_younger() {
    use Integrity::{Intact, Phantom, Stale, Unchecked};

    let mut random = SplitMix64(3);
    let mut history = run(&mut random, true, 40);
    for (index, done) in history.iter_mut().enumerate() {
        let io = Io { op: Op::Write, offset: Bytes(0), length: Bytes(512), ..done.io };
        let submitted = index as i64 * 10;
        *done = Done {
            io,
            submitted,
            completed: Some(submitted + 1),
            outcome: Outcome::Ok,
            certain: true,
        };
    }
    // The records of 10, 11 and 38 are lost, and of everything behind 39.
    let lost = [10, 11, 38];
    history.retain(|done| !lost.contains(&done.io.request));
    let kinds = |verifier: &mut Verifier| {
        [5, 10, 38, 39, 40, 90].map(|request| check(verifier, 0, Content::Version(request)))
    };
    let mut whole = rebuilt(&history, true, After::Kill, false);
    assert_eq!(kinds(&mut whole), [Stale, Stale, Stale, Intact, Phantom, Phantom]);
    let mut cut = rebuilt(&history, true, After::Kill, true);
    assert_eq!(kinds(&mut cut), [Stale, Stale, Stale, Intact, Unchecked, Unchecked]);
    history.retain(|done| done.io.request < 38);
    let mut cut = rebuilt(&history, true, After::Kill, true);
    assert_eq!(kinds(&mut cut), [Stale, Stale, Unchecked, Unchecked, Unchecked, Unchecked]);
    assert_eq!(cut.figures().unrecorded, 4);
}
