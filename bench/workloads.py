#!/usr/bin/env python3
"""Described workloads beside fio, and what verification costs, in turns on one loop device.

    bench/workloads.py [SECONDS] [TURNS]        (root; default 5 5; needs a tmpfs at /dev/shm)

4 KiB at random places, 32 in flight, as fast as possible, on a loop device over tmpfs. Each turn does
every row once; a figure is the median of the turns, and the ratio that of the medians. fio runs with
io_uring, registered files and fixed buffers; where it is absent its rows are left out with a word.
CPU is the processor time of the process (user and system) for a request, which contains that of
what a program does beside the load: ioecho also makes and stores a row for each request.
Response times of ioecho are those of waiting clients, of fio its completion latencies.
`kill` and `durable` keep their notes in the directory of the results: on the disk of $TMPDIR.
"""

import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

SIZE = 1 << 30
DEPTH = 32
HOME = pathlib.Path(__file__).resolve().parent.parent
ROWS = [
    # name, percent of reads, words of ioecho run; none: fio
    ("read: fio", 100, None),
    ("read: ioecho", 100, []),
    ("read: verified", 100, ["--verify", "reads"]),
    ("write: fio", 0, None),
    ("write: ioecho", 0, []),
    ("write: verified, kill", 0, ["--verify", "reads", "--journal", "kill"]),
    ("write: verified, durable", 0, ["--verify", "reads", "--journal", "durable"]),
    ("half: ioecho", 50, []),
    ("half: verified, kill", 50, ["--verify", "reads", "--journal", "kill"]),
    ("half: verified, durable", 50, ["--verify", "reads", "--journal", "durable"]),
]


def timed(words, home, allowed=(0,)):
    """Runs a program; answers its output and the seconds of processor time of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=home, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in allowed:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    spent = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    return done.stdout, spent


def with_fio(target, reads, seconds, home):
    words = ["fio", "--name=x", f"--filename={target}", "--direct=1", "--bs=4k", f"--iodepth={DEPTH}",
             "--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1", "--rw=randrw",
             f"--rwmixread={reads}", f"--size={SIZE}", f"--runtime={seconds}", "--time_based=1",
             "--norandommap=1", "--refill_buffers=1", "--output-format=json"]
    output, spent = timed(words, home)
    job = json.loads(output[output.index("{"):])["jobs"][0]
    parts = [job[name] for name in ("read", "write") if job[name]["total_ios"] > 0]
    ios = sum(part["total_ios"] for part in parts)
    # Of a mixture the slower half stands for both.
    at = {percent: max(part["clat_ns"]["percentile"][f"{percent}.000000"] for part in parts) / 1e3
          for percent in (50, 99)}
    return ios / seconds, spent / ios * 1e6, at[50], at[99]


def with_ioecho(ioecho, target, reads, seconds, home, words, number):
    file = home / f"{number}.vdb"
    file.write_text(f"sd=s,lun={target},threads={DEPTH}\nwd=w,sd=s,rdpct={reads},xfersize=4k\n"
                    f"rd=r,wd=w,iorate=max,elapsed={seconds}\n")
    out = home / f"{number}.out"
    destroy = [] if reads == 100 else ["--destroy", "s"]
    # Whatever the verdict says of a busy host: the figures stand in the run.
    _, spent = timed([ioecho, "run", file, "-o", out, "--quiet", "--seed", str(number + 1), *destroy,
                      *words], home, allowed=(0, 40))
    runs = sorted(out.glob("cells/*/*/run/summary.json"), key=os.path.getmtime)
    summary = json.loads(runs[-1].read_text())
    # Attempts that the verdict refused cost processor time too.
    requests = sum(json.loads(run.read_text())["recorded"] for run in runs)
    response = summary["response_time"]["all"]
    iops = summary["recorded"] / (summary["achieved_duration_ns"] / 1e9)
    figures = (iops, spent / requests * 1e6, response["p50_ns"] / 1e3,
               response["p99_ns"] / 1e3)
    shutil.rmtree(out)
    return figures


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if os.geteuid() != 0:
        sys.exit("skipped: a loop device needs root")
    has_fio = shutil.which("fio") is not None
    if not has_fio:
        print("fio is not installed: its rows are left out")
    ioecho = os.environ.get("IOECHO")  # a program that is built already
    if ioecho is None:
        build = ["cargo", "build", "--profile", "dist", "--locked", "--quiet"]
        subprocess.run(build, cwd=HOME, check=True)
        ioecho = HOME / "target/dist/ioecho"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        image = pathlib.Path(memory) / "image"
        with open(image, "wb") as file:
            file.truncate(SIZE)
        losetup = ["losetup", "-f", "--show", "--direct-io=on", image]
        target = subprocess.run(losetup, capture_output=True, text=True)
        if target.returncode != 0:  # tmpfs without direct I/O
            target = subprocess.run(losetup[:3] + [image], capture_output=True, text=True, check=True)
        target = target.stdout.strip()
        try:
            found = {name: [] for name, _, words in ROWS if has_fio or words is not None}
            for turn in range(turns):
                # So that verified reads find stamps that they have to check.
                timed([ioecho, "prepare", target, "--destroy", target, "--quiet"], home)
                for number, (name, reads, words) in enumerate(ROWS):
                    if name not in found:
                        continue
                    number += turn * len(ROWS)
                    if words is None:
                        figures = with_fio(target, reads, seconds, home)
                    else:
                        figures = with_ioecho(ioecho, target, reads, seconds, home, words, number)
                    found[name].append(figures)
                    print(f"{turn + 1}: {name}: {figures[0]:.0f}/s", file=sys.stderr)
        finally:
            subprocess.run(["losetup", "-d", target], check=True)
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in found.items()}
    print(f"{'':26}{'IOPS':>9} {'ratio':>6} {'CPU us/IO':>10} {'p50 us':>8} {'p99 us':>8}")
    for name, (iops, cpu, p50, p99) in medians.items():
        base = medians[name.split(":")[0] + ": ioecho"][0]
        print(f"{name:26}{iops:9.0f} {iops / base:6.2f} {cpu:10.2f} {p50:8.1f} {p99:8.1f}")
    print("ratio: to ioecho without verification")


main()
