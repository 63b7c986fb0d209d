#!/usr/bin/env python3
"""How loud the verdict is: the grades of sound replays, in which nothing was provoked.

    bench/sound.py [--rounds 3] [--seconds 6] [--ioecho PROGRAM] [--around WORDS] -o sound.jsonl
    bench/sound.py --table sound.jsonl

A verdict that finds something in almost every run is not read. So each load here (examples/, and
linux-mysql, windows-mssql and btrecord from $IOECHO_DATA, where that is set) is replayed in its
busiest seconds on a target of the recorded size on each kind of target: a loop device over a file
on a disk and over one in memory (direct I/O), a plain file on a disk, and zram. The target is
filled where the load goes, as a user is told to. A load with requests that a target cannot take is
left out there, with a word: such a replay is not sound. Every third run has a witness. A line of
JSON for each run tells its finding and every check that did not pass; the table tells the rates.

What the host took in the meantime stands beside it, by the kernel's account of the processors: a
grade that tells of a host that really stalled is right. Memory is no storage, and the check
`storage` says so on two of the four kinds; nothing else is expected.

--around names a command that a group of replays is started by, such as one that waits until nothing
else runs on this machine. Needs root and losetup; kinds that this machine lacks are skipped with a
word. Devices and files are made here, and go away again.
"""

import argparse
import collections
import csv
import itertools
import json
import math
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REAL = ["linux-mysql.load.gz", "windows-mssql.load.gz", "btrecord-sdi.replay.0"]
MIB = 1 << 20
QUIET = ("pass", "not-applicable")


class Skipped(Exception):
    """What this machine lacks."""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skipped(f"{shlex.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


class File:
    """A plain file on a disk, through its file system."""

    place = "/var/tmp"

    def __init__(self, size):
        self.directory = tempfile.mkdtemp(dir=self.place, prefix="ioecho-sound-")
        self.path = os.path.join(self.directory, "target")
        with open(self.path, "wb") as file:
            file.truncate(size)

    def close(self):
        shutil.rmtree(self.directory)


class Loop(File):
    """A loop device with direct I/O over a file on a disk."""

    def __init__(self, size):
        super().__init__(size)
        try:
            self.path = run("losetup", "--find", "--show", "--direct-io=on", self.path)
        except Skipped:
            self.close()
            raise

    def close(self):
        if self.path.startswith("/dev/"):
            run("losetup", "--detach", self.path)
        super().close()


class LoopInMemory(Loop):
    """The same over a file in memory."""

    place = "/dev/shm"


class Zram:
    """Memory that is compressed."""

    control = Path("/sys/class/zram-control")

    def __init__(self, size):
        try:
            self.number = (self.control / "hot_add").read_text().strip()
        except OSError as error:
            raise Skipped(f"zram: {error}") from error
        self.path = f"/dev/zram{self.number}"
        Path(f"/sys/block/zram{self.number}/disksize").write_text(str(size))

    def close(self):
        Path(f"/sys/block/zram{self.number}/reset").write_text("1")
        (self.control / "hot_remove").write_text(self.number)


KINDS = {"loop": Loop, "loop-memory": LoopInMemory, "file": File, "zram": Zram}


def block_of(path):
    """The smallest request in bytes that a target takes."""
    if not path.startswith("/dev/"):
        device = os.stat(path).st_dev
        path = f"{os.major(device)}:{os.minor(device)}"
        places = [Path("/sys/dev/block") / path]
    else:
        places = [Path("/sys/class/block") / Path(path).name]
    # A partition has its disk's queue.
    places += [place / ".." for place in places]
    for place in places:
        size = place / "queue/logical_block_size"
        if size.exists():
            return int(size.read_text())
    return 512


def busiest(program, load, seconds):
    """From which second on a load asks for most, in its own time, the size of its device, and the
    largest block that all its requests in these seconds are whole numbers of."""
    told = json.loads(run(program, "info", "--json", load))
    # The first volume alone is replayed where there are more: there is one target.
    size = max(volume.get("size") or volume["extent"] for volume in told["volumes"])
    text = subprocess.run([program, "convert", load, "-", "--to", "csv"], check=True,
                          capture_output=True, text=True).stdout
    rows = [(int(row["issue_ns"]) // 1_000_000_000, int(row["offset_bytes"] or 0),
             int(row["length_bytes"] or 0)) for row in csv.DictReader(text.splitlines())]
    by_second = collections.Counter(at for at, _, _ in rows)
    last = max(max(by_second) - seconds + 1, 0)
    start = max(range(last + 1), key=lambda at: sum(by_second[at + n] for n in range(seconds)))
    part = [row[1:] for row in rows if start <= row[0] < start + seconds]
    return start, -(-size // MIB) * MIB, math.gcd(*itertools.chain.from_iterable(part))


def processors():
    """Ticks of the processors so far: all, stolen by the hypervisor, idle."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields), fields[7], fields[3] + fields[4]


def play(runs):
    """Replays, one after the other. This is what --around is around."""
    for each in runs:
        # What other programs left to be written would be written during the run.
        os.sync()
        before, own = processors(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(each["command"], capture_output=True, text=True)
        all_, stolen, idle = (after - b for after, b in zip(processors(), before))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = sum(getattr(after, key) - getattr(own, key) for key in ("ru_utime", "ru_stime"))
        own *= os.sysconf("SC_CLK_TCK")
        told = {key: each[key] for key in ("load", "kind", "round", "witness")}
        # Threads of the kernel that work for the replay count as others here.
        told |= {"code": done.returncode, "steal": stolen / all_}
        told |= {"others": max(all_ - idle - stolen - own, 0) / all_}
        summary = Path(each["run"]) / "summary.json"
        if summary.exists():
            summary = json.loads(summary.read_text())
            verdict = summary["verdict"]
            told |= {key: verdict[key] for key in ("finding", "validity", "summary")}
            told["requests"] = summary["recorded"]
            told["checks"] = {
                check["name"]: [check["grade"], check["measured"]]
                for check in verdict["checks"]
                if check["grade"] not in QUIET
            }
            told["warnings"] = [line for line in done.stderr.splitlines() if "warning" in line]
            told["screen"] = done.stdout.splitlines()
        else:
            told["failed"] = done.stderr.strip()
        print(json.dumps(told), flush=True)
        shutil.rmtree(each["run"], ignore_errors=True)


def group(options, jobs, windows, output):
    """Makes the targets of some runs, lets them be replayed, and takes the targets away."""
    targets, runs = [], []
    with tempfile.TemporaryDirectory(prefix="ioecho-sound-", dir="/var/tmp") as scratch:
        try:
            for number, (load, kind, round_) in enumerate(jobs):
                start, size, grain = windows[load]
                try:
                    target = KINDS[kind](size)
                except Skipped as reason:
                    print(f"skipped: {load.name} on {kind}: {reason}", file=sys.stderr)
                    continue
                targets.append(target)
                block = block_of(target.path)
                if grain % block:
                    print(f"left out: {load.name} on {kind}: its requests are of {grain} bytes, "
                          f"and the target takes {block} and more", file=sys.stderr)
                    continue
                part = ["--start", f"{start}s", "--duration", f"{options.seconds}s"]
                run(options.ioecho, "prepare", target.path, "--part", "touched", "--trace", load,
                    *part, "--quiet")
                # What the kernel records of a file are the requests of its file system.
                witness = (number + round_) % 3 == 0 and kind != "file"
                results = os.path.join(scratch, str(number))
                command = [options.ioecho, "replay", load, "--target", target.path, "-o", results]
                command += part + (["--witness"] if witness else []) + shlex.split(options.options)
                runs.append({
                    "load": load.name.split(".")[0], "kind": kind, "round": round_,
                    "witness": witness, "run": results, "command": list(map(str, command)),
                })
            order = Path(scratch) / "runs.json"
            order.write_text(json.dumps(runs))
            around = shlex.split(options.around)
            subprocess.run([*around, sys.executable, __file__, "--play", order], check=True,
                           stdout=output)
        finally:
            for target in targets:
                target.close()


def measure(options):
    data = os.environ.get("IOECHO_DATA")
    loads = sorted((ROOT / "examples").glob("*.parquet"))
    loads += [Path(data) / name for name in REAL] if data else []
    wanted = options.loads.split(",") if options.loads else None
    loads = [load for load in loads if not wanted or load.name.split(".")[0] in wanted]
    kinds = options.kinds.split(",")
    windows = {load: busiest(options.ioecho, load, options.seconds) for load in loads}
    jobs = [(load, kind, n) for n in range(options.rounds) for load in loads for kind in kinds]
    jobs = jobs[: options.runs]
    with open(options.output, "a", encoding="utf-8") as output:
        for begin in range(0, len(jobs), options.at_once):
            group(options, jobs[begin : begin + options.at_once], windows, output)


def table(paths):
    runs = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    failed = [each for each in runs if "failed" in each]
    for each in failed:
        print(f"failed: {each['load']} on {each['kind']}: {each['failed']}")
    runs = [each for each in runs if "failed" not in each]
    if not runs:
        sys.exit("no run")
    print("| load | target | runs | findings | valid | checks that did not pass |")
    print("|---|---|---|---|---|---|")
    groups = collections.defaultdict(list)
    for each in runs:
        groups[each["load"], each["kind"]].append(each)
    for (load, kind), of_it in groups.items():
        findings = collections.Counter(each["finding"] for each in of_it)
        grades = collections.Counter(
            f"{name} {grade}" for each in of_it for name, (grade, _) in each["checks"].items())
        valid = sum(each["validity"] == "valid" for each in of_it)
        told = [", ".join(f"{what} {n}" for what, n in of.items()) for of in (findings, grades)]
        print(f"| {load} | {kind} | {len(of_it)} | {told[0]} | {valid} | {told[1] or 'none'} |")
    print()
    memory = [each for each in runs if each["kind"] in ("loop-memory", "zram")]
    print(f"{len(runs)} runs: {sum(r['validity'] == 'valid' for r in runs)} valid; of the "
          f"{len(runs) - len(memory)} on a disk "
          f"{sum(r['validity'] == 'valid' for r in runs if r not in memory)}.")
    print("\n| check | grade | runs | of 100 |\n|---|---|---|---|")
    grades = collections.Counter(
        (name, grade) for each in runs for name, (grade, _) in each["checks"].items())
    for (name, grade), count in sorted(grades.items()):
        print(f"| {name} | {grade} | {count} | {100 * count / len(runs):.0f} |")
    print()
    for key, what in (("steal", "Stolen by the hypervisor"), ("others", "Used by others")):
        shares = sorted(100 * each[key] for each in runs)
        print(f"{what}, percent of the processors: median {shares[len(shares) // 2]:.1f}, most "
              f"{shares[-1]:.1f}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ioecho", default=ROOT / "target/dist/ioecho", type=Path)
    parser.add_argument("--seconds", default=6, type=int, help="of each load, its busiest")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--runs", type=int, help="at most so many in all")
    parser.add_argument("--loads", help="only these, by name, with commas between")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of targets, as --loads")
    parser.add_argument("--options", default="", help="more options of each replay, such as --fifo 9")
    parser.add_argument("--around", default="", help="a command that starts each group of replays")
    parser.add_argument("--at-once", default=8, type=int, help="replays in such a group")
    parser.add_argument("-o", "--output", help="a file that a line is appended to for each run")
    parser.add_argument("--table", nargs="+", help="print the table of such files")
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        return table(options.table)
    if options.play:
        return play(json.loads(options.play.read_text()))
    if not options.output:
        parser.error("-o FILE, or --table FILE")
    if not options.ioecho.exists():
        sys.exit(f"there is no {options.ioecho}: cargo build --profile dist, or --ioecho PROGRAM")
    options.ioecho = options.ioecho.resolve()
    return measure(options)


if __name__ == "__main__":
    main()
