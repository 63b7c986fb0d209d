"""The examples in the package's documentation, in docs/python.md and in the notebook are true."""

import doctest
import importlib.util
import json
import os
import unittest
from pathlib import Path
from unittest import mock

from ground import EXAMPLES, TREE, Scratch, ioecho, needs, needs_program

MODULES = ["ioecho", "ioecho._program", "ioecho._frames", "ioecho._results"]


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
    def test_the_page(self):
        tried = doctest.testfile(
            str(TREE / "docs/python.md"), module_relative=False, globs={"here": self.here}
        )
        self.assertEqual(tried.failed, 0)
        self.assertGreater(tried.attempted, 10)


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
