"""Scratch devices: a loop device over memory, and zram.

Both are made here and unmade in all cases, so that no device of the machine is ever written to.
They are filled once with random data, past the page cache: never-written places of a loop file and
zeros in zram answer from nowhere, and cached pages are thrown out before each direct request.
"""

import contextlib
import errno
import fcntl
import os
import re
import subprocess
import time

# include/uapi/linux/fs.h: flush and drop what the page cache holds of a device.
BLKFLSBUF = 0x1261
SCRATCH = "/dev/shm"
PREFIX = "ioecho-fidelity-"
NAMES = ("loop", "zram")


class Unavailable(Exception):
    """This machine has no such device."""


def _read(path):
    with open(path) as file:
        return file.read().strip()


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


def _fill(device, size):
    command = ["dd", "if=/dev/urandom", "of=" + device, "bs=1M", "count=%d" % (size >> 20)]
    subprocess.run(command + ["iflag=fullblock", "oflag=direct", "status=none"], check=True)


def drop_cache(device):
    """Nothing of the device stays in the page cache."""
    handle = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, BLKFLSBUF, 0)
    finally:
        os.close(handle)


def _patiently(path, text):
    """Writes, again while the device is busy: a ring of io_uring holds it for a while after its
    process has ended."""
    for _ in range(100):
        try:
            return _write(path, text)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.1)
    return _write(path, text)


@contextlib.contextmanager
def _loop(size, scratch):
    image = os.path.join(scratch, "image")
    with open(image, "wb") as file:
        file.truncate(size)
    made = subprocess.run(["losetup", "-f", "--show", image], stdout=subprocess.PIPE, check=False)
    if made.returncode:
        os.unlink(image)
        raise Unavailable("no loop device (losetup failed)")
    device = made.stdout.decode().strip()
    queue = "/sys/block/%s/queue/" % os.path.basename(device)
    merging = _read(queue + "nomerges")
    _write(os.path.join(scratch, "nomerges"), merging)
    try:
        # Two requests that the kernel made one could not be told apart at their completion.
        _write(queue + "nomerges", "2")
        yield device
    finally:
        _write(queue + "nomerges", merging)
        subprocess.run(["losetup", "-d", device], check=False)
        os.unlink(image)


@contextlib.contextmanager
def _zram(size, scratch):
    control = "/sys/class/zram-control/"
    if not os.path.exists(control):
        subprocess.run(["modprobe", "zram"], check=False, stderr=subprocess.DEVNULL)
    if not os.path.exists(control):
        raise Unavailable("this kernel has no zram")
    # One of our own: those that are there may be somebody's swap.
    number = _read(control + "hot_add")
    note = os.path.join(scratch, "zram")
    _write(note, number)
    try:
        _write("/sys/block/zram%s/disksize" % number, str(size))
        yield "/dev/zram" + number
    finally:
        _patiently("/sys/block/zram%s/reset" % number, "1")
        _patiently(control + "hot_remove", number)
        os.unlink(note)


@contextlib.contextmanager
def made(name, size, scratch):
    """A device `name` (of NAMES) of so many bytes, full of random data; yields its path."""
    with {"loop": _loop, "zram": _zram}[name](size, scratch) as device:
        _fill(device, size)
        drop_cache(device)
        yield device


def facts(device):
    """What decides about the speed of a device, for the results."""
    block = "/sys/block/" + os.path.basename(device)
    names = {
        "size_bytes": "size", "scheduler": "queue/scheduler", "nomerges": "queue/nomerges",
        "nr_requests": "queue/nr_requests", "logical_block_bytes": "queue/logical_block_size",
        "loop_direct_io": "loop/dio", "compression": "comp_algorithm",
    }
    found = {}
    for name, path in names.items():
        with contextlib.suppress(OSError):
            found[name] = _read(os.path.join(block, path))
    found["size_bytes"] = 512 * int(found["size_bytes"])
    return found


def completed(device):
    """Requests that the device has completed so far, and those in flight."""
    fields = _read("/sys/block/%s/stat" % os.path.basename(device)).split()
    return int(fields[0]) + int(fields[4]), int(fields[8])


def _of_the_dead(directory):
    """Names in a directory that were made by runs of this program that are no more."""
    for name in os.listdir(directory):
        number = re.fullmatch(re.escape(PREFIX) + r"(\d+)", name)
        if number and not os.path.exists("/proc/" + number.group(1)):
            yield name


def sweep(tracing, groups):
    """Undoes what runs that were killed left behind. groups: where control groups are, or None."""
    for name in _of_the_dead(SCRATCH):
        scratch = os.path.join(SCRATCH, name)
        listed = subprocess.run(
            ["losetup", "-j", os.path.join(scratch, "image"), "-n", "-O", "NAME"],
            stdout=subprocess.PIPE, check=False,
        )
        for device in listed.stdout.decode().split():
            with contextlib.suppress(OSError):
                queue = "/sys/block/%s/queue/nomerges" % os.path.basename(device)
                _write(queue, _read(os.path.join(scratch, "nomerges")))
            subprocess.run(["losetup", "-d", device], check=False)
        with contextlib.suppress(OSError):
            device = _read(os.path.join(scratch, "zram"))
            _patiently("/sys/block/zram%s/reset" % device, "1")
            _patiently("/sys/class/zram-control/hot_remove", device)
        subprocess.run(["rm", "-rf", "--", scratch], check=False)
    for name in _of_the_dead(tracing + "/instances"):
        path = os.path.join(tracing, "instances", name)
        with contextlib.suppress(OSError):
            _write(path + "/tracing_on", "0")
            _write(path + "/set_event", "")
            os.rmdir(path)
    for name in _of_the_dead(groups) if groups else ():
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(groups, name))
