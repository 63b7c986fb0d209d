#!/usr/bin/env python3
"""From the results of all runs: tables, and whether the promises are kept.

  report.py RESULTS.json...     prints the report again, of several runs of the benchmark in one

A table's figure is the median over the rounds; where the rounds differ, the least and the greatest
stand behind it. Disturbed runs have a table of their own. A tool that no round left alone is shown
with its disturbed runs and a mark, and no promise is judged by them.
"""

import json
import sys

import compare

COLUMNS = (
    # heading, key, digits, with sign
    ("issue p50 µs", "issue_p50_us", 1, False),
    ("p99 µs", "issue_p99_us", 1, False),
    ("p99.9 µs", "issue_p99_9_us", 0, False),
    ("max µs", "issue_max_us", 0, False),
    ("duration %", "duration_error_percent", 3, True),
    ("response mean %", "response_mean_error_percent", 0, True),
    ("response p99 %", "response_p99_error_percent", 0, True),
    ("in flight", "in_flight_replay", 2, False),
    ("reordered %", "reordered_percent", 3, False),
    ("missing", "missing", 0, False),
    ("extra", "extra", 0, False),
    ("CPU s per million", "cpu_s_per_million", 2, False),
    ("machine busy s", "machine_busy_s", 1, False),
)
ISSUE_P50_US_MAX = 3.0
PACER_RATIO_MAX = 1.3
PEER_RATIO_MAX = 1 / 3
DURATION_PERCENT_MAX = 0.05
RESPONSE_PERCENT_MAX = 25.0
RESPONSE_RATES = (5000, 20000)
TOP_SPEED_RATIO_MIN = 0.9
SIMULATED_PER_S_MIN = 1_000_000


def number(value, digits, sign=False):
    if value is None:
        return "–"
    # Rounded first, and no minus before what is zero then.
    rounded = float("%.*f" % (digits, value)) + 0.0
    return "{:{}.{}f}".format(rounded, "+," if sign else ",", digits)


def cell(values, digits, sign=False):
    """`median (min…max)`, or the median alone where all are the same."""
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    middle, least, most = (
        number(value, digits, sign)
        for value in (compare.median(values), min(values), max(values))
    )
    return middle if least == most else "%s (%s…%s)" % (middle, least, most)


def quiet(runs):
    """The runs that count."""
    return [run for run in runs if not run["disturbed"] and not run.get("refused")]


def groups(runs):
    """Runs by (device, rate), in the order in which they came."""
    found = {}
    for run in runs:
        found.setdefault((run["device"], run["rate"]), []).append(run)
    return found


def by_tool(runs, tools):
    """Runs of one device and rate by tool, in the tools' order."""
    return {name: [run for run in runs if run["tool"] == name] for name in tools}


def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def row_of(name, runs, mark=""):
    remarks = []
    hung = sum(bool(run.get("hung")) for run in runs)
    if hung:
        remarks.append("killed %d×" % hung)
    failed = sum(run.get("failed", 0) for run in runs)
    if failed:
        remarks.append("%d requests failed" % failed)
    cells = [cell([run.get(key) for run in runs], digits, sign) for _, key, digits, sign in COLUMNS]
    return [name + mark, str(len(runs))] + cells + [", ".join(remarks)]


def table(runs, tools):
    """The quiet runs of one device and rate."""
    head = ["tool", "n"] + [column[0] for column in COLUMNS] + ["remarks"]
    rows, marked = [], False
    for name, mine in by_tool(runs, tools).items():
        usable = [run for run in mine if not run.get("refused")]
        if quiet(mine):
            rows.append(row_of(name, quiet(mine)))
        elif usable:
            rows.append(row_of(name, usable, " †"))
            marked = True
    text = markdown_table(head, rows)
    if marked:
        text += "\n\n† Every run was disturbed; these are the disturbed ones."
    return text


def disturbed_table(runs, tools):
    """The disturbed runs of one device and rate, each by itself; "" if there are none."""
    head = ["tool", "round", "issue p50 µs", "p99 µs", "max µs", "response mean %", "why"]
    rows = []
    for name, mine in by_tool(runs, tools).items():
        for run in mine:
            if run.get("refused"):
                why, figures = "refused: " + run["refused"], {}
            elif run["disturbed"]:
                why, figures = "; ".join(run["disturbed"]), run
            else:
                continue
            rows.append([
                name, str(run["round"]), number(figures.get("issue_p50_us"), 1),
                number(figures.get("issue_p99_us"), 1), number(figures.get("issue_max_us"), 0),
                number(figures.get("response_mean_error_percent"), 0, True), why,
            ])
    return markdown_table(head, rows) if rows else ""


class Judge:
    """Collects promises: what was measured against what was promised."""

    def __init__(self):
        self.promises = []

    def at_most(self, where, what, value, limit, unit="", note="", strict=False):
        """strict: less than the limit, not equal to it."""
        met = None
        if value is not None and limit is not None:
            met = value < limit if strict else value <= limit
        self._add(where, what, value, limit, unit, note, met)

    def at_least(self, where, what, value, limit, unit="", note=""):
        met = None if value is None or limit is None else value >= limit
        self._add(where, what, value, limit, unit, note, met)

    def _add(self, where, what, value, limit, unit, note, met):
        self.promises.append({
            "where": where, "promise": what, "measured": value, "limit": limit, "unit": unit,
            "note": note, "met": met,
        })


def judge_replay(judge, where, rate, runs, tools, recording_disturbed=False):
    """The promises of a timed replay at one device and rate. tools: {name: is a Debian peer}.

    Of a disturbed recording the instants are still what is to be replayed, whatever they are; its
    response times are nobody's.
    """
    quietly = {name: quiet(mine) for name, mine in by_tool(runs, tools).items()}

    def middle(name, key):
        values = [run[key] for run in quietly.get(name, []) if run.get(key) is not None]
        return compare.median(values) if values else None

    def least(names, key, size=abs):
        known = [(size(middle(n, key)), n) for n in names if middle(n, key) is not None]
        return min(known) if known else (None, "")

    ours = lambda key: middle("ioecho", key)
    peers = [name for name, peer in tools.items() if peer]
    pacers = [name for name in tools if name.startswith("pacer")]
    others = [name for name in tools if not name.startswith("ioecho")]

    judge.at_most(where, "issue error p50", ours("issue_p50_us"), ISSUE_P50_US_MAX, "µs")
    floor, who = least(pacers, "issue_p99_us")
    judge.at_most(
        where, "issue error p99, against 1.3 × the bare pacer's", ours("issue_p99_us"),
        None if floor is None else PACER_RATIO_MAX * floor, "µs", who,
    )
    best, who = least(peers, "issue_p99_us")
    judge.at_most(
        where, "issue error p99, against a third of the best peer's", ours("issue_p99_us"),
        None if best is None else PEER_RATIO_MAX * best, "µs", who,
    )
    duration = ours("duration_error_percent")
    judge.at_most(
        where, "duration error", None if duration is None else abs(duration),
        DURATION_PERCENT_MAX, "%", strict=True,
    )
    judge.at_most(where, "reordered", ours("reordered_percent"), 0.0, "%")
    judge.at_most(where, "missing requests", ours("missing"), 0, "")
    response = ours("response_mean_error_percent")
    response = None if response is None or recording_disturbed else abs(response)
    best, who = least(others, "response_mean_error_percent")
    judge.at_most(
        where, "mean response-time error, against the best tool's", response, best, "%", who
    )
    if rate in RESPONSE_RATES:
        judge.at_most(where, "mean response-time error", response, RESPONSE_PERCENT_MAX, "%")
    cheapest, who = least([n for n in peers if n.startswith("fio")], "cpu_s_per_million")
    judge.at_most(
        where, "CPU per million requests, against fio's", ours("cpu_s_per_million"), cheapest,
        "s", who,
    )


def judge_top_speed(judge, results):
    for result in results:
        where = "%s, %s, depth %d" % (result["device"], result["kind"], result["depth"])
        ratio = result["ratio"]
        judge.at_least(where, "top speed", ratio, TOP_SPEED_RATIO_MIN, "×", "fio's")


def judge_simulated(judge, simulated):
    if simulated:
        judge.at_least(
            "simulated device", "requests per second with full recording",
            simulated["requests_per_s"], SIMULATED_PER_S_MIN, "/s",
        )


def verdict(promise):
    """A sentence: kept or not, and by how much."""
    value, limit, unit = promise["measured"], promise["limit"], promise["unit"]
    if promise["met"] is None:
        return "not judged (disturbed)"
    digits = 0 if abs(limit) >= 1000 or not unit else 3 if abs(limit) < 1 else 2
    value_text, limit_text = number(value, digits), number(limit, digits)
    text = "%s %s against %s %s" % (value_text, unit, limit_text, unit)
    text = text.replace("  ", " ").rstrip()
    if promise["note"]:
        text += " of " + promise["note"]
    if limit:
        text += " (%.2f ×)" % (value / limit)
    return ("met: " if promise["met"] else "**not met**: ") + text


def promises_table(promises):
    rows = [[p["where"], p["promise"], verdict(p)] for p in promises]
    return markdown_table(["where", "promise", "judgement"], rows)


def top_speed_table(results):
    head = ["device", "kind", "depth", "ioecho IOPS", "fio IOPS", "fio in batches", "ioecho / fio",
            "disturbed turns"]
    rows = [
        [
            result["device"], result["kind"], str(result["depth"]),
            cell(result["ioecho"], 0), cell(result["fio"], 0), cell(result["fio_batched"], 0),
            number(result["ratio"], 2), str(sum(map(len, result["disturbed"].values()))),
        ]
        for result in results
    ]
    return markdown_table(head, rows)


def machine_lines(results):
    facts, versions = results["machine"], results["versions"]
    yield "%s, %d processors%s, Linux %s; %s." % (
        facts["processor"], facts["processors"], " (virtual)" if facts["virtual"] else "",
        facts["kernel"], ", ".join("%s %s" % pair for pair in versions.items()),
    )
    yield "%s; %d rounds of %d s; %s." % (
        results["started"], results["options"]["rounds"], results["options"]["seconds"],
        "processor time by " + results["cpu_counted_by"],
    )


def markdown(results):
    """The whole report."""
    parts = ["\n".join(machine_lines(results))]
    runs, tools = groups(results["runs"]), results["tools"]
    for (device, rate), mine in runs.items():
        trace = results["traces"]["%s-%d" % (device, rate)]
        parts.append("### %s, %s requests/s" % (device, number(rate, 0)))
        parts.append(
            "Recorded: %s requests in %.2f s (%s/s), response time mean %s µs, p99 %s µs, "
            "in flight %s%s." % (
                number(trace["requests"], 0), trace["span_s"], number(trace["requests_per_s"], 0),
                number(trace["response_mean_us"], 1), number(trace["response_p99_us"], 1),
                number(trace["in_flight_mean"], 2),
                "; the recording was disturbed" if trace["disturbed"] else "",
            )
        )
        parts.append(table(mine, tools))
        apart = disturbed_table(mine, tools)
        if apart:
            parts.append("Disturbed runs, in none of the figures above unless marked:\n\n" + apart)
    if results["top_speed"]:
        parts.append("### Top speed\n\n" + top_speed_table(results["top_speed"]))
    if results["simulated"]:
        parts.append(
            "Simulated device, fully recorded: %s requests per second."
            % number(results["simulated"]["requests_per_s"], 0)
        )
    parts.append("### Promises\n\n" + promises_table(results["promises"]))
    return "\n\n".join(parts) + "\n"


def judge(results):
    """All promises, from all results."""
    found = Judge()
    for (device, rate), mine in groups(results["runs"]).items():
        where = "%s, %s/s" % (device, number(rate, 0))
        disturbed = bool(results["traces"]["%s-%d" % (device, rate)]["disturbed"])
        judge_replay(found, where, rate, mine, results["tools"], disturbed)
    judge_top_speed(found, results["top_speed"])
    judge_simulated(found, results["simulated"])
    return found.promises


def together(several):
    """The results of several runs of the benchmark as those of one."""
    whole = several[0]
    for other in several[1:]:
        for name in ("runs", "top_speed"):
            whole[name] += other[name]
        for name in ("traces", "tools", "devices"):
            whole[name].update(other[name])
        whole["simulated"] = other["simulated"] or whole["simulated"]
    whole["promises"] = judge(whole)
    return whole


def main(names):
    if not names:
        sys.exit(__doc__)
    several = []
    for name in names:
        with open(name) as file:
            several.append(json.load(file))
    sys.stdout.write(markdown(together(several)))


if __name__ == "__main__":
    main(sys.argv[1:])
