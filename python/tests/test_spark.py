"""Parts on Spark: what SQL adds up and what `merge` makes is what one process says of the whole."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

try:
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet
except ImportError:  # The tests that need it are skipped.
    pass

from ground import EXAMPLES, Scratch, ioecho, needs, needs_program

GIT = EXAMPLES / "git.parquet"
JOB = Path(ioecho.__file__).parent / "spark.py"
needs_java = unittest.skipUnless(
    os.environ.get("JAVA_HOME") or shutil.which("java"), "there is no Java here"
)


def job(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, JOB, *map(str, arguments)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
    )


class Refused(Scratch):
    def test_two_traces_of_one_name(self):
        done = job("--out", self.here / "out", GIT, GIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("one name", done.stderr)

    def test_parts_of_another_job(self):
        (self.here / "parts").mkdir()
        done = job("--out", self.here, GIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not empty", done.stderr)

    def test_no_java(self):
        done = job("--out", self.here / "out", GIT, JAVA_HOME="", PATH=str(self.here))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no Java", done.stderr)


#: What only neighbours know is lost at a cut (docs/analysis.md); sketches are compared by what they
#: tell.
AT_CUTS = ("turns", "seek", "gap", "in_flight", "waiting", "pages")


def exact(rows: list[dict], trace: str) -> set[tuple]:
    columns = ["metric", "volume", "op", "time_ns", "width_ns", "key", "how", "value"]
    of = (row for row in rows if row["trace"] == trace and not row["metric"].startswith(AT_CUTS))
    return {tuple(row[column] for column in columns) for row in of}


def kill_an_executor(session: int) -> int | None:
    """Kills one of the executors that a job in this session of processes has begun."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            behind_name = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(behind_name[3]) == session and b"CoarseGrainedExecutorBackend" in command:
            os.kill(int(entry.name), signal.SIGKILL)
            return int(entry.name)
    return None


@needs_program
@needs("pyspark", "pyarrow")
@needs_java
class Parts(Scratch):
    def setUp(self) -> None:
        super().setUp()
        self.out = self.here / "out"

    def whole(self) -> dict:
        return json.loads((self.out / "whole/git.parquet.json").read_text())

    def test_sums_and_wholes_are_those_of_one_process(self):
        sqlite = EXAMPLES / "sqlite.parquet"
        done = job("--out", self.out, "--parts", 5, GIT, sqlite)
        self.assertEqual(done.returncode, 0, done.stderr)

        by_sql = dataset.dataset(self.out / "rows").to_table().to_pylist()
        for trace in (GIT, sqlite):
            alone = ioecho.partial(trace, self.here / f"alone-{trace.name}", "rows")
            expected = exact(parquet.read_table(alone).to_pylist(), trace.name)
            self.assertGreater(len(expected), 1000)
            self.assertEqual(exact(by_sql, trace.name), expected, trace.name)

        alone = ioecho.analyze(GIT)
        for part, value in self.whole().items():
            # Where a trace comes from says how it was cut.
            if part != "trace":
                self.assertEqual(value, alone[part], part)

    def test_rows_alone_tell_distinct_pages_and_a_sample_of_them(self):
        from pyspark.sql import SparkSession

        done = job("--out", self.out, "--parts", 4, "--partial", "rows", "--page-sample", 0.5, GIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.out / "whole/git.parquet.json").exists())
        session = SparkSession.builder.master("local[1]").getOrCreate()
        self.addCleanup(session.stop)
        session.read.parquet(str(self.out / "rows")).createOrReplaceTempView("rows")
        session.read.parquet(str(self.out / "pages")).createOrReplaceTempView("pages")
        by_union = "SELECT hll_sketch_estimate(hll_union_agg(sketch)) FROM rows WHERE how = 'union'"
        by_sample = "SELECT count(DISTINCT volume, page) / 0.5 FROM pages"
        truth = ioecho.analyze(GIT)["pages"]["pages"]["all"]
        for query in (by_union, by_sample):
            [[estimate]] = session.sql(query).collect()
            self.assertLess(abs(estimate / truth - 1), 0.07, query)

    def test_a_worker_that_is_killed_changes_nothing(self):
        load = ioecho.convert(
            "gen:zipf?read=70&rate=20k&count=1500000&dist=poisson&seed=7", self.here / "big.parquet"
        )
        child = subprocess.Popen(
            [sys.executable, JOB, "--out", self.out, "--parts", "8", load],
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_SUBMIT_ARGS": "--master local-cluster[2,1,1024] pyspark-shell",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        parts = self.out / "parts/trace=big.parquet"
        killed = None
        while child.poll() is None and killed is None:
            # A task is in the middle of its part where its scratch directory is.
            if parts.is_dir() and any(path.name.startswith(".") for path in parts.iterdir()):
                killed = kill_an_executor(child.pid)
            time.sleep(0.02)
        _, messages = child.communicate()
        self.assertEqual(child.returncode, 0, messages)
        self.assertIsNotNone(killed, "nobody was there to be killed")
        self.assertIn("Lost executor", messages)
        self.assertEqual(len(list(parts.glob("[0-9]*.parquet"))), 8)
        by_sql = dataset.dataset(self.out / "rows").to_table().to_pylist()
        by_one = ioecho.partial(load, self.here / "alone", "rows")
        expected = exact(parquet.read_table(by_one).to_pylist(), load.name)
        self.assertEqual(exact(by_sql, load.name), expected, "a part that was killed counts not")
        alone = ioecho.analyze(load)
        merged = json.loads((self.out / "whole/big.parquet.json").read_text())
        for part in ("requests", "throughput", "spans", "volumes", "sizes", "order"):
            self.assertEqual(merged[part], alone[part], part)


if __name__ == "__main__":
    unittest.main()
