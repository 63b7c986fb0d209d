#!/usr/bin/env python3
"""What `ioecho check ORIGINAL REPLAY` says, from its definitions, slowly.

  slow.py ORIGINAL.csv REPLAY.csv       both in the native columns; prints JSON

Nothing of the program is used, and no step is clever: docs/check.md read aloud.
"""

import csv
import json
import statistics
import sys
from collections import defaultdict


# The default limit on the error of 99 of 100 requests.
LATE_NS = 1_000_000


def read(path):
    rows = []
    with open(path) as file:
        for row in csv.DictReader(file):
            latency = row["latency_ns"]
            rows.append(
                {
                    "at": int(row["issue_ns"]),
                    "op": row["op"],
                    "offset": int(row["offset_bytes"]),
                    "length": int(row["length_bytes"]),
                    "latency": int(latency) if latency else None,
                }
            )
    rows.sort(key=lambda row: row["at"])
    return rows


def percentile(values, share):
    values = sorted(values)
    if not values:
        return None
    place = (len(values) - 1) * share
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def pairs_of(original, replay):
    """Counterparts: indices of requests that are alike."""
    ours, theirs = defaultdict(list), defaultdict(list)
    for rows, places in ((original, ours), (replay, theirs)):
        for index, row in enumerate(rows):
            places[row["op"], row["offset"], row["length"]].append(index)
    pairs, unclear = [], []
    for key in ours:
        if len(ours[key]) == len(theirs[key]):
            pairs += zip(ours[key], theirs[key])
        elif theirs[key]:
            unclear.append((ours[key], theirs[key]))
    sure = sorted((original[a]["at"], replay[b]["at"] - original[a]["at"]) for a, b in pairs)

    def shift(at):
        place = sum(1 for instant, _ in sure if instant < at)
        around = sorted(difference for _, difference in sure[max(0, place - 10) : place + 10])
        return around[len(around) // 2]

    for mine, other in unclear:
        want = [original[i]["at"] + shift(original[i]["at"]) for i in mine]
        have = [replay[j]["at"] for j in other]
        if len(want) <= len(have):
            pairs += [(mine[i], other[j]) for i, j in nearest(want, have)]
        else:
            pairs += [(mine[j], other[i]) for i, j in nearest(have, want)]
    return pairs


def nearest(few, many):
    """All ways to choose as many of `many`, in order; the one with the least sum of distances."""
    infinite = float("inf")
    best = [[infinite] * (len(many) + 1) for _ in range(len(few) + 1)]
    best[0] = [0] * (len(many) + 1)
    for i in range(1, len(few) + 1):
        for j in range(i, len(many) + 1):
            taken = best[i - 1][j - 1] + abs(few[i - 1] - many[j - 1])
            best[i][j] = min(best[i][j - 1], taken)
    chosen, i, j = [], len(few), len(many)
    while i:
        if best[i][j] == best[i][j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            chosen.append((i, j))
    return chosen


def tiles(wholes, parts, shift):
    """Requests that are exactly covered by parts, each of which is used once."""
    found, used = [], set()
    for index, whole in wholes:
        cursor, chosen, end = whole["offset"], [], whole["offset"] + whole["length"]
        while cursor < end:
            here = [
                (abs(part["at"] - whole["at"] - shift), number)
                for number, part in parts
                if number not in used
                and part["op"] == whole["op"]
                and part["offset"] == cursor
                and part["offset"] + part["length"] <= end
            ]
            if not here:
                break
            number = min(here)[1]
            chosen.append(number)
            cursor += dict(parts)[number]["length"]
        if cursor == end and len(chosen) > 1:
            used.update(chosen)
            found.append((index, chosen))
    return found, used


def main():
    original, replay = (read(path) for path in sys.argv[1:3])
    pairs = [(a, replay[b]["at"], replay[b]["latency"]) for a, b in pairs_of(original, replay)]
    taken = pairs_of(original, replay)
    ours = [(i, r) for i, r in enumerate(original) if i not in {a for a, _ in taken}]
    theirs = [(i, r) for i, r in enumerate(replay) if i not in {b for _, b in taken}]
    apart = percentile([replay[b]["at"] - original[a]["at"] for a, b in taken], 0.5)
    split, used = tiles(ours, theirs, apart)
    for index, parts in split:
        first = min(replay[part]["at"] for part in parts)
        end = max(replay[part]["at"] + replay[part]["latency"] for part in parts)
        pairs.append((index, first, end - first))
    ours = [(i, r) for i, r in ours if i not in {index for index, _ in split}]
    theirs = [(i, r) for i, r in theirs if i not in used]
    merged, used = tiles(theirs, ours, -apart)
    for index, parts in merged:
        for number, part in enumerate(parts):
            pairs.append((part, replay[index]["at"], replay[index]["latency"] if number == 0 else None))
    ours = [(i, r) for i, r in ours if i not in used]
    theirs = [(i, r) for i, r in theirs if i not in {index for index, _ in merged}]

    # Requests due in one instant have one number: that of the first of them.
    number = {}
    for index, row in enumerate(original):
        number[index] = next(i for i, other in enumerate(original) if other["at"] == row["at"])
    pairs.sort(key=lambda pair: (pair[1], number[pair[0]]))
    differences = [seen - original[a]["at"] for a, seen, _ in pairs]
    median = percentile(differences, 0.5)
    errors = [difference - median for difference in differences]
    sizes = [abs(error) for error in errors]

    sequence = [number[a] for a, _, _ in pairs]
    extents, displacements, kinds = [], [], {row["op"]: 0 for row in original}
    apart = 0
    for i, s in enumerate(sequence):
        later = [j for j in range(i) if sequence[j] > s]
        if later:
            extents.append(i - later[0])
            displacements.append(max(sequence[:i]) - s)
            latest = max(original[a]["at"] for a, _, _ in pairs[:i])
            apart += latest - original[pairs[i][0]]["at"] > 1_000_000
            kinds[original[pairs[i][0]]["op"]] += 1

    due = [original[a]["at"] for a, _, _ in pairs]
    stalls = []
    for place in range(1, len(pairs)):
        latest = max(due[:place])
        stall = pairs[place][1] - pairs[place - 1][1] - max(due[place] - latest, 0)
        if stall > LATE_NS:
            stalls.append((stall, latest))
    rows = sorted(zip(due, differences))
    count = min(len(rows), 128)
    blocks = [rows[k * len(rows) // count : (k + 1) * len(rows) // count] for k in range(count)]
    middle = statistics.median
    medians = [(middle(x for x, _ in b), middle(y for _, y in b)) for b in blocks]
    before = [sum(1 for _, stall in stalls if stall < x) for x, _ in medians]

    def slopes(is_apart):
        return [
            (medians[j][1] - medians[i][1]) / (medians[j][0] - medians[i][0])
            for i in range(count)
            for j in range(i + 1, count)
            if medians[j][0] > medians[i][0] and (is_apart or before[i] == before[j])
        ]

    found = slopes(False)
    slope = statistics.median(found if len(found) >= count else slopes(True))
    # What bends is no drift.
    rest = [y - slope * x for x, y in zip(due, differences)]
    rest = [abs(r - percentile(rest, 0.5)) for r in rest]
    drift = None if percentile(rest, 0.5) > percentile(sizes, 0.5) else slope * 1e6

    def gaps(instants):
        instants = sorted(instants)
        return [b - a for a, b in zip(instants, instants[1:])]

    ours_gaps, theirs_gaps = gaps([r["at"] for r in original]), gaps([seen for _, seen, _ in pairs])
    ks = max(
        abs(
            sum(1 for gap in ours_gaps if gap <= value) / len(ours_gaps)
            - sum(1 for gap in theirs_gaps if gap <= value) / len(theirs_gaps)
        )
        for value in set(ours_gaps + theirs_gaps)
    )

    def side(rows):
        """Of pairs (instant, latency)."""
        known = [(at, latency) for at, latency in rows if latency is not None]
        execution = max(at + (latency or 0) for at, latency in rows) - min(at for at, _ in rows)
        flying = max(
            sum(1 for b, latency in known if b <= at < b + latency) for at, _ in known
        )
        latencies = [latency for _, latency in known]
        return {
            "requests": len(rows),
            "span_ns": max(at for at, _ in rows) - min(at for at, _ in rows),
            "execution_ns": execution,
            "response_mean_ns": sum(latencies) / len(latencies),
            "response_p99_ns": percentile(latencies, 0.99),
            "in_flight_mean": sum(latencies) / execution,
            "in_flight_max": flying,
        }

    asked = side([(row["at"], row["latency"]) for row in original])
    seen = side([(seen, latency) for _, seen, latency in pairs])
    result = {
        "asked": asked,
        "seen": seen,
        "found": len(pairs),
        "split": len(split),
        "pieces": sum(len(parts) for _, parts in split),
        "merged": sum(len(parts) for _, parts in merged),
        "unions": len(merged),
        "missing": len(ours),
        "extra": len(theirs),
        "shift_ns": median,
        "issue": {
            "p50_ns": percentile(sizes, 0.5),
            "p99_ns": percentile(sizes, 0.99),
            "p999_ns": percentile(sizes, 0.999),
            "max_ns": max(sizes),
            "early_p1_ns": percentile(errors, 0.01),
            "late_p99_ns": percentile(errors, 0.99),
        },
        "drift_ppm": drift,
        "not_witnessed": 0,
        "stalls": {
            "stalls": len(stalls),
            "total_ns": sum(stall for stall, _ in stalls),
            "longest_ns": max((stall for stall, _ in stalls), default=0),
            "longest_at_ns": max(stalls, key=lambda one: (one[0], -one[1]), default=(0, 0))[1],
        },
        "crowded": sum(
            1
            for a, _, _ in pairs
            if a > 0 and original[a]["at"] - original[a - 1]["at"] < 20_000
        ),
        "duration_error": seen["span_ns"] / asked["span_ns"] - 1,
        "execution_error": seen["execution_ns"] / asked["execution_ns"] - 1,
        "response_mean_error": seen["response_mean_ns"] / asked["response_mean_ns"] - 1,
        "order": {
            "reordered": len(extents),
            # Two traces tell of nothing that was held back.
            "held_back": 0,
            "apart": apart,
            "ratio": len(extents) / len(sequence),
            "extent_mean": sum(extents) / len(extents) if extents else 0,
            "extent_max": max(extents, default=0),
            "displacement_mean": sum(displacements) / len(extents) if extents else 0,
            "displacement_max": max(displacements, default=0),
        },
        "inter_arrival_ks": ks,
        "kinds": {op: {"reordered": count} for op, count in kinds.items()},
        "due_span_ns": asked["span_ns"],
    }
    json.dump(result, sys.stdout)


main()
