"""Requests from a recording of the block tracepoints.

A recording is a row of events: queued, handed to the driver, completed. What is compared are
requests, so the events of each must be found together again. The kernel gives them no number; they
share a range and a kind, and of several alike the oldest is the first to go on.

Reads what `blktrace` and `pages.c` write: include/uapi/linux/blktrace_api.h, version 7.
"""

import glob
import os
import struct
from collections import defaultdict, deque

RECORD = struct.Struct("<IIQQIIIIIHH")
MAGIC = 0x65617407
QUEUED, DRIVEN, COMPLETED = 1, 7, 8
READ, WRITE, DISCARD = "read", "write", "discard"
_BITS = ((1 << 29, DISCARD), (1 << 17, WRITE), (1 << 16, READ))


class Damaged(Exception):
    """A file that is no blktrace recording."""


class Requests:
    """The requests of a recording in the order of their issue; one entry per request in each list.

    key: (sector, bytes, kind). issue, driver, done: nanoseconds of the recorder's clock, None where
    the event was not seen. incomplete: requests without a completion; stray: completions without a
    request; failed: completions with an error.
    """

    def __init__(self):
        self.key, self.issue, self.driver, self.done = [], [], [], []
        self.incomplete = 0
        self.failed = 0
        self.stray = 0

    def __len__(self):
        return len(self.key)

    @classmethod
    def of(cls, rows):
        """From rows (issue_ns, done_ns, sector, bytes, kind), in any order: for tests."""
        self = cls()
        for issue, done, sector, length, kind in sorted(rows):
            self.key.append((sector, length, kind))
            self.issue.append(issue)
            self.driver.append(None)
            self.done.append(done)
        self.incomplete = self.done.count(None)
        return self


def kind_of(action):
    """What a record asks for: READ, WRITE or DISCARD; None for a flush."""
    for bit, kind in _BITS:
        if action & bit:
            return kind
    return None


def events(prefix):
    """All records of PREFIX.blktrace.0, .1 … (or of one file) in the order of time."""
    files = [prefix] if os.path.isfile(prefix) else sorted(glob.glob(prefix + ".blktrace.*"))
    if not files:
        raise Damaged("no blktrace files at " + prefix)
    rows = []
    for name in files:
        with open(name, "rb") as file:
            data = file.read()
        at = 0
        while at + RECORD.size <= len(data):
            row = RECORD.unpack_from(data, at)
            if row[0] != MAGIC:
                raise Damaged("%s: no record of version 7 at byte %d" % (name, at))
            rows.append(row)
            at += RECORD.size + row[10]
    rows.sort(key=lambda row: row[2])
    return rows


def requests(rows):
    """The Requests that a sorted row of events tells of."""
    found = Requests()
    undriven, unfinished = defaultdict(deque), defaultdict(deque)
    for row in rows:
        kind = kind_of(row[5])
        if kind is None or row[4] == 0:
            continue
        key = (row[3], row[4], kind)
        what = row[5] & 0xFF
        if what == QUEUED:
            undriven[key].append(len(found.key))
            unfinished[key].append(len(found.key))
            found.key.append(key)
            found.issue.append(row[2])
            found.driver.append(None)
            found.done.append(None)
        elif what == DRIVEN:
            if undriven[key]:
                found.driver[undriven[key].popleft()] = row[2]
        elif what == COMPLETED:
            if unfinished[key]:
                found.done[unfinished[key].popleft()] = row[2]
                found.failed += row[9] != 0
            else:
                found.stray += 1
    found.incomplete = found.done.count(None)
    return found


def load(prefix):
    """The requests of a recording on disk."""
    return requests(events(prefix))


def merge(prefix, out):
    """Writes all records in the order of time into one file, as `blkparse -d` does."""
    with open(out, "wb") as file:
        for row in events(prefix):
            file.write(RECORD.pack(*(row[:10] + (0,))))


def export_iolog(found, device, out):
    """fio's log of version 3: microseconds from the first request."""
    first, last = found.issue[0], found.issue[-1]
    names = {READ: "read", WRITE: "write", DISCARD: "trim"}
    with open(out, "w") as file:
        file.write("fio version 3 iolog\n0 %s add\n0 %s open\n" % (device, device))
        for (sector, length, kind), issue in zip(found.key, found.issue):
            at = (issue - first) // 1000
            file.write("%d %s %s %d %d\n" % (at, device, names[kind], sector * 512, length))
        file.write("%d %s close\n" % ((last - first) // 1000, device))


def export_load(found, out):
    """blkreplay's load: seconds with nine digits, sectors. Reads and writes alone."""
    first = found.issue[0]
    with open(out, "w") as file:
        file.write("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n")
        for (sector, length, kind), issue in zip(found.key, found.issue):
            if kind == DISCARD:
                continue
            second, rest = divmod(issue - first, 1000000000)
            op = "W" if kind == WRITE else "R"
            row = (second, rest, sector, length // 512, op)
            file.write("%d.%09d ; %d ; %d ; %s ; 0.0 ; 0.0\n" % row)
