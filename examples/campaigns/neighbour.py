#!/usr/bin/env python3
"""A noisy neighbour: processes that keep processors busy while a campaign measures.

A program for `module = "program"` (docs/modules.md). It is called once for each verb, reads a line
of JSON and answers with one. set.processes says how many there are.
"""

import json
import os
import signal
import subprocess
import sys


def neighbours(tag):
    """The processes that bear the tag. They are looked up, never remembered: undo must find them
    after a crash as well."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if tag.encode() in words:
            yield int(pid)


def start(tag):
    # A session of its own and no open files: the campaign waits for the program, not for these.
    nothing = subprocess.DEVNULL
    busy = ["sh", "-c", "while :; do :; done", tag]
    subprocess.Popen(busy, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)


def answer(question):
    verb, tag = question["verb"], question.get("tag", "")
    count = int(question["set"].get("processes", "1"))
    if verb == "check" and not 1 <= count <= 1000:
        return {"ok": False, "say": "set.processes is 1 to 1000"}
    if verb == "apply":
        for _ in range(count):
            start(tag)
    if verb == "verify":
        found = len(list(neighbours(tag)))
        return {"ok": found == count, "say": f"{found} of {count} processes are busy"}
    if verb == "collect":
        return {"ok": True, "state": {"busy": len(list(neighbours(tag)))}}
    if verb == "undo":
        # Also called where nothing was started, and more than once.
        for pid in neighbours(tag):
            os.kill(pid, signal.SIGKILL)
    return {"ok": True}


print(json.dumps(answer(json.load(sys.stdin))))
