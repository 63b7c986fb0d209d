"""Analyses traces on Spark where they lie, and merges the parts: by SQL, and by `ioecho merge`.

    python -m ioecho.spark --out OUT [--parts N] TRACE…   # or spark-submit python/ioecho/spark.py

An engine that starts tasks again after a worker has died is there already. A task runs the program
on a stretch of a trace and moves its table into place when it is whole, so a task that is killed
leaves nothing and one that runs twice writes the same twice. Workers need Python alone: package and
program are sent to them. Traces and OUT are on a file system that all of them see.

    OUT/parts/trace=NAME/00000.parquet   what `ioecho analyze --partial` wrote (docs/analysis.md)
    OUT/pages/trace=NAME/00000.parquet   with --page-sample, what it wrote
    OUT/rows                             all rows put together by SQL, one trace beside the other
    OUT/whole/NAME.parquet, .json        each trace merged, and its analysis (not of rows alone)
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Rows that agree in all else are put together as `how` says.
_KEYS = "trace, metric, volume, op, time_ns, width_ns, key, how"
SUMS = f"""
SELECT {_KEYS}, if(how = 'max', max(value), if(how = 'min', min(value), sum(value))) AS value,
       CAST(NULL AS binary) AS sketch
FROM parts WHERE how IN ('sum', 'max', 'min') GROUP BY {_KEYS}
UNION ALL
SELECT {_KEYS}, NULL, hll_union_agg(sketch) FROM parts WHERE how = 'union' GROUP BY {_KEYS}
"""


def _on_workers(context: Any, task: Callable[[Any], Any], items: list[Any]) -> Any:
    """One task for each item, with the package and the program at hand."""

    def ready(item: Any) -> Any:
        from pyspark import SparkFiles

        os.environ["IOECHO"] = SparkFiles.get("ioecho")
        return task(item)

    return context.parallelize(items, len(items)).map(ready).collect()


def _asked() -> argparse.Namespace:
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("traces", nargs="+", metavar="TRACE")
    asked.add_argument("--out", required=True, help="a directory that is new or empty")
    asked.add_argument("--parts", type=int, default=1, help="stretches of each trace (default: 1)")
    asked.add_argument("--partial", choices=["all", "rows"], default="all", help="what a part has")
    asked.add_argument("--page-sample", type=float, help="a share of the pages, with all accesses")
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
    return args


def main() -> int:
    """Parts, their sums, and each trace as a whole."""
    args = _asked()
    # As a script this stands in the package's own directory.
    package = Path(__file__).resolve().parent
    sys.path.insert(0, str(package.parent))
    from pyspark.sql import SparkSession

    import ioecho
    from ioecho import _tasks as tasks

    session = SparkSession.builder.appName("ioecho").getOrCreate()
    context = session.sparkContext
    out, traces = os.path.abspath(args.out), [os.path.abspath(trace) for trace in args.traces]
    with tempfile.TemporaryDirectory(prefix="ioecho-") as scratch:
        archive = shutil.make_archive(f"{scratch}/package", "zip", package.parent, package.name)
        program = shutil.copy(shutil.which(ioecho.binary()) or ioecho.binary(), f"{scratch}/ioecho")
        context.addPyFile(archive)
        context.addFile(program)
        cut = _on_workers(context, lambda trace: tasks.stretches(trace, args.parts), traces)
        more = (args.partial, args.page_sample)
        _on_workers(context, lambda part: tasks.analyze(part, out, *more), sum(cut, []))
        # Whose a part is stands in it: the names of directories are for people.
        parts = session.read.option("recursiveFileLookup", "true").parquet(f"{out}/parts")
        parts.createOrReplaceTempView("parts")
        sums = session.sql(SUMS).coalesce(1).write.option("compression", "zstd")
        sums.parquet(f"{out}/rows")
        merged = _on_workers(context, lambda one: tasks.merge(one, out, args.partial), traces)
        print(*merged, sep="\n")
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
