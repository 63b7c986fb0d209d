"""What the tests stand on: the package, a program, a scratch directory, and words for skips.

The package is the installed one, or else the one in this tree; the program is the one that
`IOECHO` names, the package's own, or else the newest that was built here.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
EXAMPLES = TREE / "examples"

if importlib.util.find_spec("ioecho") is None:
    sys.path.insert(0, str(TREE / "python"))

import ioecho  # noqa: E402


def _program() -> str | None:
    try:
        return ioecho.binary()
    except FileNotFoundError:
        built = [TREE / "target" / profile / "ioecho" for profile in ("release", "dist", "debug")]
        found = [path for path in built if path.is_file()]
        return str(max(found, key=lambda path: path.stat().st_mtime)) if found else None


PROGRAM = _program()
if PROGRAM is not None:
    os.environ["IOECHO"] = str(Path(PROGRAM).resolve()) if os.sep in PROGRAM else PROGRAM

needs_program = unittest.skipUnless(PROGRAM, "there is no program ioecho here")


def needs(*modules: str):
    """Skips a test, with a word, where a library is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"there is no {', '.join(missing)} here")


class Scratch(unittest.TestCase):
    """A test with a directory of its own, `self.here`."""

    def setUp(self) -> None:
        self.here = Path(tempfile.mkdtemp(prefix="ioecho-test-"))
        self.addCleanup(shutil.rmtree, self.here)
