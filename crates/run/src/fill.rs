//! Filling a target: large writes upwards through the device, flushed span by span.
//!
//! A fill takes hours on a large target, so it must be possible to interrupt it at any moment and
//! to continue later without reading the existing data. That requires a strict order: no part of a
//! span is written before everything below it is on stable storage ([`ioecho_replay::fill`]).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_linux::target::BlockReader;
use ioecho_linux::{OpenedTarget, TargetError};
use ioecho_replay::fill::{BLOCK, Extent, FillPayload, fill_run, seed_of};
use ioecho_replay::pattern::{SplitMix64, read_stamp};
use ioecho_replay::{Clock, Completion, Device, Io};
use ioecho_trace::units::SECTOR;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

use crate::error::{Kind, Result, RunError};

/// Writes in flight: enough for the queue of a disk array, few enough to be fair to others.
pub const DEPTH: u32 = 8;

/// The longest wait for completions before the wish to stop is checked.
const NAP: Nanos = Nanos::from_millis(100);

/// Blocks that are checked before an earlier fill is trusted.
const SPOT_CHECKS: usize = 64;

/// The parameters of a fill.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The part of the target to be filled.
    pub extent: &'a Extent,
    /// Where it begins.
    pub from: u64,
    /// The seed of the fill's number.
    pub seed: u64,
    /// The largest write in bytes.
    pub bundle: u64,
}

/// The result of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Bytes written.
    pub bytes: u64,
    /// Whether everything was written.
    pub complete: bool,
}

/// A fill in progress.
struct Filler<'a> {
    device: &'a mut dyn Device,
    payload: FillPayload,
    free: Vec<u32>,
    /// The start and length of each write in flight, by tag.
    flying: [(u64, u64); DEPTH as usize],
    unsubmitted: usize,
    completions: Vec<Completion>,
    written: u64,
    failed: Option<(u64, Outcome)>,
}

/// Fills and flushes the target, and reports the written bytes after each wait. It ends early, with
/// everything in flight completed and flushed, when `stop` is set.
pub fn fill(
    job: Job<'_>,
    device: &mut dyn Device,
    clock: &impl Clock,
    stop: &AtomicBool,
    mut progress: impl FnMut(u64),
) -> Result<Filled> {
    let mut filler = Filler {
        payload: FillPayload::new(fill_run(job.seed)),
        free: (0..DEPTH).collect(),
        flying: [(0, 0); DEPTH as usize],
        unsubmitted: 0,
        completions: Vec::with_capacity(DEPTH as usize),
        written: 0,
        failed: None,
        device,
    };
    let mut position = job.from;
    while let Some(next) = job.extent.next(position)
        && !stop.load(Relaxed)
    {
        let span = next / job.extent.span();
        loop {
            let piece = job.extent.piece(position, job.bundle);
            let wanted = piece.filter(|(start, _)| start / job.extent.span() == span);
            let may = filler.failed.is_none() && !stop.load(Relaxed);
            match wanted.filter(|_| may) {
                Some((start, length)) if !filler.free.is_empty() => {
                    filler.write(start, length);
                    position = start + length;
                }
                None if filler.is_idle() => break,
                _ => {
                    filler.advance(clock)?;
                    progress(filler.written);
                }
            }
        }
        filler.flush(clock)?;
        filler.fail()?;
    }
    Ok(Filled { bytes: filler.written, complete: job.extent.next(position).is_none() })
}

impl Filler<'_> {
    fn is_idle(&self) -> bool {
        self.free.len() == DEPTH as usize
    }

    fn write(&mut self, offset: u64, length: u64) {
        self.prepare(Op::Write, offset, length);
    }

    fn prepare(&mut self, op: Op, offset: u64, length: u64) {
        let Some(tag) = self.free.pop() else { return };
        self.flying[tag as usize] = (offset, length);
        let io = Io {
            tag,
            request: offset / BLOCK,
            scheduled: Nanos::ZERO,
            op,
            flags: Flags::empty(),
            offset: Bytes(offset),
            length: Bytes(length),
        };
        self.device.prepare(&io, &mut self.payload);
        self.unsubmitted += 1;
    }

    /// Issues prepared writes and handles completions.
    fn advance(&mut self, clock: &impl Clock) -> Result<()> {
        let broken = |error: io::Error| {
            RunError::new(Kind::Target, format!("the device failed while it was filled: {error}"))
        };
        if self.unsubmitted > 0 {
            let (_, taken) = self.device.submit().map_err(broken)?;
            self.unsubmitted -= taken;
        }
        self.device.wait(clock.now() + NAP, &mut self.completions).map_err(broken)?;
        for completion in self.completions.drain(..) {
            let (offset, length) = self.flying[completion.tag as usize];
            self.free.push(completion.tag);
            match completion.outcome {
                Outcome::Ok => self.written += length,
                outcome => self.failed = self.failed.or(Some((offset, outcome))),
            }
        }
        Ok(())
    }

    /// Flushes everything written to stable storage.
    fn flush(&mut self, clock: &impl Clock) -> Result<()> {
        self.prepare(Op::Flush, 0, 0);
        while !self.is_idle() {
            self.advance(clock)?;
        }
        Ok(())
    }

    fn fail(&self) -> Result<()> {
        let Some((offset, outcome)) = self.failed else { return Ok(()) };
        let why = match outcome {
            Outcome::Error(number) => io::Error::from_raw_os_error(number).to_string(),
            Outcome::Short => "only a part was written".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        };
        let help = Wording::from("what lies below is filled; go on with ")
            .setting("resume")
            .text(" when the cause is gone");
        Err(RunError::with_help(
            Kind::Target,
            format!("writing at byte {offset} failed: {why}"),
            help,
        ))
    }
}

/// Finds out which fill the target holds and where it was interrupted. Returns its seed and the
/// position to continue from, which is the target's size if the fill is complete.
pub fn resume(target: &OpenedTarget, extent: &Extent, seed: Option<u64>) -> Result<(u64, u64)> {
    let facts = target.facts();
    let name = facts.path.display();
    let anew = || Wording::from("begin anew without ").setting("resume");
    let unit = facts.logical_block.0.max(BLOCK);
    let unreadable = |error: io::Error| TargetError::System {
        path: facts.path.clone(),
        action: "read it",
        source: error,
    };
    let mut reader = BlockReader::new(target, unit as usize).map_err(unreadable)?;
    let Some(first) = extent.next(0) else { return Ok((seed.unwrap_or(0), facts.capacity.0)) };
    let sector = reader.read(first).map_err(unreadable)?.get(..SECTOR as usize);
    let stamp = sector.and_then(read_stamp).filter(|stamp| stamp.position == first);
    let Some(found) = stamp.and_then(|stamp| seed_of(stamp.run)) else {
        let text = format!(
            "{name} does not begin with what a fill of ioecho wrote: there is nothing to go on with"
        );
        return Err(RunError::with_help(Kind::Target, text, anew()));
    };
    if let Some(seed) = seed.filter(|seed| fill_run(*seed) != fill_run(found)) {
        let text = format!("{name} was being filled with the seed {found}, not {seed}");
        let help = Wording::from("leave ").setting("seed").text(" away, or ").and(anew());
        return Err(RunError::with_help(Kind::Usage, text, help));
    }
    let run = fill_run(found);
    let mut is_there = |at: u64| -> Result<bool> {
        // An unreadable block counts as not filled.
        let Ok(block) = reader.read(at) else { return Ok(false) };
        Ok((at..).step_by(SECTOR as usize).zip(block.chunks(SECTOR as usize)).all(
            |(position, sector)| {
                read_stamp(sector)
                    .is_some_and(|stamp| stamp.run == run && stamp.position == position)
            },
        ))
    };
    let from = extent.resume(&mut is_there)?;
    let mut random = SplitMix64(run);
    for _ in 0..SPOT_CHECKS {
        let at = extent.next(random.below(from.max(1))).filter(|at| *at < from);
        if let Some(at) = at
            && !is_there(at)?
        {
            let text = format!(
                "{name} was written to since it was filled: byte {at} holds something else"
            );
            return Err(RunError::with_help(Kind::Target, text, anew()));
        }
    }
    Ok((found, from))
}
