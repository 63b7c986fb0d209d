"""Analyses traces on Spark where they lie, and merges the parts: by SQL, and by `ioecho merge`.

    spark-submit python/ioecho/spark.py --out OUT [--parts N] TRACE…
    python -m ioecho.spark --out OUT [--parts N] TRACE…

A fleet's traces are too many for one host, and an engine that starts tasks again after a worker has
died is there already. A task runs the program on a stretch of a trace and moves its table into
place when it is whole, so a task that is killed leaves nothing and one that runs twice writes the
same twice. Workers need Python alone: this package and the program are sent to them. Traces and OUT
are on a file system that all of them see.

    OUT/parts/trace=NAME/00000.parquet   what `ioecho analyze --partial` wrote (docs/analysis.md)
    OUT/rows                             sums of all rows by SQL, one trace beside the other
    OUT/whole/NAME.parquet, .json        each trace merged, and its analysis
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

#: The rows of a part are added up where they agree in all else. `state` is no count.
SUMS = """
SELECT trace, metric, volume, op, time_ns, key, sum(value) AS value
FROM parts WHERE metric <> 'state' GROUP BY trace, metric, volume, op, time_ns, key
"""

A = TypeVar("A")
B = TypeVar("B")


class Stretch(NamedTuple):
    """A part of a trace, cut by its own time."""

    trace: str
    number: int
    #: options of the program: whole nanoseconds, so that stretches touch and never overlap
    window: dict[str, str]


def stretches(trace: str, parts: int) -> list[Stretch]:
    """Cuts a trace into so many stretches of equal length.

    >>> stretches("examples/git.parquet", 2)[1].window
    {'start': '11560401010ns', 'duration': '11560401010ns'}
    """
    import ioecho

    if parts == 1:
        return [Stretch(trace, 0, {})]
    about = ioecho.info(trace)
    first = about["first_issue_ns"]
    step = max(1, -(-(about["duration_ns"] + 1) // parts))
    return [
        Stretch(trace, part, {"start": f"{first + part * step}ns", "duration": f"{step}ns"})
        for part in range(parts)
    ]


def analyze(part: Stretch, out: str) -> str:
    """Writes the table of a stretch, or nothing at all."""
    import ioecho

    target = Path(out, "parts", f"trace={Path(part.trace).name}", f"{part.number:05}.parquet")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Spark passes over names that begin with a dot.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        made = ioecho.partial(part.trace, Path(scratch, "part.parquet"), threads=1, **part.window)
        made.replace(target)
    return str(target)


def merge(trace: str, out: str) -> str:
    """Merges the parts of a trace, and writes the analysis of the whole."""
    import ioecho

    name = Path(trace).name
    parts = sorted(Path(out, "parts", f"trace={name}").glob("[0-9]*.parquet"))
    whole = Path(out, "whole", f"{name}.parquet")
    whole.parent.mkdir(parents=True, exist_ok=True)
    ioecho.merge(parts, whole)
    Path(f"{whole.with_suffix('')}.json").write_text(json.dumps(ioecho.analyze(whole)))
    return str(whole)


def _on_workers(context: Any, task: Callable[[A], B], items: list[A]) -> list[B]:
    """One task for each item, with the package and the program at hand."""

    def ready(item: A) -> B:
        from pyspark import SparkFiles

        os.environ["IOECHO"] = SparkFiles.get("ioecho")
        return task(item)

    done: list[B] = context.parallelize(items, len(items)).map(ready).collect()
    return done


def main() -> int:
    """Parts, their sums, and each trace as a whole."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("traces", nargs="+", metavar="TRACE")
    asked.add_argument("--out", required=True, help="a directory that is new or empty")
    asked.add_argument("--parts", type=int, default=1, help="stretches of each trace (default: 1)")
    args = asked.parse_args()
    names = [Path(trace).name for trace in args.traces]
    if len(set(names)) < len(names):
        asked.error("two traces have one name, and their parts would be added up as one trace")
    if args.parts < 1:
        asked.error("--parts is at least 1")
    if Path(args.out).is_dir() and any(Path(args.out).iterdir()):
        asked.error(f"{args.out} is not empty: what is there would be added to what is asked for")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        asked.error("there is no Java here, which Spark needs: install a JRE, or set JAVA_HOME")

    # As a script this stands in the package's own directory.
    package = Path(__file__).resolve().parent
    sys.path.insert(0, str(package.parent))
    from pyspark.sql import SparkSession

    import ioecho
    from ioecho import spark as tasks

    session = SparkSession.builder.appName("ioecho").getOrCreate()
    context = session.sparkContext
    out, traces = os.path.abspath(args.out), [os.path.abspath(trace) for trace in args.traces]
    with tempfile.TemporaryDirectory(prefix="ioecho-") as scratch:
        archive = shutil.make_archive(f"{scratch}/package", "zip", package.parent, package.name)
        program = shutil.copy(shutil.which(ioecho.binary()) or ioecho.binary(), f"{scratch}/ioecho")
        context.addPyFile(archive)
        context.addFile(program)
        cut = _on_workers(context, lambda trace: tasks.stretches(trace, args.parts), traces)
        _on_workers(context, lambda part: tasks.analyze(part, out), sum(cut, []))
        session.read.parquet(f"{out}/parts").createOrReplaceTempView("parts")
        sums = session.sql(SUMS).coalesce(1).write.option("compression", "zstd")
        sums.parquet(f"{out}/rows")
        print(*_on_workers(context, lambda trace: tasks.merge(trace, out), traces), sep="\n")
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
