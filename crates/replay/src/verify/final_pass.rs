//! Reading back everything that a run changed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

use super::Verifier;
use crate::clock::Clock;
use crate::device::{Completion, Device, Io, Payload};
use crate::pacing::Pacing;
use crate::pattern::SECTOR_BYTES;

/// The largest read, in sectors: 1 MiB. Larger ones make nothing faster.
const READ_SECTORS: u64 = 2048;

/// Reads in flight together. Every device takes as many.
const READS: usize = 2;

/// How long to wait for a completion before checking whether the pass should stop.
const WAIT: Nanos = Nanos::from_millis(100);

/// How far a pass has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassProgress {
    /// How much was read.
    pub read: Bytes,
    /// Up to where on the target.
    pub position: Bytes,
}

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalPass {
    /// How much was read.
    pub read: Bytes,
    /// Whether it was stopped before everything was read.
    pub stopped: bool,
}

/// Reads every sector that the run changed, and judges it. Nothing else may be in flight.
///
/// Unreadable sectors are counted in [`super::VerifyFigures::unreadable`]. An error concerns the
/// whole device or the table; a device that completes nothing for [`Pacing::silence_max`] is one,
/// too. A pass that is stopped or fails returns at once, with reads in flight: the device must not
/// be used any more.
pub fn final_pass(
    device: &mut dyn Device,
    clock: &impl Clock,
    verifier: &mut Verifier,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(PassProgress),
) -> io::Result<FinalPass> {
    device.keep_data(true);
    let start = clock.now();
    let length_max = device.length_max().0 / SECTOR_BYTES as u64;
    let block = (device.block_size().0 / SECTOR_BYTES as u64).max(1);
    let mut pass = Pass {
        device,
        clock,
        verifier,
        stop,
        start,
        heard_at: start,
        silence_max: Pacing::default().silence_max,
        reading: Vec::with_capacity(READS),
        done: FinalPass::default(),
        completions: Vec::with_capacity(READS),
    };
    let largest = READ_SECTORS.min(length_max) / block * block;
    let mut next = 0;
    let mut pending = None;
    loop {
        if pass.is_stopped() {
            return Ok(pass.done);
        }
        while pass.reading.len() < READS {
            let Some((first, end)) = stretch(pass.verifier, &mut next, &mut pending, block)? else {
                break;
            };
            let mut end = end.min(first + largest.max(block));
            // A read should not end inside a write, or a torn write looks like a lost one.
            if pending.is_some_and(|(_, rest)| rest > end) {
                end = pass.verifier.cut(first, end, block)?;
            }
            pending = pending.map(|(_, rest)| (end, rest)).filter(|(from, rest)| from < rest);
            next = next.max(end);
            pass.read(first, end);
        }
        if pass.reading.is_empty() {
            return Ok(pass.done);
        }
        pass.wait()?;
        progress(PassProgress { read: pass.done.read, position: Bytes(next * 512) });
    }
}

/// The next range to read: the rest of a stretch, or the next changed one, widened to the device's
/// blocks.
fn stretch(
    verifier: &mut Verifier,
    next: &mut u64,
    pending: &mut Option<(u64, u64)>,
    block: u64,
) -> io::Result<Option<(u64, u64)>> {
    let (first, mut end) = match *pending {
        Some(rest) => rest,
        None => match verifier.touched_from(*next)? {
            Some((first, end)) => ((first / block * block).max(*next), end),
            None => return Ok(None),
        },
    };
    // Stretches come in parts, and reading small gaps is cheaper than skipping them. More than one
    // read is gathered, to see whether it ends inside a write.
    while end - first <= READ_SECTORS {
        match verifier.touched_from(end)? {
            Some((from, to)) if from < end + 8 => end = to,
            _ => break,
        }
    }
    *pending = Some((first, end.next_multiple_of(block)));
    Ok(*pending)
}

struct Pass<'a, C> {
    device: &'a mut dyn Device,
    clock: &'a C,
    verifier: &'a mut Verifier,
    stop: &'a AtomicBool,
    start: Nanos,
    /// When the device last answered, or was last asked.
    heard_at: Nanos,
    silence_max: Nanos,
    reading: Vec<Io>,
    done: FinalPass,
    completions: Vec<Completion>,
}

struct NoPayload;

impl Payload for NoPayload {
    fn fill_from(&mut self, _: &Io, _: usize, _: &mut [u8]) {}
}

impl<C: Clock> Pass<'_, C> {
    fn is_stopped(&mut self) -> bool {
        self.done.stopped |= self.stop.load(Relaxed);
        self.done.stopped
    }

    fn read(&mut self, first: u64, end: u64) {
        let mut tags = 0..READS as u32;
        let tag = tags.find(|tag| self.reading.iter().all(|io| io.tag != *tag));
        let io = Io {
            tag: tag.unwrap_or_default(),
            request: u64::MAX,
            scheduled: Nanos::ZERO,
            op: Op::Read,
            flags: Flags::empty(),
            offset: Bytes(first * SECTOR_BYTES as u64),
            length: Bytes((end - first) * SECTOR_BYTES as u64),
        };
        self.ask(&io);
        self.reading.push(io);
    }

    fn ask(&mut self, io: &Io) {
        self.heard_at = self.clock.now();
        self.device.prepare(io, &mut NoPayload);
    }

    /// Submits what is prepared and waits a little for `completions` to grow. A device that has
    /// been silent for too long is an error.
    fn listen(&mut self, io: &Io) -> io::Result<()> {
        self.device.submit()?;
        let until = self.clock.now() + WAIT;
        let before = self.completions.len();
        self.device.wait(until, &mut self.completions)?;
        let now = self.clock.now();
        if self.completions.len() > before {
            self.heard_at = now;
        } else if now - self.heard_at > self.silence_max {
            let Io { offset, length, .. } = io;
            let text = format!(
                "it has not answered for {}; it was last asked for {length} at {}",
                self.silence_max, offset.0
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(())
    }

    /// Submits what is prepared and takes what has completed.
    fn wait(&mut self) -> io::Result<()> {
        let Some(any) = self.reading.first().copied() else { return Ok(()) };
        // Completions may already have come while blocks were read one by one.
        if self.completions.is_empty() {
            self.listen(&any)?;
        }
        for completion in std::mem::take(&mut self.completions) {
            let Some(at) = self.reading.iter().position(|io| io.tag == completion.tag) else {
                continue;
            };
            let io = self.reading.swap_remove(at);
            self.done.read = self.done.read + io.length;
            if completion.outcome == Outcome::Ok {
                self.judge(&io)?;
                self.device.release(io.tag);
            } else {
                self.device.release(io.tag);
                self.read_in_blocks(&io)?;
            }
            if self.done.stopped {
                return Ok(());
            }
        }
        Ok(())
    }

    fn judge(&mut self, io: &Io) -> io::Result<()> {
        let now = self.clock.now() - self.start;
        let data = self.device.data(io.tag);
        if data.len() as u64 != io.length.0 {
            let text = "the device did not keep what was read: it cannot be verified";
            return Err(io::Error::other(text));
        }
        self.verifier.check_now(io, data, now);
        Ok(())
    }

    /// Reads a failed range again block by block: most of it is readable. Ends when the pass is
    /// stopped.
    fn read_in_blocks(&mut self, io: &Io) -> io::Result<()> {
        let block = self.device.block_size().0.max(4096).min(io.length.0);
        let end = io.offset.0 + io.length.0;
        for offset in (io.offset.0..end).step_by(block as usize) {
            let length = block.min(end - offset);
            let io = Io { offset: Bytes(offset), length: Bytes(length), ..*io };
            self.ask(&io);
            let mut mine = None;
            while mine.is_none() {
                if self.is_stopped() {
                    return Ok(());
                }
                let before = self.completions.len();
                self.listen(&io)?;
                let arrived = self.completions[before..].iter().position(|c| c.tag == io.tag);
                mine = arrived.map(|at| self.completions.remove(before + at));
            }
            if mine.is_some_and(|completion| completion.outcome == Outcome::Ok) {
                self.judge(&io)?;
            } else {
                self.verifier.unreadable(&io);
            }
            self.device.release(io.tag);
        }
        Ok(())
    }
}

impl Verifier {
    /// Where a read from `first` up to `end` is better cut: between two changes, at a block of the
    /// device, and not too early.
    pub(super) fn cut(&mut self, first: u64, end: u64, block: u64) -> io::Result<u64> {
        let from = end.saturating_sub(READ_SECTORS / 2).max(first + block);
        if from >= end {
            return Ok(end);
        }
        let mut entries = std::mem::take(&mut self.entries);
        let count = (end + 1 - from) as usize;
        let known = self.table.get(from, &mut entries[..count]);
        let cut = (1..count)
            .rev()
            .find(|at| {
                entries[*at] != entries[*at - 1] && (from + *at as u64).is_multiple_of(block)
            })
            .map_or(end, |at| from + at as u64);
        self.entries = entries;
        known.map(|()| cut)
    }

    /// Takes down that a part could not be read.
    pub(super) fn unreadable(&mut self, io: &Io) {
        self.figures.unreadable += io.length.0 / SECTOR_BYTES as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimClock;
    use crate::verify::{MemoryTable, VerifyConfig};
    use ioecho_trace::Integrity;

    /// Answers its first requests with an error, and the others never.
    struct Mute<'a> {
        clock: SimClock,
        errors: u32,
        failed: Vec<u32>,
        /// Raised when it was waited for so often.
        stop: Option<(&'a AtomicBool, u32)>,
    }

    impl Device for Mute<'_> {
        fn capacity(&self) -> Bytes {
            Bytes(1 << 20)
        }

        fn block_size(&self) -> Bytes {
            Bytes(512)
        }

        fn length_max(&self) -> Bytes {
            Bytes(1 << 20)
        }

        fn supports(&self, _: Op) -> bool {
            true
        }

        fn prepare(&mut self, io: &Io, _: &mut dyn Payload) {
            if self.errors > 0 {
                self.errors -= 1;
                self.failed.push(io.tag);
            }
        }

        fn submit(&mut self) -> io::Result<(Nanos, usize)> {
            Ok((Nanos::ZERO, 0))
        }

        fn reap(&mut self, _: &mut Vec<Completion>) -> io::Result<()> {
            Ok(())
        }

        fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
            self.clock.advance_to(until);
            completions.extend(self.failed.drain(..).map(|tag| Completion {
                tag,
                submitted: Nanos::ZERO,
                completed: until,
                outcome: Outcome::Error(5),
                integrity: Integrity::Unchecked,
            }));
            if let Some((stop, waits)) = &mut self.stop {
                *waits -= 1;
                stop.store(*waits == 0, Relaxed);
            }
            Ok(())
        }

        fn describe(&self) -> String {
            "mute".to_owned()
        }
    }

    /// What a pass over a few written sectors ends with, and when.
    fn pass(errors: u32, stop_after: Option<u32>) -> (io::Result<FinalPass>, Nanos) {
        let config = VerifyConfig { run: 1, target: 0, isolated: true };
        let mut verifier = Verifier::new(config, Box::new(MemoryTable::default()), None);
        verifier.table.set(0, 64, 2).unwrap();
        let (clock, stop) = (SimClock::new(Nanos::ZERO), AtomicBool::new(false));
        let (failed, told) = (Vec::new(), stop_after.map(|waits| (&stop, waits)));
        let mut device = Mute { clock: clock.clone(), errors, failed, stop: told };
        let end = final_pass(&mut device, &clock, &mut verifier, &stop, &mut |_| {});
        (end, clock.now())
    }

    #[test]
    fn a_device_that_answers_nothing_is_given_up() {
        for errors in [0, 1] {
            let (end, at) = pass(errors, None);
            assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!(at > Nanos::from_secs(120) && at < Nanos::from_secs(121), "{at}");
        }
    }

    #[test]
    fn a_pass_ends_when_it_is_told_to_even_if_nothing_is_answered() {
        for errors in [0, 1] {
            let (end, at) = pass(errors, Some(3));
            assert!(end.unwrap().stopped);
            assert_eq!(at, Nanos::from_millis(300));
        }
    }
}
