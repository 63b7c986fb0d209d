//! Linux AIO as the kernel defines it.
//!
//! libaio would be a library to install for four system calls. They and their structures are here
//! (`include/uapi/linux/aio_abi.h`, `fs/aio.c`), behind a value that cannot be misused: control
//! blocks live as long as the context, and a request is named by a number.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{SYS_io_destroy, SYS_io_getevents, SYS_io_setup, SYS_io_submit, c_long, syscall};
use rustix::io::Errno;

/// `IOCB_CMD_PREAD`, `IOCB_CMD_PWRITE`, `IOCB_CMD_FDSYNC` and `IOCB_CMD_POLL`.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FDSYNC: u16 = 3;
const POLL: u16 = 5;

/// `RWF_DSYNC` (`include/uapi/linux/fs.h`).
const RWF_DSYNC: i32 = 0x2;

/// `AIO_RING_MAGIC` (`fs/aio.c`).
const RING_MAGIC: u32 = 0xa10a_10a1;

/// Completions that one system call fetches at most, where the ring cannot be read.
const EVENTS: usize = 256;

/// `struct iocb`: the request. The kernel copies it when it accepts it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

impl Block {
    /// Reads `length` bytes at `offset` of the file.
    pub(super) fn read(file: i32, buffer: *mut u8, length: u64, offset: u64) -> Self {
        let buffer = buffer as u64;
        let (file, offset) = (file as u32, offset as i64);
        Self { opcode: PREAD, file, buffer, length, offset, ..Self::default() }
    }

    /// Writes `length` bytes at `offset` of the file; if `durable`, through the device's cache.
    pub(super) fn write(
        file: i32,
        buffer: *mut u8,
        length: u64,
        offset: u64,
        durable: bool,
    ) -> Self {
        let rw_flags = if durable { RWF_DSYNC } else { 0 };
        Self { opcode: PWRITE, rw_flags, ..Self::read(file, buffer, length, offset) }
    }

    /// Flushes what was written to the file.
    pub(super) fn flush(file: i32) -> Self {
        Self { opcode: FDSYNC, file: file as u32, ..Self::default() }
    }

    /// Completes once when the file can be read from.
    pub(super) fn readable(file: i32) -> Self {
        let buffer = libc::POLLIN as u64;
        Self { opcode: POLL, file: file as u32, buffer, ..Self::default() }
    }
}

/// `struct io_event`: the completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

impl Event {
    /// The number of the request.
    pub(super) const fn number(&self) -> usize {
        self.data as usize
    }

    /// A number of bytes, or an error number below zero.
    pub(super) const fn result(&self) -> i32 {
        self.result as i32
    }
}

/// `struct aio_ring`: the head of the completions that the kernel maps into this process. The name
/// of a context is the address of its ring.
#[repr(C)]
struct Ring {
    id: u32,
    places: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compatible: u32,
    incompatible: u32,
    header: u32,
}

/// A context and the control blocks of its requests, which are named by their place.
pub(super) struct Context {
    id: usize,
    /// Present where it is of the layout known here.
    ring: Option<NonNull<Ring>>,
    blocks: Box<[Block]>,
    queue: Vec<*mut Block>,
    events: Vec<Event>,
    is_left: bool,
}

// SAFETY: the pointers lead into `blocks`, which goes along, and to the ring, which is mapped into
// the whole process; nothing here is bound to a thread.
unsafe impl Send for Context {}

impl Context {
    /// For up to `count` requests in flight, whose numbers are below `count`.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let mut id = 0_usize;
        // SAFETY: the kernel writes the context's name, an `unsigned long`, which must be zero
        // before.
        check(unsafe { syscall(SYS_io_setup, count as c_long, &raw mut id) })?;
        let mut context = Self {
            id,
            ring: None,
            blocks: vec![Block::default(); count].into(),
            queue: Vec::with_capacity(count),
            events: vec![Event::default(); EVENTS.min(count)],
            is_left: false,
        };
        context.ring = context.known_ring();
        Ok(context)
    }

    /// The ring, if it is of the layout that `fs/aio.c` has had since Linux 2.6.
    fn known_ring(&self) -> Option<NonNull<Ring>> {
        let ring = NonNull::new(self.id as *mut Ring)?;
        // SAFETY: since there is Linux AIO the name of a context is the address where its ring
        // begins, mapped for reading and writing until the context is destroyed; libaio and fio
        // rely on it too.
        let header = unsafe { ring.as_ref() };
        let is_known = header.magic == RING_MAGIC
            && header.incompatible == 0
            && header.header as usize == size_of::<Ring>()
            && header.places > 0;
        is_known.then_some(ring)
    }

    /// As if its layout were unknown.
    #[cfg(test)]
    pub(super) const fn forget_ring(&mut self) {
        self.ring = None;
    }

    /// Whether completions are seen without a system call.
    pub(super) const fn reads_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Queues the request of this number.
    pub(super) fn prepare(&mut self, number: usize, block: Block) {
        self.blocks[number] = Block { data: number as u64, ..block };
        let block = &raw mut self.blocks[number];
        self.queue.push(block);
    }

    /// Whether something is queued.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the first queued request out and answers its number.
    pub(super) fn take_first(&mut self) -> usize {
        let block = self.queue.remove(0);
        // SAFETY: the pointer was made from a place of `blocks`, which never move.
        unsafe { (*block).data as usize }
    }

    /// Hands one request of this number to the kernel, past those that are queued.
    ///
    /// # Safety
    ///
    /// What the block points to stays valid until the request has completed.
    pub(super) unsafe fn submit_alone(&mut self, number: usize, block: Block) -> io::Result<()> {
        let mut block = Block { data: number as u64, ..block };
        let mut blocks = [&raw mut block];
        // SAFETY: the kernel reads one pointer and copies the control block behind it.
        check(unsafe { syscall(SYS_io_submit, self.id, 1, blocks.as_mut_ptr()) }).map(drop)
    }

    /// Hands the queued requests to the kernel, in order, and calls `taken` for each that it took.
    /// An error is one of the first that is still queued.
    ///
    /// # Safety
    ///
    /// What the blocks point to stays valid until the requests have completed.
    pub(super) unsafe fn submit(&mut self, mut taken: impl FnMut(usize)) -> io::Result<usize> {
        let (count, blocks) = (self.queue.len() as c_long, self.queue.as_mut_ptr());
        // SAFETY: the kernel reads `count` pointers, and the control blocks behind them, which
        // stand in `blocks`, and writes nothing but their keys.
        let answer = check(unsafe { syscall(SYS_io_submit, self.id, count, blocks) })?;
        for block in self.queue.drain(..answer) {
            // SAFETY: as above; the kernel is done with the block.
            taken(unsafe { (*block).data as usize });
        }
        Ok(answer)
    }

    /// Takes the completions that are there. It is a system call only where the ring is unknown.
    pub(super) fn reap(&mut self, take: impl FnMut(Event)) -> io::Result<()> {
        match self.ring {
            Some(ring) => {
                // SAFETY: `known_ring` has checked it, and it is mapped as long as the context is.
                unsafe { reap_ring(ring, take) };
                Ok(())
            }
            None => self.fetch(0, libc::timespec { tv_sec: 0, tv_nsec: 0 }, take),
        }
    }

    /// Sleeps until a completion is there or `left_ns` have passed, and takes what is there.
    pub(super) fn wait(&mut self, left_ns: i64, take: impl FnMut(Event)) -> io::Result<()> {
        let (tv_sec, tv_nsec) = (left_ns / 1_000_000_000, left_ns % 1_000_000_000);
        self.fetch(1, libc::timespec { tv_sec, tv_nsec }, take)
    }

    fn fetch(
        &mut self,
        least: c_long,
        mut timeout: libc::timespec,
        take: impl FnMut(Event),
    ) -> io::Result<()> {
        let most = self.events.len() as c_long;
        // SAFETY: the kernel writes up to `most` events, which `events` has room for, and reads the
        // time.
        let answer = check(unsafe {
            let events = self.events.as_mut_ptr();
            syscall(SYS_io_getevents, self.id, least, most, events, &raw mut timeout)
        });
        let count = match answer {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => 0,
            answer => answer?,
        };
        self.events.iter().take(count).copied().for_each(take);
        Ok(())
    }

    /// Leaves the context to the kernel, with its requests. What they point to must stay.
    pub(super) const fn leave(&mut self) {
        self.is_left = true;
    }
}

impl Drop for Context {
    /// Waits for the requests in flight, unless it was left to the kernel.
    fn drop(&mut self) {
        if !self.is_left {
            // SAFETY: the ring, which is unmapped now, is not used any more.
            let _ = unsafe { syscall(SYS_io_destroy, self.id) };
        }
    }
}

/// Takes what stands in the ring.
///
/// # Safety
///
/// The ring is mapped and of the known layout, and no other thread takes from it.
unsafe fn reap_ring(ring: NonNull<Ring>, mut take: impl FnMut(Event)) {
    // SAFETY: as the caller promises. The kernel changes only the two atomic fields meanwhile.
    let header = unsafe { ring.as_ref() };
    let events: *const Event = ring.as_ptr().wrapping_add(1).cast();
    let mut head = header.head.load(Ordering::Relaxed);
    loop {
        // The kernel writes an event before it moves the tail (`aio_complete`).
        let tail = header.tail.load(Ordering::Acquire);
        if head == tail {
            return;
        }
        while head != tail {
            // SAFETY: places from head to tail hold complete events until the head has passed.
            take(unsafe { ptr::read(events.add(head as usize)) });
            head = (head + 1) % header.places;
        }
        header.head.store(head, Ordering::Release);
    }
}

fn check(answer: c_long) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::mem;

    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Block>(), 64);
        assert_eq!(size_of::<Event>(), 32);
        assert_eq!(size_of::<Ring>(), 32);
        assert_eq!(mem::offset_of!(Block, opcode), 16);
        assert_eq!(mem::offset_of!(Block, offset), 40);
        assert_eq!(mem::offset_of!(Block, event_file), 60);
    }
}
