#!/usr/bin/env python3
"""How far is a replay from its original? Figures from two recordings at the device.

A replay tool's own figures say when it meant to issue. What counts is what the device saw, so both
the original and the replay are recordings of the same tracepoints, and each request of the one must
be found in the other.

  compare.py ORIGINAL REPLAY      two recordings (prefix of NAME.blktrace.0, .1 …); prints JSON

Matching: requests are alike when sector, length and kind are the same; the n-th of those belongs to
the n-th. Where one side has more of them (a tool that looks at the device before it starts, a
request that was left out), those are paired, in order, that lie nearest in time. What is left on
the side of the original is missing, on the side of the replay extra; neither is in any other figure
of the replay.

Alignment: the clock of each side begins with its first matched request. That request may itself be
early or late, so the median of all differences is then taken away. `issue_start` is the same error
aligned by the median of the first 100 requests instead: it counts a drift in full.

Order: requests that were recorded in the same nanosecond, on two processors, have none.
"""

import bisect
import json
import sys

import recording

# Above so many pairs of one kind the cheapest pairing is not looked for.
PAIRS_MAX = 250000
# So many requests at the beginning tell when the replay began.
BEGINNING = 100


def percentile(ordered, share):
    """Linear between the nearest ranks, of a sorted list."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values):
    """None of nothing."""
    return percentile(sorted(values), 0.5)


def nearest(few, many):
    """Pairs (i, j) of all of `few` with some of `many`, in order, with the least sum of distances.

    few, many: instants in order, len(few) <= len(many).
    """
    n, m = len(few), len(many)
    spare = m - n
    if n * (spare + 1) > PAIRS_MAX:
        return [(i, i) for i in range(n)]
    # cost[s]: least sum for the first i of few, when s of many were passed over so far.
    cost, steps = [0] * (spare + 1), []
    for i in range(n):
        best, passed, row, step = None, 0, [], []
        for s in range(spare + 1):
            if best is None or cost[s] < best:
                best, passed = cost[s], s
            row.append(best + abs(few[i] - many[i + s]))
            step.append(passed)
        cost = row
        steps.append(step)
    s = cost.index(min(cost))
    pairs = []
    for i in range(n - 1, -1, -1):
        pairs.append((i, i + s))
        s = steps[i][s]
    return pairs[::-1]


def match(original, replay):
    """Pairs (index in original, index in replay), in the replay's order of issue."""
    places = {}
    for side, found in ((0, original), (1, replay)):
        for index, key in enumerate(found.key):
            places.setdefault(key, ([], []))[side].append(index)
    pairs, unclear = [], []
    for ours, theirs in places.values():
        if len(ours) == len(theirs):
            pairs.extend(zip(ours, theirs))
        elif ours and theirs:
            unclear.append((ours, theirs))
    if unclear:
        # What is beyond doubt tells how far apart the clocks are, at each place of the trace.
        sure = sorted((original.issue[o], replay.issue[r] - original.issue[o]) for o, r in pairs)
        instants = [at for at, _ in sure]
        rest = replay.issue[0] - original.issue[0]

        def expected(at):
            place = bisect.bisect_left(instants, at)
            around = sure[max(0, place - 10) : place + 10]
            return at + (median([shift for _, shift in around]) if around else rest)

        for ours, theirs in unclear:
            want = [expected(original.issue[o]) for o in ours]
            have = [replay.issue[r] for r in theirs]
            if len(ours) <= len(theirs):
                pairs.extend((ours[i], theirs[j]) for i, j in nearest(want, have))
            else:
                pairs.extend((ours[j], theirs[i]) for i, j in nearest(have, want))
    pairs.sort(key=lambda pair: pair[1])
    return pairs


def reordered(sequence):
    """Share of reordered packets (RFC 4737, 4.1, Type-P-Reordered) in a sequence of numbers.

    Reordered is what comes after one with a higher number; the RFC's NextExp is the highest so far
    plus one.
    """
    highest, late = sequence[0] if sequence else 0, 0
    for number in sequence:
        if number < highest:
            late += 1
        else:
            highest = number
    return late / len(sequence) if sequence else 0.0


def response_times(found, indices, since):
    """Sorted nanoseconds from `since` (found.issue or found.driver) to the completion."""
    spans = []
    for index in indices:
        if since[index] is not None and found.done[index] is not None:
            spans.append(found.done[index] - since[index])
    return sorted(spans)


def describe(found, indices=None):
    """What a recording holds: times in microseconds, duration in seconds."""
    indices = range(len(found)) if indices is None else indices
    if not len(indices):
        return {"requests": 0}
    issues = [found.issue[i] for i in indices]
    ends = [found.issue[i] if found.done[i] is None else found.done[i] for i in indices]
    first, last = min(issues), max(issues)
    span, duration = (last - first) / 1e9, (max(ends) - first) / 1e9
    response = response_times(found, indices, found.issue)
    driver = response_times(found, indices, found.driver)
    us = lambda value: None if value is None else value / 1e3
    mean = lambda values: sum(values) / len(values) / 1e3 if values else None
    return {
        "requests": len(indices),
        "span_s": span,
        "duration_s": duration,
        "requests_per_s": (len(indices) - 1) / span if span else None,
        "response_mean_us": mean(response),
        "response_p50_us": us(percentile(response, 0.5)),
        "response_p99_us": us(percentile(response, 0.99)),
        "driver_mean_us": mean(driver),
        "driver_p99_us": us(percentile(driver, 0.99)),
        # Little's law: time spent in the device, all requests together, by the time that passed.
        "in_flight_mean": sum(response) / 1e9 / duration if duration else None,
    }


def _percent(now, then):
    return None if now is None or not then else 100 * (now / then - 1)


def _drift(at, error):
    """Slope of the error over time, parts per million (least squares)."""
    n = len(at)
    mean_at, mean_error = sum(at) / n, sum(error) / n
    below = sum((x - mean_at) ** 2 for x in at)
    above = sum((x - mean_at) * (y - mean_error) for x, y in zip(at, error))
    return 1e6 * above / below if below else 0.0


def _spread(name, error):
    size = sorted(map(abs, error))
    shares = (("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0))
    return {"%s_%s_us" % (name, tag): percentile(size, share) / 1e3 for tag, share in shares}


def compare(original, replay):
    """The figures of a replay against its original."""
    pairs = match(original, replay)
    result = {
        "matched": len(pairs),
        "missing": len(original) - len(pairs),
        "extra": len(replay) - len(pairs),
        "incomplete": sum(replay.done[r] is None for _, r in pairs),
        "failed": replay.failed,
    }
    if not pairs:
        return result
    # Of the original all: what was left out belongs to what should have been.
    was = describe(original)
    now = describe(replay, [r for _, r in pairs])
    result.update(original=was, replay=now)
    for name, key in (
        ("duration", "duration_s"),
        ("span", "span_s"),
        ("response_mean", "response_mean_us"),
        ("response_p99", "response_p99_us"),
        ("driver_mean", "driver_mean_us"),
    ):
        result[name + "_error_percent"] = _percent(now.get(key), was.get(key))
    result["in_flight_original"] = was["in_flight_mean"]
    result["in_flight_replay"] = now["in_flight_mean"]

    first_was = min(original.issue[o] for o, _ in pairs)
    first_now = min(replay.issue[r] for _, r in pairs)
    at = [original.issue[o] - first_was for o, _ in pairs]
    error = [replay.issue[r] - first_now - x for (_, r), x in zip(pairs, at)]
    middle = median(error)
    result.update(_spread("issue", [e - middle for e in error]))
    begin = median([e for _, e in sorted(zip(at, error))[:BEGINNING]])
    result.update(_spread("issue_start", [e - begin for e in error]))
    result["drift_ppm"] = _drift(at, error)
    result["reordered_percent"] = 100 * reordered([original.issue[o] for o, _ in pairs])
    return result


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    try:
        original, replay = (recording.load(prefix) for prefix in arguments)
    except (recording.Damaged, OSError) as error:
        sys.exit("error: %s" % error)
    json.dump(compare(original, replay), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
