#!/usr/bin/env python3
"""Checks the conflict handling of a run from its requests.parquet, without any of ioecho's code.

    bench/conflicts.py RUN...        needs pyarrow (pip install pyarrow)

For each run: how many pairs of conflicting requests overlapped in time (none may, except under
`allow`), whether any was pushed back without having met one, whether conflicting requests were
issued in the order of the trace, whether under `ordering` all requests were, and whether the summary's counts are those of the records.
Ends with 1 if anything is wrong.
"""

import bisect
import json
import sys
import tomllib

import pyarrow.parquet

READ, FLUSH, DROPPED = "read", "flush", "dropped on conflict"


def conflict(strong, a, b):
    """blkreplay's table: 0 two writes, 1 all but two reads, 2 all. A flush has no range."""
    if FLUSH in (a, b):
        return False
    writes = (a != READ) + (b != READ)
    return writes == 2 if strong == 0 else writes >= 1 if strong == 1 else True


def check(run):
    with open(f"{run}/run.toml", "rb") as file:
        plan = tomllib.load(file)["plan"]
    with open(f"{run}/summary.json") as file:
        engine = json.load(file)["engine"]
    columns = ["op", "length_bytes", "target_offset_bytes", "scheduled_ns", "submitted_ns",
               "completed_ns", "outcome", "pushed_back", "target"]
    table = pyarrow.parquet.read_table(f"{run}/requests.parquet", columns=columns).to_pydict()
    rows = [row for row in zip(*(table[name] for name in columns))]
    issued = [(index, row) for index, row in enumerate(rows) if row[4] is not None]
    strong = plan["strong"]

    # Sweep over time: what is submitted and not completed is in flight.
    overlapping = 0
    for target in {row[8] for _, row in issued}:
        events = []
        for index, row in issued:
            if row[8] == target and row[5] is not None:
                events.append((row[4], 1, index))
                events.append((row[5], 0, index))
        events.sort()
        starts, widest, flying = [], 0, {}
        for _, begins, index in events:
            op, length, offset = rows[index][:3]
            if not begins:
                if index in flying:
                    del flying[index]
                    starts.pop(bisect.bisect_left(starts, (offset, index)))
                continue
            widest = max(widest, length)
            at = bisect.bisect_left(starts, (offset - widest, -1))
            while at < len(starts) and starts[at][0] < offset + length:
                other = rows[starts[at][1]]
                if other[2] + other[1] > offset and conflict(strong, other[0], op):
                    overlapping += 1
                at += 1
            flying[index] = True
            bisect.insort(starts, (offset, index))

    # Order: for each place, what conflicts is submitted in the order of the trace. By 512 bytes;
    # the last submission of a writer, and of any reader, at each place.
    # And what was pushed back must have met one that had not completed when it was due.
    inverted = false_pushes = 0
    last, earlier = {}, {}
    for index, row in issued:
        op, length, offset, target = row[0], row[1], row[2], row[8]
        if op == FLUSH:
            continue
        bad = False
        for sector in range(offset // 512, (offset + length) // 512):
            for other, at in last.get((target, sector), {}).items():
                bad |= conflict(strong, other, op) and at > row[4]
            kinds = last.setdefault((target, sector), {})
            kinds[op] = max(kinds.get(op, row[4]), row[4])
        inverted += bad
        met = False
        for sector in range(offset // 512, (offset + length) // 512):
            before = earlier.setdefault((target, sector), [])
            met = met or any(
                rows[other][5] is not None and rows[other][5] > row[3]
                and conflict(strong, rows[other][0], op) for other in reversed(before))
            before.append(index)
        false_pushes += row[7] and not met
    disorder = sum(a[1][4] > b[1][4] for a, b in zip(issued, issued[1:]))

    mode = plan["conflicts"]
    pushed = sum(row[7] for row in rows)
    dropped = sum(row[6] == DROPPED for row in rows)
    faults = []
    if mode != "allow" and overlapping:
        faults.append("conflicting requests in flight together")
    if mode != "allow" and inverted:
        faults.append("conflicting requests out of order")
    if false_pushes:
        faults.append("requests pushed back that met nothing")
    if mode == "ordering" and disorder:
        faults.append("requests out of order")
    if (pushed, dropped) != (engine["pushed_back"], engine["dropped"]):
        faults.append(f"summary: {engine['pushed_back']} pushed back, {engine['dropped']} dropped")
    if len(issued) != engine["issued"]:
        faults.append(f"summary: {engine['issued']} issued")
    print(f"{run}: {mode}, strong {strong}: {len(rows)} requests, {len(issued)} issued, "
          f"{pushed} pushed back, {false_pushes} of them for nothing, {dropped} dropped, "
          f"{engine['ordered']} held up others; {overlapping} conflicting pairs in flight together, {inverted} conflicting and "
          f"{disorder} neighbours out of order: {'; '.join(faults) or 'right'}")
    return not faults


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(0 if all([check(run) for run in sys.argv[1:]]) else 1)
