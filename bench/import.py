#!/usr/bin/env python3
"""How fast traces are read, and by whom.

    bench/import.py [LINES]           (default 4,000,000; no root needed)

Makes one load of LINES requests, writes it with ioecho in every format that it writes, and lets
ioecho and its peers read the same files in turn, three times each, on the processors that there are:

* text, plain and gzipped: `ioecho info` (which reads every request and sums it up);
* the same CSV: DuckDB and polars, summing the same columns (Python packages, skipped where missing);
* the same fio iolog: fio itself, with the null engine and no pauses, which loads it and issues nothing;
* the same recording: blkparse with its output thrown away, where there is a recording of blktrace
  ($IOECHO_BLKTRACE names its prefix).

Printed are the median of the wall-clock seconds, requests per second, processor seconds and peak
memory. A wall-clock second of ioecho may hold two processor seconds: unpacking has its own thread.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IOECHO = ROOT / "target/dist/ioecho"
TURNS = 3
FORMATS = [
    # what, name of the file, further flags of `info`
    ("native", "load.parquet", []),
    ("blkreplay", "load.load", []),
    ("blkreplay, gzip", "load.load.gz", []),
    ("MSR", "load.msr.csv", []),
    ("MSR, gzip", "load.msr.csv.gz", []),
    ("MSR, zstd", "load.msr.csv.zst", []),
    ("Alibaba", "load.alibaba.csv", []),
    ("fio iolog v3", "load.iolog", []),
    ("blkparse", "load.blkparse", []),
    ("hfplayer", "load.hfplayer.csv", []),
    ("ioecho's CSV", "load.csv", []),
    ("btreplay", "load.replay.0", []),
    ("Vdbench", "load.flatfile.bin", []),
]

DUCKDB = """
import duckdb, sys
print(duckdb.sql(f"select count(*), sum(column4), sum(column5), min(column0), max(column0) "
                 f"from read_csv('{sys.argv[1]}', header=false)").fetchall())
"""
POLARS = """
import polars as pl, sys
print(pl.scan_csv(sys.argv[1], has_header=False).select(
    pl.len(), pl.col("column_5").sum(), pl.col("column_6").sum(),
    pl.col("column_1").min(), pl.col("column_1").max()).collect().row(0))
"""


def run(command):
    """Wall seconds, processor seconds and peak memory in MiB of a command, which must succeed."""
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{command[0]} answered {child.returncode}: {stderr.decode()[-300:]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(what, requests, command):
    turns = [run(command) for _ in range(TURNS)]
    wall, cpu, memory = (statistics.median(column) for column in zip(*turns))
    print(f"| {what} | {wall:.2f} | {requests / wall / 1e6:.2f} | {cpu:.2f} | {memory:.0f} |", flush=True)


def python_with(package):
    for python in (os.environ.get("IOECHO_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0:
            return python
    print(f"skipped: there is no Python package {package} (IOECHO_PYTHON may name a Python that has it)",
          file=sys.stderr)
    return None


def main():
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "--quiet"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="ioecho-import-") as directory:
        work = Path(directory)
        line = f"gen:random?read=70&size=4k:60,64k:40&area=64G&rate=20000&dist=poisson&count={requests}"
        first = work / "load.parquet"
        subprocess.run([IOECHO, "convert", line, first], check=True, capture_output=True)
        print(f"{requests} requests, {os.cpu_count()} processors\n")
        print("| read | seconds | million requests/s | processor seconds | peak MiB |")
        print("|---|---|---|---|---|")
        for what, name, flags in FORMATS:
            path = work / name
            if not path.exists():
                made = subprocess.run([IOECHO, "convert", first, path], capture_output=True)
                if made.returncode != 0:
                    print(f"skipped: {what}: {made.stderr.decode()[:200]}", file=sys.stderr)
                    continue
            measure(f"{what}: ioecho", requests, [IOECHO, "info", *flags, path])
            if name == "load.msr.csv":
                for package, program in (("duckdb", DUCKDB), ("polars", POLARS)):
                    if python := python_with(package):
                        measure(f"{what}: {package}", requests, [python, "-c", program, path])
            if name == "load.iolog" and shutil.which("fio"):
                measure(f"{what}: fio (loads, issues to the null engine)", requests,
                        ["fio", "--name=x", "--ioengine=null", "--replay_no_stall=1",
                         f"--read_iolog={path}", f"--output={work}/fio.out"])
            if name not in ("load.parquet",):
                path.unlink()
        recording = os.environ.get("IOECHO_BLKTRACE")
        if recording and shutil.which("blkparse"):
            measure("blktrace: ioecho", 0, [IOECHO, "info", recording])
            measure("blktrace: blkparse", 0, ["blkparse", "-q", "-i", recording, "-o", "/dev/null"])
        else:
            print("skipped: blkparse (IOECHO_BLKTRACE names no recording)", file=sys.stderr)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
