#!/usr/bin/env python3
"""The applications that are recorded on slow storage and really run on fast storage.

    applications.py NAME DIRECTORY AMOUNT        does the work of one, in DIRECTORY

Each does the same work on any storage: so many files, requests or transactions, never so many
seconds. What they only prepare is not recorded. Those with direct I/O wait for their own requests;
those through the page cache leave most of the requests to the kernel, and some of the waiting.
At an amount of 1 each makes one to a few thousand requests.
"""

import ctypes
import glob
import mmap
import os
import random
import shutil
import sqlite3
import subprocess
import sys

import lab
from models import GIB

BLOCK = 4096


def aligned(length):
    """Memory that direct I/O takes, with bytes that do not compress."""
    memory = mmap.mmap(-1, length)
    memory.write(os.urandom(length))
    return memory


def in_parallel(workers, work):
    """work(number) in so many processes: as threads they would wait for Python, not for storage."""
    children = []
    for number in range(workers):
        child = os.fork()
        if not child:
            code = 1
            try:
                work(number)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    if any(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children):
        sys.exit("error: a worker failed")


def settle(directory):
    """What is still in the page cache is part of the work."""
    handle = os.open(directory, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).syncfs(handle):
        sys.exit("error: syncfs: " + os.strerror(ctypes.get_errno()))
    os.close(handle)


class Application:
    """One kind of work.

    what: in a table; programs: it needs; file_system: whether it works in one; size: of the device.
    """

    what, programs, file_system, size = "", (), True, 2 * GIB

    def prepare(self, directory, amount):
        """Before the file system is mounted afresh, on a device that answers at once."""

    def before(self, directory):
        """After that, on a device as slow as it is."""

    def work(self, directory, amount):
        """What is recorded."""

    def after(self, directory):
        """Undoes what `before` did, also after a failure."""

    def size_of(self, _amount):
        return self.size

    def missing(self):
        """The programs that it needs and this machine has not."""
        return [name for name in self.programs if not shutil.which(name)]


class Copy(Application):
    what = "copies 64 KiB files, 32 processes, direct I/O"
    files, length, workers = 1000, 65536, 32

    def prepare(self, directory, amount):
        os.mkdir(os.path.join(directory, "from"))
        os.mkdir(os.path.join(directory, "to"))
        for number in range(self.files * amount):
            with open(os.path.join(directory, "from", str(number)), "wb") as file:
                file.write(os.urandom(self.length))

    def work(self, directory, amount):
        def copy(worker):
            memory = aligned(self.length)
            for number in range(worker, self.files * amount, self.workers):
                source = os.open(os.path.join(directory, "from", str(number)),
                                 os.O_RDONLY | os.O_DIRECT)
                target = os.open(os.path.join(directory, "to", str(number)),
                                 os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o644)
                os.preadv(source, [memory], 0)
                os.pwritev(target, [memory], 0)
                os.close(source)
                os.close(target)
        in_parallel(self.workers, copy)
        settle(directory)


class Create(Application):
    what = "creates files of 16 KiB on average, 16 processes, direct I/O"
    files, workers = 2500, 16

    def work(self, directory, amount):
        def create(worker):
            dice = random.Random(worker)
            memory = aligned(8 * BLOCK)
            place = os.path.join(directory, str(worker))
            os.mkdir(place)
            for number in range(self.files * amount // self.workers):
                handle = os.open(os.path.join(place, str(number)),
                                 os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o644)
                os.pwritev(handle, [memoryview(memory)[: dice.randint(1, 7) * BLOCK]], 0)
                os.close(handle)
        in_parallel(self.workers, create)
        settle(directory)


class Mkfs(Application):
    what = "mkfs.ext4 without lazy initialisation, direct I/O"
    programs, file_system = ("mkfs.ext4",), False

    def size_of(self, amount):
        return 8 * GIB * amount

    def work(self, directory, amount):
        lab.run(["mkfs.ext4", "-q", "-F", "-D", "-E",
                 "lazy_itable_init=0,lazy_journal_init=0,nodiscard", directory])


class Fio(Application):
    """A closed loop of fio: `options` say which."""

    programs = ("fio",)

    def __init__(self, what, requests, *options):
        self.what, self.requests, self.options = what, requests, options

    def command(self, directory, more):
        return ["fio", "--name=load", "--directory=" + directory, "--direct=1", "--filesize=64M",
                "--randseed=1", "--norandommap", *self.options, *more]

    def prepare(self, directory, amount):
        lab.run(self.command(directory, ["--create_only=1", "--overwrite=1"]))

    def work(self, directory, amount):
        lab.run(self.command(directory, ["--number_ios=%d" % (self.requests * amount),
                                         "--output=/dev/null"]))
        settle(directory)


class Pgbench(Application):
    what = "pgbench, 4 clients (page cache)"
    programs = ("runuser",)
    transactions, clients = 50, 4

    def missing(self):
        return super().missing() + ([] if self._programs() else ["postgresql"])

    @staticmethod
    def _programs():
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))
        return os.path.dirname(found[-1]) if found else None

    def _run(self, directory, name, *words, good=(0,)):
        program = os.path.join(self._programs(), name)
        lab.run(["runuser", "-u", "postgres", "--", program, *words], good, cwd=directory)

    def _data(self, directory):
        return os.path.join(directory, "data")

    def before(self, directory):
        socket = "-c listen_addresses= -c unix_socket_directories=%s" % directory
        small = " -c shared_buffers=4MB -c max_wal_size=64MB"
        self._run(directory, "pg_ctl", "-D", self._data(directory), "-w", "-l",
                  os.path.join(directory, "log"), "-o", socket + small, "start")

    def after(self, directory):
        self._run(directory, "pg_ctl", "-D", self._data(directory), "-w", "-m", "fast", "stop",
                  good=(0, 1))

    def prepare(self, directory, amount):
        shutil.chown(directory, "postgres", "postgres")
        self._run(directory, "initdb", "-N", "-D", self._data(directory), "-A", "trust")
        self.before(directory)
        try:
            self._run(directory, "pgbench", "-h", directory, "-i", "-q", "-s", "5", "postgres")
        finally:
            self.after(directory)

    def work(self, directory, amount):
        self._run(directory, "pgbench", "-h", directory, "-n", "-c", str(self.clients),
                  "-t", str(self.transactions * amount), "postgres")
        settle(directory)


class Sqlite(Application):
    what = "SQLite, one transaction after the other, rollback journal (page cache)"
    transactions = 100

    def _open(self, directory):
        base = sqlite3.connect(os.path.join(directory, "base"), isolation_level=None)
        base.execute("pragma synchronous=full")
        base.execute("pragma cache_size=100")
        return base

    def prepare(self, directory, amount):
        base = self._open(directory)
        base.execute("create table t (k integer primary key, v blob)")
        base.execute("begin")
        base.executemany("insert into t values (?, randomblob(400))", ((k,) for k in range(50_000)))
        base.execute("commit")
        base.close()

    def work(self, directory, amount):
        dice = random.Random(1)
        base = self._open(directory)
        for _ in range(self.transactions * amount):
            base.execute("begin immediate")
            for _ in range(3):
                key = dice.randrange(50_000)
                base.execute("update t set v = randomblob(400) where k = ?", (key,))
            base.execute("commit")
        base.close()
        settle(directory)


class Git(Application):
    what = "git clone of loose objects (page cache)"
    programs = ("git",)
    files = 500

    def _git(self, *words):
        settings = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        lab.run(["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost",
                 "-c", "gc.auto=0", "-c", "safe.directory=*", *words], env=settings)

    def prepare(self, directory, amount):
        dice = random.Random(1)
        source = os.path.join(directory, "source")
        for number in range(self.files * amount):
            place = os.path.join(source, str(number % 50))
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, str(number)), "w", encoding="ascii") as file:
                lines = ("%x\n" % dice.getrandbits(160) for _ in range(dice.randrange(20, 400)))
                file.writelines(lines)
        self._git("init", "-q", source)
        self._git("-C", source, "add", ".")
        self._git("-C", source, "commit", "-q", "-m", "all")

    def work(self, directory, amount):
        target = os.path.join(directory, "target")
        self._git("clone", "-q", "--no-local", os.path.join(directory, "source"), target)
        settle(directory)


APPLICATIONS = {
    "copy": Copy(),
    "create": Create(),
    "mkfs": Mkfs(),
    "fio-think": Fio(
        "fio, 4 threads, one request each, 1 ms think time, direct I/O", 400, "--thread",
        "--numjobs=4", "--ioengine=psync", "--rw=randrw", "--rwmixread=70", "--bs=4k",
        "--thinktime=1000"),
    "fio-deep": Fio(
        "fio, 2 threads, 16 requests each, direct I/O", 1000, "--thread", "--numjobs=2",
        "--ioengine=libaio", "--iodepth=16", "--rw=randread", "--bsrange=4k-16k"),
    "pgbench": Pgbench(),
    "sqlite": Sqlite(),
    "git": Git(),
}


def main():
    name, directory, amount = sys.argv[1:]
    lab.heed_signals()
    try:
        APPLICATIONS[name].work(directory, int(amount))
    except (lab.Failed, subprocess.SubprocessError) as error:
        sys.exit("error: %s" % error)


if __name__ == "__main__":
    main()
