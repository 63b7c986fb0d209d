#!/usr/bin/env python3
"""A file whose every request takes as long as a model says: the disk under a loop device.

    device.py DIRECTORY SIZE MODEL        mounts it, prints a line, serves until it is unmounted

SIGUSR1 makes it answer at once, for what is only prepared; SIGUSR2 follows the model again.

A FUSE file system with one file, DIRECTORY/disk, whose data is in memory. A loop device with direct
I/O hands it requests as they come, many at a time. A request is answered at the instant that the
model computed when it came: an absolute deadline, so that no delay adds to the next one.

One thread is enough, because the model knows which requests are served in parallel; a thread of
Python for each request would wait for the interpreter's lock far longer than for its deadline. The
thread sleeps until shortly before the next deadline and spins the rest, looking for new requests.

Why no other stand-in: this needs no module of the kernel (null_blk, device mapper, ublk), and the
device is the same for the application and for every replay.
"""

import ctypes
import errno
import heapq
import mmap
import os
import select
import signal
import struct
import sys
import time

import models

sys.dont_write_bytecode = True

# include/uapi/linux/fuse.h
LOOKUP, FORGET, GETATTR, SETATTR = 1, 2, 3, 4
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 14, 15, 16, 17, 18, 20, 25, 26
OPENDIR, RELEASEDIR, INTERRUPT, DESTROY, FORGETS = 27, 29, 36, 38, 42
ASYNC_READ, BIG_WRITES, ASYNC_DIO, MAX_PAGES = 1 << 0, 1 << 5, 1 << 15, 1 << 22
FOPEN_DIRECT_IO, FOPEN_PARALLEL_DIRECT_WRITES = 1 << 0, 1 << 6
IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
PLACE = struct.Struct("<QQI")
WRITE_HEADER = 40
ROOT, DISK = 1, 2
LENGTH_MAX = 1 << 20
PAGE = 4096
# include/uapi/asm-generic/mman-common.h: only what is written takes memory.
MAP_NORESERVE = 0x4000
# include/uapi/linux/prctl.h
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK, PR_SET_IO_FLUSHER = 1, 29, 57
# A thread that sleeps wakes up so late at times (with a timer slack of 1 ns).
NEAR_NS = 60_000


def attributes(node, size):
    mode = 0o040755 if node == ROOT else 0o100644
    size = 0 if node == ROOT else size
    return struct.pack("<6Q3I2I5I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0,
                       PAGE, 0)


class AtOnce:
    """Answers when it is asked."""

    @staticmethod
    def completion(now, _offset, _length, _is_write):
        return now


class Disk:
    """The file system, its data, and the requests whose time has not come."""

    def __init__(self, handle, size, model):
        self.handle, self.size, self.model = handle, size, model
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self.data = memoryview(mmap.mmap(-1, size, flags=flags))
        self.buffer = bytearray(LENGTH_MAX + PAGE)
        self.view = memoryview(self.buffer)
        # (deadline, unique, length of a read or 0, the answer of a write or the offset of a read)
        self.pending = []

    def serve(self):
        """Until the file system is unmounted."""
        while True:
            now = time.monotonic_ns()
            while self.pending and self.pending[0][0] <= now:
                self._finish(heapq.heappop(self.pending))
            try:
                os.readv(self.handle, [self.buffer])
            except BlockingIOError:
                self._wait()
                continue
            except OSError as error:
                # The request was taken back before it was read.
                if error.errno == errno.ENOENT:
                    continue
                if error.errno == errno.ENODEV:
                    return
                raise
            self._take()

    def _wait(self):
        if not self.pending:
            select.select([self.handle], [], [])
            return
        left = self.pending[0][0] - time.monotonic_ns() - NEAR_NS
        if left > 0:
            select.select([self.handle], [], [], left / 1e9)

    def _take(self):
        _, kind, unique, node, *_ = IN_HEADER.unpack_from(self.buffer)
        if kind == READ:
            _, offset, length = PLACE.unpack_from(self.buffer, IN_HEADER.size)
            due = self.model.completion(time.monotonic_ns(), offset, length, False)
            heapq.heappush(self.pending, (due, unique, length, offset))
        elif kind == WRITE:
            _, offset, length = PLACE.unpack_from(self.buffer, IN_HEADER.size)
            due = self.model.completion(time.monotonic_ns(), offset, length, True)
            begin = IN_HEADER.size + WRITE_HEADER
            self.data[offset:offset + length] = self.view[begin:begin + length]
            heapq.heappush(self.pending, (due, unique, 0, struct.pack("<II", length, 0)))
        elif kind not in (FORGET, FORGETS, INTERRUPT):
            self._answer(unique, *self._other(kind, node))

    def _finish(self, request):
        _, unique, length, rest = request
        self._answer(unique, 0, self.data[rest:rest + length] if length else rest)

    def _other(self, kind, node):
        """(error, answer) of what takes no time: nothing is cached, so a flush has no work."""
        if kind == INIT:
            flags = ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES
            return 0, struct.pack("<IIIIHHIIHH32x", 7, 31, 0, flags, 4096, 4096, LENGTH_MAX, 1,
                                  LENGTH_MAX // PAGE, 0)
        if kind == LOOKUP:
            if bytes(self.buffer[IN_HEADER.size:IN_HEADER.size + 5]) != b"disk\0":
                return errno.ENOENT, b""
            entry = struct.pack("<QQQQII", DISK, 0, 3600, 3600, 0, 0)
            return 0, entry + attributes(DISK, self.size)
        if kind in (GETATTR, SETATTR):
            return 0, struct.pack("<QII", 3600, 0, 0) + attributes(node, self.size)
        if kind == OPEN:
            return 0, struct.pack("<QII", 1, FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES, 0)
        if kind == OPENDIR:
            return 0, struct.pack("<QII", 1, 0, 0)
        if kind == STATFS:
            blocks = self.size // PAGE
            return 0, struct.pack("<5Q4I24x", blocks, 0, 0, 2, 0, PAGE, 255, PAGE, 0)
        if kind in (RELEASE, RELEASEDIR, FLUSH, FSYNC, DESTROY):
            return 0, b""
        return errno.ENOSYS, b""

    def _answer(self, unique, error, data):
        header = OUT_HEADER.pack(OUT_HEADER.size + len(data), -error, unique)
        try:
            os.writev(self.handle, [header, data])
        except OSError as failure:
            # Nobody waits for it any more.
            if failure.errno != errno.ENOENT:
                raise


def main():
    directory, size, line = sys.argv[1:]
    size = int(size)
    model = models.stand_in("", line).model(size)
    libc = ctypes.CDLL(None, use_errno=True)
    # With its parent gone it must go too, or whoever uses the device would wait for ever.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    # Memory that it needs must not be made free by writing to the device that it serves.
    libc.prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % handle
    if libc.mount(b"ioecho-scaled", os.fsencode(directory), b"fuse", 0, options.encode()):
        sys.exit("error: cannot mount: " + os.strerror(ctypes.get_errno()))
    disk = Disk(handle, size, model)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(disk, "model", AtOnce))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(disk, "model", model))
    os.nice(-20)
    print("mounted", flush=True)
    disk.serve()


if __name__ == "__main__":
    main()
