//! The seam below the engine: whatever can take requests and complete them.
//!
//! The engine must not know whether it drives io_uring, threads or a simulation, so that tests in
//! simulation hold for all. So all I/O goes through [`Device`].

use std::io;

use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

/// What a target can take, as far as a request is planned by it.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// How many bytes it holds.
    pub capacity: Bytes,
    /// Offsets and lengths must be multiples of this.
    pub block_size: Bytes,
    /// The largest request that can be issued to it.
    pub length_max: Bytes,
    /// The operations it can do, indexed by the operation's code.
    pub supports: [bool; Op::ALL.len()],
}

impl TargetLimits {
    /// The limits of a device.
    pub fn of(device: &dyn Device) -> Self {
        Self {
            capacity: device.capacity(),
            block_size: device.block_size(),
            length_max: device.length_max(),
            supports: Op::ALL.map(|op| device.supports(op)),
        }
    }
}

/// A request as a device is asked for it: positions are those of the target, already wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Names the request in its completion. Unique among the requests in flight, and smaller than
    /// the cap on requests in flight that the device was opened with.
    pub tag: u32,
    /// The request's number in the replay. It identifies the draft of a write, and is part of the
    /// written payload.
    pub request: u64,
    /// When it is due, counted from the start of the replay; part of the written payload.
    pub scheduled: Nanos,
    /// What to do.
    pub op: Op,
    /// FUA and PREFLUSH are honoured; the others inform.
    pub flags: Flags,
    /// Where on the target; zero for a flush.
    pub offset: Bytes,
    /// How much; zero for a flush.
    pub length: Bytes,
}

impl Io {
    /// Whether its first step on the device is a flush.
    pub const fn begins_with_flush(&self) -> bool {
        match self.op {
            Op::Flush => true,
            Op::Write => self.flags.contains(Flags::PREFLUSH),
            _ => false,
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's tag.
    pub tag: u32,
    /// When it was handed to the kernel: just before the system call that carried it.
    pub submitted: Nanos,
    /// When its completion was seen.
    pub completed: Nanos,
    /// [`Outcome::Ok`], [`Outcome::Error`], [`Outcome::Short`] or [`Outcome::Unsupported`].
    pub outcome: Outcome,
    /// What verification found: [`Integrity::Unchecked`] when it comes from the device.
    pub integrity: Integrity,
}

/// Writes the payload of a write into the device's own buffer, which is `length` bytes long.
pub trait Payload {
    /// Fills `buffer` with the payload of the request `io` from its byte `from` on. The place on
    /// the target where it begins is a multiple of [`PAYLOAD_BLOCK`], unless `from` is zero.
    fn fill_from(&mut self, io: &Io, from: usize, buffer: &mut [u8]);

    /// Fills `buffer` with the payload of the request `io`.
    fn fill(&mut self, io: &Io, buffer: &mut [u8]) {
        self.fill_from(io, 0, buffer);
    }
}

/// Parts of a payload begin at multiples of so many bytes on the target.
pub const PAYLOAD_BLOCK: u64 = 4096;

/// Something that takes requests and completes them, used by one thread.
///
/// All instants are of the clock that the engine runs on. Requests are prepared one by one and
/// handed down together by [`Device::submit`]; between the two they count as not in flight.
///
/// Implementations: io_uring, AIO and threads (crate `linux`), the simulated device
/// ([`crate::sim`]).
pub trait Device {
    /// How many bytes the target holds. Never changes.
    fn capacity(&self) -> Bytes;

    /// Offsets and lengths must be multiples of this many bytes.
    fn block_size(&self) -> Bytes;

    /// The largest request that this device takes.
    fn length_max(&self) -> Bytes;

    /// Whether the device can do `op` at all. A request for an operation that it cannot do is never
    /// prepared.
    fn supports(&self, op: Op) -> bool;

    /// Makes the payload of a write before it is due, so that then only the system call is left to
    /// do: up to its byte `until`, from where the last draft of a request of the same number ended.
    /// The draft is used when that request is prepared, which makes the rest, or dropped by
    /// [`Device::forget`]. Returns `false` if there is no room for another draft, or the device
    /// keeps none: the payload is then made in [`Device::prepare`].
    fn draft(&mut self, io: &Io, until: Bytes, payload: &mut dyn Payload) -> bool {
        let _ = (io, until, payload);
        false
    }

    /// Gives up the draft of the request of this number, if there is one.
    fn forget(&mut self, request: u64) {
        let _ = request;
    }

    /// Announces that a request that begins with a flush will be due at `due`, so that a thread of
    /// the device can be awake then. `near` is how long before a deadline the engine itself stops
    /// sleeping. Each such request is announced once, in the order of `due`; it may then come later
    /// than announced, or never.
    fn expect(&mut self, due: Nanos, near: Nanos) {
        let _ = (due, near);
    }

    /// Switches whether the data of a read is kept from its completion until [`Device::release`].
    /// Off at first.
    fn keep_data(&mut self, keep: bool) {
        let _ = keep;
    }

    /// The data of a completed read, in its full length; the missing part of a short transfer is
    /// undefined. Empty if no data is kept.
    fn data(&mut self, tag: u32) -> &[u8] {
        let _ = tag;
        &[]
    }

    /// Releases the buffer of a completed request. If data is kept, its tag may be reused only
    /// after this.
    fn release(&mut self, tag: u32) {
        let _ = tag;
    }

    /// Queues one request. For a write without a draft, `payload` fills the buffer.
    ///
    /// The caller keeps the request inside the capacity, aligned, no longer than the largest, and
    /// prepares no more requests than the device was opened for.
    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload);

    /// Asks the device to serve the one request that is prepared within the next
    /// [`Device::submit`], because nothing else can fall due until it has completed. Returns
    /// `false` if it does not.
    fn serves_next(&mut self) -> bool {
        false
    }

    /// How long the last [`Device::submit`] served requests itself, by its own choice and although
    /// it has threads for them. What it was to hand over meanwhile is late because of the replay,
    /// not because of the target.
    fn kept(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Hands all prepared requests to the target, without waiting for completions. Returns the
    /// instant of the hand-over, which completions have as `submitted`, and how many requests were
    /// handed over; the others stay prepared for the next call.
    ///
    /// An error is one of the whole device (the ring broke), not of a request.
    fn submit(&mut self) -> io::Result<(Nanos, usize)>;

    /// Appends the completions that are there to `completions`, without waiting.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Sleeps until a completion arrives or the clock reaches `until`, whichever is first, then
    /// reaps as [`Device::reap`]. May return early with nothing.
    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// How many requests it hands to the kernel at a time; more wait for one of those to complete.
    fn concurrency(&self) -> u32 {
        u32::MAX
    }

    /// Whether requests are served within [`Device::submit`]. The time that it takes is theirs
    /// then, and no delay of handing them over.
    fn is_inline(&self) -> bool {
        false
    }

    /// One line for the run's facts: the back end and its options.
    fn describe(&self) -> String;
}
