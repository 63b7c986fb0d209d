//! What goes wrong below is answered as an outcome, never as a panic or a silence.

use ioecho_linux::{MonotonicClock, open_device};
use ioecho_replay::Clock;
use ioecho_trace::{Bytes, Nanos, Op, Outcome};

use crate::devices::{device_on, outcomes, ways, with_all};
use crate::fixture::{
    Backing, Frozen, LoopDevice, MountPoint, Pattern, do_all, io, open_ro, or_skip, run,
};

const MIB: u64 = 1 << 20;

/// `include/uapi/asm-generic/errno-base.h`.
const EIO: i32 = 5;
const EBADF: i32 = 9;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

#[test]
fn a_file_that_shrinks_under_a_replay_makes_short_transfers() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, way);
        file.resize(6 * 1024);
        let done =
            do_all(&mut *device, clock, &[io(0, Op::Read, 4096, 4096), io(1, Op::Read, 8192, 512)]);
        assert_eq!(outcomes(&done), [Outcome::Short, Outcome::Short]);
    });
}

#[test]
fn a_loop_device_whose_file_shrinks_answers_an_error_number() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(16 * MIB));
        let (mut device, clock) = device_on(&target.path, way);
        target.backing.resize(MIB);
        let requests = [io(0, Op::Read, 0, 4096), io(1, Op::Read, 8 * MIB, 4096)];
        let done = do_all(&mut *device, clock, &requests);
        assert_eq!(outcomes(&done), [Outcome::Ok, Outcome::Error(EIO)]);
    });
}

#[test]
fn a_misaligned_request_is_answered_with_an_error_number() {
    with_all(|way| {
        let backing = or_skip!(Backing::on_tmpfs(16 * MIB));
        let target = or_skip!(LoopDevice::over(backing, &["--sector-size", "4096"]));
        let (mut device, clock) = device_on(&target.path, way);
        assert_eq!(device.block_size(), Bytes(4096));
        let done = do_all(&mut *device, clock, &[io(0, Op::Read, 512, 512)]);
        assert_eq!(outcomes(&done), [Outcome::Error(EINVAL)]);
    });
}

#[test]
fn a_request_that_the_kernel_does_not_take_leaves_the_others_alone() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let clock = MonotonicClock::new();
        let mut device = open_device(open_ro(&target.path), &way, clock).unwrap();
        let ops = [Op::Read, Op::Write, Op::Write, Op::Read, Op::Flush, Op::Write];
        let requests: Vec<_> =
            (0..).zip(ops).map(|(tag, op)| io(tag, op, u64::from(tag) * 4096, 4096)).collect();
        for (request, done) in requests.iter().zip(do_all(&mut *device, clock, &requests)) {
            let refused = request.op == Op::Write;
            let expected = if refused { Outcome::Error(EBADF) } else { Outcome::Ok };
            assert_eq!(done.outcome, expected, "{request:?}");
        }
    });
}

#[test]
fn a_device_that_becomes_smaller_answers_for_what_is_gone() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(16 * MIB));
        let (mut device, clock) = device_on(&target.path, way);
        target.backing.resize(MIB);
        or_skip!(run("losetup", &["--set-capacity", target.path.to_str().unwrap()]));
        let requests = [
            io(0, Op::Read, 0, 4096),
            io(1, Op::Read, 8 * MIB, 4096),
            io(2, Op::Write, 8 * MIB, 4096),
            io(3, Op::Write, 0, 4096),
        ];
        let done = do_all(&mut *device, clock, &requests);
        let gone = [Outcome::Short, Outcome::Error(ENOSPC)];
        assert_eq!(outcomes(&done), [Outcome::Ok, gone[0], gone[1], Outcome::Ok]);
    });
}

#[test]
fn a_full_file_system_below_is_answered_write_by_write() {
    with_all(|way| {
        let mount = or_skip!(MountPoint::of_memory(4 * MIB));
        let backing = Backing::in_directory(mount.path(), 64 * MIB);
        let target = or_skip!(LoopDevice::over(backing, &[]));
        let (mut device, clock) = device_on(&target.path, way);
        let writes: Vec<_> =
            (0..32).map(|tag| io(tag, Op::Write, u64::from(tag) * MIB / 2, MIB / 2)).collect();
        let done = outcomes(&do_all(&mut *device, clock, &writes));
        let written = done.iter().filter(|one| **one == Outcome::Ok).count();
        // 8 have room. A write that fits in part is told to have fitted (`lo_complete_rq` in
        // drivers/block/loop.c looks at what is missing only after reads).
        assert!((1..=9).contains(&written), "{done:?}");
        // Older loop devices answer whatever happens below them with EIO.
        let refused = |one: &&Outcome| matches!(one, Outcome::Error(EIO | ENOSPC));
        assert_eq!(done.iter().filter(refused).count(), 32 - written, "{done:?}");
        let read = do_all(&mut *device, clock, &[io(0, Op::Read, 32 * MIB, 4096)]);
        assert_eq!(outcomes(&read), [Outcome::Ok], "the device goes on");
    });
}

#[test]
fn a_device_that_vanishes_under_load_answers_every_request_once() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(64 * MIB));
        let (mut device, clock) = device_on(&target.path, way);
        let deadline = clock.now() + Nanos::from_secs(30);
        let mut done = Vec::new();
        let mut free: Vec<u32> = (0..64).collect();
        let (mut asked, mut unsubmitted, mut answered, mut failed) = (0_u64, 0, 0, 0);
        while failed < 500 || answered < asked {
            assert!(clock.now() < deadline, "{answered} of {asked}, {failed} failed");
            if answered > 1000 {
                // Again and again: writes make the file grow.
                target.backing.resize(0);
            }
            while failed < 500
                && let Some(tag) = free.pop()
            {
                let op = if asked % 2 == 0 { Op::Read } else { Op::Write };
                let place = MIB + asked * 7919 % 8192 * 4096 % (63 * MIB);
                device.prepare(&io(tag, op, place, 4096), &mut Pattern);
                (asked, unsubmitted) = (asked + 1, unsubmitted + 1);
            }
            if unsubmitted > 0 {
                unsubmitted -= device.submit().unwrap().1;
            }
            device.wait(clock.now() + Nanos::from_millis(100), &mut done).unwrap();
            for one in done.drain(..) {
                assert!(!free.contains(&one.tag), "{one:?} twice");
                free.push(one.tag);
                answered += 1;
                match one.outcome {
                    Outcome::Ok => {}
                    Outcome::Error(EIO) => failed += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        drop(device);
    });
}

#[test]
fn a_device_is_detached_when_its_last_user_has_gone() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let (mut device, clock) = device_on(&target.path, way);
        or_skip!(target.detach());
        let requests = [io(0, Op::Write, 0, 4096), io(1, Op::Read, 4096, 4096)];
        assert_eq!(outcomes(&do_all(&mut *device, clock, &requests)), [Outcome::Ok; 2]);
    });
}

#[test]
fn closing_a_device_that_does_not_answer_ends_all_the_same() {
    let disk = or_skip!(LoopDevice::new(64 * MIB));
    or_skip!(run("mke2fs", &["-q", "-t", "ext4", disk.path.to_str().unwrap()]));
    let mount = or_skip!(MountPoint::of(&disk.path));
    let targets: Result<Vec<_>, _> = ways()
        .into_iter()
        .map(|way| {
            let backing = Backing::in_directory(mount.path(), MIB);
            LoopDevice::over(backing, &[]).map(|target| (way, target))
        })
        .collect();
    let targets = or_skip!(targets);
    let frozen = or_skip!(Frozen::new(&mount));
    std::thread::scope(|scope| {
        for (way, target) in &targets {
            scope.spawn(move || {
                let (mut device, clock) = device_on(&target.path, *way);
                device.prepare(&io(0, Op::Write, 0, 4096), &mut Pattern);
                assert_eq!(device.submit().unwrap().1, 1);
                let mut done = Vec::new();
                device.wait(clock.now() + Nanos::from_millis(50), &mut done).unwrap();
                assert_eq!(done, [], "{way:?}: nothing can have been written");
                let before = clock.now();
                drop(device);
                let took = clock.now() - before;
                assert!(took >= Nanos::from_secs(10), "{way:?} gave up after {took:?}");
                assert!(took < Nanos::from_secs(40), "{way:?} took {took:?}");
            });
        }
    });
    drop(frozen);
}
