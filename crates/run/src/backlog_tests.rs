use std::path::Path;

use ioecho_replay::pattern::SplitMix64;
use ioecho_trace::{Flags, Nanos, Op, Origin, VolumeId};

use super::*;

/// A request in which every field depends on its number.
fn planned(seq: u64, target: u16) -> Planned {
    let some = SplitMix64(seq).next_u64();
    Planned {
        seq,
        scheduled: Nanos(seq as i64 * 1000),
        issue: Nanos(seq as i64 * 2000),
        op: Op::ALL[(some % Op::ALL.len() as u64) as usize],
        flags: Flags::from_bits_truncate(some as u16),
        trace_offset: Bytes(some >> 8),
        offset: Bytes(some >> 20),
        length: Bytes(some >> 40),
        volume: VolumeId(some as u32),
        latency: (some & 1 == 0).then_some(Nanos((some >> 30) as i64)),
        recorded_in_flight: (some >> 7) as u32,
        origin: (some & 2 == 0).then_some(Origin { pid: some as u32, cpu: (some >> 32) as u32 }),
        target,
        refusal: [None, Some(Outcome::TooLarge), Some(Outcome::Misaligned)][seq as usize % 3],
        behind: 0,
        flow: 0,
        held: None,
        think: None,
    }
}

/// Bounds of this number of whole chunks.
fn bounds(memory: usize, file: usize) -> Bounds {
    Bounds {
        memory: Bytes((memory * CHUNK * size_of::<Planned>()) as u64),
        file: Bytes((file * CHUNK_BYTES) as u64),
    }
}

/// Takes up to `count` requests of a target.
fn take(backlogs: &mut Backlogs, target: usize, count: usize) -> Vec<Planned> {
    let mut taken = Vec::new();
    backlogs
        .drain(target, |planned| {
            if taken.len() == count {
                return Some(planned);
            }
            taken.push(planned);
            None
        })
        .unwrap();
    taken
}

/// Requests come out exactly once, unchanged and in order, both from memory and from the file.
#[test]
fn every_request_leaves_unchanged_and_in_order() {
    for seed in 0..64 {
        let mut random = SplitMix64(seed);
        let bounds = bounds(random.below(6) as usize, random.below(12) as usize);
        let directory = tempfile::tempdir().unwrap();
        let mut backlogs = Backlogs::new(3, bounds, directory.path());
        let (mut came, mut left) = (vec![vec![]; 3], vec![vec![]; 3]);
        let mut next = 0;
        for _ in 0..random.below(60) {
            let target = random.below(3) as usize;
            for _ in 0..random.below(3000) {
                let one = planned(next, target as u16);
                next += 1;
                backlogs.push(one);
                came[target].push(one);
            }
            let target = random.below(3) as usize;
            left[target].extend(take(&mut backlogs, target, random.below(3000) as usize));
        }
        for target in 0..3 {
            left[target].extend(take(&mut backlogs, target, usize::MAX));
            assert!(left[target] == came[target], "seed {seed}, target {target}");
        }
        assert!(backlogs.are_empty());
        assert_eq!((backlogs.held, backlogs.spilled()), (0, Bytes(0)), "seed {seed}");
    }
}

#[test]
fn who_asks_for_room_keeps_within_the_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let mut backlogs = Backlogs::new(2, bounds(4, 8), directory.path());
    let mut seen = Vec::new();
    for seq in 0.. {
        let room = backlogs.room_for(1);
        if seen.last() != Some(&room) {
            seen.push(room);
        }
        if room == Room::Nowhere {
            break;
        }
        backlogs.push(planned(seq, (seq % 7 == 0).into()));
        assert!(backlogs.held <= 4 * CHUNK && backlogs.spilled().0 <= 8 * CHUNK_BYTES as u64);
    }
    assert_eq!(seen, [Room::Memory, Room::File, Room::Nowhere]);
    let (fast, slow) = (take(&mut backlogs, 1, usize::MAX), take(&mut backlogs, 0, usize::MAX));
    assert!(fast.len() * 5 < slow.len() && fast.is_sorted_by_key(|one| one.seq));
    assert_eq!(backlogs.room_for(1), Room::Memory);
}

#[test]
fn who_lags_makes_room_for_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut backlogs = Backlogs::new(2, bounds(4, 8), directory.path());
    (0..6 * CHUNK as u64).for_each(|seq| backlogs.push(planned(seq, 0)));
    (0..CHUNK as u64).for_each(|seq| backlogs.push(planned(seq, 1)));
    let [slow, fast] = &backlogs.queues[..] else { panic!("two targets") };
    assert_eq!((slow.near.len(), slow.far.len()), (3, 3));
    assert_eq!((fast.near.len(), fast.far.len()), (1, 0));
}

#[test]
fn what_the_file_does_not_take_stays_in_memory() {
    let nowhere = Path::new("/nonexistent/directory");
    let mut backlogs = Backlogs::new(1, bounds(1, 8), nowhere);
    (0..5000).for_each(|seq| backlogs.push(planned(seq, 0)));
    assert!(backlogs.failure().is_some());
    assert_eq!(backlogs.room_for(CHUNK), Room::Nowhere);
    let all = take(&mut backlogs, 0, usize::MAX);
    assert_eq!(all, (0..5000).map(|seq| planned(seq, 0)).collect::<Vec<_>>());
}

#[test]
fn what_waits_for_a_target_that_has_ended_is_forgotten_and_its_room_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let mut backlogs = Backlogs::new(2, bounds(2, 64), directory.path());
    let count = 10 * CHUNK as u64;
    (0..count).for_each(|seq| backlogs.push(planned(seq, (seq % 2) as u16)));
    let spilled = backlogs.spilled();
    backlogs.forget(0);
    assert!(backlogs.is_empty(0) && !backlogs.is_empty(1));
    assert!(backlogs.spilled() < spilled, "{} of {spilled}", backlogs.spilled());
    let left: Vec<u64> = take(&mut backlogs, 1, usize::MAX).iter().map(|one| one.seq).collect();
    assert_eq!(left, (0..count).filter(|seq| seq % 2 == 1).collect::<Vec<_>>());
    assert_eq!((backlogs.held, backlogs.spilled()), (0, Bytes::ZERO));
}
