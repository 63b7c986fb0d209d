//! Memory for the data of requests.
//!
//! Direct I/O wants aligned memory, and a page that is touched for the first time inside a measured
//! request costs a fault that the device is then blamed for. So buffers are made beforehand,
//! touched when they are made, and used again; after the first round nothing is allocated.
//!
//! Thousands of large requests in flight can ask for more than the host has. A pool takes a bounded
//! amount beyond its own memory, which is counted, and then no more: a request without a buffer
//! fails, before the host swaps or the kernel kills some process.

use std::fmt::Write;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use ioecho_trace::Bytes;
use ioecho_trace::units::{counted, times};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::facts::memory_available;

/// The smallest buffer: one page, which is also the strictest alignment that devices ask for.
const SMALLEST: usize = 4096;

/// The largest buffer, and so the largest request that moves data: 64 MiB.
pub const BUFFER_MAX: usize = 64 << 20;

/// How much memory a device keeps for buffers unless told otherwise: 512 MiB.
pub const BUFFER_MEMORY: Bytes = Bytes(512 << 20);

/// Sizes from [`SMALLEST`] to [`BUFFER_MAX`] by powers of two.
const CLASSES: usize = (BUFFER_MAX / SMALLEST).trailing_zeros() as usize + 1;

/// Beyond its memory a pool takes so many times as much.
const PASSING_FACTOR: usize = 3;

/// A pool with little memory takes at least so much beyond it, where the host has it: 64 MiB.
const PASSING_MIN: usize = 64 << 20;

/// What is asked of the kernel at once, where buffers are smaller.
pub(super) const CHUNK: usize = 256 << 10;

/// The largest buffer that a new pool makes beforehand, and how many of each size.
const WARM_SIZE: usize = 128 << 10;
const WARM_COUNT: usize = 64;

/// Registers memory with the kernel that will be used again and again.
///
/// A pool asks for whole chunks: few large pieces are told once, and the buffers are cut from them.
pub(super) trait Register {
    /// Answers the number under which the kernel knows the memory; none where it is not told.
    ///
    /// The memory stays mapped until the pool and all its buffers are gone.
    fn register(&mut self, address: *mut u8, length: usize) -> Option<u16> {
        let _ = (address, length);
        None
    }
}

/// Registers nothing.
#[cfg(test)]
impl Register for () {}

/// A mapping that one or several buffers lie in; unmapped when the last of them is gone.
#[derive(Debug)]
struct Chunk {
    address: NonNull<u8>,
    length: usize,
    /// The number under which the kernel knows it.
    registered: Option<u16>,
    /// Made for one request beyond the memory, and gone with it.
    is_passing: bool,
}

// SAFETY: a chunk is only an address range that it owns; it never reads or writes it. Whoever does
// (`Buffer`) owns its part of it alone.
unsafe impl Send for Chunk {}
// SAFETY: as above, and nothing can be done with a shared chunk but to read its fields.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// So many bytes; none where the kernel has no more.
    fn new(length: usize) -> Option<Self> {
        // SAFETY: no address is asked for, so no mapping that exists is touched. The flags make
        // private anonymous memory, and POPULATE touches all of it now.
        let answer = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )
        };
        let address = NonNull::new(answer.ok()?.cast::<u8>())?;
        Some(Self { address, length, registered: None, is_passing: false })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and no buffer lies in it any more, or the chunk
        // would not be dropped. Nothing sensible can be done if the kernel refuses.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// A piece of memory that belongs to one request, aligned to 4096 bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    chunk: Arc<Chunk>,
    offset: usize,
    size: usize,
}

impl Buffer {
    /// Where it begins, for the kernel.
    pub(super) fn address(&mut self) -> *mut u8 {
        // SAFETY: `offset` plus `size` is within the chunk, as the pool cut it.
        unsafe { self.chunk.address.as_ptr().add(self.offset) }
    }

    /// How many bytes it has room for.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// The number under which the kernel knows the memory that it lies in.
    pub(super) fn registered(&self) -> Option<u16> {
        self.chunk.registered
    }

    /// Its first `length` bytes, for reading.
    pub(super) fn data(&self, length: usize) -> &[u8] {
        assert!(length <= self.size, "a request is larger than its buffer");
        // SAFETY: as in `bytes`; and while the buffer is here no request uses it, so that nothing
        // writes to it.
        unsafe {
            let address = self.chunk.address.as_ptr().add(self.offset);
            std::slice::from_raw_parts(address, length)
        }
    }

    /// Its first `length` bytes.
    pub(super) fn bytes(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.size, "a request is larger than its buffer");
        let address = self.address();
        // SAFETY: the range is inside the chunk, was zeroed by the kernel when it was mapped, lives
        // as long as this buffer, and no other buffer overlaps it.
        unsafe { std::slice::from_raw_parts_mut(address, length) }
    }
}

/// Buffers by size, made on demand.
#[derive(Debug)]
pub(super) struct Pool {
    free: [Vec<Buffer>; CLASSES],
    made: [usize; CLASSES],
    memory: usize,
    memory_max: usize,
    /// Bytes taken beyond the memory, and how many may be.
    passing: usize,
    passing_max: usize,
    over: u64,
    refused: u64,
}

impl Pool {
    /// A pool that keeps up to `memory_max` bytes. `in_flight_max` bounds what it makes beforehand.
    pub(super) fn new(
        memory_max: usize,
        in_flight_max: usize,
        register: &mut impl Register,
    ) -> Self {
        let mut pool = Self {
            free: [const { Vec::new() }; CLASSES],
            made: [0; CLASSES],
            memory: 0,
            memory_max,
            passing: 0,
            passing_max: passing_max(memory_max, memory_available()),
            over: 0,
            refused: 0,
        };
        for class in 0..=class_of(WARM_SIZE) {
            let size = size_of_class(class);
            let length = (size * WARM_COUNT.min(in_flight_max)).next_multiple_of(CHUNK);
            // A small memory is not filled with buffers that may never be needed.
            if in_flight_max > 0 && pool.memory + length <= memory_max / 2 {
                pool.grow(class, length, register);
            }
        }
        pool
    }

    /// The largest request: so that eight of them fit into the memory, but no more than
    /// [`BUFFER_MAX`].
    pub(super) fn length_max(&self) -> usize {
        let share = (self.memory_max / 8).max(SMALLEST);
        (1 << share.ilog2()).min(BUFFER_MAX)
    }

    /// How large the buffer for so many bytes is.
    pub(super) fn size_for(length: usize) -> usize {
        size_of_class(class_of(length))
    }

    /// A buffer of at least `length` bytes: a free one of its size, a new one while the memory
    /// lasts, a free one of a larger size, or at last a new one beyond the memory, which is counted
    /// and does not stay. None where that is used up too.
    pub(super) fn take(&mut self, length: usize, register: &mut impl Register) -> Option<Buffer> {
        if let Some(buffer) = self.take_within(length, register) {
            return Some(buffer);
        }
        let class = class_of(length);
        if let Some(buffer) = self.free[class..].iter_mut().find_map(Vec::pop) {
            return Some(buffer);
        }
        let size = size_of_class(class);
        let is_room = self.passing + size <= self.passing_max;
        let Some(mut chunk) = is_room.then(|| Chunk::new(size)).flatten() else {
            self.refused += 1;
            return None;
        };
        self.over += 1;
        self.passing += size;
        chunk.is_passing = true;
        Some(Buffer { chunk: Arc::new(chunk), offset: 0, size })
    }

    /// A buffer of at least `length` bytes of its own size, as long as the memory lasts.
    pub(super) fn take_within(
        &mut self,
        length: usize,
        register: &mut impl Register,
    ) -> Option<Buffer> {
        let class = class_of(length);
        if self.free[class].is_empty() {
            let size = size_of_class(class);
            let room = self.memory_max.saturating_sub(self.memory);
            if size > room {
                return None;
            }
            let length = if size < CHUNK && room >= CHUNK { CHUNK } else { size };
            if !self.grow(class, length, register) {
                return None;
            }
        }
        self.free[class].pop()
    }

    /// Takes back a buffer.
    pub(super) fn give(&mut self, buffer: Buffer) {
        if buffer.chunk.is_passing {
            self.passing -= buffer.size;
        } else {
            self.free[class_of(buffer.size)].push(buffer);
        }
    }

    /// How much memory there is and how often it did not suffice, for the run's facts.
    pub(super) fn describe(&self) -> String {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let mut text = format!("buffers {} of {} MiB", mib(self.memory), mib(self.memory_max));
        if self.over > 0 {
            let _ = write!(text, ", {} more was needed and allocated late", times(self.over));
        }
        if self.refused > 0 {
            let most = mib(self.memory_max + self.passing_max);
            let _ = write!(
                text,
                ", {} failed (ENOMEM) because {most} MiB were in use for others; fewer in flight \
                 need less",
                counted(self.refused, "request")
            );
        }
        text
    }

    /// Makes `length` bytes of buffers of a size; answers whether the kernel had so much.
    fn grow(&mut self, class: usize, length: usize, register: &mut impl Register) -> bool {
        let size = size_of_class(class);
        let Some(mut chunk) = Chunk::new(length) else { return false };
        chunk.registered = register.register(chunk.address.as_ptr(), length);
        let chunk = Arc::new(chunk);
        self.memory += length;
        self.made[class] += length / size;
        let free = &mut self.free[class];
        // Room for all that can come back, so that giving back never allocates.
        free.reserve(self.made[class] - free.len());
        free.extend((0..length).step_by(size).map(|offset| Buffer {
            chunk: Arc::clone(&chunk),
            offset,
            size,
        }));
        true
    }
}

/// How much a pool may take beyond its memory: with it, no more than half of what the host has
/// `available`.
fn passing_max(memory_max: usize, available: Option<usize>) -> usize {
    let most = memory_max.saturating_mul(PASSING_FACTOR).max(PASSING_MIN);
    available.map_or(most, |bytes| most.min((bytes / 2).saturating_sub(memory_max)))
}

const fn size_of_class(class: usize) -> usize {
    SMALLEST << class
}

fn class_of(length: usize) -> usize {
    assert!(length <= BUFFER_MAX, "a request is larger than the device's largest");
    (length.max(SMALLEST).next_power_of_two() / SMALLEST).trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_do_not_overlap() {
        let mut pool = Pool::new(8 << 20, 4, &mut ());
        let mut buffers: Vec<Buffer> =
            (0..200).map(|_| pool.take(4096, &mut ()).unwrap()).collect();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.address() as usize % 4096, 0);
            assert!(buffer.bytes(4096).iter().all(|byte| *byte == 0));
            buffer.bytes(4096).fill(number as u8);
        }
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert!(buffer.bytes(4096).iter().all(|byte| *byte == number as u8));
        }
    }

    #[test]
    fn a_buffer_given_back_is_used_again() {
        let mut pool = Pool::new(64 << 20, 1, &mut ());
        let before = pool.take(5000, &mut ()).unwrap();
        let (address, memory) = (before.offset, pool.memory);
        pool.give(before);
        assert_eq!(pool.take(8192, &mut ()).unwrap().offset, address);
        assert_eq!(pool.memory, memory);
    }

    #[test]
    fn sizes_are_rounded_up_to_powers_of_two() {
        assert_eq!(class_of(1), 0);
        assert_eq!(class_of(4096), 0);
        assert_eq!(class_of(4097), 1);
        assert_eq!(class_of(BUFFER_MAX), CLASSES - 1);
    }

    #[test]
    fn memory_beyond_the_cap_is_given_counted_and_not_kept() {
        let mut pool = Pool::new(1 << 20, 0, &mut ());
        let held: Vec<Buffer> = (0..4).map(|_| pool.take(1 << 20, &mut ()).unwrap()).collect();
        assert_eq!(pool.over, 3);
        for buffer in held {
            pool.give(buffer);
        }
        assert_eq!(pool.free[class_of(1 << 20)].len(), 1);
        assert!(pool.describe().contains("3 times more was needed and allocated late"));
    }

    #[test]
    fn beyond_the_last_of_the_memory_there_is_none_until_some_comes_back() {
        let mut pool = Pool::new(1 << 20, 0, &mut ());
        pool.passing_max = 2 << 20;
        let mut held: Vec<Buffer> = (0..3).map(|_| pool.take(1 << 20, &mut ()).unwrap()).collect();
        assert!(pool.take(1 << 20, &mut ()).is_none());
        assert!(pool.take(4096, &mut ()).is_none(), "a small one has no place either");
        assert!(pool.describe().contains("2 requests failed (ENOMEM) because 3 MiB"));
        pool.give(held.pop().unwrap());
        assert!(pool.take(1 << 20, &mut ()).is_some());
    }

    #[test]
    fn what_is_taken_beyond_the_memory_is_bounded_by_it_and_by_the_host() {
        let mib = |count: usize| count << 20;
        assert_eq!(passing_max(mib(512), Some(mib(100_000))), mib(1536));
        assert_eq!(passing_max(mib(512), None), mib(1536));
        assert_eq!(passing_max(mib(512), Some(mib(2048))), mib(512), "half of what there is");
        assert_eq!(passing_max(mib(512), Some(mib(1000))), 0);
        assert_eq!(passing_max(mib(1), Some(mib(100_000))), PASSING_MIN);
    }

    #[test]
    fn memory_is_told_to_the_kernel_in_chunks_and_what_passes_is_not() {
        struct Counted(u16);
        impl Register for Counted {
            fn register(&mut self, _: *mut u8, length: usize) -> Option<u16> {
                assert!(length >= CHUNK);
                self.0 += 1;
                Some(self.0 - 1)
            }
        }
        let mut register = Counted(0);
        let mut pool = Pool::new(2 * CHUNK, 0, &mut register);
        let buffers: Vec<Buffer> = (0..=CHUNK / SMALLEST * 2)
            .map(|_| pool.take(SMALLEST, &mut register).unwrap())
            .collect();
        assert_eq!(register.0, 2);
        assert_eq!(buffers[0].registered(), Some(0));
        assert_eq!(buffers[CHUNK / SMALLEST].registered(), Some(1));
        assert_eq!(buffers[CHUNK / SMALLEST * 2].registered(), None);
    }

    #[test]
    fn a_larger_free_buffer_serves_when_the_memory_is_used_up() {
        let mut pool = Pool::new(1 << 20, 0, &mut ());
        let large = pool.take(1 << 20, &mut ()).unwrap();
        pool.give(large);
        let small = pool.take(4096, &mut ()).unwrap();
        assert_eq!(small.size, 1 << 20);
        assert_eq!(pool.over, 0);
    }

    #[test]
    fn the_largest_request_follows_from_the_memory() {
        assert_eq!(Pool::new(BUFFER_MEMORY.0 as usize, 0, &mut ()).length_max(), BUFFER_MAX);
        assert_eq!(Pool::new(8 << 20, 0, &mut ()).length_max(), 1 << 20);
    }
}
