#!/usr/bin/env python3
"""How long it takes to see a result: ioecho beside blkreplay's graph.sh and blktrace's btt.

    bench/pictures.py [--load linux-webserver-1.load.gz] [--times 1,10,100] [--ioecho PROGRAM]

Replays the load on a simulated device, so that it has latencies, and lets everybody make everything
that they make of the same result, one after the other:

* `ioecho plot` (the same graphics under the same names), `ioecho report` (the page), and
  `ioecho analyze --json`;
* `graph.sh --static --dynamic` of Debian's package blkreplay (with gnuplot, gawk, buffer), on the
  same result as `*.replay.gz`; of longer ones only if --patient, because it takes hours;
* `blkparse` and `btt` beside `ioecho analyze`, of the same result written as blktrace would have
  recorded it, five events a request, and of a recording of blktrace ($IOECHO_BLKTRACE names its
  prefix), where there is one.

Longer results are the load repeated. Printed are seconds of the wall clock and of the processors,
the memory of the largest process, the peak of the files in TMPDIR, and processes started.
"""

import argparse
import heapq
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOAD = Path(
    "/usr/share/doc/blkreplay-examples/examples/example-load/natural/linux-webserver-1.load.gz"
)
GRAPH = Path("/usr/lib/blkreplay/scripts/graph.sh")


def processes():
    """How many processes this system has started so far."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("processes "):
            return int(line.split()[1])
    return 0


class Scratch:
    """A TMPDIR whose largest size is watched."""

    def __init__(self, directory):
        self.path, self.most, self.over = directory, 0, False
        directory.mkdir()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def watch(self):
        while not self.over:
            size = 0
            for path in self.path.rglob("*"):
                try:
                    size += path.stat().st_blocks * 512
                except OSError:
                    pass
            self.most = max(self.most, size)
            time.sleep(0.1)

    def close(self):
        self.over = True
        self.watcher.join()
        shutil.rmtree(self.path, ignore_errors=True)
        return self.most


def measure(what, command, where, scratch):
    """Runs a command and prints its row."""
    scratch = Scratch(scratch)
    before, begun = processes(), time.monotonic()
    child = subprocess.Popen(
        list(map(str, command)),
        cwd=where,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch.path)},
    )
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.monotonic() - begun
    started = processes() - before
    most = scratch.close()
    if os.waitstatus_to_exitcode(status) not in (0, 10):
        print(f"| {what} | failed: {errors.decode(errors='replace').strip()[-200:]} | | | | |")
        return
    print(
        f"| {what} | {took:.2f} | {usage.ru_utime + usage.ru_stime:.2f} "
        f"| {usage.ru_maxrss // 1024} | {most / 1e6:.0f} | {started} |",
        flush=True,
    )


RECORD = struct.Struct("<IIQQIIIIIHH")  # struct blk_io_trace of linux/blktrace_api.h, version 7
MAGIC, DEVICE = 0x65617407, 8 << 20
READ, WRITE = 1 << 16, 2 << 16
CATEGORIES = {1: 1 << 20, 4: 0, 12: 1 << 20, 7: 1 << 22, 8: 1 << 23}  # queue, issue, complete


def as_blktrace(ioecho, run, path):
    """Writes the reads and writes of a run as blktrace records them: queued, allocated, inserted,
    issued, completed."""
    told = subprocess.Popen([str(ioecho), "convert", str(run), "-", "--to", "csv"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    names = told.stdout.readline().strip().split(",")
    op, offset, length, scheduled, submitted, completed = map(names.index, (
        "op", "offset_bytes", "length_bytes", "scheduled_ns", "submitted_ns", "completed_ns"))
    flying, number = [], 0
    with path.open("wb", buffering=1 << 20) as file:
        def write(action, at, sector, size, kind):
            nonlocal number
            number += 1
            file.write(RECORD.pack(MAGIC, number, at, sector, size,
                                   action | CATEGORIES[action] | kind, 1, DEVICE, 0, 0, 0))

        def complete(until):
            while flying and flying[0][0] <= until:
                at, sector, size, kind = heapq.heappop(flying)
                write(8, at, sector, size, kind)

        # Requests stand in the order of their schedule; the tools want all events in time's.
        waiting = []
        for line in told.stdout:
            row = line.rstrip().split(",")
            if row[op] not in ("read", "write") or not row[completed]:
                continue
            kind = READ if row[op] == "read" else WRITE
            due = int(row[scheduled])
            sector, size = int(row[offset]) // 512, int(row[length])
            heapq.heappush(waiting, (int(row[submitted]), sector, size, kind, int(row[completed])))
            while waiting and waiting[0][0] <= due:
                issue(waiting, flying, write, complete)
        while waiting:
            issue(waiting, flying, write, complete)
        complete(1 << 63)
    told.wait()


def issue(waiting, flying, write, complete):
    at, sector, size, kind, end = heapq.heappop(waiting)
    complete(at)
    for action in (1, 4, 12, 7):
        write(action, at, sector, size, kind)
    heapq.heappush(flying, (max(at, end), sector, size, kind))


def beside_btt(what, prefix, ioecho, directory, scratch):
    """blkparse puts the files of all processors together, btt analyses; ioecho does both."""
    merged = directory / "merged.bin"
    merge = ["blkparse", "-q", "-i", prefix, "-d", merged, "-O"]
    measure(f"{what}: blkparse -d", merge, directory, scratch)
    (directory / "btt").mkdir(exist_ok=True)
    measure(f"{what}: btt", ["btt", "-i", merged, "-o", "btt/all"], directory, scratch)
    measure(f"{what}: ioecho analyze", [ioecho, "analyze", f"{prefix}.blktrace.0"], directory,
            scratch)
    merged.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ioecho", default=ROOT / "target/dist/ioecho", type=Path)
    parser.add_argument("--load", default=LOAD, type=Path)
    parser.add_argument("--times", default="1", help="how often the load is repeated")
    parser.add_argument("--patient", action="store_true", help="graph.sh for longer ones, too")
    options = parser.parse_args()
    if not options.ioecho.exists():
        sys.exit(f"there is no {options.ioecho}: cargo build --profile dist, or --ioecho PROGRAM")
    if not options.load.exists():
        sys.exit(f"there is no {options.load}: apt-get install blkreplay-examples, or --load FILE")
    ioecho = options.ioecho.resolve()
    print("| what | seconds | processor seconds | peak MiB | peak of /tmp in MB | processes |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        directory = Path(directory)
        for times in map(int, options.times.split(",")):
            where = directory / f"x{times}"
            where.mkdir()
            command = [ioecho, "replay", options.load.resolve(), "-o", "run"]
            command += ["--repeat", times] if times > 1 else []
            target = "sim:model=ssd,size=1T"
            subprocess.run(
                [*map(str, command), "--target", target],
                cwd=where,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            subject = f"{times} x {options.load.name.split('.')[0]}"
            scratch = directory / "scratch"
            for words in ("plot run -o pictures", "report run", "analyze --json run"):
                name = f"{subject}: ioecho {words.split()[0]}"
                measure(name, [ioecho, *words.split()], where, scratch)
            if not GRAPH.exists() or not shutil.which("gnuplot"):
                print("skipped: graph.sh (apt-get install blkreplay gnuplot-nox gawk buffer)")
            elif times == 1 or options.patient:
                (where / "graphs").mkdir()
                result = where / "graphs/run.replay.gz"
                subprocess.run([str(ioecho), "convert", "run", str(result)], cwd=where, check=True,
                               stderr=subprocess.DEVNULL)
                graph = [GRAPH, "--static", "--dynamic", result.name]
                measure(f"{subject}: graph.sh", graph, result.parent, scratch)
            if times == 1 and shutil.which("btt") and shutil.which("blkparse"):
                (where / "blk").mkdir()
                as_blktrace(ioecho, where / "run", where / "blk/run.blktrace.0")
                beside_btt(subject, where / "blk/run", ioecho, where / "blk", scratch)
            elif times == 1:
                print("skipped: blkparse and btt (apt-get install blktrace)")
            shutil.rmtree(where)
        recording = os.environ.get("IOECHO_BLKTRACE")
        if recording and shutil.which("btt"):
            beside_btt("a recording", Path(recording), ioecho, directory, directory / "scratch")


if __name__ == "__main__":
    main()
