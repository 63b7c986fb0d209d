#!/usr/bin/env python3
"""From results.jsonl: the tables of docs/scaled-replay.md, and whether the goals are met.

    report.py RESULTS.jsonl...      prints them

Everything is normalised to the truth, the application really run on the fast device: 1 is right.
Where there are several repeats a figure is their median, with the least and the greatest behind it.
"""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fidelity"))

from compare import median

# The goals of the experiment, as shares of the truth.
IOPS_MAX, IOPS_MEDIAN_MAX, RESPONSE_MAX = 0.10, 0.05, 0.15
PREDICTION_MAX, UNSCALED_MAX = 0.15, 0.02
JUDGED = ("dependency", "inferred")
PREDICTED = ("predicted", "learnt")
RIVALS = ("timed", "afap", "load", "diskaccel", "hfplayer")
SHOWN = (("IOPS", "iops"), ("mean response", "mean_us"), ("p99 response", "p99_us"),
         ("duration", "duration_s"))
LEGEND = "Truth in IOPS, µs, µs and s; the rest as a share of it."


def number(value):
    return "%.*f" % (0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3, value)


def spread(values):
    """`median (min…max)`, or the median alone where all look the same."""
    middle, least, most = (number(value) for value in (median(values), min(values), max(values)))
    return middle if least == most else "%s (%s…%s)" % (middle, least, most)


def table(head, lines):
    rows = ["| %s |" % " | ".join(cells) for cells in (head, ["---"] * len(head), *lines)]
    return "\n".join(rows) + "\n"


def groups(lines, *names):
    """Lines by some of their keys, in the order in which they came."""
    found = {}
    for line in lines:
        found.setdefault(tuple(line[name] for name in names), []).append(line)
    return found


def ratios(lines, truth, key):
    return [line[key] / median([one[key] for one in truth]) for line in lines]


def device_table(lines):
    head = ["device", "in flight", "IOPS", "of the model", "mean µs", "of the model", "p99 µs",
            "of the model"]
    return table(head, [
        [line["slow"], line["mode"].removeprefix("depth "), *(
            number(line[name]) for name in ("iops", "model_iops", "mean_us", "model_mean_us",
                                            "p99_us", "model_p99_us"))]
        for line in lines])


def scaled_tables(lines, title):
    """A table for each pair of devices: the modes of each case beside its truth."""
    text = []
    for (slow, fast), pair in groups([one for one in lines if one["fast"]], "slow", "fast").items():
        rows = []
        for (case,), of_case in groups(pair, "case").items():
            modes = {mode: found for (mode,), found in groups(of_case, "mode").items()}
            truth = modes.pop("truth", None)
            if not truth:
                continue
            rows.append([case, "**truth**", str(len(truth)), *(
                spread([line[key] for line in truth]) for _, key in SHOWN), ""])
            for mode, found in modes.items():
                findings = sorted({line.get("finding", "") for line in found})
                rows.append(["", mode, str(len(found)), *(
                    spread(ratios(found, truth, key)) for _, key in SHOWN), ", ".join(findings)])
        head = ["case", "mode", "n", *(name for name, _ in SHOWN), "finding"]
        text.append("### %s: %s → %s\n\n%s\n\n%s" % (title, slow, fast, LEGEND, table(head, rows)))
    return "\n".join(text)


def unscaled_table(lines):
    rows = []
    for (name, case), found in groups(lines, "slow", "case").items():
        recorded = [one for one in found if one["mode"] == "recorded"]
        replayed = [one for one in found if one["part"] == "unscaled"]
        if recorded and replayed:
            shares = [spread(ratios(replayed, recorded, key)) for _, key in SHOWN]
            rows.append([name, case, str(len(replayed)), *shares])
    return table(["device", "case", "n", *(name for name, _ in SHOWN)], rows)


def errors(lines, mode, key):
    """By how much a mode is off in each case: {(slow, fast, case): share}."""
    found = {}
    for place, of_case in groups(lines, "slow", "fast", "case").items():
        truth = [one for one in of_case if one["mode"] == "truth"]
        runs = [one for one in of_case if one["mode"] == mode]
        if truth and runs:
            found[place] = abs(median(ratios(runs, truth, key)) - 1)
    return found


def named(places):
    return ", ".join("%s→%s %s" % place for place in places) or "none"


def goals(lines, mode):
    """(goal, what was found) for each goal that can be judged by a mode."""
    iops = errors(lines, mode, "iops")
    if not iops:
        return []
    response = errors(lines, mode, "mean_us")
    rows = [
        ("IOPS error at most %.0f %% in every case" % (100 * IOPS_MAX),
         "missed: " + named(place for place, error in iops.items() if error > IOPS_MAX)),
        ("IOPS error at most %.0f %% in the median" % (100 * IOPS_MEDIAN_MAX),
         "%.1f %%" % (100 * median(list(iops.values())))),
        ("mean response time error at most %.0f %%" % (100 * RESPONSE_MAX),
         "missed: " + named(place for place, error in response.items() if error > RESPONSE_MAX)),
    ]
    for rival in RIVALS:
        others = errors(lines, rival, "iops")
        if others:
            missed = named(place for place in iops
                           if place in others and iops[place] > others[place])
            rows.append(("IOPS nearer to the truth than " + rival, "missed: " + missed))
    for name in PREDICTED if mode == "dependency" else ():
        predicted = errors(lines, name, "iops")
        if predicted:
            missed = named(place for place, error in predicted.items() if error > PREDICTION_MAX)
            rows.append(("%s within %.0f %%" % (name, 100 * PREDICTION_MAX), "missed: " + missed))
    return rows


def unscaled_goal(lines):
    missed = []
    for place, found in groups(lines, "slow", "case").items():
        recorded = [one for one in found if one["mode"] == "recorded"]
        replayed = [one for one in found if one["part"] == "unscaled"]
        if recorded and replayed:
            error = abs(median(ratios(replayed, recorded, "duration_s")) - 1)
            if error > UNSCALED_MAX:
                missed.append("%s %s" % place)
    return ("duration within %.0f %%" % (100 * UNSCALED_MAX),
            "missed: " + (", ".join(missed) or "none"))


def markdown(lines):
    """Everything that was measured."""
    failed = [line for line in lines if "failed" in line]
    lines = [line for line in lines if "failed" not in line]
    parts = {part: found for (part,), found in groups(lines, "part").items()}
    builds = sorted({line["ioecho"] for line in lines})
    text, judged = [], []
    if builds:
        text.append("ioecho by the SHA-256 of the program: %s\n" % ", ".join(builds))
    if "device" in parts:
        text.append("### The stand-ins\n\n" + device_table(parts["device"]))
    for part, title in (("real", "Applications"), ("simulated", "Known graphs")):
        if part in parts:
            text.append(scaled_tables(parts[part], title))
            judged += [(title, mode, *found) for mode in JUDGED
                       for found in goals(parts[part], mode)]
    if "unscaled" in parts:
        both = parts.get("real", []) + parts["unscaled"]
        text.append("### Unscaled: the recording is 1\n\n" + unscaled_table(both))
        judged.append(("Unscaled", "dependency", *unscaled_goal(both)))
    if judged:
        text.append("### Goals\n\n" + table(["part", "mode", "goal", "found"], judged))
    if failed:
        rows = [[line["part"], line["slow"], line["fast"], line["case"], line["mode"],
                 line["failed"].replace("\n", " ").replace("|", "\\|")] for line in failed]
        head = ["part", "slow", "fast", "case", "mode", "why"]
        text.append("### Not measured\n\n" + table(head, rows))
    return "\n".join(text)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lines = []
    for path in sys.argv[1:]:
        with open(path) as file:
            lines += [json.loads(line) for line in file]
    print(markdown(lines))


if __name__ == "__main__":
    main()
