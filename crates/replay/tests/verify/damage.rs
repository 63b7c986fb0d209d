//! Every kind of damage, on a device that a run has written, is found and named right.

use std::sync::atomic::AtomicBool;

use ioecho_replay::pattern::{Fill, Pattern, SplitMix64};
use ioecho_replay::verify::{
    FinalPass, Finding, MemoryTable, SectorContent, Verifier, VerifyConfig, final_pass,
};
use ioecho_replay::{Completion, Device, Io};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

use crate::memory::{MemoryDevice, Ticks};

const RUN: u64 = 99;
const CAPACITY: usize = 4 << 20;

/// A device after a run of random writes, with the verifier that followed them.
struct Written {
    device: MemoryDevice,
    verifier: Verifier,
    /// The write that each block of 4 KiB belongs to, its offset, its length, and what was there
    /// before.
    last: Vec<Option<Io>>,
    before: Vec<u8>,
}

fn written(fill: Fill) -> Written {
    let mut device = MemoryDevice::new(CAPACITY);
    let config = VerifyConfig { run: RUN, target: 2, isolated: true };
    let mut verifier = Verifier::new(config, Box::new(MemoryTable::default()), None);
    let mut pattern = Pattern::with_fill(RUN, 2, fill);
    let mut random = SplitMix64(7);
    let mut last = vec![None; CAPACITY / 4096];
    let mut before = vec![0; CAPACITY];
    // Twice over the middle, so that every block there has an older version.
    let mut offset = 1 << 19;
    for request in 0.. {
        let length = (1 + random.below(8)) * 4096;
        if offset + length > 7 << 19 {
            if request > 0 && before[1 << 20] != 0 {
                break;
            }
            offset = 1 << 19;
            before.copy_from_slice(&device.bytes);
        }
        let io = Io {
            tag: 0,
            request,
            scheduled: Nanos(request as i64 * 1000),
            op: Op::Write,
            flags: Flags::empty(),
            offset: Bytes(offset),
            length: Bytes(length),
        };
        verifier.issued(&io, Nanos(0));
        device.prepare(&io, &mut pattern);
        device.submit().unwrap();
        let completion = Completion {
            tag: 0,
            submitted: Nanos(0),
            completed: Nanos(0),
            outcome: Outcome::Ok,
            integrity: Integrity::Unchecked,
        };
        verifier.completed(&io, &completion, &[]);
        last[(offset / 4096) as usize..((offset + length) / 4096) as usize].fill(Some(io));
        offset += length;
    }
    device.reap(&mut Vec::new()).unwrap();
    Written { device, verifier, last, before }
}

impl Written {
    fn pass(&mut self) -> FinalPass {
        let stop = AtomicBool::new(false);
        final_pass(&mut self.device, &Ticks::default(), &mut self.verifier, &stop, &mut |_| {})
            .unwrap()
    }

    /// A block that was written twice, its last write being larger than this many blocks.
    fn block(&self, random: &mut SplitMix64, larger_than: u64) -> usize {
        loop {
            let block = random.below(self.last.len() as u64) as usize;
            if let Some(io) = self.last[block]
                && io.length.0 > larger_than * 4096
                && self.before[block * 4096] != 0
            {
                return block;
            }
        }
    }
}

/// Damages a fresh device at one place and answers what is found: exactly one kind of damage.
fn found_after(
    fill: Fill,
    seed: u64,
    damage: impl Fn(&mut Written, &mut SplitMix64) -> Vec<u64>,
) -> Vec<Finding> {
    let mut written = written(fill);
    let places = damage(&mut written, &mut SplitMix64(seed));
    written.pass();
    let findings = written.verifier.findings().to_vec();
    for place in &places {
        let found = findings
            .iter()
            .any(|finding| (finding.offset.0..finding.offset.0 + finding.length.0).contains(place));
        assert!(found, "nothing found at {place}, but {findings:?}");
    }
    findings
}

fn all_are(findings: &[Finding], kind: Integrity) {
    for finding in findings {
        assert_eq!(finding.kind, kind, "{finding}");
    }
    assert!(!findings.is_empty());
}

const FILLS: [Fill; 3] = [
    Fill { random: 100, ..Fill::UNIQUE },
    Fill { random: 60, ..Fill::UNIQUE },
    Fill { random: 0, ..Fill::UNIQUE },
];

#[test]
fn what_is_sound_is_found_sound_and_all_of_it_is_read() {
    for fill in FILLS {
        let mut written = written(fill);
        let pass = written.pass();
        assert!(!pass.stopped);
        let figures = written.verifier.figures();
        let blocks = written.last.iter().flatten().count() as u64;
        assert_eq!((figures.intact, figures.sectors), (blocks * 8, blocks * 8));
        assert!(!figures.is_damaged());
    }
}

#[test]
fn a_zeroed_sector_is_named() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let sector = written.block(random, 0) * 8 + random.below(8) as usize;
            written.device.bytes[sector * 512..][..512].fill(0);
            vec![sector as u64 * 512]
        });
        all_are(&findings, Integrity::Zeroed);
        assert_eq!(findings.len(), 1);
    }
}

#[test]
fn a_flipped_bit_is_named_with_its_place() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let byte = written.block(random, 0) * 4096 + seed as usize * 37;
            written.device.bytes[byte] ^= 1 << (seed % 8);
            vec![byte as u64]
        });
        all_are(&findings, Integrity::Flipped);
        let SectorContent::Flipped { bit, stamp } = findings[0].found else {
            panic!("{}", findings[0])
        };
        assert_eq!(u64::from(bit), (seed * 37 % 512) * 8 + seed % 8);
        assert_eq!(stamp.run, RUN);
    }
}

#[test]
fn two_blocks_that_are_exchanged_are_both_named_with_where_they_belong() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let (a, b) = loop {
                let (a, b) = (written.block(random, 0), written.block(random, 0));
                if a < b {
                    break (a, b);
                }
            };
            let (head, tail) = written.device.bytes.split_at_mut(b * 4096);
            head[a * 4096..][..4096].swap_with_slice(&mut tail[..4096]);
            vec![a as u64 * 4096, b as u64 * 4096]
        });
        all_are(&findings, Integrity::Misdirected);
        let [
            Finding { offset: a, found: SectorContent::Stamped(at_a), .. },
            Finding { offset: b, .. },
        ] = &findings[..]
        else {
            panic!("{findings:?}")
        };
        assert_eq!(at_a.position, b.0, "what is at {a} belongs to {b}");
    }
}

#[test]
fn a_write_that_was_lost_is_named_with_both_writes() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let block = written.block(random, 0);
            let io = written.last[block].unwrap();
            let range = io.offset.0 as usize..(io.offset.0 + io.length.0) as usize;
            let old = written.before[range.clone()].to_vec();
            written.device.bytes[range].copy_from_slice(&old);
            vec![io.offset.0, io.offset.0 + io.length.0 - 512]
        });
        all_are(&findings, Integrity::Stale);
        let text = findings[0].to_string();
        assert!(text.contains("what request") && text.contains("in place of"), "{text}");
        // The target of index 2, counted from 1 as flows do.
        assert!(text.contains("of target 3: "), "{text}");
    }
}

#[test]
fn a_write_of_which_a_part_was_lost_is_torn() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let io = written.last[written.block(random, 1)].unwrap();
            let end = (io.offset.0 + io.length.0) as usize;
            let cut =
                io.offset.0 as usize + 512 * (1 + random.below(io.length.0 / 512 - 1)) as usize;
            let old = written.before[cut..end].to_vec();
            written.device.bytes[cut..end].copy_from_slice(&old);
            vec![cut as u64, end as u64 - 512]
        });
        all_are(&findings, Integrity::Torn);
    }
}

#[test]
fn a_write_that_is_torn_where_two_reads_of_the_pass_would_meet_is_still_torn() {
    let findings = found_after(FILLS[0], 1, |written, _| {
        // What was touched begins at 512 KiB, and reads are of 1 MiB.
        let boundary = (1 << 19) + (1 << 20);
        let io = written.last[boundary / 4096].unwrap();
        assert!((io.offset.0 as usize) < boundary, "no write crosses the boundary");
        let end = (io.offset.0 + io.length.0) as usize;
        let old = written.before[boundary..end].to_vec();
        written.device.bytes[boundary..end].copy_from_slice(&old);
        vec![boundary as u64]
    });
    all_are(&findings, Integrity::Torn);
}

#[test]
fn a_sector_of_which_half_is_old_is_torn_and_names_both_writes() {
    for seed in 0..20 {
        let findings = found_after(FILLS[0], seed, |written, random| {
            let sector = written.block(random, 0) * 4096;
            let cut = sector + 64 + 8 * random.below(50) as usize;
            let old = written.before[cut..sector + 512].to_vec();
            written.device.bytes[cut..sector + 512].copy_from_slice(&old);
            vec![sector as u64]
        });
        all_are(&findings, Integrity::Torn);
        let SectorContent::Halves { head, tail, .. } = findings[0].found else {
            panic!("{}", findings[0])
        };
        assert!(tail < head);
    }
}

#[test]
fn data_of_somebody_else_are_foreign_and_another_run_is_named() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let block = written.block(random, 0) * 4096;
            if seed.is_multiple_of(2) {
                written.device.bytes[block..block + 4096].fill(0x42);
            } else {
                let io = written.last[block / 4096].unwrap();
                let io = Io { offset: Bytes(block as u64), length: Bytes(4096), ..io };
                written.device.prepare(&io, &mut Pattern::with_fill(0xABCD, 2, FILLS[0]));
                written.device.submit().unwrap();
                written.device.reap(&mut Vec::new()).unwrap();
            }
            vec![block as u64]
        });
        all_are(&findings, Integrity::Foreign);
        let names_it = findings[0].to_string().contains("run 000000000000abcd");
        assert_eq!(names_it, !seed.is_multiple_of(2));
    }
}

#[test]
fn anything_else_in_a_sector_is_corrupt() {
    for seed in 0..20 {
        let findings = found_after(FILLS[seed as usize % 3], seed, |written, random| {
            let at = written.block(random, 0) * 4096 + 100;
            written.device.bytes[at..at + 30].fill(0x42);
            vec![at as u64]
        });
        all_are(&findings, Integrity::Corrupt);
    }
}

#[test]
fn data_of_the_run_where_it_never_wrote_are_misdirected_or_a_phantom() {
    let mut written = written(FILLS[0]);
    let mut pattern = Pattern::with_fill(RUN, 2, FILLS[0]);
    let io = |offset, request| Io {
        tag: 0,
        request,
        scheduled: Nanos(0),
        op: Op::Read,
        flags: Flags::empty(),
        offset: Bytes(offset),
        length: Bytes(4096),
    };
    let mut check = |at: u64, says: u64, request: u64| {
        let mut data = vec![0; 4096];
        ioecho_replay::Payload::fill(&mut pattern, &io(says, request), &mut data);
        written.verifier.check_now(&io(at, 0), &data, Nanos(0))
    };
    assert_eq!(check(0, 8192, 3), Integrity::Misdirected);
    assert_eq!(check(0, 0, 3), Integrity::Phantom);
    // A version that was never acknowledged, younger than the one that was.
    assert_eq!(check(1 << 20, 1 << 20, 1 << 30), Integrity::Phantom);
}

/// Damages a sector that begins at this byte.
type Harm = fn(&mut [u8], usize);

/// Every block is there twice, at places that it tells.
const EQUAL: Fill = Fill { dedup: 2.0, is_placed: true, ..Fill::UNIQUE };

#[test]
fn blocks_that_are_equal_on_purpose_are_verified_too() {
    let mut sound = written(EQUAL);
    sound.pass();
    let figures = sound.verifier.figures();
    assert_eq!((figures.intact, figures.shared), (figures.sectors, 0));
    assert!(!figures.is_damaged() && figures.sectors > 4096);
    let kinds: [(Harm, Integrity); 5] = [
        (|bytes, at| bytes[at..at + 512].fill(0), Integrity::Zeroed),
        (|bytes, at| bytes[at + 77] ^= 8, Integrity::Flipped),
        (|bytes, at| bytes[at + 100..at + 130].fill(0x42), Integrity::Corrupt),
        (|bytes, at| bytes[at..at + 512].fill(0x42), Integrity::Foreign),
        (|bytes, at| bytes.copy_within(at + 8192..at + 8704, at), Integrity::Misdirected),
    ];
    for (damage, kind) in kinds {
        for seed in 0..20 {
            let findings = found_after(EQUAL, seed, |written, random| {
                let at = written.block(random, 0) * 4096 + (seed % 8) as usize * 512;
                damage(&mut written.device.bytes, at);
                vec![at as u64]
            });
            all_are(&findings, kind);
        }
    }
}

#[test]
fn an_equal_block_that_a_later_run_overwrote_in_vain_is_stale() {
    let Written { mut device, verifier, .. } = written(EQUAL);
    let old = device.bytes.clone();
    let config = VerifyConfig { run: RUN + 1, target: 2, isolated: true };
    let mut verifier = verifier.go_on(config, None);
    let mut pattern = Pattern::with_fill(RUN + 1, 2, EQUAL);
    let io = Io {
        tag: 0,
        request: 0,
        scheduled: Nanos(0),
        op: Op::Write,
        flags: Flags::empty(),
        offset: Bytes(1 << 20),
        length: Bytes(1 << 20),
    };
    verifier.issued(&io, Nanos(0));
    device.prepare(&io, &mut pattern);
    device.submit().unwrap();
    let mut done = Vec::new();
    device.reap(&mut done).unwrap();
    verifier.completed(&io, &done[0], &[]);
    for seed in 0..20 {
        let at = (1 << 20) + seed * 8192;
        device.bytes[at..at + 4096].copy_from_slice(&old[at..at + 4096]);
    }
    let stop = AtomicBool::new(false);
    final_pass(&mut device, &Ticks::default(), &mut verifier, &stop, &mut |_| {}).unwrap();
    assert_eq!(verifier.findings().len(), 20);
    all_are(verifier.findings(), Integrity::Stale);
}

#[test]
fn what_cannot_be_read_is_counted_and_the_rest_is_still_checked() {
    let mut written = written(FILLS[0]);
    let block = written.block(&mut SplitMix64(1), 0) as u64;
    written.device.unreadable = vec![block * 8 + 3];
    let other = written.block(&mut SplitMix64(5), 0);
    assert_ne!(other as u64, block);
    written.device.bytes[other * 4096..][..512].fill(0);
    written.pass();
    let figures = written.verifier.figures();
    assert_eq!((figures.unreadable, figures.findings), (8, 1));
    assert!(figures.is_damaged());
}

#[test]
fn a_pass_that_is_stopped_says_so() {
    let mut written = written(FILLS[0]);
    let stop = AtomicBool::new(true);
    let pass = final_pass(
        &mut written.device,
        &Ticks::default(),
        &mut written.verifier,
        &stop,
        &mut |_| {},
    )
    .unwrap();
    assert!(pass.stopped);
    assert_eq!(pass.read, Bytes(0));
}
