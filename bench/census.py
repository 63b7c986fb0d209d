#!/usr/bin/env python3
"""Plans or runs published parameter files and compares what comes of each with the census.

bench/census.py FILES --dry-run | --sim [--ioecho PROGRAM] [--verbose] [RUN-FLAG…]

With --sim every file that plans is run on simulated devices and trees in memory, for 100 ms of
simulated time a run, or 3 s where that has no request; behind `--` stand further flags of
`ioecho run`, such as --only. Trees are made whole first, so some files take minutes.

FILES is a directory of parameter files that is not part of this tree: most of them have no licence.
A file plans (exit code 0), by itself or with values for its variables, or it is refused (3) for a
stated reason. The program exits with 1 if a file does neither as it should.
"""

import argparse
import collections
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Files that are refused, with the reason at the place: FILE (part of its name), LINE, text.
REFUSED = [
    ("index__id-22252190577@1", None, "there is no hd 'hd4'"),
    ("index__id-67304266985@9", 3, "rd has no 'dedupratio'"),
    ("VDbench_Config.txt", None, "there is no hd 'mc022'"),
    ("File-Tests__vdbench-scripts__README.md@1", 2, "rd has no 'duration'"),
]
# Templates of wrappers, whose words in place of values are no values.
TEMPLATES = [("templates__filesystem_config", 2, "'volumeSize' is no size")]

# A value for each variable; others are paths.
VALUES = {
    "threads": "8", "size": "10g", "xfersize": "4k", "rdpct": "70", "seekpct": "100",
    "iorate": "100", "elapsed": "10", "interval": "1", "stopcurve": "5", "read": "50",
}


# A fast device.
SIMULATED = [
    "--target", "*=sim:model=exp,units=8,service=100us,bandwidth=100G", "--local",
    "--set", "warmup=0s", "--set", "pause=0s", "--shrink", "100",
]

# Runs are long enough to have some thousand requests, or some where the rate is next to nothing.
LONG, LONGER = "elapsed=100ms", "elapsed=3s"


def told_by(words, seconds):
    """The exit code, what was told, and the seconds."""
    begun = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "hangs", "", seconds
    told = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    return done.returncode, told, time.monotonic() - begun


def planned(program, file, values):
    """The same of a plan."""
    words = [program, "run", str(file), *values, "--dry-run", "--seed", "1"]
    return told_by(words, 60)


def ran(program, file, values, flags):
    """What came of the runs of a file: its state, whether that is as it should be, and the rest."""
    words = [program, "run", str(file), *values, *SIMULATED, "--seed", "1", "-q"]
    for long in [LONG, LONGER]:
        with tempfile.TemporaryDirectory() as directory:
            store = str(Path(directory) / "results")
            code, told, seconds = told_by([*words, "--set", long, "-o", store, *flags], 1800)
        if code != 40 or "it makes no request" not in told:
            break
    cells = re.search(r"^cells +(\d+): (\d+) with a result", told, re.M)
    # A rate may be one that the device cannot serve, and a run may find nothing to do: a load that
    # creates files behind a format has no figures, which the verdict calls invalid.
    is_right = code in (0, 10, 14) and cells is not None and cells[1] == cells[2]
    return "runs", is_right, seconds, told


def judged(program, file, run):
    """What came of a file: its state, whether that is as it should be, and the seconds. `run` runs
    what plans, with these values of variables."""
    code, told, seconds = planned(program, file, [])
    faults = re.findall(r"^(.*?):(\d+):\d+: (.*)$", told, re.M)
    for name, line, text in REFUSED + TEMPLATES:
        if name in file.name:
            found = any(text in fault[2] and line in (None, int(fault[1])) for fault in faults)
            state = "refused" if (name, line, text) in REFUSED else "template"
            return state, code == 3 and found, seconds, told
    if code == 0:
        return run(file, []) if run else ("plans", True, seconds, told)
    if code != 3:
        return f"exit {code}", False, seconds, told
    kinds = {fault[2].split("'")[0] for fault in faults}
    unset = sorted(set(re.findall(r"the variable '(\w+)' has no value", told)))
    if "cannot be included" in told:
        return "include is missing", True, seconds, told
    if "there is no rd" in told:
        return "no rd", True, seconds, told
    if unset:
        values = [f"{name}={VALUES.get(name, '/tmp/' + name)}" for name in unset]
        code, told, more = planned(program, file, values)
        if code == 0 and run:
            return run(file, values)
        return "plans with variables", code == 0, max(seconds, more), told
    return f"exit 3: {kinds}", False, seconds, told


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", type=Path)
    mode = arguments.add_mutually_exclusive_group(required=True)
    mode.add_argument("--dry-run", action="store_true")
    mode.add_argument("--sim", action="store_true")
    arguments.add_argument("--ioecho", default="ioecho")
    arguments.add_argument("--verbose", action="store_true")
    arguments.add_argument("flags", nargs="*", help="further flags of ioecho run, behind --")
    asked = arguments.parse_args()

    def run(file, values):
        return ran(asked.ioecho, file, values, asked.flags)

    files = sorted(file for file in asked.files.iterdir() if file.suffix != ".json")
    files = [file for file in files if file.is_file() and file.name != "README.md"]
    states, wrong, slowest = collections.Counter(), [], 0.0
    for file in files:
        state, is_right, seconds, told = judged(asked.ioecho, file, run if asked.sim else None)
        states[state] += 1
        slowest = max(slowest, seconds)
        if not is_right:
            wrong.append((file.name, state, told))
        if asked.verbose:
            print(f"{seconds:6.3f} s  {state:24}  {file.name}")
    for state, count in states.most_common():
        print(f"{count:4}  {state}")
    print(f"{len(files):4}  files, the slowest {slowest:.3f} s")
    for name, state, told in wrong:
        print(f"not as it should be: {name}: {state}\n{told}")
    sys.exit(1 if wrong or not files else 0)


if __name__ == "__main__":
    main()
