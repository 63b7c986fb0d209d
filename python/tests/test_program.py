"""How the program is found and called, and what its exit codes become."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from pathlib import Path
from unittest import mock

from ground import EXAMPLES, TREE, Scratch, ioecho, needs_program


class Import(unittest.TestCase):
    def test_importing_it_loads_no_heavy_library(self):
        program = (
            "import sys; before = set(sys.modules); import ioecho;"
            "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
        )
        path = str(Path(ioecho.__file__).parents[1])
        loaded = subprocess.check_output(
            [sys.executable, "-c", program], text=True, env={**os.environ, "PYTHONPATH": path}
        ).split()
        self.assertIn("ioecho", loaded)
        foreign = [name for name in loaded if name not in sys.stdlib_module_names]
        self.assertEqual(foreign, ["ioecho"])

    def test_everything_it_offers_is_there_and_documented(self):
        for name in ioecho.__all__:
            self.assertTrue(getattr(ioecho, name).__doc__, name)


class Binary(Scratch):
    def test_the_variable_names_another_program(self):
        with mock.patch.dict(os.environ, IOECHO="/opt/ioecho"):
            self.assertEqual(ioecho.binary(), "/opt/ioecho")

    def test_without_a_program_it_says_what_brings_one(self):
        with (
            mock.patch.dict(os.environ, {"PATH": str(self.here)}),
            mock.patch("sysconfig.get_path", return_value=str(self.here)),
            mock.patch.object(sys, "prefix", str(self.here)),
        ):
            os.environ.pop("IOECHO", None)
            if (Path(ioecho.__file__).parents[1] / "bin" / "ioecho").is_file():
                self.skipTest("the package was installed with --target")
            with self.assertRaisesRegex(FileNotFoundError, "pip install ioecho"):
                ioecho.binary()


class ExitCodes(unittest.TestCase):
    def test_they_are_those_of_the_documentation(self):
        text = (TREE / "docs/exit-codes.md").read_text()
        told = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
        self.assertEqual(told, set(ioecho.EXIT_CODES))

    def test_an_error_survives_the_way_to_another_process(self):
        error = pickle.loads(pickle.dumps(ioecho.Error(6, "error: mounted\n")))
        self.assertEqual((error.code, str(error)), (6, "error: mounted"))
        self.assertIn("in use", error.meaning)


@needs_program
class Call(Scratch):
    def test_what_makes_no_sense_is_an_error_in_the_programs_words(self):
        with self.assertRaises(ioecho.Error) as raised:
            ioecho.info(EXAMPLES / "git.parquet", no_such_option=3)
        self.assertEqual(raised.exception.code, 2)
        self.assertIn("--no-such-option", raised.exception.text)

    def test_a_path_is_never_taken_for_an_option(self):
        odd = self.here / "--json"
        odd.write_bytes((EXAMPLES / "git.parquet").read_bytes())
        before = os.getcwd()
        os.chdir(self.here)
        self.addCleanup(os.chdir, before)
        self.assertEqual(ioecho.info("--json")["requests"], 5640)

    def test_options_keep_their_order(self):
        # The busiest second of the doubled load is not the doubled busiest second.
        first = ioecho.info(EXAMPLES / "git.parquet", repeat=2, busiest="1s")
        last = ioecho.info(EXAMPLES / "git.parquet", busiest="1s", repeat=2)
        self.assertEqual(last["requests"] % 2, 0)
        self.assertNotEqual(last["requests"], first["requests"])

    def test_a_trace_that_is_cut_off_gives_a_warning_and_the_rest(self):
        whole = ioecho.convert(EXAMPLES / "git.parquet", self.here / "whole.load.gz")
        cut = self.here / "cut.load.gz"
        cut.write_bytes(whole.read_bytes()[:20000])
        with self.assertWarnsRegex(ioecho.Damaged, "ends before its end") as warned:
            about = ioecho.info(cut)
        self.assertTrue(0 < about["requests"] < 5640)
        # The line that asked is the one that is told.
        self.assertEqual(Path(warned.filename).name, Path(__file__).name)

    def test_a_sound_trace_gives_no_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ioecho.info(EXAMPLES / "git.parquet")

    def test_an_interrupt_lets_the_program_end_in_good_order(self):
        # In the time of the wall, and long enough for anybody.
        load = "gen:random?rate=100&duration=10m&area=16M"
        target = self.here / "target"
        target.write_bytes(bytes(16 << 20))
        output = self.here / "run"

        def interrupt() -> None:
            while not (output / "run.toml").is_file():
                time.sleep(0.01)
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            ioecho.replay(load, target, output, read_only=True, allow_cached=True)
            self.fail("the replay ended before it was interrupted")
        self.assertEqual(ioecho.Run(output).verdict.finding, "incomplete")
