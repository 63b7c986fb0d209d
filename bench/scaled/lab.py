"""Devices, file systems and processes for the experiment, all of them undone in all cases.

What an experiment leaves behind (a mount, a loop device, a daemon) holds up the next one, and a
loop device whose daemon is gone fails every request. So everything is made in `with` blocks, a
signal ends them as an exception does, and what a killed run left is swept up by the next one.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Devices, machine and percentiles are those of the other benchmark.
sys.path.append(os.path.join(os.path.dirname(HERE), "fidelity"))

import devices

import models

SCRATCH = "/dev/shm"
PREFIX = "ioecho-scaled-"
MINUTE = 60


class Skipped(Exception):
    """What cannot be measured here, and why."""


class Failed(Exception):
    """A command that ended otherwise than it must."""


def run(command, good=(0,), timeout=60 * MINUTE, **options):
    """(exit code, standard output, standard error) of a command that must end with one of `good`.

    The command has a session of its own, so that it can be ended with all that it started.
    """
    process = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        out, error = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end(process)
        raise Failed("%s: not done after %d s" % (command[0], timeout)) from None
    except BaseException:
        end(process)
        raise
    if process.returncode not in good:
        told = " ".join(map(str, command))
        raise Failed("%s\nended with %d: %s" % (told, process.returncode, (error or out)[-1000:]))
    return process.returncode, out, error


def end(process):
    """Ends a process and its session: with a word, then by force."""
    for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=seconds)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ended(number, _frame):
    """The first signal ends everything in good order, and no later one disturbs that."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    sys.exit("ended by signal %d; the same command goes on from here" % number)


def heed_signals():
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _ended)


@contextlib.contextmanager
def scratch():
    """A directory in memory for devices and runs; what dead runs left is removed first."""
    for name in os.listdir(SCRATCH):
        owner = re.fullmatch(re.escape(PREFIX) + r"(\d+)", name)
        if owner and not os.path.exists("/proc/" + owner.group(1)):
            _remove(os.path.join(SCRATCH, name))
    path = os.path.join(SCRATCH, "%s%d" % (PREFIX, os.getpid()))
    os.mkdir(path)
    try:
        yield path
    finally:
        _remove(path)


def _remove(path):
    """Unmounts what is mounted below a directory, detaches its loop devices, and removes it."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split()[1] for line in file]
    below = [mounted for mounted in mounts if mounted.startswith(path + "/")]
    # The newest lies on top: a file system on a loop device on a file in another one.
    for mounted in reversed(below):
        if os.path.basename(mounted) == "fuse":
            _detach(os.path.join(mounted, "disk"))
        _unmount(mounted)
    shutil.rmtree(path, ignore_errors=True)


def _detach(backing):
    listed = subprocess.run(["losetup", "-n", "-O", "NAME", "-j", backing],
                            capture_output=True, text=True, check=False)
    for name in listed.stdout.split():
        subprocess.run(["losetup", "--detach", name], check=False)


def _unmount(path):
    for _ in range(50):
        done = subprocess.run(["umount", path], capture_output=True, check=False)
        if not done.returncode or not os.path.ismount(path):
            return
        time.sleep(0.1)
    subprocess.run(["umount", "--lazy", path], capture_output=True, check=False)


class Device:
    """A loop device that is as fast as a stand-in."""

    def __init__(self, path, daemon):
        self.path, self._daemon = path, daemon

    def set_throttle(self, usec):
        """The kernel's target for latencies while it writes back; 0 for none, -1 for its own."""
        setting = "/sys/block/%s/queue/wbt_lat_usec" % os.path.basename(self.path)
        # A kernel without it throttles nothing.
        if os.path.exists(setting):
            with open(setting, "w") as file:
                file.write(str(usec))

    @contextlib.contextmanager
    def at_once(self):
        """Preparations need not wait for the model."""
        self._daemon.send_signal(signal.SIGUSR1)
        try:
            yield
        finally:
            self._daemon.send_signal(signal.SIGUSR2)

    @contextlib.contextmanager
    def mounted(self, directory):
        os.makedirs(directory, exist_ok=True)
        # No thread of the kernel may initialise or read ahead what nobody asked for.
        words = "noinit_itable,no_prefetch_block_bitmaps,noatime"
        run(["mount", "-o", words, self.path, directory])
        try:
            yield directory
        finally:
            _unmount(directory)

    def forget(self):
        """Nothing of it stays in the page cache."""
        devices.drop_cache(self.path)


@contextlib.contextmanager
def device(stand_in, size, directory):
    """A fresh device, its data zeroes."""
    mount = os.path.join(directory, "fuse")
    os.makedirs(mount, exist_ok=True)
    daemon = subprocess.Popen(
        [sys.executable, os.path.join(HERE, "device.py"), mount, str(size), stand_in.line],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True)
    backing = os.path.join(mount, "disk")
    try:
        if daemon.stdout.readline() != "mounted\n":
            raise Skipped("no device on FUSE: " + daemon.communicate()[1].strip()[-300:])
        _, out, _ = run(["losetup", "--find", "--show", "--direct-io=on", backing])
        path = out.strip()
        made = Device(path, daemon)
        # The kernel holds back writing where a request takes more than 2 ms, which lies between the
        # stand-ins: they would be two kinds of storage in this too.
        made.set_throttle(0)
        with made.at_once():
            # The file cannot do these. Asked once, the loop device no longer offers them; an
            # application would ask in the middle of a recording.
            for words in (["--zeroout"], []):
                subprocess.run(["blkdiscard", "--force", *words, "--length", "4096", path],
                               capture_output=True, check=False)
        yield made
        made.set_throttle(-1)
    finally:
        _detach(backing)
        _unmount(mount)
        end(daemon)


def stand_ins(changed):
    """The stand-ins by name, some of them given anew as NAME=LINE."""
    lines = dict(models.STAND_INS)
    for text in changed:
        name, line = text.split("=", 1)
        lines[name] = (name, line)
    return {name: models.stand_in(what, line) for name, (what, line) in lines.items()}
