//! Reads return written data, and every falsified request is noted.

use super::super::{Mischief, MischiefKind, Misdeed, SimClock, SimDevice, SimSpec};
use super::SECTOR_BYTES;
use crate::device::{Completion, Device, Io, Payload};
use crate::pattern::SplitMix64;
use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

/// Fills every sector with the number of its request, never zero.
struct Numbered;

impl Payload for Numbered {
    fn fill_from(&mut self, io: &Io, _: usize, buffer: &mut [u8]) {
        for word in buffer.chunks_exact_mut(8) {
            word.copy_from_slice(&(io.request + 1).to_le_bytes());
        }
    }
}

/// The request that wrote a sector; `None` where nobody did, an error where it is mixed up.
fn writer(sector: &[u8]) -> Result<Option<u64>, ()> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let first = word(&sector[..8]);
    if sector.chunks_exact(8).any(|bytes| word(bytes) != first) {
        return Err(());
    }
    Ok(first.checked_sub(1))
}

struct Fixture {
    device: SimDevice,
    requests: u64,
}

impl Fixture {
    fn new(text: &str) -> Self {
        Self::of(SimDevice::new(text.parse().unwrap(), SimClock::new(Nanos(1))).with_data())
    }

    fn of(mut device: SimDevice) -> Self {
        device.keep_data(true);
        Self { device, requests: 0 }
    }

    /// Submits one request of sectors and waits for no end; answers its number.
    fn start(&mut self, op: Op, flags: Flags, first: u64, count: u64) -> u64 {
        let io = Io {
            tag: self.requests as u32 % 64,
            request: self.requests,
            scheduled: Nanos::ZERO,
            op,
            flags,
            offset: Bytes(first * 512),
            length: Bytes(count * 512),
        };
        self.requests += 1;
        self.device.prepare(&io, &mut Numbered);
        self.device.submit().unwrap();
        io.request
    }

    fn drain(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        while self.device.next_completion() < Nanos::MAX {
            self.device.wait(Nanos::MAX, &mut completions).unwrap();
        }
        completions
    }

    fn write(&mut self, first: u64, count: u64) -> u64 {
        let request = self.start(Op::Write, Flags::empty(), first, count);
        self.drain();
        request
    }

    fn read(&mut self, first: u64, count: u64) -> Vec<Result<Option<u64>, ()>> {
        self.start(Op::Read, Flags::empty(), first, count);
        let completion = self.drain()[0];
        assert_eq!(completion.outcome, Outcome::Ok);
        let data = self.device.data(completion.tag);
        assert_eq!(data.len(), count as usize * SECTOR_BYTES);
        data.chunks(SECTOR_BYTES).map(writer).collect()
    }
}

#[test]
fn what_was_written_is_read_and_the_rest_is_zeroes() {
    let mut fixture = Fixture::new("size=1M");
    let first = fixture.write(10, 4);
    let second = fixture.write(12, 4);
    let [a, b] = [Ok(Some(first)), Ok(Some(second))];
    assert_eq!(fixture.read(9, 8), [Ok(None), a, a, b, b, b, b, Ok(None)]);
    fixture.start(Op::WriteZeroes, Flags::empty(), 11, 2);
    fixture.drain();
    assert_eq!(fixture.read(10, 4), [a, Ok(None), Ok(None), b]);
}

#[test]
fn data_are_kept_only_on_request() {
    let mut fixture = Fixture::new("size=1M");
    fixture.device.keep_data(false);
    fixture.start(Op::Read, Flags::empty(), 0, 1);
    let tag = fixture.drain()[0].tag;
    assert!(fixture.device.data(tag).is_empty());
    let mut bare = SimDevice::new(SimSpec::default(), SimClock::default());
    bare.keep_data(true);
    assert!(bare.data(0).is_empty() && bare.sectors_mut().is_none());
}

#[test]
fn of_two_overlapping_writes_in_flight_together_either_may_win_in_either_piece() {
    let mut winners = [0; 2];
    let mut mixed = 0;
    for seed in 0..200 {
        let mut fixture = Fixture::new(&format!("size=1M,units=2,model=const,seed={seed}"));
        let first = fixture.start(Op::Write, Flags::empty(), 0, 8);
        let second = fixture.start(Op::Write, Flags::empty(), 0, 8);
        fixture.drain();
        let writers = fixture.read(0, 8);
        assert!(writers.iter().all(|w| [Ok(Some(first)), Ok(Some(second))].contains(w)));
        let of_second = writers.iter().filter(|w| **w == Ok(Some(second))).count();
        match of_second {
            0 => winners[0] += 1,
            8 => winners[1] += 1,
            _ => mixed += 1,
        }
    }
    assert!(winners[0] > 10 && winners[1] > 10 && mixed > 10, "{winners:?} {mixed}");
}

#[test]
fn a_read_beside_a_write_brings_old_or_new_and_after_it_only_new() {
    for seed in 0..100 {
        let mut fixture = Fixture::new(&format!("size=1M,units=2,seed={seed}"));
        let old = fixture.write(0, 8);
        let new = fixture.start(Op::Write, Flags::empty(), 0, 8);
        fixture.start(Op::Read, Flags::empty(), 0, 8);
        let completions = fixture.drain();
        let read = completions.iter().find(|completion| completion.tag == 2).unwrap();
        let data = fixture.device.data(read.tag).to_vec();
        let mut writers = data.chunks(SECTOR_BYTES).map(writer);
        assert!(writers.all(|w| [Ok(Some(old)), Ok(Some(new))].contains(&w)));
        assert_eq!(fixture.read(0, 8), [Ok(Some(new)); 8]);
    }
}

#[test]
fn a_failed_write_leaves_any_part_and_a_short_one_its_beginning() {
    let mut arrived = [0; 2];
    for (kind, fault) in ["errors=1", "short=1"].into_iter().enumerate() {
        for seed in 0..200 {
            let mut fixture = Fixture::new(&format!("size=1M,{fault},seed={seed}"));
            let request = fixture.write(0, 8);
            let sectors = fixture.device.sectors_mut().unwrap();
            let there: Vec<bool> =
                (0..8).map(|n| writer(&sectors.get(n)) == Ok(Some(request))).collect();
            arrived[kind] += there.iter().filter(|there| **there).count();
            if kind == 1 {
                assert!(there.is_sorted_by(|a, b| a >= b), "{there:?}");
            }
        }
    }
    assert!(arrived.iter().all(|sectors| (400..1200).contains(sectors)), "{arrived:?}");
}

#[test]
fn a_discarded_range_keeps_what_it_held_or_reads_as_zeroes() {
    let (mut kept, mut zeroed) = (0, 0);
    for seed in 0..50 {
        let mut fixture = Fixture::new(&format!("size=1M,seed={seed}"));
        let request = fixture.write(0, 8);
        fixture.start(Op::Discard, Flags::empty(), 0, 8);
        fixture.drain();
        for sector in fixture.read(0, 8) {
            assert!([Ok(Some(request)), Ok(None)].contains(&sector));
            if sector == Ok(None) { zeroed += 1 } else { kept += 1 }
        }
    }
    assert!(kept > 50 && zeroed > 50);
}

#[test]
fn a_loss_of_power_spares_what_was_flushed_and_what_was_forced() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..100 {
        let mut fixture = Fixture::new(&format!("size=1M,seed={seed}"));
        let flushed = fixture.write(0, 4);
        fixture.start(Op::Flush, Flags::empty(), 0, 0);
        fixture.drain();
        fixture.write(0, 2);
        fixture.start(Op::Write, Flags::FUA, 8, 4);
        fixture.drain();
        fixture.write(16, 4);
        fixture.device.cut_power();
        let forced = flushed + 3;
        assert_eq!(fixture.read(8, 4), [Ok(Some(forced)); 4]);
        assert_eq!(fixture.read(2, 2), [Ok(Some(flushed)); 2]);
        for sector in fixture.read(0, 2) {
            assert!([Ok(Some(flushed)), Ok(Some(flushed + 2))].contains(&sector));
        }
        for sector in fixture.read(16, 4) {
            if sector == Ok(None) { lost += 1 } else { kept += 1 }
        }
    }
    assert!(lost > 100 && kept > 100);
}

#[test]
fn what_is_in_flight_when_power_fails_is_never_answered() {
    let mut fixture = Fixture::new("size=1M");
    fixture.start(Op::Write, Flags::empty(), 0, 4);
    fixture.device.cut_power();
    assert!(fixture.drain().is_empty());
    assert_eq!(fixture.read(0, 4), [Ok(None); 4]);
}

/// Writes each of 32 ranges twice and reads it on a device that misbehaves in one way; answers the
/// misdeeds and what each sector should hold.
fn betrayed(kind: MischiefKind, seed: u64) -> (Fixture, Vec<Misdeed>, Vec<u64>) {
    let spec: SimSpec = format!("size=4M,seed={seed}").parse().unwrap();
    let mischief = Mischief { share: 0.1, kinds: vec![kind] };
    let device = SimDevice::new(spec, SimClock::new(Nanos(1))).misbehaving(mischief);
    let mut fixture = Fixture::of(device);
    let mut expected = vec![0; 256];
    let mut random = SplitMix64(seed);
    for _ in 0..64 {
        let range = random.below(32) * 8;
        let request = fixture.write(range, 8);
        expected[range as usize..range as usize + 8].fill(request);
    }
    let misdeeds = fixture.device.misdeeds().to_vec();
    (fixture, misdeeds, expected)
}

#[test]
fn every_betrayal_of_a_write_is_written_down_and_nothing_else_is_wrong() {
    for kind in MischiefKind::ALL {
        if kind.is_of_reads() {
            continue;
        }
        let mut found = 0;
        for seed in 0..20 {
            let (mut fixture, misdeeds, expected) = betrayed(kind, seed);
            let sectors = fixture.device.sectors_mut().unwrap();
            for (sector, request) in expected.iter().enumerate() {
                if *request == 0 {
                    continue;
                }
                let holds = writer(&sectors.get(sector as u64));
                let here = |misdeed: &&Misdeed| {
                    let landed = misdeed.landed.map_or(0..0, |place| place..place + 8);
                    let own = misdeed.request == *request;
                    (own && misdeed.sectors.contains(&(sector as u64)))
                        || landed.contains(&(sector as u64))
                };
                let misdeed = misdeeds.iter().rfind(here);
                assert!(misdeed.is_none_or(|misdeed| misdeed.kind == kind));
                if holds != Ok(Some(*request)) {
                    found += 1;
                    assert!(misdeed.is_some(), "{kind:?}: sector {sector} holds {holds:?}");
                } else if let Some(misdeed) = misdeed {
                    // Only a landing place that was written again later holds what it should.
                    assert!(misdeed.request < *request, "{kind:?}: {misdeed:?}");
                }
            }
        }
        assert!(found > 10, "{kind:?}: {found}");
    }
}

#[test]
fn a_stale_read_brings_the_version_before_and_says_which_sectors() {
    let mischief = Mischief { share: 1.0, kinds: vec![MischiefKind::StaleRead] };
    let spec: SimSpec = "size=1M".parse().unwrap();
    let device = SimDevice::new(spec, SimClock::new(Nanos(1))).misbehaving(mischief);
    let mut fixture = Fixture::of(device);
    let old = fixture.write(0, 8);
    let new = fixture.write(2, 3);
    let [a, b] = [Ok(Some(old)), Ok(Some(new))];
    assert_eq!(fixture.read(0, 8), [a; 8]);
    let misdeed = fixture.device.misdeeds()[0].clone();
    assert_eq!((misdeed.kind, misdeed.sectors), (MischiefKind::StaleRead, 2..5));
    // Nothing older is there: such a read is an honest one.
    fixture.write(16, 1);
    fixture.read(16, 1);
    assert_eq!(fixture.device.misdeeds().len(), 1);
    assert_eq!(writer(&fixture.device.sectors_mut().unwrap().get(3)), b);
}

#[test]
fn damage_done_by_hand_is_what_is_read() {
    let mut fixture = Fixture::new("size=1M");
    let (first, second) = (fixture.write(0, 1), fixture.write(1, 1));
    let sectors = fixture.device.sectors_mut().unwrap();
    sectors.swap(0, 1);
    sectors.get_mut(5)[100] ^= 1;
    assert_eq!(sectors.written(), [0, 1, 5]);
    assert_eq!(fixture.read(0, 2), [Ok(Some(second)), Ok(Some(first))]);
    assert_eq!(fixture.read(5, 1), [Err(())]);
}
