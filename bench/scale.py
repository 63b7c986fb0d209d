#!/usr/bin/env python3
"""What an analysis in parts costs, by the number of requests.

    bench/scale.py [--largest N] [--volumes N] [--parts N] [DIRECTORY]

A month of I/O of a thousand volumes is generated at rates that make 10^6 requests and ten times as
many each time, up to the largest. Each is written, read, analysed in one process, analysed in
parts, and the parts merged, once with all that `merge` needs and once as rows alone; counted are
processor time and peak memory of each step, which other work on the machine hardly changes, and
bytes. The last lines compute larger numbers from the slope between the two largest that were
measured.
"""

import argparse
import os
import tempfile
from pathlib import Path

MONTH_S = 30 * 86400
IOECHO = os.environ.get("IOECHO", "target/release/ioecho")
STEPS = ["write", "info", "analyze", "parts", "merge", "final", "rows", "fold"]


def run(*arguments: object) -> tuple[float, float]:
    """Processor time in seconds, and the peak of memory in MiB, of one call of the program."""
    line = [IOECHO, *map(str, arguments)]
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.execvp(line[0], line)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(line)}: exit code {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(requests: int, volumes: int, count: int, directory: Path) -> dict[str, float]:
    """All steps for one number of requests."""
    trace = directory / "trace.parquet"
    # Always the whole month: the rate decides how many requests it is.
    load = (
        f"gen:zipf?theta=0.9&read=70&size=4k:60,64k:40&area=16G&volumes={volumes}"
        f"&rate={requests / MONTH_S:.9f}&count={requests}"
    )
    found: dict[str, float] = {"requests": requests}
    found["write_s"], _ = run("convert", load, trace)
    found["trace_bytes"] = trace.stat().st_size
    found["info_s"], _ = run("info", "--json", trace)
    found["analyze_s"], found["analyze_mib"] = run("analyze", "--json", "--threads", 1, trace)
    parts = [directory / f"{number:04}.part.parquet" for number in range(count)]
    length = -(-MONTH_S // count)
    found["parts_s"], found["part_mib"] = 0.0, 0.0
    for number, part in enumerate(parts):
        window = ["--start", f"{number * length}s", "--duration", f"{length}s"]
        spent, peak = run("analyze", "--threads", 1, "--partial", *window, "-o", part, trace)
        found["parts_s"] += spent
        found["part_mib"] = max(found["part_mib"], peak)
    found["parts_bytes"] = sum(part.stat().st_size for part in parts)
    whole = directory / "whole.parquet"
    found["merge_s"], found["merge_mib"] = run("merge", *parts, "-o", whole)
    found["whole_bytes"] = whole.stat().st_size
    found["final_s"], found["final_mib"] = run("analyze", "--json", whole)
    found["rows_s"], found["rows_mib"], found["rows_bytes"] = 0.0, 0.0, 0.0
    for number, part in enumerate(parts):
        window = ["--start", f"{number * length}s", "--duration", f"{length}s"]
        spent, peak = run("analyze", "--threads", 1, "--partial=rows", *window, "-o", part, trace)
        found["rows_s"] += spent
        found["rows_mib"] = max(found["rows_mib"], peak)
        found["rows_bytes"] += part.stat().st_size
    found["fold_s"], found["fold_mib"] = run("merge", *parts, "-o", whole)
    for path in [trace, whole, *parts]:
        path.unlink()
    return found


def table(rows: list[dict[str, float]]) -> str:
    keys = list(rows[0])
    lines = ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    for row in rows:
        cells = [f"{row[key]:,.0f}" if row[key] >= 100 else f"{row[key]:.2f}" for key in keys]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def beyond(rows: list[dict[str, float]], requests: float) -> str:
    """What the slope between the two largest says of so many requests."""
    less, more = rows[-2:]
    said = [f"{requests:.0e} requests:"]
    for key in [*(f"{step}_s" for step in STEPS), "trace_bytes", "parts_bytes", "rows_bytes"]:
        slope = (more[key] - less[key]) / (more["requests"] - less["requests"])
        said.append(f"{key} {more[key] + slope * (requests - more['requests']):.3g}")
    return " ".join(said)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--largest", type=float, default=1e8)
    asked.add_argument("--volumes", type=int, default=1000)
    asked.add_argument("--parts", type=int, default=8)
    asked.add_argument("directory", nargs="?", help="where to write (default: a temporary one)")
    args = asked.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(dir=args.directory) as scratch:
        requests = 10**6
        while requests <= args.largest:
            rows.append(measure(requests, args.volumes, args.parts, Path(scratch)))
            print(table(rows[-1:]), flush=True)
            requests *= 10
    print(table(rows))
    if len(rows) > 1:
        print(*(beyond(rows, requests) for requests in (1e10, 1e12)), sep="\n")


if __name__ == "__main__":
    main()
