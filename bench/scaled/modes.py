"""The ways to replay a slow recording on fast storage, as options of ioecho.

A mode that this ioecho does not have is left out with a word, so that the experiment also runs on a
version from before or after it.
"""

import heapq
import os
import re

import lab

PREDICT = "predict"
# name: (the `--timing` that it needs, or `ioecho predict`; what it does)
MODES = {
    "timed": ("timed", "at the recorded instants"),
    "afap": ("afap", "as fast as possible"),
    "load": ("load", "as fast as possible, with the recorded number in flight"),
    "diskaccel": ("dependency", "DiskAccel's rule: what follows waits for reads, not for writes"),
    "hfplayer": ("dependency", "links by hfplayer's two rules, which know no processes"),
    "dependency": ("dependency", "inferred: who waited for whom"),
    "predicted": (PREDICT, "without a device, from its true description"),
    "learnt": (PREDICT, "without a device, learnt from a run of another load on it"),
}


class Modes:
    """Those that a program has."""

    def __init__(self, ioecho):
        _, told, _ = lab.run([ioecho, "replay", "--help"])
        words = told.split("--timing <", 1)[-1].split("[default", 1)[0]
        known = set(re.findall(r"^\s+- (\w+):", words, re.MULTILINE))
        _, told, _ = lab.run([ioecho, "--help"])
        known |= set(re.findall(r"^  (%s) " % PREDICT, told, re.MULTILINE))
        self.names = [name for name, (timing, _) in MODES.items() if timing in known]
        self.missing = [name for name in MODES if name not in self.names]


def options(mode):
    """What a replay is told besides the trace and the target."""
    return ["--timing", MODES[mode][0] if mode in MODES else "dependency"]


PREDICTED = [name for name, (needed, _) in MODES.items() if needed == PREDICT]
# Modes that replay other links than those that ioecho infers.
RELINKED = ("diskaccel", "hfplayer")


def relinked(mode, rows, directory):
    """Writes a recording with the links of such a mode into a directory; its path."""
    path = os.path.join(directory, mode + ".hfplayer.csv")
    parents = read_parents(rows) if mode == "diskaccel" else exclusive_parents(rows)
    write(path, annotated(rows, parents))
    return path


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def as_csv(rows):
    """A recording as ioecho's CSV."""
    lines = ["issue_ns,op,flags,offset_bytes,length_bytes,volume,latency_ns,pid,cpu\n"]
    for issue, op, offset, length, latency, pid in rows:
        lines.append("%d,%s,,%d,%d,0,%d,%s,0\n" % (issue, op, offset, length, latency, pid))
    return "".join(lines)


def read_parents(rows):
    """For each request the read that it waits for under DiskAccel's rule, or None.

    Reads are taken for dependent, writes for independent: nobody waits for a write, and a request
    waits for the read that completed last when it was issued. Reads that were in flight together
    stay together, which is kinder to the rule than to wait for every read issued before.
    """
    parents, done, at = [], [], 0
    reads = ((number, row) for number, row in enumerate(rows) if row[1] == "read")
    completions = sorted((row[0] + row[4], number) for number, row in reads)
    for issue, *_ in rows:
        while at < len(completions) and completions[at][0] <= issue:
            done.append(completions[at][1])
            at += 1
        parents.append(done[-1:])
    return parents


def exclusive_parents(rows, threshold_ns=10_000):
    """For each request those that it waits for under hfplayer's two rules.

    A request waits for all that had completed at least the threshold before its issue; of these,
    those remain that no other of them waited for. Processes and flags are not seen, nor flushes.
    """
    parents, in_flight, front, latest = [], [], [], 0
    for number, (issue, op, _, _, latency, _) in enumerate(rows):
        while in_flight and in_flight[0][0] <= issue:
            ready, start, earlier = heapq.heappop(in_flight)
            front.append((ready, earlier))
            latest = max(latest, start)
        front = [one for one in front if one[0] > latest]
        is_seen = op in ("read", "write")
        parents.append([earlier for _, earlier in front] if is_seen else [])
        if is_seen:
            heapq.heappush(in_flight, (issue + latency + threshold_ns, issue, number))
    return parents


# hfplayer's own order of columns (docs/import.md).
HEAD = ("#DUMP_OFFSET.I,ELAPSED_USECS.D,ELAPSED_TICKS.I,CMD.S,INFLIGHT_IOS.I,TS.I,SEQID.I,"
        "LUN_SSID.I,OP.I,PHASE.I,LBA.I,NBLKS.I,LATENCY_TICKS.I,HOST_ID.I,HOST_LUN.I,"
        "LATENCY_USECS.D,DEP_PARENT_COUNT.I,DEP_PARENT_LIST.S\n")


def annotated(rows, parents):
    """hfplayer's CSV with the parents of each request, by their numbers in `rows`.

    It has reads and writes alone, so flushes are lost.
    """
    lines = [HEAD]
    for number, ((issue, op, offset, length, latency, _), links) in enumerate(zip(rows, parents)):
        if op not in ("read", "write"):
            continue
        is_write = op == "write"
        lines.append("%d,%.3f,%d,%s,0,%d,%d,0,%d,0,%d,%d,%d,0,0,%.3f,%d,%s\n" % (
            number, issue / 1e3, issue, "WR" if is_write else "RD", issue, number + 1, is_write,
            offset // 512, length // 512, latency, latency / 1e3, len(links),
            "-".join(map(str, links)) or "NA"))
    return "".join(lines)
