"""The figures of a recording, and a recording in a form that any script can read.

Truth and replay are measured by the same means: a recording at the device, of reads and writes.
Flushes are left out, because some ways to replay leave them out.
"""

import csv
import io

import lab

from compare import median, percentile

# What the experiment compares; all in `Figures` of a recording.
COMPARED = ("duration_s", "iops", "mean_us", "p99_us")


def rows(ioecho, trace):
    """The requests of a trace that completed: (issue, op, offset, length, latency, pid)."""
    _, text, _ = lab.run([ioecho, "convert", trace, "-", "--to", "csv"])
    return read(text)


def read(text):
    """The same from ioecho's CSV, by issue; of a run the instants of submission and completion."""
    found = []
    for row in csv.DictReader(io.StringIO(text)):
        issue = row.get("submitted_ns") or row["issue_ns"]
        latency = row.get("latency_ns")
        if row.get("completed_ns"):
            latency = int(row["completed_ns"]) - int(issue)
        if latency:
            found.append((int(issue), row["op"], int(row["offset_bytes"]), int(row["length_bytes"]),
                          int(latency), row.get("pid") or ""))
    found.sort(key=lambda request: request[0])
    return found


def describe(requests):
    """Figures of such rows."""
    requests = [request for request in requests if request[1] in ("read", "write")]
    if not requests:
        raise lab.Failed("no request was recorded")
    latencies = sorted(request[4] for request in requests)
    duration = max(request[0] + request[4] for request in requests) - requests[0][0]
    return {
        "requests": len(requests),
        "duration_s": duration / 1e9,
        "iops": len(requests) * 1e9 / duration,
        "mean_us": sum(latencies) / len(latencies) / 1e3,
        "p99_us": percentile(latencies, 0.99) / 1e3,
        "in_flight": sum(latencies) / duration,
    }


def against(found, truth):
    """By how many percent the figures of a replay are above the medians of the truth."""
    return {
        name: 100 * (found[name] / median([one[name] for one in truth]) - 1) for name in COMPARED
    }
