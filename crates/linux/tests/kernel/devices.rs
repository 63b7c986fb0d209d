//! All back ends do the same on the same target.

use std::path::Path;

use ioecho_linux::device::{aio_available, uring_available};
use ioecho_linux::{
    Access, Backend, DeviceOptions, MonotonicClock, OpenOptions, open_device, open_devices, target,
};
use ioecho_replay::joint::Joint;
use ioecho_replay::{Clock, Completion, Device, Io};
use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

use crate::fixture::{
    Backing, LoopDevice, Pattern, byte_at, do_all, io, nobody_spawns, open_rw, or_skip, read_direct,
};

const MIB: u64 = 1 << 20;

/// Every way in which requests can reach the kernel here. What cannot be used is told.
pub(crate) fn ways() -> Vec<DeviceOptions> {
    let way = |backend| DeviceOptions { backend, in_flight_max: 64, ..DeviceOptions::default() };
    let mut ways = vec![way(Backend::Threads)];
    match aio_available(64) {
        Ok(()) => ways.push(way(Backend::Aio)),
        Err(reason) => ioecho_fixture::skipped(format!("aio: {reason}")),
    }
    match uring_available() {
        Ok(()) => ways.extend([
            way(Backend::Uring),
            DeviceOptions { register_buffers: false, ..way(Backend::Uring) },
            DeviceOptions { sqpoll: true, ..way(Backend::Uring) },
        ]),
        Err(reason) => ioecho_fixture::skipped(format!("io_uring: {reason}")),
    }
    ways
}

/// Makes the test for every back end and every option that changes how requests go down.
pub(crate) fn with_all(test: impl Fn(DeviceOptions)) {
    for way in ways() {
        test(way);
    }
}

pub(crate) fn device_on(
    path: &Path,
    options: DeviceOptions,
) -> (Box<dyn Device + Send>, MonotonicClock) {
    let clock = MonotonicClock::new();
    (open_device(open_rw(path), &options, clock).unwrap(), clock)
}

pub(crate) fn outcomes(completions: &[Completion]) -> Vec<Outcome> {
    completions.iter().map(|completion| completion.outcome).collect()
}

fn flagged(request: Io, flags: Flags) -> Io {
    Io { flags, ..request }
}

/// Writes, flushes and reads, and looks at what arrived.
fn what_is_written_arrives(path: &Path, way: DeviceOptions) {
    let (mut device, clock) = device_on(path, way);
    let lengths = [512, 4096, 65_536, MIB];
    let flags = [Flags::empty(), Flags::FUA, Flags::PREFLUSH, Flags::FUA | Flags::PREFLUSH];
    let writes: Vec<Io> = (0..16)
        .map(|tag| {
            let write = io(tag, Op::Write, u64::from(tag) * MIB, lengths[tag as usize % 4]);
            flagged(write, flags[tag as usize / 4])
        })
        .collect();
    let before = clock.now();
    for done in do_all(&mut *device, clock, &writes) {
        assert_eq!(done.outcome, Outcome::Ok, "{:?}", writes[done.tag as usize]);
        assert!(before <= done.submitted && done.submitted <= done.completed);
    }
    let done = do_all(&mut *device, clock, &[io(3, Op::Flush, 0, 0), io(9, Op::Read, MIB, MIB)]);
    assert_eq!(outcomes(&done), [Outcome::Ok; 2]);
    assert_eq!((done[0].tag, done[1].tag), (3, 9));
    drop(device);
    for write in &writes {
        let data = read_direct(path, write.offset.0, write.length.0 as usize);
        let wrong = (write.offset.0..)
            .zip(data)
            .find(|(position, byte)| *byte != byte_at(write.tag, *position));
        assert_eq!(wrong, None, "{write:?} did not arrive");
    }
}

/// Discards and zeroes a range of written data and looks at what is left.
fn ranges_are_discarded_and_zeroed(path: &Path, way: DeviceOptions) {
    let (mut device, clock) = device_on(path, way);
    let writes = [io(0, Op::Write, 0, MIB), io(1, Op::Write, MIB, MIB)];
    assert_eq!(outcomes(&do_all(&mut *device, clock, &writes)), [Outcome::Ok; 2]);
    assert!(device.supports(Op::Discard) && device.supports(Op::WriteZeroes));
    let ranges = [io(0, Op::Discard, 65_536, 65_536), io(1, Op::WriteZeroes, MIB + 65_536, 65_536)];
    let done = do_all(&mut *device, clock, &ranges);
    drop(device);
    for (range, done) in ranges.iter().zip(&done) {
        let data = read_direct(path, range.offset.0, range.length.0 as usize);
        match done.outcome {
            Outcome::Ok => assert!(data.iter().all(|byte| *byte == 0), "{range:?}"),
            Outcome::Unsupported => {
                ioecho_fixture::skipped(format!("{range:?} is unsupported here"));
            }
            other => panic!("{range:?}: {other:?}"),
        }
        let position = range.offset.0 - 512;
        let before = read_direct(path, position, 512);
        assert_eq!(before, [byte_at(range.tag, position); 512], "{range:?} reached too far");
    }
}

#[test]
fn writes_arrive_on_a_loop_device() {
    with_all(|way| {
        let device = or_skip!(LoopDevice::new(64 * MIB));
        what_is_written_arrives(&device.path, way);
    });
}

#[test]
fn writes_arrive_in_a_file_in_memory() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(64 * MIB));
        what_is_written_arrives(&file.path, way);
    });
}

#[test]
fn writes_arrive_in_a_file_on_disk() {
    with_all(|way| {
        let file = Backing::on_disk(64 * MIB);
        what_is_written_arrives(&file.path, way);
    });
}

#[test]
fn requests_to_several_targets_arrive_on_theirs_up_to_the_last_block() {
    with_all(|way| {
        let sizes = [3 * MIB / 2, MIB / 2, 2 * MIB];
        let files = sizes.map(Backing::on_disk);
        let clock = MonotonicClock::new();
        let joint = Joint::new((0..).zip(sizes.map(Bytes)));
        let opened = files.iter().map(|file| open_rw(&file.path)).collect();
        let mut device = open_devices(opened, joint.clone(), &way, clock).unwrap();
        assert_eq!(device.capacity(), joint.end());
        let flags = [Flags::empty(), Flags::FUA, Flags::PREFLUSH];
        let (mut writes, mut places) = (Vec::new(), Vec::new());
        for (number, size) in (0_u16..).zip(sizes) {
            let base = joint.base_of(number).unwrap().0;
            for (place, flags) in [0, 65_536, size - 4096].into_iter().zip(flags) {
                let write = io(writes.len() as u32, Op::Write, base + place, 4096);
                writes.push(flagged(write, flags));
                places.push((number, place));
            }
        }
        let done = do_all(&mut *device, clock, &writes);
        assert_eq!(outcomes(&done), vec![Outcome::Ok; writes.len()]);
        let base = |number: u16| joint.base_of(number).unwrap().0;
        let last = [io(0, Op::Flush, base(1), 0), io(1, Op::WriteZeroes, base(2) + 65_536, 4096)];
        assert_eq!(do_all(&mut *device, clock, &last)[0].outcome, Outcome::Ok);
        drop(device);
        for (write, (number, place)) in writes.iter().zip(places) {
            let data = read_direct(&files[usize::from(number)].path, place, 4096);
            let is_zeroed = (number, place) == (2, 65_536) && data == [0; 4096];
            let expected =
                [byte_at(write.tag, write.offset.0), byte_at(write.tag, write.offset.0 + 4095)];
            assert!(is_zeroed || [data[0], data[4095]] == expected, "{write:?} did not arrive");
        }
    });
}

#[test]
fn ranges_of_a_loop_device_are_discarded_and_zeroed() {
    with_all(|way| {
        let device = or_skip!(LoopDevice::new(16 * MIB));
        ranges_are_discarded_and_zeroed(&device.path, way);
    });
}

#[test]
fn ranges_of_files_are_discarded_and_zeroed_or_said_to_be_unsupported() {
    with_all(|way| {
        ranges_are_discarded_and_zeroed(&Backing::on_disk(16 * MIB).path, way);
        let file = or_skip!(Backing::on_tmpfs(16 * MIB));
        ranges_are_discarded_and_zeroed(&file.path, way);
    });
}

#[test]
fn thousands_of_requests_complete_once_each() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(64 * MIB));
        let clock = MonotonicClock::new();
        let mut device =
            open_device(open_rw(&file.path), &DeviceOptions { in_flight_max: 5000, ..way }, clock)
                .unwrap();
        for round in 0..3 {
            let requests: Vec<Io> = (0..5000)
                .map(|tag| {
                    let op = if tag % 3 == 0 { Op::Write } else { Op::Read };
                    let request = io(tag, op, u64::from(tag * 7 % 4096) * 4096, 4096);
                    let preflush = tag % 1000 == 0 && round == 0;
                    flagged(request, if preflush { Flags::PREFLUSH } else { Flags::empty() })
                })
                .collect();
            let done = do_all(&mut *device, clock, &requests);
            assert!(done.iter().enumerate().all(|(tag, done)| done.tag as usize == tag));
            assert!(done.iter().all(|done| done.outcome == Outcome::Ok));
        }
    });
}

#[test]
fn one_submission_gives_one_stamp() {
    with_all(|way| {
        if way.backend == Backend::Threads {
            // Each of them reads its own.
            return;
        }
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, way);
        for tag in 0..16 {
            device.prepare(&io(tag, Op::Read, 0, 4096), &mut Pattern);
        }
        let before = clock.now();
        let (stamp, accepted) = device.submit().unwrap();
        assert_eq!(accepted, 16);
        assert!(before <= stamp && stamp <= clock.now());
        let mut done = Vec::new();
        while done.len() < 16 {
            device.wait(clock.now() + Nanos::from_secs(1), &mut done).unwrap();
        }
        assert!(done.iter().all(|done| done.submitted == stamp));
    });
}

#[test]
fn nothing_completes_before_it_is_submitted() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, way);
        device.prepare(&io(0, Op::Write, 0, 4096), &mut Pattern);
        let mut done = Vec::new();
        device.wait(clock.now() + Nanos::from_millis(5), &mut done).unwrap();
        device.reap(&mut done).unwrap();
        assert!(done.is_empty());
        assert!(read_direct(&file.path, 0, 4096).iter().all(|byte| *byte == 0));
    });
}

#[test]
fn waiting_ends_at_the_deadline_and_with_nothing_to_wait_for() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, way);
        let mut done = Vec::new();
        let until = clock.now() + Nanos::from_millis(20);
        device.wait(until, &mut done).unwrap();
        assert!(clock.now() >= until, "nothing can have woken it early");
        device.wait(Nanos::ZERO, &mut done).unwrap();
        device.wait(Nanos::MAX, &mut done).unwrap();
        assert!(done.is_empty());
        assert_eq!(device.submit().unwrap().1, 0);
    });
}

#[test]
fn a_completion_ends_waiting_before_a_far_deadline() {
    with_all(|way| {
        let device = or_skip!(LoopDevice::new(MIB));
        let (mut device, clock) = device_on(&device.path, way);
        device.prepare(&io(5, Op::Read, 0, 4096), &mut Pattern);
        assert_eq!(device.submit().unwrap().1, 1);
        let mut done = Vec::new();
        let far = clock.now() + Nanos::from_secs(3600);
        while done.is_empty() {
            device.wait(far, &mut done).unwrap();
        }
        assert_eq!((done[0].tag, done[0].outcome), (5, Outcome::Ok));
    });
}

#[test]
fn a_target_opened_for_reading_supports_no_change() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        let opened = target::open(&target.path, OpenOptions::new(Access::ReadOnly)).unwrap();
        let clock = MonotonicClock::new();
        let mut device = open_device(opened, &way, clock).unwrap();
        for op in Op::ALL {
            assert_eq!(device.supports(op), matches!(op, Op::Read | Op::Flush), "{op:?}");
        }
        let done = do_all(&mut *device, clock, &[io(0, Op::Read, 0, 4096), io(1, Op::Flush, 0, 0)]);
        assert_eq!(outcomes(&done), [Outcome::Ok; 2]);
    });
}

#[test]
fn a_device_made_in_one_thread_works_in_another() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, way);
        std::thread::spawn(move || {
            let done = do_all(&mut *device, clock, &[io(0, Op::Write, 0, 4096)]);
            assert_eq!(outcomes(&done), [Outcome::Ok]);
        })
        .join()
        .unwrap();
    });
}

#[test]
fn dropping_a_device_waits_for_what_is_in_flight() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(64 * MIB));
        let (mut device, _) = device_on(&target.path, way);
        for tag in 0..32 {
            device.prepare(&io(tag, Op::Write, u64::from(tag) * MIB, MIB), &mut Pattern);
        }
        assert_eq!(device.submit().unwrap().1, 32);
        drop(device);
        for tag in 0..32 {
            let position = u64::from(tag) * MIB + MIB - 512;
            let data = read_direct(&target.path, position, 512);
            assert_eq!(data[0], byte_at(tag, position));
        }
    });
}

#[test]
fn a_target_is_free_as_soon_as_its_device_is_dropped() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(MIB));
        for _ in 0..20 {
            let _alone = nobody_spawns();
            // The exclusive open fails if anything still holds the target.
            let (mut device, clock) = device_on(&target.path, way);
            let requests = [io(0, Op::Write, 0, 4096), io(1, Op::Read, 4096, 4096)];
            assert_eq!(outcomes(&do_all(&mut *device, clock, &requests)), [Outcome::Ok; 2]);
        }
    });
}

/// The host's memory in bytes (`proc_meminfo(5)`).
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    total.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_device_tells_its_limits() {
    // Eight of the largest requests are to fit into a quarter of the memory.
    let share = 1 << (memory() / 4 / 8).ilog2();
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (device, _) = device_on(&file.path, way);
        assert_eq!(device.capacity(), Bytes(MIB));
        assert_eq!(device.length_max(), Bytes((64 * MIB).min(share)));
        drop(device);
        let small = DeviceOptions { buffer_memory: Some(Bytes(8 * MIB)), ..way };
        assert_eq!(device_on(&file.path, small).0.length_max(), Bytes(MIB));
    });
    let file = Backing::on_disk(MIB);
    let options = DeviceOptions { in_flight_max: 0, ..DeviceOptions::default() };
    let error = open_device(open_rw(&file.path), &options, MonotonicClock::new()).err().unwrap();
    assert!(error.to_string().contains("between 1 and 32768"), "{error}");
}
