#!/usr/bin/env python3
"""The load and the run in time, computed slowly and plainly from the definitions.

Reads a load of blkreplay (*.load or *.load.gz), or a run as `ioecho convert` writes it as CSV, and
prints, as JSON, those parts of what `ioecho analyze --json` says of it that follow from the
definitions alone. Where the program keeps a histogram or cells instead of values, the exact value
stands here with the distance that it may have: {"about": value, "within": share} or
{"about": value, "off_by": difference}.
"""

import bisect
import csv
import gzip
import json
import sys

SECOND = 10**9
WINDOW = 3 * SECOND
# The bins: ten per power of ten, the least whole number of each.
EDGES = [10 ** (k // 10) if k % 10 == 0 else -int(-(10 ** (k / 10)) // 1) for k in range(190)]
GROUPS = ["reads", "writes", "pushed reads", "pushed writes", "other"]


class Request:
    def __init__(self, op, length, scheduled, submitted=None, completed=None, ok=False, pushed=False):
        self.op, self.length, self.scheduled = op, length, scheduled
        self.submitted, self.completed, self.ok = submitted, completed, ok
        kind = {"R": "reads", "W": "writes"}.get(op, "other")
        self.group = "pushed " + kind if pushed and kind != "other" else kind
        self.kind = kind
        self.service = completed - submitted if ok else None
        self.response = completed - scheduled if ok else None
        self.delay = submitted - scheduled if submitted is not None else None


def read_load(path):
    opened = gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path)
    with opened as lines:
        for line in lines:
            fields = [field.strip() for field in line.split(";")]
            if len(fields) < 4 or not fields[1].isdigit() or not fields[2].isdigit():
                continue
            seconds, nanos = fields[0].split(".")
            at = int(seconds) * SECOND + int(nanos)
            yield Request(fields[3][0].upper(), int(fields[2]) * 512, at)


def read_run(path):
    with open(path) as lines:
        for row in csv.DictReader(lines):
            number = lambda key: int(row[key]) if row[key] else None
            op = {"read": "R", "write": "W"}.get(row["op"], "-")
            yield Request(
                op, number("length_bytes") if op != "-" else 0, number("scheduled_ns"),
                number("submitted_ns"), number("completed_ns"), row["outcome"] == "0",
                row["pushed_back"] in ("true", "1"))


def rates(requests, instant, amount, end):
    """Reads, writes, others and pushed-back requests where there are any, and all."""
    windows = max(end_of(requests) // SECOND * SECOND // WINDOW + 1, 1)
    last = min(max(end - (windows - 1) * WINDOW, SECOND), WINDOW)
    found = []
    columns = [
        ("reads", lambda r: r.kind == "reads"),
        ("writes", lambda r: r.kind == "writes"),
        ("other", lambda r: r.kind == "other"),
        ("pushed back", lambda r: r.group.startswith("pushed")),
        ("all", lambda r: True),
    ]
    for name, chosen in columns:
        counts = [0] * windows
        of_it = [r for r in requests if chosen(r) and instant(r) is not None]
        for request in of_it:
            counts[instant(request) // WINDOW] += amount(request)
        if of_it or name == "all":
            values = [count / 3 for count in counts[:-1]] + [counts[-1] / (last / SECOND)]
            found.append({"name": name, "start_ns": 0, "step_ns": WINDOW, "values": values})
    return found


def end_of(requests):
    return max((max(r.scheduled, r.submitted or 0, r.completed or 0) for r in requests), default=0)


def throughput(requests):
    end = end_of(requests)
    answered = any(r.ok for r in requests)
    done = lambda r: r.completed if r.ok else None
    due = lambda r: r.scheduled
    one, size = lambda r: 1, lambda r: r.length
    seconds = {}
    for request in requests:
        seconds[request.scheduled // SECOND] = seconds.get(request.scheduled // SECOND, 0) + 1
    busiest = max(seconds.values())
    return {
        "end_ns": end,
        "answered": answered,
        "demanded_requests": rates(requests, due, one, end),
        "demanded_bytes": rates(requests, due, size, end),
        "achieved_requests": rates(requests, done, one, end) if answered else [],
        "achieved_bytes": rates(requests, done, size, end) if answered else [],
        "peak_requests": {
            "per_s": busiest, "at_s": min(at for at, n in seconds.items() if n == busiest)},
    }


def decimal(value):
    return max(bisect.bisect_right(EDGES, value) - 1, 0)


def bins(values):
    counts = {}
    for value in values:
        counts[decimal(max(value, 0))] = counts.get(decimal(max(value, 0)), 0) + 1
    low, high = min(counts), max(counts)
    return {
        "edges": [10 ** (k / 10) for k in range(low, high + 2)],
        "counts": [counts.get(k, 0) for k in range(low, high + 1)],
    }


def arrivals(requests):
    instants = [r.scheduled for r in requests]
    gaps = [b - a for a, b in zip(instants, instants[1:])]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    return {
        "volumes": 1,
        "gaps": bins(gaps),
        "simultaneous": gaps.count(0),
        "gap_mean_ns": mean,
        "gap_variation": variance**0.5 / mean,
        "dispersion": {"points": dispersion(instants)},
    }


def dispersion(instants):
    points = []
    for power in range(20, 46):
        first, last = instants[0] >> power, instants[-1] >> power
        # The first and the last span are covered in part alone.
        if last - first - 1 < 16:
            break
        counts = [0] * (last - first + 1)
        for instant in instants:
            counts[(instant >> power) - first] += 1
        counts = counts[1:-1]
        mean = sum(counts) / len(counts)
        variance = sum((count - mean) ** 2 for count in counts) / len(counts)
        points.append([2**power / 1e9, variance / mean])
    return points


def spans(requests):
    found = []
    for name, of in [("service time", lambda r: r.service), ("response time", lambda r: r.response),
                     ("lateness", lambda r: r.delay)]:
        groups = [(group, [r for r in requests if r.group == group]) for group in GROUPS]
        for group, chosen in groups + [("all", requests)]:
            values = sorted(of(r) for r in chosen if of(r) is not None)
            if not values:
                continue
            at = lambda share: values[max(-int(-(share * len(values)) // 1), 1) - 1]
            def about(share):
                # Fewer than ten beyond it tell no percentile.
                if share > 0.5 and len(values) < round(10 / (1 - share)):
                    return None
                return {"about": at(share), "within": 0.001}

            found.append({
                "span": name,
                "group": group,
                "bins": bins(values),
                "percentiles": {
                    "count": len(values),
                    "mean_ns": sum(values) // len(values),
                    "p50_ns": about(0.5),
                    "p90_ns": about(0.9),
                    "p99_ns": about(0.99),
                    "max_ns": values[-1],
                },
            })
    return found


def levels(requests):
    """What was in flight when each request was submitted, itself included: of all, of its group."""
    out = [(at, r) for at, r in enumerate(requests) if r.submitted is not None]
    found = []
    for at, request in out:
        # Of those submitted at the same instant, the earlier rows are in flight, the later not yet.
        before = (request.submitted, at)
        others = [
            r for row, r in out
            if (r.submitted, row) < before and request.submitted < (r.completed or 0)
        ]
        own = sum(r.group == request.group for r in others)
        found.append((request, len(others) + 1, own + 1))
    return found


def ranks(values):
    order = sorted(range(len(values)), key=lambda at: values[at])
    found = [0.0] * len(values)
    at = 0
    while at < len(order):
        to = at
        while to + 1 < len(order) and values[order[to + 1]] == values[order[at]]:
            to += 1
        for place in range(at, to + 1):
            found[order[place]] = (at + to) / 2
        at = to + 1
    return found


def spearman(pairs):
    x, y = ranks([pair[0] for pair in pairs]), ranks([pair[1] for pair in pairs])
    mean = (len(pairs) - 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(x, y))
    spread = (sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y)) ** 0.5
    return both / spread


def flight(requests):
    known = levels(requests)
    length = end_of(requests) - min(r.scheduled for r in requests)
    busy = sum(r.completed - r.submitted for r in requests if r.completed is not None)
    waited = sum(r.delay for r in requests if r.delay is not None)
    served = [(r, all, own) for r, all, own in known if r.service is not None]
    slowest = sorted(served, key=lambda found: (-found[0].service, found[0].submitted))[:100]
    pairs = {
        "latency-in-flight": [(all, r.service) for r, all, _ in served],
        "latency-in-flight-own": [(own, r.service) for r, _, own in served],
        "size-latency": [(r.length, r.service) for r, _, _ in served],
    }
    return {
        "in_flight_max": max(all for _, all, _ in known),
        "in_flight_mean": busy / length,
        "waiting_mean": waited / length,
        "slowest_service": [
            {"service_ns": r.service, "submitted_ns": r.submitted, "in_flight": all,
             "in_flight_own": own, "length": r.length}
            for r, all, own in slowest],
    }, {name: {"about": spearman(of_it), "off_by": 0.05} for name, of_it in pairs.items()}


def main():
    path = sys.argv[1]
    requests = list(read_run(path) if path.endswith(".csv") else read_load(path))
    found = {
        "requests": len(requests),
        "throughput": throughput(requests),
        "arrivals": arrivals(requests),
        "spans": spans(requests),
    }
    if any(r.service is not None for r in requests):
        found["flight"], correlations = flight(requests)
        found["correlations"] = correlations
    json.dump(found, sys.stdout)


main()
