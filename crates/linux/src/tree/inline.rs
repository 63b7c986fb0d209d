//! Devices whose calls are made where the engine hands them over.
//!
//! A call on names takes less time than to wake another thread. So the engine's own thread makes
//! it, one at a time, and its completion is there when it has been handed over.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd as _, OwnedFd};

use ioecho_replay::clock::Clock as _;
use ioecho_replay::{Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};

use crate::MonotonicClock;

/// Buffers begin at multiples of so many bytes, as direct I/O needs.
pub(super) const ALIGNMENT: usize = 4096;

/// Room for the names that one call reads, as the C library gives it.
const NAMES_BYTES: usize = 32 << 10;

/// What calls are made on.
pub trait Calls: Send {
    /// The bytes of the volume that requests lie in.
    fn capacity(&self) -> Bytes;

    /// The longest read or write.
    fn length_max(&self) -> Bytes;

    /// Whether there is a call for an operation.
    fn supports(&self, op: Op) -> bool;

    /// Makes a call. What it writes or reads lies in the buffer.
    fn call(&mut self, io: &Io, buffer: &mut Buffer) -> Outcome;

    /// What it is, in a few words.
    fn describe(&self) -> &'static str;
}

/// A device that makes calls.
pub struct Inline<C> {
    calls: C,
    clock: MonotonicClock,
    buffer: Buffer,
    prepared: Option<Io>,
    done: Option<Completion>,
    /// How much of the buffer the last read has filled.
    read: usize,
}

impl<C: Calls> Inline<C> {
    /// A device with room for the data of a call, which grows where a longer one comes.
    pub(super) fn over(calls: C, room_bytes: usize, clock: MonotonicClock) -> Self {
        let buffer = Buffer::new(room_bytes);
        Self { calls, clock, buffer, prepared: None, done: None, read: 0 }
    }
}

impl<C: Calls> Device for Inline<C> {
    fn capacity(&self) -> Bytes {
        self.calls.capacity()
    }

    fn block_size(&self) -> Bytes {
        Bytes(1)
    }

    fn length_max(&self) -> Bytes {
        self.calls.length_max()
    }

    fn supports(&self, op: Op) -> bool {
        self.calls.supports(op)
    }

    // There is one call at a time, and the buffer keeps its data until the next.
    fn data(&mut self, _: u32) -> &[u8] {
        let read = self.read;
        self.buffer.part(read)
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let length = io.length.0 as usize;
        self.read = if io.op == Op::Read { length } else { 0 };
        if matches!(io.op, Op::Read | Op::Write) {
            self.buffer.make_room(length);
        }
        if io.op == Op::Write {
            payload.fill(io, self.buffer.part(length.next_multiple_of(ALIGNMENT)));
        }
        self.prepared = Some(*io);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let submitted = self.clock.now();
        let Some(io) = self.prepared.take() else { return Ok((submitted, 0)) };
        let outcome = self.calls.call(&io, &mut self.buffer);
        let completed = self.clock.now();
        let integrity = Integrity::Unchecked;
        self.done = Some(Completion { tag: io.tag, submitted, completed, outcome, integrity });
        Ok((submitted, 1))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.extend(self.done.take());
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.done.is_none() {
            self.clock.sleep_until(until);
        }
        self.reap(completions)
    }

    fn concurrency(&self) -> u32 {
        1
    }

    fn is_inline(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        self.calls.describe().to_owned()
    }
}

/// Memory that begins at a multiple of [`ALIGNMENT`].
pub struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    /// Empty: the kernel writes names behind its end.
    names: Vec<u8>,
}

impl Buffer {
    pub(super) fn new(room_bytes: usize) -> Self {
        let bytes = vec![0; room_bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, from, names: Vec::new() }
    }

    /// The first bytes of it.
    pub(super) fn part(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + length]
    }

    /// Room for the names that one call reads. The first that asks allocates it.
    pub(super) fn names(&mut self) -> &mut [MaybeUninit<u8>] {
        self.names.reserve(NAMES_BYTES);
        self.names.spare_capacity_mut()
    }

    /// Whether it holds more than so many bytes.
    pub(super) fn is_longer(&self, length: usize) -> bool {
        self.bytes.len() > length.next_multiple_of(ALIGNMENT) + ALIGNMENT
    }

    /// Makes room for so many bytes, and forgets those that it holds where it must.
    pub(super) fn make_room(&mut self, length: usize) {
        let length = length.next_multiple_of(ALIGNMENT);
        if length + ALIGNMENT > self.bytes.len() {
            *self = Self::new(length);
        }
    }
}

/// The smallest block that anything is read in past the page cache.
const BLOCK: usize = 512;

/// Reads or writes all that a request asks for, from a place of a file on. What goes past the page
/// cache is read to the end of a block: where the file ends within it, a program asked for that
/// and got what is recorded.
pub(super) fn transfer(
    open: &OwnedFd,
    io: &Io,
    (begin, is_direct): (u64, bool),
    buffer: &mut Buffer,
) -> Result<Outcome, Errno> {
    let length = io.length.0 as usize;
    let asked = match io.op {
        Op::Read if is_direct && !length.is_multiple_of(BLOCK) => {
            length.next_multiple_of(ALIGNMENT)
        }
        _ => length,
    };
    let mut done = 0;
    while done < length {
        let part = &mut buffer.part(asked)[done..];
        let at = begin + done as u64;
        let moved = retry_on_intr(|| match io.op {
            Op::Write if io.flags.contains(Flags::FUA) => {
                pwritev2(open, &[IoSlice::new(part)], at, ReadWriteFlags::DSYNC)
            }
            Op::Write => pwrite(open, &*part, at),
            _ => pread(open, &mut *part, at),
        })?;
        if moved == 0 {
            return Ok(Outcome::Short);
        }
        done += moved;
    }
    Ok(Outcome::Ok)
}

/// Closes a file. Dropping it would hide the error by which a file system tells that it has lost
/// what was written.
pub(super) fn close_told(open: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is owned here alone, and given up by `into_raw_fd`.
    match unsafe { libc::close(open.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
