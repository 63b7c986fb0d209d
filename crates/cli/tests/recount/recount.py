#!/usr/bin/env python3
"""Counts the requests of a run again, and holds against that whatever was printed of the run.

recount.py DIRECTORY: there lie requests.csv (the run's requests, converted), run/ (its directory),
and whatever else was written of it: analysis.json, info.json, compared.json, printed.txt,
intervals.csv, intervals.json, intervals.flat, metrics.prom, pictures/, and, where the device was
recorded, checked.json and seen.csv (the recording, converted). Each figure is counted here in the
plainest way, from one sorted list. Prints a line for each figure that is another one, and at the
end how many were compared.

Figures of a histogram may be too high by its resolution, which is stated beside each.
"""

import csv
import json
import math
import re
import sys
from bisect import bisect_left
from collections import Counter
from pathlib import Path

from pictures import Picture

# A count of three digits: the upper edge of a bin of 1/1024 of its value.
THREE_DIGITS = 1 / 1024
# Volumes have histograms of 32 bins to an octave; a bin's middle is told.
VOLUME = 1 / 32
# The page's bins over time: 24 to a decade, their upper edge.
PAGE = 10 ** (1 / 24) - 1
# Digits of what is printed for people: two or more, and whole seconds of what is over a minute.
PRINTED = 0.02
COMPARED = 1 / 128
# What counts as late (docs/verdict.md).
LATE_NS = 1_000_000
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
WAYS = {"read": "reads", "write": "writes"}

compared = 0
wrong = []


def hold(place, told, true, up=0.0, down=0.0):
    """The figure told is the true one, or larger by at most a share `up`, smaller by `down`."""
    global compared
    compared += 1
    if told is None or true is None:
        fits = told is None and true is None
    else:
        fits = true - abs(true) * down - 1e-9 <= told <= true + abs(true) * up + 1e-9
        # Whole nanoseconds of means.
        fits = fits or (isinstance(told, int) and abs(told - true) < 1)
    if not fits:
        wrong.append(f"{place}: {told} is told, {true} is counted")


def between(place, told, least, most):
    """The figure told is neither less nor more."""
    hold(place, told, min(max(told, least), most))


class Request:
    """A line of requests.csv; instants and spans in nanoseconds."""

    # Ten million of them fit into memory.
    __slots__ = "op is_done bytes offset issue scheduled submitted completed pushed_back".split()

    def __init__(self, row):
        number = lambda name: int(row[name]) if row[name] else None
        self.op = row["op"]
        self.is_done = row["outcome"] in ("0", "ok")
        self.bytes = number("length_bytes")
        self.offset = number("offset_bytes")
        self.issue = number("issue_ns")
        self.scheduled, self.submitted = number("scheduled_ns"), number("submitted_ns")
        self.completed = number("completed_ns")
        self.pushed_back = row["pushed_back"] == "true"

    def was_issued(self):
        """Whether a device was asked."""
        return self.submitted is not None

    def was_answered(self):
        """Whether a device answered, be it with an error."""
        return self.was_issued() and self.completed is not None

    def end(self):
        """The last instant that is known of it."""
        return max(at for at in (self.scheduled, self.submitted, self.completed) if at is not None)

    def lateness(self):
        return self.submitted - self.scheduled

    def service_time(self):
        return self.completed - self.submitted

    def response_time(self):
        return self.completed - self.scheduled


def percentile(spans, share):
    """The smallest of the sorted spans that a share of all does not exceed."""
    # In whole numbers: 0.999 * 1000 is no 999 in floating point everywhere.
    parts = round(share * 10000)
    rank = -(-parts * len(spans) // 10000)
    return spans[max(rank, 1) - 1]


def hold_percentiles(place, told, spans, up=THREE_DIGITS, shares=SHARES):
    """All percentiles of a span: count, mean, those told, maximum."""
    spans = sorted(spans)
    hold(f"{place} count", told["count"], len(spans))
    if not spans:
        return
    hold(f"{place} mean", told["mean_ns"], sum(spans) / len(spans), up=1e-6, down=1e-6)
    hold(f"{place} max", told["max_ns"], spans[-1])
    for name, share in shares.items():
        key = f"{name}_ns"
        if is_withheld(len(spans), share):
            hold(f"{place} {name} is withheld", told.get(key), None)
            continue
        hold(f"{place} {name}", told.get(key), percentile(spans, share), up=up)


def is_withheld(count, share):
    """Whether a percentile is not told: fewer than ten requests are above it."""
    return share > 0.5 and count * round((1 - share) * 10000) < 10 * 10000


SPANS = {
    "lateness": Request.lateness,
    "service_time": Request.service_time,
    "response_time": Request.response_time,
}


def of_kind(requests, kind):
    """Requests of a kind: all, or reads, or writes."""
    return [one for one in requests if kind == "all" or one.op == kind]


def answered(requests):
    """Those of which a device told that it did them."""
    return [one for one in requests if one.is_done]


def summary(told, requests):
    """summary.json of the run."""
    done = answered(requests)
    engine = told["engine"]
    pushed_back = sum(one.pushed_back for one in requests)
    issued = [one for one in requests if one.was_issued()]
    hold("summary recorded", told["recorded"], len(requests))
    # What was never answered was issued, though its row has no instants.
    unanswered = told["outcomes"].get("abandoned", 0)
    hold("summary issued", engine["issued"], len(issued) + unanswered)
    hold("summary failed", told["failed"], len(issued) + unanswered - len(done))
    hold("summary outcomes", sum(told["outcomes"].values()), len(requests))
    hold("summary ok", told["outcomes"].get("ok", 0), len(done))
    # What still waited when the run ended has no row, and neither has what was read ahead.
    left = max(engine["planned"] - len(requests), 0)
    between("summary pushed back", engine["pushed_back"], pushed_back, pushed_back + left)
    last = max((one.submitted for one in issued), default=0)
    hold("summary achieved", told["achieved_duration_ns"], last)
    if is_timed(told):
        due = max((one.scheduled for one in requests), default=0)
        between("summary demanded", engine["demanded_duration_ns"], due, math.inf if left else due)
    for op in WAYS:
        hold(f"summary bytes {op}", told["bytes_written" if op == "write" else "bytes_read"], volume(done, op))
    for name, span in SPANS.items():
        for kind, percentiles in told[name].items():
            meant = of_kind(issued if name == "lateness" else done, kind)
            if kind == "discard, write-zeroes":
                meant = [one for one in issued if one.op in ("discard", "write-zeroes")]
            hold_percentiles(f"summary {name} {kind}", percentiles, map(span, meant))
    late = [one for one in issued if one.lateness() > LATE_NS] if is_timed(told) else []
    told_late = told["late"].values()
    hold("summary late", sum(cause["requests"] for cause in told_late), len(late))
    hold("summary late by", sum(cause["lateness_ns"] for cause in told_late), sum(map(Request.lateness, late)))


def is_timed(told):
    """Whether the run had a schedule."""
    return told["engine"]["timing"] == "timed"


def volume(requests, op):
    """Bytes of the requests of an operation."""
    return sum(one.bytes for one in requests if one.op == op)


def rates(place, told, instants, start_ns, step_ns):
    """A rate over time is, in each step, that of the instants in it; no instant is left out."""
    steps = {}
    for at in instants:
        step = max(at - start_ns, 0) // step_ns
        steps[step] = steps.get(step, 0) + 1
    # The last step is divided by what it covers, so that only whole ones can be held.
    for step in range(len(told) - 1):
        rate = steps.get(step, 0) * 1e9 / step_ns
        hold(f"{place}, step {step}", told[step], rate, up=1e-6, down=1e-6)
    behind = sum(count for step, count in steps.items() if step >= len(told))
    hold(f"{place}, behind the last step", 0, behind)


def levels(place, series, spans, told_most):
    """The most of a level that each span raises by one, in each step and of all."""
    (told,) = [one for one in series if one["name"] == "all"]
    step_ns = told["step_ns"]
    # What begins where others end is behind them.
    changes = sorted(change for start, end in spans for change in ((start, 1), (end, -1)))
    level = most = at = 0
    for step, value in enumerate(told["values"]):
        highest = level
        while at < len(changes) and changes[at][0] < (step + 1) * step_ns:
            level += changes[at][1]
            highest = max(highest, level)
            at += 1
        most = max(most, highest)
        hold(f"{place}, step {step}", value, highest)
    hold(f"{place}, behind the last step", at, len(changes))
    hold(place, told_most, most)


def analysis(told, requests):
    """`ioecho analyze --json`."""
    done = answered(requests)
    issued = [one for one in requests if one.was_issued()]
    hold("analysis requests", told["requests"], len(requests))
    hold("analysis measured", told["measured"], len(requests))
    through = told["throughput"]
    for op, name in WAYS.items():
        for which, meant in (("demanded", requests), ("achieved", done)):
            hold(f"analysis {which} {name}", through[which][name]["requests"], len(of_kind(meant, op)))
            hold(f"analysis {which} {name} bytes", through[which][name]["bytes"], volume(meant, op))
    hold("analysis failed", through["failed"], len(requests) - len(done))
    for series in through["demanded_requests"]:
        if series["name"] == "all":
            due = [one.scheduled for one in requests]
            rates("analysis demanded rate", series["values"], due, series["start_ns"], series["step_ns"])
    for series in through["achieved_requests"]:
        if series["name"] == "all":
            ended = [one.completed for one in done]
            rates("analysis achieved rate", series["values"], ended, series["start_ns"], series["step_ns"])
    seconds = {}
    for one in requests:
        second = max(one.scheduled, 0) // 10**9
        seconds[second] = seconds.get(second, 0) + 1
    if through["peak_requests"] and through["peak_requests"]["per_s"]:
        hold("analysis busiest second", through["peak_requests"]["per_s"], max(seconds.values()))
    groups = {"reads": "read", "writes": "write", "all": "all"}
    for span in told["spans"]:
        group = span["group"]
        pushed_back = group.startswith("pushed")
        kind = groups.get(group.removeprefix("pushed "))
        if kind is None:
            continue
        meant = issued if span["span"] == "lateness" else done
        meant = of_kind(meant, kind)
        if group != "all":
            meant = [one for one in meant if one.pushed_back == pushed_back]
        of_one = SPANS[span["span"].replace(" ", "_")]
        hold_percentiles(f"analysis {span['span']} {group}", span["percentiles"], map(of_one, meant))
    flight = told["flight"]
    if done and told["end_ns"] > told["first_ns"]:
        whole = told["end_ns"] - told["first_ns"]
        busy = sum(one.service_time() for one in requests if one.was_answered())
        hold("analysis mean in flight", flight["in_flight_mean"], busy / whole, up=1e-6, down=1e-6)
        waited = sum(max(one.lateness(), 0) for one in issued)
        hold("analysis mean waiting", flight["waiting_mean"], waited / whole, up=1e-6, down=1e-6)
    if len(told["volumes"]) == 1 and flight["in_flight_most"]:
        flying = [(one.submitted, one.completed) for one in requests if one.was_answered()]
        levels("analysis most in flight", flight["in_flight_most"], flying, flight["in_flight_max"])
        waiting = [(one.scheduled, one.submitted) for one in issued if one.lateness() > 0]
        levels("analysis most waiting", [flight["waiting_most"]], waiting, flight["waiting_max"])
    for key, span in (("slowest_service", "service_time"), ("slowest_response", "response_time")):
        longest = sorted((SPANS[span](one) for one in done), reverse=True)
        field = "service_ns" if key == "slowest_service" else "response_ns"
        for rank, one in enumerate(flight[key]):
            hold(f"analysis {key} {rank}", one[field], longest[rank])
    sizes = {one["op"]: one for one in told["sizes"]["operations"]}
    for op in WAYS:
        meant = of_kind(requests, op)
        if meant:
            hold(f"analysis sizes {op}", sizes[op]["requests"], len(meant))
            hold(f"analysis sizes {op} bytes", sizes[op]["bytes"], volume(meant, op))
            hold(f"analysis sizes {op} max", sizes[op]["max_bytes"], max(one.bytes for one in meant))
    for told_volume in told["volumes"]:
        if len(told["volumes"]) == 1 and done:
            spans = sorted(map(Request.service_time, done))
            hold("analysis volume requests", told_volume["requests"], len(requests))
            hold("analysis volume max", told_volume["service_max_ns"], spans[-1])
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                true = None if is_withheld(len(spans), share) else percentile(spans, share)
                hold(f"analysis volume {name}", told_volume[f"service_{name}_ns"], true, VOLUME, VOLUME)


def info(told, requests):
    """`ioecho info --json`."""
    done = answered(requests)
    hold("info requests", told["requests"], len(requests))
    for op, name in WAYS.items():
        hold(f"info {name}", told[name], len(of_kind(requests, op)))
        moved = told["bytes_written" if op == "write" else "bytes_read"]
        hold(f"info bytes {op}", moved, volume(requests, op))
    issues = [one.issue for one in requests]
    if issues:
        hold("info duration", told["duration_ns"], max(issues) - min(issues))
        hold("info first issue", told["first_issue_ns"], min(issues))
    hold("info pushed back", told["measured"]["pushed_back"], sum(one.pushed_back for one in requests))
    for name, span in SPANS.items():
        spans = sorted(map(span, done if name != "lateness" else [one for one in requests if one.was_issued()]))
        figures = told["measured"][name]
        hold(f"info {name} count", figures["count"], len(spans))
        if spans:
            hold(f"info {name} max", figures["max_ns"], spans[-1])
            hold(f"info {name} min", figures["min_ns"], spans[0])
            for key, share in SHARES.items():
                true = None if is_withheld(len(spans), share) else percentile(spans, share)
                hold(f"info {name} {share}", figures[f"{key}_ns"], true, up=THREE_DIGITS)


def page(html, requests):
    """The figures that the page carries for its scripts."""
    told = json.loads(html.split('id="data">')[1].split("</script>")[0])
    done = answered(requests)
    panels = told["panels"]
    hold("page achieved", sum(panels["achieved_requests"]), len(done))
    hold("page failed", sum(panels["failed"]), sum(one.was_issued() for one in requests) - len(done))
    moved = sum(one.bytes for one in done if one.op in WAYS)
    hold("page achieved bytes", sum(panels["achieved_bytes"]), moved)
    width = panels["width_ns"]
    if told["has_schedule"]:
        hold("page demanded", sum(panels["demanded_requests"]), len(requests))
        issued = [one for one in requests if one.was_issued()]
        lateness = sorted(map(Request.lateness, issued))
        exact = told["exact"]["lateness"]
        if lateness:
            hold("page lateness max", exact["max"], lateness[-1])
            hold("page lateness max over time", max(ns or 0 for ns in panels["lateness_max_ns"]), lateness[-1], up=PAGE)
        of_bucket = {}
        for one in issued:
            of_bucket.setdefault(max(one.scheduled, 0) // width, []).append(one.lateness())
        for bucket, spans in of_bucket.items():
            told_ns = panels["lateness_max_ns"][bucket]
            hold(f"page lateness, longest of bucket {bucket}", told_ns, max(spans), up=PAGE, down=1.0 if max(spans) < 200 else 0.0)
    for op, name in WAYS.items():
        meant = [one for one in of_kind(done, op) if not one.pushed_back]
        for sonar, exact in zip(told["sonar"], told["exact"]["sonar"]):
            if sonar["name"] == name and exact and meant:
                spans = sorted(map(Request.service_time, meant))
                hold(f"page {name} max", exact["max"], spans[-1])
                for rank, share in (("p50", 0.5), ("p99", 0.99)):
                    if exact[rank] is not None:
                        hold(f"page {name} {rank}", exact[rank], percentile(spans, share), up=THREE_DIGITS)


def interval_lines(rows, requests, has_schedule):
    """Each line of `--interval-csv` for itself."""
    done = sorted(answered(requests), key=lambda one: one.completed)
    instants = [one.completed for one in done]
    for row in rows:
        start, end = (round(float(row[name]) * 1e9) for name in ("start_s", "end_s"))
        # The last interval has no end.
        end = math.inf if row["partial"] == "1" else end
        meant = done[bisect_left(instants, start) : bisect_left(instants, end)]
        place = f"interval {row['interval']}"
        hold(f"{place} completed", int(row["completed"]), len(meant))
        for op, name in WAYS.items():
            hold(f"{place} {name}", int(row[name]), len(of_kind(meant, op)))
            moved = row["bytes_written" if op == "write" else "bytes_read"]
            hold(f"{place} bytes {op}", int(moved), volume(meant, op))
        length = float(row["end_s"]) - float(row["start_s"])
        if length > 0:
            busy = sum(map(Request.service_time, meant)) / 1e9
            hold(f"{place} mean in flight", float(row["in_flight_mean"]), busy / length, up=0.01, down=0.01)
            hold(f"{place} rate", float(row["completed_per_s"]), len(meant) / length, up=0.01, down=0.01)
        kinds = {"service": "all", "read_service": "read", "write_service": "write"}
        if has_schedule:
            kinds["response"] = "all"
        for name, kind in kinds.items():
            span = SPANS["response_time" if name == "response" else "service_time"]
            told = {}
            for key in ["mean", "max", *SHARES]:
                told[f"{key}_ns"] = int(row[f"{name}_{key}_ns"]) if row.get(f"{name}_{key}_ns") else None
            told["count"] = len(of_kind(meant, kind))
            shares = {key: share for key, share in SHARES.items() if f"{name}_{key}_ns" in row}
            hold_percentiles(f"{place} {name}", told, map(span, of_kind(meant, kind)), shares=shares)


def most_in_flight(requests):
    """The most in flight as a request was submitted, itself included."""
    events = [(one.submitted, 1) for one in requests if one.was_answered()]
    events += [(one.completed, -1) for one in requests if one.was_answered()]
    most = flight = 0
    # What is submitted at the instant of a completion goes behind it.
    for _, change in sorted(events):
        flight += change
        most = max(most, flight)
    return most


def interval_objects(lines, requests, told_summary):
    """The lines of `--interval-json`: their sums, and the longest of their spans."""
    done = answered(requests)
    total = lambda name: sum(line[name] for line in lines)
    hold("interval objects, requests", total("requests"), len(requests))
    hold("interval objects, completed", total("completed"), len(done))
    hold("interval objects, failed", total("failed"), told_summary["failed"])
    hold("interval objects, pushed back", total("pushed_back"), sum(one.pushed_back for one in requests))
    has_schedule = is_timed(told_summary)
    for name in SPANS if has_schedule else ["service_time"]:
        issued = [one for one in requests if one.was_issued()]
        for kind in ("all", *WAYS):
            spans = sorted(map(SPANS[name], of_kind(issued if name == "lateness" else done, kind)))
            of_lines = [line[name][kind] for line in lines if kind in line[name]]
            place = f"interval objects, {name} {kind}"
            hold(f"{place} count", sum(one["count"] for one in of_lines), len(spans))
            if spans:
                hold(f"{place} max", max(one["max_ns"] for one in of_lines), spans[-1])
                mean = sum(one["mean_ns"] * one["count"] for one in of_lines) / len(spans)
                # Each line tells whole nanoseconds.
                true = sum(spans) / len(spans)
                slack = 1e-3 + 1 / max(abs(true), 1)
                hold(f"{place} mean", mean, true, up=slack, down=slack)
    if not has_schedule:
        hold("interval objects, nothing is late", sum(len(line["response_time"]) for line in lines), 0)


def flatfile(text, requests):
    """Vdbench's columns: rates in MiB/s, spans in ms, of reads and writes."""
    names, *rows = [line.split() for line in text.splitlines() if not line.startswith("*")]
    rows = [dict(zip(names, row)) for row in rows]
    moved = [one for one in answered(requests) if one.op in WAYS]
    lines = [row for row in rows if row["Interval"].isdigit()]
    for name, op in (("resp_max", "all"), ("read_max", "read"), ("write_max", "write")):
        longest = max(map(Request.service_time, of_kind(moved, op)), default=0)
        told = max(float(row[name]) for row in lines)
        hold(f"flatfile {name}", told, longest / 1e6, up=1e-3, down=1e-3)


def metrics(text, requests, told_summary):
    """The counters of `--metrics` when the run has ended."""
    told = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            told[name.removeprefix("ioecho_")] = float(value)
    done = answered(requests)
    hold("metrics: running", told["running"], 0)
    for op, name in WAYS.items():
        hold(f"metrics {name}", told[f'requests_total{{kind="{op}"}}'], len(of_kind(done, op)))
        hold(f"metrics bytes {op}", told[f'transferred_bytes_total{{kind="{op}"}}'], volume(done, op))
    hold("metrics failed", told["failed_requests_total"], told_summary["failed"])
    hold("metrics pushed back", told["pushed_back_requests_total"], sum(one.pushed_back for one in requests))
    has_schedule = is_timed(told_summary)
    late = sum(one.lateness() > LATE_NS for one in requests if one.was_issued()) if has_schedule else 0
    causes = [value for name, value in told.items() if name.startswith("late_requests_total")]
    hold("metrics late", sum(causes), late)
    for name in SPANS if has_schedule else ["service_time"]:
        meant = [one for one in requests if one.was_issued()] if name == "lateness" else done
        for kind in WAYS:
            spans = sorted(map(SPANS[name], of_kind(meant, kind)))
            if not spans:
                continue
            place = f"metrics {name} {kind}"
            hold(f"{place} count", told[f'{name}_seconds_count{{kind="{kind}"}}'], len(spans))
            total = sum(spans) / 1e9
            hold(f"{place} sum", told[f'{name}_seconds_sum{{kind="{kind}"}}'], total, up=1e-3, down=1e-3)
            for key, value in told.items():
                found = re.fullmatch(rf'{name}_seconds_bucket{{kind="{kind}",le="([^"]+)"}}', key)
                if found:
                    edge = float(found.group(1).replace("+Inf", "inf")) * 1e9
                    # An edge is right to three digits.
                    least = sum(span <= edge * (1 - 2 * THREE_DIGITS) for span in spans)
                    most = sum(span <= edge * (1 + 2 * THREE_DIGITS) for span in spans)
                    between(f"{place} up to {found.group(1)} s", value, least, most)


def intervals(rows, requests, told_summary):
    """The lines of `--interval-csv`."""
    done = answered(requests)
    interval_lines(rows, requests, is_timed(told_summary))
    flight = max(int(row["in_flight_max"]) for row in rows)
    if len(told_summary["outcomes"]) == 1:
        hold("intervals, most in flight", flight, most_in_flight(requests))
    number = lambda name: sum(int(row[name] or 0) for row in rows)
    hold("intervals requests", number("requests"), len(requests))
    hold("intervals completed", number("completed"), len(done))
    hold("intervals failed", number("failed"), told_summary["failed"])
    hold("intervals bytes read", number("bytes_read"), volume(done, "read"))
    hold("intervals bytes written", number("bytes_written"), volume(done, "write"))
    hold("intervals late", number("late"), sum(cause["requests"] for cause in told_summary["late"].values()))
    longest = lambda name: max((int(row[name]) for row in rows if row[name]), default=0)
    if done:
        hold("intervals longest service", longest("service_max_ns"), max(map(Request.service_time, done)))
    if is_timed(told_summary):
        between("intervals demanded", number("demanded"), len(requests), told_summary["engine"]["planned"])
        if told_summary["engine"]["incomplete"] == "":
            hold("intervals demanded", number("demanded"), told_summary["engine"]["planned"])
        responses = map(Request.response_time, done)
        hold("intervals longest response", longest("response_max_ns"), max(responses, default=0))


def comparison(told, requests):
    """The baseline's side of `ioecho compare --json`."""
    done = answered(requests)
    spans = {"service": Request.service_time, "response": Request.response_time}
    for row in told["pairs"][0]["rows"]:
        if row["phase"] is not None or row["size"] is not None or row["span"] not in spans:
            continue
        meant = sorted(map(spans[row["span"]], of_kind(done, row["kind"])))
        if row["kind"] != "all" and row["kind"] not in WAYS or not meant:
            continue
        place = f"comparison {row['span']} {row['kind']} {row['metric']}"
        hold(f"{place} requests", row["requests"][0], len(meant))
        if row["metric"] == "mean":
            hold(place, row["baseline"], sum(meant) / len(meant), up=1e-6, down=1e-6)
        elif row["metric"] == "max":
            hold(place, row["baseline"], meant[-1])
        elif row["metric"].replace(".", "_") in SHARES:
            true = percentile(meant, SHARES[row["metric"].replace(".", "_")])
            hold(place, row["baseline"], true, up=COMPARED, down=COMPARED)


UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}


def span_ns(text):
    """The nanoseconds of a printed span: `1.23 ms`, `2:05`, `3:08:22`."""
    if ":" in text:
        parts = [float(part) for part in text.split(":")]
        return sum(part * 60**power for power, part in enumerate(reversed(parts))) * 1e9
    number, unit = text.split()
    return float(number) * UNITS[unit]


def first_lines(text, requests, timed):
    """The first three lines of the terminal: rates and percentiles in words."""
    done = answered(requests)
    word = "response time" if timed else "service time"
    span = Request.response_time if timed else Request.service_time
    line = re.search(rf"^{word} +(.*)$", text, re.M)
    if line is None:
        hold(f"terminal: a line of {word}", None, 0 if any(one.op in WAYS for one in done) else None)
        return
    for part in line.group(1).split("; "):
        op, rest = part.split(" ", 1)
        spans = sorted(map(span, of_kind(done, op)))
        for figure in rest.split(", "):
            found = re.fullmatch(r"(p50|p99|p99\.9|max) ([\d.:]+(?: \S+)?)", figure)
            if found is None:
                continue
            name, value = found.groups()
            true = spans[-1] if name == "max" else percentile(spans, SHARES[name.replace(".", "_")])
            hold(f"terminal {op} {name}", span_ns(value), true, up=PRINTED, down=PRINTED)
    achieved = re.search(r"^throughput +([\d,.]+) IOPS", text, re.M)
    if achieved and done:
        end = max(one.end() for one in requests)
        rate = len(done) * 1e9 / end
        hold("terminal IOPS", float(achieved.group(1).replace(",", "")), rate, up=PRINTED, down=PRINTED)


def drawn(directory, requests, told_summary):
    """Pictures: what lies below the lines, and the highest mark."""
    # A run shorter than a step of its lines leaves nothing to measure below them.
    if told_summary["achieved_duration_ns"] < 1e9:
        return
    done = answered(requests)
    issued = [one for one in requests if one.was_issued()]
    for path in sorted(directory.glob("*.svg")):
        picture = Picture(path.read_text())
        # Lines are drawn to a tenth of a pixel.
        if "overview.thrp" in path.name:
            for name, meant in (("achieved", done), ("demanded", requests)):
                if name in picture.colours:
                    slack = 0.01 + picture.blur() / max(len(meant), 1)
                    hold(f"{path.name}, {name}", picture.area(name), len(meant), up=slack, down=slack)
        # What failed is drawn elsewhere.
        if len(told_summary["outcomes"]) > 1:
            continue
        for name, spans in (
            ("g01.latency", map(Request.service_time, done)),
            ("g04.delay", map(Request.lateness, issued)),
        ):
            longest = max(spans, default=0)
            # The scale does not go below.
            if name in path.name and longest > 1_000:
                least, most = picture.highest()
                between(f"{path.name}, highest", longest, least, most)


def at_the_device(told, seen, requests, told_summary):
    """`ioecho check --json` of a run that the kernel's recording has beside other programs'."""
    asked = Counter((one.op, one.offset, one.bytes) for one in requests if one.was_issued())
    saw = Counter((row["op"], int(row["offset_bytes"]), int(row["length_bytes"])) for row in seen)
    found = asked & saw
    figures = told["figures"]
    total = lambda counts: sum(counts.values())
    hold("check asked", figures["asked"]["requests"], total(asked))
    hold("check found", figures["found"], total(found))
    hold("check missing", figures["missing"], total(asked) - total(found))
    hold("check extra", figures["extra"], total(saw) - total(found))
    witness = told_summary["engine"]["witness"]
    during = figures["extra"] - figures["extra_outside"]
    for name, true in (("asked", total(asked)), ("found", total(found)), ("extra", during)):
        hold(f"witness {name}", witness[name], true)
    for op, kind in figures["kinds"].items():
        of_op = lambda counts: sum(count for (of, _, _), count in counts.items() if of == op)
        hold(f"check {op} asked", kind["asked"], of_op(asked))
        hold(f"check {op} found", kind["found"], of_op(found))
        hold(f"check {op} extra", kind["extra"], of_op(saw) - of_op(found))
    verdict = told_summary["verdict"]
    if verdict["finding"] == "foreign-load":
        count, percent = re.search(r"(\d+) requests of all .* \(([\d.]+) %\)", verdict["summary"]).groups()
        hold("headline, foreign requests", int(count), during)
        hold("headline, share of foreign requests", float(percent), during / (total(found) + during) * 100, 0.01, 0.01)


def main():
    directory = Path(sys.argv[1])
    read = lambda name: (directory / name).read_text()
    with open(directory / "requests.csv", newline="") as file:
        requests = [Request(row) for row in csv.DictReader(file)]
    told = json.loads(read("run/summary.json"))
    summary(told, requests)
    analysis(json.loads(read("analysis.json")), requests)
    info(json.loads(read("info.json")), requests)
    page(read("run/report.html"), requests)
    first_lines(read("printed.txt"), requests, is_timed(told))
    if (directory / "intervals.csv").exists():
        with open(directory / "intervals.csv", newline="") as file:
            intervals(list(csv.DictReader(file)), requests, told)
    if (directory / "intervals.json").exists():
        lines = [json.loads(line) for line in read("intervals.json").splitlines()]
        interval_objects(lines, requests, told)
    if (directory / "intervals.flat").exists():
        flatfile(read("intervals.flat"), requests)
    if (directory / "metrics.prom").exists():
        metrics(read("metrics.prom"), requests, told)
    if (directory / "compared.json").exists():
        comparison(json.loads(read("compared.json")), requests)
    drawn(directory / "pictures", requests, told)
    if (directory / "checked.json").exists():
        with open(directory / "seen.csv", newline="") as file:
            at_the_device(json.loads(read("checked.json")), list(csv.DictReader(file)), requests, told)
    for line in wrong:
        print(line)
    print(f"{compared} figures compared")
    sys.exit(bool(wrong))


main()
