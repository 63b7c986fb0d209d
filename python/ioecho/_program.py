"""The program beside this package: where it is, how it is called, and what its exit codes mean.

A program says how it ended by a number, Python by exceptions, and the two do not map one to one:
that a device was too slow is a result, that the device could not be opened is none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Union

#: What an exit code means (docs/exit-codes.md has the whole text).
EXIT_CODES = {
    0: "done",
    1: "failed",
    2: "the command line makes no sense",
    3: "not a trace, or not readable",
    4: "the trace ends before its end",
    5: "the target cannot be used",
    6: "the target is in use, or may hold somebody's data",
    7: "results cannot be written",
    8: "a URL cannot be fetched",
    10: "device-limited",
    11: "generator-limited",
    12: "host-stalled",
    13: "ended before its end",
    14: "invalid",
    15: "data damaged",
    16: "a required check does not hold",
    17: "a load does not match its library",
    20: "not comparable",
    21: "a criterion is met",
    22: "not faithful",
    30: "the kernel cannot record here",
    31: "events are missing from the recording",
    32: "the recorded command failed",
    40: "cells without a result",
    41: "the machine is not as it was found",
}

#: The code of a trace that is damaged or cut off: what could be read was processed.
CUT_OFF = 4

#: What may be handed to a command: a path, a line such as `gen:…`, a URL, or a `Run`.
PathLike = Union[str, "os.PathLike[str]"]


class Error(RuntimeError):
    """A command that has no result: its exit code, and what the program said.

    >>> import ioecho
    >>> try:
    ...     ioecho.info(here / "nowhere.parquet")
    ... except ioecho.Error as error:
    ...     error.code, error.meaning
    (3, 'not a trace, or not readable')
    """

    def __init__(self, code: int, text: str):
        super().__init__(text.strip() or f"exit code {code}")
        self.code = code
        self.text = text

    @property
    def meaning(self) -> str:
        """The meaning of the exit code, in a few words."""
        return EXIT_CODES.get(self.code, f"exit code {self.code}")

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return Error, (self.code, self.text)


class Damaged(UserWarning):
    """A trace ends before its end; the result is that of what could be read."""


def binary() -> str:
    """The program that came with this package. The variable `IOECHO` names another."""
    if named := os.environ.get("IOECHO"):
        return named
    places: list[str | Path] = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", f"{os.name}_user"),
        # `pip install --target`
        Path(__file__).parents[1] / "bin",
        Path(sys.prefix, "bin"),
    ]
    for place in places:
        if place and (found := Path(place, "ioecho")).is_file():
            return str(found)
    if found_elsewhere := shutil.which("ioecho"):
        return found_elsewhere
    raise FileNotFoundError("there is no program ioecho here: pip install ioecho brings it")


def flags(options: dict[str, Any]) -> Iterator[str]:
    """Keywords as options of a command, in their order.

    >>> from datetime import timedelta
    >>> list(flags({"busiest": timedelta(minutes=5), "read_only": True, "map": ["0=a", "1=b"]}))
    ['--busiest=300000000us', '--read-only', '--map=0=a', '--map=1=b']
    """
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                yield flag
            elif isinstance(one, timedelta):
                yield f"{flag}={one // timedelta(microseconds=1)}us"
            elif one is not None and one is not False:
                yield f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}"


def run(command: str, *paths: PathLike, **options: Any) -> tuple[int, str, str]:
    """Runs `ioecho COMMAND --OPTIONS -- PATHS` and gives exit code, output and messages.

    An interrupt (Ctrl-C, the stop button of a notebook) reaches the program, which then ends in
    good order, with the results so far.
    """
    line = [binary(), command, *flags(options), "--", *(os.fspath(path) for path in paths)]
    child = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    try:
        output, messages = child.communicate()
    except BaseException:
        child.send_signal(signal.SIGINT)
        child.communicate()
        raise
    return child.returncode, output, messages


def _asked_from() -> int:
    """The level of the stack, counted from the caller of this, that is outside this package."""
    inside = (str(Path(__file__).parent), contextlib.__file__)
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    return level


def call(
    command: str, *paths: PathLike, results: tuple[int, ...] = (0, CUT_OFF), **options: Any
) -> str:
    """Runs a command and gives what it printed.

    `results` are the exit codes that come with a result; any other raises `Error`. A trace that is
    cut off gives the warning `Damaged`.

    >>> import ioecho
    >>> print(ioecho.call("explain", "steady-state").splitlines()[0])
    # steady-state: the device had not come to rest
    """
    code, output, messages = run(command, *paths, **options)
    if code not in results:
        raise Error(code, messages)
    if code == CUT_OFF:
        told = messages.strip() or f"{os.fspath(paths[0])}: {EXIT_CODES[code]}"
        warnings.warn(told, Damaged, stacklevel=_asked_from())
    return output
