//! Flushes: that every one is done once, whoever does it, and answers as it ends.

use std::path::Path;

use ioecho_linux::device::uring_available;
use ioecho_linux::{Backend, DeviceOptions};
use ioecho_replay::{Clock, Completion, Io};
use ioecho_trace::{Flags, Nanos, Op, Outcome};

use crate::devices::{device_on, outcomes, with_all};
use crate::fixture::{
    Backing, LoopDevice, MountPoint, Pattern, byte_at, do_all, io, or_skip, read_direct, run,
};

const MIB: u64 = 1 << 20;

/// `include/uapi/asm-generic/errno-base.h`.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

fn ordered(tag: u32, offset: u64) -> Io {
    Io { flags: Flags::PREFLUSH, ..io(tag, Op::Write, offset, 4096) }
}

/// What a queue does with flushes and what must stay in order with them, by turns.
fn mixed(count: u32) -> Vec<Io> {
    let kinds = |tag: u32| match tag % 4 {
        0 => io(tag, Op::Write, u64::from(tag) * 4096, 4096),
        1 => io(tag, Op::Flush, 0, 0),
        2 => ordered(tag, u64::from(tag) * 4096),
        _ => {
            let flags = Flags::PREFLUSH | Flags::FUA;
            Io { flags, ..ordered(tag, u64::from(tag) * 4096) }
        }
    };
    (0..count).map(kinds).collect()
}

fn arrived(path: &Path, requests: &[Io]) {
    for write in requests.iter().filter(|request| request.op == Op::Write) {
        let data = read_direct(path, write.offset.0, 4096);
        assert_eq!(data[0], byte_at(write.tag, write.offset.0), "{write:?} did not arrive");
    }
}

#[test]
fn more_flushes_than_threads_all_complete_once_and_their_writes_arrive() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let (mut device, clock) = device_on(&target.path, way);
        let requests = mixed(64);
        for _ in 0..50 {
            let before = clock.now();
            let done = do_all(&mut *device, clock, &requests);
            assert_eq!(outcomes(&done), [Outcome::Ok; 64]);
            assert!(done.iter().enumerate().all(|(tag, done)| done.tag as usize == tag));
            assert!(
                done.iter().all(|one| before <= one.submitted && one.submitted < one.completed)
            );
        }
        drop(device);
        arrived(&target.path, &requests);
    });
}

#[test]
fn a_flush_and_an_ordered_write_end_the_sleep_of_who_waits_for_them() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let (mut device, clock) = device_on(&target.path, way);
        let far = clock.now() + Nanos::from_secs(3600);
        for round in 0..200 {
            let request = if round % 2 == 0 { io(5, Op::Flush, 0, 0) } else { ordered(5, 4096) };
            device.prepare(&request, &mut Pattern);
            assert_eq!(device.submit().unwrap().1, 1);
            let mut done = Vec::new();
            while done.is_empty() {
                device.wait(far, &mut done).unwrap();
            }
            assert_eq!((done[0].tag, done[0].outcome), (5, Outcome::Ok));
        }
    });
}

#[test]
fn flushes_that_are_told_of_ahead_complete_whether_they_come_or_not() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let (mut device, clock) = device_on(&target.path, way);
        let start = clock.now() + Nanos::from_millis(2);
        let due = |number: i64| start + Nanos::from_micros(150 * number);
        // More than anybody remembers, and instants at the ends of time.
        for number in 0..6000 {
            device.expect(due(number), Nanos::from_micros(50));
        }
        device.expect(Nanos::MAX, Nanos::MAX);
        let mut free: Vec<u32> = (0..64).collect();
        let (mut done, mut unsubmitted): (Vec<Completion>, usize) = (Vec::new(), 0);
        for number in 0..200 {
            device.wait(due(number), &mut done).unwrap();
            while clock.now() < due(number) {}
            if number % 3 != 0
                && let Some(tag) = free.pop()
            {
                let request =
                    if number % 2 == 0 { io(tag, Op::Flush, 0, 0) } else { ordered(tag, 4096) };
                device.prepare(&request, &mut Pattern);
                unsubmitted += 1;
            }
            unsubmitted -= device.submit().unwrap().1;
            for one in done.drain(..) {
                assert_eq!(one.outcome, Outcome::Ok);
                assert!(!free.contains(&one.tag), "{one:?} twice");
                free.push(one.tag);
            }
        }
        let deadline = clock.now() + Nanos::from_secs(30);
        while free.len() < 64 {
            assert!(clock.now() < deadline, "{} of 64", free.len());
            unsubmitted -= device.submit().unwrap().1;
            device.wait(deadline, &mut done).unwrap();
            free.extend(done.drain(..).map(|one| one.tag));
        }
        assert_eq!(unsubmitted, 0);
        // Thousands are waited for still.
        drop(device);
    });
}

#[test]
fn an_ordered_write_whose_flush_fails_is_not_made_and_has_its_error() {
    with_all(|way| {
        // A disk that has less room than it says, with a file system that hears of it when it
        // writes back what a flush asks for.
        let room = or_skip!(MountPoint::of_memory(16 * MIB));
        let backing = Backing::in_directory(room.path(), 64 * MIB);
        let disk = or_skip!(LoopDevice::over(backing, &[]));
        let path = disk.path.to_str().unwrap();
        or_skip!(run("mke2fs", &["-q", "-t", "ext4", "-O", "^has_journal", path]));
        let mount = or_skip!(MountPoint::of(&disk.path));
        let backing = Backing::in_directory(mount.path(), 48 * MIB);
        let target = or_skip!(LoopDevice::over(backing, &[]));
        let (mut device, clock) = device_on(&target.path, way);
        let writes: Vec<Io> = (0..32).map(|n| io(n, Op::Write, u64::from(n) * MIB, MIB)).collect();
        assert_eq!(outcomes(&do_all(&mut *device, clock, &writes)), [Outcome::Ok; 32]);
        let done = do_all(&mut *device, clock, &[ordered(1, 40 * MIB)]);
        assert!(matches!(done[0].outcome, Outcome::Error(EIO | ENOSPC)), "{way:?}: {done:?}");
        drop(device);
        let data = read_direct(&target.path, 40 * MIB, 4096);
        assert!(data.iter().all(|byte| *byte == 0), "{way:?}: the write was made all the same");
    });
}

#[test]
fn dropping_a_device_waits_for_flushes_and_what_follows_them() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let (mut device, _) = device_on(&target.path, way);
        let requests = mixed(40);
        for request in &requests {
            device.prepare(request, &mut Pattern);
        }
        let begun = std::time::Instant::now();
        let mut handed_over = 0;
        while handed_over < 40 {
            handed_over += device.submit().unwrap().1;
            assert!(begun.elapsed().as_secs() < 30, "{way:?}: {handed_over}");
        }
        drop(device);
        arrived(&target.path, &requests);
    });
}

#[test]
fn nothing_is_handed_over_with_what_follows_a_flush() {
    or_skip!(uring_available());
    let target = or_skip!(LoopDevice::new(MIB));
    let way =
        DeviceOptions { backend: Backend::Uring, in_flight_max: 64, ..DeviceOptions::default() };
    let (mut device, clock) = device_on(&target.path, way);
    let mut done = Vec::new();
    device.prepare(&ordered(0, 0), &mut Pattern);
    assert_eq!(device.submit().unwrap().1, 1);
    device.prepare(&io(1, Op::Write, 8192, 4096), &mut Pattern);
    let deadline = clock.now() + Nanos::from_secs(30);
    while done.is_empty() {
        assert!(clock.now() < deadline);
        device.wait(deadline, &mut done).unwrap();
    }
    assert_eq!((done.len(), done[0].tag), (1, 0));
    assert!(read_direct(&target.path, 8192, 4096).iter().all(|byte| *byte == 0));
    assert_eq!(device.submit().unwrap().1, 1);
}
