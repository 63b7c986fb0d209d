#!/usr/bin/env python3
"""Whether a witness disturbs the run that it watches: replays with and without, in turn.

    bench/witness.py [--load TRACE] [--rounds 10] [--what witness|expert] [--ioecho PROGRAM]

Each round replays the same load twice on a loop device over a file in memory, once plain and once
with --witness (or --expert), which of the two first changes from round to round. Printed are, for
service times, lateness and processor time of the process, the median of the ratios with/without of
the rounds and a confidence interval of 95 % for it (by order statistics, as of a sign test; it
needs six rounds). A ratio whose interval holds 1 was not told apart from no effect.

Needs root, losetup, and an idle machine: other work is in both halves of a pair only on average.
The device is made here, and goes away again.
"""

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOAD = "gen:random?read=70&size=4k&rate=20000&duration=10s&area=256M"


class Loop:
    """A loop device over a file in memory that is filled with random bytes."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.directory = tempfile.mkdtemp(dir="/dev/shm")
        backing = Path(self.directory) / "backing"
        with backing.open("wb") as file:
            for _ in range(self.size >> 20):
                file.write(os.urandom(1 << 20))
        command = ["losetup", "--find", "--show", "--direct-io=off", str(backing)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        self.path = done.stdout.strip()
        return self.path

    def __exit__(self, *_):
        subprocess.run(["losetup", "--detach", self.path], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def replay(program, load, device, directory, more):
    """The figures of one run: nanoseconds and seconds."""
    run = Path(directory) / "run"
    shutil.rmtree(run, ignore_errors=True)
    command = [program, "replay", load, "--target", device, "--destroy", device]
    command += ["-o", str(run), "-q", *more]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not (run / "summary.json").exists():
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr}")
    summary = json.loads((run / "summary.json").read_text())
    figures = {}
    for table in ("service_time", "lateness"):
        for kind in ("all", "read", "write"):
            spread = summary.get(table, {}).get(kind)
            for key in ("p50_ns", "p99_ns", "p99_9_ns") if spread else ():
                if spread.get(key):
                    figures[f"{table} {kind} {key[:-3]}"] = spread[key]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures["processor time, all"] = spent
    return figures


def interval(values):
    """Median, and the order statistics that hold it with at least 95 %."""
    values = sorted(values)
    count = len(values)
    middle = statistics.median(values)
    tail, rank = 0.0, 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if tail > 0.025:
            break
        rank += 1
    if rank == 0:
        return middle, None, None
    return middle, values[rank - 1], values[count - rank]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--load", default=LOAD, help="a trace or a generated load")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--what", choices=("witness", "expert"), default="witness")
    parser.add_argument("--size", type=int, default=1024, help="of the device, in MiB")
    parser.add_argument("--ioecho", default=str(ROOT / "target/dist/ioecho"))
    parser.add_argument("--json", action="store_true", help="all figures of all rounds")
    arguments = parser.parse_args()
    pairs = []
    with Loop(arguments.size << 20) as device, tempfile.TemporaryDirectory() as directory:
        for number in range(-1, arguments.rounds):
            halves = [[], [f"--{arguments.what}"]]
            order = halves if number % 2 == 0 else halves[::-1]
            found = {
                bool(more): replay(arguments.ioecho, arguments.load, device, directory, more)
                for more in order
            }
            # The first round warms the caches.
            if number >= 0:
                pairs.append((found[False], found[True]))
                print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    if arguments.json:
        print(json.dumps([{"without": plain, "with": watched} for plain, watched in pairs]))
        return
    print(f"{arguments.load}, {arguments.rounds} pairs, with --{arguments.what} / without")
    print(f"{'':<26}{'without':>14}{'with':>14}{'ratio':>9}  95 %")
    for name in pairs[0][0]:
        both = [(a[name], b[name]) for a, b in pairs if a.get(name) and b.get(name)]
        if not both:
            continue
        middle, low, high = interval([b / a for a, b in both])
        plain, watched = (statistics.median(side) for side in zip(*both))
        is_time = not name.startswith("processor")
        shown = [f"{v / 1000:.1f} µs" if is_time else f"{v:.2f} s" for v in (plain, watched)]
        sure = "too few pairs" if low is None else f"{low:.3f} … {high:.3f}"
        print(f"{name:<26}{shown[0]:>14}{shown[1]:>14}{middle:>9.3f}  {sure}")


main()
