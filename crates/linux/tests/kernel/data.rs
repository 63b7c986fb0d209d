//! What requests carry: drafts land on the device, and data that are kept are what it holds.

use ioecho_replay::{Io, Payload};
use ioecho_trace::{Bytes, Flags, Op, Outcome};

use crate::devices::{device_on, outcomes, with_all};
use crate::fixture::{Backing, LoopDevice, Pattern, byte_at, do_all, io, or_skip, read_direct};

const MIB: u64 = 1 << 20;

/// Fills every write with the number of its request, and counts.
#[derive(Default)]
struct Numbered {
    filled: usize,
}

impl Payload for Numbered {
    fn fill_from(&mut self, io: &Io, _: usize, buffer: &mut [u8]) {
        self.filled += 1;
        buffer.fill(io.request as u8);
    }
}

/// Must not be asked.
struct Never;

impl Payload for Never {
    fn fill_from(&mut self, io: &Io, _: usize, _: &mut [u8]) {
        panic!("{io:?} has a draft");
    }
}

fn numbered(request: u64, length: u64) -> Io {
    Io { request, ..io(request as u32, Op::Write, request * MIB, length) }
}

#[test]
fn drafts_are_what_lands_on_the_device() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(64 * MIB));
        let (mut device, clock) = device_on(&file.path, way);
        let lengths = [512, 4096, 20_480, MIB];
        let writes: Vec<Io> =
            (0..24).map(|request| numbered(request, lengths[request as usize % 4])).collect();
        let mut payload = Numbered::default();
        for write in writes.iter().rev() {
            assert!(device.draft(write, write.length, &mut payload));
        }
        assert!(read_direct(&file.path, 0, 512).iter().all(|byte| *byte == 0), "not yet");
        for write in &writes {
            device.prepare(write, &mut Never);
        }
        assert_eq!(outcomes(&do_all(&mut *device, clock, &[]))[..], []);
        let mut done = Vec::new();
        let mut accepted = 0;
        while done.len() < writes.len() {
            accepted += device.submit().unwrap().1;
            device.wait(ioecho_trace::Nanos::MAX, &mut done).unwrap();
        }
        assert_eq!((accepted, payload.filled), (24, 24));
        assert!(done.iter().all(|done| done.outcome == Outcome::Ok));
        for write in &writes {
            let data = read_direct(&file.path, write.offset.0, write.length.0 as usize);
            assert!(data.iter().all(|byte| *byte == write.request as u8), "{write:?}");
        }
    });
}

#[test]
fn a_forgotten_draft_is_never_written() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, clock) = device_on(&file.path, way);
        assert!(device.draft(&numbered(0, 4096), Bytes(4096), &mut Numbered::default()));
        device.forget(0);
        let done = do_all(&mut *device, clock, &[io(0, Op::Write, 0, 4096)]);
        assert_eq!(outcomes(&done), [Outcome::Ok]);
        assert_eq!(read_direct(&file.path, 0, 512), [byte_at(0, 0); 512]);
    });
}

#[test]
fn there_is_room_for_4096_drafts() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let (mut device, _) = device_on(&file.path, way);
        let mut payload = Numbered::default();
        let small = |request| Io { request, ..io(0, Op::Write, 0, 512) };
        let draft = |request: &u64| device.draft(&small(*request), Bytes(512), &mut payload);
        let kept = (0..5000).take_while(draft);
        assert_eq!((kept.count(), payload.filled), (4096, 4096));
    });
}

#[test]
fn data_that_are_kept_are_what_the_device_holds() {
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(16 * MIB));
        let (mut device, clock) = device_on(&target.path, way);
        let writes: Vec<Io> =
            (0..16).map(|tag| io(tag, Op::Write, u64::from(tag) * MIB, MIB)).collect();
        do_all(&mut *device, clock, &writes);
        device.keep_data(true);
        for round in 0..3 {
            let reads: Vec<Io> = (0..16)
                .map(|tag| io(tag, Op::Read, u64::from(15 - tag) * MIB + 4096 * round, 8192))
                .collect();
            let done = do_all(&mut *device, clock, &reads);
            assert_eq!(outcomes(&done), [Outcome::Ok; 16]);
            for read in &reads {
                let held = read_direct(&target.path, read.offset.0, 8192);
                assert_eq!(device.data(read.tag), held, "{read:?}");
                assert_eq!(held[0], byte_at(15 - read.tag, read.offset.0));
                device.release(read.tag);
                assert!(device.data(read.tag).is_empty());
            }
        }
        device.keep_data(false);
        do_all(&mut *device, clock, &[io(0, Op::Read, 0, 4096)]);
        assert!(device.data(0).is_empty());
    });
}

/// A fixed mixture of all operations, the same for each back end. What overlaps is never in flight
/// together: each round stays within its own blocks.
fn mixture() -> Vec<Vec<Io>> {
    let mut state = 7_u64;
    let mut draw = move |bound: u64| {
        // SplitMix64, Steele et al. 2014.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) % bound
    };
    let ops = [Op::Write, Op::Write, Op::Write, Op::Discard, Op::WriteZeroes, Op::Read];
    let flags = [Flags::empty(), Flags::FUA, Flags::PREFLUSH, Flags::empty()];
    let mut round = |number: u32| {
        let mut block = 0;
        let request = |tag| {
            block += draw(8);
            let length = 1 + draw(16);
            let op = ops[(draw(6)) as usize];
            let flags = flags[draw(4) as usize];
            let request = Io { flags, ..io(tag, op, block * 4096, length * 4096) };
            block += length;
            request
        };
        let mut requests: Vec<Io> = (0..40).map(request).collect();
        requests.push(io(40 + number % 20, Op::Flush, 0, 0));
        requests
    };
    (0..20).map(&mut round).collect()
}

#[test]
fn the_same_requests_leave_the_same_content_through_every_back_end() {
    let size = 4 * MIB as usize;
    let mut model = vec![0_u8; size];
    for io in mixture().iter().flatten() {
        let range = io.offset.0 as usize..(io.offset.0 + io.length.0) as usize;
        match io.op {
            Op::Write => {
                for (position, byte) in (io.offset.0..).zip(&mut model[range]) {
                    *byte = byte_at(io.tag, position);
                }
            }
            Op::Discard | Op::WriteZeroes => model[range].fill(0),
            _ => {}
        }
    }
    with_all(|way| {
        let target = or_skip!(LoopDevice::new(size as u64));
        let (mut device, clock) = device_on(&target.path, way);
        for requests in mixture() {
            for done in do_all(&mut *device, clock, &requests) {
                assert_eq!(done.outcome, Outcome::Ok, "{:?}", requests[done.tag as usize]);
            }
        }
        drop(device);
        let held = read_direct(&target.path, 0, size);
        let wrong = held.iter().zip(&model).position(|(held, expected)| held != expected);
        assert_eq!(wrong, None, "{way:?}");
    });
}

#[test]
fn requests_beyond_the_memory_for_buffers_are_done_and_told() {
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(64 * MIB));
        let small = ioecho_linux::DeviceOptions { buffer_memory: Some(Bytes(MIB)), ..way };
        let (mut device, clock) = device_on(&file.path, small);
        let length = device.length_max().0;
        let writes: Vec<Io> =
            (0..64).map(|tag| io(tag, Op::Write, u64::from(tag) * MIB, length)).collect();
        let done = do_all(&mut *device, clock, &writes);
        assert!(done.iter().all(|done| done.outcome == Outcome::Ok));
        assert!(device.describe().contains("allocated late"), "{}", device.describe());
        let last = 63 * MIB + length - 512;
        assert_eq!(read_direct(&file.path, last, 512), [byte_at(63, last); 512]);
        let mut buffer = vec![0; 512];
        Pattern.fill(&io(63, Op::Write, last, 512), &mut buffer);
        assert_eq!(read_direct(&file.path, last, 512), buffer);
    });
}

#[test]
fn requests_that_find_no_memory_fail_and_the_others_are_done() {
    const NO_MEMORY: Outcome = Outcome::Error(12);
    with_all(|way| {
        let file = or_skip!(Backing::on_tmpfs(MIB));
        let small = ioecho_linux::DeviceOptions {
            buffer_memory: Some(Bytes(MIB)),
            in_flight_max: 1024,
            ..way
        };
        let (mut device, clock) = device_on(&file.path, small);
        let length = device.length_max().0;
        // 75 MiB, where there are at most 65.
        let reads: Vec<Io> = (0..600).map(|tag| io(tag, Op::Read, 0, length)).collect();
        let done = do_all(&mut *device, clock, &reads);
        let failed = done.iter().filter(|done| done.outcome == NO_MEMORY).count();
        assert!((80..600).contains(&failed), "{failed}");
        let rest = done.iter().filter(|done| done.outcome != NO_MEMORY);
        assert!(rest.into_iter().all(|done| done.outcome == Outcome::Ok));
        let told = device.describe();
        assert!(told.contains(&format!("{failed} requests failed (ENOMEM)")), "{told}");
        assert_eq!(outcomes(&do_all(&mut *device, clock, &reads[..1])), [Outcome::Ok]);
    });
}
