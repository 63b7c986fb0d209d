#!/usr/bin/env python3
"""The load in space, computed slowly and plainly from the definitions.

Reads a load of blkreplay (*.load or *.load.gz) and prints, as JSON, those parts of what
`ioecho analyze --json` says of it that follow from the definitions alone: the same keys, the same
values, but for rounding. Nothing here is shared with the program that it is to check: sets instead
of last touches, caches that are played through instead of reuse distances.
"""

import bisect
import gzip
import json
import sys
from collections import Counter, OrderedDict, defaultdict

PAGE = 4096
SECOND = 10**9
KINDS = {"reads": "R", "writes": "W", "all": "RW"}
CACHES = [2**power for power in range(26, 41, 2)]
CURVE = [PAGE * 2**power for power in range(0, 17, 4)]
# The bins: ten per power of ten, the least whole number of each.
EDGES = [10 ** (k // 10) if k % 10 == 0 else -int(-(10 ** (k / 10)) // 1) for k in range(190)]


def read(path):
    """The requests of a load: nanoseconds, R or W, offset and length in bytes."""
    opened = gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path)
    requests = []
    with opened as lines:
        for line in lines:
            fields = [field.strip() for field in line.split(";")]
            if len(fields) < 4 or not fields[1].isdigit() or not fields[2].isdigit():
                continue
            seconds, nanos = fields[0].split(".")
            at = int(seconds) * SECOND + int(nanos)
            requests.append((at, fields[3][0].upper(), int(fields[1]) * 512, int(fields[2]) * 512))
    return requests


def pages_of(offset, length):
    return range(offset // PAGE, (offset + length - 1) // PAGE + 1) if length else range(0)


def series(start, step, values):
    return {"start_ns": start, "step_ns": step, "values": values}


def by_kind(make):
    return {kind: make(ops) for kind, ops in KINDS.items()}


def decimal(value):
    return max(bisect.bisect_right(EDGES, value) - 1, 0)


def working_sets(requests):
    found = []
    for length in [SECOND, 6 * SECOND, 60 * SECOND, 600 * SECOND, None]:
        def of(ops, length=length):
            windows = defaultdict(set)
            for at, op, offset, size in requests:
                if op in ops:
                    windows[at // length if length else 0].update(pages_of(offset, size))
            return windows
        first = requests[0][0] // length if length else 0
        last = requests[-1][0] // length if length else 0
        counts = by_kind(of)
        values = {
            kind: [float(len(sets.get(window, ()))) for window in range(first, last + 1)]
            for kind, sets in counts.items()
        }
        pages = {kind: {"values": values[kind]} for kind in KINDS}
        if length:
            pages = {kind: series(first * length, length, values[kind]) for kind in KINDS}
        found.append({
            "window_ns": length,
            "pages": pages,
            "mean_pages": {kind: sum(values[kind]) / len(values[kind]) for kind in KINDS},
            "most_pages": {kind: max(values[kind]) for kind in KINDS},
            "most_bytes": {kind: int(max(values[kind])) * PAGE for kind in KINDS},
        })
    return found


def growth(requests):
    first, last = requests[0][0] // SECOND, requests[-1][0] // SECOND

    def of(ops):
        seen, sizes = set(), {}
        for at, op, offset, size in requests:
            if op in ops:
                seen.update(pages_of(offset, size))
            sizes[at // SECOND] = len(seen)
        values, size = [], 0
        for second in range(first, last + 1):
            size = sizes.get(second, size)
            values.append(float(size))
        return series(first * SECOND, SECOND, values)

    return by_kind(of)


def frequency(requests):
    def of(ops):
        counts = Counter()
        for _, op, offset, size in requests:
            if op in ops:
                counts.update(pages_of(offset, size))
        ranked = sorted(counts.values(), reverse=True)
        total = sum(ranked)
        quantiles = []
        for halvings in range(6, -1, -1):
            accesses = pages = 0
            while accesses * 2**halvings < total:
                accesses += ranked[pages]
                pages += 1
            quantiles.append({
                "share": 0.5**halvings,
                "pages": pages,
                "pages_share": pages / len(ranked),
                "speedup": total / (total - accesses + pages),
            })
        return {"most": ranked[0], "mean": total / len(ranked), "quantiles": quantiles}

    return by_kind(of)


def intervals(requests):
    names = {"RR": "read_after_read", "RW": "write_after_read",
             "WR": "read_after_write", "WW": "write_after_write"}
    bins = defaultdict(Counter)
    accessed, written = {}, {}
    for at, op, offset, size in requests:
        for page in pages_of(offset, size):
            if page in accessed:
                before, last = accessed[page]
                bins[names[before + op]][decimal(at - last)] += 1
            accessed[page] = (op, at)
            if op == "W":
                if page in written:
                    bins["overwrite"][decimal(at - written[page])] += 1
                written[page] = at
    def counts(of):
        return [of[bin] for bin in range(max(of) + 1)] if of else []
    return {name: {"counts": counts(bins[name])} for name in [*names.values(), "overwrite"]}


def play(requests, pages_max):
    """What a cache of least recently used pages does: hits, and pages written back."""
    cache, hits, written = OrderedDict(), Counter(), 0
    for _, op, offset, size in requests:
        for page in pages_of(offset, size):
            dirty = op == "W"
            if page in cache:
                hits[op] += 1
                dirty = cache.pop(page) or dirty
            cache[page] = dirty
            if len(cache) > pages_max:
                written += cache.popitem(last=False)[1]
    return hits, written + sum(cache.values())


def reuse(requests):
    accesses, cold, seen = Counter(), Counter(), set()
    for _, op, offset, size in requests:
        for page in pages_of(offset, size):
            accesses[op] += 1
            cold[op] += page not in seen
            seen.add(page)

    def of(counter):
        return {"reads": counter["R"], "writes": counter["W"], "all": counter.total()}

    def cache(size):
        hits, written = play(requests, size // PAGE)
        reads = accesses["R"] - hits["R"]
        return {
            "cache_bytes": size,
            "hit_ratio": {k: of(hits)[k] / (of(accesses)[k] or 1) for k in KINDS},
            "read_bytes": reads * PAGE,
            "written_bytes": written * PAGE,
            "read_share": reads / (accesses["R"] or 1),
            "written_share": written / (accesses["W"] or 1),
        }

    return {
        "exact": True,
        "accesses": of(accesses),
        "cold": of(cold),
        "caches": [cache(size) for size in CACHES],
        "miss_ratio": {
            "all": {"points_among": [
                [size, 1 - play(requests, size // PAGE)[0].total() / accesses.total()]
                for size in CURVE
            ]},
        },
    }


def distances(requests):
    found = []
    for length in [6 * SECOND, 60 * SECOND, 600 * SECOND]:
        windows = defaultdict(list)
        for at, _, offset, _ in requests:
            windows[at // length].append(offset)
        first, last = min(windows), max(windows)
        sums, means = [], []
        for window in range(first, last + 1):
            places = windows.get(window)
            sums.append(float(max(places) - min(places)) if places else None)
            means.append(sums[-1] / len(places) if places else None)
        found.append({
            "window_ns": length,
            "sum": series(first * length, length, sums),
            "mean": series(first * length, length, means),
        })
    return found


def places(requests):
    region = 2**20
    while len({offset // region for _, _, offset, _ in requests}) > 65536:
        region *= 2
    regions = defaultdict(Counter)
    for _, op, offset, size in requests:
        regions[offset // region][op] += 1
        regions[offset // region][op + " bytes"] += size
    def heat(item):
        return (-(item[1]["R"] + item[1]["W"]), item[0])
    hottest = [
        {
            "volume": 0,
            "begin_bytes": index * region,
            "requests": {"reads": c["R"], "writes": c["W"], "all": c["R"] + c["W"]},
            "bytes": {
                "reads": c["R bytes"], "writes": c["W bytes"], "all": c["R bytes"] + c["W bytes"],
            },
            "share": (c["R"] + c["W"]) / len(requests),
        }
        for index, c in sorted(regions.items(), key=heat)[:20]
    ]
    highest = max(offset for _, _, offset, _ in requests)
    width = region
    while highest // width >= 2048:
        width *= 2

    def positions(ops):
        counts = Counter(offset // width for _, op, offset, _ in requests if op in ops)
        bins = highest // width + 1
        return {
            "edges": [bin * width for bin in range(bins + 1)],
            "counts": [counts[bin] for bin in range(bins)],
        }

    step, height = 2**10, 2**12
    while requests[-1][0] // step - requests[0][0] // step >= 512:
        step *= 2
    while highest // height >= 256:
        height *= 2
    first = requests[0][0] // step

    def cells(wanted):
        counts = Counter(
            (at // step - first, offset // height)
            for at, op, offset, _ in requests if op == wanted
        )
        return {"cells": [[x, y, count] for (x, y), count in sorted(counts.items())]}

    return {
        "distances": distances(requests),
        "positions": by_kind(positions),
        "maps": [{"volume": 0, "reads": cells("R"), "writes": cells("W")}],
        "region_bytes": region,
        "regions": len(regions),
        "hottest": hottest,
    }


def powers(values):
    counts = Counter(value.bit_length() - 1 for value in values)
    return {"counts": [counts[power] for power in range(max(counts) + 1)] if counts else []}


def turns(requests, ops):
    seconds, before, count = defaultdict(lambda: [0, 0]), None, 0
    for at, op, offset, _ in requests:
        if op in ops:
            turned = before is not None and offset < before
            seconds[at // SECOND][0] += 1
            seconds[at // SECOND][1] += turned
            count += turned
            before = offset
    first, last = requests[0][0] // SECOND, requests[-1][0] // SECOND
    total = sum(counts[0] for counts in seconds.values())
    values = [
        seconds[second][1] / seconds[second][0] if second in seconds else None
        for second in range(first, last + 1)
    ]
    return {
        "requests": total, "turns": count, "share": count / max(total, 1),
        "series": series(first * SECOND, SECOND, values),
    }


def seeks(requests, ops):
    chosen = [(offset, offset + size) for _, op, offset, size in requests if op in ops]
    jumps = [after[0] - before[1] for before, after in zip(chosen, chosen[1:])]
    return {
        "zero": jumps.count(0),
        "forward": powers([jump for jump in jumps if jump > 0]),
        "backward": powers([-jump for jump in jumps if jump < 0]),
        "mean_bytes": sum(map(abs, jumps)) / max(len(jumps), 1),
    }


def runs(requests):
    """Runs by operation, each a list of requests, and the gaps within them."""
    latest, run_of, consumed = {}, {}, set()
    found, gaps = {"R": [], "W": []}, {"R": [], "W": []}
    for number, request in enumerate(requests):
        _, op, offset, size = request
        if size == 0:
            continue
        before = latest.get((op, offset))
        if before is not None and before not in consumed and number - before <= 256:
            consumed.add(before)
            run_of[number] = run_of[before]
            gaps[op].append(number - before)
        else:
            run_of[number] = []
            found[op].append(run_of[number])
        run_of[number].append(request)
        latest[op, offset + size] = number
    return found, gaps


def order(requests):
    found, gaps = runs(requests)

    def of(ops, lists):
        return [item for op in ops for item in lists[op]]

    def sequential(ops):
        mine = of(ops, found)
        total = sum(1 for request in requests if request[1] in ops)
        chosen = [(offset, offset + size) for _, op, offset, size in requests if op in ops]
        jumps = [after[0] - before[1] for before, after in zip(chosen, chosen[1:])]
        moved = sum(map(len, mine))
        return {
            "requests": total,
            "strict": jumps.count(0) / max(total, 1),
            "near": sum(abs(jump) <= 131072 for jump in jumps) / max(total, 1),
            "in_run": (moved - len(mine)) / max(total, 1),
            "in_stream": sum(len(run) for run in mine if len(run) >= 8) / max(total, 1),
            "runs": powers([len(run) for run in mine]),
            "mean_run": moved / max(len(mine), 1),
            "longest_run_bytes": max((sum(r[3] for r in run) for run in mine), default=0),
            "gaps": powers(of(ops, gaps)),
        }

    def streams(ops):
        return [(run[0][0], run[-1][0]) for run in of(ops, found) if len(run) >= 8]

    def concurrent(ops):
        spans = streams(ops)
        if not spans:
            return {"values": []}
        first = min(begin for begin, _ in spans) // SECOND
        last = max(end for _, end in spans) // SECOND
        values = [0.0] * (last - first + 1)
        for begin, end in spans:
            for second in range(begin // SECOND, end // SECOND + 1):
                values[second - first] += 1
        return series(first * SECOND, SECOND, values)

    span = requests[-1][0] - requests[0][0]
    return {
        "turns": by_kind(lambda ops: turns(requests, ops)),
        "seeks": by_kind(lambda ops: seeks(requests, ops)),
        "sequential": by_kind(sequential),
        "streams": {
            "count": by_kind(lambda ops: len(streams(ops))),
            "mean_concurrent": by_kind(
                lambda ops: sum(end - begin for begin, end in streams(ops)) / span
            ),
            "concurrent": by_kind(concurrent),
        },
    }


def sizes(requests):
    operations = []
    for op, name in [("R", "read"), ("W", "write")]:
        chosen = [(offset, size) for _, kind, offset, size in requests if kind == op]
        if not chosen:
            continue
        counts = Counter(size for _, size in chosen)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        bins = Counter(decimal(size // 512) + 1 if size >= 512 else 0 for _, size in chosen)
        operations.append({
            "op": name,
            "requests": len(chosen),
            "bytes": sum(size for _, size in chosen),
            "min_bytes": min(counts),
            "mean_bytes": sum(size for _, size in chosen) / len(chosen),
            "max_bytes": max(counts),
            "distinct": len(counts),
            "commonest": [{"bytes": size, "requests": n} for size, n in ranked[:32]],
            "bins": {"counts": [bins[bin] for bin in range(max(bins) + 1)]},
            "alignment": [
                {
                    "block_bytes": block,
                    "start": sum(o % block == 0 for o, _ in chosen) / len(chosen),
                    "whole": sum(o % block == 0 and s % block == 0 for o, s in chosen)
                    / len(chosen),
                }
                for block in [512, 4096, 8192, 65536]
            ],
        })
    return {"exact": True, "operations": operations}


def main():
    requests = read(sys.argv[1])
    found = {
        "pages": {
            "page_bytes": PAGE,
            "exact": True,
            "pages": by_kind(lambda ops: len({
                page for _, op, offset, size in requests if op in ops
                for page in pages_of(offset, size)
            })),
            "working_sets": working_sets(requests),
            "growth": growth(requests),
            "frequency": frequency(requests),
            "intervals": intervals(requests),
        },
        "reuse": reuse(requests),
        "places": places(requests),
        "order": order(requests),
        "sizes": sizes(requests),
    }
    json.dump(found, sys.stdout)


main()
