//! One arm over rotating platters: what a request takes depends on the one before.
//!
//! The platters are laid out as one spiral at a constant rate, so that a byte's place along the
//! track follows from its offset and a sequential transfer never loses a turn between tracks. Seeks
//! take a + b·√distance (Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling", 1994, whose
//! long, linear seeks are left out). A request waits for the arm, seeks, waits for its first byte
//! to come round, and transfers. Requests are served in order of arrival: the drive does not sort.
//!
//! After a read the drive goes on reading, as all drives do: without that, a reader who asks for
//! one block after the other would lose a turn for each. A write cache is optional; it answers
//! when data are in it and writes them back in order of position, when the arm is idle or the cache
//! is full.

use std::collections::BTreeMap;
use std::fmt;

use ioecho_trace::{Bytes, Flags, Nanos, Op};

use super::Arrival;
use crate::device::Io;
use crate::sim::SimSpec;
use crate::sim::spec::parsed;

/// What model `disk` has of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskSpec {
    /// Turns per minute.
    pub rpm: u32,
    /// The shortest seek: to the next track.
    pub seek_min: Nanos,
    /// The longest seek: over the whole disk.
    pub seek_max: Nanos,
    /// What the drive's electronics add to every request, beside the arm's work.
    pub overhead: Nanos,
    /// How far it reads on after a read; zero: not at all.
    pub read_ahead: Bytes,
    /// The size of its write cache; zero: none.
    pub write_cache: Bytes,
}

impl Default for DiskSpec {
    /// A desktop's disk: a random read takes 9 ms to seek and 4 ms to turn in the mean.
    fn default() -> Self {
        Self {
            rpm: 7200,
            seek_min: Nanos::from_millis(1),
            seek_max: Nanos::from_millis(16),
            overhead: Nanos::from_micros(50),
            read_ahead: Bytes(256 << 10),
            write_cache: Bytes::ZERO,
        }
    }
}

impl DiskSpec {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "rpm" => self.rpm = parsed(key, value)?,
            "seek-min" => self.seek_min = parsed(key, value)?,
            "seek-max" => self.seek_max = parsed(key, value)?,
            "overhead" => self.overhead = parsed(key, value)?,
            "read-ahead" => self.read_ahead = parsed(key, value)?,
            _ => self.write_cache = parsed(key, value)?,
        }
        if (1..=1_000_000).contains(&self.rpm) {
            Ok(())
        } else {
            Err(format!("rpm: {} is not from 1 to 1000000", self.rpm))
        }
    }
}

impl fmt::Display for DiskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rpm, seek_min, seek_max, overhead, read_ahead, write_cache } = self;
        write!(
            f,
            "rpm={rpm}, seek-min={seek_min}, seek-max={seek_max}, overhead={overhead}, \
             read-ahead={read_ahead}, write-cache={write_cache}"
        )
    }
}

#[derive(Debug)]
pub(in crate::sim) struct Disk {
    own: DiskSpec,
    capacity: u64,
    bandwidth: u64,
    /// A turn of the platters.
    turn_ns: i64,
    /// The byte behind the last one transferred, where the arm stands …
    head: u64,
    /// … since this instant.
    free_ns: i64,
    /// Whether the drive went on reading from there.
    reading_on: bool,
    /// What is in the write cache: lengths by offset.
    dirty: BTreeMap<u64, u64>,
    dirty_bytes: u64,
}

impl Disk {
    pub(super) fn new(spec: &SimSpec, own: DiskSpec) -> Self {
        Self {
            own,
            capacity: spec.capacity.0.max(1),
            bandwidth: spec.bandwidth,
            turn_ns: 60_000_000_000 / i64::from(own.rpm),
            head: 0,
            free_ns: 0,
            reading_on: false,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
        }
    }

    pub(super) fn completes_ns(&mut self, arrival: &Arrival) -> i64 {
        let (io, now) = (arrival.io, arrival.now_ns);
        self.write_back_until(now);
        if io.flags.contains(Flags::PREFLUSH) || io.op == Op::Flush {
            while self.write_back_one(now) {}
        }
        let done = match io.op {
            Op::Read if self.is_dirty(io) => now,
            Op::Read => self.read(io, now),
            Op::Write => self.write(io, now),
            // Only the current transfer is left to do.
            Op::Flush => self.free_ns.max(now),
            _ => now,
        };
        done.saturating_add(self.own.overhead.0)
    }

    fn read(&mut self, io: &Io, now: i64) -> i64 {
        let idle = now - self.free_ns;
        if !self.reading_on || io.offset.0 != self.head || idle < 0 {
            let done = self.move_data(io.offset.0, io.length.0, now);
            self.reading_on = self.own.read_ahead.0 > 0;
            return done;
        }
        // The arm has stayed and gone on reading: the data are there, or just passing below it.
        let passes = self.transfer_ns(self.head, io.length.0);
        if io.length.0 > self.own.read_ahead.0 && passes < idle {
            // More than it reads ahead, and it has stopped meanwhile.
            return self.move_data(io.offset.0, io.length.0, now);
        }
        self.head += io.length.0;
        self.free_ns = self.free_ns.saturating_add(passes);
        self.free_ns.max(now)
    }

    fn write(&mut self, io: &Io, now: i64) -> i64 {
        let length = io.length.0;
        if io.flags.contains(Flags::FUA) || length > self.own.write_cache.0 {
            self.reading_on = false;
            return self.move_data(io.offset.0, length, now);
        }
        let mut room_at = now;
        while self.dirty_bytes + length > self.own.write_cache.0 && self.write_back_one(now) {
            room_at = self.free_ns.max(now);
        }
        // An idle arm begins to write back now, not in the past.
        self.free_ns = self.free_ns.max(now);
        let held = self.dirty.entry(io.offset.0).or_insert(0);
        self.dirty_bytes += length.saturating_sub(*held);
        *held = length.max(*held);
        room_at
    }

    /// Whether the write cache holds all that is asked for.
    fn is_dirty(&self, io: &Io) -> bool {
        let before = self.dirty.range(..=io.offset.0).next_back();
        before.is_some_and(|(offset, length)| offset + length >= io.offset.0 + io.length.0)
    }

    /// Spends the time in which the arm had nothing else to do.
    fn write_back_until(&mut self, now: i64) {
        while self.free_ns < now && self.write_back_one(i64::MIN) {}
    }

    /// Writes one piece back from the cache, the next in the direction of the arm; answers whether
    /// there was one.
    fn write_back_one(&mut self, not_before: i64) -> bool {
        let ahead = self.dirty.range(self.head..).next().or_else(|| self.dirty.iter().next());
        let Some((&offset, &length)) = ahead else { return false };
        self.dirty.remove(&offset);
        self.dirty_bytes -= length;
        self.reading_on = false;
        self.move_data(offset, length, not_before);
        true
    }

    /// Moves the arm and transfers; answers when it is done.
    fn move_data(&mut self, offset: u64, length: u64, not_before: i64) -> i64 {
        let there = self.free_ns.max(not_before).saturating_add(self.seek_ns(offset));
        let angle = self.passes_ns(offset) % i128::from(self.turn_ns);
        let turned = (angle as i64 - there).rem_euclid(self.turn_ns);
        let transfer = self.transfer_ns(offset, length);
        self.free_ns = there.saturating_add(turned).saturating_add(transfer);
        self.head = offset + length;
        self.free_ns
    }

    fn seek_ns(&self, offset: u64) -> i64 {
        if offset == self.head {
            return 0;
        }
        let distance = offset.abs_diff(self.head) as f64 / self.capacity as f64;
        let (shortest, longest) = (self.own.seek_min.0 as f64, self.own.seek_max.0 as f64);
        (shortest + (longest - shortest).max(0.0) * distance.sqrt()) as i64
    }

    /// When the byte passes below the arm, had it followed the spiral from its start at zero.
    fn passes_ns(&self, offset: u64) -> i128 {
        i128::from(offset) * 1_000_000_000 / i128::from(self.bandwidth)
    }

    /// Consistent with [`Disk::passes_ns`] to the nanosecond: what follows at once loses no turn.
    fn transfer_ns(&self, offset: u64, length: u64) -> i64 {
        (self.passes_ns(offset + length) - self.passes_ns(offset)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use crate::pattern::SplitMix64;
    use crate::sim::SimSpec;

    const SPEC: &str = "model=disk,size=1T,rpm=7200,seek-min=1ms,seek-max=16ms,bandwidth=150M";

    fn disk(more: &str) -> SimSpec {
        format!("{SPEC},{more}").parse().unwrap()
    }

    fn anywhere(count: usize) -> impl Iterator<Item = (u64, u64)> {
        let mut random = SplitMix64(7);
        (0..count).map(move |_| (random.below(1 << 28) << 12, 4096))
    }

    #[test]
    fn a_random_read_takes_the_mean_seek_and_half_a_turn() {
        let spec = disk("overhead=0s");
        let times = testing::one_by_one(&spec, anywhere(20_000));
        let mean = times.iter().sum::<i64>() as f64 / times.len() as f64;
        // The mean of √|x−y| over two even random numbers is 8/15.
        let expected = 1e6 + 15e6 * 8.0 / 15.0 + 60e9 / 7200.0 / 2.0 + 4096.0 * 1e9 / 157_286_400.0;
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} for {expected}");
    }

    #[test]
    fn sequential_reads_come_at_the_bandwidth_and_random_ones_a_hundred_times_slower() {
        let spec = disk("overhead=0s");
        let total = |times: Vec<i64>| times.into_iter().sum::<i64>() as f64;
        let sequential =
            total(testing::one_by_one(&spec, (0..4_000).map(|n| (n * 65_536, 65_536))));
        let ideal = 4_000.0 * 65_536.0 * 1e9 / 157_286_400.0;
        assert!(sequential / ideal < 1.001, "{sequential} for {ideal}");
        let random = total(testing::one_by_one(&spec, anywhere(4_000))) / 4_000.0 / 4096.0;
        let sequential = sequential / 4_000.0 / 65_536.0;
        assert!(random > 100.0 * sequential, "{random} and {sequential} ns/byte");
    }

    #[test]
    fn without_a_cache_a_sequential_writer_who_waits_loses_a_turn_each_time() {
        let spec = disk("overhead=50us");
        let times = testing::one_by_one_writes(&spec, (0..100).map(|n| (n * 4096, 4096)));
        let turn = 60_000_000_000_i64 / 7200;
        assert!(times[1..].iter().all(|ns| (turn - 1..=turn + 50_000).contains(ns)), "{times:?}");
    }

    #[test]
    fn a_write_cache_answers_at_once_until_it_is_full() {
        let spec = disk("overhead=50us,write-cache=1M");
        let times = testing::one_by_one_writes(&spec, anywhere(300));
        assert!(times[..200].iter().all(|ns| *ns == 50_000), "{:?}", &times[..200]);
        assert!(times[290..].iter().any(|ns| *ns > 1_000_000), "{:?}", &times[290..]);
    }

    #[test]
    fn writing_back_in_order_of_position_beats_writing_at_once() {
        let total = |spec: &SimSpec| -> i64 {
            testing::one_by_one_writes(spec, anywhere(4_000)).into_iter().sum()
        };
        let (cached, bare) = (total(&disk("write-cache=8M")), total(&disk("overhead=0s")));
        assert!(cached * 2 < bare, "{cached} and {bare}");
    }

    #[test]
    fn a_flush_waits_for_all_that_the_write_cache_holds() {
        let spec = disk("write-cache=1M,overhead=0s");
        let flush = testing::flush_after_writes(&spec, anywhere(20));
        // Twenty pieces, at least a short seek each.
        assert!(flush > 20_000_000, "{flush}");
    }
}
