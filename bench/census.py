#!/usr/bin/env python3
"""Plans published parameter files and compares what comes of each with the census.

bench/census.py FILES --dry-run [--ioecho PROGRAM] [--verbose]

FILES is a directory of parameter files that is not part of this tree: most of them have no licence.
A file plans (exit code 0), by itself or with values for its variables, or it is refused (3) for a
stated reason. The program exits with 1 if a file does neither as it should.
"""

import argparse
import collections
import re
import subprocess
import sys
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


def planned(program, file, values):
    """The exit code, what was told, and the seconds."""
    words = [program, "run", str(file), *values, "--dry-run", "--seed", "1"]
    begun = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "hangs", "", 60.0
    return done.returncode, done.stderr.decode(errors="replace"), time.monotonic() - begun


def judged(program, file):
    """What came of a file: its state, whether that is as it should be, and the seconds."""
    code, told, seconds = planned(program, file, [])
    faults = re.findall(r"^(.*?):(\d+):\d+: (.*)$", told, re.M)
    for name, line, text in REFUSED + TEMPLATES:
        if name in file.name:
            found = any(text in fault[2] and line in (None, int(fault[1])) for fault in faults)
            state = "refused" if (name, line, text) in REFUSED else "template"
            return state, code == 3 and found, seconds, told
    if code == 0:
        return "plans", True, seconds, told
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
        return "plans with variables", code == 0, max(seconds, more), told
    return f"exit 3: {kinds}", False, seconds, told


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", type=Path)
    arguments.add_argument("--dry-run", action="store_true", required=True)
    arguments.add_argument("--ioecho", default="ioecho")
    arguments.add_argument("--verbose", action="store_true")
    asked = arguments.parse_args()
    files = sorted(file for file in asked.files.iterdir() if file.suffix != ".json")
    files = [file for file in files if file.is_file() and file.name != "README.md"]
    states, wrong, slowest = collections.Counter(), [], 0.0
    for file in files:
        state, is_right, seconds, told = judged(asked.ioecho, file)
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
