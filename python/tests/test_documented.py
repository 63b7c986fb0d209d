"""The examples in the package's documentation, in docs/python.md and in the notebook are true."""

import doctest
import importlib.util
import json
import os
import re
import subprocess
import unittest
from pathlib import Path
from unittest import mock

from ground import EXAMPLES, TREE, Scratch, ioecho, needs, needs_program

MODULES = ["ioecho", "ioecho._program", "ioecho._frames", "ioecho._results", "ioecho._tasks"]


@needs_program
class Examples(Scratch):
    def setUp(self) -> None:
        super().setUp()
        # Examples name files as somebody in this tree would.
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(TREE)

    @needs("pyarrow")
    def test_the_package(self):
        for name in MODULES:
            module = importlib.import_module(name)
            tried = doctest.testmod(module, extraglobs={"here": self.here})
            self.assertEqual(tried.failed, 0, name)
            self.assertGreater(tried.attempted, 0, name)

    @needs("pyarrow", "pandas", "polars")
    def test_the_pages(self):
        for page in ("python.md", "from-swat.md"):
            tried = doctest.testfile(
                str(TREE / "docs" / page), module_relative=False, globs={"here": self.here}
            )
            self.assertEqual(tried.failed, 0, page)
            self.assertGreater(tried.attempted, 10, page)

    def test_the_commands_for_those_who_come_from_swat(self):
        os.symlink(EXAMPLES, self.here / "examples")
        os.symlink(ioecho.binary(), self.here / "ioecho")
        text = (TREE / "docs/from-swat.md").read_text()
        commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        self.assertEqual(len(commands), 2)
        path = os.pathsep.join([str(self.here), os.environ["PATH"]])
        for command in commands:
            done = subprocess.run(
                ["sh", "-ec", command],
                cwd=self.here,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(ioecho.Run(self.here / "copies").summary["per_target"]), 3)

    @needs("duckdb")
    def test_the_table_of_each_second_and_device_in_sql(self):
        import duckdb

        trace = ioecho.convert(EXAMPLES / "sqlite.parquet", self.here / "trace.parquet")
        text = (TREE / "docs/from-swat.md").read_text()
        query = re.search(r"```sql\n(.*?);?\s*```", text, re.DOTALL)[1]
        rows = duckdb.sql(query.replace("trace.parquet", str(trace))).fetchall()
        self.assertEqual(sum(row[3] for row in rows), ioecho.info(trace)["requests"])

    @needs("duckdb")
    def test_the_queries_of_parts_and_samples(self):
        import duckdb

        trace = EXAMPLES / "pgbench.parquet"
        for number, window in enumerate([{"duration": "30s"}, {"start": "30s"}]):
            part, pages = (self.here / f"{kind}-{number}.parquet" for kind in ("part", "pages"))
            sample = {"page_sample": 0.01, "page_sample_output": pages}
            ioecho.partial(trace, part, "rows", **window, **sample)
        text = (TREE / "docs/analysis.md").read_text()
        sums, _, pages = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
        by_hour, percentile = sums.strip().rstrip(";").split(";\n\n")
        os.chdir(self.here)
        rows = duckdb.sql(by_hour).fetchall()
        self.assertEqual(sum(row[3] for row in rows), ioecho.info(trace)["requests"])
        self.assertEqual({row[0] for row in rows}, {"pgbench.parquet"})
        [[p99]] = duckdb.sql(percentile).fetchall()
        [reads] = [
            of["percentiles"]
            for of in ioecho.analyze(trace)["spans"]
            if of["span"] == "service time" and of["group"] == "reads"
        ]
        self.assertEqual(p99, reads["p99_ns"])
        self.assertGreater(len(duckdb.sql(pages.strip().rstrip(";")).fetchall()), 0)


class Notebook(Scratch):
    PATH = EXAMPLES / "notebook.ipynb"

    def test_it_is_kept_without_outputs(self):
        cells = json.loads(self.PATH.read_text())["cells"]
        self.assertEqual(len(cells), 15)
        for cell in cells:
            self.assertFalse(cell.get("outputs"), cell["source"])

    @needs_program
    @needs("nbconvert", "ipykernel", "pyarrow", "pandas")
    def test_it_runs_from_a_recording_to_a_comparison(self):
        import nbformat
        from nbconvert.preprocessors import ExecutePreprocessor

        notebook = nbformat.read(self.PATH, as_version=4)
        # The kernel is another process: it must find the same package.
        package = str(Path(ioecho.__file__).parents[1])
        with mock.patch.dict(os.environ, PYTHONPATH=package):
            ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(
                notebook, {"metadata": {"path": str(EXAMPLES)}}
            )
        outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
        kinds = {kind for out in outputs for kind in out.get("data", {})}
        self.assertLessEqual({"image/svg+xml", "text/html"}, kinds)
        self.assertFalse([out for out in outputs if out["output_type"] == "error"])


if __name__ == "__main__":
    unittest.main()
