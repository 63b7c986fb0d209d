#!/usr/bin/env python3
"""Loads on trees of files beside a bare loop in C, and reads of files beside fio, in turns.

    bench/trees.py [SECONDS] [TURNS] [DIRECTORY] [FILES]      (default 3 5 /dev/shm 100000)

With one thread and with two: files made (create, write 4 KiB, close), stat, and removed, of a tree of
ten directories, by bench/trees/loop.c and by ioecho; then 4 KiB read at random places of 64 files of
16 MiB, by fio (psync) and by ioecho: "read" those in DIRECTORY, "direct" past the memory such files
among the temporary ones, if their file system has direct reads. Each turn does every row once; a figure is the median of the
turns, and the ratio that of the medians. The loop writes one block of constant data and stores
nothing; ioecho writes data of its own into each file and stores a row for each call.
Rates are files for a second, where they are made, and calls for the others. Beside the loop come the
programs that are known for such loads, where they are installed: fs_mark makes files, mdtest and elbencho
make, look at and remove them. Each has names of its own, and elbencho and mdtest directories of their own
for each thread. Needs cc; what is absent is left out with a word.
"""

import csv
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HOME = pathlib.Path(__file__).resolve().parent.parent
DIRECTORIES = 10
READ_FILES, READ_SIZE = 64, 16 << 20
FILE_BYTES = 4096
# What the programs of others need beside themselves.
OTHERS = {"fio": ["fio"], "fs_mark": ["fs_mark"], "mdtest": ["mdtest", "mpirun"], "elbencho": ["elbencho"]}
# Open MPI refuses root unless it is told twice.
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def done(words, allowed=(0,), within=None):
    """Runs a program, in a directory if one is named; answers its output."""
    words = list(map(str, words))
    ended = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, cwd=within)
    if ended.returncode not in allowed:
        sys.exit(f"{' '.join(words)} ended with {ended.returncode}:\n"
                 f"{ended.stdout}{ended.stderr}")
    return ended.stdout


class Ioecho:
    """Replays on trees, whose figures are those of the stored runs."""

    def __init__(self, program, home):
        self.program, self.home, self.number = program, home, 0

    def rate(self, anchor, shape, flow, threads, op, end=None):
        """How many calls of an operation a second."""
        self.number += 1
        out = self.home / str(self.number)
        words = [self.program, "replay", "-q", "--target", f"tree:{anchor}?{shape}", "--flow",
                 f"x={flow};threads={threads}", "--destroy", anchor, "-o", out]
        # Whatever the verdict says of a busy host: the figures stand in the run.
        done(words + (["--end-after", f"{end}s"] if end else []), allowed=(0, 10, 12, 40))
        summary = json.loads((out / "summary.json").read_text())
        count = summary["response_time"][op]["count"]
        shutil.rmtree(out)
        return count / (summary["achieved_duration_ns"] / 1e9)


def names(ioecho, loop, place, seconds, files, threads):
    """The figures of a turn on names: of the loop, and of ioecho."""
    bare, ours = place / "bare", place / "ours"
    each = files // DIRECTORIES
    shape = f"width={DIRECTORIES}&files={each}&size=4k"
    found = {}
    for phase, flow, op, end in [
        ("make", "files:format?do=mkdir,fill&size=4k", "create", None),
        ("stat", "files:getattr?select=sequential", "getattr", seconds),
        ("unlink", "files:delete?once=yes", "delete", None),
    ]:
        words = [loop, phase, bare, DIRECTORIES, each, threads, seconds]
        found[f"{phase}: loop"] = float(done(words).split()[0])
        found[f"{phase}: ioecho"] = ioecho.rate(ours, shape, flow, threads, op, end)
    for anchor in (bare, ours):
        shutil.rmtree(anchor)
    return found


def fs_mark(place, files, threads):
    """How many files fs_mark makes in a second. It takes paths of 40 bytes at most, and its table ends
    with what is used, files, their size, the rate and its own time."""
    place.mkdir()
    words = ["fs_mark", "-d", "x", "-S", 0, "-s", FILE_BYTES, "-w", FILE_BYTES, "-n", files // threads,
             "-t", threads, "-D", DIRECTORIES, "-N", files // threads // DIRECTORIES, "-L", 1]
    return {"make: fs_mark": float(done(words, within=place).splitlines()[-1].split()[3])}


def mdtest(place, files, threads):
    """The rates of mdtest, a process for each thread."""
    words = ["mpirun", "-n", threads, "mdtest", "-F", "-u", "-n", files // threads, "-w", FILE_BYTES,
             "-d", place]
    rates = dict(re.findall(r"File (creation|stat|removal)\s*:?\s+([0-9.]+)", done(words)))
    phases = [("make", "creation"), ("stat", "stat"), ("unlink", "removal")]
    return {f"{phase}: mdtest": float(rates[its]) for phase, its in phases}


def elbencho(place, files, threads):
    """The rates of elbencho until its last thread has ended."""
    table = place.with_suffix(".csv")
    place.mkdir()
    done(["elbencho", "--mkdirs", "--write", "--stat", "--delfiles", "-t", threads, "-n", DIRECTORIES,
          "-N", files // threads // DIRECTORIES, "-s", FILE_BYTES, "-b", FILE_BYTES, "--nolive",
          "--csvfile", table, place])
    with table.open() as lines:
        rates = {row["operation"]: row["entries/s [last]"] for row in csv.DictReader(lines)}
    phases = [("make", "WRITE"), ("stat", "STAT"), ("unlink", "RMFILES")]
    return {f"{phase}: elbencho": float(rates[its]) for phase, its in phases}


def others(programs, place, files, threads):
    """The figures of a turn on names, of the programs of others that are there."""
    found = {}
    for name, rates in [("fs_mark", fs_mark), ("mdtest", mdtest), ("elbencho", elbencho)]:
        if name in programs:
            with tempfile.TemporaryDirectory(dir=place) as own:
                found |= rates(pathlib.Path(own) / name, files, threads)
    return found


def has_direct(directory):
    """Whether files there are read past the memory."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            os.close(os.open(file.name, os.O_RDONLY | os.O_DIRECT))
        return True
    except OSError:
        return False


def reads(ioecho, row, anchor, shape, seconds, threads, has_fio):
    """The figures of a turn of reads."""
    found = {}
    if has_fio:
        files = ":".join(map(str, sorted(anchor.glob("*.file"))))
        words = ["fio", "--name=x", f"--filename={files}", "--rw=randread", "--bs=4k", "--ioengine=psync",
                 f"--numjobs={threads}", "--thread=1", "--group_reporting=1", "--norandommap=1",
                 "--time_based=1", f"--runtime={seconds}", "--invalidate=0",
                 f"--direct={int(row == 'direct')}",
                 f"--file_service_type=roundrobin:{READ_SIZE // 4096}", "--output-format=json"]
        output = done(words)
        job = json.loads(output[output.index("{"):])["jobs"][0]
        found[f"{row}: fio"] = job["read"]["iops"]
    flow = "files:read?size=4k&access=random&select=random"
    found[f"{row}: ioecho"] = ioecho.rate(anchor, shape, flow, threads, "read", seconds)
    return found


def main():
    words = sys.argv[1:]
    seconds = int(words[0]) if words else 3
    turns = int(words[1]) if len(words) > 1 else 5
    directory = words[2] if len(words) > 2 else "/dev/shm"
    files = int(words[3]) if len(words) > 3 else 100_000
    programs = {name for name, needs in OTHERS.items() if all(map(shutil.which, needs))}
    for name in OTHERS.keys() - programs:
        print(f"{' and '.join(OTHERS[name])}: not installed, the rows of {name} are left out", flush=True)
    program = os.environ.get("IOECHO")  # a program that is built already
    if program is None:
        subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "--quiet"], cwd=HOME, check=True)
        program = HOME / "target/dist/ioecho"
    with tempfile.TemporaryDirectory(dir=directory) as place, tempfile.TemporaryDirectory() as home:
        place, home = pathlib.Path(place), pathlib.Path(home)
        loop = home / "loop"
        done(["cc", "-O2", "-o", loop, HOME / "bench/trees/loop.c", "-lpthread"])
        ioecho = Ioecho(program, home)
        shape = f"depth=0&files={READ_FILES}&size={READ_SIZE}"
        to_read = {"read": (place / "read", shape)}
        if has_direct(home):
            to_read["direct"] = (home / "direct", f"{shape}&open=direct")
        else:
            print(f"{home} has no direct reads: their rows are left out", flush=True)
        for anchor, shape in to_read.values():
            ioecho.rate(anchor, shape, "files:format?do=fill&size=1M", 2, "create")
        found = {}
        for turn in range(turns):
            for threads in (1, 2):
                figures = names(ioecho, loop, place, seconds, files, threads)
                figures |= others(programs, place, files, threads)
                for row, (anchor, shape) in to_read.items():
                    figures |= reads(ioecho, row, anchor, shape, seconds, threads, "fio" in programs)
                for row, rate in figures.items():
                    found.setdefault((threads, row), []).append(rate)
                told = ", ".join(f"{row} {rate:.0f}/s" for row, rate in figures.items())
                print(f"{turn + 1}, {threads} threads: {told}", file=sys.stderr)
    medians = {key: statistics.median(rates) for key, rates in found.items()}
    print(f"{'threads':>7} {'':7}{'beside':9}{'theirs':>10} {'ioecho':>10} {'ratio':>6}")
    for (threads, row), rate in medians.items():
        what, who = row.split(": ")
        ours = medians[threads, f"{what}: ioecho"]
        if who != "ioecho":
            print(f"{threads:7} {what:7}{who:9}{rate:10.0f} {ours:10.0f} {ours / rate:6.2f}")
        elif (threads, f"{what}: fio") not in medians and what in to_read:
            print(f"{threads:7} {what:7}{'':9}{'':10} {ours:10.0f}")


main()
